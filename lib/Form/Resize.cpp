// Resize by loads at computed places: one tap an axis for nearest, two for linear, four for cubic. Coordinates are
// computed in f32 as ONNX's reference does; scales are run-time parameters, so that resolutions share the kernel.
// Filters that widen (antialias) and crops come from tables, an axis at a time. Source: ONNX operator specification,
// Resize-19.
#include "mrcc/IR/Resize.h"
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
  FailureOr<uint32_t> coordinate(int64_t axis, int64_t in, int64_t out, float scale) {
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
      return sub(add(p.immediate(offset), div(add(x, f(0.5)), p.immediate(scale))), f(0.5)); // as resizeTaps rounds
    }
    if (mode == "align_corners")
      return out == 1 ? mul(x, f(0)) : div(mul(x, p.immediate(float(in - 1))), p.immediate(float(out - 1)));
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

template <typename T>
static Value tableOf(OpBuilder &b, Location loc, ArrayRef<T> values, ArrayRef<int64_t> dims, Type element) {
  ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(T));
  return makeConstant(b, loc, makeConstantAttr(RankedTensorType::get(dims, element), bytes));
}

/// What formulas of a few taps do not cover, from the tables of mrcc/IR/Resize.h, one pass an axis.
static FailureOr<Value> resizeByTables(ResizeOp op, OpBuilder &b) {
  Location loc = op.getLoc();
  auto sizes = resizeDims(op);
  if (!sizes)
    return failure();
  SmallVector<double> roi;
  if (auto data = getConstant(op.getRoi()); data && data->type.getElementType().isF32())
    for (int64_t i = 0, n = data->type.getNumElements(); i < n; ++i)
      roi.push_back(reinterpret_cast<const float *>(data->bytes.data())[data->isSplat ? 0 : i]);
  RankedTensorType in = typeOf(op.getInput()), out = typeOf(op.getOutput());
  DType type = toDType(in.getElementType()), wide = type == DType::f64 ? DType::f64 : DType::f32;
  bool nearest = op.getMode() == "nearest";
  Type between = nearest ? in.getElementType() : wide == DType::f64 ? Type(b.getF64Type()) : b.getF32Type();
  Value value = op.getInput();
  SmallVector<std::pair<int64_t, Value>> outside; // axis, booleans
  for (size_t i = 0; i < op.getAxes().size(); ++i) {
    auto taps = resizeTaps(op, i, *sizes, roi);
    if (!taps)
      return failure();
    int64_t axis = op.getAxes()[i], size = (*sizes)[i].out;
    SmallVector<int64_t> dims(typeOf(value).getShape());
    int64_t rank = dims.size();
    dims[axis] = size;
    Value index = tableOf(b, loc, ArrayRef(taps->index), {size, taps->width}, b.getI64Type());
    if (llvm::is_contained(taps->outside, 1))
      outside.emplace_back(axis, tableOf(b, loc, ArrayRef(taps->outside), {size}, b.getI1Type()));
    Point p(b, loc);
    Expr &e = p.body;
    uint32_t tap = nearest ? p.index(0) : e.iter(rank), n = e.extent(p.operand(value), axis);
    SmallVector<uint32_t> at;
    for (int64_t d = 0; d < rank; ++d)
      at.push_back(d == axis ? e.clampIndex(p.loadAt(index, {e.iter(d), tap}), n) : e.iter(d));
    uint32_t x = p.loadAt(value, at);
    auto result = RankedTensorType::get(dims, between);
    if (nearest) {
      value = p.loop(result, x).getResult(0);
      continue;
    }
    Value weight = tableOf(b, loc, ArrayRef(taps->weight), {size, taps->width}, b.getF32Type());
    uint32_t w = p.loadAt(weight, {e.iter(axis), tap});
    auto as = [&](uint32_t v) { return e.nodes[v].type == wide ? v : e.cast(wide, v); };
    x = e.binary(BinaryKind::mul, as(w), as(x));
    uint32_t unused = e.binary(BinaryKind::eq, w, e.constant(DType::f32, 0)); // an infinity there must not become NaN
    SmallVector<int64_t> extents(dims);
    extents.push_back(taps->width);
    value = p.reduce(result, extents, {rank}, "sum", e.select(unused, e.constant(wide, 0), x)).getResult(0);
  }
  Point p(b, loc);
  Expr &e = p.body;
  uint32_t x = p.load(value);
  if (e.nodes[x].type != type) {
    if (!isFloat(type))
      x = e.unary(UnaryKind::round_even, x);
    x = e.cast(type, x);
  }
  double fill = op.getExtrapolation().convertToFloat();
  for (auto [axis, which] : outside) {
    uint32_t hit = p.loadAt(which, {e.iter(axis)});
    x = e.select(hit, isFloat(type) ? e.constant(type, fill) : e.integer(type, int64_t(fill)), x);
  }
  return p.loop(out, x).getResult(0);
}

