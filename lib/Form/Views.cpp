// Views by strides: a transposition permutes them, a slice scales them and moves the offset, an expansion sets them to
// 0, and a reshape regroups them where neighbouring dims are contiguous to each other. Linear in the number of ops.
#include "mrcc/Form/Views.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mrcc;

SmallVector<int64_t> mrcc::contiguousStrides(ArrayRef<int64_t> dims) {
  SmallVector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

bool ValueView::isContiguous() const {
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != step)
      return false;
    step *= dims[i];
  }
  return true;
}

std::optional<SmallVector<int64_t>> mrcc::reshapeStrides(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides,
                                                         ArrayRef<int64_t> newDims) {
  if (llvm::is_contained(dims, 0) || llvm::is_contained(newDims, 0))
    return contiguousStrides(newDims);
  // Drop dims of 1 and merge neighbours that are contiguous to each other; each new dim must then divide one group.
  SmallVector<std::pair<int64_t, int64_t>> groups; // extent, innermost stride
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1)
      continue;
    if (!groups.empty() && groups.back().second == strides[i] * dims[i])
      groups.back() = {groups.back().first * dims[i], strides[i]};
    else
      groups.emplace_back(dims[i], strides[i]);
  }
  SmallVector<int64_t> out(newDims.size(), 1);
  size_t g = groups.size();
  int64_t left = 1, step = 1; // of the group at hand, from its inside out
  for (size_t i = newDims.size(); i-- > 0;) {
    if (newDims[i] == 1) {
      out[i] = step;
      continue;
    }
    if (left == 1) {
      if (g == 0)
        return std::nullopt;
      --g;
      left = groups[g].first;
      step = groups[g].second;
    }
    if (left % newDims[i] != 0)
      return std::nullopt;
    out[i] = step;
    step *= newDims[i];
    left /= newDims[i];
  }
  if (left != 1 || g != 0)
    return std::nullopt;
  return out;
}

bool mrcc::isViewOp(Operation *op) { return isa<ReshapeOp, TransposeOp, SliceOp, ExpandOp>(op); }

static SmallVector<int64_t> dimsOf(Value v) {
  return SmallVector<int64_t>(cast<RankedTensorType>(v.getType()).getShape());
}

/// The view that `op` (isViewOp) makes of `source`, if strides can express it.
static std::optional<ValueView> viewOf(Operation *op, const ValueView &source) {
  ValueView v{source.root, source.offset, dimsOf(op->getResult(0)), {}};
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    for (int64_t from : transpose.getPerm())
      v.strides.push_back(source.strides[from]);
    return v;
  }
  if (isa<ExpandOp>(op)) {
    size_t lead = v.dims.size() - source.dims.size();
    v.strides.assign(lead, 0);
    for (size_t i = 0; i < source.dims.size(); ++i)
      v.strides.push_back(source.dims[i] == v.dims[lead + i] ? source.strides[i] : 0);
    return v;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) { // normal form: starts and steps of every dim
    auto starts = getIntegers(slice.getStarts()), steps = getIntegers(slice.getSteps());
    if (!starts || !steps || starts->size() != v.dims.size() || steps->size() != v.dims.size())
      return std::nullopt;
    for (size_t i = 0; i < v.dims.size(); ++i) {
      v.offset += (*starts)[i] * source.strides[i];
      v.strides.push_back((*steps)[i] * source.strides[i]);
    }
    return v;
  }
  auto strides = reshapeStrides(source.dims, source.strides, v.dims);
  if (!strides)
    return std::nullopt;
  v.strides = *strides;
  return v;
}

/// Strides of a value in memory of its own. A launch whose result everyone reads transposed in one way writes it so, if
/// that costs its kernel nothing: loops write in any order, the others keep the last dimension innermost.
static SmallVector<int64_t> ownStrides(Value v) {
  auto dims = dimsOf(v);
  auto launch = v.getDefiningOp<LaunchOp>();
  TransposeOp first;
  if (launch && !v.use_empty())
    first = dyn_cast<TransposeOp>(*v.getUsers().begin());
  if (!first)
    return contiguousStrides(dims);
  ArrayRef<int64_t> perm = first.getPerm();
  bool alike = llvm::all_of(v.getUsers(), [&](Operation *u) {
    auto transpose = dyn_cast<TransposeOp>(u);
    return transpose && transpose.getPerm() == perm;
  });
  if (!alike || perm.empty() || (launch.getFamily() != "loop" && perm.back() != int64_t(perm.size()) - 1))
    return contiguousStrides(dims);
  SmallVector<int64_t> transposed;
  for (int64_t from : perm)
    transposed.push_back(dims[from]);
  SmallVector<int64_t> outer = contiguousStrides(transposed), strides(dims.size());
  for (size_t i = 0; i < perm.size(); ++i)
    strides[perm[i]] = outer[i];
  return strides;
}

ViewAnalysis::ViewAnalysis(func::FuncOp func) {
  // Which values lie inside a concat. Decided first, in program order: their memory is not their own.
  func.walk([&](ConcatOp concat) {
    int64_t at = 0;
    int64_t axis = concat.getAxis();
    axes[concat.getOutput()] = axis;
    for (Value operand : concat.getInputs()) {
      Operation *def = operand.getDefiningOp();
      if (def && isa<LaunchOp, ConcatOp>(def) && !placed.count(operand) &&
          llvm::count(concat.getInputs(), operand) == 1)
        placed[operand] = {concat.getOutput(), at};
      at += cast<RankedTensorType>(operand.getType()).getDimSize(axis);
    }
  });
  auto own = [&](Value v) {
    auto dims = dimsOf(v);
    views[v] = {v, 0, dims, ownStrides(v)};
  };
  for (Value argument : func.getArguments())
    own(argument);
  // Places inside concats need the concat's own view, which comes later in the program: resolve on demand.
  std::function<void(Value)> resolve = [&](Value v) {
    if (views.count(v))
      return;
    auto it = placed.find(v);
    if (it == placed.end())
      return own(v);
    auto [outer, at] = it->second;
    resolve(outer);
    ValueView base = views[outer];
    base.offset += at * base.strides[axes[outer]];
    base.dims = dimsOf(v);
    views[v] = base;
  };
  func.walk([&](Operation *op) {
    if (isa<LaunchOp, ConcatOp, ConstantOp>(op)) {
      for (Value result : op->getResults())
        resolve(result);
    } else if (isViewOp(op)) {
      if (const ValueView *source = lookup(op->getOperand(0)))
        if (auto view = viewOf(op, *source))
          views[op->getResult(0)] = *view;
    }
  });
}

const ValueView *ViewAnalysis::lookup(Value v) const {
  auto it = views.find(v);
  return it == views.end() ? nullptr : &it->second;
}

SmallVector<TypedAttr> mrcc::constantTable(func::FuncOp func, const ViewAnalysis &views) {
  SmallVector<TypedAttr> table;
  llvm::DenseSet<Attribute> seen;
  func.walk([&](LaunchOp launch) {
    for (Value v : launch.getInputs())
      if (const ValueView *view = views.lookup(v))
        if (auto constant = view->root.getDefiningOp<ConstantOp>(); constant && seen.insert(constant.getValue()).second)
          table.push_back(constant.getValue());
  });
  return table;
}
