// Windowed ops. Packed float weights go to the scheduled families; weights that are not constant are packed by a launch
// of their own; other ranks and types are reductions over the window by the loop family.
#include "Lower.h"

using namespace mlir;
using namespace mrcc;

namespace {
/// A convolution's numbers, whatever its rank: spatial dims are [1, rank - 1) of input and output.
struct Geometry {
  SmallVector<int64_t> kernel, strides, dilations, pads;
  int64_t group = 1, oc = 0, ic = 0; // of the whole layer
  int64_t spatial() const { return kernel.size(); }
};
} // namespace

template <typename Op> static Geometry geometryOf(Op op) {
  Geometry g;
  g.strides.assign(op.getStrides().begin(), op.getStrides().end());
  g.dilations.assign(op.getDilations().begin(), op.getDilations().end());
  g.pads.assign(op.getPads().begin(), op.getPads().end());
  g.group = op.getGroup();
  g.oc = typeOf(op.getOutput()).getShape().back();
  g.ic = typeOf(op.getInput()).getShape().back();
  if (auto packed = op->template getAttrOfType<DenseI64ArrayAttr>("packed_kernel"))
    g.kernel.assign(packed.asArrayRef().begin(), packed.asArrayRef().end());
  else
    llvm::append_range(g.kernel, typeOf(op.getWeights()).getShape().drop_front(2));
  return g;
}

/// [.., W, C] -> [.., 1, W, C]: a 1-D window as a 2-D one.
static Value withHeight(OpBuilder &b, Location loc, Value v) {
  SmallVector<int64_t> dims(typeOf(v).getShape());
  dims.insert(dims.begin() + 1, 1);
  return createReshape(b, loc, v, dims);
}

static void addHeight(Geometry &g) {
  g.kernel.insert(g.kernel.begin(), 1);
  g.strides.insert(g.strides.begin(), 1);
  g.dilations.insert(g.dilations.begin(), 1);
  g.pads.insert(g.pads.begin() + 1, 0); // end of the only dimension moves to the last place
  g.pads.insert(g.pads.begin(), 0);
}

/// acc (+ bias), the body of a convolution before fusion. f16 and bf16 are summed in f32 and rounded once.
static Expr accBody(DType type, bool bias) {
  Expr e;
  const DType wide = sumType(type);
  uint32_t y = e.acc(wide);
  if (bias) {
    uint32_t b = e.load(type, 2);
    y = e.binary(BinaryKind::add, y, wide == type ? b : e.cast(wide, b));
  }
  e.results = {wide == type ? y : e.cast(type, y)};
  return e;
}

/// The scheduled families: floats, one or two spatial dims. `weights` are packed.
static Value launchWindow(OpBuilder &b, Location loc, StringRef family, Value input, Value weights, Value bias,
                          Geometry g, RankedTensorType result) {
  bool oneDim = g.spatial() == 1;
  RankedTensorType type = result;
  if (oneDim) {
    input = withHeight(b, loc, input);
    addHeight(g);
    SmallVector<int64_t> dims(result.getShape());
    dims.insert(dims.begin() + 1, 1);
    type = RankedTensorType::get(dims, result.getElementType());
  }
  SmallVector<Value> inputs{input, weights};
  if (!isa<NoneType>(bias.getType()))
    inputs.push_back(bias);
  LaunchConfig config(b.getContext());
  config.set("kernel", g.kernel).set("strides", g.strides).set("dilations", g.dilations).set("pads", g.pads);
  if (family != "depthwise")
    config.set("group", g.group).set("oc", g.oc);
  Value out =
      createLaunch(b, loc, type, inputs, family, config, accBody(toDType(result.getElementType()), inputs.size() > 2))
          .getResult(0);
  return oneDim ? createReshape(b, loc, out, result.getShape()) : out;
}

