// Portable transcendental functions. Method: exact reduction to a small interval with constants in two parts (hi + lo),
// a Taylor series there (coefficients are ratios of small integers, so none is copied from a table), and careful
// addition of the parts. Compile with -ffp-contract=off.
#include "mrcc/Fold/Math.h"
#include <bit>
#include <cmath>
#include <limits>

namespace mrcc::portable {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr double log2e = 0x1.71547652b82fep+0;
constexpr double ln2Hi = 0x1.62e42fee00000p-1, ln2Lo = 0x1.a39ef35793c76p-33; // 32 bits, so that k * ln2Hi is exact
constexpr double ln2 = 0x1.62e42fefa39efp-1;
constexpr double halfPiHi = 0x1.921fb54442d18p+0, halfPiLo = 0x1.1a62633145c07p-54;

uint64_t bitsOf(double x) { return std::bit_cast<uint64_t>(x); }
bool isNan(double x) { return x != x; }
double magnitude(double x) { return std::bit_cast<double>(bitsOf(x) & ~(uint64_t(1) << 63)); }
bool isNegative(double x) { return bitsOf(x) >> 63; }
double withSign(double x, double sign) { return isNegative(sign) ? -x : x; }
/// 2^k for a normal result.
double power2(int k) { return std::bit_cast<double>(uint64_t(k + 1023) << 52); }

/// x * 2^k with at most one rounding beyond the normal range.
double scale(double x, int k) {
  if (k > 1023)
    return x * power2(1023) * power2(k - 1023 > 1023 ? 1023 : k - 1023);
  if (k < -1022)
    return x * power2(k + 600 < -1022 ? -1022 : k + 600) * power2(-600);
  return x * power2(k);
}

/// An unevaluated sum; |lo| is below half an ulp of hi.
struct Pair {
  double hi, lo;
};
Pair twoSum(double a, double b) {
  double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
Pair twoProduct(double a, double b) { // Dekker
  auto split = [](double x) {
    double t = x * 134217729.0, hi = t - (t - x);
    return Pair{hi, x - hi};
  };
  Pair x = split(a), y = split(b);
  double p = a * b;
  return {p, ((x.hi * y.hi - p) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo};
}
Pair add(Pair a, Pair b) {
  Pair s = twoSum(a.hi, b.hi);
  return twoSum(s.hi, s.lo + (a.lo + b.lo));
}
Pair multiply(Pair a, Pair b) {
  Pair p = twoProduct(a.hi, b.hi);
  return twoSum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

/// Horner's rule on term(n), from the highest to the first.
template <class F> double series(double z, int highest, int first, F term) {
  double sum = term(highest);
  for (int n = highest - 1; n >= first; --n)
    sum = sum * z + term(n);
  return sum;
}

constexpr double factorial(int n) {
  double f = 1;
  for (int i = 2; i <= n; ++i)
    f *= i;
  return f;
}
template <int N, class F> struct Table { // terms computed by the compiler
  double at[N];
  constexpr Table(F f) : at() {
    for (int i = 0; i < N; ++i)
      at[i] = f(i);
  }
};
template <int N, class F> constexpr Table<N, F> makeTable(F f) { return Table<N, F>(f); }
constexpr auto inverseFactorial = makeTable<24>([](int n) { return 1.0 / factorial(n); });
constexpr auto inverseOdd = makeTable<24>([](int n) { return 1.0 / (2 * n + 1); });

/// exp(x + low) for |low| far below an ulp of x.
double expPair(double x, double low) {
  if (isNan(x))
    return x;
  if (x > 709.79)
    return inf;
  if (x < -745.2)
    return 0;
  double k = std::floor(x * log2e + 0.5);
  Pair r = twoSum(x - k * ln2Hi, low - k * ln2Lo);
  // exp(r) = 1 + r + r^2 * (1/2 + r/6 + ...), r up to 0.35
  double tail = r.hi * r.hi * series(r.hi, 14, 2, [](int n) { return inverseFactorial.at[n]; });
  return scale(1 + (r.hi + (r.lo + tail)), int(k));
}

struct Split {
  double f; // mantissa - 1, mantissa in [sqrt(1/2), sqrt(2))
  int e;
};
Split splitForLog(double x) {
  int e = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= power2(54);
    e = -54;
  }
  uint64_t bits = bitsOf(x);
  e += int(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((uint64_t(1) << 52) - 1)) | uint64_t(1023) << 52);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++e;
  }
  return {m - 1, e};
}

/// log(1 + f) - f for |f| < 0.42: -f^2/2 + s * (f^2/2 + R), s = f / (2 + f), R = 2 s^2 (1/3 + s^2/5 + ...)
double logTail(double f) {
  double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  double r = 2 * z * series(z, 13, 1, [](int n) { return inverseOdd.at[n]; });
  return -(half - s * (half + r));
}

/// log(x) for a positive finite x to about 2^-64.
Pair logPair(double x) {
  Split p = splitForLog(x);
  double th = 2 + p.f, tl = p.f - (th - 2), sh = p.f / th;
  Pair q = twoProduct(sh, th);
  Pair s = twoSum(sh, (((p.f - q.hi) - q.lo) - sh * tl) / th);
  Pair z = multiply(s, s);
  constexpr Pair third = {1.0 / 3, 1.0 / 3 * 0x1p-54}; // 1/3 rounded is short of 1/3 by 2^-54 of it
  double rest = z.hi * z.hi * series(z.hi, 13, 2, [](int n) { return inverseOdd.at[n]; });
  Pair sum = multiply(s, add(multiply(z, third), Pair{rest, 0}));
  Pair log1 = add(Pair{2 * s.hi, 2 * s.lo}, Pair{2 * sum.hi, 2 * sum.lo});
  return add(add(Pair{p.e * ln2Hi, 0}, Pair{p.e * ln2Lo, 0}), log1);
}

//===-- reduction of angles ---------------------------------------------------------------------------------------===//

struct Angle {
  int quadrant;
  Pair r; // within pi/4
};

/// Payne and Hanek: of m * 2^e * 2/pi only 192 bits matter, since multiples of 4 quadrants vanish.
Angle reduceFar(double x) {
  static constexpr uint64_t twoOverPi[20] = {
      // bits after the point
      0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
      0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
      0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  uint64_t bits = bitsOf(x), m = (bits & ((uint64_t(1) << 52) - 1)) | uint64_t(1) << 52;
  int e = int(bits >> 52 & 2047) - 1075; // |x| = m * 2^e
  auto word = [&](int first) {           // 64 bits from bit `first` on (bit 0 is the first after the point)
    uint64_t out = 0;
    for (int i = 0; i < 64; ++i) {
      int at = first + i;
      out = out << 1 | (at < 0 ? 0 : twoOverPi[at / 64] >> (63 - at % 64) & 1);
    }
    return out;
  };
  int first = e - 2;
  uint64_t q2 = word(first), q1 = word(first + 64), q0 = word(first + 128);
  using Wide = unsigned __int128;
  Wide low = Wide(m) * q0, mid = Wide(m) * q1 + uint64_t(low >> 64);
  uint64_t r0 = uint64_t(low), r1 = uint64_t(mid), r2 = uint64_t(mid >> 64) + m * q2;
  int quadrant = int(r2 >> 62);
  uint64_t a = r2 << 2 | r1 >> 62, b = r1 << 2 | r0 >> 62, c = r0 << 2; // the fraction of a quadrant
  bool up = a >> 63;
  if (up) { // fraction - 1
    ++quadrant;
    a = ~a, b = ~b, c = ~c;
  }
  auto part = [](uint64_t w, int at) { // in two halves, so that each converts exactly
    return twoSum(double(w >> 32) * power2(32 - at), double(w & 0xffffffff) * power2(-at));
  };
  Pair f = add(add(part(a, 64), part(b, 128)), part(c, 192));
  Pair r = multiply(f, Pair{halfPiHi, halfPiLo});
  if (up)
    r = {-r.hi, -r.lo};
  if (isNegative(x))
    return {-quadrant, {-r.hi, -r.lo}};
  return {quadrant, r};
}

Angle reduceAngle(double x) {
  if (magnitude(x) <= 0.785)
    return {0, {x, 0}};
  if (magnitude(x) > 1e6)
    return reduceFar(x);
  double k = std::floor(x / halfPiHi + 0.5);
  // pi/2 in parts of 33 bits: their products with k, of up to 20 bits, are exact.
  Pair r = twoSum(x - k * 0x1.921fb54400000p+0, -k * 0x1.0b4611a600000p-34);
  r = add(r, Pair{-k * 0x1.3198a2e000000p-69, -k * 0x1.b839a252049c1p-104});
  return {int(k), r};
}

double sinPart(Pair r) {
  double z = r.hi * r.hi;
  double tail = series(z, 9, 1, [](int n) { return (n % 2 ? -1 : 1) * inverseFactorial.at[2 * n + 1]; });
  return r.hi + (r.hi * z * tail + r.lo * (1 - 0.5 * z));
}
double cosPart(Pair r) {
  double z = r.hi * r.hi, half = 0.5 * z, w = 1 - half;
  double tail = z * z * series(z, 9, 2, [](int n) { return (n % 2 ? -1 : 1) * inverseFactorial.at[2 * n]; });
  return w + (((1 - w) - half) + (tail - r.hi * r.lo));
}

/// atan(x) for 0 <= x <= 1 by atan(c) + atan((x - c) / (1 + c x)), c a multiple of 1/8.
double atanUnit(double x) {
  static constexpr Pair table[] = {{0, 0},
                                   {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                                   {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                                   {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                                   {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                   {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                                   {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                                   {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                                   {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};
  int k = int(x * 8 + 0.5);
  double c = k / 8.0, t = (x - c) / (1 + x * c), z = t * t;
  double tail = t * z * series(z, 8, 1, [](int n) { return (n % 2 ? -1 : 1) * inverseOdd.at[n]; });
  return table[k].hi + (t + (tail + table[k].lo));
}

/// erf(x) for |x| <= 1: 2/sqrt(pi) * (x - x^3/3 + x^5/10 - ...)
double erfNear(double x) {
  double z = x * x;
  double tail = series(z, 22, 1, [](int n) { return (n % 2 ? -1 : 1) * inverseFactorial.at[n] * inverseOdd.at[n]; });
  Pair first = multiply(Pair{x, 0}, Pair{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56});
  return first.hi + (first.lo + first.hi * (z * tail));
}

/// erfc(x) for x >= 1 by its continued fraction; all terms are positive, and 200/x^2 of them suffice.
double erfcFar(double x) {
  if (x > 27.3)
    return 0;
  double fraction = x;
  for (int n = 20 + int(200 / (x * x)); n >= 1; --n)
    fraction = x + 0.5 * n / fraction;
  Pair square = twoProduct(x, x);
  return expPair(-square.hi, -square.lo) * 0x1.20dd750429b6dp-1 / fraction;
}

bool isInteger(double y) { return magnitude(y) >= 0x1p53 || std::floor(y) == y; }
bool isOdd(double y) { return magnitude(y) < 0x1p53 && std::floor(y * 0.5) * 2 != y; }

} // namespace

double exp(double x) { return expPair(x, 0); }

double log(double x) {
  if (isNan(x) || x == inf)
    return x;
  if (x <= 0)
    return x == 0 ? -inf : nan;
  Split p = splitForLog(x);
  Pair r = twoSum(p.e * ln2Hi, p.f);
  return r.hi + (r.lo + (logTail(p.f) + p.e * ln2Lo));
}

double log1p(double x) {
  if (isNan(x) || x == inf || x == 0)
    return x;
  if (x <= -1)
    return x == -1 ? -inf : nan;
  if (magnitude(x) < 0.29)
    return x + logTail(x);
  Pair u = twoSum(1, x);
  return log(u.hi) + u.lo / u.hi;
}

double pow(double x, double y) {
  if (y == 0 || x == 1)
    return 1;
  if (isNan(x) || isNan(y))
    return nan;
  double a = magnitude(x), sign = isNegative(x) && isInteger(y) && isOdd(y) ? -1 : 1;
  if (a == 1 && magnitude(y) == inf)
    return 1;
  if (magnitude(y) > 0x1p70) // far over the range whatever a is, unless it is 1
    return a == 1 ? sign : (a > 1) == (y > 0) ? inf : 0;
  if (a == 0 || a == inf)
    return sign * ((a == 0) == (y > 0) ? 0 : inf);
  if (x < 0 && !isInteger(y))
    return nan;
  Pair l = logPair(a), p = twoProduct(y, l.hi);
  return sign * expPair(p.hi, p.lo + y * l.lo);
}

double sin(double x) {
  if (x == 0 || isNan(x) || magnitude(x) == inf)
    return x == 0 ? x : nan;
  Angle a = reduceAngle(x);
  double v = a.quadrant & 1 ? cosPart(a.r) : sinPart(a.r);
  return a.quadrant & 2 ? -v : v;
}

double cos(double x) {
  if (isNan(x) || magnitude(x) == inf)
    return nan;
  Angle a = reduceAngle(x);
  double v = a.quadrant & 1 ? sinPart(a.r) : cosPart(a.r);
  return (a.quadrant + 1) & 2 ? -v : v;
}

double tan(double x) {
  if (x == 0 || isNan(x) || magnitude(x) == inf)
    return x == 0 ? x : nan;
  Angle a = reduceAngle(x);
  return a.quadrant & 1 ? -cosPart(a.r) / sinPart(a.r) : sinPart(a.r) / cosPart(a.r);
}

double atan(double x) {
  if (isNan(x) || x == 0)
    return x;
  double a = magnitude(x);
  return withSign(a <= 1 ? atanUnit(a) : (halfPiHi - atanUnit(1 / a)) + halfPiLo, x);
}

double asin(double x) {
  if (!(magnitude(x) <= 1))
    return nan;
  return atan(x / std::sqrt((1 - x) * (1 + x)));
}

double acos(double x) {
  if (!(magnitude(x) <= 1))
    return nan;
  return 2 * atan(std::sqrt((1 - x) / (1 + x)));
}

double sinh(double x) {
  double a = magnitude(x);
  if (isNan(x) || x == 0)
    return x;
  if (a <= 1) {
    double z = x * x;
    return x + x * z * series(z, 10, 1, [](int n) { return inverseFactorial.at[2 * n + 1]; });
  }
  if (a > 709) {
    double h = exp(0.5 * a);
    return withSign(0.5 * h * h, x);
  }
  double e = exp(a);
  return withSign(0.5 * e - 0.5 / e, x);
}

double cosh(double x) {
  double a = magnitude(x);
  if (a > 709) {
    double h = exp(0.5 * a);
    return 0.5 * h * h;
  }
  double e = exp(a);
  return 0.5 * e + 0.5 / e;
}

double tanh(double x) {
  double a = magnitude(x);
  if (isNan(x) || x == 0)
    return x;
  if (a <= 0.7) {
    double s = sinh(x);
    return s / std::sqrt(1 + s * s);
  }
  return withSign(a > 22 ? 1 : 1 - 2 / (exp(2 * a) + 1), x);
}

double asinh(double x) {
  double a = magnitude(x);
  if (isNan(x) || x == 0 || a == inf)
    return x;
  double v = a > 0x1p28 ? log(a) + ln2 : log1p(a + a * a / (1 + std::sqrt(1 + a * a)));
  return withSign(v, x);
}

double acosh(double x) {
  if (!(x >= 1))
    return nan;
  double t = x - 1;
  return x > 0x1p28 ? log(x) + ln2 : log1p(t + std::sqrt(2 * t + t * t));
}

double atanh(double x) {
  double a = magnitude(x);
  if (!(a <= 1))
    return nan;
  return x == 0 ? x : withSign(a == 1 ? inf : 0.5 * log1p(2 * a / (1 - a)), x);
}

double erf(double x) {
  if (isNan(x) || x == 0)
    return x;
  double a = magnitude(x);
  return a <= 1 ? erfNear(x) : withSign(a > 6 ? 1 : 1 - erfcFar(a), x);
}

double erfc(double x) {
  if (isNan(x))
    return x;
  double a = magnitude(x);
  if (a <= 1)
    return 1 - erfNear(x);
  return isNegative(x) ? 2 - erfcFar(a) : erfcFar(a);
}

double sigmoid(double x) {
  if (x >= 0)
    return 1 / (1 + exp(-x));
  double e = exp(x);
  return e / (1 + e);
}

double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

double gelu(double x) {
  if (x == -inf)
    return 0; // the limit; 0 * inf would be NaN
  return 0.5 * x * erfc(-x * 0x1.6a09e667f3bcdp-1);
}

} // namespace mrcc::portable
