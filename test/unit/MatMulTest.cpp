// matmul against plain loops in double precision.
#include "KernelHarness.h"
#include <cmath>
#include <doctest/doctest.h>

using namespace mrcc;
using namespace mrcc::testing;

static const char *targets[] = {"x86-64", "x86-64-v3", "x86-64-v4"};

namespace {
struct Case {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  DType type = DType::f32;
};
} // namespace

static std::vector<int64_t> join(std::vector<int64_t> a, std::vector<int64_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// [..., K, N] -> [..., chunks? no: panels, K, 16]
static Tensor packed(const Tensor &b) {
  auto dims = b.dims();
  int64_t n = dims.back(), k = dims[dims.size() - 2];
  std::vector<int64_t> lead(dims.begin(), dims.end() - 2);
  Tensor p(b.view().type, join(lead, {(n + 15) / 16, k, 16}));
  p.each([&](auto &at) { p.set(at, 0); });
  b.each([&](auto &at) {
    auto to = std::vector<int64_t>(at.begin(), at.end() - 2);
    p.set(join(to, {at.back() / 16, at[at.size() - 2], at.back() % 16}), b.get(at));
  });
  return p;
}

// expected[at] = body(sum), `body` gets the sum and the index.
static Tensor reference(const Tensor &out, const Tensor &a, const Tensor &b,
                        const std::function<double(double, const std::vector<int64_t> &)> &body) {
  Tensor r(DType::f64, out.dims());
  int64_t k = a.dims().back();
  r.each([&](auto &at) {
    auto ia = at, ib = at;
    for (size_t d = 0; d + 2 < at.size(); ++d) {
      if (a.dims()[d] == 1)
        ia[d] = 0;
      if (b.dims()[d] == 1)
        ib[d] = 0;
    }
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      ia.back() = i;
      ib[ib.size() - 2] = i;
      sum += a.get(ia) * b.get(ib);
    }
    r.set(at, body(sum, at));
  });
  return r;
}

static const auto same = [](double x, const std::vector<int64_t> &) { return x; };

static void check(const Compiled &kernel, const std::vector<Tensor *> &tensors, const Tensor &expected,
                  double tolerance) {
  kernel.call(tensors, 1);
  CHECK(relativeError(*tensors[0], expected) < tolerance);
  CHECK(tensors[0]->untouchedAround());
  Tensor once = *tensors[0];
  tensors[0]->each([&](auto &at) { tensors[0]->set(at, 77); });
  kernel.call(tensors, std::min<int64_t>(kernel.bound.units, 5));
  bool equal = true;
  once.each([&](auto &at) { equal &= once.get(at) == tensors[0]->get(at); });
  CHECK_MESSAGE(equal, "the split changes results");
}

TEST_CASE("packed matmul over odd shapes") {
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                              {1, 16, 5},
                                                              {3, 3, 7},
                                                              {5, 8, 1},
                                                              {7, 24, 33},
                                                              {9, 48, 16},
                                                              {13, 91, 20},
                                                              {50, 17, 64},
                                                              {33, 33, 31},
                                                              {100, 64, 8},
                                                              {2, 130, 100},
                                                              {200, 31, 9},
                                                              {130, 40, 300}}) {
      CAPTURE(name);
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      Tensor a(DType::f32, {m, k}), b(DType::f32, {k, n}), out(DType::f32, {m, n});
      a.random(1), b.random(2);
      Tensor p = packed(b);
      std::vector<Tensor *> tensors = {&out, &a, &p};
      check(Compiled(makeSite("matmul", tensors, {{"packed", {1}}}), target), tensors, reference(out, a, b, same),
            1e-5);
    }
  }
}

