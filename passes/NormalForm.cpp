// Normal forms, one function an op: each gives the replacement, or null where the op stays. Passes.td lists the forms.
#include "NormalForm.h"
#include "mrcc/IR/Resize.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mrcc;

static RankedTensorType type(Value v) { return cast<RankedTensorType>(v.getType()); }
static ArrayRef<int64_t> dims(Value v) { return type(v).getShape(); }
static bool isNone(Value v) { return isa<NoneType>(v.getType()); }

namespace {
/// Makes ops at the place and location of `op`.
struct Maker {
  RewriterBase &rewriter;
  Operation *op;
  Location loc = op->getLoc();

  Value none() { return NoneOp::create(rewriter, loc, NoneType::get(op->getContext())); }
  Value integers(ArrayRef<int64_t> values) { return makeIntegers(rewriter, loc, values); }
  Value typed(Value like, ArrayRef<int64_t> shape, function_ref<Value(RankedTensorType)> make) {
    auto result = RankedTensorType::get(shape, type(like).getElementType());
    return result == like.getType() ? like : make(result);
  }
  Value reshape(Value v, ArrayRef<int64_t> shape) {
    while (auto inner = v.getDefiningOp<ReshapeOp>()) // of a reshape only the last counts
      v = inner.getInput();
    return typed(v, shape, [&](RankedTensorType t) {
      return ReshapeOp::create(rewriter, loc, t, v, integers(shape), llvm::is_contained(shape, 0));
    });
  }
  /// Elements start, start + step, ... of every dimension.
  Value slice(Value v, ArrayRef<SliceRange> ranges) {
    SmallVector<int64_t> shape, starts, ends, axes, steps;
    bool whole = true;
    for (auto [i, r] : llvm::enumerate(ranges)) {
      int64_t last = r.start + (r.count - 1) * r.step, end = r.count == 0 ? r.start : r.step > 0 ? last + 1 : last - 1;
      shape.push_back(r.count);
      starts.push_back(r.start);
      ends.push_back(end < 0 ? -dims(v)[i] - 1 : end); // -1 would mean the last element
      axes.push_back(i);
      steps.push_back(r.step);
      whole &= r == SliceRange{0, 1, dims(v)[i]};
    }
    if (whole || ranges.empty())
      return v;
    auto result = RankedTensorType::get(shape, type(v).getElementType());
    return SliceOp::create(rewriter, loc, result, v, integers(starts), integers(ends), integers(axes), integers(steps));
  }
  Value expand(Value v, ArrayRef<int64_t> shape) {
    return typed(v, shape, [&](RankedTensorType t) { return ExpandOp::create(rewriter, loc, t, v, integers(shape)); });
  }
};

SmallVector<SliceRange> wholeOf(Value v) {
  SmallVector<SliceRange> ranges;
  for (int64_t d : dims(v))
    ranges.push_back({0, 1, d});
  return ranges;
}
} // namespace

//===-- one function an op: the replacement, or null where the op stays -------------------------------------------===//

static Value normalReshape(Operation *op, Maker &make) {
  Value input = op->getOperand(0), output = op->getResult(0);
  auto reshape = dyn_cast<ReshapeOp>(op);
  if (reshape && input.getType() != output.getType() && !input.getDefiningOp<ReshapeOp>() &&
      reshape.getAllowzero() == llvm::is_contained(dims(output), 0)) {
    auto shape = getIntegers(reshape.getShape());
    if (shape && ArrayRef(*shape) == dims(output))
      return nullptr;
  }
  return make.reshape(input, dims(output));
}

static Value normalSlice(SliceOp op, Maker &make) {
  auto ranges = sliceRanges(op);
  if (!ranges)
    return nullptr;
  return make.slice(op.getInput(), *ranges);
}

static Value normalExpand(ExpandOp op, Maker &make) {
  auto shape = getIntegers(op.getShape());
  if (op.getInput().getType() != op.getType() && shape && ArrayRef(*shape) == dims(op.getOutput()))
    return nullptr;
  return make.expand(op.getInput(), dims(op.getOutput()));
}

/// Where only dims of 1 repeat, it is an expand.
static Value normalTile(TileOp op, Maker &make) {
  if (op.getInput().getType() == op.getType())
    return op.getInput();
  for (auto [in, out] : llvm::zip_equal(dims(op.getInput()), dims(op.getOutput())))
    if (in != 1 && in != out)
      return nullptr;
  return make.expand(op.getInput(), dims(op.getOutput()));
}

