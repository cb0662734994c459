// From contents to bytes. Order makes the bytes: constants by hash, targets best first, kernels by id, variants by
// dims, files in the order of their tables; so nothing depends on the order in which the driver found things.
#include "Layout.h"
#include "mrcc/Bundle/Archive.h"
#include "mrcc/Bundle/Hash.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>
#include <set>
#include <unordered_map>

using namespace mrcc;
using llvm::ArrayRef;
using llvm::Twine;

char BundleError::ID = 0;
void BundleError::log(llvm::raw_ostream &os) const { os << message; }

llvm::Error mrcc::bundleError(const Twine &message, bool system) {
  return llvm::make_error<BundleError>(message.str(), system);
}

namespace {

/// A constant that some variant uses.
struct Stored {
  ArrayRef<uint8_t> bytes;
  Hash128 hash;
  uint32_t ordinal = 0;
  bool shared = false;
  uint32_t file = 0;
  uint64_t offset = 0;
};

/// The constants of all variants by content. A hash finds candidates, the bytes decide.
class ConstantPool {
public:
  explicit ConstantPool(bool collide) : collide(collide) {}

  unsigned add(const BundleConstant &c) {
    auto [place, isNew] = byAddress.try_emplace({c.bytes.data(), c.bytes.size()}, 0u);
    if (isNew)
      place->second = find(c.bytes);
    all[place->second].shared |= c.shared;
    return place->second;
  }

  /// Sorts by (hash, bytes) and gives each its ordinal. Returns new positions by the numbers that `add` gave.
  std::vector<unsigned> sort() {
    std::vector<unsigned> order(all.size()), position(all.size());
    for (unsigned i = 0; i < order.size(); ++i)
      order[i] = i;
    llvm::sort(order, [&](unsigned a, unsigned b) {
      return all[a].hash != all[b].hash ? all[a].hash < all[b].hash
                                        : std::lexicographical_compare(all[a].bytes.begin(), all[a].bytes.end(),
                                                                       all[b].bytes.begin(), all[b].bytes.end());
    });
    std::vector<Stored> sorted;
    for (unsigned i : order) {
      position[i] = sorted.size();
      sorted.push_back(all[i]);
      if (sorted.size() > 1 && sorted[sorted.size() - 2].hash == sorted.back().hash)
        sorted.back().ordinal = sorted[sorted.size() - 2].ordinal + 1;
    }
    all = std::move(sorted);
    return position;
  }

  std::vector<Stored> all;

private:
  unsigned find(ArrayRef<uint8_t> bytes) {
    const Hash128 hash = collide ? Hash128{} : hashBytes(bytes.data(), bytes.size());
    auto [first, last] = byHash.equal_range(hash.low);
    for (auto it = first; it != last; ++it)
      if (all[it->second].hash == hash && all[it->second].bytes == bytes)
        return it->second;
    byHash.emplace(hash.low, all.size());
    all.push_back({bytes, hash});
    return all.size() - 1;
  }

  bool collide;
  llvm::DenseMap<std::pair<const uint8_t *, size_t>, unsigned> byAddress; // one store's entries have one address
  std::unordered_multimap<uint64_t, unsigned> byHash;
};

/// A section of texts, each once and with a zero byte behind it.
class Texts {
public:
  Text add(llvm::StringRef text) {
    auto [it, isNew] = known.try_emplace(text, Text{uint32_t(bytes.size()), uint32_t(text.size())});
    if (isNew)
      bytes.append(text.data(), text.size()).push_back('\0');
    return it->second;
  }
  std::string bytes;

private:
  llvm::StringMap<Text> known;
};

/// Letters and digits as they are, the rest as `-` or `_`: for file names.
std::string fileWord(llvm::StringRef text, char otherwise, size_t most) {
  std::string word;
  for (char c : text.take_front(most))
    word += llvm::isAlnum(c) || c == '.' || c == '=' || c == '-' || c == '_' ? c : otherwise;
  return word;
}

class Builder {
public:
  explicit Builder(const BundleContents &contents) : contents(contents), pool(contents.collideHashes) {}

  llvm::Expected<BundleLayout> build() {
    if (llvm::Error e = checkContents())
      return std::move(e);
    orderTargets();
    for (const BundleVariant &v : contents.variants)
      if (llvm::Error e = draftProgram(v))
        return std::move(e);
    placeConstants();
    if (llvm::Error e = placeCode())
      return std::move(e);
    if (llvm::Error e = finishPrograms())
      return std::move(e);
    if (llvm::Error e = writeIndex())
      return std::move(e);
    return std::move(result);
  }

private:
  llvm::Error checkContents() {
    if (contents.producer.size() >= sizeof IndexHeader::producer)
      return bundleError("producer '" + contents.producer + "' is too long");
    if (contents.variants.empty() || contents.targets.empty())
      return bundleError("a bundle needs a variant and a target");
    for (const BundleVariant &v : contents.variants)
      if (v.target >= contents.targets.size())
        return bundleError(v.key + ": target " + Twine(v.target) + " does not exist");
    return llvm::Error::success();
  }

