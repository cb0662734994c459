// Data movement that strides cannot express: loops that load at computed places.
#include "Lower.h"

using namespace mlir;
using namespace mrcc;

namespace {
/// Index arithmetic on i64 nodes, short.
struct Indices {
  Expr &e;
  uint32_t c(int64_t v) { return e.integer(DType::i64, v); }
  uint32_t add(uint32_t a, uint32_t x) { return e.binary(BinaryKind::add, a, x); }
  uint32_t sub(uint32_t a, uint32_t x) { return e.binary(BinaryKind::sub, a, x); }
  uint32_t mul(uint32_t a, uint32_t x) { return e.binary(BinaryKind::mul, a, x); }
  uint32_t mod(uint32_t a, uint32_t x) { return e.binary(BinaryKind::mod, a, x); }
  uint32_t both(uint32_t a, uint32_t x) { return e.binary(BinaryKind::logical_and, a, x); }
  /// A possibly negative index from a tensor: counted from the end, and kept in bounds whatever it is.
  uint32_t wrapped(uint32_t i, uint32_t n) {
    uint32_t wide = e.nodes[i].type == DType::i64 ? i : e.cast(DType::i64, i);
    return e.clampIndex(e.select(e.binary(BinaryKind::lt, wide, c(0)), add(wide, n), wide), n);
  }
};
} // namespace

FailureOr<Value> mrcc::lowerTile(TileOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  Indices ix{p.body};
  RankedTensorType in = typeOf(op.getInput());
  uint32_t x = p.operand(op.getInput());
  SmallVector<uint32_t> at;
  for (int64_t i = 0; i < in.getRank(); ++i) {
    bool whole = in.getDimSize(i) == typeOf(op.getOutput()).getDimSize(i);
    at.push_back(whole ? p.body.iter(i) : ix.mod(p.body.iter(i), p.body.extent(x, i)));
  }
  return p.loop(typeOf(op.getOutput()), p.loadAt(op.getInput(), at)).getResult(0);
}

FailureOr<Value> mrcc::lowerPad(PadOp op, OpBuilder &b) {
  auto pads = getIntegers(op.getPads());
  RankedTensorType in = typeOf(op.getInput());
  int64_t rank = in.getRank();
  if (!pads || int64_t(pads->size()) != 2 * rank)
    return failure();
  Point p(b, op.getLoc());
  Expr &e = p.body;
  Indices ix{e};
  uint32_t x = p.operand(op.getInput());
  SmallVector<uint32_t> at;
  std::optional<uint32_t> inside;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t begin = (*pads)[i], end = (*pads)[rank + i];
    if (begin == 0 && end == 0) {
      at.push_back(e.iter(i));
      continue;
    }
    uint32_t n = e.extent(x, i), pos = ix.sub(e.iter(i), p.immediate(begin));
    // What negative pads crop is gone before the other modes repeat the rest.
    std::optional<uint32_t> first;
    if (op.getMode() != PadMode::constant && (begin < 0 || end < 0)) {
      first = p.immediate(std::max<int64_t>(-begin, 0));
      n = ix.sub(n, p.immediate(std::max<int64_t>(-begin, 0) + std::max<int64_t>(-end, 0)));
      pos = ix.sub(pos, *first);
    }
    switch (op.getMode()) {
    case PadMode::constant: {
      uint32_t in = ix.both(e.binary(BinaryKind::ge, pos, ix.c(0)), e.binary(BinaryKind::lt, pos, n));
      inside = inside ? ix.both(*inside, in) : in;
      break;
    }
    case PadMode::edge:
      break;                 // the clamp below does it
    case PadMode::reflect: { // period 2n - 2; a single element reflects onto itself
      uint32_t last = ix.sub(n, ix.c(1));
      uint32_t period = e.binary(BinaryKind::max, ix.mul(last, ix.c(2)), ix.c(1));
      uint32_t m = ix.mod(pos, period);
      pos = e.binary(BinaryKind::min, m, ix.sub(period, m));
      break;
    }
    case PadMode::wrap:
      pos = ix.mod(pos, n);
      break;
    }
    pos = e.clampIndex(pos, n);
    at.push_back(first ? ix.add(pos, *first) : pos);
  }
  uint32_t v = p.loadAt(op.getInput(), at);
  if (inside) {
    DType t = e.nodes[v].type;
    uint32_t fill;
    if (!isa<NoneType>(op.getValue().getType()))
      fill = p.load(op.getValue());
    else
      fill = e.number(t, 0);
    v = e.select(*inside, v, fill);
  }
  return p.loop(typeOf(op.getOutput()), v).getResult(0);
}

