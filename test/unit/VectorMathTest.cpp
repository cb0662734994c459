// Element-wise functions of every kind and type against the C library in double (long double), through the loop family:
// vectors and scalars, on every target that runs here.
#include "KernelHarness.h"
#include "mrcc/IR/Mrc.h"
#include <cmath>
#include <doctest/doctest.h>

using namespace mrcc;
using namespace mrcc::testing;

static std::vector<const Target *> targets() {
  std::vector<const Target *> all;
  for (const Target &t : Target::all())
    if (runsHere(t))
      all.push_back(&t);
  return all;
}

/// y = body(x) for the given values.
static std::vector<double> apply(const Target &target, DType in, DType out, const std::string &body,
                                 const std::vector<double> &x, const std::vector<double> &second = {}) {
  int64_t n = x.size();
  Tensor a(in, {n}), b(in, {n}), y(out, {n});
  for (int64_t i = 0; i < n; ++i) {
    a.set({i}, x[i]);
    b.set({i}, second.empty() ? 0 : second[i]);
  }
  std::vector<Tensor *> tensors{&y, &a};
  if (!second.empty())
    tensors.push_back(&b);
  Compiled(makeSite("loop", tensors, {{"extents", {n}}}, body), target).call(tensors);
  CHECK(y.untouchedAround());
  std::vector<double> result;
  for (int64_t i = 0; i < n; ++i)
    result.push_back(y.get({i}));
  return result;
}

static std::string name(DType t) { return toString(t).str(); }

static double rounded(DType type, double v) {
  Tensor t(type, {1});
  t.set({0}, v);
  return t.get({0});
}

static std::vector<double> samples(DType type, double low, double high, double density = 1) {
  std::vector<double> x{0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, 1e-5, -1e-5, 0.25, 100, -100, HUGE_VAL, -HUGE_VAL, NAN};
  if (type == DType::f32 || type == DType::f64)
    x.insert(x.end(), {1e-10, 1e-20, -1e-20, 1e10, 1e20, -1e20, 1e30, 3e38, -3e38});
  for (int i = 0; i <= 4000 * density; ++i)
    x.push_back(low + (high - low) * i / (4000 * density));
  for (int i = 0; i < 1000; ++i)
    x.push_back(std::sin(i * 0.7) * std::exp2(i % 40 - 30));
  for (double &v : x)
    v = rounded(type, v);
  return x;
}

struct Function {
  const char *kind;
  double low, high;
  std::function<long double(long double)> f;
  double absolute = 0; // allowed beside the relative error, times max(1, |x|)
};

static const std::vector<Function> &functions() {
  using ld = long double;
  static const std::vector<Function> all = {
      {"exp", -110, 100, [](ld x) { return std::exp(x); }},
      {"log", 0, 20, [](ld x) { return std::log(x); }},
      {"tanh", -10, 10, [](ld x) { return std::tanh(x); }},
      {"sigmoid", -80, 80, [](ld x) { return 1 / (1 + std::exp(-x)); }},
      {"silu", -80, 80, [](ld x) { return x / (1 + std::exp(-x)); }},
      {"softplus", -80, 80, [](ld x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }},
      {"erf", -5, 5, [](ld x) { return std::erf(x); }},
      {"gelu", -9, 9, [](ld x) { return 0.5L * x * std::erfc(-x * std::sqrt(0.5L)); }, 1.2e-7},
      {"sin", -20, 20, [](ld x) { return std::sin(x); }},
      {"cos", -20, 20, [](ld x) { return std::cos(x); }},
      {"tan", -20, 20, [](ld x) { return std::tan(x); }},
      {"asin", -1.1, 1.1, [](ld x) { return std::asin(x); }},
      {"acos", -1.1, 1.1, [](ld x) { return std::acos(x); }},
      {"atan", -10, 10, [](ld x) { return std::atan(x); }},
      {"sinh", -20, 20, [](ld x) { return std::sinh(x); }},
      {"cosh", -20, 20, [](ld x) { return std::cosh(x); }},
      {"asinh", -20, 20, [](ld x) { return std::asinh(x); }},
      {"acosh", 0.5, 20, [](ld x) { return std::acosh(x); }},
      {"atanh", -1.1, 1.1, [](ld x) { return std::atanh(x); }},
      {"sqrt", -1, 20, [](ld x) { return std::sqrt(x); }},
      {"rsqrt", -1, 20, [](ld x) { return 1 / std::sqrt(x); }},
      {"reciprocal", -20, 20, [](ld x) { return 1 / x; }},
      {"floor", -20, 20, [](ld x) { return std::floor(x); }},
      {"ceil", -20, 20, [](ld x) { return std::ceil(x); }},
      {"round_even", -20, 20, [](ld x) { return std::nearbyint(x); }},
      {"abs", -20, 20, [](ld x) { return std::fabs(x); }},
      {"neg", -20, 20, [](ld x) { return -x; }},
      {"sign", -20, 20, [](ld x) { return std::isnan(x) ? x
                                          : x > 0       ? 1
                                          : x < 0       ? -1
                                                        : 0; }},
  };
  return all;
}

