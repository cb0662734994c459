// The loop family against naive loops in double: broadcasts, layouts, odd sizes, reductions over every subset of axes,
// windows and resizes by load_at, transpositions.
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

/// A loop launch over these tensors, in one piece and in three; both must give `expected` at every output point.
static BoundLaunch check(const Target &target, Tensor &out, std::vector<Tensor *> in,
                         std::map<std::string, Dims> config, const std::string &body,
                         const std::function<double(const Dims &)> &expected, double tolerance,
                         const std::string &combine = "") {
  std::vector<Tensor *> all{&out};
  all.insert(all.end(), in.begin(), in.end());
  LaunchSite site = makeSite("loop", all, config, body);
  if (!combine.empty())
    site.words["combine"] = combine;
  Compiled kernel(site, target);
  std::vector<double> first;
  for (int64_t parts : {1, 3}) {
    out.each([&](auto &at) { out.set(at, 77); });
    kernel.call(all, parts);
    double worst = 0, got = 0, wanted = 0;
    size_t i = 0;
    bool same = true;
    out.each([&](auto &at) {
      double a = out.get(at);
      if (parts == 1)
        first.push_back(a);
      else
        same &= a == first[i] || (std::isnan(a) && std::isnan(first[i]));
      ++i;
      double e = expected(at),
             error = a == e || (std::isnan(a) && std::isnan(e)) ? 0 : std::fabs(a - e) / std::max(1.0, std::fabs(e));
      if (!(error <= worst)) {
        worst = std::isnan(error) ? HUGE_VAL : error;
        got = a;
        wanted = e;
      }
    });
    CHECK_MESSAGE(worst <= tolerance,
                  target.name << " " << kernel.bound.kernel.key() << ": " << got << ", expected " << wanted);
    CHECK_MESSAGE(same, target.name << " " << kernel.bound.kernel.key() << ": three parts differ from one");
    CHECK(out.untouchedAround());
  }
  return kernel.bound;
}

static std::string text(DType t) { return toString(t).str(); }

TEST_CASE("maps over sizes, types and layouts") {
  for (const Target *target : targets())
    for (int64_t n : {1, 3, 7, 13, 17, 64, 100})
      for (int64_t m : {1, 5, 33})
        for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i16,
                           DType::i32, DType::i64})
          for (int layout = 0; layout < 4; ++layout) {
            std::vector<int> order = layout == 1 ? std::vector<int>{1, 0} : std::vector<int>{0, 1};
            Tensor a(type, {m, n}, order, layout == 2 ? 5 : 0), b(type, {m, n}, {}, layout == 3 ? 3 : 0),
                out(type, {m, n});
            a.random(1, 0, 50);
            b.random(2, 0, 50);
            if (layout == 3)
              b.broadcast({0});
            std::string t = text(type);
            check(
                *target, out, {&a, &b}, {{"extents", {m, n}}},
                t + " load 0; " + t + " load 1; " + t + " add %0 %1 -> %2",
                [&](const Dims &at) { return a.get(at) + b.get(at); },
                type == DType::f16    ? 0x1p-10
                : type == DType::bf16 ? 0x1p-7
                                      : 1e-7);
          }
}

TEST_CASE("broadcast patterns of rank 4") {
  const Dims dims{2, 3, 5, 19};
  for (const Target *target : targets())
    for (int mask = 0; mask < 16; ++mask) {
      Tensor a(DType::f32, dims), b(DType::f32, dims), out(DType::f32, dims);
      a.random(3);
      b.random(4);
      std::vector<int> repeated;
      for (int d = 0; d < 4; ++d)
        if (mask >> d & 1)
          repeated.push_back(d);
      b.broadcast(repeated);
      check(
          *target, out, {&a, &b}, {{"extents", dims}},
          "f32 load 0; f32 load 1; f32 mul %0 %1; f32 exp %1; f32 add %2 %3 -> %4",
          [&](const Dims &at) { return float(a.get(at) * b.get(at)) + std::exp(b.get(at)); }, 3e-7);
    }
}

TEST_CASE("an output may lie on its input") {
  for (const Target *target : targets())
    for (int64_t n : {5, 16, 29, 100, 40000}) {
      Tensor x(DType::f32, {n});
      x.random(5);
      std::vector<double> before;
      x.each([&](auto &at) { before.push_back(x.get(at)); });
      LaunchSite site = makeSite("loop", {&x, &x}, {{"extents", {n}}}, "f32 load 0; f32 const 1; f32 add %0 %1 -> %2");
      Compiled(site, *target).call({&x, &x}, 2);
      bool good = true;
      for (int64_t i = 0; i < n; ++i)
        good &= x.get({i}) == float(before[i] + 1);
      CHECK(good);
    }
}