/// Scaling makes a size that is no whole number, which align_corners reckons with.
static bool hasFractionalSize(ResizeOp op) {
  auto sizes = resizeDims(op);
  if (!sizes || isa<NoneType>(op.getScales().getType()))
    return false;
  for (auto [axis, size] : llvm::zip_equal(op.getAxes(), *sizes))
    if (size.scale * float(typeOf(op.getInput()).getDimSize(axis)) != float(size.out))
      return true;
  return false;
}

FailureOr<Value> mrcc::lowerResize(ResizeOp op, OpBuilder &b) {
  RankedTensorType in = typeOf(op.getInput()), out = typeOf(op.getOutput());
  int64_t rank = in.getRank();
  ArrayRef<int64_t> axes = op.getAxes();
  if (op.getAntialias() || op.getAspectPolicy() != "stretch" || op.getCoordinate() == "tf_crop_and_resize" ||
      op.getCoordinate() == "tf_half_pixel_for_nn" || (op.getCoordinate() == "align_corners" && hasFractionalSize(op)))
    return resizeByTables(op, b);
  auto floats = [&](Value v) {
    SmallVector<float> values;
    if (auto data = getConstant(v); data && data->type.getElementType().isF32())
      for (int64_t i = 0, n = data->type.getNumElements(); i < n; ++i)
        values.push_back(reinterpret_cast<const float *>(data->bytes.data())[data->isSplat ? 0 : i]);
    return values;
  };
  SmallVector<float> scales = floats(op.getScales());
  Point p(b, op.getLoc());
  AxisTaps taps{p, op};
  Expr &e = p.body;
  uint32_t x = p.operand(op.getInput());
  SmallVector<SmallVector<Tap>> perDim(rank);
  for (int64_t d = 0; d < rank; ++d) {
    auto it = llvm::find(axes, d);
    size_t which = it - axes.begin();
    float scale = it == axes.end()        ? 1.0f
                  : which < scales.size() ? scales[which]
                                          : float(out.getDimSize(d)) / float(in.getDimSize(d));
    if (it == axes.end() || (in.getDimSize(d) == out.getDimSize(d) && scale == 1.0f)) {
      perDim[d] = {{e.iter(d), {}}};
      continue;
    }
    auto at = taps.coordinate(d, in.getDimSize(d), out.getDimSize(d), scale);
    if (failed(at))
      return failure();
    uint32_t n = e.extent(x, d);
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
  // The sum over all combinations of taps, innermost dims last: what is summed at one place of them can be shared by
  // points.
  DType type = toDType(in.getElementType());
  bool weighted = llvm::any_of(perDim, [](auto &t) { return t[0].weight.has_value(); });
  DType wide = weighted ? DType::f32 : type;
  SmallVector<uint32_t> at(rank);
  std::function<uint32_t(int64_t)> sum = [&](int64_t dims) -> uint32_t { // over the first ones
    if (dims == 0) {
      uint32_t v = p.loadAt(op.getInput(), at);
      return wide == type ? v : e.cast(wide, v);
    }
    std::optional<uint32_t> total;
    for (Tap &tap : perDim[dims - 1]) {
      at[dims - 1] = tap.index;
      uint32_t v = sum(dims - 1);
      if (tap.weight)
        v = taps.mul(*tap.weight, v);
      total = total ? taps.add(*total, v) : v;
    }
    return *total;
  };
  uint32_t v = sum(rank);
  if (wide != type) {
    if (!isa<FloatType>(in.getElementType()))
      v = e.unary(UnaryKind::round_even, v);
    v = e.cast(type, v);
  }
  return p.loop(out, v).getResult(0);
}
