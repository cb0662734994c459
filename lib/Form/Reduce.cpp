// Reductions and normalisations. Sums of f16 and bf16 run in f32.
#include "Lower.h"
#include <numeric>

using namespace mlir;
using namespace mrcc;

static SmallVector<int64_t> keptDims(RankedTensorType type, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> dims(type.getShape());
  for (int64_t axis : axes)
    dims[axis] = 1;
  return dims;
}

/// One pass over `input`: `pre` of each element, combined, then `post` of the reduced value and their number.
static Value reduceOnce(OpBuilder &b, Location loc, Value input, ArrayRef<int64_t> axes, StringRef combine,
                        llvm::function_ref<uint32_t(Expr &, uint32_t)> pre,
                        llvm::function_ref<uint32_t(Point &, uint32_t)> post, Value shift = nullptr) {
  Point p(b, loc);
  RankedTensorType type = typeOf(input);
  DType element = toDType(type.getElementType()), wide = sumType(element);
  uint32_t x = p.load(input);
  if (wide != element)
    x = p.body.cast(wide, x);
  if (shift) {
    uint32_t s = p.load(shift);
    x = p.body.binary(BinaryKind::sub, x, wide != element ? p.body.cast(wide, s) : s);
  }
  x = pre(p.body, x);
  auto result = RankedTensorType::get(keptDims(type, axes), type.getElementType());
  return p
      .reduce(result, type.getShape(), axes, combine, x,
              [&](uint32_t acc) {
                uint32_t r = post(p, acc);
                return wide != element ? p.body.cast(element, r) : r;
              })
      .getResult(0);
}

FailureOr<Value> mrcc::lowerReduce(ReduceOp op, OpBuilder &b) {
  Location loc = op.getLoc();
  RankedTensorType type = typeOf(op.getInput());
  ArrayRef<int64_t> axes = op.getAxes();
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= type.getDimSize(axis);
  auto same = [](Expr &, uint32_t x) { return x; };
  auto keep = [](Point &, uint32_t x) { return x; };
  auto square = [](Expr &e, uint32_t x) { return e.binary(BinaryKind::mul, x, x); };
  auto magnitude = [](Expr &e, uint32_t x) { return e.unary(UnaryKind::abs, x); };
  auto unary = [](UnaryKind kind) { return [kind](Point &p, uint32_t x) { return p.body.unary(kind, x); }; };
  auto once = [&](StringRef combine, auto pre, auto post) {
    return reduceOnce(b, loc, op.getInput(), axes, combine, pre, post);
  };
  auto mean = [&](Point &p, uint32_t x) {
    DType t = p.body.nodes[x].type;
    uint32_t n = p.immediate(int64_t(count));
    return p.body.binary(BinaryKind::div, x, t == DType::i64 ? n : p.body.cast(t, n));
  };
  Value r;
  switch (op.getKind()) {
  case ReduceKind::sum:
    r = once("sum", same, keep);
    break;
  case ReduceKind::mean:
    r = once("sum", same, mean);
    break;
  case ReduceKind::max:
    r = once("max", same, keep);
    break;
  case ReduceKind::min:
    r = once("min", same, keep);
    break;
  case ReduceKind::prod:
    r = once("prod", same, keep);
    break;
  case ReduceKind::sum_square:
    r = once("sum", square, keep);
    break;
  case ReduceKind::l1:
    r = once("sum", magnitude, keep);
    break;
  case ReduceKind::l2: {
    bool integer = !isa<FloatType>(type.getElementType());
    r = once("sum", square, [&](Point &p, uint32_t x) {
      if (!integer)
        return p.body.unary(UnaryKind::sqrt, x);
      DType t = p.body.nodes[x].type;
      return p.body.cast(t, p.body.unary(UnaryKind::sqrt, p.body.cast(DType::f64, x)));
    });
    break;
  }
  case ReduceKind::log_sum:
    r = once("sum", same, unary(UnaryKind::log));
    break;
  case ReduceKind::log_sum_exp: {
    // exp(x - max) cannot overflow. A maximum that is infinite would give inf - inf: shift by 0 there.
    Value top = once("max", same, [](Point &p, uint32_t x) {
      DType t = p.body.nodes[x].type;
      uint32_t infinite = p.body.binary(BinaryKind::eq, p.body.binary(BinaryKind::sub, x, x), p.body.constant(t, 0));
      return p.body.select(infinite, x, p.body.constant(t, 0));
    });
    Value sum = reduceOnce(
        b, loc, op.getInput(), axes, "sum", [](Expr &e, uint32_t x) { return e.unary(UnaryKind::exp, x); },
        unary(UnaryKind::log), top);
    Point p(b, loc);
    uint32_t x = p.load(sum), y = p.load(top);
    r = p.loop(typeOf(sum), p.body.binary(BinaryKind::add, x, y)).getResult(0);
    break;
  }
  }
  return createReshape(b, loc, r, typeOf(op.getOutput()).getShape());
}