TEST_CASE("matmul: strides of a, slices, bias, residual, activations") {
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (int64_t n : {5, 24, 36, 64}) {
      int64_t m = 21, k = 19;
      CAPTURE(name);
      CAPTURE(n);
      Tensor a(DType::f32, {m, k}, {1, 0}, 3), b(DType::f32, {k, n}), out(DType::f32, {m, n}, {}, 7);
      Tensor bias(DType::f32, {m, n}), residual(DType::f32, {m, n}, {}, 4), column(DType::f32, {m, n}, {1, 0});
      bias.broadcast({0}).random(3);
      residual.random(4), column.random(5);
      a.random(1), b.random(2);
      Tensor p = packed(b);
      std::vector<Tensor *> tensors = {&out, &a, &p, &bias, &residual, &column};
      auto relu = reference(out, a, b, [&](double x, auto &at) {
        return std::max(0.0, x + bias.get(at)) + residual.get(at) * column.get(at);
      });
      check(Compiled(makeSite("matmul", tensors, {{"packed", {1}}},
                              "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3; f32 load 3; f32 load 4; "
                              "f32 mul %5 %6; f32 add %4 %7 -> %8"),
                     target),
            tensors, relu, 1e-5);
      auto silu = reference(out, a, b, [&](double x, auto &at) {
        x += bias.get(at);
        return x / (1 + std::exp(-x)) + residual.get(at);
      });
      check(Compiled(makeSite("matmul", tensors, {{"packed", {1}}},
                              "f32 acc; f32 load 2; f32 add %0 %1; f32 silu %2; f32 load 3; f32 add %3 %4 -> %5"),
                     target),
            tensors, silu, 1e-5);
    }
  }
}

TEST_CASE("matmul of two views: batches, broadcasts, transposes, output in any order") {
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {1, 40, 17}, {40, 1, 17}, {70, 37, 40}, {300, 20, 33}, {8, 16, 16}, {1, 1, 5}, {90, 64, 3}}) {
      CAPTURE(name);
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      for (int form = 0; form < 5; ++form) {
        CAPTURE(form);
        std::vector<int64_t> batchA = {2, 3}, batchB = form == 3   ? std::vector<int64_t>{1, 3}
                                                       : form == 4 ? std::vector<int64_t>{1, 1}
                                                                   : batchA;
        Tensor a(DType::f32, join(batchA, {m, k}), form == 2 ? std::vector<int>{1, 0, 3, 2} : std::vector<int>{},
                 form == 2);
        Tensor b(DType::f32, join(batchB, {k, n}),
                 form == 1   ? std::vector<int>{0, 1, 3, 2}
                 : form == 2 ? std::vector<int>{2, 3, 0, 1}
                             : std::vector<int>{});
        Tensor out(DType::f32, {2, 3, m, n},
                   form == 1   ? std::vector<int>{0, 2, 1, 3}
                   : form == 2 ? std::vector<int>{3, 2, 1, 0}
                               : std::vector<int>{});
        a.random(1), b.random(2);
        std::vector<Tensor *> tensors = {&out, &a, &b};
        check(Compiled(makeSite("matmul", tensors, {}), target), tensors, reference(out, a, b, same), 1e-5);
      }
    }
  }
}

TEST_CASE("matmul of other types") {
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (auto [type, tolerance] :
         std::vector<std::pair<DType, double>>{{DType::f64, 1e-14}, {DType::f16, 2e-3}, {DType::bf16, 8e-3}}) {
      CAPTURE(name);
      CAPTURE(int(type));
      for (int64_t n : {3, 24, 50}) {
        Tensor a(type, {2, 9, 21}), b(type, {2, 21, n}), out(type, {2, 9, n});
        a.random(1), b.random(2);
        std::vector<Tensor *> tensors = {&out, &a, &b};
        check(Compiled(makeSite("matmul", tensors, {}), target), tensors, reference(out, a, b, same), tolerance);
        Tensor p = packed(b);
        tensors[2] = &p;
        check(Compiled(makeSite("matmul", tensors, {{"packed", {1}}}), target), tensors, reference(out, a, b, same),
              tolerance);
      }
    }
    Tensor a(DType::u8, {9, 21}), b(DType::i8, {21, 50}), out(DType::i32, {9, 50});
    a.random(1, 0, 255), b.random(2, -128, 127);
    std::vector<Tensor *> tensors = {&out, &a, &b};
    check(Compiled(makeSite("matmul", tensors, {}), target), tensors, reference(out, a, b, same), 1e-15);
  }
}
