// Result types of element-wise ops, reductions, products and normalisations, and the checks that all InferShapes files
// share. Other ops: InferShapesMovement.cpp, InferShapesWindows.cpp. The rules are ONNX's.
#include "InferShapesUtil.h"

using namespace mlir;
using namespace mrcc;
using namespace mrcc::infer;

//===-- shared checks ---------------------------------------------------------------------------------------------===//

LogicalResult infer::checkAxis(Operation *op, int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < rank)
    return success();
  return shapeError(op) << "expected an axis in [0, " << rank << "), got " << axis;
}

LogicalResult infer::checkRank(Operation *op, Value v, StringRef name, int64_t rank) {
  if (typeOf(v).getRank() == rank)
    return success();
  return shapeError(op) << "expected " << name << " of rank " << rank << ", got " << dimsText(dimsOf(v));
}

LogicalResult infer::checkIntegers(Operation *op, Value v, StringRef name) {
  if (isNone(v) || (typeOf(v).getRank() <= 1 && isa<IntegerType>(typeOf(v).getElementType())))
    return success();
  return shapeError(op) << "expected " << name << " to be a vector of integers, got " << v.getType();
}

LogicalResult infer::checkChannels(Operation *op, Value v, StringRef name, int64_t size) {
  if (isNone(v))
    return success();
  if (failed(checkRank(op, v, name, 1)))
    return failure();
  int64_t got = dimsOf(v)[0];
  if (mergeDim(got, size))
    return success();
  return shapeError(op) << "expected " << size << " elements of " << name << ", one a channel, got " << got;
}

std::optional<Dims> infer::broadcastOperands(Operation *op, ValueRange operands) {
  Dims all;
  for (Value v : operands) {
    auto next = broadcastShapes(all, dimsOf(v));
    if (next) {
      all = std::move(*next);
      continue;
    }
    ArrayRef<int64_t> b = dimsOf(v);
    size_t rank = std::max(all.size(), b.size());
    for (size_t i = 0; i < std::min(all.size(), b.size()); ++i) { // the last dimension that does not fit is reported
      int64_t x = all[all.size() - 1 - i], y = b[b.size() - 1 - i];
      if (x == y || x == 1 || y == 1 || x == unknown || y == unknown)
        continue;
      StringRef note = frozen(v);
      for (Value other : operands)
        note = note.empty() ? frozen(other) : note;
      shapeError(op) << "expected shapes that broadcast, got " << dimsText(all) << " and " << dimsText(b)
                     << ": dimension " << rank - 1 - i << " is " << x << " and " << y
                     << (note.empty() ? "" : "; one operand is a constant, frozen for another size");
      return std::nullopt;
    }
  }
  return all;
}

LogicalResult mrcc::verifyInferred(Operation *op) {
  SmallVector<Type> types;
  if (failed(cast<InferShapes>(op).inferShapes(types)))
    return failure();
  if (types.size() != op->getNumResults())
    return op->emitOpError() << "expected " << types.size() << " results, got " << op->getNumResults();
  for (auto [inferred, declared] : llvm::zip_equal(types, op->getResultTypes())) {
    auto a = cast<RankedTensorType>(inferred), b = dyn_cast<RankedTensorType>(declared);
    if (!b || a.getElementType() != b.getElementType() || failed(verifyCompatibleShape(a.getShape(), b.getShape())))
      return op->emitOpError() << "has a result of type " << declared << ", inferred " << inferred;
  }
  return success();
}

LogicalResult infer::checkSameElement(Operation *op, Value a, Value b) {
  if (isNone(b) || typeOf(a).getElementType() == typeOf(b).getElementType())
    return success();
  return shapeError(op) << "expected operands of one element type, got " << typeOf(a).getElementType() << " and "
                        << typeOf(b).getElementType();
}

//===-- element-wise ----------------------------------------------------------------------------------------------===//

LogicalResult UnaryOp::inferShapes(SmallVectorImpl<Type> &types) {
  Type element = typeOf(getInput()).getElementType();
  switch (getKind()) {
  case UnaryKind::is_nan:
  case UnaryKind::is_pos_inf:
  case UnaryKind::is_neg_inf:
  case UnaryKind::logical_not:
    if (getKind() == UnaryKind::logical_not && !element.isInteger(1))
      return shapeError(*this) << "expected a bool operand, got " << element;
    element = IntegerType::get(getContext(), 1);
    break;
  case UnaryKind::abs:
  case UnaryKind::neg:
  case UnaryKind::sign:
    break;
  case UnaryKind::bitwise_not:
    if (!isa<IntegerType>(element))
      return shapeError(*this) << "expected an integer operand, got " << element;
    break;
  default:
    if (!isa<FloatType>(element))
      return shapeError(*this) << "expected a float operand of " << stringifyUnaryKind(getKind()) << ", got "
                               << element;
  }
  return give(types, dimsOf(getInput()), element);
}

