// Ops of the domain com.microsoft that ONNX Runtime's optimisers and quantisers leave in exported files.
#include "Quantization.h"
#include "Windows.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

static constexpr StringRef domain = "com.microsoft";

static Value given(NodeContext &c, size_t i) { return c.given(i) ? c.in(i) : nullptr; }

//===-- quantised element-wise ops, pools and joins: real numbers between a dequantisation and a quantisation
//-----------===//

static Value real(NodeContext &c, size_t data, size_t scale, size_t zero) {
  return dequantize(c, c.in(data), c.in(scale), given(c, zero), -1);
}

static void quantized(NodeContext &c, Value v, size_t scale, size_t zero) {
  c.result(quantize(c, v, c.in(scale), given(c, zero), c.element(c.in(0))));
}

template <BinaryKind kind> static void qLinearBinary(NodeContext &c) {
  quantized(c, c.binary(kind, real(c, 0, 1, 2), real(c, 3, 4, 5)), 6, 7);
}

static void qLinearSigmoid(NodeContext &c) { quantized(c, c.unary(UnaryKind::sigmoid, real(c, 0, 1, 2)), 3, 4); }

static void qLinearLeakyRelu(NodeContext &c) {
  Value v = real(c, 0, 1, 2);
  quantized(c, c.select(c.binary(BinaryKind::lt, v, 0.0), c.mul(v, double(c.real("alpha", 0.01f))), v), 3, 4);
}

static void qLinearGlobalAveragePool(NodeContext &c) {
  Value v = real(c, 0, 1, 2);
  bool last = c.integer("channels_last", 0);
  SmallVector<int64_t> axes;
  for (int64_t i = last ? 1 : 2; i < c.rank(v) - (last ? 1 : 0); ++i)
    axes.push_back(i);
  quantized(c, c.reduce(ReduceKind::mean, v, axes), 3, 4);
}

static void qLinearAveragePool(NodeContext &c) {
  Value v = real(c, 0, 1, 2);
  bool last = c.integer("channels_last", 0);
  if (c.rank(v) < 3)
    return c.invalid("its data have rank " + Twine(c.rank(v)));
  Window w = readWindow(c, c.rank(v) - 2);
  if (w.kernel.empty())
    return c.missing("kernel_shape");
  Value y =
      c.make<PoolOp>(PoolKind::average_pool, last ? v : c.toChannelsLast(v), w.kernel, w.strides, w.dilations, w.pads,
                     w.autoPad, bool(c.integer("ceil_mode", 0)), bool(c.integer("count_include_pad", 0)), 2);
  quantized(c, last ? y : c.toChannelsFirst(y), 3, 4);
}

/// y_scale, y_zero_point, then triples of data, scale and zero point.
static void qLinearConcat(NodeContext &c) {
  SmallVector<Value> parts;
  for (size_t i = 2; i + 2 < c.count(); i += 3)
    parts.push_back(real(c, i, i + 1, i + 2));
  if (parts.empty())
    return c.invalid("it has no data");
  Value y = c.concat(parts, c.axis(c.integer("axis", 0), c.rank(parts[0])));
  c.result(quantize(c, y, c.in(0), c.in(1), c.element(c.in(1))));
}

//===-- quantised products
//------------------------------------------------------------------------------------------===//

/// A scale or zero point of the right operand, one for all or one a column.
static void matMulIntegerToFloat(NodeContext &c) {
  Value a = c.in(0), b = c.in(1);
  Value sums =
      c.make<MatMulOp>(centred(c, a, given(c, 4), 0), centred(c, b, given(c, 5), std::max<int64_t>(c.rank(b) - 1, 0)));
  Value y = c.mul(c.cast(sums, c.element(c.in(2))), c.mul(c.in(2), c.in(3)));
  c.result(c.given(6) ? c.add(y, c.in(6)) : y);
}

/// The left operand is quantised from its own range.
static void dynamicQuantizeMatMul(NodeContext &c) {
  DynamicQuantization a = quantizeDynamically(c, c.in(0));
  Value b = c.in(1);
  Value sums = c.make<MatMulOp>(centred(c, a.values, a.zero, 0),
                                centred(c, b, given(c, 3), std::max<int64_t>(c.rank(b) - 1, 0)));
  Value y = c.mul(c.cast(sums, c.builder.getF32Type()), c.mul(a.scale, c.in(2)));
  c.result(c.given(4) ? c.add(y, c.in(4)) : y);
}

