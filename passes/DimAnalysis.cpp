#include "DimAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

Dim Dim::operator*(const Dim &other) const {
  Dim out{factor * other.factor, symbols};
  out.symbols.append(other.symbols.begin(), other.symbols.end());
  llvm::sort(out.symbols);
  return out;
}

/// a / b where that is exact whatever the symbols are.
static std::optional<Dim> divide(const Dim &a, const Dim &b) {
  if (b.factor == 0 || a.factor % b.factor != 0)
    return std::nullopt;
  Dim out{a.factor / b.factor, {}};
  if (!std::includes(a.symbols.begin(), a.symbols.end(), b.symbols.begin(), b.symbols.end()))
    return std::nullopt;
  std::set_difference(a.symbols.begin(), a.symbols.end(), b.symbols.begin(), b.symbols.end(),
                      std::back_inserter(out.symbols));
  return out;
}

static Dim constant(int64_t value) { return {value, {}}; }
static RankedTensorType typeOf(Value v) { return cast<RankedTensorType>(v.getType()); }

static std::string text(const Dim &dim) {
  std::string out = std::to_string(dim.factor);
  for (unsigned s : dim.symbols)
    out += "*" + std::to_string(s);
  return out;
}

Dim DimAnalysis::symbol(const std::string &key, bool isDataSymbol) {
  auto [it, fresh] = symbols.try_emplace(key, symbols.size());
  if (fresh)
    data.push_back(isDataSymbol);
  return {1, {it->second}};
}

Dim DimAnalysis::opaque(Value value, unsigned index) {
  return symbol("v" + std::to_string(reinterpret_cast<uintptr_t>(value.getAsOpaquePointer())) + "." +
                std::to_string(index));
}

Dim DimAnalysis::function(StringRef name, ArrayRef<Dim> arguments) {
  std::string key = "f" + name.str();
  for (const Dim &a : arguments)
    key += "," + text(a);
  return symbol(key);
}

bool DimAnalysis::isData(const Dim &dim) const {
  return llvm::any_of(dim.symbols, [&](unsigned s) { return data[s]; });
}

SmallVector<Dim> DimAnalysis::dims(Value value) {
  SmallVector<Dim> out;
  for (unsigned i = 0, n = typeOf(value).getRank(); i < n; ++i)
    out.push_back(dim(value, i));
  return out;
}

Dim DimAnalysis::dim(Value value, unsigned index) {
  if (int64_t size = typeOf(value).getDimSize(index); !ShapedType::isDynamic(size))
    return constant(size);
  if (auto it = known.find({value, index}); it != known.end())
    return it->second;
  Dim out = compute(value, index);
  known.insert({{value, index}, out});
  return out;
}

/// Dimension `fromEnd` counted from the end of what the operands broadcast to.
Dim DimAnalysis::broadcast(Value result, unsigned index, ValueRange operands, unsigned fromEnd) {
  std::optional<Dim> found;
  for (Value operand : operands) {
    unsigned rank = typeOf(operand).getRank();
    if (fromEnd >= rank)
      continue;
    Dim d = dim(operand, rank - 1 - fromEnd);
    if (d.is(1))
      continue;
    if (found && *found != d) { // one of them may be 1
      if (d.isConstant() || found->isConstant())
        return d.isConstant() ? d : *found;
      return opaque(result, index);
    }
    found = d;
  }
  return found ? *found : constant(1);
}

Dim DimAnalysis::ofReshape(Operation *op, unsigned index) {
  auto reshape = cast<ReshapeOp>(op);
  auto shape = elements(reshape.getShape());
  unsigned inputRank = typeOf(reshape.getInput()).getRank();
  if (!shape || shape->size() <= index || isData((*shape)[index]))
    return opaque(reshape.getOutput(), index);
  auto resolve = [&](unsigned i) -> std::optional<Dim> { // all but -1
    const Dim &d = (*shape)[i];
    if (d.is(0) && !reshape.getAllowzero())
      return i < inputRank ? std::optional(dim(reshape.getInput(), i)) : std::nullopt;
    return isData(d) || d.is(-1) ? std::nullopt : std::optional(d);
  };
  if (!(*shape)[index].is(-1)) {
    auto d = resolve(index);
    return d ? *d : opaque(reshape.getOutput(), index);
  }
  Dim total = constant(1), rest = constant(1);
  for (const Dim &d : dims(reshape.getInput()))
    total = total * d;
  for (unsigned i = 0; i < shape->size(); ++i)
    if (i != index) {
      auto d = resolve(i);
      if (!d)
        return opaque(reshape.getOutput(), index);
      rest = rest * *d;
    }
  auto d = divide(total, rest);
  return d ? *d : opaque(reshape.getOutput(), index);
}

