// conv, conv_transpose and depthwise against plain loops in double precision.
#include "KernelHarness.h"
#include <cmath>
#include <doctest/doctest.h>

using namespace mrcc;
using namespace mrcc::testing;

static const char *targets[] = {"x86-64-v3", "x86-64-v4", "x86-64"};

namespace {
struct Layer {
  int64_t batch, height, width, in, out, kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1;
  int64_t top = 0, left = 0, bottom = 0, right = 0, group = 1;
  int64_t outHeight() const { return (height + top + bottom - dh * (kh - 1) - 1) / sh + 1; }
  int64_t outWidth() const { return (width + left + right - dw * (kw - 1) - 1) / sw + 1; }
  std::map<std::string, std::vector<int64_t>> config() const {
    return {{"kernel", {kh, kw}}, {"strides", {sh, sw}}, {"dilations", {dh, dw}}, {"pads", {top, left, bottom, right}},
            {"group", {group}},   {"oc", {out}}};
  }
  std::string str() const {
    std::string s;
    for (int64_t x : {batch, height, width, in, out, kh, kw, sh, sw, dh, dw, top, left, bottom, right, group})
      s += std::to_string(x) + " ";
    return s;
  }
};
} // namespace

static int64_t chunk(int64_t n) {
  for (int64_t k = std::min<int64_t>(n, 80); k > 1; --k)
    if (n % k == 0)
      return k;
  return 1;
}

// [OC, IC/g, kh, kw] -> [g][IC/KC][OC/16][kh*kw][KC][16]
static Tensor packConv(const Tensor &w, int64_t group) {
  int64_t oc = w.dims()[0] / group, ic = w.dims()[1], kh = w.dims()[2], kw = w.dims()[3], kc = chunk(ic);
  Tensor p(w.view().type, {group, ic / kc, (oc + 15) / 16, kh * kw, kc, 16});
  p.each([&](auto &at) { p.set(at, 0); });
  w.each([&](auto &at) {
    int64_t o = at[0] % oc;
    p.set({at[0] / oc, at[1] / kc, o / 16, at[2] * kw + at[3], at[1] % kc, o % 16}, w.get(at));
  });
  return p;
}

