// The program of a variant: a straight serialisation of the IR after plan-memory.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mrcc/Bundle/Bundle.h"
#include "mrcc/Codegen/Codegen.h"
#include "mrcc/Kernels/Kernel.h"

namespace mrcc {

struct BuiltProgram {
  BundleVariant variant; // kernels by key; constants are spans of the context's store or of `owned`
  std::map<std::string, KernelDescription> kernels;
  std::vector<std::shared_ptr<std::vector<uint8_t>>> owned;
};

/// A target of a bundle with its code.
BundleTarget bundleTarget(const Target &target, CodeImage image);

/// `strictMath` keeps every operation's own f32 summation (no Winograd). `isShared` says of a constant's attribute
/// whether the simplified module held it already.
llvm::Expected<BuiltProgram> buildProgram(mlir::func::FuncOp func, const Target &target, bool strictMath,
                                          llvm::function_ref<bool(mlir::Attribute)> isShared);

} // namespace mrcc
