// Resize by loads at computed places: one tap an axis for nearest, two for linear, four for cubic. Coordinates are computed
// in f32 as ONNX's reference does; scales are run-time parameters, so that resolutions share the kernel.
// Source: ONNX operator specification, Resize-19.
#include "Lower.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

namespace {
struct Tap {
  uint32_t index;                 // i64, in bounds
  std::optional<uint32_t> weight; // f32; none: 1
};

/// Emits what one axis reads.
struct AxisTaps {
  Point &p;
  ResizeOp op;
  Expr &e = p.body;

  uint32_t f(double v) { return e.constant(DType::f32, v); }
  uint32_t add(uint32_t a, uint32_t x) { return e.binary(BinaryKind::add, a, x); }
  uint32_t sub(uint32_t a, uint32_t x) { return e.binary(BinaryKind::sub, a, x); }
  uint32_t mul(uint32_t a, uint32_t x) { return e.binary(BinaryKind::mul, a, x); }
  uint32_t div(uint32_t a, uint32_t x) { return e.binary(BinaryKind::div, a, x); }

  /// The input coordinate (f32) of this point's index in `axis`.
  FailureOr<uint32_t> coordinate(int64_t axis, int64_t in, int64_t out, float scale, float roiStart, float roiEnd) {
    uint32_t x = e.cast(DType::f32, e.iter(axis));
    StringRef mode = op.getCoordinate();
    if (mode == "asymmetric")
      return div(x, p.immediate(scale));
    if (mode == "half_pixel" || (mode == "pytorch_half_pixel" && out > 1))
      return sub(div(add(x, f(0.5)), p.immediate(scale)), f(0.5));
    if (mode == "pytorch_half_pixel")
      return mul(x, f(0));
    if (mode == "half_pixel_symmetric") {
      float adjust = float(out) / (scale * float(in)), center = float(in) / 2, offset = center * (1 - adjust);
      return add(p.immediate(offset), sub(div(add(x, f(0.5)), p.immediate(scale)), f(0.5)));
    }
    if (mode == "align_corners")
      return out == 1 ? mul(x, f(0)) : div(mul(x, p.immediate(float(in - 1))), p.immediate(float(out - 1)));
    if (mode == "tf_crop_and_resize") {
      float span = float(in - 1);
      if (out == 1)
        return add(mul(x, f(0)), p.immediate(0.5f * (roiStart + roiEnd) * span));
      return add(p.immediate(roiStart * span), div(mul(x, p.immediate((roiEnd - roiStart) * span)), p.immediate(float(out - 1))));
    }
    return failure();
  }

  uint32_t asIndex(uint32_t x, uint32_t n) { return e.clampIndex(e.cast(DType::i64, x), n); }

  FailureOr<SmallVector<Tap>> nearest(uint32_t x, uint32_t n) {
    StringRef mode = op.getNearest();
    if (mode == "floor")
      return SmallVector<Tap>{{asIndex(e.unary(UnaryKind::floor, x), n), {}}};
    if (mode == "ceil")
      return SmallVector<Tap>{{asIndex(e.unary(UnaryKind::ceil, x), n), {}}};
    if (mode == "round_prefer_floor") // halves go down
      return SmallVector<Tap>{{asIndex(e.unary(UnaryKind::ceil, sub(x, f(0.5))), n), {}}};
    if (mode == "round_prefer_ceil")
      return SmallVector<Tap>{{asIndex(e.unary(UnaryKind::floor, add(x, f(0.5))), n), {}}};
    return failure();
  }

  SmallVector<Tap> linear(uint32_t x, uint32_t n) {
    uint32_t low = e.unary(UnaryKind::floor, x), part = sub(x, low), i = e.cast(DType::i64, low);
    uint32_t next = add(i, e.integer(DType::i64, 1));
    if (op.getExcludeOutside())
      return normalised({{i, sub(f(1), part)}, {next, part}}, n);
    return {{e.clampIndex(i, n), sub(f(1), part)}, {e.clampIndex(next, n), part}};
  }

  SmallVector<Tap> cubic(uint32_t x, uint32_t n) {
    // Keys' kernel with coefficient a at distances 1 + t, t, 1 - t, 2 - t.
    double a = op.getCubicCoeff().convertToFloat();
    uint32_t low = e.unary(UnaryKind::floor, x), t = sub(x, low), i = e.cast(DType::i64, low);
    auto inner = [&](uint32_t d) { return add(mul(mul(sub(mul(f(a + 2), d), f(a + 3)), d), d), f(1)); };
    auto outer = [&](uint32_t d) { return sub(mul(add(mul(sub(mul(f(a), d), f(5 * a)), d), f(8 * a)), d), f(4 * a)); };
    uint32_t s = sub(f(1), t);
    uint32_t weights[] = {outer(add(t, f(1))), inner(t), inner(s), outer(add(s, f(1)))};
    SmallVector<Tap> taps;
    for (int k = 0; k < 4; ++k)
      taps.push_back({add(i, e.integer(DType::i64, k - 1)), weights[k]});
    if (op.getExcludeOutside())
      return normalised(taps, n);
    for (Tap &tap : taps)
      tap.index = e.clampIndex(tap.index, n);
    return taps;
  }