TEST_CASE("negative strides, index and immediates") {
  for (const Target *target : targets())
    for (int64_t n : {1, 7, 16, 45}) {
      Tensor x(DType::f32, {3, n}), out(DType::f32, {3, n});
      x.random(6);
      LaunchSite site = makeSite("loop", {&out, &x}, {{"extents", {3, n}}},
                                 "f32 load 0; i64 iter 0; i64 iter 1; i64 param 0; i64 mul %1 %3; i64 add %4 %2; f32 "
                                 "cast %5; f32 param 1; f32 mul %6 %7; f32 add %0 %8 -> %9");
      float factor = 0.5f;
      int64_t bits = 0;
      memcpy(&bits, &factor, 4);
      site.immediates = {1000, bits};
      View &v = site.views[1];
      v.strides = {v.strides[0], -1};
      v.offset += (n - 1) * 4;
      Compiled k(site, *target);
      char *views[] = {out.data(), x.data() + (n - 1) * 4};
      k.function(views, k.bound.params.data(), 0, k.bound.units, nullptr);
      bool good = true;
      out.each([&](auto &at) {
        good &= out.get(at) == float(float(x.get({at[0], n - 1 - at[1]})) + float(at[0] * 1000 + at[1]) * 0.5f);
      });
      CHECK(good);
    }
}

TEST_CASE("several outputs, booleans, mixed widths") {
  for (const Target *target : targets())
    for (int64_t n : {3, 31, 200}) {
      Tensor a(DType::u8, {n}), b(DType::f32, {n}), y(DType::f32, {n}), c(DType::boolean, {n}), i(DType::i64, {n});
      a.random(7, 0, 255);
      b.random(8, 0, 255);
      LaunchSite site = makeSite(
          "loop", {&y, &c, &i, &a, &b}, {{"extents", {n}}},
          "u8 load 0; f32 load 1; f32 cast %0; bool lt %2 %1; f32 select %3 %2 %1; i64 cast %0 -> %4 %3 %5", 3);
      Compiled(site, *target).call({&y, &c, &i, &a, &b}, 2);
      bool good = true;
      for (int64_t k = 0; k < n; ++k)
        good &= y.get({k}) == std::min(a.get({k}), b.get({k})) && c.get({k}) == (a.get({k}) < b.get({k})) &&
                i.get({k}) == a.get({k});
      CHECK(good);
    }
}

TEST_CASE("computed places in an operand of one element") {
  for (const Target *target : targets()) {
    Tensor x(DType::f32, {1}), y(DType::f32, {37});
    x.random(1);
    x.broadcast({0});
    Compiled(makeSite("loop", {&y, &x}, {{"extents", {37}}},
                      "i64 iter 0; i64 const 1; i64 mod %0 %1; f32 load_at 0 %2 -> %3"),
             *target)
        .call({&y, &x}, 1);
    bool good = true;
    y.each([&](auto &at) { good &= y.get(at) == x.get({0}); });
    CHECK(good);
  }
}

TEST_CASE("packed elements") {
  for (const Target *target : targets())
    for (DType type : {DType::i4, DType::u4, DType::i2, DType::u2}) {
      const int64_t n = 37, bits = bitWidth(type), count = 1 << bits, bytes = (n * bits + 7) / 8;
      std::vector<char> in(bytes), out(bytes, 0), wide(n);
      auto value = [&](int64_t k) { return k * 5 % count - (isUnsigned(type) ? 0 : count / 2); };
      for (int64_t k = 0; k < n; ++k)
        in[k * bits / 8] |= (value(k) & (count - 1)) << (k * bits % 8);
      auto run = [&](DType from, DType to, const std::string &body, char *y, char *x) {
        LaunchSite site = makeSite("loop", {}, {{"extents", {n}}}, body);
        site.views = {{Space::arena, to, 0, 0, {n}, {1}}, {Space::arena, from, 0, 0, {n}, {1}}};
        Compiled k(site, *target);
        char *views[] = {y, x};
        k.function(views, k.bound.params.data(), 0, k.bound.units, nullptr);
      };
      run(type, DType::i8, text(type) + " load 0; i8 cast %0 -> %1", wide.data(), in.data());
      bool good = true;
      for (int64_t k = 0; k < n; ++k)
        good &= wide[k] == value(k);
      CHECK(good);
      run(DType::i8, type, "i8 load 0; " + text(type) + " cast %0 -> %1", out.data(), wide.data());
      CHECK(out == in);
      const DType other = type == DType::i4   ? DType::u4
                          : type == DType::u4 ? DType::i4
                          : type == DType::i2 ? DType::u2
                                              : DType::i2;
      run(type, DType::i8, text(type) + " load 0; " + text(other) + " bitcast %0; i8 cast %1 -> %2", wide.data(),
          in.data());
      for (int64_t k = 0; k < n; ++k)
        good &= wide[k] == (isUnsigned(type) ? value(k) - (value(k) >= count / 2 ? count : 0) : value(k) & (count - 1));
      CHECK(good);
    }
}

//===-- reductions ------------------------------------------------------------------------------------------------===//

static Tensor reducedLike(DType type, const Dims &dims, const std::vector<int64_t> &axes) {
  Dims kept = dims;
  for (int64_t a : axes)
    kept[a] = 1;
  return Tensor(type, kept);
}

/// The view of an output over the whole domain: stride 0 over reduced dims.
static Tensor spread(Tensor t, const std::vector<int64_t> &axes) {
  t.broadcast(std::vector<int>(axes.begin(), axes.end()));
  return t;
}

