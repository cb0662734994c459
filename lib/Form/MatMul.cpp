// Matrix products: floats go to the scheduled family, other types to a reduction by the loop family.
#include "Lower.h"

using namespace mlir;
using namespace mrcc;

FailureOr<Value> mrcc::lowerMatMul(MatMulOp op, OpBuilder &b) {
  Location loc = op.getLoc();
  RankedTensorType result = typeOf(op.getOutput());
  bool packed = op->hasAttr("packed_k");
  Value lhs = op.getLhs(), rhs = op.getRhs();
  // Rank 1 becomes a row on the left, a column on the right.
  SmallVector<int64_t> dims(result.getShape());
  bool row = typeOf(lhs).getRank() == 1, column = !packed && typeOf(rhs).getRank() == 1;
  if (row)
    lhs = createReshape(b, loc, lhs, {1, typeOf(lhs).getDimSize(0)});
  if (column)
    rhs = createReshape(b, loc, rhs, {typeOf(rhs).getDimSize(0), 1});
  if (row)
    dims.insert(dims.end() - (column ? 0 : 1), 1);
  if (column)
    dims.push_back(1);
  auto full = RankedTensorType::get(dims, result.getElementType());
  Value out;
  if (isScheduledType(lhs) && result.getElementType() == typeOf(lhs).getElementType()) {
    const DType type = toDType(result.getElementType()), wide = sumType(type);
    Expr e;
    uint32_t sum = e.acc(wide); // f16 and bf16 are summed in f32 and rounded once
    e.results = {wide == type ? sum : e.cast(type, sum)};
    LaunchConfig config(b.getContext());
    config.set("packed", packed);
    out = createLaunch(b, loc, full, {lhs, rhs}, "matmul", config, e).getResult(0);
  } else {
    if (packed)
      return failure();
    Point p(b, loc);
    Expr &e = p.body;
    int64_t rank = dims.size(), k = typeOf(lhs).getShape().back();
    SmallVector<int64_t> extents(dims);
    extents.push_back(k);
    auto indices = [&](Value v, uint32_t row, uint32_t column) { // batch dims of 1 broadcast
      SmallVector<uint32_t> at;
      int64_t lead = rank - typeOf(v).getRank();
      for (int64_t i = 0; i < typeOf(v).getRank() - 2; ++i)
        at.push_back(typeOf(v).getDimSize(i) == 1 ? p.index(0) : e.iter(lead + i));
      at.push_back(row);
      at.push_back(column);
      return at;
    };
    DType type = toDType(result.getElementType()), wide = sumType(type);
    auto as = [&](uint32_t v) { return e.nodes[v].type == wide ? v : e.cast(wide, v); };
    uint32_t kk = e.iter(rank);
    uint32_t value = e.binary(BinaryKind::mul, as(p.loadAt(lhs, indices(lhs, e.iter(rank - 2), kk))),
                              as(p.loadAt(rhs, indices(rhs, kk, e.iter(rank - 1)))));
    out = p.reduce(full, extents, {rank}, "sum", value, [&](uint32_t acc) {
             return wide == type ? acc : e.cast(type, acc);
           }).getResult(0);
  }
  return createReshape(b, loc, out, result.getShape());
}
