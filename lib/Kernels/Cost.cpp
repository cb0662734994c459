#include "mrcc/Kernels/Cost.h"
#include "llvm/ADT/STLExtras.h"

namespace mrcc {

namespace {

/// What a class of kernels reaches of the machine's rates.
struct Efficiency {
  double multiply, instructions; // more than 1 of these: two units take what is no multiply-add
};
struct Line {
  llvm::StringLiteral name;
  Efficiency narrow, wide; // vectors of up to 256 bits (calibrated on AVX2), of 512
};

// Calibrated on one core of a Zen 4 server with the steps of four models at one size each, checked with other sizes
// of them and with a model that took no part (docs/benchmarks.md). None of them has a transposition: that line is a
// copy of "loop". Where a class has few products beside its other instructions, or the other way round, the figure of
// the few says little.
constexpr Line table[] = {
    {"attention", {0.90, 1.4}, {0.96, 1.3}},      {"conv", {0.96, 1.5}, {1.00, 1.5}},
    {"conv few", {1.00, 0.3}, {0.84, 0.9}},       {"conv one", {0.82, 1.0}, {0.88, 1.4}},
    {"conv winograd", {0.82, 0.9}, {0.86, 1.5}},  {"depthwise", {0.96, 2.0}, {1.00, 4.0}},
    {"group_norm", {1.00, 1.1}, {1.00, 1.5}},     {"layer_norm", {1.00, 1.3}, {1.00, 1.8}},
    {"loop", {1.00, 1.1}, {1.00, 2.0}},           {"loop reduce", {1.00, 1.6}, {1.00, 4.0}},
    {"loop transpose", {1.00, 1.1}, {1.00, 2.0}}, {"matmul", {0.94, 1.5}, {0.98, 1.5}},
    {"softmax", {1.00, 0.8}, {1.00, 0.7}},
};

/// Of the shorter of two things that overlap, what the longer one does not hide.
constexpr double exposed = 0.3;
/// Seconds that a step costs, and each unit of it: calls, parameters, the first misses.
constexpr double perStep = 0.02e-6, perUnit = 0.05e-6;

/// Seconds to pass one byte of a working set, read or written: what does not fit into a cache comes from the next
/// level. Of a set as large as half a cache only half is there, because others use it, too.
double perByte(const Machine &machine, uint64_t workingSet, double Machine::Level::*rate) {
  double seconds = 0, rest = 1;
  for (const Machine::Level &level : llvm::ArrayRef(machine.levels).drop_back()) {
    const double hits = std::max(0.0, 1 - double(workingSet) / double(level.bytes));
    seconds += rest * hits / (level.*rate);
    rest *= 1 - hits;
  }
  return seconds + rest / (machine.levels.back().*rate);
}

/// Two things that overlap: the longer one and a part of the other.
double together(double a, double b) { return std::max(a, b) + exposed * std::min(a, b); }

} // namespace

std::string costClass(const KernelDescription &kernel) {
  for (const char *algorithm : {"winograd", "few", "one"})
    if (kernel.family == "conv" && kernel.config.count(algorithm))
      return "conv " + std::string(algorithm);
  if (kernel.family == "loop" && kernel.config.count("transpose"))
    return "loop transpose";
  if (kernel.family == "loop" && kernel.config.count("combine0"))
    return "loop reduce";
  return kernel.family;
}

Prediction predict(const KernelDescription &kernel, const Step &step, uint64_t programBytes, const Target &target,
                   const Machine &machine) {
  const std::string name = costClass(kernel);
  const Line *line = llvm::find_if(table, [&](const Line &l) { return l.name == name; });
  assert(line != std::end(table) && "a family without a line in the table");
  const Efficiency &reached = target.vectorBits >= 512 ? line->wide : line->narrow;
  Prediction p;
  const double instructions = machine.multiplyAdds / (2.0 * target.lanes());
  p.arithmetic = double(step.work.multiplied) / (machine.multiplyAdds * reached.multiply) +
                 double(step.work.instructions) / (instructions * reached.instructions);
  uint64_t touched = 0;
  for (const View &view : step.views)
    touched += view.space == Space::absent ? 0 : viewBytes(view);
  const double read = perByte(machine, touched, &Machine::Level::read),
               write = perByte(machine, touched, &Machine::Level::write),
               readConstant = std::max(read, perByte(machine, programBytes, &Machine::Level::read));
  double reads = 0, writes = 0;
  for (size_t v = 0; v < step.views.size(); ++v) {
    const View &view = step.views[v];
    if (view.space == Space::absent)
      continue;
    const double bytes = double(viewBytes(view));
    if (v < step.outputs)
      writes += bytes * write;
    else
      reads += bytes * (view.space == Space::constant ? readConstant : read);
  }
  // What was read once is in L3 the next time.
  reads += double(step.work.moved - std::min(step.work.moved, touched)) / machine.levels[2].read;
  p.memory = together(reads, writes);
  p.total = together(p.arithmetic, p.memory) + perStep + perUnit * double(step.units);
  return p;
}

} // namespace mrcc
