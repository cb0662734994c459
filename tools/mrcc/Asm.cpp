#include "Asm.h"
#include "mrcc/Kernels/Kernel.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

using namespace mrcc;
using namespace mrcc::tool;
using llvm::Expected;

/// The file's bytes that are loaded at `offset`.
static Expected<llvm::ArrayRef<uint8_t>> loadedBytes(llvm::StringRef image, uint64_t offset, uint64_t bytes) {
  auto file = llvm::object::ELF64LEFile::create(image);
  if (!file)
    return file.takeError();
  auto segments = file->program_headers();
  if (!segments)
    return segments.takeError();
  for (const auto &s : *segments)
    if (s.p_type == llvm::ELF::PT_LOAD && offset >= s.p_vaddr && offset - s.p_vaddr <= s.p_filesz &&
        bytes <= s.p_filesz - (offset - s.p_vaddr) && s.p_offset + s.p_filesz <= image.size())
      return llvm::ArrayRef<uint8_t>(
          reinterpret_cast<const uint8_t *>(image.data()) + s.p_offset + (offset - s.p_vaddr), bytes);
  return llvm::createStringError("the kernel lies outside its code image");
}

Expected<std::string> tool::disassemble(llvm::StringRef image, uint64_t offset, uint64_t bytes,
                                        const std::string &name) {
  auto code = loadedBytes(image, offset, bytes);
  if (!code)
    return code.takeError();
  const mrcc::Target *known = mrcc::Target::find(name);
  if (!known)
    return llvm::createStringError("target '" + name + "' is not known here");
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86Disassembler();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64Disassembler();
  llvm::Triple triple(known->triple);
  std::string why;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target)
    return llvm::createStringError(why);
  // Every instruction of the family is decoded, whatever level the code was made for.
  std::string features = triple.isX86() ? "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd" : "+v8.2a";
  std::unique_ptr<llvm::MCRegisterInfo> registers(target->createMCRegInfo(triple));
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCAsmInfo> info(target->createMCAsmInfo(*registers, triple, options));
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target->createMCSubtargetInfo(triple, known->cpu, features));
  std::unique_ptr<llvm::MCInstrInfo> instructions(target->createMCInstrInfo());
  llvm::MCContext context(triple, info.get(), registers.get(), subtarget.get());
  std::unique_ptr<llvm::MCDisassembler> disassembler(target->createMCDisassembler(*subtarget, context));
  std::unique_ptr<llvm::MCInstPrinter> printer(
      target->createMCInstPrinter(triple, triple.isX86() ? 1 : 0, *info, *instructions, *registers)); // 1: Intel syntax
  if (!disassembler || !printer)
    return llvm::createStringError("this LLVM has no disassembler for " + triple.str());
  printer->setPrintBranchImmAsAddress(true);
  printer->setPrintImmHex(true);
  std::string text;
  llvm::raw_string_ostream os(text);
  for (uint64_t at = 0; at < code->size();) {
    llvm::MCInst instruction;
    uint64_t size = 0;
    auto status = disassembler->getInstruction(instruction, size, code->drop_front(at), offset + at, llvm::nulls());
    os << llvm::format("%8llx:", static_cast<unsigned long long>(offset + at));
    if (status == llvm::MCDisassembler::Success) {
      uint64_t relativeTo = offset + at + (triple.isX86() ? size : 0); // what branches count from
      printer->printInst(&instruction, relativeTo, "", *subtarget, os);
    } else {
      size = 1;
      os << llvm::format("\t.byte 0x%02x", (*code)[at]);
    }
    os << '\n';
    at += std::max<uint64_t>(size, 1);
  }
  return text;
}
