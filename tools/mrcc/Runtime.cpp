#include "Runtime.h"
#include "Tool.h"
#include "mrcc/Driver/ShapeOptions.h"
#include <cstring>

using namespace mrcc;
using namespace mrcc::tool;

char RuntimeError::ID;

int RuntimeError::exitCode() const {
  switch (code) {
  case MRCC_UNKNOWN_TENSOR:
  case MRCC_MISSING_TENSOR:
    return wrongUsage;
  case MRCC_UNSUPPORTED_CPU:
  case MRCC_UNSUPPORTED_PROGRAM:
    return unsupported;
  case MRCC_OUT_OF_MEMORY:
  case MRCC_SYSTEM:
    return systemFailed;
  default:
    return rejected;
  }
}

llvm::Expected<ModelPointer> tool::openModel(const std::string &path, const std::string &target) {
  mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
  options.target = target.empty() ? nullptr : target.c_str();
  mrcc_model *model = nullptr;
  if (llvm::Error error = call(mrcc_model_open, path.c_str(), &options, &model))
    return llvm::handleErrors(std::move(error), [](RuntimeError &e) -> llvm::Error {
      if (e.code == MRCC_INVALID_ARGUMENT) // nothing else that we pass can be wrong
        return usageError("--target: " + e.message);
      return llvm::make_error<RuntimeError>(std::move(e));
    });
  return ModelPointer(model);
}

llvm::Expected<ContextPointer> tool::makeContext(mrcc_model *model, unsigned threads) {
  if (threads)
    if (llvm::Error error = call(mrcc_set_threads, threads))
      return std::move(error);
  mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
  options.threads = threads;
  mrcc_context *context = nullptr;
  if (llvm::Error error = call(mrcc_context_create, model, &options, &context))
    return std::move(error);
  return ContextPointer(context);
}

llvm::Expected<std::vector<mrcc_variant_info>> tool::runnableVariants(const mrcc_model *model,
                                                                      const std::string &target) {
  std::vector<mrcc_variant_info> variants;
  for (uint32_t v = 0; v < mrcc_model_num_variants(model); ++v) {
    mrcc_variant_info info = MRCC_VARIANT_INFO_INIT;
    if (llvm::Error error = call(mrcc_model_variant, model, v, &info))
      return std::move(error);
    if (info.supported && (target.empty() || target == info.target))
      variants.push_back(info);
  }
  return variants;
}

Tensor::Tensor(std::string name, DType type, std::vector<int64_t> dims, size_t bytes)
    : name(std::move(name)), type(type), dims(std::move(dims)), bytes(bytes),
      memory(static_cast<uint8_t *>(operator new(std::max<size_t>(bytes, 1), std::align_val_t(64)))) {
  std::memset(memory.get(), 0, bytes);
}

Tensor::Tensor(const mrcc_tensor_info &info)
    : Tensor(info.name, DType(info.dtype), std::vector<int64_t>(info.dims, info.dims + info.rank), info.bytes) {}

mrcc_tensor Tensor::view() const {
  mrcc_tensor t = MRCC_TENSOR_INIT;
  t.name = name.c_str();
  t.data = data();
  t.bytes = bytes;
  t.dtype = mrcc_dtype(type);
  t.rank = uint32_t(dims.size());
  t.dims = dims.data();
  return t;
}

std::vector<mrcc_tensor> tool::viewsOf(const std::vector<Tensor> &tensors) {
  std::vector<mrcc_tensor> views;
  for (const Tensor &t : tensors)
    views.push_back(t.view());
  return views;
}
