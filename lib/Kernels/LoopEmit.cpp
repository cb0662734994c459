// The loop family's code: decomposition of units into rows, and rows of maps. A row runs along the vector
// level. Its end is a last vector that overlaps the one before; maps compute it first and store it last, so that an
// output may lie on its input. Rows shorter than a vector run as scalars.
#include "LoopEmit.h"
#include "Families.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

Emitter::Emitter(const Plan &plan, KernelBuilder &kb) : plan(plan), kb(kb), params(plan), analysis(plan) { analyse(); }

// Level and width of every node, and lanes that fit the widest value in a vector.
void Emitter::analyse() {
  const Expr &body = plan.body;
  const size_t count = body.nodes.size();
  wide.assign(count, false);
  // A reduced value differs between lanes where what is reduced does, unless lanes are combined. The index of a pair
  // goes with its value. What is reduced may itself depend on reduced values: slots in the order of their phases.
  slotWide.assign(plan.combined(), false);
  auto spread = [&](uint32_t n) {
    const ExprNode &node = body.nodes[n];
    bool is = plan.rank && (node.op == Op::acc ? !plan.vectorReduces() && slotWide[node.imm]
                                               : bool(analysis.deps[n] >> plan.vector & 1));
    for (uint32_t arg : node.args)
      is = is || wide[arg];
    return is;
  };
  for (unsigned phase = 0; phase <= analysis.phases; ++phase) {
    for (uint32_t n = 0; n < count; ++n)
      wide[n] = spread(n);
    for (const Slot &slot : analysis.slots)
      if (slot.phase == phase)
        for (unsigned part = 0; part < slot.width; ++part)
          slotWide[slot.first + part] =
              wide[body.results[slot.first]] || wide[body.results[slot.first + slot.width - 1]];
  }
  unsigned widest = 8;
  bool narrow = false; // elements of less than a byte are moved one at a time
  for (uint32_t n = 0; n < count; ++n) {
    const ExprNode &node = body.nodes[n];
    levelOf.push_back(analysis.deps[n] ? int(llvm::Log2_32(analysis.deps[n])) : -1);
    bool memory = node.op == Op::load || node.op == Op::load_at;
    if (wide[n] && (memory || node.type != DType::i64))
      widest = std::max(widest, bitWidth(node.type));
  }
  for (unsigned v = 0; v < plan.types.size(); ++v) {
    narrow |= isPacked(plan.types[v]);
    if (v < plan.outputs && (!plan.vectorReduces() || plan.maps()))
      widest = std::max(widest, bitWidth(plan.types[v]));
  }
  lanes = narrow || plan.rank == 0 ? 1 : std::min<int64_t>(kb.target.vectorBits / widest, 64);
}

void Emitter::emit() {
  for (unsigned v = 0; v < plan.types.size(); ++v)
    views.push_back(plan.isRow(v) ? Buffer() : kb.view(plan.sources[v], {int64_t(1) << 40}, {1}));
  state.iters.assign(plan.rank, Index(0));
  state.offsets.assign(plan.types.size(), Index(0));
  state.values.resize(plan.body.nodes.size());
  emitLevel(-1);
  buildTables();
  Value fit = windowsFit();
  if (!fit)
    return outerLoops();
  auto versions = [&](bool choice) {
    scoped([&] {
      windows = choice;
      outerLoops();
    });
  };
  kb.ifThen(fit, [&] { versions(true); }, [&] { versions(false); });
}

// Items are rows (or blocks of rows, tiles): blocks outermost, then the levels outside, the last of which is a loop of
// its own so that few divisions are made.
void Emitter::outerLoops() {
  unsigned outside = plan.levelsOutsideRow();
  Index first = kb.mul(kb.begin(), kb.param(Params::perUnit));
  Index last = kb.min(kb.mul(kb.end(), kb.param(Params::perUnit)), kb.param(Params::items));
  Index inner = outside ? extent(outside - 1) : Index(1), blocks = kb.param(Params::blocks),
        size = kb.param(Params::blockSize);
  Index whole = plan.rank && !plan.vectorReduces() ? extent(plan.vector) : Index(1);
  auto item = [&](Index block) {
    if (plan.transpose)
      return tileRow(block);
    if (plan.separated >= 0)
      return separatedRow();
    Index low = kb.mul(block, size);
    Index high = kb.select(kb.equal(block, kb.sub(blocks, 1)), whole, kb.add(low, size));
    row(low, high);
  };
  if (outside == 0) {
    kb.loop(first, last, 1, [&](Index i) { scoped([&] { item(i); }); });
    return;
  }
  Index lastGroup = kb.ceilDiv(last, kb.max(inner, 1));
  kb.loop(kb.div(first, kb.max(inner, 1)), lastGroup, 1, [&](Index group) {
    scoped([&] {
      Index rest = group;
      SmallVector<Index> at(outside, Index(0));
      for (unsigned l = outside - 1; l-- > 0;) {
        Index count = kb.max(plan.pairsUp(l) ? kb.ceilDiv(extent(l), 2) : extent(l), 1);
        at[l] = kb.rem(rest, count);
        rest = kb.div(rest, count);
      }
      for (unsigned l = 0; l + 1 < outside && !plan.pairsUp(l); ++l)
        enter(l, at[l]);
      Index start = kb.mul(group, inner);
      Index low = kb.max(kb.sub(first, start), 0), high = kb.min(kb.sub(last, start), inner);
      if (plan.batch)
        return kb.loop(low, high, size, [&](Index i) { reduceBatch(i, kb.min(kb.add(i, size), high)); });
      kb.loop(low, high, 1, [&](Index i) {
        scoped([&] {
          if (plan.pairs)
            return pairedRows(at, i);
          enter(outside - 1, i);
          item(rest); // the blocks' number is what is left
        });
      });
    });
  });
}

