// gather and scatter, by index. An index out of range fails the fold; the message names it.
#include "Elements.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

/// 0 <= index < dim, counting negative ones from the end; false if out of range.
static bool wrapIndex(int64_t &index, int64_t dim) {
  index += index < 0 ? dim : 0;
  return index >= 0 && index < dim;
}

static Results gather(GatherOp op, const Tensor &in, const Tensor &indices) {
  int64_t axis = op.getAxis(), dim = in.dims[axis];
  int64_t outer = product(ArrayRef(in.dims).take_front(axis)), inner = product(ArrayRef(in.dims).drop_front(axis + 1));
  std::vector<int64_t> at = indices.integers();
  for (int64_t &i : at)
    if (int64_t given = i; !wrapIndex(i, dim))
      return fail("index {0} is out of range for a dimension of {1}", given, dim);
  if (in.splat)
    return std::vector<Tensor>{makeSplat(in.type, resultDims(op), in.bytes)};
  Tensor out = makeTensor(in.type, resultDims(op));
  size_t piece = inner * in.width();
  uint8_t *to = out.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i : at) {
      std::copy_n(in.bytes.data() + (o * dim + i) * piece, piece, to);
      to += piece;
    }
  return std::vector<Tensor>{std::move(out)};
}

static Results gatherElements(GatherElementsOp op, const Tensor &in, const Tensor &indices) {
  int64_t axis = op.getAxis();
  Dims strides = stridesOf(in.dims);
  std::vector<int64_t> values = indices.integers();
  Tensor out = makeTensor(in.type, resultDims(op));
  size_t w = in.width(), n = 0;
  std::optional<int64_t> wrong;
  forEachPoint(out.dims, [&](ArrayRef<int64_t> at) {
    int64_t index = values[n], from = 0;
    if (!wrapIndex(index, in.dims[axis]))
      wrong = values[n], index = 0;
    for (size_t d = 0; d < at.size(); ++d)
      from += (int64_t(d) == axis ? index : at[d]) * strides[d];
    std::memcpy(out.data() + n++ * w, in.at(from), w);
  });
  if (wrong)
    return fail("index {0} is out of range for a dimension of {1}", *wrong, in.dims[axis]);
  return std::vector<Tensor>{std::move(out)};
}

static Results gatherND(GatherNDOp op, const Tensor &in, const Tensor &indices) {
  int64_t batch = op.getBatchDims(), length = indices.dims.back();
  Dims strides = stridesOf(in.dims);
  int64_t batches = product(ArrayRef(indices.dims).take_front(batch));
  int64_t tuples = product(ArrayRef(indices.dims).drop_front(batch).drop_back());
  int64_t perBatch = product(ArrayRef(in.dims).drop_front(batch)),
          inner = product(ArrayRef(in.dims).drop_front(batch + length));
  std::vector<int64_t> values = indices.integers();
  Tensor source = in.dense(), out = makeTensor(in.type, resultDims(op));
  size_t piece = inner * in.width();
  for (int64_t b = 0, k = 0; b < batches; ++b)
    for (int64_t t = 0; t < tuples; ++t, ++k) {
      int64_t from = b * perBatch;
      for (int64_t j = 0; j < length; ++j) {
        int64_t index = values[k * length + j];
        if (!wrapIndex(index, in.dims[batch + j]))
          return fail("index {0} is out of range for a dimension of {1}", index, in.dims[batch + j]);
        from += index * strides[batch + j];
      }
      std::copy_n(source.bytes.data() + from * in.width(), piece, out.data() + k * piece);
    }
  return std::vector<Tensor>{std::move(out)};
}

/// One element of a scatter: out[to] = out[to] op update.
template <class C> static C combine(ScatterKind kind, C a, C b) {
  switch (kind) {
  case ScatterKind::add:
    return C(Wrapping<C>(a) + Wrapping<C>(b));
  case ScatterKind::mul:
    return C(Wrapping<C>(a) * Wrapping<C>(b));
  case ScatterKind::max:
    return b > a || b != b ? b : a;
  case ScatterKind::min:
    return b < a || b != b ? b : a;
  case ScatterKind::none:
    break;
  }
  return b;
}
static void scatterOne(ScatterKind kind, Tensor &out, int64_t to, const Tensor &updates, int64_t from) {
  uint8_t *at = out.data() + to * out.width();
  if (kind == ScatterKind::none)
    return void(std::memcpy(at, updates.at(from), out.width()));
  withCompute(out.type, [&]<class C>() {
    C a, b;
    load(out.type, at, 1, &a);
    load(updates.type, updates.at(from), 1, &b);
    C c = combine<C>(kind, a, b);
    store(out.type, &c, 1, at);
  });
}

/// A copy of the input to write into.
static Tensor copyOf(const Tensor &in) {
  Tensor out = makeTensor(in.type, in.dims);
  Tensor dense = in.dense();
  std::copy_n(dense.bytes.data(), dense.bytes.size(), out.data());
  return out;
}

static Results scatterElements(ScatterElementsOp op, Operands operands) {
  int64_t axis = op.getAxis(), n = 0;
  Tensor out = copyOf(operands[0]);
  Dims strides = stridesOf(out.dims);
  std::vector<int64_t> values = operands[1].integers();
  std::optional<int64_t> wrong;
  forEachPoint(operands[1].dims, [&](ArrayRef<int64_t> at) {
    int64_t index = values[n], to = 0;
    bool inside = wrapIndex(index, out.dims[axis]);
    for (size_t d = 0; d < at.size(); ++d) {
      int64_t i = int64_t(d) == axis ? index : at[d];
      inside &= i < out.dims[d];
      to += i * strides[d];
    }
    if (inside)
      scatterOne(op.getReduction(), out, to, operands[2], n);
    else
      wrong = values[n];
    ++n;
  });
  if (wrong)
    return fail("index {0} is out of range for a dimension of {1}", *wrong, out.dims[axis]);
  return std::vector<Tensor>{std::move(out)};
}

static Results scatterND(ScatterNDOp op, Operands operands) {
  Tensor out = copyOf(operands[0]);
  int64_t length = operands[1].dims.back();
  Dims strides = stridesOf(out.dims);
  int64_t tuples = product(ArrayRef(operands[1].dims).drop_back()),
          inner = product(ArrayRef(out.dims).drop_front(length));
  std::vector<int64_t> values = operands[1].integers();
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to = 0;
    for (int64_t j = 0; j < length; ++j) {
      int64_t index = values[t * length + j];
      if (!wrapIndex(index, out.dims[j]))
        return fail("index {0} is out of range for a dimension of {1}", index, out.dims[j]);
      to += index * strides[j];
    }
    for (int64_t i = 0; i < inner; ++i)
      scatterOne(op.getReduction(), out, to + i, operands[2], t * inner + i);
  }
  return std::vector<Tensor>{std::move(out)};
}

Results fold::evaluateIndexed(Operation *op, Operands operands) {
  return TypeSwitch<Operation *, Results>(op)
      .Case([&](GatherOp o) { return gather(o, operands[0], operands[1]); })
      .Case([&](GatherElementsOp o) { return gatherElements(o, operands[0], operands[1]); })
      .Case([&](GatherNDOp o) { return gatherND(o, operands[0], operands[1]); })
      .Case([&](ScatterElementsOp o) { return scatterElements(o, operands); })
      .Case([&](ScatterNDOp o) { return scatterND(o, operands); });
}