TEST_CASE("reductions over every subset of axes") {
  for (const Target *target : targets())
    for (Dims dims : {Dims{2, 3, 5, 19}, Dims{3, 1, 20, 70}, Dims{1, 2, 2, 3}})
      for (int mask = 0; mask < 16; ++mask)
        for (std::string combine : {"sum", "max", "min", "prod"})
          for (int layout = 0; layout < 2; ++layout) {
            std::vector<int64_t> axes;
            for (int d = 0; d < 4; ++d)
              if (mask >> d & 1)
                axes.push_back(d);
            Tensor x(DType::f32, dims, layout ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{});
            x.random(11, combine == "prod" ? 0.9 : -1, 1.1);
            Tensor out = spread(reducedLike(DType::f32, dims, axes), axes);
            std::map<Dims, double> totals;
            x.each([&](auto at) {
              double v = x.get(at);
              for (int64_t a : axes)
                at[a] = 0;
              auto [it, isNew] = totals.try_emplace(at, v);
              double &t = it->second;
              if (!isNew)
                t = combine == "sum"    ? t + v
                    : combine == "prod" ? t * v
                    : combine == "max"  ? std::max(t, v)
                                        : std::min(t, v);
            });
            check(
                *target, out, {&x}, {{"extents", dims}, {"reduce", axes}}, "f32 load 0; f32 acc; f32 neg %1 -> %0 %2",
                [&](const Dims &at) { return -totals[at]; }, combine == "prod" ? 1e-5 : 2e-6, combine);
          }
}

TEST_CASE("reductions of integers and halves") {
  const Dims dims{7, 45};
  for (const Target *target : targets())
    for (DType type : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f64})
      for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, std::vector<int64_t>{1}, std::vector<int64_t>{0, 1}})
        for (std::string combine : {"max", "min"}) {
          Tensor x(type, dims), out = spread(reducedLike(type, dims, axes), axes);
          x.random(13, isUnsigned(type) ? 3 : -100, 100);
          std::map<Dims, double> totals;
          x.each([&](auto at) {
            double v = x.get(at);
            for (int64_t a : axes)
              at[a] = 0;
            auto [it, isNew] = totals.try_emplace(at, v);
            it->second = combine == "max" ? std::max(it->second, v) : std::min(it->second, v);
          });
          std::string t = text(type);
          check(
              *target, out, {&x}, {{"extents", dims}, {"reduce", axes}}, t + " load 0; " + t + " acc -> %0 %1",
              [&](const Dims &at) { return totals[at]; }, 0, combine);
        }
}

TEST_CASE("maximum and minimum let NaN through") {
  for (const Target *target : targets())
    for (int64_t place : {0, 17, 40, 99})
      for (std::string combine : {"max", "min"}) {
        Tensor x(DType::f32, {100}), out = spread(Tensor(DType::f32, {1}), {0});
        x.random(17);
        x.set({place}, NAN);
        check(
            *target, out, {&x}, {{"extents", {100}}, {"reduce", {0}}}, "f32 load 0; f32 acc -> %0 %1",
            [&](const Dims &) { return NAN; }, 0, combine);
      }
}

TEST_CASE("index of the maximum and minimum") {
  for (const Target *target : targets())
    for (int64_t axis : {0, 1, 2})
      for (std::string combine : {"argmax", "argmin", "argmax_last", "argmin_last"})
        for (DType type : {DType::f32, DType::i32, DType::u8, DType::f64}) {
          const Dims dims{5, 70, 40};
          Tensor x(type, dims), out = spread(reducedLike(DType::i64, dims, {axis}), {axis});
          x.random(19, 0, 9);
          x.each([&](auto &at) { x.set(at, std::floor(x.get(at))); }); // many equal values
          std::map<Dims, std::pair<double, int64_t>> best;
          bool isMax = combine.substr(0, 6) == "argmax", last = combine.size() > 6;
          x.each([&](auto at) {
            double v = x.get(at);
            int64_t i = at[axis];
            at[axis] = 0;
            auto [it, isNew] = best.try_emplace(at, v, i);
            auto &[value, index] = it->second;
            if (isMax ? v > value : v < value)
              value = v, index = i;
            else if (v == value && last)
              index = i;
          });
          std::string t = text(type);
          check(
              *target, out, {&x}, {{"extents", dims}, {"reduce", {axis}}},
              t + " load 0; i64 iter " + std::to_string(axis) + "; i64 acc 1 -> %0 %1 %2",
              [&](const Dims &at) { return double(best[at].second); }, 0, combine);
        }
}

TEST_CASE("two sums and an epilogue with extras") {
  const Dims dims{6, 33, 50};
  for (const Target *target : targets())
    for (int64_t axis : {1, 2}) {
      Tensor x(DType::f32, dims), bias = reducedLike(DType::f32, dims, {axis}),
                                  out = spread(reducedLike(DType::f32, dims, {axis}), {axis});
      x.random(23);
      bias.random(24);
      bias.broadcast({int(axis)});
      std::map<Dims, std::pair<double, double>> sums;
      x.each([&](auto at) {
        double v = x.get(at);
        at[axis] = 0;
        sums[at].first += v;
        sums[at].second += v * v;
      });
      check(
          *target, out, {&x, &bias}, {{"extents", dims}, {"reduce", {axis}}},
          "f32 load 0; f32 mul %0 %0; f32 acc; f32 acc 1; f32 load 1; f32 div %3 %2; f32 add %5 %4; f32 tanh %6 -> %0 "
          "%1 %7",
          [&](const Dims &at) {
            auto [s, q] = sums[at];
            return std::tanh(q / s + bias.get(at));
          },
          1e-4, "sum sum");
    }
}

