// The simplify stage as a list of passes. Each makes the ground for the next: batch norms and norms are found while the
// exporter's pattern is whole; layout then brings what acts per channel right behind the convolutions, where fold-scale
// finds it; attention goes before fold-scale, which would put its scale into a projection's weights; packing comes
// last, because packed weights no longer change.
#include "Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mrcc::buildSimplifyPipeline(OpPassManager &pm) {
  auto add = [&](std::unique_ptr<Pass> pass) { pm.addNestedPass<func::FuncOp>(std::move(pass)); };
  auto clean = [&] {
    add(createCanonicalizerPass());
    add(createCSEPass());
  };
  clean();
  add(createFoldConstants());
  clean(); // folding made equal constants
  add(createFoldBatchNorm());
  add(createFuseNorms());
  add(createFuseActivations());
  add(createPropagateLayout());
  clean();
  add(createFoldConstants());
  add(createFuseAttention());
  add(createFoldScale());
  clean();
  add(createPackWeights());
  add(createFoldConstants());
  clean();
}
