// Checks a program before anything of it runs: every view of every step lies inside its space, every number refers to
// something. Kernel parameters are not checked: the hash vouches for them.
#pragma once
#include "Index.h"

namespace mrcc::runtime {

/// Decodes and checks a program file against its record in the index. Throws Failure with `name` as the place.
Program readProgram(std::string_view bytes, const Index &index, const VariantRecord &record, const std::string &name);

} // namespace mrcc::runtime