LogicalResult BinaryOp::inferShapes(SmallVectorImpl<Type> &types) {
  Type element = typeOf(getLhs()).getElementType(), boolean = IntegerType::get(getContext(), 1);
  BinaryKind kind = getKind();
  if (kind != BinaryKind::pow && failed(checkSameElement(*this, getLhs(), getRhs()))) // Pow takes any exponent
    return failure();
  switch (kind) {
  case BinaryKind::logical_and:
  case BinaryKind::logical_or:
  case BinaryKind::logical_xor:
    if (element != boolean)
      return shapeError(*this) << "expected bool operands, got " << element;
    break;
  case BinaryKind::bitwise_and:
  case BinaryKind::bitwise_or:
  case BinaryKind::bitwise_xor:
  case BinaryKind::shift_left:
  case BinaryKind::shift_right:
    if (!isa<IntegerType>(element))
      return shapeError(*this) << "expected integer operands, got " << element;
    break;
  case BinaryKind::eq:
  case BinaryKind::lt:
  case BinaryKind::le:
  case BinaryKind::gt:
  case BinaryKind::ge:
    element = boolean;
    break;
  default:
    break;
  }
  auto dims = broadcastOperands(*this, {getLhs(), getRhs()});
  return dims ? give(types, *dims, element) : failure();
}

LogicalResult SelectOp::inferShapes(SmallVectorImpl<Type> &types) {
  if (!typeOf(getCondition()).getElementType().isInteger(1))
    return shapeError(*this) << "expected a bool condition, got " << typeOf(getCondition()).getElementType();
  if (failed(checkSameElement(*this, getA(), getB())))
    return failure();
  auto dims = broadcastOperands(*this, {getCondition(), getA(), getB()});
  return dims ? give(types, *dims, typeOf(getA()).getElementType()) : failure();
}

LogicalResult CastOp::inferShapes(SmallVectorImpl<Type> &types) {
  if (isa<Float8E8M0FNUType>(getTo()) || isa<Float8E8M0FNUType>(typeOf(getInput()).getElementType()))
    return shapeError(*this) << "f8E8M0FNU is not cast, its bits are computed with";
  return give(types, dimsOf(getInput()), getTo());
}

LogicalResult BitcastOp::inferShapes(SmallVectorImpl<Type> &types) {
  Type from = typeOf(getInput()).getElementType();
  if (bitWidth(toDType(from)) != bitWidth(toDType(getTo())))
    return shapeError(*this) << "expected a type as wide as " << from << ", got " << getTo();
  return give(types, dimsOf(getInput()), getTo());
}

//===-- reductions ------------------------------------------------------------------------------------------------===//

/// Dims without `axes`, or with 1 there.
static Dims reduced(ArrayRef<int64_t> dims, ArrayRef<int64_t> axes, bool keep) {
  Dims out;
  for (auto [i, d] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(axes, int64_t(i)))
      out.push_back(d);
    else if (keep)
      out.push_back(1);
  }
  return out;
}

LogicalResult ReduceOp::inferShapes(SmallVectorImpl<Type> &types) {
  for (int64_t axis : getAxes())
    if (failed(checkAxis(*this, axis, typeOf(getInput()).getRank())))
      return failure();
  return give(types, reduced(dimsOf(getInput()), getAxes(), getKeepdims()), typeOf(getInput()).getElementType());
}

LogicalResult ArgReduceOp::inferShapes(SmallVectorImpl<Type> &types) {
  int64_t axis = getAxis();
  if (failed(checkAxis(*this, axis, typeOf(getInput()).getRank())))
    return failure();
  if (dimsOf(getInput())[axis] == 0)
    return shapeError(*this) << "expected elements along axis " << axis << ", got " << dimsText(dimsOf(getInput()));
  return give(types, reduced(dimsOf(getInput()), axis, getKeepdims()), IntegerType::get(getContext(), 64));
}

LogicalResult CumulativeOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getInput().getType());
  return checkAxis(*this, getAxis(), typeOf(getInput()).getRank());
}

//===-- products --------------------------------------------------------------------------------------------------===//