FailureOr<Value> mrcc::lowerArgReduce(ArgReduceOp op, OpBuilder &b) {
  // Two accumulators, value and index; of equal values the first (or last) index stays.
  Location loc = op.getLoc();
  RankedTensorType type = typeOf(op.getInput());
  Point p(b, loc);
  uint32_t x = p.load(op.getInput()), i = p.body.iter(op.getAxis());
  uint32_t acc = p.body.acc(DType::i64, 1);
  p.body.results = {x, i, acc};
  std::string combine = std::string(op.getIsMax() ? "argmax" : "argmin") + (op.getSelectLast() ? "_last" : "");
  LaunchConfig config(b.getContext());
  config.set("extents", type.getShape()).set("reduce", op.getAxis()).set("combine", combine);
  auto result = RankedTensorType::get(keptDims(type, {int64_t(op.getAxis())}), b.getI64Type());
  Value r = createLaunch(b, loc, result, p.inputs, "loop", config, p.body).getResult(0);
  return createReshape(b, loc, r, typeOf(op.getOutput()).getShape());
}

static int64_t floatBits(APFloat value) {
  float f = value.convertToFloat();
  int32_t bits;
  std::memcpy(&bits, &f, sizeof f);
  return bits;
}

/// Broadcasts an optional scale or bias of `dims` to the rank of `like`, or gives none.
static void pushOptional(SmallVectorImpl<Value> &inputs, OpBuilder &b, Location loc, Value v, RankedTensorType like) {
  if (isa<NoneType>(v.getType()))
    return;
  SmallVector<int64_t> dims(like.getRank() - typeOf(v).getRank(), 1);
  llvm::append_range(dims, typeOf(v).getShape());
  inputs.push_back(createReshape(b, loc, v, dims));
}

/// The scheduled families take f32; other types run as loops.
static bool isScheduled(StringRef family, Value v) {
  return KernelFamily::find(family) && typeOf(v).getElementType().isF32();
}

static uint32_t keep(Point &, uint32_t x) { return x; }
static uint32_t same(Expr &, uint32_t x) { return x; }

/// Values of a point in the type that is computed in: f16 and bf16 in f32.
struct Wide {
  Point &p;
  DType type, wide;
  Wide(Point &p, Value like) : p(p), type(toDType(typeOf(like).getElementType())), wide(sumType(type)) {}
  uint32_t load(Value v) {
    uint32_t x = p.load(v);
    return p.body.nodes[x].type == wide ? x : p.body.cast(wide, x);
  }
  Value loop(RankedTensorType result, uint32_t x) {
    return p.loop(result, wide == type ? x : p.body.cast(type, x)).getResult(0);
  }
};

