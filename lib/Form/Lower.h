// The lowerings of lib/Form, a file a group of ops. Each makes launches and views in front of the op and returns the
// value that replaces its result.
#pragma once
#include "mrcc/Form/Launch.h"

namespace mrcc {

// Elementwise.cpp
mlir::FailureOr<mlir::Value> lowerUnary(UnaryOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerBinary(BinaryOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerSelect(SelectOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerCast(CastOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerBitcast(BitcastOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerIota(IotaOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerRange(RangeOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerFill(FillOp op, mlir::OpBuilder &b);

// Reduce.cpp
mlir::FailureOr<mlir::Value> lowerReduce(ReduceOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerArgReduce(ArgReduceOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerSoftmax(SoftmaxOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerLayerNorm(LayerNormOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerGroupNorm(GroupNormOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerBatchNorm(BatchNormOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerAttention(AttentionOp op, mlir::OpBuilder &b);

// Window.cpp
mlir::FailureOr<mlir::Value> lowerConv(ConvOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerConvTranspose(ConvTransposeOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerPool(PoolOp op, mlir::OpBuilder &b);

// MatMul.cpp
mlir::FailureOr<mlir::Value> lowerMatMul(MatMulOp op, mlir::OpBuilder &b);

// Movement.cpp
mlir::FailureOr<mlir::Value> lowerTile(TileOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerPad(PadOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerGather(GatherOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerGatherElements(GatherElementsOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerGatherND(GatherNDOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerResize(ResizeOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerPack(PackOp op, mlir::OpBuilder &b);

// Scatter.cpp
mlir::FailureOr<mlir::Value> lowerScatterElements(ScatterElementsOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerScatterND(ScatterNDOp op, mlir::OpBuilder &b);
mlir::FailureOr<mlir::Value> lowerCumulative(CumulativeOp op, mlir::OpBuilder &b);

} // namespace mrcc
