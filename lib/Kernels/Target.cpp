// The targets that code is made for, as data.
#include "mrcc/Kernels/Kernel.h"
#include "llvm/ADT/STLExtras.h"

namespace mrcc {

const std::vector<Target> &Target::all() {
  static const std::vector<Target> targets = [] {
    const char *linuxX86 = "x86_64-unknown-linux-gnu";
    const std::vector<std::string> v3 = {"sse4.1", "sse4.2", "popcnt", "avx",   "avx2", "bmi",
                                         "bmi2",   "f16c",   "fma",    "lzcnt", "movbe"};
    std::vector<std::string> v4 = v3;
    v4.insert(v4.end(), {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
    const uint64_t l1 = 32 << 10, l2 = 1 << 20, l3 = 16 << 20;
    return std::vector<Target>{
        {"cpu:x86-64", "x86-64", linuxX86, 128, 16, l1, l2 / 2, l3, {}},
        {"cpu:x86-64-v3", "x86-64-v3", linuxX86, 256, 16, l1, l2, l3, v3},
        {"cpu:x86-64-v4", "x86-64-v4", linuxX86, 512, 32, l1, l2, l3, v4},
        {"cpu:aarch64", "generic", "aarch64-unknown-linux-gnu", 128, 32, l1, l2, l3, {"neon"}},
    };
  }();
  return targets;
}

const Target *Target::find(llvm::StringRef name) {
  name.consume_front("cpu:");
  for (const Target &target : all())
    if (llvm::StringRef(target.name).drop_front(4) == name)
      return &target;
  return nullptr;
}

bool Target::has(llvm::StringRef feature) const { return llvm::is_contained(features, feature); }

} // namespace mrcc
