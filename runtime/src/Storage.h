// Where a bundle's bytes are: a folder of mapped files, one mapped packed file, or the caller's memory. Checks sizes,
// not content.
#pragma once
#include "Index.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mrcc::runtime {

/// Owns a file descriptor.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd(other.fd) { other.fd = -1; }
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }

private:
  int fd = -1;
};

/// Owns a mapping of a whole file, or memory of its own.
class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept : area(other.area), size(other.size), owned(std::move(other.owned)) {
    other.area = nullptr;
  }
  Mapping &operator=(Mapping &&other) noexcept {
    std::swap(area, other.area);
    std::swap(size, other.size);
    std::swap(owned, other.owned);
    return *this;
  }
  ~Mapping();
  static Mapping ofFile(int fd, uint64_t bytes, const std::string &name);
  /// A copy, aligned to a cache line.
  static Mapping copyOf(std::string_view bytes);
  std::string_view bytes() const { return {static_cast<const char *>(area), size}; }

private:
  struct Free {
    void operator()(void *memory) const;
  };
  void *area = nullptr;
  size_t size = 0;
  std::unique_ptr<void, Free> owned;
};

/// One data file of the bundle.
struct StoredFile {
  std::string_view bytes;
  int fd = -1;         // to map code from; -1: copy it
  uint64_t offset = 0; // of the file's first byte in fd
};

class Storage {
public:
  /// Throw Failure.
  static Storage openPath(const std::string &path);
  static Storage openMemory(std::string_view memory);

  const Index &index() const { return records; }
  std::string_view indexBytes() const { return records.all(); }
  const StoredFile &file(uint32_t number) const { return files[number]; }
  /// For messages: the path, or "memory".
  const std::string &bundleName() const { return bundle; }
  std::string name(uint32_t number) const { return prefix + records.name(records.files()[number]); }
  /// manifest.json's content, if the bundle still has the one that its index names.
  std::string_view manifest() const { return manifestBytes; }
  std::string manifestName() const { return prefix + "manifest.json"; }
  /// Descriptors are only needed to map code.
  void closeDescriptors();

  /// Throws unless the whole file, or the blocks that hold [offset, offset + bytes), have the right hash.
  void verifyFile(uint32_t number) const;
  void verifyBlock(uint32_t number, uint64_t block) const;

private:
  void openFolder(const std::string &path, int folder);
  void openPacked(std::string_view memory, const std::string &name, int fd);

  std::string bundle;
  std::string prefix; // of file names in messages: "det.mrcb/"
  Mapping indexMapping;
  Index records;
  std::vector<StoredFile> files;
  std::vector<Mapping> mappings;
  std::vector<Descriptor> descriptors;
  std::string_view manifestBytes;
};

} // namespace mrcc::runtime
