// The shape operand of a reshape, written with as little arithmetic as possible.
#pragma once
#include "DimAnalysis.h"

namespace mrcc {

/// The element of a shape operand that says what a dimension of a reshape becomes.
struct Origin {
  mlir::Value tensor; // null where a dimension is computed, or may be 0 or -1
  int64_t index = 0;
  bool inferred = false; // it is -1
};
Origin originOf(DimAnalysis &analysis, mlir::Value shape, std::optional<llvm::SmallVector<Dim>> elements,
                int64_t index);

/// The shape operand of a reshape of `input`: numbers, 0 for a dimension that stays in place, one -1 (where there was
/// one before); what is left comes from the input's own dims or from the element that held it before. Null if that
/// fails.
mlir::Value reshapeOperand(mlir::OpBuilder &b, mlir::Location loc, mlir::Value input, llvm::ArrayRef<Dim> inDims,
                           llvm::ArrayRef<Dim> outDims, llvm::ArrayRef<Origin> origin);

/// Shape arithmetic that only says 0, -1 or numbers becomes a constant.
void simplifyShape(ReshapeOp op);

} // namespace mrcc
