// Finds softmax(q k^T * scale + mask) v and makes it one mrc.attention. The scale may be on q, on k, on both or on the
// product, as mul or div by a number; the mask is what is added after the scale. q k^T, the softmax and all between
// must have a single use, and q, k and v the same batch dims (no broadcasting between them), which DimAnalysis has to
// prove. Rows that a condition sets to zero after the softmax are set to zero in the result. Other ranks than 4 get
// leading dims of 1. f16 and bf16 are rounded once, at the end.
#include "DimAnalysis.h"
#include "Passes.h"
#include "Rewrite.h"
#include "mrcc/Form/Launch.h"

namespace mrcc {
#define GEN_PASS_DEF_FUSEATTENTION
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

/// The value without scalar factors, which are multiplied into `scale`; looks through transposes.
static Value withoutScale(OpBuilder &b, Value v, double &scale) {
  Operation *op = v.getDefiningOp();
  if (!op || !v.hasOneUse())
    return v;
  if (auto binary = dyn_cast<BinaryOp>(op)) {
    for (auto [x, c] : {std::pair(binary.getLhs(), binary.getRhs()), std::pair(binary.getRhs(), binary.getLhs())}) {
      auto value = getScalar(c);
      bool divides = binary.getKind() == BinaryKind::div && c == binary.getRhs();
      if (value && typeOf(x) == typeOf(v) && (divides || binary.getKind() == BinaryKind::mul)) {
        scale *= divides ? 1 / *value : *value;
        return withoutScale(b, x, scale);
      }
    }
  } else if (auto t = dyn_cast<TransposeOp>(op)) {
    Value inner = withoutScale(b, t.getInput(), scale);
    return inner == t.getInput() ? v : transposed(b, t.getLoc(), inner, t.getPerm());
  }
  return v;
}

static Value withBatch(OpBuilder &b, Location loc, Value v) { return withRank(b, loc, v, 4); }

/// Zeros in place of the probabilities of whole rows, as ONNX's Attention has for those that see nothing: the rows of
/// the result are then zeros.
static SelectOp rowGuard(Value v) {
  auto select = v.getDefiningOp<SelectOp>();
  if (!select || getScalar(select.getA()) != 0.0 || select.getB().getType() != select.getType())
    return nullptr;
  ArrayRef<int64_t> rows = typeOf(select.getCondition()).getShape();
  return rows.empty() || rows.back() != 1 ? SelectOp() : select;
}

static bool fuse(MatMulOp op) {
  Value probabilities = op.getLhs();
  SelectOp guard = rowGuard(probabilities);
  if (guard && guard->hasOneUse())
    probabilities = guard.getB();
  auto softmax = probabilities.getDefiningOp<SoftmaxOp>();
  int64_t rank = typeOf(op.getLhs()).getRank();
  if (!softmax || softmax.getLog() || rank > 4 || rank < 2 || int64_t(softmax.getAxis()) != rank - 1 ||
      !probabilities.hasOneUse() || !isScheduledType(op.getLhs()))
    return false;
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value scores = softmax.getInput(), mask = NoneOp::create(b, loc, b.getNoneType());
  auto drop = [&] { eraseDead(mask.getDefiningOp()); };
  double scale = 1;
  auto isScore = [&](Value v) { // a product of two computed matrices below the scale
    for (Operation *o = v.getDefiningOp(); o && v.hasOneUse(); o = v.getDefiningOp()) {
      if (isa<MatMulOp>(o))
        return true;
      auto binary = dyn_cast<BinaryOp>(o);
      if (!binary || !getScalar(binary.getRhs()))
        return false;
      v = binary.getLhs();
    }
    return false;
  };
  if (auto add = scores.getDefiningOp<BinaryOp>(); add && add.getKind() == BinaryKind::add && scores.hasOneUse()) {
    Value product = isScore(add.getLhs()) ? add.getLhs() : add.getRhs();
    Value other = product == add.getLhs() ? add.getRhs() : add.getLhs();
    if (typeOf(product) == typeOf(scores) && typeOf(other).getRank() <= rank) {
      if (getScalar(other) != 0.0) { // zeros change no probability
        drop();
        mask = other;
      }
      scores = product;
    }
  }
  scores = withoutScale(b, scores, scale);
  auto first = scores.getDefiningOp<MatMulOp>();
  if (!first || !scores.hasOneUse() || first->hasAttr("packed_k") || op->hasAttr("packed_k"))
    return drop(), false;
  DimAnalysis analysis;
  for (Value v : {first.getLhs(), first.getRhs(), op.getRhs()}) {
    if (typeOf(v).getRank() != rank || isConstant(v))
      return drop(), false;
    for (int64_t i = 0; i + 2 < rank; ++i)
      if (analysis.dim(v, i) != analysis.dim(first.getLhs(), i))
        return drop(), false;
  }
  Value q = withoutScale(b, first.getLhs(), scale), k = withoutScale(b, first.getRhs(), scale);
  Perm swap = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(swap[rank - 2], swap[rank - 1]);
  k = transposed(b, loc, k, swap);
  q = withBatch(b, loc, q), k = withBatch(b, loc, k);
  Value v = withBatch(b, loc, op.getRhs());
  SmallVector<int64_t> dims(4 - rank, 1), ones = llvm::to_vector(llvm::seq<int64_t>(0, 4 - rank));
  llvm::append_range(dims, typeOf(op.getOutput()).getShape());
  auto type = RankedTensorType::get(dims, typeOf(op.getOutput()).getElementType());
  Location all = FusedLoc::get(b.getContext(), {first.getLoc(), softmax.getLoc(), loc});
  Value out = AttentionOp::create(b, all, type, q, k, v, mask, APFloat(float(scale)));
  if (rank < 4)
    out = SqueezeOp::create(b, loc, op.getType(), out, b.getDenseI64ArrayAttr(ones));
  if (guard)
    out = SelectOp::create(b, guard.getLoc(), op.getType(), guard.getCondition(), guard.getA(), out);
  op.getOutput().replaceAllUsesWith(out);
  eraseDead(op);
  return true;
}

namespace {
struct FuseAttentionPass : mrcc::impl::FuseAttentionBase<FuseAttentionPass> {
  void runOnOperation() override {
    if (getOperation().isDeclaration())
      return;
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (auto product = dyn_cast<MatMulOp>(op))
        fuse(product);
  }
};
} // namespace
