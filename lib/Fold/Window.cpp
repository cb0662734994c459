// conv, conv_transpose and pool, channels last, any number of spatial dims: for each output point the window's taps,
// for each tap a row of channels.
#include "Elements.h"
#include "mrcc/Fold/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

/// [A, B, taps] as [taps, A, B]: the channels of one tap together.
template <class C> static std::vector<C> tapsFirst(const std::vector<C> &v, int64_t a, int64_t b, int64_t taps) {
  std::vector<C> out(v.size());
  for (int64_t i = 0; i < a * b; ++i)
    for (int64_t t = 0; t < taps; ++t)
      out[t * a * b + i] = v[i * taps + t];
  return out;
}

/// Position of tap `k` of a window at output point `at` in the input; -1 in the padding.
static int64_t sourceOf(ArrayRef<int64_t> at, ArrayRef<int64_t> k, ArrayRef<int64_t> in, ArrayRef<int64_t> strides,
                        ArrayRef<int64_t> dilations, ArrayRef<WindowDim> windows) {
  int64_t offset = 0;
  for (size_t d = 0; d < in.size(); ++d) {
    int64_t x = at[d] * strides[d] + k[d] * dilations[d] - windows[d].padBegin;
    if (x < 0 || x >= in[d])
      return -1;
    offset = offset * in[d] + x;
  }
  return offset;
}

template <class C> static std::vector<C> startWithBias(const Tensor &bias, int64_t points, int64_t channels) {
  std::vector<C> out(points * channels);
  if (bias.present()) {
    std::vector<C> b = bias.all<C>();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = b[i % channels];
  }
  return out;
}

template <class C> static Tensor conv(ConvOp op, Operands operands) {
  const Tensor &in = operands[0], &w = operands[1];
  Dims dims = resultDims(op);
  ArrayRef<int64_t> spatialIn = ArrayRef(in.dims).drop_front().drop_back(),
                    spatialOut = ArrayRef(dims).drop_front().drop_back();
  ArrayRef<int64_t> kernel = ArrayRef(w.dims).drop_front(2);
  int64_t oc = dims.back(), ic = in.dims.back(), groups = op.getGroup(), icGroup = ic / groups, ocGroup = oc / groups;
  int64_t pointsIn = product(spatialIn), pointsOut = product(spatialOut);
  SmallVector<WindowDim> windows = windowDims(op);
  std::vector<C> x = in.all<C>(), weights = tapsFirst(w.all<C>(), oc, icGroup, product(kernel));
  std::vector<C> out = startWithBias<C>(operands[2], dims[0] * pointsOut, oc);
  for (int64_t n = 0; n < dims[0]; ++n) {
    int64_t point = n * pointsOut;
    forEachPoint(spatialOut, [&](ArrayRef<int64_t> at) {
      C *to = out.data() + point++ * oc;
      int64_t tap = 0;
      forEachPoint(kernel, [&](ArrayRef<int64_t> k) {
        const C *row = weights.data() + tap++ * oc * icGroup;
        int64_t from = sourceOf(at, k, spatialIn, op.getStrides(), op.getDilations(), windows);
        if (from < 0)
          return;
        const C *px = x.data() + (n * pointsIn + from) * ic;
        for (int64_t o = 0; o < oc; ++o) {
          const C *group = px + o / ocGroup * icGroup;
          C sum = 0;
          for (int64_t i = 0; i < icGroup; ++i)
            sum += group[i] * row[o * icGroup + i];
          to[o] += sum;
        }
      });
    });
  }
  return fromValues(resultType(op), dims, out);
}

/// Each input point adds its product with the kernel to the output, at stride * point + dilation * tap - pad.
template <class C> static Tensor convTranspose(ConvTransposeOp op, Operands operands) {
  const Tensor &in = operands[0], &w = operands[1];
  Dims dims = resultDims(op);
  ArrayRef<int64_t> spatialIn = ArrayRef(in.dims).drop_front().drop_back(),
                    spatialOut = ArrayRef(dims).drop_front().drop_back();
  ArrayRef<int64_t> kernel = ArrayRef(w.dims).drop_front(2);
  int64_t oc = dims.back(), ic = in.dims.back(), groups = op.getGroup(), icGroup = ic / groups, ocGroup = oc / groups;
  int64_t pointsIn = product(spatialIn), pointsOut = product(spatialOut);
  SmallVector<WindowDim> windows = windowDims(op);
  std::vector<C> x = in.all<C>(), weights = tapsFirst(w.all<C>(), ic, ocGroup, product(kernel));
  std::vector<C> out = startWithBias<C>(operands[2], dims[0] * pointsOut, oc);
  for (int64_t n = 0; n < dims[0]; ++n) {
    int64_t point = n * pointsIn;
    forEachPoint(spatialIn, [&](ArrayRef<int64_t> at) {
      const C *px = x.data() + point++ * ic;
      int64_t tap = 0;
      forEachPoint(kernel, [&](ArrayRef<int64_t> k) {
        const C *row = weights.data() + tap++ * ic * ocGroup;
        int64_t to = sourceOf(at, k, spatialOut, op.getStrides(), op.getDilations(), windows);
        if (to < 0)
          return;
        C *sum = out.data() + (n * pointsOut + to) * oc;
        for (int64_t i = 0; i < ic; ++i)
          for (int64_t o = 0; o < ocGroup; ++o)
            sum[i / icGroup * ocGroup + o] += px[i] * row[i * ocGroup + o];
      });
    });
  }
  return fromValues(resultType(op), dims, out);
}

