// The loop family's code: decomposition of units into rows, and rows of maps and reductions. A row runs along the vector
// level. Its end is a last vector that overlaps the one before; maps compute it first and store it last, so that an output
// may lie on its input. Rows shorter than a vector run as scalars.
#include "LoopEmit.h"
#include "Families.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

Emitter::Emitter(const Plan &plan, KernelBuilder &kb) : plan(plan), kb(kb), params(plan) { analyse(); }

// Level, width and phase of every node, and lanes that fit the widest value in a vector.
void Emitter::analyse() {
  const Expr &body = plan.body;
  auto deps = dependencies(body, [&](uint32_t operand) {
    uint32_t mask = 0;
    for (unsigned l = 0; l < plan.rank; ++l)
      if (step(plan.outputs + operand, l) != Step::none)
        mask |= 1u << l;
    return mask;
  });
  size_t count = body.nodes.size();
  wide.assign(count, false);
  post.assign(count, false);
  early.assign(count, !plan.reduces());
  for (unsigned i = 0; i < plan.combined(); ++i)
    early[body.results[i]] = true;
  for (uint32_t n = count; n-- > 0;)
    if (early[n])
      for (uint32_t arg : body.nodes[n].args)
        early[arg] = true;
  // A reduced value differs between lanes where what is reduced does, unless lanes are combined. The index of a pair goes
  // with its value.
  auto alongVector = [&](uint32_t n) { return plan.rank && (deps[n] >> plan.vector & 1); };
  for (Combine kind : plan.combines) {
    bool differs = false;
    unsigned slot = slotWide.size(), width = isArg(kind) ? 2 : 1;
    for (unsigned part = 0; part < width; ++part)
      differs |= alongVector(body.results[slot + part]);
    slotWide.insert(slotWide.end(), width, differs);
  }
  for (uint32_t n = 0; n < count; ++n) {
    const ExprNode &node = body.nodes[n];
    levelOf.push_back(deps[n] ? int(llvm::Log2_32(deps[n])) : -1);
    post[n] = node.op == Op::acc;
    wide[n] = node.op == Op::acc ? !plan.vectorReduces() && slotWide[node.imm] : alongVector(n);
    for (uint32_t arg : node.args) {
      post[n] = post[n] || post[arg];
      wide[n] = wide[n] || wide[arg];
    }
  }
  unsigned widest = 8;
  bool narrow = false; // elements of less than a byte are moved one at a time
  for (uint32_t n = 0; n < count; ++n) {
    const ExprNode &node = body.nodes[n];
    bool memory = node.op == Op::load || node.op == Op::load_at;
    if (wide[n] && (memory || node.type != DType::i64))
      widest = std::max(widest, bitWidth(node.type));
  }
  for (unsigned v = 0; v < plan.types.size(); ++v) {
    narrow |= bitWidth(plan.types[v]) == 4;
    if (v < plan.outputs && !plan.vectorReduces())
      widest = std::max(widest, bitWidth(plan.types[v]));
  }
  lanes = narrow || plan.rank == 0 ? 1 : std::min<int64_t>(kb.target.vectorBits / widest, 64);
}

void Emitter::emit() {
  for (unsigned v = 0; v < plan.types.size(); ++v)
    views.push_back(kb.view(v, {int64_t(1) << 40}, {1}));
  state.iters.assign(plan.rank, Index(0));
  state.offsets.assign(plan.types.size(), Index(0));
  state.values.resize(plan.body.nodes.size());
  emitLevel(-1);
  outerLoops();
}

// Items are rows (or blocks of rows, tiles): blocks outermost, then the levels outside, the last of which is a loop of its
// own so that few divisions are made.
void Emitter::outerLoops() {
  unsigned outside = plan.levelsOutsideRow();
  Index first = kb.mul(kb.begin(), kb.param(Params::perUnit));
  Index last = kb.min(kb.mul(kb.end(), kb.param(Params::perUnit)), kb.param(Params::items));
  Index inner = outside ? extent(outside - 1) : Index(1), blocks = kb.param(Params::blocks), size = kb.param(Params::blockSize);
  Index whole = plan.rank && !plan.vectorReduces() ? extent(plan.vector) : Index(1);
  auto item = [&](Index block) {
    if (plan.transpose)
      return tileRow(block);
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
        at[l] = kb.rem(rest, kb.max(extent(l), 1));
        rest = kb.div(rest, kb.max(extent(l), 1));
      }
      for (unsigned l = 0; l + 1 < outside; ++l)
        enter(l, at[l]);
      Index start = kb.mul(group, inner);
      Index low = kb.max(kb.sub(first, start), 0), high = kb.min(kb.sub(last, start), inner);
      kb.loop(low, high, 1, [&](Index i) {
        scoped([&] {
          enter(outside - 1, i);
          item(rest); // the blocks' number is what is left
        });
      });
    });
  });
}

