// Entry of the evaluator: checks, operands as tensors, dispatch, results as packed bytes.
#include "Elements.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

using Evaluator = Results (*)(Operation *, Operands);

static Evaluator evaluatorOf(Operation *op) {
  if (op->hasAttr("packed_kernel") || op->hasAttr("packed_k"))
    return nullptr; // the weights' order is the kernels' business
  return TypeSwitch<Operation *, Evaluator>(op)
      .Case<UnaryOp, BinaryOp, SelectOp, CastOp, BitcastOp>([](auto) { return evaluateElementwise; })
      .Case<TransposeOp, ReshapeOp, SqueezeOp, UnsqueezeOp, FlattenOp, ExpandOp, TileOp, ConcatOp, SplitOp, SliceOp,
            PadOp, ShapeOp, SizeOp, RangeOp, FillOp, IotaOp>([](auto) { return evaluateMovement; })
      .Case<GatherOp, GatherElementsOp, GatherNDOp, ScatterElementsOp, ScatterNDOp>(
          [](auto) { return evaluateIndexed; })
      .Case<ReduceOp, ArgReduceOp, CumulativeOp>([](auto) { return evaluateReduction; })
      .Case<SoftmaxOp, BatchNormOp, LayerNormOp, GroupNormOp>([](auto) { return evaluateNorm; })
      .Case<ConvOp, ConvTransposeOp, PoolOp>([](auto) { return evaluateWindow; })
      .Case<ResizeOp>([](auto) { return evaluateResize; })
      .Case<MatMulOp>([](auto) { return evaluateMatMul; })
      .Case<PackOp>([](auto) { return evaluatePack; })
      .Default([](Operation *) { return nullptr; });
}

bool mrcc::canEvaluate(Operation *op) { return evaluatorOf(op) != nullptr; }

/// Does the op look at every element of its operands and make every one of its results, splats or not?
static bool needsAllElements(Operation *op) {
  return isa<ConcatOp, PadOp, SelectOp, GatherOp, GatherElementsOp, GatherNDOp, ScatterElementsOp, ScatterNDOp,
             ReduceOp, ArgReduceOp, CumulativeOp, SoftmaxOp, BatchNormOp, LayerNormOp, GroupNormOp, ConvOp,
             ConvTransposeOp, PoolOp, ResizeOp, MatMulOp, PackOp>(op);
}

/// An error with std::errc::result_out_of_range where the bytes to be made exceed 1 GiB and are many times those that
/// are there: a few bytes must not ask for all memory.
static llvm::Error checkMemory(Operation *op, ArrayRef<ConstantData> operands) {
  if (!needsAllElements(op))
    return llvm::Error::success();
  constexpr uint64_t always = uint64_t(1) << 30, times = 4;
  uint64_t there = 0, made = 0;
  if (isa<GatherOp>(op)) // it reads no more of its table than the result holds
    operands = operands.drop_front();
  for (const ConstantData &data : operands)
    if (data.type)
      (data.isSplat ? made : there) += data.isSplat ? byteSize(data.type) : data.bytes.size();
  for (Type type : op->getResultTypes())
    made += byteSize(cast<RankedTensorType>(type));
  if (made <= std::max(always, times * there))
    return llvm::Error::success();
  return llvm::createStringError(std::errc::result_out_of_range, "%s would need %llu bytes",
                                 op->getName().stripDialect().str().c_str(), static_cast<unsigned long long>(made));
}

/// One byte an element of the packed types.
static Tensor toTensor(const ConstantData &data) {
  Tensor t;
  if (!data.type)
    return t;
  t.type = toDType(data.type.getElementType());
  t.dims.assign(data.type.getShape().begin(), data.type.getShape().end());
  t.splat = data.isSplat;
  t.bytes = data.bytes;
  if (!isPacked(t.type) || data.bytes.empty()) // none: the op reads the type alone
    return t;
  t.owned = std::make_shared<std::vector<uint8_t>>(unpackElements(t.type, data.bytes, t.splat ? 1 : t.size()));
  t.bytes = *t.owned;
  return t;
}

llvm::Expected<std::vector<Evaluated>> mrcc::evaluate(Operation *op, ArrayRef<ConstantData> operands) {
  Evaluator evaluator = evaluatorOf(op);
  if (!evaluator)
    return fail("{0} cannot be evaluated", op->getName().getStringRef());
  for (Type type : op->getResultTypes())
    if (auto ranked = dyn_cast<RankedTensorType>(type);
        !ranked || !ranked.hasStaticShape() || toDType(ranked.getElementType()) == DType::none)
      return fail("{0} has a result of type {1}, which cannot be evaluated", op->getName().getStringRef(), type);
  if (llvm::Error error = checkMemory(op, operands))
    return error;
  SmallVector<Tensor> tensors;
  for (const ConstantData &data : operands)
    tensors.push_back(toTensor(data));
  Results results = evaluator(op, tensors);
  if (!results)
    return results.takeError();
  std::vector<Evaluated> out;
  for (auto [tensor, type] : llvm::zip_equal(*results, op->getResultTypes())) {
    Evaluated e{cast<RankedTensorType>(type), {}, tensor.splat};
    if (isPacked(tensor.type))
      e.bytes = packElements(tensor.type, tensor.bytes);
    else if (tensor.owned && tensor.owned.use_count() == 1 && tensor.owned->size() == tensor.bytes.size())
      e.bytes = std::move(*tensor.owned);
    else
      e.bytes.assign(tensor.bytes.begin(), tensor.bytes.end());
    out.push_back(std::move(e));
  }
  return out;
}

std::optional<SmallVector<ConstantData>> mrcc::constantOperands(Operation *op) {
  SmallVector<ConstantData> out;
  for (Value v : op->getOperands()) {
    if (isa<NoneType>(v.getType())) {
      out.emplace_back();
      continue;
    }
    auto data = getConstant(v);
    if (!data)
      return std::nullopt;
    out.push_back(std::move(*data));
  }
  return out;
}

llvm::Expected<std::vector<Evaluated>> mrcc::evaluate(Operation *op) {
  auto operands = constantOperands(op);
  if (!operands)
    return fail("{0} has operands that are not constant", op->getName().getStringRef());
  return evaluate(op, *operands);
}

TypedAttr mrcc::toAttr(Evaluated &&value) {
  return value.splat ? makeConstantAttr(value.type, value.bytes, true)
                     : makeConstantAttr(value.type, std::move(value.bytes));
}
