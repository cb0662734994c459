// softmax, layer_norm and group_norm against formulas in double.
#include "KernelHarness.h"
#include "mrcc/IR/Mrc.h"
#include <cmath>
#include <doctest/doctest.h>

using namespace mrcc;
using namespace mrcc::testing;
using Dims = std::vector<int64_t>;

static std::vector<const Target *> targets() {
  std::vector<const Target *> all;
  for (const Target &t : Target::all())
    if (runsHere(t))
      all.push_back(&t);
  return all;
}

static int64_t bitsOf(float f) {
  int32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

static double errorOf(const Tensor &out, const std::function<double(const Dims &)> &expected) {
  double worst = 0;
  out.each([&](auto &at) {
    double a = out.get(at), e = expected(at);
    double error = a == e || (std::isnan(a) && std::isnan(e)) ? 0 : std::fabs(a - e) / std::max(1.0, std::fabs(e));
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  });
  return worst;
}

/// Runs in one piece and in three; both must be the same.
static void run(const LaunchSite &site, const Target &target, Tensor &out, std::vector<Tensor *> all,
                const std::function<double(const Dims &)> &expected, double tolerance) {
  Compiled kernel(site, target);
  std::vector<double> first;
  for (int64_t parts : {1, 3}) {
    out.each([&](auto &at) { out.set(at, 77); });
    kernel.call(all, parts);
    double error = errorOf(out, expected);
    CHECK_MESSAGE(error <= tolerance, target.name << " " << kernel.bound.kernel.key() << " error " << error);
    CHECK(out.untouchedAround());
    size_t i = 0;
    bool same = true;
    out.each([&](auto &at) {
      if (parts == 1)
        first.push_back(out.get(at));
      else
        same &= first[i] == out.get(at) || std::isnan(first[i]);
      ++i;
    });
    CHECK(same);
  }
}

TEST_CASE("softmax along every axis") {
  for (const Target *target : targets())
    for (Dims dims : {Dims{3, 5, 77}, Dims{2, 100, 24}, Dims{7, 10, 3}, Dims{1, 1, 1000}})
      for (int64_t axis : {0, 1, 2})
        for (bool log : {false, true})
          for (DType type : {DType::f32, DType::f16, DType::f64})
            for (int layout = 0; layout < 2; ++layout) {
              Tensor x(type, dims, layout ? std::vector<int>{2, 0, 1} : std::vector<int>{}), out(type, dims);
              x.random(1, -8, 8);
              std::map<Dims, double> sums;
              x.each([&](auto at) {
                double v = x.get(at);
                at[axis] = 0;
                sums[at] += std::exp(v);
              });
              run(
                  makeSite("softmax", {&out, &x}, {{"axis", {axis}}, {"log", {log}}}), *target, out, {&out, &x},
                  [&](const Dims &at) {
                    Dims row = at;
                    row[axis] = 0;
                    double share = std::exp(x.get(at)) / sums[row];
                    return log ? std::log(share) : share;
                  },
                  type == DType::f16   ? 1e-3
                  : type == DType::f64 ? 1e-13
                                       : 1e-6);
            }
}

TEST_CASE("softmax with masked and large values, and a prologue") {
  for (const Target *target : targets())
    for (int64_t n : {5, 40, 133}) {
      Tensor x(DType::f32, {4, n}), mask(DType::f32, {4, n}), out(DType::f32, {4, n});
      x.random(2, -300, 300);
      mask.each([&](auto &at) { mask.set(at, at[1] % 3 == 1 ? -HUGE_VAL : 0); });
      mask.broadcast({0});
      auto value = [&](int64_t i, int64_t j) { return double(float(x.get({i, j}) * 0.125f)) + mask.get({i, j}); };
      run(
          makeSite("softmax", {&out, &x, &mask}, {{"axis", {1}}},
                   "f32 load 0; f32 const 0.125; f32 mul %0 %1; f32 load 1; f32 add %2 %3 -> %4"),
          *target, out, {&out, &x, &mask},
          [&](const Dims &at) {
            double top = -HUGE_VAL, sum = 0;
            for (int64_t j = 0; j < n; ++j)
              top = std::max(top, value(at[0], j));
            for (int64_t j = 0; j < n; ++j)
              sum += std::exp(value(at[0], j) - top);
            return std::exp(value(at[0], at[1]) - top) / sum;
          },
          1e-6);
      x.each([&](auto &at) { x.set(at, -HUGE_VAL); }); // nothing to choose from: NaN, as the formula has it
      run(
          makeSite("softmax", {&out, &x}, {{"axis", {1}}}), *target, out, {&out, &x}, [](const Dims &) { return NAN; },
          0);
    }
}

TEST_CASE("softmax of rows with NaN, and of one row much below the others") {
  for (const Target *target : targets())
    for (int64_t n : {3, 64, 133}) {
      Tensor x(DType::f32, {3, n}), out(DType::f32, {3, n});
      x.random(2, -80, 0);
      x.set({1, n / 2}, NAN);
      for (int64_t j = 0; j < n; ++j)
        x.set({2, j}, -3e38); // what a mask leaves of a row: all alike
      std::vector<double> sums(3);
      double top = -HUGE_VAL;
      for (int64_t j = 0; j < n; ++j)
        top = std::max(top, x.get({0, j}));
      for (int64_t j = 0; j < n; ++j)
        sums[0] += std::exp(x.get({0, j}) - top);
      run(
          makeSite("softmax", {&out, &x}, {{"axis", {1}}}), *target, out, {&out, &x},
          [&](const Dims &at) { return at[0] == 0   ? std::exp(x.get(at) - top) / sums[0]
                                       : at[0] == 1 ? NAN
                                                    : 1.0 / n; },
          1e-6);
    }
}

TEST_CASE("layer norm") {
  for (const Target *target : targets())
    for (Dims dims : {Dims{2, 9, 64}, Dims{3, 4, 77}, Dims{5, 1, 10}, Dims{2, 30, 40}})
      for (int64_t axis : {1, 2})
        for (bool rms : {false, true})
          for (int inputs : {1, 2, 3})
            for (DType type : {DType::f32, DType::f16}) {
              Tensor x(type, dims), scale(type, dims), bias(type, dims), extra(DType::f32, dims), out(type, dims);
              x.random(3, -1, 3);
              scale.random(4, 0.5, 2);
              bias.random(5);
              extra.random(6);
              std::vector<int> outer;
              for (int d = 0; d < axis; ++d)
                outer.push_back(d);
              scale.broadcast(outer);
              bias.broadcast(outer);
              std::map<Dims, std::vector<double>> rows;
              auto rowOf = [&](Dims at) {
                for (int64_t d = axis; d < 3; ++d)
                  at[d] = 0;
                return at;
              };
              x.each([&](auto &at) { rows[rowOf(at)].push_back(x.get(at)); });
              auto expected = [&](const Dims &at) {
                const auto &row = rows[rowOf(at)];
                double mean = 0, square = 0;
                for (double v : row)
                  mean += v / row.size();
                if (rms)
                  mean = 0;
                for (double v : row)
                  square += (v - mean) * (v - mean) / row.size();
                double y = (x.get(at) - mean) / std::sqrt(square + double(1e-5f));
                return y * (inputs > 1 ? scale.get(at) : 1) + (inputs > 2 ? bias.get(at) : 0);
              };
              std::map<std::string, Dims> config{{"axis", {axis}},
                                                 {"rms", {rms}},
                                                 {"epsilon", {bitsOf(1e-5f)}},
                                                 {"scale", {inputs > 1}},
                                                 {"bias", {inputs > 2}}};
              std::vector<Tensor *> all{&out, &x, &scale, &bias};
              all.resize(1 + inputs);
              run(makeSite("layer_norm", all, config), *target, out, all, expected, type == DType::f32 ? 3e-6 : 2e-3);
              if (type == DType::f32 && inputs == 3) {
                all.push_back(&extra);
                run(
                    makeSite("layer_norm", all, config, "f32 acc; f32 load 3; f32 add %0 %1; f32 silu %2 -> %3"),
                    *target, out, all,
                    [&](const Dims &at) {
                      double v = expected(at) + extra.get(at);
                      return v / (1 + std::exp(-v));
                    },
                    3e-6);
              }
            }
}

TEST_CASE("a far mean does not spoil the variance") {
  for (const Target *target : targets()) {
    const int64_t n = 1000;
    Tensor x(DType::f32, {2, n}), out(DType::f32, {2, n});
    x.random(7);
    x.each([&](auto &at) { x.set(at, x.get(at) + 1000); });
    std::vector<double> mean(2), square(2);
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < n; ++j)
        mean[i] += x.get({i, j}) / n;
      for (int64_t j = 0; j < n; ++j)
        square[i] += std::pow(x.get({i, j}) - mean[i], 2) / n;
    }
    run(
        makeSite("layer_norm", {&out, &x}, {{"axis", {1}}, {"epsilon", {0}}}), *target, out, {&out, &x},
        [&](const Dims &at) { return (x.get(at) - mean[at[0]]) / std::sqrt(square[at[0]]); }, 3e-4);
  }
}

