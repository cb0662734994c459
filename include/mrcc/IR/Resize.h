// Where the elements of a resized dimension come from: ONNX Resize as a table of taps, one list an output index. Resize
// is separable, so a table a dimension is the whole op. Coordinates are computed in float32, as ONNX Runtime does (it
// decides ties of `nearest`). Sources: the ONNX operator's text and the reference evaluator's treatment of edges.
#pragma once
#include "mrcc/IR/Shapes.h"

namespace mrcc {

struct ResizeTaps {
  int64_t width = 1;            // taps an output index
  std::vector<int64_t> index;   // out x width, clamped into the input
  std::vector<float> weight;    // out x width; sums to 1
  std::vector<uint8_t> outside; // tf_crop_and_resize: this output index takes the extrapolation value; else empty
};

/// Taps of entry `i` of the op's `axes`; `dims` is resizeDims(op). The roi (if the op has one) must be constant.
/// Nothing if it is missing, or for more than 2^26 taps.
std::optional<ResizeTaps> resizeTaps(mlir::Operation *resize, size_t i, llvm::ArrayRef<ResizeDim> dims,
                                     llvm::ArrayRef<double> roi);

} // namespace mrcc
