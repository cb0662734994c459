#include "Storage.h"
#include "Failure.h"
#include "mrcc/Bundle/Hash.h"
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mrcc;
using namespace mrcc::runtime;

Descriptor::~Descriptor() {
  if (fd >= 0)
    close(fd);
}

void Mapping::Free::operator()(void *memory) const { std::free(memory); }

Mapping::~Mapping() {
  if (area && !owned)
    munmap(area, size);
}

Mapping Mapping::ofFile(int fd, uint64_t bytes, const std::string &name) {
  Mapping result;
  if (bytes == 0)
    return result;
  void *area = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (area == MAP_FAILED)
    fail(errno == ENOMEM ? MRCC_OUT_OF_MEMORY : MRCC_SYSTEM, name, name + ": cannot map: " + std::strerror(errno));
  result.area = area;
  result.size = bytes;
  return result;
}

Mapping Mapping::copyOf(std::string_view bytes) {
  Mapping result;
  if (bytes.empty())
    return result;
  result.owned.reset(std::aligned_alloc(alignment, (bytes.size() + alignment - 1) / alignment * alignment));
  if (!result.owned)
    throw std::bad_alloc();
  std::memcpy(result.owned.get(), bytes.data(), bytes.size());
  result.area = result.owned.get();
  result.size = bytes.size();
  return result;
}

namespace {
/// A file of the bundle vanished: perhaps a writer has just replaced the bundle.
struct Missing {
  std::string name;
};
} // namespace

