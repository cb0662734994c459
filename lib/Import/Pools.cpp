// Pooling: windows over the spatial dimensions, and global pools, which are reductions.
#include "Windows.h"
#include "mrcc/IR/Shapes.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

Window mrcc::readWindow(NodeContext &c, int64_t spatial, bool negativePads) {
  Window w;
  auto list = [&](StringRef name, size_t size, int64_t fallback, int64_t least) {
    auto values = c.integers(name);
    if (!values)
      return SmallVector<int64_t>(size, fallback);
    if (values->size() != size)
      c.invalid(name + " has " + Twine(values->size()) + " values, " + Twine(size) + " are needed");
    for (int64_t v : *values)
      if (v < least || v > INT32_MAX)
        c.invalid(name + " is " + Twine(v) + ", expected " + Twine(least) + " to " + Twine(INT32_MAX));
    values->resize(size, fallback);
    return *values;
  };
  size_t n = size_t(std::max<int64_t>(spatial, 0));
  w.strides = list("strides", n, 1, 1);
  w.dilations = list("dilations", n, 1, 1);
  w.pads = list("pads", 2 * n, 0, negativePads ? INT32_MIN : 0);
  if (c.has("kernel_shape"))
    w.kernel = list("kernel_shape", n, 1, 1);
  w.autoPad = c.text("auto_pad", "NOTSET");
  if (w.autoPad == "NOTSET" || w.autoPad.empty())
    w.autoPad = "explicit";
  else if (w.autoPad != "SAME_UPPER" && w.autoPad != "SAME_LOWER" && w.autoPad != "VALID")
    c.invalid("auto_pad is '" + w.autoPad + "'");
  return w;
}

/// Where in the tensor each maximum was found: one comparison per place in the window. `pooled` is the op's own result.
static Value maxIndices(NodeContext &c, Value x, Value pooled, const Window &w) {
  int64_t spatial = c.rank(x) - 2, places = 1;
  SmallVector<int64_t> in, out, begins, pads(2 * (spatial + 2), 0);
  for (int64_t d = 0; d < spatial; ++d) {
    in.push_back(c.dim(x, d + 2));
    out.push_back(c.dim(pooled, d + 2));
    places *= w.kernel[d];
    if (ShapedType::isDynamic(in[d]) || ShapedType::isDynamic(out[d]) || places > 4096)
      return c.unsupported("output Indices of an image of unknown size or a large window"), x;
    int64_t reach = (out[d] - 1) * w.strides[d] + w.dilations[d] * (w.kernel[d] - 1) + 1;
    begins.push_back(windowDim(w.autoPad, in[d], w.kernel[d], w.strides[d], w.dilations[d], w.pads[d],
                               w.pads[d + spatial], c.integer("ceil_mode", 0))
                         .padBegin);
    pads[d + 2] = begins[d];
    pads[d + 4 + spatial] = reach - in[d] - begins[d];
  }
  double lowest = c.isFloat(x) ? -INFINITY : c.element(x).isUnsignedInteger() ? 0 : -128;
  Value padded = c.make<PadOp>(PadMode::constant, x, c.constant(pads), c.scalar(lowest, x), c.none());
  SmallVector<int64_t> axes, strides(w.strides), weights(spatial, 1); // of each dimension in a flat index
  for (int64_t d = 0; d < spatial; ++d)
    axes.push_back(d + 2);
  bool columns = c.integer("storage_order", 0);
  for (int64_t i = 1; i < spatial; ++i) {
    int64_t d = columns ? i : spatial - 1 - i;
    weights[d] = weights[columns ? d - 1 : d + 1] * in[columns ? d - 1 : d + 1];
  }
  int64_t image = 1;
  for (int64_t d : in)
    image *= d;
  Value base = c.mul(c.reshapeTo(c.range(c.product({c.dimOf(x, 0), c.dimOf(x, 1)})), {c.dimOf(x, 0), c.dimOf(x, 1)}),
                     double(image));
  base = c.unsqueeze(base, axes);
  for (int64_t d = 0; d < spatial; ++d) {
    SmallVector<int64_t> behind;
    for (int64_t i = d + 1; i < spatial; ++i)
      behind.push_back(i - d);
    Value at = c.mul(c.sub(c.mul(c.range(out[d]), double(w.strides[d])), double(begins[d])), double(weights[d]));
    base = c.add(base, behind.empty() ? at : c.unsqueeze(at, behind));
  }
  Value best, index;
  for (int64_t place = 0; place < places; ++place) {
    SmallVector<int64_t> starts(spatial), ends(spatial);
    int64_t rest = place, offset = 0;
    for (int64_t d = spatial; d-- > 0; rest /= w.kernel[d]) {
      starts[d] = rest % w.kernel[d] * w.dilations[d];
      ends[d] = starts[d] + (out[d] - 1) * w.strides[d] + 1;
      offset += starts[d] * weights[d];
    }
    Value v = c.make<SliceOp>(padded, c.constant(starts), c.constant(ends), c.constant(axes), c.constant(strides));
    Value here = c.add(base, double(offset));
    index = index ? c.select(c.binary(BinaryKind::gt, v, best), here, index) : c.make<ExpandOp>(here, c.shapeOf(v));
    best = best ? c.binary(BinaryKind::max, best, v) : v;
  }
  return index;
}

