// Reading bundles back for dump, diff and verify, through the runtime's own loader.
#include "Inspect.h"
#include "Layout.h"
#include "mrcc/Bundle/Hash.h"
#include "mrcc/Support/Sha256.h"
#include "llvm/ADT/StringExtras.h"
#include <fcntl.h>
#include <unistd.h>

using namespace mrcc;
using llvm::StringRef;

static llvm::Expected<runtime::Inspection> open(StringRef path) {
  runtime::Inspection opened = runtime::inspect(path.str());
  if (opened.code != MRCC_OK)
    return bundleError(opened.message, opened.code == MRCC_SYSTEM || opened.code == MRCC_OUT_OF_MEMORY);
  return opened;
}

static llvm::Expected<BundleInfo> describe(runtime::Inspection &opened) {
  return describeIndex(std::string(opened.storage->indexBytes()), std::move(opened.programs));
}

llvm::Expected<BundleInfo> mrcc::readBundle(StringRef path) {
  auto opened = open(path);
  if (!opened)
    return opened.takeError();
  auto info = describe(*opened);
  if (!info)
    return info.takeError();
  if (!readReport(opened->storage->manifest(), *info))
    return bundleError(opened->storage->manifestName() + ": missing or changed");
  return info;
}

llvm::Expected<BundleHeader> mrcc::readBundleHeader(StringRef path) {
  const std::string name = path.str();
  char bytes[sizeof(IndexHeader)];
  for (const std::string &file : {name + "/index", name}) {
    int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
      continue;
    ssize_t n = ::read(fd, bytes, sizeof bytes);
    close(fd);
    runtime::IndexVersion version = runtime::readVersion({bytes, size_t(std::max<ssize_t>(n, 0))});
    if (version.isIndex)
      return BundleHeader{version.version, version.producer};
  }
  return bundleError(name + ": not a bundle");
}

llvm::Expected<std::string> mrcc::toJson(const BundleInfo &info, StringRef path) {
  std::map<std::string, std::string> sha256;
  if (!path.empty()) {
    auto opened = open(path);
    if (!opened)
      return opened.takeError();
    auto hash = [](std::string_view bytes) {
      Sha256 sha;
      sha.update({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
      return sha.hex();
    };
    const runtime::Index &index = opened->storage->index();
    sha256["index"] = hash(opened->storage->indexBytes());
    for (uint32_t i = 0; i < index.files().size(); ++i)
      sha256[index.name(index.files()[i])] = hash(opened->storage->file(i).bytes);
  }
  return printInfo(info, sha256);
}

llvm::Expected<std::vector<std::string>> mrcc::verifyBundle(StringRef path) {
  runtime::Inspection opened = runtime::inspect(path.str());
  if (opened.code == MRCC_NOT_A_BUNDLE || opened.code == MRCC_SYSTEM || opened.code == MRCC_OUT_OF_MEMORY)
    return bundleError(opened.message, opened.code != MRCC_NOT_A_BUNDLE);
  if (opened.code != MRCC_OK)
    return std::vector<std::string>{opened.message};
  return runtime::verify(*opened.storage);
}

BundleReader::BundleReader(std::shared_ptr<const runtime::Storage> storage) : storage(std::move(storage)) {}
BundleReader::BundleReader(BundleReader &&) noexcept = default;
BundleReader::~BundleReader() = default;

llvm::Expected<BundleReader> BundleReader::open(StringRef path) {
  auto opened = ::open(path);
  if (!opened)
    return opened.takeError();
  return BundleReader(std::move(opened->storage));
}

llvm::Expected<llvm::ArrayRef<uint8_t>> BundleReader::read(uint32_t file, uint64_t offset, uint64_t bytes) const {
  if (std::string why = runtime::checkRange(*storage, file, offset, bytes); !why.empty())
    return bundleError(why);
  return llvm::arrayRefFromStringRef(storage->file(file).bytes).slice(offset, bytes);
}

llvm::Expected<llvm::ArrayRef<uint8_t>> BundleReader::constant(const ConstantRef &ref) const {
  if (const ConstantRecord *c = storage->index().find(ref))
    return read(c->file, c->offset, c->bytes);
  return bundleError(storage->bundleName() + ": no constant " + toHex(ref.hash));
}

llvm::Expected<llvm::ArrayRef<uint8_t>> BundleReader::image(StringRef target) const {
  const runtime::Index &index = storage->index();
  for (const KernelRecord &k : index.kernels())
    if (StringRef(index.text(index.targets()[k.target].name)) == target)
      return read(k.file, 0, storage->file(k.file).bytes.size());
  return bundleError(storage->bundleName() + ": no code for " + target);
}
