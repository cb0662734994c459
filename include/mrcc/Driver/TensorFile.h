// Tensors in files: .npy as NumPy reads and writes it, and ONNX .pb (a TensorProto). Which one it is is seen from its
// first bytes. NumPy has no bf16, f8, f4, i4, u4, i2 or u2: the floats are raw items ('V2', 'V1', as ml_dtypes saves
// them), the others i8 and u8, one element a byte.
#pragma once
#include "mrcc/Import/Import.h"

namespace mrcc {

/// An error unless the file is a regular one of at most so many bytes: devices and pipes may never end.
llvm::Error checkRegularFile(const std::string &path, uint64_t most = uint64_t(1) << 48);

/// The tensor, dense and row-major, if its elements are of type `wanted`. `what` ("input 'x'") is named in messages.
llvm::Expected<TensorData> readTensorFile(const std::string &path, DType wanted, const std::string &what);

/// The tensor in the file's own type (of those that share a form: bf16, f8e4m3fn, i8, u8).
llvm::Expected<TensorData> readTensorFile(const std::string &path);

/// The same of a file's bytes; `wanted` none takes any type.
llvm::Expected<TensorData> readNpy(llvm::ArrayRef<uint8_t> bytes, DType wanted, const std::string &path,
                                   const std::string &what);

/// An .npy file's bytes; `data` is dense (packed where elements are less than a byte).
std::string toNpy(DType type, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<uint8_t> data);
llvm::Error writeNpy(const std::string &path, DType type, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<uint8_t> data);

/// Elements as doubles, for comparisons: any type.
std::vector<double> toDoubles(DType type, llvm::ArrayRef<uint8_t> bytes, size_t count);

} // namespace mrcc
