// ONNX's shape rules, and what can be known of shape operands before they are constant.
#include "mrcc/IR/Shapes.h"
#include "InferShapesUtil.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

static constexpr int64_t unknown = ShapedType::kDynamic;
static RankedTensorType typeOf(Value v) { return cast<RankedTensorType>(v.getType()); }

//===-- text ------------------------------------------------------------------------------------------------------===//

std::string mrcc::dimsText(ArrayRef<int64_t> dims) {
  if (dims.empty())
    return "scalar";
  std::string text;
  for (int64_t d : dims)
    text += (text.empty() ? "" : "x") + (d == unknown ? std::string("?") : std::to_string(d));
  return text;
}

InFlightDiagnostic mrcc::shapeError(Operation *op) {
  InFlightDiagnostic error = op->emitOpError();
  if (std::string names = nodeNames(op->getLoc()); !names.empty())
    error << "of node '" << names << "': ";
  return error;
}

StringRef mrcc::reasonOf(StringRef message, Location loc) {
  const std::string prefix = "of node '" + nodeNames(loc) + "': ";
  size_t at = message.find(prefix);
  return at == StringRef::npos ? message : message.substr(at + prefix.size());
}

//===-- partial values --------------------------------------------------------------------------------------------===//

namespace {
using Entry = std::optional<int64_t>;
using Entries = std::optional<SmallVector<Entry>>;

/// Walks backwards through shape arithmetic; `budget` bounds the visits where values have many uses.
struct PartialEvaluator {
  int budget = 256;
  static constexpr int64_t largest = 1024; // elements; shapes are far smaller

  static Entries ofType(RankedTensorType type) {
    if (!type.hasStaticShape() || type.getNumElements() > largest)
      return std::nullopt;
    return SmallVector<Entry>(type.getNumElements());
  }

  Entries visit(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !type.getElementType().isInteger())
      return std::nullopt;
    Operation *op = value.getDefiningOp();
    if (!op || --budget < 0)
      return ofType(type);
    if (isa<ConstantOp>(op)) {
      if (type.getNumElements() > largest)
        return std::nullopt;
      if (auto values = getIntegers(value))
        return SmallVector<Entry>(values->begin(), values->end());
      return ofType(type);
    }
    Entries entries =
        llvm::TypeSwitch<Operation *, Entries>(op)
            .Case<ShapeOp, SizeOp, ConcatOp, GatherOp, SliceOp, BinaryOp, SelectOp, CastOp>(
                [&](auto o) { return of(o); })
            .Case<SqueezeOp, UnsqueezeOp, ReshapeOp, FlattenOp>([&](auto o) { return visit(o.getInput()); })
            .Default([](Operation *) { return std::nullopt; });
    // The declared type decides the number where the walk found another or none.
    if (type.hasStaticShape() && (!entries || int64_t(entries->size()) != type.getNumElements()))
      return ofType(type);
    return entries;
  }

  static Entry dim(int64_t d) { return d == unknown ? Entry() : Entry(d); }