static double epsilon(DType type) {
  switch (type) {
  case DType::f32:
    return 3e-7;
  case DType::f64:
    return 2e-13;
  case DType::f16:
    return 0x1p-10;
  default:
    return 0x1p-7;
  }
}

/// The smallest normal number: below, errors are absolute.
static double smallest(DType type) { return type == DType::f64 ? 1e-300 : type == DType::f16 ? 0x1p-14 : 0x1p-126; }

TEST_CASE("unary functions of floats") {
  for (const Target *target : targets())
    for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (const Function &f : functions()) {
        std::vector<double> x = samples(type, f.low, f.high);
        auto y = apply(*target, type, type, name(type) + " load 0; " + name(type) + " " + f.kind + " %0 -> %1", x);
        double worst = 0, at = 0, got = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          double expected = rounded(type, double(f.f(x[i]))), error;
          std::string kind = f.kind;
          if ((kind == "gelu" || kind == "silu") && std::isinf(x[i]) && x[i] < 0)
            continue; // the limit is 0, the formula has none
          // These are 0 where they would be subnormal.
          if ((kind == "exp" || kind == "sigmoid" || kind == "silu" || kind == "softplus") &&
              std::fabs(y[i] - expected) < (kind == "exp" ? 0x1p-126 : 0x1p-119))
            continue;
          if (std::isnan(expected) || std::isinf(expected) || std::isnan(y[i]) || std::isinf(y[i])) {
            bool edge = std::fabs(expected) > 3.3e38 || std::fabs(y[i]) > 3.3e38; // one rounds to infinity
            error = (std::isnan(expected) && std::isnan(y[i])) || expected == y[i] ||
                            (edge && type != DType::f64 && !std::isnan(y[i]) && !std::isnan(expected))
                        ? 0
                        : HUGE_VAL;
          } else {
            double size = std::max(
                {std::fabs(expected), smallest(type),
                 (type == DType::f64 ? 1e-9 : 1) * f.absolute / epsilon(type) * std::max(1.0, std::fabs(x[i]))});
            error = std::fabs(y[i] - expected) / size;
          }
          if (error > worst) {
            worst = error;
            at = x[i];
            got = y[i];
          }
        }
        CHECK_MESSAGE(worst <= epsilon(type), target->name << " " << name(type) << " " << std::string(f.kind) << "("
                                                           << at << ") = " << got << ", expected " << double(f.f(at))
                                                           << ", error " << worst);
      }
}

TEST_CASE("sin and cos of large arguments") {
  for (const Target *target : targets())
    for (DType type : {DType::f32, DType::f64}) {
      std::vector<double> x;
      for (int e = 0; e < (type == DType::f32 ? 127 : 1023); ++e)
        for (double m : {1.0, 1.1, 1.37, 1.5, 1.7071, 1.999})
          x.push_back(rounded(type, std::ldexp(e % 2 ? -m : m, e)));
      for (int k = 1; k < 2000; k += 7)
        x.push_back(rounded(type, k * 1.5707963267948966));
      std::string t = name(type);
      auto s = apply(*target, type, type, t + " load 0; " + t + " sin %0 -> %1", x),
           c = apply(*target, type, type, t + " load 0; " + t + " cos %0 -> %1", x);
      for (size_t i = 0; i < x.size(); ++i) { // glibc's double functions are right for any argument
        double es = std::sin(x[i]), ec = std::cos(x[i]);
        CHECK_MESSAGE(std::fabs(s[i] - es) <= epsilon(type) * std::fabs(es),
                      target->name << " " << t << " sin " << x[i] << ": " << s[i] << " " << es);
        CHECK_MESSAGE(std::fabs(c[i] - ec) <= epsilon(type) * std::fabs(ec),
                      target->name << " " << t << " cos " << x[i] << ": " << c[i] << " " << ec);
      }
    }
}

static bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST_CASE("pow, mod, max and min of floats") {
  std::vector<double> values{0.0,  -0.0, 1,  -1,  0.5, -0.5, 2,        -2,        3,   -3,   2.5,
                             -2.5, 7,    10, -10, 0.1, 100,  HUGE_VAL, -HUGE_VAL, NAN, 1e10, 1e-10};
  std::vector<double> x, y;
  for (double a : values)
    for (double b : values) {
      x.push_back(a);
      y.push_back(b);
    }
  for (const Target *target : targets())
    for (DType type : {DType::f32, DType::f64, DType::f16}) {
      std::vector<double> a = x, b = y;
      for (double &v : a)
        v = rounded(type, v);
      for (double &v : b)
        v = rounded(type, v);
      auto run = [&](std::string kind) {
        return apply(*target, type, type,
                     name(type) + " load 0; " + name(type) + " load 1; " + name(type) + " " + kind + " %0 %1 -> %2", a,
                     b);
      };
      auto check = [&](std::string kind, auto f, double tolerance) {
        auto r = run(kind);
        for (size_t i = 0; i < a.size(); ++i) {
          double e = rounded(type, f(a[i], b[i]));
          bool good = same(r[i], e) || std::fabs(r[i] - e) <= tolerance * std::max(std::fabs(e), smallest(type));
          CHECK_MESSAGE(good, target->name << " " << name(type) << " " << std::string(kind) << " " << a[i] << " "
                                           << b[i] << " = " << r[i] << ", expected " << e);
        }
      };
      check("pow", [](double p, double q) { return std::pow(p, q); }, epsilon(type));
      check("fmod", [](double p, double q) { return std::fmod(p, q); }, 0);
      check(
          "mod",
          [](double p, double q) {
            double r = std::fmod(p, q);
            return r != 0 && (r < 0) != (q < 0) ? r + q : r;
          },
          epsilon(type));
      check("max", [](double p, double q) { return std::isnan(p) || std::isnan(q) ? NAN : std::max(p, q); }, 0);
      check("min", [](double p, double q) { return std::isnan(p) || std::isnan(q) ? NAN : std::min(p, q); }, 0);
    }
  for (const char *exponent : {"2", "0.5", "3", "4", "-1", "1", "1.7", "-0.5"}) {
    std::string body = std::string("f32 load 0; f32 const ") + exponent + "; f32 pow %0 %1 -> %2";
    auto r = apply(*targets().back(), DType::f32, DType::f32, body, values);
    for (size_t i = 0; i < values.size(); ++i) {
      float e = std::pow(double(float(values[i])), double(float(atof(exponent))));
      CHECK_MESSAGE((same(r[i], e) || std::fabs(r[i] - e) <= 3e-7 * std::fabs(e)),
                    values[i] << "^" << std::string(exponent) << " = " << r[i] << ", expected " << e);
    }
  }
  auto r =
      apply(*targets().back(), DType::f32, DType::f32, "f32 load 0; f32 const 0; f32 max %0 %1 -> %2", {NAN, -1, 2});
  CHECK((std::isnan(r[0]) && r[1] == 0 && r[2] == 2));
}

static double wrap(DType type, __int128 v) {
  unsigned width = bitWidth(type);
  unsigned __int128 low = (unsigned __int128)v & (((unsigned __int128)1 << width) - 1);
  if (!isUnsigned(type) && low >> (width - 1) & 1)
    return double(__int128(low) - ((__int128)1 << width));
  return double(low);
}

