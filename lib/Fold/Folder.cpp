// The rule of what folds, and the record of it; see the header.
#include "mrcc/Fold/Folder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mrcc/IR/Shapes.h"
#include <set>

using namespace mlir;
using namespace mrcc;

/// Copies, repeats or converts elements: its result can be had again from its operand for next to nothing.
static bool onlyMoves(Operation *op) {
  if (auto resize = dyn_cast<ResizeOp>(op))
    return resize.getMode() == "nearest";
  return isa<ExpandOp, TileOp, FillOp, RangeOp, IotaOp, PadOp, CastOp, BitcastOp, GatherOp, GatherElementsOp,
             GatherNDOp, ReshapeOp, SqueezeOp, UnsqueezeOp, FlattenOp, TransposeOp, SliceOp, SplitOp>(op);
}

/// Takes more than a pass over the result to compute.
static bool isWork(Operation *op) {
  if (auto resize = dyn_cast<ResizeOp>(op))
    return resize.getMode() != "nearest";
  return isa<MatMulOp, ConvOp, ConvTransposeOp, PoolOp, ReduceOp, SoftmaxOp, BatchNormOp, LayerNormOp, GroupNormOp,
             CumulativeOp, PackOp>(op);
}

/// What reads the results of element-wise ops on `v` alone is a transposed convolution: its weights are flipped before
/// they are packed, which is not done at run time.
static bool feedsConvTranspose(Value v) {
  while (v.hasOneUse() && isa<BinaryOp, CastOp>(*v.user_begin()))
    v = (*v.user_begin())->getResult(0);
  return llvm::any_of(v.getUsers(), [](Operation *user) { return isa<ConvTransposeOp>(user); });
}

/// The cast of weights that are stored as bytes or less: folding would make the bundle what quantisation made it not.
static bool widensWeights(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  if (!cast)
    return false;
  auto type = mlir::cast<RankedTensorType>(cast.getInput().getType());
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  return integer && integer.getWidth() > 1 && integer.getWidth() <= 8 &&
         llvm::count_if(type.getShape(), [](int64_t d) { return d > 1; }) > 1 && !feedsConvTranspose(cast.getOutput());
}

/// The op reads its operand's type alone.
static bool readsTypeOnly(Operation *op) { return isa<ShapeOp, SizeOp, IotaOp>(op); }

static bool isStatic(TypeRange types) {
  return llvm::all_of(types, [](Type t) {
    auto ranked = dyn_cast<RankedTensorType>(t);
    return ranked && ranked.hasStaticShape();
  });
}

/// A constant that an earlier call made keeps the location of what was folded; its bytes tell it from a namesake.
const Folder::Origin *Folder::earlier(Operation *constant, int64_t bytes) {
  if (!earlierRecords) {
    earlierRecords.emplace();
    auto module = constant->getParentOfType<ModuleOp>();
    auto records = module ? module->getAttrOfType<ArrayAttr>("mrc.folded") : ArrayAttr();
    for (Attribute entry : records ? records.getValue() : ArrayRef<Attribute>()) {
      auto record = cast<DictionaryAttr>(entry);
      Origin origin;
      origin.sourceBytes = record.getAs<IntegerAttr>("bytes_before").getInt();
      for (StringRef name : llvm::split(record.getAs<StringAttr>("ops").getValue(), ','))
        origin.ops.push_back(name.str());
      (*earlierRecords)[{record.getAs<StringAttr>("node").str(), record.getAs<IntegerAttr>("bytes_after").getInt()}] =
          origin;
    }
  }
  auto it = earlierRecords->find({nodeNames(constant->getLoc()), bytes});
  return it == earlierRecords->end() ? nullptr : &it->second;
}

Folder::Origin Folder::originOf(Operation *op, ArrayRef<ConstantData> operands) {
  Origin origin;
  auto addOps = [&](ArrayRef<std::string> names) {
    for (const std::string &name : names)
      if (!llvm::is_contained(origin.ops, name))
        origin.ops.push_back(name);
  };
  SmallVector<Value> seen;
  for (auto [value, data] : llvm::zip_equal(op->getOperands(), operands)) {
    if (llvm::is_contained(seen, value) || isa<NoneType>(value.getType()))
      continue;
    seen.push_back(value);
    auto madeHere = made.find(value.getDefiningOp());
    auto known = virtuals.find(value);
    const Origin *from = known != virtuals.end()  ? &known->second.origin
                         : madeHere != made.end() ? &madeHere->second
                                                  : nullptr;
    if (!from && value.getDefiningOp<ConstantOp>())
      from = earlier(value.getDefiningOp(), data.bytes.size());
    if (from) {
      origin.sourceBytes += from->sourceBytes;
      addOps(from->ops);
    } else {
      origin.sourceBytes += data.bytes.size();
    }
  }
  addOps(op->getName().stripDialect().str());
  origin.node = nodeNames(op->getLoc());
  return origin;
}

