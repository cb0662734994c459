// Scatter and running sums as reductions, so that each output element has one writer and any number of threads gives
// the same result: an output element looks through the updates (or the elements before it) for those that are its own.
// The work is outputs times updates along the scattered dimensions; exporters scatter few updates.
#include "Lower.h"

using namespace mlir;
using namespace mrcc;

namespace {
/// What a scatter needs at a point of its domain: the output's dims, then the updates.
struct Match {
  uint32_t hit;                 // boolean: this update goes to this element
  SmallVector<uint32_t> update; // where the update lies
};
using MatchAt = llvm::function_ref<Match(Point &, uint32_t number)>; // number: i64 node, which update

/// An index of a tensor, negative ones counted from the end; what is out of range meets no element.
uint32_t wrapped(Expr &e, uint32_t i, uint32_t n) {
  uint32_t wide = e.nodes[i].type == DType::i64 ? i : e.cast(DType::i64, i);
  uint32_t negative = e.binary(BinaryKind::lt, wide, e.integer(DType::i64, 0));
  return e.select(negative, e.binary(BinaryKind::add, wide, n), wide);
}

SmallVector<uint32_t> ownIndices(Expr &e, int64_t rank) {
  SmallVector<uint32_t> at;
  for (int64_t i = 0; i < rank; ++i)
    at.push_back(e.iter(i));
  return at;
}

/// `input` with `count` updates a point combined in.
Value scatter(OpBuilder &b, Location loc, ScatterKind kind, Value input, Value updates, int64_t count, MatchAt match) {
  RankedTensorType type = typeOf(input);
  int64_t rank = type.getRank();
  if (count == 0)
    return input;
  SmallVector<int64_t> extents(type.getShape());
  extents.push_back(count);
  Point p(b, loc);
  Expr &e = p.body;
  uint32_t k = e.iter(rank);
  Match m = match(p, k);
  if (kind == ScatterKind::none) { // which update is the last of this element, then that update or the input
    uint32_t none = e.integer(DType::i64, -1);
    auto whichType = RankedTensorType::get(type.getShape(), b.getI64Type());
    Value which = p.reduce(whichType, extents, {rank}, "max", e.select(m.hit, k, none)).getResult(0);
    Point q(b, loc);
    uint32_t w = q.load(which);
    Match last = match(q, q.body.clampIndex(w, q.body.integer(DType::i64, count)));
    uint32_t taken = q.loadAt(updates, last.update);
    uint32_t found = q.body.binary(BinaryKind::ge, w, q.body.integer(DType::i64, 0));
    return q.loop(type, q.body.select(found, taken, q.load(input))).getResult(0);
  }
  DType element = toDType(type.getElementType());
  DType wide = sumType(element);
  auto as = [&](uint32_t v) { return e.nodes[v].type == wide ? v : e.cast(wide, v); };
  auto own = [&] { return as(p.loadAt(input, ownIndices(e, rank))); };
  uint32_t update = as(p.loadAt(updates, m.update));
  bool sum = kind == ScatterKind::add, product = kind == ScatterKind::mul;
  uint32_t other = sum ? e.number(wide, 0) : product ? e.number(wide, 1) : own();
  StringRef combine = sum ? "sum" : product ? "prod" : kind == ScatterKind::max ? "max" : "min";
  BinaryKind last = sum                        ? BinaryKind::add
                    : product                  ? BinaryKind::mul
                    : kind == ScatterKind::max ? BinaryKind::max
                                               : BinaryKind::min;
  auto post = [&](uint32_t acc) {
    acc = e.binary(last, own(), acc);
    return wide == element ? acc : e.cast(element, acc);
  };
  return p.reduce(type, extents, {rank}, combine, e.select(m.hit, update, other), post).getResult(0);
}
} // namespace

