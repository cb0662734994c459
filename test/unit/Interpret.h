// Runs a function of mrc ops on given inputs by the constant evaluator, op by op, so that a test can compare what a
// module computes before and after a pass. Attention and packed weights, which the evaluator leaves to kernels, are
// taken apart here by plain loops.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mrcc/Fold/Evaluate.h"

namespace mrcc::test {

using Value = Evaluated;

/// The function's results. `function` is not changed. Unknown dims of arguments are those of the inputs.
llvm::Expected<std::vector<Value>> interpret(mlir::func::FuncOp function, llvm::ArrayRef<Value> inputs);

/// Dims for an argument's unknown ones: those of one name (mrc.dims) are equal, the others follow from their position.
std::vector<int64_t> chooseDims(mlir::func::FuncOp function, unsigned argument);
/// Numbers of a fixed seed: floats between -1 and 1, integers from 0 to 3.
Value randomValue(mlir::RankedTensorType type, unsigned seed);

/// Largest |a - b| over the largest |a|, or infinity where shapes, types or NaNs differ; exact for integers (0 or
/// infinity).
double difference(const Value &a, const Value &b);

} // namespace mrcc::test
