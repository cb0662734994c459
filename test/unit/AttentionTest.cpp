// attention against its definition in double precision.
#include "KernelHarness.h"
#include <cmath>
#include <doctest/doctest.h>

using namespace mrcc;
using namespace mrcc::testing;

TEST_CASE("attention") {
  struct Case {
    int64_t batch, heads, queries, keys, depth, width;
    int mask;   // 0 none, 1 full, 2 a row for all queries, 3 causal with -inf
    int layout; // 0 [B, H, N, D]; 1 [B, N, H, D] as projections leave it; 2 k as [B, H, D, N], v transposed, too
    DType type = DType::f32;
  };
  for (const char *name : {"x86-64-v3", "x86-64-v4", "x86-64"}) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (const Case &c : std::vector<Case>{{1, 2, 70, 70, 40, 40, 0, 1},
                                           {2, 3, 17, 33, 32, 32, 1, 0},
                                           {1, 1, 130, 300, 64, 64, 0, 2},
                                           {1, 2, 5, 5, 8, 24, 3, 1},
                                           {1, 4, 1, 77, 16, 80, 2, 1},
                                           {2, 1, 64, 513, 20, 7, 0, 0},
                                           {1, 2, 65, 16, 3, 160, 1, 1},
                                           {1, 1, 1, 1, 1, 1, 0, 0},
                                           {2, 3, 17, 33, 32, 32, 1, 1, DType::f16},
                                           {1, 1, 130, 300, 64, 24, 3, 2, DType::f16},
                                           {1, 2, 65, 16, 3, 7, 2, 0, DType::bf16}}) {
      CAPTURE(name);
      CAPTURE(c.queries);
      CAPTURE(c.keys);
      CAPTURE(c.depth);
      CAPTURE(c.width);
      std::vector<int> order = c.layout == 1   ? std::vector<int>{0, 2, 1, 3}
                               : c.layout == 2 ? std::vector<int>{0, 1, 3, 2}
                                               : std::vector<int>{};
      Tensor q(c.type, {c.batch, c.heads, c.queries, c.depth}, c.layout == 2 ? std::vector<int>{} : order);
      Tensor k(c.type, {c.batch, c.heads, c.keys, c.depth}, order),
          v(c.type, {c.batch, c.heads, c.keys, c.width}, order);
      Tensor out(c.type, {c.batch, c.heads, c.queries, c.width}, c.layout == 2 ? std::vector<int>{} : order),
          mask(c.type, {c.batch, c.heads, c.queries, c.keys});
      q.random(1, -3, 3), k.random(2, -3, 3), v.random(3);
      if (c.mask == 2)
        mask.broadcast({0, 1, 2});
      mask.random(4);
      if (c.mask == 3)
        mask.each([&](auto &at) { mask.set(at, at[3] > at[2] ? -INFINITY : 0); });
      const float scale = 0.25f;
      int32_t bits;
      memcpy(&bits, &scale, 4);
      Tensor expected(DType::f64, out.dims());
      expected.each([&](auto &at) {
        double sum = 0, result = 0, top = -INFINITY;
        std::vector<double> s(c.keys);
        for (int64_t n = 0; n < c.keys; ++n) {
          for (int64_t d = 0; d < c.depth; ++d)
            s[n] += q.get({at[0], at[1], at[2], d}) * k.get({at[0], at[1], n, d});
          s[n] = s[n] * scale + (c.mask ? mask.get({at[0], at[1], at[2], n}) : 0);
          top = std::max(top, s[n]);
        }
        for (int64_t n = 0; n < c.keys; ++n) {
          double p = std::exp(s[n] - top);
          sum += p;
          result += p * v.get({at[0], at[1], n, at[3]});
        }
        expected.set(at, result / sum);
      });
      std::vector<Tensor *> tensors = {&out, &q, &k, &v};
      if (c.mask)
        tensors.push_back(&mask);
      Compiled kernel(makeSite("attention", tensors, {{"scale", {bits}}, {"mask", {c.mask != 0}}}), target);
      kernel.call(tensors, 1);
      // Narrow types are rounded once, at the end.
      CHECK(relativeError(out, expected) < (c.type == DType::f32 ? 1e-5 : c.type == DType::f16 ? 0x1p-11 : 0x1p-8));
      CHECK(out.untouchedAround());
      Tensor once = out;
      kernel.call(tensors, std::min<int64_t>(kernel.bound.units, 3));
      CHECK(relativeError(out, once) == 0);
    }
  }
}
