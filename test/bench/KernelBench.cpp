#include "KernelBench.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <sys/resource.h>
#include <time.h>

using namespace mrcc::testing;

namespace mrcc::bench {

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

//===-- the machine's roofs ---------------------------------------------------------------------------------------===//

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
#undef PEAK

static double peak(const Target &target) {
  double best = 0;
  for (int i = 0; i < 40; ++i) // short ones: the best was not interrupted
    best = std::max(best, target.vectorBits == 512 ? peak512(30000, 0.75f) : peak256(60000, 0.75f));
  return best;
}

// Of a group of READ + WRITTEN vectors the first are read and their sum is written to the others; READ is a multiple of
// the 8 accumulators where nothing is written.
template <class Vector, int READ, int WRITTEN>
__attribute__((always_inline)) static inline void move(const Vector *in, Vector *out, int64_t groups) {
  if constexpr (WRITTEN == 0) {
    Vector sums[8] = {};
    for (int64_t g = 0; g < groups; ++g, in += READ)
#pragma clang loop unroll(full)
      for (int r = 0; r < READ; ++r)
        sums[r % 8] += in[r];
    static volatile float sink;
    sink = (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])))[0];
    (void)sink;
  } else {
#pragma clang loop unroll_count(4)
    for (int64_t g = 0; g < groups; ++g, in += READ, out += WRITTEN) {
      Vector x = in[0];
#pragma clang loop unroll(full)
      for (int r = 1; r < READ; ++r)
        x += in[r];
#pragma clang loop unroll(full)
      for (int w = 0; w < WRITTEN; ++w)
        out[w] = x;
    }
  }
}

using Mover = void (*)(const char *, char *, int64_t);
#define MOVERS(NAME, TARGET, TYPE)                                                                                     \
  template <int READ, int WRITTEN>                                                                                     \
  __attribute__((target(TARGET), noinline)) static void NAME(const char *in, char *out, int64_t groups) {              \
    move<TYPE, READ, WRITTEN>(reinterpret_cast<const TYPE *>(in), reinterpret_cast<TYPE *>(out), groups);              \
  }
MOVERS(move512, "avx512f", Wide16)
MOVERS(move256, "avx2", Wide8)
#undef MOVERS
#else
static double peak(const Target &) { return 0; }
#endif

namespace {
/// The loop that moves as much as a kernel must.
class Reference {
public:
  Reference(const Demand &work, const Target &target);
  void run() const;

private:
#if defined(__x86_64__)
  struct Pass {
    Mover mover;
    int64_t groups;
  };
  Pass pass(int64_t read, int64_t written, bool is512, int64_t vectorBytes) const;
  std::vector<Pass> passes;
#endif
  std::unique_ptr<char, decltype(&free)> in{nullptr, free}, out{nullptr, free};
};
} // namespace

#if defined(__x86_64__)
Reference::Pass Reference::pass(int64_t read, int64_t written, bool is512, int64_t vectorBytes) const {
#define MOVER(R, W) (is512 ? move512<R, W> : move256<R, W>)
  struct {
    int64_t read, written;
    Mover mover;
  } const mixes[] = {{8, 0, MOVER(8, 0)}, {1, 1, MOVER(1, 1)}, {2, 1, MOVER(2, 1)}, {3, 1, MOVER(3, 1)},
                     {4, 1, MOVER(4, 1)}, {1, 2, MOVER(1, 2)}, {1, 4, MOVER(1, 4)}};
#undef MOVER
  auto distance = [&](auto &mix) {
    return std::fabs(double(mix.written) / (mix.read + mix.written) - double(written) / (read + written));
  };
  auto &best = *std::min_element(std::begin(mixes), std::end(mixes),
                                 [&](auto &a, auto &b) { return distance(a) < distance(b); });
  return {best.mover, (read + written) / ((best.read + best.written) * vectorBytes)};
}

Reference::Reference(const Demand &work, const Target &target) {
  const bool is512 = target.vectorBits == 512;
  if (work.before)
    passes.push_back(pass(work.before, 0, is512, target.vectorBits / 8));
  passes.push_back(pass(work.read, work.written, is512, target.vectorBits / 8));
  const size_t bytes = (work.bytes() + 4095) / 4096 * 4096; // more than each pass needs
  in.reset(static_cast<char *>(aligned_alloc(4096, bytes)));
  out.reset(static_cast<char *>(aligned_alloc(4096, bytes)));
  memset(in.get(), 0, bytes);
  memset(out.get(), 0, bytes);
}

void Reference::run() const {
  for (const Pass &p : passes)
    p.mover(in.get(), out.get(), p.groups);
}
#else
Reference::Reference(const Demand &, const Target &) {}
void Reference::run() const {}
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

