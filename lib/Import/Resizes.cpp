// Resize of every opset, and Upsample.
#include "Node.h"
#include "mrcc/IR/Shapes.h"

using namespace mlir;
using namespace mrcc;

namespace {
struct Settings {
  std::string mode = "nearest", coordinate = "half_pixel", nearest = "round_prefer_floor", aspect = "stretch";
  bool antialias = false, excludeOutside = false;
  float cubic = -0.75f, extrapolation = 0;
};
} // namespace

/// An operand that has no elements counts as absent.
static Value present(NodeContext &c, size_t i) {
  return c.given(i) && !(c.rank(c.in(i)) == 1 && c.dim(c.in(i), 0) == 0) ? c.in(i) : nullptr;
}

static void emit(NodeContext &c, Value x, Value roi, Value scales, Value sizes, SmallVector<int64_t> axes,
                 const Settings &s) {
  // Dimensions whose scale is 1 keep their values (unless a region is cut out): leave them alone.
  if (auto factors = scales && !roi ? getFloats(scales) : std::nullopt; factors && factors->size() == axes.size()) {
    SmallVector<int64_t> kept;
    SmallVector<float> keptFactors;
    for (auto [axis, factor] : llvm::zip(axes, *factors))
      if (factor != 1) {
        kept.push_back(axis);
        keptFactors.push_back(float(factor));
      }
    if (kept.empty())
      return c.result(x);
    auto type = RankedTensorType::get({int64_t(kept.size())}, c.builder.getF32Type());
    ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(keptFactors.data()), keptFactors.size() * 4);
    scales = makeConstant(c.builder, c.loc, makeConstantAttr(type, bytes));
    axes = kept;
  }
  auto optional = [&](Value v) { return v ? v : c.none(); };
  c.result(c.make<ResizeOp>(x, optional(roi), optional(scales), optional(sizes), s.mode, s.coordinate, s.nearest, axes,
                            s.antialias, s.aspect, llvm::APFloat(s.cubic), s.excludeOutside,
                            llvm::APFloat(s.extrapolation)));
}

static SmallVector<int64_t> resizedAxes(NodeContext &c, Value x) {
  SmallVector<int64_t> axes;
  if (auto given = c.integers("axes")) {
    for (int64_t a : *given)
      axes.push_back(c.axis(a, c.rank(x)));
    return axes;
  }
  for (int64_t i = 0; i < c.rank(x); ++i)
    axes.push_back(i);
  return axes;
}

/// Upsample, and Resize as it was in opset 10: scale by rounding coordinates down.
static Settings oldSettings(NodeContext &c) {
  Settings s;
  s.mode = c.text("mode", "nearest");
  if (s.mode == "bilinear")
    s.mode = "linear";
  s.coordinate = "asymmetric";
  s.nearest = "floor";
  return s;
}

static bool isOneOf(NodeContext &c, StringRef name, StringRef value, ArrayRef<StringRef> known) {
  if (llvm::is_contained(known, value))
    return true;
  c.unsupported(name + " '" + value + "'");
  return false;
}

static bool check(NodeContext &c, const Settings &s) {
  return isOneOf(c, "mode", s.mode, {"nearest", "linear", "cubic"}) &&
         isOneOf(c, "coordinate_transformation_mode", s.coordinate,
                 {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                  "tf_half_pixel_for_nn", "tf_crop_and_resize"}) &&
         isOneOf(c, "nearest_mode", s.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) &&
         isOneOf(c, "keep_aspect_ratio_policy", s.aspect, {"stretch", "not_larger", "not_smaller"});
}

static void resize(NodeContext &c) {
  Value x = c.in(0);
  if (c.opset < 11) {
    Settings s = oldSettings(c);
    if (check(c, s))
      emit(c, x, nullptr, c.in(1), nullptr, resizedAxes(c, x), s);
    return;
  }
  Settings s;
  s.mode = c.text("mode", "nearest");
  s.coordinate = c.text("coordinate_transformation_mode", "half_pixel");
  s.nearest = c.text("nearest_mode", "round_prefer_floor");
  s.aspect = c.text("keep_aspect_ratio_policy", "stretch");
  s.antialias = c.integer("antialias", 0);
  s.excludeOutside = c.integer("exclude_outside", 0);
  s.cubic = c.real("cubic_coeff_a", -0.75f);
  s.extrapolation = c.real("extrapolation_value", 0);
  if (!check(c, s))
    return;
  Value roi = s.coordinate == "tf_crop_and_resize" ? present(c, 1) : nullptr;
  Value scales = present(c, 2), sizes = present(c, 3);
  if (bool(scales) == bool(sizes))
    return c.invalid(scales ? "both scales and sizes are given" : "neither scales nor sizes are given");
  emit(c, x, roi, scales, sizes, resizedAxes(c, x), s);
}

static void upsample(NodeContext &c) {
  Value x = c.in(0);
  Settings s = oldSettings(c);
  if (!check(c, s))
    return;
  if (c.opset >= 9)
    return emit(c, x, nullptr, c.in(1), nullptr, resizedAxes(c, x), s);
  SmallVector<float> factors;
  if (auto *a = c.attribute("scales"))
    factors.assign(a->floats.begin(), a->floats.end());
  else
    factors = {1, 1, c.real("height_scale", 1), c.real("width_scale", 1)}; // opset 1
  auto type = RankedTensorType::get({int64_t(factors.size())}, c.builder.getF32Type());
  ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(factors.data()), factors.size() * 4);
  emit(c, x, nullptr, makeConstant(c.builder, c.loc, makeConstantAttr(type, bytes)), nullptr, resizedAxes(c, x), s);
}

void mrcc::addResize(HandlerTable &t) {
  t.add("Resize", resize);
  t.add("Upsample", upsample);
}
