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
// works with unknown dimensions; the transpose passes if no part takes dims apart that it moves.
//
// At the end a transpose that only moves dimensions of size 1 becomes squeeze and unsqueeze: it needs no copy.
#include "DimAnalysis.h"
#include "Passes.h"
#include "ReshapeOperand.h"
#include "Rewrite.h"

namespace mrcc {
#define GEN_PASS_DEF_PROPAGATELAYOUT
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

namespace {
constexpr StringRef pinned = "mrc.pinned";
constexpr int largestSweeps = 100; // a guard; a few are enough

class Propagate {
public:
  explicit Propagate(func::FuncOp function) : function(function), b(function.getContext()) {}
  void run();

private:
  bool visit(Operation *op);
  bool composeTranspose(TransposeOp op);
  bool shape(ShapeOp op);
  bool sameShape(Operation *op, StringRef axis);
  bool broadcasting(Operation *op);
  bool concat(ConcatOp op);
  bool split(SplitOp op);
  bool layerNorm(LayerNormOp op);
  bool matmul(MatMulOp op);
  bool reduce(ReduceOp op);
  bool argReduce(ArgReduceOp op);
  bool resize(ResizeOp op);
  bool pad(PadOp op);
  bool slice(SliceOp op);
  bool gather(GatherOp op);
  bool expand(Operation *op, Value shape);
  bool squeeze(SqueezeOp op);
  bool unsqueeze(UnsqueezeOp op);
  bool reshape(Operation *op, Value shape, bool allowzero);

  void finish(Operation *old, Operation *copy, ArrayRef<Perm> perms);
  TransposeOp source(Value v);
  std::optional<Perm> chooseLayout(Operation *op, ValueRange operands, int64_t rank);
  Value inLayout(Value v, ArrayRef<int64_t> perm, Location loc);
  bool demanded(Value v, ArrayRef<int64_t> perm, int depth);

