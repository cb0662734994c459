// ONNX's shape rules as plain functions on numbers, shared by shape inference, the constant evaluator, specialisation
// and form-kernels, so that each rule has one home. A dimension that is not known is ShapedType::kDynamic.
#pragma once
#include "mrcc/IR/Mrc.h"

namespace mrcc {

/// What is known of an integer tensor's elements in row-major order: constants, dims of static types, and arithmetic on
/// them (concat, gather, slice, ...). Nothing if not even their number is known.
std::optional<llvm::SmallVector<std::optional<int64_t>>> partialIntegers(mlir::Value value);
/// A constant float tensor's elements.
std::optional<llvm::SmallVector<double>> getFloats(mlir::Value value);

/// Elements of one dimension that a slice takes: start, start + step, ... `count` of them, all inside the dimension.
struct SliceRange {
  int64_t start = 0, step = 1, count = 0;
  bool operator==(const SliceRange &) const = default;
};
/// ONNX's clamping of negative and far starts and ends. `step` is not 0.
SliceRange sliceRange(int64_t dim, int64_t start, int64_t end, int64_t step);
/// One range a dimension. Nothing if a dimension or an operand is not known.
std::optional<llvm::SmallVector<SliceRange>> sliceRanges(mlir::Operation *slice);

/// One spatial dimension of a windowed op with its padding made explicit.
struct WindowDim {
  int64_t out, padBegin, padEnd;
};
/// Convolution and pooling. `autoPad` is explicit, SAME_UPPER, SAME_LOWER or VALID; with `ceil` a last, partial window
/// counts, unless it would start in the end padding. `out` is below 1 where the window does not fit.
WindowDim windowDim(llvm::StringRef autoPad, int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                    int64_t padBegin, int64_t padEnd, bool ceil);
/// Transposed convolution. With `outputShape` the padding follows from it; what exceeds the windows is zeros at the end
/// (a negative padEnd).
WindowDim transposedWindowDim(llvm::StringRef autoPad, int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                              int64_t padBegin, int64_t padEnd, int64_t outputPadding,
                              std::optional<int64_t> outputShape);

/// The dims that the weights of a convolution or matmul have in ONNX: conv [OC, IC/group, kernel...], conv_transpose
/// [IC, OC/group, kernel...], matmul its rhs. They follow from the attributes packed_kernel and packed_oc, or packed_k
/// and packed_n, where pack-weights has packed them.
llvm::SmallVector<int64_t> weightDims(mlir::Operation *op);

/// The spatial dims of a conv, conv_transpose or pool op whose input is static there.
llvm::SmallVector<WindowDim> windowDims(mlir::Operation *op);

/// Begin and end padding of every dimension of a pad op; nothing where its operands are not constant.
struct PadRange {
  int64_t begin = 0, end = 0;
};
std::optional<llvm::SmallVector<PadRange>> padRanges(mlir::Operation *pad);

/// Size and scale of each resized dimension (those in `axes`), by ONNX's rounding in float32; nothing where the
/// operands or a dimension are not known.
struct ResizeDim {
  int64_t out;
  float scale;
};
/// floor(in * scale + rounding), the product in float32; nothing unless the scale is positive and the result at most
/// maxElements.
std::optional<int64_t> scaledDim(int64_t in, float scale, double rounding = 0);
/// `out` is -1 where a scale cannot be.
std::optional<llvm::SmallVector<ResizeDim>> resizeDims(mlir::Operation *resize);

/// Largest divisor of `channels` up to 80: the block of input channels of packed convolution weights.
int64_t packedChannelBlock(int64_t channels);

/// Number of elements of ONNX's Range; nothing for delta 0 or more than 2^40 elements.
std::optional<int64_t> rangeLength(double start, double limit, double delta);

std::string dimsText(llvm::ArrayRef<int64_t> dims); // 1x3x?x4; "scalar" for rank 0
/// An error at `op` that names op and ONNX nodes: "'mrc.concat' op of node 'Concat_7': ".
mlir::InFlightDiagnostic shapeError(mlir::Operation *op);
/// A shapeError's message at `loc` without op and nodes, for messages that name the node themselves; any other message
/// as it is.
llvm::StringRef reasonOf(llvm::StringRef message, mlir::Location loc);

} // namespace mrcc
