// layer_norm: two reductions and a last pass, by the loop family's emitter: the mean of a row, the mean of squared
// differences from it (one pass each, from cache), then the normalised values. The rms variant needs squares alone.
//
//   views   out; in, scale, bias (config scale, bias: 0 or 1), extras of the epilogue, of out's shape (stride 0 where they
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
  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &kb) const override { return loops::emit(kernel, kb); }
};
} // namespace

llvm::Expected<BoundLaunch> LayerNormFamily::bind(const LaunchSite &site, const Target &target) const {
  auto fail = [](const llvm::Twine &message) { return llvm::createStringError(llvm::inconvertibleErrorCode(), "layer_norm: " + message); };
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
  uint32_t x = input(0), centered = rms ? x : binary(BinaryKind::sub, x, binary(BinaryKind::div, e.acc(wide, 0), n));
  uint32_t square = binary(BinaryKind::mul, centered, centered);
  uint32_t variance = binary(BinaryKind::div, e.acc(wide, rms ? 0 : 1), n);
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
    e.results.insert(e.results.begin(), x);
  row.body = e.pruned();
  row.config = {{"extents", site.output().dims}, {"reduce", reduced}};
  row.words = {{"combine", rms ? "sum" : "sum sum"}};
  auto bound = loops::bind(row, target);
  if (bound)
    bound->kernel.family = "layer_norm";
  return bound;
}

const KernelFamily &layerNormFamily() {
  static const LayerNormFamily family;
  return family;
}

} // namespace mrcc
