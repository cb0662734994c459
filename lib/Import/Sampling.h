// Reading images at computed places.
#pragma once
#include "Windows.h"

namespace mrcc {

/// One pixel along one dimension that a sample reads: its index, a whole number inside the image, and its weight (null:
/// 1).
struct Tap {
  mlir::Value place, weight;
};

/// The channels at one pixel per point: image [batch dims..., D1, ..., Dk, C], k places of the points' shape.
mlir::Value gatherPixels(NodeContext &c, mlir::Value image, llvm::ArrayRef<mlir::Value> places, int64_t batchDims);

/// The weighted sum over all combinations of taps, one list per image dimension.
mlir::Value interpolate(NodeContext &c, mlir::Value image, llvm::ArrayRef<llvm::SmallVector<Tap>> taps,
                        int64_t batchDims);

/// The two neighbours of a fractional place; those outside the image count nothing.
llvm::SmallVector<Tap> linearTaps(NodeContext &c, mlir::Value at, mlir::Value length);

} // namespace mrcc