  /// Best first: the one that needs more of the CPU.
  void orderTargets() {
    for (unsigned i = 0; i < contents.targets.size(); ++i)
      targets.push_back(i);
    llvm::sort(targets, [&](unsigned a, unsigned b) {
      const BundleTarget &x = contents.targets[a], &y = contents.targets[b];
      return x.features.size() != y.features.size() ? x.features.size() > y.features.size() : x.name < y.name;
    });
    for (unsigned place = 0; place < targets.size(); ++place)
      targetPlace[targets[place]] = place;
  }

  /// A program whose tables hold what its steps use, in the order of first use.
  llvm::Error draftProgram(const BundleVariant &v) {
    Draft &draft = drafts.emplace_back();
    draft.target = targetPlace[v.target];
    Program &p = draft.program;
    const BundleTarget &target = contents.targets[v.target];
    p.key = v.key;
    p.target = target.name;
    p.inputs = v.inputs;
    p.outputs = v.outputs;
    p.arenaBytes = v.arenaBytes;
    p.arenaLowerBound = v.arenaLowerBound;
    p.steps = v.steps;
    std::vector<int64_t> kernelPlace(v.kernels.size(), -1), constantPlace(v.constants.size(), -1);
    std::map<Hash128, uint32_t> kernelsSeen;
    std::map<unsigned, uint32_t> constantsSeen; // by number in the pool
    std::map<std::vector<uint8_t>, uint32_t> splatsSeen;
    for (Step &step : p.steps) {
      if (step.kernel >= v.kernels.size())
        return bundleError(v.key + ": " + step.location + ": kernel " + Twine(step.kernel) + " does not exist");
      int64_t &k = kernelPlace[step.kernel];
      if (k < 0) {
        const Hash128 id = kernelId(target.name, v.kernels[step.kernel]);
        auto [it, isNew] = kernelsSeen.try_emplace(id, p.kernels.size());
        if (isNew)
          p.kernels.push_back(id);
        k = it->second;
      }
      step.kernel = k;
      for (View &view : step.views) {
        if (view.space != Space::constant)
          continue;
        if (view.index >= v.constants.size())
          return bundleError(v.key + ": " + step.location + ": constant " + Twine(view.index) + " does not exist");
        const BundleConstant &c = v.constants[view.index];
        int64_t &place = constantPlace[view.index];
        if (place < 0 && c.splat) {
          if (c.bytes.empty() || c.bytes.size() > 16)
            return bundleError(v.key + ": a repeated value of " + Twine(c.bytes.size()) + " bytes");
          auto [it, isNew] = splatsSeen.try_emplace(c.bytes.vec(), draft.constants.size());
          if (isNew) {
            draft.constants.push_back(-1);
            p.constants.push_back({{}, 0, c.bytes.size(), c.bytes.vec()});
          }
          place = it->second;
        } else if (place < 0) {
          const unsigned number = pool.add(c);
          auto [it, isNew] = constantsSeen.try_emplace(number, draft.constants.size());
          if (isNew) {
            draft.constants.push_back(number);
            p.constants.push_back({{}, 0, c.bytes.size(), {}});
          }
          place = it->second;
        }
        view.index = place;
      }
    }
    return llvm::Error::success();
  }

  void placeConstants() {
    const std::vector<unsigned> position = pool.sort();
    for (bool shared : {true, false}) {
      DataFile file;
      file.kind = shared ? FileKind::sharedConstants : FileKind::specialisedConstants;
      for (Stored &c : pool.all) {
        if (c.shared != shared)
          continue;
        c.offset = llvm::alignTo(file.bytes, alignment);
        c.file = result.files.size();
        file.pieces.push_back({c.offset, c.bytes});
        file.bytes = c.offset + c.bytes.size();
      }
      if (!file.pieces.empty())
        addFile(std::move(file), "constants-", ".bin");
    }
    for (Draft &draft : drafts)
      for (size_t i = 0; i < draft.constants.size(); ++i)
        if (draft.constants[i] >= 0) {
          const Stored &c = pool.all[position[draft.constants[i]]];
          draft.program.constants[i].hash = c.hash;
          draft.program.constants[i].ordinal = c.ordinal;
        }
  }

