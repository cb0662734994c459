// layer_norm: sums and a last pass, by the loop family's emitter. The first pass sums d = x - s and d^2, s the row's
// first element; then mean = s + sum d / n and variance = (sum d^2 - (sum d)^2 / n) / n. The shift keeps the difference
// from cancelling: (s - mean)^2 is at most n times the variance, so the error is at most n roundings, and a few in
// practice. The rms variant sums x^2.
//
//   views   out; in, scale, bias (config scale, bias: 0 or 1), extras of the epilogue, of out's shape (stride 0 where
//   they
//           broadcast)
//   config  axis: dims [axis, rank) are normalised; rms; epsilon: bits of an f32
//   body    optional epilogue of acc and extras
#include "Families.h"
#include "Loop.h"
#include "llvm/ADT/bit.h"

namespace mrcc {

namespace {
class LayerNormFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "layer_norm"; }
  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override;
  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &kb) const override {
    return loops::emit(kernel, kb);
  }
};
} // namespace

llvm::Expected<BoundLaunch> LayerNormFamily::bind(const LaunchSite &site, const Target &target) const {
  auto fail = [](const llvm::Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), "layer_norm: " + message);
  };
  const int64_t axis = site.get("axis"), rank = site.output().dims.size();
  const DType out = site.output().type, wide = out == DType::f64 ? DType::f64 : DType::f32;
  if (!isFloat(out) || bitWidth(out) < 16)
    return fail("elements of " + toString(out));
  if (axis < 0 || axis > rank)
    return fail("axis " + llvm::Twine(axis) + " of " + llvm::Twine(rank) + " dimensions");
  const bool hasScale = site.get("scale", site.numInputs() > 1), hasBias = site.get("bias", site.numInputs() > 2);
  if (site.numInputs() < 1u + hasScale + hasBias)
    return fail("expected " + llvm::Twine(1 + hasScale + hasBias) + " inputs, got " + llvm::Twine(site.numInputs()));
  LaunchSite row = site;
  std::vector<int64_t> reduced;
  int64_t count = 1;
  for (int64_t d = axis; d < rank; ++d) {
    reduced.push_back(d);
    count *= site.output().dims[d];
  }
  row.immediates.push_back(count);
  Expr e;
  auto binary = [&](BinaryKind kind, uint32_t a, uint32_t b) { return e.binary(kind, a, b); };
  auto input = [&](uint32_t i) { return e.cast(wide, e.load(site.input(i).type, i)); };
  uint32_t n = e.cast(wide, e.param(DType::i64, site.immediates.size()));
  uint32_t epsilon = e.constant(wide, llvm::bit_cast<float>(uint32_t(site.get("epsilon"))));
  bool rms = site.get("rms");
  uint32_t x = input(0), d = x, centered = x, variance;
  if (rms) {
    variance = binary(BinaryKind::div, e.acc(wide, 0), n);
  } else {
    // A further view of the input, which stands still over the row.
    View first = site.input(0);
    for (int64_t axis : reduced)
      first.strides[axis] = 0;
    row.views.push_back(first);
    d = binary(BinaryKind::sub, x, e.cast(wide, e.load(first.type, site.numInputs())));
    uint32_t mean = binary(BinaryKind::div, e.acc(wide, 0), n),
             squares = binary(BinaryKind::sub, e.acc(wide, 1), binary(BinaryKind::mul, e.acc(wide, 0), mean));
    variance =
        binary(BinaryKind::max, binary(BinaryKind::div, squares, n), e.constant(wide, 0)); // not below 0 by rounding
    centered = binary(BinaryKind::sub, d, mean);
  }
  uint32_t square = binary(BinaryKind::mul, d, d);
  uint32_t y = binary(BinaryKind::mul, centered, e.unary(UnaryKind::rsqrt, binary(BinaryKind::add, variance, epsilon)));
  if (hasScale)
    y = binary(BinaryKind::mul, y, input(1));
  if (hasBias)
    y = binary(BinaryKind::add, y, input(1 + hasScale));
  if (site.body.empty()) {
    y = e.cast(out, y);
  } else {
    for (const ExprNode &node : site.body.nodes)
      if (node.op == ExprNode::Op::acc)
        y = e.cast(node.type, y);
    y = e.inlineExpr(site.body, {}, {}, y)[0];
  }
  e.results = {square, y};
  if (!rms)
    e.results.insert(e.results.begin(), d);
  row.body = e.pruned();
  row.config = {{"extents", site.output().dims}, {"reduce", reduced}};
  row.words = {{"combine", rms ? "sum" : "sum sum"}};
  const unsigned input0 = site.outputs;
  auto bound = loops::bind(row, target, rms ? llvm::ArrayRef<unsigned>() : llvm::ArrayRef<unsigned>(input0));
  if (bound)
    bound->kernel.family = "layer_norm";
  return bound;
}

const KernelFamily &layerNormFamily() {
  static const LayerNormFamily family;
  return family;
}

} // namespace mrcc
