#include "Execute.h"
#include "mrcc/Driver/Compile.h"
#include "mrcc/Driver/TensorFile.h"
#include "mrcc/runtime.h"
#include "llvm/Support/FileSystem.h"

using namespace mrcc;
using namespace mrcc::test;

const char *mrcc::test::statusName(Status status) {
  static const char *const names[] = {"passed", "failed", "refused", "crashed"};
  return names[size_t(status)];
}

/// What a failed call of the runtime says.
static std::string take(mrcc_error *error) {
  std::string text = std::string(mrcc_code_name(mrcc_error_code(error))) + ": " + mrcc_error_message(error);
  mrcc_error_free(error);
  return text;
}

static mrcc_tensor view(TensorData &data) {
  mrcc_tensor t = MRCC_TENSOR_INIT;
  static uint64_t none;
  t.dtype = mrcc_dtype(data.type);
  t.rank = uint32_t(data.dims.size());
  t.dims = data.dims.data();
  t.data = data.bytes.empty() ? static_cast<void *>(&none) : data.bytes.data();
  t.bytes = data.bytes.size();
  return t;
}

namespace {
/// A model of the runtime with one context.
struct Loaded {
  mrcc_model *model = nullptr;
  mrcc_context *context = nullptr;
  Loaded() = default;
  Loaded(const Loaded &) = delete;
  ~Loaded() {
    mrcc_context_free(context);
    mrcc_model_free(model);
  }
};
} // namespace

static void countStep(void *user, const mrcc_step *) { ++*static_cast<uint64_t *>(user); }

/// The results with their types and dims as the program states them.
static llvm::Expected<std::vector<TensorData>> run(const BundleContents &contents, const std::string &scratch,
                                                   std::vector<TensorData> &inputs, uint64_t &kernels) {
  Loaded loaded;
  mrcc_error *error = nullptr;
  std::string packed; // must outlive the model
  if (scratch.empty()) {
    auto bytes = packBundle(contents);
    if (!bytes)
      return bytes.takeError();
    packed = std::move(*bytes);
    if (mrcc_model_open_memory(packed.data(), packed.size(), nullptr, &loaded.model, &error))
      return llvm::createStringError(take(error));
  } else {
    if (llvm::Error failure = writeBundle(scratch, contents))
      return failure;
    if (mrcc_model_open(scratch.c_str(), nullptr, &loaded.model, &error))
      return llvm::createStringError(take(error));
  }
  mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
  options.threads = 1; // cases run side by side
  if (mrcc_context_create(loaded.model, &options, &loaded.context, &error) ||
      mrcc_context_set_step_hook(loaded.context, countStep, &kernels, &error))
    return llvm::createStringError(take(error));
  mrcc_variant_info info = MRCC_VARIANT_INFO_INIT;
  if (mrcc_model_variant(loaded.model, 0, &info, &error))
    return llvm::createStringError(take(error));
  std::vector<TensorData> outputs(info.num_outputs);
  std::vector<mrcc_tensor> in, out;
  for (TensorData &data : inputs)
    in.push_back(view(data));
  for (auto [i, data] : llvm::enumerate(outputs)) {
    const mrcc_tensor_info &about = info.outputs[i];
    data = {DType(about.dtype), std::vector<int64_t>(about.dims, about.dims + about.rank),
            std::vector<uint8_t>(about.bytes, 0xCD)};
    out.push_back(view(data));
  }
  if (mrcc_context_run(loaded.context, in.data(), in.size(), out.data(), out.size(), &error))
    return llvm::createStringError(take(error));
  return outputs;
}

/// One set of data; `guess` binds also what merely looks like a shape.
static Outcome executeSet(const Case &c, const DataSet &set, bool guess, const std::string &scratch) {
  auto refused = [](llvm::Error error) { return Outcome{Status::refused, llvm::toString(std::move(error)), 0}; };
  CompileOptions options;
  options.targets = {Target::find("x86-64-v3")};
  options.jobs = 1;
  auto model = readModel(c.folder + "/model.onnx");
  if (!model)
    return refused(model.takeError());
  const ModelInfo info = modelInfo(**model);
  if (info.inputs.size() != set.inputs.size())
    return {Status::failed,
            "the model has " + std::to_string(info.inputs.size()) + " inputs, there are data for " +
                std::to_string(set.inputs.size()),
            0};
  VariantShapes shapes;
  std::vector<TensorData> inputs;
  for (auto [tensor, data] : llvm::zip_equal(info.inputs, set.inputs)) {
    if (c.bind.count(tensor.name) || (guess && isShapeLike(data, tensor.name))) {
      options.binds[tensor.name] = data;
    } else {
      shapes.dims.push_back(data.dims);
      inputs.push_back(data);
    }
  }
  Compilation compilation(options);
  for (auto stage : {+[](Compilation &x, const std::string &path, const VariantShapes &) { return x.read(path); },
                     +[](Compilation &x, const std::string &, const VariantShapes &s) { return x.import(s); },
                     +[](Compilation &x, const std::string &, const VariantShapes &) { return x.simplify(); },
                     +[](Compilation &x, const std::string &, const VariantShapes &s) { return x.addVariants(s); },
                     +[](Compilation &x, const std::string &, const VariantShapes &) { return x.generateCode(); }})
    if (llvm::Error error = stage(compilation, c.folder + "/model.onnx", shapes))
      return refused(std::move(error));
  Outcome outcome;
  auto got = run(compilation.contents(), scratch, inputs, outcome.kernels);
  if (!scratch.empty())
    llvm::sys::fs::remove_directories(scratch);
  if (!got)
    return {Status::failed, llvm::toString(got.takeError()), 0};
  if (got->size() < set.outputs.size())
    return {Status::failed,
            "it has " + std::to_string(got->size()) + " outputs, expected " + std::to_string(set.outputs.size()), 0};
  for (auto [i, want] : llvm::enumerate(set.outputs))
    if (std::string why = difference(want, (*got)[i], c.rtol, c.atol); !why.empty())
      return {Status::failed, "output " + std::to_string(i) + ": " + why, outcome.kernels};
  return outcome;
}

Outcome mrcc::test::execute(const std::string &folder, const std::string &scratch) {
  auto c = loadCase(folder);
  if (!c) { // of a type that mrcc lacks, or damaged
    Outcome outcome{Status::failed, "", 0};
    llvm::handleAllErrors(
        c.takeError(),
        [&](const ImportError &e) {
          outcome.status = e.kind == ImportError::unsupported ? Status::refused : Status::failed;
          outcome.reason = e.message;
        },
        [&](const llvm::ErrorInfoBase &e) { outcome.reason = e.message(); });
    return outcome;
  }
  Outcome all;
  for (const DataSet &set : c->sets) {
    Outcome outcome = executeSet(*c, set, false, scratch);
    if (outcome.status == Status::refused) // what computes a shape from an input needs its value
      outcome = executeSet(*c, set, true, scratch);
    if (outcome.status != Status::passed)
      return outcome;
    all.kernels += outcome.kernels;
  }
  return all;
}
