// Reductions: accumulators, their loops, and the combination of lanes, phase by phase. The order of operations depends
// on the plan and the extents alone. Long sums of f32 are cut into runs whose totals are added, so that the error grows
// slowly.
//
// Accumulators are listed result by result, a copy a vector where it differs between lanes (or always, along the vector
// level: `spreadAll`).
#include "LoopEmit.h"
#include <cmath>
#include <numeric>

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

/// Iterations of one run of a sum.
static constexpr int64_t runLength = 128;

static Value identity(KernelBuilder &kb, Combine kind, DType type, bool isIndex, int64_t lanes) {
  ExprNode node{Op::constant, type, 0, 0, {}};
  bool lowest =
      kind == Combine::max || kind == Combine::max_number || kind == Combine::argmax || kind == Combine::argmax_last;
  if (isIndex) { // first: any index is better; last: any is
    bool last = kind == Combine::argmax_last || kind == Combine::argmin_last;
    node.bits = constantBits(type, last ? int64_t(-1) : INT64_MAX);
  } else if (kind == Combine::sum || kind == Combine::prod) {
    node.bits = constantBits(type, int64_t(kind == Combine::prod));
  } else if (isFloat(type)) {
    node.bits = constantBits(type, lowest ? -HUGE_VAL : HUGE_VAL);
  } else if (isUnsigned(type)) {
    node.bits = lowest ? 0 : constantBits(type, int64_t(-1));
  } else {
    int64_t least = -(int64_t(1) << (bitWidth(type) - 2)) * 2;
    node.bits = lowest ? least : -(least + 1);
  }
  return emitNode(kb, node, {}, {}, lanes);
}

void Emitter::activate(unsigned phase) {
  active.clear();
  for (const Slot &slot : analysis.slots)
    if (slot.phase == phase)
      active.push_back(slot);
}

void Emitter::setAccs(const Slot &slot, unsigned part, Values values) {
  for (uint32_t n = 0; n < plan.body.nodes.size(); ++n)
    if (plan.body.nodes[n].op == Op::acc && plan.body.nodes[n].imm == slot.first + part)
      state.values[n] = values;
}

/// Of all active slots, in the order of identities().
void Emitter::setAccs(ArrayRef<Value> accs) {
  for (const Slot &slot : active)
    for (unsigned part = 0; part < slot.width; ++part) {
      const int64_t count = copies(slot, state.unroll, false);
      setAccs(slot, part, Values(accs.take_front(count)));
      accs = accs.drop_front(count);
    }
}

Emitter::Values Emitter::identities(int64_t n, int64_t unroll, bool spreadAll) {
  Values all;
  for (const Slot &slot : active)
    for (unsigned part = 0; part < slot.width; ++part)
      for (int64_t u = 0; u < copies(slot, unroll, spreadAll); ++u)
        all.push_back(
            identity(kb, slot.kind, slotType(slot, part), part == 1, spreadAll || slotWide[slot.first] ? n : 0));
  return all;
}

bool Emitter::splitsSums() const {
  return llvm::all_of(active,
                      [&](const Slot &slot) { return slot.kind == Combine::sum && slotType(slot) == DType::f32; });
}

