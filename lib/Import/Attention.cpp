// Attention, rotary embeddings and their relatives, spelt in matmul, softmax and element-wise ops; fuse-attention finds
// the pattern.
#include "Node.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// [B, S, heads * D] -> [B, heads, S, D].
static Value splitHeads(NodeContext &c, Value v, int64_t heads) {
  return c.transpose(c.reshape(v, {0, 0, heads, -1}), {0, 2, 1, 3});
}

/// [B, heads, S, D] -> [B, S, heads * D].
static Value joinHeads(NodeContext &c, Value v) { return c.reshape(c.transpose(v, {0, 2, 1, 3}), {0, 0, -1}); }

/// Grouped queries: each head of [B, H, S, D] serves `times` heads in a row.
static Value repeatHeads(NodeContext &c, Value v, int64_t times) {
  if (times == 1)
    return v;
  Extent b = c.dimOf(v, 0), h = c.dimOf(v, 1), s = c.dimOf(v, 2), d = c.dimOf(v, 3);
  Value wide = c.make<ExpandOp>(c.unsqueeze(v, 2), c.shape({b, h, times, s, d}));
  return c.reshapeTo(wide, {b, c.product({h, times}), s, d});
}

/// How many query heads share one key head; 0 after a failure.
static int64_t groupSize(NodeContext &c, int64_t queries, int64_t keys) {
  if (queries == keys)
    return 1;
  if (ShapedType::isDynamic(queries) || ShapedType::isDynamic(keys))
    return c.unsupported("the number of heads is not known"), 0;
  if (keys < 1 || queries % keys)
    return c.invalid(Twine(queries) + " query heads are not a multiple of " + Twine(keys) + " key heads"), 0;
  return queries / keys;
}

/// 0 where allowed, -infinity elsewhere.
static Value biasOf(NodeContext &c, Value allowed, Value like) {
  return c.select(allowed, c.scalar(0, like), c.scalar(-infinity, like));
}

namespace {
/// The additive bias of an Attention node's scores [B, H, M, N], null where everything is allowed.
struct Masks {
  NodeContext &c;
  Value q, k; // [B, H, S, D], the past included
  Value bias = nullptr;

  void add(Value more) { bias = bias ? c.add(bias, more) : more; }

  void given(Value mask) {
    int64_t have = c.dim(mask, c.rank(mask) - 1), want = c.dim(k, 2);
    mask = c.element(mask).isInteger(1) ? biasOf(c, mask, q) : c.cast(mask, c.element(q));
    if (!ShapedType::isDynamic(have) && !ShapedType::isDynamic(want) && have < want) { // what is missing is masked
      SmallVector<int64_t> pads(2 * c.rank(mask), 0);
      pads.back() = want - have;
      mask = c.make<PadOp>(PadMode::constant, mask, c.constant(pads), c.scalar(-infinity, mask), c.none());
    }
    add(mask);
  }

  /// Query i stands at position i + offset; it sees keys from `left` positions before to `right` after (-1: all).
  void window(Value offset, bool causal, int64_t left, int64_t right) {
    if (!causal && left < 0 && right < 0)
      return;
    Value at = c.unsqueeze(c.range(c.dimOf(q, 2)), 1), key = c.unsqueeze(c.range(c.dimOf(k, 2)), 0);
    Value ahead = c.sub(offset ? c.add(at, offset) : at, key); // how far the key lies back
    auto limit = [&](Value allowed) { add(biasOf(c, allowed, q)); };
    if (causal)
      limit(c.binary(BinaryKind::ge, ahead, 0.0));
    if (left >= 0)
      limit(c.binary(BinaryKind::le, ahead, double(left)));
    if (right >= 0)
      limit(c.binary(BinaryKind::ge, ahead, -double(right)));
  }

  void lengths(Value valid) { // [B]: so many keys are no padding
    add(biasOf(c, c.binary(BinaryKind::lt, c.range(c.dimOf(k, 2)), c.unsqueeze(valid, {1, 2, 3})), q));
  }
};
} // namespace

