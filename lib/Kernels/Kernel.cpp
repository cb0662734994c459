// Kernel descriptions as text: the key that orders and identifies them, and a short name.
#include "mrcc/Kernels/Kernel.h"
#include "mrcc/IR/Mrc.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

namespace mrcc {

std::string KernelDescription::key() const {
  std::string s = family;
  for (const auto &[name, value] : config)
    s += " " + name + "=" + std::to_string(value);
  s += " [";
  for (size_t i = 0; i < types.size(); ++i)
    s += (i ? "," : "") + toString(types[i]).str();
  return s + "] {" + body + "}";
}

std::string KernelDescription::name() const {
  std::string s = family;
  // The numbers that people look for first, as far as a family has them.
  for (const char *key : {"kh", "kw", "sh", "sw", "ic", "oc", "k", "n", "c", "rank"})
    if (auto it = config.find(key); it != config.end())
      s += std::string("_") + key + std::to_string(it->second);
  std::string hash = llvm::utohexstr(llvm::xxh3_64bits(llvm::arrayRefFromStringRef(key())) >> 32, /*LowerCase=*/true);
  return s + "_" + std::string(8 - hash.size(), '0') + hash;
}

} // namespace mrcc
