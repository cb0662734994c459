#include "mrcc/Support/ConstantStore.h"
#include "llvm/Support/xxhash.h"
#include <cstring>

using namespace mrcc;

uint64_t ConstantStore::hashOf(llvm::ArrayRef<uint8_t> bytes) const {
  return collideAll ? 0 : llvm::xxh3_64bits(bytes);
}

const ConstantStore::Entry *ConstantStore::find(uint64_t hash, llvm::ArrayRef<uint8_t> bytes) const {
  auto [first, last] = byHash.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->bytes.size() == bytes.size() &&
        (bytes.empty() || std::memcmp(it->second->bytes.data(), bytes.data(), bytes.size()) == 0))
      return it->second;
  return nullptr;
}

const ConstantStore::Entry &ConstantStore::add(llvm::ArrayRef<uint8_t> bytes, std::vector<uint8_t> owned,
                                               std::shared_ptr<void> keeper) {
  uint64_t hash = hashOf(bytes); // outside the lock: large constants take a while
  std::lock_guard lock(mutex);
  if (const Entry *known = find(hash, bytes))
    return *known;
  Entry &entry = entries.emplace_back();
  entry.key = "k" + std::to_string(entries.size() - 1);
  entry.owned = std::move(owned);
  entry.bytes = entry.owned.empty() ? bytes : llvm::ArrayRef<uint8_t>(entry.owned);
  entry.keeper = std::move(keeper);
  byHash.emplace(hash, &entry);
  return entry;
}

const ConstantStore::Entry &ConstantStore::intern(llvm::ArrayRef<uint8_t> bytes) {
  {
    uint64_t hash = hashOf(bytes);
    std::lock_guard lock(mutex);
    if (const Entry *known = find(hash, bytes))
      return *known;
  }
  return intern(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

const ConstantStore::Entry &ConstantStore::intern(std::vector<uint8_t> &&bytes) {
  llvm::ArrayRef<uint8_t> view(bytes); // moving a vector keeps its buffer
  return add(view, std::move(bytes), nullptr);
}

const ConstantStore::Entry &ConstantStore::internMapped(llvm::ArrayRef<uint8_t> bytes, std::shared_ptr<void> keeper) {
  return add(bytes, {}, std::move(keeper));
}

const ConstantStore::Entry *ConstantStore::lookup(llvm::StringRef key) const {
  size_t n;
  std::lock_guard lock(mutex);
  if (!key.consume_front("k") || key.getAsInteger(10, n) || n >= entries.size())
    return nullptr;
  return &entries[n];
}

size_t ConstantStore::size() const {
  std::lock_guard lock(mutex);
  return entries.size();
}
