// Prints the module that the importer makes of a model, for lit tests:
//   mrcc-import-test FILE|- [--shape NAME=1x3x?x?]... [--locations]
// Notes and errors go to stderr; exit 3 for an invalid model, 4 for an unsupported one, 5 where the system failed.
#include "mlir/IR/MLIRContext.h"
#include "mrcc/IR/Mrc.h"
#include "mrcc/Import/Import.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mrcc;

static int usage() {
  llvm::errs() << "usage: mrcc-import-test FILE|- [--shape NAME=1x3x?x?]... [--locations]\n";
  return 2;
}

static llvm::Expected<ModelHandle> read(const std::string &path) {
  if (path != "-")
    return readModel(path);
  auto input = llvm::MemoryBuffer::getSTDIN();
  if (!input)
    return llvm::errorCodeToError(input.getError());
  llvm::StringRef bytes = (*input)->getBuffer();
  return readModel({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, ".", "stdin");
}

static int report(llvm::Error error) {
  int code = 1;
  llvm::handleAllErrors(
      std::move(error),
      [&](const ImportError &e) {
        llvm::errs() << "error: " << e.message << "\n";
        code = e.kind == ImportError::invalid ? 3 : e.kind == ImportError::unsupported ? 4 : 5;
      },
      [&](const llvm::ErrorInfoBase &e) { llvm::errs() << "error: " << e.message() << "\n"; });
  return code;
}

int main(int argc, char **argv) {
  std::string path;
  ImportOptions options;
  mlir::OpPrintingFlags flags;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    if (argument == "--locations") {
      flags.enableDebugInfo(true, false);
    } else if (argument == "--shape" && i + 1 < argc) {
      auto [name, dims] = llvm::StringRef(argv[++i]).split('=');
      llvm::SmallVector<llvm::StringRef> parts;
      dims.split(parts, 'x');
      for (llvm::StringRef part : parts) {
        int64_t d = -1;
        if (part != "?" && part.getAsInteger(10, d))
          return usage();
        options.inputDims[name.str()].push_back(d);
      }
    } else if (path.empty() && (argument == "-" || !argument.starts_with("-"))) {
      path = argument.str();
    } else {
      return usage();
    }
  }
  if (path.empty())
    return usage();
  auto model = read(path);
  if (!model)
    return report(model.takeError());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<std::string> notes;
  auto module = importModel(**model, context, options, notes);
  for (const std::string &note : notes)
    llvm::errs() << "note: " << note << "\n";
  if (!module)
    return report(module.takeError());
  (*module)->print(llvm::outs(), flags);
  return 0;
}
