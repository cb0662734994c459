#include "Node.h"
#include "Checks.h"
#include "Known.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mrcc;

//===-- attributes ------------------------------------------------------------------------------------------------===//

const onnx::Attribute *NodeContext::attribute(StringRef name) const {
  for (const onnx::Attribute &a : node.attributes)
    if (a.name == name && a.kind != onnx::Attribute::none)
      return &a;
  return nullptr;
}

int64_t NodeContext::integer(StringRef name, int64_t fallback) {
  const onnx::Attribute *a = attribute(name);
  if (a && a->kind != onnx::Attribute::integer)
    invalid("attribute '" + name + "' is not an integer");
  return a ? a->i : fallback;
}

float NodeContext::real(StringRef name, float fallback) {
  const onnx::Attribute *a = attribute(name);
  if (a && a->kind != onnx::Attribute::real)
    invalid("attribute '" + name + "' is not a float");
  return a ? a->f : fallback;
}

std::string NodeContext::text(StringRef name, StringRef fallback) {
  const onnx::Attribute *a = attribute(name);
  if (a && a->kind != onnx::Attribute::text)
    invalid("attribute '" + name + "' is not a string");
  return a ? a->s : fallback.str();
}

std::optional<SmallVector<int64_t>> NodeContext::integers(StringRef name) {
  const onnx::Attribute *a = attribute(name);
  if (!a)
    return std::nullopt;
  if (a->kind != onnx::Attribute::integers)
    invalid("attribute '" + name + "' is not a list of integers");
  return SmallVector<int64_t>(a->ints.begin(), a->ints.end());
}

//===-- operands --------------------------------------------------------------------------------------------------===//

Value NodeContext::in(size_t i) {
  if (given(i))
    return operands[i];
  invalid("input " + Twine(i) + " is missing");
  return makeScalar(builder, loc, builder.getF32Type(), 0);
}

Value NodeContext::optional(size_t i) { return given(i) ? operands[i] : none(); }

std::optional<SmallVector<int64_t>> NodeContext::constantIntegers(size_t i, StringRef what) {
  auto values = knownIntegers(in(i));
  if (!values)
    unsupported(what + " (input " + Twine(i) + ") is not a constant" + bindHint(in(i)));
  return values;
}

std::optional<double> NodeContext::constantScalar(size_t i, StringRef what) {
  auto value = knownScalar(in(i));
  if (!value)
    unsupported(what + " (input " + Twine(i) + ") is not a constant" + bindHint(in(i)));
  return value;
}

std::optional<SmallVector<int64_t>> NodeContext::integersOf(StringRef name, size_t operand) {
  if (auto values = integers(name))
    return values;
  return given(operand) ? constantIntegers(operand, name) : std::nullopt;
}

//===-- types -----------------------------------------------------------------------------------------------------===//

int64_t NodeContext::dim(Value v, int64_t i) {
  auto t = type(v);
  return i >= 0 && i < t.getRank() ? t.getDimSize(i) : ShapedType::kDynamic;
}

int64_t NodeContext::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    invalid("axis " + Twine(axis) + " is outside a tensor of rank " + Twine(rank));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

SmallVector<int64_t> NodeContext::axes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> out;
  for (int64_t a : axes)
    out.push_back(axis(a, rank));
  llvm::sort(out);
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    invalid("an axis is given twice");
  return out;
}

int64_t NodeContext::times(int64_t a, int64_t b) {
  constexpr int64_t most = int64_t(1) << 48;
  int64_t product;
  if (llvm::MulOverflow(a, b, product) || product > most || product < -most) {
    invalid("a size of " + Twine(a) + " times " + Twine(b) + " is too large");
    return 0;
  }
  return product;
}

Type NodeContext::toElement(int64_t onnxType) {
  DType type = onnx::toDType(int32_t(onnxType));
  if (type != DType::none)
    return toType(builder.getContext(), type);
  unsupported("element type " + onnx::typeName(int32_t(onnxType)));
  return builder.getF32Type();
}

//===-- building --------------------------------------------------------------------------------------------------===//

/// An operand on whose numbers op computes and that has an 8-bit or smaller float type. Kernels move and cast these.
static Value narrowOperand(Operation *op) {
  bool computes = isa<UnaryOp, BinaryOp, ReduceOp, ArgReduceOp, CumulativeOp, ConvOp, ConvTransposeOp, PoolOp, MatMulOp,
                      ResizeOp, BatchNormOp, LayerNormOp, GroupNormOp, SoftmaxOp, AttentionOp>(op);
  if (auto scatter = dyn_cast<ScatterElementsOp>(op))
    computes = scatter.getReduction() != ScatterKind::none;
  if (auto scatter = dyn_cast<ScatterNDOp>(op))
    computes = scatter.getReduction() != ScatterKind::none;
  for (Value v : op->getOperands()) {
    auto tensor = dyn_cast<RankedTensorType>(v.getType());
    auto element = tensor ? dyn_cast<FloatType>(tensor.getElementType()) : FloatType();
    if (computes && element && element.getWidth() <= 8)
      return v;
  }
  return nullptr;
}

