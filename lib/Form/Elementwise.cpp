// Element-wise ops: one node of a loop each. Chains become one loop in form-kernels.
#include "Lower.h"

using namespace mlir;
using namespace mrcc;

FailureOr<Value> mrcc::lowerUnary(UnaryOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  uint32_t x = p.load(op.getInput());
  return p.loop(typeOf(op.getOutput()), p.body.unary(op.getKind(), x)).getResult(0);
}

FailureOr<Value> mrcc::lowerBinary(BinaryOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  uint32_t x = p.load(op.getLhs()), y = p.load(op.getRhs());
  if (p.body.nodes[x].type != p.body.nodes[y].type) { // pow, shifts: compute in the left side's type
    DType to = p.body.nodes[x].type;
    y = p.body.cast(to, y);
  }
  return p.loop(typeOf(op.getOutput()), p.body.binary(op.getKind(), x, y)).getResult(0);
}

FailureOr<Value> mrcc::lowerSelect(SelectOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  uint32_t c = p.load(op.getCondition()), x = p.load(op.getA()), y = p.load(op.getB());
  return p.loop(typeOf(op.getOutput()), p.body.select(c, x, y)).getResult(0);
}

FailureOr<Value> mrcc::lowerCast(CastOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  DType to = toDType(op.getTo());
  if (to == DType::none)
    return failure();
  uint32_t x = p.load(op.getInput());
  bool wraps = !op.getSaturate() && bitWidth(to) == 8 && isFloat(to);
  x = wraps ? p.body.add({ExprNode::Op::cast, to, 1, 0, {x}}) : p.body.cast(to, x);
  return p.loop(typeOf(op.getOutput()), x).getResult(0);
}

FailureOr<Value> mrcc::lowerBitcast(BitcastOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  uint32_t x = p.load(op.getInput());
  return p.loop(typeOf(op.getOutput()), p.body.bitcast(toDType(op.getTo()), x)).getResult(0);
}

FailureOr<Value> mrcc::lowerIota(IotaOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  return p.loop(typeOf(op.getOutput()), p.body.cast(toDType(op.getType()), p.body.iter(op.getAxis()))).getResult(0);
}

/// Ranges that are too long to be folded (mrcc/Fold/Folder.h): start + i * delta.
FailureOr<Value> mrcc::lowerRange(RangeOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  Expr &e = p.body;
  uint32_t start = p.load(op.getStart()), delta = p.load(op.getDelta()); // one element each: they broadcast
  uint32_t i = e.cast(toDType(typeOf(op.getOutput()).getElementType()), e.iter(0));
  return p.loop(typeOf(op.getOutput()), e.binary(BinaryKind::add, start, e.binary(BinaryKind::mul, i, delta)))
      .getResult(0);
}

FailureOr<Value> mrcc::lowerFill(FillOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  uint32_t x = p.load(op.getValue()); // one element: broadcasts
  return p.loop(typeOf(op.getOutput()), x).getResult(0);
}