/// Cells of a window that count for an average with count_include_pad: those inside the input and its declared padding
/// (a last window of ceil_mode reaches past it).
static int64_t paddedCells(ArrayRef<int64_t> at, ArrayRef<int64_t> in, PoolOp op, ArrayRef<WindowDim> windows) {
  int64_t all = 1;
  for (size_t d = 0; d < in.size(); ++d) {
    int64_t cells = 0;
    for (int64_t k = 0; k < op.getKernel()[d]; ++k)
      cells += at[d] * op.getStrides()[d] + k * op.getDilations()[d] < in[d] + windows[d].padBegin + windows[d].padEnd;
    all *= cells;
  }
  return all;
}

static double power(double x, int64_t p) {
  double r = 1;
  for (; p > 0; p >>= 1, x *= x)
    r *= p & 1 ? x : 1;
  return r;
}

template <class C> static Tensor pool(PoolOp op, const Tensor &in) {
  Dims dims = resultDims(op);
  ArrayRef<int64_t> spatialIn = ArrayRef(in.dims).drop_front().drop_back(),
                    spatialOut = ArrayRef(dims).drop_front().drop_back();
  int64_t channels = dims.back(), pointsIn = product(spatialIn), p = op.getP();
  SmallVector<WindowDim> windows = windowDims(op);
  std::vector<C> x = in.all<C>(), out(product(dims));
  bool isMax = op.getKind() == PoolKind::max_pool;
  using Sum = Wrapping<C>;
  C lowest = std::is_same_v<C, double> ? C(-HUGE_VAL)
             : std::is_signed_v<C>     ? C(-(uint64_t(1) << (bitWidth(in.type) - 1)))
                                       : C(0);
  C *to = out.data();
  for (int64_t n = 0; n < dims[0]; ++n)
    forEachPoint(spatialOut, [&](ArrayRef<int64_t> at) {
      std::fill(to, to + channels, isMax ? lowest : C(0));
      int64_t inside = 0;
      forEachPoint(op.getKernel(), [&](ArrayRef<int64_t> k) {
        int64_t from = sourceOf(at, k, spatialIn, op.getStrides(), op.getDilations(), windows);
        if (from < 0)
          return;
        ++inside;
        const C *px = x.data() + (n * pointsIn + from) * channels;
        for (int64_t c = 0; c < channels; ++c) {
          if (isMax)
            to[c] = px[c] > to[c] || px[c] != px[c] ? px[c] : to[c];
          else if (op.getKind() == PoolKind::average_pool)
            to[c] = C(Sum(to[c]) + Sum(px[c]));
          else
            to[c] = C(Sum(to[c]) + Sum(fromDouble<C>(power(std::fabs(double(px[c])), p))));
        }
      });
      int64_t count = op.getCountIncludePad() ? paddedCells(at, spatialIn, op, windows) : inside;
      for (int64_t c = 0; c < channels && !isMax; ++c) {
        if (op.getKind() == PoolKind::average_pool)
          to[c] = std::is_same_v<C, double> ? C(to[c] / C(count)) : count ? C(to[c] / C(count)) : C(0);
        else
          to[c] = fromDouble<C>(p == 1   ? double(to[c])
                                : p == 2 ? std::sqrt(double(to[c]))
                                         : portable::pow(double(to[c]), 1.0 / double(p)));
      }
      to += channels;
    });
  return fromValues(in.type, dims, out);
}

Results fold::evaluateWindow(Operation *op, Operands operands) {
  const Tensor &in = operands[0];
  if (auto o = dyn_cast<PoolOp>(op)) {
    if (llvm::Error error = checkMultiplyAdds(op, {product(resultDims(op)), product(o.getKernel())}))
      return error;
    return std::vector<Tensor>{withCompute(in.type, [&]<class C>() { return pool<C>(o, in); })};
  }
  // Multiply-adds: points x taps x input channels x output channels of a group.
  const Tensor &w = operands[1];
  bool transposed = isa<ConvTransposeOp>(op);
  Dims points(ArrayRef(transposed ? in.dims : resultDims(op)).drop_back());
  if (llvm::Error error = checkMultiplyAdds(op, {product(points), product(w.dims)}))
    return error;
  bool floating = computeOf(in.type) == Compute::floating;
  if (auto o = dyn_cast<ConvOp>(op)) // integers wrap as uint64_t
    return std::vector<Tensor>{floating ? conv<double>(o, operands) : conv<uint64_t>(o, operands)};
  auto o = cast<ConvTransposeOp>(op);
  return std::vector<Tensor>{floating ? convTranspose<double>(o, operands) : convTranspose<uint64_t>(o, operands)};
}
