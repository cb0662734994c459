// The runtime's C interface for the tool: handles that free themselves, failures as llvm::Error.
#pragma once
#include "mrcc/Bundle/Format.h"
#include "mrcc/runtime.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace mrcc::tool {

class RuntimeError : public llvm::ErrorInfo<RuntimeError> {
public:
  static char ID;
  RuntimeError(mrcc_code code, std::string message) : code(code), message(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
  int exitCode() const;
  mrcc_code code;
  std::string message;
};

/// Calls f(..., &error) and makes an llvm::Error of its failure.
template <typename F, typename... Args> llvm::Error call(F *f, Args... args) {
  mrcc_error *error = nullptr;
  mrcc_code code = f(args..., &error);
  if (code == MRCC_OK)
    return llvm::Error::success();
  std::string message = error ? mrcc_error_message(error) : mrcc_code_name(code);
  mrcc_error_free(error);
  return llvm::make_error<RuntimeError>(code, std::move(message));
}

template <auto release> struct Release {
  template <typename T> void operator()(T *p) const { release(p); }
};
using ModelPointer = std::unique_ptr<mrcc_model, Release<mrcc_model_free>>;
using ContextPointer = std::unique_ptr<mrcc_context, Release<mrcc_context_free>>;

/// More threads the runtime does not use.
constexpr unsigned maxThreads = 255;

/// `target` may be empty: the best that this CPU runs.
llvm::Expected<ModelPointer> openModel(const std::string &path, const std::string &target);
/// A context that uses `threads` threads (0: all of this machine).
llvm::Expected<ContextPointer> makeContext(mrcc_model *model, unsigned threads);
/// Variants that this CPU (and `target`) can run; the rest is left out.
llvm::Expected<std::vector<mrcc_variant_info>> runnableVariants(const mrcc_model *model, const std::string &target);

/// A tensor with its memory, aligned to 64 bytes.
class Tensor {
public:
  Tensor(std::string name, DType type, std::vector<int64_t> dims, size_t bytes);
  explicit Tensor(const mrcc_tensor_info &info);
  mrcc_tensor view() const; // valid as long as the tensor, also after it moved
  std::string name;
  DType type;
  std::vector<int64_t> dims;
  size_t bytes;
  uint8_t *data() const { return memory.get(); }

private:
  struct Free {
    void operator()(uint8_t *p) const { operator delete(p, std::align_val_t(64)); }
  };
  std::unique_ptr<uint8_t, Free> memory;
};

std::vector<mrcc_tensor> viewsOf(const std::vector<Tensor> &tensors);

} // namespace mrcc::tool