  func::FuncOp function;
  OpBuilder b;
};
} // namespace

static bool hasAxes(Value v) { return !isNone(v); }

/// The transpose that made this value, if it may move.
TransposeOp Propagate::source(Value v) {
  auto op = v.getDefiningOp<TransposeOp>();
  return op && !op->hasAttr(pinned) ? op : TransposeOp();
}

/// Replaces the op's results by transposes of the copy's results.
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

//===-- one operand -----------------------------------------------------------------------------------------------===//

/// Ops whose result has their first operand's shape; `axis` names their axis attribute, if any.
bool Propagate::sameShape(Operation *op, StringRef axis) {
  TransposeOp t = source(op->getOperand(0));
  if (!t)
    return false;
  Perm perm(t.getPerm());
  SmallVector<Value> operands(op->getOperands());
  operands[0] = t.getInput();
  auto type = permuted(typeOf(op->getResult(0)), inverse(perm));
  Operation *copy = cloneWith(b, op, operands, type);
  if (!axis.empty())
    copy->setAttr(axis, b.getI64IntegerAttr(perm[op->getAttrOfType<IntegerAttr>(axis).getInt()]));
  finish(op, copy, perm);
  return true;
}

bool Propagate::layerNorm(LayerNormOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  for (int64_t i = op.getAxis(), rank = t.getPerm().size(); i < rank; ++i)
    if (t.getPerm()[i] != i)
      return false;
  return sameShape(op, "");
}

/// x W with the same matrix for every row: the order of the rows is free.
bool Propagate::matmul(MatMulOp op) {
  TransposeOp t = source(op.getLhs());
  if (!t || typeOf(op.getRhs()).getRank() != 2 || t.getPerm().back() != int64_t(t.getPerm().size()) - 1 ||
      op->hasAttr("packed_k"))
    return false;
  return sameShape(op, "");
}

bool Propagate::reduce(ReduceOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  Perm perm(t.getPerm()), axes, rest;
  for (int64_t a : op.getAxes())
    axes.push_back(perm[a]);
  llvm::sort(axes);
  if (op.getKeepdims()) {
    rest = perm;
  } else {
    for (auto [i, p] : llvm::enumerate(perm)) // the kept dims, counted without the reduced ones
      if (!llvm::is_contained(op.getAxes(), int64_t(i)))
        rest.push_back(p - llvm::count_if(axes, [&](int64_t a) { return a < p; }));
  }
  auto type = permuted(typeOf(op.getOutput()), inverse(rest));
  Operation *copy = cloneWith(b, op, t.getInput(), type);
  copy->setAttr("axes", b.getDenseI64ArrayAttr(axes));
  finish(op, copy, rest);
  return true;
}

bool Propagate::argReduce(ArgReduceOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  int64_t axis = t.getPerm()[op.getAxis()];
  Perm rest;
  for (auto [i, p] : llvm::enumerate(t.getPerm()))
    if (op.getKeepdims() || i != op.getAxis())
      rest.push_back(op.getKeepdims() ? p : p - (axis < p));
  Operation *copy = cloneWith(b, op, t.getInput(), permuted(typeOf(op.getOutput()), inverse(rest)));
  copy->setAttr("axis", b.getI64IntegerAttr(axis));
  finish(op, copy, rest);
  return true;
}

bool Propagate::resize(ResizeOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  SmallVector<Value> operands(op->getOperands());
  operands[0] = t.getInput();
  Operation *copy = cloneWith(b, op, operands, permuted(typeOf(op.getOutput()), inverse(t.getPerm())));
  SmallVector<int64_t> axes;
  for (int64_t a : op.getAxes())
    axes.push_back(t.getPerm()[a]);
  copy->setAttr("axes", b.getDenseI64ArrayAttr(axes));
  finish(op, copy, Perm(t.getPerm()));
  return true;
}

/// The axes operand that says the same of the data before the transpose; null if the axes are not known.
static Value mappedAxes(OpBuilder &b, Location loc, Value axes, int64_t count, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> mapped;
  int64_t rank = perm.size();
  if (!hasAxes(axes)) {
    llvm::append_range(mapped, perm.take_front(count));
  } else {
    auto given = getIntegers(axes);
    if (!given)
      return nullptr;
    for (int64_t a : *given)
      mapped.push_back(perm[a < 0 ? a + rank : a]);
  }
  return makeIntegers(b, loc, mapped);
}

bool Propagate::pad(PadOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  int64_t rank = t.getPerm().size();
  SmallVector<Value> operands(op->getOperands());
  operands[0] = t.getInput();
  auto pads = getIntegers(op.getPads());
  if (pads && !hasAxes(op.getAxes())) {
    SmallVector<int64_t> mapped(2 * rank);
    for (int64_t i = 0; i < rank; ++i) {
      mapped[t.getPerm()[i]] = (*pads)[i];
      mapped[rank + t.getPerm()[i]] = (*pads)[rank + i];
    }
    operands[1] = makeIntegers(b, op.getLoc(), mapped);
  } else if (!(operands[3] = mappedAxes(b, op.getLoc(), op.getAxes(), rank, t.getPerm()))) {
    return false;
  }
  finish(op, cloneWith(b, op, operands, permuted(typeOf(op.getOutput()), inverse(t.getPerm()))), Perm(t.getPerm()));
  return true;
}

bool Propagate::slice(SliceOp op) {
  TransposeOp t = source(op.getInput());
  int64_t count = typeOf(op.getStarts()).getDimSize(0);
  if (!t || ShapedType::isDynamic(count))
    return false;
  SmallVector<Value> operands(op->getOperands());
  operands[0] = t.getInput();
  if (!(operands[3] = mappedAxes(b, op.getLoc(), op.getAxes(), count, t.getPerm())))
    return false;
  finish(op, cloneWith(b, op, operands, permuted(typeOf(op.getOutput()), inverse(t.getPerm()))), Perm(t.getPerm()));
  return true;
}

/// The gathered axis is replaced by the dims of the indices.
bool Propagate::gather(GatherOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  int64_t n = typeOf(op.getIndices()).getRank(), axis = op.getAxis(), from = t.getPerm()[axis];
  Perm perm; // output dims of op in those of the copy
  for (auto [i, p] : llvm::enumerate(t.getPerm())) {
    if (int64_t(i) == axis)
      for (int64_t k = 0; k < n; ++k)
        perm.push_back(from + k);
    else
      perm.push_back(p > from ? p + n - 1 : p);
  }
  Operation *copy = cloneWith(b, op, {t.getInput(), op.getIndices()}, permuted(typeOf(op.getOutput()), inverse(perm)));
  copy->setAttr("axis", b.getI64IntegerAttr(from));
  finish(op, copy, perm);
  return true;
}

/// expand and tile: their second operand has an element for each dim, in the order of the output.
bool Propagate::expand(Operation *op, Value shape) {
  TransposeOp t = source(op->getOperand(0));
  int64_t rank = typeOf(op->getResult(0)).getRank();
  if (!t || int64_t(t.getPerm().size()) != rank || typeOf(shape).getDimSize(0) != rank)
    return false;
  Perm back = inverse(t.getPerm());
  if (auto known = getIntegers(shape))
    shape = makeIntegers(b, op->getLoc(), permuted(ArrayRef<int64_t>(*known), back));
  else
    shape = GatherOp::create(b, op->getLoc(), typeOf(shape), shape, makeIntegers(b, op->getLoc(), back), 0);
  finish(op, cloneWith(b, op, {t.getInput(), shape}, permuted(typeOf(op->getResult(0)), back)), Perm(t.getPerm()));
  return true;
}

bool Propagate::split(SplitOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  SmallVector<Type> types;
  for (Value v : op->getResults())
    types.push_back(permuted(typeOf(v), inverse(t.getPerm())));
  Operation *copy = cloneWith(b, op, {t.getInput(), op.getSizes()}, types);
  copy->setAttr("axis", b.getI64IntegerAttr(t.getPerm()[op.getAxis()]));
  finish(op, copy, SmallVector<Perm>(types.size(), Perm(t.getPerm())));
  return true;
}

//===-- several operands ------------------------------------------------------------------------------------------===//

/// What a transpose of this value would cost: nothing for constants and where only ones move.
static int cost(Value v, ArrayRef<int64_t> perm) { return isConstant(v) || movesOnlyOnes(typeOf(v), perm) ? 0 : 1; }

/// True if data of this value reaches a transpose that would cancel `perm`, through ops that permute freely.
bool Propagate::demanded(Value v, ArrayRef<int64_t> perm, int depth) {
  for (Operation *user : v.getUsers()) {
    if (auto t = dyn_cast<TransposeOp>(user)) {
      if (isIdentity(compose(perm, t.getPerm())))
        return true;
    } else if (depth > 0 && isa<UnaryOp, BinaryOp, SelectOp, CastOp, ConcatOp>(user) &&
               typeOf(user->getResult(0)).getRank() == int64_t(perm.size()) &&
               demanded(user->getResult(0), perm, depth - 1)) {
      return true;
    }
  }
  return false;
}

/// The layout in which the op shall work: perm of the transpose that then follows it. Nothing if it stays as it is.
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

/// The operand in the layout before the transpose `perm`.
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

//===-- ranks -----------------------------------------------------------------------------------------------------===//

bool Propagate::squeeze(SqueezeOp op) {
  TransposeOp t = source(op.getInput());
  if (!t || !op.getAxes())
    return false;
  ArrayRef<int64_t> given = *op.getAxes();
  SmallVector<int64_t> axes;
  for (int64_t a : given)
    axes.push_back(t.getPerm()[a]);
  llvm::sort(axes);
  Perm rest;
  for (auto [i, p] : llvm::enumerate(t.getPerm()))
    if (!llvm::is_contained(given, int64_t(i)))
      rest.push_back(p - llvm::count_if(axes, [&](int64_t a) { return a < p; }));
  Operation *copy = cloneWith(b, op, t.getInput(), permuted(typeOf(op.getOutput()), inverse(rest)));
  copy->setAttr("axes", b.getDenseI64ArrayAttr(axes));
  finish(op, copy, rest);
  return true;
}

bool Propagate::unsqueeze(UnsqueezeOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  // The new dims keep their places; the old ones take the remaining places in the order before the transpose.
  int64_t rank = typeOf(op.getOutput()).getRank();
  SmallVector<int64_t> places;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(op.getAxes(), i))
      places.push_back(i);
  Perm perm(rank);
  for (int64_t a : op.getAxes())
    perm[a] = a;
  for (auto [i, p] : llvm::enumerate(t.getPerm()))
    perm[places[i]] = places[p];
  finish(op, cloneWith(b, op, t.getInput(), permuted(typeOf(op.getOutput()), inverse(perm))), perm);
  return true;
}

