// Losses, as exported evaluation graphs hold them.
#include "Node.h"

using namespace mlir;
using namespace mrcc;

static SmallVector<int64_t> allAxes(int64_t rank) {
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    axes.push_back(i);
  return axes;
}

/// -weight[target] * input[target] for input [N, C, d...] and target [N, d...]; ignored targets count nothing.
static Value negativeLogLikelihood(NodeContext &c, Value input, Value target, Value weights) {
  std::string reduction = c.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return c.invalid("reduction is '" + reduction + "'"), input;
  if (c.rank(input) < 2 || c.rank(target) != c.rank(input) - 1)
    return c.invalid("input of rank " + Twine(c.rank(input)) + ", target of rank " + Twine(c.rank(target))), input;
  Value ignored, index = target;
  if (c.has("ignore_index")) {
    Value wide = c.cast(target, c.builder.getI64Type()); // an index beyond the target's type is none of its values
    ignored = c.binary(BinaryKind::eq, wide, c.constant(c.integer("ignore_index", 0)));
    index = c.select(ignored, c.scalar(0, target), target);
  }
  Value picked = c.squeeze(c.make<GatherElementsOp>(input, c.unsqueeze(index, 1), 1), 1);
  Value loss = c.unary(UnaryKind::neg, picked), weight;
  if (weights)
    weight = c.make<GatherOp>(weights, index, 0);
  else if (ignored)
    weight = c.fill(c.shapeOf(target), c.scalar(1, input));
  if (ignored)
    weight = c.select(ignored, c.scalar(0, weight), weight);
  if (weight)
    loss = c.mul(loss, weight);
  if (reduction == "none")
    return loss;
  auto axes = allAxes(c.rank(loss));
  if (reduction == "sum")
    return c.reduce(ReduceKind::sum, loss, axes, false);
  if (!weight)
    return c.reduce(ReduceKind::mean, loss, axes, false);
  return c.div(c.reduce(ReduceKind::sum, loss, axes, false), c.reduce(ReduceKind::sum, weight, axes, false));
}

static void nllLoss(NodeContext &c) {
  c.result(negativeLogLikelihood(c, c.in(0), c.in(1), c.given(2) ? c.in(2) : nullptr));
}

static void softmaxCrossEntropyLoss(NodeContext &c) {
  Value logs = c.make<SoftmaxOp>(c.in(0), c.axis(1, c.rank(c.in(0))), true);
  c.results = {negativeLogLikelihood(c, logs, c.in(1), c.given(2) ? c.in(2) : nullptr), logs};
}

void mrcc::addLosses(HandlerTable &t) {
  t.add("NegativeLogLikelihoodLoss", nllLoss);
  t.add("SoftmaxCrossEntropyLoss", softmaxCrossEntropyLoss);
}