  Entries of(ShapeOp op) {
    ArrayRef<int64_t> dims = typeOf(op.getInput()).getShape();
    SliceRange range = sliceRange(dims.size(), op.getStart(), op.getEnd().value_or(dims.size()), 1);
    return SmallVector<Entry>(llvm::map_range(dims.slice(range.start, range.count), dim));
  }
  Entries of(SizeOp op) {
    auto type = typeOf(op.getInput());
    return SmallVector<Entry>{type.hasStaticShape() ? Entry(type.getNumElements()) : Entry()};
  }
  Entries of(ConcatOp op) {
    SmallVector<Entry> all;
    for (Value input : op.getInputs()) {
      Entries part = typeOf(input).getRank() == 1 ? visit(input) : std::nullopt;
      if (!part)
        return std::nullopt;
      all.append(*part);
    }
    return all;
  }
  Entries of(GatherOp op) {
    Entries input = typeOf(op.getInput()).getRank() == 1 ? visit(op.getInput()) : std::nullopt,
            indices = visit(op.getIndices());
    if (!input || !indices)
      return std::nullopt;
    SmallVector<Entry> out;
    int64_t n = input->size();
    for (Entry i : *indices)
      out.push_back(i && *i >= -n && *i < n ? (*input)[*i < 0 ? *i + n : *i] : Entry());
    return out;
  }
  Entries of(SliceOp op) {
    Entries input = typeOf(op.getInput()).getRank() == 1 ? visit(op.getInput()) : std::nullopt;
    auto starts = getIntegers(op.getStarts()), ends = getIntegers(op.getEnds()), steps = getIntegers(op.getSteps());
    if (!input || !starts || !ends || starts->size() != 1 || ends->size() != 1)
      return std::nullopt;
    if (!isa<NoneType>(op.getSteps().getType()) && (!steps || steps->size() != 1 || steps->front() == 0))
      return std::nullopt;
    SliceRange range = sliceRange(input->size(), starts->front(), ends->front(), steps ? steps->front() : 1);
    SmallVector<Entry> out;
    for (int64_t i = 0; i < range.count; ++i)
      out.push_back((*input)[range.start + i * range.step]);
    return out;
  }
  Entries of(CastOp op) {
    return op.getTo().isSignlessInteger(64) || op.getTo().isSignlessInteger(32) ? visit(op.getInput()) : std::nullopt;
  }
  Entries of(SelectOp op) {
    Entries c = visit(op.getCondition()), a = visit(op.getA()), b = visit(op.getB());
    if (!c || !a || !b)
      return std::nullopt;
    size_t n = std::max({c->size(), a->size(), b->size()});
    SmallVector<Entry> out;
    for (size_t i = 0; i < n; ++i) {
      if ((c->size() != n && c->size() != 1) || (a->size() != n && a->size() != 1) ||
          (b->size() != n && b->size() != 1))
        return std::nullopt;
      Entry condition = (*c)[c->size() == 1 ? 0 : i];
      Entry x = (*a)[a->size() == 1 ? 0 : i], y = (*b)[b->size() == 1 ? 0 : i];
      out.push_back(condition ? (*condition ? x : y) : x == y ? x : Entry());
    }
    return out;
  }
  static Entry apply(BinaryKind kind, int64_t a, int64_t b) {
    int64_t r = 0;
    switch (kind) {
    case BinaryKind::add:
      return __builtin_add_overflow(a, b, &r) ? Entry() : Entry(r);
    case BinaryKind::sub:
      return __builtin_sub_overflow(a, b, &r) ? Entry() : Entry(r);
    case BinaryKind::mul:
      return __builtin_mul_overflow(a, b, &r) ? Entry() : Entry(r);
    case BinaryKind::div:
      return b == 0 || b == -1 ? Entry() : Entry(a / b);
    case BinaryKind::mod:
      return b <= 0 || a < 0 ? Entry() : Entry(a % b);
    case BinaryKind::max:
      return std::max(a, b);
    case BinaryKind::min:
      return std::min(a, b);
    case BinaryKind::eq:
      return a == b;
    case BinaryKind::lt:
      return a < b;
    case BinaryKind::gt:
      return a > b;
    default:
      return std::nullopt;
    }
  }
  Entries of(BinaryOp op) {
    if (typeOf(op.getLhs()).getRank() > 1 || typeOf(op.getRhs()).getRank() > 1)
      return std::nullopt;
    Entries a = visit(op.getLhs()), b = visit(op.getRhs());
    if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1))
      return std::nullopt;
    SmallVector<Entry> out;
    for (size_t i = 0, n = a->size() == 1 ? b->size() : a->size(); i < n; ++i) {
      Entry x = (*a)[a->size() == 1 ? 0 : i], y = (*b)[b->size() == 1 ? 0 : i];
      out.push_back(x && y ? apply(op.getKind(), *x, *y) : Entry());
    }
    return out;
  }
};
} // namespace