TEST_CASE("one sum over rows of many vectors") { // tiles of eight vectors, of four, and the rest
  for (const Target *target : targets())
    for (int64_t n : {64, 128, 200, 300, 515})
      for (std::string combine : {"sum", "max"}) {
        Tensor x(DType::f32, {9, n}), out = spread(Tensor(DType::f32, {1, n}), {0});
        x.random(28);
        check(
            *target, out, {&x}, {{"extents", x.dims()}, {"reduce", {0}}}, "f32 load 0; f32 acc -> %0 %1",
            [&](const Dims &at) {
              double total = x.get({0, at[1]});
              for (int64_t i = 1; i < 9; ++i)
                total = combine == "sum" ? total + x.get({i, at[1]}) : std::max(total, x.get({i, at[1]}));
              return total;
            },
            2e-6, combine);
      }
}

TEST_CASE("sums of products") {
  for (const Target *target : targets())
    for (int64_t n : {5, 77, 300}) {
      Tensor x(DType::f32, {3, n}), y(DType::f32, {3, n}), out = spread(Tensor(DType::f32, {3, 1}), {1});
      x.random(26), y.random(27);
      check(
          *target, out, {&x, &y}, {{"extents", x.dims()}, {"reduce", {1}}},
          "f32 load 0; f32 load 1; f32 mul %0 %1; f32 acc; f32 mul %3 %3; f32 add %4 %3 -> %2 %5",
          [&](const Dims &at) {
            double total = 0;
            for (int64_t i = 0; i < n; ++i)
              total += x.get({at[0], i}) * y.get({at[0], i});
            return total * total + total;
          },
          2e-5, "sum");
    }
}

TEST_CASE("long sums stay accurate") {
  for (const Target *target : targets())
    for (bool inner : {true, false}) {
      const int64_t n = 200000, c = 24;
      Tensor x(DType::f32, inner ? Dims{2, n} : Dims{n, c}),
          out = spread(Tensor(DType::f32, inner ? Dims{2, 1} : Dims{1, c}), {inner ? 1 : 0});
      x.random(29, 0, 1);
      std::map<int64_t, double> sums;
      x.each([&](auto &at) { sums[at[inner ? 0 : 1]] += x.get(at); });
      check(
          *target, out, {&x}, {{"extents", x.dims()}, {"reduce", {inner ? 1 : 0}}}, "f32 load 0; f32 acc -> %0 %1",
          [&](const Dims &at) { return sums[at[inner ? 0 : 1]]; }, 3e-6, "sum");
    }
}

TEST_CASE("empty domains") {
  for (const Target *target : targets()) {
    Tensor x(DType::f32, {3, 0}), out = spread(Tensor(DType::f32, {3, 1}), {1});
    check(
        *target, out, {&x}, {{"extents", {3, 0}}, {"reduce", {1}}}, "f32 load 0; f32 acc -> %0 %1",
        [](const Dims &) { return 0; }, 0, "sum");
    check(
        *target, out, {&x}, {{"extents", {3, 0}}, {"reduce", {1}}}, "f32 load 0; f32 acc -> %0 %1",
        [](const Dims &) { return -HUGE_VAL; }, 0, "max");
    Tensor none(DType::f32, {4, 0, 3});
    Tensor y = none;
    check(*target, none, {&y}, {{"extents", {4, 0, 3}}}, "f32 load 0 -> %0", [](const Dims &) { return 0; }, 0);
    Tensor scalar(DType::f32, {}), result(DType::f32, {});
    scalar.set({}, 2.5);
    check(
        *target, result, {&scalar}, {{"extents", {}}}, "f32 load 0; f32 exp %0 -> %1",
        [](const Dims &) { return std::exp(2.5); }, 3e-7);
  }
}

//===-- computed places -------------------------------------------------------------------------------------------===//

static std::string c(int64_t v) { return "i64 const " + std::to_string(v); }