FailureOr<Value> mrcc::lowerGather(GatherOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  Indices ix{p.body};
  RankedTensorType in = typeOf(op.getInput()), indices = typeOf(op.getIndices());
  int64_t axis = op.getAxis();
  uint32_t x = p.operand(op.getInput());
  SmallVector<uint32_t> where, at;
  for (int64_t i = 0; i < indices.getRank(); ++i)
    where.push_back(p.body.iter(axis + i));
  uint32_t index = ix.wrapped(p.loadAt(op.getIndices(), where), p.body.extent(x, axis));
  for (int64_t i = 0; i < in.getRank(); ++i)
    at.push_back(i == axis ? index : p.body.iter(i < axis ? i : i - 1 + indices.getRank()));
  return p.loop(typeOf(op.getOutput()), p.loadAt(op.getInput(), at)).getResult(0);
}

FailureOr<Value> mrcc::lowerGatherElements(GatherElementsOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  Indices ix{p.body};
  int64_t axis = op.getAxis();
  uint32_t x = p.operand(op.getInput());
  uint32_t index = ix.wrapped(p.load(op.getIndices()), p.body.extent(x, axis));
  SmallVector<uint32_t> at;
  for (int64_t i = 0; i < typeOf(op.getInput()).getRank(); ++i)
    at.push_back(i == axis ? index : p.body.iter(i));
  return p.loop(typeOf(op.getOutput()), p.loadAt(op.getInput(), at)).getResult(0);
}

FailureOr<Value> mrcc::lowerGatherND(GatherNDOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  Indices ix{p.body};
  RankedTensorType in = typeOf(op.getInput()), indices = typeOf(op.getIndices());
  int64_t batch = op.getBatchDims(), tuple = indices.getShape().back(), lead = indices.getRank() - 1;
  uint32_t x = p.operand(op.getInput());
  SmallVector<uint32_t> at;
  for (int64_t i = 0; i < in.getRank(); ++i) {
    if (i < batch) {
      at.push_back(p.body.iter(i));
    } else if (i < batch + tuple) {
      SmallVector<uint32_t> where;
      for (int64_t j = 0; j < lead; ++j)
        where.push_back(p.body.iter(j));
      where.push_back(ix.c(i - batch));
      at.push_back(ix.wrapped(p.loadAt(op.getIndices(), where), p.body.extent(x, i)));
    } else {
      at.push_back(p.body.iter(lead + i - batch - tuple));
    }
  }
  return p.loop(typeOf(op.getOutput()), p.loadAt(op.getInput(), at)).getResult(0);
}

FailureOr<Value> mrcc::lowerPack(PackOp op, OpBuilder &b) {
  // Weights that only run time knows, brought into the form that PackOp describes.
  Point p(b, op.getLoc());
  Expr &e = p.body;
  Indices ix{e};
  RankedTensorType in = typeOf(op.getInput()), out = typeOf(op.getOutput());
  int64_t rank = out.getRank();
  auto zero = [&] { return e.number(toDType(in.getElementType()), 0); };
  if (op.getForm() == "depthwise") { // [C, 1, kh, kw] -> [kh*kw, C]
    int64_t c = in.getDimSize(0), taps = in.getNumElements() / std::max<int64_t>(c, 1);
    Value flat = createReshape(b, op.getLoc(), op.getInput(), {c, taps});
    return createCopy(b, op.getLoc(), createTranspose(b, op.getLoc(), flat, {1, 0}));
  }
  if (op.getForm() == "matmul") { // [.., K, N] -> [.., N/16, K, 16]
    SmallVector<uint32_t> at;
    for (int64_t i = 0; i + 3 < rank; ++i)
      at.push_back(e.iter(i));
    uint32_t column = ix.add(ix.mul(e.iter(rank - 3), ix.c(16)), e.iter(rank - 1)), n = ix.c(in.getShape().back());
    at.push_back(e.iter(rank - 2));
    at.push_back(e.clampIndex(column, n));
    uint32_t v = p.loadAt(op.getInput(), at);
    return p.loop(out, e.select(e.binary(BinaryKind::lt, column, n), v, zero())).getResult(0);
  }
  // [OC, IC, kh, kw] -> [(group,) IC/KC, OC/16, kh*kw, KC, 16]
  int64_t group = op.getGroup(), first = rank - 5, kc = out.getDimSize(rank - 2), ocg = in.getDimSize(0) / group;
  int64_t taps = in.getDimSize(2) * in.getDimSize(3);
  Value flat = createReshape(b, op.getLoc(), op.getInput(), {in.getDimSize(0), in.getDimSize(1), taps});
  uint32_t oc = ix.add(ix.mul(e.iter(first + 1), ix.c(16)), e.iter(first + 4));
  uint32_t ic = ix.add(ix.mul(e.iter(first), ix.c(kc)), e.iter(first + 3));
  uint32_t row = e.clampIndex(oc, ix.c(ocg));
  if (first > 0)
    row = ix.add(ix.mul(e.iter(0), ix.c(ocg)), row);
  uint32_t v = p.loadAt(flat, {row, ic, e.iter(first + 2)});
  return p.loop(out, e.select(e.binary(BinaryKind::lt, oc, ix.c(ocg)), v, zero())).getResult(0);
}
