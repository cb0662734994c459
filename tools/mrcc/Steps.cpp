#include "Steps.h"
#include "Table.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

using namespace mrcc;
using namespace mrcc::tool;

double tool::median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double StepRecord::median() const { return tool::median(seconds); }

void StepRecorder::hook(void *user, const mrcc_step *step) {
  auto &steps = static_cast<StepRecorder *>(user)->steps;
  if (steps.size() <= step->index)
    steps.resize(step->index + 1);
  StepRecord &record = steps[step->index];
  if (record.kernel.empty()) {
    record.location = step->location;
    record.kernel = step->kernel;
    record.flops = step->flops;
    record.bytes = step->bytes;
    record.moved = step->moved;
    record.units = step->units;
    record.threads = step->threads;
  }
  record.seconds.push_back(double(step->nanoseconds) * 1e-9);
}

llvm::Error StepRecorder::attach(mrcc_context *context) {
  return call(mrcc_context_set_step_hook, context, &StepRecorder::hook, static_cast<void *>(this));
}

llvm::Error StepRecorder::detach(mrcc_context *context) {
  return call(mrcc_context_set_step_hook, context, static_cast<mrcc_step_function *>(nullptr),
              static_cast<void *>(nullptr));
}

std::string tool::stepTable(const std::vector<StepRecord> &steps, double peak) {
  Table table({"step", "ms", "share", "GFLOP/s", "peak", "GB/s", "bytes", "moved", "<kernel", "<node"});
  double total = 0;
  for (const StepRecord &s : steps)
    total += s.median();
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepRecord &s = steps[i];
    double t = std::max(s.median(), 1e-9), rate = double(s.flops) / t;
    table.row({std::to_string(i), fmt::format("{:.3f}", t * 1e3), fmt::format("{:.1f} %", 100 * t / total),
               s.flops ? fmt::format("{:.1f}", rate * 1e-9) : "-",
               s.flops && peak > 0 ? fmt::format("{:.0f} %", 100 * rate / peak) : "-",
               fmt::format("{:.1f}", double(s.bytes) / t * 1e-9), bytesText(double(s.bytes)),
               s.bytes ? fmt::format("{:.2f} x", double(s.moved) / double(s.bytes)) : "-", s.kernel,
               shortened(s.location, 80)});
  }
  return table.text();
}
