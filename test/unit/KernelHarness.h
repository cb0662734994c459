// Compiles kernels, maps the image and calls them on tensors of any layout, for tests and benchmarks.
#pragma once
#include "mrcc/Bundle/Format.h"
#include "mrcc/Codegen/Codegen.h"
#include "mrcc/Kernels/Kernel.h"
#include <cstring>
#include <functional>
#include <map>
#include <random>

namespace mrcc::testing {

/// A strided tensor in memory of its own, with elements around it that nobody may touch.
class Tensor {
public:
  Tensor() = default;
  /// Row-major by default; `order` lists dimensions from slowest to fastest in memory. `pitch` elements are added to
  /// each stride but the innermost, as in a slice of something bigger.
  Tensor(DType type, std::vector<int64_t> dims, std::vector<int> order = {}, int64_t pitch = 0);
  /// Moves it, before anything is written to it, to the start of a cache line.
  Tensor &alignToLine();
  Tensor &random(unsigned seed, double low = -1, double high = 1);
  /// Repeats along these dimensions: their strides become 0.
  Tensor &broadcast(std::vector<int> over);
  View view() const;
  char *data() { return bytes.data() + view_.offset; }
  double get(const std::vector<int64_t> &at) const;
  void set(const std::vector<int64_t> &at, double value);
  /// Calls f for each index.
  void each(const std::function<void(const std::vector<int64_t> &)> &f) const;
  const std::vector<int64_t> &dims() const { return view_.dims; }
  /// No element outside the view differs from what it was at first.
  bool untouchedAround() const;

private:
  View view_;
  std::vector<char> bytes;
  const char *at(const std::vector<int64_t> &at) const;
};

/// A code image mapped for execution.
class Mapped {
public:
  explicit Mapped(const CodeImage &image);
  ~Mapped();
  Mapped(const Mapped &) = delete;
  KernelFunction *function(size_t kernel) const;

private:
  char *base = nullptr;
  size_t size = 0;
  std::vector<uint64_t> offsets;
};

/// A launch bound and compiled; call it as often as wanted.
class Compiled {
public:
  Compiled(LaunchSite site, const Target &target); // aborts with a message on errors
  /// Units split into `parts` runs.
  void call(const std::vector<Tensor *> &tensors, int64_t parts = 1) const;
  BoundLaunch bound;
  KernelFunction *function = nullptr;
  std::shared_ptr<Mapped> image;
  uint64_t codeBytes = 0;
};

/// The site of `family` over these tensors, outputs first.
LaunchSite makeSite(std::string family, const std::vector<Tensor *> &tensors,
                    std::map<std::string, std::vector<int64_t>> config, const std::string &body = "",
                    unsigned outputs = 1);

/// Whether this machine runs the target's code.
bool runsHere(const Target &target);

/// max |a - b| / max |b| over all elements.
double relativeError(const Tensor &a, const Tensor &b);

} // namespace mrcc::testing
