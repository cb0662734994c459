// Pooling: windows over the spatial dimensions, and global pools, which are reductions.
#include "Windows.h"

using namespace mlir;
using namespace mrcc;

Window mrcc::readWindow(NodeContext &c, int64_t spatial) {
  Window w;
  auto list = [&](StringRef name, size_t size, int64_t fallback, int64_t least) {
    auto values = c.integers(name);
    if (!values)
      return SmallVector<int64_t>(size, fallback);
    if (values->size() != size)
      c.invalid(name + " has " + Twine(values->size()) + " values, " + Twine(size) + " are needed");
    for (int64_t v : *values)
      if (v < least || v > INT32_MAX)
        c.invalid(name + " is " + Twine(v));
    values->resize(size, fallback);
    return *values;
  };
  size_t n = size_t(std::max<int64_t>(spatial, 0));
  w.strides = list("strides", n, 1, 1);
  w.dilations = list("dilations", n, 1, 1);
  w.pads = list("pads", 2 * n, 0, INT32_MIN);
  if (c.has("kernel_shape"))
    w.kernel = list("kernel_shape", n, 1, 1);
  w.autoPad = c.text("auto_pad", "NOTSET");
  if (w.autoPad == "NOTSET" || w.autoPad.empty())
    w.autoPad = "explicit";
  else if (w.autoPad != "SAME_UPPER" && w.autoPad != "SAME_LOWER" && w.autoPad != "VALID")
    c.invalid("auto_pad is '" + w.autoPad + "'");
  return w;
}

template <PoolKind kind> static void pool(NodeContext &c) {
  Value x = c.in(0);
  if (c.rank(x) < 3)
    return c.invalid("its data have rank " + Twine(c.rank(x)) + ", at least 3 is needed");
  if (c.wants(1))
    return c.unsupported("output Indices");
  Window w = readWindow(c, c.rank(x) - 2);
  if (w.kernel.empty())
    return c.invalid("kernel_shape is missing");
  Value v = c.make<PoolOp>(kind, c.toChannelsLast(x), w.kernel, w.strides, w.dilations, w.pads, w.autoPad,
                           bool(c.integer("ceil_mode", 0)), bool(c.integer("count_include_pad", 0)), c.integer("p", 2));
  c.result(c.toChannelsFirst(v));
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
  int64_t p = c.integer("p", 2);
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
