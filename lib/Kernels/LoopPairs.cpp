// Windows side by side: where the windows of two neighbouring points of a level overlap (3 x 3 with a stride of 2 or 1),
// both are computed together, so that each element of a shared row is loaded once and comes into L1 once. Each window is
// combined in the same order as alone.
#include "LoopEmit.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

std::optional<Plan::Pairs> findPairs(const Plan &plan, const Analysis &analysis) {
  if (plan.window.empty() || analysis.phases != 1 || plan.levelsOutsideRow() < 2)
    return std::nullopt;
  const Expr &body = plan.body;
  const uint32_t inRow = ~0u << (plan.parallel - 1);
  for (unsigned level = 0; level + 1 < plan.levelsOutsideRow(); ++level)
    for (unsigned window = plan.parallel; window < plan.rank; ++window) {
      std::optional<unsigned> shift;
      bool fits = true;
      for (uint32_t n = 0; n < body.nodes.size(); ++n) {
        const ExprNode &node = body.nodes[n];
        const bool loads = node.op == Op::load || node.op == Op::load_at;
        // The second point may lie beyond the level's end, where only indices are computed.
        fits &= !loads || analysis.deps[n] & inRow || !(analysis.deps[n] >> level & 1);
        if (node.op != Op::load_at)
          continue;
        for (uint32_t arg : node.args) {
          auto a = coefficient(body, analysis.deps, arg, level), b = coefficient(body, analysis.deps, arg, window);
          if (a == 0 && b == 0)
            continue;
          fits &= a && b && *a > 0 && *b > 0 && *a % *b == 0 && *a / *b < plan.window[window - plan.parallel] &&
                  (!shift || *shift == *a / *b);
          if (fits)
            shift = *a / *b;
        }
      }
      if (fits && shift)
        return Plan::Pairs{level, window, *shift};
    }
  return std::nullopt;
}

/// Rows at two points of the paired level, the first of which is entered up to the levels outside it; `at`: the number
/// of the pair, and the points of the levels inside it, the last of which is `last`.
void Emitter::pairedRows(ArrayRef<Index> at, Index last) {
  const unsigned level = plan.pairs->level, outside = plan.levelsOutsideRow();
  const State before = state;
  auto enterPoint = [&](Index point) {
    state = before;
    enter(level, point);
    for (unsigned l = level + 1; l + 1 < outside; ++l)
      enter(l, at[l]);
    enter(outside - 1, last);
  };
  Index first = kb.mul(at[level], 2), length = extent(plan.vector);
  Value whole = kb.less(kb.add(first, 1), extent(level));
  std::array<State, 2> points;
  for (int64_t k = 0; k < 2; ++k) {
    enterPoint(kb.add(first, k));
    points[k] = state;
    if (Value inside = windowInside())
      whole = kb.both(whole, inside);
  }
  state = before;
  kb.ifThen(
      whole,
      [&] {
        vectorTiles(0, length, [&](Index i, int64_t n, int64_t unroll, ArrayRef<Index> shifts) {
          scoped([&] { pairedTile(points, i, n, unroll, shifts); });
        });
      },
      [&] {
        kb.loop(first, kb.min(kb.add(first, 2), extent(level)), 1, [&](Index point) {
          scoped([&] {
            enterPoint(point);
            reduceParallelRow(0, length);
          });
        });
      });
}

void Emitter::pairedTile(std::array<State, 2> points, Index at, int64_t n, int64_t unroll, ArrayRef<Index> shifts) {
  activate(0);
  std::array<Values, 2> accs;
  for (int64_t k = 0; k < 2; ++k) {
    state = points[k];
    enterVector(at, n, unroll, shifts);
    startPhase(0);
    points[k] = state;
    accs[k] = identities(n, unroll, false);
  }
  // Points of the first window, and of the second where it has them.
  SmallVector<int64_t> place(plan.rank, 0);
  std::function<void(unsigned)> window = [&](unsigned level) {
    const int64_t length = level < plan.rank ? plan.window[level - plan.parallel] : 0;
    if (level < plan.rank) {
      for (place[level] = 0; place[level] < length + (level == plan.pairs->window ? plan.pairs->shift : 0);
           ++place[level])
        window(level + 1);
      return;
    }
    for (int64_t k = 0; k < 2; ++k) {
      int64_t row = place[plan.pairs->window] - k * plan.pairs->shift;
      if (row < 0 || row >= plan.window[plan.pairs->window - plan.parallel])
        continue;
      state = points[k];
      for (unsigned l = plan.parallel; l < plan.rank; ++l)
        enter(l, l == plan.pairs->window ? row : place[l]);
      accs[k] = combine(accs[k], pointValues(false), unroll, false);
    }
  };
  window(plan.parallel);
  for (int64_t k = 0; k < 2; ++k) {
    state = points[k];
    setAccs(accs[k]);
    startPhase(analysis.phases);
    mapTile(plan.rank);
  }
}

} // namespace mrcc::loops