/// Crops first, then pads by what is positive.
static Value normalPad(PadOp op, Maker &make) {
  auto pads = padRanges(op);
  if (!pads)
    return nullptr;
  Value input = op.getInput();
  SmallVector<SliceRange> kept = wholeOf(input);
  SmallVector<int64_t> begins, ends;
  for (auto [i, pad] : llvm::enumerate(*pads)) {
    int64_t dim = dims(input)[i], out = dims(op.getOutput())[i];
    int64_t first = std::min(std::max<int64_t>(-pad.begin, 0), dim),
            stop = std::max(dim - std::max<int64_t>(-pad.end, 0), first);
    if (first == stop)
      first = stop = 0;
    kept[i] = {first, 1, stop - first};
    begins.push_back(std::min(std::max<int64_t>(pad.begin, 0), out));
    ends.push_back(out - begins.back() - (stop - first));
  }
  if (llvm::any_of(ends, [](int64_t e) { return e < 0; }))
    return nullptr; // all but the padding is cropped away
  SmallVector<int64_t> wanted(begins);
  wanted.append(ends);
  auto given = getIntegers(op.getPads());
  bool pads0 = llvm::all_of(wanted, [](int64_t p) { return p == 0; });
  if (!pads0 && isNone(op.getAxes()) && given && *given == wanted)
    return nullptr;
  Value cropped = make.slice(input, kept);
  if (pads0)
    return cropped;
  return PadOp::create(make.rewriter, make.loc, op.getType(), op.getMode(), cropped, make.integers(wanted),
                       op.getValue(), make.none());
}

/// A single index, or neighbours in order, is a slice.
static Value normalGather(GatherOp op, Maker &make) {
  auto indices = type(op.getIndices()).getNumElements() <= 1024 ? getIntegers(op.getIndices()) : std::nullopt;
  int64_t axis = op.getAxis(), dim = dims(op.getInput())[axis];
  if (!indices || indices->empty())
    return nullptr;
  for (int64_t &i : *indices) {
    i += i < 0 ? dim : 0;
    if (i < 0 || i >= dim)
      return nullptr;
  }
  int64_t step = indices->size() > 1 ? (*indices)[1] - (*indices)[0] : 1;
  for (size_t i = 1; i < indices->size(); ++i)
    if (step == 0 || (*indices)[i] - (*indices)[i - 1] != step)
      return nullptr;
  SmallVector<SliceRange> ranges = wholeOf(op.getInput());
  ranges[axis] = {indices->front(), step, int64_t(indices->size())};
  return make.reshape(make.slice(op.getInput(), ranges), dims(op.getOutput()));
}

static void normalSplit(SplitOp op, Maker &make) {
  SmallVector<Value> parts;
  int64_t axis = op.getAxis(), first = 0;
  for (Value result : op.getResults()) {
    SmallVector<SliceRange> ranges = wholeOf(op.getInput());
    ranges[axis] = {first, 1, dims(result)[axis]};
    first += dims(result)[axis];
    parts.push_back(make.slice(op.getInput(), ranges));
  }
  make.rewriter.replaceOp(op, parts);
}

/// Without empty operands.
static Value normalConcat(ConcatOp op, Maker &make) {
  SmallVector<Value> parts;
  llvm::copy_if(op.getInputs(), std::back_inserter(parts), [](Value v) { return type(v).getNumElements() != 0; });
  if (parts.empty())
    parts.push_back(op.getInputs().front());
  if (parts.size() == 1 && parts[0].getType() == op.getType())
    return parts[0];
  if (parts.size() == op.getInputs().size())
    return nullptr;
  return ConcatOp::create(make.rewriter, make.loc, op.getType(), parts, op.getAxis());
}

static bool isIdentity(const ResizeTaps &taps, int64_t in, int64_t out) {
  if (in != out || llvm::is_contained(taps.outside, 1))
    return false;
  for (int64_t o = 0; o < out; ++o)
    for (int64_t t = 0; t < taps.width; ++t)
      if (taps.weight[o * taps.width + t] != 0 && taps.index[o * taps.width + t] != o)
        return false;
  return true;
}

