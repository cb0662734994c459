// Brings constant weights into the forms that the scheduled kernels read (see PackOp): convolutions "conv", or
// "depthwise" where every channel is a group of its own; transposed convolutions flipped and transposed, then "conv";
// matmul "matmul". The op keeps what the packed dims no longer say: packed_kernel (spatial dims) and packed_oc on
// convolutions, packed_k and packed_n on matmul. The form depends on the constant and its layer alone. Left as they
// are: types that no scheduled kernel takes, more than two spatial dims, a repeated value (it stays a record without
// bytes), and a constant that ops of another kind read, too (it would be stored twice).
#include "Passes.h"
#include "Rewrite.h"
#include "mrcc/Form/Launch.h"

namespace mrcc {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

static bool isPackable(Operation *op) {
  Value w = op->getOperand(1);
  if (!isConstant(w) || !isScheduledType(w) || typeOf(op->getOperand(0)).getElementType() != typeOf(w).getElementType())
    return false;
  int64_t rank = typeOf(w).getRank();
  if (isa<MatMulOp>(op) ? rank != 2 : rank != 3 && rank != 4)
    return false;
  if (op->hasAttr("packed_kernel") || op->hasAttr("packed_k") || typeOf(w).getNumElements() == 0 ||
      getConstant(w)->isSplat)
    return false;
  return llvm::all_of(w.getUses(), [&](OpOperand &use) {
    return use.getOperandNumber() == 1 && use.getOwner()->getName() == op->getName() &&
           use.getOwner()->getAttr("group") == op->getAttr("group");
  });
}

static Value pack(OpBuilder &b, Operation *op, Value weights, StringRef form, int64_t group) {
  auto packed = PackOp::create(b, FusedLoc::get(b.getContext(), {op->getLoc(), weights.getLoc()}), weights.getType(),
                               weights, form, group);
  if (failed(reinfer(packed)))
    return nullptr;
  return packed;
}

/// [IC, OC/group, kernel...] -> [OC, IC/group, kernel...], every kernel reversed.
static Value flipped(OpBuilder &b, Value weights, int64_t group) {
  SmallVector<int64_t> dims(typeOf(weights).getShape());
  int64_t ic = dims[0] / group, oc = dims[1], spatial = dims.size() - 2;
  SmallVector<int64_t> split{group, ic, oc}, perm{0, 2, 1}, reversed, whole{oc * group, ic};
  for (int64_t i = 0; i < spatial; ++i) {
    split.push_back(dims[2 + i]);
    whole.push_back(dims[2 + i]);
    perm.push_back(3 + i);
    reversed.push_back(3 + i);
  }
  Value grouped = reshapedConstant(b, weights, split), out = transposedConstant(b, grouped, perm, reversed);
  Value result = reshapedConstant(b, out, whole);
  eraseDead(out.getDefiningOp());
  eraseDead(grouped.getDefiningOp());
  return result;
}

template <typename Op> static LogicalResult packConv(Op op) {
  OpBuilder b(op);
  Value w = op.getWeights(), old = w;
  int64_t group = op.getGroup();
  SmallVector<int64_t> kernel(typeOf(w).getShape().drop_front(2));
  if (isa<ConvTransposeOp>(op.getOperation()))
    w = flipped(b, w, group);
  SmallVector<int64_t> dims(typeOf(w).getShape());
  int64_t oc = dims[0];
  if (dims.size() == 3) // a 1-D kernel is one row
    w = reshapedConstant(b, w, {dims[0], dims[1], 1, dims[2]});
  bool depthwise = isa<ConvOp>(op.getOperation()) && group > 1 && oc == group && dims[1] == 1;
  Value packed = pack(b, op, w, depthwise ? "depthwise" : "conv", group);
  if (!packed)
    return failure();
  op.getWeightsMutable().assign(packed);
  op->setAttr("packed_kernel", b.getDenseI64ArrayAttr(kernel));
  op->setAttr("packed_oc", b.getI64IntegerAttr(oc));
  eraseDead(old.getDefiningOp());
  return success();
}

static LogicalResult packMatMul(MatMulOp op) {
  OpBuilder b(op);
  RankedTensorType type = typeOf(op.getRhs());
  Value packed = pack(b, op, op.getRhs(), "matmul", 1);
  if (!packed)
    return failure();
  op.getRhsMutable().assign(packed);
  op->setAttr("packed_k", b.getI64IntegerAttr(type.getDimSize(0)));
  op->setAttr("packed_n", b.getI64IntegerAttr(type.getDimSize(1)));
  return success();
}

namespace {
struct PackWeightsPass : mrcc::impl::PackWeightsBase<PackWeightsPass> {
  void runOnOperation() override {
    // Decide first: packing one user of a shared constant changes who uses it.
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<ConvOp, ConvTransposeOp, MatMulOp>(op) && isPackable(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      LogicalResult done = TypeSwitch<Operation *, LogicalResult>(op)
                               .Case<ConvOp, ConvTransposeOp>([](auto o) { return packConv(o); })
                               .Case([](MatMulOp o) { return packMatMul(o); });
      if (failed(done))
        return signalPassFailure();
    }
  }
};
} // namespace
