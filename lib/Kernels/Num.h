// Arithmetic on kernel values with C++ operators, so that polynomials and bit tricks read like formulas. A Num is a
// scalar or a vector of any element type; operators follow the element type (integers: signed where it matters).
#pragma once
#include "mlir/Dialect/Math/IR/Math.h"
#include "mrcc/Kernels/KernelBuilder.h"

namespace mrcc {

struct Num {
  KernelBuilder *kb = nullptr;
  mlir::Value v;

  Num() = default;
  Num(KernelBuilder &kb, mlir::Value v) : kb(&kb), v(v) {}

  mlir::Type element() const { return mlir::getElementTypeOrSelf(v.getType()); }
  int64_t lanes() const {
    auto vector = mlir::dyn_cast<mlir::VectorType>(v.getType());
    return vector ? vector.getDimSize(0) : 0;
  }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(element()); }
  mlir::Type typeOf(mlir::Type element) const {
    return lanes() ? mlir::Type(mlir::VectorType::get({lanes()}, element)) : element;
  }

  /// A constant of this shape; of this type unless `element` is given. Integers wrap.
  Num real(double value) const { return constant(kb->b.getFloatAttr(element(), value)); }
  Num integer(int64_t value) const { return integer(element(), value); }
  Num integer(mlir::Type element, int64_t value) const {
    return constant(
        kb->b.getIntegerAttr(element, llvm::APInt(element.getIntOrFloatBitWidth(), uint64_t(value), false, true)));
  }
  Num constant(mlir::TypedAttr attr) const {
    if (lanes())
      attr = mlir::DenseElementsAttr::get(mlir::cast<mlir::VectorType>(typeOf(attr.getType())), mlir::Attribute(attr));
    return {*kb, mlir::arith::ConstantOp::create(kb->b, kb->loc, attr)};
  }

  template <class Op, class... Args> Num op(Args... args) const {
    return {*kb, Op::create(kb->b, kb->loc, args...).getResult()};
  }
  /// The same bits as an integer, or as a float of this width.
  Num bits() const { return as(kb->b.getIntegerType(element().getIntOrFloatBitWidth())); }
  Num asFloat() const {
    return as(element().getIntOrFloatBitWidth() == 64 ? mlir::Type(kb->b.getF64Type()) : kb->b.getF32Type());
  }
  Num as(mlir::Type element) const { return op<mlir::arith::BitcastOp>(typeOf(element), v); }
};

#define MRCC_NUM_OPERATOR(symbol, Name)                                                                                \
  inline Num operator symbol(Num x, Num y) {                                                                           \
    return x.isFloat() ? x.op<mlir::arith::Name##FOp>(x.v, y.v) : x.op<mlir::arith::Name##IOp>(x.v, y.v);              \
  }
MRCC_NUM_OPERATOR(+, Add)
MRCC_NUM_OPERATOR(-, Sub)
MRCC_NUM_OPERATOR(*, Mul)
#undef MRCC_NUM_OPERATOR
inline Num operator/(Num x, Num y) { return x.op<mlir::arith::DivFOp>(x.v, y.v); }
inline Num operator-(Num x) { return x.isFloat() ? x.op<mlir::arith::NegFOp>(x.v) : x.integer(0) - x; }
inline Num operator&(Num x, Num y) { return x.op<mlir::arith::AndIOp>(x.v, y.v); }
inline Num operator|(Num x, Num y) { return x.op<mlir::arith::OrIOp>(x.v, y.v); }
inline Num operator^(Num x, Num y) { return x.op<mlir::arith::XOrIOp>(x.v, y.v); }
inline Num operator<<(Num x, int64_t n) { return x.op<mlir::arith::ShLIOp>(x.v, x.integer(n).v); }
inline Num operator>>(Num x, int64_t n) { return x.op<mlir::arith::ShRUIOp>(x.v, x.integer(n).v); } // logical

/// Ordered comparisons of floats (false for NaN), signed ones of integers.
inline Num compare(Num x, Num y, mlir::arith::CmpFPredicate f, mlir::arith::CmpIPredicate i) {
  return x.isFloat() ? x.op<mlir::arith::CmpFOp>(f, x.v, y.v) : x.op<mlir::arith::CmpIOp>(i, x.v, y.v);
}
inline Num operator<(Num x, Num y) {
  return compare(x, y, mlir::arith::CmpFPredicate::OLT, mlir::arith::CmpIPredicate::slt);
}
inline Num operator>(Num x, Num y) {
  return compare(x, y, mlir::arith::CmpFPredicate::OGT, mlir::arith::CmpIPredicate::sgt);
}
inline Num operator<=(Num x, Num y) {
  return compare(x, y, mlir::arith::CmpFPredicate::OLE, mlir::arith::CmpIPredicate::sle);
}
inline Num operator>=(Num x, Num y) {
  return compare(x, y, mlir::arith::CmpFPredicate::OGE, mlir::arith::CmpIPredicate::sge);
}
inline Num operator==(Num x, Num y) {
  return compare(x, y, mlir::arith::CmpFPredicate::OEQ, mlir::arith::CmpIPredicate::eq);
}
inline Num operator!=(Num x, Num y) {
  return compare(x, y, mlir::arith::CmpFPredicate::UNE, mlir::arith::CmpIPredicate::ne);
}

inline Num select(Num condition, Num x, Num y) { return x.op<mlir::arith::SelectOp>(condition.v, x.v, y.v); }
inline Num fma(Num x, Num y, Num z) { return {*x.kb, x.kb->fma(x.v, y.v, z.v)}; }
inline Num abs(Num x) { return x.op<mlir::math::AbsFOp>(x.v); }
inline Num sqrt(Num x) { return x.op<mlir::math::SqrtOp>(x.v); }
inline Num copysign(Num size, Num sign) { return size.op<mlir::math::CopySignOp>(size.v, sign.v); }
/// One instruction on x86; where y is NaN the result is y, where x is NaN it is y, too.
inline Num larger(Num x, Num y) { return select(x > y, x, y); }
inline Num smaller(Num x, Num y) { return select(x < y, x, y); }
/// x between lo and hi; NaN stays NaN.
inline Num clamp(Num x, double lo, double hi) { return larger(x.real(lo), smaller(x.real(hi), x)); }
/// c[0] + c[1] x + c[2] x^2 ...
inline Num polynomial(Num x, llvm::ArrayRef<double> c) {
  Num sum = x.real(c.back());
  for (double k : llvm::reverse(c.drop_back()))
    sum = fma(sum, x, x.real(k));
  return sum;
}
/// The same with neighbouring terms paired, a polynomial of x^2: one more multiplication, half as many operations that
/// wait for each other.
inline Num pairedPolynomial(Num x, llvm::ArrayRef<double> c) {
  size_t n = c.size() - 1;
  auto pair = [&](size_t i) { return fma(x, x.real(c[i + 1]), x.real(c[i])); };
  Num square = x * x, sum = n % 2 ? pair(--n) : x.real(c[n]);
  while (n > 0)
    sum = fma(square, sum, pair(n -= 2));
  return sum;
}

} // namespace mrcc
