// Result types of data movement and shape arithmetic. Where a shape operand is not constant, what partialIntegers knows
// of it stays known.
#include "InferShapesUtil.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mrcc;
using namespace mrcc::infer;

/// Entries of a shape operand, or an error where not even the rank of the result can be known.
static std::optional<SmallVector<std::optional<int64_t>>> shapeEntries(Operation *op, Value shape, StringRef name) {
  if (failed(checkIntegers(op, shape, name)))
    return std::nullopt;
  auto entries = partialIntegers(shape);
  if (!entries)
    shapeError(op) << "expected " << name << " of a known length, got " << shape.getType() << " that depends on data";
  return entries;
}

static bool product(ArrayRef<int64_t> dims, int64_t &out) {
  out = 1;
  for (int64_t d : dims)
    if (d == unknown || __builtin_mul_overflow(out, d, &out))
      return false;
  return true;
}

//===-- other order, other dims -----------------------------------------------------------------------------------===//

LogicalResult TransposeOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput()), perm = getPerm();
  Dims sorted(perm), out;
  llvm::sort(sorted);
  if (perm.size() != dims.size() ||
      !llvm::all_of(llvm::enumerate(sorted), [](auto p) { return p.value() == int64_t(p.index()); }))
    return shapeError(*this) << "expected a permutation of " << dims.size() << " dimensions, got [" << perm << "]";
  for (int64_t p : perm)
    out.push_back(dims[p]);
  return give(types, out, typeOf(getInput()).getElementType());
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  bool identity = llvm::all_of(llvm::enumerate(getPerm()), [](auto p) { return p.value() == int64_t(p.index()); });
  return identity && getInput().getType() == getType() ? getInput() : Value();
}

namespace {
/// transpose(transpose(x)) -> transpose(x)
struct ComposeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> perm;
    for (int64_t p : op.getPerm())
      perm.push_back(inner.getPerm()[p]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), inner.getInput(), perm);
    return success();
  }
};
} // namespace

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ComposeTransposes>(context);
}

LogicalResult ReshapeOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput());
  auto target = shapeEntries(*this, getShape(), "shape");
  if (!target)
    return failure();
  Dims out;
  std::optional<size_t> computed;
  for (auto [i, entry] : llvm::enumerate(*target)) {
    if (!entry) {
      out.push_back(unknown);
    } else if (*entry == -1) {
      if (computed)
        return shapeError(*this) << "expected at most one -1 in shape, got two";
      computed = i;
      out.push_back(unknown);
    } else if (*entry == 0 && !getAllowzero()) {
      if (i >= dims.size())
        return shapeError(*this) << "expected a dimension " << i << " to copy for the 0 in shape, got "
                                 << dimsText(dims);
      out.push_back(dims[i]);
    } else if (*entry < 0) {
      return shapeError(*this) << "expected entries of shape of at least -1, got " << *entry;
    } else {
      out.push_back(*entry);
    }
  }
  // The elements decide -1, or the one unknown entry, even where equal unknown dims stand on both sides.
  Dims from(dims), to;
  for (auto [i, d] : llvm::enumerate(out)) {
    bool copied = d == unknown && i < dims.size() && (*target)[i] && *(*target)[i] == 0;
    if (copied)
      from[i] = 1; // the same unknown on both sides cancels
    else if (d != unknown)
      to.push_back(d);
  }
  int64_t elements, rest;
  if (!product(from, elements) || !product(to, rest)) {
    return give(types, out, typeOf(getInput()).getElementType());
  }
  int64_t unknowns = 0, at = 0;
  for (auto [i, d] : llvm::enumerate(out))
    if (d == unknown && !(i < dims.size() && (*target)[i] && *(*target)[i] == 0))
      ++unknowns, at = i;
  auto mismatch = [&]() -> LogicalResult {
    std::string wanted;
    for (auto &entry : *target)
      wanted += (wanted.empty() ? "" : "x") + (entry ? std::to_string(*entry) : "?");
    return shapeError(*this) << "expected a shape of " << elements << " elements for " << dimsText(dims) << ", got "
                             << wanted << frozen(getShape());
  };
  if (unknowns == 0 && elements != rest)
    return mismatch();
  if (unknowns == 1) {
    if (rest == 0 ? elements != 0 || computed : elements % rest != 0)
      return mismatch();
    if (rest != 0)
      out[at] = elements / rest;
  }
  return give(types, out, typeOf(getInput()).getElementType());
}