/// Any rank and type: a reduction over window and channels.
static Value pointConv(OpBuilder &b, Location loc, Value input, Value weights, Value bias, const Geometry &g,
                       RankedTensorType result) {
  Point p(b, loc);
  Expr &e = p.body;
  int64_t rank = result.getRank(), icg = g.ic / g.group, ocg = g.oc / g.group;
  SmallVector<int64_t> extents(result.getShape()), reduce;
  llvm::append_range(extents, g.kernel);
  extents.push_back(icg);
  for (int64_t i = rank; i < int64_t(extents.size()); ++i)
    reduce.push_back(i);
  uint32_t x = p.operand(input), oc = e.iter(rank - 1), ic = e.iter(extents.size() - 1);
  SmallVector<uint32_t> at{e.iter(0)}, wAt{oc, ic};
  std::optional<uint32_t> inside;
  for (int64_t i = 0; i < g.spatial(); ++i) {
    uint32_t k = e.iter(rank + i), n = e.extent(x, 1 + i);
    uint32_t pos =
        e.binary(BinaryKind::add, e.binary(BinaryKind::mul, e.iter(1 + i), p.index(g.strides[i])),
                 e.binary(BinaryKind::sub, e.binary(BinaryKind::mul, k, p.index(g.dilations[i])), p.index(g.pads[i])));
    uint32_t in =
        e.binary(BinaryKind::logical_and, e.binary(BinaryKind::ge, pos, p.index(0)), e.binary(BinaryKind::lt, pos, n));
    inside = inside ? e.binary(BinaryKind::logical_and, *inside, in) : in;
    at.push_back(e.clampIndex(pos, n));
    wAt.push_back(k);
  }
  at.push_back(g.group == 1
                   ? ic
                   : e.binary(BinaryKind::add,
                              e.binary(BinaryKind::mul, e.binary(BinaryKind::div, oc, p.index(ocg)), p.index(icg)),
                              ic));
  DType type = toDType(result.getElementType()), wide = sumType(type);
  auto as = [&](uint32_t v) { return e.nodes[v].type == wide ? v : e.cast(wide, v); };
  uint32_t value = e.binary(BinaryKind::mul, as(p.loadAt(input, at)), as(p.loadAt(weights, wAt)));
  value = e.select(*inside, value, e.number(wide, 0));
  auto post = [&](uint32_t acc) {
    if (!isa<NoneType>(bias.getType()))
      acc = e.binary(BinaryKind::add, acc, as(p.loadAt(bias, {oc})));
    return wide == type ? acc : e.cast(type, acc);
  };
  return p.reduce(result, extents, reduce, "sum", value, post).getResult(0);
}

FailureOr<Value> mrcc::lowerConv(ConvOp op, OpBuilder &b) {
  Geometry g = geometryOf(op);
  Location loc = op.getLoc();
  RankedTensorType result = typeOf(op.getOutput());
  bool packed = op->hasAttr("packed_kernel");
  bool scheduled = isScheduledType(op.getInput()) && g.spatial() <= 2;
  if (!scheduled && packed)
    return failure();
  if (!scheduled)
    return pointConv(b, loc, op.getInput(), op.getWeights(), op.getBias(), g, result);
  bool depthwise = g.group == g.ic && g.group == g.oc && g.group > 1;
  Value weights = op.getWeights();
  if (!packed) {
    SmallVector<int64_t> dims(typeOf(weights).getShape());
    if (dims.size() == 3)
      weights = createReshape(b, loc, weights, {dims[0], dims[1], 1, dims[2]});
    auto pack = PackOp::create(b, loc, typeOf(weights), weights, depthwise ? "depthwise" : "conv", g.group);
    if (failed(reinfer(pack)))
      return failure();
    auto made = lowerPack(pack, b);
    if (failed(made))
      return failure();
    weights = *made;
    pack.erase();
  }
  return launchWindow(b, loc, depthwise ? "depthwise" : "conv", op.getInput(), weights, op.getBias(), g, result);
}

