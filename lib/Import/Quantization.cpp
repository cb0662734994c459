// Quantised ops: integers are widened, the products are sums of i32, scales are applied in f32.
#include "Quantization.h"
#include "Windows.h"

using namespace mlir;
using namespace mrcc;

/// Scale or zero point made to broadcast against x: one value, one a slice of `axis`, or one a block along it.
static Value spread(NodeContext &c, Value v, Value x, int64_t axis, int64_t block) {
  int64_t rank = c.rank(x);
  if (c.rank(v) == 0 || rank == 0)
    return v;
  if (c.rank(v) == 1 && !block) {
    if (c.dim(v, 0) == 1)
      return c.squeeze(v, 0);
    SmallVector<int64_t> behind;
    for (int64_t i = axis + 1; i < rank; ++i)
      behind.push_back(i - axis);
    return behind.empty() ? v : c.unsqueeze(v, behind);
  }
  if (!block || c.rank(v) != rank)
    return c.invalid("scale of rank " + Twine(c.rank(v)) + ", block_size " + Twine(block)), v;
  SmallVector<Extent> wide, merged;
  for (int64_t i = 0; i < rank; ++i) {
    Extent d = c.dimOf(v, i);
    wide.push_back(d);
    merged.push_back(i == axis ? c.product({d, block}) : d);
    if (i == axis)
      wide.push_back(block);
  }
  Value blocks = c.reshapeTo(c.make<ExpandOp>(c.unsqueeze(v, axis + 1), c.shape(wide)), merged);
  Extent length = c.dimOf(x, axis);
  if (length.isKnown() && merged[axis].isKnown() && length.value == merged[axis].value)
    return blocks;
  return c.make<SliceOp>(blocks, c.constant(0), c.shape(length), c.constant(axis),
                         c.none()); // the last block may be shorter
}

static std::pair<double, double> rangeOf(NodeContext &c, Type type) {
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || integer.getWidth() < 2 || integer.getWidth() > 32)
    return c.unsupported("quantisation to its type"), std::pair(0.0, 0.0);
  double all = double(int64_t(1) << integer.getWidth());
  return integer.isUnsigned() ? std::pair(0.0, all - 1) : std::pair(-all / 2, all / 2 - 1);
}

/// Rounded values in f32 plus a zero point, clamped to the type.
static Value saturate(NodeContext &c, Value rounded, Value zero, Type type) {
  if (zero)
    rounded = c.add(rounded, c.cast(zero, c.element(rounded)));
  auto [low, high] = rangeOf(c, type);
  return c.cast(c.binary(BinaryKind::min, c.binary(BinaryKind::max, rounded, low), high), type);
}

static void quantizeLinear(NodeContext &c) {
  Value x = c.in(0), scale = c.in(1), zero = c.given(2) ? c.in(2) : nullptr;
  int64_t rank = c.rank(x), block = c.integer("block_size", 0);
  int64_t axis = rank > 1 ? c.axis(c.integer("axis", 1), rank) : 0;
  Type type = zero ? c.element(zero) : Type(IntegerType::get(c.builder.getContext(), 8, IntegerType::Unsigned));
  if (!zero && c.integer("output_dtype", 0))
    type = c.toElement(c.integer("output_dtype", 0));
  if (!c)
    return;
  Type f32 = c.builder.getF32Type(), precision = c.element(x) == c.element(scale) ? c.element(x) : f32;
  if (c.integer("precision", 0))
    precision = c.toElement(c.integer("precision", 0));
  scale = spread(c, scale, x, axis, block);
  Value scaled = c.div(c.cast(x, precision), c.cast(scale, precision));
  if (isa<FloatType>(type)) // f8, f4: the zero point is zero
    return c.result(c.cast(scaled, type, c.integer("saturate", 1)));
  if (!isa<IntegerType>(type) || c.element(x).isInteger())
    return c.unsupported("its types");
  Value rounded = c.unary(UnaryKind::round_even, c.cast(scaled, precision.isF64() ? precision : f32));
  c.result(saturate(c, rounded, zero ? spread(c, zero, x, axis, block) : nullptr, type));
}

static void dequantizeLinear(NodeContext &c) {
  Value x = c.in(0), scale = c.in(1), zero = c.given(2) ? c.in(2) : nullptr;
  int64_t rank = c.rank(x), block = c.integer("block_size", 0);
  int64_t axis = rank > 1 ? c.axis(c.integer("axis", 1), rank) : 0;
  Type type = c.integer("output_dtype", 0) ? c.toElement(c.integer("output_dtype", 0)) : c.element(scale);
  Type compute = type.isF64() ? type : c.builder.getF32Type();
  Value v = c.cast(x, compute);
  if (zero && !c.isFloat(x))
    v = c.sub(v, c.cast(spread(c, zero, x, axis, block), compute));
  c.result(c.cast(c.mul(v, c.cast(spread(c, scale, x, axis, block), compute)), type));
}

Value mrcc::dequantize(NodeContext &c, Value v, Value scale, Value zero, int64_t axis) {
  auto one = [&](Value p) {
    return axis >= 0 || c.rank(p) == 0 ? spread(c, p, v, axis, 0) : c.reshape(p, ArrayRef<int64_t>{});
  };
  Value wide = c.cast(v, c.element(scale));
  return c.mul(zero ? c.sub(wide, c.cast(one(zero), c.element(scale))) : wide, one(scale));
}

Value mrcc::quantize(NodeContext &c, Value v, Value scale, Value zero, Type type) {
  auto one = [&](Value p) { return c.rank(p) ? c.reshape(p, ArrayRef<int64_t>{}) : p; };
  return saturate(c, c.unary(UnaryKind::round_even, c.div(v, one(scale))), zero ? one(zero) : nullptr, type);
}

