#include "Tool.h"
#include "Runtime.h"
#include "mrcc/Driver/ShapeOptions.h"
#include <cstdio>

using namespace mrcc;
using namespace mrcc::tool;

void Console::say(const char *kind, const std::string &message) {
  std::string text = "mrcc: ";
  text += kind;
  for (char c : message) {
    text += c;
    if (c == '\n')
      text += "  ";
  }
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int Console::fail(llvm::Error error, Exit otherwise) {
  int code = done;
  auto because = [&](Exit exit, const std::string &message) {
    this->error(message);
    code = code == done ? exit : code;
  };
  llvm::handleAllErrors(
      std::move(error), [&](const UsageError &e) { because(wrongUsage, e.message); },
      [&](const ImportError &e) {
        because(e.kind == ImportError::unsupported ? unsupported
                : e.kind == ImportError::system    ? systemFailed
                                                   : rejected,
                e.message);
      },
      [&](const BundleError &e) { because(e.system ? systemFailed : otherwise, e.message); },
      [&](const RuntimeError &e) { because(Exit(e.exitCode()), e.message); },
      [&](const llvm::ErrorInfoBase &e) {
        const std::error_code kind = e.convertToErrorCode();
        because(kind == std::errc::not_supported ? unsupported
                : kind == std::errc::io_error    ? systemFailed
                                                 : otherwise,
                e.message());
      });
  return code;
}