/// acc := acc combined with value; two of each for argmax and argmin.
void Emitter::combineSlot(const Slot &slot, Value *acc, const Value *value) {
  DType type = slotType(slot);
  switch (slot.kind) {
  case Combine::sum: {
    Value sum = addProduct(acc[0], value[0]);
    acc[0] = sum ? sum : emitCombine(kb, BinaryKind::add, type, acc[0], value[0]);
    return;
  }
  case Combine::prod:
    acc[0] = emitCombine(kb, BinaryKind::mul, type, acc[0], value[0]);
    return;
  case Combine::max:
    acc[0] = emitCombine(kb, BinaryKind::max, type, acc[0], value[0]);
    return;
  case Combine::min:
    acc[0] = emitCombine(kb, BinaryKind::min, type, acc[0], value[0]);
    return;
  case Combine::max_number:
  case Combine::min_number: {
    bool isMax = slot.kind == Combine::max_number;
    if (type != DType::f32 && type != DType::f64) {
      acc[0] = emitCombine(kb, isMax ? BinaryKind::max : BinaryKind::min, type, acc[0], value[0]);
      return;
    }
    Num x(kb, value[0]), y(kb, acc[0]); // where x is NaN, y stays
    acc[0] = (isMax ? larger(x, y) : smaller(x, y)).v;
    return;
  }
  default:
    break;
  }
  bool isMax = slot.kind == Combine::argmax || slot.kind == Combine::argmax_last;
  bool last = slot.kind == Combine::argmax_last || slot.kind == Combine::argmin_last;
  auto vector = dyn_cast<VectorType>(acc[0].getType());
  int64_t n = vector ? vector.getDimSize(0) : 0;
  auto binary = [&](BinaryKind k, DType t, Value a, Value b) {
    return Num(kb, emitNode(kb, {Op::binary, resultType(k, t), uint32_t(k), 0, {0, 1}}, {a, b}, {t, t}, n));
  };
  DType indexType = slotType(slot, 1);
  Value v = value[0], i = value[1];
  if (vector) {
    v = isa<VectorType>(v.getType()) ? v : kb.splat(v, n);
    i = isa<VectorType>(i.getType()) ? i : kb.splat(i, n);
  }
  Num better = binary(isMax ? BinaryKind::gt : BinaryKind::lt, type, v, acc[0]);
  Num equal = binary(BinaryKind::eq, type, v, acc[0]);
  Num earlier = binary(last ? BinaryKind::gt : BinaryKind::lt, indexType, i, acc[1]);
  Num take = better | (equal & earlier);
  if (isFloat(type)) { // the first NaN stays
    auto isNan = [&](Value x) {
      return Num(kb, emitNode(kb, {Op::unary, DType::boolean, uint32_t(UnaryKind::is_nan), 0, {0}}, {x}, {type}, n));
    };
    take = take | (isNan(v) & (isNan(acc[0]) ^ take.integer(1)));
  }
  acc[0] = select(take, Num(kb, v), Num(kb, acc[0])).v;
  acc[1] = select(take, Num(kb, i), Num(kb, acc[1])).v;
}

Emitter::Values Emitter::combine(ArrayRef<Value> accs, ArrayRef<Value> values, int64_t unroll, bool spreadAll) {
  Values next(accs.begin(), accs.end());
  size_t at = 0;
  for (const Slot &slot : active) {
    int64_t n = copies(slot, unroll, spreadAll);
    for (int64_t u = 0; u < n; ++u) {
      Value acc[2], value[2];
      for (unsigned part = 0; part < slot.width; ++part) {
        acc[part] = next[at + part * n + u];
        value[part] = values[at + part * n + u];
      }
      combineSlot(slot, acc, value);
      for (unsigned part = 0; part < slot.width; ++part)
        next[at + part * n + u] = acc[part];
    }
    at += n * slot.width;
  }
  return next;
}

/// What is combined at this point, in the order of identities().
Emitter::Values Emitter::pointValues(bool spreadAll) {
  Values all;
  for (const Slot &slot : active)
    for (unsigned part = 0; part < slot.width; ++part)
      for (int64_t u = 0; u < copies(slot, state.unroll, spreadAll); ++u) {
        const Values &v = state.values[plan.body.results[slot.first + part]];
        Value x = v[v.size() > 1 ? u : 0];
        all.push_back(spreadAll && state.lanes && !isa<VectorType>(x.getType()) ? kb.splat(x, state.lanes) : x);
      }
  return all;
}

//===-- a parallel vector level: one accumulator a lane -----------------------------------------------------------===//

/// An index expression where `level` stands at 0.
Value Emitter::withoutLevel(uint32_t n, unsigned level) {
  const ExprNode &node = plan.body.nodes[n];
  if (node.op == Op::iter && node.imm == level)
    return asI64(0);
  if (node.op != Op::binary)
    return node.op == Op::constant ? emitNode(kb, node, {}, {}, 0) : evaluate(n, 0);
  Value a = withoutLevel(node.args[0], level), b = withoutLevel(node.args[1], level);
  return emitNode(kb, node, {a, b}, {DType::i64, DType::i64}, 0);
}

/// The iterations of a reduced level in which no clip is negative. Clips grow or fall evenly: each bounds one side.
std::pair<Index, Index> Emitter::bounds(unsigned level) {
  Index low = 0, high = extent(level);
  for (auto [i, clipped] : llvm::enumerate(plan.clips)) {
    if (clipped != level)
      continue;
    uint32_t node = plan.body.results[plan.combined() + plan.outputs + i];
    int64_t step = *coefficient(plan.body, analysis.deps, node, level);
    Index start = asIndex(withoutLevel(node, level));
    if (step > 0) // start + step * i >= 0
      low = kb.max(low, kb.div(kb.add(kb.max(kb.sub(0, start), 0), step - 1), step));
    else
      high = kb.min(high, kb.div(kb.max(kb.sub(start, step), 0), -step));
  }
  return {low, high};
}

