// Loads, stores and computed places of the loop family. A unit step is a vector load, a step of its own is one load a
// lane. An index that grows evenly along the vector level is computed once, for the first lane.
#include "LoopEmit.h"
#include "VectorMath.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

Value Emitter::asI64(Index x) { return arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getI64Type(), kb.ssa(x)); }

Index Emitter::asIndex(Value v) {
  llvm::APInt constant;
  if (auto op = v.getDefiningOp<arith::ConstantIntOp>())
    return op.value();
  return arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getIndexType(), v).getResult();
}

Value Emitter::evaluate(uint32_t n, int64_t u) {
  const ExprNode &node = plan.body.nodes[n];
  bool vector = isWide(n) && state.lanes > 0;
  switch (node.op) {
  case Op::iter: {
    Index at = state.iters[node.imm];
    if (!isWide(n))
      return asI64(at);
    Value base = asI64(kb.add(at, vectorAt(u)));
    if (!vector)
      return base;
    SmallVector<int64_t> lane(state.lanes);
    for (int64_t i = 0; i < state.lanes; ++i)
      lane[i] = i;
    auto type = VectorType::get({state.lanes}, kb.b.getI64Type());
    Value steps = arith::ConstantOp::create(kb.b, kb.loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(lane)));
    return arith::AddIOp::create(kb.b, kb.loc, kb.splat(base, state.lanes), steps);
  }
  case Op::load:
    return loadNode(node, isWide(n), u);
  case Op::load_at:
    if (auto held = rowReads.find(n); held != rowReads.end())
      return held->second[u];
    return loadAtNode(node, isWide(n), u);
  case Op::extent:
    return asI64(kb.param(params.operandExtent(node.imm)));
  case Op::param: {
    Value bits = asI64(kb.param(params.immediate(node.imm)));
    if (node.type == DType::f64)
      return arith::BitcastOp::create(kb.b, kb.loc, kb.b.getF64Type(), bits);
    if (node.type != DType::f32)
      return bits;
    Value low = arith::TruncIOp::create(kb.b, kb.loc, kb.b.getI32Type(), bits);
    return arith::BitcastOp::create(kb.b, kb.loc, kb.b.getF32Type(), low);
  }
  default:
    break;
  }
  Values args;
  SmallVector<DType> types;
  bool spread = false;
  for (uint32_t arg : node.args) {
    const Values &v = state.values[arg];
    args.push_back(v[v.size() > 1 ? u : 0]);
    types.push_back(plan.body.nodes[arg].type);
    spread |= isa<VectorType>(args.back().getType());
  }
  if (node.op == Op::binary && BinaryKind(node.imm) == BinaryKind::add)
    for (size_t i = 0; i < 2; ++i)
      if (plan.reduces() || isWeighted(node.args[i]))
        if (Value sum = addProduct(args[1 - i], args[i]))
          return sum;
  if (isExpBelow(node))
    return vmath::expBelow(Num(kb, args[0])).v;
  return emitNode(kb, node, args, types, spread ? state.lanes : 0);
}

/// sum + product as one FMA, if `product` is one (of f32 or f64). A product that others use, too, costs nothing more.
Value Emitter::addProduct(Value sum, Value product) {
  auto op = product.getDefiningOp<arith::MulFOp>();
  if (!op || sum.getType() != product.getType() || !(Num(kb, sum).element().isF32() || Num(kb, sum).element().isF64()))
    return {};
  return kb.fma(op.getLhs(), op.getRhs(), sum);
}

/// Whether a node is a product with a weight that follows from indices: a term of an interpolation.
bool Emitter::isWeighted(uint32_t n) const {
  const ExprNode &node = plan.body.nodes[n];
  return node.op == Op::binary && BinaryKind(node.imm) == BinaryKind::mul && !analysis.fromIndices[n] &&
         llvm::any_of(node.args, [&](uint32_t arg) { return analysis.fromIndices[arg] && analysis.deps[arg]; });
}

/// Whether a node is the exponential (f32) of a difference from the maximum of the same value: never above 1.
bool Emitter::isExpBelow(const ExprNode &node) const {
  if (node.op != Op::unary || UnaryKind(node.imm) != UnaryKind::exp || node.type != DType::f32)
    return false;
  const ExprNode &difference = plan.body.nodes[node.args[0]];
  if (difference.op != Op::binary || BinaryKind(difference.imm) != BinaryKind::sub)
    return false;
  const ExprNode &top = plan.body.nodes[difference.args[1]];
  return top.op == Op::acc && llvm::any_of(analysis.slots, [&](const Slot &slot) {
           return (slot.kind == Combine::max || slot.kind == Combine::max_number) && slot.first == top.imm &&
                  plan.body.results[slot.first] == difference.args[0];
         });
}

