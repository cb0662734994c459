// The matmul kernel, which 1x1 convolutions use, too.
#pragma once
#include "Tile.h"

namespace mrcc {

/// A product as the kernel sees it: out[b..., m, n] = body(sum over k of a[b..., m, k] * B[b..., k, n]). B is packed
/// [chunks][panels][chunk][16], or a view with strides.
struct MatMulProblem {
  View out, a, b;
  std::vector<View> extras; // of out's rank
  bool packed = true;
  int64_t chunks = 1; // packed: K is cut into this many parts
};

llvm::Expected<BoundLaunch> bindMatMul(MatMulProblem problem, const LaunchSite &site, const Target &target);

} // namespace mrcc