/// The reduced levels from `level` on.
Emitter::Values Emitter::reduceLevels(unsigned level, Values accs) {
  if (level == plan.rank)
    return combine(accs, pointValues(false), state.unroll, false);
  auto step = [&](Index i, ValueRange in) {
    Values out;
    scoped([&] {
      enter(level, i);
      out = reduceLevels(level + 1, Values(in));
    });
    return out;
  };
  auto [low, high] = bounds(level);
  if (level + 1 < plan.rank || !splitsSums())
    return kb.loop(low, high, 1, accs, step);
  return kb.loop(low, high, runLength, accs, [&, limit = high](Index start, ValueRange total) {
    Index end = kb.min(kb.add(start, runLength), limit);
    Values run = kb.loop(start, end, 1, identities(state.lanes, state.unroll, false), step);
    return combine(Values(total), run, state.unroll, false);
  });
}

/// Whether no clip cuts the window at this point; null if there are none.
Value Emitter::windowInside() {
  Value inside;
  for (unsigned level = plan.parallel; level < plan.rank && !plan.clips.empty(); ++level) {
    auto [low, high] = bounds(level);
    Value all = kb.both(kb.equal(low, 0), kb.equal(high, extent(level)));
    inside = inside ? kb.both(inside, all) : all;
  }
  return inside;
}

/// The reduced levels of a small window: straight code where it lies inside the input, loops at the border.
Emitter::Values Emitter::reduceWindow(Values accs) {
  std::function<Values(unsigned, Values)> whole = [&](unsigned level, Values in) -> Values {
    if (level == plan.rank)
      return combine(in, pointValues(false), state.unroll, false);
    for (int64_t i = 0; i < plan.window[level - plan.parallel]; ++i)
      scoped([&] {
        enter(level, i);
        in = whole(level + 1, in);
      });
    return in;
  };
  Value inside = windowInside();
  if (!inside)
    return whole(plan.parallel, accs);
  SmallVector<Type> types;
  for (Value acc : accs)
    types.push_back(acc.getType());
  auto branch = scf::IfOp::create(kb.b, kb.loc, types, inside, true);
  OpBuilder::InsertionGuard guard(kb.b);
  kb.b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(kb.b, kb.loc, whole(plan.parallel, accs));
  kb.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(kb.b, kb.loc, reduceLevels(plan.parallel, accs));
  return Values(branch.getResults());
}

/// The last pass over the reduced levels, which stores.
void Emitter::mapTile(unsigned level) {
  if (level == plan.rank) {
    for (int64_t u = 0; u < state.unroll; ++u)
      storeResults(u);
    return;
  }
  kb.loop(0, extent(level), 1, [&](Index i) {
    scoped([&] {
      enter(level, i);
      mapTile(level + 1);
    });
  });
}

void Emitter::reduceTile(Index at, int64_t n, int64_t unroll, ArrayRef<Index> shifts) {
  scoped([&] {
    enterVector(at, n, unroll, shifts);
    for (unsigned phase = 0; phase < analysis.phases; ++phase) {
      startPhase(phase);
      activate(phase);
      Values start = identities(n, unroll, false);
      setAccs(plan.window.empty() ? reduceLevels(plan.parallel, start) : reduceWindow(start));
    }
    startPhase(analysis.phases);
    mapTile(plan.maps() ? plan.parallel : plan.rank);
  });
}

void Emitter::reduceParallelRow(Index low, Index high) {
  if (lanes > 1 && analysis.cached == 0 && plan.combined() == 1 && plan.window.empty() && !plan.maps()) {
    // Tiles of twice as many vectors first: longer pieces of each line of memory.
    const int64_t wide = 2 * lanes * tileVectors;
    Index doubled = kb.sub(high, kb.rem(kb.sub(high, low), wide));
    kb.loop(low, doubled, wide, [&](Index i) { reduceTile(i, lanes, 2 * tileVectors); });
    low = doubled;
  }
  vectorTiles(low, high,
              [&](Index at, int64_t n, int64_t unroll, ArrayRef<Index> shifts) { reduceTile(at, n, unroll, shifts); });
}