TEST_CASE("integers of every width") {
  for (const Target *target : targets())
    for (DType type : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64}) {
      bool natural = isUnsigned(type);
      double low = natural ? 0 : -std::exp2(bitWidth(type) - 1),
             high = natural ? std::exp2(bitWidth(type)) - 1 : std::exp2(bitWidth(type) - 1) - 1;
      if (type == DType::i64)
        low = -0x1p52, high = 0x1p52; // the harness moves values as doubles
      std::vector<double> some{0, 1, 2, 3, 5, 7, 100, low, low + 1, high, high - 1, 64, 31}, a, b;
      if (!natural)
        some.insert(some.end(), {-1, -2, -7, -100});
      for (double x : some)
        for (double y : some) {
          a.push_back(x);
          b.push_back(y);
        }
      std::string t = name(type);
      auto check = [&](std::string kind, std::function<double(__int128, __int128)> f, bool boolean = false) {
        auto r = apply(*target, type, boolean ? DType::boolean : type,
                       t + " load 0; " + t + " load 1; " + (boolean ? "bool " : t + " ") + kind + " %0 %1 -> %2", a, b);
        for (size_t i = 0; i < a.size(); ++i) {
          double e = f(__int128(a[i]), __int128(b[i]));
          CHECK_MESSAGE(r[i] == e, target->name << " " << t << " " << std::string(kind) << " " << a[i] << " " << b[i]
                                                << " = " << r[i] << ", expected " << e);
        }
      };
      using w = __int128;
      check("add", [&](w x, w y) { return wrap(type, x + y); });
      check("sub", [&](w x, w y) { return wrap(type, x - y); });
      if (type != DType::i64)
        check("mul", [&](w x, w y) { return wrap(type, x * y); });
      check("div", [&](w x, w y) { return y == 0 ? 0 : wrap(type, x / y); });
      check("mod", [&](w x, w y) {
        return y == 0 ? wrap(type, 0 * x + x % 1)
                      : wrap(type, x % y != 0 && (x % y < 0) != (y < 0) ? x % y + y : x % y);
      });
      check("fmod", [&](w x, w y) { return y == 0 ? 0 : wrap(type, x % y); });
      check("max", [&](w x, w y) { return double(std::max(x, y)); });
      check("min", [&](w x, w y) { return double(std::min(x, y)); });
      check("bitwise_and", [&](w x, w y) { return wrap(type, x & y); });
      check("bitwise_or", [&](w x, w y) { return wrap(type, x | y); });
      check("bitwise_xor", [&](w x, w y) { return wrap(type, x ^ y); });
      if (natural && type != DType::u64) {
        check("shift_left", [&](w x, w y) { return y >= int(bitWidth(type)) ? 0 : wrap(type, x << int(y)); });
        check("shift_right", [&](w x, w y) { return y >= int(bitWidth(type)) ? 0 : wrap(type, x >> int(y)); });
      }
      if (type != DType::i64)
        check("pow", [&](w x, w y) {
          if (y < 0)
            return x == 1 ? 1.0 : x == -1 ? (y % 2 ? -1.0 : 1.0) : 0.0;
          unsigned __int128 r = 1, base = x, e = y;
          for (; e; e >>= 1, base *= base)
            if (e & 1)
              r *= base;
          return wrap(type, w(r));
        });
      check("eq", [](w x, w y) { return x == y; }, true);
      check("lt", [](w x, w y) { return x < y; }, true);
      check("le", [](w x, w y) { return x <= y; }, true);
      check("gt", [](w x, w y) { return x > y; }, true);
      check("ge", [](w x, w y) { return x >= y; }, true);
      check("logical_and", [](w x, w y) { return x && y; }, true);
      for (auto [kind, f] : {std::pair<const char *, double (*)(w)>{"abs", [](w x) { return double(x < 0 ? -x : x); }},
                             {"neg", [](w x) { return double(-x); }},
                             {"sign", [](w x) { return double(x > 0) - double(x < 0); }},
                             {"bitwise_not", [](w x) { return double(~x); }}}) {
        auto r = apply(*target, type, type, t + " load 0; " + t + " " + kind + " %0 -> %1", a);
        for (size_t i = 0; i < a.size(); ++i)
          CHECK_MESSAGE(r[i] == wrap(type, w(f(w(a[i])))),
                        target->name << " " << t << " " << std::string(kind) << " " << a[i] << " = " << r[i]);
      }
    }
}

TEST_CASE("casts") {
  const DType types[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::u8,
                         DType::i16, DType::u16, DType::i32, DType::u32,  DType::i64, DType::boolean};
  std::vector<double> values{0, 1, 2, 3, 100, 127, 0.5, 1.5, 2.5, 99.99, 0.25};
  for (const Target *target : targets())
    for (DType from : types)
      for (DType to : types) {
        std::vector<double> x;
        for (double v : values) {
          if (from == DType::boolean)
            v = v != 0;
          if (!isFloat(from))
            v = std::trunc(v);
          x.push_back(rounded(from, v));
          if (!isUnsigned(from) && !isUnsigned(to))
            x.push_back(rounded(from, -v));
        }
        auto r = apply(*target, from, to, name(from) + " load 0; " + name(to) + " cast %0 -> %1", x);
        for (size_t i = 0; i < x.size() && from != to; ++i) {
          double e = to == DType::boolean ? x[i] != 0 : isFloat(to) ? rounded(to, x[i]) : std::trunc(x[i]);
          CHECK_MESSAGE(r[i] == e,
                        target->name << " " << name(from) << " -> " << name(to) << ": " << x[i] << " gave " << r[i]);
        }
      }
}

