#include "Explain.h"
#include "Table.h"
#include <fmt/format.h>
#include <map>
#include <numeric>

using namespace mrcc;
using namespace mrcc::tool;

llvm::Expected<Explanation> tool::explain(const BundleInfo &info, const BundleInfo::Variant &variant,
                                          const std::vector<StepRecord> &steps, const Target &target,
                                          const Machine &machine) {
  const Program &program = variant.program;
  Explanation explanation{machine, {}};
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step &step = program.steps[i];
    const std::string &key = info.kernels[variant.kernelNumbers[step.kernel]].key;
    auto kernel = KernelDescription::parse(key);
    if (!kernel)
      return llvm::createStringError("step " + llvm::Twine(i) + ": a kernel's description does not parse: " + key);
    const double measured = i < steps.size() ? steps[i].median() : 0;
    explanation.steps.push_back({costClass(*kernel),
                                 predict(*kernel, step, variant.constantBytes + program.arenaBytes, target, machine),
                                 measured});
  }
  return explanation;
}

double Explanation::medianRatio(llvm::StringRef costClass) const {
  std::vector<double> ratios;
  for (const ExplainedStep &step : steps)
    if (costClass.empty() || step.costClass == costClass)
      ratios.push_back(step.ratio());
  return median(std::move(ratios));
}

double Explanation::weightedRatio() const {
  std::vector<std::pair<double, double>> sorted; // ratio, weight
  double total = 0, sum = 0;
  for (const ExplainedStep &step : steps) {
    sorted.push_back({step.ratio(), step.measured});
    total += step.measured;
  }
  llvm::sort(sorted);
  for (auto [ratio, weight] : sorted)
    if ((sum += weight) >= total / 2)
      return ratio;
  return 0;
}

namespace {
/// Steps and seconds of a class.
struct Share {
  size_t steps = 0;
  double predicted = 0, measured = 0;
};
} // namespace

static std::map<std::string, Share> sharesOf(const Explanation &explanation) {
  std::map<std::string, Share> shares;
  for (const ExplainedStep &step : explanation.steps) {
    Share &share = shares[step.costClass];
    ++share.steps;
    share.predicted += step.predicted.total;
    share.measured += step.measured;
  }
  return shares;
}

static std::string milliseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e3); }

std::string tool::explainTable(const Explanation &explanation, const std::vector<StepRecord> &steps) {
  Table table({"step", "predicted ms", "measured", "ratio", "arithmetic", "memory", "<class", "<kernel", "<node"});
  for (size_t i = 0; i < explanation.steps.size(); ++i) {
    const ExplainedStep &s = explanation.steps[i];
    table.row({std::to_string(i), milliseconds(s.predicted.total), milliseconds(s.measured),
               fmt::format("{:.2f}", s.ratio()), milliseconds(s.predicted.arithmetic), milliseconds(s.predicted.memory),
               s.costClass, steps[i].kernel, shortened(steps[i].location, 60)});
  }
  Table classes({"<class", "steps", "predicted ms", "measured", "median ratio"});
  Share all;
  for (const auto &[name, share] : sharesOf(explanation)) {
    classes.row({name, std::to_string(share.steps), milliseconds(share.predicted), milliseconds(share.measured),
                 fmt::format("{:.2f}", explanation.medianRatio(name))});
    all.steps += share.steps, all.predicted += share.predicted, all.measured += share.measured;
  }
  classes.row({"all", std::to_string(all.steps), milliseconds(all.predicted), milliseconds(all.measured),
               fmt::format("{:.2f}", explanation.medianRatio())});
  return table.text() + "\n" + classes.text() +
         fmt::format("predicted / measured: median {:.2f}, median by time {:.2f}\n", explanation.medianRatio(),
                     explanation.weightedRatio());
}

llvm::json::Object tool::explainJson(const Explanation &explanation) {
  llvm::json::Array levels, steps, classes;
  for (const Machine::Level &level : explanation.machine.levels)
    levels.push_back(llvm::json::Object{
        {"bytes", level.bytes == UINT64_MAX ? llvm::json::Value(nullptr) : llvm::json::Value(int64_t(level.bytes))},
        {"read_bytes_per_second", level.read},
        {"write_bytes_per_second", level.write}});
  for (const ExplainedStep &s : explanation.steps)
    steps.push_back(llvm::json::Object{{"class", s.costClass},
                                       {"predicted_ms", s.predicted.total * 1e3},
                                       {"arithmetic_ms", s.predicted.arithmetic * 1e3},
                                       {"memory_ms", s.predicted.memory * 1e3},
                                       {"measured_ms", s.measured * 1e3},
                                       {"ratio", s.ratio()}});
  for (const auto &[name, share] : sharesOf(explanation))
    classes.push_back(llvm::json::Object{{"class", name},
                                         {"steps", int64_t(share.steps)},
                                         {"predicted_ms", share.predicted * 1e3},
                                         {"measured_ms", share.measured * 1e3},
                                         {"median_ratio", explanation.medianRatio(name)}});
  return llvm::json::Object{{"machine", llvm::json::Object{{"flops_per_second", explanation.machine.multiplyAdds},
                                                           {"levels", std::move(levels)}}},
                            {"median_ratio", explanation.medianRatio()},
                            {"time_weighted_median_ratio", explanation.weightedRatio()},
                            {"steps", std::move(steps)},
                            {"classes", std::move(classes)}};
}
