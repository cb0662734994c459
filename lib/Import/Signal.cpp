// Fourier transforms as products with a matrix of cosines and sines (made by the program from integers, so it folds
// where the length is known), and window functions.
#include "Node.h"
#include "mrcc/Fold/Math.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;

namespace {
struct Complex {
  Value real, imaginary; // imaginary is null for real numbers
};
} // namespace

/// cos and sin of 2 pi m k / length for m < rows, k < columns. m k is reduced modulo the length first: angles stay
/// small.
static Complex twiddles(NodeContext &c, Extent rows, Extent columns, Extent length, Type type) {
  Type f64 = c.builder.getF64Type();
  Value product = c.mul(c.unsqueeze(c.range(rows), 1), c.unsqueeze(c.range(columns), 0));
  product = c.binary(BinaryKind::mod, product, c.number(length, c.builder.getI64Type()));
  Value angle = c.div(c.mul(c.cast(product, f64), 2 * M_PI), c.number(length, f64));
  return {c.cast(c.unary(UnaryKind::cos, angle), type), c.cast(c.unary(UnaryKind::sin, angle), type)};
}

static Value plus(NodeContext &c, Value a, Value b) { return !a ? b : !b ? a : c.add(a, b); }
static Value minus(NodeContext &c, Value a, Value b) { return !b ? a : !a ? c.unary(UnaryKind::neg, b) : c.sub(a, b); }

/// The transform along the last dimension of x, of `bins` results.
static Complex transform(NodeContext &c, Complex x, Extent rows, Extent bins, Extent length, bool inverse) {
  Complex w = twiddles(c, rows, bins, length, c.element(x.real));
  auto times = [&](Value v, Value matrix) { return v ? c.make<MatMulOp>(v, matrix) : Value(); };
  Value rc = times(x.real, w.real), rs = times(x.real, w.imaginary);
  Value ic = times(x.imaginary, w.real), is = times(x.imaginary, w.imaginary);
  if (!inverse)
    return {plus(c, rc, is), minus(c, ic, rs)}; // times exp(-i angle)
  Value scale = c.number(length, c.element(x.real));
  return {c.div(minus(c, rc, is), scale), c.div(plus(c, rs, ic), scale)};
}

/// Cuts or pads with zeros along the last dimension.
static Value fit(NodeContext &c, Value v, Extent length) {
  int64_t last = c.rank(v) - 1;
  Extent have = c.dimOf(v, last);
  if (have.isKnown() && length.isKnown() && have.value == length.value)
    return v;
  Value more = c.sub(c.shape(length), c.shape(have));
  return c.make<PadOp>(PadMode::constant, v, c.concat({c.constant(0), more}, 0), c.none(), c.constant(last));
}

static Extent half(NodeContext &c, Extent d) { // d / 2 + 1
  return d.isKnown() ? Extent(d.value / 2 + 1) : Extent(c.add(c.div(d.tensor, c.constant(2)), c.constant(1)));
}

static SmallVector<int64_t> lastSwappedWith(int64_t axis, int64_t rank) {
  SmallVector<int64_t> perm;
  for (int64_t i = 0; i < rank; ++i)
    perm.push_back(i);
  std::swap(perm[axis], perm[rank - 1]);
  return perm;
}

