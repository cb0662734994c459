// From kernel descriptions to one position-independent code image without imports, relocations or writable data.
#pragma once
#include "mrcc/Kernels/Kernel.h"
#include "llvm/Support/Error.h"
#include <functional>

namespace mrcc {

struct CodeImage {
  struct Entry {
    KernelDescription kernel;
    uint64_t offset = 0; // of the KernelFunction from the image's load base
    uint64_t bytes = 0;  // of code
  };
  std::string bytes;          // ELF64, ET_DYN
  std::vector<Entry> kernels; // in the order of their keys
};

/// What a number of jobs means: 0 is one thread a core.
unsigned numThreads(unsigned jobs);

/// Compiles each kernel once (in parallel on `jobs` threads) and links them in the order of their keys. The same bytes
/// for any number of jobs and any host. `progress(done, total)` may be null. An error with std::errc::not_supported: a
/// family cannot emit that kernel; others are failures of the machinery.
llvm::Expected<CodeImage> compileKernels(std::vector<KernelDescription> kernels, const Target &target, unsigned jobs,
                                         std::function<void(size_t, size_t)> progress = nullptr);

} // namespace mrcc
