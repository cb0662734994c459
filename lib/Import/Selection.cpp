// Ops that rank or pick by value, and determinants.
#include "Known.h"
#include "Node.h"

using namespace mlir;
using namespace mrcc;

/// Says that an operand decides how many elements the result has, so that it must be known.
static void refuseSize(NodeContext &c, size_t i, StringRef what) {
  c.unsupported("the size of its result depends on the values of " + what + " (input " + Twine(i) +
                "), expected a constant" + bindHint(c.in(i)));
}

static void neverFolded(NodeContext &c) {
  c.unsupported("the size of its result depends on the values of its inputs, expected one that follows from shapes");
}

/// Whether each element of an operand is other than zero (NaN is), in row-major order.
static std::optional<std::vector<bool>> knownMask(NodeContext &c, size_t i, StringRef what) {
  constexpr int64_t most = 1 << 20;
  Value mask = c.cast(c.in(i), c.builder.getI1Type());
  auto known = c ? knownValue(mask, most) : std::nullopt;
  if (!known) {
    refuseSize(c, i, what);
    return std::nullopt;
  }
  if (known->isSplat && !known->bytes.empty())
    return std::vector<bool>(known->type.getNumElements(), known->bytes.front());
  return std::vector<bool>(known->bytes.begin(), known->bytes.end());
}

/// The indices of the elements that are not zero, a row for each dimension.
static void nonZero(NodeContext &c) {
  auto mask = knownMask(c, 0, "its data");
  if (!mask)
    return;
  int64_t rank = c.rank(c.in(0)), count = llvm::count(*mask, true);
  SmallVector<int64_t> indices(rank * count);
  for (int64_t d = rank, stride = 1; d-- > 0; stride *= c.dim(c.in(0), d))
    for (int64_t i = 0, n = 0; i < int64_t(mask->size()); ++i)
      if ((*mask)[i])
        indices[d * count + n++] = i / stride % c.dim(c.in(0), d);
  auto type = RankedTensorType::get({rank, count}, c.builder.getI64Type());
  auto *bytes = reinterpret_cast<const uint8_t *>(indices.data());
  c.result(makeConstant(c.builder, c.loc, makeConstantAttr(type, ArrayRef(bytes, indices.size() * sizeof(int64_t)))));
}

/// The slices along an axis, or elements of the flattened data, at which a condition holds.
static void compress(NodeContext &c) {
  Value v = c.in(0);
  if (c.rank(c.in(1)) != 1)
    return c.invalid("its condition has rank " + Twine(c.rank(c.in(1))) + ", not 1");
  auto mask = knownMask(c, 1, "its condition");
  if (!mask)
    return;
  SmallVector<int64_t> taken;
  for (size_t i = 0; i < mask->size(); ++i)
    if ((*mask)[i])
      taken.push_back(int64_t(i));
  int64_t axis = c.has("axis") ? c.axis(c.integer("axis", 0), c.rank(v)) : 0;
  if (!c.has("axis"))
    v = c.reshape(v, {-1});
  c.result(c.make<GatherOp>(v, c.constant(taken), axis));
}

/// The place of each element is the number of elements that go before it; a scatter inverts that into the sorted order.
/// Equal values keep their order. The comparisons are quadratic in the length, but fuse into one reduction.
static void topK(NodeContext &c) {
  Value x = c.in(0);
  int64_t rank = c.rank(x), axis = c.axis(c.integer("axis", -1), rank);
  bool largest = c.integer("largest", 1);
  std::optional<SmallVector<int64_t>> k;
  if (c.opset < 10)
    k = SmallVector<int64_t>{c.integer("k", 0)};
  else if (!(k = knownIntegers(c.in(1))))
    return refuseSize(c, 1, "k");
  if (k->size() != 1 || rank < 1)
    return c.invalid("k is not one number, or its input is a scalar");
  if (int64_t d = c.dim(x, axis); (*k)[0] < 0 || (!ShapedType::isDynamic(d) && (*k)[0] > d))
    return c.invalid("k is " + Twine((*k)[0]) + ", the axis has " + Twine(d) + " elements");
  SmallVector<int64_t> perm;
  for (int64_t i = 0; i < rank; ++i)
    perm.push_back(i);
  std::swap(perm[axis], perm[rank - 1]);
  Value v = c.transpose(x, perm); // the axis is last now
  Value mine = c.unsqueeze(v, rank), other = c.unsqueeze(v, rank - 1);
  Value before = c.binary(largest ? BinaryKind::gt : BinaryKind::lt, other, mine);
  Value positions = c.range(c.dimOf(v, rank - 1));
  Value earlier = c.binary(BinaryKind::lt, c.unsqueeze(positions, 0), c.unsqueeze(positions, 1));
  Value tied = c.binary(BinaryKind::logical_and, c.binary(BinaryKind::eq, other, mine), earlier);
  Value ahead = c.cast(c.binary(BinaryKind::logical_or, before, tied), c.builder.getI64Type());
  Value place = c.reduce(ReduceKind::sum, ahead, rank, false);
  Value index = c.make<IotaOp>(v, rank - 1, c.builder.getI64Type());
  Value order = c.make<ScatterElementsOp>(ScatterKind::none, index, place, index, rank - 1);
  Value first = c.slice(order, rank - 1, 0, (*k)[0]);
  Value values = c.make<GatherElementsOp>(v, first, rank - 1);
  c.results = {c.transpose(values, perm), c.transpose(first, perm)};
}

/// Laplace expansion along the first row of the columns that are left.
static Value determinant(NodeContext &c, Value m, int64_t row, ArrayRef<int64_t> columns) {
  int64_t rank = c.rank(m);
  Value sum;
  for (size_t i = 0; i < columns.size(); ++i) {
    Value element = c.squeeze(c.slice(c.slice(m, rank - 2, row, row + 1), rank - 1, columns[i], columns[i] + 1),
                              {rank - 2, rank - 1});
    if (columns.size() > 1) {
      SmallVector<int64_t> rest(columns);
      rest.erase(rest.begin() + i);
      element = c.mul(element, determinant(c, m, row + 1, rest));
    }
    sum = !sum ? element : i % 2 ? c.sub(sum, element) : c.add(sum, element);
  }
  return sum;
}

static void det(NodeContext &c) {
  Value m = c.in(0);
  int64_t rank = c.rank(m), n = c.dim(m, rank - 1);
  if (rank < 2 || n != c.dim(m, rank - 2))
    return c.invalid("its input is not square");
  if (ShapedType::isDynamic(n) || n < 1 || n > 4)
    return c.unsupported("matrices above 4x4");
  SmallVector<int64_t> columns;
  for (int64_t i = 0; i < n; ++i)
    columns.push_back(i);
  c.result(determinant(c, m, 0, columns));
}

static void swiGlu(NodeContext &c) {
  Value gate = c.in(0);
  double alpha = c.real("alpha", 1);
  Value active =
      alpha == 1 ? c.unary(UnaryKind::silu, gate) : c.mul(gate, c.unary(UnaryKind::sigmoid, c.mul(gate, alpha)));
  c.result(c.mul(active, c.in(1)));
}

void mrcc::addSelection(HandlerTable &t) {
  t.add("NonZero", nonZero);
  t.add("Compress", compress);
  t.add("NonMaxSuppression", neverFolded);
  t.add("Unique", neverFolded);
  t.add("TopK", topK);
  t.add("Det", det);
  t.add("SwiGLU", swiGlu);
}