TEST_CASE("group norm of a large map with a far mean") {
  for (const Target *target : targets()) {
    const int64_t side = 70, channels = 44, groups = 4, size = channels / groups;
    Tensor x(DType::f32, {1, side, side, channels}), out(DType::f32, {1, side, side, channels});
    x.random(12);
    x.each([&](auto &at) { x.set(at, x.get(at) + 100 * (1 + at[3])); });
    std::vector<double> mean(groups), square(groups);
    const double n = side * side * size;
    x.each([&](auto &at) { mean[at[3] / size] += x.get(at) / n; });
    x.each([&](auto &at) { square[at[3] / size] += std::pow(x.get(at) - mean[at[3] / size], 2) / n; });
    run(
        makeSite("group_norm", {&out, &x}, {{"groups", {groups}}, {"epsilon", {bitsOf(1e-5f)}}}), *target, out,
        {&out, &x},
        [&](const Dims &at) {
          return (x.get(at) - mean[at[3] / size]) / std::sqrt(square[at[3] / size] + double(1e-5f));
        },
        1e-5);
  }
}

TEST_CASE("group norm") {
  for (const Target *target : targets())
    for (Dims dims : {Dims{2, 5, 7, 64}, Dims{1, 3, 4, 20}, Dims{2, 9, 10}, Dims{3, 4, 4, 4, 96}, Dims{2, 6, 6, 30},
                      Dims{1, 1, 1, 8}})
      for (int64_t groups : {int64_t(1), int64_t(2), dims.back() / 2, dims.back()})
        for (int inputs : {1, 3})
          for (DType type : {DType::f32, DType::f16})
            for (int layout = 0; layout < 3; ++layout) {
              std::vector<int> planar{0, int(dims.size()) - 1};
              for (int d = 1; d + 1 < int(dims.size()); ++d)
                planar.push_back(d);
              Tensor x(type, dims, layout == 1 ? planar : std::vector<int>{}, layout == 2 ? 3 : 0), out(type, dims),
                  scale(type, dims), bias(type, dims);
              Tensor extra(DType::f32, dims);
              x.random(8, 9, 12);
              scale.random(9, 0.5, 2);
              bias.random(10);
              extra.random(11);
              std::vector<int> outer;
              for (int d = 0; d + 1 < int(dims.size()); ++d)
                outer.push_back(d);
              scale.broadcast(outer);
              bias.broadcast(outer);
              const int64_t size = dims.back() / groups;
              std::map<Dims, std::vector<double>> rows;
              auto rowOf = [&](const Dims &at) { return Dims{at[0], at.back() / size}; };
              x.each([&](auto &at) { rows[rowOf(at)].push_back(x.get(at)); });
              std::map<Dims, std::pair<double, double>> stats;
              for (auto &[key, row] : rows) {
                double mean = 0, square = 0;
                for (double v : row)
                  mean += v / row.size();
                for (double v : row)
                  square += (v - mean) * (v - mean) / row.size();
                stats[key] = {mean, 1 / std::sqrt(square + double(1e-5f))};
              }
              auto expected = [&](const Dims &at) {
                auto [mean, factor] = stats[rowOf(at)];
                return (x.get(at) - mean) * factor * (inputs > 1 ? scale.get(at) : 1) + (inputs > 1 ? bias.get(at) : 0);
              };
              std::map<std::string, Dims> config{
                  {"groups", {groups}}, {"epsilon", {bitsOf(1e-5f)}}, {"scale", {inputs > 1}}, {"bias", {inputs > 1}}};
              std::vector<Tensor *> all{&out, &x, &scale, &bias};
              all.resize(1 + inputs);
              run(makeSite("group_norm", all, config), *target, out, all, expected, type == DType::f32 ? 1e-5 : 4e-3);
              if (type == DType::f32 && inputs == 3) {
                all.push_back(&extra);
                run(
                    makeSite("group_norm", all, config, "f32 acc; f32 silu %0; f32 load 3; f32 add %1 %2 -> %3"),
                    *target, out, all,
                    [&](const Dims &at) {
                      double v = expected(at);
                      return v / (1 + std::exp(-v)) + extra.get(at);
                    },
                    1e-5);
              }
            }
}

TEST_CASE("refused norms") {
  const Target &target = Target::all()[1];
  Tensor x(DType::f32, {2, 3, 10}), out(DType::f32, {2, 3, 10}), n(DType::i32, {2, 3, 10});
  auto refusal = [&](const char *family, Tensor &o, Tensor &i, std::map<std::string, Dims> config) {
    auto bound = KernelFamily::find(family)->bind(makeSite(family, {&o, &i}, config), target);
    return bound ? std::string() : llvm::toString(bound.takeError());
  };
  CHECK(refusal("softmax", out, x, {{"axis", {3}}}) == "softmax: axis 3 of 3 dimensions");
  CHECK(refusal("softmax", n, n, {{"axis", {0}}}) == "softmax: elements of i32");
  CHECK(refusal("layer_norm", out, x, {{"axis", {1}}, {"scale", {1}}}) == "layer_norm: expected 2 inputs, got 1");
  CHECK(refusal("group_norm", out, x, {{"groups", {3}}}) == "group_norm: 3 groups of 10 channels");
  CHECK(refusal("group_norm", out, x, {{"groups", {2}}, {"bias", {1}}}) == "group_norm: expected 2 inputs, got 1");
}
