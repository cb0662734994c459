#include "Pipeline.h"
#include "Targets.h"
#include "mrcc/Driver/TensorFile.h"
#include "llvm/ADT/STLExtras.h"
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

/// Why nothing can be written there, before any work is done for it.
std::string unwritable(const std::string &output, bool isBundle) {
  fs::file_status status;
  if (!fs::status(output, status)) {
    if (isBundle && status.type() != fs::file_type::directory_file)
      return "it exists and is not a folder";
    llvm::StringRef last = path::filename(llvm::StringRef(output).rtrim('/'));
    if (isBundle && (last == "." || last == "..") && !fs::exists(output + "/index"))
      return "it is a folder and not a bundle";
    if (!isBundle && status.type() == fs::file_type::directory_file)
      return "it is a folder";
    if (const std::string name = isBundle ? foreignContent(output) : ""; !name.empty())
      return "it exists and is not a bundle (it holds " + name + ")";
    return ::access(output.c_str(), W_OK) ? std::strerror(errno) : "";
  }
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

llvm::Error Pipeline::prepare() {
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
  options.progress = [this](const std::string &stage, size_t done, size_t total) {
    progress.update(stage, done, total);
  };
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
    if (std::string why = unwritable(output, writesBundle()); !why.empty())
      return systemError("cannot write " + output + ": " + why);
  if (!arguments.dumpStages.empty())
    if (std::error_code ec = fs::create_directories(arguments.dumpStages))
      return systemError("--dump-stages " + arguments.dumpStages + ": " + ec.message());
  return llvm::Error::success();
}

void Pipeline::flushNotes(Compilation &compilation) {
  progress.finish();
  for (; notesShown < compilation.notes.size(); ++notesShown)
    console.note(compilation.notes[notesShown]);
}

/// What was asked for, and before it what the bundle to extend has.
llvm::Expected<std::vector<VariantShapes>> Pipeline::shapesToCompile(const ModelInfo &model) {
  std::set<std::string> bound;
  for (auto &bind : options.binds)
    bound.insert(bind.first);
  auto asked = resolveShapes(model, bound, arguments.shapes);
  progress.finish();
  if (!asked)
    return asked.takeError();
  for (const std::string &note : asked->notes)
    console.note(note);
  if (!extends)
    return std::move(asked->variants);
  if (extends->model.sha256 != model.sha256)
    return llvm::createStringError(output + " was compiled from another model: its SHA-256 is " +
                                   extends->model.sha256 + ", that of " + arguments.model + " is " + model.sha256);
  std::vector<VariantShapes> all;
  std::vector<std::string> names;
  for (const ModelTensor &t : model.inputs)
    if (!bound.count(t.name))
      names.push_back(t.name);
  for (const BundleInfo::Variant &v : extends->variants) {
    VariantShapes &shapes = all.emplace_back();
    std::vector<std::string> had;
    for (const TensorInfo &input : v.program.inputs) {
      shapes.dims.push_back(input.dims);
      had.push_back(input.name);
    }
    if (had != names)
      return usageError(output + " has the inputs " + listNames(had) + ", this compile would have " + listNames(names) +
                        "; give the same --bind");
    if (llvm::is_contained(llvm::ArrayRef(all).drop_back(), shapes)) // of another target
      all.pop_back();
  }
  for (VariantShapes &shapes : asked->variants)
    if (llvm::is_contained(all, shapes))
      console.note("shape " + variantKey(names, shapes) + " is in " + output + " already");
    else
      all.push_back(std::move(shapes));
  return all;
}

llvm::Error Pipeline::stages(Compilation &compilation) {
  progress.update("import", 0, 1);
  if (llvm::Error error = compilation.read(arguments.model))
    return error;
  auto wanted = shapesToCompile(compilation.model());
  if (!wanted)
    return wanted.takeError();
  shapes = wanted->size();
  if (llvm::Error error = compilation.import(*wanted))
    return error;
  flushNotes(compilation);
  bool shared = !compilation.isPerResolution();
  if (shared && stopsAfter("import"))
    return llvm::Error::success();
  progress.update("simplify", 0, 1);
  if (llvm::Error error = compilation.simplify())
    return error;
  flushNotes(compilation);
  if (shared && stopsAfter("simplify"))
    return llvm::Error::success();
  progress.update("specialize", 0, shapes);
  if (llvm::Error error = compilation.addVariants(*wanted))
    return error;
  flushNotes(compilation);
  for (auto &[key, why] : compilation.rejected)
    console.error("shape " + key + ": " + why);
  if (compilation.rejected.size() == shapes)
    return llvm::createStringError("none of the shapes could be compiled, nothing is written");
  if (!stopsAfter("codegen") && !writesBundle()) // all stages before run per resolution
    return llvm::Error::success();
  if (llvm::Error error = compilation.generateCode())
    return llvm::handleErrors(std::move(error), [](const llvm::ErrorInfoBase &e) -> llvm::Error {
      if (e.convertToErrorCode() == std::errc::not_supported)
        return llvm::createStringError(e.convertToErrorCode(), "codegen: " + e.message());
      return systemError("codegen: " + e.message());
    });
  flushNotes(compilation);
  if (extends && extends->flags != compilation.contents().flags)
    return usageError(output + " was compiled with other options or another --bind");
  return llvm::Error::success();
}

/// The bundle, or the text of the stage to stop after.
llvm::Error Pipeline::write(Compilation &compilation) {
  if (writesBundle()) {
    progress.update("bundle", 0, 1);
    auto start = std::chrono::steady_clock::now();
    const BundleContents &contents = compilation.contents();
    llvm::Error error = lock ? writeBundle(*lock, output, contents) : writeBundle(output, contents);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    compilation.times[size_t(StageId::bundle)] = {1, took.count()};
    progress.finish();
    return error ? systemError("cannot write " + llvm::toString(std::move(error))) : llvm::Error::success();
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

void Pipeline::printTiming(const Compilation &compilation) const {
  fmt::print(stderr, "{:<14} {:>5} {:>9}\n", "stage", "runs", "seconds");
  for (auto [name, time] : llvm::zip_equal(stageNames(), compilation.times))
    if (time.runs)
      fmt::print(stderr, "{:<14} {:>5} {:>9.3f}\n", name, time.runs, time.seconds);
}

int Pipeline::run() {
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
    fmt::print(stderr, "mrcc: {}: {} variant{} in {:.1f} s\n", output, variants, variants == 1 ? "" : "s",
               took.count());
  }
  return compilation.rejected.empty() ? done : checkFailed;
}

void tool::declareShapes(CLI::App &sub, ShapeOptions &shapes) {
  repeated(sub, "--size", shapes.sizes, "HxW[,HxW...]: height and width of the one image input, batch 1");
  repeated(sub, "--dim", shapes.dims, "NAME=V[,V...]: a symbolic dimension; several give their product");
  repeated(sub, "--shape", shapes.shapes, "\"x=1x3x480x640;t=1x77\": one full variant");
  sub.add_option("--shapes-file", shapes.shapesFile, "a --shape a line, or JSON: [{\"x\": [1, 3, 480, 640]}, ...]");
}

void tool::declareJobs(CLI::App &sub, unsigned &jobs) {
  sub.add_option("-j,--jobs", jobs, "threads (default: one a core)")->check(CLI::Range(1u, 4096u));
}

llvm::Error tool::checkProducer(const std::string &path, const BundleInfo &info) {
  if (info.producer == "mrcc " MRCC_VERSION)
    return llvm::Error::success();
  return llvm::createStringError(path + " was written by " + info.producer +
                                 ", this is mrcc " MRCC_VERSION "; compile it anew");
}