static Value softmaxByLoops(SoftmaxOp op, OpBuilder &b) {
  Location loc = op.getLoc();
  Value x = op.getInput();
  SmallVector<int64_t> axes{int64_t(op.getAxis())};
  Value top = reduceOnce(b, loc, x, axes, "max", same, keep);
  Value sum =
      reduceOnce(b, loc, x, axes, "sum", [](Expr &e, uint32_t v) { return e.unary(UnaryKind::exp, v); }, keep, top);
  Point p(b, loc);
  Wide w(p, x);
  uint32_t shifted = p.body.binary(BinaryKind::sub, w.load(x), w.load(top)), total = w.load(sum);
  uint32_t y = op.getLog() ? p.body.binary(BinaryKind::sub, shifted, p.body.unary(UnaryKind::log, total))
                           : p.body.binary(BinaryKind::div, p.body.unary(UnaryKind::exp, shifted), total);
  return w.loop(typeOf(op.getOutput()), y);
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias over `axes`; operands broadcast, scale and bias may be null.
static Value normaliseByLoops(OpBuilder &b, Location loc, Value x, ArrayRef<int64_t> axes, APFloat epsilon, bool rms,
                              Value scale, Value bias) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= typeOf(x).getDimSize(axis);
  auto mean = [&](Point &p, uint32_t v) {
    return p.body.binary(BinaryKind::div, v, p.body.cast(p.body.nodes[v].type, p.immediate(count)));
  };
  auto square = [](Expr &e, uint32_t v) { return e.binary(BinaryKind::mul, v, v); };
  Value center = rms ? nullptr : reduceOnce(b, loc, x, axes, "sum", same, mean);
  Value variance = reduceOnce(b, loc, x, axes, "sum", square, mean, center);
  Point p(b, loc);
  Wide w(p, x);
  uint32_t y = w.load(x);
  if (center)
    y = p.body.binary(BinaryKind::sub, y, w.load(center));
  uint32_t root = p.body.binary(BinaryKind::add, w.load(variance), p.body.constant(w.wide, epsilon.convertToFloat()));
  y = p.body.binary(BinaryKind::div, y, p.body.unary(UnaryKind::sqrt, root));
  if (scale)
    y = p.body.binary(BinaryKind::mul, y, w.load(scale));
  if (bias)
    y = p.body.binary(BinaryKind::add, y, w.load(bias));
  return w.loop(typeOf(x), y);
}

static Value presentOrNull(Value v) { return isa<NoneType>(v.getType()) ? nullptr : v; }

static Value groupNormByLoops(GroupNormOp op, OpBuilder &b) {
  Location loc = op.getLoc();
  RankedTensorType type = typeOf(op.getInput());
  int64_t groups = op.getGroups(), channels = type.getShape().back();
  SmallVector<int64_t> dims(type.getShape().drop_back()), axes;
  for (int64_t i = 1; i < int64_t(dims.size()); ++i)
    axes.push_back(i);
  axes.push_back(dims.size() + 1);
  dims.push_back(groups);
  dims.push_back(channels / groups);
  auto split = [&](Value v) { return v ? createReshape(b, loc, v, {groups, channels / groups}) : v; };
  Value y = normaliseByLoops(b, loc, createReshape(b, loc, op.getInput(), dims), axes, op.getEpsilon(), false,
                             split(presentOrNull(op.getScale())), split(presentOrNull(op.getBias())));
  return createReshape(b, loc, y, type.getShape());
}

FailureOr<Value> mrcc::lowerSoftmax(SoftmaxOp op, OpBuilder &b) {
  if (!isScheduled("softmax", op.getInput()))
    return softmaxByLoops(op, b);
  LaunchConfig config(b.getContext());
  config.set("axis", op.getAxis()).set("log", op.getLog());
  return createLaunch(b, op.getLoc(), op.getType(), {op.getInput()}, "softmax", config, {}).getResult(0);
}

FailureOr<Value> mrcc::lowerLayerNorm(LayerNormOp op, OpBuilder &b) {
  if (!isScheduled("layer_norm", op.getInput())) {
    SmallVector<int64_t> axes;
    for (int64_t i = op.getAxis(); i < typeOf(op.getInput()).getRank(); ++i)
      axes.push_back(i);
    return normaliseByLoops(b, op.getLoc(), op.getInput(), axes, op.getEpsilon(), op.getRms(),
                            presentOrNull(op.getScale()), presentOrNull(op.getBias()));
  }
  SmallVector<Value> inputs{op.getInput()};
  pushOptional(inputs, b, op.getLoc(), op.getScale(), typeOf(op.getInput()));
  size_t withScale = inputs.size() - 1;
  pushOptional(inputs, b, op.getLoc(), op.getBias(), typeOf(op.getInput()));
  LaunchConfig config(b.getContext());
  config.set("axis", op.getAxis()).set("rms", op.getRms()).set("epsilon", floatBits(op.getEpsilon()));
  config.set("scale", withScale).set("bias", inputs.size() - 1 - withScale);
  return createLaunch(b, op.getLoc(), op.getType(), inputs, "layer_norm", config, {}).getResult(0);
}

