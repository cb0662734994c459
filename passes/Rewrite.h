// What several passes need: constants as numbers, permutations, and ops made or copied with known types.
#pragma once
#include "mrcc/IR/Mrc.h"

namespace mrcc {

inline mlir::RankedTensorType typeOf(mlir::Value v) { return mlir::cast<mlir::RankedTensorType>(v.getType()); }
inline bool isNone(mlir::Value v) { return mlir::isa<mlir::NoneType>(v.getType()); }
inline bool isConstant(mlir::Value v) { return v.getDefiningOp<ConstantOp>() != nullptr; }
inline bool isFloat(mlir::Value v) { return mlir::isa<mlir::FloatType>(typeOf(v).getElementType()); }

//===-- permutations: output dimension i is input dimension perm[i] ----------------------------------------------===//

using Perm = llvm::SmallVector<int64_t>;
bool isIdentity(llvm::ArrayRef<int64_t> perm);
Perm inverse(llvm::ArrayRef<int64_t> perm);
/// The transpose by `second` of the transpose by `first`.
Perm compose(llvm::ArrayRef<int64_t> first, llvm::ArrayRef<int64_t> second);
template <typename T> llvm::SmallVector<T> permuted(llvm::ArrayRef<T> values, llvm::ArrayRef<int64_t> perm) {
  llvm::SmallVector<T> out;
  for (int64_t p : perm)
    out.push_back(values[p]);
  return out;
}
mlir::RankedTensorType permuted(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> perm);
/// True if the transpose of this type changes no order in memory: it moves only dimensions that are 1.
bool movesOnlyOnes(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> perm);

//===-- constants -------------------------------------------------------------------------------------------------===//

/// The elements of a float constant; one element for a repeated value.
std::optional<std::vector<double>> readFloats(mlir::Value value);
/// Rounds the values to the type's elements; one value is repeated. Null if a finite value does not fit.
mlir::TypedAttr floatsAttr(mlir::RankedTensorType type, llvm::ArrayRef<double> values);
/// A constant with the bytes of `value` in another shape or order. Null if `value` is no constant, or of sub-byte
/// elements.
mlir::Value reshapedConstant(mlir::OpBuilder &b, mlir::Value value, llvm::ArrayRef<int64_t> dims);
mlir::Value transposedConstant(mlir::OpBuilder &b, mlir::Value value, llvm::ArrayRef<int64_t> perm);
/// Reverses the order along the given dims, too (before the transpose).
mlir::Value transposedConstant(mlir::OpBuilder &b, mlir::Value value, llvm::ArrayRef<int64_t> perm,
                               llvm::ArrayRef<int64_t> flipped);

//===-- ops -------------------------------------------------------------------------------------------------------===//

/// The transpose of a value: of a constant at once, of a transpose composed, by the identity the value itself.
mlir::Value transposed(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> perm);
/// `value` with leading dims of 1 up to `rank`.
mlir::Value withRank(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, int64_t rank);
/// A copy of `op` with other operands and result types, in front of the builder's place.
mlir::Operation *cloneWith(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands, mlir::TypeRange types);
/// The op and the ops that only it used, if they are without effects and unused.
void eraseDead(mlir::Operation *op);
/// One location that names both ops.
mlir::Location fused(mlir::Operation *a, mlir::Operation *b);

/// Bytes of the constants among the values (a repeated value counts one element).
int64_t constantBytes(mlir::ValueRange values);
/// Appends to the module's `mrc.folded` that `ops` were folded into the constants of `op` (see fold-constants).
void recordFold(mlir::Operation *op, llvm::StringRef ops, int64_t bytesBefore, int64_t bytesAfter);

} // namespace mrcc
