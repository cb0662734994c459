// Description -> MLIR -> LLVM dialect -> LLVM IR -> object.
//
// The pipeline lowers what KernelBuilder emits: scf to branches, memref and vector to pointers, everything to LLVM. The
// LLVM side gets a wrapper of the bundle's KernelFunction type and a short clean-up: kernels are vectors and tiles
// already.
#include "Compiler.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "mrcc/Bundle/Format.h"
#include "mrcc/Kernels/KernelBuilder.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/CodeGen/CodeGenTargetMachineImpl.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include <mutex>

using namespace mlir;

namespace mrcc {

static DialectRegistry dialects() {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, affine::AffineDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  return registry;
}

static void buildPipeline(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions bare;
  bare.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(bare));
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

// Named targets alone: InitializeNativeTarget would depend on the build host.
static std::unique_ptr<llvm::TargetMachine> createMachine(const Target &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
  llvm::Triple triple(target.triple);
  std::string error;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // fused where the kernel says fma, nowhere else
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, target.cpu, "", options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

Compiler::Compiler(const Target &target)
    : target(target), context(dialects(), MLIRContext::Threading::DISABLED), pipeline(&context),
      machine(createMachine(target)) {
  context.loadAllAvailableDialects();
  buildPipeline(pipeline);
}

llvm::Expected<OwningOpRef<ModuleOp>> Compiler::emit(const KernelDescription &kernel) {
  const KernelFamily *family = KernelFamily::find(kernel.family);
  if (!family)
    return fail("unknown kernel family '" + kernel.family + "'");
  unsigned params = 0;
  if (auto it = kernel.config.find("params"); it != kernel.config.end())
    params = it->second;
  KernelBuilder builder(context, target, kernel.types, params);
  if (llvm::Error error = family->emit(kernel, target, builder))
    return llvm::createStringError(std::make_error_code(std::errc::not_supported), llvm::toString(std::move(error)));
  OwningOpRef<ModuleOp> module = builder.finish();
  if (failed(verify(*module)))
    return fail(kernel.name() + ": the emitted kernel is invalid");
  return std::move(module);
}

// void NAME(char **views, int64_t *params, int64_t begin, int64_t end, char *scratch): loads what @kernel takes.
llvm::Error Compiler::addWrapper(llvm::Module &module, const KernelDescription &kernel) {
  llvm::Function *inner = module.getFunction("kernel");
  if (!inner)
    return fail(kernel.name() + ": no @kernel");
  llvm::IRBuilder<> b(module.getContext());
  llvm::Type *pointer = b.getPtrTy(), *i64 = b.getInt64Ty();
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, i64, i64, pointer}, false);
  auto *outer = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel.name(), module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", outer));
  const unsigned views = kernel.types.size(), params = inner->arg_size() - views - 3;
  llvm::SmallVector<llvm::Value *> arguments;
  for (unsigned i = 0; i < views; ++i)
    arguments.push_back(b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, outer->getArg(0), i)));
  for (unsigned i = 0; i < params; ++i)
    arguments.push_back(b.CreateLoad(i64, b.CreateConstGEP1_64(i64, outer->getArg(1), i)));
  for (unsigned i = 2; i < 5; ++i)
    arguments.push_back(outer->getArg(i));
  b.CreateCall(inner, arguments);
  b.CreateRetVoid();
  inner->addFnAttr(llvm::Attribute::AlwaysInline);
  for (llvm::Function &f : module)
    if (&f != outer && !f.isDeclaration())
      f.setLinkage(llvm::GlobalValue::InternalLinkage);
  return llvm::Error::success();
}

void Compiler::prepare(llvm::Module &module) {
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  for (llvm::Function &f : module) {
    if (f.isDeclaration())
      continue;
    f.setDoesNotThrow();        // no .eh_frame
    f.addFnAttr("no-builtins"); // loops stay loops: no memset, no memcpy
    f.addFnAttr("target-cpu", target.cpu);
    f.addFnAttr("prefer-vector-width", std::to_string(target.vectorBits));
    f.addFnAttr("min-legal-vector-width", std::to_string(target.vectorBits));
    // memref's lowering promises that no index arithmetic wraps as unsigned and that all of an address lies inside its
    // object. Negative strides and windows that start in the border break both; results are the same without.
    for (llvm::BasicBlock &block : f)
      for (llvm::Instruction &i : block) {
        if (auto *gep = dyn_cast<llvm::GetElementPtrInst>(&i))
          gep->setNoWrapFlags(llvm::GEPNoWrapFlags::none());
        else if (isa<llvm::OverflowingBinaryOperator>(i))
          i.setHasNoUnsignedWrap(false);
      }
  }
}

// Instead of O2: memory to registers, redundancies, invariants out of loops. Kernels run as fast as after O2 in a sixth
// of its time, and vectorising, unrolling and interleaving would only make tails larger.
static const char cleanUp[] = "always-inline,deadargelim,function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,"
                              "loop-mssa(loop-rotate,licm),instcombine<no-verify-fixpoint>,early-cse,loop-mssa(licm),"
                              "simplifycfg,adce)"; // instcombine takes sums of indices apart: invariants again