  llvm::Error placeCode() {
    std::set<Hash128> called;
    for (const Draft &draft : drafts)
      called.insert(draft.program.kernels.begin(), draft.program.kernels.end());
    for (unsigned place = 0; place < targets.size(); ++place) {
      const BundleTarget &target = contents.targets[targets[place]];
      const uint32_t number = result.files.size();
      for (const BundleKernel &k : target.kernels) {
        const Hash128 id = kernelId(target.name, k.key);
        if (!called.erase(id))
          return bundleError(target.name + ": no variant calls kernel " + k.name + ", or it is there twice");
        kernels.push_back({id, texts.add(k.name), texts.add(k.key), number, place, k.offset, k.bytes});
      }
      if (target.kernels.empty())
        continue;
      DataFile file;
      file.kind = FileKind::code;
      file.bytes = target.image.size();
      file.pieces.push_back({0, {reinterpret_cast<const uint8_t *>(target.image.data()), target.image.size()}});
      addFile(std::move(file), "code-" + fileWord(target.name, '-', 40) + "-", ".bin");
    }
    for (const BundleVariant &v : contents.variants)
      for (const std::string &key : v.kernels)
        if (called.count(kernelId(contents.targets[v.target].name, key)))
          return bundleError(v.key + ": " + contents.targets[v.target].name + " has no kernel '" + key + "'");
    llvm::sort(kernels, [](const KernelRecord &a, const KernelRecord &b) { return a.id < b.id; });
    return llvm::Error::success();
  }

  llvm::Error finishPrograms() {
    auto order = [](const Draft &d) {
      std::vector<std::vector<int64_t>> dims;
      for (const TensorInfo &t : d.program.inputs)
        dims.push_back(t.dims);
      return std::make_tuple(dims, d.target, d.program.key);
    };
    llvm::sort(drafts, [&](const Draft &a, const Draft &b) { return order(a) < order(b); });
    for (size_t i = 1; i < drafts.size(); ++i)
      if (order(drafts[i - 1]) == order(drafts[i]))
        return bundleError(drafts[i].program.key + " is there twice");
    for (Draft &draft : drafts) {
      DataFile file;
      file.kind = FileKind::program;
      file.owned = toBytes(draft.program, programMark);
      file.bytes = file.owned.size();
      draft.file = result.files.size();
      addFile(std::move(file), "variants/" + fileWord(draft.program.key, '_', 60) + "-", ".mrcv");
    }
    for (DataFile &file : result.files) // only now do strings stay where they are
      if (file.kind == FileKind::program)
        file.pieces.push_back({0, {reinterpret_cast<const uint8_t *>(file.owned.data()), file.owned.size()}});
    return llvm::Error::success();
  }

  /// Hashes the content, in blocks too if it is no program, and names the file by it.
  void addFile(DataFile file, const std::string &front, const char *back) {
    Hasher whole, block;
    FileRecord record{};
    record.firstBlock = blocks.size();
    uint64_t inBlock = 0;
    const bool inBlocks = file.kind != FileKind::program;
    auto endBlock = [&] {
      blocks.push_back(block.finish());
      block = Hasher();
      inBlock = 0;
    };
    auto sink = [&](const char *bytes, uint64_t size) {
      whole.add(bytes, size);
      while (inBlocks && size) {
        const uint64_t part = std::min(size, blockBytes - inBlock);
        block.add(bytes, part);
        bytes += part;
        size -= part;
        if ((inBlock += part) == blockBytes)
          endBlock();
      }
      return true;
    };
    if (inBlocks)
      file.stream(sink);
    else
      sink(file.owned.data(), file.owned.size());
    if (inBlock)
      endBlock();
    record.hash = whole.finish();
    file.name = front + toHex(record.hash) + back;
    record.name = texts.add(file.name);
    record.kind = file.kind;
    record.numBlocks = blocks.size() - record.firstBlock;
    record.bytes = file.bytes;
    fileRecords.push_back(record);
    result.files.push_back(std::move(file));
  }

  uint32_t addTensors(const std::vector<TensorInfo> &infos) {
    const uint32_t first = tensors.size();
    for (const TensorInfo &t : infos) {
      tensors.push_back({texts.add(t.name), uint32_t(t.type), uint32_t(t.dims.size()), uint32_t(dims.size()), 0});
      dims.insert(dims.end(), t.dims.begin(), t.dims.end());
    }
    return first;
  }