TEST_CASE("pooling windows") {
  struct Window {
    int64_t h, w, channels, kernel, stride, pad;
    bool planar;
  };
  for (const Target *target : targets())
    for (Window p :
         {Window{7, 9, 24, 3, 2, 1, false}, Window{8, 8, 5, 2, 2, 0, false}, Window{6, 20, 7, 3, 1, 1, true},
          Window{5, 40, 3, 3, 2, 1, true}, Window{4, 4, 100, 4, 4, 0, false}, Window{8, 11, 96, 3, 2, 1, false},
          Window{9, 8, 70, 3, 2, 0, false}, Window{5, 6, 133, 3, 1, 1, false}, Window{12, 7, 64, 5, 2, 2, false}})
      for (bool isMax : {true, false}) {
        int64_t oh = (p.h + 2 * p.pad - p.kernel) / p.stride + 1, ow = (p.w + 2 * p.pad - p.kernel) / p.stride + 1;
        std::vector<int> order = p.planar ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{};
        Tensor x(DType::f32, {2, p.h, p.w, p.channels}, order), y(DType::f32, {2, oh, ow, p.channels}, order);
        x.random(31);
        LaunchSite site;
        Expr &e = site.body;
        std::vector<uint32_t> at{e.iter(0)};
        uint32_t inside = e.integer(DType::boolean, 1);
        for (int d = 0; d < 2; ++d) {
          uint32_t n = e.extent(0, 1 + d);
          uint32_t pos =
              e.binary(BinaryKind::add, e.binary(BinaryKind::mul, e.iter(1 + d), e.integer(DType::i64, p.stride)),
                       e.binary(BinaryKind::sub, e.iter(4 + d), e.integer(DType::i64, p.pad)));
          inside = e.binary(BinaryKind::logical_and, inside, e.binary(BinaryKind::ge, pos, e.integer(DType::i64, 0)));
          inside = e.binary(BinaryKind::logical_and, inside, e.binary(BinaryKind::lt, pos, n));
          at.push_back(e.clampIndex(pos, n));
        }
        at.push_back(e.iter(3));
        uint32_t v = e.loadAt(DType::f32, 0, at);
        if (isMax) {
          uint32_t top = e.select(inside, v, e.constant(DType::f32, -HUGE_VAL));
          e.results = {top, e.acc(DType::f32)};
        } else {
          uint32_t zero = e.constant(DType::f32, 0), sum = e.select(inside, v, zero),
                   count = e.select(inside, e.constant(DType::f32, 1), zero);
          e.results = {sum, count, e.binary(BinaryKind::div, e.acc(DType::f32, 0), e.acc(DType::f32, 1))};
        }
        Tensor out = y;
        std::string body = e.str();
        LaunchSite made = makeSite(
            "loop", {&out, &x}, {{"extents", {2, oh, ow, p.channels, p.kernel, p.kernel}}, {"reduce", {4, 5}}}, body);
        for (int i = 0; i < 2; ++i) {
          made.views[0].dims.push_back(1);
          made.views[0].strides.push_back(0);
        }
        made.words["combine"] = isMax ? "max_number" : "sum sum";
        Compiled k(made, *target);
        k.call({&out, &x}, 3);
        double worst = 0;
        out.each([&](auto &o) {
          double total = isMax ? -HUGE_VAL : 0, count = 0;
          for (int64_t i = 0; i < p.kernel; ++i)
            for (int64_t j = 0; j < p.kernel; ++j) {
              int64_t a = o[1] * p.stride + i - p.pad, b = o[2] * p.stride + j - p.pad;
              if (a < 0 || b < 0 || a >= p.h || b >= p.w)
                continue;
              double w = x.get({o[0], a, b, o[3]});
              total = isMax ? std::max(total, w) : total + w;
              count += 1;
            }
          worst = std::max(worst, std::fabs(out.get(o) - (isMax ? total : total / count)));
        });
        CHECK_MESSAGE(worst <= 1e-6, target->name << " " << k.bound.kernel.key() << " " << worst);
        CHECK(out.untouchedAround());
        if (p.pad == 0) // windows that never leave the input have no guards
          CHECK(k.bound.kernel.body.find("select") == std::string::npos);
        if (p.channels >= 64 && p.kernel == 3)
          CHECK(k.bound.kernel.config.count("pairs"));
      }
}

TEST_CASE("nearest and linear resize") {
  for (const Target *target : targets())
    for (bool planar : {false, true})
      for (auto [channels, width] : {std::pair<int64_t, int64_t>{3, 7}, {3, 40}, {16, 7}, {40, 7}}) {
        std::vector<int> order = planar ? std::vector<int>{2, 0, 1} : std::vector<int>{};
        const int64_t columns = width;
        Tensor x(DType::f32, {5, columns, channels}, order), y(DType::f32, {11, 50, channels}, order);
        x.random(37);
        std::string head = "i64 iter 0; i64 iter 1; i64 iter 2; i64 extent 0 0; i64 extent 0 1; f32 const 0.45; f32 "
                           "const 0.35; f32 cast %0; f32 cast %1; "
                           "f32 mul %7 %5; f32 mul %8 %6; f32 floor %9; f32 floor %10; i64 cast %11; i64 cast %12; i64 "
                           "clamp_index %13 %3; i64 clamp_index %14 %4; ";
        auto at = [&](const Dims &o, double &fy, double &fx) {
          float sy = float(o[0]) * 0.45f, sx = float(o[1]) * 0.35f;
          fy = sy - std::floor(sy);
          fx = sx - std::floor(sx);
          return std::pair(int64_t(sy), int64_t(sx));
        };
        auto clamp = [](int64_t v, int64_t n) { return std::min(std::max<int64_t>(v, 0), n - 1); };
        check(
            *target, y, {&x}, {{"extents", y.dims()}}, head + "f32 load_at 0 %15 %16 %2 -> %17",
            [&](const Dims &o) {
              double fy, fx;
              auto [a, b] = at(o, fy, fx);
              return x.get({clamp(a, 5), clamp(b, columns), o[2]});
            },
            0);
        std::string body = head + c(1) +
                           "; i64 add %13 %17; i64 add %14 %17; i64 clamp_index %18 %3; i64 clamp_index %19 %4; f32 "
                           "load_at 0 %15 %16 %2; "
                           "f32 load_at 0 %15 %21 %2; f32 load_at 0 %20 %16 %2; f32 load_at 0 %20 %21 %2; f32 sub %9 "
                           "%11; f32 sub %10 %12; f32 sub %23 %22; "
                           "f32 mul %28 %27; f32 add %22 %29; f32 sub %25 %24; f32 mul %31 %27; f32 add %24 %32; f32 "
                           "sub %33 %30; f32 mul %34 %26; f32 add %30 %35 -> %36";
        check(
            *target, y, {&x}, {{"extents", y.dims()}}, body,
            [&](const Dims &o) {
              double fy, fx;
              auto [a, b] = at(o, fy, fx);
              auto v = [&](int64_t i, int64_t j) { return x.get({clamp(i, 5), clamp(j, columns), o[2]}); };
              double top = v(a, b) + (v(a, b + 1) - v(a, b)) * fx,
                     low = v(a + 1, b) + (v(a + 1, b + 1) - v(a + 1, b)) * fx;
              return top + (low - top) * fy;
            },
            1e-6);
      }
}