/// v has its real and imaginary parts (or the real one alone) in the last dimension.
static Value fourier(NodeContext &c, Value v, int64_t axis, std::optional<Extent> length, bool inverse, bool oneSided) {
  int64_t rank = c.rank(v), parts = c.dim(v, rank - 1);
  if (rank < 2 || axis == rank - 1 || (parts != 1 && parts != 2))
    return c.invalid("rank " + Twine(rank) + ", axis " + Twine(axis) + ", " + Twine(parts) + " parts"), v;
  auto perm = lastSwappedWith(axis, rank - 1);
  auto part = [&](int64_t i) { return c.transpose(c.squeeze(c.slice(v, rank - 1, i, i + 1), rank - 1), perm); };
  Complex x{part(0), parts == 2 ? part(1) : nullptr};
  auto output = [&](Value real, Value imaginary) {
    Value y = c.unsqueeze(c.transpose(real, perm), rank - 1);
    return imaginary ? c.concat({y, c.unsqueeze(c.transpose(imaginary, perm), rank - 1)}, rank - 1) : y;
  };
  Extent given = c.dimOf(v, axis);
  if (inverse &&
      oneSided) { // half a spectrum -> real numbers: all bins but the first (and an even length's last) count twice
    Extent n = length            ? *length
               : given.isKnown() ? Extent(2 * (given.value - 1))
                                 : Extent(c.mul(c.sub(given.tensor, c.constant(1)), c.constant(2)));
    Extent bins = half(c, n);
    Value at = c.range(bins), twice = c.mul(at, c.constant(2));
    Value once = c.binary(BinaryKind::logical_or, c.binary(BinaryKind::eq, at, 0.0),
                          c.binary(BinaryKind::eq, twice, c.number(n, c.builder.getI64Type())));
    Value weight = c.select(once, c.scalar(1, v), c.scalar(2, v));
    auto weighted = [&](Value p) { return p ? c.mul(fit(c, p, bins), weight) : p; };
    return output(transform(c, {weighted(x.real), weighted(x.imaginary)}, bins, n, n, true).real, nullptr);
  }
  Extent n = length ? *length : given;
  Complex fitted{fit(c, x.real, n), x.imaginary ? fit(c, x.imaginary, n) : nullptr};
  Complex y = transform(c, fitted, n, oneSided ? half(c, n) : n, n, inverse);
  return output(y.real, y.imaginary);
}

static std::optional<Extent> lengthOperand(NodeContext &c, size_t i) {
  if (!c.given(i))
    return std::nullopt;
  auto known = c.constantIntegers(i, "dft_length");
  return known && known->size() == 1 ? std::optional(Extent((*known)[0])) : std::nullopt;
}

static void dft(NodeContext &c) {
  Value v = c.in(0);
  int64_t rank = c.rank(v), axis = c.opset < 20 ? c.integer("axis", 1) : -2;
  if (c.opset >= 20 && c.given(2)) {
    auto known = c.constantIntegers(2, "axis");
    if (!known || known->size() != 1)
      return;
    axis = (*known)[0];
  }
  c.result(fourier(c, v, c.axis(axis, rank), lengthOperand(c, 1), c.integer("inverse", 0), c.integer("onesided", 0)));
}

/// Frames of the signal [B, L, 1 or 2], each times the window, each transformed.
static void stft(NodeContext &c) {
  Value signal = c.in(0);
  auto step = c.constantIntegers(1, "frame_step");
  std::optional<Extent> frame = lengthOperand(c, 3);
  if (!frame && c.given(2))
    frame = c.dimOf(c.in(2), 0);
  if (!step || step->size() != 1 || !frame || c.rank(signal) != 3)
    return c.invalid("frame_step, frame_length or window is missing, or the signal has rank " + Twine(c.rank(signal)));
  if ((*step)[0] < 1)
    return c.invalid("frame_step is " + Twine((*step)[0]));
  Type i64 = c.builder.getI64Type();
  Value last = c.sub(c.number(c.dimOf(signal, 1), i64), c.number(*frame, i64));
  Value limit = c.add(last, makeScalar(c.builder, c.loc, i64, 1));
  Value zero = makeScalar(c.builder, c.loc, i64, 0), stride = makeScalar(c.builder, c.loc, i64, double((*step)[0]));
  Value starts = c.make<RangeOp>(zero, c.rank(limit) ? c.squeeze(limit, 0) : limit, stride);
  Value at = c.add(c.unsqueeze(starts, 1), c.unsqueeze(c.range(*frame), 0));
  Value frames = c.make<GatherOp>(signal, at, 1); // [B, frames, length, parts]
  if (c.given(2))
    frames = c.mul(frames, c.unsqueeze(c.in(2), 1));
  c.result(fourier(c, frames, 2, std::nullopt, false, c.integer("onesided", 1)));
}

