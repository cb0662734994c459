// Gathers, scatters, and what is made of them.
#include "Known.h"
#include "Node.h"

using namespace mlir;
using namespace mrcc;

static void gather(NodeContext &c) {
  Value v = c.in(0);
  c.result(c.make<GatherOp>(v, c.in(1), c.axis(c.integer("axis", 0), c.rank(v))));
}

static void gatherElements(NodeContext &c) {
  Value v = c.in(0);
  c.result(c.make<GatherElementsOp>(v, c.in(1), c.axis(c.integer("axis", 0), c.rank(v))));
}

static void gatherND(NodeContext &c) { c.result(c.make<GatherNDOp>(c.in(0), c.in(1), c.integer("batch_dims", 0))); }

static ScatterKind reduction(NodeContext &c) {
  auto kind = symbolizeScatterKind(c.text("reduction", "none"));
  if (!kind)
    c.invalid("reduction is '" + c.text("reduction", "") + "'");
  return kind.value_or(ScatterKind::none);
}

static void scatterElements(NodeContext &c) {
  Value v = c.in(0);
  int64_t axis = c.axis(c.integer("axis", 0), c.rank(v));
  c.result(c.make<ScatterElementsOp>(reduction(c), v, c.in(1), c.in(2), axis));
}

static void scatterND(NodeContext &c) { c.result(c.make<ScatterNDOp>(reduction(c), c.in(0), c.in(1), c.in(2))); }

/// Compares a new axis' index with the wanted ones, negative ones counted from the end.
static void oneHot(NodeContext &c) {
  Type i64 = c.builder.getI64Type();
  Value indices = c.cast(c.in(0), i64), depth = c.cast(c.in(1), i64), values = c.in(2);
  int64_t rank = c.rank(indices) + 1, axis = c.axis(c.integer("axis", -1), rank);
  if (auto known = knownIntegers(depth); known && known->size() == 1 && known->front() < 0)
    return c.invalid("depth is " + Twine(known->front()) + ", expected 0 or more");
  if (c.rank(depth) > 0)
    depth = c.squeeze(depth, 0);
  Value positions = c.make<RangeOp>(c.scalar(0, depth), depth, c.scalar(1, depth));
  SmallVector<int64_t> others;
  for (int64_t i = axis + 1; i < rank; ++i)
    others.push_back(i - axis);
  if (!others.empty())
    positions = c.unsqueeze(positions, others);
  Value wanted = c.select(c.binary(BinaryKind::lt, indices, 0.0), c.add(indices, depth), indices);
  Value hit = c.binary(BinaryKind::eq, c.unsqueeze(wanted, axis), positions);
  Value off = c.squeeze(c.slice(values, 0, 0, 1), 0), on = c.squeeze(c.slice(values, 0, 1, 2), 0);
  c.result(c.select(hit, on, off));
}

static Value indexAlong(NodeContext &c, Value like, int64_t axis) {
  return c.make<IotaOp>(like, axis, c.builder.getI64Type());
}

static void eyeLike(NodeContext &c) {
  Value v = c.in(0);
  if (c.rank(v) != 2)
    return c.invalid("its input has rank " + Twine(c.rank(v)) + ", not 2");
  Type type = c.has("dtype") ? c.toElement(c.integer("dtype", 1)) : c.element(v);
  Value diagonal = c.add(indexAlong(c, v, 0), c.constant(c.integer("k", 0)));
  c.result(c.make<CastOp>(c.binary(BinaryKind::eq, diagonal, indexAlong(c, v, 1)), type));
}

static void trilu(NodeContext &c) {
  Value v = c.in(0);
  int64_t rank = c.rank(v);
  if (rank < 2)
    return c.invalid("its input has rank " + Twine(rank) + ", at least 2 is needed");
  Value row = indexAlong(c, v, rank - 2), column = indexAlong(c, v, rank - 1);
  if (c.given(1))
    row = c.add(row, c.rank(c.in(1)) == 0 ? c.in(1) : c.squeeze(c.in(1), 0));
  bool upper = c.integer("upper", 1);
  Value keep = c.binary(upper ? BinaryKind::ge : BinaryKind::le, column, row);
  c.result(c.select(keep, v, c.scalar(0, v)));
}

/// Reverses the first lengths[b] elements along the time axis.
static void reverseSequence(NodeContext &c) {
  Value v = c.in(0), lengths = c.in(1);
  int64_t rank = c.rank(v), time = c.axis(c.integer("time_axis", 0), rank),
          batch = c.axis(c.integer("batch_axis", 1), rank);
  if (time + batch != 1 || c.rank(lengths) != 1)
    return c.invalid("time_axis and batch_axis must be 0 and 1");
  Value at = indexAlong(c, v, time);
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != batch)
      axes.push_back(i);
  Value length = c.unsqueeze(lengths, axes);
  Value mirrored = c.sub(c.sub(length, 1.0), at);
  c.result(c.make<GatherElementsOp>(v, c.select(c.binary(BinaryKind::lt, at, length), mirrored, at), time));
}

/// Writes `update` into the cache at sequence positions write_indices + 0, 1, ... of each batch.
static void tensorScatter(NodeContext &c) {
  Value cache = c.in(0), update = c.in(1);
  int64_t rank = c.rank(cache), axis = c.axis(c.integer("axis", -2), rank);
  std::string mode = c.text("mode", "linear");
  if (axis == 0 || (mode != "linear" && mode != "circular"))
    return c.invalid("axis " + Twine(axis) + ", mode '" + mode + "'");
  Value at = indexAlong(c, update, axis);
  if (c.given(2)) {
    SmallVector<int64_t> axes;
    for (int64_t i = 1; i < rank; ++i)
      axes.push_back(i);
    at = c.add(at, c.unsqueeze(c.in(2), axes));
  }
  if (mode == "circular")
    at = c.binary(BinaryKind::mod, at, c.shape({c.dimOf(cache, axis)}));
  c.result(c.make<ScatterElementsOp>(ScatterKind::none, cache, at, update, axis));
}

void mrcc::addIndexing(HandlerTable &t) {
  t.add("Gather", gather);
  t.add("GatherElements", gatherElements);
  t.add("GatherND", gatherND);
  t.add("Scatter", scatterElements);
  t.add("ScatterElements", scatterElements);
  t.add("ScatterND", scatterND);
  t.add("OneHot", oneHot);
  t.add("EyeLike", eyeLike);
  t.add("Trilu", trilu);
  t.add("ReverseSequence", reverseSequence);
  t.add("TensorScatter", tensorScatter);
}