void Emitter::enter(unsigned level, Index at) {
  state.iters[level] = at;
  for (unsigned v = 0; v < plan.types.size(); ++v)
    if (!plan.indexed(v) && step(v, level) != Step::none)
      state.offsets[v] = kb.add(state.offsets[v], kb.mul(at, stride(v, level)));
  emitLevel(level);
}

void Emitter::enterVector(Index at, int64_t newLanes, int64_t unroll) {
  state.lanes = newLanes;
  state.unroll = unroll;
  enter(plan.vector, at);
}

// The nodes of a level that are due before the reduction, if there is one, ends.
void Emitter::emitLevel(int level) {
  bool inRow = plan.rank && level >= int(std::min(plan.vector, plan.parallel));
  for (uint32_t n = 0; n < plan.body.nodes.size(); ++n) {
    if (levelOf[n] != level || post[n] || plan.body.nodes[n].op == Op::acc)
      continue;
    if (!early[n] && inRow) // extras of an epilogue: after the reduction
      continue;
    state.values[n].clear();
    for (int64_t u = 0; u < (isWide(n) ? state.unroll : 1); ++u)
      state.values[n].push_back(evaluate(n, u));
  }
}

// What is left for the end of a reduction: nodes on reduced values, and loads that only these need.
void Emitter::emitPost() {
  for (uint32_t n = 0; n < plan.body.nodes.size(); ++n) {
    bool inRow = plan.rank && levelOf[n] >= int(std::min(plan.vector, plan.parallel));
    if (plan.body.nodes[n].op == Op::acc || !(post[n] || (!early[n] && inRow)))
      continue;
    state.values[n].clear();
    for (int64_t u = 0; u < (isWide(n) ? state.unroll : 1); ++u)
      state.values[n].push_back(evaluate(n, u));
  }
}

void Emitter::row(Index low, Index high) {
  if (plan.reduces())
    return plan.vectorReduces() ? reduceInnerRow() : reduceParallelRow(low, high);
  mapRow(low, high);
}

void Emitter::mapRow(Index low, Index high) {
  auto point = [&](Index at, int64_t n) {
    scoped([&] {
      if (plan.rank)
        enterVector(at, n, 1);
      storeResults(0);
    });
  };
  auto scalars = [&] { kb.loop(low, high, 1, [&](Index i) { point(i, 0); }); };
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
          Value v = state.values[plan.body.results[o]][0];
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
    kb.loop(low, kb.sub(high, tail), lanes, [&](Index i) { point(i, lanes); });
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

//===-- reductions with a parallel vector level -------------------------------------------------------------------===//

void Emitter::reduceTile(Index at, int64_t n, int64_t unroll) {
  scoped([&] {
    enterVector(at, n, unroll);
    Values accs = reduceLevels(plan.parallel, identities(n, unroll));
    size_t next = 0;
    for (unsigned slot = 0; slot < plan.combined(); ++slot) {
      Values mine;
      for (int64_t u = 0; u < (slotWide[slot] ? unroll : 1); ++u)
        mine.push_back(accs[next++]);
      for (uint32_t k = 0; k < plan.body.nodes.size(); ++k)
        if (plan.body.nodes[k].op == Op::acc && plan.body.nodes[k].imm == slot)
          state.values[k] = mine;
    }
    emitPost();
    for (int64_t u = 0; u < unroll; ++u)
      storeResults(u);
  });
}

void Emitter::reduceParallelRow(Index low, Index high) {
  auto scalars = [&] { kb.loop(low, high, 1, [&](Index i) { reduceTile(i, 0, 1); }); };
  if (lanes <= 1)
    return scalars();
  const int64_t unroll = 4;
  Index length = kb.sub(high, low);
  kb.ifThen(kb.less(length, lanes), scalars, [&] {
    Index main = kb.sub(high, kb.rem(length, lanes * unroll)), last = kb.sub(high, lanes);
    kb.loop(low, main, lanes * unroll, [&](Index i) { reduceTile(i, lanes, unroll); });
    kb.loop(main, high, lanes, [&](Index i) { reduceTile(kb.min(i, last), lanes, 1); });
  });
}

} // namespace mrcc::loops

namespace mrcc {

namespace loops {
llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target);
}

namespace {
class LoopFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "loop"; }
  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override { return loops::bind(site, target); }
  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &kb) const override {
    auto plan = loops::Plan::parse(kernel);
    if (!plan)
      return plan.takeError();
    loops::Emitter(*plan, kb).emit();
    return llvm::Error::success();
  }
};
} // namespace

const KernelFamily &loopFamily() {
  static const LoopFamily family;
  return family;
}

} // namespace mrcc
