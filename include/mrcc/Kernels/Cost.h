// The cost model: how long a step takes on one core, from what its schedule does (Work, computed where the schedule is
// chosen), its views and a few rates of a machine. It depends on nothing else, so the compiler may ask it about a
// machine that it has never seen, and gets the same answer on every host.
//
//   arithmetic = multiplied / (FMA rate * efficiency of the class)
//              + instructions / (FMA instructions a second * efficiency of the class)
//   memory     = bytes read / bandwidth, together with bytes written / bandwidth
//   seconds    = arithmetic together with memory + what a step and its units cost
//
// "Together": the longer one and a part of the shorter one. A bandwidth is a mix of those of the caches and memory:
// of a working set of b bytes a cache of c bytes holds the share 1 - b/c, the next level takes care of the rest. Of
// constants the working set is all constants and the arena of the program, because a call passes them all; of other
// views it is the views of the step, which the steps before have just written.
#pragma once
#include "mrcc/Kernels/Kernel.h"
#include <array>

namespace mrcc {

/// Rates of one core, measured (`bench --explain`) or written down.
struct Machine {
  struct Level {
    uint64_t bytes = 0;         // that fit; of the last level, memory, all
    double read = 1, write = 1; // bytes a second
  };
  double multiplyAdds = 1;     // f32 flop/s of multiply-adds in the target's vectors, one of them two flops
  std::array<Level, 4> levels; // L1, L2, L3, memory
};

/// Seconds.
struct Prediction {
  double arithmetic = 0, memory = 0, total = 0;
};

/// `programBytes`: constants and arena of the program that the step is part of.
Prediction predict(const KernelDescription &kernel, const Step &step, uint64_t programBytes, const Target &target,
                   const Machine &machine);

/// The kernel's line in the table of efficiencies: its family, for convolutions also the algorithm ("conv winograd").
std::string costClass(const KernelDescription &kernel);

} // namespace mrcc
