// mrcc-bench-kernels: each kernel family over shapes of real models, one thread, held to the FMA peak or the bandwidth
// measured in the same run (KernelBench.h says how), and a summary line a family.
//
//   mrcc-bench-kernels [--target x86-64-v3] [--filter TEXT] [--seconds 0.15] [--quantile 0.5]
//
// A shape's time is the median over windows in which the thread was not switched out; where there is none, of the
// thread's CPU time. On a machine that others use, too, a quantile of 0.1 is steadier.
#include "KernelBench.h"
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sched.h>

using namespace mrcc;
using namespace mrcc::testing;
using namespace mrcc::bench;

namespace {
/// Matrix products, convolutions, attention.
struct Products {
  Bench &bench;

  void run(const std::string &label, std::string family, std::vector<Tensor *> tensors,
           std::map<std::string, std::vector<int64_t>> config, const std::string &body = "", const Demand &work = {}) {
    bench.run(label, makeSite(std::move(family), tensors, std::move(config), body), tensors, work);
  }

  void matmul(int64_t m, int64_t n, int64_t k) {
    Tensor a = tensor({m, k}, 1), b = tensor({(n + 15) / 16, k, 16}, 2), bias = tensor({m, n}, 3), out = tensor({m, n});
    bias.broadcast({0});
    run("matmul " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k), "matmul",
        {&out, &a, &b, &bias}, {{"packed", {1}}}, "f32 acc; f32 load 2; f32 add %0 %1 -> %2");
  }
  /// Square kernel, padding (k - 1) / 2; `relu` in the epilogue. Input channels last, or NCHW.
  void conv(int64_t h, int64_t w, int64_t ic, int64_t oc, int64_t k, int64_t stride = 1, int64_t group = 1,
            bool nchw = false) {
    const int64_t pad = (k - 1) / 2, oh = (h + 2 * pad - k) / stride + 1, ow = (w + 2 * pad - k) / stride + 1;
    const int64_t n = ic / group;
    int64_t chunk = std::min<int64_t>(n, 80);
    while (n % chunk)
      --chunk;
    Tensor x = tensor({1, h, w, ic}, 1, nchw ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{}),
           out = tensor({1, oh, ow, oc}), bias = tensor({1, oh, ow, oc}, 3),
           weights = tensor({group, n / chunk, (oc / group + 15) / 16, k * k, chunk, 16}, 2);
    bias.broadcast({0, 1, 2});
    std::string label = "conv " + std::to_string(k) + "x" + std::to_string(k) + " s" + std::to_string(stride) + " " +
                        std::to_string(h) + "x" + std::to_string(w) + " " + std::to_string(ic) + "->" +
                        std::to_string(oc) + (group > 1 ? " g" + std::to_string(group) : "") + (nchw ? " nchw" : "");
    run(label, "conv", {&out, &x, &weights, &bias},
        {{"kernel", {k, k}}, {"strides", {stride, stride}}, {"pads", {pad, pad, pad, pad}}, {"group", {group}}},
        "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3 -> %4");
  }
  void convs() {
    for (auto [h, w, ic, oc] : std::vector<std::array<int64_t, 4>>{{64, 64, 64, 64},
                                                                   {64, 64, 128, 128},
                                                                   {32, 32, 320, 320},
                                                                   {32, 32, 640, 640},
                                                                   {16, 16, 640, 640},
                                                                   {120, 160, 96, 96},
                                                                   {120, 160, 96, 24},
                                                                   {60, 80, 96, 24},
                                                                   {16, 16, 256, 256},
                                                                   {14, 14, 256, 256},
                                                                   {8, 8, 512, 512},
                                                                   {7, 7, 512, 512},
                                                                   {256, 256, 32, 32},
                                                                   {128, 128, 16, 16},
                                                                   {23, 31, 128, 128}})
      conv(h, w, ic, oc, 3);
    for (auto [h, w, ic, oc] : std::vector<std::array<int64_t, 4>>{
             {64, 64, 64, 64}, {120, 160, 48, 24}, {56, 56, 128, 128}, {28, 28, 256, 256}, {64, 64, 320, 320}})
      conv(h, w, ic, oc, 3, 2);
    for (auto [h, w, ic, oc] : std::vector<std::array<int64_t, 4>>{{120, 160, 48, 48},
                                                                   {240, 320, 16, 32},
                                                                   {120, 160, 12, 96},
                                                                   {56, 56, 64, 256},
                                                                   {14, 14, 1024, 256},
                                                                   {7, 7, 2048, 512},
                                                                   {12, 80, 480, 480}})
      conv(h, w, ic, oc, 1);
    conv(56, 56, 256, 512, 1, 2);
    conv(56, 56, 128, 128, 3, 1, 32);
    conv(480, 640, 3, 16, 3, 2, 1, true);
    conv(480, 640, 3, 24, 3, 2, 1, true);
    conv(224, 224, 3, 64, 7, 2, 1, true);
    conv(64, 64, 4, 64, 3, 1, 1, true);
    conv(48, 320, 3, 16, 3, 2, 1, true);
  }
  void depthwise(int64_t h, int64_t w, int64_t c, int64_t k, int64_t stride) {
    const int64_t pad = (k - 1) / 2, oh = (h + 2 * pad - k) / stride + 1, ow = (w + 2 * pad - k) / stride + 1;
    Tensor x = tensor({1, h, w, c}, 1), weights = tensor({k * k, c}, 2), bias = tensor({1, oh, ow, c}, 3),
           out = tensor({1, oh, ow, c});
    bias.broadcast({0, 1, 2});
    run("depthwise " + std::to_string(k) + "x" + std::to_string(k) + " s" + std::to_string(stride) + " " +
            std::to_string(h) + "x" + std::to_string(w) + " " + std::to_string(c),
        "depthwise", {&out, &x, &weights, &bias},
        {{"kernel", {k, k}}, {"strides", {stride, stride}}, {"pads", {pad, pad, pad, pad}}},
        "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3 -> %4", Demand{4 * c * h * w, 4 * c * oh * ow});
  }
  void depthwises() {
    for (auto [h, w, c, k, s] : std::vector<std::array<int64_t, 5>>{{112, 112, 32, 3, 1},
                                                                    {56, 56, 72, 3, 2},
                                                                    {56, 56, 144, 3, 1},
                                                                    {28, 28, 240, 3, 1},
                                                                    {28, 28, 120, 5, 1},
                                                                    {14, 14, 480, 3, 1},
                                                                    {14, 14, 672, 5, 1},
                                                                    {14, 14, 960, 5, 2},
                                                                    {120, 160, 96, 3, 1},
                                                                    {240, 320, 16, 3, 1},
                                                                    {120, 160, 32, 3, 2},
                                                                    {120, 160, 48, 3, 1},
                                                                    {60, 80, 96, 7, 1},
                                                                    {24, 160, 24, 3, 1},
                                                                    {7, 7, 960, 3, 1}})
      depthwise(h, w, c, k, s);
  }
  void up(int64_t h, int64_t w, int64_t ic, int64_t oc, int64_t k, int64_t stride) {
    const int64_t pad = (k - stride) / 2, oh = (h - 1) * stride + k - 2 * pad, ow = (w - 1) * stride + k - 2 * pad;
    int64_t chunk = std::min<int64_t>(ic, 80);
    while (ic % chunk)
      --chunk;
    Tensor x = tensor({1, h, w, ic}, 1), weights = tensor({1, ic / chunk, (oc + 15) / 16, k * k, chunk, 16}, 2),
           out = tensor({1, oh, ow, oc});
    run("conv_transpose " + std::to_string(k) + "x" + std::to_string(k) + " s" + std::to_string(stride) + " " +
            std::to_string(h) + "x" + std::to_string(w) + " " + std::to_string(ic) + "->" + std::to_string(oc),
        "conv_transpose", {&out, &x, &weights},
        {{"kernel", {k, k}}, {"strides", {stride, stride}}, {"pads", {pad, pad, pad, pad}}});
  }
  void ups() {
    up(120, 160, 24, 24, 2, 2);
    up(240, 320, 24, 1, 2, 2);
    up(32, 32, 128, 64, 4, 2);
  }
  void matmuls() {
    for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{16384, 24, 96},
                                                              {16384, 96, 24},
                                                              {4096, 64, 64},
                                                              {4096, 320, 320},
                                                              {1024, 640, 640},
                                                              {256, 960, 160},
                                                              {1024, 1280, 640},
                                                              {1024, 640, 2560},
                                                              {196, 768, 3072},
                                                              {77, 768, 768},
                                                              {1000, 100, 72},
                                                              {1000, 91, 256},
                                                              {4096, 128, 1024},
                                                              {49, 1000, 512},
                                                              {1, 1000, 2048},
                                                              {9, 512, 512}})
      matmul(m, n, k);
  }
  void attention(int64_t heads, int64_t queries, int64_t keys, int64_t depth) {
    const std::vector<int> projected{0, 2, 1, 3}; // [B, N, H, D], as projections leave it
    Tensor q = tensor({1, heads, queries, depth}, 1, projected), k = tensor({1, heads, keys, depth}, 2, projected),
           v = tensor({1, heads, keys, depth}, 3, projected), out = tensor({1, heads, queries, depth}, 0, projected);
    const float scale = 1 / std::sqrt(float(depth));
    run("attention " + times({heads, queries, keys, depth}), "attention", {&out, &q, &k, &v},
        {{"scale", {std::bit_cast<int32_t>(scale)}}, {"mask", {0}}});
  }
  void attentions() {
    for (auto [h, m, n, d] : std::vector<std::array<int64_t, 4>>{{8, 4096, 4096, 40}, // U-Net, itself and a text
                                                                 {8, 1024, 1024, 80},
                                                                 {8, 256, 256, 160},
                                                                 {8, 4096, 77, 40},
                                                                 {8, 256, 77, 160},
                                                                 {12, 197, 197, 64}, // ViT-B
                                                                 {6, 197, 197, 64},  // ViT-S
                                                                 {8, 80, 80, 15},    // SVTR
                                                                 {4, 40, 40, 24}})
      attention(h, m, n, d);
  }
};
} // namespace

