// Independent chains of fused multiply-adds, as many as hide the latency (4 cycles, two units: 8 at least), in the
// widest registers of this CPU. The best of some short rounds: what disturbs only ever makes it slower. Bandwidths are
// those of passes over buffers of some sizes, loads only and stores only.
#include "Peak.h"
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

using namespace mrcc;
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

/// Passes over `bytes` of memory, a multiple of 1 kB: loads, or stores.
#define MEMORY_LOOPS(READ, WRITE, ATTRIBUTE, BYTES)                                                                    \
  ATTRIBUTE void READ(char *memory, size_t bytes, volatile float &sink) {                                              \
    typedef float Vector __attribute__((vector_size(BYTES)));                                                          \
    Vector sums[8] = {};                                                                                               \
    for (size_t at = 0; at < bytes; at += 8 * BYTES)                                                                   \
      for (int i = 0; i < 8; ++i)                                                                                      \
        sums[i] += *reinterpret_cast<const Vector *>(memory + at + i * BYTES);                                         \
    float sum = 0;                                                                                                     \
    for (int i = 0; i < 8; ++i)                                                                                        \
      sum += sums[i][0];                                                                                               \
    sink = sum;                                                                                                        \
  }                                                                                                                    \
  ATTRIBUTE void WRITE(char *memory, size_t bytes, volatile float &sink) {                                             \
    typedef float Vector __attribute__((vector_size(BYTES)));                                                          \
    const Vector value = Vector{} + sink;                                                                              \
    for (size_t at = 0; at < bytes; at += 8 * BYTES)                                                                   \
      for (int i = 0; i < 8; ++i)                                                                                      \
        *reinterpret_cast<volatile Vector *>(memory + at + i * BYTES) = value;                                         \
  }

#if defined(__x86_64__)
FMA_LOOP(wide16, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
FMA_LOOP(wide8, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
MEMORY_LOOPS(read16, write16, __attribute__((target("avx512f"))), 64)
MEMORY_LOOPS(read8, write8, __attribute__((target("avx2"))), 32)
inline __m128 mulAdd(__m128 x, __m128 a, __m128 b) { return _mm_add_ps(_mm_mul_ps(x, a), b); }
FMA_LOOP(wide4, , __m128, _mm_set1_ps, mulAdd, _mm_cvtss_f32)
#elif defined(__aarch64__)
inline float32x4_t fma(float32x4_t x, float32x4_t a, float32x4_t b) { return vfmaq_f32(b, x, a); }
inline float lane(float32x4_t x) { return vgetq_lane_f32(x, 0); }
FMA_LOOP(wide4, , float32x4_t, vdupq_n_f32, fma, lane)
#endif

#if defined(__x86_64__) || defined(__aarch64__)
MEMORY_LOOPS(read4, write4, , 16)
#endif

using Loop = void (*)(long, volatile float &);
using MemoryLoop = void (*)(char *, size_t, volatile float &);

struct Choice {
  Loop loop;
  int lanes;
  MemoryLoop read, write;
};

/// The loops of the widest vectors that this CPU has, of `vectorBits` at most.
Choice widest(unsigned vectorBits) {
#if defined(__x86_64__)
  if (vectorBits >= 512 && __builtin_cpu_supports("avx512f"))
    return {wide16, 16, read16, write16};
  if (vectorBits >= 256 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {wide8, 8, read8, write8};
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  return {wide4, 4, read4, write4};
#else
  return {};
#endif
}

/// What the cache of a level holds by Linux, or `otherwise` where it does not say. sysconf asks the CPU instead, which
/// on a virtual machine tells of the whole socket.
uint64_t cacheBytes(int level, uint64_t otherwise) {
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    int itsLevel = 0;
    uint64_t kilobytes = 0;
    std::string type;
    std::ifstream(folder + "level") >> itsLevel;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> kilobytes; // "32K"
    if (itsLevel == level && type != "Instruction" && kilobytes > 0)
      return kilobytes << 10;
  }
  return otherwise;
}

} // namespace

unsigned mrcc::tool::peakThreads(unsigned threads) {
  return std::min(threads, std::max(1u, std::thread::hardware_concurrency()));
}

double mrcc::tool::measurePeak(unsigned threads, unsigned vectorBits) {
  const auto [loop, lanes, read, write] = widest(vectorBits);
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

/// The best of some passes, in bytes a second.
static double bandwidth(MemoryLoop loop, char *memory, size_t bytes) {
  using Clock = std::chrono::steady_clock;
  volatile float sink = 0;
  const int passes = int(std::max<size_t>(1, (8 << 20) / bytes));
  double best = 0;
  for (int sample = 0; sample < 8; ++sample) {
    auto start = Clock::now();
    for (int pass = 0; pass < passes; ++pass)
      loop(memory, bytes, sink);
    const std::chrono::duration<double> took = Clock::now() - start;
    best = std::max(best, double(bytes) * passes / took.count());
  }
  return best;
}

Machine mrcc::tool::measureMachine(const Target &target) {
  Machine machine;
  machine.multiplyAdds = measurePeak(1, target.vectorBits);
  const Choice loops = widest(target.vectorBits);
  machine.levels[0].bytes = cacheBytes(1, target.l1Bytes);
  machine.levels[1].bytes = cacheBytes(2, target.l2Bytes);
  machine.levels[2].bytes = cacheBytes(3, target.l3Bytes);
  machine.levels[3].bytes = UINT64_MAX;
  const size_t all = std::max<size_t>(4 * machine.levels[2].bytes, 64 << 20) / 1024 * 1024;
  const std::unique_ptr<char, decltype(&std::free)> memory(static_cast<char *>(std::aligned_alloc(64, all)), std::free);
  if (!loops.read || !memory)
    return machine;
  for (size_t l = 0; l < machine.levels.size(); ++l) {
    Machine::Level &level = machine.levels[l];
    // Half of a private cache; of the shared one what others are likely to leave.
    const size_t bytes = l == 3 ? all : level.bytes / (l == 2 ? 4 : 2) / 1024 * 1024;
    level.write = bandwidth(loops.write, memory.get(), bytes);
    level.read = bandwidth(loops.read, memory.get(), bytes);
  }
  return machine;
}
