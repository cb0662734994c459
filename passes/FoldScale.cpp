// Folds constant multiplications and additions per channel into constant weights. Chains of them (add, sub, mul, div by
// a constant that is a scalar or one value a channel, channels last) with single uses are first composed to one x * s +
// t in double; then, in this order:
//   after a conv, conv_transpose or matmul that only the chain uses: weights * s, bias * s + t (matmul keeps the
//   addition); after a layer_norm or group_norm: the same with its scale and bias; before a conv, conv_transpose or
//   matmul that alone reads the chain: weights * s along input channels; t only into an unpadded convolution, because a
//   border is padded with 0 after the chain, not before; else the chain is written as one mul and one add, if that is
//   fewer ops.
// A factor that is one number stays out of the weights behind a conv, conv_transpose or matmul, unless it is a power of
// two: weights rounded once more shift whole channels, and such shifts add up from layer to layer (at two of four sizes
// the text detector was 2.7 times as far from float64, at two as far), while behind the kernel the factor rides on the
// addition that is there anyway: (acc + b) * s + t = acc * s + (b * s + t).
// A chain that adds a large number and takes it away again (rounding by a magic number) is left alone, and so is one
// that only element-wise ops part from a rounding: there the last bit decides a whole step, so that a quantised model
// would round other values up than its exporter saw.
#include "Affine.h"
#include "Passes.h"
#include <cmath>

namespace mrcc {
#define GEN_PASS_DEF_FOLDSCALE
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

namespace {
/// One step of a chain: what it reads and does.
struct ChainStep {
  Value input;
  Affine affine;
};
} // namespace

/// True if the constant is one number, or one a channel of `type`, and broadcasting does not enlarge `type`.
static bool isPerChannel(Value constant, RankedTensorType type) {
  RankedTensorType c = typeOf(constant);
  if (c.getRank() > type.getRank())
    return false;
  for (auto [i, n] : llvm::enumerate(c.getShape()))
    if (n != 1 && (int64_t(i) + 1 != c.getRank() || n != type.getShape().back()))
      return false;
  return true;
}

static std::optional<ChainStep> stepOf(Operation *op) {
  auto binary = dyn_cast_or_null<BinaryOp>(op);
  if (!binary || !isFloat(binary.getLhs()) || binary.getLhs().getType() == binary.getRhs().getType())
    return std::nullopt;
  Value x = binary.getLhs(), c = binary.getRhs();
  bool swapped = isConstant(x);
  if (swapped)
    std::swap(x, c);
  if (!isConstant(c) || isConstant(x) || typeOf(x) != typeOf(binary.getOutput()) || !isPerChannel(c, typeOf(x)))
    return std::nullopt;
  auto values = readFloats(c);
  if (!values || !llvm::all_of(*values, [](double v) { return std::isfinite(v); }))
    return std::nullopt;
  auto each = [&](llvm::function_ref<double(double)> f) {
    for (double &v : *values)
      v = f(v);
    return *values;
  };
  switch (binary.getKind()) {
  case BinaryKind::add:
    return ChainStep{x, {{1}, *values}};
  case BinaryKind::mul:
    return ChainStep{x, {*values, {0}}};
  case BinaryKind::sub:
    return swapped ? ChainStep{x, {{-1}, *values}} : ChainStep{x, {{1}, each([](double v) { return -v; })}};
  case BinaryKind::div:
    if (swapped || llvm::is_contained(*values, 0))
      return std::nullopt;
    return ChainStep{x, {each([](double v) { return 1 / v; }), {0}}};
  default:
    return std::nullopt;
  }
}

static double largest(const std::vector<double> &values) {
  double out = 0;
  for (double v : values)
    out = std::max(out, std::abs(v));
  return out;
}

/// The chain that ends in `op`: its steps from the last to the first.
static SmallVector<Operation *> chainOf(Operation *op) {
  SmallVector<Operation *> chain;
  for (auto step = stepOf(op); step; step = stepOf(op)) {
    chain.push_back(op);
    if (!step->input.hasOneUse())
      break;
    op = step->input.getDefiningOp();
  }
  return chain;
}

/// True if `v` comes from a matrix-like op, through element-wise ops alone: what follows becomes part of that kernel.
static bool followsProduct(Value v) {
  for (Operation *op = v.getDefiningOp(); op; op = v.getDefiningOp()) {
    if (isa<ConvOp, ConvTransposeOp, MatMulOp>(op))
      return v.hasOneUse() || isa<UnaryOp, BinaryOp>(*v.user_begin());
    if (!isa<UnaryOp, BinaryOp, SelectOp>(op))
      return false;
    auto whole = llvm::find_if(op->getOperands(), [&](Value x) { return x.getType() == v.getType(); });
    if (whole == op->operand_end())
      return false;
    v = *whole;
  }
  return false;
}

/// A scale that changes the rounding of what it multiplies.
static bool isRoundingNumber(const Affine &affine) {
  int exponent;
  return affine.scale.size() == 1 && std::abs(std::frexp(affine.scale[0], &exponent)) != 0.5;
}

/// (op(x) + b) * s + t as op(x) * s + (b * s + t), with the bias taken out of a convolution. Null if it is not
/// constant.
static Value scaleBehind(OpBuilder &b, Location loc, Operation *op, Affine affine) {
  if (isa<ConvOp, ConvTransposeOp>(op) && !isNone(op->getOperand(2))) {
    auto bias = readFloats(op->getOperand(2));
    if (!bias)
      return nullptr;
    Operation *old = op->getOperand(2).getDefiningOp();
    affine.offset = Affine{{1}, *bias}.then(affine).offset;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op);
    op->setOperand(2, NoneOp::create(b, op->getLoc(), b.getNoneType()));
    eraseDead(old);
  }
  return applyAffine(b, loc, op->getResult(0), affine);
}

