#include "Progress.h"
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

using namespace mrcc::tool;
using Clock = std::chrono::steady_clock;

Progress::Progress(Verbosity verbosity) : terminal(isatty(STDERR_FILENO)), silent(verbosity == Verbosity::quiet) {}

void Progress::update(const std::string &name, size_t done, size_t total) {
  std::lock_guard lock(mutex);
  if (silent)
    return;
  bool isNew = name != stage;
  if (isNew) {
    stage = name;
    began = Clock::now();
    drawn = {};
    most = 0;
    if (!terminal) {
      fmt::print(stderr, "mrcc: {}{}\n", name, total > 1 ? fmt::format(": {} to do", total) : "");
      return;
    }
  }
  most = std::max(most, done);
  bool late = Clock::now() - drawn > std::chrono::milliseconds(50);
  if (terminal && (isNew || late || most == total))
    draw(most, total);
}

void Progress::draw(size_t done, size_t total) {
  drawn = Clock::now();
  std::string line = fmt::format("{:<14}", stage);
  if (total > 1) {
    constexpr size_t width = 30;
    size_t full = width * done / total;
    line += fmt::format(" [{}{}] {}/{}", std::string(full, '#'), std::string(width - full, '.'), done, total);
    double seconds = std::chrono::duration<double>(drawn - began).count();
    if (done && done < total && seconds > 1)
      line += fmt::format(", {:.0f} s left", seconds * double(total - done) / double(done));
  }
  fmt::print(stderr, "\r{:<{}}", line, shown);
  std::fflush(stderr);
  shown = line.size();
}

void Progress::finish() {
  std::lock_guard lock(mutex);
  if (shown)
    fmt::print(stderr, "\r{:<{}}\r", "", shown);
  shown = 0;
}