/// The data's own range, which 0 is made part of, is spread over u8.
DynamicQuantization mrcc::quantizeDynamically(NodeContext &c, Value x) {
  SmallVector<int64_t> all;
  for (int64_t i = 0; i < c.rank(x); ++i)
    all.push_back(i);
  Value high = c.binary(BinaryKind::max, c.reduce(ReduceKind::max, x, all, false), 0.0);
  Value low = c.binary(BinaryKind::min, c.reduce(ReduceKind::min, x, all, false), 0.0);
  Value span = c.sub(high, low);
  Value scale = c.select(c.binary(BinaryKind::eq, span, 0.0), c.scalar(1, x), c.div(span, 255.0)); // 1 of zeros alone
  Type u8 = IntegerType::get(c.builder.getContext(), 8, IntegerType::Unsigned);
  Value zero =
      c.binary(BinaryKind::min, c.binary(BinaryKind::max, c.div(c.unary(UnaryKind::neg, low), scale), 0.0), 255.0);
  zero = c.unary(UnaryKind::round_even, zero);
  return {saturate(c, c.unary(UnaryKind::round_even, c.div(x, scale)), zero, u8), scale, c.cast(zero, u8)};
}

static void dynamicQuantizeLinear(NodeContext &c) {
  DynamicQuantization q = quantizeDynamically(c, c.in(0));
  c.results = {q.values, q.scale, q.zero};
}

Value mrcc::centred(NodeContext &c, Value v, Value zero, int64_t axis) {
  Type i32 = c.builder.getI32Type();
  Value wide = c.cast(v, i32);
  if (!zero)
    return wide;
  if (c.rank(zero) > 1)
    return c.sub(wide, c.cast(zero, i32));
  return c.sub(wide, c.cast(spread(c, zero, v, axis, 0), i32));
}

static Value operandOrNull(NodeContext &c, size_t i) { return c.given(i) ? c.in(i) : nullptr; }

static void matMulInteger(NodeContext &c) {
  Value a = c.in(0), b = c.in(1);
  Value product = c.make<MatMulOp>(centred(c, a, operandOrNull(c, 2), std::max<int64_t>(c.rank(a) - 2, 0)),
                                   centred(c, b, operandOrNull(c, 3), std::max<int64_t>(c.rank(b) - 1, 0)));
  c.result(product);
}

static Value convolve(NodeContext &c, Value x, Value weights, Value bias) {
  if (c.rank(x) < 3 || c.rank(weights) != c.rank(x))
    return c.invalid("its data have rank " + Twine(c.rank(x)) + ", its weights " + Twine(c.rank(weights))), x;
  Window w = readWindow(c, c.rank(x) - 2);
  Value v = c.make<ConvOp>(c.toChannelsLast(x), weights, bias, w.strides, w.dilations, w.pads, c.integer("group", 1),
                           w.autoPad);
  return c.toChannelsFirst(v);
}

static void convInteger(NodeContext &c) {
  Value x = centred(c, c.in(0), operandOrNull(c, 2), 1), weights = centred(c, c.in(1), operandOrNull(c, 3), 0);
  c.result(convolve(c, x, weights, c.none()));
}

/// An i32 result scaled to the output's quantisation.
static Value requantize(NodeContext &c, Value sums, Value factor, Value zero, Type type) {
  Value real = c.mul(c.cast(sums, c.builder.getF32Type()), factor);
  return saturate(c, c.unary(UnaryKind::round_even, real), zero, type);
}

static void qLinearMatMul(NodeContext &c) {
  Value a = c.in(0), b = c.in(3);
  int64_t row = std::max<int64_t>(c.rank(a) - 2, 0), column = std::max<int64_t>(c.rank(b) - 1, 0);
  Value sums = c.make<MatMulOp>(centred(c, a, c.in(2), row), centred(c, b, c.in(5), column));
  Type f32 = c.builder.getF32Type();
  auto scale = [&](Value v, Value x, int64_t axis) {
    return c.cast(c.rank(v) > 1 ? v : spread(c, v, x, axis, 0), f32);
  };
  Value factor = c.div(c.mul(scale(c.in(1), a, row), scale(c.in(4), b, column)), scale(c.in(6), a, row));
  Value zero = c.rank(c.in(7)) > 1 ? c.in(7) : spread(c, c.in(7), a, row, 0);
  c.result(requantize(c, sums, factor, zero, c.element(zero)));
}

static void qLinearConv(NodeContext &c) {
  Value x = c.in(0), weights = c.in(3);
  Value sums = convolve(c, centred(c, x, c.in(2), 1), centred(c, weights, c.in(5), 0), c.optional(8));
  auto one = [&](Value v) { return c.rank(v) == 1 && c.dim(v, 0) == 1 ? c.squeeze(v, 0) : v; };
  Value factor =
      c.div(c.mul(one(c.in(1)), spread(c, c.in(4), x, 1, 0)), one(c.in(6))); // the weights' scale is by channel
  Value zero = one(c.in(7));
  c.result(requantize(c, sums, factor, zero, c.element(zero)));
}

void mrcc::addQuantization(HandlerTable &t) {
  for (StringRef domain : {"", "com.microsoft"}) {
    t.add("QuantizeLinear", quantizeLinear, domain);
    t.add("DequantizeLinear", dequantizeLinear, domain);
  }
  t.add("DynamicQuantizeLinear", dynamicQuantizeLinear);
  t.add("MatMulInteger", matMulInteger);
  t.add("ConvInteger", convInteger);
  t.add("QLinearMatMul", qLinearMatMul);
  t.add("QLinearConv", qLinearConv);
}
