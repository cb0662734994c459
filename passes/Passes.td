#ifndef MRCC_PASSES_TD
#define MRCC_PASSES_TD
include "mlir/Pass/PassBase.td"

def FoldBatchNorm : Pass<"mrc-fold-batch-norm", "::mlir::func::FuncOp"> {
  let summary = "batch norm into the convolution before it, or into mul and add";
  let description = [{
    s = scale / sqrt(variance + epsilon) and t = bias - mean * s are computed in double and rounded once. Behind a convolution with constant weights
    that nothing else uses, weights and bias take them; elsewhere two element-wise ops stay, which fuse into kernels:

        %0 = mrc.conv %x, %w, %none ...                 %0 = mrc.conv %x, %w1, %b1 ...        (w1 = w * s, b1 = t)
        %1 = mrc.batch_norm %0, ...               ->

        %1 = mrc.batch_norm %x, ...               ->    %0 = mrc.binary mul %x, %s
                                                        %1 = mrc.binary add %0, %t
  }];
}
def FuseNorms : Pass<"mrc-fuse-norms", "::mlir::func::FuncOp"> {
  let summary = "group, layer and RMS norm out of the smaller ops that exporters write";
  let description = [{
        %0 = mrc.reshape %x, [0, 32, -1]                %0 = mrc.transpose %x {perm = [0, 2, 3, 1]}
        %1 = mrc.transpose %0 {perm = [0, 2, 1]}        %1 = mrc.group_norm %0, %none, %none {groups = 32}
        %2 = mrc.group_norm %1 {groups = 32}      ->    %2 = mrc.transpose %1 {perm = [0, 3, 1, 2]}
        %3 = mrc.transpose %2 {perm = [0, 2, 1]}
        %4 = mrc.reshape %3, shape of x

        %0 = mrc.reduce mean %x {axes = [2]}
        %1 = mrc.binary sub %x, %0
        %2 = mrc.binary mul %1, %1
        %3 = mrc.reduce mean %2 {axes = [2]}      ->    %0 = mrc.layer_norm %x, %none, %none {axis = 2}
        %4 = mrc.binary add %3, %epsilon
        %5 = mrc.unary sqrt %4
        %6 = mrc.binary div %1, %5

    Without the mean's subtraction it is a layer_norm with `rms`. Scale and bias behind a norm go into it in fold-scale.
  }];
}
def FuseActivations : Pass<"mrc-fuse-activations", "::mlir::func::FuncOp"> {
  let summary = "silu and gelu out of primitive ops";
  let description = [{
        %0 = mrc.unary sigmoid %x                 ->    %1 = mrc.unary silu %x
        %1 = mrc.binary mul %x, %0

        0.5 * x * (1 + erf(x / sqrt 2))           ->    mrc.unary gelu %x
  }];
}
def PropagateLayout : Pass<"mrc-propagate-layout", "::mlir::func::FuncOp"> {
  let summary = "move transposes through the graph until they cancel";
  let description = [{
    Ops that read transposed data are rebuilt on the data before the transpose; constants and broadcast operands are permuted; transposes that meet
    their inverse vanish, those that move only dimensions of 1 become squeeze and unsqueeze. Works with unknown dimensions.

        %0 = mrc.conv ...                               %0 = mrc.conv ...
        %1 = mrc.transpose %0 {perm = [0, 3, 1, 2]}     %1 = mrc.unary sigmoid %0
        %2 = mrc.unary sigmoid %1                 ->    %2 = mrc.conv %1 ...
        %3 = mrc.transpose %2 {perm = [0, 2, 3, 1]}
        %4 = mrc.conv %3 ...
  }];
}
def FoldScale : Pass<"mrc-fold-scale", "::mlir::func::FuncOp"> {
  let summary = "constant factors and offsets per channel into the weights before or after them";
  let description = [{
        %0 = mrc.conv %x, %w, %b ...                    %0 = mrc.conv %x, %w1, %b1 ...        (w1 = w * s, b1 = b * s + t)
        %1 = mrc.binary mul %0, %s                ->
        %2 = mrc.binary add %1, %t

    Also in front of a convolution or matmul (an offset only if the convolution pads nothing), behind layer_norm and group_norm, and chains of such
    ops become one mul and one add.
  }];
}
def FuseAttention : Pass<"mrc-fuse-attention", "::mlir::func::FuncOp"> {
  let summary = "softmax(q k^T * scale + mask) v as one op";
  let description = [{
        %0 = mrc.matmul %q, %kt                         %k = mrc.transpose %kt {perm = [0, 1, 3, 2]}
        %1 = mrc.binary mul %0, %scale                  %3 = mrc.attention %q, %k, %v, %none {scale = ...}
        %2 = mrc.softmax %1 {axis = 3}            ->
        %3 = mrc.matmul %2, %v
  }];
}
def PackWeights : Pass<"mrc-pack-weights", "::mlir::func::FuncOp"> {
  let summary = "constant weights into the forms that kernels read";
  let description = [{
        %0 = mrc.conv %x, %w, %b                  ->    %p = mrc.pack %w {form = "conv"}
                                                        %0 = mrc.conv %x, %p, %b {packed_kernel = [3, 3], packed_oc = 64}
        %1 = mrc.matmul %x, %w                    ->    %p = mrc.pack %w {form = "matmul"}
                                                        %1 = mrc.matmul %x, %p {packed_k = 256, packed_n = 64}
  }];
}

