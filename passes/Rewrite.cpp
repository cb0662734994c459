#include "Rewrite.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

//===-- permutations ----------------------------------------------------------------------------------------------===//

bool mrcc::isIdentity(ArrayRef<int64_t> perm) {
  for (auto [i, p] : llvm::enumerate(perm))
    if (p != int64_t(i))
      return false;
  return true;
}

Perm mrcc::inverse(ArrayRef<int64_t> perm) {
  Perm out(perm.size());
  for (auto [i, p] : llvm::enumerate(perm))
    out[p] = i;
  return out;
}

Perm mrcc::compose(ArrayRef<int64_t> first, ArrayRef<int64_t> second) { return permuted(first, second); }

RankedTensorType mrcc::permuted(RankedTensorType type, ArrayRef<int64_t> perm) {
  return RankedTensorType::get(permuted(type.getShape(), perm), type.getElementType());
}

bool mrcc::movesOnlyOnes(RankedTensorType type, ArrayRef<int64_t> perm) {
  int64_t last = -1;
  for (int64_t p : perm) {
    if (type.getDimSize(p) == 1)
      continue;
    if (p < last)
      return false;
    last = p;
  }
  return true;
}

//===-- constants -------------------------------------------------------------------------------------------------===//

std::optional<std::vector<double>> mrcc::readFloats(Value value) {
  auto data = getConstant(value);
  auto element = data ? dyn_cast<FloatType>(data->type.getElementType()) : FloatType();
  if (!element || element.getWidth() > 64 || element.getWidth() < 8)
    return std::nullopt;
  size_t width = element.getWidth() / 8, n = data->bytes.size() / width;
  std::vector<double> out(n);
  const uint8_t *at = data->bytes.data();
  if (element.isF32()) {
    for (size_t i = 0; i < n; ++i) {
      float v;
      std::memcpy(&v, at + 4 * i, 4);
      out[i] = v;
    }
    return out;
  }
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, at + width * i, width);
    APFloat v(element.getFloatSemantics(), APInt(element.getWidth(), bits));
    bool lost;
    v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    out[i] = v.convertToDouble();
  }
  return out;
}

TypedAttr mrcc::floatsAttr(RankedTensorType type, ArrayRef<double> values) {
  auto element = cast<FloatType>(type.getElementType());
  size_t width = element.getWidth() / 8;
  std::vector<uint8_t> bytes(values.size() * width);
  for (auto [i, value] : llvm::enumerate(values)) {
    APFloat v(value);
    bool lost;
    if (element.isF32()) { // the common case, without APFloat's cost
      float f = float(value);
      if (!std::isfinite(f) && std::isfinite(value))
        return nullptr;
      std::memcpy(bytes.data() + 4 * i, &f, 4);
      continue;
    }
    v.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    if (!v.isFinite() && std::isfinite(value))
      return nullptr;
    uint64_t bits = v.bitcastToAPInt().getZExtValue();
    std::memcpy(bytes.data() + width * i, &bits, width);
  }
  if (values.size() == 1)
    return makeConstantAttr(type, bytes, true);
  return makeConstantAttr(type, std::move(bytes));
}

Value mrcc::reshapedConstant(OpBuilder &b, Value value, ArrayRef<int64_t> dims) {
  auto data = getConstant(value);
  if (!data)
    return nullptr;
  auto type = RankedTensorType::get(dims, data->type.getElementType());
  return makeConstant(b, value.getLoc(), makeConstantAttr(type, data->bytes, data->isSplat));
}

Value mrcc::transposedConstant(OpBuilder &b, Value value, ArrayRef<int64_t> perm) {
  return transposedConstant(b, value, perm, {});
}

