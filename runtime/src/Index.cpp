#include "Index.h"
#include "Failure.h"
#include "mrcc/Bundle/Hash.h"
#include <algorithm>

using namespace mrcc;
using namespace mrcc::runtime;

static std::string producerOf(const char (&field)[32]) { return {field, strnlen(field, sizeof field)}; }

IndexVersion runtime::readVersion(std::string_view bytes) {
  IndexVersion result;
  IndexHeader header{};
  constexpr size_t fixedPart = offsetof(IndexHeader, hash);
  if (bytes.size() < fixedPart || std::memcmp(bytes.data(), indexMagic, sizeof indexMagic) != 0)
    return result;
  std::memcpy(static_cast<void *>(&header), bytes.data(), fixedPart);
  return {true, header.formatVersion, producerOf(header.producer)};
}

std::string_view Index::producer() const {
  return {header().producer, strnlen(header().producer, sizeof header().producer)};
}

const ConstantRecord *Index::find(const ConstantRef &ref) const {
  auto all = constants();
  auto it = std::lower_bound(all.begin(), all.end(), ref, [](const ConstantRecord &a, const ConstantRef &b) {
    return a.hash != b.hash ? a.hash < b.hash : a.ordinal < b.ordinal;
  });
  return it != all.end() && it->hash == ref.hash && it->ordinal == ref.ordinal ? &*it : nullptr;
}

const KernelRecord *Index::findKernel(const Hash128 &id) const {
  auto all = kernels();
  auto it =
      std::lower_bound(all.begin(), all.end(), id, [](const KernelRecord &a, const Hash128 &b) { return a.id < b; });
  return it != all.end() && it->id == id ? &*it : nullptr;
}

namespace {

/// Checks an index from the outside in: sections first, then what records refer to.
class Checker {
public:
  Checker(const Index &index, std::string_view bytes, const std::string &name)
      : index(index), bytes(bytes), name(name) {}

