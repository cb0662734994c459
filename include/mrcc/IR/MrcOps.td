// The mrc dialect: few, primitive tensor operations. Windowed ops are channels last ([N, spatial..., C]); the importer
// puts transposes around them and propagate-layout moves those to the edges. Element types: signless iN is signed, uiN
// unsigned, i1 bool. Every op infers its result types (InferShapes); a dimension unknown before specialisation is `?`.
#ifndef MRCC_IR_MRCOPS_TD
#define MRCC_IR_MRCOPS_TD
include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def MrcDialect : Dialect {
  let name = "mrc";
  let cppNamespace = "::mrcc";
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    /// Where the bytes of `#mrc.blob` attributes lie. Owned by the caller, outlives the context; null in mrcc-opt until
    /// a pass makes a constant (then the dialect makes and owns one).
    ConstantStore &getStore();
    void setStore(ConstantStore *store) { this->store = store; }
  private:
    ConstantStore *store = nullptr;
    std::shared_ptr<ConstantStore> owned;
  public:
  }];
}

//===-- attributes ------------------------------------------------------------------------------------------------===//

def BlobAttr : AttrDef<MrcDialect, "Blob", [TypedAttrInterface]> {
  let mnemonic = "blob";
  let summary = "a constant's bytes by their key in the ConstantStore";
  let description = "`#mrc.blob<\"k12\"> : tensor<64x64xf32>`. Equal bytes have one key, so equal constants are one attribute.";
  let parameters = (ins StringRefParameter<"key">:$key, AttributeSelfTypeParameter<"">:$type);
  let assemblyFormat = "`<` $key `>`";
}

