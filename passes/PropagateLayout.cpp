// Moves transposes down through whatever can work on permuted data, until they meet their inverse and cancel.
//
// One sweep visits the ops in program order. A transpose of a transpose is composed. An op that reads transposed data
// is rebuilt on the data before the transpose, with its axes mapped, and the transpose follows it; further down the
// sweep meets it again, so one sweep carries a transpose as far as it goes. Sweeps repeat until nothing changes.
//
// Ops with several operands (binary, select, concat) take the layout of their most expensive transposed operand. The
// others get the inverse transpose, which is free for constants, for data transposed the same way, and where only
// dimensions of size 1 move. If it is not free, the op is rebuilt only where that does not add a transpose, or where a
// transpose further down would cancel. Such an inserted transpose is pinned: it does not move down again, so the pass
// ends. A shape op reads the shape before the transpose. Reshapes are cut into independent parts by DimAnalysis, which
// works with unknown dimensions; the transpose passes if no part takes dims apart that it moves. Where a part does (the
// channel shuffle, depth to space), but a transpose below would cancel the rest, only the order within parts stays.
//
// At the end a transpose behind element-wise ops on an input moves up to the input, where fold-scale and the first
// layer find it, and one that only moves dimensions of size 1 becomes squeeze and unsqueeze: it needs no copy.
#include "PropagateLayout.h"
#include "ReshapeOperand.h"