TEST_CASE("interpolation in two steps") {
  // Places of a row go up, down, or far, two or three of them a point; the middle one weighs nothing at some points.
  const std::string ways[] = {"i64 iter 1; i64 const 2; i64 div %21 %22; i64 const 1; i64 sub %23 %24",
                              "i64 iter 1; i64 const 3; i64 div %21 %22; i64 const 9; i64 sub %24 %23",
                              "i64 iter 1; i64 const 5; i64 mul %21 %22; i64 const 13; i64 mod %23 %24"};
  auto place = [](size_t way, int64_t x) { return way == 0 ? x / 2 - 1 : way == 1 ? 9 - x / 3 : x * 5 % 13; };
  auto clamp = [](int64_t v, int64_t n) { return std::min(std::max<int64_t>(v, 0), n - 1); };
  for (const Target *target : targets())
    for (size_t way : {0, 1, 2})
      for (DType type : {DType::f32, DType::u8})
        for (int64_t channels : {1, 5, 21, 67, 96}) {
          const int64_t height = 4, width = 13;
          Tensor x(type, {height, width, channels}), y(DType::f32, {7, 40, channels});
          x.random(56, 0, 100);
          // 0-20: rows and their weights, y / 7; 21-25: the first place
          std::string body =
              "i64 iter 0; i64 const 2; i64 div %0 %1; i64 extent 0 0; i64 clamp_index %2 %3; i64 const 1; "
              "i64 add %2 %5; i64 clamp_index %6 %3; f32 cast %0; f32 const 0.125; f32 mul %8 %9; "
              "f32 const 1; f32 sub %11 %10; i64 extent 0 1; i64 iter 2; f32 cast %14; f32 cast %14; "
              "f32 cast %14; f32 cast %14; f32 cast %14; f32 cast %14; " +
              ways[way];
          uint32_t next = 26;
          auto add = [&](const std::string &node) {
            body += "; " + node;
            return "%" + std::to_string(next++);
          };
          const std::string t = text(type), iter = add("i64 iter 1"), column = add("f32 cast " + iter);
          std::string total;
          for (int j = 0; j < 3; ++j) {
            std::string at =
                add("i64 clamp_index " + add("i64 add %25 " + add("i64 const " + std::to_string(j))) + " %13");
            std::string values[2];
            for (int i = 0; i < 2; ++i) {
              std::string v = add(t + " load_at 0 " + (i ? "%7 " : "%4 ") + at + " %14");
              values[i] =
                  add("f32 mul " + std::string(i ? "%10 " : "%12 ") + (type == DType::f32 ? v : add("f32 cast " + v)));
            }
            std::string weight = add("f32 mul " + column + " " + add("f32 const 0." + std::to_string(25 * (j + 1))));
            std::string term = add("f32 mul " + weight + " " + add("f32 add " + values[0] + " " + values[1]));
            total = j ? add("f32 add " + total + " " + term) : term;
          }
          auto bound = check(
              *target, y, {&x}, {{"extents", y.dims()}}, body + " -> " + total,
              [&](const Dims &o) {
                double sum = 0, low = o[0] * 0.125;
                for (int j = 0; j < 3; ++j) {
                  int64_t at = clamp(place(way, o[1]) + j, width), row = o[0] / 2;
                  sum += o[1] * 0.25 * (j + 1) *
                         ((1 - low) * x.get({clamp(row, height), at, o[2]}) +
                          low * x.get({clamp(row + 1, height), at, o[2]}));
                }
                return sum;
              },
              1e-6);
          if (channels != 5) // fewer than a vector: points are the vector level
            CHECK(bound.kernel.config.count("separated"));
        }
}

TEST_CASE("elements at ascending, far and descending places") {
  for (const Target *target : targets())
    for (DType type : {DType::f32, DType::u8, DType::f16, DType::f64})
      for (int64_t width : {5, 40, 300})
        for (double scale : {0.34375, 0.96875, 1.75, -0.5}) { // exact in f32
          const double from = scale < 0 ? width - 1 : 0;
          Tensor x(type, {4, 9, width}), y(type, {4, 9, 150});
          x.random(41);
          std::string body = "i64 iter 0; i64 iter 1; i64 iter 2; i64 extent 0 2; f32 const " + std::to_string(scale) +
                             "; f32 cast %2; f32 mul %5 %4; f32 const " + std::to_string(from) +
                             "; f32 add %6 %7; i64 cast %8; i64 clamp_index %9 %3; " + text(type) +
                             " load_at 0 %0 %1 %10 -> %11";
          BoundLaunch bound = check(
              *target, y, {&x}, {{"extents", y.dims()}}, body,
              [&](const Dims &o) {
                int64_t at = std::clamp<int64_t>(int64_t(from + scale * double(o[2])), 0, width - 1);
                return x.get({o[0], o[1], at});
              },
              0);
          CHECK(bound.scratchBytes > 0); // the places are in a table
        }
}