//===-- loads -----------------------------------------------------------------------------------------------------===//

Index Emitter::laneOffset(unsigned view, Index element) const {
  auto *self = const_cast<Emitter *>(this);
  return kb.add(state.offsets[view], kb.mul(element, self->stride(view, plan.vector)));
}

/// One element. Of the packed types several lie in a byte, the first in the lowest bits.
Value Emitter::loadAt(unsigned view, Index offset) {
  DType type = plan.types[view];
  if (!isPacked(type))
    return kb.load(views[view], {offset});
  const int64_t bits = bitWidth(type), perByte = 8 / bits;
  Num raw(kb, kb.load(views[view], {kb.div(offset, perByte)}));
  Num shifted = raw.op<arith::ShRUIOp>(raw.v, packedShift(offset, bits).v);
  Num element = shifted & raw.integer((1 << bits) - 1), top = raw.integer(1 << (bits - 1));
  return type == DType::i4 || type == DType::i2 ? ((element ^ top) - top).v : element.v; // extends the sign
}

/// Where the element's bits lie inside its byte, as i8.
Num Emitter::packedShift(Index offset, int64_t bits) {
  Value shift = kb.ssa(kb.mul(kb.rem(offset, 8 / bits), bits));
  return {kb, arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getI8Type(), shift)};
}

Value Emitter::gather(unsigned view, llvm::function_ref<Index(int64_t)> offset) {
  Values elements;
  for (int64_t lane = 0; lane < state.lanes; ++lane)
    elements.push_back(loadAt(view, offset(lane)));
  auto type = VectorType::get({state.lanes}, elements[0].getType());
  return vector::FromElementsOp::create(kb.b, kb.loc, type, elements);
}

Value Emitter::loadNode(const ExprNode &node, bool spread, int64_t u) {
  unsigned view = plan.outputs + node.imm;
  if (!spread)
    return loadAt(view, state.offsets[view]);
  if (!state.lanes)
    return loadAt(view, laneOffset(view, vectorAt(u)));
  if (alternates(view))
    return channels[view][state.iters[plan.parallel - 2].constant];
  if (step(view, plan.vector) == Step::unit)
    return kb.loadVector(views[view], {laneOffset(view, vectorAt(u))}, state.lanes);
  return gather(view, [&](int64_t lane) { return laneOffset(view, kb.add(vectorAt(u), lane)); });
}

/// The value of an evenly growing index in the first lane of vector u.
Value Emitter::scalarBase(uint32_t n, int64_t u) {
  const ExprNode &node = plan.body.nodes[n];
  if (!isWide(n))
    return state.values[n][0];
  if (node.op == Op::iter)
    return asI64(kb.add(state.iters[node.imm], vectorAt(u)));
  Value a = scalarBase(node.args[0], u), b = scalarBase(node.args[1], u);
  return emitNode(kb, node, {a, b}, {DType::i64, DType::i64}, 0);
}

Value Emitter::loadAtNode(const ExprNode &node, bool spread, int64_t u) {
  unsigned view = plan.outputs + node.imm;
  auto strideOf = [&](unsigned k) { return stride(view, k); };
  auto scalars = [&](llvm::function_ref<Value(uint32_t)> value) {
    Index offset = 0;
    for (auto [k, arg] : llvm::enumerate(node.args))
      if (step(view, k) != Step::none)
        offset = kb.add(offset, kb.mul(asIndex(value(arg)), strideOf(k)));
    return offset;
  };
  auto stored = [&](uint32_t arg) {
    const Values &v = state.values[arg];
    return v[v.size() > 1 ? u : 0];
  };
  if (!spread || !state.lanes)
    return loadAt(view, scalars(stored));
  // Even growth: a base and one step for all lanes.
  std::vector<uint32_t> deps(plan.body.nodes.size());
  for (uint32_t n = 0; n < deps.size(); ++n)
    deps[n] = isWide(n) ? 1u << plan.vector : 0;
  bool even = true;
  Index grows = 0;
  for (auto [k, arg] : llvm::enumerate(node.args)) {
    auto c = coefficient(plan.body, deps, arg, plan.vector);
    even &= c.has_value();
    if (even && *c && step(view, k) != Step::none)
      grows = kb.add(grows, kb.mul(*c, strideOf(k)));
  }
  if (even) {
    Index base = scalars([&](uint32_t arg) { return scalarBase(arg, u); });
    if (grows.isConstant() && grows.constant == 1)
      return kb.loadVector(views[view], {base}, state.lanes);
    return gather(view, [&](int64_t lane) { return kb.add(base, kb.mul(lane, grows)); });
  }
  if (llvm::all_of(node.args, [&](uint32_t arg) { return !isWide(arg) || analysis.tableOf[arg] >= 0; }))
    return loadTabled(node, u);
  // Any index: the offset of each lane.
  Value offsets;
  for (auto [k, arg] : llvm::enumerate(node.args)) {
    if (step(view, k) == Step::none)
      continue;
    Value i = stored(arg);
    Num index(kb, isa<VectorType>(i.getType()) ? i : kb.splat(i, state.lanes));
    if (step(view, k) == Step::strided)
      index = index * Num(kb, kb.splat(asI64(strideOf(k)), state.lanes));
    offsets = offsets ? (Num(kb, offsets) + index).v : index.v;
  }
  if (!offsets) // every dimension of the operand has one element
    return kb.splat(loadAt(view, 0), state.lanes);
  return gather(view, [&](int64_t lane) {
    return asIndex(vector::ExtractOp::create(kb.b, kb.loc, offsets, ArrayRef<int64_t>{lane}));
  });
}

