// The state of propagate-layout and what it does to each op: PropagateLayout.cpp has the algorithm, the sweep and ops
// with several operands, PropagateLayoutOps.cpp the ops with one.
#pragma once
#include "Passes.h"
#include "Rewrite.h"

namespace mrcc {

class Propagate {
public:
  explicit Propagate(mlir::func::FuncOp function) : function(function), b(function.getContext()) {}
  void run();

private:
  // Each rebuilds an op on data before a transpose; true if it did. They leave the op alone otherwise.
  bool visit(mlir::Operation *op);
  bool composeTranspose(TransposeOp op);
  bool shape(ShapeOp op);
  bool sameShape(mlir::Operation *op, llvm::StringRef axis);
  bool broadcasting(mlir::Operation *op);
  bool concat(ConcatOp op);
  bool split(SplitOp op);
  bool layerNorm(LayerNormOp op);
  bool matmul(MatMulOp op);
  bool reduce(ReduceOp op);
  bool argReduce(ArgReduceOp op);
  bool resize(ResizeOp op);
  bool pad(PadOp op);
  bool slice(SliceOp op);
  bool gather(GatherOp op);
  bool expand(mlir::Operation *op, mlir::Value shape);
  bool squeeze(SqueezeOp op);
  bool unsqueeze(UnsqueezeOp op);
  bool reshape(mlir::Operation *op, mlir::Value shape, bool allowzero);

  bool hoist(TransposeOp op);
  void squeezeOnes(TransposeOp op);

  /// Replaces the op's results by transposes of the copy's results.
  void finish(mlir::Operation *old, mlir::Operation *copy, llvm::ArrayRef<Perm> perms);
  /// The transpose that made this value, if it may move.
  TransposeOp source(mlir::Value v);
  /// The layout in which an op of several operands shall work, as the perm of the transpose that then follows it.
  /// Nothing if it stays as it is.
  std::optional<Perm> chooseLayout(mlir::Operation *op, mlir::ValueRange operands, int64_t rank);
  /// The operand in the layout before the transpose `perm`.
  mlir::Value inLayout(mlir::Value v, llvm::ArrayRef<int64_t> perm, mlir::Location loc);
  /// True if data of this value reaches a transpose that would cancel `perm`, through ops that permute freely.
  bool demanded(mlir::Value v, llvm::ArrayRef<int64_t> perm, int depth);

  mlir::func::FuncOp function;
  mlir::OpBuilder b;
};

} // namespace mrcc