/// Only the axes that change; scales or sizes of those.
static Value normalResize(ResizeOp op, Maker &make) {
  auto sizes = resizeDims(op);
  if (!sizes)
    return nullptr;
  bool crops = op.getCoordinate() == "tf_crop_and_resize";
  SmallVector<double> roi;
  if (crops)
    roi = isNone(op.getRoi()) ? SmallVector<double>() : getFloats(op.getRoi()).value_or(SmallVector<double>());
  SmallVector<int64_t> axes, bySize;
  SmallVector<float> byScale;
  for (auto [i, axis] : llvm::enumerate(op.getAxes())) {
    auto taps = resizeTaps(op, i, *sizes, roi);
    if (taps && isIdentity(*taps, dims(op.getInput())[axis], (*sizes)[i].out))
      continue;
    axes.push_back(axis);
    bySize.push_back((*sizes)[i].out);
    byScale.push_back((*sizes)[i].scale);
  }
  if (axes.empty())
    return op.getInput();
  bool stretch = op.getAspectPolicy() == "stretch", noRoi = crops || isNone(op.getRoi());
  if ((axes.size() == op.getAxes().size() && noRoi) || crops || !stretch) // a policy looks at all sizes
    return nullptr;
  Value scales = op.getScales(), newSizes = op.getSizes();
  if (!isNone(newSizes)) {
    newSizes = make.integers(bySize);
    scales = make.none();
  } else {
    auto vector = RankedTensorType::get({int64_t(byScale.size())}, type(scales).getElementType());
    scales =
        makeConstant(make.rewriter, make.loc,
                     makeConstantAttr(vector, {reinterpret_cast<const uint8_t *>(byScale.data()), byScale.size() * 4}));
  }
  return ResizeOp::create(make.rewriter, make.loc, op.getType(), op.getInput(), make.none(), scales, newSizes,
                          op.getMode(), op.getCoordinate(), op.getNearest(), axes, op.getAntialias(),
                          op.getAspectPolicy(), op.getCubicCoeff(), op.getExcludeOutside(), op.getExtrapolation());
}

/// Over dims of 1 alone most reductions keep the value.
static Value normalReduce(ReduceOp op, Maker &make) {
  for (int64_t axis : op.getAxes())
    if (dims(op.getInput())[axis] != 1)
      return nullptr;
  switch (op.getKind()) {
  case ReduceKind::sum:
  case ReduceKind::mean:
  case ReduceKind::max:
  case ReduceKind::min:
  case ReduceKind::prod:
    return make.reshape(op.getInput(), dims(op.getOutput()));
  default:
    return nullptr;
  }
}

/// Padding as numbers in `pads`; conv_transpose's output_padding and output_shape go into them, too.
static void explicitPads(Operation *op, RewriterBase &rewriter) {
  SmallVector<WindowDim> windows = windowDims(op);
  SmallVector<int64_t> pads;
  for (const WindowDim &w : windows)
    pads.push_back(w.padBegin);
  for (const WindowDim &w : windows)
    pads.push_back(w.padEnd);
  if (auto o = dyn_cast<ConvTransposeOp>(op)) {
    for (auto [i, extra] : llvm::enumerate(o.getOutputPadding()))
      pads[windows.size() + i] -= extra;
    o.setOutputPadding(SmallVector<int64_t>(windows.size(), 0));
    o.removeOutputShapeAttr();
  }
  op->setAttr("pads", rewriter.getDenseI64ArrayAttr(pads));
  op->setAttr("auto_pad", rewriter.getStringAttr("explicit"));
}

void mrcc::normalise(Operation *op, RewriterBase &rewriter) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Maker make{rewriter, op};
  if (auto split = dyn_cast<SplitOp>(op))
    return normalSplit(split, make);
  if (isa<ConvOp, ConvTransposeOp, PoolOp>(op))
    return explicitPads(op, rewriter);
  Value other = TypeSwitch<Operation *, Value>(op)
                    .Case<ReshapeOp, SqueezeOp, UnsqueezeOp, FlattenOp>([&](auto) { return normalReshape(op, make); })
                    .Case([&](SliceOp o) { return normalSlice(o, make); })
                    .Case([&](ExpandOp o) { return normalExpand(o, make); })
                    .Case([&](TileOp o) { return normalTile(o, make); })
                    .Case([&](PadOp o) { return normalPad(o, make); })
                    .Case([&](GatherOp o) { return normalGather(o, make); })
                    .Case([&](ConcatOp o) { return normalConcat(o, make); })
                    .Case([&](ResizeOp o) { return normalResize(o, make); })
                    .Case([&](ReduceOp o) { return normalReduce(o, make); })
                    .Case<CastOp, BitcastOp>(
                        [&](auto o) { return o.getInput().getType() == o.getType() ? o.getInput() : Value(); })
                    .Case([&](TransposeOp o) {
                      bool identity = llvm::all_of(llvm::enumerate(o.getPerm()),
                                                   [](auto p) { return p.value() == int64_t(p.index()); });
                      return identity ? o.getInput() : Value();
                    })
                    .Default([](Operation *) { return Value(); });
  if (other)
    rewriter.replaceOp(op, other);
}