TEST_CASE("gather of rows and of elements") {
  for (const Target *target : targets())
    for (int64_t width : {1, 12, 50}) {
      Tensor table(DType::f32, {9, width}), index(DType::i64, {4}), out(DType::f32, {4, width});
      table.random(41);
      for (int64_t i = 0; i < 4; ++i)
        index.set({i}, double(i * 2 - 3)); // -3, -1, 1, 3
      std::string body = "i64 iter 0; i64 iter 1; i64 load_at 1 %0; i64 extent 0 0; i64 const 0; bool lt %2 %4; i64 "
                         "add %2 %3; i64 select %5 %6 %2; "
                         "i64 clamp_index %7 %3; f32 load_at 0 %8 %1 -> %9";
      check(
          *target, out, {&table, &index}, {{"extents", {4, width}}}, body,
          [&](const Dims &at) {
            int64_t i = at[0] * 2 - 3;
            return table.get({i < 0 ? i + 9 : i, at[1]});
          },
          0);
      Tensor where(DType::i32, {4, width});
      where.each([&](auto &at) { where.set(at, double((at[0] * 5 + at[1] * 3) % 9)); });
      check(
          *target, out, {&table, &where}, {{"extents", {4, width}}},
          "i32 load 1; i64 cast %0; i64 iter 1; f32 load_at 0 %1 %2 -> %3",
          [&](const Dims &at) { return table.get({int64_t(where.get(at)), at[1]}); }, 0);
    }
}

TEST_CASE("an operand both loaded and indexed") {
  for (const Target *target : targets()) {
    Tensor x(DType::i64, {6, 20}), out(DType::i64, {6, 20});
    x.each([&](auto &at) { x.set(at, double((at[0] * 7 + at[1]) % 6)); });
    check(
        *target, out, {&x}, {{"extents", {6, 20}}}, "i64 load 0; i64 iter 1; i64 load_at 0 %0 %1 -> %2",
        [&](const Dims &at) { return x.get({int64_t(x.get(at)), at[1]}); }, 0);
  }
}

//===-- transpositions --------------------------------------------------------------------------------------------===//

TEST_CASE("all permutations of rank 4") {
  for (const Target *target : targets())
    for (DType type : {DType::f32, DType::u8, DType::f16, DType::f64, DType::boolean})
      for (Dims dims : {Dims{2, 17, 20, 33}, Dims{3, 4, 5, 7}, Dims{1, 100, 1, 67}, Dims{2, 3, 130, 65}}) {
        if (type != DType::f32 && dims[0] != 2)
          continue;
        std::vector<int> order{0, 1, 2, 3};
        do {
          Tensor x(type, dims, order), out(type, dims);
          x.random(43, 0, type == DType::boolean ? 1.99 : 200);
          std::string t = text(type);
          check(
              *target, out, {&x}, {{"extents", dims}}, t + " load 0 -> %0", [&](const Dims &at) { return x.get(at); },
              0);
        } while (std::next_permutation(order.begin(), order.end()));
      }
}

TEST_CASE("transpositions with arithmetic") {
  for (const Target *target : targets())
    for (Dims dims : {Dims{3, 40, 70}, Dims{1, 16, 16}, Dims{2, 200, 17}}) {
      Tensor x(DType::f32, dims, {0, 2, 1}), y(DType::f32, dims), bias(DType::f32, dims), out(DType::f32, dims),
          z(DType::u8, dims, {0, 2, 1});
      x.random(47);
      y.random(48);
      z.random(49, 0, 255);
      bias.random(50);
      bias.broadcast({0, 1});
      auto bound = check(
          *target, out, {&x, &y, &bias, &z}, {{"extents", dims}},
          "f32 load 0; f32 load 1; f32 load 2; u8 load 3; f32 cast %3; f32 add %0 %1; f32 mul %5 %2; f32 sigmoid %6; "
          "f32 add %7 %4 -> %8",
          [&](const Dims &at) { return 1 / (1 + std::exp(-(x.get(at) + y.get(at)) * bias.get(at))) + z.get(at); },
          1e-6);
      CHECK(bound.kernel.config.count("transpose"));
    }
}

TEST_CASE("tiles of every rest") {
  for (const Target *target : targets())
    for (DType type : {DType::f32, DType::u8, DType::f64})
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{0, 40}, {512, 16}, {1024, 144}})
        for (int64_t rest = rows ? 1 : 16; rest < (rows ? 18 : 50); rest += 3) {
          Dims dims{columns + rest % 7, rows + rest};
          Tensor x(type, dims, {1, 0}), out(type, dims);
          x.random(51, 0, 200);
          auto bound = check(
              *target, out, {&x}, {{"extents", dims}}, std::string(text(type)) + " load 0 -> %0",
              [&](const Dims &at) { return x.get(at); }, 0);
          CHECK(bound.kernel.config.count("transpose"));
        }
}

