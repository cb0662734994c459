// mrcc compile: model + resolutions -> bundle, stage by stage.
#include "Progress.h"
#include "Targets.h"
#include "Tool.h"
#include "mrcc/Driver/ShapeOptions.h"
#include "mrcc/Driver/TensorFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

using namespace mrcc;
using namespace mrcc::tool;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace {

struct CompileArguments {
  std::string model, output, math = "fast", stopAfter, dumpStages;
  ShapeOptions shapes;
  std::vector<std::string> targets, binds;
  unsigned jobs = 0;
  bool keepGoing = false, timing = false, verifyEach = false;
};

class Compile {
public:
  Compile(const CompileArguments &arguments, Console &console)
      : arguments(arguments), console(console), progress(console.verbosity) {}
  int run();

private:
  llvm::Error prepare();
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
  size_t notesShown = 0;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

/// Why nothing can be written there, before any work is done for it.
std::string unwritable(const std::string &output) {
  fs::file_status status;
  if (!fs::status(output, status) && status.type() == fs::file_type::directory_file)
    return ::access(output.c_str(), W_OK) ? std::strerror(errno) : "";
  llvm::StringRef parent = path::parent_path(llvm::StringRef(output).rtrim('/'));
  std::string folder = parent.empty() ? "." : parent.str();
  if (std::error_code ec = fs::status(folder, status))
    return folder + ": " + ec.message();
  if (status.type() != fs::file_type::directory_file)
    return folder + " is not a folder";
  return ::access(folder.c_str(), W_OK) ? folder + ": " + std::strerror(errno) : "";
}

/// A failure that is the system's, whatever kind the callee gave it.
llvm::Error systemError(const llvm::Twine &message) {
  return llvm::make_error<ImportError>(ImportError::system, message.str());
}

} // namespace

llvm::Error Compile::prepare() {
  auto targets = parseTargets(arguments.targets, console);
  if (!targets)
    return targets.takeError();
  options.targets = *targets;
  options.strictMath = arguments.math == "strict";
  options.jobs = arguments.jobs;
  options.keepGoing = arguments.keepGoing;
  options.verifyEach = arguments.verifyEach;
  options.stopAfter = arguments.stopAfter;
  options.dumpStages = arguments.dumpStages;
  options.progress = [this](const std::string &stage, size_t done, size_t total) { progress.update(stage, done, total); };
  for (const std::string &text : arguments.binds) {
    auto bind = parseAssignment("--bind", text);
    if (!bind)
      return bind.takeError();
    auto data = readTensorFile(bind->second);
    if (!data)
      return llvm::createStringError("--bind: " + llvm::toString(data.takeError()));
    if (!options.binds.emplace(bind->first, std::move(*data)).second)
      return usageError("--bind: input '" + bind->first + "' is given twice");
  }
  output = arguments.output;
  if (output.empty() && writesBundle())
    output = path::stem(arguments.model).str() + ".mrcb";
  if (!output.empty())
    if (std::string why = unwritable(output); !why.empty())
      return systemError("cannot write " + output + ": " + why);
  if (!arguments.dumpStages.empty())
    if (std::error_code ec = fs::create_directories(arguments.dumpStages))
      return systemError("--dump-stages " + arguments.dumpStages + ": " + ec.message());
  return llvm::Error::success();
}

void Compile::flushNotes(Compilation &compilation) {
  progress.finish();
  for (; notesShown < compilation.notes.size(); ++notesShown)
    console.note(compilation.notes[notesShown]);
}

llvm::Error Compile::stages(Compilation &compilation) {
  progress.update("import", 0, 1);
  if (llvm::Error error = compilation.read(arguments.model))
    return error;
  std::set<std::string> bound;
  for (auto &bind : options.binds)
    bound.insert(bind.first);
  auto shapes = resolveShapes(compilation.model(), bound, arguments.shapes);
  if (!shapes)
    return shapes.takeError();
  progress.finish();
  for (const std::string &note : shapes->notes)
    console.note(note);
  if (llvm::Error error = compilation.import(shapes->variants))
    return error;
  flushNotes(compilation);
  if (stopsAfter("import"))
    return llvm::Error::success();
  progress.update("simplify", 0, 1);
  if (llvm::Error error = compilation.simplify())
    return error;
  flushNotes(compilation);
  if (stopsAfter("simplify"))
    return llvm::Error::success();
  progress.update("specialize", 0, shapes->variants.size());
  if (llvm::Error error = compilation.addVariants(shapes->variants))
    return error;
  flushNotes(compilation);
  for (auto &[key, why] : compilation.rejected)
    console.error("shape " + key + ": " + why);
  if (compilation.rejected.size() == shapes->variants.size())
    return llvm::createStringError("none of the shapes could be compiled, nothing is written");
  if (stopsAfter("specialize") || stopsAfter("form-kernels") || stopsAfter("plan-memory"))
    return llvm::Error::success();
  if (llvm::Error error = compilation.generateCode())
    return systemError("codegen: " + llvm::toString(std::move(error)));
  flushNotes(compilation);
  return llvm::Error::success();
}

/// The bundle, or the text of the stage to stop after.
llvm::Error Compile::write(Compilation &compilation) {
  if (writesBundle()) {
    progress.update("bundle", 0, 1);
    auto start = std::chrono::steady_clock::now();
    llvm::Error error = writeBundle(output, compilation.contents());
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    compilation.times[size_t(StageId::bundle)] = {1, took.count()};
    progress.finish();
    return error ? systemError("cannot write " + output + ": " + llvm::toString(std::move(error))) : llvm::Error::success();
  }
  std::string text;
  for (auto &[key, ir] : compilation.stageTexts)
    text += (key.empty() ? "" : "// " + key + "\n") + ir;
  if (stopsAfter("codegen"))
    for (const BundleTarget &target : compilation.contents().targets)
      for (const BundleKernel &kernel : target.kernels)
        text += target.name + " " + kernel.name + " " + std::to_string(kernel.bytes) + " " + kernel.key + "\n";
  std::error_code ec;
  llvm::raw_fd_ostream os(output.empty() ? "-" : output, ec); // "-" is stdout
  if (!ec) {
    os << text;
    os.flush();
    ec = os.error();
    os.clear_error();
  }
  return ec ? systemError("cannot write " + (output.empty() ? "to stdout" : output) + ": " + ec.message())
            : llvm::Error::success();
}

void Compile::printTiming(const Compilation &compilation) const {
  fmt::print(stderr, "{:<14} {:>5} {:>9}\n", "stage", "runs", "seconds");
  for (size_t i = 0; i < mrcc::stages().size(); ++i)
    if (const StageTime &time = compilation.times[i]; time.runs)
      fmt::print(stderr, "{:<14} {:>5} {:>9.3f}\n", mrcc::stages()[i].name, time.runs, time.seconds);
}

int Compile::run() {
  if (llvm::Error error = prepare())
    return console.fail(std::move(error), rejected);
  Compilation compilation(options);
  llvm::Error error = stages(compilation);
  if (!error)
    error = write(compilation);
  progress.finish();
  if (arguments.timing)
    printTiming(compilation);
  if (error) {
    flushNotes(compilation);
    return console.fail(std::move(error), rejected);
  }
  if (writesBundle() && console.verbosity != Verbosity::quiet) {
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    size_t variants = compilation.contents().variants.size();
    fmt::print(stderr, "mrcc: {}: {} variant{} in {:.1f} s\n", output, variants, variants == 1 ? "" : "s", took.count());
  }
  return compilation.rejected.empty() ? done : checkFailed;
}

static int compile(const CompileArguments &arguments, Console &console) { return Compile(arguments, console).run(); }

void tool::addCompile(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, CompileArguments &o) {
    std::vector<std::string> stageNames;
    for (const Stage &stage : mrcc::stages())
      stageNames.push_back(stage.name);
    sub.add_option("model", o.model, "ONNX file")->required();
    sub.add_option("-o,--output", o.output, "the bundle, a folder (default: the model's name with .mrcb)");
    repeated(sub, "--size", o.shapes.sizes, "HxW[,HxW...]: height and width of the one image input, batch 1");
    repeated(sub, "--dim", o.shapes.dims, "NAME=V[,V...]: a symbolic dimension; several give their product");
    repeated(sub, "--shape", o.shapes.shapes, "\"x=1x3x480x640;t=1x77\": one full variant");
    sub.add_option("--shapes-file", o.shapes.shapesFile, "a --shape a line, or JSON: [{\"x\": [1, 3, 480, 640]}, ...]");
    repeated(sub, "--bind", o.binds, "NAME=FILE: an input that becomes a constant (.npy, .pb)");
    o.targets = {"cpu:x86-64-v3"};
    repeated(sub, "--target", o.targets, "what CPU, several with commas; 'native' is this one")->capture_default_str();
    sub.add_option("--math", o.math, "'strict' keeps each operation's own rounding and NaN")
        ->check(CLI::IsMember({"fast", "strict"}))
        ->capture_default_str();
    sub.add_option("-j,--jobs", o.jobs, "threads (default: one a core)")->check(CLI::Range(1u, 4096u));
    sub.add_flag("-k,--keep-going", o.keepGoing, "build the good shapes, list the bad ones, exit 1");
    sub.add_option("--dump-stages", o.dumpStages, "write the IR after each stage into this folder");
    sub.add_option("--stop-after", o.stopAfter, "print the IR after this stage (to -o), write no bundle")
        ->check(CLI::IsMember(stageNames));
    sub.add_flag("--timing", o.timing, "how often each stage ran and for how long");
    sub.add_flag("--verify-each", o.verifyEach, "run MLIR's verifier after every pass");
  };
  addCommand<CompileArguments>(app, chosen, "compile", "compile a model for a list of resolutions", declare, compile);
}
