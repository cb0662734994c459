// Reductions: accumulators, their loops, and the combination of lanes. The order of operations depends on the plan and the
// extents alone. Long sums of f32 are cut into runs whose totals are added, so that the error grows slowly.
#include "LoopEmit.h"
#include <cmath>

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

/// Iterations of one run of a sum.
static constexpr int64_t runLength = 128;

static Value identity(KernelBuilder &kb, Combine kind, DType type, bool isIndex, int64_t lanes) {
  Expr e;
  ExprNode node{Op::constant, type, 0, 0, {}};
  bool lowest = kind == Combine::max || kind == Combine::argmax || kind == Combine::argmax_last;
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

/// One value a slot and, for slots that differ between lanes, `unroll` vectors.
Emitter::Values Emitter::identities(int64_t n, int64_t unroll) {
  Values all;
  unsigned slot = 0;
  for (Combine kind : plan.combines)
    for (unsigned part = 0; part < (isArg(kind) ? 2 : 1); ++part, ++slot) {
      uint32_t node = plan.body.results[slot];
      bool spread = slotWide[slot];
      for (int64_t u = 0; u < (spread ? unroll : 1); ++u)
        all.push_back(identity(kb, kind, plan.body.nodes[node].type, part == 1, spread ? n : 0));
    }
  return all;
}

bool Emitter::splitsSums() const {
  unsigned slot = 0;
  for (Combine kind : plan.combines) {
    if (kind != Combine::sum || plan.body.nodes[plan.body.results[slot]].type != DType::f32)
      return false;
    ++slot;
  }
  return true;
}

/// acc := acc combined with value; two of each for argmax and argmin.
void Emitter::combineSlot(Combine kind, unsigned slot, Value *acc, const Value *value) {
  DType type = plan.body.nodes[plan.body.results[slot]].type;
  switch (kind) {
  case Combine::sum: acc[0] = emitCombine(kb, BinaryKind::add, type, acc[0], value[0]); return;
  case Combine::prod: acc[0] = emitCombine(kb, BinaryKind::mul, type, acc[0], value[0]); return;
  case Combine::max: acc[0] = emitCombine(kb, BinaryKind::max, type, acc[0], value[0]); return;
  case Combine::min: acc[0] = emitCombine(kb, BinaryKind::min, type, acc[0], value[0]); return;
  default: break;
  }
  bool isMax = kind == Combine::argmax || kind == Combine::argmax_last, last = kind == Combine::argmax_last || kind == Combine::argmin_last;
  auto binary = [&](BinaryKind k, DType t, Value a, Value b) {
    auto vector = dyn_cast<VectorType>(a.getType());
    return emitNode(kb, {Op::binary, resultType(k, t), uint32_t(k), 0, {0, 1}}, {a, b}, {t, t}, vector ? vector.getDimSize(0) : 0);
  };
  DType indexType = plan.body.nodes[plan.body.results[slot + 1]].type;
  Value v = value[0], i = value[1];
  if (auto vector = dyn_cast<VectorType>(acc[0].getType())) {
    v = isa<VectorType>(v.getType()) ? v : kb.splat(v, vector.getDimSize(0));
    i = isa<VectorType>(i.getType()) ? i : kb.splat(i, vector.getDimSize(0));
  }
  Num better(kb, binary(isMax ? BinaryKind::gt : BinaryKind::lt, type, v, acc[0]));
  Num equal(kb, binary(BinaryKind::eq, type, v, acc[0]));
  Num earlier(kb, binary(last ? BinaryKind::gt : BinaryKind::lt, indexType, i, acc[1]));
  Num take = better | (equal & earlier);
  if (isFloat(type)) { // the first NaN stays
    auto isNan = [&](Value x) {
      ExprNode node{Op::unary, DType::boolean, uint32_t(UnaryKind::is_nan), 0, {0}};
      auto vector = dyn_cast<VectorType>(x.getType());
      return Num(kb, emitNode(kb, node, {x}, {type}, vector ? vector.getDimSize(0) : 0));
    };
    take = take | (isNan(v) & (isNan(acc[0]) ^ take.integer(1)));
  }
  acc[0] = select(take, Num(kb, v), Num(kb, acc[0])).v;
  acc[1] = select(take, Num(kb, i), Num(kb, acc[1])).v;
}

Emitter::Values Emitter::combine(ArrayRef<Value> accs, ArrayRef<Value> values, int64_t unroll) {
  Values next(accs.begin(), accs.end());
  unsigned slot = 0;
  size_t at = 0;
  for (Combine kind : plan.combines) {
    if (!isArg(kind)) {
      for (int64_t u = 0; u < (slotWide[slot] ? unroll : 1); ++u, ++at)
        combineSlot(kind, slot, &next[at], &values[at]);
      ++slot;
      continue;
    }
    bool spread = slotWide[slot];
    int64_t count = spread ? unroll : 1;
    for (int64_t u = 0; u < count; ++u) {
      Value acc[2] = {next[at + u], next[at + count + u]}, value[2] = {values[at + u], values[at + count + u]};
      combineSlot(kind, slot, acc, value);
      next[at + u] = acc[0];
      next[at + count + u] = acc[1];
    }
    at += 2 * count;
    slot += 2;
  }
  return next;
}

/// The values of the slots at this point, in the order of identities().
Emitter::Values Emitter::combineValues() {
  Values all;
  for (unsigned slot = 0; slot < plan.combined(); ++slot) {
    uint32_t node = plan.body.results[slot];
    for (int64_t u = 0; u < (slotWide[slot] ? state.unroll : 1); ++u)
      all.push_back(state.values[node][state.values[node].size() > 1 ? u : 0]);
  }
  return all;
}

/// The reduced levels from `level` on, inside a parallel vector level.
Emitter::Values Emitter::reduceLevels(unsigned level, Values accs) {
  if (level == plan.rank)
    return combine(accs, combineValues(), state.unroll);
  auto step = [&](Index i, ValueRange in) {
    Values out;
    scoped([&] {
      enter(level, i);
      out = reduceLevels(level + 1, Values(in));
    });
    return out;
  };
  if (level + 1 < plan.rank || !splitsSums())
    return kb.loop(0, extent(level), 1, accs, step);
  return kb.loop(0, extent(level), runLength, accs, [&](Index start, ValueRange total) {
    Values run = kb.loop(start, kb.min(kb.add(start, runLength), extent(level)), 1, identities(state.lanes, state.unroll), step);
    return combine(Values(total), run, state.unroll);
  });
}

//===-- reductions along the vector level -------------------------------------------------------------------------===//

/// One row of the vector level into `vectors` accumulators of lanes (a slot) and a scalar one, in this order.
Emitter::Values Emitter::vectorLevel(Values accs) {
  const int64_t vectors = lanes > 1 ? 4 : 0;
  const unsigned slots = plan.combined();
  Index n = extent(plan.vector);
  auto part = [&](Index at, int64_t newLanes, int64_t unroll, ArrayRef<Value> in) {
    Values out;
    scoped([&] {
      enterVector(at, newLanes, unroll);
      Values values;
      for (unsigned slot = 0; slot < slots; ++slot)
        for (int64_t u = 0; u < unroll; ++u) {
          auto &v = state.values[plan.body.results[slot]];
          Value x = v[v.size() > 1 ? u : 0];
          values.push_back(newLanes && !isa<VectorType>(x.getType()) ? kb.splat(x, newLanes) : x);
        }
      out.assign(in.begin(), in.end());
      for (int64_t u = 0; u < unroll; ++u) {
        unsigned slot = 0;
        for (Combine kind : plan.combines) {
          unsigned width = isArg(kind) ? 2 : 1;
          Value acc[2], value[2];
          for (unsigned k = 0; k < width; ++k) {
            acc[k] = out[(slot + k) * unroll + u];
            value[k] = values[(slot + k) * unroll + u];
          }
          combineSlot(kind, slot, acc, value);
          for (unsigned k = 0; k < width; ++k)
            out[(slot + k) * unroll + u] = acc[k];
          slot += width;
        }
      }
    });
    return out;
  };
  Values wideAccs(accs.begin(), accs.begin() + slots * vectors), narrow(accs.begin() + slots * vectors, accs.end());
  Index done = 0;
  if (vectors) {
    Index big = kb.sub(n, kb.rem(n, lanes * vectors)), small = kb.sub(n, kb.rem(n, lanes));
    auto four = [&](Index i, ValueRange in) { return part(i, lanes, vectors, Values(in)); };
    if (splitsSums()) {
      Values zeros;
      for (unsigned slot = 0; slot < slots; ++slot)
        for (int64_t u = 0; u < vectors; ++u)
          zeros.push_back(identity(kb, Combine::sum, DType::f32, false, lanes));
      wideAccs = kb.loop(0, big, lanes * vectors * runLength, wideAccs, [&](Index start, ValueRange total) {
        Index end = kb.min(kb.add(start, lanes * vectors * runLength), big);
        Values run = kb.loop(start, end, lanes * vectors, zeros, four), sum;
        for (auto [a, b] : llvm::zip(total, run))
          sum.push_back(emitCombine(kb, BinaryKind::add, DType::f32, a, b));
        return sum;
      });
    } else {
      wideAccs = kb.loop(0, big, lanes * vectors, wideAccs, four);
    }
    Values first; // what is left in whole vectors goes to the first accumulator
    for (unsigned slot = 0; slot < slots; ++slot)
      first.push_back(wideAccs[slot * vectors]);
    first = kb.loop(big, small, lanes, first, [&](Index i, ValueRange in) { return part(i, lanes, 1, Values(in)); });
    for (unsigned slot = 0; slot < slots; ++slot)
      wideAccs[slot * vectors] = first[slot];
    done = small;
  }
  narrow = kb.loop(done, n, 1, narrow, [&](Index i, ValueRange in) { return part(i, 0, 1, Values(in)); });
  wideAccs.append(narrow);
  return wideAccs;
}

/// The accumulators of vectorLevel() as one scalar a slot: vectors pairwise, then halves of the vector.
Emitter::Values Emitter::finish(Values accs, int64_t vectors) {
  Values results;
  const unsigned slots = plan.combined();
  unsigned slot = 0;
  for (Combine kind : plan.combines) {
    unsigned width = isArg(kind) ? 2 : 1;
    auto merge = [&](std::array<Value, 2> a, std::array<Value, 2> b) {
      combineSlot(kind, slot, a.data(), b.data());
      return a;
    };
    SmallVector<std::array<Value, 2>> parts;
    for (int64_t u = 0; u < vectors; ++u) {
      std::array<Value, 2> part;
      for (unsigned k = 0; k < width; ++k)
        part[k] = accs[(slot + k) * vectors + u];
      parts.push_back(part);
    }
    for (; parts.size() > 1; parts.resize(parts.size() / 2))
      for (size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = merge(parts[i], parts[i + parts.size() / 2]);
    std::array<Value, 2> scalar;
    for (unsigned k = 0; k < width; ++k)
      scalar[k] = accs[slots * vectors + slot + k];
    if (vectors) {
      std::array<Value, 2> v = parts[0];
      for (int64_t half = lanes / 2; half >= 1; half /= 2) {
        std::array<Value, 2> low, high;
        for (unsigned k = 0; k < width; ++k) {
          auto piece = [&](int64_t from) -> Value {
            return vector::ExtractStridedSliceOp::create(kb.b, kb.loc, v[k], ArrayRef<int64_t>{from}, ArrayRef<int64_t>{half}, ArrayRef<int64_t>{1});
          };
          low[k] = piece(0);
          high[k] = piece(half);
        }
        v = merge(low, high);
      }
      for (unsigned k = 0; k < width; ++k)
        v[k] = vector::ExtractOp::create(kb.b, kb.loc, v[k], ArrayRef<int64_t>{0});
      scalar = merge(v, scalar);
    }
    for (unsigned k = 0; k < width; ++k)
      results.push_back(scalar[k]);
    slot += width;
  }
  return results;
}

void Emitter::reduceInnerRow() {
  const int64_t vectors = lanes > 1 ? 4 : 0;
  const unsigned slots = plan.combined();
  Values accs;
  unsigned slot = 0;
  SmallVector<std::pair<Combine, bool>> kinds; // by slot: kind, and whether it is the index of a pair
  for (Combine kind : plan.combines)
    for (unsigned part = 0; part < (isArg(kind) ? 2 : 1); ++part, ++slot)
      kinds.emplace_back(kind, part == 1);
  for (int64_t n : {vectors, int64_t(1)})
    for (unsigned s = 0; s < slots; ++s)
      for (int64_t u = 0; u < n; ++u)
        accs.push_back(identity(kb, kinds[s].first, plan.body.nodes[plan.body.results[s]].type, kinds[s].second, n == vectors && vectors ? lanes : 0));
  if (vectors == 0)
    accs.resize(slots);
  std::function<Values(unsigned, Values)> nest = [&](unsigned level, Values in) -> Values {
    if (plan.rank == 0) { // a single point
      Values out = in, values;
      for (unsigned s = 0; s < slots; ++s)
        values.push_back(state.values[plan.body.results[s]][0]);
      return combine(out, values, 1);
    }
    if (level == plan.vector)
      return vectorLevel(in);
    return kb.loop(0, extent(level), 1, in, [&](Index i, ValueRange args) {
      Values out;
      scoped([&] {
        enter(level, i);
        out = nest(level + 1, Values(args));
      });
      return out;
    });
  };
  scoped([&] {
    Values totals = finish(nest(plan.parallel, accs), vectors);
    state.lanes = 0;
    state.unroll = 1;
    for (uint32_t k = 0; k < plan.body.nodes.size(); ++k)
      if (plan.body.nodes[k].op == Op::acc)
        state.values[k] = {totals[plan.body.nodes[k].imm]};
    emitPost();
    storeResults(0);
  });
}

} // namespace mrcc::loops
