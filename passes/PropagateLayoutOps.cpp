#include "DimAnalysis.h"
#include "PropagateLayout.h"
#include "ReshapeOperand.h"

using namespace mlir;
using namespace mrcc;

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

/// The normalised dims may change places among themselves: scale and bias, which have those dims, follow.
bool Propagate::layerNorm(LayerNormOp op) {
  TransposeOp t = source(op.getInput());
  if (!t)
    return false;
  int64_t axis = op.getAxis(), rank = t.getPerm().size();
  Perm inside;
  for (int64_t p : t.getPerm().drop_front(axis)) {
    if (p < axis)
      return false;
    inside.push_back(p - axis);
  }
  SmallVector<Value> operands{t.getInput(), op.getScale(), op.getBias()};
  if (!isIdentity(inside))
    for (Value &v : MutableArrayRef(operands).drop_front(1))
      if (!isNone(v)) {
        if (typeOf(v).getRank() != rank - axis)
          return false;
        v = transposed(b, op.getLoc(), v, inverse(inside));
      }
  Perm perm(t.getPerm());
  finish(op, cloneWith(b, op, operands, permuted(typeOf(op.getOutput()), inverse(perm))), perm);
  return true;
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
  if (isNone(axes)) {
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
  if (pads && !!isNone(op.getAxes())) {
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
  bool apart = false;
  SmallVector<int64_t> together; // the input's dims, each part's next to each other
  for (const Placed &p : placed)
    for (unsigned i = p.part.in.first; i < p.part.in.second; ++i) {
      together.push_back(i);
      if (in[i].is(1))
        continue;
      apart |= perm[i] < last;
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
  Perm rest = inverse(order);
  Value input = t.getInput();
  if (apart) {
    // Only what brings the parts together stays in front of the reshape, if the rest is known to cancel.
    if (isIdentity(together) || !demanded(op->getResult(0), rest, 8))
      return false;
    input = transposed(b, op->getLoc(), input, compose(perm, together));
    before = permuted(ArrayRef<Dim>(in), together);
  }
  Value mapped = reshapeOperand(b, op->getLoc(), input, before, outBefore, origin);
  if (!mapped) {
    if (apart)
      eraseDead(input.getDefiningOp());
    return false;
  }
  auto type = permuted(typeOf(op->getResult(0)), order);
  finish(op, ReshapeOp::create(b, op->getLoc(), type, input, mapped, false), rest);
  return true;
}
