// Evaluates ops on constants, in program order, so that chains fold in one pass; linear in ops and in the bytes made.
// Result types are inferred again on the way: a shape operand that folds makes the dims of its users known. What is
// folded, and what stays to keep the bundle small, is decided in mrcc/Fold/Folder.h. A selection that a constant
// decides everywhere gives way to the operand that it takes.
#include "Passes.h"
#include "mrcc/Fold/Folder.h"
#include "mrcc/IR/Shapes.h"

namespace mrcc {
#define GEN_PASS_DEF_FOLDCONSTANTS
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

/// Infers again and keeps what only the declared types knew.
static LogicalResult refine(Operation *op) {
  SmallVector<Type> types;
  auto infer = dyn_cast<InferShapes>(op);
  if (!infer)
    return success();
  if (failed(infer.inferShapes(types)))
    return failure();
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
    auto inferred = cast<RankedTensorType>(type), declared = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> dims(inferred.getShape());
    for (auto [d, known] : llvm::zip_equal(dims, declared.getShape()))
      d = ShapedType::isDynamic(d) ? known : d;
    result.setType(inferred.clone(dims));
  }
  return success();
}

/// The operand that a constant condition takes everywhere.
static Value decidedSelect(SelectOp op) {
  auto taken = getScalar(op.getCondition());
  Value v = !taken ? Value() : *taken ? op.getA() : op.getB();
  return v && v.getType() == op.getType() && cast<RankedTensorType>(v.getType()).hasStaticShape() ? v : Value();
}

namespace {
struct FoldConstantsPass : mrcc::impl::FoldConstantsBase<FoldConstantsPass> {
  using Base::Base;
  void runOnOperation() override {
    Folder folder(stage);
    for (Operation &op : llvm::make_early_inc_range(getOperation().getBody().front())) {
      if (failed(refine(&op)))
        return signalPassFailure();
      auto select = dyn_cast<SelectOp>(op);
      if (Value taken = select ? decidedSelect(select) : Value()) {
        select.getOutput().replaceAllUsesWith(taken);
        select.erase();
        continue;
      }
      folder.tryFold(&op);
    }
    folder.finish(getOperation());
    updateResultTypes(getOperation());
  }
};
} // namespace