std::optional<SmallVector<std::optional<int64_t>>> mrcc::partialIntegers(Value value) {
  return PartialEvaluator().visit(value);
}

std::optional<SmallVector<double>> mrcc::getFloats(Value value) {
  auto data = getConstant(value);
  auto element = data ? dyn_cast<FloatType>(data->type.getElementType()) : FloatType();
  if (!element || element.getWidth() > 64 || element.getWidth() < 8)
    return std::nullopt;
  size_t width = element.getWidth() / 8;
  SmallVector<double> out;
  for (int64_t i = 0, n = data->type.getNumElements(); i < n; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, data->bytes.data() + (data->isSplat ? 0 : i * width), width);
    APFloat v(element.getFloatSemantics(), APInt(element.getWidth(), bits));
    bool lost;
    v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    out.push_back(v.convertToDouble());
  }
  return out;
}

//===-- slices and pads -------------------------------------------------------------------------------------------===//

SliceRange mrcc::sliceRange(int64_t dim, int64_t start, int64_t end, int64_t step) {
  auto clamp = [&](int64_t v, int64_t low, int64_t high) { return std::min(std::max(v < 0 ? v + dim : v, low), high); };
  SliceRange range{0, step, 0};
  if (step > 0) {
    range.start = clamp(start, 0, dim);
    int64_t stop = clamp(end, 0, dim);
    range.count = stop <= range.start ? 0 : (stop - range.start - 1) / step + 1;
  } else {
    range.start = clamp(start, 0, dim - 1);
    int64_t stop = clamp(end, -1, dim - 1);
    // -(step + 1) cannot overflow, -step can.
    range.count = stop >= range.start || dim == 0 ? 0 : step < -dim ? 1 : (range.start - stop - 1) / -step + 1;
  }
  if (range.count <= 1)
    range.step = 1; // a step that is never taken
  if (range.count == 0)
    range.start = 0;
  return range;
}

std::optional<SmallVector<SliceRange>> mrcc::sliceRanges(Operation *op) {
  auto slice = cast<SliceOp>(op);
  ArrayRef<int64_t> dims = typeOf(slice.getInput()).getShape();
  auto starts = getIntegers(slice.getStarts()), ends = getIntegers(slice.getEnds());
  auto axes = getIntegers(slice.getAxes()), steps = getIntegers(slice.getSteps());
  bool noAxes = isa<NoneType>(slice.getAxes().getType()), noSteps = isa<NoneType>(slice.getSteps().getType());
  if (!starts || !ends || (!axes && !noAxes) || (!steps && !noSteps))
    return std::nullopt;
  SmallVector<SliceRange> ranges;
  for (int64_t d : dims)
    ranges.push_back({0, 1, d});
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t axis = noAxes ? i : (*axes)[i];
    axis += axis < 0 ? dims.size() : 0;
    if (dims[axis] == unknown)
      return std::nullopt;
    ranges[axis] = sliceRange(dims[axis], (*starts)[i], (*ends)[i], noSteps ? 1 : (*steps)[i]);
  }
  return ranges;
}

std::optional<SmallVector<PadRange>> mrcc::padRanges(Operation *op) {
  auto pad = cast<PadOp>(op);
  int64_t rank = typeOf(pad.getInput()).getRank();
  auto pads = getIntegers(pad.getPads()), axes = getIntegers(pad.getAxes());
  bool noAxes = isa<NoneType>(pad.getAxes().getType());
  if (!pads || (!axes && !noAxes))
    return std::nullopt;
  SmallVector<PadRange> ranges(rank);
  size_t n = noAxes ? rank : axes->size();
  for (size_t i = 0; i < n; ++i) {
    int64_t axis = noAxes ? i : (*axes)[i];
    ranges[axis < 0 ? axis + rank : axis] = {(*pads)[i], (*pads)[i + n]};
  }
  return ranges;
}

