// Finds activations that are cheaper as one function: x * sigmoid(x) is silu; 0.5 * x * (1 + erf(x / sqrt 2)), in any
// order of the product and with the 0.5 inside or outside the sum, is gelu. Everything else stays a chain of primitive
// ops, which fuse into kernels anyway.
#include "Passes.h"
#include "Rewrite.h"
#include <cmath>
#include <numbers>

namespace mrcc {
#define GEN_PASS_DEF_FUSEACTIVATIONS
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

static bool near(double a, double b) {
  return std::abs(a - b) < 1e-4 * std::abs(b);
} // exporters write f32 or f16 constants

/// The factors of a product, as deep as only this product uses them; number collects the constant ones.
static void factorsOf(BinaryOp op, SmallVectorImpl<Value> &factors, double &number) {
  for (Value v : {op.getLhs(), op.getRhs()}) {
    auto inner = v.getDefiningOp<BinaryOp>();
    if (auto c = getScalar(v); c && isConstant(v)) {
      number *= *c;
    } else if (inner && inner.getKind() == BinaryKind::mul && v.hasOneUse()) {
      factorsOf(inner, factors, number);
    } else if (auto d = inner && inner.getKind() == BinaryKind::div && v.hasOneUse() ? getScalar(inner.getRhs())
                                                                                     : std::nullopt) {
      number /= *d;
      factors.push_back(inner.getLhs());
    } else {
      factors.push_back(v);
    }
  }
}

/// The value that `v` is a constant multiple of; `number` collects the constant.
static Value unscaled(Value v, double &number) {
  auto op = v.getDefiningOp<BinaryOp>();
  if (op && op.getKind() == BinaryKind::div)
    if (auto c = getScalar(op.getRhs())) {
      number /= *c;
      return unscaled(op.getLhs(), number);
    }
  if (op && op.getKind() == BinaryKind::mul)
    for (auto [c, x] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())})
      if (auto value = getScalar(c)) {
        number *= *value;
        return unscaled(x, number);
      }
  return v;
}

/// x if v is c + c * erf(x / sqrt 2); `number` is multiplied by c.
static Value onePlusErf(Value v, double &number) {
  auto sum = v.getDefiningOp<BinaryOp>();
  if (!sum || sum.getKind() != BinaryKind::add)
    return nullptr;
  auto one = getScalar(sum.getRhs());
  Value other = sum.getLhs();
  if (!one)
    one = getScalar(other), other = sum.getRhs();
  double factor = 1, scale = 1;
  auto erf = one ? unscaled(other, factor).getDefiningOp<UnaryOp>() : UnaryOp();
  if (!erf || erf.getKind() != UnaryKind::erf || !near(factor, *one))
    return nullptr;
  Value x = unscaled(erf.getInput(), scale);
  if (!near(scale, 1 / std::numbers::sqrt2))
    return nullptr;
  number *= *one;
  return x;
}

static bool fuse(BinaryOp op) {
  if (op.getKind() != BinaryKind::mul || !isFloat(op.getOutput()))
    return false;
  OpBuilder b(op);
  auto replace = [&](UnaryKind kind, Value x) {
    op.getOutput().replaceAllUsesWith(UnaryOp::create(b, op.getLoc(), op.getType(), kind, x));
    eraseDead(op);
    return true;
  };
  for (auto [x, s] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())})
    if (auto sigmoid = s.getDefiningOp<UnaryOp>(); sigmoid && sigmoid.getKind() == UnaryKind::sigmoid) {
      double scale = 1; // some exporters write sigmoid(1.0 * x)
      if (sigmoid.getInput() == x || (unscaled(sigmoid.getInput(), scale) == x && scale == 1))
        return replace(UnaryKind::silu, x);
    }
  SmallVector<Value> factors;
  double number = 1;
  factorsOf(op, factors, number);
  if (factors.size() != 2)
    return false;
  for (auto [x, sum] : {std::pair(factors[0], factors[1]), std::pair(factors[1], factors[0])}) {
    double half = number;
    if (Value argument = onePlusErf(sum, half); argument == x && near(half, 0.5) && typeOf(x) == typeOf(op.getOutput()))
      return replace(UnaryKind::gelu, x);
  }
  return false;
}

namespace {
struct FuseActivationsPass : mrcc::impl::FuseActivationsBase<FuseActivationsPass> {
  void runOnOperation() override {
    if (getOperation().isDeclaration())
      return;
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (auto binary = dyn_cast<BinaryOp>(op))
        fuse(binary);
  }
};
} // namespace
