// Emission of a plan. Nodes that do not depend on the vector level are scalars, computed once where the loops they depend
// on begin; the others are computed for `unroll` vectors of `lanes` at a time.
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

  // Where code is being emitted: iteration variables, address of each view in elements, values of nodes so far.
  struct State {
    llvm::SmallVector<Index> iters, offsets;
    std::vector<Values> values;
    int64_t lanes = 0, unroll = 1;
  };

  // LoopEmit.cpp: the nest.
  void analyse();
  void outerLoops();
  void row(Index low, Index high);
  void mapRow(Index low, Index high);
  void reduceParallelRow(Index low, Index high);
  void reduceTile(Index at, int64_t lanes, int64_t unroll);
  void reduceInnerRow();
  void enter(unsigned level, Index at);
  void enterVector(Index at, int64_t lanes, int64_t unroll);
  void emitLevel(int level);
  void emitPost();
  template <class F> void scoped(F f) { // what f enters is left afterwards
    State saved = state;
    f();
    state = std::move(saved);
  }

  // LoopReduce.cpp
  Values identities(int64_t lanes, int64_t unroll);
  Values reduceLevels(unsigned level, Values accs);
  Values vectorLevel(Values accs);
  Values combineValues();
  Values combine(llvm::ArrayRef<Value> accs, llvm::ArrayRef<Value> values, int64_t unroll);
  void combineSlot(Combine kind, unsigned slot, Value *acc, const Value *value);
  Values finish(Values accs, int64_t vectors);
  bool splitsSums() const;

  // LoopAccess.cpp
  Value evaluate(uint32_t node, int64_t u);
  Value loadAt(unsigned view, Index offset);
  Value gather(unsigned view, llvm::function_ref<Index(int64_t lane)> offset);
  Value loadNode(const ExprNode &node, bool wide, int64_t u);
  Value loadAtNode(const ExprNode &node, bool wide, int64_t u);
  Value scalarBase(uint32_t node, int64_t u);
  void storeResults(int64_t u);
  void store(unsigned view, Value v, int64_t u);
  Index laneOffset(unsigned view, int64_t element) const;
  Value asI64(Index x);
  Index asIndex(Value v);

  // LoopTranspose.cpp
  void tileRow(Index block);
  void transposeTile(unsigned view, Index column, Index row, Index columns, Index rows, llvm::function_ref<void(Index, Index, Value)> put);
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

  const Plan &plan;
  KernelBuilder &kb;
  Params params;
  int64_t lanes = 1;               // of the main loops
  std::vector<int> levelOf;        // of nodes; -1: before all loops
  std::vector<bool> wide, early;   // differs between lanes; needed before the reduction ends
  std::vector<bool> post;          // depends on reduced values
  std::vector<bool> slotWide;      // of what is combined
  bool inTile = false;
  llvm::SmallVector<Buffer> views; // flat
  State state;
};

} // namespace mrcc::loops