/// Spatial dims of the weights, which packing keeps in an attribute.
template <typename Op> static SmallVector<int64_t> kernelDims(Op op) {
  if (auto packed = op->template getAttrOfType<DenseI64ArrayAttr>("packed_kernel"))
    return SmallVector<int64_t>(packed.asArrayRef());
  return SmallVector<int64_t>(typeOf(op.getWeights()).getShape().drop_front(2));
}

template <typename Range> static std::string joined(Range range) {
  std::string out;
  for (auto v : range)
    out += std::to_string(v) + "x";
  return out;
}

Dim DimAnalysis::compute(Value value, unsigned i) {
  Operation *op = value.getDefiningOp();
  unsigned rank = typeOf(value).getRank();
  if (!op) {
    auto argument = cast<BlockArgument>(value);
    if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()))
      if (auto names = function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "mrc.dims"))
        if (i < names.size())
          if (auto name = dyn_cast<StringAttr>(names[i]); name && !name.empty())
            return symbol("n" + name.str());
    return opaque(value, i);
  }
  // A window slides over a spatial dimension: the size is a function of the input's size and the window's numbers.
  auto window = [&](Value input, StringRef kind, const std::string &numbers) {
    return i == 0 ? dim(input, 0) : function((kind + ":" + numbers).str(), dim(input, i));
  };
  return TypeSwitch<Operation *, Dim>(op)
      .Case<UnaryOp, CastOp, BitcastOp, SoftmaxOp, CumulativeOp, LayerNormOp, GroupNormOp, BatchNormOp, IotaOp>(
          [&](auto o) { return dim(o.getInput(), i); })
      .Case<BinaryOp, SelectOp>([&](auto o) { return broadcast(value, i, o->getOperands(), rank - 1 - i); })
      .Case([&](TransposeOp o) { return dim(o.getInput(), o.getPerm()[i]); })
      .Case([&](ConvOp o) {
        if (i == rank - 1 || o.getAutoPad() == "VALID")
          return opaque(value, i);
        int64_t s = i ? o.getStrides()[i - 1] : 1, d = i ? o.getDilations()[i - 1] : 1,
                taps = i ? kernelDims(o)[i - 1] : 1;
        if (ShapedType::isDynamic(taps))
          return opaque(value, i);
        int64_t slack = i ? o.getPads()[i - 1] + o.getPads()[i - 1 + rank - 2] - (taps - 1) * d : 0;
        bool same = o.getAutoPad() == "explicit" ? slack == 0 : true;
        if (i && s == 1 && same)
          return dim(o.getInput(), i);
        return window(o.getInput(), "window",
                      o.getAutoPad() == "explicit" ? joined(ArrayRef{slack, s}) : "same" + joined(ArrayRef{s}));
      })
      .Case([&](PoolOp o) {
        if (i == 0 || i == rank - 1)
          return dim(o.getInput(), i);
        int64_t s = o.getStrides()[i - 1];
        int64_t slack =
            o.getPads()[i - 1] + o.getPads()[i - 1 + rank - 2] - (o.getKernel()[i - 1] - 1) * o.getDilations()[i - 1];
        if (o.getAutoPad() != "explicit")
          return opaque(value, i);
        if (s == 1 && slack == 0)
          return dim(o.getInput(), i);
        // floor((n + slack) / s) + 1 is the convolution's; rounding up is its own
        return window(o.getInput(), o.getCeilMode() ? "ceil" : "window", joined(ArrayRef{slack, s}));
      })
      .Case([&](ConvTransposeOp o) {
        if (i == 0 || i == rank - 1 || o.getAutoPad() != "explicit" || o.getOutputShape())
          return i == 0 ? dim(o.getInput(), 0) : opaque(value, i);
        int64_t s = o.getStrides()[i - 1], taps = kernelDims(o)[i - 1];
        if (ShapedType::isDynamic(taps))
          return opaque(value, i);
        int64_t add = (taps - 1) * o.getDilations()[i - 1] + 1 + o.getOutputPadding()[i - 1] - o.getPads()[i - 1] -
                      o.getPads()[i - 1 + rank - 2] - s; // the size is s * n + add
        return add == 0 ? constant(s) * dim(o.getInput(), i) : window(o.getInput(), "deconv", joined(ArrayRef{add, s}));
      })
      .Case([&](MatMulOp o) {
        unsigned l = typeOf(o.getLhs()).getRank(), r = typeOf(o.getRhs()).getRank();
        if (l < 2 || r < 2)
          return opaque(value, i);
        if (i == rank - 1)
          return dim(o.getRhs(), r - 1);
        return i == rank - 2 ? dim(o.getLhs(), l - 2) : broadcast(value, i, o->getOperands(), rank - 1 - i);
      })
      .Case([&](ReshapeOp o) { return ofReshape(o, i); })
      .Case([&](FlattenOp o) {
        Dim out = constant(1);
        unsigned n = typeOf(o.getInput()).getRank(), axis = o.getAxis();
        for (unsigned k = i ? axis : 0; k < (i ? n : axis); ++k)
          out = out * dim(o.getInput(), k);
        return out;
      })
      .Case([&](SqueezeOp o) {
        if (!o.getAxes())
          return opaque(value, i);
        for (unsigned k = 0, at = 0;; ++k)
          if (!llvm::is_contained(*o.getAxes(), int64_t(k)) && at++ == i)
            return dim(o.getInput(), k);
      })
      .Case([&](UnsqueezeOp o) {
        unsigned at = i;
        for (int64_t axis : o.getAxes())
          at -= axis < int64_t(i);
        return dim(o.getInput(), at);
      })
      .Case([&](ConcatOp o) {
        if (i == o.getAxis()) {
          SmallVector<Dim> parts;
          for (Value v : o.getInputs())
            parts.push_back(dim(v, i));
          return function("sum", parts);
        }
        for (Value v : o.getInputs())
          if (Dim d = dim(v, i); d.isConstant())
            return d;
        return dim(o.getInputs().front(), i);
      })
      .Case([&](SplitOp o) {
        if (i != o.getAxis())
          return dim(o.getInput(), i);
        unsigned parts = o->getNumResults(), at = cast<OpResult>(value).getResultNumber();
        if (!isa<NoneType>(o.getSizes().getType()) || at + 1 == parts)
          return opaque(value, i);
        return function("split" + std::to_string(parts), dim(o.getInput(), i));
      })
      .Case([&](SliceOp o) {
        bool untouched = false;
        if (isa<NoneType>(o.getAxes().getType()))
          untouched = i >= typeOf(o.getStarts()).getDimSize(0) && !typeOf(o.getStarts()).isDynamicDim(0);
        else if (auto axes = getIntegers(o.getAxes()))
          untouched = llvm::none_of(*axes, [&](int64_t a) { return a == i || a + rank == i; });
        return untouched ? dim(o.getInput(), i) : opaque(value, i);
      })
      .Case([&](PadOp o) {
        auto pads = getIntegers(o.getPads());
        if (!pads)
          return opaque(value, i);
        SmallVector<int64_t> axes;
        if (isa<NoneType>(o.getAxes().getType()))
          axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
        else if (auto given = getIntegers(o.getAxes()))
          axes = *given;
        else
          return opaque(value, i);
        for (auto [k, a] : llvm::enumerate(axes))
          if ((a == i || a + rank == i) && ((*pads)[k] || (*pads)[k + axes.size()]))
            return opaque(value, i);
        return dim(o.getInput(), i);
      })
      .Case([&](GatherOp o) {
        unsigned axis = o.getAxis(), n = typeOf(o.getIndices()).getRank();
        if (i < axis)
          return dim(o.getInput(), i);
        return i < axis + n ? dim(o.getIndices(), i - axis) : dim(o.getInput(), i - n + 1);
      })
      .Case([&](GatherElementsOp o) { return dim(o.getIndices(), i); })
      .Case([&](ExpandOp o) {
        auto shape = elements(o.getShape());
        unsigned n = typeOf(o.getInput()).getRank(), fromEnd = rank - 1 - i;
        std::optional<Dim> own, wanted;
        if (fromEnd < n)
          own = dim(o.getInput(), n - 1 - fromEnd);
        if (shape && fromEnd < shape->size())
          wanted = (*shape)[shape->size() - 1 - fromEnd];
        else if (!shape)
          return opaque(value, i);
        if (own && (!wanted || wanted->is(1) || *wanted == *own))
          return *own;
        return wanted && (!own || own->is(1)) && !isData(*wanted) ? *wanted : opaque(value, i);
      })
      .Case([&](TileOp o) {
        auto repeats = elements(o.getRepeats());
        return repeats && i < repeats->size() && !isData((*repeats)[i]) ? dim(o.getInput(), i) * (*repeats)[i]
                                                                        : opaque(value, i);
      })
      .Case([&](ResizeOp o) {
        auto at = llvm::find(o.getAxes(), int64_t(i));
        if (at == o.getAxes().end())
          return dim(o.getInput(), i);
        size_t k = at - o.getAxes().begin();
        if (auto sizes = isa<NoneType>(o.getSizes().getType()) ? std::nullopt : elements(o.getSizes());
            sizes && o.getAspectPolicy() == "stretch" && k < sizes->size() && !isData((*sizes)[k]))
          return (*sizes)[k];
        if (auto scales = isa<NoneType>(o.getScales().getType()) ? std::nullopt : getConstant(o.getScales());
            scales && scales->type.getElementType().isF32()) {
          float scale;
          std::memcpy(&scale, scales->bytes.data() + (scales->isSplat ? 0 : 4 * k), 4);
          Dim d = dim(o.getInput(), i);
          if (scale >= 1 && scale <= float(1 << 24) && std::floor(scale) == scale)
            return constant(int64_t(scale)) * d;
          return function("scale" + std::to_string(llvm::bit_cast<uint32_t>(scale)), d);
        }
        return opaque(value, i);
      })
      .Case([&](ReduceOp o) {
        if (o.getKeepdims())
          return dim(o.getInput(), i);
        for (unsigned k = 0, at = 0;; ++k)
          if (!llvm::is_contained(o.getAxes(), int64_t(k)) && at++ == i)
            return dim(o.getInput(), k);
      })
      .Case([&](ArgReduceOp o) { return dim(o.getInput(), !o.getKeepdims() && i >= o.getAxis() ? i + 1 : i); })
      .Case([&](AttentionOp o) { return i < 3 ? dim(o.getQ(), i) : dim(o.getV(), 3); })
      .Case([&](FillOp o) {
        auto shape = elements(o.getShape());
        return shape && i < shape->size() && !isData((*shape)[i]) ? (*shape)[i] : opaque(value, i);
      })
      .Default([&](Operation *) { return opaque(value, i); });
}