Value mrcc::transposedConstant(OpBuilder &b, Value value, ArrayRef<int64_t> perm, ArrayRef<int64_t> flipped) {
  auto data = getConstant(value);
  if (!data)
    return nullptr;
  RankedTensorType type = permuted(data->type, perm);
  if (data->isSplat)
    return makeConstant(b, value.getLoc(), makeConstantAttr(type, data->bytes, true));
  size_t width = bitWidth(toDType(type.getElementType())) / 8;
  if (width == 0)
    return nullptr;
  int64_t rank = type.getRank();
  SmallVector<int64_t> strides(rank), steps(rank), index(rank);
  for (int64_t i = rank - 1, n = width; i >= 0; --i) {
    strides[i] = n;
    n *= data->type.getDimSize(i);
  }
  const uint8_t *from = data->bytes.data();
  for (int64_t i = 0; i < rank; ++i) {
    bool reversed = llvm::is_contained(flipped, perm[i]);
    steps[i] = reversed ? -strides[perm[i]] : strides[perm[i]];
    if (reversed)
      from += strides[perm[i]] * (type.getDimSize(i) - 1);
  }
  std::vector<uint8_t> bytes(data->bytes.size());
  for (size_t at = 0; at < bytes.size(); at += width) {
    std::memcpy(bytes.data() + at, from, width);
    for (int64_t i = rank - 1; i >= 0; --i) { // the next index, the last dimension first
      from += steps[i];
      if (++index[i] < type.getDimSize(i))
        break;
      from -= steps[i] * index[i];
      index[i] = 0;
    }
  }
  return makeConstant(b, value.getLoc(), makeConstantAttr(type, std::move(bytes)));
}

//===-- ops -------------------------------------------------------------------------------------------------------===//

Value mrcc::transposed(OpBuilder &b, Location loc, Value value, ArrayRef<int64_t> perm) {
  if (isIdentity(perm))
    return value;
  if (Value folded = transposedConstant(b, value, perm))
    return folded;
  if (auto inner = value.getDefiningOp<TransposeOp>())
    return transposed(b, loc, inner.getInput(), compose(inner.getPerm(), perm));
  return TransposeOp::create(b, loc, permuted(typeOf(value), perm), value, perm);
}

Value mrcc::withRank(OpBuilder &b, Location loc, Value value, int64_t rank) {
  RankedTensorType type = typeOf(value);
  int64_t missing = rank - type.getRank();
  if (missing <= 0)
    return value;
  SmallVector<int64_t> dims(missing, 1);
  llvm::append_range(dims, type.getShape());
  if (isConstant(value))
    return reshapedConstant(b, value, dims);
  return UnsqueezeOp::create(b, loc, RankedTensorType::get(dims, type.getElementType()), value,
                             llvm::to_vector(llvm::seq<int64_t>(0, missing)));
}

Operation *mrcc::cloneWith(OpBuilder &b, Operation *op, ValueRange operands, TypeRange types) {
  Operation *copy = b.clone(*op);
  copy->setOperands(operands);
  for (auto [result, type] : llvm::zip_equal(copy->getResults(), types))
    result.setType(type);
  return copy;
}

void mrcc::eraseDead(Operation *op) {
  llvm::SmallSetVector<Operation *, 8> work;
  work.insert(op);
  while (!work.empty()) {
    Operation *next = work.pop_back_val();
    if (!next || !next->use_empty() || !isPure(next))
      continue;
    for (Value v : next->getOperands())
      work.insert(v.getDefiningOp());
    next->erase();
  }
}

Location mrcc::fused(Operation *a, Operation *b) { return FusedLoc::get(a->getContext(), {a->getLoc(), b->getLoc()}); }

int64_t mrcc::constantBytes(ValueRange values) {
  int64_t bytes = 0;
  for (Value v : values)
    if (auto data = isNone(v) ? std::nullopt : getConstant(v))
      bytes += data->bytes.size();
  return bytes;
}

void mrcc::recordFold(Operation *op, StringRef ops, int64_t bytesBefore, int64_t bytesAfter) {
  auto module = op->getParentOfType<ModuleOp>();
  if (!module)
    return;
  SmallVector<Attribute> records;
  if (auto known = module->getAttrOfType<ArrayAttr>("mrc.folded"))
    records.assign(known.begin(), known.end());
  Builder b(op->getContext());
  records.push_back(b.getDictionaryAttr({
      b.getNamedAttr("bytes_after", b.getI64IntegerAttr(bytesAfter)),
      b.getNamedAttr("bytes_before", b.getI64IntegerAttr(bytesBefore)),
      b.getNamedAttr("node", b.getStringAttr(nodeNames(op->getLoc()))),
      b.getNamedAttr("ops", b.getStringAttr(ops)),
      b.getNamedAttr("stage", b.getStringAttr("simplify")),
  }));
  module->setAttr("mrc.folded", b.getArrayAttr(records));
}
