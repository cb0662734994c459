// ONNX file -> module with `func.func @main` of mrc ops. Reading and importing are two steps, so that a caller can look
// at the inputs before it says which of their dimensions stay open.
//
// What later stages find in the module:
//   module   mrc.model_name, mrc.model_sha256 (of the file)
//   argument mrc.name, mrc.dims (I64 for a fixed dimension, Str for a symbol of the model, "" for one without a name)
//   result   mrc.name
// An initialiser that is also an input, and an input in `binds`, is a constant and no argument.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mrcc/Bundle/Format.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mrcc {

namespace onnx {
struct Model;
}
using ModelHandle = std::shared_ptr<const onnx::Model>; // immutable; may be imported any number of times

/// Why a model was not taken; the exit code follows from the kind.
class ImportError : public llvm::ErrorInfo<ImportError> {
public:
  enum Kind {
    invalid,     // the model, its data or an option about it is wrong
    unsupported, // a valid model needs what mrcc does not have
    system,      // the file could not be read
  };
  static char ID;
  ImportError(Kind kind, std::string message) : kind(kind), message(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  /// not_supported, io_error, or for invalid input none.
  std::error_code convertToErrorCode() const override {
    return kind == unsupported ? std::make_error_code(std::errc::not_supported)
           : kind == system    ? std::make_error_code(std::errc::io_error)
                               : llvm::inconvertibleErrorCode();
  }
  Kind kind;
  std::string message;
};

struct ModelTensor {
  std::string name;
  DType type = DType::none;         // none: not a tensor, or of an element type that mrcc lacks
  bool ranked = true;               // false: the file says nothing about the shape
  std::vector<int64_t> dims;        // -1 for a dimension that the file leaves open
  std::vector<std::string> symbols; // one per dimension, "" where there is none
};

struct ModelInfo {
  std::string name, sha256;
  std::vector<ModelTensor> inputs, outputs; // inputs without initialisers; outputs as the file declares them (a hint)
};

struct TensorData {
  DType type = DType::none;
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
};

/// A serialised TensorProto: test data, inputs of `run`. External data is looked for beside the file.
llvm::Expected<TensorData> readTensorProto(const std::string &path);

struct ImportOptions {
  /// Dims of inputs instead of the file's; -1 is a dimension that specialisation decides.
  std::map<std::string, std::vector<int64_t>> inputDims;
  /// Inputs that become constants.
  std::map<std::string, TensorData> binds;
};

/// Reads a file and the external data that it names. Thread-safe.
llvm::Expected<ModelHandle> readModel(const std::string &path);
/// The same from memory; external data is looked for in `folder`.
llvm::Expected<ModelHandle> readModel(llvm::ArrayRef<uint8_t> bytes, const std::string &folder,
                                      const std::string &name);

ModelInfo modelInfo(const onnx::Model &model);
/// What importModel wrote into the module: names, dtypes and dims of what the program takes and gives.
ModelInfo modelInfo(mlir::ModuleOp module);

/// Loads the dialects it needs into the context. Constants go into the mrc dialect's store. `notes` gets what a user
/// should know (an ignored attribute, an override). All unsupported nodes are reported in one error.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importModel(const onnx::Model &model, mlir::MLIRContext &context,
                                                              const ImportOptions &options,
                                                              std::vector<std::string> &notes);
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importModel(const std::string &path, mlir::MLIRContext &context,
                                                              const ImportOptions &options,
                                                              std::vector<std::string> &notes);

} // namespace mrcc
