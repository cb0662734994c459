// Pieces of quantisation that several families use.
#pragma once
#include "Node.h"

namespace mrcc {

/// (v - zero) * scale. Scale and zero point are one value, or one a slice of `axis`; -1: one value.
mlir::Value dequantize(NodeContext &c, mlir::Value v, mlir::Value scale, mlir::Value zero, int64_t axis);
/// round(v / scale) + zero, clamped to `type`; one scale.
mlir::Value quantize(NodeContext &c, mlir::Value v, mlir::Value scale, mlir::Value zero, mlir::Type type);
/// As i32, minus a zero point that stands for one value or for one a slice of `axis`; zero may be null.
mlir::Value centred(NodeContext &c, mlir::Value v, mlir::Value zero, int64_t axis);

struct DynamicQuantization {
  mlir::Value values, scale, zero; // u8
};
DynamicQuantization quantizeDynamically(NodeContext &c, mlir::Value v);

} // namespace mrcc