FailureOr<Value> mrcc::lowerConvTranspose(ConvTransposeOp op, OpBuilder &b) {
  Geometry g = geometryOf(op);
  Location loc = op.getLoc();
  RankedTensorType result = typeOf(op.getOutput());
  if (op->hasAttr("packed_kernel")) {
    if (!isScheduledType(op.getInput()) || g.spatial() > 2)
      return failure();
    return launchWindow(b, loc, "conv_transpose", op.getInput(), op.getWeights(), op.getBias(), g, result);
  }
  // out[o] = sum over k, ic with o + pad - k * dilation divisible by the stride of in[that / stride] * w[ic, oc, k]
  Point p(b, loc);
  Expr &e = p.body;
  int64_t rank = result.getRank(), icg = g.ic / g.group, ocg = g.oc / g.group;
  SmallVector<int64_t> extents(result.getShape()), reduce;
  llvm::append_range(extents, g.kernel);
  extents.push_back(icg);
  for (int64_t i = rank; i < int64_t(extents.size()); ++i)
    reduce.push_back(i);
  uint32_t x = p.operand(op.getInput()), oc = e.iter(rank - 1), ic = e.iter(extents.size() - 1);
  if (g.group > 1)
    ic = e.binary(BinaryKind::add, e.binary(BinaryKind::mul, e.binary(BinaryKind::div, oc, p.index(ocg)), p.index(icg)),
                  ic);
  SmallVector<uint32_t> at{e.iter(0)}, wAt{ic, g.group == 1 ? oc : e.binary(BinaryKind::mod, oc, p.index(ocg))};
  std::optional<uint32_t> inside;
  for (int64_t i = 0; i < g.spatial(); ++i) {
    uint32_t k = e.iter(rank + i), n = e.extent(x, 1 + i);
    uint32_t pos = e.binary(BinaryKind::sub, e.binary(BinaryKind::add, e.iter(1 + i), p.index(g.pads[i])),
                            e.binary(BinaryKind::mul, k, p.index(g.dilations[i])));
    uint32_t from = e.binary(BinaryKind::div, pos, p.index(g.strides[i]));
    uint32_t in =
        e.binary(BinaryKind::logical_and, e.binary(BinaryKind::ge, pos, p.index(0)), e.binary(BinaryKind::lt, from, n));
    in = e.binary(BinaryKind::logical_and, in,
                  e.binary(BinaryKind::eq, e.binary(BinaryKind::mul, from, p.index(g.strides[i])), pos));
    inside = inside ? e.binary(BinaryKind::logical_and, *inside, in) : in;
    at.push_back(e.clampIndex(from, n));
    wAt.push_back(k);
  }
  at.push_back(ic);
  DType type = toDType(result.getElementType()), wide = bitWidth(type) == 16 ? DType::f32 : type;
  auto as = [&](uint32_t v) { return e.nodes[v].type == wide ? v : e.cast(wide, v); };
  uint32_t value = e.binary(BinaryKind::mul, as(p.loadAt(op.getInput(), at)), as(p.loadAt(op.getWeights(), wAt)));
  value = e.select(*inside, value, e.constant(wide, 0));
  return p
      .reduce(result, extents, reduce, "sum", value,
              [&](uint32_t acc) {
                if (!isa<NoneType>(op.getBias().getType()))
                  acc = e.binary(BinaryKind::add, acc, as(p.loadAt(op.getBias(), {oc})));
                return wide == type ? acc : e.cast(type, acc);
              })
      .getResult(0);
}

/// The lowest value of a type: the maximum of nothing.
static uint32_t lowest(Expr &e, DType t) {
  switch (t) {
  case DType::f32:
  case DType::f64:
  case DType::f16:
  case DType::bf16:
    return e.constant(t, -std::numeric_limits<double>::infinity());
  case DType::i8:
    return e.integer(t, INT8_MIN);
  case DType::i16:
    return e.integer(t, INT16_MIN);
  case DType::i32:
    return e.integer(t, INT32_MIN);
  case DType::i64:
    return e.integer(t, INT64_MIN);
  default:
    return e.integer(t, 0);
  }
}

