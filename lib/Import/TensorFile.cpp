// A TensorProto in a file of its own.
#include "Tensors.h"
#include MRCC_ONNX_HEADER
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mrcc;
using namespace mrcc::onnx;

llvm::Expected<TensorData> mrcc::readTensorProto(const std::string &path) {
  auto bad = [&](const llvm::Twine &message) { return importError(ImportError::invalid, path + ": " + message); };
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return bad(file.getError().message());
  llvm::StringRef bytes = (*file)->getBuffer();
  ::onnx::TensorProto proto;
  if (bytes.empty() || bytes.size() > size_t(INT_MAX) || !proto.ParseFromArray(bytes.data(), int(bytes.size())) ||
      proto.data_type() == ::onnx::TensorProto::UNDEFINED)
    return bad("this is neither an .npy file nor an ONNX tensor, or it is cut or damaged");
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  ExternalFiles files(folder.empty() ? "." : folder.str());
  int32_t type = proto.data_type();
  auto tensor = readTensor(proto, files);
  if (!tensor)
    return llvm::handleErrors(tensor.takeError(),
                              [&](const ImportError &e) { return importError(e.kind, path + ": " + e.message); });
  if (tensor->type == DType::none)
    return importError(ImportError::unsupported, path + ": tensors of " + typeName(type) + " are not supported");
  return TensorData{tensor->type, tensor->dims, tensor->bytes.vec()};
}