LogicalResult SqueezeOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput());
  Dims out;
  if (auto axes = getAxes()) {
    for (int64_t axis : *axes) {
      if (failed(checkAxis(*this, axis, dims.size())))
        return failure();
      if (dims[axis] != 1 && dims[axis] != unknown)
        return shapeError(*this) << "expected size 1 along axis " << axis << ", got " << dimsText(dims);
    }
    for (auto [i, d] : llvm::enumerate(dims))
      if (!llvm::is_contained(*axes, int64_t(i)))
        out.push_back(d);
  } else {
    // Unknown dims are taken to be more than 1; a rank that depends on them shows when they are bound.
    llvm::copy_if(dims, std::back_inserter(out), [](int64_t d) { return d != 1; });
  }
  return give(types, out, typeOf(getInput()).getElementType());
}

LogicalResult UnsqueezeOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput()), axes = getAxes();
  int64_t rank = dims.size() + axes.size(), next = 0;
  Dims out;
  for (int64_t axis : axes)
    if (failed(checkAxis(*this, axis, rank)))
      return failure();
  for (int64_t i = 0; i < rank; ++i) {
    bool inserted = llvm::is_contained(axes, i);
    if (!inserted && next == int64_t(dims.size()))
      return shapeError(*this) << "expected different axes, got [" << axes << "]";
    out.push_back(inserted ? 1 : dims[next++]);
  }
  return give(types, out, typeOf(getInput()).getElementType());
}

LogicalResult FlattenOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput());
  int64_t axis = getAxis(), rows, columns;
  if (axis < 0 || axis > int64_t(dims.size()))
    return checkAxis(*this, axis, dims.size() + 1);
  if (!product(dims.take_front(axis), rows))
    rows = unknown;
  if (!product(dims.drop_front(axis), columns))
    columns = unknown;
  return give(types, {rows, columns}, typeOf(getInput()).getElementType());
}

//===-- repeat, join, part ----------------------------------------------------------------------------------------===//

LogicalResult ExpandOp::inferShapes(SmallVectorImpl<Type> &types) {
  auto target = shapeEntries(*this, getShape(), "shape");
  if (!target)
    return failure();
  ArrayRef<int64_t> dims = dimsOf(getInput());
  size_t rank = std::max(dims.size(), target->size());
  Dims out;
  for (size_t i = 0; i < rank; ++i) {
    int64_t d = i + dims.size() < rank ? 1 : dims[i + dims.size() - rank];
    std::optional<int64_t> t =
        i + target->size() < rank ? std::optional<int64_t>(1) : (*target)[i + target->size() - rank];
    if (t && *t < 0)
      return shapeError(*this) << "expected entries of shape of at least 0, got " << *t;
    if (!t)
      out.push_back(d == 1 ? unknown : d);
    else if (d == 1 || d == *t || (d == unknown && *t != 1))
      out.push_back(*t);
    else if (*t == 1)
      out.push_back(d);
    else
      return shapeError(*this) << "expected a shape that " << dimsText(dims) << " broadcasts to, got " << *t
                               << " where the input has " << d << frozen(getShape());
  }
  return give(types, out, typeOf(getInput()).getElementType());
}

LogicalResult TileOp::inferShapes(SmallVectorImpl<Type> &types) {
  auto repeats = shapeEntries(*this, getRepeats(), "repeats");
  if (!repeats)
    return failure();
  ArrayRef<int64_t> dims = dimsOf(getInput());
  if (repeats->size() != dims.size())
    return shapeError(*this) << "expected " << dims.size() << " repeats, got " << repeats->size();
  Dims out;
  for (auto [d, r] : llvm::zip_equal(dims, *repeats)) {
    if (r && *r < 0)
      return shapeError(*this) << "expected repeats of at least 0, got " << *r;
    int64_t n = unknown;
    if (r && (d != unknown || *r == 1) && __builtin_mul_overflow(d, *r, &n))
      return shapeError(*this) << "dimension " << d << " times " << *r << " is too large";
    out.push_back(n);
  }
  return give(types, out, typeOf(getInput()).getElementType());
}

