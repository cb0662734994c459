// Ops that read images at computed places: every read is a gather_nd of the channels at one pixel, weighted.
#include "Sampling.h"
#include "mrcc/IR/Shapes.h"

using namespace mlir;
using namespace mrcc;

static constexpr int64_t mostTaps = 4096; // places of a window that are looked at one by one

static Value floorOf(NodeContext &c, Value v) { return c.unary(UnaryKind::floor, v); }
static Value clamp(NodeContext &c, Value v, double low, Value high) {
  return c.binary(BinaryKind::min, c.binary(BinaryKind::max, v, low), high);
}

Value mrcc::gatherPixels(NodeContext &c, Value image, ArrayRef<Value> places, int64_t batchDims) {
  SmallVector<Value> parts;
  for (Value p : places)
    parts.push_back(c.unsqueeze(c.cast(p, c.builder.getI64Type()), c.rank(p)));
  Value indices = parts.size() == 1 ? parts[0] : c.concat(parts, c.rank(parts[0]) - 1);
  return c.make<GatherNDOp>(image, indices, batchDims);
}

Value mrcc::interpolate(NodeContext &c, Value image, ArrayRef<SmallVector<Tap>> taps, int64_t batchDims) {
  size_t total = 1;
  for (auto &dim : taps)
    total *= dim.size();
  Value sum;
  for (size_t i = 0; i < total; ++i) {
    SmallVector<Value> places;
    Value weight;
    size_t rest = i;
    for (auto &dim : taps) {
      const Tap &tap = dim[rest % dim.size()];
      rest /= dim.size();
      places.push_back(tap.place);
      if (tap.weight)
        weight = weight ? c.mul(weight, tap.weight) : tap.weight;
    }
    Value pixel = gatherPixels(c, image, places, batchDims);
    if (weight)
      pixel = c.mul(pixel, c.cast(c.unsqueeze(weight, c.rank(weight)), c.element(pixel)));
    sum = sum ? c.add(sum, pixel) : pixel;
  }
  return sum;
}

SmallVector<Tap> mrcc::linearTaps(NodeContext &c, Value at, Value length) {
  Value low = floorOf(c, at), fraction = c.sub(at, low), last = c.sub(length, 1.0);
  auto tap = [&](Value place, Value weight) { // nothing outside
    Value inside =
        c.binary(BinaryKind::logical_and, c.binary(BinaryKind::ge, place, 0.0), c.binary(BinaryKind::le, place, last));
    return Tap{clamp(c, place, 0, last), c.select(inside, weight, c.scalar(0, weight))};
  };
  return {tap(low, c.sub(1.0, fraction)), tap(c.add(low, 1.0), fraction)};
}

//===-- GridSample ------------------------------------------------------------------------------------------------===//

namespace {
struct Grid {
  NodeContext &c;
  std::string mode, padding;
  bool corners;

  /// Mirrors at the borders until inside.
  Value reflect(Value v, Value length) {
    double low = corners ? 0 : -0.5;
    Value range = corners ? c.binary(BinaryKind::max, c.sub(length, 1.0), 1e-6) : length;
    Value off = c.unary(UnaryKind::abs, c.sub(v, low)), turns = floorOf(c, c.div(off, range));
    Value rest = c.sub(off, c.mul(turns, range));
    Value odd = c.binary(BinaryKind::gt, c.sub(turns, c.mul(floorOf(c, c.mul(turns, 0.5)), 2.0)), 0.5);
    return c.add(c.select(odd, c.sub(range, rest), rest), low);
  }

  /// A pixel's index made valid, and the weight it keeps.
  Tap pixel(Value place, Value weight, Value length) {
    Value last = c.sub(length, 1.0);
    if (padding == "reflection") {
      Value inside = c.binary(BinaryKind::max, reflect(place, length), 0.0); // -0.5 is cut towards 0
      return {c.binary(BinaryKind::min, floorOf(c, inside), last), weight};
    }
    Value held = clamp(c, place, 0, last);
    if (padding == "border")
      return {held, weight};
    Value same = c.binary(BinaryKind::eq, held, place);
    Value one = weight ? weight : c.scalar(1, place);
    return {held, c.select(same, one, c.scalar(0, place))};
  }