void Emitter::enter(unsigned level, Index at) {
  state.iters[level] = at;
  if (level >= plan.parallel)
    state.place = level == plan.parallel ? at : kb.add(kb.mul(state.place, extent(level)), at);
  for (unsigned v = 0; v < plan.types.size(); ++v)
    if (!plan.indexed(v) && step(v, level) != Step::none)
      state.offsets[v] = kb.add(state.offsets[v], kb.mul(at, stride(v, level)));
  emitLevel(level);
}

void Emitter::enterVector(Index at, int64_t newLanes, int64_t unroll, ArrayRef<Index> shifts) {
  state.lanes = newLanes;
  state.unroll = unroll;
  state.shifts.assign(shifts.begin(), shifts.end());
  enter(plan.vector, at);
}

void Emitter::compute(uint32_t n) {
  state.values[n].clear();
  bool keeps = insidePhase(n) && analysis.cachedIn[n] >= 0, read = keeps && int(state.phase) > analysis.cachedIn[n];
  for (int64_t u = 0; u < (isWide(n) ? state.unroll : 1); ++u) {
    Value v = read ? kept(n, u, {}) : analysis.tableOf[n] >= 0 ? fromTable(n, u) : evaluate(n, u);
    if (keeps && int(state.phase) == analysis.cachedIn[n])
      kept(n, u, v);
    state.values[n].push_back(v);
  }
}

// The nodes of a level that are to be computed as soon as it is entered. Outside of rows that is everything but what
// waits for reduced values; inside a phase what it needs; between them, startPhase() does it.
void Emitter::emitLevel(int level) {
  for (uint32_t n = 0; n < plan.body.nodes.size(); ++n) {
    if (levelOf[n] != level || plan.body.nodes[n].op == Op::acc)
      continue;
    if (insidePhase(n) || !plan.reduces() ? analysis.needed[n] >> state.phase & 1
                                          : !inRow(n) && analysis.phaseOf[n] == 0)
      compute(n);
  }
}

void Emitter::startPhase(unsigned phase) {
  state.phase = phase;
  for (uint32_t n = 0; n < plan.body.nodes.size(); ++n)
    if (!insidePhase(n) && plan.body.nodes[n].op != Op::acc && analysis.needed[n] >> phase & 1 &&
        state.values[n].empty())
      compute(n);
}

/// Whether the phase under way computes an elementary function at each point.
bool Emitter::computesElementary() const {
  for (uint32_t n = 0; n < plan.body.nodes.size(); ++n) {
    bool read = analysis.cachedIn[n] >= 0 && int(state.phase) > analysis.cachedIn[n];
    if (isWide(n) && analysis.needed[n] >> state.phase & 1 && !read && isElementary(plan.body.nodes[n]))
      return true;
  }
  return false;
}

/// How many vectors a map or a phase of a reduction computes side by side. An elementary function keeps the registers
/// busy with its constants, and more of it at a time spills where there are but 16.
int64_t Emitter::vectorsTogether() const {
  return kb.target.vectorRegisters <= 16 && computesElementary() ? 1 : tileVectors;
}

/// In a second pass over a row that is busy with arithmetic, fetches what the first pass will read of the rows after
/// it: passes wait for memory and for arithmetic in turn otherwise.
void Emitter::fetchNextRows() {
  if (state.phase != 1 || !plan.vectorReduces() || plan.parallel == 0 || state.lanes == 0 || !computesElementary())
    return;
  Index rows = plan.batch ? kb.param(Params::blockSize) : Index(1);
  for (unsigned v = plan.outputs; v < plan.types.size(); ++v) {
    if (plan.indexed(v) || step(v, plan.vector) != Step::unit || step(v, plan.parallel - 1) != Step::strided)
      continue;
    Index next = kb.add(state.offsets[v], kb.mul(rows, stride(v, plan.parallel - 1)));
    const int64_t line = 512 / std::max(8u, bitWidth(plan.types[v]));
    for (int64_t i = 0; i < state.lanes * state.unroll; i += line)
      kb.prefetch(views[v], {kb.add(next, i)});
  }
}

