// Which targets a compile is for: names from the command line, and this machine's own.
#pragma once
#include "Tool.h"
#include "mrcc/Kernels/Kernel.h"

namespace mrcc::tool {

/// Names separated by commas, each once; "native" becomes the best target that this CPU runs, with a note.
llvm::Expected<std::vector<const Target *>> parseTargets(const std::vector<std::string> &values, Console &console);

} // namespace mrcc::tool