  SmallVector<Tap> taps(Value normal, Value length) {
    Value from0 = c.add(normal, 1.0);
    Value at = corners ? c.mul(c.mul(from0, 0.5), c.sub(length, 1.0)) : c.mul(c.sub(c.mul(from0, length), 1.0), 0.5);
    if (mode == "nearest")
      at = c.unary(UnaryKind::round_even, at);
    if (padding == "border")
      at = clamp(c, at, 0, c.sub(length, 1.0));
    else if (padding == "reflection")
      at = reflect(at, length);
    if (mode == "nearest")
      return {pixel(at, nullptr, length)};
    Value low = floorOf(c, at), fraction = c.sub(at, low);
    if (mode == "linear")
      return {pixel(low, c.sub(1.0, fraction), length), pixel(c.add(low, 1.0), fraction, length)};
    SmallVector<Tap> out;
    for (int i = -1; i <= 2; ++i)
      out.push_back(pixel(c.add(low, double(i)), cubic(fraction, i), length));
    return out;
  }

  /// Keys' kernel with a = -0.75 at distance |i - fraction|.
  Value cubic(Value fraction, int i) {
    constexpr double a = -0.75;
    Value d = i <= 0 ? c.sub(fraction, double(i)) : c.sub(double(i), fraction);
    if (i == 0 || i == 1)
      return c.add(c.mul(c.mul(c.sub(c.mul(d, a + 2), a + 3), d), d), 1.0);
    return c.sub(c.mul(c.add(c.mul(c.sub(c.mul(d, a), 5 * a), d), 8 * a), d), 4 * a);
  }
};
} // namespace

static void gridSample(NodeContext &c) {
  Value x = c.in(0), grid = c.in(1);
  int64_t spatial = c.rank(x) - 2;
  Grid g{c, c.text("mode", c.opset < 20 ? "bilinear" : "linear"), c.text("padding_mode", "zeros"),
         c.integer("align_corners", 0) != 0};
  if (g.mode == "bilinear" || g.mode == "bicubic")
    g.mode = g.mode.substr(2) == "cubic" ? "cubic" : "linear";
  if (spatial < 1 || spatial > 3 || c.rank(grid) != spatial + 2)
    return c.invalid("data of rank " + Twine(spatial + 2) + ", grid of rank " + Twine(c.rank(grid)));
  if ((g.mode != "linear" && g.mode != "cubic" && g.mode != "nearest") ||
      (g.padding != "zeros" && g.padding != "border" && g.padding != "reflection"))
    return c.invalid("mode '" + g.mode + "', padding_mode '" + g.padding + "'");
  Type type = c.element(grid).isF64() ? c.element(grid) : c.builder.getF32Type();
  Value places = c.cast(grid, type), image = c.toChannelsLast(x);
  SmallVector<SmallVector<Tap>> taps;
  for (int64_t d = 0; d < spatial; ++d) { // the grid's last coordinate is the image's first spatial dimension
    Value normal = c.squeeze(c.slice(places, spatial + 1, spatial - 1 - d, spatial - d), spatial + 1);
    taps.push_back(g.taps(normal, c.number(c.dimOf(x, d + 2), type)));
  }
  c.result(c.toChannelsFirst(interpolate(c, image, taps, 1)));
}

/// An affine map of the grid of an image's normalised coordinates.
static void affineGrid(NodeContext &c) {
  Value theta = c.in(0);
  int64_t spatial = c.dim(theta, 1);
  bool corners = c.integer("align_corners", 0);
  if (c.rank(theta) != 3 || (spatial != 2 && spatial != 3))
    return c.invalid("theta is not [N, 2, 3] or [N, 3, 4]");
  auto size = c.constantIntegers(1, "size");
  if (!size || int64_t(size->size()) != spatial + 2)
    return c.invalid("size does not have " + Twine(spatial + 2) + " values");
  Type type = c.element(theta);
  ArrayRef<int64_t> dims = ArrayRef(*size).drop_front(2);
  SmallVector<Value> coordinates; // x, y, z, 1, each of the grid's shape and a last dimension of 1
  SmallVector<int64_t> shape(dims);
  shape.push_back(1);
  for (int64_t d = spatial; d-- > 0;) {
    double length = double(dims[d]), step = 2 / (corners ? length - 1 : length), start = corners ? -1 : -1 + step / 2;
    Value at = corners && dims[d] == 1 ? c.unsqueeze(c.scalar(-1, theta), 0)
                                       : c.add(c.mul(c.cast(c.range(dims[d]), type), step), start);
    SmallVector<int64_t> behind;
    for (int64_t i = d + 1; i <= spatial; ++i)
      behind.push_back(i - d);
    coordinates.push_back(c.make<ExpandOp>(c.unsqueeze(at, behind), c.constant(shape)));
  }
  coordinates.push_back(c.fill(c.constant(shape), c.scalar(1, theta)));
  Value points = c.reshape(c.concat(coordinates, spatial), {-1, spatial + 1});
  SmallVector<Extent> result{c.dimOf(theta, 0)};
  for (int64_t d : dims)
    result.push_back(d);
  result.push_back(spatial);
  c.result(c.reshapeTo(c.make<MatMulOp>(points, c.swapLast(theta)), result));
}

