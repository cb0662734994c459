// SHA-256 of what is read in pieces. Uses the CPU's instructions where it has them: LLVM's portable code takes a second
// for the weights of a middling model.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <cstdint>
#include <string>

namespace mrcc {

class Sha256 {
public:
  /// `portable` keeps to plain code, for tests.
  explicit Sha256(bool portable = false) : portable(portable) {}
  void update(llvm::ArrayRef<uint8_t> bytes);
  std::array<uint8_t, 32> digest(); // ends the message
  std::string hex();                // the digest in lower case; ends the message

private:
  void blocks(const uint8_t *data, size_t count);
  bool portable;
  std::array<uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending; // the start of a block that is not full yet
  size_t pendingSize = 0;
  uint64_t total = 0;
};

} // namespace mrcc
