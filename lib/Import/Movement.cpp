// Ops that move elements without looking at values: views, joins, parts, padding, tiling.
#include "Checks.h"
#include "Node.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

static void transpose(NodeContext &c) {
  Value v = c.in(0);
  int64_t rank = c.rank(v);
  auto perm = c.integers("perm");
  if (!perm) {
    perm.emplace();
    for (int64_t i = rank; i-- > 0;)
      perm->push_back(i);
  }
  SmallVector<int64_t> sorted = *perm;
  llvm::sort(sorted);
  bool valid = int64_t(perm->size()) == rank;
  for (auto [i, p] : llvm::enumerate(sorted))
    valid &= p == int64_t(i);
  if (!valid)
    return c.invalid("perm is not a permutation of " + Twine(rank) + " dimensions");
  c.result(c.transpose(v, *perm));
}

static void reshape(NodeContext &c) {
  if (auto dims = c.integers("shape")) // opset 1 to 4
    return c.result(c.reshape(c.in(0), *dims));
  c.result(c.make<ReshapeOp>(c.in(0), c.in(1), bool(c.integer("allowzero", 0))));
}

static void flatten(NodeContext &c) {
  Value v = c.in(0);
  int64_t rank = c.rank(v), axis = c.integer("axis", 1);
  c.result(c.make<FlattenOp>(v, c.axis(axis, rank + (axis >= 0 ? 1 : 0))));
}

static void squeeze(NodeContext &c) {
  Value v = c.in(0);
  auto axes = c.integersOf("axes", 1);
  if (!axes)
    return c.result(c.make<SqueezeOp>(v, DenseI64ArrayAttr()));
  c.result(c.squeeze(v, c.axes(*axes, c.rank(v))));
}

static void unsqueeze(NodeContext &c) {
  Value v = c.in(0);
  auto axes = c.integersOf("axes", 1);
  if (!axes)
    return c.invalid("axes are missing");
  c.result(c.unsqueeze(v, c.axes(*axes, c.rank(v) + int64_t(axes->size()))));
}

static void concat(NodeContext &c) {
  SmallVector<Value> values;
  for (size_t i = 0; i < c.count(); ++i)
    values.push_back(c.in(i));
  if (values.empty())
    return c.invalid("it has no inputs");
  if (c.opset >= 4 && !c.has("axis"))
    return c.missing("axis");
  int64_t axis = c.axis(c.integer("axis", 1), c.rank(values[0]));
  c.result(values.size() == 1 ? values[0] : c.concat(values, axis));
}

static void split(NodeContext &c) {
  Value v = c.in(0);
  int64_t axis = c.axis(c.integer("axis", 0), c.rank(v));
  size_t parts = c.node.outputs.size();
  Value sizes;
  if (auto list = c.integers("split"))
    sizes = c.constant(*list);
  else
    sizes = c.optional(1);
  if (c.has("num_outputs") && c.integer("num_outputs", 0) != int64_t(parts))
    return c.invalid("num_outputs is " + Twine(c.integer("num_outputs", 0)) + ", it has " + Twine(parts) + " outputs");
  SmallVector<Type> types(parts, v.getType());
  auto op = SplitOp::create(c.builder, c.loc, types, v, sizes, axis);
  c.infer(op);
  for (Value part : op.getOutputs())
    c.result(part);
}

static void slice(NodeContext &c) {
  Value v = c.in(0);
  if (c.opset >= 10)
    return c.result(c.make<SliceOp>(v, c.in(1), c.in(2), c.optional(3), c.optional(4)));
  auto starts = c.integers("starts"), ends = c.integers("ends"), axes = c.integers("axes");
  if (!starts || !ends)
    return c.invalid("starts or ends are missing");
  c.result(c.make<SliceOp>(v, c.constant(*starts), c.constant(*ends), axes ? c.constant(*axes) : c.none(), c.none()));
}

static void pad(NodeContext &c) {
  auto mode = symbolizePadMode(c.text("mode", "constant"));
  if (!mode)
    return c.invalid("mode is '" + c.text("mode", "") + "'");
  Value v = c.in(0);
  if (c.opset >= 11)
    return c.result(c.make<PadOp>(*mode, v, c.in(1), c.optional(2), c.optional(3)));
  auto pads = c.integers(c.opset < 2 ? "paddings" : "pads");
  if (!pads)
    return c.invalid("pads are missing");
  c.result(c.make<PadOp>(*mode, v, c.constant(*pads), c.scalar(c.real("value", 0), v), c.none()));
}

static void expand(NodeContext &c) { c.result(c.make<ExpandOp>(c.in(0), c.in(1))); }