//===-- regions and deformed windows ------------------------------------------------------------------------------===//

static void roiAlign(NodeContext &c) {
  Value x = c.in(0), rois = c.in(1), batch = c.in(2);
  int64_t height = c.integer("output_height", 1), width = c.integer("output_width", 1),
          samples = c.integer("sampling_ratio", 0);
  std::string mode = c.text("mode", "avg");
  bool half =
      c.text("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  if (samples < 1)
    return c.unsupported("sampling_ratio 0: the number of samples depends on the regions");
  if (c.rank(x) != 4 || height < 1 || width < 1 || std::max({height, width, samples}) > INT16_MAX ||
      (mode != "avg" && mode != "max"))
    return c.invalid("rank " + Twine(c.rank(x)) + ", output " + Twine(height) + "x" + Twine(width) + ", " +
                     Twine(samples) + " samples, mode '" + mode + "'");
  Type type = c.element(rois);
  double scale = c.real("spatial_scale", 1);
  auto edge = [&](int64_t i) { // [R, 1]
    return c.add(c.mul(c.slice(rois, 1, i, i + 1), scale), half ? -0.5 : 0.0);
  };
  Value inside; // of the map: a sample beyond it counts as 0
  auto taps = [&](int64_t axis, int64_t bins) {
    Value start = edge(axis == 2 ? 1 : 0), extent = c.sub(edge(axis == 2 ? 3 : 2), start);
    if (!half)
      extent = c.binary(BinaryKind::max, extent, 1.0);
    Value step = c.div(extent, double(bins)), length = c.number(c.dimOf(x, axis), type), last = c.sub(length, 1.0);
    Value offsets = c.div(c.add(c.cast(c.range(bins * samples), type), 0.5), double(samples)); // in bins
    Value at = c.add(start, c.mul(step, offsets));                                             // [R, bins * samples]
    at = c.unsqueeze(at, axis == 2 ? 2 : 1);
    Value within =
        c.binary(BinaryKind::logical_and, c.binary(BinaryKind::ge, at, -1.0), c.binary(BinaryKind::le, at, length));
    inside = inside ? c.binary(BinaryKind::logical_and, inside, within) : within;
    Value held = clamp(c, at, 0, last), low = floorOf(c, held), fraction = c.sub(held, low);
    Value high = c.binary(BinaryKind::min, c.add(low, 1.0), last);
    return SmallVector<Tap>{{low, c.sub(1.0, fraction)}, {high, fraction}};
  };
  auto rows = taps(2, height), columns = taps(3, width);
  Value image = c.toChannelsLast(x), found;
  Value region = c.unsqueeze(batch, {1, 2}); // [R, 1, 1]
  Value like = c.add(rows[0].place, columns[0].place);
  auto wide = [&](Value v) { return c.make<ExpandOp>(c.cast(v, c.builder.getI64Type()), c.shapeOf(like)); };
  for (const Tap &row : rows)
    for (const Tap &column : columns) {
      Value pixel = gatherPixels(c, image, {wide(region), wide(row.place), wide(column.place)}, 0);
      Value weight = c.select(inside, c.mul(row.weight, column.weight), c.scalar(0, rois));
      pixel = c.mul(pixel, c.cast(c.unsqueeze(weight, 3), c.element(pixel)));
      found = !found ? pixel : mode == "avg" ? c.add(found, pixel) : c.binary(BinaryKind::max, found, pixel);
    }
  Value bins = c.reshape(found, {0, height, samples, width, samples, -1});
  Value pooled = c.reduce(mode == "avg" ? ReduceKind::mean : ReduceKind::max, bins, {2, 4}, false);
  c.result(c.toChannelsFirst(pooled));
}

/// A convolution whose window reads where `offset` says: pixels are gathered, the rest is a matmul.
static void deformConv(NodeContext &c) {
  Value x = c.in(0), weights = c.in(1), offset = c.in(2);
  int64_t group = c.integer("group", 1), parts = c.integer("offset_group", 1);
  if (c.rank(x) != 4 || c.rank(weights) != 4 || c.rank(offset) != 4)
    return c.unsupported("data of rank " + Twine(c.rank(x)));
  Window w = readWindow(c, 2);
  int64_t outputs = c.dim(weights, 0), inputs = c.dim(weights, 1), kh = c.dim(weights, 2), kw = c.dim(weights, 3);
  if (!c || llvm::is_contained({outputs, inputs, kh, kw}, ShapedType::kDynamic) || group < 1 || parts < 1 ||
      outputs % group)
    return c.invalid("weights of " + dimsText(c.type(weights).getShape()) + ", group " + Twine(group) +
                     ", offset_group " + Twine(parts));
  int64_t taps = c.times(kh, kw), channels = c.times(inputs, group), each = channels / parts;
  if (taps > mostTaps || channels % parts)
    return c.invalid(Twine(taps) + " places a window, " + Twine(channels) + " channels, offset_group " + Twine(parts));
  Extent n = c.dimOf(x, 0), h = c.dimOf(x, 2), v = c.dimOf(x, 3), oh = c.dimOf(offset, 2), ow = c.dimOf(offset, 3);
  Type type = c.element(offset);
  Value image = c.toChannelsLast(c.reshapeTo(x, {c.product({n, parts}), each, h, v})); // [N parts, H, W, each]
  Value moved = c.reshapeTo(offset, {c.product({n, parts}), taps, 2, oh, ow});
  auto places = [&](int64_t d) { // [N parts, taps, oh, ow]
    Extent size = d ? ow : oh;
    Value base = c.add(c.mul(c.cast(c.range(size), type), double(w.strides[d])), -double(w.pads[d]));
    base = d ? base : c.unsqueeze(base, 1); // [oh, 1] or [ow]
    SmallVector<float> shifts;
    for (int64_t t = 0; t < taps; ++t)
      shifts.push_back(float((d ? t % kw : t / kw) * w.dilations[d]));
    auto shape = RankedTensorType::get({taps, 1, 1}, c.builder.getF32Type());
    ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(shifts.data()), shifts.size() * 4);
    Value shift = c.cast(makeConstant(c.builder, c.loc, makeConstantAttr(shape, bytes)), type);
    Value own = c.squeeze(c.slice(moved, 2, d, d + 1), 2);
    return c.add(own, c.add(shift, base));
  };
  Value pixels = interpolate(
      c, image, {linearTaps(c, places(0), c.number(h, type)), linearTaps(c, places(1), c.number(v, type))}, 1);
  if (c.given(4)) // [N parts, taps, oh, ow, each]
    pixels = c.mul(pixels, c.unsqueeze(c.reshapeTo(c.in(4), {c.product({n, parts}), taps, oh, ow}), 4));
  Value split = c.reshapeTo(pixels, {n, parts, taps, oh, ow, each});
  Value columns = c.reshapeTo(c.transpose(split, {0, 3, 4, 1, 5, 2}), {n, c.product({oh, ow}), group, inputs * taps});
  Value matrix = c.transpose(c.reshape(weights, {group, outputs / group, inputs * taps}), {0, 2, 1});
  Value y = c.make<MatMulOp>(c.transpose(columns, {0, 2, 1, 3}), matrix); // [N, group, oh ow, outputs / group]
  y = c.reshapeTo(c.transpose(y, {0, 1, 3, 2}), {n, outputs, oh, ow});
  c.result(c.given(3) ? c.add(y, c.unsqueeze(c.in(3), {1, 2})) : y);
}