/// reshape and flatten. The cut gives parts of the transposed input; each must hold dims that stand together, in this
/// order, in the input before the transpose (dims of size 1 stand anywhere).
bool Propagate::reshape(Operation *op, Value shape, bool allowzero) {
  TransposeOp t = source(op->getOperand(0));
  if (!t)
    return false;
  if (auto values = shape && allowzero ? getIntegers(shape) : std::nullopt; values && llvm::is_contained(*values, 0))
    return false; // an empty tensor
  ArrayRef<int64_t> perm = t.getPerm();
  DimAnalysis analysis;
  SmallVector<Dim> in = analysis.dims(op->getOperand(0)), out = analysis.dims(op->getResult(0)),
                   before = analysis.dims(t.getInput());
  SmallVector<ReshapePart> parts = cutReshape(in, out);

  struct Placed {
    int64_t key;
    ReshapePart part;
  };
  SmallVector<Placed> placed;
  int64_t key = -1;
  for (const ReshapePart &part : parts) {
    for (unsigned i = part.in.first; i < part.in.second; ++i) // where the part's first dim stands before the transpose
      if (!in[i].is(1) || part.in.second - part.in.first == 1) {
        key = perm[i];
        break;
      }
    placed.push_back({key, part}); // a part without input follows the one in front of it
  }
  llvm::stable_sort(placed, [](const Placed &x, const Placed &y) { return x.key < y.key; });
  int64_t last = -1;
  for (const Placed &p : placed)
    for (unsigned i = p.part.in.first; i < p.part.in.second; ++i) {
      if (in[i].is(1))
        continue;
      if (perm[i] < last)
        return false;
      last = perm[i];
    }

  SmallVector<Dim> outBefore;
  SmallVector<int64_t> order; // output dims of op in the order before the transpose
  SmallVector<Origin> origin;
  auto elements = shape ? analysis.elements(shape) : std::nullopt;
  for (const Placed &p : placed)
    for (unsigned j = p.part.out.first; j < p.part.out.second; ++j) {
      order.push_back(j);
      outBefore.push_back(out[j]);
      origin.push_back(originOf(analysis, shape, elements, j));
    }
  Value mapped = reshapeOperand(b, op->getLoc(), t.getInput(), before, outBefore, origin);
  if (!mapped)
    return false;
  auto type = permuted(typeOf(op->getResult(0)), order);
  auto copy = ReshapeOp::create(b, op->getLoc(), type, t.getInput(), mapped, false);
  finish(op, copy, inverse(order));
  return true;
}

