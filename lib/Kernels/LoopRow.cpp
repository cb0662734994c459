// Rows of an interpolation in two steps: LoopSeparate.cpp finds what a row holds. Where the vector level runs along the
// row it is filled and read from scratch; where it runs inside places, what the row holds at the places of a point stays
// in registers.
#include "LoopEmit.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

/// What the row holds from element `at` on, in `n` lanes (0: one element).
Value Emitter::rowValue(Index at, int64_t n) {
  Value result;
  scoped([&] {
    state.lanes = n;
    for (uint32_t node = 0; node < plan.body.nodes.size(); ++node) {
      if (!analysis.inRow[node])
        continue;
      const ExprNode &e = plan.body.nodes[node];
      if (e.op != Op::load_at) {
        state.values[node] = {evaluate(node, 0)};
        continue;
      }
      const unsigned view = plan.outputs + e.imm;
      Index offset = at;
      for (auto [k, arg] : llvm::enumerate(e.args))
        if (step(view, k) != Step::none)
          offset = kb.add(offset, kb.mul(asIndex(state.values[arg][0]), stride(view, k)));
      state.values[node] = {n ? kb.loadVector(views[view], {offset}, n) : loadAt(view, offset)};
    }
    result = state.values[plan.body.results[plan.outputs]][0];
  });
  return result;
}

void Emitter::fillRow() {
  Index length = kb.param(params.rowLength);
  auto scalars = [&] { kb.loop(0, length, 1, [&](Index i) { kb.store(rowValue(i, 0), views.back(), {i}); }); };
  if (lanes <= 1)
    return scalars();
  kb.ifThen(kb.less(length, lanes), scalars, [&] {
    Index last = kb.sub(length, lanes);
    kb.loop(0, last, lanes, [&](Index i) { kb.storeVector(rowValue(i, lanes), views.back(), {i}); });
    kb.storeVector(rowValue(last, lanes), views.back(), {last}); // overlaps the one before
  });
}

/// Points along the separated level for some vectors inside it. What the row holds at a point's places stays in registers
/// until a place changes.
void Emitter::slide(Index at, int64_t n, int64_t unroll, ArrayRef<Index> shifts) {
  const unsigned level = plan.separated, row = plan.types.size() - 1;
  SmallVector<uint32_t> reads; // of the row
  for (uint32_t node = 0; node < plan.body.nodes.size(); ++node)
    if (plan.body.nodes[node].op == Op::load_at && plan.isRow(plan.outputs + plan.body.nodes[node].imm))
      reads.push_back(node);
  const Index stepRow = stride(row, 0);
  const size_t count = reads.size();
  Value nothing = kb.constantVector(kb.b.getF32Type(), 0, n);
  Values held(count, kb.ssa(-1)); // places, then values
  held.append(count * unroll, nothing);
  auto either = [&](Value condition, ValueRange some, llvm::function_ref<Values()> other) {
    auto choice = scf::IfOp::create(kb.b, kb.loc, some.getTypes(), condition, true);
    OpBuilder::InsertionGuard guard(kb.b);
    kb.b.setInsertionPointToStart(choice.thenBlock());
    scf::YieldOp::create(kb.b, kb.loc, some);
    kb.b.setInsertionPointToStart(choice.elseBlock());
    scf::YieldOp::create(kb.b, kb.loc, other());
    return Values(choice.getResults());
  };
  kb.loop(0, extent(level), 1, held, [&](Index i, ValueRange before) {
    Values now;
    scoped([&] {
      enter(level, i);
      for (uint32_t node : reads)
        now.push_back(kb.ssa(asIndex(state.values[plan.body.nodes[node].args[0]][0])));
      auto kept = [&](size_t j) { return before.slice(count + j * unroll, unroll); };
      auto fresh = [&](size_t j) {
        Values values;
        for (int64_t u = 0; u < unroll; ++u) {
          Index shift = shifts.empty() ? Index(u * n) : shifts[u];
          values.push_back(rowValue(kb.add(kb.mul(now[j], stepRow), kb.add(at, shift)), n));
        }
        return values;
      };
      for (size_t j = 0; j < count; ++j) {
        // The place is the same, or the one that followed, or another.
        Values values = either(kb.equal(now[j], before[j]), kept(j), [&] {
          return j + 1 < count ? either(kb.equal(now[j], before[j + 1]), kept(j + 1), [&] { return fresh(j); })
                               : fresh(j);
        });
        rowReads[reads[j]] = values;
      }
      for (uint32_t node : reads)
        now.append(rowReads[node]);
      enterVector(at, n, unroll, shifts);
      for (int64_t u = 0; u < unroll; ++u)
        storeResults(u);
    });
    return now;
  });
  rowReads.clear();
}

void Emitter::separatedRow() {
  Index length = extent(plan.vector);
  if (plan.separated != int(plan.vector))
    return vectorTiles(
        0, length, [&](Index at, int64_t n, int64_t unroll, ArrayRef<Index> shifts) { slide(at, n, unroll, shifts); });
  fillRow();
  mapRow(0, length);
}

} // namespace mrcc::loops