def FoldConstants : Pass<"mrc-fold-constants", "::mlir::func::FuncOp"> {
  let summary = "evaluate ops on constants";
  let description = [{
    Any op whose operands are constant is run by the compiler, whole chains in one pass. Results that would only make the bundle bigger stay ops (a
    broadcast, a big range, int8 weights cast to f32); a repeated value stays one. Dead ops go. The module's attribute `mrc.folded` says what was
    folded: node, ops, bytes before and after, stage.

        %0 = mrc.constant dense<[1.0, 2.0]>
        %1 = mrc.constant dense<3.0>              ->    %0 = mrc.constant dense<[3.0, 6.0]>
        %2 = mrc.binary mul %0, %1
  }];
  let options = [Option<"stage", "stage", "std::string", "\"simplify\"", "stage that the record names">];
}
def Specialize : Pass<"mrc-specialize", "::mlir::func::FuncOp"> {
  let summary = "bind the inputs' dimensions, infer every shape, fold what only now is constant";
  let description = [{
    `--mrc-specialize=shapes=1x8x8x4`: `tensor<1x?x?x4xf32>` becomes `tensor<1x8x8x4xf32>`, every op infers its result types anew in program order, and
    ops whose operands are constant (shape arithmetic, position grids) are evaluated. Afterwards every shape is static; an impossible shape is an
    error at the op that fails, a size that depends on data one at the first op that has it. A dimension that the model fixes is overridden.

        %0 = mrc.shape %x {start = 2}             ->    %2 = mrc.reshape %y, dense<[8, 8]>
        %1 = mrc.concat ..., %0
        %2 = mrc.reshape %y, %1

    Normal forms afterwards (operands that hold shapes and the like are constants):
    - squeeze, unsqueeze, flatten, reshape: `reshape` with all dims of the result, allowzero only if one is 0; never of another reshape
    - split, slice, gather of one index or of evenly spaced ones: `slice` of every dimension in order, with starts, ends, axes and steps; numbers are
      not negative but for steps and for the end -(dim + 1) of a slice that runs down to element 0 (mrcc::sliceRanges reads them)
    - expand, tile of dims that are 1: `expand` with all dims of the result
    - pad: begins and ends of all dims, not negative, axes none; what is cropped is a slice in front of it
    - conv, conv_transpose, pool: auto_pad explicit; conv_transpose without output_shape and with output_padding 0 (its end pads may be negative)
    - resize: only axes that change, roi only with tf_crop_and_resize; scales or sizes are kept as the model gave them (mrcc::resizeTaps reads them)
    - concat without empty operands; reductions over dims of 1 (sum, mean, max, min, prod) are reshapes
    - ops that change nothing are gone
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

        %0 = mrc.launch "loop" {...}(%x) : ...   ->   %0 = mrc.launch "loop" {...}(%x) views [#mrc.view<"output", 0, 0, [1, 4], [4, 1]>,
                                                             #mrc.view<"input", 0, 0, [1, 4], [4, 1]>] : ...
  }];
}
#endif
