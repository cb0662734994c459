// Activations. Those with a vectorised primitive map to it, the others are spelt in element-wise ops, which fuse.
#include "Activations.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

static Value less(NodeContext &c, Value v, double than) { return c.binary(BinaryKind::lt, v, than); }
static Value max(NodeContext &c, Value v, double with) { return c.binary(BinaryKind::max, v, with); }
static Value min(NodeContext &c, Value v, double with) { return c.binary(BinaryKind::min, v, with); }
static Value expm1(NodeContext &c, Value v) { return c.sub(c.unary(UnaryKind::exp, v), 1.0); }

static void pRelu(NodeContext &c) {
  Value v = c.in(0), slope = c.in(1);
  if (c.opset < 7 && c.rank(slope) == 1 && c.rank(v) > 2 && c.dim(slope, 0) != 1) { // one slope a channel
    SmallVector<int64_t> axes;
    for (int64_t i = 1; i < c.rank(v) - 1; ++i)
      axes.push_back(i);
    slope = c.unsqueeze(slope, axes);
  }
  c.result(c.select(less(c, v, 0), c.mul(v, slope), v));
}

static void selu(NodeContext &c) {
  Value v = c.in(0);
  bool old = c.opset < 6; // other defaults then
  double alpha = c.real("alpha", old ? 1.6732f : 1.67326319217681884765625f);
  double gamma = c.real("gamma", old ? 1.0507f : 1.05070102214813232421875f);
  c.result(c.select(less(c, v, 0), c.mul(expm1(c, v), alpha * gamma), c.mul(v, gamma)));
}

static void celu(NodeContext &c) {
  Value v = c.in(0);
  double alpha = c.real("alpha", 1);
  if (alpha == 0)
    return c.invalid("alpha is 0");
  c.result(c.add(max(c, v, 0), min(c, c.mul(expm1(c, c.div(v, alpha)), alpha), 0)));
}

static void hardSwish(NodeContext &c) {
  Value v = c.in(0);
  c.result(c.mul(v, min(c, max(c, c.add(c.mul(v, 1.0 / 6), 0.5), 0), 1)));
}

static void shrink(NodeContext &c) {
  Value v = c.in(0), zero = c.scalar(0, v);
  double bias = c.real("bias", 0), lambda = c.real("lambd", 0.5f);
  Value above = c.select(c.binary(BinaryKind::gt, v, lambda), c.sub(v, bias), zero);
  c.result(c.select(less(c, v, -lambda), c.add(v, bias), above));
}

static void mish(NodeContext &c) {
  Value v = c.in(0);
  c.result(c.mul(v, c.unary(UnaryKind::tanh, c.unary(UnaryKind::softplus, v))));
}

static Value swish(NodeContext &c, Value v, double alpha) {
  if (alpha == 1)
    return c.unary(UnaryKind::silu, v);
  return c.mul(v, c.unary(UnaryKind::sigmoid, c.mul(v, alpha)));
}

static void swish(NodeContext &c) { c.result(swish(c, c.in(0), c.real("alpha", 1))); }
static void quickGelu(NodeContext &c) { c.result(swish(c, c.in(0), c.real("alpha", 1.702f))); }

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
static Value tanhGelu(NodeContext &c, Value v) {
  Value cube = c.mul(c.mul(v, v), v);
  Value inner = c.mul(c.add(v, c.mul(cube, 0.044715)), std::sqrt(2 / M_PI));
  return c.mul(c.mul(v, 0.5), c.add(c.unary(UnaryKind::tanh, inner), 1.0));
}

static void gelu(NodeContext &c) {
  std::string approximate = c.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return c.invalid("approximate is '" + approximate + "'");
  c.result(approximate == "tanh" ? tanhGelu(c, c.in(0)) : c.unary(UnaryKind::gelu, c.in(0)));
}

static Value biased(NodeContext &c) { return c.given(1) ? c.add(c.in(0), c.in(1)) : c.in(0); }
static void biasGelu(NodeContext &c) { c.result(c.unary(UnaryKind::gelu, biased(c))); }
static void fastGelu(NodeContext &c) { c.result(tanhGelu(c, biased(c))); }

