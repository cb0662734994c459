// The content hash of bundles, the same on both sides: xxh3-128, and its 32 hex digits. `xxh128sum FILE` prints the
// digits that a data file has in its name. It finds equal content and damage; it does not stop a forger (a bundle is
// trusted like a shared library).
#pragma once
#include "mrcc/Bundle/Format.h"
#include <cstring>
#include <string_view>
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace mrcc {

inline Hash128 hashBytes(const void *data, size_t size) {
  XXH128_hash_t h = XXH3_128bits(data, size);
  return {h.low64, h.high64};
}
inline Hash128 hashBytes(std::string_view bytes) { return hashBytes(bytes.data(), bytes.size()); }

/// The hash of pieces that follow each other.
class Hasher {
public:
  Hasher() { XXH3_128bits_reset(&state); }
  void add(const void *data, size_t size) {
    if (size)
      XXH3_128bits_update(&state, data, size);
  }
  Hash128 finish() const {
    XXH128_hash_t h = XXH3_128bits_digest(&state);
    return {h.low64, h.high64};
  }

private:
  XXH3_state_t state;
};

/// The hash that an index carries: of its bytes without the field that holds it.
inline Hash128 hashOfIndex(const char *index, size_t size) {
  constexpr size_t at = offsetof(IndexHeader, hash), after = at + sizeof(Hash128);
  Hasher hasher;
  hasher.add(index, at);
  hasher.add(index + after, size - after);
  return hasher.finish();
}

/// What programs call a kernel: the hash of its target's name and its description's key.
inline Hash128 kernelId(std::string_view target, std::string_view key) {
  Hasher hasher;
  hasher.add(target.data(), target.size());
  hasher.add("", 1);
  hasher.add(key.data(), key.size());
  return hasher.finish();
}

/// 32 hex digits, the high half first, as xxh128sum prints them.
inline std::string toHex(const Hash128 &hash) {
  std::string digits(32, '0');
  for (int i = 0; i < 32; ++i) {
    uint64_t half = i < 16 ? hash.high : hash.low;
    digits[i] = "0123456789abcdef"[half >> (60 - 4 * (i % 16)) & 15];
  }
  return digits;
}

} // namespace mrcc
