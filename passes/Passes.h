// All passes of mrcc, declared in Passes.td; one a file, in the order of the pipeline.
#pragma once
#include "mrcc/IR/Mrc.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mrcc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "Passes.h.inc"
} // namespace mrcc