  void check() {
    const IndexHeader &h = index.header();
    section(h.files, sizeof(FileRecord));
    section(h.targets, sizeof(TargetRecord));
    section(h.variants, sizeof(VariantRecord));
    section(h.tensors, sizeof(TensorRecord));
    section(h.dims, sizeof(int64_t));
    section(h.constants, sizeof(ConstantRecord));
    section(h.kernels, sizeof(KernelRecord));
    section(h.blocks, sizeof(Hash128));
    section(h.strings, 1);
    text(h.model);
    files();
    targets();
    tensors();
    variants();
    constants();
    kernels();
  }

private:
  void require(bool good, const char *what) {
    if (!good)
      damaged(name, what);
  }
  void section(const Section &s, size_t record) {
    require(s.offset % 8 == 0 && s.offset <= bytes.size() && s.count <= (bytes.size() - s.offset) / record,
            "a section lies outside the file");
  }
  void text(Text t) {
    const Section &s = index.header().strings;
    require(uint64_t(t.offset) + t.length < s.count, "a text lies outside its section");
    require(bytes[s.offset + t.offset + t.length] == 0, "a text does not end");
  }
  /// Relative, and nothing that leaves the folder.
  void fileName(Text t) {
    text(t);
    std::string_view path = index.text(t);
    require(!path.empty() && path.front() != '/' && path.find('\0') == path.npos, "a file name is not relative");
    for (size_t begin = 0; begin <= path.size();) {
      size_t end = std::min(path.find('/', begin), path.size());
      std::string_view part = path.substr(begin, end - begin);
      require(!part.empty() && part != "." && part != "..", "a file name leaves the folder");
      begin = end + 1;
    }
  }
  void files() {
    for (const FileRecord &f : index.files()) {
      fileName(f.name);
      require(f.kind >= FileKind::sharedConstants && f.kind <= FileKind::program, "a file of unknown kind");
      require(f.bytes < uint64_t(1) << 48, "a file of impossible size");
      uint64_t blocks = f.kind == FileKind::program ? 0 : (f.bytes + blockBytes - 1) / blockBytes;
      require(f.numBlocks == blocks && uint64_t(f.firstBlock) + f.numBlocks <= index.blocks().size(),
              "hashes of a file's blocks are missing");
    }
  }
  void file(uint32_t number, FileKind a, FileKind b) {
    require(number < index.files().size(), "a file that is not listed");
    FileKind kind = index.files()[number].kind;
    require(kind == a || kind == b, "a file of the wrong kind");
  }
  void targets() {
    require(!index.targets().empty(), "no target");
    for (const TargetRecord &t : index.targets()) {
      text(t.name);
      text(t.features);
    }
  }
  void tensors() {
    for (const TensorRecord &t : index.tensors()) {
      text(t.name);
      require(uint64_t(t.firstDim) + t.rank <= index.dims().size(), "dims lie outside their section");
      require(t.type <= uint32_t(lastDType), "an unknown element type");
      DType type = DType(t.type);
      require(type == DType::none ||
                  (bitWidth(type) != 0 && denseBytes(type, index.dims().subspan(t.firstDim, t.rank))),
              "a tensor of impossible size");
    }
  }
  void variants() {
    require(!index.variants().empty(), "no variant");
    const VariantRecord &first = index.variants()[0];
    for (const VariantRecord &v : index.variants()) {
      text(v.key);
      require(v.target < index.targets().size(), "a target that is not listed");
      file(v.file, FileKind::program, FileKind::program);
      const uint64_t count = index.tensors().size();
      require(uint64_t(v.firstInput) + v.numInputs <= count && uint64_t(v.firstOutput) + v.numOutputs <= count,
              "tensors lie outside their section");
      require(v.numInputs == first.numInputs && v.numOutputs == first.numOutputs,
              "variants differ in their number of tensors");
      for (uint32_t i = 0; i < v.numInputs; ++i)
        sameName(v.firstInput + i, first.firstInput + i);
      for (uint32_t i = 0; i < v.numOutputs; ++i)
        sameName(v.firstOutput + i, first.firstOutput + i);
      require(v.arenaBytes <= maxWorkingBytes && v.scratchBytes <= maxWorkingBytes,
              "working memory of impossible size");
    }
  }
  void sameName(uint32_t a, uint32_t b) {
    require(index.text(index.tensors()[a].name) == index.text(index.tensors()[b].name),
            "variants differ in the names of their tensors");
  }
  void constants() {
    const ConstantRecord *before = nullptr;
    for (const ConstantRecord &c : index.constants()) {
      file(c.file, FileKind::sharedConstants, FileKind::specialisedConstants);
      uint64_t size = index.files()[c.file].bytes;
      require(c.offset % alignment == 0 && c.offset <= size && c.bytes <= size - c.offset,
              "a constant lies outside its file");
      require(!before || before->hash < c.hash || (before->hash == c.hash && before->ordinal < c.ordinal),
              "constants are not sorted");
      before = &c;
    }
  }
  void kernels() {
    const KernelRecord *before = nullptr;
    for (const KernelRecord &k : index.kernels()) {
      text(k.name);
      text(k.key);
      file(k.file, FileKind::code, FileKind::code);
      require(k.target < index.targets().size(), "a target that is not listed");
      require(!before || before->id < k.id, "kernels are not sorted");
      before = &k;
    }
  }

  const Index &index;
  std::string_view bytes;
  const std::string &name;
};

} // namespace

Index::Index(std::string_view bytes, const std::string &name) : bytes(bytes) {
  IndexVersion found = readVersion(bytes);
  if (!found.isIndex) {
    if (bytes.size() < sizeof(IndexHeader) && std::string_view(indexMagic, 8).starts_with(bytes.substr(0, 8)))
      damaged(name, "cut to " + std::to_string(bytes.size()) + " bytes");
    fail(MRCC_NOT_A_BUNDLE, name, name + ": not an index of a bundle");
  }
  if (found.version != formatVersion)
    fail(MRCC_WRONG_VERSION, name,
         name + ": format version " + std::to_string(found.version) + ", written by " + found.producer +
             "; this runtime reads version " + std::to_string(formatVersion) + ": " +
             (found.version < formatVersion ? "compile the bundle again" : "use a newer runtime, or compile it again"));
  if (bytes.size() < sizeof(IndexHeader) || header().headerBytes != sizeof(IndexHeader))
    damaged(name, "the header has another size");
  if (header().indexBytes != bytes.size())
    damaged(name, std::to_string(bytes.size()) + " bytes, its header says " + std::to_string(header().indexBytes));
  if (hashOfIndex(bytes.data(), bytes.size()) != header().hash)
    damaged(name, "wrong hash");
  Checker(*this, bytes, name).check();
}
