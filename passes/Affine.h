// x * scale + offset per channel (the last dimension), and folding it into the constant weights of the op before or
// after.
#pragma once
#include "Rewrite.h"

namespace mrcc {

/// One element or one a channel each.
struct Affine {
  std::vector<double> scale{1}, offset{0};
  bool hasScale() const {
    return llvm::any_of(scale, [](double v) { return v != 1; });
  }
  bool hasOffset() const {
    return llvm::any_of(offset, [](double v) { return v != 0; });
  }
  double scaleAt(size_t channel) const { return scale[scale.size() == 1 ? 0 : channel]; }
  double offsetAt(size_t channel) const { return offset[offset.size() == 1 ? 0 : channel]; }
  /// `next` applied to the result of this.
  Affine then(const Affine &next) const;
};

/// Convolution or matmul whose weights are a constant that no other op needs in its old form.
bool hasOwnWeights(mlir::Operation *op);
/// Makes op(x) * scale + offset of op(x) by new weights and bias (scale and bias of layer_norm and group_norm). A
/// matmul has no bias: it takes the scale only. False, and nothing that matters changed, if that cannot be.
bool foldAfter(mlir::OpBuilder &b, mlir::Operation *op, const Affine &affine);
/// Makes op(x * scale + offset) of op(x), where op reads x as its first operand. Offsets only pass into a convolution
/// without padding. False, and nothing changed, if that cannot be.
bool foldBefore(mlir::OpBuilder &b, mlir::Operation *op, const Affine &affine);
/// x * scale + offset as ops, without those that do nothing. Null if a number does not fit the type.
mlir::Value applyAffine(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, const Affine &affine);

} // namespace mrcc
