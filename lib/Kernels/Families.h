// The kernel families. A new one is a file with a class, a line here and a line in Families.cpp.
#pragma once
#include "mrcc/Kernels/Kernel.h"

namespace mrcc {
const KernelFamily &groupNormFamily();
const KernelFamily &layerNormFamily();
const KernelFamily &loopFamily();
const KernelFamily &softmaxFamily();
const KernelFamily &attentionFamily();
const KernelFamily &convFamily();
const KernelFamily &convTransposeFamily();
const KernelFamily &depthwiseFamily();
const KernelFamily &matMulFamily();
} // namespace mrcc
