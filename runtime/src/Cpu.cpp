#include "Cpu.h"
#include <elf.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

using namespace mrcc::runtime;

#if defined(__x86_64__)

uint32_t mrcc::runtime::hostMachine() { return EM_X86_64; }

namespace {

enum Register { eax, ebx, ecx, edx };
enum State : uint8_t { none, ymm, zmm }; // registers that the operating system must save

struct Feature {
  std::string_view name;
  uint32_t leaf, subleaf;
  Register reg;
  int bit;
  State state = none;
};

constexpr Feature features[] = {
    {"cx8", 1, 0, edx, 8},
    {"cmov", 1, 0, edx, 15},
    {"mmx", 1, 0, edx, 23},
    {"fxsr", 1, 0, edx, 24},
    {"sse", 1, 0, edx, 25},
    {"sse2", 1, 0, edx, 26},
    {"sse3", 1, 0, ecx, 0},
    {"pni", 1, 0, ecx, 0},
    {"pclmul", 1, 0, ecx, 1},
    {"ssse3", 1, 0, ecx, 9},
    {"fma", 1, 0, ecx, 12, ymm},
    {"cx16", 1, 0, ecx, 13},
    {"sse4.1", 1, 0, ecx, 19},
    {"sse4_1", 1, 0, ecx, 19},
    {"sse4.2", 1, 0, ecx, 20},
    {"sse4_2", 1, 0, ecx, 20},
    {"crc32", 1, 0, ecx, 20},
    {"movbe", 1, 0, ecx, 22},
    {"popcnt", 1, 0, ecx, 23},
    {"xsave", 1, 0, ecx, 26},
    {"avx", 1, 0, ecx, 28, ymm},
    {"f16c", 1, 0, ecx, 29, ymm},
    {"bmi", 7, 0, ebx, 3},
    {"bmi1", 7, 0, ebx, 3},
    {"avx2", 7, 0, ebx, 5, ymm},
    {"bmi2", 7, 0, ebx, 8},
    {"avx512f", 7, 0, ebx, 16, zmm},
    {"avx512dq", 7, 0, ebx, 17, zmm},
    {"avx512ifma", 7, 0, ebx, 21, zmm},
    {"avx512cd", 7, 0, ebx, 28, zmm},
    {"avx512bw", 7, 0, ebx, 30, zmm},
    {"avx512vl", 7, 0, ebx, 31, zmm},
    {"avx512vbmi", 7, 0, ecx, 1, zmm},
    {"avx512vbmi2", 7, 0, ecx, 6, zmm},
    {"gfni", 7, 0, ecx, 8},
    {"avx512vnni", 7, 0, ecx, 11, zmm},
    {"avx512bitalg", 7, 0, ecx, 12, zmm},
    {"avx512vpopcntdq", 7, 0, ecx, 14, zmm},
    {"avx512fp16", 7, 0, edx, 23, zmm},
    {"avxvnni", 7, 1, eax, 4, ymm},
    {"avx512bf16", 7, 1, eax, 5, zmm},
    {"sahf", 0x80000001, 0, ecx, 0},
    {"lahf_lm", 0x80000001, 0, ecx, 0},
    {"lzcnt", 0x80000001, 0, ecx, 5},
    {"abm", 0x80000001, 0, ecx, 5},
};

} // namespace

/// Bits of XCR0: 1 sse, 2 avx; 5 to 7 what AVX-512 adds.
static uint32_t savedStates() {
  uint32_t regs[4] = {};
  if (!__get_cpuid(1, &regs[eax], &regs[ebx], &regs[ecx], &regs[edx]) || !(regs[ecx] >> 27 & 1)) // osxsave
    return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static bool has(std::string_view name) {
  for (const Feature &f : features) {
    if (f.name != name)
      continue;
    uint32_t regs[4] = {};
    if (!__get_cpuid_count(f.leaf, f.subleaf, &regs[eax], &regs[ebx], &regs[ecx], &regs[edx]))
      return false;
    const uint32_t need = f.state == zmm ? 0xe6 : f.state == ymm ? 0x6 : 0;
    return (regs[f.reg] >> f.bit & 1) && (need == 0 || (savedStates() & need) == need);
  }
  return false;
}

DefaultFloatModes::DefaultFloatModes() : saved(_mm_getcsr()) { _mm_setcsr(0x1f80); }
DefaultFloatModes::~DefaultFloatModes() { _mm_setcsr(uint32_t(saved)); }

#elif defined(__aarch64__)

uint32_t mrcc::runtime::hostMachine() { return EM_AARCH64; }

static bool has(std::string_view name) {
  const unsigned long caps = getauxval(AT_HWCAP);
  struct {
    std::string_view name;
    int bit;
  } constexpr features[] = {{"fp", 0},       {"fp-armv8", 0}, {"asimd", 1},   {"neon", 1},      {"crc", 7},
                            {"crc32", 7},    {"lse", 8},      {"atomics", 8}, {"fullfp16", 10}, {"asimdhp", 10},
                            {"dotprod", 20}, {"asimddp", 20}, {"sve", 22}};
  for (auto &f : features)
    if (f.name == name)
      return caps >> f.bit & 1;
  return false;
}

DefaultFloatModes::DefaultFloatModes() {
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
  __asm__ volatile("msr fpcr, %0" ::"r"(uint64_t(0)));
}
DefaultFloatModes::~DefaultFloatModes() { __asm__ volatile("msr fpcr, %0" ::"r"(saved)); }

#else
#error "the runtime knows x86-64 and aarch64"
#endif

std::string mrcc::runtime::missingFeatures(std::string_view features) {
  std::string missing;
  while (!features.empty()) {
    std::string_view name = features.substr(0, features.find(' '));
    features.remove_prefix(std::min(name.size() + 1, features.size()));
    if (!name.empty() && !has(name))
      missing += (missing.empty() ? "" : " ") + std::string(name);
  }
  return missing;
}