/// a + b cos(2 pi n / N) + d cos(4 pi n / N), N one less than the size unless periodic.
static void cosineWindow(NodeContext &c, double a, double b, double d) {
  auto size = c.constantIntegers(0, "size");
  if (!size || size->size() != 1)
    return;
  Type f64 = c.builder.getF64Type(), type = c.toElement(c.integer("output_datatype", 1));
  if ((*size)[0] < 0)
    return c.invalid("size is " + Twine((*size)[0]));
  int64_t period = (*size)[0] - (c.integer("periodic", 1) ? 0 : 1);
  Value angle = c.mul(c.cast(c.range((*size)[0]), f64), 2 * M_PI / double(period));
  Value v = c.add(c.mul(c.unary(UnaryKind::cos, angle), b), a);
  if (d != 0)
    v = c.add(v, c.mul(c.unary(UnaryKind::cos, c.mul(angle, 2.0)), d));
  c.result(c.cast(v, type));
}

static void hannWindow(NodeContext &c) { cosineWindow(c, 0.5, -0.5, 0); }
static void hammingWindow(NodeContext &c) { cosineWindow(c, 25.0 / 46, -21.0 / 46, 0); }
static void blackmanWindow(NodeContext &c) { cosineWindow(c, 0.42, -0.5, 0.08); }

/// Triangles on the mel scale over the bins of a spectrum.
static void melWeightMatrix(NodeContext &c) {
  double numbers[5];
  const char *names[] = {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"};
  for (size_t i = 0; i < 5; ++i) {
    auto v = c.constantScalar(i, names[i]);
    if (!v)
      return;
    numbers[i] = *v;
  }
  constexpr double most = 65536;                                                         // bands and bins
  auto inside = [](double v, double low, double high) { return v >= low && v <= high; }; // NaN is not
  if (!inside(numbers[0], 1, most) || !inside(numbers[1], 0, 2 * most) || !inside(numbers[2], 1, 1e9) ||
      !inside(numbers[3], 0, 1e9) || !inside(numbers[4], 0, 1e9) || numbers[0] * numbers[1] > double(1 << 24))
    return c.invalid(llvm::formatv("{0} bands, {1} samples at {2} Hz, edges at {3} and {4} Hz", numbers[0], numbers[1],
                                   numbers[2], numbers[3], numbers[4])
                         .str());
  int64_t bands = int64_t(numbers[0]), bins = int64_t(numbers[1]) / 2 + 1;
  double log10 = portable::log(10);
  auto mel = [&](double hertz) { return 2595 * portable::log1p(hertz / 700) / log10; };
  double low = mel(numbers[3]), step = (mel(numbers[4]) - low) / double(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    double hertz = 700 * (portable::exp((double(i) * step + low) / 2595 * log10) - 1);
    edges.push_back(int64_t(std::floor((numbers[1] + 1) * hertz / numbers[2])));
  }
  std::vector<float> weights(size_t(bins * bands));
  auto set = [&](int64_t bin, int64_t band, double value) {
    if (bin >= 0 && bin < bins)
      weights[size_t(bin * bands + band)] = float(value);
  };
  for (int64_t i = 0; i < bands; ++i) {
    int64_t left = edges[i], centre = edges[i + 1], right = edges[i + 2];
    if (centre == left)
      set(centre, i, 1);
    for (int64_t j = std::max<int64_t>(left, 0); centre > left && j <= std::min(centre, bins); ++j)
      set(j, i, double(j - left) / double(centre - left));
    for (int64_t j = std::max<int64_t>(centre, 0); j < std::min(right, bins); ++j)
      set(j, i, double(right - j) / double(right - centre));
  }
  auto type = RankedTensorType::get({bins, bands}, c.builder.getF32Type());
  ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(weights.data()), weights.size() * 4);
  Value v = makeConstant(c.builder, c.loc, makeConstantAttr(type, bytes));
  c.result(c.cast(v, c.toElement(c.integer("output_datatype", 1))));
}

void mrcc::addSignal(HandlerTable &t) {
  t.add("DFT", dft);
  t.add("STFT", stft);
  t.add("HannWindow", hannWindow);
  t.add("HammingWindow", hammingWindow);
  t.add("BlackmanWindow", blackmanWindow);
  t.add("MelWeightMatrix", melWeightMatrix);
}
