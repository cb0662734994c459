// One case through all of mrcc: compile for the shapes of its data, pack, load by the runtime, run, compare.
#pragma once
#include "Case.h"

namespace mrcc::test {

enum class Status { passed, failed, refused, crashed };
const char *statusName(Status status);

struct Outcome {
  Status status = Status::passed;
  std::string reason;   // "" where it passed
  uint64_t kernels = 0; // executed
};

/// `scratch` names a path for a bundle on disk; empty: the bundle stays in memory.
Outcome execute(const std::string &folder, const std::string &scratch);

} // namespace mrcc::test
