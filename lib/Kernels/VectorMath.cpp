// Exponentials, logarithms and what is made of them. Coefficients are minimax polynomials (Remez exchange in 50 digits,
// rounded to the type); the comment beside each gives its error before rounding. Functions that are rarely hot are
// computed in f64 for f32, too.
#include "VectorMath.h"
#include <cmath>

using namespace mlir;

namespace mrcc::vmath {

namespace {
constexpr double log2e = 1.4426950408889634, ln2 = 0.69314718055994531, infinity = HUGE_VAL;

bool isDouble(Num x) { return x.element().isF64(); }
Num widen(Num x) { return x.op<arith::ExtFOp>(x.typeOf(x.kb->b.getF64Type()), x.v); }
Num narrow(Num x) { return x.op<arith::TruncFOp>(x.typeOf(x.kb->b.getF32Type()), x.v); }
/// f of f64 for x of either type.
Num inDouble(Num x, llvm::function_ref<Num(Num)> f) { return isDouble(x) ? f(x) : narrow(f(widen(x))); }
/// The same for odd functions; f sees |x|. The sign is put back in x's type: LLVM lowers a copysign whose operands
/// differ in type, as it makes of f64 signs of f16 results, by a library call.
Num oddInDouble(Num x, llvm::function_ref<Num(Num)> f) { return copysign(inDouble(abs(x), f), x); }

/// e^x as mantissa * power, a power of two. Chains of operations that wait for each other are kept short (a CPU has few
/// vectors in flight): polynomials are paired, and what is made of it takes the product into an FMA.
struct Exponential {
  Num mantissa, power;
};

/// The least exponent of exponential().
double lowestExponent(Num x) { return isDouble(x) ? -709.1 : -88.03; }

// e^(sign x) = e^r 2^n with n the integer nearest to sign x / ln 2, at most 127 (1023): the last numbers before
// infinity have an r up to ln 2. The power is 0 below 2^-126 (2^-1022). `sign` (1 or -1) goes into the constants.
Exponential exponential(Num x, double sign) {
  bool wide = isDouble(x);
  const int64_t bias = wide ? 1023 : 127, mantissa = wide ? 52 : 23;
  const double round = (wide ? 0x1.8p52 : 0x1.8p23) + double(bias); // added, it leaves n + bias in the low bits
  Num magic = x.real(round);
  Num shifted = smaller(x.real(round + double(bias)), fma(x, x.real(sign * log2e), magic)), n = shifted - magic;
  // The high part of ln 2 has so few bits that n times it is exact, also without FMA. r has the sign in it.
  const double high = wide ? 0.69314718036912382 : 0.693145752, low = wide ? 1.9082149292705877e-10 : 1.42860682e-06;
  Num r = fma(n, x.real(-sign * low), fma(n, x.real(-sign * high), x));
  SmallVector<double> c;
  if (wide)
    c = {0.500000000000001,      0.16666666666666674,    0.041666666666521524,   0.008333333333322172,
         0.0013888888947962543,  0.00019841269869986926, 2.4801487165838708e-05, 2.7557242213510691e-06,
         2.7632716110097873e-07, 2.5110096304033489e-08}; // 8e-18
  else
    c = {0.500001609, 0.166666672, 0.0416303389, 0.00835243799, 0.00157846429}; // 2e-8; 1e-7 beyond 0.35
  for (size_t i = 1; i < c.size(); i += 2)
    c[i] *= sign;
  Num one = x.real(1);
  return {fma(r * r, pairedPolynomial(r, c), sign > 0 ? one + r : one - r), (shifted.bits() << mantissa).asFloat()};
}

/// 1 + e^-x
Num onePlusExp(Num x) {
  Exponential e = exponential(smaller(x.real(-lowestExponent(x)), x), -1);
  return fma(e.mantissa, e.power, x.real(1));
}
} // namespace

Num exp(Num x) {
  Exponential e = exponential(larger(x.real(lowestExponent(x)), x), 1);
  return e.mantissa * e.power;
}

// 2^x = 2^n 2^f with n the nearest integer; n goes into the exponent by an integer addition. At x = -127 f is 0, the
// power is 1 and its bits become 0.
Num exp2Below(Num x) {
  x = larger(x.real(-127), x);
  Num magic = x.real(0x1.8p23), shifted = x + magic, f = x - (shifted - magic);
  Num p =
      fma(f, polynomial(f, {0.693147004, 0.240222424, 0.0555073358, 0.00967151299, 0.00132647273}), x.real(1)); // 9e-8
  return (p.bits() + (shifted.bits() << 23)).asFloat();
}

// 2^n 2^f with n the integer nearest to x / ln 2 and f the rest, which an FMA gives without rounding: the error is that
// of log2(e) in f32, and few constants are needed. The power is 0 where n is -127.
Num expBelow(Num x) {
  x = larger(x.real(-88.03), x); // NaN stays
  Num magic = x.real(0x1.8p23 + 127), scale = x.real(log2e), shifted = fma(x, scale, magic);
  Num f = fma(x, scale, magic - shifted);
  Num p = polynomial(f, {1, 0.693147004, 0.240222424, 0.0555073358, 0.00967151299, 0.00132647273}); // 9e-8
  return p * (shifted.bits() << 23).asFloat();
}

Num log(Num x) {
  bool wide = isDouble(x);
  Num infinite = x.real(infinity);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); subnormal numbers are scaled up before.
  Num tiny = x < x.real(wide ? 0x1p-1022 : 0x1p-126);
  Num i = select(tiny, x * x.real(wide ? 0x1p54 : 0x1p25), x).bits();
  Num lowest = i.integer(wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
  int64_t mantissa = wide ? 52 : 23;
  // Raised by half the range, e is positive for all finite x > 0: a logical shift will do.
  int64_t lift = wide ? 1024 : 128;
  Num raised = (i - lowest + i.integer(lift << mantissa)) >> mantissa;
  Num f = (i - ((raised - i.integer(lift)) << mantissa)).asFloat() - x.real(1);
  Num magic = x.real(wide ? 0x1.8p52 : 0x1.8p23);
  Num e = (raised + magic.bits()).asFloat() - magic - select(tiny, x.real(lift + (wide ? 54 : 25)), x.real(lift));
  Num square = f * f, result;
  if (wide) {
    // log(1 + f) = f - f^2/2 + s (f^2/2 + R), s = f / (2 + f), R even in s.
    Num s = f / (f + x.real(2)), z = s * s, half = x.real(0.5) * square;
    Num r =
        z * polynomial(z, {0.66666666666666663, 0.40000000000004809, 0.28571428569358909, 0.22222222625643279,
                           0.1818177619915668, 0.15387104844714913, 0.13249168709519246, 0.13264310226477766}); // 3e-20
    result = e * x.real(0.69314718036912382) - ((half - (s * (half + r) + e * x.real(1.9082149292705877e-10))) - f);
  } else {
    Num q = polynomial(f, {0.333333135, -0.250000089, 0.200021341, -0.166680068, 0.142192245, -0.124051355, 0.118903227,
                           -0.116796546, 0.0674660206}); // 8e-10
    Num tail = fma(e, x.real(1.42860682e-06), square * f * q);
    result = (f + fma(square, x.real(-0.5), tail)) + e * x.real(0.693145752);
  }
  result = select(x < infinite, result, infinite);
  return select(x > x.real(0), result, select(x == x.real(0), -infinite, x.real(NAN)));
}

// log(1 + x) = log(w) + (x - (w - 1)) / w with w = 1 + x rounded.
Num log1p(Num x) {
  Num one = x.real(1), w = one + x;
  Num lost = (x - (w - one)) / w;
  Num regular = select(x < x.real(infinity), lost, x.real(0));
  return log(w) + select(w == x.real(0), x.real(0), regular);
}

Num sigmoid(Num x) { return x.real(1) / onePlusExp(x); }
Num silu(Num x) { return x / onePlusExp(x); }
Num softplus(Num x) { return larger(x, x.real(0)) + log1p(exp(-abs(x))); }

Num tanh(Num x) {
  bool wide = isDouble(x);
  Num size = abs(x), z = x * x;
  Num small =
      wide ? polynomial(z, {-0.33333333333333331, 0.13333333333333328, -0.053968253968247351, 0.021869488535809053,
                            -0.008863235519639549, 0.0035921278456965359, -0.0014558320239887934,
                            0.00059000728560809233, -0.00023900862705363579, 9.6409246448080833e-05,
                            -3.7802562091627619e-05, 1.3023067289893544e-05, -2.8404249088634579e-06}) // 1e-21
           : polynomial(z, {-0.333332926, 0.133315414, -0.0537386239, 0.0206159968, -0.00566477515});  // 8e-9
  Num grown = exp(clamp(size + size, 0, 44));
  Num large = copysign(x.real(1) - x.real(2) / (grown + x.real(1)), x);
  return select(size < x.real(wide ? 0.55 : 0.625), fma(x * z, small, x), large);
}

//===-- error function --------------------------------------------------------------------------------------------===//

namespace {
// erf(x) / x as a polynomial of x^2 for |x| < 1.
Num erfSmall(Num x) {
  Num z = x * x;
  return x * (isDouble(x) ? polynomial(z, {1.1283791670955126, -0.37612638903183754, 0.11283791670955119,
                                           -0.026866170645129733, 0.005223977625422086, -0.00085483270218532055,
                                           0.00012055332899358137, -1.4925647465123029e-05, 1.6462043407885698e-06,
                                           -1.6364614422603262e-07, 1.4792145762364117e-08, -1.2163041973788294e-09,
                                           8.7037900446721262e-11, -4.2228965173137951e-12}) // 2e-21
                          : polynomial(z, {1.12837911, -0.37612626, 0.112835854, -0.0268538129, 0.00518832775,
                                           -0.000801019371, 7.85386146e-05})); // 1e-9
}

// erfc(a) for a >= 1, f64: exp(-a^2) times a polynomial of (a - 3) / (a + 3) on [1, 6.2]. 0 to rounding of 1 beyond.
Num erfcLarge(Num a) {
  a = clamp(a, 1, 6.2);
  Num t = (a - a.real(3)) / (a + a.real(3));
  return exp(-(a * a)) *
         polynomial(t, {0.17900115118138996, -0.32623356004303722, 0.24560380171233087, -0.15011593650077584,
                        0.071665837197978033, -0.024392499318786121, 0.0042691363328428494, 0.00070774644324223836,
                        -0.00059706194764993635, 4.5255211448249263e-05, 6.4056512811644695e-05,
                        -1.2859501168191636e-05, -7.9773529574615216e-06, 2.1135660984000588e-06,
                        1.2456591817594528e-06, -2.7228718963641575e-07, -2.0594447368054762e-07}); // 6e-19
}
} // namespace

Num erf(Num x) {
  Num size = abs(x), one = x.real(1), rest;
  if (isDouble(x)) {
    rest = erfcLarge(size);
  } else { // -log(erfc) on [1, 3.95]; beyond, erf rounds to 1
    Num a = clamp(size, 1, 3.95);
    rest = exp(-polynomial(a, {0.000353720097, 1.12704003, 0.638225675, 0.103037365, -0.0218053162, 0.00293960678,
                               -0.000185573968})); // 1e-9
  }
  return select(size < one, erfSmall(x), copysign(one - rest, x));
}

// x Phi(x) = max(x, 0) - a Phi(-a), a = |x|: no cancellation.
Num gelu(Num x) {
  Num size = abs(x), positive = larger(x, x.real(0)), tail;
  if (isDouble(x)) {
    size = smaller(x.real(9), size); // NaN stays
    Num a = size * x.real(0.70710678118654752);
    tail = x.real(0.5) * select(a < x.real(1), x.real(1) - erfSmall(a), erfcLarge(a));
  } else {
    size = smaller(x.real(6), size); // NaN stays
    Num power =
        pairedPolynomial(size, {-0.999999702, -1.15111935, -0.459097058, -0.0528180152, 0.00750642596, -0.000458251161,
                                -6.0593753e-05, 1.4458923e-05, -8.72821545e-07}); // log2(Phi(-a)), 1e-7 / sqrt(Phi)
    tail = exp2Below(power);                                                      // at least 2^-31
  }
  return fma(-size, tail, positive);
}

//===-- powers and hyperbolic functions ---------------------------------------------------------------------------===//

static Num powDouble(Num x, Num y) {
  Num zero = x.real(0), one = x.real(1), size = abs(x);
  Num r = exp(y * log(size));
  r = select(size == one, one, r); // also for y = infinity
  // Whole exponents are odd or even; from 2^53 on all are even.
  Num whole = y == Num(*x.kb, x.kb->floor(y.v)), half = y * x.real(0.5);
  Num even = half == Num(*x.kb, x.kb->floor(half.v));
  Num odd = select(even, whole.integer(0), whole);
  Num negative = select(whole, select(odd, -r, r), select(abs(x) == x.real(infinity), r, x.real(NAN)));
  Num minus = x.bits() < x.bits().integer(0); // -0, too
  negative = select(x == zero, select(odd, -r, r), negative);
  r = select(minus, negative, r);
  r = select(x != x, x, r);
  r = select(y != y, y, r);
  return select(y == zero, one, select(x == one, one, r));
}
Num pow(Num x, Num y) { return isDouble(x) ? powDouble(x, y) : narrow(powDouble(widen(x), widen(y))); }

Num sinh(Num v) {
  return oddInDouble(v, [](Num x) {
    Num z = x * x;
    Num small = fma(
        x * z,
        polynomial(z, {0.16666666666666666, 0.0083333333333333332, 0.00019841269841269619, 2.7557319224113396e-06,
                       2.5052108346198191e-08, 1.6059050734494889e-10, 7.6464694781581862e-13, 2.8486834750908024e-15}),
        x);                          // 1e-22
    Num half = exp(x - x.real(ln2)); // half of exp, so that it overflows where sinh does
    return select(x < x.real(1), small, half - x.real(0.25) / half);
  });
}
Num cosh(Num v) {
  return inDouble(v, [](Num x) {
    Num half = exp(abs(x) - x.real(ln2));
    return half + x.real(0.25) / half;
  });
}
Num asinh(Num v) {
  return oddInDouble(v, [](Num x) {
    Num z = x * x, one = x.real(1);
    Num small = log1p(x + z / (one + sqrt(one + z)));
    return select(x < x.real(0x1p28), small, log(x) + x.real(ln2));
  });
}
Num acosh(Num v) {
  return inDouble(v, [](Num x) {
    Num t = x - x.real(1);
    Num small = log1p(t + sqrt(fma(t, t, t + t)));
    Num r = select(x < x.real(0x1p28), small, log(x) + x.real(ln2));
    return select(t < x.real(0), x.real(NAN), r);
  });
}
Num atanh(Num v) {
  return oddInDouble(v, [](Num x) { return x.real(0.5) * log1p((x + x) / (x.real(1) - x)); });
}

// Division with remainder in steps of at most 2^24 times y, each exact: y times a quotient of 24 bits fits, in two
// halves of y for f64.
static Num fmodDouble(Num x, Num y) { // of |x|
  KernelBuilder &kb = *x.kb;
  Num size = abs(y), mask = size.bits().integer(int64_t(0xfffffffff8000000));
  Num high = (size.bits() & mask).asFloat(), low = size - high;
  Num quotientMask = size.bits().integer(int64_t(0xffffffffe0000000)); // 24 bits
  auto more = [&](Num r) {                                             // any lane, none for NaN, infinity or y = 0
    Num c = (r >= size) & (r < x.real(infinity)) & (size > x.real(0));
    return c.lanes() ? vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::OR, c.v).getResult() : c.v;
  };
  Type type = x.v.getType();
  auto loop = scf::WhileOp::create(kb.b, kb.loc, TypeRange{type}, ValueRange{abs(x).v});
  {
    OpBuilder::InsertionGuard guard(kb.b);
    Block *test = kb.b.createBlock(&loop.getBefore(), {}, {type}, {kb.loc});
    scf::ConditionOp::create(kb.b, kb.loc, more(Num(kb, test->getArgument(0))), test->getArguments());
    Block *body = kb.b.createBlock(&loop.getAfter(), {}, {type}, {kb.loc});
    Num r(kb, body->getArgument(0));
    Num q(kb, kb.floor(((r / size).bits() & quotientMask).asFloat().v));
    Num next = (r - q * high) - q * low;
    next = select(next < x.real(0), next + size, next);
    scf::YieldOp::create(kb.b, kb.loc, select(r >= size, next, r).v);
  }
  Num r(kb, loop.getResult(0));
  Num undefined = (size == x.real(0)) | (abs(x) == x.real(infinity)) | (x != x) | (y != y);
  return select(undefined, x.real(NAN), r);
}
Num fmod(Num x, Num y) { return copysign(isDouble(x) ? fmodDouble(x, y) : narrow(fmodDouble(widen(x), widen(y))), x); }

} // namespace mrcc::vmath