static void qGemm(NodeContext &c) {
  Value a = centred(c, c.in(0), given(c, 2), 0), b = c.in(3);
  bool transB = c.integer("transB", 0);
  b = centred(c, b, given(c, 5), transB ? 0 : 1);
  a = c.integer("transA", 0) ? c.swapLast(a) : a;
  Value sums = c.make<MatMulOp>(a, transB ? c.swapLast(b) : b);
  if (c.given(6))
    sums = c.add(sums, c.in(6));
  Value y = c.mul(c.mul(c.cast(sums, c.builder.getF32Type()), c.mul(c.in(1), c.in(4))), double(c.real("alpha", 1)));
  c.result(c.given(7) ? quantize(c, y, c.in(7), given(c, 8), c.element(c.in(8))) : y);
}

//===-- attention
//---------------------------------------------------------------------------------------------------===//

/// q, k and v of [B, S, heads * D]; bias is added to the scores.
static Value attend(NodeContext &c, Value q, Value k, Value v, Value bias, int64_t heads) {
  auto split = [&](Value x) { return c.transpose(c.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3}); };
  q = split(q), k = split(k), v = split(v);
  int64_t size = c.dim(q, 3);
  if (!c.has("scale") && ShapedType::isDynamic(size))
    return c.unsupported("the head size is not known"), q;
  double scale = c.real("scale", 0);
  Value scores = c.make<MatMulOp>(c.mul(q, scale != 0 ? scale : 1 / std::sqrt(double(size))), c.swapLast(k));
  if (bias)
    scores = c.add(scores, bias);
  if (c.integer("unidirectional", 0)) {
    Value row = c.unsqueeze(c.range(c.dimOf(q, 2)), 1), column = c.unsqueeze(c.range(c.dimOf(k, 2)), 0);
    scores = c.select(c.binary(BinaryKind::le, column, row), scores, c.scalar(-INFINITY, scores));
  }
  Value y = c.make<MatMulOp>(c.make<SoftmaxOp>(scores, 3, false), v);
  return c.reshape(c.transpose(y, {0, 2, 1, 3}), {0, 0, -1});
}

static bool refuse(NodeContext &c, std::initializer_list<std::pair<size_t, const char *>> inputs) {
  for (auto [i, name] : inputs)
    if (c.given(i))
      return c.unsupported("input " + Twine(name)), true;
  return false;
}

/// What to add to scores [B, heads, S, T] of `batch` rows: a mask of lengths [B], of keys [B, T], or of queries and
/// keys [B, S, T]; what is masked gets mask_filter_value.
static Value biasOfMask(NodeContext &c, Value mask, Value keys) {
  int64_t rank = c.rank(mask), rows = c.dim(mask, 0), batch = c.dim(keys, 0);
  if (rank < 1 || rank > 3)
    return c.unsupported("a mask of rank " + Twine(rank)), nullptr;
  if (rank == 1 && (ShapedType::isDynamic(rows) || rows != batch))
    return c.unsupported("a mask of other than one length a row"), nullptr;
  Value masked;
  if (rank == 1)
    masked = c.binary(BinaryKind::ge, c.cast(c.range(c.dimOf(keys, 1)), c.element(mask)), c.unsqueeze(mask, {1, 2, 3}));
  else if (rank == 2)
    masked = c.binary(BinaryKind::eq, c.unsqueeze(mask, {1, 2}), 0.0);
  else
    masked = c.binary(BinaryKind::eq, c.unsqueeze(mask, 1), 0.0);
  return c.select(masked, c.scalar(c.real("mask_filter_value", -10000), keys), c.scalar(0, keys));
}

/// The sum of two biases, each of which may be null.
static Value both(NodeContext &c, Value a, Value b) { return a && b ? c.add(a, b) : a ? a : b; }

/// One product gives q, k and v side by side.
static void attention(NodeContext &c) {
  if (refuse(c, {{4, "past"}, {6, "past_sequence_length"}}))
    return;
  if (c.integer("do_rotary", 0))
    return c.unsupported("do_rotary");
  Value all = c.make<MatMulOp>(c.in(0), c.in(1));
  if (c.given(2))
    all = c.add(all, c.in(2));
  int64_t last = c.rank(all) - 1, width = c.dim(all, last);
  if (ShapedType::isDynamic(width))
    return c.unsupported("weights of unknown dims");
  auto widths = c.integers("qkv_hidden_sizes").value_or(SmallVector<int64_t>(3, width / 3));
  if (widths.size() != 3 || widths[0] + widths[1] + widths[2] != width)
    return c.invalid("qkv_hidden_sizes do not add up to " + Twine(width));
  Value parts[3];
  for (int64_t i = 0, at = 0; i < 3; at += widths[i++])
    parts[i] = c.slice(all, last, at, at + widths[i]);
  Value mask = c.given(3) ? biasOfMask(c, c.in(3), parts[1]) : nullptr;
  if (c)
    c.result(attend(c, parts[0], parts[1], parts[2], both(c, mask, given(c, 5)), c.integer("num_heads", 1)));
}

