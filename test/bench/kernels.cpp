// mrcc-bench-kernels: each kernel family over shapes of real models, one thread, as GFLOP/s and % of the measured FMA
// peak, or GB/s where memory is the limit.
//
//   mrcc-bench-kernels [--target x86-64-v4] [--filter TEXT] [--seconds S] [--quantile 0.5]
//
// A shape's time is the median over windows in which the thread was not switched out; where there is none, of the
// thread's CPU time.
#include "KernelHarness.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

using namespace mrcc;
using namespace mrcc::testing;

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

//===-- the machine's peak ----------------------------------------------------------------------------------------===//

#if defined(__x86_64__)
typedef float Wide16 __attribute__((vector_size(64)));
typedef float Wide8 __attribute__((vector_size(32)));

// 12 independent accumulators hide the latency of an FMA.
#define PEAK(NAME, TARGET, TYPE, COUNT, LANES)                                                                         \
  __attribute__((target(TARGET), noinline)) static double NAME(long rounds, float seed) {                              \
    TYPE acc[COUNT], x = {}, y = {};                                                                                   \
    x += seed, y += seed * 0.5f;                                                                                       \
    static volatile float start_[COUNT] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};                                     \
    for (int i = 0; i < COUNT; ++i)                                                                                    \
      acc[i] = x * start_[i];                                                                                          \
    double start = now();                                                                                              \
    for (long k = 0; k < rounds; ++k) {                                                                                \
      _Pragma("clang fp contract(fast)") _Pragma("clang loop unroll(full)") for (int i = 0; i < COUNT; ++i) acc[i] =   \
          acc[i] * x + y;                                                                                              \
    }                                                                                                                  \
    double seconds = now() - start;                                                                                    \
    float sum = 0;                                                                                                     \
    for (int i = 0; i < COUNT; ++i)                                                                                    \
      sum += acc[i][0];                                                                                                \
    return (sum == 12345 ? 1.0001 : 1.0) * 2.0 * LANES * COUNT * rounds / seconds * 1e-9;                              \
  }
PEAK(peak512, "avx512f,fma", Wide16, 12, 16)
PEAK(peak256, "avx2,fma", Wide8, 12, 8)

static double peak(const Target &target) {
  double best = 0;
  for (int i = 0; i < 40; ++i) // short ones: the best was not interrupted
    best = std::max(best, target.vectorBits == 512 ? peak512(30000, 0.75f) : peak256(60000, 0.75f));
  return best;
}
#else
static double peak(const Target &) { return 0; }
#endif

//===-- timing ----------------------------------------------------------------------------------------------------===//

static long switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

static double cpuTime() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double measure(const std::function<void()> &call, double seconds, double quantile) {
  call();
  double start = now();
  call();
  double once = now() - start;
  const int calls = std::max(1, int(4e-4 / std::max(once, 1e-7)));
  std::vector<double> calm, all;
  for (double end = now() + seconds; now() < end || all.size() < 3;) {
    long before = switches();
    double t = now(), cpu = cpuTime();
    for (int i = 0; i < calls; ++i)
      call();
    t = (now() - t) / calls;
    all.push_back((cpuTime() - cpu) / calls);
    if (switches() == before)
      calm.push_back(t);
  }
  auto &times = calm.empty() ? all : calm;
  std::sort(times.begin(), times.end());
  return times[size_t(times.size() * quantile)];
}

//===-- shapes ----------------------------------------------------------------------------------------------------===//

namespace {
struct Bench {
  const Target &target;
  std::string filter;
  double seconds = 0.15, quantile = 0.5;

  /// bytes > 0: a memory-bound case, reported as GB/s.
  void run(const std::string &label, std::string family, std::vector<Tensor *> tensors,
           std::map<std::string, std::vector<int64_t>> config, const std::string &body = "", double bytes = 0) {
    if (!filter.empty() && label.find(filter) == std::string::npos)
      return;
    double t = now();
    Compiled kernel(makeSite(std::move(family), tensors, std::move(config), body), target);
    double compile = now() - t;
    std::vector<char *> views;
    for (Tensor *tensor : tensors)
      views.push_back(tensor->data());
    auto *scratch = static_cast<char *>(aligned_alloc(64, kernel.bound.scratchBytes / 64 * 64 + 64));
    double best = peak(target);
    double time =
        measure([&] { kernel.function(views.data(), kernel.bound.params.data(), 0, kernel.bound.units, scratch); },
                seconds, quantile);
    best = std::max(best, peak(target));
    free(scratch);
    const double gflops = kernel.bound.flops / time * 1e-9;
    printf("%-44s %9.4f ms %7.1f GF/s %5.1f %%", label.c_str(), time * 1e3, gflops, 100 * gflops / best);
    if (bytes > 0)
      printf(" %6.1f GB/s", bytes / time * 1e-9);
    printf("   units %lld, scratch %lld KiB, code %llu B in %.0f ms\n", (long long)kernel.bound.units,
           (long long)kernel.bound.scratchBytes / 1024, (unsigned long long)kernel.codeBytes, compile * 1e3);
    fflush(stdout);
  }

  void matmul(int64_t m, int64_t n, int64_t k) {
    Tensor a(DType::f32, {m, k}), b(DType::f32, {(n + 15) / 16, k, 16}), out(DType::f32, {m, n}),
        bias(DType::f32, {m, n});
    bias.broadcast({0});
    a.random(1), b.random(2), bias.random(3);
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
    Tensor x(DType::f32, {1, h, w, ic}, nchw ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{}),
        out(DType::f32, {1, oh, ow, oc});
    Tensor weights(DType::f32, {group, n / chunk, (oc / group + 15) / 16, k * k, chunk, 16}),
        bias(DType::f32, {1, oh, ow, oc});
    bias.broadcast({0, 1, 2});
    x.random(1), weights.random(2), bias.random(3);
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
    Tensor x(DType::f32, {1, h, w, c}), out(DType::f32, {1, oh, ow, c}), weights(DType::f32, {k * k, c}),
        bias(DType::f32, {1, oh, ow, c});
    bias.broadcast({0, 1, 2});
    x.random(1), weights.random(2), bias.random(3);
    run("depthwise " + std::to_string(k) + "x" + std::to_string(k) + " s" + std::to_string(stride) + " " +
            std::to_string(h) + "x" + std::to_string(w) + " " + std::to_string(c),
        "depthwise", {&out, &x, &weights, &bias},
        {{"kernel", {k, k}}, {"strides", {stride, stride}}, {"pads", {pad, pad, pad, pad}}},
        "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3 -> %4", 4.0 * c * (h * w + oh * ow));
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
    Tensor x(DType::f32, {1, h, w, ic}), out(DType::f32, {1, oh, ow, oc}),
        weights(DType::f32, {1, ic / chunk, (oc + 15) / 16, k * k, chunk, 16});
    x.random(1), weights.random(2);
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
};
} // namespace

int main(int argc, char **argv) {
  const char *name = "x86-64-v3";
  std::string filter;
  double seconds = 0.15, quantile = 0.5;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string option = argv[i];
    if (option == "--target")
      name = argv[i + 1];
    else if (option == "--filter")
      filter = argv[i + 1];
    else if (option == "--seconds")
      seconds = atof(argv[i + 1]);
    else if (option == "--quantile") // 0.1 on a machine that others use, too
      quantile = atof(argv[i + 1]);
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
  Bench bench{*target, filter, seconds, quantile};
  bench.matmuls();
  bench.convs();
  bench.depthwises();
  bench.ups();
  return 0;
}