TEST_CASE("few channels, alternating and in planes") {
  for (const Target *target : targets())
    for (int64_t channels : {2, 3, 4})
      for (Dims dims : {Dims{2, channels, 3, 11}, Dims{1, channels, 1, 16}, Dims{1, channels, 17, 400}}) {
        const std::vector<int> alternating{0, 2, 3, 1}, planes{0, 1, 2, 3};
        for (bool toPlanes : {false, true}) {
          const auto &from = toPlanes ? alternating : planes, &to = toPlanes ? planes : alternating;
          for (DType type : {DType::f32, DType::u8, DType::f16, DType::f64}) {
            Tensor x(type, dims, from), out(type, dims, to);
            x.random(52, 0, 200);
            auto bound = check(
                *target, out, {&x}, {{"extents", dims}}, std::string(text(type)) + " load 0 -> %0",
                [&](const Dims &at) { return x.get(at); }, 0);
            CHECK(bound.kernel.config.at("interleave") == channels);
          }
          // An image as bytes, scaled and shifted by channel; an operand that lies like the result.
          Tensor x(DType::u8, dims, from), scale(DType::f32, dims), y(DType::f32, dims, to), out(DType::f32, dims, to);
          x.random(53, 0, 255);
          scale.random(54);
          scale.broadcast({0, 2, 3});
          y.random(55);
          check(
              *target, out, {&x, &scale, &y}, {{"extents", dims}},
              "u8 load 0; f32 cast %0; f32 load 1; f32 mul %1 %2; f32 load 2; f32 add %3 %4 -> %5",
              [&](const Dims &at) { return x.get(at) * scale.get(at) + y.get(at); }, 1e-6);
        }
      }
}

//===-- descriptions and refusals ---------------------------------------------------------------------------------===//

TEST_CASE("extents and strides are not in descriptions") {
  const Target &target = Target::all()[1];
  auto key = [&](Dims dims) {
    Tensor a(DType::f32, dims, {}, 3), out(DType::f32, dims);
    return Compiled(makeSite("loop", {&out, &a}, {{"extents", dims}}, "f32 load 0; f32 exp %0 -> %1"), target)
        .bound.kernel.key();
  };
  CHECK(key({4, 20, 48}) == key({7, 31, 64}));
  Tensor a(DType::f32, {4, 20, 48}), out(DType::f32, {4, 20, 48});
  auto merged =
      Compiled(makeSite("loop", {&out, &a}, {{"extents", {4, 20, 48}}}, "f32 load 0; f32 exp %0 -> %1"), target).bound;
  CHECK(merged.kernel.config.at("rank") == 1); // contiguous dims are one
}

TEST_CASE("refused launches") {
  const Target &target = Target::all()[1];
  Tensor a(DType::f32, {4}), out(DType::f32, {4});
  auto refusal = [&](std::map<std::string, Dims> config, const std::string &body, const std::string &combine = "") {
    LaunchSite site = makeSite("loop", {&out, &a}, config, body);
    if (!combine.empty())
      site.words["combine"] = combine;
    auto bound = KernelFamily::find("loop")->bind(site, target);
    return bound ? std::string() : llvm::toString(bound.takeError());
  };
  CHECK(refusal({}, "f32 load 0 -> %0") == "loop: no extents");
  CHECK(refusal({{"extents", {4}}, {"reduce", {1}}}, "f32 load 0; f32 acc -> %0 %1", "sum") ==
        "loop: reduced dimension 1 of 1");
  CHECK(refusal({{"extents", {4}}, {"reduce", {0}}}, "f32 load 0 -> %0") == "loop: reduced dimensions without combine");
  CHECK(refusal({{"extents", {4}}, {"reduce", {0}}}, "f32 load 0; f32 acc -> %0 %1", "median") ==
        "loop: unknown combine 'median'");
  CHECK(refusal({{"extents", {4}}}, "f32 load 1 -> %0") == "loop: operand 1 of 1");
  CHECK(refusal({{"extents", {4}}}, "f64 load 0 -> %0") == "loop: operand 0 is f32, the body loads f64");
  CHECK(refusal({{"extents", {4}}}, "i64 iter 1; f32 cast %0 -> %1") == "loop: iter 1 of 1 dimensions");
  CHECK(refusal({{"extents", {4}}}, "i64 iter 0; f32 load_at 0 %0 %0 -> %1") ==
        "loop: load_at with 2 indices of operand 0 with 1 dimensions");
  CHECK(refusal({{"extents", {4}}}, "i64 param 0; f32 cast %0 -> %1") == "loop: param 0 of 0 immediates");
  CHECK(refusal({{"extents", {4}}}, "f32 load 0 -> %0 %0") ==
        "loop: the body has 2 results, expected 0 combined and 1 stored");
  CHECK(refusal({{"extents", {4}}}, "f32 load 0; i32 cast %0 -> %1") == "loop: result 0 is i32, its view f32");
  CHECK(refusal({{"extents", {4, 2}}}, "f32 load 0 -> %0") == "loop: view 0 has 1 dimensions, the domain 2");
}