void mrcc::bench::runProducts(Bench &bench) {
  Products products{bench};
  products.matmuls();
  products.convs();
  products.depthwises();
  products.ups();
  products.attentions();
}

/// Reads the command line; false where it makes no sense.
static bool read(int argc, char **argv, const char *&target, Options &options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc)
      return false;
    if (option == "--target")
      target = argv[i + 1];
    else if (option == "--filter")
      options.filter = argv[i + 1];
    else if (option == "--seconds")
      options.seconds = atof(argv[i + 1]);
    else if (option == "--quantile")
      options.quantile = atof(argv[i + 1]);
    else
      return false;
  }
  return options.seconds > 0 && options.quantile >= 0 && options.quantile <= 1;
}

int main(int argc, char **argv) {
  const char *name = "x86-64-v3";
  Options options;
  if (!read(argc, argv, name, options)) {
    fprintf(stderr,
            "usage: mrcc-bench-kernels [--target x86-64-v3] [--filter TEXT] [--seconds 0.15] [--quantile 0.5]\n");
    return 2;
  }
  const Target *target = Target::find(name);
  if (!target || !runsHere(*target)) {
    fprintf(stderr, "mrcc-bench-kernels: this machine does not run %s\n", name);
    return 4;
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(sched_getcpu(), &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  Bench bench(*target, options);
  runProducts(bench);
  runMemory(bench);
  bench.summarise();
  return 0;
}
