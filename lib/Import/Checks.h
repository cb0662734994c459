// Errors and bounds that reading and importing share.
#pragma once
#include "Onnx.h"
#include "mrcc/IR/Shapes.h"
#include "mrcc/Import/Import.h"

namespace mrcc::onnx {

llvm::Error importError(ImportError::Kind kind, const llvm::Twine &message);

/// Most dimensions of a tensor; nothing real comes near.
constexpr int maxRank = 64;

} // namespace mrcc::onnx
