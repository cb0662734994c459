// What the InferShapes files share.
#pragma once
#include "mrcc/IR/Shapes.h"
#include <algorithm>

namespace mrcc::infer {

inline constexpr int64_t unknown = mlir::ShapedType::kDynamic;
using Types = llvm::SmallVectorImpl<mlir::Type>;
using Dims = llvm::SmallVector<int64_t>;

inline mlir::RankedTensorType typeOf(mlir::Value v) { return llvm::cast<mlir::RankedTensorType>(v.getType()); }
inline llvm::ArrayRef<int64_t> dimsOf(mlir::Value v) { return typeOf(v).getShape(); }
inline bool isNone(mlir::Value v) { return llvm::isa<mlir::NoneType>(v.getType()); }

inline llvm::LogicalResult give(Types &types, llvm::ArrayRef<int64_t> dims, mlir::Type element) {
  types.push_back(mlir::RankedTensorType::get(dims, element));
  return llvm::success();
}

/// Both have one element type; `b` may be none.
llvm::LogicalResult checkSameElement(mlir::Operation *op, mlir::Value a, mlir::Value b);

using Wide = __int128;

/// A size that may have overflowed, held within +-2^60: sums of a few stay exact, and no tensor is that large.
inline int64_t held(Wide size) {
  constexpr Wide most = Wide(1) << 60;
  return int64_t(std::clamp(size, -most, most));
}

/// Elements that a dilated window of `kernel` taps reaches over.
inline int64_t windowExtent(int64_t kernel, int64_t dilation) { return held(Wide(dilation) * (Wide(kernel) - 1) + 1); }

/// Equal as far as both are known; `a` takes what only `b` knows.
inline bool mergeDim(int64_t &a, int64_t b) {
  if (a == unknown)
    a = b;
  return b == unknown || a == b;
}

/// Said of an operand that may be the culprit of a mismatch.
inline llvm::StringRef frozen(mlir::Value v) {
  return v && getConstant(v) ? " (it is a constant, frozen for another size)" : "";
}

/// 0 <= axis < rank, or an error.
llvm::LogicalResult checkAxis(mlir::Operation *op, int64_t axis, int64_t rank);
/// `v` has `rank` dims, or an error that names it `name`.
llvm::LogicalResult checkRank(mlir::Operation *op, mlir::Value v, llvm::StringRef name, int64_t rank);
/// An integer tensor of rank 1 (or 0).
llvm::LogicalResult checkIntegers(mlir::Operation *op, mlir::Value v, llvm::StringRef name);
/// A per-channel vector (or none) of `size` elements.
llvm::LogicalResult checkChannels(mlir::Operation *op, mlir::Value v, llvm::StringRef name, int64_t size);
/// The broadcast of the operands' dims, or an error that names them.
std::optional<Dims> broadcastOperands(mlir::Operation *op, mlir::ValueRange operands);

} // namespace mrcc::infer
