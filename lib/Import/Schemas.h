// What a node of the default domain may have, as far as handlers do not look at it themselves.
#pragma once
#include "Onnx.h"

namespace mrcc::onnx {

/// An attribute that is there twice, more inputs than the op has in any opset, no output where one must be: why it is
/// wrong, or "". Attributes that the op does not have are appended to `unknown`. Says nothing of unknown ops.
std::string checkSchema(const Node &node, std::vector<std::string> &unknown);

} // namespace mrcc::onnx
