// The table from op to lowering.
#include "Lower.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mrcc;

LogicalResult mrcc::lowerToLaunches(Operation *op) {
  OpBuilder b(op);
  auto replaced = TypeSwitch<Operation *, FailureOr<Value>>(op)
                      .Case([&](UnaryOp o) { return lowerUnary(o, b); })
                      .Case([&](BinaryOp o) { return lowerBinary(o, b); })
                      .Case([&](SelectOp o) { return lowerSelect(o, b); })
                      .Case([&](CastOp o) { return lowerCast(o, b); })
                      .Case([&](BitcastOp o) { return lowerBitcast(o, b); })
                      .Case([&](IotaOp o) { return lowerIota(o, b); })
                      .Case([&](RangeOp o) { return lowerRange(o, b); })
                      .Case([&](FillOp o) { return lowerFill(o, b); })
                      .Case([&](ReduceOp o) { return lowerReduce(o, b); })
                      .Case([&](ArgReduceOp o) { return lowerArgReduce(o, b); })
                      .Case([&](SoftmaxOp o) { return lowerSoftmax(o, b); })
                      .Case([&](LayerNormOp o) { return lowerLayerNorm(o, b); })
                      .Case([&](GroupNormOp o) { return lowerGroupNorm(o, b); })
                      .Case([&](BatchNormOp o) { return lowerBatchNorm(o, b); })
                      .Case([&](AttentionOp o) { return lowerAttention(o, b); })
                      .Case([&](ConvOp o) { return lowerConv(o, b); })
                      .Case([&](ConvTransposeOp o) { return lowerConvTranspose(o, b); })
                      .Case([&](PoolOp o) { return lowerPool(o, b); })
                      .Case([&](MatMulOp o) { return lowerMatMul(o, b); })
                      .Case([&](TileOp o) { return lowerTile(o, b); })
                      .Case([&](PadOp o) { return lowerPad(o, b); })
                      .Case([&](GatherOp o) { return lowerGather(o, b); })
                      .Case([&](GatherElementsOp o) { return lowerGatherElements(o, b); })
                      .Case([&](GatherNDOp o) { return lowerGatherND(o, b); })
                      .Case([&](ResizeOp o) { return lowerResize(o, b); })
                      .Case([&](PackOp o) { return lowerPack(o, b); })
                      .Case([&](ScatterElementsOp o) { return lowerScatterElements(o, b); })
                      .Case([&](ScatterNDOp o) { return lowerScatterND(o, b); })
                      .Case([&](CumulativeOp o) { return lowerCumulative(o, b); })
                      .Default([&](Operation *) -> FailureOr<Value> { return failure(); });
  if (failed(replaced))
    return op->emitOpError("has no kernel for these types and attributes");
  op->getResult(0).replaceAllUsesWith(*replaced);
  op->erase();
  return success();
}
