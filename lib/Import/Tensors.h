// TensorProto -> onnx::Tensor: the bytes wherever they are stored (typed fields, raw_data, an external file, sparse),
// with every length checked before anything is allocated.
#pragma once
#include "Checks.h"

namespace onnx {
class TensorProto;
class SparseTensorProto;
} // namespace onnx

namespace mrcc::onnx {

/// Maps external files once each. Locations are relative to the model's folder and stay inside it; symbolic links are
/// followed wherever they point.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string folder) : folder(std::move(folder)) {}
  struct Mapping {
    llvm::ArrayRef<uint8_t> bytes;
    std::shared_ptr<void> keeper;
  };
  llvm::Expected<Mapping> open(const std::string &location, const std::string &tensor);

private:
  std::string folder;
  std::map<std::string, Mapping> files;
};

/// Takes raw_data out of `proto` instead of copying it.
llvm::Expected<Tensor> readTensor(::onnx::TensorProto &proto, ExternalFiles &files);
llvm::Expected<Tensor> readSparse(::onnx::SparseTensorProto &proto, ExternalFiles &files);

} // namespace mrcc::onnx
