// The folder's transcendental functions against the C library's long double ones (64-bit mantissa where the host has
// it): error in units of the last place of a double, over wide and narrow ranges and at special values.
#include "mrcc/Fold/Math.h"
#include <cfloat>
#include <cmath>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <random>

using namespace mrcc;

static constexpr double infinite = std::numeric_limits<double>::infinity(),
                        notANumber = std::numeric_limits<double>::quiet_NaN();

static double ulps(double got, long double want) {
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) && std::isnan(want) ? 0 : 1e9;
  if (std::isinf(double(want)) || std::isinf(got))
    return got == double(want) || std::fabs(want) > 0.999L * DBL_MAX ? 0 : 1e9;
  int exponent;
  std::frexp(double(want), &exponent);
  long double ulp = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return double(std::fabs((long double)got - want) / ulp);
}

struct Range {
  double low, high;
};

/// The largest error over random arguments, half of them evenly spread and half by magnitude.
static double worst(double (*f)(double), long double (*reference)(long double), std::initializer_list<Range> ranges) {
  std::mt19937_64 random(7);
  double most = 0;
  for (Range r : ranges)
    for (int i = 0; i < 20000; ++i) {
      double u = std::uniform_real_distribution<double>(0, 1)(random), x = r.low + (r.high - r.low) * u;
      if (i % 2)
        x *= std::exp2(-30 * std::uniform_real_distribution<double>(0, 1)(random));
      if (x < r.low || x > r.high)
        continue;
      double e = ulps(f(x), reference((long double)x));
      if (e > most) {
        most = e;
        INFO("x = ", x, " got ", f(x), " want ", double(reference(x)), " ulps ", e);
        CHECK(e < 4);
      }
    }
  return most;
}

TEST_CASE("portable math is within few ulps of a double") {
  namespace p = portable;
  CHECK(worst(p::exp, [](long double x) { return std::exp(x); }, {{-745, 709.7}, {-1, 1}, {-0.01, 0.01}}) < 1);
  CHECK(worst(p::log, [](long double x) { return std::log(x); }, {{0, 1e300}, {0, 1e-300}, {0.5, 2}, {0.999, 1.001}}) <
        1);
  CHECK(worst(p::log1p, [](long double x) { return std::log1p(x); }, {{-1, 1}, {-0.3, 0.3}, {0, 1e9}}) < 1.5);
  CHECK(worst(p::sin, [](long double x) { return std::sin(x); }, {{-10, 10}, {-1e6, 1e6}, {-1, 1}}) < 1);
  CHECK(worst(p::cos, [](long double x) { return std::cos(x); }, {{-10, 10}, {-1e6, 1e6}, {-1, 1}}) < 1);
  CHECK(worst(p::tan, [](long double x) { return std::tan(x); }, {{-10, 10}, {-1e6, 1e6}, {-1, 1}}) < 2);
  CHECK(worst(p::asin, [](long double x) { return std::asin(x); }, {{-1, 1}}) < 2);
  CHECK(worst(p::acos, [](long double x) { return std::acos(x); }, {{-1, 1}, {0.99, 1}}) < 3);
  CHECK(worst(p::atan, [](long double x) { return std::atan(x); }, {{-10, 10}, {-1e9, 1e9}}) < 2);
  CHECK(worst(p::sinh, [](long double x) { return std::sinh(x); }, {{-2, 2}, {-710, 710}}) < 2);
  CHECK(worst(p::cosh, [](long double x) { return std::cosh(x); }, {{-2, 2}, {-710, 710}}) < 2);
  CHECK(worst(p::tanh, [](long double x) { return std::tanh(x); }, {{-2, 2}, {-30, 30}}) < 3);
  CHECK(worst(p::asinh, [](long double x) { return std::asinh(x); }, {{-2, 2}, {-1e12, 1e12}}) < 2);
  CHECK(worst(p::acosh, [](long double x) { return std::acosh(x); }, {{1, 2}, {1, 1e12}}) < 2);
  CHECK(worst(p::atanh, [](long double x) { return std::atanh(x); }, {{-1, 1}}) < 2);
  CHECK(worst(p::erf, [](long double x) { return std::erf(x); }, {{-1, 1}, {-7, 7}}) < 2);
  CHECK(worst(p::erfc, [](long double x) { return std::erfc(x); }, {{-7, 0.5}, {1, 26}}) < 4);
}