bool Folder::tryFold(Operation *op) {
  if (!canEvaluate(op) || op->getNumResults() == 0 || !isStatic(op->getResultTypes()) || widensWeights(op))
    return false;
  bool typeOnly = readsTypeOnly(op);
  if (typeOnly && !isStatic(op->getOperandTypes()) && !isa<ShapeOp>(op))
    return false;
  if (auto shape = dyn_cast<ShapeOp>(op)) { // of a part of the dims, the others may be unknown
    auto dims = cast<RankedTensorType>(shape.getInput().getType()).getShape();
    SliceRange part = sliceRange(dims.size(), shape.getStart(), shape.getEnd().value_or(dims.size()), 1);
    if (llvm::is_contained(dims.slice(part.start, part.count), ShapedType::kDynamic))
      return false;
  }
  SmallVector<ConstantData> operands;
  bool fromVirtual = false;
  int64_t before = 0;
  for (Value v : op->getOperands()) {
    if (isa<NoneType>(v.getType())) {
      operands.emplace_back();
      continue;
    }
    if (typeOnly) {
      ConstantData data;
      data.type = cast<RankedTensorType>(v.getType());
      operands.push_back(data);
      continue;
    }
    if (auto known = virtuals.find(v); known != virtuals.end()) {
      const Evaluated &e = *known->second.value;
      operands.push_back({e.type, e.bytes, e.splat, known->second.value});
      fromVirtual = true;
      continue;
    }
    auto data = getConstant(v);
    if (!data)
      return false;
    before += data->bytes.size();
    operands.push_back(std::move(*data));
  }
  // Decide what size alone decides before computing.
  int64_t after = 0;
  for (Type t : op->getResultTypes())
    after += byteSize(cast<RankedTensorType>(t));
  Origin origin = originOf(op, operands);
  bool table = origin.sourceBytes <= largestSmall && after <= largestTable;
  ArrayRef<ConstantData> elements(operands); // those whose values the result holds; the others are shapes and the like
  if (onlyMoves(op) && !isa<RangeOp, IotaOp, ResizeOp, PadOp>(op))
    elements = elements.slice(isa<FillOp>(op) ? 1 : 0, 1);
  bool allSplat = llvm::all_of(
      elements, [](const ConstantData &d) { return !d.type || d.isSplat || d.type.getNumElements() == 1; });
  bool fits = after <= largestSmall || (!fromVirtual && after <= before) || isWork(op) || (table && !onlyMoves(op));
  if (!fits && !table && (!allSplat || isa<ConcatOp, PadOp, SelectOp>(op))) // these would need all their bytes
    return false;
  auto results = evaluate(op, operands);
  if (!results) {
    llvm::handleAllErrors(results.takeError(), [&](const llvm::ErrorInfoBase &e) {
      if (e.convertToErrorCode() == std::errc::result_out_of_range) // so much work, see checkMultiplyAdds
        mlir::emitWarning(op->getLoc()) << "not folded: " << e.message();
    });
    return false;
  }
  bool splats = llvm::all_of(*results, [](const Evaluated &e) { return e.splat || e.type.getNumElements() <= 1; });
  if (!fits && !splats) {
    if (table && op->getNumResults() == 1) // it stays, but what is computed from it may fold
      virtuals[op->getResult(0)] = {std::make_shared<Evaluated>(std::move(results->front())), std::move(origin)};
    return false;
  }
  OpBuilder b(op);
  for (auto [result, value] : llvm::zip_equal(op->getResults(), *results)) {
    Value constant = makeConstant(b, op->getLoc(), toAttr(std::move(value)));
    made[constant.getDefiningOp()] = origin;
    result.replaceAllUsesWith(constant);
  }
  op->erase();
  return true;
}

void Folder::forget(Operation *op) {
  for (Value result : op->getResults())
    virtuals.erase(result);
  made.erase(op);
}

void mrcc::eraseDeadOps(func::FuncOp func) {
  SmallVector<Operation *> ops;
  for (Block &block : func.getBody())
    for (Operation &op : block)
      ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty() && isMemoryEffectFree(op) && !op->hasTrait<OpTrait::IsTerminator>())
      op->erase();
}

void Folder::finish(func::FuncOp func) {
  virtuals.clear();
  eraseDeadOps(func);
  auto module = func->getParentOfType<ModuleOp>();
  Builder b(func.getContext());
  SmallVector<Attribute> records;
  std::set<std::pair<std::string, int64_t>> alive;
  for (ConstantOp op : func.getOps<ConstantOp>())
    if (auto data = getConstant(op.getOutput()))
      alive.insert({nodeNames(op.getLoc()), int64_t(data->bytes.size())});
  auto known = module ? module->getAttrOfType<ArrayAttr>("mrc.folded") : ArrayAttr();
  for (Attribute record : known ? known.getValue() : ArrayRef<Attribute>()) {
    auto fields = cast<DictionaryAttr>(record);
    if (alive.count({fields.getAs<StringAttr>("node").str(), fields.getAs<IntegerAttr>("bytes_after").getInt()}))
      records.push_back(record);
  }
  for (ConstantOp op : func.getOps<ConstantOp>()) { // in program order
    auto it = made.find(op);
    if (it == made.end())
      continue;
    const Origin &o = it->second;
    auto data = getConstant(op.getOutput());
    records.push_back(b.getDictionaryAttr({
        b.getNamedAttr("bytes_after", b.getI64IntegerAttr(data ? data->bytes.size() : 0)),
        b.getNamedAttr("bytes_before", b.getI64IntegerAttr(o.sourceBytes)),
        b.getNamedAttr("node", b.getStringAttr(o.node)),
        b.getNamedAttr("ops", b.getStringAttr(llvm::join(o.ops, ","))),
        b.getNamedAttr("stage", b.getStringAttr(stage)),
    }));
  }
  if (module && (known || !records.empty()))
    module->setAttr("mrc.folded", b.getArrayAttr(records));
  made.clear();
  earlierRecords.reset();
}