//===-- elements of shape tensors ---------------------------------------------------------------------------------===//

std::optional<SmallVector<Dim>> DimAnalysis::elements(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() > 1 || !type.hasStaticShape() || !isa<IntegerType>(type.getElementType()) ||
      type.getNumElements() > 64)
    return std::nullopt;
  if (auto integers = getIntegers(value)) {
    SmallVector<Dim> out;
    for (int64_t v : *integers)
      out.push_back(constant(v));
    return out;
  }
  if (auto out = computeElements(value); out && int64_t(out->size()) == type.getNumElements())
    return out;
  SmallVector<Dim> out; // whatever the values are, they are these
  for (int64_t i = 0, n = type.getNumElements(); i < n; ++i)
    out.push_back(symbol(
        "e" + std::to_string(reinterpret_cast<uintptr_t>(value.getAsOpaquePointer())) + "." + std::to_string(i), true));
  return out;
}

std::optional<SmallVector<Dim>> DimAnalysis::computeElements(Value value) {
  using Result = std::optional<SmallVector<Dim>>;
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  return TypeSwitch<Operation *, Result>(op)
      .Case([&](ShapeOp o) -> Result {
        int64_t rank = typeOf(o.getInput()).getRank();
        auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
        SmallVector<Dim> out;
        for (int64_t i = clamp(o.getStart()), end = clamp(o.getEnd().value_or(rank)); i < end; ++i)
          out.push_back(dim(o.getInput(), i));
        return out;
      })
      .Case([&](SizeOp o) -> Result {
        Dim out = constant(1);
        for (const Dim &d : dims(o.getInput()))
          out = out * d;
        return SmallVector<Dim>{out};
      })
      .Case<CastOp, SqueezeOp, UnsqueezeOp, ReshapeOp>([&](auto o) { return elements(o.getInput()); })
      .Case([&](ConcatOp o) -> Result {
        SmallVector<Dim> out;
        for (Value v : o.getInputs()) {
          auto part = elements(v);
          if (!part)
            return std::nullopt;
          llvm::append_range(out, *part);
        }
        return out;
      })
      .Case([&](GatherOp o) -> Result {
        auto from = elements(o.getInput());
        auto indices = getIntegers(o.getIndices());
        if (!from || !indices || typeOf(o.getInput()).getRank() != 1)
          return std::nullopt;
        SmallVector<Dim> out;
        for (int64_t i : *indices) {
          i += i < 0 ? from->size() : 0;
          if (i < 0 || i >= int64_t(from->size()))
            return std::nullopt;
          out.push_back((*from)[i]);
        }
        return out;
      })
      .Case([&](SliceOp o) -> Result {
        auto from = elements(o.getInput());
        auto starts = getIntegers(o.getStarts()), ends = getIntegers(o.getEnds());
        Value stepsValue = o.getSteps();
        auto steps =
            isa<NoneType>(stepsValue.getType()) ? std::optional(SmallVector<int64_t>{1}) : getIntegers(stepsValue);
        if (!from || !starts || !ends || !steps || starts->size() != 1 || (*steps)[0] != 1)
          return std::nullopt;
        int64_t n = from->size();
        auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? std::max<int64_t>(v, -n) + n : v, 0, n); };
        int64_t start = clamp((*starts)[0]), end = clamp((*ends)[0]);
        return SmallVector<Dim>(ArrayRef(*from).slice(start, std::max<int64_t>(0, end - start)));
      })
      .Case([&](BinaryOp o) -> Result {
        auto a = elements(o.getLhs()), b = elements(o.getRhs());
        if (!a || !b || a->empty() || b->empty())
          return std::nullopt;
        SmallVector<Dim> out;
        for (size_t i = 0, n = std::max(a->size(), b->size()); i < n; ++i) {
          const Dim &x = (*a)[a->size() == 1 ? 0 : i], &y = (*b)[b->size() == 1 ? 0 : i];
          if (isData(x) || isData(y))
            return std::nullopt;
          std::optional<Dim> d;
          if (o.getKind() == BinaryKind::mul)
            d = x * y;
          else if (o.getKind() == BinaryKind::div)
            d = divide(x, y);
          out.push_back(d ? *d : function(stringifyBinaryKind(o.getKind()), {x, y}));
        }
        return out;
      })
      .Default([](Operation *) -> Result { return std::nullopt; });
}

