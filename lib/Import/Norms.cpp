// Normalisations.
#include "Node.h"

using namespace mlir;
using namespace mrcc;

static llvm::APFloat epsilon(NodeContext &c) { return llvm::APFloat(c.real("epsilon", 1e-5f)); }

static void batchNorm(NodeContext &c) {
  Value x = c.in(0);
  if (c.opset >= 14 && c.integer("training_mode", 0))
    return c.unsupported("training_mode is 1");
  if (c.opset < 7 && !c.integer("is_test", 0))
    return c.unsupported("is_test is 0, training");
  if (c.opset < 9 && !c.integer("spatial", 1))
    return c.unsupported("spatial is 0");
  for (size_t i = 1; i < 5; ++i)
    if (c.wants(i) && c.opset >= 14)
      return c.unsupported("output " + Twine(i) + ", training");
  if (c.rank(x) < 2)
    return c.invalid("its data have rank " + Twine(c.rank(x)));
  Value v = c.make<BatchNormOp>(c.toChannelsLast(x), c.in(1), c.in(2), c.in(3), c.in(4), epsilon(c));
  c.result(c.toChannelsFirst(v));
}

static Value groupNorm(NodeContext &c, Value x, Value scale, Value bias, int64_t groups) {
  return c.toChannelsFirst(c.make<GroupNormOp>(c.toChannelsLast(x), scale, bias, groups, epsilon(c)));
}

static void instanceNorm(NodeContext &c) {
  Value x = c.in(0), scale = c.in(1);
  int64_t channels = c.dim(scale, 0);
  if (ShapedType::isDynamic(channels))
    channels = c.dim(x, 1);
  if (ShapedType::isDynamic(channels) || c.rank(x) < 2)
    return c.unsupported("the number of channels is not known");
  c.result(groupNorm(c, x, scale, c.in(2), channels));
}

static void groupNormalization(NodeContext &c) {
  Value x = c.in(0);
  int64_t groups = c.integer("num_groups", 0), channels = c.dim(x, 1);
  if (groups < 1)
    return c.invalid("num_groups is " + Twine(groups));
  auto perChannel = [&](Value v) { // opset 18 has one value a group
    if (c.opset >= 21)
      return v;
    Value wide = c.make<ExpandOp>(c.unsqueeze(v, 1), c.constant({groups, channels / groups}));
    return c.reshape(wide, {channels});
  };
  if (ShapedType::isDynamic(channels) && c.opset < 21)
    return c.unsupported("the number of channels is not known");
  c.result(groupNorm(c, x, perChannel(c.in(1)), perChannel(c.in(2)), groups));
}

static SmallVector<int64_t> trailing(int64_t axis, int64_t rank) {
  SmallVector<int64_t> axes;
  for (int64_t i = axis; i < rank; ++i)
    axes.push_back(i);
  return axes;
}

static void layerNorm(NodeContext &c) {
  Value x = c.in(0);
  int64_t rank = c.rank(x), axis = c.axis(c.integer("axis", -1), rank);
  c.result(c.make<LayerNormOp>(x, c.in(1), c.optional(2), axis, epsilon(c), false));
  if (!c.wants(1) && !c.wants(2))
    return;
  auto axes = trailing(axis, rank); // statistics as outputs: rare, so made apart
  Type stash = c.toElement(c.integer("stash_type", 1));
  Value wide = c.cast(x, stash), mean = c.reduce(ReduceKind::mean, wide, axes);
  Value off = c.sub(wide, mean), variance = c.reduce(ReduceKind::mean, c.mul(off, off), axes);
  c.result(mean);
  c.result(c.unary(UnaryKind::reciprocal, c.unary(UnaryKind::sqrt, c.add(variance, double(c.real("epsilon", 1e-5f))))));
}

static void rmsNorm(NodeContext &c) {
  Value x = c.in(0);
  c.result(c.make<LayerNormOp>(x, c.in(1), c.none(), c.axis(c.integer("axis", -1), c.rank(x)), epsilon(c), true));
}

/// com.microsoft: (x + skip + bias) normalised; the sum is an output, too.
template <bool rms> static void skipLayerNorm(NodeContext &c) {
  Value sum = c.add(c.in(0), c.in(1));
  size_t bias = rms ? 3 : 4;
  if (c.given(bias))
    sum = c.add(sum, c.in(bias));
  if (c.wants(1) || c.wants(2))
    return c.unsupported("outputs mean and inv_std_var");
  Value y = c.make<LayerNormOp>(sum, c.in(2), rms ? c.none() : c.optional(3), c.rank(sum) - 1, epsilon(c), rms);
  c.results = {y, sum, sum, sum};
}

static void lpNorm(NodeContext &c) {
  Value x = c.in(0);
  int64_t p = c.integer("p", 2), axis = c.axis(c.integer("axis", -1), c.rank(x));
  if (p != 1 && p != 2)
    return c.invalid("p is " + Twine(p));
  Value norm = c.reduce(p == 1 ? ReduceKind::l1 : ReduceKind::l2, x, axis);
  c.result(c.div(x, c.select(c.binary(BinaryKind::eq, norm, 0.0), c.scalar(1, norm), norm))); // zeros stay zeros
}

static void meanVarianceNorm(NodeContext &c) {
  Value x = c.in(0);
  auto axes = c.axes(c.integers("axes").value_or(SmallVector<int64_t>{0, 2, 3}), c.rank(x));
  Value off = c.sub(x, c.reduce(ReduceKind::mean, x, axes));
  Value deviation = c.unary(UnaryKind::sqrt, c.reduce(ReduceKind::mean, c.mul(off, off), axes));
  c.result(c.div(off, c.add(deviation, 1e-9)));
}

/// x / (bias + alpha / size * sum of squares of `size` channels)^beta. The sum is an average pool along the channels,
/// which become the window's dimension: [N, C, rest] is [N, spatial, channels] of a pool.
static void lrn(NodeContext &c) {
  Value x = c.in(0);
  int64_t size = c.integer("size", 0), rank = c.rank(x);
  if (size < 1 || size > INT16_MAX || rank < 2)
    return c.invalid("size " + Twine(size) + ", rank " + Twine(rank));
  SmallVector<Extent> dims, rest;
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back(c.dimOf(x, i));
  rest.append(dims.begin() + 2, dims.end());
  Value squares = c.reshapeTo(c.mul(x, x), {dims[0], dims[1], c.product(rest)});
  SmallVector<int64_t> one{1}, kernel{size}, pads{(size - 1) / 2, size / 2};
  Value mean = c.make<PoolOp>(PoolKind::average_pool, squares, kernel, one, one, pads, "explicit", false, true, 2);
  Value base = c.add(c.mul(c.reshapeTo(mean, dims), double(c.real("alpha", 1e-4f))), double(c.real("bias", 1)));
  c.result(c.div(x, c.binary(BinaryKind::pow, base, double(c.real("beta", 0.75f)))));
}

void mrcc::addNorms(HandlerTable &t) {
  t.add("BatchNormalization", batchNorm);
  t.add("InstanceNormalization", instanceNorm);
  t.add("GroupNormalization", groupNormalization);
  t.add("LayerNormalization", layerNorm);
  t.add("SimplifiedLayerNormalization", rmsNorm);
  t.add("RMSNormalization", rmsNorm);
  t.add("SkipLayerNormalization", skipLayerNorm<false>, "com.microsoft");
  t.add("SkipSimplifiedLayerNormalization", skipLayerNorm<true>, "com.microsoft");
  t.add("LpNormalization", lpNorm);
  t.add("MeanVarianceNormalization", meanVarianceNorm);
  t.add("LRN", lrn);
}
