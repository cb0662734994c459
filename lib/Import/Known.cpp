#include "Known.h"
#include "mrcc/Fold/Evaluate.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mrcc;

namespace {

/// Walks up from a value, through dims of static types and ops on what is known. The limits keep a computation on data
/// from being done here: folding is the work of a pass.
class Walk {
public:
  explicit Walk(int64_t largest) : largest(largest) {}

  std::optional<ConstantData> visit(Value v, unsigned depth) {
    if (isa<NoneType>(v.getType()))
      return ConstantData();
    if (auto data = getConstant(v))
      return data;
    Operation *op = v.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!op || !type || !type.hasStaticShape() || type.getNumElements() > largest || depth > deepest)
      return std::nullopt;
    if (auto found = done.find(v); found != done.end())
      return found->second;
    auto result = isa<ShapeOp, SizeOp>(op) ? dimsOf(v, type) : evaluated(op, v, depth);
    done.try_emplace(v, result);
    return result;
  }

private:
  const int64_t largest; // elements
  static constexpr unsigned deepest = 100;

  static std::optional<ConstantData> owned(RankedTensorType type, std::vector<uint8_t> bytes, bool splat) {
    auto keeper = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
    return ConstantData{type, *keeper, splat, keeper};
  }

  static std::optional<ConstantData> dimsOf(Value v, RankedTensorType type) {
    auto dims = partialIntegers(v);
    if (!dims)
      return std::nullopt;
    std::vector<uint8_t> bytes;
    for (auto d : *dims) {
      if (!d)
        return std::nullopt;
      auto *raw = reinterpret_cast<const uint8_t *>(&*d);
      bytes.insert(bytes.end(), raw, raw + sizeof *d);
    }
    return owned(type, std::move(bytes), false);
  }

  std::optional<ConstantData> evaluated(Operation *op, Value v, unsigned depth) {
    if (!canEvaluate(op) || isa<MatMulOp, ConvOp, ConvTransposeOp>(op))
      return std::nullopt;
    SmallVector<ConstantData> operands;
    for (Value operand : op->getOperands()) {
      auto data = visit(operand, depth + 1);
      if (!data)
        return std::nullopt;
      operands.push_back(std::move(*data));
    }
    auto results = evaluate(op, operands);
    if (!results) {
      consumeError(results.takeError());
      return std::nullopt;
    }
    Evaluated &result = (*results)[cast<OpResult>(v).getResultNumber()];
    return owned(result.type, std::move(result.bytes), result.splat);
  }

  llvm::DenseMap<Value, std::optional<ConstantData>> done;
};

} // namespace

std::optional<ConstantData> mrcc::knownValue(Value value, int64_t most) { return Walk(most).visit(value, 0); }

/// The readers of constants take attributes or values of constant ops.
static TypedAttr attributeOf(Value value) {
  auto data = knownValue(value);
  return data && data->type ? makeConstantAttr(data->type, data->bytes, data->isSplat) : TypedAttr();
}

std::optional<SmallVector<int64_t>> mrcc::knownIntegers(Value value) {
  SmallVector<int64_t> out;
  if (auto partial = partialIntegers(value); partial && llvm::all_of(*partial, [](auto &d) { return d.has_value(); })) {
    for (auto d : *partial)
      out.push_back(*d);
    return out;
  }
  if (auto attr = dyn_cast_or_null<DenseIntElementsAttr>(attributeOf(value))) {
    for (const APInt &v : attr.getValues<APInt>())
      out.push_back(attr.getElementType().isUnsignedInteger() || v.getBitWidth() == 1 ? int64_t(v.getZExtValue())
                                                                                      : v.getSExtValue());
    return out;
  }
  return std::nullopt;
}

std::optional<double> mrcc::knownScalar(Value value) {
  if (auto known = getScalar(value))
    return known;
  auto attr = attributeOf(value);
  auto dense = dyn_cast_or_null<DenseElementsAttr>(attr);
  if (!dense || !(dense.isSplat() || dense.getNumElements() == 1))
    return std::nullopt;
  if (auto floats = dyn_cast<DenseFPElementsAttr>(dense)) {
    APFloat v = *floats.getValues<APFloat>().begin();
    bool lost;
    v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return v.convertToDouble();
  }
  auto integers = knownIntegers(value);
  return integers && !integers->empty() ? std::optional(double(integers->front())) : std::nullopt;
}

std::string mrcc::bindHint(Value value) {
  constexpr int64_t small = 16;
  llvm::SetVector<Value> seen;
  seen.insert(value);
  std::vector<std::string> names;
  for (size_t i = 0; i < seen.size(); ++i) {
    Value v = seen[i];
    if (Operation *op = v.getDefiningOp()) {
      if (!isa<ShapeOp, SizeOp>(op))
        seen.insert_range(op->getOperands());
      continue;
    }
    auto type = cast<RankedTensorType>(v.getType());
    if (!type.hasStaticShape() || type.getNumElements() > small)
      return "";
    names.push_back("'" + nodeNames(v.getLoc()) + "'");
  }
  return names.empty() ? "" : "; it follows from " + llvm::join(names, " and ") + ", which --bind makes constant";
}
