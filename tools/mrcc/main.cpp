// mrcc: dispatches to a subcommand. Results go to stdout, everything else to stderr.
#include "Tool.h"
#include "llvm/Support/Signals.h"
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <system_error>

using namespace mrcc::tool;

/// CLI11's sentences in our form.
static std::string lowered(std::string message) {
  if (message.size() > 1 && (std::islower(message[1]) || message[1] == ' '))
    message[0] = char(std::tolower(message[0]));
  while (!message.empty() && (message.back() == '\n' || message.back() == '.'))
    message.pop_back();
  return message;
}

/// Results that stdout did not take, on a full disk or a closed pipe, are a failure of the whole command.
static int finish(Console &console, int code) {
  errno = 0;
  bool failed = std::ferror(stdout) || std::fflush(stdout) != 0;
  std::cout.flush();
  if (!failed && std::cout)
    return code;
  console.error(std::string("cannot write to stdout") + (errno ? std::string(": ") + std::strerror(errno) : ""));
  return systemFailed;
}

int main(int argc, char **argv) {
  llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  CLI::App app("mrcc compiles an ONNX model ahead of time for a list of resolutions.", "mrcc");
  app.set_version_flag("--version", "mrcc " MRCC_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Exit codes: 0 done, 1 a check failed, 2 usage, 3 an input was rejected, 4 not supported, 5 the system failed");
  Command chosen;
  for (auto *add : {addCompile, addRun, addBench, addDump, addAdd, addRemove, addDiff, addVerify})
    add(app, chosen);
  Console console;
  auto isNamed = [&](CLI::App *sub) { return sub->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(isNamed).empty()) {
    console.error("unknown subcommand '" + std::string(argv[1]) + "'; see mrcc --help");
    return wrongUsage;
  }
  if (argc > 1 && argv[1][0] == '-' && app.get_option_no_throw(std::string(argv[1])) == nullptr) {
    console.error("unknown option '" + std::string(argv[1]) + "'; see mrcc --help");
    return wrongUsage;
  }
  try {
    app.parse(argc, argv);
    return finish(console, chosen(console));
  } catch (const CLI::Success &success) { // --help, --version
    return finish(console, app.exit(success));
  } catch (const CLI::ParseError &e) {
    std::string help = "mrcc";
    for (CLI::App *sub : app.get_subcommands())
      help += " " + sub->get_name();
    console.error(lowered(e.what()) + "; see " + help + " --help");
    return wrongUsage;
  } catch (const std::system_error &e) { // fmt's, of stdout that takes nothing
    console.error(std::string("cannot write to stdout: ") + e.code().message());
    return systemFailed;
  } catch (const std::bad_alloc &) {
    console.error("out of memory");
    return systemFailed;
  } catch (const std::exception &e) {
    console.error(e.what());
    return systemFailed;
  }
}