//===-- windows ---------------------------------------------------------------------------------------------------===//

WindowDim mrcc::windowDim(StringRef autoPad, int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                          int64_t padBegin, int64_t padEnd, bool ceil) {
  int64_t extent = infer::windowExtent(kernel, dilation);
  if (autoPad.starts_with("SAME")) {
    if (in == unknown)
      return {unknown, 0, 0};
    int64_t out = in > 0 ? (in - 1) / stride + 1 : 0;
    int64_t total = std::max<int64_t>((out - 1) * stride + extent - in, 0);
    int64_t begin = autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
    return {out, begin, total - begin};
  }
  if (autoPad == "VALID")
    padBegin = padEnd = 0;
  if (in == unknown)
    return {unknown, padBegin, padEnd};
  int64_t room = in + padBegin + padEnd - extent;
  if (room < 0) // a single partial window, or none
    return {ceil && room > -stride && in + padBegin > 0, padBegin, padEnd};
  int64_t out = room / stride + 1;
  if (ceil && room % stride != 0 && out * stride < in + padBegin)
    ++out;
  return {out, padBegin, padEnd};
}

WindowDim mrcc::transposedWindowDim(StringRef autoPad, int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                                    int64_t padBegin, int64_t padEnd, int64_t outputPadding,
                                    std::optional<int64_t> outputShape) {
  if (in == unknown)
    return {outputShape.value_or(unknown), padBegin, padEnd};
  using infer::Wide;
  int64_t full = infer::held(Wide(stride) * (in - 1) + outputPadding + infer::windowExtent(kernel, dilation));
  bool same = autoPad.starts_with("SAME");
  if (!same && !outputShape) {
    if (autoPad == "VALID")
      padBegin = padEnd = 0;
    return {full - padBegin - padEnd, padBegin, padEnd};
  }
  int64_t out = infer::held(outputShape ? Wide(*outputShape) : Wide(in) * stride), total = full - out;
  int64_t begin = total < 0 ? 0 : autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
  return {out, begin, total - begin};
}

SmallVector<int64_t> mrcc::weightDims(Operation *op) {
  SmallVector<int64_t> stored(typeOf(op->getOperand(1)).getShape());
  auto number = [&](StringRef name) { return op->getAttrOfType<IntegerAttr>(name); };
  if (auto k = number("packed_k"), n = number("packed_n"); k && n)
    return {k.getInt(), n.getInt()};
  auto kernel = op->getAttrOfType<DenseI64ArrayAttr>("packed_kernel");
  if (!kernel || !number("packed_oc"))
    return stored;
  // Packed: depthwise [taps, C], conv [(group,) IC/KC, OC/16, taps, KC, 16].
  int64_t oc = number("packed_oc").getInt(), group = number("group").getInt();
  size_t n = stored.size();
  int64_t perGroup = n < 5 ? 1 : stored[n - 5] * stored[n - 2];
  SmallVector<int64_t> dims = {oc, perGroup};
  if (isa<ConvTransposeOp>(op))
    dims = {perGroup * group, oc / group};
  llvm::append_range(dims, kernel.asArrayRef());
  return dims;
}

