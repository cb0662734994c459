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

std::optional<KernelDescription> KernelDescription::parse(llvm::StringRef key) {
  KernelDescription kernel;
  auto [head, rest] = key.split(" [");
  llvm::SmallVector<llvm::StringRef> words;
  head.split(words, ' ');
  kernel.family = words[0].str();
  for (llvm::StringRef word : llvm::drop_begin(words)) {
    auto [name, text] = word.split('=');
    int64_t value;
    if (text.getAsInteger(10, value))
      return std::nullopt;
    kernel.config[name.str()] = value;
  }
  auto [types, body] = rest.split("] {");
  llvm::SmallVector<llvm::StringRef> names;
  types.split(names, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef name : names) {
    auto type = parseDType(name);
    if (!type)
      return std::nullopt;
    kernel.types.push_back(*type);
  }
  if (!body.consume_back("}"))
    return std::nullopt;
  kernel.body = body.str();
  return kernel.key() == key ? std::optional(std::move(kernel)) : std::nullopt;
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