namespace {
/// Seconds of one call, window by window.
class Clock {
public:
  explicit Clock(std::function<void()> f) : call(std::move(f)) {
    call();
    double start = now();
    call();
    calls = std::max(1, int(4e-4 / std::max(now() - start, 1e-7)));
  }
  /// Whether the thread ran through; otherwise the window's time is the thread's CPU time.
  bool window() {
    long before = switches();
    double t = now(), cpu = cpuTime();
    for (int i = 0; i < calls; ++i)
      call();
    double wall = (now() - t) / calls;
    cpu = (cpuTime() - cpu) / calls;
    bool calm = switches() == before;
    times.push_back(calm ? wall : cpu);
    return calm;
  }
  std::vector<double> times;

private:
  std::function<void()> call;
  int calls;
};

double quantileOf(std::vector<double> values, double quantile) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, size_t(values.size() * quantile))];
}
} // namespace

/// Alternates windows of both, and keeps the calm pairs where there are any. `other` may be null.
static void measure(Clock &kernel, Clock *other, double seconds) {
  std::vector<size_t> calm;
  for (double end = now() + seconds; now() < end || kernel.times.size() < 3;) {
    bool both = kernel.window();
    if (other)
      both &= other->window();
    if (both)
      calm.push_back(kernel.times.size() - 1);
  }
  if (calm.empty())
    return;
  for (Clock *clock : {&kernel, other})
    if (clock) {
      std::vector<double> kept;
      for (size_t i : calm)
        kept.push_back(clock->times[i]);
      clock->times = kept;
    }
}

//===-- rows ------------------------------------------------------------------------------------------------------===//

testing::Tensor tensor(std::vector<int64_t> dims, unsigned seed, std::vector<int> order) {
  Tensor t(DType::f32, dims, std::move(order));
  t.alignToLine();
  auto *values = reinterpret_cast<float *>(t.data());
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>());
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223; // Numerical Recipes' generator
    values[i] = int32_t(seed) * 0x1p-31f;
  }
  return t;
}

std::string times(const std::vector<int64_t> &dims) {
  std::string text;
  for (int64_t d : dims)
    text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

void Bench::run(const std::string &label, const LaunchSite &site, const std::vector<Tensor *> &tensors,
                const Demand &work) {
  if (!wants(label))
    return;
  double start = now();
  Compiled kernel(site, target);
  const double compile = now() - start;
  std::vector<char *> views;
  for (Tensor *t : tensors)
    views.push_back(t->data());
  std::unique_ptr<char, decltype(&free)> scratch(
      static_cast<char *>(aligned_alloc(64, kernel.bound.scratchBytes / 64 * 64 + 64)), free);
  double flopRoof = peak(target);
  Clock clock([&] { kernel.function(views.data(), kernel.bound.params.data(), 0, kernel.bound.units, scratch.get()); });
  double time = 0, moved = 0; // seconds of the kernel and of the reference
  if (work.bytes()) {
    Reference reference(work, target);
    Clock other([&] { reference.run(); });
    measure(clock, &other, options.seconds);
    moved = quantileOf(other.times, options.quantile);
  } else {
    measure(clock, nullptr, options.seconds);
  }
  time = quantileOf(clock.times, options.quantile);
  flopRoof = std::max(flopRoof, peak(target));
  const double flops = work.operations ? 2.0 * work.operations : kernel.bound.flops, gflops = flops / time * 1e-9,
               ofPeak = 100 * gflops / flopRoof, ofBandwidth = 100 * moved / time;
  const double share = std::max(ofPeak, ofBandwidth);
  printf("%-44s %9.4f ms %7.1f GF/s %5.1f %% of peak", label.c_str(), time * 1e3, gflops, ofPeak);
  if (work.bytes())
    printf(" %6.1f GB/s %5.1f %% of %5.1f", work.bytes() / time * 1e-9, ofBandwidth, work.bytes() / moved * 1e-9);
  else
    printf("%27s", "");
  printf(" | %5.1f %% %-9s | units %lld, scratch %lld KiB, code %llu B in %.0f ms\n", share,
         ofBandwidth > ofPeak ? "bandwidth" : "FMA", (long long)kernel.bound.units,
         (long long)kernel.bound.scratchBytes / 1024, (unsigned long long)kernel.codeBytes, compile * 1e3);
  fflush(stdout);
  const std::string family = label.substr(0, label.find(' '));
  auto place = std::find_if(families.begin(), families.end(), [&](auto &f) { return f.first == family; });
  if (place == families.end())
    place = families.insert(place, {family, {}});
  place->second.push_back({label, share});
}

void Bench::summarise() const {
  if (families.empty())
    return;
  printf("\n%-16s %5s %9s %9s\n", "% of its roof", "rows", "least", "median");
  for (auto &[family, rows] : families) {
    std::vector<double> shares;
    for (const Share &row : rows)
      shares.push_back(row.percent);
    auto &least = *std::min_element(rows.begin(), rows.end(), [](auto &a, auto &b) { return a.percent < b.percent; });
    printf("%-16s %5zu %9.1f %9.1f   least: %s\n", family.c_str(), rows.size(), least.percent, quantileOf(shares, 0.5),
           least.label.c_str());
  }
}

} // namespace mrcc::bench
