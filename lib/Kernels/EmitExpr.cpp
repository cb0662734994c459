// Expression nodes as arith and vector ops. Values: floats as they are, integers signless, bool i1, packed types in i8
// (extended), bf16 as its bits (i16), f8 and f4 as raw bytes (only moved and cast). f16 and bf16 are computed in f32
// and rounded after every node.
#include "VectorMath.h"
#include "mlir/IR/Matchers.h"
#include "mrcc/Kernels/KernelBuilder.h"
#include <cmath>

using namespace mlir;

namespace mrcc {

using Op = ExprNode::Op;

namespace {

bool isHalf(DType type) { return type == DType::f16 || type == DType::bf16; }
bool isRawFloat(DType type) { return isFloat(type) && bitWidth(type) <= 8; }

/// The value of a constant scalar or splat.
std::optional<double> constantFloat(Num x) {
  llvm::APFloat v(0.0);
  if (!matchPattern(x.v, m_ConstantFloat(&v)))
    return std::nullopt;
  bool lost;
  v.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return v.convertToDouble();
}

//===-- floats ----------------------------------------------------------------------------------------------------===//

Num sign(Num x) { // NaN and zeros stay
  return select(x > x.real(0), x.real(1), select(x < x.real(0), x.real(-1), x));
}

Num floatUnary(UnaryKind kind, Num x) {
  KernelBuilder &kb = *x.kb;
  switch (kind) {
  case UnaryKind::abs:
    return abs(x);
  case UnaryKind::acos:
    return vmath::acos(x);
  case UnaryKind::acosh:
    return vmath::acosh(x);
  case UnaryKind::asin:
    return vmath::asin(x);
  case UnaryKind::asinh:
    return vmath::asinh(x);
  case UnaryKind::atan:
    return vmath::atan(x);
  case UnaryKind::atanh:
    return vmath::atanh(x);
  case UnaryKind::ceil:
    return {kb, kb.ceil(x.v)};
  case UnaryKind::cos:
    return vmath::cos(x);
  case UnaryKind::cosh:
    return vmath::cosh(x);
  case UnaryKind::erf:
    return vmath::erf(x);
  case UnaryKind::exp:
    return vmath::exp(x);
  case UnaryKind::floor:
    return {kb, kb.floor(x.v)};
  case UnaryKind::is_nan:
    return x.op<arith::CmpFOp>(arith::CmpFPredicate::UNO, x.v, x.v);
  case UnaryKind::is_pos_inf:
    return x == x.real(HUGE_VAL);
  case UnaryKind::is_neg_inf:
    return x == x.real(-HUGE_VAL);
  case UnaryKind::log:
    return vmath::log(x);
  case UnaryKind::neg:
    return -x;
  case UnaryKind::reciprocal:
    return x.real(1) / x;
  case UnaryKind::round_even:
    return {kb, kb.roundEven(x.v)};
  case UnaryKind::rsqrt:
    return x.real(1) / sqrt(x);
  case UnaryKind::sigmoid:
    return vmath::sigmoid(x);
  case UnaryKind::sign:
    return sign(x);
  case UnaryKind::sin:
    return vmath::sin(x);
  case UnaryKind::sinh:
    return vmath::sinh(x);
  case UnaryKind::sqrt:
    return sqrt(x);
  case UnaryKind::tan:
    return vmath::tan(x);
  case UnaryKind::tanh:
    return vmath::tanh(x);
  case UnaryKind::gelu:
    return vmath::gelu(x);
  case UnaryKind::silu:
    return vmath::silu(x);
  case UnaryKind::softplus:
    return vmath::softplus(x);
  case UnaryKind::logical_not:
    return x == x.real(0);
  case UnaryKind::bitwise_not:
    break;
  }
  return (x.bits() ^ x.bits().integer(-1)).as(x.element()); // bitwise_not of a float: nothing makes it
}

/// max or min; NaN in either operand gives NaN. One instruction where an operand is a constant.
Num extreme(bool isMax, Num x, Num y) {
  auto pick = [&](Num a, Num b) { return isMax ? larger(a, b) : smaller(a, b); }; // b where unordered
  if (auto c = constantFloat(x); c && !std::isnan(*c))
    return pick(x, y);
  if (auto c = constantFloat(y); c && !std::isnan(*c))
    return pick(y, x);
  // An accumulator is x: the chain through it is two instructions.
  return select(y.op<arith::CmpFOp>(arith::CmpFPredicate::UNO, y.v, y.v), y, pick(y, x));
}

Num floatPow(Num x, Num y) {
  if (auto c = constantFloat(y)) { // what exporters write for squares, roots and the like
    if (*c == 1)
      return x;
    if (*c == 2)
      return x * x;
    if (*c == 3)
      return x * x * x;
    if (*c == 4)
      return (x * x) * (x * x);
    if (*c == -1)
      return x.real(1) / x;
    if (*c == 0.5) // -0 -> +0, -inf -> inf
      return select(x == x.real(-HUGE_VAL), x.real(HUGE_VAL), sqrt(x + x.real(0)));
  }
  return vmath::pow(x, y);
}

Num floatBinary(BinaryKind kind, Num x, Num y) {
  switch (kind) {
  case BinaryKind::add:
    return x + y;
  case BinaryKind::sub:
    return x - y;
  case BinaryKind::mul:
    return x * y;
  case BinaryKind::div:
    return x / y;
  case BinaryKind::fmod:
    return vmath::fmod(x, y);
  case BinaryKind::mod: { // the divisor's sign
    Num r = vmath::fmod(x, y);
    Num wrong = (r < r.real(0)) ^ (y < y.real(0));
    return select((r != r.real(0)) & wrong, r + y, copysign(r, select(r == r.real(0), y, r)));
  }
  case BinaryKind::pow:
    return floatPow(x, y);
  case BinaryKind::max:
    return extreme(true, x, y);
  case BinaryKind::min:
    return extreme(false, x, y);
  case BinaryKind::eq:
    return x == y;
  case BinaryKind::lt:
    return x < y;
  case BinaryKind::le:
    return x <= y;
  case BinaryKind::gt:
    return x > y;
  case BinaryKind::ge:
    return x >= y;
  case BinaryKind::logical_and:
    return (x != x.real(0)) & (y != y.real(0));
  case BinaryKind::logical_or:
    return (x != x.real(0)) | (y != y.real(0));
  case BinaryKind::logical_xor:
    return (x != x.real(0)) ^ (y != y.real(0));
  default:
    break;
  }
  return x; // bit operations on floats: nothing makes them
}

//===-- integers --------------------------------------------------------------------------------------------------===//

/// Integers with their signedness.
struct Integers {
  bool natural;
  Num compare(Num x, Num y, arith::CmpIPredicate s, arith::CmpIPredicate u) const {
    return x.op<arith::CmpIOp>(natural ? u : s, x.v, y.v);
  }
  Num less(Num x, Num y) const { return compare(x, y, arith::CmpIPredicate::slt, arith::CmpIPredicate::ult); }
  Num divide(Num x, Num y) const;
  Num remainder(Num x, Num y) const;
  Num power(Num x, Num y) const;
};

// A divisor of 0 gives 0, and the smallest number divided by -1 wraps: the instruction would trap on both.
Num Integers::divide(Num x, Num y) const {
  Num zero = y.integer(0), one = y.integer(1);
  if (natural) {
    Num none = y == zero;
    return select(none, zero, x.op<arith::DivUIOp>(x.v, select(none, one, y).v));
  }
  Num none = y == zero, minus = y == y.integer(-1);
  Num q = x.op<arith::DivSIOp>(x.v, select(none | minus, one, y).v);
  return select(minus, zero - x, select(none, zero, q));
}
Num Integers::remainder(Num x, Num y) const {
  Num zero = y.integer(0), one = y.integer(1);
  if (natural)
    return x.op<arith::RemUIOp>(x.v, select(y == zero, one, y).v);
  return x.op<arith::RemSIOp>(x.v, select((y == zero) | (y == y.integer(-1)), one, y).v);
}

// By squaring, over the bits of the exponent. A negative one gives 1, -1 or 0.
Num Integers::power(Num x, Num y) const {
  KernelBuilder &kb = *x.kb;
  Num one = x.integer(1), zero = x.integer(0);
  auto steps =
      kb.loop(0, int64_t(x.element().getIntOrFloatBitWidth()), 1, {one.v, x.v, y.v}, [&](Index, ValueRange args) {
        Num r(kb, args[0]), base(kb, args[1]), rest(kb, args[2]);
        Num odd = (rest & one) != zero;
        return KernelBuilder::Values{select(odd, r * base, r).v, (base * base).v, (rest >> 1).v};
      });
  Num r(kb, steps[0]);
  if (natural)
    return r;
  Num odd = (y & one) != zero, minusOne = x.integer(-1);
  Num inverse = select(x == one, one, select(x == minusOne, select(odd, minusOne, one), zero));
  return select(y < zero, inverse, r);
}

Num integerUnary(UnaryKind kind, Num x, bool natural) {
  Num zero = x.integer(0);
  switch (kind) {
  case UnaryKind::abs:
    return natural ? x : x.op<arith::MaxSIOp>(x.v, (zero - x).v);
  case UnaryKind::bitwise_not:
    return x ^ x.integer(-1);
  case UnaryKind::neg:
    return zero - x;
  case UnaryKind::logical_not:
    return x == zero;
  case UnaryKind::is_nan:
  case UnaryKind::is_pos_inf:
  case UnaryKind::is_neg_inf:
    return x != x;
  case UnaryKind::sign: {
    Num positive = select(x == zero, zero, x.integer(1));
    return natural ? positive : select(x < zero, x.integer(-1), positive);
  }
  default:
    return x; // ceil, floor, round_even; the others are made for floats alone
  }
}

Num integerBinary(BinaryKind kind, Num x, Num y, Integers as) {
  Num zero = x.integer(0);
  auto shift = [&](Num moved, Num out) { // by the width or more, or by less than none: all that was there is `out`
    Num width = x.integer(x.element().getIntOrFloatBitWidth());
    return select(x.op<arith::CmpIOp>(arith::CmpIPredicate::ult, y.v, width.v), moved, out);
  };
  switch (kind) {
  case BinaryKind::add:
    return x + y;
  case BinaryKind::sub:
    return x - y;
  case BinaryKind::mul:
    return x * y;
  case BinaryKind::div:
    return as.divide(x, y);
  case BinaryKind::fmod:
    return as.remainder(x, y);
  case BinaryKind::mod: {
    Num r = as.remainder(x, y);
    return as.natural ? r : select((r != zero) & ((r ^ y) < zero), r + y, r);
  }
  case BinaryKind::pow:
    return as.power(x, y);
  case BinaryKind::max:
    return as.natural ? x.op<arith::MaxUIOp>(x.v, y.v) : x.op<arith::MaxSIOp>(x.v, y.v);
  case BinaryKind::min:
    return as.natural ? x.op<arith::MinUIOp>(x.v, y.v) : x.op<arith::MinSIOp>(x.v, y.v);
  case BinaryKind::logical_and:
    return (x != zero) & (y != zero);
  case BinaryKind::logical_or:
    return (x != zero) | (y != zero);
  case BinaryKind::logical_xor:
    return (x != zero) ^ (y != zero);
  case BinaryKind::bitwise_and:
    return x & y;
  case BinaryKind::bitwise_or:
    return x | y;
  case BinaryKind::bitwise_xor:
    return x ^ y;
  case BinaryKind::shift_left:
    return shift(x.op<arith::ShLIOp>(x.v, y.v), zero);
  case BinaryKind::shift_right:
    return as.natural ? shift(x.op<arith::ShRUIOp>(x.v, y.v), zero)
                      : shift(x.op<arith::ShRSIOp>(x.v, y.v), select(x < zero, x.integer(-1), zero));
  case BinaryKind::eq:
    return x == y;
  case BinaryKind::lt:
    return as.less(x, y);
  case BinaryKind::gt:
    return as.less(y, x);
  case BinaryKind::le:
    return as.compare(x, y, arith::CmpIPredicate::sle, arith::CmpIPredicate::ule);
  case BinaryKind::ge:
    return as.compare(x, y, arith::CmpIPredicate::sge, arith::CmpIPredicate::uge);
  }
  return x;
}

//===-- casts -----------------------------------------------------------------------------------------------------===//

/// f64 -> f32 rounded to odd: a second rounding, to 16 bits or fewer, is then right.
Num toOdd(Num x) {
  Num t = x.op<arith::TruncFOp>(x.typeOf(x.kb->b.getF32Type()), x.v);
  Num back = t.op<arith::ExtFOp>(x.v.getType(), t.v), bits = t.bits();
  Num outside = abs(back) > abs(x);
  Num inward = select(outside, bits - bits.integer(1), bits);
  return select((back != x) & (x == x), inward | bits.integer(1), bits).asFloat();
}

Num toSingle(Num x, DType from) {
  if (from == DType::f64)
    return x.op<arith::TruncFOp>(x.typeOf(x.kb->b.getF32Type()), x.v);
  return {*x.kb, x.kb->toF32(x.v)};
}

// An f8 or f4 number as f32: the bits of exponent and significand move into f32's place, a multiplication corrects the
// bias and makes normal numbers of subnormal ones.
Num fromRawFloat(Num raw, DType type) {
  Type i32 = raw.kb->b.getI32Type();
  const llvm::fltSemantics &semantics = floatSemantics(type);
  unsigned mantissa = llvm::APFloat::semanticsPrecision(semantics) - 1;
  int bias = 1 - llvm::APFloat::semanticsMinExponent(semantics);
  const unsigned width = bitWidth(type);
  Num i = raw.op<arith::ExtUIOp>(raw.typeOf(i32), raw.v), size = i & i.integer((1 << (width - 1)) - 1),
      sign = (i & i.integer(1 << (width - 1))) << (32 - width);
  Num scaled = (size << (23 - mantissa)).asFloat();
  Num v = scaled * scaled.real(std::ldexp(1.0, 127 - bias));
  Num nan = v.real(NAN);
  switch (type) {
  case DType::f8e4m3fn:
    v = select(size == size.integer(0x7f), nan, v);
    break;
  case DType::f8e5m2:
    v = select(size == size.integer(0x7c), v.real(HUGE_VAL), v);
    v = select(size.op<arith::CmpIOp>(arith::CmpIPredicate::sgt, size.v, size.integer(0x7c).v), nan, v);
    break;
  case DType::f4e2m1: // every number is finite
    break;
  default:
    return select(i == i.integer(0x80), nan, (v.bits() | sign).asFloat()); // fnuz: one NaN, no -0
  }
  return (v.bits() | sign).asFloat();
}

// f32 -> f8 or f4, to nearest even. Above the largest number: the largest one (saturating) or NaN (infinity for e5m2).
// f4 always saturates and makes -0 of NaN.
Num toRawFloat(Num x, DType type, bool saturate) {
  const llvm::fltSemantics &semantics = floatSemantics(type);
  unsigned mantissa = llvm::APFloat::semanticsPrecision(semantics) - 1;
  int minExponent = llvm::APFloat::semanticsMinExponent(semantics), bias = 1 - minExponent;
  bool fnuz = type == DType::f8e4m3fnuz || type == DType::f8e5m2fnuz, finite = type == DType::f4e2m1;
  const unsigned width = bitWidth(type);
  Num bits = x.bits(), size = bits & bits.integer(0x7fffffff),
      sign = (bits >> (32 - width)) & bits.integer(1 << (width - 1));
  unsigned drop = 23 - mantissa;
  Num odd = (size >> drop) & bits.integer(1);
  int64_t rebias = int64_t(127 - bias) << 23;
  Num normal = (size + odd + bits.integer((int64_t(1) << (drop - 1)) - 1 - rebias)) >> drop;
  // Subnormal results: added to a power of two whose last place is f8's, the float adder rounds.
  double anchor = std::ldexp(1.0, minExponent - int(mantissa) + 23);
  Num anchored = abs(x) + x.real(anchor);
  Num subnormal = anchored.bits() - x.real(anchor).bits();
  Num r = select(abs(x) < x.real(std::ldexp(1.0, minExponent)), subnormal, normal);
  int64_t largest = type == DType::f8e4m3fn ? 0x7e : type == DType::f8e5m2 ? 0x7b : finite ? 7 : 0x7f;
  int64_t nan = fnuz ? 0x80 : finite ? 8 : 0x7f;
  Num over = (r > bits.integer(largest)) | (size > bits.integer(0x7f000000)); // far beyond: the sum wraps
  Num infinite = size == bits.integer(0x7f800000);
  int64_t beyond = type == DType::f8e5m2 ? 0x7c : nan;
  if (saturate || finite) { // infinity saturates, too
    r = select(over | infinite, bits.integer(largest), r);
  } else {
    r = select(over | infinite, bits.integer(beyond), r);
  }
  Num isNan = size > bits.integer(0x7f800000);
  Num signedResult = r | sign;
  if (fnuz) { // no -0: 0x80 is NaN
    signedResult = select(r == bits.integer(0), bits.integer(0), signedResult);
    if (!saturate)
      signedResult = select(over | infinite, bits.integer(nan), signedResult);
    signedResult = select(isNan, bits.integer(nan), signedResult);
  } else {
    signedResult = select(isNan, finite ? bits.integer(nan) : bits.integer(nan) | sign, signedResult);
  }
  return x.op<arith::TruncIOp>(x.typeOf(x.kb->b.getI8Type()), signedResult.v);
}

Num resizeInteger(Num x, Type to, bool natural) {
  unsigned from = x.element().getIntOrFloatBitWidth(), width = to.getIntOrFloatBitWidth();
  if (from == width)
    return x;
  if (from > width)
    return x.op<arith::TruncIOp>(x.typeOf(to), x.v);
  return natural ? x.op<arith::ExtUIOp>(x.typeOf(to), x.v) : x.op<arith::ExtSIOp>(x.typeOf(to), x.v);
}

/// i8 to the low bits of a packed type, extended again.
Num wrapPacked(Num x, DType type) {
  const unsigned bits = bitWidth(type);
  if (type != DType::i4 && type != DType::i2)
    return x & x.integer((1 << bits) - 1);
  Num high = x << (8 - bits);
  return high.op<arith::ShRSIOp>(high.v, high.integer(8 - bits).v);
}

/// The same bits; `to` is as wide.
Num bitcastNum(Num x, DType from, DType to) {
  Type element = valueType(x.kb->b.getContext(), to);
  if (from == DType::boolean)
    return x.op<arith::ExtUIOp>(x.typeOf(element), x.v);
  if (to == DType::boolean)
    return x != x.integer(0);
  if (isPacked(to))
    return wrapPacked(x, to);
  return element == x.element() ? x : x.op<arith::BitcastOp>(x.typeOf(element), x.v);
}

Num castNum(Num x, DType from, DType to, bool saturate) {
  KernelBuilder &kb = *x.kb;
  Type element = valueType(kb.b.getContext(), to);
  if (from == to)
    return x;
  if (isRawFloat(from)) {
    x = fromRawFloat(x, from);
    from = DType::f32;
  } else if (isHalf(from)) {
    x = toSingle(x, from);
    from = DType::f32;
  }
  if (from == to)
    return x;
  if (to == DType::boolean)
    return x != (isFloat(from) ? x.real(0) : x.integer(0));
  if (isRawFloat(to) || isHalf(to)) {
    Num single = x;
    if (from == DType::f64)
      single = toOdd(x);
    else if (from != DType::f32)
      single = castNum(x, from, DType::f32, saturate);
    return isHalf(to) ? Num(kb, kb.fromF32(single.v, element)) : toRawFloat(single, to, saturate);
  }
  if (isFloat(from) && isFloat(to))
    return to == DType::f64 ? x.op<arith::ExtFOp>(x.typeOf(element), x.v) : toSingle(x, from);
  if (isFloat(to))
    return isUnsigned(from) ? x.op<arith::UIToFPOp>(x.typeOf(element), x.v)
                            : x.op<arith::SIToFPOp>(x.typeOf(element), x.v);
  if (!isFloat(from)) {
    Num r = resizeInteger(x, element, isUnsigned(from));
    return isPacked(to) ? wrapPacked(r, to) : r;
  }
  // Towards zero; narrow types through a wider one, so that what does not fit wraps.
  if (to == DType::u64)
    return x.op<arith::FPToUIOp>(x.typeOf(element), x.v);
  Type wide = bitWidth(to) < 32 ? kb.b.getI32Type() : kb.b.getI64Type();
  if (to == DType::i32 || to == DType::i64)
    wide = element;
  Num r = resizeInteger(x.op<arith::FPToSIOp>(x.typeOf(wide), x.v), element, false);
  return isPacked(to) ? wrapPacked(r, to) : r;
}

//===-- nodes -----------------------------------------------------------------------------------------------------===//

Value emitConstant(KernelBuilder &kb, const ExprNode &node, int64_t lanes) {
  Type element = valueType(kb.b.getContext(), node.type);
  TypedAttr attr;
  if (auto floating = dyn_cast<FloatType>(element)) {
    llvm::APFloat v(llvm::bit_cast<double>(node.bits));
    bool lost;
    v.convert(floating.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lost);
    attr = kb.b.getFloatAttr(element, v);
  } else {
    uint64_t bits = node.bits;
    if (isFloat(node.type)) { // f8, f4, bf16
      llvm::APFloat v(llvm::bit_cast<double>(node.bits));
      bool lost;
      v.convert(floatSemantics(node.type), llvm::APFloat::rmNearestTiesToEven, &lost);
      bits = v.bitcastToAPInt().getZExtValue();
    }
    attr = kb.b.getIntegerAttr(element, llvm::APInt(element.getIntOrFloatBitWidth(), bits, false, true));
  }
  if (lanes)
    attr = DenseElementsAttr::get(VectorType::get({lanes}, element), Attribute(attr));
  return arith::ConstantOp::create(kb.b, kb.loc, attr);
}

} // namespace

Value emitNode(KernelBuilder &kb, const ExprNode &node, ArrayRef<Value> args, ArrayRef<DType> argTypes, int64_t lanes) {
  if (node.op == Op::constant)
    return emitConstant(kb, node, lanes);
  SmallVector<Num> x;
  for (auto [i, arg] : llvm::enumerate(args)) {
    bool spread = lanes && !isa<VectorType>(arg.getType()) && !(node.op == Op::select && i == 0);
    x.emplace_back(kb, spread ? kb.splat(arg, lanes) : arg);
  }
  switch (node.op) {
  case Op::unary: {
    auto kind = UnaryKind(node.imm);
    if (!isFloat(argTypes[0]))
      return integerUnary(kind, x[0], isUnsigned(argTypes[0])).v;
    if (!isHalf(argTypes[0]))
      return floatUnary(kind, x[0]).v;
    Num r = floatUnary(kind, toSingle(x[0], argTypes[0]));
    return node.type == DType::boolean ? r.v : kb.fromF32(r.v, x[0].element());
  }
  case Op::binary: {
    auto kind = BinaryKind(node.imm);
    if (!isFloat(argTypes[0])) {
      Num r = integerBinary(kind, x[0], x[1], {isUnsigned(argTypes[0])});
      return isPacked(node.type) ? wrapPacked(r, node.type).v : r.v;
    }
    if (!isHalf(argTypes[0]))
      return floatBinary(kind, x[0], x[1]).v;
    Num r = floatBinary(kind, toSingle(x[0], argTypes[0]), toSingle(x[1], argTypes[1]));
    return node.type == DType::boolean ? r.v : kb.fromF32(r.v, x[0].element());
  }
  case Op::select:
    return select(x[0], x[1], x[2]).v;
  case Op::cast:
    return castNum(x[0], argTypes[0], node.type, node.imm == 0).v;
  case Op::bitcast:
    return bitcastNum(x[0], argTypes[0], node.type).v;
  case Op::clamp_index: {
    Num low = x[0].op<arith::MaxSIOp>(x[0].v, x[0].integer(0).v);
    return low.op<arith::MinSIOp>(low.v, (x[1] - x[1].integer(1)).v).v;
  }
  default:
    break;
  }
  llvm_unreachable("leaves are emitted by the family");
}

/// The product that an addition may take in: a float multiplication that nothing else uses, as the argument's place.
static std::optional<size_t> fusableProduct(const Expr &body, const ExprNode &node, ArrayRef<unsigned> uses) {
  if (node.op != Op::binary || BinaryKind(node.imm) != BinaryKind::add ||
      (node.type != DType::f32 && node.type != DType::f64))
    return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ExprNode &x = body.nodes[node.args[i]];
    if (x.op == Op::binary && BinaryKind(x.imm) == BinaryKind::mul && uses[node.args[i]] == 1)
      return i;
  }
  return std::nullopt;
}

