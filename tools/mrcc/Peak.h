// What this machine can do at most, measured in this process: multiply-adds in registers.
#pragma once

namespace mrcc::tool {

/// f32 flop/s of `threads` threads together, of the widest vectors that the CPU has (a multiply-add counts as two).
/// Takes about 0.2 s, with one thread a CPU at most: more reach no higher peak. 0 where there is no loop for this CPU.
double measurePeak(unsigned threads);
/// How many threads measurePeak uses when asked for so many.
unsigned peakThreads(unsigned threads);

} // namespace mrcc::tool