TEST_CASE("casts of halves round to nearest even, once") {
  std::vector<double> x;
  for (int i = 0; i < 4000; ++i)
    x.push_back(std::ldexp(1 + i / 4096.0 + (i % 7 - 3) * 1e-9, i % 44 - 28));
  x.insert(x.end(), {65504, 65519, 65520, 1e30, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, HUGE_VAL, 0x1p-25, 0x1.000001p-25});
  for (const Target *target : targets())
    for (DType from : {DType::f32, DType::f64}) {
      std::vector<double> a = x;
      for (double &v : a)
        v = rounded(from, v);
      auto r = apply(*target, from, DType::f16, name(from) + " load 0; f16 cast %0 -> %1", a);
      for (size_t i = 0; i < a.size(); ++i)
        CHECK_MESSAGE(r[i] == double(_Float16(a[i])),
                      target->name << " " << name(from) << " -> f16 of " << a[i] << " gave " << r[i]);
    }
}

// Tables of all 256 values from the definition of the formats: sign, exponent, significand, bias.
static double float8(DType type, int byte) {
  bool e4 = type == DType::f8e4m3fn || type == DType::f8e4m3fnuz,
       fnuz = type == DType::f8e4m3fnuz || type == DType::f8e5m2fnuz;
  int mantissa = e4 ? 3 : 2, bias = (e4 ? 7 : 15) + fnuz, e = (byte & 127) >> mantissa,
      m = byte & ((1 << mantissa) - 1);
  if (fnuz && byte == 128)
    return NAN;
  if (type == DType::f8e4m3fn && (byte & 127) == 127)
    return NAN;
  if (type == DType::f8e5m2 && e == 31)
    return m ? NAN : byte & 128 ? -HUGE_VAL : HUGE_VAL;
  double v = e ? std::ldexp(1 + std::ldexp(m, -mantissa), e - bias) : std::ldexp(m, 1 - bias - mantissa);
  return byte & 128 ? -v : v;
}

TEST_CASE("eight-bit floats") {
  for (const Target *target : targets())
    for (DType type : {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz}) {
      // The harness has no such tensors: run on bytes.
      auto run = [&](const std::string &body, DType in, DType out, std::vector<char> bytes, size_t count) {
        LaunchSite site = makeSite("loop", {}, {{"extents", {int64_t(count)}}}, body);
        for (DType t : {out, in})
          site.views.push_back({Space::arena, t, 0, 0, {int64_t(count)}, {1}});
        std::vector<char> result(count * bitWidth(out) / 8);
        Compiled k(site, *target);
        char *views[] = {result.data(), bytes.data()};
        k.function(views, k.bound.params.data(), 0, k.bound.units, nullptr);
        return result;
      };
      std::vector<char> all(256);
      for (int i = 0; i < 256; ++i)
        all[i] = char(i);
      auto floats = run(name(type) + " load 0; f32 cast %0 -> %1", type, DType::f32, all, 256);
      for (int i = 0; i < 256; ++i) {
        float v;
        memcpy(&v, &floats[4 * i], 4);
        CHECK_MESSAGE(same(v, float8(type, i)), target->name << " " << name(type) << " byte " << i << " gave " << v
                                                             << ", expected " << float8(type, i));
      }
      // Back: every value, points between, halves to even, and beyond the largest.
      double largest = 0;
      for (int i = 0; i < 128; ++i)
        if (std::isfinite(float8(type, i)))
          largest = std::max(largest, float8(type, i));
      std::vector<float> x{0.0f,  -0.0f, NAN, HUGE_VALF, -HUGE_VALF, float(largest * 1.5), float(-largest * 4),
                           1e30f, -1e38f};
      for (int i = 0; i < 127; ++i) {
        double a = float8(type, i), b = float8(type, i + 1);
        if (std::isfinite(a) && std::isfinite(b))
          for (double t : {0.0, 0.3, 0.5, 0.7})
            for (double s : {1.0, -1.0})
              x.push_back(float(s * (a + (b - a) * t)));
      }
      for (bool saturate : {true, false}) {
        std::vector<char> in(x.size() * 4);
        memcpy(in.data(), x.data(), in.size());
        auto bytes = run("f32 load 0; " + name(type) + std::string(saturate ? " cast" : " cast_wrapping") + " %0 -> %1",
                         DType::f32, type, in, x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          double got = float8(type, uint8_t(bytes[i])), v = x[i], best = NAN;
          if (std::fabs(v) > largest) {
            double beyond = saturate                ? std::copysign(largest, v)
                            : type == DType::f8e5m2 ? std::copysign(HUGE_VAL, v)
                                                    : NAN;
            best = beyond;
          } else if (!std::isnan(v)) {
            int lower = 0; // the largest value not above |v|
            for (int k = 0; k < 128; ++k)
              if (std::isfinite(float8(type, k)) && float8(type, k) <= std::fabs(v))
                lower = k;
            double a = float8(type, lower), b = lower < 127 ? float8(type, lower + 1) : a;
            double down = std::fabs(v) - a, up = b - std::fabs(v);
            best = !std::isfinite(b) || down < up || (down == up && lower % 2 == 0) ? a : b;
            best = std::copysign(best, v);
          }
          CHECK_MESSAGE(same(got, best), target->name << " " << name(type) << " of " << v
                                                      << std::string(saturate ? " saturating" : "") << " gave " << got
                                                      << ", expected " << best);
        }
      }
    }
}