static void multiHeadAttention(NodeContext &c) {
  if (refuse(c, {{6, "past_key"}, {7, "past_value"}}))
    return;
  if (!c.given(1) || !c.given(2) || c.rank(c.in(0)) != 3 || c.rank(c.in(1)) != 3 || c.rank(c.in(2)) != 3)
    return c.unsupported("packed query, key and value");
  Value inputs[3] = {c.in(0), c.in(1), c.in(2)};
  if (c.given(3)) {
    if (ShapedType::isDynamic(c.dim(c.in(3), 0)))
      return c.unsupported("a bias of unknown size");
    for (int64_t i = 0, at = 0; i < 3; ++i) {
      int64_t width = c.dim(inputs[i], 2);
      if (ShapedType::isDynamic(width))
        return c.unsupported("a bias for data of unknown width");
      inputs[i] = c.add(inputs[i], c.slice(c.in(3), 0, at, at + width));
      at += width;
    }
  }
  Value mask = c.given(4) ? biasOfMask(c, c.in(4), inputs[1]) : nullptr;
  if (c)
    c.result(attend(c, inputs[0], inputs[1], inputs[2], both(c, mask, given(c, 5)), c.integer("num_heads", 1)));
}

/// BERT's first layer: word, position and segment rows added and normalised; and how many positions the mask has.
static void embedLayerNorm(NodeContext &c) {
  Value ids = c.in(0), words = c.make<GatherOp>(c.in(2), ids, 0);
  Value positions = c.given(8) ? c.in(8) : c.unsqueeze(c.range(c.dimOf(ids, 1)), 0);
  Value sum = c.add(words, c.make<GatherOp>(c.in(3), positions, 0));
  if (c.given(4) && c.given(1))
    sum = c.add(sum, c.make<GatherOp>(c.in(4), c.in(1), 0));
  Value y = c.make<LayerNormOp>(sum, c.in(5), c.in(6), 2, llvm::APFloat(c.real("epsilon", 1e-12f)), false);
  Type i32 = c.builder.getI32Type();
  Value none = c.fill(c.shape({c.dimOf(ids, 0)}), makeScalar(c.builder, c.loc, i32, 0));
  c.results = {y, c.given(7) ? c.cast(c.reduce(ReduceKind::sum, c.in(7), 1, false), i32) : none, sum};
}

//===-- others
//------------------------------------------------------------------------------------------------------===//

/// Channels last, optionally with SiLU.
static void groupNorm(NodeContext &c) {
  if (!c.integer("channels_last", 1))
    return c.unsupported("channels_last is 0");
  Value y =
      c.make<GroupNormOp>(c.in(0), c.in(1), c.in(2), c.integer("groups", 1), llvm::APFloat(c.real("epsilon", 1e-5f)));
  c.result(c.integer("activation", 0) ? c.unary(UnaryKind::silu, y) : y);
}

static void biasAdd(NodeContext &c) { c.result(c.add(c.add(c.in(0), c.in(1)), c.in(2))); }

/// Half of the channels gate the other half.
static void biasSplitGelu(NodeContext &c) {
  Value v = c.add(c.in(0), c.in(1));
  int64_t last = c.rank(v) - 1, width = c.dim(v, last);
  if (ShapedType::isDynamic(width))
    return c.unsupported("data of unknown width");
  c.result(c.mul(c.slice(v, last, 0, width / 2), c.unary(UnaryKind::gelu, c.slice(v, last, width / 2, width))));
}

void mrcc::addContrib(HandlerTable &t) {
  t.add("QLinearAdd", qLinearBinary<BinaryKind::add>, domain);
  t.add("QLinearMul", qLinearBinary<BinaryKind::mul>, domain);
  t.add("QLinearSigmoid", qLinearSigmoid, domain);
  t.add("QLinearLeakyRelu", qLinearLeakyRelu, domain);
  t.add("QLinearGlobalAveragePool", qLinearGlobalAveragePool, domain);
  t.add("QLinearAveragePool", qLinearAveragePool, domain);
  t.add("QLinearConcat", qLinearConcat, domain);
  t.add("MatMulIntegerToFloat", matMulIntegerToFloat, domain);
  t.add("DynamicQuantizeMatMul", dynamicQuantizeMatMul, domain);
  t.add("QGemm", qGemm, domain);
  t.add("Attention", attention, domain);
  t.add("EmbedLayerNormalization", embedLayerNorm, domain);
  t.add("MultiHeadAttention", multiHeadAttention, domain);
  t.add("GroupNorm", groupNorm, domain);
  t.add("BiasAdd", biasAdd, domain);
  t.add("BiasSplitGelu", biasSplitGelu, domain);
}
