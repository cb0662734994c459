// Emission of a plan. Nodes that do not depend on the vector level are scalars, computed once where the loops they
// depend on begin; the others are computed for `unroll` vectors of `lanes` at a time.
#pragma once
#include "Loop.h"
#include "Num.h"

namespace mrcc::loops {

class Emitter {
public:
  Emitter(const Plan &plan, KernelBuilder &kb);
  void emit();

private:
  using Value = mlir::Value;
  using Values = KernelBuilder::Values;

  // Where code is being emitted: iteration variables, address of each view in elements, place in the row of reduced
  // levels, values of nodes so far.
  struct State {
    llvm::SmallVector<Index> iters, offsets;
    Index place = 0;
    std::vector<Values> values;
    int64_t lanes = 0, unroll = 1;
    llvm::SmallVector<Index> shifts; // of the vectors from the first; empty: one after the other
    unsigned phase = 0;
  };

  // LoopEmit.cpp: the nest, and maps.
  void analyse();
  void outerLoops();
  void row(Index low, Index high);
  void mapRow(Index low, Index high);
  bool computesElementary() const;
  int64_t vectorsTogether() const;
  void fetchNextRows();
  void enter(unsigned level, Index at);
  void enterVector(Index at, int64_t lanes, int64_t unroll, llvm::ArrayRef<Index> shifts = {});
  Index vectorAt(int64_t u) const {
    return state.shifts.empty() ? Index(u * std::max<int64_t>(state.lanes, 1)) : state.shifts[u];
  }
  void emitLevel(int level);
  void startPhase(unsigned phase);
  void compute(uint32_t node);
  bool inRow(uint32_t node) const { return plan.rank && levelOf[node] >= int(std::min(plan.vector, plan.parallel)); }
  /// Depends on the loops inside a phase, not only on what encloses it.
  bool insidePhase(uint32_t node) const { return plan.rank && levelOf[node] >= int(plan.parallel); }
  template <class F> void scoped(F f) { // what f enters is left afterwards
    State saved = state;
    f();
    state = std::move(saved);
  }

  /// f(at, lanes, vectors, shifts) for tiles of a row of the vector level; lanes 0: an element of a row that is shorter
  /// than a vector. The last vector of the last tile may overlap others.
  void vectorTiles(Index low, Index high, llvm::function_ref<void(Index, int64_t, int64_t, llvm::ArrayRef<Index>)> f);

  // LoopReduce.cpp: what is active are the slots of the phase under way.
  void reduceParallelRow(Index low, Index high);
  void reduceTile(Index at, int64_t lanes, int64_t unroll, llvm::ArrayRef<Index> shifts = {});
  void mapTile(unsigned level);
  void reduceInnerRow();
  void reducePhase(unsigned phase);
  void reduceBatch(Index low, Index high);
  Buffer batchAccs(const Slot &slot, unsigned part);
  Values innerNest(unsigned level, Values accs);
  void mapInner(unsigned level);
  void activate(unsigned phase);
  void setAccs(const Slot &slot, unsigned part, Values values);
  void setAccs(llvm::ArrayRef<Value> accs);
  Value windowInside();
  Values identities(int64_t lanes, int64_t unroll, bool spreadAll);
  Values reduceLevels(unsigned level, Values accs);
  Values reduceWindow(Values accs);
  Values vectorLevel(Values accs);
  Values pointValues(bool spreadAll);
  Values combine(llvm::ArrayRef<Value> accs, llvm::ArrayRef<Value> values, int64_t unroll, bool spreadAll);
  void combineSlot(const Slot &slot, Value *acc, const Value *value);
  Values finish(Values accs);
  std::pair<Index, Index> bounds(unsigned level);
  Value withoutLevel(uint32_t node, unsigned level);
  bool splitsSums() const;
  DType slotType(const Slot &slot, unsigned part = 0) const {
    return plan.body.nodes[plan.body.results[slot.first + part]].type;
  }
  int64_t copies(const Slot &slot, int64_t unroll, bool spreadAll) const {
    return spreadAll || slotWide[slot.first] ? unroll : 1;
  }