static void tile(NodeContext &c) {
  Value v = c.in(0);
  if (c.opset >= 6)
    return c.result(c.make<TileOp>(v, c.in(1)));
  auto tiles = c.constantScalar(1, "tiles"), axis = c.constantScalar(2, "axis");
  if (!tiles || !axis)
    return;
  if (!(std::abs(*tiles) <= 0x1p48) || !(std::abs(*axis) <= onnx::maxRank)) // NaN neither
    return c.invalid(llvm::formatv("{0} tiles along axis {1}", *tiles, *axis).str());
  int64_t at = c.axis(int64_t(*axis), c.rank(v));
  if (!c)
    return;
  SmallVector<int64_t> repeats(c.rank(v), 1);
  repeats[at] = int64_t(*tiles);
  c.result(c.make<TileOp>(v, c.constant(repeats)));
}

/// Both directions between channels and blocks of pixels, of images [N, C, H, W].
template <bool toSpace> static void blocks(NodeContext &c) {
  Value v = c.in(0);
  int64_t block = c.integer("blocksize", 0);
  std::string mode = c.text("mode", "DCR");
  if (c.rank(v) != 4 || block < 1 || block > INT16_MAX || (mode != "DCR" && mode != "CRD"))
    return c.invalid("rank " + Twine(c.rank(v)) + ", blocksize " + Twine(block) + ", mode '" + mode + "'");
  int64_t channels = c.dim(v, 1);
  if (ShapedType::isDynamic(channels))
    return c.unsupported("the number of channels is not known");
  bool dcr = mode == "DCR";
  Extent n = c.dimOf(v, 0), h = c.dimOf(v, 2), w = c.dimOf(v, 3);
  if (toSpace) {
    if (channels % (block * block))
      return c.invalid(Twine(channels) + " channels are not divisible by blocksize " + Twine(block) + " squared");
    int64_t rest = channels / (block * block);
    Value split = dcr ? c.reshapeTo(v, {n, block, block, rest, h, w}) : c.reshapeTo(v, {n, rest, block, block, h, w});
    Value moved = c.transpose(split, dcr ? ArrayRef<int64_t>{0, 3, 4, 1, 5, 2} : ArrayRef<int64_t>{0, 1, 4, 2, 5, 3});
    return c.result(c.reshapeTo(moved, {n, rest, c.product({h, block}), c.product({w, block})}));
  }
  auto part = [&](Extent d) {
    return d.isKnown() ? Extent(d.value / block) : Extent(c.div(d.tensor, c.constant(block)));
  };
  for (int64_t axis : {2, 3})
    if (int64_t d = c.dim(v, axis); !ShapedType::isDynamic(d) && d % block)
      return c.invalid("dimension " + Twine(axis) + " of " + Twine(d) + " is not divisible by blocksize " +
                       Twine(block));
  Value split = c.reshapeTo(v, {n, channels, part(h), block, part(w), block});
  Value moved = c.transpose(split, dcr ? ArrayRef<int64_t>{0, 3, 5, 1, 2, 4} : ArrayRef<int64_t>{0, 1, 3, 5, 2, 4});
  c.result(c.reshapeTo(moved, {n, c.times(channels, block * block), part(h), part(w)}));
}

/// Each of `axes` is cut or padded with zeros to `shape`, half on each side; the odd element goes to the end.
static void centerCropPad(NodeContext &c) {
  Value v = c.in(0), target = c.cast(c.in(1), c.builder.getI64Type());
  int64_t rank = c.rank(v);
  auto given = c.integers("axes");
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < (given ? int64_t(given->size()) : rank); ++i)
    axes.push_back(given ? c.axis((*given)[i], rank) : i);
  Value dims = c.make<GatherOp>(c.shapeOf(v), c.constant(axes), 0);
  Value more = c.sub(target, dims), zero = c.constant(0), two = c.constant(2);
  Value cut = c.binary(BinaryKind::max, c.unary(UnaryKind::neg, more), zero);
  Value begin = c.div(cut, two);
  Value kept = c.binary(BinaryKind::min, target, dims);
  Value cropped = c.make<SliceOp>(v, begin, c.add(begin, kept), c.constant(axes), c.none());
  Value grow = c.binary(BinaryKind::max, more, zero), before = c.div(grow, two);
  Value pads = c.concat({before, c.sub(grow, before)}, 0);
  c.result(c.make<PadOp>(PadMode::constant, cropped, pads, c.none(), c.constant(axes)));
}

void mrcc::addMovement(HandlerTable &t) {
  t.add("Transpose", transpose);
  t.add("Reshape", reshape);
  t.add("Flatten", flatten);
  t.add("Squeeze", squeeze);
  t.add("Unsqueeze", unsqueeze);
  t.add("Concat", concat);
  t.add("Split", split);
  t.add("Slice", slice);
  t.add("Pad", pad);
  t.add("Expand", expand);
  t.add("Tile", tile);
  t.add("DepthToSpace", blocks<true>);
  t.add("SpaceToDepth", blocks<false>);
  t.add("CenterCropPad", centerCropPad);
}
