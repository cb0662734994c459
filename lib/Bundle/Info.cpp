// What is in a bundle: from index and programs to BundleInfo, and from BundleInfo to JSON and back.
#include "Inspect.h"
#include "Layout.h"
#include "mrcc/Bundle/Hash.h"
#include "mrcc/IR/Mrc.h"
#include <nlohmann/json.hpp>
#include <set>

using namespace mrcc;
using Json = nlohmann::ordered_json;

llvm::Expected<BundleInfo> mrcc::describeIndex(const std::string &bytes, std::vector<Program> programs) {
  runtime::Index index;
  if (std::string why = runtime::openIndex(bytes, "index", index); !why.empty())
    return bundleError(why);
  BundleInfo info;
  info.version = index.header().formatVersion;
  info.producer = std::string(index.producer());
  info.files.push_back({"index", bytes.size(), ""});
  for (const FileRecord &f : index.files()) {
    info.files.push_back({index.name(f), f.bytes, toHex(f.hash)});
    if (f.kind == FileKind::sharedConstants || f.kind == FileKind::specialisedConstants)
      info.paddingBytes += f.bytes; // the constants' own bytes are taken off below
  }
  for (const TargetRecord &t : index.targets())
    info.targets.push_back({std::string(index.text(t.name)), std::string(index.text(t.features))});
  for (const KernelRecord &k : index.kernels()) {
    BundleInfo::Target &target = info.targets[k.target];
    info.kernels.push_back(
        {std::string(index.text(k.name)), std::string(index.text(k.key)), target.name, k.bytes, k.offset});
    target.imageBytes = index.files()[k.file].bytes;
  }
  for (const ConstantRecord &c : index.constants()) {
    info.constants.push_back(
        {c.hash, c.ordinal, c.bytes, c.offset, index.files()[c.file].kind == FileKind::sharedConstants});
    info.constantBytes += c.bytes;
  }
  info.paddingBytes -= info.constantBytes;
  for (size_t i = 0; i < programs.size(); ++i) {
    const VariantRecord &record = index.variants()[i];
    BundleInfo::Variant &v = info.variants.emplace_back();
    v.artifactBytes = index.files()[record.file].bytes;
    v.scratchBytes = record.scratchBytes;
    v.program = std::move(programs[i]);
    for (const Hash128 &id : v.program.kernels)
      v.kernelNumbers.push_back(index.findKernel(id) - index.kernels().data());
  }
  account(info);
  return info;
}

void mrcc::account(BundleInfo &info) {
  auto numberOf = [&](const ConstantRef &ref) {
    auto it = llvm::lower_bound(info.constants, ref, [](const BundleInfo::Constant &a, const ConstantRef &b) {
      return a.hash != b.hash ? a.hash < b.hash : a.ordinal < b.ordinal;
    });
    return size_t(it - info.constants.begin());
  };
  auto constantsOf = [&](const BundleInfo::Variant &v) {
    std::vector<size_t> numbers;
    for (const ConstantRef &c : v.program.constants)
      if (c.splat.empty())
        numbers.push_back(numberOf(c));
    return numbers;
  };
  for (BundleInfo::Variant &v : info.variants) {
    for (size_t c : constantsOf(v)) {
      ++info.constants[c].variants;
      v.constantBytes += info.constants[c].bytes;
    }
    for (unsigned k : v.kernelNumbers) {
      ++info.kernels[k].variants;
      v.codeBytes += info.kernels[k].bytes;
    }
    for (const Step &step : v.program.steps)
      v.flops += step.flops;
    v.kernels = v.kernelNumbers.size();
    info.unsharedBytes += v.constantBytes;
  }
  for (BundleInfo::Variant &v : info.variants) {
    for (size_t c : constantsOf(v))
      v.uniqueConstantBytes += info.constants[c].variants == 1 ? info.constants[c].bytes : 0;
    for (unsigned k : v.kernelNumbers) {
      v.uniqueKernels += info.kernels[k].variants == 1;
      v.uniqueCodeBytes += info.kernels[k].variants == 1 ? info.kernels[k].bytes : 0;
    }
  }
  for (const BundleInfo::Constant &c : info.constants)
    info.sharedConstantBytes += c.variants > 1 ? c.bytes : 0;
  for (BundleInfo::Target &target : info.targets)
    for (const BundleInfo::Kernel &k : info.kernels)
      if (k.target == target.name) {
        target.kernelBytes += k.bytes;
        target.sharedKernelBytes += k.variants > 1 ? k.bytes : 0;
      }
}

// ---- JSON ----

static Json toJson(const std::vector<BundleModel::Tensor> &tensors) {
  Json list = Json::array();
  for (const BundleModel::Tensor &t : tensors) {
    Json dims = Json::array();
    for (const std::string &d : t.dims) {
      int64_t number;
      if (llvm::StringRef(d).getAsInteger(10, number))
        dims.push_back(d);
      else
        dims.push_back(number);
    }
    list.push_back({{"name", t.name}, {"dtype", mrcc::toString(t.type).str()}, {"dims", dims}});
  }
  return list;
}

static Json toJson(const std::vector<TensorInfo> &tensors) {
  Json list = Json::array();
  for (const TensorInfo &t : tensors)
    list.push_back({{"name", t.name}, {"dtype", mrcc::toString(t.type).str()}, {"dims", t.dims}});
  return list;
}

