// Conv and ConvTranspose, 1-D to 3-D: transposes put the channels last around the mrc op.
#include "Activations.h"
#include "Windows.h"

using namespace mlir;
using namespace mrcc;

/// How many channels the data have must fit the weights; what is not known yet is checked by inference later.
static void checkWeights(NodeContext &c, Value x, Value weights, int64_t group, bool transposed) {
  int64_t rank = c.rank(x);
  if (rank < 3)
    return c.invalid("its data have rank " + Twine(rank) + ", at least 3 is needed");
  if (c.rank(weights) != rank)
    return c.invalid("its data have rank " + Twine(rank) + ", its weights " + Twine(c.rank(weights)));
  int64_t channels = c.dim(x, 1), want = c.dim(weights, transposed ? 0 : 1);
  if (!ShapedType::isDynamic(want) && !transposed)
    want = c.times(want, group);
  if (!ShapedType::isDynamic(channels) && !ShapedType::isDynamic(want) && channels != want)
    c.invalid("its data have " + Twine(channels) + " channels, its weights are for " + Twine(want));
}

static void checkKernelShape(NodeContext &c, Value weights) {
  auto kernel = c.integers("kernel_shape");
  for (size_t i = 0; kernel && i < kernel->size(); ++i)
    if (int64_t d = c.dim(weights, int64_t(i) + 2); !ShapedType::isDynamic(d) && d != (*kernel)[i])
      return c.invalid("kernel_shape says " + Twine((*kernel)[i]) + ", the weights " + Twine(d));
}

static Value convolve(NodeContext &c, Value x, Value weights, Value bias, int64_t group) {
  Window w = readWindow(c, c.rank(x) - 2, true);
  Value v = c.make<ConvOp>(c.toChannelsLast(x), weights, bias, w.strides, w.dilations, w.pads, group, w.autoPad);
  return c.toChannelsFirst(v);
}

static void conv(NodeContext &c) {
  Value x = c.in(0), weights = c.in(1);
  int64_t group = c.integer("group", 1);
  if (group < 1)
    return c.invalid("group is " + Twine(group));
  checkWeights(c, x, weights, group, false);
  checkKernelShape(c, weights);
  if (c)
    c.result(convolve(c, x, weights, c.optional(2), group));
}

/// ONNX Runtime's Conv with an addend and an activation.
static void fusedConv(NodeContext &c) {
  conv(c);
  if (!c)
    return;
  Value v = c.results.pop_back_val();
  if (c.given(3))
    v = c.add(v, c.in(3));
  std::string name = c.text("activation", "");
  const onnx::Attribute *given = c.attribute("activation_params");
  auto parameter = [&](size_t i, double fallback) {
    return given && i < given->floats.size() ? double(given->floats[i]) : fallback;
  };
  if (name == "Clip")
    return c.result(
        c.binary(BinaryKind::min, c.binary(BinaryKind::max, v, parameter(0, -INFINITY)), parameter(1, INFINITY)));
  Activation a = activationOf(c, name);
  c.result(activate(c, {name, parameter(0, a.alpha), parameter(1, a.beta)}, v));
}

/// ONNX Runtime's channels-last Conv: data [N, spatial..., C].
static void nhwcConv(NodeContext &c) {
  Value x = c.in(0), weights = c.in(1);
  if (c.rank(x) < 3)
    return c.invalid("its data have rank " + Twine(c.rank(x)));
  Window w = readWindow(c, c.rank(x) - 2);
  c.result(c.make<ConvOp>(x, weights, c.optional(2), w.strides, w.dilations, w.pads, c.integer("group", 1), w.autoPad));
}

static void convTranspose(NodeContext &c) {
  Value x = c.in(0), weights = c.in(1);
  int64_t group = c.integer("group", 1), spatial = c.rank(x) - 2;
  if (group < 1)
    return c.invalid("group is " + Twine(group));
  checkWeights(c, x, weights, group, true);
  checkKernelShape(c, weights);
  if (!c)
    return;
  Window w = readWindow(c, spatial, true);
  auto padding = c.integers("output_padding").value_or(SmallVector<int64_t>(spatial, 0));
  auto size = c.integers("output_shape");
  if (size && int64_t(size->size()) == spatial + 2) // some exporters write batch and channels too
    size->erase(size->begin(), size->begin() + 2);
  if (int64_t(padding.size()) != spatial || (size && int64_t(size->size()) != spatial))
    return c.invalid("output_padding or output_shape do not have " + Twine(spatial) + " values");
  DenseI64ArrayAttr outputShape = size ? c.builder.getDenseI64ArrayAttr(*size) : nullptr;
  Value v = c.make<ConvTransposeOp>(c.toChannelsLast(x), weights, c.optional(2), w.strides, w.dilations, w.pads,
                                    padding, group, outputShape, w.autoPad);
  c.result(c.toChannelsFirst(v));
}

void mrcc::addConvolutions(HandlerTable &t) {
  t.add("Conv", conv);
  t.add("ConvTranspose", convTranspose);
  t.add("FusedConv", fusedConv, "com.microsoft");
  t.add("NhwcConv", nhwcConv, "com.microsoft");
}
