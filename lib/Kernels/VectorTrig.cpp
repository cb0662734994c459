// Trigonometric functions, in f64 for f32 too. sin, cos and tan reduce the argument by multiples of pi / 2: up to 2^20
// of them by three parts of pi / 2 whose products are exact, beyond by the bits of 2 / pi that matter (Payne and
// Hanek), behind a branch that is taken only if a lane needs it.
#include "VectorMath.h"
#include <cmath>

using namespace mlir;

namespace mrcc::vmath {

namespace {
bool isDouble(Num x) { return x.element().isF64(); }
Num widen(Num x) { return x.op<arith::ExtFOp>(x.typeOf(x.kb->b.getF64Type()), x.v); }
Num narrow(Num x) { return x.op<arith::TruncFOp>(x.typeOf(x.kb->b.getF32Type()), x.v); }
Num inDouble(Num x, llvm::function_ref<Num(Num)> f) { return isDouble(x) ? f(x) : narrow(f(widen(x))); }

/// x = quarter * pi / 2 + rest, |rest| <= pi / 4; only the two low bits of `quarter` (i64) count.
struct Reduced {
  Num quarter, rest;
};

Reduced reduceSmall(Num x) {
  Num magic = x.real(0x1.8p52), shifted = fma(x, x.real(0.63661977236758138), magic), n = shifted - magic;
  Num rest = ((x - n * x.real(0x1.921fb544p+0)) - n * x.real(0x1.0b4611a4p-34)) - n * x.real(0x1.13198a2e03707p-65);
  return {shifted.bits(), rest};
}

// 2 / pi = 0.(words), after one word of zeros.
constexpr uint64_t twoOverPi[] = {0,
                                  0xa2f9836e4e441529,
                                  0xfc2757d1f534ddc0,
                                  0xdb6295993c439041,
                                  0xfe5163abdebbc561,
                                  0xb7246e3a424dd2e0,
                                  0x06492eea09d1921c,
                                  0xfe1deb1cb129a73e,
                                  0xe88235f52ebb4484,
                                  0xe99c7026b45f7e41,
                                  0x3991d639835339f4,
                                  0x9c845f8bbdf9283b,
                                  0x1ff897ffde05980f,
                                  0xef2f118b5a0a6d1f,
                                  0x6d367ecf27cb09b7,
                                  0x4f463f669e5fea2d,
                                  0x7527bac7ebe5f17b,
                                  0x3d0739f78a5292ea,
                                  0x6bfb5fb11f8d5d08,
                                  0x56033046fc7b6bab};

// x = m * 2^e, m of 53 bits. Bits of 2 / pi that make multiples of 4 quarters are left out; the next 192 times m,
// modulo 2^192, are the quarter (2 bits) and its fraction. `words`: how many of the table exponents of x can reach.
Reduced reduceLarge(Num x, unsigned words) {
  Num i = x.bits() & x.bits().integer(INT64_MAX);
  Num m = (i & i.integer((int64_t(1) << 52) - 1)) | i.integer(int64_t(1) << 52);
  Num start = (i >> 52) - i.integer(1075 + 2 - 64); // first bit that counts, in the table with its word of zeros
  Num word = start >> 6, shift = start & i.integer(63);
  auto at = [&](unsigned offset) {
    Num found = i.integer(twoOverPi[std::min<size_t>(offset, std::size(twoOverPi) - 1)]);
    for (unsigned k = 1; k < words; ++k)
      if (k + offset < std::size(twoOverPi))
        found = select(word == i.integer(k), i.integer(twoOverPi[k + offset]), found);
    return found;
  };
  Num w[4] = {at(0), at(1), at(2), at(3)};
  auto window = [&](int k) { // shift may be 0: the right part is shifted in two steps
    Num left = i.op<arith::ShLIOp>(w[k].v, shift.v);
    Num right = i.op<arith::ShRUIOp>((w[k + 1] >> 1).v, (i.integer(63) - shift).v);
    return left | right;
  };
  auto product = [&](Num a) { // 128 bits: low, high
    auto mul = arith::MulUIExtendedOp::create(i.kb->b, i.kb->loc, m.v, a.v);
    return std::pair(Num(*i.kb, mul.getLow()), Num(*i.kb, mul.getHigh()));
  };
  auto [lowest, carry0] = product(window(2));
  auto [low, carry1] = product(window(1));
  Num middle = low + carry0;
  Num overflow =
      middle.op<arith::ExtUIOp>(i.v.getType(), middle.op<arith::CmpIOp>(arith::CmpIPredicate::ult, middle.v, low.v).v);
  Num high = m * window(0) + carry1 + overflow;
  // Fraction as a signed number of 128 bits in [-1/2, 1/2): the quarter is rounded to the nearest.
  Num fraction = (high << 2) | (middle >> 62), rest = middle << 2;
  Num quarter = (high >> 62) + (fraction >> 63);
  auto toFloat = [&](Num v, bool isSigned) {
    Type f64 = v.typeOf(v.kb->b.getF64Type());
    return isSigned ? v.op<arith::SIToFPOp>(f64, v.v) : v.op<arith::UIToFPOp>(f64, v.v);
  };
  Num f = toFloat(fraction, true) * x.real(0x1p-64) + toFloat(rest, false) * x.real(0x1p-128);
  Num angle = f * x.real(1.5707963267948966);
  Num minus = x.bits() < i.integer(0);
  return {select(minus, i.integer(0) - quarter, quarter), select(minus, -angle, angle)};
}

Reduced reduce(Num x, bool wasSingle) {
  KernelBuilder &kb = *x.kb;
  Num size = abs(x), large = size >= x.real(0x1p20);
  Value any = large.lanes() ? vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::OR, large.v).getResult()
                            : large.v;
  Reduced small = reduceSmall(x);
  auto branch =
      scf::IfOp::create(kb.b, kb.loc, TypeRange{small.quarter.v.getType(), small.rest.v.getType()}, any, true);
  {
    OpBuilder::InsertionGuard guard(kb.b);
    kb.b.setInsertionPointToStart(branch.thenBlock());
    Reduced exact = reduceLarge(x, wasSingle ? 3 : 17);
    scf::YieldOp::create(
        kb.b, kb.loc,
        ValueRange{select(large, exact.quarter, small.quarter).v, select(large, exact.rest, small.rest).v});
    kb.b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(kb.b, kb.loc, ValueRange{small.quarter.v, small.rest.v});
  }
  Num rest(kb, branch.getResult(1));
  return {Num(kb, branch.getResult(0)), select(size < x.real(HUGE_VAL), rest, x.real(NAN))};
}

Num sinReduced(Num r) {
  Num z = r * r;
  return fma(r * z,
             polynomial(z, {-0.16666666666666641, 0.0083333333333235754, -0.000198412698300642, 2.7557313621771576e-06,
                            -2.5050729635150901e-08, 1.5894416117286305e-10}),
             r); // 6e-18
}
Num cosReduced(Num r) {
  Num z = r * r;
  return fma(z * z,
             polynomial(z, {0.04166666666666665, -0.0013888888888882785, 2.4801587294577829e-05,
                            -2.7557315719792157e-07, 2.0875894650411363e-09, -1.1367797640996666e-11}),
             fma(z, r.real(-0.5), r.real(1))); // 1e-19
}

Num sinOfQuarter(Num quarter, Num rest) {
  Num odd = (quarter & quarter.integer(1)) != quarter.integer(0),
      minus = (quarter & quarter.integer(2)) != quarter.integer(0);
  Num v = select(odd, cosReduced(rest), sinReduced(rest));
  return select(minus, -v, v);
}

// atan on [0, inf): above tan(pi / 8) by atan((x - 1) / (x + 1)) + pi / 4, above its inverse by pi / 2 - atan(1 / x).
Num atanPositive(Num x) {
  Num one = x.real(1), high = x > x.real(2.4142135623730951), mid = x > x.real(0.41421356237309503);
  Num t = select(high, -one / x, select(mid, (x - one) / (x + one), x)), z = t * t;
  Num p = polynomial(z, {-0.33333333333333265, 0.19999999999968743, -0.14285714281312481, 0.11111110822454413,
                         -0.090908984822234043, 0.076920672756941214, -0.066631293607865738, 0.058477401324045462,
                         -0.050373746411819728, 0.037988649516346618, -0.017799242945333003}); // 2e-18
  Num base = select(high, x.real(1.5707963267948966), select(mid, x.real(0.78539816339744828), x.real(0)));
  return base + fma(t * z, p, t);
}

// asin on [0, 1/2].
Num asinSmall(Num x) {
  Num z = x * x;
  return fma(x * z,
             polynomial(z, {0.16666666666666161, 0.075000000001942194, 0.044642856921584116, 0.030381956155980768,
                            0.022371811839642514, 0.017359121769547826, 0.013889060414238636, 0.01215502592829353,
                            0.0065484991314854217, 0.019568966053407705, -0.016420367967051902, 0.03212582683177885}),
             x); // 3e-17
}
} // namespace

