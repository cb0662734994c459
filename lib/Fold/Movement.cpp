// Ops that move elements without computing: transpose, reshapes, expand, tile, concat, split, slice, pad, and shape
// arithmetic. They work on bytes; a splat stays a splat.
#include "Elements.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

/// One of the two sides of a strided copy: strides in elements.
struct Side {
  int64_t offset = 0;
  Dims strides;
};

template <class T> static void copyRow(uint8_t *to, int64_t toStep, const uint8_t *from, int64_t fromStep, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * toStep * int64_t(sizeof(T)), from + i * fromStep * int64_t(sizeof(T)), sizeof(T));
}

/// Copies `dims` elements from one strided place to another. Dims that both sides walk alike are merged.
static void copyStrided(ArrayRef<int64_t> dims, uint8_t *to, const Side &out, const uint8_t *from, const Side &in,
                        size_t width) {
  if (llvm::is_contained(dims, 0)) // there may be no pointers
    return;
  Dims merged, a, b;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1)
      continue;
    if (!merged.empty() && a.back() == out.strides[i] * dims[i] && b.back() == in.strides[i] * dims[i]) {
      merged.back() *= dims[i];
      a.back() = out.strides[i];
      b.back() = in.strides[i];
      continue;
    }
    merged.push_back(dims[i]);
    a.push_back(out.strides[i]);
    b.push_back(in.strides[i]);
  }
  int64_t n = 1, toStep = 0, fromStep = 0;
  if (!merged.empty()) {
    n = merged.pop_back_val();
    toStep = a.pop_back_val();
    fromStep = b.pop_back_val();
  }
  int64_t w = width;
  forEachPoint(merged, [&](ArrayRef<int64_t> at) {
    uint8_t *p = to + out.offset * w;
    const uint8_t *q = from + in.offset * w;
    for (size_t i = 0; i < at.size(); ++i) {
      p += at[i] * a[i] * w;
      q += at[i] * b[i] * w;
    }
    if (toStep == 1 && fromStep == 1)
      return void(std::memcpy(p, q, n * w));
    switch (w) {
    case 1:
      return copyRow<uint8_t>(p, toStep, q, fromStep, n);
    case 2:
      return copyRow<uint16_t>(p, toStep, q, fromStep, n);
    case 4:
      return copyRow<uint32_t>(p, toStep, q, fromStep, n);
    default:
      return copyRow<uint64_t>(p, toStep, q, fromStep, n);
    }
  });
}

/// A result of `dims` read from `in` with other strides.
static Tensor restrided(const Tensor &in, ArrayRef<int64_t> dims, const Side &from) {
  if (in.splat)
    return makeSplat(in.type, dims, in.bytes);
  Tensor out = makeTensor(in.type, dims);
  copyStrided(dims, out.data(), {0, stridesOf(dims)}, in.bytes.data(), from, in.width());
  return out;
}

static Tensor renamed(const Tensor &in, ArrayRef<int64_t> dims) {
  Tensor out = in;
  out.dims.assign(dims.begin(), dims.end());
  return out;
}

static Tensor transpose(TransposeOp op, const Tensor &in) {
  Dims strides = stridesOf(in.dims);
  Side from;
  for (int64_t p : op.getPerm())
    from.strides.push_back(strides[p]);
  return restrided(in, resultDims(op), from);
}

static Tensor expand(const Tensor &in, ArrayRef<int64_t> dims) {
  if (in.size() == 1)
    return makeSplat(in.type, dims, in.bytes);
  Dims strides = stridesOf(in.dims);
  Side from{0, Dims(dims.size(), 0)};
  for (size_t i = 0, lead = dims.size() - in.dims.size(); i < in.dims.size(); ++i)
    from.strides[i + lead] = in.dims[i] == 1 ? 0 : strides[i];
  return restrided(in, dims, from);
}

