// What this machine can do at most, measured in this process: multiply-adds in registers, bytes to and from caches.
#pragma once
#include "mrcc/Kernels/Cost.h"

namespace mrcc::tool {

/// f32 flop/s of `threads` threads together, of the widest vectors that the CPU has, `vectorBits` at most (a
/// multiply-add counts as two). Takes about 0.2 s, with one thread a CPU at most: more reach no higher peak. 0 where
/// there is no loop for this CPU.
double measurePeak(unsigned threads, unsigned vectorBits = 512);
/// How many threads measurePeak uses when asked for so many.
unsigned peakThreads(unsigned threads);
/// The rates of one core for code of this target. Takes about half a second and four times the last cache's size.
Machine measureMachine(const Target &target);

} // namespace mrcc::tool
