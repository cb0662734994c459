// Launch by launch: bind the family, intern its kernel, write the step.
#include "mrcc/Driver/Program.h"
#include "mrcc/Form/Site.h"
#include "mrcc/Form/Views.h"
#include "llvm/BinaryFormat/ELF.h"

using namespace mlir;
using namespace mrcc;

static std::string argName(func::FuncOp func, unsigned i) {
  auto name = func.getArgAttrOfType<StringAttr>(i, "mrc.name");
  return name ? name.str() : "arg" + std::to_string(i);
}

static std::string resultName(func::FuncOp func, unsigned i) {
  auto name = func.getResultAttrOfType<StringAttr>(i, "mrc.name");
  return name ? name.str() : "result" + std::to_string(i);
}

static TensorInfo infoOf(std::string name, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  TensorInfo info{std::move(name), toDType(tensor.getElementType()), {}};
  info.dims.assign(tensor.getShape().begin(), tensor.getShape().end());
  return info;
}

static bool isEmpty(Type type) { return cast<RankedTensorType>(type).getNumElements() == 0; }

static int64_t attrOr(func::FuncOp func, StringRef name) {
  auto attr = func->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : 0;
}

llvm::Expected<BuiltProgram> mrcc::buildProgram(func::FuncOp func, const Target &target, bool strictMath,
                                                llvm::function_ref<bool(Attribute)> isShared) {
  BuiltProgram built;
  BundleVariant &variant = built.variant;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    variant.inputs.push_back(infoOf(argName(func, i), func.getArgument(i).getType()));
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    variant.outputs.push_back(infoOf(resultName(func, i), func.getResultTypes()[i]));
  variant.arenaBytes = attrOr(func, "mrc.arena_bytes");
  variant.arenaLowerBound = attrOr(func, "mrc.arena_lower_bound");

  ViewAnalysis views(func);
  for (TypedAttr attr : constantTable(func, views)) {
    auto data = getConstant(attr, func.getContext());
    if (!data)
      return llvm::createStringError("a constant's bytes are not in the store");
    BundleConstant c;
    c.bytes = data->bytes;
    if (data->keeper || isa<DenseElementsAttr>(attr)) { // outlive the context
      built.owned.push_back(std::make_shared<std::vector<uint8_t>>(data->bytes.begin(), data->bytes.end()));
      c.bytes = *built.owned.back();
    }
    c.splat = data->isSplat;
    c.shared = isShared(attr);
    variant.constants.push_back(c);
  }

  std::map<std::string, uint32_t> kernelIndex;
  llvm::Error error = llvm::Error::success();
  func.walk([&](LaunchOp launch) {
    if (error || llvm::all_of(launch.getResultTypes(), isEmpty))
      return; // families may divide by the extents of what they write
    LaunchSite site = siteOf(launch);
    if (strictMath)
      site.config["strict"] = {1};
    const KernelFamily *family = KernelFamily::find(site.family);
    std::string where = nodeNames(launch.getLoc());
    if (!family) {
      error = llvm::createStringError("node '%s': no kernel family '%s'", where.c_str(), site.family.c_str());
      return;
    }
    auto bound = family->bind(site, target);
    if (!bound) {
      error = llvm::createStringError(std::errc::not_supported, "node '%s': %s", where.c_str(),
                                      llvm::toString(bound.takeError()).c_str());
      return;
    }
    if (bound->scratchBytes > maxWorkingBytes) {
      error = llvm::createStringError("node '%s': scratch memory of %lld bytes a thread, at most are 2^46",
                                      where.c_str(), (long long)bound->scratchBytes);
      return;
    }
    auto [it, isNew] = kernelIndex.try_emplace(bound->kernel.key(), variant.kernels.size());
    if (isNew) {
      variant.kernels.push_back(it->first);
      built.kernels.emplace(it->first, bound->kernel);
    }
    Step step;
    step.kernel = it->second;
    step.outputs = site.outputs;
    step.views = std::move(site.views);
    step.work = bound->work;
    for (const View &view : step.views)
      step.work.moved += view.space == Space::absent ? 0 : viewBytes(view);
    step.params = std::move(bound->params);
    step.units = bound->units;
    step.leastUnits = bound->leastUnits;
    step.scratchBytes = bound->scratchBytes;
    step.flops = bound->flops;
    step.location = std::move(where);
    variant.steps.push_back(std::move(step));
  });
  if (error)
    return std::move(error);
  return built;
}

BundleTarget mrcc::bundleTarget(const Target &target, CodeImage image) {
  BundleTarget out;
  out.name = target.name;
  out.features = target.features;
  out.machine = StringRef(target.triple).starts_with("aarch64") ? llvm::ELF::EM_AARCH64 : llvm::ELF::EM_X86_64;
  out.image = std::move(image.bytes);
  for (CodeImage::Entry &entry : image.kernels)
    out.kernels.push_back({entry.kernel.key(), entry.kernel.name(), entry.offset, entry.bytes});
  return out;
}