/// True if an element-wise path leads from `v` to a rounding.
static bool reachesRounding(Value v) {
  constexpr size_t enough = 64;
  SmallVector<Value> next{v};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!next.empty() && seen.size() < enough)
    for (Operation *op : next.pop_back_val().getUsers()) {
      auto unary = dyn_cast<UnaryOp>(op);
      if (unary && llvm::is_contained({UnaryKind::round_even, UnaryKind::floor, UnaryKind::ceil}, unary.getKind()))
        return true;
      if (isa<CastOp>(op) && isFloat(op->getOperand(0)) && !isFloat(op->getResult(0)))
        return true;
      if (isa<UnaryOp, BinaryOp, SelectOp, CastOp>(op) && seen.insert(op).second)
        next.push_back(op->getResult(0));
    }
  return false;
}

static void fold(Operation *last) {
  if ((last->hasOneUse() && stepOf(*last->user_begin())) || // the chain goes on
      reachesRounding(last->getResult(0)))
    return;
  SmallVector<Operation *> chain = chainOf(last);
  if (chain.empty())
    return;
  Affine affine;
  double intermediate = 0;
  for (Operation *op : llvm::reverse(chain)) {
    affine = affine.then(stepOf(op)->affine);
    intermediate = std::max(intermediate, largest(affine.offset));
  }
  if (intermediate > 1e4 && largest(affine.offset) < intermediate / 1e3)
    return;
  OpBuilder b(last);
  Value root = stepOf(chain.back())->input, result = last->getResult(0), out;
  // The ops on both sides that could take it, and what their constants weigh before and after.
  Operation *producer = root.hasOneUse() ? root.getDefiningOp() : nullptr;
  Operation *consumer =
      result.hasOneUse() && result.use_begin()->getOperandNumber() == 0 ? *result.user_begin() : nullptr;
  int64_t chainBytes = 0;
  for (Operation *op : chain)
    chainBytes += constantBytes(op->getOperands());
  auto folds = [&](bool (*into)(OpBuilder &, Operation *, const Affine &), Operation *op, const Affine &what) {
    int64_t before = chainBytes + constantBytes(op->getOperands());
    if (!into(b, op, what))
      return false;
    for (Operation *step : llvm::reverse(chain))
      op->setLoc(fused(op, step));
    recordFold(op, "scale", before, constantBytes(op->getOperands()));
    return true;
  };
  const bool shorter = int(chain.size()) > affine.hasScale() + affine.hasOffset();
  if (affine.hasScale() && isRoundingNumber(affine) && followsProduct(root)) {
    if (isa_and_nonnull<ConvOp, ConvTransposeOp, MatMulOp>(producer))
      out = scaleBehind(b, last->getLoc(), producer, affine);
    else if (shorter)
      out = applyAffine(b, last->getLoc(), root, affine);
  } else if (isa_and_nonnull<ConvOp, ConvTransposeOp, LayerNormOp, GroupNormOp>(producer) &&
             folds(foldAfter, producer, affine))
    out = root;
  else if (isa_and_nonnull<MatMulOp>(producer) && affine.hasScale() && folds(foldAfter, producer, {affine.scale, {0}}))
    out = applyAffine(b, last->getLoc(), root, {{1}, affine.offset});
  else if (consumer && folds(foldBefore, consumer, affine))
    out = root;
  else if (shorter)
    out = applyAffine(b, last->getLoc(), root, affine);
  if (!out)
    return;
  result.replaceAllUsesWith(out);
  eraseDead(last);
}

namespace {
struct FoldScalePass : mrcc::impl::FoldScaleBase<FoldScalePass> {
  void runOnOperation() override {
    if (getOperation().isDeclaration())
      return;
    // From the end: a chain is erased with the ops in front of its last one, which the walk has not reached yet.
    SmallVector<Operation *> last;
    for (Operation &op : getOperation().front())
      if (stepOf(&op) && !(op.hasOneUse() && stepOf(*op.user_begin())))
        last.push_back(&op);
    for (Operation *op : last)
      fold(op);
  }
};
} // namespace
