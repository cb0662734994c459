// Constants by content: equal bytes are stored once, whatever their names, types and dims. A hash finds candidates, the
// bytes decide. Thread-safe. The bytes of an entry never move and live as long as the store.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace mrcc {

class ConstantStore {
public:
  struct Entry {
    std::string key;               // "k" and a number in order of arrival; valid in this store alone
    llvm::ArrayRef<uint8_t> bytes; // in `owned`, or in a mapping that `keeper` holds
    std::vector<uint8_t> owned;
    std::shared_ptr<void> keeper;
  };

  /// The entry with these bytes; copies them if they are new.
  const Entry &intern(llvm::ArrayRef<uint8_t> bytes);
  /// Takes the bytes without a copy if they are new.
  const Entry &intern(std::vector<uint8_t> &&bytes);
  /// Refers to mapped bytes without a copy if they are new; `keeper` keeps the mapping alive.
  const Entry &internMapped(llvm::ArrayRef<uint8_t> bytes, std::shared_ptr<void> keeper);
  /// Null for an unknown key.
  const Entry *lookup(llvm::StringRef key) const;
  size_t size() const;

  /// Test hook: makes every hash equal, so that only the comparison of bytes keeps constants apart.
  bool collideAll = false;

private:
  const Entry &add(llvm::ArrayRef<uint8_t> bytes, std::vector<uint8_t> owned, std::shared_ptr<void> keeper);
  const Entry *find(uint64_t hash, llvm::ArrayRef<uint8_t> bytes) const;
  uint64_t hashOf(llvm::ArrayRef<uint8_t> bytes) const;

  mutable std::mutex mutex;
  std::deque<Entry> entries;
  std::unordered_multimap<uint64_t, const Entry *> byHash;
};

} // namespace mrcc