//===-- stores ----------------------------------------------------------------------------------------------------===//

void Emitter::storeResults(int64_t u) {
  for (unsigned o = 0; o < plan.outputs; ++o) {
    const Values &v = state.values[plan.body.results[plan.combined() + o]];
    store(o, v[v.size() > 1 ? u : 0], u);
  }
}

void Emitter::store(unsigned view, Value v, int64_t u) {
  bool along = plan.rank && (!plan.vectorReduces() || mapping); // outputs move along the vector level
  bool isVector = isa<VectorType>(v.getType());
  if (!along || !state.lanes) {
    Index at = along ? laneOffset(view, vectorAt(u)) : state.offsets[view];
    if (!isPacked(plan.types[view]))
      return kb.store(v, views[view], {at});
    const int64_t bits = bitWidth(plan.types[view]);
    Index byte = kb.div(at, 8 / bits);
    Num old(kb, kb.load(views[view], {byte})), mask = old.integer((1 << bits) - 1), shift = packedShift(at, bits);
    Num moved = old.op<arith::ShLIOp>((Num(kb, v) & mask).v, shift.v), hole = old.op<arith::ShLIOp>(mask.v, shift.v);
    return kb.store(((old & (hole ^ old.integer(-1))) | moved).v, views[view], {byte});
  }
  if (!isVector)
    v = kb.splat(v, state.lanes);
  if (step(view, plan.vector) == Step::unit)
    return kb.storeVector(v, views[view], {laneOffset(view, vectorAt(u))});
  for (int64_t lane = 0; lane < state.lanes; ++lane)
    kb.store(vector::ExtractOp::create(kb.b, kb.loc, v, ArrayRef<int64_t>{lane}), views[view],
             {laneOffset(view, kb.add(vectorAt(u), lane))});
}

//===-- values kept between phases --------------------------------------------------------------------------------===//

/// Points of all rows of a batch, or of the row.
Index Emitter::keptPoints() {
  Index points = plan.batch ? kb.param(Params::blockSize) : Index(1);
  for (unsigned l = plan.parallel; l < plan.rank; ++l)
    points = kb.mul(points, extent(l));
  return points;
}

/// Writes a node's value to its place in scratch, or reads it.
Value Emitter::kept(uint32_t n, int64_t u, Value stored) {
  DType type = plan.body.nodes[n].type;
  // A point has one element, or the elements of a tile of vectors.
  const int64_t tileElements = tileVectors * kb.target.vectorBits / std::max(8u, bitWidth(type)),
                elements = plan.vectorReduces() ? 1 : tileElements;
  const int64_t bytes = plan.vectorReduces() ? 8 : tileVectors * kb.target.vectorBits / 8;
  Buffer buffer =
      kb.scratch(kb.mul(kb.mul(keptPoints(), bytes), int64_t(analysis.cachePlace[n])), type, {int64_t(1) << 40});
  Index place = state.place;
  if (plan.batch) {
    Index points = 1;
    for (unsigned l = plan.parallel; l < plan.rank; ++l)
      points = kb.mul(points, extent(l));
    place = kb.add(place, kb.mul(batchRow, points));
  }
  Index at = kb.add(kb.mul(place, elements), u * std::max<int64_t>(state.lanes, 1));
  bool spread = isWide(n) && state.lanes;
  if (!stored)
    return spread ? kb.loadVector(buffer, {at}, state.lanes) : kb.load(buffer, {at});
  if (spread)
    kb.storeVector(stored, buffer, {at});
  else
    kb.store(stored, buffer, {at});
  return stored;
}

} // namespace mrcc::loops
