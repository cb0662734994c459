// What all subcommands share: messages, exit codes, options that several have.
#pragma once
#include "llvm/Support/Error.h"
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mrcc::tool {

/// Exit codes, for scripts. The first that applies.
enum Exit {
  done = 0,
  checkFailed = 1, // expectation, diff, verify, --keep-going with bad shapes
  wrongUsage = 2,
  rejected = 3,    // an input: model, shape, bundle, tensor file
  unsupported = 4, // op, attribute, target, this CPU
  systemFailed = 5 // disk, memory
};

enum class Verbosity { quiet, normal, verbose };

/// Messages on stderr, "mrcc: error: ..."; lines of one message after the first are indented. `quiet` keeps warnings
/// and errors.
class Console {
public:
  Verbosity verbosity = Verbosity::normal;
  void error(const std::string &message) { say("error: ", message); }
  void note(const std::string &message) {
    if (verbosity != Verbosity::quiet)
      say("note: ", message);
  }
  void detail(const std::string &message) { // with --verbose
    if (verbosity == Verbosity::verbose)
      say("note: ", message);
  }
  /// Prints an error and gives its exit code: that of its kind, or `otherwise`.
  int fail(llvm::Error error, Exit otherwise);

private:
  void say(const char *kind, const std::string &message);
};

/// A subcommand after parsing; main runs it.
using Command = std::function<int(Console &)>;

/// Adds a subcommand whose options live in one object of type Options: `declare(sub, options)` adds them, `run` is
/// main's.
template <typename Options, typename Declare>
CLI::App *addCommand(CLI::App &app, Command &chosen, const std::string &name, const std::string &what, Declare declare,
                     int (*run)(const Options &, Console &)) {
  CLI::App *sub = app.add_subcommand(name, what);
  auto options = std::make_shared<Options>();
  declare(*sub, *options);
  auto level = std::make_shared<std::pair<bool, bool>>();
  auto *quiet = sub->add_flag("-q,--quiet", level->first, "no notes and no progress");
  sub->add_flag("-v,--verbose", level->second, "more notes")->excludes(quiet);
  sub->callback([&chosen, options, level, run] {
    chosen = [options, level, run](Console &console) {
      console.verbosity = level->first ? Verbosity::quiet : level->second ? Verbosity::verbose : Verbosity::normal;
      return run(*options, console);
    };
  });
  return sub;
}

/// An option that may be given several times, one value each time.
inline CLI::Option *repeated(CLI::App &app, const std::string &names, std::vector<std::string> &values,
                             const std::string &what) {
  return app.add_option(names, values, what)->allow_extra_args(false);
}

void addCompile(CLI::App &app, Command &chosen);
void addAdd(CLI::App &app, Command &chosen);
void addRemove(CLI::App &app, Command &chosen);
void addRun(CLI::App &app, Command &chosen);
void addBench(CLI::App &app, Command &chosen);
void addDump(CLI::App &app, Command &chosen);
void addDiff(CLI::App &app, Command &chosen);
void addVerify(CLI::App &app, Command &chosen);

} // namespace mrcc::tool