//===-- columns and unpooling -------------------------------------------------------------------------------------===//

/// Sums overlapping blocks: a transposed convolution whose kernel puts each column's element at its place in the block.
static void col2Im(NodeContext &c) {
  Value x = c.in(0);
  auto image = c.constantIntegers(1, "image_shape"), block = c.constantIntegers(2, "block_shape");
  if (!image || !block)
    return;
  int64_t spatial = int64_t(image->size()), taps = 1;
  if (spatial < 1 || spatial > 3 || int64_t(block->size()) != spatial || c.rank(x) != 3)
    return c.unsupported(Twine(spatial) + " spatial dimensions");
  Window w = readWindow(c, spatial);
  for (int64_t i = 0; i < spatial; ++i) {
    if ((*block)[i] < 1 || (*image)[i] < 0 || (*image)[i] > INT32_MAX)
      return c.invalid("block " + dimsText(*block) + " of an image of " + dimsText(*image));
    taps = c.times(taps, (*block)[i]);
  }
  int64_t columns = c.dim(x, 1);
  if (!c)
    return;
  if (ShapedType::isDynamic(columns) || taps > mostTaps ||
      columns > (int64_t(1) << 24) / taps) // the weights made below
    return c.unsupported(dimsText(columns) + " rows with blocks of " + Twine(taps) + " elements");
  if (columns % taps)
    return c.invalid(Twine(columns) + " rows are not a multiple of the block's " + Twine(taps) + " elements");
  int64_t channels = columns / taps;
  SmallVector<Extent> dims{c.dimOf(x, 0), columns};
  SmallVector<int64_t> extra;
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t reach = w.dilations[d] * ((*block)[d] - 1) + 1;
    int64_t room = (*image)[d] + w.pads[d] + w.pads[d + spatial] - reach;
    if (room < 0)
      return c.invalid("the block is larger than the image");
    dims.push_back(room / w.strides[d] + 1);
    extra.push_back(room % w.strides[d]);
  }
  SmallVector<int64_t> kernelDims{columns, 1};
  kernelDims.append(block->begin(), block->end());
  std::vector<float> kernel(size_t(columns * taps));
  for (int64_t i = 0; i < columns; ++i)
    kernel[size_t(i * taps + i % taps)] = 1;
  std::vector<uint8_t> bytes(kernel.size() * 4);
  std::memcpy(bytes.data(), kernel.data(), bytes.size());
  Value weights = makeConstant(
      c.builder, c.loc, makeConstantAttr(RankedTensorType::get(kernelDims, c.builder.getF32Type()), std::move(bytes)));
  Value y = c.make<ConvTransposeOp>(c.toChannelsLast(c.reshapeTo(x, dims)), c.cast(weights, c.element(x)), c.none(),
                                    w.strides, w.dilations, w.pads, extra, channels, DenseI64ArrayAttr(), "explicit");
  c.result(c.toChannelsFirst(y));
}

