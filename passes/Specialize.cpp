// Binds the arguments' dims and walks the function once in program order. Each op infers its result types anew from its
// operands, which are static by then; shape arithmetic is evaluated at once, so a shape operand is constant when its
// user is reached. The op is then brought into its normal form (NormalForm.h). An op whose size is still unknown
// depends on data: the first one is the error. Linear in ops.
#include "NormalForm.h"
#include "Passes.h"
#include "mrcc/Fold/Evaluate.h"
#include "mrcc/Fold/Folder.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/ADT/SetVector.h"

namespace mrcc {
#define GEN_PASS_DEF_SPECIALIZE
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

namespace {
/// Sees what a normal form makes and erases, for the folder.
struct Watcher : RewriterBase::Listener {
  Folder &folder;
  SmallVector<Operation *> made;
  explicit Watcher(Folder &folder) : folder(folder) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { made.push_back(op); }
  void notifyOperationErased(Operation *op) override {
    folder.forget(op);
    llvm::erase(made, op);
  }
};
} // namespace

static bool hasUnknownDim(Operation *op) {
  return llvm::any_of(op->getResultTypes(), [](Type t) {
    auto ranked = dyn_cast<RankedTensorType>(t);
    return ranked && !ranked.hasStaticShape();
  });
}

/// Reports that the size of the op's result is unknown: at the op of the computation before it that failed on constants
/// (a division by zero), if there is one.
static LogicalResult reportUnknownSize(Operation *op) {
  constexpr size_t most = 1000; // ops looked at
  llvm::SetVector<Operation *> before;
  before.insert(op);
  for (size_t i = 0; i < before.size() && i < most; ++i)
    for (Value v : before[i]->getOperands()) {
      Operation *source = v.getDefiningOp();
      if (!source || !before.insert(source) || !canEvaluate(source) || hasUnknownDim(source))
        continue;
      auto operands = constantOperands(source);
      if (!operands)
        continue;
      if (auto value = evaluate(source, *operands); !value)
        return shapeError(source) << llvm::toString(value.takeError());
    }
  return shapeError(op) << "the size of the result " << op->getResult(0).getType()
                        << " depends on data and cannot be known when compiling";
}

/// The first type that no tensor can have; null without one.
static Type tooLarge(TypeRange types) {
  for (Type t : types)
    if (auto ranked = dyn_cast<RankedTensorType>(t);
        ranked && ranked.hasStaticShape() && !denseBytes(toDType(ranked.getElementType()), ranked.getShape()))
      return t;
  return nullptr;
}

static LogicalResult bindArguments(func::FuncOp func, ArrayRef<SmallVector<int64_t>> shapes) {
  if (shapes.size() != func.getNumArguments())
    return func.emitError() << "expected " << func.getNumArguments() << " shapes, one an input, got " << shapes.size();
  for (auto [i, shape] : llvm::enumerate(shapes)) {
    auto type = dyn_cast<RankedTensorType>(func.getArgument(i).getType());
    if (!type)
      return func.emitError() << "input " << i << " is no tensor";
    if (type.getRank() != int64_t(shape.size()))
      return func.emitError() << "input " << i << ": expected " << type.getRank() << " dimensions, got "
                              << dimsText(shape);
    for (int64_t d : shape)
      if (d < 0)
        return func.emitError() << "input " << i << ": expected dimensions of at least 0, got " << dimsText(shape);
    if (tooLarge(type.clone(shape)))
      return func.emitError() << "input " << i << ": " << dimsText(shape)
                              << " is too large, a tensor may have 2^48 elements";
    func.getArgument(i).setType(type.clone(shape)); // a dim that the model fixes is overridden, too
  }
  return success();
}

LogicalResult mrcc::specialize(func::FuncOp func, ArrayRef<SmallVector<int64_t>> inputShapes) {
  if (failed(bindArguments(func, inputShapes)))
    return failure();
  eraseDeadOps(func);
  Folder folder("specialize");
  Watcher watcher(folder);
  IRRewriter rewriter(func.getContext(), &watcher);
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
    if (failed(reinfer(&op)))
      return failure();
    if (hasUnknownDim(&op))
      return reportUnknownSize(&op);
    if (Type type = tooLarge(op.getResultTypes()))
      return shapeError(&op) << "the result " << type << " is too large, a tensor may have 2^48 elements";
    if (folder.tryFold(&op))
      continue;
    watcher.made.clear();
    normalise(&op, rewriter);
    for (Operation *made : SmallVector<Operation *>(watcher.made))
      folder.tryFold(made);
  }
  folder.finish(func);
  updateResultTypes(func);
  return success();
}

void mrcc::updateResultTypes(func::FuncOp func) {
  Operation *end = func.getBody().front().getTerminator();
  func.setType(FunctionType::get(func.getContext(), func.getBody().front().getArgumentTypes(), end->getOperandTypes()));
}

/// "1x8x8x4;scalar" as dims of each argument.
static std::optional<SmallVector<SmallVector<int64_t>>> parseShapes(StringRef text) {
  SmallVector<SmallVector<int64_t>> shapes;
  SmallVector<StringRef> parts;
  if (!text.empty())
    text.split(parts, ';');
  for (StringRef part : parts) {
    SmallVector<StringRef> numbers;
    shapes.emplace_back();
    if (part == "scalar")
      continue;
    part.split(numbers, 'x');
    for (StringRef n : numbers)
      if (n.getAsInteger(10, shapes.back().emplace_back()))
        return std::nullopt;
  }
  return shapes;
}

namespace {
struct SpecializePass : mrcc::impl::SpecializeBase<SpecializePass> {
  using Base::Base;
  void runOnOperation() override {
    auto parsed = parseShapes(shapes);
    if (!parsed) {
      getOperation().emitError() << "expected shapes such as 1x8x8x4;scalar, got '" << shapes << "'";
      return signalPassFailure();
    }
    if (failed(specialize(getOperation(), *parsed)))
      signalPassFailure();
  }
};
} // namespace