//===-- reshapes --------------------------------------------------------------------------------------------------===//

SmallVector<ReshapePart> mrcc::cutReshape(ArrayRef<Dim> in, ArrayRef<Dim> out) {
  SmallVector<Dim> before{constant(1)}, after{constant(1)}; // products of the first dims
  for (const Dim &d : in)
    before.push_back(before.back() * d);
  for (const Dim &d : out)
    after.push_back(after.back() * d);
  SmallVector<ReshapePart> parts;
  unsigned n = in.size(), m = out.size(), i = 0, j = 0;
  while (i < n || j < m) {
    unsigned x = n, y = m;
    if (i < n && j < m && before[i + 1] == after[j + 1]) {
      x = i + 1, y = j + 1;
    } else if (i < n && in[i].is(1)) {
      x = i + 1, y = j;
    } else if (j < m && out[j].is(1)) {
      x = i, y = j + 1;
    } else { // the nearest equal products
      unsigned best = n + m;
      for (unsigned a = i + 1; a <= n; ++a)
        for (unsigned b = j + 1; b <= m; ++b)
          if (before[a] == after[b] && a + b < best)
            x = a, y = b, best = a + b;
    }
    parts.push_back({{i, x}, {j, y}});
    i = x, j = y;
  }
  return parts;
}
