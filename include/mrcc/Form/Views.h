// Which values are views of which memory. reshape, transpose, slice and expand of static shapes cost nothing where the
// strides allow it; the operands of concat lie inside its result. Used by form-kernels, which inserts copies where a
// view is impossible, and by plan-memory, which assigns the places.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mrcc/IR/Mrc.h"
#include <optional>

namespace mrcc {

/// A value as a strided window into `root`'s memory. Offset and strides in elements.
struct ValueView {
  mlir::Value root; // result of a launch or concat that lies in no other value, argument or constant
  int64_t offset = 0;
  llvm::SmallVector<int64_t> dims, strides;
  bool isContiguous() const;
};

llvm::SmallVector<int64_t> contiguousStrides(llvm::ArrayRef<int64_t> dims);

/// Strides of the same memory under other dims, or nothing where that needs a copy.
std::optional<llvm::SmallVector<int64_t>> reshapeStrides(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides,
                                                         llvm::ArrayRef<int64_t> newDims);

/// reshape, transpose, slice, expand: ops that are views of operand 0.
bool isViewOp(mlir::Operation *op);

/// Views of all values of a function.
class ViewAnalysis {
public:
  /// Walks `func` in program order. `concat` operands that are results of launches or concats, used as operand of one
  /// concat alone and in no other place of it, lie inside the concat's result.
  explicit ViewAnalysis(mlir::func::FuncOp func);

  /// The view of a tensor value; nothing if a view op on the way cannot be a view (form-kernels has not run).
  const ValueView *lookup(mlir::Value v) const;

private:
  llvm::DenseMap<mlir::Value, ValueView> views;
  /// Value -> concat result, offset along the axis in it.
  llvm::DenseMap<mlir::Value, std::pair<mlir::Value, int64_t>> placed;
  llvm::DenseMap<mlir::Value, int64_t> axes;
};

/// The constants that launches of `func` read, each attribute once, in the order of their first use: entry i is index i
/// of space `constant`.
llvm::SmallVector<mlir::TypedAttr> constantTable(mlir::func::FuncOp func, const ViewAnalysis &views);

} // namespace mrcc