namespace mrcc {
#define GEN_PASS_DEF_PROPAGATELAYOUT
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

static constexpr StringRef pinned = "mrc.pinned";
static constexpr int largestSweeps = 100; // a guard; a few are enough

TransposeOp Propagate::source(Value v) {
  auto op = v.getDefiningOp<TransposeOp>();
  return op && !op->hasAttr(pinned) ? op : TransposeOp();
}

void Propagate::finish(Operation *old, Operation *copy, ArrayRef<Perm> perms) {
  for (auto [i, result] : llvm::enumerate(old->getResults())) {
    if (result.use_empty())
      continue;
    Value value = copy->getResult(i);
    if (!isIdentity(perms[i]))
      value = TransposeOp::create(b, old->getLoc(), result.getType(), value, perms[i]);
    result.replaceAllUsesWith(value);
  }
  eraseDead(old);
}

//===-- transposes and shapes -------------------------------------------------------------------------------------===//

bool Propagate::composeTranspose(TransposeOp op) {
  if (isIdentity(op.getPerm())) {
    op.getOutput().replaceAllUsesWith(op.getInput());
    eraseDead(op);
    return true;
  }
  if (Value folded = transposedConstant(b, op.getInput(), op.getPerm())) {
    op.getOutput().replaceAllUsesWith(folded);
    eraseDead(op);
    return true;
  }
  auto inner = op.getInput().getDefiningOp<TransposeOp>();
  if (!inner)
    return false;
  Perm perm = compose(inner.getPerm(), op.getPerm());
  Value value = inner.getInput();
  if (!isIdentity(perm)) {
    auto copy = TransposeOp::create(b, op.getLoc(), op.getType(), value, perm);
    if (op->hasAttr(pinned))
      copy->setAttr(pinned, b.getUnitAttr());
    value = copy;
  }
  op.getOutput().replaceAllUsesWith(value);
  eraseDead(op);
  return true;
}

bool Propagate::shape(ShapeOp op) {
  auto t = op.getInput().getDefiningOp<TransposeOp>();
  if (!t)
    return false;
  int64_t rank = t.getPerm().size();
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t start = clamp(op.getStart()), end = std::max(start, clamp(op.getEnd().value_or(rank)));
  auto i64 = b.getI64Type();
  Value whole = ShapeOp::create(b, op.getLoc(), RankedTensorType::get({rank}, i64), t.getInput(), 0, IntegerAttr());
  Value indices = makeIntegers(b, op.getLoc(), t.getPerm().slice(start, end - start));
  Value picked = GatherOp::create(b, op.getLoc(), op.getType(), whole, indices, 0);
  op.getOutput().replaceAllUsesWith(picked);
  eraseDead(op);
  return true;
}

//===-- several operands ------------------------------------------------------------------------------------------===//

/// What a transpose of this value would cost: nothing for constants and where only ones move.
static int cost(Value v, ArrayRef<int64_t> perm) { return isConstant(v) || movesOnlyOnes(typeOf(v), perm) ? 0 : 1; }

bool Propagate::demanded(Value v, ArrayRef<int64_t> perm, int depth) {
  for (Operation *user : v.getUsers()) {
    if (auto t = dyn_cast<TransposeOp>(user)) {
      if (isIdentity(compose(perm, t.getPerm())))
        return true;
    } else if (depth > 0 && isa<UnaryOp, BinaryOp, SelectOp, CastOp, BitcastOp, ConcatOp>(user) &&
               typeOf(user->getResult(0)).getRank() == int64_t(perm.size()) &&
               demanded(user->getResult(0), perm, depth - 1)) {
      return true;
    }
  }
  return false;
}

std::optional<Perm> Propagate::chooseLayout(Operation *op, ValueRange operands, int64_t rank) {
  std::optional<Perm> best;
  bool free = true; // a transpose that costs something decides
  for (Value v : operands) {
    TransposeOp t = source(v);
    if (!t || (best && !free))
      continue;
    bool isFree = cost(t.getInput(), t.getPerm()) == 0;
    if (best && isFree)
      continue;
    best.emplace();
    for (int64_t i = 0, n = rank - t.getPerm().size(); i < n; ++i) // operands of lower rank are aligned at the end
      best->push_back(i);
    for (int64_t p : t.getPerm())
      best->push_back(p + rank - t.getPerm().size());
    free = isFree;
  }
  if (!best)
    return std::nullopt;
  int before = 0, after = cost(op->getResult(0), inverse(*best));
  Perm back = inverse(*best);
  for (Value v : operands) {
    auto t = v.getDefiningOp<TransposeOp>();
    Perm own(back);
    Value from = v;
    if (t && int64_t(t.getPerm().size()) == rank) {
      own = compose(t.getPerm(), back);
      from = t.getInput();
      before += source(v) ? cost(from, t.getPerm()) : 0;
    } else if (int64_t missing = rank - typeOf(v).getRank(); missing > 0) {
      // With leading ones; what then moves is free if only one dim is not one.
      SmallVector<int64_t> dims(missing, 1);
      llvm::append_range(dims, typeOf(v).getShape());
      bool ones = movesOnlyOnes(RankedTensorType::get(dims, typeOf(v).getElementType()), back);
      before += t ? 1 : 0;
      after += ones || isConstant(v) || (t && source(v)) ? 0 : 1;
      continue;
    }
    after += cost(from, own);
  }
  if (after > before && !demanded(op->getResult(0), *best, 8))
    return std::nullopt;
  return best;
}

Value Propagate::inLayout(Value v, ArrayRef<int64_t> perm, Location loc) {
  int64_t rank = perm.size();
  if (auto t = source(v); t && typeOf(v).getRank() < rank) { // bring the transpose to full rank first
    int64_t lead = rank - typeOf(v).getRank();
    Perm full = llvm::to_vector(llvm::seq<int64_t>(0, lead));
    for (int64_t p : t.getPerm())
      full.push_back(p + lead);
    return transposed(b, loc, withRank(b, loc, t.getInput(), rank), compose(full, inverse(perm)));
  }
  Value out = transposed(b, loc, withRank(b, loc, v, rank), inverse(perm));
  if (auto t = out.getDefiningOp<TransposeOp>())
    t->setAttr(pinned, b.getUnitAttr());
  return out;
}

bool Propagate::broadcasting(Operation *op) {
  RankedTensorType result = typeOf(op->getResult(0));
  auto perm = chooseLayout(op, op->getOperands(), result.getRank());
  if (!perm)
    return false;
  SmallVector<Value> operands;
  for (Value v : op->getOperands())
    operands.push_back(typeOf(v).getRank() == 0 || (isConstant(v) && typeOf(v).getNumElements() == 1)
                           ? v
                           : inLayout(v, *perm, op->getLoc()));
  finish(op, cloneWith(b, op, operands, permuted(result, inverse(*perm))), *perm);
  return true;
}

bool Propagate::concat(ConcatOp op) {
  auto perm = chooseLayout(op, op.getInputs(), typeOf(op.getOutput()).getRank());
  if (!perm)
    return false;
  SmallVector<Value> operands;
  for (Value v : op.getInputs())
    operands.push_back(inLayout(v, *perm, op.getLoc()));
  Operation *copy = cloneWith(b, op, operands, permuted(typeOf(op.getOutput()), inverse(*perm)));
  copy->setAttr("axis", b.getI64IntegerAttr((*perm)[op.getAxis()]));
  finish(op, copy, *perm);
  return true;
}

//===-- what is left ----------------------------------------------------------------------------------------------===//

/// From behind the element-wise ops on an input of the function (its normalisation) to the input.
bool Propagate::hoist(TransposeOp op) {
  SmallVector<Operation *> chain;
  Value v = op.getInput();
  while (Operation *step = v.getDefiningOp()) {
    bool binary = isa<BinaryOp>(step);
    if (!v.hasOneUse() || !(binary || isa<UnaryOp, CastOp, BitcastOp>(step)))
      return false;
    unsigned data = binary && isConstant(step->getOperand(0)) ? 1 : 0;
    if (binary && !isConstant(step->getOperand(1 - data)))
      return false;
    v = step->getOperand(data);
    if (typeOf(v).getShape() != typeOf(step->getResult(0)).getShape())
      return false;
    chain.push_back(step);
  }
  if (chain.empty())
    return false;
  b.setInsertionPoint(op);
  Perm perm(op.getPerm()), back = inverse(perm);
  Value out = transposed(b, op.getLoc(), v, perm);
  for (Operation *step : llvm::reverse(chain)) {
    SmallVector<Value> operands;
    for (Value o : step->getOperands())
      operands.push_back(!isConstant(o)                    ? out
                         : typeOf(o).getNumElements() == 1 ? o
                                                           : inLayout(o, back, step->getLoc()));
    out = cloneWith(b, step, operands, permuted(typeOf(step->getResult(0)), perm))->getResult(0);
  }
  op.getOutput().replaceAllUsesWith(out);
  eraseDead(op);
  return true;
}

void Propagate::squeezeOnes(TransposeOp op) {
  RankedTensorType from = typeOf(op.getInput()), to = typeOf(op.getOutput());
  if (!movesOnlyOnes(from, op.getPerm()))
    return;
  SmallVector<int64_t> dropped, added, kept;
  for (auto [i, n] : llvm::enumerate(from.getShape()))
    (n == 1 ? dropped : kept).push_back(n == 1 ? i : n);
  for (auto [i, n] : llvm::enumerate(to.getShape()))
    if (n == 1)
      added.push_back(i);
  b.setInsertionPoint(op);
  auto type = RankedTensorType::get(kept, to.getElementType());
  Value v = SqueezeOp::create(b, op.getLoc(), type, op.getInput(), b.getDenseI64ArrayAttr(dropped));
  op.getOutput().replaceAllUsesWith(UnsqueezeOp::create(b, op.getLoc(), to, v, added));
  op.erase();
}

//===-- the sweep -------------------------------------------------------------------------------------------------===//

bool Propagate::visit(Operation *op) {
  b.setInsertionPoint(op);
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](TransposeOp o) { return composeTranspose(o); })
      .Case([&](ShapeOp o) { return shape(o); })
      .Case<UnaryOp, CastOp, BitcastOp>([&](auto o) { return sameShape(o, ""); })
      .Case<SoftmaxOp, CumulativeOp, IotaOp>([&](auto o) { return sameShape(o, "axis"); })
      .Case<BinaryOp, SelectOp>([&](auto o) { return broadcasting(o); })
      .Case([&](ConcatOp o) { return concat(o); })
      .Case([&](SplitOp o) { return split(o); })
      .Case([&](LayerNormOp o) { return layerNorm(o); })
      .Case([&](MatMulOp o) { return matmul(o); })
      .Case([&](ReduceOp o) { return reduce(o); })
      .Case([&](ArgReduceOp o) { return argReduce(o); })
      .Case([&](ResizeOp o) { return resize(o); })
      .Case([&](PadOp o) { return pad(o); })
      .Case([&](SliceOp o) { return slice(o); })
      .Case([&](GatherOp o) { return gather(o); })
      .Case([&](ExpandOp o) { return expand(o, o.getShape()); })
      .Case([&](TileOp o) { return expand(o, o.getRepeats()); })
      .Case([&](SqueezeOp o) { return squeeze(o); })
      .Case([&](UnsqueezeOp o) { return unsqueeze(o); })
      .Case([&](ReshapeOp o) { return reshape(o, o.getShape(), o.getAllowzero()); })
      .Case([&](FlattenOp o) { return reshape(o, nullptr, false); })
      .Default([](Operation *) { return false; });
}

void Propagate::run() {
  Block &block = function.front();
  for (Operation &op : llvm::make_early_inc_range(block))
    if (auto r = dyn_cast<ReshapeOp>(op))
      simplifyShape(r);
  int sweeps = 0;
  for (bool changed = true; changed && sweeps < largestSweeps; ++sweeps) {
    changed = false;
    for (Operation &op : llvm::make_early_inc_range(block))
      changed |= visit(&op);
  }
  SmallVector<TransposeOp> rest(block.getOps<TransposeOp>());
  for (TransposeOp t : rest)
    hoist(t);
  for (TransposeOp t : llvm::make_early_inc_range(block.getOps<TransposeOp>())) {
    t->removeAttr(pinned);
    squeezeOnes(t);
  }
}

namespace {
struct PropagateLayoutPass : mrcc::impl::PropagateLayoutBase<PropagateLayoutPass> {
  void runOnOperation() override {
    if (!getOperation().isDeclaration())
      Propagate(getOperation()).run();
  }
};
} // namespace
