// The coordinates and filters of ONNX Resize; see the header.
#include "mrcc/IR/Resize.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

namespace {
struct Axis {
  int64_t in, out;
  float scale, width; // width: the exact, maybe fractional, size after scaling
  float roiStart = 0, roiEnd = 1;
};
} // namespace

/// The input coordinate of an output index.
static float sourceOf(StringRef mode, int64_t index, const Axis &a) {
  float x = float(index), last = float(a.in - 1);
  if (mode == "asymmetric")
    return x / a.scale;
  if (mode == "align_corners")
    return a.width == 1 ? 0 : x * last / (a.width - 1);
  if (mode == "pytorch_half_pixel")
    return a.out > 1 ? (x + 0.5f) / a.scale - 0.5f : 0;
  if (mode == "tf_half_pixel_for_nn")
    return (x + 0.5f) / a.scale;
  if (mode == "half_pixel_symmetric") {
    float offset = float(a.in) / 2 * (1 - float(a.out) / a.width);
    return offset + (x + 0.5f) / a.scale - 0.5f;
  }
  if (mode == "tf_crop_and_resize") {
    if (a.out > 1)
      return a.roiStart * last + x * (a.roiEnd - a.roiStart) * last / float(a.out - 1);
    return 0.5f * (a.roiStart + a.roiEnd) * last;
  }
  return (x + 0.5f) / a.scale - 0.5f; // half_pixel
}

/// ONNX Runtime takes what lies within 1e-6 of a half for a tie; float32 coordinates miss it often by that.
static int64_t nearestOf(StringRef mode, float x) {
  float below = std::floor(x);
  if (mode == "floor")
    return int64_t(below);
  if (mode == "ceil")
    return int64_t(std::ceil(x));
  bool up = x - below > 0.5f;
  if (std::fabs(x - below - 0.5f) <= 1e-6f)
    up = mode == "round_prefer_ceil"; // else round_prefer_floor
  return int64_t(below) + up;
}

static double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Of an axis: more take gigabytes.
static constexpr int64_t mostTaps = int64_t(1) << 26;

std::optional<ResizeTaps> mrcc::resizeTaps(Operation *op, size_t i, ArrayRef<ResizeDim> dims, ArrayRef<double> roi) {
  auto resize = cast<ResizeOp>(op);
  ArrayRef<int64_t> axes = resize.getAxes();
  auto type = cast<RankedTensorType>(resize.getInput().getType());
  StringRef mode = resize.getMode(), coordinate = resize.getCoordinate();
  Axis a{type.getDimSize(axes[i]), dims[i].out, dims[i].scale, 0};
  bool exact = !isa<NoneType>(resize.getSizes().getType()) && resize.getAspectPolicy() == "stretch";
  a.width = exact ? float(a.out) : a.scale * float(a.in);
  if (coordinate == "tf_crop_and_resize") {
    if (roi.size() != 2 * axes.size())
      return std::nullopt;
    a.roiStart = float(roi[i]);
    a.roiEnd = float(roi[i + axes.size()]);
  }
  ResizeTaps taps;
  bool nearest = mode == "nearest", linear = mode == "linear";
  double shrink = resize.getAntialias() && a.scale < 1 ? a.scale : 1; // the filter widens where sizes shrink
  int64_t support = linear ? 1 : 2, first = nearest ? 0 : int64_t(std::floor(-support / shrink)) + 1;
  taps.width = nearest ? 1 : 2 - 2 * first;
  if (a.out > mostTaps / taps.width)
    return std::nullopt;
  double coefficient = resize.getCubicCoeff().convertToFloat();
  for (int64_t o = 0; o < a.out; ++o) {
    float x = sourceOf(coordinate, o, a);
    if (coordinate == "tf_crop_and_resize")
      taps.outside.push_back(x < 0 || x > float(a.in - 1));
    auto clamp = [&](int64_t at) { return std::min(std::max<int64_t>(at, 0), a.in - 1); };
    if (nearest) {
      taps.index.push_back(clamp(nearestOf(resize.getNearest(), x)));
      taps.weight.push_back(1);
      continue;
    }
    int64_t base = int64_t(std::ceil(x)) - 1; // so that x - base lies in (0, 1]
    double sum = 0;
    SmallVector<double> weights;
    for (int64_t t = 0; t < taps.width; ++t) {
      int64_t at = base + first + t;
      double distance = (at - double(x)) * shrink;
      double w = linear ? std::max(0.0, 1 - std::fabs(distance)) : cubic(distance, coefficient);
      if (resize.getExcludeOutside() && (at < 0 || at >= a.in))
        w = 0;
      weights.push_back(w);
      sum += w;
      taps.index.push_back(clamp(at));
    }
    for (double w : weights)
      taps.weight.push_back(float(w / sum));
  }
  return taps;
}