/// Each dimension becomes two: the repeats, with stride 0, and the input's.
static Tensor tile(const Tensor &in, ArrayRef<int64_t> dims) {
  Dims strides = stridesOf(in.dims), split;
  Side from;
  for (size_t i = 0; i < in.dims.size(); ++i) {
    split.append({in.dims[i] ? dims[i] / in.dims[i] : 0, in.dims[i]});
    from.strides.append({0, strides[i]});
  }
  return renamed(restrided(in, split, from), dims);
}

static Tensor concat(ConcatOp op, Operands operands) {
  Dims dims = resultDims(op);
  if (llvm::all_of(operands, [&](const Tensor &t) { return t.splat && t.bytes == operands[0].bytes; }))
    return makeSplat(operands[0].type, dims, operands[0].bytes);
  Tensor out = makeTensor(operands[0].type, dims);
  Side to{0, stridesOf(dims)};
  for (const Tensor &part : operands) {
    Side from{0, part.splat ? Dims(dims.size(), 0) : stridesOf(part.dims)};
    copyStrided(part.dims, out.data(), to, part.bytes.data(), from, out.width());
    to.offset += part.dims[op.getAxis()] * to.strides[op.getAxis()];
  }
  return out;
}

static Results split(SplitOp op, const Tensor &in) {
  std::vector<Tensor> parts;
  Side from{0, stridesOf(in.dims)};
  for (unsigned i = 0; i < op.getNumResults(); ++i) {
    Dims dims = resultDims(op, i);
    parts.push_back(restrided(in, dims, from));
    from.offset += dims[op.getAxis()] * from.strides[op.getAxis()];
  }
  return parts;
}

static Tensor slice(SliceOp op, Operands operands) {
  const Tensor &in = operands[0];
  Dims strides = stridesOf(in.dims);
  Side from{0, strides};
  std::vector<int64_t> starts = operands[1].integers(), ends = operands[2].integers(), axes, steps;
  if (operands[3].present())
    axes = operands[3].integers();
  if (operands[4].present())
    steps = operands[4].integers();
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t axis = axes.empty() ? i : axes[i];
    axis += axis < 0 ? in.dims.size() : 0;
    SliceRange range = sliceRange(in.dims[axis], starts[i], ends[i], steps.empty() ? 1 : steps[i]);
    from.offset += range.start * strides[axis];
    from.strides[axis] = range.step * strides[axis];
  }
  return restrided(in, resultDims(op), from);
}

/// Where element i of a padded dimension comes from; -1: the padding's value.
static int64_t padSource(PadMode mode, int64_t i, int64_t dim) {
  if (i >= 0 && i < dim)
    return i;
  if (mode == PadMode::constant)
    return -1;
  if (mode == PadMode::edge)
    return i < 0 ? 0 : dim - 1;
  if (mode == PadMode::wrap)
    return (i % dim + dim) % dim;
  int64_t period = dim > 1 ? 2 * (dim - 1) : 1; // reflect
  i = (i % period + period) % period;
  return i < dim ? i : period - i;
}

static Tensor pad(PadOp op, Operands operands) {
  const Tensor &in = operands[0];
  int64_t rank = in.dims.size();
  std::vector<int64_t> pads = operands[1].integers(), axes;
  if (operands[3].present())
    axes = operands[3].integers();
  size_t n = operands[3].present() ? axes.size() : rank;
  Dims begins(rank, 0), ends(rank, 0), dims = resultDims(op), strides = stridesOf(in.dims);
  for (size_t i = 0; i < n; ++i) {
    int64_t axis = operands[3].present() ? axes[i] : i;
    begins[axis < 0 ? axis + rank : axis] = pads[i];
    ends[axis < 0 ? axis + rank : axis] = pads[n + i];
  }
  std::vector<uint8_t> value(in.width());
  if (operands[2].present())
    std::memcpy(value.data(), operands[2].bytes.data(), in.width());
  if (in.splat && (op.getMode() != PadMode::constant || in.bytes == ArrayRef<uint8_t>(value)))
    return makeSplat(in.type, dims, in.bytes);
  Tensor out = makeTensor(in.type, dims);
  std::vector<std::vector<int64_t>> sources(rank);
  for (int64_t d = 0; d < rank; ++d)
    for (int64_t i = 0; i < dims[d]; ++i) { // negative pads crop first, then the mode repeats what is left
      int64_t first = std::max<int64_t>(-begins[d], 0), left = in.dims[d] - first - std::max<int64_t>(-ends[d], 0);
      int64_t from = padSource(op.getMode(), i - begins[d] - first, left);
      sources[d].push_back(from < 0 ? from : from + first);
    }
  uint8_t *to = out.data();
  forEachPoint(dims, [&](ArrayRef<int64_t> at) {
    int64_t from = 0;
    for (int64_t d = 0; d < rank && from >= 0; ++d) {
      int64_t s = sources[d][at[d]];
      from = s < 0 ? -1 : from + s * strides[d];
    }
    std::memcpy(to, from < 0 ? value.data() : in.at(from), in.width());
    to += in.width();
  });
  return out;
}

