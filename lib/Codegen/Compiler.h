// One thread's tools for turning kernel descriptions into objects: made once, used for many kernels.
#pragma once
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mrcc/Kernels/Kernel.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace mrcc {

struct Object {
  std::string name;       // of the one function that others see
  std::string bytes;      // ELF relocatable
  uint64_t codeBytes = 0; // of that function
};

class Compiler {
public:
  explicit Compiler(const Target &target);
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> emit(const KernelDescription &kernel);
  llvm::Expected<Object> compile(const KernelDescription &kernel);

private:
  llvm::Error addWrapper(llvm::Module &module, const KernelDescription &kernel);
  void prepare(llvm::Module &module);
  llvm::Error optimize(llvm::Module &module);
  llvm::Error addCodegenPasses(llvm::legacy::PassManager &passes, llvm::raw_pwrite_stream &out, bool reorders);

  const Target &target;
  mlir::MLIRContext context;
  mlir::PassManager pipeline;
  std::unique_ptr<llvm::TargetMachine> machine;
};

/// Links objects, in the order given, to one position-independent image without writable data, imports or relocations.
/// `offsets` gets the place of each object's function.
llvm::Expected<std::string> linkImage(const std::vector<Object> &objects, const Target &target,
                                      std::vector<uint64_t> &offsets);

inline llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

} // namespace mrcc