Num sin(Num v) {
  return inDouble(v, [&](Num x) {
    auto [quarter, rest] = reduce(x, !isDouble(v));
    return select(x == x.real(0), x, sinOfQuarter(quarter, rest)); // -0
  });
}
Num cos(Num v) {
  return inDouble(v, [&](Num x) {
    auto [quarter, rest] = reduce(x, !isDouble(v));
    return sinOfQuarter(quarter + quarter.integer(1), rest);
  });
}
Num tan(Num v) {
  return inDouble(v, [&](Num x) {
    auto [quarter, rest] = reduce(x, !isDouble(v));
    Num odd = (quarter & quarter.integer(1)) != quarter.integer(0), s = sinReduced(rest), c = cosReduced(rest);
    return select(x == x.real(0), x, select(odd, -c, s) / select(odd, s, c));
  });
}

Num asin(Num v) {
  Num positive =
      inDouble(abs(v), [](Num x) { // beyond 1/2: pi / 2 - 2 asin(sqrt((1 - x) / 2)); beyond 1: sqrt gives NaN
        Num small = x <= x.real(0.5);
        Num a = asinSmall(select(small, x, sqrt((x.real(1) - x) * x.real(0.5))));
        return select(small, a, x.real(1.5707963267948966) - (a + a));
      });
  return copysign(positive, v);
}
Num acos(Num v) {
  return inDouble(v, [](Num x) {
    Num size = abs(x), small = size <= x.real(0.5), minus = x < x.real(0);
    Num a = asinSmall(select(small, size, sqrt((x.real(1) - size) * x.real(0.5))));
    Num twice = a + a, half = x.real(1.5707963267948966);
    return select(small, select(minus, half + a, half - a), select(minus, x.real(3.1415926535897931) - twice, twice));
  });
}
Num atan(Num v) { return copysign(inDouble(abs(v), atanPositive), v); }

} // namespace mrcc::vmath