//===-- a reduced vector level: lanes are combined ----------------------------------------------------------------===//

/// One row of the vector level into vectorsTogether() accumulators of lanes (a result) and a scalar one, in this order.
Emitter::Values Emitter::vectorLevel(Values accs) {
  Index n = extent(plan.vector);
  auto part = [&](Index at, int64_t newLanes, int64_t unroll, ValueRange in) {
    Values out;
    scoped([&] {
      enterVector(at, newLanes, unroll);
      fetchNextRows();
      out = combine(Values(in), pointValues(true), unroll, true);
    });
    return out;
  };
  size_t results = 0;
  for (const Slot &slot : active)
    results += slot.width;
  const int64_t vectors = lanes > 1 ? vectorsTogether() : 0;
  Values wideAccs(accs.begin(), accs.begin() + results * vectors), narrow(accs.begin() + results * vectors, accs.end());
  Index done = 0;
  if (vectors) {
    Index big = kb.sub(n, kb.rem(n, lanes * vectors)), small = kb.sub(n, kb.rem(n, lanes));
    auto several = [&](Index i, ValueRange in) { return part(i, lanes, vectors, in); };
    // Rows of a batch are hardly longer than a run.
    const bool isShort = plan.batch && vectors > 1 && longestBatched <= 2 * runLength * lanes * vectors;
    if (splitsSums() && !isShort) {
      const int64_t run = lanes * vectors * runLength;
      wideAccs = kb.loop(0, big, run, wideAccs, [&](Index start, ValueRange total) {
        Values sums =
            kb.loop(start, kb.min(kb.add(start, run), big), lanes * vectors, identities(lanes, vectors, true), several);
        return combine(Values(total), sums, vectors, true);
      });
    } else {
      wideAccs = kb.loop(0, big, lanes * vectors, wideAccs, several);
    }
    Values first; // what is left in whole vectors goes to the first accumulators
    for (size_t r = 0; r < results; ++r)
      first.push_back(wideAccs[r * vectors]);
    if (vectors > 1)
      first = kb.loop(big, small, lanes, first, [&](Index i, ValueRange in) { return part(i, lanes, 1, in); });
    // The rest of a row as its last vector, whose lanes that were there before count for nothing. A row shorter than a
    // vector goes to the scalar accumulators.
    Index last = kb.sub(n, lanes);
    Value isLong = kb.less(-1, last);
    done = kb.select(isLong, n, small);
    first = kb.loop(small, done, lanes, first, [&](Index, ValueRange in) {
      Values out;
      scoped([&] {
        enterVector(last, lanes, 1);
        SmallVector<int32_t> number(lanes);
        std::iota(number.begin(), number.end(), 0);
        auto type = VectorType::get({lanes}, kb.b.getI32Type());
        Value seen = arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getI32Type(), kb.ssa(kb.sub(small, last)));
        Value numbers =
            arith::ConstantOp::create(kb.b, kb.loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(number)));
        Num isNew = Num(kb, numbers) >= Num(kb, kb.splat(seen, lanes));
        Values values = pointValues(true), none = identities(lanes, 1, true);
        for (auto [v, id] : llvm::zip(values, none))
          v = select(isNew, Num(kb, v), Num(kb, id)).v;
        out = combine(Values(in), values, 1, true);
      });
      return out;
    });
    for (size_t r = 0; r < results; ++r)
      wideAccs[r * vectors] = first[r];
  }
  wideAccs.append(kb.loop(done, n, 1, narrow, [&](Index i, ValueRange in) { return part(i, 0, 1, in); }));
  return wideAccs;
}

