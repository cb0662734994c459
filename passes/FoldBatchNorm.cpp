// Removes every batch_norm. With s = scale / sqrt(variance + epsilon) it is x * s + (bias - mean * s) per channel: that
// goes into the weights and bias of a convolution that only it uses, else it becomes mul and add. Constants are
// computed in double and rounded once; parameters that are not constant make ops.
#include "Affine.h"
#include "Passes.h"
#include <cmath>

namespace mrcc {
#define GEN_PASS_DEF_FOLDBATCHNORM
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

/// The value below transposes that cancel each other, if nothing else uses what lies between.
static Value throughTransposes(Value v) {
  Value best = v;
  Perm perm;
  for (auto t = v.getDefiningOp<TransposeOp>(); t && v.hasOneUse(); t = v.getDefiningOp<TransposeOp>()) {
    perm = perm.empty() ? Perm(t.getPerm()) : compose(t.getPerm(), perm);
    v = t.getInput();
    if (isIdentity(perm))
      best = v, perm.clear();
  }
  return best;
}

static std::optional<Affine> constantAffine(BatchNormOp op) {
  auto scale = readFloats(op.getScale()), bias = readFloats(op.getBias()), mean = readFloats(op.getMean()),
       variance = readFloats(op.getVariance());
  if (!scale || !bias || !mean || !variance)
    return std::nullopt;
  size_t channels = std::max({scale->size(), bias->size(), mean->size(), variance->size()});
  auto at = [](const std::vector<double> &v, size_t i) { return v[v.size() == 1 ? 0 : i]; };
  Affine out{std::vector<double>(channels), std::vector<double>(channels)};
  for (size_t c = 0; c < channels; ++c) {
    out.scale[c] = at(*scale, c) / std::sqrt(at(*variance, c) + op.getEpsilon().convertToFloat());
    out.offset[c] = at(*bias, c) - at(*mean, c) * out.scale[c];
  }
  return out;
}

/// The same by ops, in the input's element type.
static Value affineOps(OpBuilder &b, BatchNormOp op) {
  Location loc = op.getLoc();
  Type element = typeOf(op.getInput()).getElementType();
  auto as = [&](Value v) -> Value {
    if (typeOf(v).getElementType() == element)
      return v;
    return CastOp::create(b, loc, RankedTensorType::get(typeOf(v).getShape(), element), v, element);
  };
  auto binary = [&](BinaryKind kind, Value x, Value y) -> Value {
    return BinaryOp::create(b, loc, typeOf(x).getRank() >= typeOf(y).getRank() ? x.getType() : y.getType(), kind, x, y);
  };
  Value variance = as(op.getVariance());
  Value sum = binary(BinaryKind::add, variance, makeScalar(b, loc, element, op.getEpsilon().convertToFloat()));
  Value s = binary(BinaryKind::mul, as(op.getScale()), UnaryOp::create(b, loc, sum.getType(), UnaryKind::rsqrt, sum));
  Value t = binary(BinaryKind::sub, as(op.getBias()), binary(BinaryKind::mul, as(op.getMean()), s));
  return binary(BinaryKind::add, binary(BinaryKind::mul, op.getInput(), s), t);
}

namespace {
struct FoldBatchNormPass : mrcc::impl::FoldBatchNormBase<FoldBatchNormPass> {
  void runOnOperation() override {
    getOperation().walk([](BatchNormOp op) {
      OpBuilder b(op);
      auto affine = constantAffine(op);
      Value out;
      if (affine) {
        Value source = throughTransposes(op.getInput());
        Operation *conv = source.getDefiningOp();
        bool direct = isa_and_nonnull<ConvOp, ConvTransposeOp>(conv) && source.hasOneUse();
        int64_t before = direct ? constantBytes(conv->getOperands()) + constantBytes(op->getOperands()) : 0;
        if (direct && foldAfter(b, conv, *affine)) {
          conv->setLoc(fused(conv, op));
          recordFold(conv, "batch_norm", before, constantBytes(conv->getOperands()));
          out = source;
        } else {
          out = applyAffine(b, op.getLoc(), op.getInput(), *affine);
        }
      }
      if (!out)
        out = affineOps(b, op);
      op.getOutput().replaceAllUsesWith(out);
      eraseDead(op);
    });
  }
};
} // namespace
