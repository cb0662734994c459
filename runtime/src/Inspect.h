// The loader for the compiler's side (dump, verify, diff): the same checks as at run time without this CPU and without
// running anything. Nothing is thrown.
#pragma once
#include "Storage.h"
#include "mrcc/runtime.h"
#include <memory>

namespace mrcc::runtime {

struct Inspection {
  mrcc_code code; // MRCC_OK, or why the rest is empty
  std::string message;
  std::unique_ptr<Storage> storage;
  std::vector<Program> programs; // in the index's order
};

Inspection inspect(const std::string &path) noexcept;

/// Why bytes are no index that a runtime takes, or "" and the index over them.
std::string openIndex(std::string_view bytes, const std::string &name, Index &index) noexcept;

/// "", or that bytes of a file do not have the hash that the index has of them: what, with the file's name.
std::string checkRange(const Storage &storage, uint32_t file, uint64_t offset, uint64_t bytes) noexcept;

/// What is wrong with the content of an opened bundle, a line each: hashes of all files, code images, manifest.
std::vector<std::string> verify(const Storage &storage);

} // namespace mrcc::runtime