SmallVector<WindowDim> mrcc::windowDims(Operation *op) {
  SmallVector<WindowDim> out;
  auto each = [&](Value input, auto one) {
    ArrayRef<int64_t> dims = typeOf(input).getShape();
    for (size_t i = 0; i + 2 < dims.size(); ++i)
      out.push_back(one(i, dims[i + 1]));
  };
  TypeSwitch<Operation *>(op)
      .Case([&](ConvOp o) {
        ArrayRef<int64_t> pads = o.getPads();
        auto dims = weightDims(o);
        ArrayRef<int64_t> kernel = ArrayRef(dims).drop_front(2);
        each(o.getInput(), [&](size_t i, int64_t in) {
          return windowDim(o.getAutoPad(), in, kernel[i], o.getStrides()[i], o.getDilations()[i], pads[i],
                           pads[i + pads.size() / 2], false);
        });
      })
      .Case([&](PoolOp o) {
        ArrayRef<int64_t> pads = o.getPads();
        each(o.getInput(), [&](size_t i, int64_t in) {
          return windowDim(o.getAutoPad(), in, o.getKernel()[i], o.getStrides()[i], o.getDilations()[i], pads[i],
                           pads[i + pads.size() / 2], o.getCeilMode());
        });
      })
      .Case([&](ConvTransposeOp o) {
        ArrayRef<int64_t> pads = o.getPads();
        auto dims = weightDims(o);
        ArrayRef<int64_t> kernel = ArrayRef(dims).drop_front(2);
        auto shape = o.getOutputShape();
        each(o.getInput(), [&](size_t i, int64_t in) {
          return transposedWindowDim(o.getAutoPad(), in, kernel[i], o.getStrides()[i], o.getDilations()[i], pads[i],
                                     pads[i + pads.size() / 2], o.getOutputPadding()[i],
                                     shape ? std::optional<int64_t>((*shape)[i]) : std::nullopt);
        });
      });
  return out;
}

//===-- resize, range, packing ------------------------------------------------------------------------------------===//

std::optional<int64_t> mrcc::scaledDim(int64_t in, float scale, double rounding) {
  float product = float(in) * scale; // rounded to float32 before the floor, as in ONNX; that decides 10 * 0.7
  if (!(scale > 0) || !(product <= float(maxElements)))
    return std::nullopt;
  return int64_t(std::floor(double(product) + rounding));
}

std::optional<SmallVector<ResizeDim>> mrcc::resizeDims(Operation *op) {
  auto resize = cast<ResizeOp>(op);
  ArrayRef<int64_t> dims = typeOf(resize.getInput()).getShape(), axes = resize.getAxes();
  SmallVector<ResizeDim> out;
  if (isa<NoneType>(resize.getSizes().getType())) {
    auto scales = getFloats(resize.getScales());
    if (!scales || scales->size() != axes.size())
      return std::nullopt;
    for (auto [axis, scale] : llvm::zip_equal(axes, *scales)) {
      if (dims[axis] == unknown)
        return std::nullopt;
      out.push_back({scaledDim(dims[axis], float(scale)).value_or(-1), float(scale)});
    }
    return out;
  }
  auto sizes = getIntegers(resize.getSizes());
  if (!sizes || sizes->size() != axes.size())
    return std::nullopt;
  for (auto [axis, size] : llvm::zip_equal(axes, *sizes)) {
    if (dims[axis] == unknown)
      return std::nullopt;
    out.push_back({size, float(size) / float(dims[axis])});
  }
  StringRef policy = resize.getAspectPolicy();
  if (out.empty() || (policy != "not_larger" && policy != "not_smaller"))
    return out;
  float scale = out[0].scale;
  for (ResizeDim d : out)
    scale = policy == "not_larger" ? std::min(scale, d.scale) : std::max(scale, d.scale);
  for (auto [axis, d] : llvm::zip_equal(axes, out)) {
    d = {scaledDim(dims[axis], scale, 0.5).value_or(-1), scale};
  }
  return out;
}

std::optional<int64_t> mrcc::rangeLength(double start, double limit, double delta) {
  double n = std::ceil((limit - start) / delta);
  if (delta == 0 || !(n <= double(int64_t(1) << 40)))
    return std::nullopt;
  return n > 0 ? int64_t(n) : 0;
}

int64_t mrcc::packedChannelBlock(int64_t channels) {
  for (int64_t block = std::min<int64_t>(channels, 80); block > 1; --block)
    if (channels % block == 0)
      return block;
  return 1;
}
