// The mrc dialect and how its constants are read and made.
#pragma once
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mrcc/Bundle/Format.h"
#include "mrcc/Support/ConstantStore.h"

namespace mrcc {
/// Verifier of InferShapes: the op's declared result types are compatible with the inferred ones.
llvm::LogicalResult verifyInferred(mlir::Operation *op);
} // namespace mrcc

#include "mrcc/IR/MrcDialect.h.inc"
#include "mrcc/IR/MrcEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "mrcc/IR/MrcAttrs.h.inc"
#include "mrcc/IR/MrcInterfaces.h.inc"
#define GET_OP_CLASSES
#include "mrcc/IR/MrcOps.h.inc"

namespace mrcc {

/// Bytes of a constant as a dense row-major tensor. A splat shows one element. Elements of less than a byte are packed;
/// i1 is a byte.
struct ConstantData {
  mlir::RankedTensorType type;
  llvm::ArrayRef<uint8_t> bytes;
  bool isSplat = false;
  std::shared_ptr<void> keeper; // holds bytes that had to be unpacked (a small dense attribute)
};

/// The value of a constant, or nothing if `value` is not made by mrc.constant (or arrives as none).
std::optional<ConstantData> getConstant(mlir::Value value);
std::optional<ConstantData> getConstant(mlir::Attribute attr, mlir::MLIRContext *context);
/// Integer constants (any width, signed or not; i1 too) as i64: shapes, axes. Nothing if not constant or not integers.
std::optional<llvm::SmallVector<int64_t>> getIntegers(mlir::Value value);
/// A one-element float or integer constant, or a splat, as double.
std::optional<double> getScalar(mlir::Value value);

/// The attribute for these bytes: dense<> up to 64 elements and for splats (found by looking), #mrc.blob beyond.
mlir::TypedAttr makeConstantAttr(mlir::RankedTensorType type, llvm::ArrayRef<uint8_t> bytes, bool isSplat = false);
/// The same, without a copy of large bytes.
mlir::TypedAttr makeConstantAttr(mlir::RankedTensorType type, std::vector<uint8_t> &&bytes);
/// The same for bytes that `keeper` holds (a mapped file). They are copied only where their address is not aligned.
mlir::TypedAttr makeConstantAttr(mlir::RankedTensorType type, llvm::ArrayRef<uint8_t> bytes,
                                 std::shared_ptr<void> keeper);
mlir::Value makeConstant(mlir::OpBuilder &builder, mlir::Location loc, mlir::TypedAttr attr);
mlir::Value makeIntegers(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<int64_t> values); // tensor<Nxi64>
/// Of rank 0. Integers truncate to i64 (out of range: its nearer end) and keep their low bits.
mlir::Value makeScalar(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type elementType, double value);

DType toDType(mlir::Type elementType);                     // none if there is no such type
mlir::Type toType(mlir::MLIRContext *context, DType type); // null for none
llvm::StringRef toString(DType type);                      // "f32", "bool", ...
std::optional<DType> parseDType(llvm::StringRef text);
/// Elements of a packed type from one a byte (their low bits) to packed, and back (i4 and i2 extended).
std::vector<uint8_t> packElements(DType type, llvm::ArrayRef<uint8_t> loose);
std::vector<uint8_t> unpackElements(DType type, llvm::ArrayRef<uint8_t> packed, size_t count);
size_t byteSize(mlir::RankedTensorType type); // dense bytes of a static shape

/// ONNX node names that a location stands for, joined by ';' (FusedLoc, NameLoc); "" if there is none.
std::string nodeNames(mlir::Location loc);

/// Multidirectional broadcast of two shapes; fails on dims that differ and are not 1. Dynamic stays dynamic unless the
/// other side decides.
std::optional<llvm::SmallVector<int64_t>> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// Infers the op's result types again and sets them. Emits an error and fails on an impossible shape.
llvm::LogicalResult reinfer(mlir::Operation *op);

} // namespace mrcc
