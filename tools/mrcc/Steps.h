// What a step hook collects: times per step of one variant, over any number of runs.
#pragma once
#include "Runtime.h"

namespace mrcc::tool {

struct StepRecord {
  std::string location, kernel;
  uint64_t flops = 0, bytes = 0, moved = 0, units = 0; // bytes: of its views, each once, the least that it can move
  unsigned threads = 0;
  std::vector<double> seconds; // one a run
  double median() const;
};

class StepRecorder {
public:
  std::vector<StepRecord> steps;
  llvm::Error attach(mrcc_context *context);
  static llvm::Error detach(mrcc_context *context);

private:
  static void hook(void *user, const mrcc_step *step);
};

double median(std::vector<double> values);

/// The table of `run --profile` and `bench --steps`; `peak` (flop/s) may be 0.
std::string stepTable(const std::vector<StepRecord> &steps, double peak);

} // namespace mrcc::tool
