// All passes of mrcc, declared in Passes.td; one a file, in the order of the pipeline.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mrcc/IR/Mrc.h"

namespace mrcc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "Passes.h.inc"

/// The simplify stage, on a module: what does not depend on a resolution.
void buildSimplifyPipeline(mlir::OpPassManager &pm);

/// The specialize stage as a call: binds the arguments' dims (each a list of numbers, none below 0), infers every type,
/// folds, and brings ops into the normal forms that Passes.td lists. Emits an error and fails on a shape that the model
/// cannot take; the function is then in no defined state.
llvm::LogicalResult specialize(mlir::func::FuncOp func, llvm::ArrayRef<llvm::SmallVector<int64_t>> inputShapes);

/// Makes the function's type say what its body has: argument types and those of the returned values.
void updateResultTypes(mlir::func::FuncOp func);
} // namespace mrcc