void NodeContext::infer(Operation *op) {
  if (failure)
    return;
  if (Value v = narrowOperand(op))
    return unsupported("it computes in " + mrcc::toString(mrcc::toDType(element(v))) +
                       "; such tensors can only be moved and cast");
  std::string text;
  ScopedDiagnosticHandler handler(op->getContext(), [&](Diagnostic &d) {
    if (text.empty())
      text = d.str();
    return success();
  });
  if (failed(reinfer(op))) {
    StringRef reason = reasonOf(text, op->getLoc()); // the node is named by whoever reports this
    return invalid(reason.empty() ? "its shape cannot be inferred" : reason);
  }
  for (Type t : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(t);
    if (!tensor)
      return t.getTypeID() == TypeID::get<UnrankedTensorType>() ? unsupported("the rank of its result is not known")
                                                                : void();
    SmallVector<int64_t> known;
    for (int64_t d : tensor.getShape())
      known.push_back(ShapedType::isDynamic(d) ? 1 : d);
    if (known.size() > onnx::maxRank || !denseBytes(mrcc::toDType(tensor.getElementType()), known))
      return invalid("its result of " + dimsText(tensor.getShape()) + " is too large");
  }
}

Value NodeContext::settle(Operation *op) {
  constexpr int64_t longest = 64;
  Value v = op->getResult(0);
  RankedTensorType t = type(v);
  bool isList =
      t.getElementType().isInteger() && t.getRank() <= 1 && t.hasStaticShape() && t.getNumElements() <= longest;
  auto known = isList && !failure ? knownValue(v) : std::nullopt;
  if (!known)
    return v;
  op->erase();
  return makeConstant(builder, loc, makeConstantAttr(t, known->bytes, known->isSplat));
}

/// f8E8M0FNU -> f32: its bits are those of the exponent. 0 is subnormal there, 255 is NaN.
static Value fromPowerOfTwo(NodeContext &c, Value v) {
  Type u8 = IntegerType::get(c.builder.getContext(), 8, IntegerType::Unsigned), i32 = c.builder.getI32Type();
  Value code = c.cast(c.make<BitcastOp>(v, u8), i32), bits = c.binary(BinaryKind::shift_left, code, 23);
  bits = c.select(c.binary(BinaryKind::eq, code, 0), c.scalar(0x400000, bits), bits);
  bits = c.select(c.binary(BinaryKind::eq, code, 255), c.scalar(0x7fc00000, bits), bits);
  return c.make<BitcastOp>(bits, c.builder.getF32Type());
}

/// f32 -> f8E8M0FNU; the sign is dropped. What is beyond its ends, infinity and zero among it, becomes the nearer end
/// (saturating) or NaN.
static Value toPowerOfTwo(NodeContext &c, Value v, Type to, bool saturate, StringRef roundMode) {
  Type u8 = IntegerType::get(c.builder.getContext(), 8, IntegerType::Unsigned), i32 = c.builder.getI32Type();
  Value size = c.binary(BinaryKind::bitwise_and, c.make<BitcastOp>(v, i32), 0x7fffffff);
  Value exponent = c.binary(BinaryKind::shift_right, size, 23);
  Value fraction = c.binary(BinaryKind::bitwise_and, size, 0x7fffff);
  // Below the least normal number the fraction counts from 0, not from 1: 0x400000 is 2^-127, the end.
  Value subnormal = c.binary(BinaryKind::eq, exponent, 0);
  auto limit = [&](double normal, double below) {
    return c.select(subnormal, c.scalar(below, size), c.scalar(normal, size));
  };
  Value code = exponent;
  if (roundMode == "up")
    code = c.add(code, c.cast(c.binary(BinaryKind::gt, fraction, limit(0, 0x400000)), i32));
  else if (roundMode == "nearest")
    code = c.add(code, c.cast(c.binary(BinaryKind::ge, fraction, limit(0x400000, 0x600000)), i32));
  if (saturate) {
    code = c.binary(BinaryKind::min, code, 254);
  } else {
    code = c.binary(BinaryKind::min, code, 255);
    code = c.select(c.binary(BinaryKind::lt, size, 0x400000), c.scalar(255, code), code);
  }
  code = c.select(c.unary(UnaryKind::is_nan, v), c.scalar(255, code), code);
  return c.make<BitcastOp>(c.cast(code, u8), to);
}

