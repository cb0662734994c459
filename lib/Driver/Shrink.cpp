#include "mrcc/Driver/Shrink.h"
#include "mrcc/Driver/Program.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace mrcc;
using llvm::Error;
using llvm::Expected;

namespace {

class Shrinker {
public:
  Shrinker(BundleReader reader, const BundleInfo &info) : info(info) {
    result.reader = std::make_unique<BundleReader>(std::move(reader));
  }
  Error variant(const BundleInfo::Variant &v);
  Error targets(unsigned jobs);
  ShrunkBundle result;

private:
  Expected<BundleConstant> constant(const ConstantRef &ref);
  const BundleInfo &info;
  std::map<std::string, uint32_t> targetNumbers;
  std::map<std::string, std::set<std::string>> kernels; // keys, by target
};

} // namespace

Expected<BundleConstant> Shrinker::constant(const ConstantRef &ref) {
  BundleConstant out;
  if (!ref.splat.empty()) {
    out.splat = true;
    out.bytes = ref.splat; // of `info`
    return out;
  }
  auto bytes = result.reader->constant(ref);
  if (!bytes)
    return bytes.takeError();
  out.bytes = *bytes;
  auto isIt = [&](const BundleInfo::Constant &c) { return c.hash == ref.hash && c.ordinal == ref.ordinal; };
  out.shared = llvm::find_if(info.constants, isIt)->shared; // the index has it, or reading would have failed
  return out;
}

Error Shrinker::variant(const BundleInfo::Variant &v) {
  const Program &p = v.program;
  BundleVariant out;
  out.key = p.key;
  out.target = targetNumbers.try_emplace(p.target, uint32_t(targetNumbers.size())).first->second;
  out.inputs = p.inputs;
  out.outputs = p.outputs;
  out.arenaBytes = p.arenaBytes;
  out.arenaLowerBound = p.arenaLowerBound;
  out.steps = p.steps;
  for (const ConstantRef &ref : p.constants) {
    auto c = constant(ref);
    if (!c)
      return c.takeError();
    out.constants.push_back(*c);
  }
  for (unsigned number : v.kernelNumbers) {
    out.kernels.push_back(info.kernels[number].key);
    kernels[p.target].insert(out.kernels.back());
  }
  result.contents.variants.push_back(std::move(out));
  return Error::success();
}

Error Shrinker::targets(unsigned jobs) {
  result.contents.targets.resize(targetNumbers.size());
  for (auto &[name, number] : targetNumbers) {
    const Target *known = Target::find(name);
    if (!known)
      return llvm::createStringError("target '%s' of the bundle is not known here", name.c_str());
    std::vector<KernelDescription> list;
    for (const std::string &key : kernels[name]) {
      auto kernel = KernelDescription::parse(key);
      if (!kernel)
        return llvm::createStringError("the bundle's kernel '%s' is not known here", key.c_str());
      list.push_back(std::move(*kernel));
    }
    auto image = compileKernels(std::move(list), *known, jobs);
    if (!image)
      return image.takeError();
    result.contents.targets[number] = bundleTarget(*known, std::move(*image));
  }
  return Error::success();
}

Expected<ShrunkBundle> mrcc::shrinkBundle(llvm::StringRef path, const BundleInfo &info,
                                          llvm::function_ref<bool(const BundleInfo::Variant &)> keep, unsigned jobs) {
  auto reader = BundleReader::open(path);
  if (!reader)
    return reader.takeError();
  Shrinker shrinker(std::move(*reader), info);
  BundleContents &contents = shrinker.result.contents;
  contents.model = info.model;
  contents.producer = info.producer;
  contents.flags = info.flags;
  std::set<std::string> stages = {"simplify"};
  for (const BundleInfo::Variant &v : info.variants)
    if (keep(v)) {
      stages.insert("specialize " + v.program.key);
      if (Error error = shrinker.variant(v))
        return std::move(error);
    }
  for (const BundleFold &fold : info.folded)
    if (stages.count(fold.stage))
      contents.folded.push_back(fold);
  if (Error error = shrinker.targets(jobs))
    return std::move(error);
  return std::move(shrinker.result);
}