/// The p of a norm; the other pools have none.
static int64_t norm(NodeContext &c) {
  int64_t p = c.integer("p", 2);
  if (p < 1)
    c.invalid("p is " + Twine(p));
  return p;
}

template <PoolKind kind> static void pool(NodeContext &c) {
  Value x = c.in(0);
  if (c.rank(x) < 3)
    return c.invalid("its data have rank " + Twine(c.rank(x)) + ", at least 3 is needed");
  Window w = readWindow(c, c.rank(x) - 2);
  if (w.kernel.empty())
    return c.missing("kernel_shape");
  Value v = c.make<PoolOp>(kind, c.toChannelsLast(x), w.kernel, w.strides, w.dilations, w.pads, w.autoPad,
                           bool(c.integer("ceil_mode", 0)), bool(c.integer("count_include_pad", 0)),
                           kind == PoolKind::lp_pool ? norm(c) : 2);
  c.result(c.toChannelsFirst(v));
  if (kind == PoolKind::max_pool && c.wants(1) && c)
    c.result(maxIndices(c, x, c.results[0], w));
}

static SmallVector<int64_t> spatialAxes(NodeContext &c, Value x) {
  SmallVector<int64_t> axes;
  for (int64_t i = 2; i < c.rank(x); ++i)
    axes.push_back(i);
  return axes;
}

template <ReduceKind kind> static void globalPool(NodeContext &c) {
  Value x = c.in(0);
  c.result(c.reduce(kind, x, spatialAxes(c, x)));
}

static void globalLpPool(NodeContext &c) {
  Value x = c.in(0);
  auto axes = spatialAxes(c, x);
  int64_t p = norm(c);
  if (p == 1 || p == 2)
    return c.result(c.reduce(p == 1 ? ReduceKind::l1 : ReduceKind::l2, x, axes));
  Value sum = c.reduce(ReduceKind::sum, c.binary(BinaryKind::pow, c.unary(UnaryKind::abs, x), double(p)), axes);
  c.result(c.binary(BinaryKind::pow, sum, 1.0 / double(p)));
}

void mrcc::addPools(HandlerTable &t) {
  t.add("MaxPool", pool<PoolKind::max_pool>);
  t.add("AveragePool", pool<PoolKind::average_pool>);
  t.add("LpPool", pool<PoolKind::lp_pool>);
  t.add("GlobalAveragePool", globalPool<ReduceKind::mean>);
  t.add("GlobalMaxPool", globalPool<ReduceKind::max>);
  t.add("GlobalLpPool", globalLpPool);
}
