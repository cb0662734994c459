#ifndef MRCC_PASSES_TD
#define MRCC_PASSES_TD
include "mlir/Pass/PassBase.td"

def Specialize : Pass<"mrc-specialize", "::mlir::func::FuncOp"> {
  let summary = "bind the inputs' dimensions, infer every shape, fold what only now is constant";
  let description = [{
    `--mrc-specialize=shapes=1x8x8x4`: `tensor<1x?x?x4xf32>` becomes `tensor<1x8x8x4xf32>`, every op infers its result types
    anew in program order, and ops whose operands are constant (shape arithmetic, position grids) are evaluated. Afterwards
    every shape is static; an impossible shape is an error at the op that fails.
  }];
  let options = [Option<"shapes", "shapes", "std::string", "", "dims of each argument, separated by ;">];
}
#endif