Value NodeContext::cast(Value v, Type to, bool saturate, StringRef roundMode) {
  if (element(v) == to)
    return v;
  if (isa<Float8E8M0FNUType>(element(v)))
    return cast(fromPowerOfTwo(*this, v), to, saturate, roundMode);
  if (isa<Float8E8M0FNUType>(to))
    return toPowerOfTwo(*this, cast(v, builder.getF32Type()), to, saturate, roundMode);
  return make<CastOp>(v, to, saturate);
}

Value NodeContext::transpose(Value v, ArrayRef<int64_t> perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != int64_t(i))
      return make<TransposeOp>(v, perm);
  return v;
}

Value NodeContext::reshapeTo(Value v, ArrayRef<Extent> dims) {
  SmallVector<Extent> list(dims);
  SmallVector<size_t> open; // a single unknown dimension is what -1 is for, and the shape becomes a constant
  for (auto [i, d] : llvm::enumerate(list))
    if (!d.isKnown())
      open.push_back(i);
  bool zero = llvm::any_of(list, [](const Extent &d) { return d.isKnown() && d.value == 0; });
  if (open.size() == 1 && !zero)
    list[open[0]] = Extent(-1);
  return make<ReshapeOp>(v, shape(list), zero);
}

Value NodeContext::slice(Value v, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return make<SliceOp>(v, constant(begin), constant(end), constant(axis), constant(step));
}

Extent NodeContext::dimOf(Value v, int64_t i) {
  int64_t known = dim(v, i);
  if (!ShapedType::isDynamic(known))
    return known;
  return make<ShapeOp>(v, uint64_t(i), builder.getI64IntegerAttr(i + 1));
}

Extent NodeContext::product(ArrayRef<Extent> dims) {
  int64_t known = 1;
  Value open;
  for (const Extent &d : dims) {
    if (d.isKnown())
      known = times(known, d.value);
    else
      open = open ? binary(BinaryKind::mul, open, d.tensor) : d.tensor;
  }
  if (!open)
    return known;
  return known == 1 ? open : binary(BinaryKind::mul, open, constant(known));
}

Value NodeContext::shape(ArrayRef<Extent> dims) {
  SmallVector<Value> parts;
  SmallVector<int64_t> run;
  auto flush = [&] {
    if (!run.empty())
      parts.push_back(constant(run));
    run.clear();
  };
  for (const Extent &d : dims) {
    if (d.isKnown()) {
      run.push_back(d.value);
      continue;
    }
    flush();
    parts.push_back(d.tensor);
  }
  flush();
  if (parts.empty())
    return constant({});
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

Value NodeContext::range(Extent count) {
  Value zero = makeScalar(builder, loc, builder.getI64Type(), 0),
        one = makeScalar(builder, loc, builder.getI64Type(), 1);
  Value limit =
      count.isKnown() ? makeScalar(builder, loc, builder.getI64Type(), double(count.value)) : squeeze(count.tensor, 0);
  return make<RangeOp>(zero, limit, one);
}

Value NodeContext::number(Extent value, Type element) {
  return value.isKnown() ? makeScalar(builder, loc, element, double(value.value)) : cast(value.tensor, element);
}

Value NodeContext::swapLast(Value v) {
  SmallVector<int64_t> perm;
  for (int64_t i = 0; i < rank(v); ++i)
    perm.push_back(i);
  if (perm.size() >= 2)
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(v, perm);
}

Value NodeContext::toChannelsLast(Value v) {
  SmallVector<int64_t> perm{0};
  for (int64_t i = 2; i < rank(v); ++i)
    perm.push_back(i);
  perm.push_back(1);
  return rank(v) < 2 ? v : transpose(v, perm);
}

Value NodeContext::toChannelsFirst(Value v) {
  int64_t n = rank(v);
  SmallVector<int64_t> perm{0, n - 1};
  for (int64_t i = 1; i < n - 1; ++i)
    perm.push_back(i);
  return n < 2 ? v : transpose(v, perm);
}

const HandlerTable &mrcc::handlers() {
  static const HandlerTable table = [] {
    HandlerTable t;
    addElementwise(t);
    addActivations(t);
    addConvolutions(t);
    addPools(t);
    addMovement(t);
    addIndexing(t);
    addReductions(t);
    addNorms(t);
    addMatMuls(t);
    addShapes(t);
    addResize(t);
    addAttention(t);
    addQuantization(t);
    addLosses(t);
    addSignal(t);
    addSampling(t);
    addEinsum(t);
    addRecurrent(t);
    addSelection(t);
    addControlFlow(t);
    addContrib(t);
    return t;
  }();
  return table;
}
