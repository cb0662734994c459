// What this CPU can do, by the names that LLVM and /proc/cpuinfo give features.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mrcc::runtime {

/// ELF's number of the machine that this code runs on.
uint32_t hostMachine();

/// Those of `features` (separated by spaces) that this CPU or its operating system lacks, in the same form. A name that
/// is not known counts as missing.
std::string missingFeatures(std::string_view features);

/// Gives the calling thread the default floating-point modes (round to nearest, denormals kept, no traps) and back.
class DefaultFloatModes {
public:
  DefaultFloatModes();
  ~DefaultFloatModes();

private:
  uint64_t saved;
};

} // namespace mrcc::runtime
