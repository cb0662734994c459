// softmax: a reduction in two phases and a last pass, by the loop family's emitter: the maximum of a row, the sum of
// exponentials (which are kept in scratch), their shares. Any axis, any strides.
//
//   views   out, in of one shape; operands of the prologue broadcast to it
//   config  axis, log
//   body    optional prologue: its result takes the input's place (load 0: the input)
#include "Families.h"
#include "Loop.h"

namespace mrcc {

namespace {
class SoftmaxFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "softmax"; }
  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override;
  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &kb) const override {
    return loops::emit(kernel, kb);
  }
};
} // namespace

llvm::Expected<BoundLaunch> SoftmaxFamily::bind(const LaunchSite &site, const Target &target) const {
  auto fail = [](const llvm::Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), "softmax: " + message);
  };
  const int64_t axis = site.get("axis"), rank = site.output().dims.size();
  const DType out = site.output().type, wide = out == DType::f64 ? DType::f64 : DType::f32;
  if (!isFloat(out) || bitWidth(out) < 16)
    return fail("elements of " + toString(out));
  if (axis < 0 || axis >= rank)
    return fail("axis " + llvm::Twine(axis) + " of " + llvm::Twine(rank) + " dimensions");
  LaunchSite row = site;
  Expr &e = row.body;
  if (e.empty())
    e.results = {e.load(site.input(0).type, 0)};
  if (e.results.size() != 1)
    return fail("the prologue has " + llvm::Twine(e.results.size()) + " results");
  uint32_t x = e.cast(wide, e.results[0]), shifted = e.binary(BinaryKind::sub, x, e.acc(wide, 0)),
           power = e.unary(UnaryKind::exp, shifted);
  uint32_t sum = e.acc(wide, 1), share; // NaN need not survive the maximum: the sum has it
  if (site.get("log"))
    share = e.binary(BinaryKind::sub, shifted, e.unary(UnaryKind::log, sum));
  else
    share = e.binary(BinaryKind::mul, power, e.unary(UnaryKind::reciprocal, sum));
  e.results = {x, power, e.cast(out, share)};
  row.config = {{"extents", site.output().dims}, {"reduce", {axis}}};
  row.words = {{"combine", "max_number sum"}};
  auto bound = loops::bind(row, target);
  if (bound)
    bound->kernel.family = "softmax";
  return bound;
}

const KernelFamily &softmaxFamily() {
  static const SoftmaxFamily family;
  return family;
}

} // namespace mrcc