static void clip(NodeContext &c) {
  Value v = c.in(0);
  if (c.opset < 11) {
    if (c.has("min"))
      v = max(c, v, c.real("min", 0));
    if (c.has("max"))
      v = min(c, v, c.real("max", 0));
    return c.result(v);
  }
  if (c.given(1)) // the maximum wins where it is below the minimum
    v = c.binary(BinaryKind::max, v, c.in(1));
  if (c.given(2))
    v = c.binary(BinaryKind::min, v, c.in(2));
  c.result(v);
}

bool Activation::takesBeta() const { return name == "Affine" || name == "ScaledTanh" || name == "HardSigmoid"; }
bool Activation::takesAlpha() const {
  return takesBeta() || name == "LeakyRelu" || name == "ThresholdedRelu" || name == "Elu";
}

Activation mrcc::activationOf(NodeContext &c, std::string name) {
  static constexpr const char *known[] = {
      "",           "Relu",        "Tanh", "Sigmoid",  "Affine",  "LeakyRelu", "ThresholdedRelu",
      "ScaledTanh", "HardSigmoid", "Elu",  "Softsign", "Softplus"};
  if (!llvm::is_contained(known, name))
    c.unsupported("activation " + name);
  if (name == "LeakyRelu")
    return {name, 0.01, 0};
  if (name == "HardSigmoid")
    return {name, 0.2, 0.5};
  return {name, 1, 0};
}

Value mrcc::activate(NodeContext &c, const Activation &a, Value v) {
  StringRef name = a.name;
  if (name.empty())
    return v;
  if (name == "Tanh")
    return c.unary(UnaryKind::tanh, v);
  if (name == "Sigmoid")
    return c.unary(UnaryKind::sigmoid, v);
  if (name == "Relu")
    return max(c, v, 0);
  if (name == "Affine")
    return c.add(c.mul(v, a.alpha), a.beta);
  if (name == "LeakyRelu") {
    Value scaled = c.mul(v, a.alpha);
    // max and min take one instruction; at alpha = 0, infinity times alpha would be NaN
    if (a.alpha > 0)
      return c.binary(a.alpha <= 1 ? BinaryKind::max : BinaryKind::min, v, scaled);
    return c.select(less(c, v, 0), scaled, v);
  }
  if (name == "ThresholdedRelu")
    return c.select(c.binary(BinaryKind::gt, v, a.alpha), v, c.scalar(0, v));
  if (name == "ScaledTanh")
    return c.mul(c.unary(UnaryKind::tanh, c.mul(v, a.beta)), a.alpha);
  if (name == "HardSigmoid")
    return min(c, max(c, c.add(c.mul(v, a.alpha), a.beta), 0), 1);
  if (name == "Elu")
    return c.select(less(c, v, 0), c.mul(expm1(c, v), a.alpha), v);
  if (name == "Softsign")
    return c.div(v, c.add(c.unary(UnaryKind::abs, v), 1.0));
  return c.unary(UnaryKind::softplus, v);
}

/// An op that is one of them by itself.
static void named(NodeContext &c) {
  Activation a = activationOf(c, c.node.op);
  a.alpha = c.real("alpha", float(a.alpha)), a.beta = c.real("beta", float(a.beta));
  c.result(activate(c, a, c.in(0)));
}

void mrcc::addActivations(HandlerTable &t) {
  for (const char *op : {"Relu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Softsign"})
    t.add(op, named);
  t.add("PRelu", pRelu);
  t.add("Selu", selu);
  t.add("Celu", celu);
  t.add("HardSwish", hardSwish);
  t.add("Shrink", shrink);
  t.add("Mish", mish);
  t.add("Swish", swish);
  t.add("Gelu", gelu);
  t.add("Clip", clip);
  t.add("Gelu", gelu, "com.microsoft");
  t.add("QuickGelu", quickGelu, "com.microsoft");
  t.add("BiasGelu", biasGelu, "com.microsoft");
  t.add("FastGelu", fastGelu, "com.microsoft");
}