static void attention(NodeContext &c) {
  Value q = c.in(0), k = c.in(1), v = c.in(2);
  bool packed = c.rank(q) == 3;
  int64_t queryHeads = c.integer("q_num_heads", 0), keyHeads = c.integer("kv_num_heads", 0);
  if (packed) {
    if (queryHeads < 1 || keyHeads < 1)
      return c.invalid("q_num_heads or kv_num_heads is missing");
    q = splitHeads(c, q, queryHeads), k = splitHeads(c, k, keyHeads), v = splitHeads(c, v, keyHeads);
  }
  if (!c || c.rank(q) != 4 || c.rank(k) != 4 || c.rank(v) != 4)
    return c.invalid("q, k and v must have rank 3 or 4");
  Value pastOffset;
  if (c.given(4) && c.given(5)) {
    pastOffset = c.shape({c.dimOf(c.in(4), 2)});
    k = c.concat({c.in(4), k}, 2);
    v = c.concat({c.in(5), v}, 2);
  }
  Value presentKey = k, presentValue = v;
  Masks masks{c, q, k};
  if (c.given(3))
    masks.given(c.in(3));
  Value valid = c.given(6) ? c.cast(c.in(6), c.builder.getI64Type()) : nullptr;
  Value offset = pastOffset;
  if (!offset && valid)
    offset = c.unsqueeze(c.sub(valid, c.number(c.dimOf(q, 2), c.builder.getI64Type())), {1, 2, 3});
  masks.window(offset, c.integer("is_causal", 0), c.integer("left_window_size", -1),
               c.integer("right_window_size", -1));
  if (valid)
    masks.lengths(valid);

  int64_t group = groupSize(c, c.dim(q, 1), c.dim(k, 1)), size = c.dim(q, 3);
  if (!c.has("scale") && ShapedType::isDynamic(size))
    return c.unsupported("the head size is not known");
  if (!group)
    return;
  double scale = c.real("scale", 0);
  if (!c.has("scale"))
    scale = 1 / std::sqrt(double(size));
  Value scores = c.make<MatMulOp>(c.mul(q, scale), c.swapLast(repeatHeads(c, k, group)));
  Value raw = scores;
  if (double cap = c.real("softcap", 0); cap > 0)
    scores = c.mul(c.unary(UnaryKind::tanh, c.div(scores, cap)), cap);
  Value capped = scores;
  if (masks.bias)
    scores = c.add(scores, masks.bias);
  Value biased = scores,
        wide = c.has("softmax_precision") ? c.cast(scores, c.toElement(c.integer("softmax_precision", 1))) : scores;
  Value probabilities = c.make<SoftmaxOp>(wide, 3, false);
  if (masks.bias) { // a row that sees nothing gives zeros
    Value best = c.reduce(ReduceKind::max, masks.bias, c.rank(masks.bias) - 1);
    probabilities = c.select(c.binary(BinaryKind::eq, best, -infinity), c.scalar(0, probabilities), probabilities);
  }
  probabilities = c.cast(probabilities, c.element(q));
  Value y = c.make<MatMulOp>(probabilities, repeatHeads(c, v, group));
  const Value modes[] = {raw, capped, biased, probabilities};
  int64_t mode = c.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return c.invalid("qk_matmul_output_mode is " + Twine(mode));
  c.results = {packed ? joinHeads(c, y) : y, presentKey, presentValue, modes[mode]};
}

/// Scores and probabilities go through subgraphs.
static void flexAttention(NodeContext &c) {
  Value q = c.in(0), k = c.in(1), v = c.in(2);
  if (c.rank(q) != 4 || c.rank(k) != 4 || c.rank(v) != 4)
    return c.invalid("q, k and v must have rank 4");
  int64_t group = groupSize(c, c.dim(q, 1), c.dim(k, 1)), size = c.dim(q, 3);
  if (!c.has("scale") && ShapedType::isDynamic(size))
    return c.unsupported("the head size is not known");
  if (!group)
    return;
  double scale = c.has("scale") ? double(c.real("scale", 0)) : 1 / std::sqrt(double(size));
  Type precision = c.element(q).isF64() ? c.element(q) : c.builder.getF32Type();
  if (c.has("softmax_precision"))
    precision = c.toElement(c.integer("softmax_precision", 1));
  auto modify = [&](StringRef name, Value v) {
    const onnx::Attribute *a = c.attribute(name);
    if (!a || !a->g)
      return v;
    auto values = c.body(*a->g, v);
    return values.size() == 1 ? values[0] : v;
  };
  Value scores = c.make<MatMulOp>(c.mul(q, scale), c.swapLast(repeatHeads(c, k, group)));
  scores = modify("score_mod", c.cast(scores, precision));
  Value probabilities = modify("prob_mod", c.make<SoftmaxOp>(scores, 3, false));
  c.result(c.cast(c.make<MatMulOp>(probabilities, c.cast(repeatHeads(c, v, group), precision)), c.element(v)));
}