LogicalResult MatMulOp::inferShapes(SmallVectorImpl<Type> &types) {
  Dims a(dimsOf(getLhs())), b = weightDims(*this);
  if (a.empty() || b.empty())
    return shapeError(*this) << "expected operands of rank 1 and more, got " << dimsText(a) << " and " << dimsText(b);
  if (failed(checkSameElement(*this, getLhs(), getRhs())))
    return failure();
  bool rowVector = a.size() == 1, columnVector = b.size() == 1;
  if (rowVector)
    a.insert(a.begin(), 1);
  if (columnVector)
    b.push_back(1);
  int64_t inner = a.back();
  if (!mergeDim(inner, b[b.size() - 2]))
    return shapeError(*this) << "expected equal inner dimensions, got " << dimsText(dimsOf(getLhs())) << " and "
                             << dimsText(weightDims(*this)) << ": " << a.back() << " and " << b[b.size() - 2]
                             << frozen(getLhs());
  auto dims = broadcastShapes(ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2));
  if (!dims)
    return shapeError(*this) << "expected batch dimensions that broadcast, got " << dimsText(dimsOf(getLhs()))
                             << " and " << dimsText(dimsOf(getRhs()));
  if (!rowVector)
    dims->push_back(a[a.size() - 2]);
  if (!columnVector)
    dims->push_back(b.back());
  return give(types, *dims, typeOf(getLhs()).getElementType());
}

LogicalResult AttentionOp::inferShapes(SmallVectorImpl<Type> &types) {
  Value q = getQ(), k = getK(), v = getV();
  if (failed(checkRank(*this, q, "q", 4)) || failed(checkRank(*this, k, "k", 4)) || failed(checkRank(*this, v, "v", 4)))
    return failure();
  Dims a(dimsOf(q)), b(dimsOf(k)), c(dimsOf(v)), out;
  bool fits = mergeDim(a[0], b[0]) && mergeDim(a[0], c[0]) && mergeDim(a[1], b[1]) && mergeDim(a[1], c[1]) &&
              mergeDim(a[3], b[3]) && mergeDim(b[2], c[2]);
  if (!fits)
    return shapeError(*this) << "expected q BxHxMxD, k BxHxNxD and v BxHxNxE, got " << dimsText(dimsOf(q)) << ", "
                             << dimsText(dimsOf(k)) << " and " << dimsText(dimsOf(v));
  if (!isNone(getMask())) {
    Dims scores = {a[0], a[1], a[2], b[2]};
    auto all = broadcastShapes(scores, dimsOf(getMask()));
    if (!all || all->size() != 4)
      return shapeError(*this) << "expected a mask that broadcasts to " << dimsText(scores) << ", got "
                               << dimsText(dimsOf(getMask()));
  }
  return give(types, {a[0], a[1], a[2], c[3]}, typeOf(q).getElementType());
}

//===-- normalisations --------------------------------------------------------------------------------------------===//

LogicalResult SoftmaxOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getInput().getType());
  return checkAxis(*this, getAxis(), typeOf(getInput()).getRank());
}

LogicalResult BatchNormOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getInput().getType());
  if (dimsOf(getInput()).empty())
    return shapeError(*this) << "expected an input with channels, got a scalar";
  int64_t channels = dimsOf(getInput()).back();
  for (auto [v, name] :
       {std::pair(getScale(), "scale"), {getBias(), "bias"}, {getMean(), "mean"}, {getVariance(), "variance"}})
    if (failed(checkChannels(*this, v, name, channels)))
      return failure();
  return success();
}

LogicalResult LayerNormOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getInput().getType());
  if (failed(checkAxis(*this, getAxis(), typeOf(getInput()).getRank())))
    return failure();
  for (Value v : {getScale(), getBias()}) {
    auto all = isNone(v) ? std::nullopt : broadcastShapes(dimsOf(getInput()), dimsOf(v));
    if (!isNone(v) && (!all || all->size() != dimsOf(getInput()).size()))
      return shapeError(*this) << "expected scale and bias that broadcast to " << dimsText(dimsOf(getInput()))
                               << ", got " << dimsText(dimsOf(v));
  }
  return success();
}

LogicalResult GroupNormOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getInput().getType());
  if (typeOf(getInput()).getRank() < 2)
    return shapeError(*this) << "expected an input of rank 2 and more, got " << dimsText(dimsOf(getInput()));
  int64_t channels = dimsOf(getInput()).back(), groups = getGroups();
  if (groups < 1 || (channels != unknown && channels % groups != 0))
    return shapeError(*this) << "expected channels that " << groups << " groups divide, got " << channels;
  if (failed(checkChannels(*this, getScale(), "scale", channels)))
    return failure();
  return checkChannels(*this, getBias(), "bias", channels);
}
