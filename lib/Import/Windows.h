// Attributes that convolutions and pools share.
#pragma once
#include "Node.h"

namespace mrcc {

struct Window {
  llvm::SmallVector<int64_t> kernel, strides, dilations, pads; // pads: begins, then ends
  std::string autoPad;                                         // as the mrc ops spell it
};

/// Reads and checks them for `spatial` dimensions. `kernel` is empty where the attribute is absent.
/// `negativePads`: of a convolution, which crop its input, and of a transposed one, which add to its output.
Window readWindow(NodeContext &c, int64_t spatial, bool negativePads = false);

} // namespace mrcc
