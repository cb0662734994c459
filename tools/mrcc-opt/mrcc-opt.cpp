// mrcc-opt: single passes for lit tests. Only the dialects that mrcc uses are registered.
#include "Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mrcc::MrcDialect, mlir::func::FuncDialect>();
  mrcc::registerMrccPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "mrcc-opt\n", registry));
}
