// Assigns every launch the places of its operands and results.
//
// Values are views of roots (ViewAnalysis). A root that the function returns lies in the caller's output; every other
// root of a launch or concat lives in the arena from the first launch that writes into it to the last that reads it. An
// element-wise loop whose operand dies there, of the same size and order, writes over it.
//
// Offsets: first fit at the lowest offset that no block alive at the same time covers, tried in three orders (size,
// bytes times life, first use); the smallest arena wins. Quadratic in the number of roots. The lower bound is the
// largest sum of bytes alive at one step; no plan can be smaller. Packing in this way: Pisarchyk, Lee, "Efficient
// Memory Management for Deep Neural Net Inference" (2020), greedy by size.
#include "Passes.h"
#include "mrcc/Form/Launch.h"
#include "mrcc/Form/Views.h"
#include "mrcc/IR/Shapes.h"
#include <numeric>

namespace mrcc {
#define GEN_PASS_DEF_PLANMEMORY
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

namespace {
constexpr int64_t alignment = 64; // bytes; a cache line and the widest vector

struct Block {
  int64_t bytes = 0, first = INT64_MAX, last = -1, offset = 0;
  bool overlaps(const Block &o) const { return first <= o.last && o.first <= last; }
};

/// Lays `blocks` out in this order; returns the arena's size.
int64_t place(std::vector<Block> &blocks, ArrayRef<unsigned> order) {
  int64_t total = 0;
  SmallVector<unsigned> done; // by offset
  for (unsigned i : order) {
    Block &b = blocks[i];
    int64_t at = 0;
    for (unsigned j : done) {
      const Block &o = blocks[j];
      if (!b.overlaps(o))
        continue;
      if (at + b.bytes <= o.offset)
        break;
      at = std::max(at, o.offset + o.bytes);
    }
    b.offset = at;
    total = std::max(total, at + b.bytes);
    done.insert(llvm::upper_bound(done, i, [&](unsigned x, unsigned y) { return blocks[x].offset < blocks[y].offset; }),
                i);
  }
  return total;
}

int64_t placeBest(std::vector<Block> &blocks) {
  using Less = bool (*)(const Block &, const Block &);
  const Less orders[] = {
      [](const Block &a, const Block &b) { return a.bytes > b.bytes; },
      [](const Block &a, const Block &b) {
        return a.bytes * (a.last - a.first + 1) > b.bytes * (b.last - b.first + 1);
      },
      [](const Block &a, const Block &b) { return a.first < b.first; },
  };
  int64_t best = INT64_MAX;
  std::vector<Block> result;
  for (Less less : orders) {
    SmallVector<unsigned> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order, [&](unsigned x, unsigned y) { return less(blocks[x], blocks[y]); });
    int64_t total = place(blocks, order);
    if (total < best) {
      best = total;
      result = blocks;
    }
  }
  blocks = std::move(result);
  return best == INT64_MAX ? 0 : best;
}

int64_t lowerBound(ArrayRef<Block> blocks, int64_t steps) {
  std::vector<int64_t> change(steps + 2, 0);
  for (const Block &b : blocks)
    if (b.last >= b.first) {
      change[b.first] += b.bytes;
      change[b.last + 1] -= b.bytes;
    }
  int64_t alive = 0, most = 0;
  for (int64_t c : change)
    most = std::max(most, alive += c);
  return most;
}

struct PlanMemory : mrcc::impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    ViewAnalysis views(func);
    SmallVector<LaunchOp> launches;
    func.walk([&](LaunchOp l) { launches.push_back(l); });
    for (LaunchOp l : launches)
      for (Value v : llvm::concat<Value>(l->getOperands(), l->getResults()))
        if (!views.lookup(v)) {
          l.emitOpError("operand or result has no place: form-kernels must run first");
          return signalPassFailure();
        }
    placeOutputs(func, views);
    blocks.clear();
    blockOf.clear();
    buildBlocks(launches, views);
    // Blocks that share a place are one.
    std::vector<Block> merged;
    std::vector<int> slot(blocks.size(), -1);
    for (size_t i = 0; i < blocks.size(); ++i) {
      size_t leader = find(i);
      if (slot[leader] < 0) {
        slot[leader] = merged.size();
        merged.push_back(blocks[leader]);
      }
      Block &m = merged[slot[leader]];
      m.first = std::min(m.first, blocks[i].first);
      m.last = std::max(m.last, blocks[i].last);
      m.bytes = std::max(m.bytes, blocks[i].bytes);
    }
    int64_t arena = placeBest(merged);
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i].offset = merged[slot[find(i)]].offset;
    if (arena > maxWorkingBytes) {
      LaunchOp largest = *std::max_element(launches.begin(), launches.end(), [&](LaunchOp x, LaunchOp y) {
        return bytesInArena(x, views) < bytesInArena(y, views);
      });
      largest.emitOpError("with the result ")
          << dimsText(typeOf(largest.getResult(0)).getShape()) << " of " << byteSize(typeOf(largest.getResult(0)))
          << " bytes: the arena would have " << arena << " bytes, at most are 2^46";
      return signalPassFailure();
    }
    Builder b(&getContext());
    func->setAttr("mrc.arena_bytes", b.getI64IntegerAttr(arena));
    func->setAttr("mrc.arena_lower_bound", b.getI64IntegerAttr(lowerBound(merged, launches.size())));

    auto table = constantTable(func, views);
    for (auto [i, attr] : llvm::enumerate(table))
      constantIndex[attr] = i;
    for (LaunchOp l : launches) {
      SmallVector<Attribute> attrs;
      for (Value v : l->getResults())
        attrs.push_back(viewAttr(*views.lookup(v), v));
      for (Value v : l->getOperands())
        attrs.push_back(viewAttr(*views.lookup(v), v));
      l.setViewsAttr(b.getArrayAttr(attrs));
    }
  }

  void placeOutputs(func::FuncOp func, const ViewAnalysis &views) {
    outputIndex.clear();
    constantIndex.clear();
    for (auto [i, v] : llvm::enumerate(func.front().getTerminator()->getOperands()))
      if (const ValueView *view = views.lookup(v);
          view && view->root.getDefiningOp() && !view->root.getDefiningOp<ConstantOp>())
        outputIndex.try_emplace(view->root, i);
  }

  bool inArena(Value root) const {
    return root.getDefiningOp() && !root.getDefiningOp<ConstantOp>() && !outputIndex.count(root);
  }

  /// Of the launch's first result.
  uint64_t bytesInArena(LaunchOp l, const ViewAnalysis &views) const {
    Value v = l->getResult(0);
    return inArena(views.lookup(v)->root) ? byteSize(typeOf(v)) : 0;
  }

  size_t blockFor(Value root) {
    auto [it, isNew] = blockOf.try_emplace(root, blocks.size());
    if (isNew) {
      Block b;
      b.bytes = llvm::alignTo(std::max<int64_t>(byteSize(typeOf(root)), 1), alignment);
      blocks.push_back(b);
      parent.push_back(blocks.size() - 1);
    }
    return it->second;
  }

  size_t find(size_t i) const {
    while (parent[i] != i)
      i = parent[i];
    return i;
  }

  void buildBlocks(ArrayRef<LaunchOp> launches, const ViewAnalysis &views) {
    parent.clear();
    for (auto [step, l] : llvm::enumerate(launches))
      for (Value v : llvm::concat<Value>(l->getResults(), l->getOperands())) {
        Value root = views.lookup(v)->root;
        if (!inArena(root))
          continue;
        Block &b = blocks[blockFor(root)];
        b.first = std::min<int64_t>(b.first, step);
        b.last = std::max<int64_t>(b.last, step);
      }
    for (auto [step, l] : llvm::enumerate(launches))
      writeInPlace(l, step, views);
  }

  /// Lets the loop's result take the place of an operand that dies here.
  void writeInPlace(LaunchOp l, int64_t step, const ViewAnalysis &views) {
    if (!isPointwise(l))
      return;
    const ValueView &out = *views.lookup(l->getResult(0));
    if (!inArena(out.root) || out.root != l->getResult(0))
      return;
    for (Value v : l->getOperands()) {
      const ValueView &in = *views.lookup(v);
      bool whole = inArena(in.root) && in.strides == out.strides && in.offset == 0 &&
                   byteSize(typeOf(v)) == byteSize(typeOf(in.root)) &&
                   typeOf(v).getShape() == typeOf(l->getResult(0)).getShape() &&
                   typeOf(v).getElementType() == typeOf(l->getResult(0)).getElementType();
      // Other operands may show the same memory in another order.
      bool alone = llvm::count_if(l->getOperands(), [&](Value o) { return views.lookup(o)->root == in.root; }) == 1;
      if (!whole || !alone)
        continue;
      size_t mine = find(blockOf[out.root]), its = find(blockOf[in.root]);
      int64_t lastUse = -1;
      for (size_t i = 0; i < blocks.size(); ++i)
        if (find(i) == its)
          lastUse = std::max(lastUse, blocks[i].last);
      if (lastUse != step || mine == its || blocks[blockOf[out.root]].first != step)
        continue;
      parent[mine] = its;
      return;
    }
  }

  ViewAttr viewAttr(const ValueView &view, Value v) const {
    MLIRContext *c = v.getContext();
    int64_t width = bitWidth(toDType(typeOf(v).getElementType()));
    if (auto constant = view.root.getDefiningOp<ConstantOp>()) {
      auto data = getConstant(view.root);
      SmallVector<int64_t> strides(view.strides);
      bool splat = data && data->isSplat;
      if (splat)
        strides.assign(strides.size(), 0);
      return ViewAttr::get(c, "constant", constantIndex.lookup(constant.getValue()),
                           splat ? 0 : view.offset * width / 8, view.dims, strides);
    }
    if (auto argument = dyn_cast<BlockArgument>(view.root))
      return ViewAttr::get(c, "input", argument.getArgNumber(), view.offset * width / 8, view.dims, view.strides);
    if (auto it = outputIndex.find(view.root); it != outputIndex.end())
      return ViewAttr::get(c, "output", it->second, view.offset * width / 8, view.dims, view.strides);
    return ViewAttr::get(c, "arena", 0, blocks[blockOf.lookup(view.root)].offset + view.offset * width / 8, view.dims,
                         view.strides);
  }

  std::vector<Block> blocks;
  std::vector<size_t> parent;
  llvm::DenseMap<Value, size_t> blockOf;
  llvm::DenseMap<Value, unsigned> outputIndex;
  llvm::DenseMap<Attribute, unsigned> constantIndex;
};
} // namespace