def ViewAttr : AttrDef<MrcDialect, "View"> {
  let mnemonic = "view";
  let summary = "where a launch reads or writes: space, index, byte offset, dims and strides in elements";
  let parameters = (ins StringRefParameter<"input, output, constant, arena or absent">:$space, "uint32_t":$index, "uint64_t":$offset,
                        OptionalArrayRefParameter<"int64_t">:$dims, OptionalArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` $space `,` $index `,` $offset `,` `[` (`]`) : ($dims^ `]`)? `,` `[` (`]`) : ($strides^ `]`)? `>`";
}

class Kinds<string name, list<string> names> : I32EnumAttr<name, "", !foreach(i, !range(!size(names)), I32EnumAttrCase<names[i], i>)> {
  let cppNamespace = "::mrcc";
}
def UnaryKind : Kinds<"UnaryKind", ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "exp",
  "floor", "is_nan", "is_pos_inf", "is_neg_inf", "log", "logical_not", "neg", "reciprocal", "round_even", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
  "tanh", "gelu", "silu", "softplus"]>;
def BinaryKind : Kinds<"BinaryKind", ["add", "sub", "mul", "div", "mod", "fmod", "pow", "max", "min", "logical_and", "logical_or", "logical_xor",
  "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "eq", "lt", "le", "gt", "ge"]>;
def ReduceKind : Kinds<"ReduceKind", ["sum", "mean", "max", "min", "prod", "sum_square", "l1", "l2", "log_sum", "log_sum_exp"]>;
def PoolKind : Kinds<"PoolKind", ["max_pool", "average_pool", "lp_pool"]>;
def PadMode : Kinds<"PadMode", ["constant", "reflect", "edge", "wrap"]>;
def ScatterKind : Kinds<"ScatterKind", ["none", "add", "mul", "max", "min"]>;

//===-- interfaces ------------------------------------------------------------------------------------------------===//

def InferShapes : OpInterface<"InferShapes"> {
  let cppNamespace = "::mrcc";
  let description = [{
    Computes the result types from the operands' types and, for operands that hold shapes, axes and the like, from their
    constant values. A dimension that is not known yet is dynamic. On an impossible shape emits an error that names the
    dimensions involved and fails.
  }];
  let methods = [InterfaceMethod<"result types", "::llvm::LogicalResult", "inferShapes", (ins "::llvm::SmallVectorImpl<::mlir::Type> &":$types)>];
  let verify = [{ return ::mrcc::verifyInferred($_op); }]; // declared result types fit the inferred ones
}

//===-- operations ------------------------------------------------------------------------------------------------===//

def Tensor : AnyTypeOf<[AnyRankedTensor]>;
def OptTensor : AnyTypeOf<[AnyRankedTensor, NoneType]>; // none: an absent optional operand (mrc.none)

class MrcOp<string mnemonic, list<Trait> traits = []> : Op<MrcDialect, mnemonic, traits>;
class TensorOp<string mnemonic, list<Trait> traits = []> : MrcOp<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<InferShapes>], traits)> {
  let results = (outs Tensor:$output);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def ConstantOp : TensorOp<"constant", [ConstantLike, AllTypesMatch<["value", "output"]>]> {
  let summary = "a constant tensor: dense<...> for small or repeated values, #mrc.blob for the rest";
  let arguments = (ins TypedAttrInterface:$value);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}
def NoneOp : MrcOp<"none", [Pure]> {
  let summary = "an absent optional operand";
  let results = (outs NoneType:$output);
  let assemblyFormat = "attr-dict `:` type($output)";
}

def UnaryOp : TensorOp<"unary"> {
  let summary = "one-operand element-wise function; is_nan, is_*_inf and logical_not give i1";
  let arguments = (ins UnaryKind:$kind, Tensor:$input);
  let assemblyFormat = "$kind $input attr-dict `:` functional-type(operands, results)";
}
def BinaryOp : TensorOp<"binary"> {
  let summary = "two-operand element-wise function with multidirectional broadcasting; comparisons give i1";
  let arguments = (ins BinaryKind:$kind, Tensor:$lhs, Tensor:$rhs);
  let assemblyFormat = "$kind $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}
def SelectOp : TensorOp<"select"> {
  let summary = "condition ? a : b, element-wise with broadcasting";
  let arguments = (ins Tensor:$condition, Tensor:$a, Tensor:$b);
}
def CastOp : TensorOp<"cast"> {
  let summary = "converts elements to `to`, by ONNX's Cast rules; f8E8M0FNU is converted by bitcasts and integer arithmetic";
  let arguments = (ins Tensor:$input, TypeAttr:$to, DefaultValuedAttr<BoolAttr, "true">:$saturate);
}
def BitcastOp : TensorOp<"bitcast"> {
  let summary = "the bits of each element as an element of type `to`, which is as wide";
  let arguments = (ins Tensor:$input, TypeAttr:$to);
}
def ReduceOp : TensorOp<"reduce"> {
  let summary = "reduction over `axes` (sorted, not negative; empty: none is reduced)";
  let arguments = (ins ReduceKind:$kind, Tensor:$input, DenseI64ArrayAttr:$axes, DefaultValuedAttr<BoolAttr, "true">:$keepdims);
  let assemblyFormat = "$kind $input attr-dict `:` functional-type(operands, results)";
}
def ArgReduceOp : TensorOp<"arg_reduce"> {
  let summary = "index (i64) of the maximum or minimum along `axis`";
  let arguments = (ins Tensor:$input, I64Attr:$axis, BoolAttr:$is_max, DefaultValuedAttr<BoolAttr, "true">:$keepdims, DefaultValuedAttr<BoolAttr, "false">:$select_last);
}
def CumulativeOp : TensorOp<"cumulative"> {
  let summary = "running sum (or product) along `axis`";
  let arguments = (ins Tensor:$input, I64Attr:$axis, BoolAttr:$product, BoolAttr:$exclusive, BoolAttr:$reverse);
}

// Windowed ops. input [N, spatial..., C]. pads: begin of each spatial dimension, then end; may be negative.
def ConvOp : TensorOp<"conv"> {
  let summary = "convolution, channels last; weights [OC, IC/group, kernel...], optional bias [OC]";
  let arguments = (ins Tensor:$input, Tensor:$weights, OptTensor:$bias, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$pads, I64Attr:$group, DefaultValuedAttr<StrAttr, "\"explicit\"">:$auto_pad);
}
def ConvTransposeOp : TensorOp<"conv_transpose"> {
  let summary = "transposed convolution, channels last; weights [IC, OC/group, kernel...], optional bias [OC]";
  let arguments = (ins Tensor:$input, Tensor:$weights, OptTensor:$bias, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$output_padding, I64Attr:$group, OptionalAttr<DenseI64ArrayAttr>:$output_shape,
                       DefaultValuedAttr<StrAttr, "\"explicit\"">:$auto_pad);
}
def PoolOp : TensorOp<"pool"> {
  let summary = "sliding-window maximum, average or Lp norm, channels last";
  let arguments = (ins PoolKind:$kind, Tensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads,
                       DefaultValuedAttr<StrAttr, "\"explicit\"">:$auto_pad, DefaultValuedAttr<BoolAttr, "false">:$ceil_mode,
                       DefaultValuedAttr<BoolAttr, "false">:$count_include_pad, DefaultValuedAttr<I64Attr, "2">:$p);
  let assemblyFormat = "$kind $input attr-dict `:` functional-type(operands, results)";
}
def MatMulOp : TensorOp<"matmul"> {
  let summary = "matrix product with broadcast batch dimensions, NumPy's rules for rank 1";
  let arguments = (ins Tensor:$lhs, Tensor:$rhs);
}

// Data movement. Operands named shape, starts, ... are i64 tensors whose values inferShapes needs.
def TransposeOp : TensorOp<"transpose"> {
  let summary = "output dimension i is input dimension perm[i]";
  let arguments = (ins Tensor:$input, DenseI64ArrayAttr:$perm);
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}
def ReshapeOp : TensorOp<"reshape"> {
  let summary = "same elements, other dims; 0 copies a dimension unless allowzero, one -1 is computed";
  let arguments = (ins Tensor:$input, Tensor:$shape, DefaultValuedAttr<BoolAttr, "false">:$allowzero);
}
def SqueezeOp : TensorOp<"squeeze"> {
  let summary = "drops dimensions of size 1: `axes` (not negative), or all of them where absent";
  let arguments = (ins Tensor:$input, OptionalAttr<DenseI64ArrayAttr>:$axes);
}
def UnsqueezeOp : TensorOp<"unsqueeze"> {
  let summary = "inserts dimensions of size 1 at `axes` of the output (sorted, not negative)";
  let arguments = (ins Tensor:$input, DenseI64ArrayAttr:$axes);
}
def FlattenOp : TensorOp<"flatten"> {
  let summary = "two dimensions: those before `axis` and the rest";
  let arguments = (ins Tensor:$input, I64Attr:$axis);
}
def ExpandOp : TensorOp<"expand"> {
  let summary = "broadcasts to the broadcast of its own dims and `shape`";
  let arguments = (ins Tensor:$input, Tensor:$shape);
}
def TileOp : TensorOp<"tile"> {
  let summary = "repeats each dimension";
  let arguments = (ins Tensor:$input, Tensor:$repeats);
}
def ConcatOp : TensorOp<"concat"> {
  let summary = "joins along `axis` (not negative)";
  let arguments = (ins Variadic<Tensor>:$inputs, I64Attr:$axis);
  let hasFolder = 1;
}
def SplitOp : MrcOp<"split", [Pure, DeclareOpInterfaceMethods<InferShapes>]> {
  let summary = "parts along `axis`: given sizes, or equal ones (the last may be smaller)";
  let arguments = (ins Tensor:$input, OptTensor:$sizes, I64Attr:$axis);
  let results = (outs Variadic<Tensor>:$outputs);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def SliceOp : TensorOp<"slice"> {
  let summary = "ONNX Slice: starts, ends, axes, steps as tensors (axes and steps may be none)";
  let arguments = (ins Tensor:$input, Tensor:$starts, Tensor:$ends, OptTensor:$axes, OptTensor:$steps);
}
def PadOp : TensorOp<"pad"> {
  let summary = "pads all dimensions (or `axes`): begins, then ends; negative ones crop";
  let arguments = (ins PadMode:$mode, Tensor:$input, Tensor:$pads, OptTensor:$value, OptTensor:$axes);
  let assemblyFormat = "$mode operands attr-dict `:` functional-type(operands, results)";
}
def GatherOp : TensorOp<"gather"> {
  let summary = "numpy.take along `axis`; negative indices count from the end";
  let arguments = (ins Tensor:$input, Tensor:$indices, I64Attr:$axis);
}
def GatherElementsOp : TensorOp<"gather_elements"> {
  let summary = "output[i][j] = input[indices[i][j]][j] for axis 0";
  let arguments = (ins Tensor:$input, Tensor:$indices, I64Attr:$axis);
}
def GatherNDOp : TensorOp<"gather_nd"> {
  let arguments = (ins Tensor:$input, Tensor:$indices, I64Attr:$batch_dims);
}
def ScatterElementsOp : TensorOp<"scatter_elements"> {
  let arguments = (ins ScatterKind:$reduction, Tensor:$input, Tensor:$indices, Tensor:$updates, I64Attr:$axis);
  let assemblyFormat = "$reduction operands attr-dict `:` functional-type(operands, results)";
}
def ScatterNDOp : TensorOp<"scatter_nd"> {
  let arguments = (ins ScatterKind:$reduction, Tensor:$input, Tensor:$indices, Tensor:$updates);
  let assemblyFormat = "$reduction operands attr-dict `:` functional-type(operands, results)";
}
def ResizeOp : TensorOp<"resize"> {
  let summary = "ONNX Resize; rank of scales/sizes equals `axes`, which name the input's dimensions (after any layout change)";
  let arguments = (ins Tensor:$input, OptTensor:$roi, OptTensor:$scales, OptTensor:$sizes, StrAttr:$mode, StrAttr:$coordinate, StrAttr:$nearest,
                       DenseI64ArrayAttr:$axes, BoolAttr:$antialias, StrAttr:$aspect_policy, F32Attr:$cubic_coeff, BoolAttr:$exclude_outside, F32Attr:$extrapolation);
}

// Shape arithmetic: folds in every specialised variant.
def ShapeOp : TensorOp<"shape"> {
  let summary = "dims [start, end) as i64 (negative count from the end)";
  let arguments = (ins Tensor:$input, DefaultValuedAttr<I64Attr, "0">:$start, OptionalAttr<I64Attr>:$end);
}
def SizeOp : TensorOp<"size"> { let arguments = (ins Tensor:$input); }
def RangeOp : TensorOp<"range"> { let arguments = (ins Tensor:$start, Tensor:$limit, Tensor:$delta); }
def FillOp : TensorOp<"fill"> {
  let summary = "a tensor of `shape` that repeats `value` (one element)";
  let arguments = (ins Tensor:$shape, Tensor:$value);
}
def IotaOp : TensorOp<"iota"> {
  let summary = "like `input`'s shape: the index along `axis`, as `type` (for OneHot, EyeLike, Trilu)";
  let arguments = (ins Tensor:$input, I64Attr:$axis, TypeAttr:$type);
}

// Normalisations stay ops; they become kernels late.
def BatchNormOp : TensorOp<"batch_norm"> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias per channel, channels last";
  let arguments = (ins Tensor:$input, Tensor:$scale, Tensor:$bias, Tensor:$mean, Tensor:$variance, F32Attr:$epsilon);
}
def LayerNormOp : TensorOp<"layer_norm"> {
  let summary = "normalises dims [axis, rank) to mean 0 (unless rms) and variance 1, then * scale + bias";
  let arguments = (ins Tensor:$input, OptTensor:$scale, OptTensor:$bias, I64Attr:$axis, F32Attr:$epsilon, DefaultValuedAttr<BoolAttr, "false">:$rms);
}
def GroupNormOp : TensorOp<"group_norm"> {
  let summary = "per sample and group of channels, channels last; groups = C is instance norm; scale, bias [C] or none";
  let arguments = (ins Tensor:$input, OptTensor:$scale, OptTensor:$bias, I64Attr:$groups, F32Attr:$epsilon);
}
def SoftmaxOp : TensorOp<"softmax"> {
  let summary = "(log-)softmax along `axis` (not negative)";
  let arguments = (ins Tensor:$input, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$log);
}
def AttentionOp : TensorOp<"attention"> {
  let summary = "softmax(q k^T * scale + mask) v; q [B, H, M, D], k [B, H, N, D], v [B, H, N, E], mask broadcast to [B, H, M, N]";
  let arguments = (ins Tensor:$q, Tensor:$k, Tensor:$v, OptTensor:$mask, F32Attr:$scale);
}

// Packed weights, made once by pack-weights and folded at once.
def PackOp : TensorOp<"pack"> {
  let summary = "a weight in the form that a kernel family reads";
  let description = [{
    form "matmul": [K, N] -> [ceil(N/16), K, 16], zero-filled past N (leading batch dims stay in front).
    form "conv": [OC, IC, kh, kw] -> [IC/KC, ceil(OC/16), kh*kw, KC, 16], KC = largest divisor of IC up to 80. With group > 1 a
      leading dimension [group] stands in front and OC, IC are those of one group.
    form "depthwise": [C, 1, kh, kw] -> [kh*kw, C].
  }];
  let arguments = (ins Tensor:$input, StrAttr:$form, DefaultValuedAttr<I64Attr, "1">:$group);
}

// After form-kernels.
def LaunchOp : MrcOp<"launch", [Pure]> {
  let summary = "one call of a kernel of `family`";
  let description = [{
    `config` holds what the family needs (strides, pads, ...; see its file in lib/Kernels), `body` the fused scalar
    expression (mrcc/IR/Expr.h). After plan-memory `views` says where each result (first) and each operand lies.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, StrAttr:$family, DictionaryAttr:$config, OptionalAttr<StrAttr>:$body, OptionalAttr<ArrayAttr>:$views);
  let results = (outs Variadic<Tensor>:$outputs);
  let hasVerifier = 1;
  let assemblyFormat = "$family $config (`body` $body^)? `(` $inputs `)` (`views` $views^)? attr-dict `:` functional-type($inputs, results)";
}
#endif
