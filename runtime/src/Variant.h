// A variant ready to run: kernels as addresses, views as (base, offset), everything in flat tables. Immutable.
#pragma once
#include "Check.h"
#include "mrcc/runtime.h"
#include <string>
#include <vector>

namespace mrcc::runtime {

/// Numbers of the bases that a run fills in. Constants have their address as offset from base `fixed`, which is null.
namespace base {
constexpr uint32_t fixed = 0, arena = 1, tensors = 2; // then inputs, then outputs
}

struct PreparedView {
  uint32_t base;
  uint32_t shape; // into `shapes`: rank, dims, strides
  uint64_t offset;
  DType type;
};

struct PreparedStep {
  KernelFunction *function;
  uint32_t firstView, numViews, numOutputs;
  uint32_t firstParam;
  uint64_t units; // 0: nothing to do
  uint64_t leastUnits;
  uint32_t location; // into `texts`
  const char *kernel;
  uint64_t flops, bytes, moved;
  bool parallel; // worth sharing among threads
};

class Prepared {
public:
  uint32_t variant = 0;
  uint64_t arenaBytes = 0, scratchBytes = 0;
  uint32_t numInputs = 0, numOutputs = 0;
  std::vector<PreparedStep> steps;
  std::vector<PreparedView> views;
  std::vector<int64_t> params, shapes;
  std::string texts; // each ends with a zero byte
  std::vector<uint8_t> splats;
};

} // namespace mrcc::runtime