LogicalResult ConcatOp::inferShapes(SmallVectorImpl<Type> &types) {
  if (getInputs().empty())
    return shapeError(*this) << "expected at least one operand";
  int64_t axis = getAxis(), sum = 0;
  Dims out(dimsOf(getInputs()[0]));
  if (failed(checkAxis(*this, axis, out.size())))
    return failure();
  for (auto [n, v] : llvm::enumerate(getInputs())) {
    ArrayRef<int64_t> dims = dimsOf(v);
    if (dims.size() != out.size() || typeOf(v).getElementType() != typeOf(getInputs()[0]).getElementType())
      return shapeError(*this) << "expected operands of one rank and type, got " << getInputs()[0].getType() << " and "
                               << v.getType();
    for (size_t i = 0; i < dims.size(); ++i)
      if (int64_t(i) != axis && !mergeDim(out[i], dims[i]))
        return shapeError(*this) << "expected equal dimensions but along axis " << axis << ", got "
                                 << dimsText(dimsOf(getInputs()[0])) << " and " << dimsText(dims) << " (operand " << n
                                 << "): dimension " << i << " is " << out[i] << " and " << dims[i] << frozen(v);
    sum = sum == unknown || dims[axis] == unknown ? unknown : held(Wide(sum) + dims[axis]);
  }
  out[axis] = sum;
  return give(types, out, typeOf(getInputs()[0]).getElementType());
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 && getInputs()[0].getType() == getType() ? getInputs()[0] : Value();
}

LogicalResult SplitOp::inferShapes(SmallVectorImpl<Type> &types) {
  Dims dims(dimsOf(getInput()));
  int64_t axis = getAxis(), n = getNumResults();
  if (failed(checkAxis(*this, axis, dims.size())))
    return failure();
  int64_t whole = dims[axis], sum = 0;
  SmallVector<std::optional<int64_t>> sizes(n);
  if (!isNone(getSizes())) {
    auto entries = shapeEntries(*this, getSizes(), "sizes");
    if (!entries)
      return failure();
    if (int64_t(entries->size()) != n)
      return shapeError(*this) << "expected " << n << " sizes, one a result, got " << entries->size();
    sizes = std::move(*entries);
  } else if (whole != unknown && n > 0) {
    int64_t part = llvm::divideCeil(whole, n);
    for (int64_t i = 0; i < n; ++i)
      sizes[i] = i + 1 < n ? part : whole - part * (n - 1);
  }
  for (auto &size : sizes) {
    if (size && *size < 0)
      return shapeError(*this) << "cannot split " << whole << " along axis " << axis << " into " << n << " parts";
    sum = sum == unknown || !size ? unknown : held(Wide(sum) + *size);
    dims[axis] = size.value_or(unknown);
    (void)give(types, dims, typeOf(getInput()).getElementType());
  }
  if (sum != unknown && whole != unknown && sum != whole)
    return shapeError(*this) << "expected sizes that sum to " << whole << " along axis " << axis << ", got " << sum
                             << frozen(getSizes());
  return success();
}

/// `axes` of slice and pad: in range and different. Nothing to check where they are not constant.
static LogicalResult checkAxes(Operation *op, std::optional<SmallVector<int64_t>> axes, int64_t rank) {
  SmallVector<bool> seen(rank);
  for (int64_t axis : axes.value_or(SmallVector<int64_t>())) {
    if (axis < -rank || axis >= rank)
      return shapeError(op) << "expected axes in [" << -rank << ", " << rank << "), got " << axis;
    if (std::exchange(seen[axis < 0 ? axis + rank : axis], true))
      return shapeError(op) << "expected different axes, got " << axis << " twice";
  }
  return success();
}