/// Values go to the places in the whole tensor that MaxPool's indices name.
static void maxUnpool(NodeContext &c) {
  Value x = c.in(0), indices = c.in(1);
  int64_t spatial = c.rank(x) - 2;
  if (spatial < 1)
    return c.invalid("its data have rank " + Twine(c.rank(x)));
  Window w = readWindow(c, spatial);
  if (!c || w.kernel.empty())
    return c.missing("kernel_shape");
  SmallVector<Extent> dims{c.dimOf(x, 0), c.dimOf(x, 1)};
  for (int64_t d = 0; d < spatial; ++d) {
    Extent in = c.dimOf(x, d + 2);
    int64_t rest = w.kernel[d] - w.pads[d] - w.pads[d + spatial] - w.strides[d];
    dims.push_back(in.isKnown() ? Extent(c.times(in.value, w.strides[d]) + rest)
                                : Extent(c.add(c.mul(in.tensor, c.constant(w.strides[d])), c.constant(rest))));
  }
  Value zeros = c.fill(c.shape(c.product(dims)), c.scalar(0, x));
  Value flat = c.make<ScatterElementsOp>(ScatterKind::none, zeros, c.reshape(indices, -1), c.reshape(x, -1), 0);
  Value y = c.reshapeTo(flat, dims);
  if (c.given(2)) {
    Value more = c.sub(c.in(2), c.shape(dims));
    SmallVector<int64_t> none(dims.size(), 0);
    y = c.make<PadOp>(PadMode::constant, y, c.concat({c.constant(none), more}, 0), c.none(), c.none());
  }
  c.result(y);
}

void mrcc::addSampling(HandlerTable &t) {
  t.add("GridSample", gridSample);
  t.add("AffineGrid", affineGrid);
  t.add("RoiAlign", roiAlign);
  t.add("DeformConv", deformConv);
  t.add("Col2Im", col2Im);
  t.add("MaxUnpool", maxUnpool);
}
