#include "Affine.h"
#include <functional>

using namespace mlir;
using namespace mrcc;

static std::vector<double> combined(const std::vector<double> &a, const std::vector<double> &b,
                                    llvm::function_ref<double(double, double)> f) {
  std::vector<double> out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  return out;
}

Affine Affine::then(const Affine &next) const {
  auto mul = [](double x, double y) { return x * y; };
  return {combined(scale, next.scale, mul),
          combined(combined(offset, next.scale, mul), next.offset, [](double x, double y) { return x + y; })};
}

/// The constant weights of an op that is not packed yet.
static Value weightsOf(Operation *op) {
  if (op->hasAttr("packed_kernel") || op->hasAttr("packed_k") || !isa<ConvOp, ConvTransposeOp, MatMulOp>(op))
    return nullptr;
  Value w = op->getOperand(1);
  if (!isConstant(w) || !isFloat(w) || (isa<MatMulOp>(op) && typeOf(w).getRank() < 2))
    return nullptr;
  return w;
}

bool mrcc::hasOwnWeights(Operation *op) {
  Value w = weightsOf(op);
  return w && (w.hasOneUse() || getConstant(w)->isSplat);
}

/// Multiplies the weights; `channel` says to which channel an element belongs. Null if they would no longer fit, or a
/// repeated value would become many.
static TypedAttr scaled(Value weights, const std::vector<double> &scale, llvm::function_ref<int64_t(int64_t)> channel) {
  auto values = readFloats(weights);
  if (!values)
    return nullptr;
  RankedTensorType type = typeOf(weights);
  bool uniform = llvm::all_equal(scale);
  if (values->size() == 1 && type.getNumElements() > 1 && !uniform)
    return nullptr;
  for (size_t i = 0; i < values->size(); ++i)
    (*values)[i] *= scale[uniform ? 0 : channel(i)];
  return floatsAttr(type, *values);
}

static int64_t product(ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

/// The output channel of a weight's element.
static std::function<int64_t(int64_t)> outputChannel(Operation *op, ArrayRef<int64_t> dims) {
  if (isa<ConvOp>(op)) { // [OC, IC/group, kernel...]
    int64_t inner = product(dims.drop_front(1));
    return [=](int64_t i) { return i / inner; };
  }
  if (auto t = dyn_cast<ConvTransposeOp>(op)) { // [IC, OC/group, kernel...]
    int64_t inner = product(dims.drop_front(2)), oc = dims[1], perGroup = dims[0] / int64_t(t.getGroup());
    return [=](int64_t i) { return i / (inner * oc) / perGroup * oc + i / inner % oc; };
  }
  return [n = dims.back()](int64_t i) { return i % n; };
}

/// The input channel of a weight's element.
static std::function<int64_t(int64_t)> inputChannel(Operation *op, ArrayRef<int64_t> dims) {
  if (auto conv = dyn_cast<ConvOp>(op)) {
    int64_t inner = product(dims.drop_front(2)), ic = dims[1], perGroup = dims[0] / int64_t(conv.getGroup());
    return [=](int64_t i) { return i / (inner * ic) / perGroup * ic + i / inner % ic; };
  }
  if (isa<ConvTransposeOp>(op)) {
    int64_t inner = product(dims.drop_front(1));
    return [=](int64_t i) { return i / inner; };
  }
  int64_t n = dims.back(), k = dims[dims.size() - 2];
  return [=](int64_t i) { return i / n % k; };
}

static void setWeights(OpBuilder &b, Operation *op, TypedAttr attr) {
  Value old = op->getOperand(1);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op);
  op->setOperand(1, makeConstant(b, old.getLoc(), attr));
  eraseDead(old.getDefiningOp());
}

/// The bias of a convolution as numbers: zero where there is none. Nothing if it is not constant.
static std::optional<std::vector<double>> biasOf(Operation *op) {
  Value bias = op->getOperand(2);
  return isNone(bias) ? std::optional(std::vector<double>{0}) : readFloats(bias);
}

static void setBias(OpBuilder &b, Operation *op, TypedAttr attr) {
  Operation *old = op->getOperand(2).getDefiningOp();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op);
  op->setOperand(2, makeConstant(b, op->getLoc(), attr));
  eraseDead(old);
}

static int64_t outputChannels(Operation *op, ArrayRef<int64_t> dims) {
  if (auto t = dyn_cast<ConvTransposeOp>(op))
    return dims[1] * int64_t(t.getGroup());
  return isa<ConvOp>(op) ? dims[0] : dims.back();
}

