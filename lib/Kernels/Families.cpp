// The table of kernel families.
#include "Families.h"

namespace mrcc {

const KernelFamily *KernelFamily::find(llvm::StringRef name) {
  static const std::vector<const KernelFamily *> families = {
      &attentionFamily(), &convFamily(), &convTransposeFamily(), &depthwiseFamily(), &groupNormFamily(),
      &layerNormFamily(), &loopFamily(), &matMulFamily(),        &softmaxFamily(),
  };
  for (const KernelFamily *family : families)
    if (family->name() == name)
      return family;
  return nullptr;
}

} // namespace mrcc