  llvm::Error writeIndex() {
    std::vector<Program> programs;
    for (const Draft &draft : drafts) {
      const Program &p = draft.program;
      VariantRecord v{};
      v.key = texts.add(p.key);
      v.target = draft.target;
      v.file = draft.file;
      v.firstInput = addTensors(p.inputs);
      v.numInputs = p.inputs.size();
      v.firstOutput = addTensors(p.outputs);
      v.numOutputs = p.outputs.size();
      v.arenaBytes = p.arenaBytes;
      v.numSteps = p.steps.size();
      for (const Step &step : p.steps)
        v.scratchBytes = std::max(v.scratchBytes, step.scratchBytes);
      variants.push_back(v);
      programs.push_back(p);
    }
    // The numbers of variants and then the manifest come from the same description that `dump` prints.
    auto described = describeIndex(assemble({}), std::move(programs));
    if (!described)
      return described.takeError();
    BundleInfo info = std::move(*described);
    for (size_t i = 0; i < variants.size(); ++i) {
      const BundleInfo::Variant &from = info.variants[i];
      VariantRecord &v = variants[i];
      v.constantBytes = from.constantBytes;
      v.uniqueConstantBytes = from.uniqueConstantBytes;
      v.codeBytes = from.codeBytes;
      v.uniqueCodeBytes = from.uniqueCodeBytes;
      v.preparedBytes = from.preparedBytes;
      v.flops = from.flops;
      v.numKernels = from.kernels;
      v.uniqueKernels = from.uniqueKernels;
    }
    info.model = contents.model;
    info.flags = contents.flags;
    info.folded = contents.folded;
    llvm::sort(info.folded, [](const BundleFold &a, const BundleFold &b) {
      return std::tie(a.stage, a.node, a.ops, a.bytesBefore) < std::tie(b.stage, b.node, b.ops, b.bytesBefore);
    });
    auto manifest = toJson(info);
    if (!manifest)
      return manifest.takeError();
    result.manifest = std::move(*manifest);
    result.index = assemble(result.manifest);
    return llvm::Error::success();
  }

  /// The index's bytes with the hash of this manifest.
  std::string assemble(const std::string &manifest) {
    IndexHeader header{};
    std::memcpy(header.magic, indexMagic, sizeof indexMagic);
    header.formatVersion = formatVersion;
    header.headerBytes = sizeof header;
    std::memcpy(header.producer, contents.producer.data(), contents.producer.size());
    header.manifestHash = hashBytes(manifest);
    header.manifestBytes = manifest.size();
    header.model = texts.add(contents.model.name);
    std::vector<TargetRecord> targetRecords;
    for (unsigned i : targets) {
      const BundleTarget &t = contents.targets[i];
      targetRecords.push_back(
          {texts.add(t.name), texts.add(llvm::join(t.features, " ")), t.machine, uint32_t(t.features.size())});
    }
    std::vector<ConstantRecord> constants;
    for (const Stored &c : pool.all)
      constants.push_back({c.hash, c.ordinal, c.file, c.offset, c.bytes.size()});

    std::string bytes(sizeof header, '\0');
    auto add = [&](const auto &records) -> Section {
      bytes.resize(llvm::alignTo(bytes.size(), 8));
      Section section{bytes.size(), records.size()};
      bytes.append(reinterpret_cast<const char *>(records.data()), records.size() * sizeof(*records.data()));
      return section;
    };
    header.files = add(fileRecords);
    header.targets = add(targetRecords);
    header.variants = add(variants);
    header.tensors = add(tensors);
    header.dims = add(dims);
    header.constants = add(constants);
    header.kernels = add(kernels);
    header.blocks = add(blocks);
    header.strings = add(texts.bytes);
    header.indexBytes = bytes.size();
    std::memcpy(bytes.data(), &header, sizeof header);
    header.hash = hashOfIndex(bytes.data(), bytes.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
  }

  struct Draft {
    Program program;
    std::vector<int64_t> constants; // numbers in the pool of program.constants, -1 for repeated values
    uint32_t target = 0, file = 0;
  };
  const BundleContents &contents;
  BundleLayout result;
  ConstantPool pool;
  std::vector<unsigned> targets; // numbers in contents.targets, best first
  std::map<unsigned, uint32_t> targetPlace;
  std::vector<Draft> drafts;
  Texts texts;
  std::vector<FileRecord> fileRecords;
  std::vector<VariantRecord> variants;
  std::vector<TensorRecord> tensors;
  std::vector<int64_t> dims;
  std::vector<KernelRecord> kernels;
  std::vector<Hash128> blocks;
};

} // namespace

llvm::Expected<BundleLayout> mrcc::layOut(const BundleContents &contents) { return Builder(contents).build(); }
