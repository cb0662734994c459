#include "Inspect.h"
#include "Check.h"
#include "Failure.h"
#include "Image.h"
#include <new>

using namespace mrcc;
using namespace mrcc::runtime;

Inspection runtime::inspect(const std::string &path) noexcept {
  Inspection result{MRCC_OK, {}, nullptr, {}};
  try {
    auto storage = std::make_unique<Storage>(Storage::openPath(path));
    for (const VariantRecord &v : storage->index().variants()) {
      storage->verifyFile(v.file);
      result.programs.push_back(readProgram(storage->file(v.file).bytes, storage->index(), v, storage->name(v.file)));
    }
    result.storage = std::move(storage);
  } catch (Failure &failure) {
    result.code = failure.code;
    result.message = std::move(failure.message);
  } catch (const std::exception &) {
    result.code = MRCC_OUT_OF_MEMORY;
  }
  if (result.code != MRCC_OK)
    result.programs.clear();
  return result;
}

std::string runtime::openIndex(std::string_view bytes, const std::string &name, Index &index) noexcept {
  try {
    index = Index(bytes, name);
    return "";
  } catch (Failure &failure) {
    return std::move(failure.message);
  }
}

std::string runtime::checkRange(const Storage &storage, uint32_t file, uint64_t offset, uint64_t bytes) noexcept {
  try {
    for (uint64_t block = offset / blockBytes; bytes && block <= (offset + bytes - 1) / blockBytes; ++block)
      storage.verifyBlock(file, block);
    return "";
  } catch (Failure &failure) {
    return std::move(failure.message);
  }
}

std::vector<std::string> runtime::verify(const Storage &storage) {
  std::vector<std::string> problems;
  auto attempt = [&](auto check) {
    try {
      check();
    } catch (Failure &failure) {
      problems.push_back(std::move(failure.message));
    }
  };
  const Index &index = storage.index();
  for (uint32_t i = 0; i < index.files().size(); ++i) {
    attempt([&] { storage.verifyFile(i); });
    for (uint64_t block = 0; block < index.files()[i].numBlocks; ++block)
      attempt([&] { storage.verifyBlock(i, block); });
  }
  std::vector<Image> images(index.files().size());
  std::vector<bool> seen(images.size());
  for (const KernelRecord &kernel : index.kernels())
    attempt([&] {
      const std::string name = storage.name(kernel.file);
      bool copied;
      if (!seen[kernel.file]) {
        seen[kernel.file] = true;
        images[kernel.file] =
            Image::load(storage.file(kernel.file), name, index.targets()[kernel.target].machine, copied);
      }
      if (!images[kernel.file].function(kernel.offset, kernel.bytes))
        damaged(name, "kernel " + std::string(index.text(kernel.name)) + " lies outside the code");
    });
  if (storage.manifest().empty())
    problems.push_back(storage.manifestName() + ": missing or changed");
  return problems;
}