/// Scale and bias of a norm along its last dimension.
static bool foldAfterNorm(OpBuilder &b, Operation *op, const Affine &affine) {
  RankedTensorType type = typeOf(op->getResult(0));
  auto layer = dyn_cast<LayerNormOp>(op);
  if ((layer && int64_t(layer.getAxis()) != type.getRank() - 1) || type.isDynamicDim(type.getRank() - 1))
    return false;
  auto numbers = [&](Value v, double absent) {
    return isNone(v) ? std::optional(std::vector<double>{absent}) : readFloats(v);
  };
  auto scale = numbers(op->getOperand(1), 1), bias = numbers(op->getOperand(2), 0);
  if (!scale || !bias)
    return false;
  Affine all = Affine{*scale, *bias}.then(affine);
  auto channels = RankedTensorType::get({type.getShape().back()}, type.getElementType());
  for (auto [i, absent, values] : {std::tuple(1, 1, &all.scale), {2, 0, &all.offset}}) {
    if (llvm::all_of(*values, [a = absent](double v) { return v == a; }) && isNone(op->getOperand(i)))
      continue;
    TypedAttr attr = floatsAttr(channels, *values);
    if (!attr)
      return false;
    Operation *old = op->getOperand(i).getDefiningOp();
    b.setInsertionPoint(op);
    op->setOperand(i, makeConstant(b, op->getLoc(), attr));
    eraseDead(old);
  }
  return true;
}

bool mrcc::foldAfter(OpBuilder &b, Operation *op, const Affine &affine) {
  OpBuilder::InsertionGuard guard(b);
  if (isa<LayerNormOp, GroupNormOp>(op))
    return foldAfterNorm(b, op, affine);
  if (!hasOwnWeights(op))
    return false;
  Value w = op->getOperand(1);
  TypedAttr weights = scaled(w, affine.scale, outputChannel(op, typeOf(w).getShape()));
  if (!weights)
    return false;
  if (isa<MatMulOp>(op)) {
    if (affine.hasOffset())
      return false;
    setWeights(b, op, weights);
    return true;
  }
  auto bias = biasOf(op);
  if (!bias)
    return false;
  int64_t channels = outputChannels(op, typeOf(w).getShape());
  std::vector<double> values(channels);
  for (int64_t c = 0; c < channels; ++c)
    values[c] = (*bias)[bias->size() == 1 ? 0 : c] * affine.scaleAt(c) + affine.offsetAt(c);
  TypedAttr biasAttr = floatsAttr(RankedTensorType::get({channels}, typeOf(w).getElementType()), values);
  if (!biasAttr)
    return false;
  setWeights(b, op, weights);
  if (!isNone(op->getOperand(2)) || llvm::any_of(values, [](double v) { return v != 0; }))
    setBias(b, op, biasAttr);
  return true;
}

static bool isUnpadded(ConvOp op) {
  return op.getAutoPad() == "VALID" ||
         (op.getAutoPad() == "explicit" && llvm::all_of(op.getPads(), [](int64_t p) { return p == 0; }));
}

bool mrcc::foldBefore(OpBuilder &b, Operation *op, const Affine &affine) {
  if (!hasOwnWeights(op))
    return false;
  Value w = op->getOperand(1);
  SmallVector<int64_t> dims(typeOf(w).getShape());
  auto channel = inputChannel(op, dims);
  TypedAttr weights = scaled(w, affine.scale, channel), biasAttr;
  if (!weights)
    return false;
  if (affine.hasOffset()) {
    auto conv = dyn_cast<ConvOp>(op);
    auto bias = conv && isUnpadded(conv) ? biasOf(op) : std::nullopt;
    if (!bias)
      return false;
    auto old = *readFloats(w);
    auto oc = outputChannel(op, dims);
    std::vector<double> values(dims[0]);
    for (int64_t i = 0, n = product(dims); i < n; ++i)
      values[oc(i)] += old[old.size() == 1 ? 0 : i] * affine.offsetAt(channel(i));
    for (auto [c, v] : llvm::enumerate(values))
      v += (*bias)[bias->size() == 1 ? 0 : c];
    biasAttr = floatsAttr(RankedTensorType::get({dims[0]}, typeOf(w).getElementType()), values);
    if (!biasAttr)
      return false;
  }
  setWeights(b, op, weights);
  if (biasAttr)
    setBias(b, op, biasAttr);
  return true;
}

Value mrcc::applyAffine(OpBuilder &b, Location loc, Value x, const Affine &affine) {
  auto constantOf = [&](const std::vector<double> &values) -> Value {
    SmallVector<int64_t> dims;
    if (values.size() > 1)
      dims.push_back(values.size());
    TypedAttr attr = floatsAttr(RankedTensorType::get(dims, typeOf(x).getElementType()), values);
    return attr ? makeConstant(b, loc, attr) : Value();
  };
  Value scale = affine.hasScale() ? constantOf(affine.scale) : x,
        offset = affine.hasOffset() ? constantOf(affine.offset) : x;
  if (!scale || !offset)
    return nullptr;
  Value out = x;
  if (affine.hasScale())
    out = BinaryOp::create(b, loc, x.getType(), BinaryKind::mul, out, scale);
  if (affine.hasOffset())
    out = BinaryOp::create(b, loc, x.getType(), BinaryKind::add, out, offset);
  return out;
}