TEST_CASE("angles far out are reduced exactly") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    double x = std::ldexp(1 + std::uniform_real_distribution<double>(0, 1)(random), int(random() % 1000) + 20);
    // glibc's double functions reduce far arguments exactly, too, and stay within an ulp.
    CHECK(ulps(portable::sin(x), std::sin(x)) <= 1.5);
    CHECK(ulps(portable::cos(-x), std::cos(-x)) <= 1.5);
  }
  CHECK(portable::sin(1e22) == doctest::Approx(-0.8522008497671888).epsilon(1e-15));
}

TEST_CASE("pow") {
  std::mt19937_64 random(5);
  double most = 0;
  for (int i = 0; i < 40000; ++i) {
    double x = std::exp2(std::uniform_real_distribution<double>(-40, 40)(random));
    double y = std::uniform_real_distribution<double>(-24, 24)(random);
    most = std::max(most, ulps(portable::pow(x, y), std::pow((long double)x, (long double)y)));
    x = 1 + std::uniform_real_distribution<double>(-1e-3, 1e-3)(random);
    y = std::uniform_real_distribution<double>(-5e5, 5e5)(random);
    most = std::max(most, ulps(portable::pow(x, y), std::pow((long double)x, (long double)y)));
  }
  CHECK(most < 1.2);
  double values[] = {0.0,  -0.0, 1.0,      -1.0,      0.5,        -0.5,  2.0,    -2.0,  3.0,
                     -3.0, 2.5,  infinite, -infinite, notANumber, 1e300, -1e300, 5e-324};
  for (double x : values)
    for (double y : values) {
      INFO(x, " ^ ", y);
      CHECK(ulps(portable::pow(x, y), std::pow(x, y)) <= 1);
      CHECK(std::signbit(portable::pow(x, y)) ==
            (std::isnan(std::pow(x, y)) ? std::signbit(portable::pow(x, y)) : std::signbit(std::pow(x, y))));
    }
}

TEST_CASE("special values") {
  namespace p = portable;
  struct {
    double (*mine)(double), (*theirs)(double);
  } all[] = {{p::exp, std::exp},     {p::log, std::log},     {p::log1p, std::log1p}, {p::sin, std::sin},
             {p::cos, std::cos},     {p::tan, std::tan},     {p::asin, std::asin},   {p::acos, std::acos},
             {p::atan, std::atan},   {p::sinh, std::sinh},   {p::cosh, std::cosh},   {p::tanh, std::tanh},
             {p::asinh, std::asinh}, {p::acosh, std::acosh}, {p::atanh, std::atanh}, {p::erf, std::erf},
             {p::erfc, std::erfc}};
  for (auto [mine, theirs] : all)
    for (double x :
         {0.0, -0.0, 1.0, -1.0, 2.0, -2.0, infinite, -infinite, notANumber, 1e308, -1e308, 5e-324, -5e-324, 2.2e-308}) {
      INFO(x, ": ", mine(x), " and ", theirs(x), " of function ", &mine);
      CHECK(ulps(mine(x), theirs(x)) <= 2);
      if (!std::isnan(theirs(x)))
        CHECK(std::signbit(mine(x)) == std::signbit(theirs(x)));
    }
  CHECK(p::sigmoid(-infinite) == 0);
  CHECK(p::sigmoid(infinite) == 1);
  CHECK(p::softplus(-infinite) == 0);
  CHECK(p::softplus(infinite) == infinite);
  CHECK(p::gelu(-infinite) == 0);
  CHECK(p::gelu(infinite) == infinite);
  CHECK(std::isnan(p::gelu(notANumber)));
  CHECK(p::gelu(-10) == doctest::Approx(-7.6198530241605e-23).epsilon(1e-12));
}
