// Progress of a long command on stderr: one line that is drawn over again on a terminal, plain lines elsewhere.
#pragma once
#include "Tool.h"
#include <chrono>
#include <mutex>

namespace mrcc::tool {

/// Thread-safe. A stage's counts may arrive out of order.
class Progress {
public:
  explicit Progress(Verbosity verbosity);
  ~Progress() { finish(); }
  /// `done` of `total` pieces of a stage; totals below 2 show the stage alone.
  void update(const std::string &stage, size_t done, size_t total);
  /// Removes the bar, so that messages stand on lines of their own.
  void finish();

private:
  void draw(size_t done, size_t total);
  std::mutex mutex;
  bool terminal, silent;
  std::string stage;
  size_t shown = 0, most = 0; // characters of the bar; pieces done
  std::chrono::steady_clock::time_point began, drawn;
};

} // namespace mrcc::tool