static Tensor referenceConv(const Layer &l, const Tensor &x, const Tensor &w,
                            const std::function<double(double, const std::vector<int64_t> &)> &body) {
  Tensor r(DType::f64, {l.batch, l.outHeight(), l.outWidth(), l.out});
  int64_t oc = l.out / l.group, ic = l.in / l.group;
  r.each([&](auto &at) {
    double sum = 0;
    for (int64_t ky = 0; ky < l.kh; ++ky)
      for (int64_t kx = 0; kx < l.kw; ++kx) {
        int64_t y = at[1] * l.sh - l.top + ky * l.dh, z = at[2] * l.sw - l.left + kx * l.dw;
        if (y < 0 || y >= l.height || z < 0 || z >= l.width)
          continue;
        for (int64_t c = 0; c < ic; ++c)
          sum += x.get({at[0], y, z, at[3] / oc * ic + c}) * w.get({at[3], c, ky, kx});
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
  kernel.call(tensors, std::min<int64_t>(kernel.bound.units, 7));
  bool equal = true;
  once.each([&](auto &at) { equal &= once.get(at) == tensors[0]->get(at); });
  CHECK_MESSAGE(equal, "the split changes results");
}

static const std::vector<Layer> layers = {
    {1, 7, 9, 3, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1}, // a first layer
    {2, 6, 5, 16, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 9, 11, 8, 48, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0},
    {3, 4, 4, 24, 91, 1, 1}, // the matmul kernel
    {3, 5, 4, 24, 20, 1, 1, 2, 2},
    {1, 13, 6, 91, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},   // chunks of 13 channels
    {2, 5, 7, 160, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},   // chunks of 80
    {1, 10, 10, 12, 40, 5, 3, 2, 1, 1, 2, 2, 2, 1, 3},  // odd everything
    {1, 6, 8, 12, 16, 3, 3, 1, 1, 2, 3, 2, 3, 2, 3},    // dilated
    {1, 8, 6, 12, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3}, // groups
    {2, 6, 6, 4, 8, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0, 4},   // one input channel a group, two outputs
    {2, 5, 5, 8, 32, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 4},
    {1, 3, 700, 4, 8, 1, 7, 1, 2, 1, 1, 0, 3, 0, 3}, // long rows
    {1, 1, 1, 5, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 2, 2, 3, 4, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2},
    {1, 5, 5, 1, 1, 3, 3, 1, 1, 1, 1, 4, 4, 4, 4}, // a border wider than the kernel
    {1, 40, 40, 32, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 5, 19, 30, 1, 1, 1},        // one output channel
    {2, 9, 21, 96, 40, 1, 1, 2, 2}, // rows of A in lines
};

TEST_CASE("convolutions") {
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (const Layer &l : layers) {
      CAPTURE(name);
      CAPTURE(l.str());
      Tensor w(DType::f32, {l.out, l.in / l.group, l.kh, l.kw});
      w.random(2);
      Tensor packed = packConv(w, l.group);
      for (int layout = 0; layout < 3; ++layout) {
        CAPTURE(layout);
        // Channels last; NCHW read in place and an output that is a slice; an output stored as NCHW.
        Tensor x(DType::f32, {l.batch, l.height, l.width, l.in},
                 layout == 1 ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{}, layout == 2 ? 5 : 0);
        Tensor out(DType::f32, {l.batch, l.outHeight(), l.outWidth(), l.out},
                   layout == 2 ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{}, layout == 1 ? 3 : 0);
        x.random(1);
        std::vector<Tensor *> tensors = {&out, &x, &packed};
        check(Compiled(makeSite("conv", tensors, l.config()), target), tensors, referenceConv(l, x, w, same), 1e-5);
      }
    }
  }
}

TEST_CASE("convolutions of f16 and bf16 are summed in f32 and rounded once") {
  const std::vector<Layer> some = {{1, 7, 9, 3, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1}, // few channels
                                   {2, 6, 5, 16, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                                   {3, 4, 7, 24, 91, 1, 1},
                                   {2, 5, 7, 160, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                                   {1, 8, 6, 12, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3},
                                   {2, 5, 19, 30, 1, 1, 1},
                                   {1, 40, 40, 32, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}};
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (auto [type, tolerance] : {std::pair(DType::f16, 1e-3), {DType::bf16, 8e-3}})
      for (const Layer &l : some) {
        CAPTURE(target.name);
        CAPTURE(l.str());
        Tensor w(type, {l.out, l.in / l.group, l.kh, l.kw}), x(type, {l.batch, l.height, l.width, l.in}),
            out(type, {l.batch, l.outHeight(), l.outWidth(), l.out});
        w.random(2), x.random(1);
        Tensor packed = packConv(w, l.group);
        std::vector<Tensor *> tensors = {&out, &x, &packed};
        const char *body = type == DType::f16 ? "f32 acc; f16 cast %0 -> %1" : "f32 acc; bf16 cast %0 -> %1";
        check(Compiled(makeSite("conv", tensors, l.config(), body), target), tensors, referenceConv(l, x, w, same),
              tolerance);
      }
  }
}

TEST_CASE("convolution epilogues") {
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (const Layer &l : std::vector<Layer>{{2, 6, 5, 16, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                                             {2, 6, 5, 160, 37, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1},
                                             {1, 9, 9, 32, 40, 1, 1},
                                             {2, 3, 19, 32, 1, 1, 1}}) {
      CAPTURE(name);
      CAPTURE(l.str());
      Tensor w(DType::f32, {l.out, l.in, l.kh, l.kw}), x(DType::f32, {l.batch, l.height, l.width, l.in});
      std::vector<int64_t> dims = {l.batch, l.outHeight(), l.outWidth(), l.out};
      Tensor out(DType::f32, dims), bias(DType::f32, dims), residual(DType::f32, dims, {}, 2),
          scale(DType::f32, dims, {0, 3, 1, 2}), time(DType::f32, dims);
      bias.broadcast({0, 1, 2}).random(3), time.broadcast({1, 2, 3}).random(6);
      residual.random(4), scale.random(5), w.random(2), x.random(1);
      Tensor packed = packConv(w, 1);
      std::vector<Tensor *> tensors = {&out, &x, &packed, &bias, &residual, &scale, &time};
      check(Compiled(makeSite("conv", tensors, l.config(),
                              "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3 -> %4"),
                     target),
            tensors, referenceConv(l, x, w, [&](double v, auto &at) { return std::max(0.0, v + bias.get(at)); }), 1e-5);
      check(Compiled(makeSite("conv", tensors, l.config(),
                              "f32 acc; f32 load 2; f32 add %0 %1; f32 silu %2; f32 load 3; f32 add %3 %4; f32 load 4; "
                              "f32 load 5; f32 mul %6 %7; f32 add %5 %8 -> %9"),
                     target),
            tensors,
            referenceConv(l, x, w,
                          [&](double v, auto &at) {
                            v += bias.get(at);
                            return v / (1 + std::exp(-v)) + residual.get(at) + scale.get(at) * time.get(at);
                          }),
            1e-5);
      LaunchSite immediates = makeSite("conv", tensors, l.config(), "f32 acc; f32 param 0; f32 mul %0 %1 -> %2");
      float factor = 2.5f;
      int64_t bits = 0;
      memcpy(&bits, &factor, 4);
      immediates.immediates = {bits};
      check(Compiled(immediates, target), tensors, referenceConv(l, x, w, [&](double v, auto &) { return v * factor; }),
            1e-5);
    }
  }
}

TEST_CASE("Winograd") {
  // Ragged maps, borders of any width, chunks, columns that fill no tile; both ways to the weights.
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (const Layer &l : std::vector<Layer>{{1, 33, 35, 24, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                                             {3, 14, 13, 40, 91, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                                             {1, 9, 12, 160, 48, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0},
                                             {1, 16, 16, 104, 32, 3, 3, 1, 1, 1, 1, 2, 0, 1, 3},
                                             {2, 24, 22, 96, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                                             {1, 40, 64, 90, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}}) {
      CAPTURE(name);
      CAPTURE(l.str());
      Tensor w(DType::f32, {l.out, l.in, 3, 3}),
          x(DType::f32, {l.batch, l.height, l.width, l.in}, {}, l.in % 16 ? 5 : 0);
      std::vector<int64_t> dims = {l.batch, l.outHeight(), l.outWidth(), l.out};
      Tensor out(DType::f32, dims, l.out == 91 ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{}, 3),
          bias(DType::f32, dims), residual(DType::f32, dims, {}, 1);
      bias.broadcast({0, 1, 2}).random(3);
      w.random(2), x.random(1), residual.random(4);
      Tensor packed = packConv(w, 1);
      std::vector<Tensor *> tensors = {&out, &x, &packed, &bias, &residual};
      Compiled kernel(
          makeSite("conv", tensors, l.config(),
                   "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3; f32 load 3; f32 add %4 %5 -> %6"),
          target);
      CHECK(kernel.bound.kernel.config.count("winograd"));
      check(kernel, tensors,
            referenceConv(l, x, w,
                          [&](double v, auto &at) { return std::max(0.0, v + bias.get(at)) + residual.get(at); }),
            3e-5);
      auto strict = l.config();
      strict["strict"] = {1};
      CHECK(!KernelFamily::find("conv")
                 ->bind(makeSite("conv", tensors, strict), target)
                 ->kernel.config.count("winograd"));
    }
  }
}

TEST_CASE("transposed convolutions") {
  struct Up {
    int64_t batch, height, width, in, out, kh, kw, sh, sw, dh = 1, dw = 1, top = 0, left = 0, extraY = 0, extraX = 0,
                                                           group = 1;
  };
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (const Up &l : std::vector<Up>{{1, 5, 6, 24, 24, 2, 2, 2, 2},
                                       {2, 5, 6, 24, 1, 2, 2, 2, 2}, // one output channel
                                       {1, 3, 35, 19, 1, 2, 2, 2, 2},
                                       {1, 2, 17, 100, 1, 3, 4, 3, 4},
                                       {1, 2, 9, 160, 1, 2, 1, 2, 1},
                                       {1, 4, 7, 5, 9, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1},
                                       {1, 4, 3, 96, 17, 4, 4, 2, 2, 1, 1, 1, 1},
                                       {1, 3, 3, 4, 6, 3, 2, 3, 1, 2, 2, 1, 0, 1, 0, 2},
                                       {1, 3, 5, 4, 6, 2, 3, 4, 3, 2, 1, 0, 1},
                                       {1, 6, 6, 7, 4, 3, 3, 1, 1, 1, 1, 1, 1}}) {
      const int64_t oh = (l.height - 1) * l.sh + l.dh * (l.kh - 1) + 1 - 2 * l.top + l.extraY;
      const int64_t ow = (l.width - 1) * l.sw + l.dw * (l.kw - 1) + 1 - 2 * l.left + l.extraX;
      CAPTURE(name);
      CAPTURE(l.height);
      CAPTURE(l.kh);
      CAPTURE(l.sh);
      CAPTURE(l.in);
      const int64_t ic = l.in / l.group, oc = l.out / l.group;
      Tensor x(DType::f32, {l.batch, l.height, l.width, l.in}), out(DType::f32, {l.batch, oh, ow, l.out}),
          w(DType::f32, {l.in, oc, l.kh, l.kw});
      Tensor expected(DType::f64, {l.batch, oh, ow, l.out}), flipped(DType::f32, {l.out, ic, l.kh, l.kw});
      x.random(1), w.random(2);
      expected.each([&](auto &at) { expected.set(at, 0); });
      x.each([&](auto &at) {
        for (int64_t ky = 0; ky < l.kh; ++ky)
          for (int64_t kx = 0; kx < l.kw; ++kx)
            for (int64_t o = 0; o < oc; ++o) {
              std::vector<int64_t> to = {at[0], at[1] * l.sh - l.top + ky * l.dh, at[2] * l.sw - l.left + kx * l.dw,
                                         at[3] / ic * oc + o};
              if (to[1] >= 0 && to[1] < oh && to[2] >= 0 && to[2] < ow)
                expected.set(to, expected.get(to) + x.get(at) * w.get({at[3], o, ky, kx}));
            }
      });
      flipped.each([&](auto &at) {
        flipped.set(at, w.get({at[0] / oc * ic + at[1], at[0] % oc, l.kh - 1 - at[2], l.kw - 1 - at[3]}));
      });
      Tensor packed = packConv(flipped, l.group);
      std::vector<Tensor *> tensors = {&out, &x, &packed};
      check(Compiled(makeSite("conv_transpose", tensors,
                              {{"kernel", {l.kh, l.kw}},
                               {"strides", {l.sh, l.sw}},
                               {"dilations", {l.dh, l.dw}},
                               {"pads", {l.top, l.left, l.top, l.left}},
                               {"group", {l.group}}}),
                     target),
            tensors, expected, 1e-5);
    }
  }
}

TEST_CASE("depthwise convolutions") {
  for (const char *name : targets) {
    const Target &target = *Target::find(name);
    if (!runsHere(target))
      continue;
    for (Layer l : std::vector<Layer>{{2, 9, 11, 24, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                                      {1, 7, 7, 48, 48, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2},
                                      {1, 14, 13, 91, 91, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1},
                                      {3, 6, 5, 3, 3, 3, 5, 1, 2, 1, 1, 1, 2, 1, 2},
                                      {1, 12, 12, 16, 16, 3, 3, 1, 1, 2, 2, 2, 2, 2, 2},
                                      {1, 2, 3, 8, 8, 7, 7, 1, 1, 1, 1, 3, 3, 3, 3},
                                      {1, 1, 40, 32, 32, 1, 9, 1, 1, 1, 1, 0, 4, 0, 4},
                                      {1, 10, 10, 20, 20, 3, 3},
                                      {1, 9, 9, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0, 1, 1},
                                      {1, 96, 45, 40, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, // beyond L2
                                      {1, 130, 70, 33, 33, 5, 3, 2, 2, 1, 1, 2, 1, 2, 1},
                                      {1, 4, 4, 17, 17, 3, 3, 3, 3, 1, 1, 4, 4, 4, 4}}) {
      CAPTURE(name);
      CAPTURE(l.str());
      l.group = l.in;
      Tensor w(DType::f32, {l.out, 1, l.kh, l.kw}), packed(DType::f32, {l.kh * l.kw, l.out});
      w.random(2);
      w.each([&](auto &at) { packed.set({at[2] * l.kw + at[3], at[0]}, w.get(at)); });
      const bool large = l.height > 90; // one layout will do: the references take long
      for (int layout = 0; layout < (large ? 1 : 3); ++layout) {
        CAPTURE(layout);
        std::vector<int64_t> dims = {l.batch, l.outHeight(), l.outWidth(), l.out};
        Tensor x(DType::f32, {l.batch, l.height, l.width, l.in},
                 layout == 1 ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{}, layout == 2 ? 5 : 0);
        Tensor out(DType::f32, dims, layout == 2 ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{},
                   layout == 1 ? 3 : 0);
        Tensor bias(DType::f32, dims), residual(DType::f32, dims, {}, 1);
        bias.broadcast({0, 1, 2}).random(3);
        residual.random(4), x.random(1);
        std::vector<Tensor *> tensors = {&out, &x, &packed, &bias, &residual};
        if (layout != 1)
          check(Compiled(makeSite("depthwise", tensors, l.config(),
                                  "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3 -> %4"),
                         target),
                tensors, referenceConv(l, x, w, [&](double v, auto &at) { return std::max(0.0, v + bias.get(at)); }),
                1e-5);
        if (layout != 0)
          check(Compiled(makeSite("depthwise", tensors, l.config(),
                                  "f32 acc; f32 load 2; f32 add %0 %1; f32 silu %2; f32 load 3; f32 add %3 %4 -> %5"),
                         target),
                tensors,
                referenceConv(l, x, w,
                              [&](double v, auto &at) {
                                v += bias.get(at);
                                return v / (1 + std::exp(-v)) + residual.get(at);
                              }),
                1e-5);
      }
    }
  }
}
