// The normal forms that specialize leaves behind, for one op with static types (Passes.td lists them).
#pragma once
#include "mlir/IR/PatternMatch.h"
#include "mrcc/IR/Mrc.h"

namespace mrcc {

/// Brings `op` into its normal form: changes it in place, or replaces it (with one of its operands, or new ops in front
/// of it) by way of the rewriter. An op in normal form is left as it is.
void normalise(mlir::Operation *op, mlir::RewriterBase &rewriter);

} // namespace mrcc
