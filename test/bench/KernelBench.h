// Measures single kernels on one thread against the two roofs of the machine, both measured in the same run:
//
//   FMA peak    a loop of independent FMAs on vectors of the target's width, before and after each kernel
//   bandwidth   a loop that moves what the kernel must move and computes next to nothing: as many bytes read and
//               written, in the same proportion (a copy, a sum, four loads a store, ...), from buffers of the same size
//               with vectors of the same width. Its windows alternate with the kernel's, so both see the same state of
//               the machine, and its working set lies in the same level of the cache: in a model, too, a kernel reads
//               what the step before has just written.
//
// A kernel is held to the roof under which it would take longer, and its share of that roof is its figure. What a
// kernel must move is each input once and each output once; a norm whose statistics need all of a tensor reads it
// twice. What it must compute is its multiplications and additions; where memory is expected to be the limit, vector
// operations as the row states them, each of which takes the place of one FMA.
#pragma once
#include "KernelHarness.h"

namespace mrcc::bench {

/// What a kernel whose limit may be memory must do.
struct Demand {
  int64_t read = 0, written = 0; // bytes
  int64_t before = 0;            // bytes read in a pass of its own that must end before the others begin
  int64_t operations = 0;        // on elements, each as long as an FMA; 0: half of what the family's bind() counts
  int64_t bytes() const { return read + written + before; }
};

struct Options {
  std::string filter;    // only rows whose label contains this
  double seconds = 0.15; // a row, about
  double quantile = 0.5; // of a row's windows
};

class Bench {
public:
  Bench(const Target &target, Options options) : target(target), options(std::move(options)) {}
  /// Whether a row of this label is asked for.
  bool wants(const std::string &label) const { return label.find(options.filter) != std::string::npos; }
  /// Compiles and measures one launch and prints its row. The label's first word is the row's family. Without `work`
  /// the row is held to the FMA peak.
  void run(const std::string &label, const LaunchSite &site, const std::vector<testing::Tensor *> &tensors,
           const Demand &work = {});
  /// A line a family: rows, least and median share of the roof.
  void summarise() const;

private:
  struct Share {
    std::string label;
    double percent;
  };
  const Target &target;
  const Options options;
  std::vector<std::pair<std::string, std::vector<Share>>> families; // in the order of their first rows
};

/// A dense f32 tensor of numbers in [-1, 1) that starts at a cache line, as the runtime places them; `order` as in
/// testing::Tensor.
testing::Tensor tensor(std::vector<int64_t> dims, unsigned seed = 0, std::vector<int> order = {});
/// "AxBxC".
std::string times(const std::vector<int64_t> &dims);

/// Rows of matrix products, convolutions and attention.
void runProducts(Bench &bench);
/// Rows of everything that memory bounds.
void runMemory(Bench &bench);

} // namespace mrcc::bench
