// The stages of a compile in order, for `compile` and `add`: arguments, messages, progress, what is written.
#pragma once
#include "Progress.h"
#include "Tool.h"
#include "mrcc/Driver/ShapeOptions.h"

namespace mrcc::tool {

struct CompileArguments {
  std::string model, output, math = "fast", stopAfter, dumpStages;
  ShapeOptions shapes;
  std::vector<std::string> targets = {"cpu:x86-64-v3"}, binds;
  unsigned jobs = 0;
  bool keepGoing = false, timing = false, verifyEach = false;
};

/// Options that name the resolutions.
void declareShapes(CLI::App &sub, ShapeOptions &shapes);
/// -j, the same for all that compile.
void declareJobs(CLI::App &sub, unsigned &jobs);

/// `add` and `remove` compile kernels anew, so they take bundles of their own version alone.
llvm::Error checkProducer(const std::string &path, const BundleInfo &info);

class Pipeline {
public:
  Pipeline(const CompileArguments &arguments, Console &console)
      : arguments(arguments), console(console), progress(console.verbosity) {}
  int run();

  /// The bundle that is extended: its lock, and what the result must agree with.
  const BundleLock *lock = nullptr;
  const BundleInfo *extends = nullptr;

private:
  llvm::Error prepare();
  llvm::Expected<std::vector<VariantShapes>> shapesToCompile(const ModelInfo &model);
  llvm::Error stages(Compilation &compilation);
  llvm::Error write(Compilation &compilation);
  void flushNotes(Compilation &compilation);
  void printTiming(const Compilation &compilation) const;
  bool stopsAfter(const char *stage) const { return arguments.stopAfter == stage; }
  bool writesBundle() const { return arguments.stopAfter.empty() || stopsAfter("bundle"); }

  const CompileArguments &arguments;
  Console &console;
  Progress progress;
  CompileOptions options;
  std::string output;
  size_t notesShown = 0, shapes = 0;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

} // namespace mrcc::tool