/// Opens a regular file; throws Missing where there is none.
static Descriptor openFile(int folder, const std::string &relative, const std::string &name, uint64_t &bytes) {
  Descriptor fd(openat(folder, relative.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a fifo must not block us
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR)
      throw Missing{name};
    fail(MRCC_SYSTEM, name, name + ": cannot open: " + std::strerror(errno));
  }
  struct stat status;
  if (fstat(fd.get(), &status) != 0)
    fail(MRCC_SYSTEM, name, name + ": " + std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    fail(MRCC_NOT_A_BUNDLE, name, name + ": not a file");
  bytes = uint64_t(status.st_size);
  return fd;
}

void Storage::openFolder(const std::string &path, int folder) {
  bundle = path;
  prefix = path + (path.ends_with('/') ? "" : "/");
  uint64_t bytes = 0;
  ino_t indexNumber = 0;
  const std::string indexName = prefix + "index";
  {
    Descriptor fd = [&] {
      try {
        return openFile(folder, "index", indexName, bytes);
      } catch (const Missing &) {
        fail(MRCC_NOT_A_BUNDLE, path, path + ": not a bundle: it has no index");
      }
    }();
    indexMapping = Mapping::ofFile(fd.get(), bytes, indexName);
    struct stat status;
    if (fstat(fd.get(), &status) == 0)
      indexNumber = status.st_ino;
  }
  records = Index(indexMapping.bytes(), indexName);
  for (const FileRecord &record : records.files()) {
    const std::string relative = records.name(record), name = prefix + relative;
    Descriptor fd = openFile(folder, relative, name, bytes);
    if (bytes != record.bytes)
      damaged(name, std::to_string(bytes) + " bytes, the index says " + std::to_string(record.bytes));
    mappings.push_back(Mapping::ofFile(fd.get(), bytes, name));
    StoredFile &file = files.emplace_back();
    file.bytes = mappings.back().bytes();
    if (record.kind == FileKind::code) {
      file.fd = fd.get();
      descriptors.push_back(std::move(fd));
    }
  }
  // Report only, so never a reason to refuse. An update that was killed at its last step has left it under the other
  // name.
  for (const char *candidate : {"manifest.json", "manifest.json.new", "manifest.json"}) { // renamed while we look
    try {
      Descriptor fd = openFile(folder, candidate, prefix + candidate, bytes);
      if (bytes != records.header().manifestBytes)
        continue;
      Mapping mapping = Mapping::ofFile(fd.get(), bytes, prefix + candidate);
      if (hashBytes(mapping.bytes()) != records.header().manifestHash)
        continue;
      manifestBytes = mapping.bytes();
      mappings.push_back(std::move(mapping));
      break;
    } catch (const Missing &) {
    } catch (const Failure &) {
    }
  }
  struct stat now;
  if (manifestBytes.empty() && fstatat(folder, "index", &now, 0) == 0 && now.st_ino != indexNumber)
    throw Missing{prefix + "manifest.json"}; // the bundle was replaced meanwhile
}

void Storage::openPacked(std::string_view memory, const std::string &name, int fd) {
  bundle = name;
  prefix = name + ":";
  IndexHeader header{};
  if (memory.empty())
    fail(MRCC_NOT_A_BUNDLE, name, name + ": empty, not a bundle");
  if (memory.size() >= sizeof header)
    std::memcpy(&header, memory.data(), sizeof header);
  // Of another version, or cut: the index says it better.
  const bool whole = header.formatVersion == formatVersion && header.indexBytes <= memory.size();
  std::string_view index = whole ? memory.substr(0, header.indexBytes) : memory;
  const bool aligned = reinterpret_cast<uintptr_t>(memory.data()) % alignment == 0;
  if (!aligned) {
    indexMapping = Mapping::copyOf(index);
    index = indexMapping.bytes();
  }
  records = Index(index, name);
  uint64_t at = records.header().indexBytes;
  auto take = [&](uint64_t bytes, uint64_t align, const std::string &what) {
    at = (at + align - 1) / align * align;
    if (at > memory.size() || bytes > memory.size() - at)
      damaged(name, "cut: " + what + " does not end within " + std::to_string(memory.size()) + " bytes");
    std::string_view piece = memory.substr(at, bytes);
    at += bytes;
    return piece;
  };
  for (const FileRecord &record : records.files()) {
    const bool isProgram = record.kind == FileKind::program;
    StoredFile &file = files.emplace_back();
    file.bytes = take(record.bytes, isProgram ? alignment : packAlignment, records.name(record));
    file.fd = record.kind == FileKind::code ? fd : -1;
    file.offset = uint64_t(file.bytes.data() - memory.data());
    if (!aligned && (record.kind == FileKind::sharedConstants || record.kind == FileKind::specialisedConstants)) {
      mappings.push_back(Mapping::copyOf(file.bytes));
      file.bytes = mappings.back().bytes();
    }
  }
  std::string_view manifest = take(records.header().manifestBytes, alignment, "manifest.json");
  if (hashBytes(manifest) == records.header().manifestHash)
    manifestBytes = manifest;
}

Storage Storage::openMemory(std::string_view memory) {
  Storage result;
  result.openPacked(memory, "memory", -1);
  return result;
}

Storage Storage::openPath(const std::string &path) {
  for (int attempt = 0;; ++attempt) {
    Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status;
    if (!fd || fstat(fd.get(), &status) != 0)
      fail(errno == ENOENT || errno == ENOTDIR ? MRCC_NOT_A_BUNDLE : MRCC_SYSTEM, path,
           path + ": " + std::strerror(errno));
    Storage result;
    if (S_ISREG(status.st_mode)) {
      Mapping mapping = Mapping::ofFile(fd.get(), uint64_t(status.st_size), path);
      result.openPacked(mapping.bytes(), path, fd.get());
      result.mappings.push_back(std::move(mapping));
      result.descriptors.push_back(std::move(fd));
      return result;
    }
    if (!S_ISDIR(status.st_mode))
      fail(MRCC_NOT_A_BUNDLE, path, path + ": neither a folder nor a file");
    try {
      result.openFolder(path, fd.get());
      return result;
    } catch (const Missing &missing) {
      if (attempt == 4) // else a writer may have replaced the bundle between its index and this file
        damaged(missing.name, "no such file");
    }
  }
}

void Storage::closeDescriptors() {
  for (StoredFile &file : files)
    file.fd = -1;
  descriptors.clear();
}

void Storage::verifyFile(uint32_t number) const {
  if (hashBytes(files[number].bytes) != records.files()[number].hash)
    damaged(name(number), "wrong hash");
}

void Storage::verifyBlock(uint32_t number, uint64_t block) const {
  const FileRecord &record = records.files()[number];
  std::string_view bytes = files[number].bytes.substr(block * blockBytes, blockBytes);
  if (hashBytes(bytes) != records.blocks()[record.firstBlock + block])
    damaged(name(number), "wrong hash of the block at byte " + std::to_string(block * blockBytes));
}