TEST_CASE("four-bit floats") { // e2m1, two a byte
  const std::vector<float> values{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6};
  // Halves to even, beyond the largest number, infinities; NaN becomes -0.
  const std::vector<std::pair<float, int>> rounded{
      {0.25f, 0}, {0.2501f, 1}, {0.75f, 2},       {1.25f, 2},     {-1.75f, 12}, {2.5f, 4},  {3.5f, 6},   {-5, 14},
      {5.01f, 7}, {1e30f, 7},   {-HUGE_VALF, 15}, {HUGE_VALF, 7}, {NAN, 8},     {-0.1f, 8}, {1e-40f, 0}, {3, 5}};
  for (const Target *target : targets()) {
    auto run = [&](DType to, DType from, const std::string &body, const void *in, void *out, int64_t count) {
      LaunchSite site = makeSite("loop", {}, {{"extents", {count}}}, body);
      for (DType t : {to, from})
        site.views.push_back({Space::arena, t, 0, 0, {count}, {1}});
      Compiled k(site, *target);
      char *views[] = {static_cast<char *>(out), static_cast<char *>(const_cast<void *>(in))};
      k.function(views, k.bound.params.data(), 0, k.bound.units, nullptr);
    };
    std::vector<uint8_t> codes(8), back(8, 0xff);
    for (int i = 0; i < 16; ++i)
      codes[i / 2] |= i << i % 2 * 4;
    std::vector<float> wide(16);
    run(DType::f32, DType::f4e2m1, "f4e2m1 load 0; f32 cast %0 -> %1", codes.data(), wide.data(), 16);
    for (int i = 0; i < 16; ++i)
      CHECK(same(wide[i], values[i]));
    run(DType::f4e2m1, DType::f32, "f32 load 0; f4e2m1 cast %0 -> %1", values.data(), back.data(), 16);
    CHECK(back == codes);
    std::vector<float> in;
    for (auto [x, code] : rounded)
      in.push_back(x);
    run(DType::f4e2m1, DType::f32, "f32 load 0; f4e2m1 cast %0 -> %1", in.data(), back.data(), 16);
    for (int i = 0; i < 16; ++i)
      CHECK_MESSAGE((back[i / 2] >> i % 2 * 4 & 15) == rounded[i].second, in[i]);
  }
}

TEST_CASE("bitcast") {
  for (const Target *target : targets()) {
    for (int64_t n : {1, 13, 64}) {
      Tensor bits(DType::i32, {n}), back(DType::f32, {n}), x(DType::f32, {n});
      x.random(5, -1e6, 1e6);
      Compiled(makeSite("loop", {&bits, &x}, {{"extents", {n}}}, "f32 load 0; i32 bitcast %0 -> %1"), *target)
          .call({&bits, &x}, 1);
      Compiled(makeSite("loop", {&back, &bits}, {{"extents", {n}}}, "i32 load 0; f32 bitcast %0 -> %1"), *target)
          .call({&back, &bits}, 1);
      bool good = true;
      for (int64_t k = 0; k < n; ++k)
        good &= bits.get({k}) == llvm::bit_cast<int32_t>(float(x.get({k}))) && back.get({k}) == x.get({k});
      CHECK(good);
    }
  }
}