llvm::Error Compiler::optimize(llvm::Module &module) {
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  llvm::TargetLibraryInfoImpl library(machine->getTargetTriple());
  library.disableAllFunctions();
  fam.registerPass([&] { return llvm::TargetLibraryAnalysis(library); }); // before registerFunctionAnalyses
  llvm::PassBuilder pb(machine.get());
  pb.registerModuleAnalyses(mam);
  pb.registerCGSCCAnalyses(cgam);
  pb.registerFunctionAnalyses(fam);
  pb.registerLoopAnalyses(lam);
  pb.crossRegisterProxies(lam, fam, cgam, mam);
  llvm::ModulePassManager passes;
  if (llvm::Error error = pb.parsePassPipeline(passes, cleanUp))
    return error;
  passes.run(module, mam);

  // instcombine turns the select of a maximum around, so that for zeros of different signs it is no longer what the
  // machine's maximum gives. Which zero a maximum or minimum of two zeros gives is free.
  for (llvm::Function &f : module)
    for (llvm::BasicBlock &block : f)
      for (llvm::Instruction &i : block)
        if (auto *select = dyn_cast<llvm::SelectInst>(&i); select && select->getType()->isFPOrFPVectorTy())
          if (auto *compare = dyn_cast<llvm::FCmpInst>(select->getCondition())) {
            llvm::Value *x = compare->getOperand(0), *y = compare->getOperand(1);
            if ((x == select->getTrueValue() && y == select->getFalseValue()) ||
                (y == select->getTrueValue() && x == select->getFalseValue()))
              select->setHasNoSignedZeros(true);
          }
  return llvm::Error::success();
}

/// Size of the function that others see. Its constants lie in other sections, which the linker puts in another segment.
static llvm::Expected<uint64_t> functionBytes(llvm::StringRef object, llvm::StringRef name) {
  auto elf = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(object, name));
  if (!elf)
    return elf.takeError();
  for (llvm::object::ELFSymbolRef symbol : elf->symbols()) {
    auto its = symbol.getName();
    if (!its)
      return its.takeError();
    if (*its == name && symbol.getELFType() == llvm::ELF::STT_FUNC) // the object's file symbol has the same name
      return symbol.getSize();
  }
  return fail(name + ": the object lacks it");
}

// What addPassesToEmitFile adds, but without the scheduler before register allocation unless the kernel asks for it:
// kernels are written in an order in which a tile's accumulators fit the registers, and the scheduler gathers loads
// until they do not (a 4 x 3 tile of matmul ran at 37 % of peak with it, at 82 % without).
llvm::Error Compiler::addCodegenPasses(llvm::legacy::PassManager &passes, llvm::raw_pwrite_stream &out, bool reorders) {
  auto &implementation = static_cast<llvm::CodeGenTargetMachineImpl &>(*machine);
  llvm::TargetPassConfig *config = implementation.createPassConfig(passes);
  config->setDisableVerify(true);
  if (!reorders)
    config->disablePass(&llvm::MachineSchedulerID);
  passes.add(config);
  auto *info = new llvm::MachineModuleInfoWrapperPass(machine.get());
  passes.add(info);
  if (config->addISelPasses())
    return fail("no code generator for " + target.triple);
  config->addMachinePasses();
  config->setInitialized();
  if (implementation.addAsmPrinter(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile,
                                   info->getMMI().getContext()))
    return fail("no object files for " + target.triple);
  passes.add(llvm::createFreeMachineFunctionPass());
  return llvm::Error::success();
}

llvm::Expected<Object> Compiler::compile(const KernelDescription &kernel) {
  if (!machine)
    return fail("no code generator for " + target.triple);
  auto module = emit(kernel);
  if (!module)
    return module.takeError();
  const std::string name = kernel.name();
  const bool reorders = (**module)->hasAttr(KernelBuilder::reordersAttribute);
  if (failed(pipeline.run(**module)))
    return fail(name + ": the MLIR pipeline failed");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> ir = translateModuleToLLVMIR(**module, llvmContext, name);
  if (!ir)
    return fail(name + ": translation to LLVM IR failed");
  if (llvm::Error error = addWrapper(*ir, kernel))
    return std::move(error);
  prepare(*ir);
  std::string broken;
  llvm::raw_string_ostream reason(broken);
  if (llvm::verifyModule(*ir, &reason))
    return fail(name + ": invalid LLVM IR: " + broken);
  if (llvm::Error error = optimize(*ir))
    return std::move(error);

  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager codegen;
  if (llvm::Error error = addCodegenPasses(codegen, out, reorders))
    return std::move(error);
  codegen.run(*ir);
  auto size = functionBytes(bytes, name);
  if (!size)
    return size.takeError();
  return Object{name, std::string(bytes), *size};
}

} // namespace mrcc