LogicalResult SliceOp::inferShapes(SmallVectorImpl<Type> &types) {
  Dims dims(dimsOf(getInput()));
  int64_t rank = dims.size();
  for (auto [v, name] : {std::pair<Value, const char *>(getStarts(), "starts"),
                         {getEnds(), "ends"},
                         {getAxes(), "axes"},
                         {getSteps(), "steps"}})
    if (failed(checkIntegers(*this, v, name)))
      return failure();
  auto starts = partialIntegers(getStarts()), ends = partialIntegers(getEnds());
  auto steps = isNone(getSteps()) ? std::nullopt : partialIntegers(getSteps());
  auto axes = getIntegers(getAxes());
  if (failed(checkAxes(*this, axes, rank)))
    return failure();
  if ((!axes && !isNone(getAxes())) || !starts || !ends || (!steps && !isNone(getSteps()))) {
    // Any dimension may be cut.
    return give(types, Dims(rank, unknown), typeOf(getInput()).getElementType());
  }
  size_t n = starts->size();
  if (ends->size() != n || (axes && axes->size() != n) || (steps && steps->size() != n) || int64_t(n) > rank)
    return shapeError(*this) << "expected starts, ends, axes and steps of one length up to " << rank << ", got " << n
                             << ", " << ends->size() << ", " << (axes ? axes->size() : n) << " and "
                             << (steps ? steps->size() : n);
  for (size_t i = 0; i < n; ++i) {
    int64_t axis = axes ? (*axes)[i] : i;
    int64_t &d = dims[axis < 0 ? axis + rank : axis];
    std::optional<int64_t> start = (*starts)[i], end = (*ends)[i],
                           step = steps ? (*steps)[i] : std::optional<int64_t>(1);
    if (step && *step == 0)
      return shapeError(*this) << "expected steps other than 0";
    bool whole = start && end && step && *start == 0 && *step == 1 && *end == INT64_MAX; // all of an unknown dimension
    if (d == unknown && whole)
      continue;
    d = d == unknown || !start || !end || !step ? unknown : sliceRange(d, *start, *end, *step).count;
  }
  return give(types, dims, typeOf(getInput()).getElementType());
}

LogicalResult PadOp::inferShapes(SmallVectorImpl<Type> &types) {
  Dims dims(dimsOf(getInput()));
  int64_t rank = dims.size();
  if (failed(checkIntegers(*this, getPads(), "pads")) || failed(checkIntegers(*this, getAxes(), "axes")) ||
      failed(checkSameElement(*this, getInput(), getValue())))
    return failure();
  auto pads = partialIntegers(getPads());
  auto axes = getIntegers(getAxes());
  if (failed(checkAxes(*this, axes, rank)))
    return failure();
  if (!pads || (!axes && !isNone(getAxes())))
    return give(types, Dims(rank, unknown), typeOf(getInput()).getElementType());
  size_t n = axes ? axes->size() : rank;
  if (pads->size() != 2 * n)
    return shapeError(*this) << "expected " << 2 * n << " pads, got " << pads->size();
  for (size_t i = 0; i < n; ++i) {
    int64_t axis = axes ? (*axes)[i] : i;
    int64_t &d = dims[axis < 0 ? axis + rank : axis];
    std::optional<int64_t> begin = (*pads)[i], end = (*pads)[i + n];
    bool nothing = begin && end && *begin == 0 && *end == 0;
    if (nothing)
      continue;
    if (d == unknown || !begin || !end) {
      d = unknown;
      continue;
    }
    int64_t out = held(Wide(d) + *begin + *end);
    if (out < 0 || *begin > INT32_MAX || *end > INT32_MAX)
      return shapeError(*this) << "cannot pad dimension " << axis << " of size " << d << " by " << *begin << " and "
                               << *end;
    bool mirrors = getMode() == PadMode::reflect, repeats = getMode() == PadMode::edge || getMode() == PadMode::wrap;
    int64_t longest = std::max(*begin, *end);
    if (longest > 0 && ((repeats && d == 0) || (mirrors && d == 0)))
      return shapeError(*this) << "expected elements to repeat along axis " << axis << ", got "
                               << dimsText(dimsOf(getInput()));
    if (mirrors && d > 1 && longest >= d)
      return shapeError(*this) << "expected reflecting pads below the dimension's size " << d << " along axis " << axis
                               << ", got " << longest << frozen(getPads());
    d = out;
  }
  return give(types, dims, typeOf(getInput()).getElementType());
}

