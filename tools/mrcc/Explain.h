// bench --explain: what the cost model says of each step beside what was measured.
#pragma once
#include "Steps.h"
#include "mrcc/Bundle/Bundle.h"
#include "mrcc/Kernels/Cost.h"
#include "llvm/Support/JSON.h"

namespace mrcc::tool {

struct ExplainedStep {
  std::string costClass;
  Prediction predicted;
  double measured = 0; // seconds, the median
  double ratio() const { return predicted.total / std::max(measured, 1e-9); }
};

/// One variant's steps, in the program's order.
struct Explanation {
  Machine machine;
  std::vector<ExplainedStep> steps;
  /// The median of predicted / measured; of all steps, or of one class. Weighted: by the measured time.
  double medianRatio(llvm::StringRef costClass = {}) const;
  double weightedRatio() const;
};

/// `steps` are the measured times of the variant's steps on one thread. Fails where a kernel's key does not parse.
llvm::Expected<Explanation> explain(const BundleInfo &info, const BundleInfo::Variant &variant,
                                    const std::vector<StepRecord> &steps, const Target &target, const Machine &machine);

std::string explainTable(const Explanation &explanation, const std::vector<StepRecord> &steps);
llvm::json::Object explainJson(const Explanation &explanation);

} // namespace mrcc::tool