/// The accumulators of vectorLevel() as one scalar a result: vectors pairwise, then halves of the vector.
Emitter::Values Emitter::finish(Values accs) {
  using Pair = std::array<Value, 2>;
  const int64_t vectors = lanes > 1 ? vectorsTogether() : 0;
  size_t results = 0, at = 0;
  for (const Slot &slot : active)
    results += slot.width;
  Values scalars;
  for (const Slot &slot : active) {
    auto each = [&](llvm::function_ref<Value(unsigned)> f) {
      Pair p;
      for (unsigned part = 0; part < slot.width; ++part)
        p[part] = f(part);
      return p;
    };
    auto merge = [&](Pair a, Pair b) {
      combineSlot(slot, a.data(), b.data());
      return a;
    };
    Pair total = each([&](unsigned part) { return accs[results * vectors + at + part]; });
    if (vectors) {
      SmallVector<Pair> parts;
      for (int64_t u = 0; u < vectors; ++u)
        parts.push_back(each([&](unsigned part) { return accs[(at + part) * vectors + u]; }));
      for (; parts.size() > 1; parts.resize(parts.size() / 2))
        for (size_t i = 0; i < parts.size() / 2; ++i)
          parts[i] = merge(parts[i], parts[i + parts.size() / 2]);
      Pair v = parts[0];
      for (int64_t half = lanes / 2; half >= 1; half /= 2) {
        auto piece = [&](int64_t from) {
          return each([&](unsigned part) -> Value {
            return vector::ExtractStridedSliceOp::create(kb.b, kb.loc, v[part], ArrayRef<int64_t>{from},
                                                         ArrayRef<int64_t>{half}, ArrayRef<int64_t>{1});
          });
        };
        v = merge(piece(0), piece(half));
      }
      total = merge(each([&](unsigned part) -> Value {
                      return vector::ExtractOp::create(kb.b, kb.loc, v[part], ArrayRef<int64_t>{0});
                    }),
                    total);
    }
    scalars.append(total.begin(), total.begin() + slot.width);
    at += slot.width;
  }
  return scalars;
}

/// The reduced levels from `level` on, the last of which is the vector level.
Emitter::Values Emitter::innerNest(unsigned level, Values accs) {
  if (plan.rank == 0) // a single point
    return combine(accs, pointValues(true), 1, true);
  if (level == plan.vector)
    return vectorLevel(accs);
  auto [low, high] = bounds(level);
  return kb.loop(low, high, 1, accs, [&](Index i, ValueRange in) {
    Values out;
    scoped([&] {
      enter(level, i);
      out = innerNest(level + 1, Values(in));
    });
    return out;
  });
}

void Emitter::mapInner(unsigned level) {
  if (level == plan.vector)
    return mapRow(0, extent(level));
  kb.loop(0, extent(level), 1, [&](Index i) {
    scoped([&] {
      enter(level, i);
      mapInner(level + 1);
    });
  });
}

void Emitter::reducePhase(unsigned phase) {
  startPhase(phase);
  if (phase == analysis.phases) {
    if (!plan.maps())
      return storeResults(0);
    mapping = true;
    mapInner(plan.parallel);
    mapping = false;
    return;
  }
  activate(phase);
  Values accs;
  if (lanes > 1)
    accs = identities(lanes, vectorsTogether(), true);
  accs.append(identities(0, 1, true));
  Values totals = finish(innerNest(plan.parallel, accs));
  size_t next = 0;
  for (const Slot &slot : active)
    for (unsigned part = 0; part < slot.width; ++part)
      setAccs(slot, part, {totals[next++]});
}

void Emitter::reduceInnerRow() {
  scoped([&] {
    for (unsigned phase = 0; phase <= analysis.phases; ++phase)
      reducePhase(phase);
  });
}

/// Reduced values of the rows of a batch.
Buffer Emitter::batchAccs(const Slot &slot, unsigned part) {
  Index kept = kb.mul(kb.div(kb.add(kb.mul(keptPoints(), int64_t(8 * analysis.cached)), 63), 64), 64);
  return kb.scratch(kb.add(kept, int64_t(slot.first + part) * largestBatch * 8), slotType(slot, part),
                    {int64_t(1) << 40});
}

/// Phase by phase over some rows: in each, no row waits for another.
void Emitter::reduceBatch(Index low, Index high) {
  for (unsigned phase = 0; phase <= analysis.phases; ++phase)
    kb.loop(low, high, 1, [&](Index i) {
      scoped([&] {
        batchRow = kb.sub(i, low);
        enter(plan.parallel - 1, i);
        for (const Slot &slot : analysis.slots)
          for (unsigned part = 0; part < slot.width && slot.phase < phase; ++part)
            setAccs(slot, part, {kb.load(batchAccs(slot, part), {batchRow})});
        reducePhase(phase);
        for (const Slot &slot : analysis.slots)
          for (unsigned part = 0; part < slot.width && slot.phase == phase; ++part)
            for (uint32_t n = 0; n < plan.body.nodes.size(); ++n)
              if (plan.body.nodes[n].op == Op::acc && plan.body.nodes[n].imm == slot.first + part)
                kb.store(state.values[n][0], batchAccs(slot, part), {batchRow});
      });
    });
}

} // namespace mrcc::loops
