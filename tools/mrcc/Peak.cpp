// Independent chains of fused multiply-adds, as many as hide the latency (4 cycles, two units: 8 at least), in the
// widest registers of this CPU. The best of some short rounds: what disturbs only ever makes it slower.
#include "Peak.h"
#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

using namespace mrcc::tool;

namespace {

constexpr int chains = 12;

// The loop of one instruction set; `sink` keeps the result alive.
#define FMA_LOOP(NAME, ATTRIBUTE, VECTOR, SET, FMA, LANE)                                                              \
  ATTRIBUTE void NAME(long rounds, volatile float &sink) {                                                             \
    VECTOR acc[chains];                                                                                                \
    for (int i = 0; i < chains; ++i)                                                                                   \
      acc[i] = SET(float(i));                                                                                          \
    const VECTOR a = SET(0.999f + sink), b = SET(0.001f);                                                              \
    for (long r = 0; r < rounds; ++r)                                                                                  \
      for (int i = 0; i < chains; ++i)                                                                                 \
        acc[i] = FMA(acc[i], a, b);                                                                                    \
    float sum = 0;                                                                                                     \
    for (int i = 0; i < chains; ++i)                                                                                   \
      sum += LANE(acc[i]);                                                                                             \
    sink = sum * 0;                                                                                                    \
  }

#if defined(__x86_64__)
FMA_LOOP(wide16, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
FMA_LOOP(wide8, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
inline __m128 mulAdd(__m128 x, __m128 a, __m128 b) { return _mm_add_ps(_mm_mul_ps(x, a), b); }
FMA_LOOP(wide4, , __m128, _mm_set1_ps, mulAdd, _mm_cvtss_f32)
#elif defined(__aarch64__)
inline float32x4_t fma(float32x4_t x, float32x4_t a, float32x4_t b) { return vfmaq_f32(b, x, a); }
inline float lane(float32x4_t x) { return vgetq_lane_f32(x, 0); }
FMA_LOOP(wide4, , float32x4_t, vdupq_n_f32, fma, lane)
#endif

using Loop = void (*)(long, volatile float &);

struct Choice {
  Loop loop;
  int lanes;
};

Choice widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return {wide16, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {wide8, 8};
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  return {wide4, 4};
#else
  return {nullptr, 0};
#endif
}

} // namespace

unsigned mrcc::tool::peakThreads(unsigned threads) {
  return std::min(threads, std::max(1u, std::thread::hardware_concurrency()));
}

double mrcc::tool::measurePeak(unsigned threads) {
  auto [loop, lanes] = widest();
  threads = peakThreads(threads);
  if (!loop)
    return 0;
  constexpr long rounds = 400000; // some milliseconds
  constexpr int samples = 12;
  using Clock = std::chrono::steady_clock;
  double best = 0;
  std::barrier together(threads);
  auto work = [&, loop = loop](bool measures) {
    volatile float sink = 0;
    loop(rounds, sink);
    for (int s = 0; s < samples; ++s) {
      together.arrive_and_wait();
      auto start = Clock::now();
      loop(rounds, sink);
      together.arrive_and_wait();
      std::chrono::duration<double> took = Clock::now() - start;
      if (measures)
        best = std::max(best, 1 / took.count());
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned t = 1; t < threads; ++t)
    helpers.emplace_back(work, false);
  work(true);
  helpers.clear();
  return best * 2.0 * chains * lanes * rounds * threads;
}
