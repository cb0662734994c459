// What families use to say how much work their schedule does (Format.h, Work).
#pragma once
#include "mrcc/Kernels/Kernel.h"

namespace mrcc {

/// Vector instructions that a node, a body, of floats takes, about. Loads are one each.
int64_t instructionsOf(const ExprNode &node);
int64_t instructionsOf(const Expr &body);

/// Instructions that apply a body to a vector of results and store it.
inline int64_t finishInstructions(const LaunchSite &site) { return instructionsOf(site.body) + 1; }

/// Bytes that pass L2 when `bytes` are used `passes` times, those of the first time not counted: none where they stay
/// in half of it.
inline int64_t rereadBytes(const Target &target, int64_t bytes, int64_t passes) {
  return bytes > int64_t(target.l2Bytes / 2) ? bytes * (passes - 1) : 0;
}

} // namespace mrcc