/// The document of `dump --json`, without sha256.
static Json describe(const BundleInfo &info) {
  Json targets = Json::array(), details = Json::array(), files = Json::array(), variants = Json::array(),
       kernels = Json::array(), folded = Json::array();
  for (const BundleInfo::Target &t : info.targets) {
    targets.push_back(t.name);
    details.push_back({{"name", t.name},
                       {"features", t.features},
                       {"image_bytes", t.imageBytes},
                       {"kernel_bytes", t.kernelBytes},
                       {"shared_kernel_bytes", t.sharedKernelBytes}});
  }
  for (const BundleInfo::File &f : info.files) {
    Json file = {{"name", f.name}, {"bytes", f.bytes}};
    if (!f.hash.empty())
      file["xxh3_128"] = f.hash;
    files.push_back(file);
  }
  for (const BundleInfo::Variant &v : info.variants)
    variants.push_back({{"key", v.program.key},
                        {"target", v.program.target},
                        {"inputs", toJson(v.program.inputs)},
                        {"outputs", toJson(v.program.outputs)},
                        {"artifact_bytes", v.artifactBytes},
                        {"arena_bytes", v.program.arenaBytes},
                        {"arena_lower_bound_bytes", v.program.arenaLowerBound},
                        {"scratch_bytes", v.scratchBytes},
                        {"prepared_bytes", v.preparedBytes},
                        {"constant_bytes", v.constantBytes},
                        {"unique_constant_bytes", v.uniqueConstantBytes},
                        {"code_bytes", v.codeBytes},
                        {"unique_code_bytes", v.uniqueCodeBytes},
                        {"steps", v.program.steps.size()},
                        {"kernels", v.kernels},
                        {"unique_kernels", v.uniqueKernels},
                        {"flops", v.flops}});
  for (const BundleInfo::Kernel &k : info.kernels)
    kernels.push_back(
        {{"name", k.name}, {"target", k.target}, {"key", k.key}, {"code_bytes", k.bytes}, {"variants", k.variants}});
  for (const BundleFold &f : info.folded)
    folded.push_back({{"node", f.node},
                      {"ops", f.ops},
                      {"bytes_before", f.bytesBefore},
                      {"bytes_after", f.bytesAfter},
                      {"stage", f.stage}});
  return {{"format_version", info.version},
          {"producer", info.producer},
          {"model",
           {{"name", info.model.name},
            {"sha256", info.model.sha256},
            {"inputs", toJson(info.model.inputs)},
            {"outputs", toJson(info.model.outputs)}}},
          {"flags", info.flags},
          {"targets", targets},
          {"target_details", details},
          {"files", files},
          {"constants",
           {{"count", info.constants.size()},
            {"blob_bytes", info.constantBytes},
            {"padding_bytes", info.paddingBytes},
            {"shared_bytes", info.sharedConstantBytes},
            {"unshared_bytes", info.unsharedBytes}}},
          {"variants", variants},
          {"kernels", kernels},
          {"folded", folded}};
}

static std::string print(const Json &document) {
  // Names come from models and may be no UTF-8: such bytes are replaced rather than refused.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string mrcc::printInfo(const BundleInfo &info, const std::map<std::string, std::string> &sha256) {
  Json document = describe(info);
  for (Json &file : document["files"])
    if (auto it = sha256.find(file["name"].get<std::string>()); it != sha256.end())
      file["sha256"] = it->second;
  return print(document);
}

/// Fields of a document that was written by us, but may be forged: anything missing or of another type reads as empty.
static std::string text(const Json &object, const char *key) {
  auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}
static uint64_t number(const Json &object, const char *key) {
  auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}
static const Json &list(const Json &object, const char *key) {
  static const Json none = Json::array();
  auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_array() ? *it : none;
}

static std::vector<BundleModel::Tensor> readTensors(const Json &tensors) {
  std::vector<BundleModel::Tensor> result;
  for (const Json &t : tensors) {
    BundleModel::Tensor &tensor = result.emplace_back();
    tensor.name = text(t, "name");
    tensor.type = parseDType(text(t, "dtype")).value_or(DType::none);
    for (const Json &d : list(t, "dims"))
      tensor.dims.push_back(d.is_string() ? d.get<std::string>() : d.dump());
  }
  return result;
}

bool mrcc::readReport(llvm::StringRef manifest, BundleInfo &info) {
  const Json document = Json::parse(manifest.begin(), manifest.end(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object())
    return false;
  const Json none = Json::object();
  const Json &model = document.contains("model") ? document["model"] : none;
  info.model = {text(model, "name"), text(model, "sha256"), readTensors(list(model, "inputs")),
                readTensors(list(model, "outputs"))};
  if (document.contains("flags") && document["flags"].is_object())
    for (const auto &[key, value] : document["flags"].items())
      info.flags[key] = value.is_string() ? value.get<std::string>() : value.dump();
  for (const Json &f : list(document, "folded"))
    info.folded.push_back(
        {text(f, "node"), text(f, "ops"), number(f, "bytes_before"), number(f, "bytes_after"), text(f, "stage")});
  return true;
}
