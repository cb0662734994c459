// Tables of the loop family: indices (i32) and weights (f32) that follow from the index of one level, computed once
// before the loops. Where the level is the vector level, a table of ascending indices also tells whether the elements
// that a vector needs lie within as many elements of memory: then they are one load, put in order by a permutation,
// instead of one load a lane.
#include "LoopEmit.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

//===-- making and reading ----------------------------------------------------------------------------------------===//

void Emitter::buildTables() {
  Index at = 0;
  for (uint32_t n : analysis.tabled) {
    Index elements = kb.add(kb.mul(kb.ceilDiv(extent(levelOf[n]), tableStep), tableStep), tablePadding);
    DType type = plan.body.nodes[n].type == DType::f32 ? DType::f32 : DType::i32;
    tables.push_back(kb.scratch(kb.mul(at, tableBytes), type, {int64_t(1) << 40}));
    at = kb.add(at, elements);
  }
  if (plan.separated >= 0) // behind the tables, whose sizes are multiples of 64 bytes
    views.back() = kb.scratch(kb.mul(at, tableBytes), DType::f32, {int64_t(1) << 40});
  for (unsigned level = 0; level < plan.rank; ++level)
    if (llvm::any_of(analysis.tabled, [&](uint32_t n) { return levelOf[n] == int(level); }))
      buildTables(level);
}

/// In vectors, whatever the vector level is; up to two vectors beyond the level's end, the last value again.
void Emitter::buildTables(unsigned level) {
  std::vector<bool> inside(plan.body.nodes.size(), false);
  for (uint32_t n = plan.body.nodes.size(); n-- > 0;) {
    inside[n] = inside[n] || (analysis.tableOf[n] >= 0 && levelOf[n] == int(level));
    if (inside[n])
      for (uint32_t arg : plan.body.nodes[n].args)
        inside[arg] = true;
  }
  const int64_t count = kb.target.lanes();
  SmallVector<int64_t> steps(count);
  for (int64_t i = 0; i < count; ++i)
    steps[i] = i;
  auto type = VectorType::get({count}, kb.b.getI64Type());
  Num step(kb, arith::ConstantOp::create(kb.b, kb.loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps))));
  Num last(kb, kb.splat(asI64(kb.sub(extent(level), 1)), count));
  kb.loop(0, kb.add(extent(level), 2 * count), count, [&](Index at) {
    scoped([&] {
      state.lanes = count;
      Num iter = Num(kb, kb.splat(asI64(at), count)) + step;
      iter = iter.op<arith::MinSIOp>(iter.v, last.v);
      for (uint32_t n = 0; n < inside.size(); ++n) {
        if (!inside[n])
          continue;
        Value v = plan.body.nodes[n].op == Op::iter ? iter.v : evaluate(n, 0);
        state.values[n] = {v};
        if (int table = analysis.tableOf[n]; table >= 0 && levelOf[n] == int(level)) {
          if (plan.body.nodes[n].type == DType::i64)
            v = Num(kb, v).op<arith::TruncIOp>(VectorType::get({count}, kb.b.getI32Type()), v).v;
          kb.storeVector(v, tables[table], {at});
        }
      }
    });
  });
}

/// The node's value at this point, or at the points of vector u.
Value Emitter::fromTable(uint32_t n, int64_t u) {
  Buffer table = tables[analysis.tableOf[n]];
  Index at = state.iters[levelOf[n]];
  if (isWide(n))
    at = kb.add(at, vectorAt(u));
  Num v(kb, isWide(n) && state.lanes ? kb.loadVector(table, {at}, state.lanes) : kb.load(table, {at}));
  return v.isFloat() ? v.v : v.op<arith::ExtSIOp>(v.typeOf(kb.b.getI64Type()), v.v).v;
}

//===-- loads at tabled places ------------------------------------------------------------------------------------===//

/// Whether a load may be one vector and a permutation: one index differs between lanes, in a dimension of unit step.
bool Emitter::readsWindow(const ExprNode &load) const {
  const unsigned view = plan.outputs + load.imm, bits = bitWidth(plan.types[view]);
  const bool permutes = kb.target.vectorBits == 512 ? kb.target.has("avx512f") : kb.target.has("avx2");
  if (load.op != Op::load_at || !permutes || lanes != kb.target.lanes() || bits > 32 ||
      plan.types[view] == DType::boolean)
    return false;
  unsigned wideArgs = 0;
  for (auto [k, arg] : llvm::enumerate(load.args)) {
    if (!wide[arg] || plan.steps[view][k] == Step::none)
      continue;
    ++wideArgs;
    if (analysis.tableOf[arg] < 0 || plan.steps[view][k] != Step::unit)
      return false;
  }
  return wideArgs == 1;
}

