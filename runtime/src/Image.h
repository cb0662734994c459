// A code image: the machine code of all kernels of a target, mapped from a file or copied from memory. No dlopen and no
// relocation. Bounds are checked here, content by hash before a kernel is called.
#pragma once
#include "Storage.h"

namespace mrcc::runtime {

class Image {
public:
  Image() = default;
  Image(Image &&other) noexcept { swap(other); }
  Image &operator=(Image &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Image();

  /// Throws Failure. `name` is for messages, `machine` ELF's number. `copied` says whether the file could not be mapped
  /// (memory, or a file system without execution).
  static Image load(const StoredFile &file, const std::string &name, uint32_t machine, bool &copied);

  bool empty() const { return !base; }
  /// Null unless [offset, offset + bytes) is executable.
  KernelFunction *function(uint64_t offset, uint64_t bytes) const;

private:
  void swap(Image &other) noexcept {
    std::swap(base, other.base);
    std::swap(size, other.size);
    std::swap(code, other.code);
  }
  struct Range {
    uint64_t begin, end;
  };
  char *base = nullptr;
  size_t size = 0;
  std::vector<Range> code; // executable segments
};

} // namespace mrcc::runtime
