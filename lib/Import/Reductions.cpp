// Reductions, arg-reductions, running sums, softmax.
#include "Node.h"

using namespace mlir;
using namespace mrcc;

static SmallVector<int64_t> allAxes(int64_t rank) {
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    axes.push_back(i);
  return axes;
}

template <ReduceKind kind> static void reduce(NodeContext &c) {
  Value v = c.in(0);
  auto axes = c.integersOf("axes", 1);
  bool keep = c.integer("keepdims", 1);
  if ((!axes || axes->empty()) && c.integer("noop_with_empty_axes", 0))
    return c.result(c.reduce(kind, v, {}, keep)); // nothing is reduced, squares and logarithms are still taken
  int64_t rank = c.rank(v);
  c.result(c.reduce(kind, v, axes && !axes->empty() ? c.axes(*axes, rank) : allAxes(rank), keep));
}

template <bool isMax> static void argReduce(NodeContext &c) {
  Value v = c.in(0);
  int64_t axis = c.axis(c.integer("axis", 0), c.rank(v));
  c.result(
      c.make<ArgReduceOp>(v, axis, isMax, bool(c.integer("keepdims", 1)), bool(c.integer("select_last_index", 0))));
}

template <bool product> static void cumulative(NodeContext &c) {
  Value v = c.in(0);
  auto axis = c.constantIntegers(1, "axis");
  if (!axis || axis->size() != 1)
    return c.invalid("axis is not one number");
  c.result(c.make<CumulativeOp>(v, c.axis((*axis)[0], c.rank(v)), product, bool(c.integer("exclusive", 0)),
                                bool(c.integer("reverse", 0))));
}

/// Before opset 13 these work on the tensor flattened at `axis`. `along` works along one axis.
static void flattened(NodeContext &c, llvm::function_ref<Value(Value, int64_t)> along) {
  Value v = c.in(0);
  int64_t rank = c.rank(v);
  if (c.opset >= 13)
    return c.result(along(v, c.axis(c.integer("axis", -1), rank)));
  int64_t axis = c.axis(c.integer("axis", 1), rank);
  if (axis == rank - 1)
    return c.result(along(v, axis));
  Value flat = c.make<FlattenOp>(v, axis);
  Value done = along(flat, 1);
  SmallVector<Extent> dims;
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back(c.dimOf(v, i));
  c.result(c.reshapeTo(done, dims));
}

template <bool log> static void softmax(NodeContext &c) {
  flattened(c, [&](Value v, int64_t axis) { return c.make<SoftmaxOp>(v, axis, log); });
}

/// 1 at the first maximum.
static void hardmax(NodeContext &c) {
  flattened(c, [&](Value v, int64_t axis) {
    Value best = c.make<ArgReduceOp>(v, axis, true, true, false);
    Value hit = c.binary(BinaryKind::eq, c.make<IotaOp>(v, axis, c.builder.getI64Type()), best);
    return c.make<CastOp>(hit, c.element(v));
  });
}

void mrcc::addReductions(HandlerTable &t) {
  t.add("ReduceSum", reduce<ReduceKind::sum>);
  t.add("ReduceMean", reduce<ReduceKind::mean>);
  t.add("ReduceMax", reduce<ReduceKind::max>);
  t.add("ReduceMin", reduce<ReduceKind::min>);
  t.add("ReduceProd", reduce<ReduceKind::prod>);
  t.add("ReduceSumSquare", reduce<ReduceKind::sum_square>);
  t.add("ReduceL1", reduce<ReduceKind::l1>);
  t.add("ReduceL2", reduce<ReduceKind::l2>);
  t.add("ReduceLogSum", reduce<ReduceKind::log_sum>);
  t.add("ReduceLogSumExp", reduce<ReduceKind::log_sum_exp>);
  t.add("ArgMax", argReduce<true>);
  t.add("ArgMin", argReduce<false>);
  t.add("CumSum", cumulative<false>);
  t.add("CumProd", cumulative<true>);
  t.add("Softmax", softmax<false>);
  t.add("LogSoftmax", softmax<true>);
  t.add("Hardmax", hardmax);
}
