// Machine code of a bundle's kernels as text.
#pragma once
#include "llvm/Support/Error.h"
#include <string>

namespace mrcc::tool {

/// `bytes` of code at `offset` from the load base of an ELF image, an instruction a line. `target` is "cpu:x86-64-v3".
llvm::Expected<std::string> disassemble(llvm::StringRef image, uint64_t offset, uint64_t bytes,
                                        const std::string &target);

} // namespace mrcc::tool