SmallVector<Value> emitBody(KernelBuilder &kb, const Expr &body, int64_t lanes, bool contract,
                            llvm::function_ref<Value(const ExprNode &, ArrayRef<Value>)> leaf) {
  SmallVector<unsigned> uses(body.nodes.size(), 0);
  for (const ExprNode &node : body.nodes)
    for (uint32_t arg : node.args)
      ++uses[arg];
  for (uint32_t r : body.results)
    ++uses[r];
  SmallVector<Value> values;
  for (const ExprNode &node : body.nodes) {
    if (auto product = contract ? fusableProduct(body, node, uses) : std::nullopt) {
      auto wide = [&](uint32_t n) {
        return lanes && !isa<VectorType>(values[n].getType()) ? kb.splat(values[n], lanes) : values[n];
      };
      auto &factors = body.nodes[node.args[*product]].args;
      values.push_back(kb.fma(wide(factors[0]), wide(factors[1]), wide(node.args[1 - *product])));
      continue;
    }
    SmallVector<Value> args;
    SmallVector<DType> types;
    bool wide = false; // some argument differs between lanes
    for (uint32_t arg : node.args) {
      args.push_back(values[arg]);
      types.push_back(body.nodes[arg].type);
      wide |= isa<VectorType>(values[arg].getType());
    }
    switch (node.op) {
    case Op::iter:
    case Op::load:
    case Op::load_at:
    case Op::acc:
    case Op::extent:
    case Op::param:
      values.push_back(leaf(node, args));
      break;
    default:
      values.push_back(emitNode(kb, node, args, types, wide ? lanes : 0));
    }
  }
  SmallVector<Value> results;
  for (uint32_t r : body.results)
    results.push_back(lanes && !isa<VectorType>(values[r].getType()) ? kb.splat(values[r], lanes) : values[r]);
  return results;
}

Value emitCombine(KernelBuilder &kb, BinaryKind kind, DType type, Value a, Value b) {
  ExprNode node{Op::binary, type, uint32_t(kind), 0, {0, 1}};
  auto vector = dyn_cast<VectorType>(a.getType());
  return emitNode(kb, node, {a, b}, {type, type}, vector ? vector.getDimSize(0) : 0);
}

} // namespace mrcc
