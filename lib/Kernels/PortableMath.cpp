// The parts of KernelBuilder that depend on the target's instructions: what has none becomes integer or float
// arithmetic, so that no kernel ever calls a library. Conversions between f16, bf16 and f32 follow IEEE 754, rounding
// to nearest even; NaN stays NaN.
#include "mlir/Dialect/Math/IR/Math.h"
#include "mrcc/Kernels/KernelBuilder.h"

using namespace mlir;

namespace mrcc {

namespace {
/// Integer and float arithmetic on values of one shape (scalar or vector), for bit tricks.
struct Bits {
  KernelBuilder &kb;
  Type shape;
  OpBuilder &b = kb.b;
  Location loc = kb.loc;
  Type of(Type element) {
    auto vector = dyn_cast<VectorType>(shape);
    return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
  }
  Value constant(Type element, APInt value) {
    TypedAttr attr = b.getIntegerAttr(element, value);
    if (auto vector = dyn_cast<VectorType>(of(element)))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(b, loc, attr);
  }
  Value i32(uint32_t value) { return constant(b.getI32Type(), APInt(32, value)); }
  Value real(Type element, double value) {
    return kb.constantVector(element, value, isa<VectorType>(shape) ? cast<VectorType>(shape).getDimSize(0) : 0);
  }
  Value as(Value x, Type element) { return arith::BitcastOp::create(b, loc, of(element), x); }
  Value wide(Value x) { return arith::ExtUIOp::create(b, loc, of(b.getI32Type()), x); }
  Value narrow(Value x) { return arith::TruncIOp::create(b, loc, of(b.getI16Type()), x); }
  Value conj(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value disj(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value plus(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value minus(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value left(Value x, uint32_t n) { return arith::ShLIOp::create(b, loc, x, i32(n)); }
  Value right(Value x, uint32_t n) { return arith::ShRUIOp::create(b, loc, x, i32(n)); }
  Value above(Value x, Value y) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, x, y); }
  Value choose(Value condition, Value x, Value y) { return arith::SelectOp::create(b, loc, condition, x, y); }
};
} // namespace

Value KernelBuilder::fma(Value x, Value y, Value z) {
  if (target.has("fma") || target.has("neon"))
    return math::FmaOp::create(b, loc, x, y, z); // vector.fma would become fmuladd, which codegen may split
  return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, x, y), z);
}

Value KernelBuilder::roundEven(Value x) {
  if (target.has("sse4.1") || target.has("neon"))
    return math::RoundEvenOp::create(b, loc, x);
  // |x| + 2^m - 2^m rounds to an integer where |x| < 2^m (m: bits of the significand); beyond, x is one. The sign is
  // put back, so that -0.3 becomes -0.
  Bits w{*this, x.getType()};
  Type element = getElementTypeOrSelf(x.getType());
  Value big = w.real(element, element.isF64() ? 0x1p52 : 0x1p23);
  Value size = math::AbsFOp::create(b, loc, x);
  Value rounded = arith::SubFOp::create(b, loc, arith::AddFOp::create(b, loc, size, big), big);
  Value small = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, size, big);
  return w.choose(small, math::CopySignOp::create(b, loc, rounded, x), x);
}

Value KernelBuilder::floor(Value x) {
  if (target.has("sse4.1") || target.has("neon"))
    return math::FloorOp::create(b, loc, x);
  Bits w{*this, x.getType()};
  Value near = roundEven(x), one = w.real(getElementTypeOrSelf(x.getType()), 1);
  Value over = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, near, x);
  return w.choose(over, arith::SubFOp::create(b, loc, near, one), near);
}

Value KernelBuilder::ceil(Value x) {
  if (target.has("sse4.1") || target.has("neon"))
    return math::CeilOp::create(b, loc, x);
  Bits w{*this, x.getType()};
  Value near = roundEven(x), one = w.real(getElementTypeOrSelf(x.getType()), 1);
  Value under = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, near, x);
  // -0.7 -> -0: near is -1 there, and -1 + 1 would be +0.
  return w.choose(under, math::CopySignOp::create(b, loc, arith::AddFOp::create(b, loc, near, one), x), near);
}