/// Whether the elements of each vector lie within a vector's length, in ascending order, in all loads that could make
/// use of it; null if there are none. Sets lastWindows.
Value Emitter::windowsFit() {
  Value fit;
  lastWindows.assign(tables.size(), Index(0));
  std::vector<bool> seen(tables.size(), false);
  Index end = plan.rank ? extent(plan.vector) : Index(0);
  for (const ExprNode &node : plan.body.nodes) {
    if (!readsWindow(node))
      continue;
    for (uint32_t arg : node.args) {
      int number = wide[arg] ? analysis.tableOf[arg] : -1;
      if (number < 0 || seen[number])
        continue;
      seen[number] = true;
      Buffer table = tables[number];
      // Both differences are below the number of lanes, as unsigned numbers: from an element to the next, and to that
      // which ends its vector.
      Num zero = Num(kb, kb.splat(kb.load(table, {0}), lanes)).integer(0);
      Value most = kb.loop(0, end, lanes, {zero.v}, [&](Index i, ValueRange largest) -> Values {
        Num at(kb, kb.loadVector(table, {i}, lanes)), next(kb, kb.loadVector(table, {kb.add(i, 1)}, lanes)),
            far(kb, kb.loadVector(table, {kb.add(i, lanes - 1)}, lanes));
        Num m = at.op<arith::MaxUIOp>((next - at).v, (far - at).v);
        return {m.op<arith::MaxUIOp>(m.v, largest[0]).v};
      })[0];
      Num span(kb, vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::MAXUI, most));
      Num first(kb, kb.load(table, {0})), last(kb, kb.load(table, {kb.sub(end, 1)}));
      Value near = span.op<arith::CmpIOp>(arith::CmpIPredicate::ult, span.v, span.integer(lanes).v).v;
      Value whole = (last - first >= last.integer(lanes - 1)).v;
      fit = fit ? kb.both(fit, kb.both(near, whole)) : kb.both(near, whole);
      lastWindows[number] = asIndex((last - last.integer(lanes - 1)).v);
    }
  }
  return fit;
}

/// A vector from places whose indices are the same in all lanes or tabled.
Value Emitter::loadTabled(const ExprNode &load, int64_t u) {
  const unsigned view = plan.outputs + load.imm;
  Index base = 0;
  SmallVector<std::pair<uint32_t, Index>> moving; // index, stride
  for (auto [k, arg] : llvm::enumerate(load.args)) {
    if (step(view, k) == Step::none)
      continue;
    if (isWide(arg))
      moving.emplace_back(arg, stride(view, k));
    else
      base = kb.add(base, kb.mul(asIndex(state.values[arg][0]), stride(view, k)));
  }
  if (windows && readsWindow(load) && state.lanes == lanes)
    return loadWindow(view, moving[0].first, base, u);
  return gather(view, [&](int64_t lane) {
    Index offset = base;
    for (auto [arg, along] : moving) {
      Index at = kb.add(kb.add(state.iters[plan.vector], vectorAt(u)), lane);
      offset = kb.add(offset, kb.mul(asIndex(kb.load(tables[analysis.tableOf[arg]], {at})), along));
    }
    return offset;
  });
}

/// Elements at base + index, for ascending indices that do not go further than a vector reaches.
Value Emitter::loadWindow(unsigned view, uint32_t index, Index base, int64_t u) {
  Buffer table = tables[analysis.tableOf[index]];
  Index at = kb.add(state.iters[plan.vector], vectorAt(u));
  Index first = kb.min(asIndex(kb.load(table, {at})), lastWindows[analysis.tableOf[index]]);
  Num window(kb, kb.loadVector(views[view], {kb.add(base, first)}, lanes));
  Type i32 = kb.b.getI32Type(), f32 = kb.b.getF32Type(), element = window.element();
  Value start = arith::IndexCastOp::create(kb.b, kb.loc, i32, kb.ssa(first));
  Num from = Num(kb, kb.loadVector(table, {at}, lanes)) - Num(kb, kb.splat(start, lanes));
  Num bits = window.bits();
  const bool narrow = element.getIntOrFloatBitWidth() < 32;
  if (narrow)
    bits = bits.op<arith::ExtUIOp>(bits.typeOf(i32), bits.v);
  StringRef name = kb.target.vectorBits == 512 ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps";
  auto permuted = LLVM::CallIntrinsicOp::create(kb.b, kb.loc, bits.typeOf(f32), kb.b.getStringAttr(name),
                                                ValueRange{bits.as(f32).v, from.v});
  Num result = Num(kb, permuted.getResults()).as(i32);
  if (narrow)
    result = result.op<arith::TruncIOp>(result.typeOf(kb.b.getIntegerType(element.getIntOrFloatBitWidth())), result.v);
  return result.as(element).v;
}

} // namespace mrcc::loops