/// Rotates pairs of features by an angle that depends on the position. x is [B, S, heads * D] or [B, heads, S, D];
/// sines and cosines are tables [positions, rotated / 2] where `positions` ([B or 1, S]) is given, else of
/// [B, S, rotated / 2].
static void rotate(NodeContext &c, Value x, Value cosines, Value sines, Value positions, int64_t heads) {
  bool packed = c.rank(x) == 3, interleaved = c.integer("interleaved", 0);
  if (packed && heads < 1)
    return c.missing("num_heads");
  if (packed)
    x = splitHeads(c, x, heads);
  int64_t size = c.dim(x, 3), rotated = c.integer("rotary_embedding_dim", 0);
  if (ShapedType::isDynamic(size) || c.rank(x) != 4)
    return c.unsupported("the head size is not known");
  rotated = rotated ? rotated : size;
  if (rotated < 2 || rotated % 2 || rotated > size)
    return c.invalid("rotary_embedding_dim is " + Twine(rotated) + ", the head size " + Twine(size));
  if (positions) {
    cosines = c.make<GatherOp>(cosines, positions, 0);
    sines = c.make<GatherOp>(sines, positions, 0);
  }
  cosines = c.unsqueeze(cosines, 1), sines = c.unsqueeze(sines, 1); // [B, 1, S, rotated / 2]
  Value part = rotated == size ? x : c.slice(x, 3, 0, rotated);
  Value a = interleaved ? c.slice(part, 3, 0, rotated, 2) : c.slice(part, 3, 0, rotated / 2);
  Value b = interleaved ? c.slice(part, 3, 1, rotated, 2) : c.slice(part, 3, rotated / 2, rotated);
  Value real = c.sub(c.mul(cosines, a), c.mul(sines, b)), imaginary = c.add(c.mul(sines, a), c.mul(cosines, b));
  Value y = interleaved ? c.reshape(c.concat({c.unsqueeze(real, 4), c.unsqueeze(imaginary, 4)}, 4), {0, 0, 0, rotated})
                        : c.concat({real, imaginary}, 3);
  if (rotated != size)
    y = c.concat({y, c.slice(x, 3, rotated, size)}, 3);
  c.result(packed ? joinHeads(c, y) : y);
}

static void rotaryEmbedding(NodeContext &c) {
  rotate(c, c.in(0), c.in(1), c.in(2), c.given(3) ? c.in(3) : nullptr, c.integer("num_heads", 0));
}

/// com.microsoft: positions [B, S], or [1]: that of the first token.
static void msRotaryEmbedding(NodeContext &c) {
  Value x = c.in(0), positions = c.in(1), cosines = c.in(2);
  int64_t heads = c.integer("num_heads", 0), width = c.dim(x, c.rank(x) - 1), half = c.dim(cosines, 1);
  if (c.real("scale", 1) != 1 || c.integer("is_packed_batching", 0))
    return c.unsupported("scale or is_packed_batching");
  if (c.rank(x) == 3 && !heads && !ShapedType::isDynamic(width) && !ShapedType::isDynamic(half) && half > 0)
    heads = width / (2 * half);
  if (c.rank(positions) == 1)
    positions = c.unsqueeze(c.add(c.range(c.dimOf(x, c.rank(x) - 2)), positions), 0);
  rotate(c, x, cosines, c.in(3), positions, heads);
}