FailureOr<Value> mrcc::lowerGroupNorm(GroupNormOp op, OpBuilder &b) {
  if (!isScheduled("group_norm", op.getInput()))
    return groupNormByLoops(op, b);
  SmallVector<Value> inputs{op.getInput()};
  pushOptional(inputs, b, op.getLoc(), op.getScale(), typeOf(op.getInput()));
  size_t withScale = inputs.size() - 1;
  pushOptional(inputs, b, op.getLoc(), op.getBias(), typeOf(op.getInput()));
  LaunchConfig config(b.getContext());
  config.set("groups", op.getGroups()).set("epsilon", floatBits(op.getEpsilon()));
  config.set("scale", withScale).set("bias", inputs.size() - 1 - withScale);
  return createLaunch(b, op.getLoc(), op.getType(), inputs, "group_norm", config, {}).getResult(0);
}

FailureOr<Value> mrcc::lowerBatchNorm(BatchNormOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  uint32_t x = p.load(op.getInput()), scale = p.load(op.getScale()), bias = p.load(op.getBias()),
           mean = p.load(op.getMean()), variance = p.load(op.getVariance());
  DType t = p.body.nodes[x].type;
  auto as = [&](uint32_t v) { return p.body.nodes[v].type == t ? v : p.body.cast(t, v); };
  uint32_t root = p.body.unary(UnaryKind::sqrt, p.body.binary(BinaryKind::add, as(variance),
                                                              p.body.constant(t, op.getEpsilon().convertToFloat())));
  uint32_t y = p.body.binary(BinaryKind::div, p.body.binary(BinaryKind::sub, x, as(mean)), root);
  y = p.body.binary(BinaryKind::add, p.body.binary(BinaryKind::mul, y, as(scale)), as(bias));
  return p.loop(typeOf(op.getOutput()), y).getResult(0);
}

/// softmax(q k^T * scale + mask) v as three launches, for types that the fused family lacks.
static Value decomposeAttention(AttentionOp op, OpBuilder &b) {
  Location loc = op.getLoc();
  RankedTensorType q = typeOf(op.getQ()), k = typeOf(op.getK());
  int64_t rank = q.getRank();
  SmallVector<int64_t> swap(rank), dims(typeOf(op.getOutput()).getShape());
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[rank - 1], swap[rank - 2]);
  dims.back() = k.getDimSize(rank - 2);
  auto scores = RankedTensorType::get(dims, q.getElementType());
  SmallVector<Operation *> made; // lowered at once, operands first
  auto add = [&](Operation *o) {
    made.push_back(o);
    return o->getResult(0);
  };
  Value x = add(MatMulOp::create(b, loc, scores, op.getQ(), createTranspose(b, loc, op.getK(), swap)));
  Value scale = makeScalar(b, loc, q.getElementType(), op.getScale().convertToFloat());
  x = add(BinaryOp::create(b, loc, scores, BinaryKind::mul, x, scale));
  if (!isa<NoneType>(op.getMask().getType()))
    x = add(BinaryOp::create(b, loc, scores, BinaryKind::add, x, op.getMask()));
  x = add(SoftmaxOp::create(b, loc, scores, x, b.getI64IntegerAttr(rank - 1), b.getBoolAttr(false)));
  op.getQMutable().assign(
      add(MatMulOp::create(b, loc, op.getType(), x, op.getV()))); // holds the result while ops are replaced
  for (Operation *o : made)
    if (failed(lowerToLaunches(o)))
      return nullptr;
  return op.getQ();
}

FailureOr<Value> mrcc::lowerAttention(AttentionOp op, OpBuilder &b) {
  if (!KernelFamily::find("attention") || !isScheduledType(op.getQ()) || typeOf(op.getQ()).getRank() != 4) {
    Value out = decomposeAttention(op, b);
    return out ? FailureOr<Value>(out) : FailureOr<Value>(failure());
  }
  LaunchConfig config(b.getContext());
  SmallVector<Value> inputs{op.getQ(), op.getK(), op.getV()};
  bool masked = !isa<NoneType>(op.getMask().getType());
  if (masked)
    pushOptional(inputs, b, op.getLoc(), op.getMask(), typeOf(op.getOutput()));
  config.set("scale", floatBits(op.getScale())).set("mask", masked);
  return createLaunch(b, op.getLoc(), op.getType(), inputs, "attention", config, {}).getResult(0);
}
