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
def FormKernels : Pass<"mrc-form-kernels", "::mlir::func::FuncOp"> {
  let summary = "group ops into kernels: launches with fused bodies, and views that cost nothing";
  let description = [{
    After specialize. Every op becomes `mrc.launch` or stays as a view (reshape, transpose, slice, expand, concat, whose operands are then
    written in place). A convolution takes the bias, activation and residual that follow it:

        %0 = mrc.conv %x, %w, %b ...                  %0 = mrc.launch "conv" {...} body "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0;
        %1 = mrc.binary max %0, %zero            ->          f32 max %2 %3 -> %4"(%x, %w, %b)

    Copies are inserted where no view is possible.
  }];
}

def PlanMemory : Pass<"mrc-plan-memory", "::mlir::func::FuncOp"> {
  let summary = "give every launch the places of what it reads and writes";
  let description = [{
    After form-kernels. Results that live at different times share arena bytes; results of the function lie in the caller's outputs. Adds `views` to
    each launch (results first) and `mrc.arena_bytes`, `mrc.arena_lower_bound` (largest set of bytes alive at once) to the function:

        %0 = mrc.launch "loop" {...}(%x) : ...   ->   %0 = mrc.launch "loop" {...}(%x) views [#mrc.view<output, 0, 0, [1, 4], [4, 1]>,
                                                             #mrc.view<input, 0, 0, [1, 4], [4, 1]>] : ...
  }];
}
#endif