Value KernelBuilder::toF32(Value x) {
  Type element = getElementTypeOrSelf(x.getType());
  Bits w{*this, x.getType()};
  if (element.isF32())
    return x;
  if (element.isInteger(16)) // bf16
    return w.as(w.left(w.wide(x), 16), b.getF32Type());
  if (target.has("f16c") || target.has("neon"))
    return arith::ExtFOp::create(b, loc, w.of(b.getF32Type()), x);
  return halfToF32(x);
}

Value KernelBuilder::fromF32(Value x, Type to) {
  Bits w{*this, x.getType()};
  if (to.isF32())
    return x;
  if (to.isF16())
    return target.has("f16c") || target.has("neon") ? arith::TruncFOp::create(b, loc, w.of(to), x).getResult()
                                                    : f32ToHalf(x);
  // bf16: add half of the last place, less one where the last kept bit is even, and cut. NaN keeps its sign and is
  // quiet.
  Value bits = w.as(x, b.getI32Type());
  Value even = w.conj(w.right(bits, 16), w.i32(1));
  Value rounded = w.plus(bits, w.plus(even, w.i32(0x7fff)));
  Value nan = w.above(w.conj(bits, w.i32(0x7fffffff)), w.i32(0x7f800000));
  Value quiet = w.disj(bits, w.i32(0x00400000));
  return w.narrow(w.right(w.choose(nan, quiet, rounded), 16));
}

// The exponent and significand move into f32's place; a multiplication by 2^112 then corrects the bias and makes normal
// numbers of subnormal ones. Infinity and NaN keep an exponent of all ones.
Value KernelBuilder::halfToF32(Value x) {
  Bits w{*this, x.getType()};
  Value bits = w.wide(w.as(x, b.getI16Type()));
  Value size = w.conj(bits, w.i32(0x7fff)), sign = w.left(w.conj(bits, w.i32(0x8000)), 16);
  Value moved = w.left(size, 13);
  Value scaled = arith::MulFOp::create(b, loc, w.as(moved, b.getF32Type()), w.real(b.getF32Type(), 0x1p112));
  Value special = w.above(size, w.i32(0x7bff));
  Value result = w.choose(special, w.disj(moved, w.i32(0x7f800000)), w.as(scaled, b.getI32Type()));
  return w.as(w.disj(result, sign), b.getF32Type());
}

// Normal results: round in the integer domain. Subnormal ones: adding 0.5 lets the float adder round at 2^-24, f16's
// last place. At 65520 and above the result is infinity.
Value KernelBuilder::f32ToHalf(Value x) {
  Bits w{*this, x.getType()};
  Value bits = w.as(x, b.getI32Type());
  Value size = w.conj(bits, w.i32(0x7fffffff)), sign = w.right(w.conj(bits, w.i32(0x80000000)), 16);
  Value odd = w.conj(w.right(size, 13), w.i32(1));
  Value normal = w.right(w.plus(size, w.plus(odd, w.i32(0xfff - (112u << 23)))), 13);
  Value shifted = arith::AddFOp::create(b, loc, w.as(size, b.getF32Type()), w.real(b.getF32Type(), 0.5));
  Value subnormal = w.minus(w.as(shifted, b.getI32Type()), w.i32(0x3f000000));
  Value result = w.choose(w.above(w.i32(0x38800000), size), subnormal, normal);
  result = w.choose(w.above(size, w.i32(0x477fefff)), w.i32(0x7c00), result);
  result = w.choose(w.above(size, w.i32(0x7f800000)), w.i32(0x7e00), result);
  return w.as(w.narrow(w.disj(result, sign)), b.getF16Type());
}

} // namespace mrcc