  // LoopAccess.cpp
  Value evaluate(uint32_t node, int64_t u);
  bool isExpBelow(const ExprNode &node) const;
  bool isWeighted(uint32_t node) const;
  Value addProduct(Value sum, Value product);
  Value loadAt(unsigned view, Index offset);
  Num packedShift(Index offset, int64_t bits);
  Value gather(unsigned view, llvm::function_ref<Index(int64_t lane)> offset);
  Value loadNode(const ExprNode &node, bool wide, int64_t u);
  Value loadAtNode(const ExprNode &node, bool wide, int64_t u);
  Value scalarBase(uint32_t node, int64_t u);
  void storeResults(int64_t u);
  void store(unsigned view, Value v, int64_t u);
  Value kept(uint32_t node, int64_t u, Value store);
  Index keptPoints();
  Index laneOffset(unsigned view, Index element) const;
  Value asI64(Index x);
  Index asIndex(Value v);

  // LoopTables.cpp
  void buildTables();
  void buildTables(unsigned level);
  Value fromTable(uint32_t node, int64_t u);
  Value windowsFit();
  bool readsWindow(const ExprNode &load) const;
  Value loadTabled(const ExprNode &load, int64_t u);
  Value loadWindow(unsigned view, uint32_t index, Index base, int64_t u);

  // LoopRow.cpp
  void separatedRow();
  void fillRow();
  void slide(Index at, int64_t lanes, int64_t unroll, llvm::ArrayRef<Index> shifts);
  Value rowValue(Index at, int64_t lanes);

  // LoopPairs.cpp
  void pairedRows(llvm::ArrayRef<Index> at, Index last);
  void pairedTile(std::array<State, 2> points, Index at, int64_t lanes, int64_t unroll, llvm::ArrayRef<Index> shifts);

  // LoopInterleave.cpp
  void interleavedRow(Index low, Index high);
  Values interleaved(Values channels);
  Values deinterleaved(Values memory);
  bool alternates(unsigned view) const;

  // LoopTranspose.cpp
  Value shuffled(Value a, Value b, llvm::function_ref<int64_t(int64_t)> from);
  void tileRow(Index block);
  void transposeTile(unsigned view, Index column, Index row, Index columns, Index rows,
                     llvm::function_ref<void(Index, Index, Value)> put);
  llvm::SmallVector<Value> unpacked(llvm::SmallVector<Value> rows);
  llvm::SmallVector<Value> transposed(llvm::SmallVector<Value> rows);
  bool isColumn(unsigned view) const;

  Index extent(unsigned level) { return kb.param(params.extent(level)); }
  Step step(unsigned view, unsigned level) const { // rows of a transposed tile lie in scratch
    return inTile && level == plan.vector && isColumn(view) ? Step::unit : plan.steps[view][level];
  }
  Index stride(unsigned view, unsigned level) {
    Step s = step(view, level);
    return s == Step::strided ? kb.param(params.stride(view, level)) : Index(int64_t(s));
  }
  bool isWide(uint32_t node) const { return wide[node]; }

  static constexpr int64_t tileVectors =
      4; // of a reduction with a parallel vector level; accumulators of the other kind
  const Plan &plan;
  KernelBuilder &kb;
  Params params;
  Analysis analysis;
  int64_t lanes = 1;          // of the main loops
  std::vector<int> levelOf;   // of nodes; -1: before all loops
  std::vector<bool> wide;     // nodes that differ between lanes
  std::vector<bool> slotWide; // the same of what is combined, by result
  std::vector<Slot> active;
  bool inTile = false, mapping = false;
  llvm::SmallVector<Buffer> tables;
  llvm::SmallVector<Index> lastWindows; // by table of an index: the last element at which a whole vector may be read
  bool windows = false;                 // computed places of a vector lie within as many elements
  std::map<uint32_t, Values> rowReads;  // by node that reads a separated row from registers
  std::map<unsigned, Values> channels;  // by view whose channels alternate: of the points under way
  Index batchRow = 0;                   // number of the row in its batch
  llvm::SmallVector<Buffer> views;      // flat
  State state;
};

} // namespace mrcc::loops