static Tensor integersTensor(ArrayRef<int64_t> dims, const std::vector<int64_t> &values) {
  return fromValues(DType::i64, dims, values);
}

static Tensor shape(ShapeOp op, const Tensor &in) {
  int64_t rank = in.dims.size();
  SliceRange range = sliceRange(rank, op.getStart(), op.getEnd().value_or(rank), 1);
  return integersTensor({range.count}, {in.dims.begin() + range.start, in.dims.begin() + range.start + range.count});
}

/// start + i * delta, in the type's own arithmetic: integers exactly, floats in double and rounded.
static Tensor range(RangeOp op, Operands operands) {
  Dims dims = resultDims(op);
  return withCompute(operands[0].type, [&]<class C>() {
    C start = operands[0].all<C>()[0], delta = operands[2].all<C>()[0];
    std::vector<C> values(dims[0]);
    for (int64_t i = 0; i < dims[0]; ++i)
      values[i] =
          std::is_same_v<C, double> ? C(start + C(i) * delta) : C(uint64_t(start) + uint64_t(i) * uint64_t(delta));
    return fromValues(operands[0].type, dims, values);
  });
}

static Tensor iota(IotaOp op) {
  Dims dims = resultDims(op);
  Tensor out = makeTensor(resultType(op), dims);
  int64_t axis = op.getAxis(), inner = product(ArrayRef(dims).drop_front(axis + 1)), w = out.width(), n = product(dims);
  for (int64_t i = 0; i < n; ++i) {
    int64_t index = i / inner % dims[axis];
    store(out.type, &index, 1, out.data() + i * w);
  }
  return out;
}

Results fold::evaluateMovement(Operation *op, Operands operands) {
  if (auto o = dyn_cast<SplitOp>(op))
    return split(o, operands[0]);
  Dims dims = resultDims(op);
  return std::vector<Tensor>{
      TypeSwitch<Operation *, Tensor>(op)
          .Case([&](TransposeOp o) { return transpose(o, operands[0]); })
          .Case<ReshapeOp, SqueezeOp, UnsqueezeOp, FlattenOp>([&](auto) { return renamed(operands[0], dims); })
          .Case([&](ExpandOp) { return expand(operands[0], dims); })
          .Case([&](TileOp) { return tile(operands[0], dims); })
          .Case([&](ConcatOp o) { return concat(o, operands); })
          .Case([&](SliceOp o) { return slice(o, operands); })
          .Case([&](PadOp o) { return pad(o, operands); })
          .Case([&](ShapeOp o) { return shape(o, operands[0]); })
          .Case([&](SizeOp) { return integersTensor({}, {operands[0].size()}); })
          .Case([&](RangeOp o) { return range(o, operands); })
          .Case([&](FillOp) {
            return makeSplat(operands[1].type, dims, operands[1].bytes.take_front(operands[1].width()));
          })
          .Case([&](IotaOp o) { return iota(o); })};
}