void Emitter::row(Index low, Index high) {
  if (plan.reduces())
    return plan.vectorReduces() ? reduceInnerRow() : reduceParallelRow(low, high);
  plan.interleave ? interleavedRow(low, high) : mapRow(low, high);
}

void Emitter::vectorTiles(Index low, Index high, llvm::function_ref<void(Index, int64_t, int64_t, ArrayRef<Index>)> f) {
  auto scalars = [&] { kb.loop(low, high, 1, [&](Index i) { f(i, 0, 1, {}); }); };
  if (lanes <= 1)
    return scalars();
  Index length = kb.sub(high, low);
  kb.ifThen(kb.less(length, lanes), scalars, [&] {
    Index main = kb.sub(high, kb.rem(length, lanes * tileVectors));
    kb.loop(low, main, lanes * tileVectors, [&](Index i) { f(i, lanes, tileVectors, {}); });
    // The rest in one tile of 4, 2 or 1 vectors, the last of which ends the row.
    Index rest = kb.sub(high, main), furthest = kb.sub(kb.sub(high, lanes), main);
    auto tile = [&](int64_t n) {
      SmallVector<Index> shifts;
      for (int64_t u = 0; u < n; ++u)
        shifts.push_back(u + 1 == n ? furthest : kb.min(u * lanes, furthest));
      f(main, lanes, n, shifts);
    };
    kb.ifThen(
        kb.less(2 * lanes, rest), [&] { tile(4); },
        [&] {
          kb.ifThen(kb.less(lanes, rest), [&] { tile(2); }, [&] { kb.ifThen(kb.less(0, rest), [&] { tile(1); }); });
        });
  });
}

void Emitter::mapRow(Index low, Index high) {
  auto points = [&](Index at, int64_t n, int64_t unroll) {
    scoped([&] {
      if (plan.rank)
        enterVector(at, n, unroll);
      for (int64_t u = 0; u < unroll; ++u)
        storeResults(u);
    });
  };
  auto scalars = [&] { kb.loop(low, high, 1, [&](Index i) { points(i, 0, 1); }); };
  if (lanes <= 1)
    return scalars();
  kb.ifThen(kb.less(kb.sub(high, low), lanes), scalars, [&] {
    Index tail = kb.rem(kb.sub(high, low), lanes), last = kb.sub(high, lanes);
    Value ragged = kb.less(0, tail);
    // The last vector, before anything is overwritten.
    Values results;
    SmallVector<Type> types;
    for (unsigned o = 0; o < plan.outputs; ++o)
      types.push_back(VectorType::get({lanes}, valueType(kb.b.getContext(), plan.types[o])));
    auto first = scf::IfOp::create(kb.b, kb.loc, types, ragged, true);
    {
      OpBuilder::InsertionGuard guard(kb.b);
      kb.b.setInsertionPointToStart(first.thenBlock());
      scoped([&] {
        enterVector(last, lanes, 1);
        for (unsigned o = 0; o < plan.outputs; ++o) {
          Value v = state.values[plan.body.results[plan.combined() + o]][0];
          results.push_back(isa<VectorType>(v.getType()) ? v : kb.splat(v, lanes));
        }
      });
      scf::YieldOp::create(kb.b, kb.loc, results);
      kb.b.setInsertionPointToStart(first.elseBlock());
      Values none;
      for (Type t : types)
        none.push_back(arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(t)));
      scf::YieldOp::create(kb.b, kb.loc, none);
    }
    const int64_t together = mapping ? vectorsTogether() : 1; // rows of plain maps may be short
    Index whole = kb.sub(high, tail), tiles = low;            // vectors side by side, then one at a time
    if (together > 1) {
      tiles = kb.sub(whole, kb.rem(kb.sub(whole, low), lanes * together));
      kb.loop(low, tiles, lanes * together, [&](Index i) { points(i, lanes, together); });
    }
    kb.loop(tiles, whole, lanes, [&](Index i) { points(i, lanes, 1); });
    kb.ifThen(ragged, [&] {
      scoped([&] {
        state.lanes = lanes;
        for (unsigned v = 0; v < plan.outputs; ++v)
          state.offsets[v] = kb.add(state.offsets[v], kb.mul(last, stride(v, plan.vector)));
        for (unsigned o = 0; o < plan.outputs; ++o)
          store(o, first.getResult(o), 0);
      });
    });
  });
}

llvm::Error emit(const KernelDescription &kernel, KernelBuilder &kb) {
  auto plan = Plan::parse(kernel);
  if (!plan)
    return plan.takeError();
  Emitter(*plan, kb).emit();
  return llvm::Error::success();
}

} // namespace mrcc::loops

namespace mrcc {

namespace {
class LoopFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "loop"; }
  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override {
    return loops::bind(site, target);
  }
  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &kb) const override {
    return loops::emit(kernel, kb);
  }
};
} // namespace

const KernelFamily &loopFamily() {
  static const LoopFamily family;
  return family;
}

} // namespace mrcc