//===-- the sweep -------------------------------------------------------------------------------------------------===//

bool Propagate::visit(Operation *op) {
  b.setInsertionPoint(op);
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](TransposeOp o) { return composeTranspose(o); })
      .Case([&](ShapeOp o) { return shape(o); })
      .Case<UnaryOp, CastOp>([&](auto o) { return sameShape(o, ""); })
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
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto t = dyn_cast<TransposeOp>(op);
    if (!t)
      continue;
    t->removeAttr(pinned);
    if (!movesOnlyOnes(typeOf(t.getInput()), t.getPerm()))
      continue;
    SmallVector<int64_t> dropped, added, kept;
    for (auto [i, n] : llvm::enumerate(typeOf(t.getInput()).getShape()))
      (n == 1 ? dropped : kept).push_back(n == 1 ? i : n);
    for (auto [i, n] : llvm::enumerate(typeOf(t.getOutput()).getShape()))
      if (n == 1)
        added.push_back(i);
    b.setInsertionPoint(t);
    auto type = RankedTensorType::get(kept, typeOf(t.getOutput()).getElementType());
    Value v = SqueezeOp::create(b, t.getLoc(), type, t.getInput(), b.getDenseI64ArrayAttr(dropped));
    t.getOutput().replaceAllUsesWith(UnsqueezeOp::create(b, t.getLoc(), t.getType(), v, added));
    t.erase();
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
