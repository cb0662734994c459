// Activations by name: as ops, and as attributes of recurrent ops and of the convolutions and products that ONNX
// Runtime fused.
#pragma once
#include "Node.h"

namespace mrcc {

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
  bool takesAlpha() const;
  bool takesBeta() const;
};

/// With ONNX's default alpha and beta. The node fails (unsupported) where the name is none that `activate` knows.
Activation activationOf(NodeContext &c, std::string name);
/// The activation of v; v itself where the name is empty.
mlir::Value activate(NodeContext &c, const Activation &a, mlir::Value v);

} // namespace mrcc