FailureOr<Value> mrcc::lowerScatterElements(ScatterElementsOp op, OpBuilder &b) {
  RankedTensorType type = typeOf(op.getInput()), indices = typeOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (indices.getNumElements() == 0)
    return op.getInput();
  return scatter(b, op.getLoc(), op.getReduction(), op.getInput(), op.getUpdates(), indices.getDimSize(axis),
                 [&](Point &p, uint32_t k) {
                   Expr &e = p.body;
                   Match m;
                   SmallVector<uint32_t> limits;
                   for (int64_t d = 0; d < type.getRank(); ++d) {
                     int64_t n = indices.getDimSize(d);
                     bool partial = d != axis && n < type.getDimSize(d);
                     m.update.push_back(d == axis ? k : partial ? e.clampIndex(e.iter(d), p.index(n)) : e.iter(d));
                     if (partial)
                       limits.push_back(e.binary(BinaryKind::lt, e.iter(d), p.index(n)));
                   }
                   uint32_t to = wrapped(e, p.loadAt(op.getIndices(), m.update), p.index(type.getDimSize(axis)));
                   m.hit = e.binary(BinaryKind::eq, to, e.iter(axis));
                   for (uint32_t limit : limits)
                     m.hit = e.binary(BinaryKind::logical_and, m.hit, limit);
                   return m;
                 });
}

FailureOr<Value> mrcc::lowerScatterND(ScatterNDOp op, OpBuilder &b) {
  RankedTensorType type = typeOf(op.getInput()), indexType = typeOf(op.getIndices());
  int64_t length = indexType.getShape().back(), count = 1;
  for (int64_t d : indexType.getShape().drop_back())
    count *= d;
  if (count == 0)
    return op.getInput();
  SmallVector<int64_t> updateDims{count};
  llvm::append_range(updateDims, type.getShape().drop_front(length));
  Value indices = createReshape(b, op.getLoc(), op.getIndices(), {count, length});
  Value updates = createReshape(b, op.getLoc(), op.getUpdates(), updateDims);
  return scatter(b, op.getLoc(), op.getReduction(), op.getInput(), updates, count, [&](Point &p, uint32_t k) {
    Expr &e = p.body;
    Match m;
    std::optional<uint32_t> hit;
    m.update.push_back(k);
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (d >= length) {
        m.update.push_back(e.iter(d));
        continue;
      }
      uint32_t to = wrapped(e, p.loadAt(indices, {k, p.index(d)}), p.index(type.getDimSize(d)));
      uint32_t same = e.binary(BinaryKind::eq, to, e.iter(d));
      hit = hit ? e.binary(BinaryKind::logical_and, *hit, same) : same;
    }
    m.hit = hit ? *hit : e.integer(DType::boolean, 1); // tuples of no index: each update is a whole tensor
    return m;
  });
}

FailureOr<Value> mrcc::lowerCumulative(CumulativeOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  Expr &e = p.body;
  RankedTensorType type = typeOf(op.getInput());
  int64_t rank = type.getRank(), axis = op.getAxis();
  DType element = toDType(type.getElementType());
  DType wide = sumType(element);
  SmallVector<int64_t> extents(type.getShape());
  extents.push_back(type.getDimSize(axis));
  uint32_t i = e.iter(axis), k = e.iter(rank);
  SmallVector<uint32_t> at = ownIndices(e, rank);
  at[axis] = k;
  uint32_t x = p.loadAt(op.getInput(), at);
  if (wide != element)
    x = e.cast(wide, x);
  BinaryKind before = op.getReverse() ? (op.getExclusive() ? BinaryKind::gt : BinaryKind::ge)
                                      : (op.getExclusive() ? BinaryKind::lt : BinaryKind::le);
  x = e.select(e.binary(before, k, i), x, e.number(wide, op.getProduct()));
  return p
      .reduce(type, extents, {rank}, op.getProduct() ? "prod" : "sum", x,
              [&](uint32_t acc) { return wide == element ? acc : e.cast(element, acc); })
      .getResult(0);
}
