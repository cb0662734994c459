// resize: one pass a dimension with the taps of mrcc/IR/Resize.h; `nearest` moves bytes.
#include "mrcc/IR/Resize.h"
#include "Elements.h"

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

/// Along `axis`: out[o] = sum of weight * in[index]. `values` has `dims`, which take the new size.
static std::vector<double> alongAxis(const std::vector<double> &values, Dims &dims, int64_t axis, int64_t size,
                                     const ResizeTaps &taps) {
  int64_t outer = product(ArrayRef(dims).take_front(axis)), in = dims[axis],
          inner = product(ArrayRef(dims).drop_front(axis + 1));
  dims[axis] = size;
  std::vector<double> out(outer * size * inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t s = 0; s < size; ++s)
      for (int64_t t = 0; t < taps.width; ++t) {
        double w = taps.weight[s * taps.width + t];
        if (w == 0)
          continue; // an infinity there must not become NaN
        const double *from = values.data() + (o * in + taps.index[s * taps.width + t]) * inner;
        double *to = out.data() + (o * size + s) * inner;
        for (int64_t i = 0; i < inner; ++i)
          to[i] += w * from[i];
      }
  return out;
}

static Tensor nearest(const Tensor &in, ArrayRef<int64_t> dims, ArrayRef<int64_t> axes, ArrayRef<ResizeTaps> taps) {
  if (in.splat)
    return makeSplat(in.type, dims, in.bytes);
  Tensor out = makeTensor(in.type, dims);
  Dims strides = stridesOf(in.dims);
  uint8_t *to = out.data();
  forEachPoint(dims, [&](ArrayRef<int64_t> at) {
    Dims from(at);
    for (auto [axis, t] : llvm::zip_equal(axes, taps))
      from[axis] = t.index[at[axis]];
    int64_t offset = 0;
    for (size_t d = 0; d < from.size(); ++d)
      offset += from[d] * strides[d];
    std::memcpy(to, in.at(offset), in.width());
    to += in.width();
  });
  return out;
}

Results fold::evaluateResize(Operation *op, Operands operands) {
  auto resize = cast<ResizeOp>(op);
  const Tensor &in = operands[0];
  ArrayRef<int64_t> axes = resize.getAxes();
  auto sizes = resizeDims(op);
  if (!sizes)
    return fail("mrc.resize has scales or sizes that are not constant");
  std::vector<double> roi;
  if (operands[1].present() && computeOf(operands[1].type) == Compute::floating)
    roi = operands[1].all<double>();
  std::vector<ResizeTaps> taps;
  bool crops = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto t = resizeTaps(op, i, *sizes, roi);
    if (!t)
      return fail("mrc.resize has no constant roi of two values an axis, or more than 2^26 taps of one");
    crops |= llvm::is_contained(t->outside, 1);
    taps.push_back(std::move(*t));
  }
  Dims dims = resultDims(op);
  Tensor out;
  if (resize.getMode() == "nearest") {
    out = nearest(in, dims, axes, taps);
    if (crops)
      out = out.dense();
  } else {
    Dims now = in.dims;
    std::vector<double> values = in.all<double>();
    for (size_t i = 0; i < axes.size(); ++i)
      values = alongAxis(values, now, axes[i], (*sizes)[i].out, taps[i]);
    out = fromValues(in.type, dims, values);
  }
  if (!crops)
    return std::vector<Tensor>{std::move(out)};
  double extrapolation = resize.getExtrapolation().convertToFloat();
  int64_t n = 0;
  forEachPoint(dims, [&](ArrayRef<int64_t> at) {
    bool outside = false;
    for (auto [axis, t] : llvm::zip_equal(axes, taps))
      outside |= t.outside[at[axis]];
    if (outside)
      store(out.type, &extrapolation, 1, out.data() + n * out.width());
    ++n;
  });
  return std::vector<Tensor>{std::move(out)};
}