//===-- by index --------------------------------------------------------------------------------------------------===//

static LogicalResult checkIndices(Operation *op, Value indices) {
  Type element = typeOf(indices).getElementType();
  if (isa<IntegerType>(element))
    return success();
  return shapeError(op) << "expected integer indices, got " << toString(toDType(element));
}

/// Constant indices must lie in their axes: -d to d - 1 for a known axis of d. `dims` are those of the axes from
/// `first` on that one tuple of indices addresses. Indices that are not constant are clamped when the kernel runs.
static LogicalResult checkRange(Operation *op, Value indices, ArrayRef<int64_t> dims, int64_t first) {
  auto values = getIntegers(indices);
  for (size_t i = 0; values && i < values->size(); ++i) {
    int64_t d = dims[i % dims.size()], index = (*values)[i];
    if (d != unknown && (index < -d || index >= d))
      return shapeError(op) << "index " << index << " is out of range, axis " << first + int64_t(i % dims.size())
                            << " has " << d << " elements";
  }
  return success();
}

LogicalResult GatherOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput()), indices = dimsOf(getIndices());
  int64_t axis = getAxis();
  if (failed(checkAxis(*this, axis, dims.size())) || failed(checkIndices(*this, getIndices())) ||
      failed(checkRange(*this, getIndices(), dims.slice(axis, 1), axis)))
    return failure();
  Dims out(dims.take_front(axis));
  out.append(indices.begin(), indices.end());
  out.append(dims.begin() + axis + 1, dims.end());
  return give(types, out, typeOf(getInput()).getElementType());
}

LogicalResult GatherElementsOp::inferShapes(SmallVectorImpl<Type> &types) {
  if (failed(checkAxis(*this, getAxis(), typeOf(getInput()).getRank())) || failed(checkIndices(*this, getIndices())) ||
      failed(checkRank(*this, getIndices(), "indices", typeOf(getInput()).getRank())))
    return failure();
  for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(dimsOf(getInput()), dimsOf(getIndices()))))
    if (auto [d, n] = pair; int64_t(i) != int64_t(getAxis()) && d != unknown && n != unknown && n > d)
      return shapeError(*this) << "expected indices of at most " << d << " along axis " << i << ", got " << n;
  if (failed(checkRange(*this, getIndices(), dimsOf(getInput()).slice(getAxis(), 1), getAxis())))
    return failure();
  return give(types, dimsOf(getIndices()), typeOf(getInput()).getElementType());
}

/// Length of the index tuples of gather_nd and scatter_nd: 1 to what the input has.
static LogicalResult checkTuples(Operation *op, Value input, Value indices, int64_t batch, int64_t &length) {
  ArrayRef<int64_t> dims = dimsOf(input), at = dimsOf(indices);
  if (failed(checkIndices(op, indices)))
    return failure();
  if (at.empty() || dims.empty() || batch < 0 || batch >= int64_t(std::min(at.size(), dims.size())))
    return shapeError(op) << "expected indices and input of rank above " << batch << ", got " << dimsText(at) << " and "
                          << dimsText(dims);
  length = at.back();
  if (length == unknown)
    return shapeError(op) << "expected indices with a known last dimension, got " << dimsText(at);
  if (length < 1 || batch + length > int64_t(dims.size()))
    return shapeError(op) << "expected index tuples of 1 to " << dims.size() - batch << " for " << dimsText(dims)
                          << ", got " << length;
  return success();
}

LogicalResult GatherNDOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput()), at = dimsOf(getIndices());
  int64_t batch = getBatchDims(), length;
  if (failed(checkTuples(*this, getInput(), getIndices(), batch, length)) ||
      failed(checkRange(*this, getIndices(), dims.slice(batch, length), batch)))
    return failure();
  Dims out(at.drop_back());
  for (int64_t i = 0; i < batch; ++i)
    if (!mergeDim(out[i], dims[i]))
      return shapeError(*this) << "expected equal batch dimensions, got " << dimsText(dims) << " and " << dimsText(at);
  out.append(dims.begin() + batch + length, dims.end());
  return give(types, out, typeOf(getInput()).getElementType());
}