FailureOr<Value> mrcc::lowerPool(PoolOp op, OpBuilder &b) {
  Point p(b, op.getLoc());
  Expr &e = p.body;
  RankedTensorType result = typeOf(op.getOutput());
  DType type = toDType(result.getElementType());
  const bool isMax = op.getKind() == PoolKind::max_pool;
  const DType wide = isMax ? type : sumType(type);
  int64_t rank = result.getRank(), spatial = rank - 2;
  SmallVector<int64_t> extents(result.getShape()), reduce;
  llvm::append_range(extents, op.getKernel());
  for (int64_t i = 0; i < spatial; ++i)
    reduce.push_back(rank + i);
  uint32_t x = p.operand(op.getInput());
  SmallVector<uint32_t> at{e.iter(0)};
  std::optional<uint32_t> inside, counted; // in the input; in the input or its explicit padding
  auto both = [&](std::optional<uint32_t> a, uint32_t c) { return a ? e.binary(BinaryKind::logical_and, *a, c) : c; };
  for (int64_t i = 0; i < spatial; ++i) {
    uint32_t n = e.extent(x, 1 + i);
    uint32_t pos =
        e.binary(BinaryKind::add, e.binary(BinaryKind::mul, e.iter(1 + i), p.index(op.getStrides()[i])),
                 e.binary(BinaryKind::sub, e.binary(BinaryKind::mul, e.iter(rank + i), p.index(op.getDilations()[i])),
                          p.index(op.getPads()[i])));
    inside = both(both(inside, e.binary(BinaryKind::ge, pos, p.index(0))), e.binary(BinaryKind::lt, pos, n));
    counted =
        both(counted, e.binary(BinaryKind::lt, pos, e.binary(BinaryKind::add, n, p.index(op.getPads()[spatial + i]))));
    at.push_back(e.clampIndex(pos, n));
  }
  at.push_back(e.iter(rank - 1));
  uint32_t v = p.loadAt(op.getInput(), at);
  if (wide != type)
    v = e.cast(wide, v);
  if (isMax)
    return p.reduce(result, extents, reduce, "max_number", e.select(*inside, v, lowest(e, wide))).getResult(0);
  uint32_t zero = e.constant(wide, 0), one = e.constant(wide, 1);
  if (op.getKind() == PoolKind::lp_pool) {
    double power = op.getP();
    uint32_t a = e.unary(UnaryKind::abs, v);
    a = power == 1   ? a
        : power == 2 ? e.binary(BinaryKind::mul, v, v)
                     : e.binary(BinaryKind::pow, a, e.constant(wide, power));
    return p
        .reduce(result, extents, reduce, "sum", e.select(*inside, a, zero),
                [&](uint32_t acc) {
                  uint32_t r = power == 1   ? acc
                               : power == 2 ? e.unary(UnaryKind::sqrt, acc)
                                            : e.binary(BinaryKind::pow, acc, e.constant(wide, 1 / power));
                  return wide == type ? r : e.cast(type, r);
                })
        .getResult(0);
  }
  uint32_t sum = e.select(*inside, v, zero), n = e.select(op.getCountIncludePad() ? *counted : *inside, one, zero);
  uint32_t mean = e.binary(BinaryKind::div, e.acc(wide, 0), e.acc(wide, 1));
  e.results = {sum, n, wide == type ? mean : e.cast(type, mean)};
  LaunchConfig config(b.getContext());
  config.set("extents", extents).set("reduce", reduce).set("combine", "sum sum");
  return createLaunch(b, op.getLoc(), result, p.inputs, "loop", config, e).getResult(0);
}
