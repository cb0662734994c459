// Finds normalisations that exporters write as smaller ops.
//
// Group norm as torch writes it: reshape [N, C, ...] to [N, G, rest], instance norm (in channels last: transpose,
// group_norm with a group a channel, transpose), reshape back. It becomes one group_norm with G groups, channels last,
// between transposes that propagate-layout moves away. What follows per channel (mul, add) goes into its scale and bias
// in fold-scale.
//
// Layer norm: d / sqrt(mean(d * d) + epsilon) with d = x - mean(x), and the same with d = x, which is RMS norm. The
// division may be a multiplication by rsqrt or by a reciprocal, the square a pow. Axes that are not the last ones are
// brought there by transposes; over all but N and C of an image it is an instance norm.
#include "DimAnalysis.h"
#include "Passes.h"
#include "Rewrite.h"

namespace mrcc {
#define GEN_PASS_DEF_FUSENORMS
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

static BinaryOp binaryOf(Value v, BinaryKind kind) {
  auto op = v.getDefiningOp<BinaryOp>();
  return op && op.getKind() == kind ? op : BinaryOp();
}

static UnaryOp unaryOf(Value v, UnaryKind kind) {
  auto op = v.getDefiningOp<UnaryOp>();
  return op && op.getKind() == kind ? op : UnaryOp();
}

/// [N, C, rest...] -> [N, rest..., C]
static Perm channelsLast(int64_t rank) {
  Perm perm{0};
  for (int64_t i = 2; i < rank; ++i)
    perm.push_back(i);
  perm.push_back(1);
  return perm;
}

//===-- group norm ------------------------------------------------------------------------------------------------===//

/// One number for each of `groups`, repeated for the channels of a group. Null for none; nothing if not constant.
static std::optional<Value> perChannel(OpBuilder &b, Value v, int64_t channels, int64_t groups, double neutral) {
  if (isNone(v))
    return v;
  auto values = readFloats(v);
  if (!values)
    return std::nullopt;
  std::vector<double> out(channels);
  for (int64_t c = 0; c < channels; ++c)
    out[c] = (*values)[values->size() == 1 ? 0 : c / (channels / groups)];
  if (llvm::all_of(out, [&](double x) { return x == neutral; }))
    return NoneOp::create(b, v.getLoc(), b.getNoneType()).getOutput();
  return makeConstant(b, v.getLoc(), floatsAttr(RankedTensorType::get({channels}, typeOf(v).getElementType()), out));
}

static bool isSwap(TransposeOp t) { return t && t.getPerm() == ArrayRef<int64_t>{0, 2, 1}; }

/// `back` is the reshape behind an instance norm over [N, G, rest].
static bool fuseGroupNorm(ReshapeOp back) {
  auto after = back.getInput().getDefiningOp<TransposeOp>();
  auto norm = isSwap(after) ? after.getInput().getDefiningOp<GroupNormOp>() : GroupNormOp();
  auto before = norm ? norm.getInput().getDefiningOp<TransposeOp>() : TransposeOp();
  auto split = isSwap(before) ? before.getInput().getDefiningOp<ReshapeOp>() : ReshapeOp();
  if (!split || !back.getInput().hasOneUse() || !after.getInput().hasOneUse())
    return false;
  Value x = split.getInput();
  RankedTensorType type = typeOf(x);
  int64_t rank = type.getRank(), groups = norm.getGroups();
  if (rank < 2 || type.isDynamicDim(1) || type.getDimSize(1) % groups != 0 ||
      typeOf(split.getOutput()).getDimSize(1) != groups)
    return false;
  DimAnalysis analysis; // [N, G, rest] and back to what it was
  if (analysis.dims(x) != analysis.dims(back.getOutput()) || analysis.dim(split.getOutput(), 0) != analysis.dim(x, 0))
    return false;
  OpBuilder b(back);
  int64_t channels = type.getDimSize(1);
  auto scale = perChannel(b, norm.getScale(), channels, groups, 1),
       bias = perChannel(b, norm.getBias(), channels, groups, 0);
  if (!scale || !bias)
    return false;
  Perm last = channelsLast(rank);
  Location loc = norm.getLoc();
  Value in = transposed(b, loc, x, last);
  Value out = GroupNormOp::create(b, loc, in.getType(), in, *scale, *bias, groups, norm.getEpsilon());
  out = transposed(b, loc, out, inverse(last));
  if (out.getType() != back.getType()) // one knows a dimension that the other does not
    out.setType(back.getType());
  back.getOutput().replaceAllUsesWith(out);
  eraseDead(back);
  return true;
}

//===-- layer norm ------------------------------------------------------------------------------------------------===//

/// v * v: a product with itself or a power of 2.
static Value squareOf(Value v) {
  if (auto mul = binaryOf(v, BinaryKind::mul); mul && mul.getLhs() == mul.getRhs())
    return mul.getLhs();
  if (auto pow = binaryOf(v, BinaryKind::pow); pow && getScalar(pow.getRhs()) == 2)
    return pow.getLhs();
  return nullptr;
}

/// d and the root that divides it, if the op is d / root or d * (1 / root).
static std::pair<Value, Value> quotient(BinaryOp op) {
  if (op.getKind() == BinaryKind::div) {
    auto root = unaryOf(op.getRhs(), UnaryKind::sqrt);
    return {op.getLhs(), root ? root.getInput() : Value()};
  }
  if (op.getKind() != BinaryKind::mul)
    return {};
  for (auto [d, factor] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
    if (auto root = unaryOf(factor, UnaryKind::rsqrt))
      return {d, root.getInput()};
    if (auto reciprocal = unaryOf(factor, UnaryKind::reciprocal))
      if (auto root = unaryOf(reciprocal.getInput(), UnaryKind::sqrt))
        return {d, root.getInput()};
    if (auto div = binaryOf(factor, BinaryKind::div); div && getScalar(div.getLhs()) == 1)
      if (auto root = unaryOf(div.getRhs(), UnaryKind::sqrt))
        return {d, root.getInput()};
    if (auto pow = binaryOf(factor, BinaryKind::pow); pow && getScalar(pow.getRhs()) == -0.5)
      return {d, pow.getLhs()};
  }
  return {};
}

static ReduceOp meanOf(Value v) {
  auto op = v.getDefiningOp<ReduceOp>();
  return op && op.getKind() == ReduceKind::mean && op.getKeepdims() && !op.getAxes().empty() ? op : ReduceOp();
}

static bool fuseLayerNorm(BinaryOp op) {
  auto [d, sum] = quotient(op);
  auto add = sum ? binaryOf(sum, BinaryKind::add) : BinaryOp();
  if (!add || !isFloat(d) || typeOf(d) != typeOf(op.getOutput()))
    return false;
  Value variance = add.getLhs();
  auto epsilon = getScalar(add.getRhs());
  if (!epsilon)
    epsilon = getScalar(variance), variance = add.getRhs();
  ReduceOp mean = meanOf(variance);
  if (!epsilon || !mean || squareOf(mean.getInput()) != d)
    return false;
  // Subtracting the mean over the same axes makes it a layer norm.
  Value x = d;
  bool rms = true;
  if (auto sub = binaryOf(d, BinaryKind::sub))
    if (ReduceOp center = meanOf(sub.getRhs());
        center && center.getInput() == sub.getLhs() && center.getAxes() == mean.getAxes())
      x = sub.getLhs(), rms = false;
  int64_t rank = typeOf(x).getRank(), count = mean.getAxes().size();
  OpBuilder b(op);
  Value none = NoneOp::create(b, op.getLoc(), b.getNoneType());
  // Over all pixels of an image's channel it is an instance norm, which channels last is a group norm.
  int64_t channels = rank >= 4 ? typeOf(x).getDimSize(1) : ShapedType::kDynamic;
  if (!rms && mean.getAxes().front() == 2 && count == rank - 2 && !ShapedType::isDynamic(channels)) {
    Perm last = channelsLast(rank);
    Value in = transposed(b, op.getLoc(), x, last);
    Value out = GroupNormOp::create(b, op.getLoc(), in.getType(), in, none, none, channels, APFloat(float(*epsilon)));
    op.getOutput().replaceAllUsesWith(transposed(b, op.getLoc(), out, inverse(last)));
    eraseDead(op);
    return true;
  }
  Perm perm;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(mean.getAxes(), i))
      perm.push_back(i);
  llvm::append_range(perm, mean.getAxes());
  Value in = transposed(b, op.getLoc(), x, perm);
  Value out =
      LayerNormOp::create(b, op.getLoc(), in.getType(), in, none, none, rank - count, APFloat(float(*epsilon)), rms);
  op.getOutput().replaceAllUsesWith(transposed(b, op.getLoc(), out, inverse(perm)));
  eraseDead(op);
  return true;
}

namespace {
struct FuseNormsPass : mrcc::impl::FuseNormsBase<FuseNormsPass> {
  void runOnOperation() override {
    if (getOperation().isDeclaration())
      return;
    for (Operation &op : llvm::make_early_inc_range(getOperation().front())) {
      if (auto reshape = dyn_cast<ReshapeOp>(op))
        fuseGroupNorm(reshape);
      else if (auto binary = dyn_cast<BinaryOp>(op))
        fuseLayerNorm(binary);
    }
  }
};
} // namespace