  /// Taps outside weigh nothing, and the rest sum to 1.
  SmallVector<Tap> normalised(SmallVector<Tap> taps, uint32_t n) {
    uint32_t sum = f(0);
    for (Tap &tap : taps) {
      uint32_t in = e.binary(BinaryKind::logical_and, e.binary(BinaryKind::ge, tap.index, e.integer(DType::i64, 0)),
                             e.binary(BinaryKind::lt, tap.index, n));
      tap.weight = e.select(in, *tap.weight, f(0));
      sum = add(sum, *tap.weight);
      tap.index = e.clampIndex(tap.index, n);
    }
    for (Tap &tap : taps)
      tap.weight = div(*tap.weight, sum);
    return taps;
  }
};
} // namespace

FailureOr<Value> mrcc::lowerResize(ResizeOp op, OpBuilder &b) {
  RankedTensorType in = typeOf(op.getInput()), out = typeOf(op.getOutput());
  int64_t rank = in.getRank();
  ArrayRef<int64_t> axes = op.getAxes();
  if (op.getAntialias())
    return failure();
  auto floats = [&](Value v) {
    SmallVector<float> values;
    if (auto data = getConstant(v); data && data->type.getElementType().isF32())
      for (int64_t i = 0, n = data->type.getNumElements(); i < n; ++i)
        values.push_back(reinterpret_cast<const float *>(data->bytes.data())[data->isSplat ? 0 : i]);
    return values;
  };
  SmallVector<float> scales = floats(op.getScales()), roi = floats(op.getRoi());
  Point p(b, op.getLoc());
  AxisTaps taps{p, op};
  Expr &e = p.body;
  uint32_t x = p.operand(op.getInput());
  SmallVector<SmallVector<Tap>> perDim(rank);
  std::optional<uint32_t> outside; // tf_crop_and_resize
  for (int64_t d = 0; d < rank; ++d) {
    auto it = llvm::find(axes, d);
    size_t which = it - axes.begin();
    float scale = it == axes.end() ? 1.0f : which < scales.size() ? scales[which] : float(out.getDimSize(d)) / float(in.getDimSize(d));
    bool crop = op.getCoordinate() == "tf_crop_and_resize" && it != axes.end();
    if (it == axes.end() || (in.getDimSize(d) == out.getDimSize(d) && scale == 1.0f && !crop)) {
      perDim[d] = {{e.iter(d), {}}};
      continue;
    }
    float start = crop && roi.size() == 2 * axes.size() ? roi[which] : 0, end = crop && roi.size() == 2 * axes.size() ? roi[which + axes.size()] : 1;
    auto at = taps.coordinate(d, in.getDimSize(d), out.getDimSize(d), scale, start, end);
    if (failed(at))
      return failure();
    uint32_t n = e.extent(x, d);
    if (crop) {
      uint32_t low = e.binary(BinaryKind::lt, *at, taps.f(0));
      uint32_t high = e.binary(BinaryKind::gt, *at, p.immediate(float(in.getDimSize(d) - 1)));
      uint32_t either = e.binary(BinaryKind::logical_or, low, high);
      outside = outside ? e.binary(BinaryKind::logical_or, *outside, either) : either;
    }
    if (op.getMode() == "nearest") {
      auto one = taps.nearest(*at, n);
      if (failed(one))
        return failure();
      perDim[d] = *one;
    } else if (op.getMode() == "linear") {
      perDim[d] = taps.linear(*at, n);
    } else if (op.getMode() == "cubic") {
      perDim[d] = taps.cubic(*at, n);
    } else {
      return failure();
    }
  }
  // The sum over all combinations of taps, innermost dims first so that weights of outer dims are applied once.
  DType type = toDType(in.getElementType());
  bool weighted = llvm::any_of(perDim, [](auto &t) { return t[0].weight.has_value(); });
  DType wide = weighted ? DType::f32 : type;
  SmallVector<uint32_t> at(rank);
  std::function<uint32_t(int64_t)> sum = [&](int64_t d) -> uint32_t {
    if (d == rank) {
      uint32_t v = p.loadAt(op.getInput(), at);
      return wide == type ? v : e.cast(wide, v);
    }
    std::optional<uint32_t> total;
    for (Tap &tap : perDim[d]) {
      at[d] = tap.index;
      uint32_t v = sum(d + 1);
      if (tap.weight)
        v = taps.mul(*tap.weight, v);
      total = total ? taps.add(*total, v) : v;
    }
    return *total;
  };
  uint32_t v = sum(0);
  if (wide != type) {
    if (!isa<FloatType>(in.getElementType()))
      v = e.unary(UnaryKind::round_even, v);
    v = e.cast(type, v);
  }
  if (outside) {
    double fill = op.getExtrapolation().convertToFloat();
    v = e.select(*outside, isa<FloatType>(in.getElementType()) ? e.constant(type, fill) : e.integer(type, int64_t(fill)), v);
  }
  return p.loop(out, v).getResult(0);
}