/// A state [B, H, dk, dv] is updated and read once a token; tokens are unrolled.
static void linearAttention(NodeContext &c) {
  std::string rule = c.text("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    return c.invalid("update_rule is '" + rule + "'");
  int64_t queryHeads = c.integer("q_num_heads", 0), heads = c.integer("kv_num_heads", 0);
  Type f32 = c.builder.getF32Type(), type = c.element(c.in(0));
  int64_t tokens = c.dim(c.in(0), 1), width = c.dim(c.in(0), 2), valueWidth = c.dim(c.in(2), 2);
  if (queryHeads < 1 || heads < 1 || queryHeads % heads || c.rank(c.in(0)) != 3)
    return c.invalid(Twine(queryHeads) + " query heads, " + Twine(heads) + " key heads, rank " +
                     Twine(c.rank(c.in(0))));
  if (ShapedType::isDynamic(tokens) || ShapedType::isDynamic(width) || ShapedType::isDynamic(valueWidth) ||
      tokens > 4096)
    return c.unsupported("the number of tokens is not known or above 4096");
  int64_t keySize = width / queryHeads;
  auto unpack = [&](Value v, int64_t n) { return splitHeads(c, c.cast(v, f32), n); };
  Value q = unpack(c.in(0), queryHeads), k = unpack(c.in(1), heads), v = unpack(c.in(2), heads);
  Value decay, beta;
  if (gated) {
    bool perHead = c.dim(c.in(4), 2) == heads;
    decay = c.unary(UnaryKind::exp, unpack(c.in(4), heads)); // [B, H, T, 1 or dk]
    if (!perHead && c.dim(c.in(4), 2) != heads * keySize)
      return c.invalid("decay has " + Twine(c.dim(c.in(4), 2)) + " values a token");
  }
  if (delta)
    beta = unpack(c.in(5), c.dim(c.in(5), 2) == 1 ? 1 : heads); // [B, H or 1, T, 1]
  Value state = c.given(3) ? c.cast(c.in(3), f32)
                           : c.fill(c.shape({c.dimOf(q, 0), heads, keySize, valueWidth / heads}),
                                    makeScalar(c.builder, c.loc, f32, 0));
  double scale = c.real("scale", 0);
  scale = scale == 0 ? 1 / std::sqrt(double(keySize)) : scale;
  SmallVector<Value> outputs;
  for (int64_t t = 0; t < tokens && c; ++t) {
    auto at = [&](Value all) { return c.slice(all, 2, t, t + 1); }; // [B, H, 1, D]
    Value key = c.swapLast(at(k)), value = at(v);                   // [B, H, dk, 1], [B, H, 1, dv]
    if (gated)
      state = c.mul(state, c.swapLast(at(decay)));
    if (delta)
      value = c.mul(at(beta), c.sub(value, c.make<MatMulOp>(at(k), state)));
    state = c.add(state, c.mul(key, value));
    outputs.push_back(c.mul(c.make<MatMulOp>(at(q), repeatHeads(c, state, queryHeads / heads)), scale));
  }
  if (outputs.empty())
    return c.unsupported("no tokens");
  Value all = outputs.size() == 1 ? outputs[0] : c.concat(outputs, 2);
  c.results = {c.cast(joinHeads(c, all), type), c.cast(state, c.given(3) ? c.element(c.in(3)) : type)};
}

/// A depthwise convolution along [B, C, length] that sees the past alone; its last inputs are the state.
static void causalConv(NodeContext &c) {
  Value x = c.in(0), weights = c.in(1);
  int64_t kernel = c.dim(weights, 2), channels = c.dim(weights, 0);
  if (c.rank(x) != 3 || ShapedType::isDynamic(kernel) || ShapedType::isDynamic(channels))
    return c.unsupported("rank " + Twine(c.rank(x)) + ", or weights of unknown dims");
  Value past = c.given(3) ? c.in(3) : c.fill(c.shape({c.dimOf(x, 0), channels, kernel - 1}), c.scalar(0, x));
  Value padded = c.concat({past, x}, 2);
  Value y = c.toChannelsFirst(c.make<ConvOp>(c.toChannelsLast(padded), weights, c.optional(2), ArrayRef<int64_t>{1},
                                             ArrayRef<int64_t>{1}, ArrayRef<int64_t>{0, 0}, channels, "explicit"));
  std::string activation = c.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = c.unary(UnaryKind::silu, y);
  else if (activation != "none")
    return c.invalid("activation is '" + activation + "'");
  Value state = kernel > 1 ? c.slice(padded, 2, -(kernel - 1), INT64_MAX) : past;
  c.results = {y, state};
}

void mrcc::addAttention(HandlerTable &t) {
  t.add("Attention", attention);
  t.add("FlexAttention", flexAttention, "ai.onnx.preview");
  t.add("RotaryEmbedding", rotaryEmbedding);
  t.add("RotaryEmbedding", msRotaryEmbedding, "com.microsoft");
  t.add("LinearAttention", linearAttention);
  t.add("CausalConvWithState", causalConv);
}
