// mrcc remove: drops resolutions from a bundle, in place and without the model. The result is what a compile of the
// rest gives.
#include "Pipeline.h"
#include "mrcc/Driver/Shrink.h"
#include "llvm/ADT/StringExtras.h"

using namespace mrcc;
using namespace mrcc::tool;

namespace {

struct RemoveArguments {
  std::string bundle;
  ShapeOptions shapes;
  unsigned jobs = 0;
};

/// The bundle's inputs as its model states them, so that shape options mean what they meant when it was compiled.
ModelInfo modelOf(const BundleInfo &info) {
  ModelInfo model;
  for (const TensorInfo &input : info.variants.front().program.inputs) {
    ModelTensor &t = model.inputs.emplace_back();
    t.name = input.name;
    t.type = input.type;
    for (const BundleModel::Tensor &stated : info.model.inputs) {
      if (stated.name != input.name || stated.dims.size() != input.dims.size())
        continue;
      for (const std::string &d : stated.dims) {
        bool number = d.find_first_not_of("0123456789") == std::string::npos;
        t.dims.push_back(number ? std::stoll(d) : -1);
        t.symbols.push_back(number || d == "?" ? "" : d);
      }
    }
    t.ranked = t.dims.size() == input.dims.size();
  }
  return model;
}

std::vector<std::vector<int64_t>> dimsOf(const BundleInfo::Variant &v) {
  std::vector<std::vector<int64_t>> dims;
  for (const TensorInfo &input : v.program.inputs)
    dims.push_back(input.dims);
  return dims;
}

llvm::Error removeFrom(const BundleLock &lock, const RemoveArguments &arguments, const BundleInfo &info,
                       Console &console) {
  auto asked = resolveShapes(modelOf(info), {}, arguments.shapes);
  if (!asked)
    return asked.takeError();
  for (const std::string &note : asked->notes)
    console.note(note);
  std::set<std::vector<std::vector<int64_t>>> gone;
  for (const VariantShapes &shapes : asked->variants) {
    auto same = [&](const BundleInfo::Variant &v) { return dimsOf(v) == shapes.dims; };
    if (llvm::none_of(info.variants, same)) {
      std::vector<std::string> keys, names;
      for (const BundleInfo::Variant &v : info.variants)
        if (!llvm::is_contained(keys, v.program.key))
          keys.push_back(v.program.key);
      for (const TensorInfo &input : info.variants.front().program.inputs)
        names.push_back(input.name);
      return llvm::createStringError(arguments.bundle + " has no shape " + variantKey(names, shapes) + "; it has " +
                                     llvm::join(keys, ", "));
    }
    gone.insert(shapes.dims);
  }
  auto keep = [&](const BundleInfo::Variant &v) { return !gone.count(dimsOf(v)); };
  if (llvm::none_of(info.variants, keep))
    return usageError("nothing would be left of " + arguments.bundle + "; delete the folder instead");
  auto shrunk = shrinkBundle(arguments.bundle, info, keep, arguments.jobs);
  if (!shrunk)
    return shrunk.takeError();
  return writeBundle(lock, arguments.bundle, shrunk->contents);
}

} // namespace

static int remove(const RemoveArguments &arguments, Console &console) {
  const ShapeOptions &o = arguments.shapes;
  if (o.sizes.empty() && o.dims.empty() && o.shapes.empty() && o.shapesFile.empty())
    return console.fail(usageError("remove: name the shapes by --size, --dim, --shape or --shapes-file"), wrongUsage);
  auto info = readBundle(arguments.bundle);
  if (!info) // before the lock, which makes a folder
    return console.fail(info.takeError(), rejected);
  auto lock = BundleLock::acquire(arguments.bundle);
  if (!lock)
    return console.fail(lock.takeError(), systemFailed);
  info = readBundle(arguments.bundle);
  llvm::Error error = info ? checkProducer(arguments.bundle, *info) : info.takeError();
  if (!error)
    error = removeFrom(*lock, arguments, *info, console);
  return error ? console.fail(std::move(error), rejected) : done;
}

void tool::addRemove(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, RemoveArguments &o) {
    sub.add_option("bundle", o.bundle, "NAME.mrcb, changed in place")->required();
    declareShapes(sub, o.shapes);
    declareJobs(sub, o.jobs);
  };
  addCommand<RemoveArguments>(app, chosen, "remove", "drop resolutions from a bundle", declare, remove);
}