LogicalResult ScatterElementsOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getInput().getType());
  int64_t rank = typeOf(getInput()).getRank();
  if (failed(checkAxis(*this, getAxis(), rank)) || failed(checkIndices(*this, getIndices())) ||
      failed(checkRank(*this, getIndices(), "indices", rank)) ||
      failed(checkRank(*this, getUpdates(), "updates", rank)) ||
      failed(checkSameElement(*this, getInput(), getUpdates())))
    return failure();
  Dims at(dimsOf(getIndices()));
  for (auto [i, d] : llvm::enumerate(at))
    if (!mergeDim(d, dimsOf(getUpdates())[i]))
      return shapeError(*this) << "expected updates of the indices' shape " << dimsText(dimsOf(getIndices()))
                               << ", got " << dimsText(dimsOf(getUpdates()));
  return success();
}

LogicalResult ScatterNDOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getInput().getType());
  ArrayRef<int64_t> dims = dimsOf(getInput()), at = dimsOf(getIndices()), updates = dimsOf(getUpdates());
  int64_t length;
  if (failed(checkTuples(*this, getInput(), getIndices(), 0, length)) ||
      failed(checkSameElement(*this, getInput(), getUpdates())))
    return failure();
  Dims wanted(at.drop_back());
  wanted.append(dims.begin() + length, dims.end());
  if (failed(verifyCompatibleShape(wanted, updates)))
    return shapeError(*this) << "expected updates of shape " << dimsText(wanted) << ", got " << dimsText(updates);
  return success();
}

//===-- shape arithmetic ------------------------------------------------------------------------------------------===//

LogicalResult ShapeOp::inferShapes(SmallVectorImpl<Type> &types) {
  int64_t rank = typeOf(getInput()).getRank();
  SliceRange range = sliceRange(rank, getStart(), getEnd().value_or(rank), 1);
  return give(types, {range.count}, IntegerType::get(getContext(), 64));
}

LogicalResult SizeOp::inferShapes(SmallVectorImpl<Type> &types) {
  return give(types, {}, IntegerType::get(getContext(), 64));
}

LogicalResult RangeOp::inferShapes(SmallVectorImpl<Type> &types) {
  Type element = typeOf(getStart()).getElementType();
  for (Value v : {getStart(), getLimit(), getDelta()}) {
    int64_t n;
    if (!product(dimsOf(v), n) || n != 1 || typeOf(v).getElementType() != element)
      return shapeError(*this) << "expected three scalars of one type, got " << getStart().getType() << ", "
                               << getLimit().getType() << " and " << getDelta().getType();
  }
  auto scalar = [](Value v) -> std::optional<double> {
    if (auto known = getScalar(v))
      return known;
    auto partial = partialIntegers(v);
    return partial && partial->size() == 1 && (*partial)[0] ? std::optional<double>(double(*(*partial)[0]))
                                                            : std::nullopt;
  };
  auto start = scalar(getStart()), limit = scalar(getLimit()), delta = scalar(getDelta());
  if (!start || !limit || !delta)
    return give(types, {unknown}, element);
  auto n = rangeLength(*start, *limit, *delta);
  if (!n)
    return shapeError(*this) << "cannot count from " << std::to_string(*start) << " to " << std::to_string(*limit)
                             << " by " << std::to_string(*delta);
  return give(types, {*n}, element);
}

LogicalResult FillOp::inferShapes(SmallVectorImpl<Type> &types) {
  auto entries = shapeEntries(*this, getShape(), "shape");
  if (!entries)
    return failure();
  int64_t n;
  if (!product(dimsOf(getValue()), n) || n != 1)
    return shapeError(*this) << "expected one value, got " << dimsText(dimsOf(getValue()));
  Dims out;
  for (auto &entry : *entries) {
    if (entry && *entry < 0)
      return shapeError(*this) << "expected entries of shape of at least 0, got " << *entry;
    out.push_back(entry.value_or(unknown));
  }
  return give(types, out, typeOf(getValue()).getElementType());
}

LogicalResult IotaOp::inferShapes(SmallVectorImpl<Type> &types) {
  if (failed(checkAxis(*this, getAxis(), typeOf(getInput()).getRank())))
    return failure();
  return give(types, dimsOf(getInput()), getType());
}
