// mrcc run: one variant on tensors from files; its outputs to files, or compared with expected ones.
#include "Runtime.h"
#include "Steps.h"
#include "Tool.h"
#include "mrcc/Driver/ShapeOptions.h"
#include "mrcc/Driver/TensorFile.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>

using namespace mrcc;
using namespace mrcc::tool;

namespace {

struct RunArguments {
  std::string bundle, outputDir, target;
  std::vector<std::string> inputs, expected, taps;
  double rtol = 1e-3, atol = 1e-5;
  unsigned threads = 0;
  bool profile = false;
};

/// Copies what the steps of the wanted nodes wrote.
class Tapper {
public:
  explicit Tapper(const std::vector<std::string> &nodes) : nodes(nodes), found(nodes.size()) {}
  struct Tap {
    std::string node, location;
    unsigned step;
    Tensor tensor;
  };
  std::vector<Tap> taps;
  std::vector<std::string> allNodes;
  const std::vector<std::string> nodes;
  std::vector<bool> found;
  static void hook(void *user, const mrcc_step *step) { static_cast<Tapper *>(user)->see(*step); }

private:
  void see(const mrcc_step &step);
};

class Run {
public:
  Run(const RunArguments &arguments, Console &console) : arguments(arguments), console(console) {}
  int run();

private:
  llvm::Error readInputs(const mrcc_model *model);
  llvm::Error execute(mrcc_model *model);
  llvm::Error tap(mrcc_context *context);
  llvm::Error writeOutputs();
  llvm::Error compare(bool &agree);
  llvm::Error invoke(mrcc_context *context) const;

  const RunArguments &arguments;
  Console &console;
  std::vector<mrcc_variant_info> variants;
  std::vector<Tensor> inputs, outputs;
};

/// A name as part of a file's: path separators and what some system forbids become '_'.
std::string fileName(const std::string &name) {
  std::string out = name;
  for (char &c : out)
    if (uint8_t(c) < 32 || c == 127 || std::strchr("/\\:*?\"<>|", c))
      c = '_';
  if (out.size() > 200) { // most systems end at 255 bytes
    size_t end = 200;
    while (end && (out[end] & 0xC0) == 0x80)
      --end;
    out.resize(end);
  }
  return out;
}

std::vector<std::string> namesOf(const mrcc_tensor_info *tensors, uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i)
    names.push_back(tensors[i].name);
  return names;
}

llvm::Error createFolder(const std::string &path) {
  if (std::error_code ec = llvm::sys::fs::create_directories(path))
    return llvm::make_error<ImportError>(ImportError::system, "cannot make the folder " + path + ": " + ec.message());
  return llvm::Error::success();
}

llvm::Error writeTensor(const std::string &folder, const std::string &name, const Tensor &t) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, name);
  if (llvm::Error error = writeNpy(path.str().str(), t.type, t.dims, {t.data(), t.bytes}))
    return llvm::make_error<ImportError>(ImportError::system, "cannot write " + llvm::toString(std::move(error)));
  return llvm::Error::success();
}

} // namespace

/// The view's elements with these dims, dense and row-major.
static void copyElements(const mrcc_view &from, const std::vector<int64_t> &dims, Tensor &to) {
  const unsigned bits = bitWidth(to.type);
  const char *data = static_cast<const char *>(from.data);
  std::vector<int64_t> index(dims.size());
  for (uint64_t i = 0, count = *denseBytes(DType::u8, dims); i < count; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d)
      at += index[d] * from.strides[d];
    if (bits >= 8) {
      std::memcpy(to.data() + i * (bits / 8), data + at * int64_t(bits / 8), bits / 8);
    } else { // several a byte, the first in the lowest bits
      const int64_t perByte = 8 / bits;
      const uint8_t value = uint8_t(data[at / perByte]) >> at % perByte * bits & ((1u << bits) - 1);
      uint8_t &byte = to.data()[i / perByte];
      byte = uint8_t((i % perByte ? byte : 0) | value << i % perByte * bits);
    }
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d])
        break;
      index[d] = 0;
    }
  }
}

void Tapper::see(const mrcc_step &step) {
  llvm::SmallVector<llvm::StringRef> here;
  llvm::StringRef(step.location).split(here, ';', -1, false);
  for (llvm::StringRef node : here)
    allNodes.push_back(node.str());
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!llvm::is_contained(here, nodes[n]))
      continue;
    found[n] = true;
    for (uint32_t o = 0; o < step.num_outputs; ++o) {
      const mrcc_view &v = step.views[o];
      std::vector<int64_t> dims(v.dims, v.dims + v.rank);
      for (uint32_t d = 0; d < v.rank; ++d)
        if (v.strides[d] == 0) // a reduced dimension: the view repeats the one result
          dims[d] = std::min<int64_t>(dims[d], 1);
      Tensor copy(nodes[n], DType(v.dtype), dims, *denseBytes(DType(v.dtype), dims));
      copyElements(v, dims, copy);
      taps.push_back({nodes[n], step.location, step.index, std::move(copy)});
    }
  }
}

/// Files are read in the type that the model wants; what no variant has is named here, shapes are the runtime's matter.
llvm::Error Run::readInputs(const mrcc_model *model) {
  auto runnable = runnableVariants(model, arguments.target);
  if (!runnable)
    return runnable.takeError();
  variants = std::move(*runnable);
  if (variants.empty())
    return llvm::make_error<RuntimeError>(MRCC_UNSUPPORTED_CPU, "the bundle has no variant that this CPU runs");
  const mrcc_variant_info &any = variants.front();
  std::vector<std::string> names = namesOf(any.inputs, any.num_inputs);
  for (const std::string &text : arguments.inputs) {
    auto input = parseAssignment("--input", text);
    if (!input)
      return input.takeError();
    size_t k = llvm::find(names, input->first) - names.begin();
    if (k == names.size())
      return usageError("--input: the model has no input '" + input->first + "'; its inputs are " + listNames(names));
    if (llvm::any_of(inputs, [&](const Tensor &t) { return t.name == input->first; }))
      return usageError("--input: '" + input->first + "' is given twice");
    auto data = readTensorFile(input->second, DType(any.inputs[k].dtype), "input '" + input->first + "'");
    if (!data)
      return data.takeError();
    Tensor &t = inputs.emplace_back(input->first, data->type, data->dims, data->bytes.size());
    std::memcpy(t.data(), data->bytes.data(), data->bytes.size());
  }
  std::vector<std::string> missing;
  for (const std::string &name : names)
    if (llvm::none_of(inputs, [&](const Tensor &t) { return t.name == name; }))
      missing.push_back(name);
  if (!missing.empty())
    return usageError("no --input for " + listNames(missing) + "; the model's inputs are " + listNames(names));
  return llvm::Error::success();
}

llvm::Error Run::invoke(mrcc_context *context) const {
  auto in = viewsOf(inputs), out = viewsOf(outputs);
  for (mrcc_tensor &t : out)
    t.name = nullptr; // by position: names may repeat
  return call(mrcc_context_run, context, static_cast<const mrcc_tensor *>(in.data()), in.size(),
              static_cast<const mrcc_tensor *>(out.data()), out.size());
}

llvm::Error Run::tap(mrcc_context *context) {
  Tapper tapper(arguments.taps);
  if (llvm::Error error = call(mrcc_context_set_step_hook, context, &Tapper::hook, static_cast<void *>(&tapper)))
    return error;
  if (llvm::Error error = invoke(context))
    return error;
  if (llvm::Error error = StepRecorder::detach(context))
    return error;
  for (size_t n = 0; n < tapper.nodes.size(); ++n) {
    if (tapper.found[n])
      continue;
    const std::string &node = tapper.nodes[n];
    std::string nearest;
    unsigned best = ~0u;
    for (const std::string &other : tapper.allNodes)
      if (unsigned d = llvm::StringRef(node).edit_distance(other); d < best) {
        best = d;
        nearest = other;
      }
    return usageError("--tap: no step computes node '" + node + "' (it may be folded into a constant)" +
                      (nearest.empty() ? "" : "; the nearest name is '" + nearest + "'"));
  }
  std::string folder = arguments.outputDir.empty() ? "." : arguments.outputDir;
  if (llvm::Error error = createFolder(folder))
    return error;
  for (const Tapper::Tap &t : tapper.taps) {
    std::string name = "tap-" + std::to_string(t.step) + "-" + fileName(t.node) + ".npy";
    if (!llvm::StringRef(t.location).ends_with(t.node))
      console.note("--tap " + t.node + ": step " + std::to_string(t.step) + " computes " + t.location +
                   " in one; the tensor is the result of all");
    console.detail(name + ": " + dimsText(t.tensor.dims) + " as the step writes it");
    if (llvm::Error error = writeTensor(folder, name, t.tensor))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Run::execute(mrcc_model *model) {
  auto in = viewsOf(inputs);
  uint32_t variant = 0;
  if (llvm::Error error = call(mrcc_model_find, static_cast<const mrcc_model *>(model),
                               static_cast<const mrcc_tensor *>(in.data()), in.size(), &variant))
    return error;
  mrcc_variant_info info = MRCC_VARIANT_INFO_INIT;
  if (llvm::Error error = call(mrcc_model_variant, static_cast<const mrcc_model *>(model), variant, &info))
    return error;
  console.detail(std::string("variant ") + info.key + ", " + info.target);
  for (uint32_t i = 0; i < info.num_outputs; ++i)
    outputs.emplace_back(info.outputs[i]);
  auto context = makeContext(model, arguments.threads);
  if (!context)
    return context.takeError();
  if (llvm::Error error = invoke(context->get()))
    return error;
  if (!arguments.taps.empty())
    if (llvm::Error error = tap(context->get()))
      return error;
  if (!arguments.profile)
    return llvm::Error::success();
  StepRecorder recorder;
  if (llvm::Error error = recorder.attach(context->get()))
    return error;
  for (int i = 0; i < 5; ++i)
    if (llvm::Error error = invoke(context->get()))
      return error;
  fmt::print("{}", stepTable(recorder.steps, 0));
  double total = 0;
  for (const StepRecord &s : recorder.steps)
    total += s.median();
  fmt::print("{} steps, {:.3f} ms (medians of 5 runs after a warm one)\n", recorder.steps.size(), total * 1e3);
  return StepRecorder::detach(context->get());
}

llvm::Error Run::writeOutputs() {
  if (arguments.outputDir.empty() && !arguments.expected.empty())
    return llvm::Error::success();
  std::string folder = arguments.outputDir.empty() ? "." : arguments.outputDir;
  if (llvm::Error error = createFolder(folder))
    return error;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (llvm::Error error =
            writeTensor(folder, std::to_string(i) + "-" + fileName(outputs[i].name) + ".npy", outputs[i]))
      return error;
  return llvm::Error::success();
}

/// |a - b| <= atol + rtol |b| for floats, NaN equals NaN and infinities themselves; other types exactly.
llvm::Error Run::compare(bool &agree) {
  agree = true;
  std::vector<std::string> names;
  for (const Tensor &t : outputs)
    names.push_back(t.name);
  for (const std::string &text : arguments.expected) {
    auto expected = parseAssignment("--expect", text);
    if (!expected)
      return expected.takeError();
    size_t k = llvm::find(names, expected->first) - names.begin();
    if (k == names.size())
      return usageError("--expect: the model has no output '" + expected->first + "'; its outputs are " +
                        listNames(names));
    const Tensor &got = outputs[k];
    auto data = readTensorFile(expected->second, got.type, "output '" + got.name + "'");
    if (!data)
      return data.takeError();
    if (data->dims != got.dims) {
      console.error("output '" + got.name + "' is " + dimsText(got.dims) + ", " + expected->second + " holds " +
                    dimsText(data->dims));
      agree = false;
      continue;
    }
    bool isFloat = mrcc::isFloat(got.type) || got.type == DType::f8e8m0;
    size_t count = *denseBytes(DType::u8, got.dims), wrong = 0, first = 0;
    auto a = toDoubles(got.type, {got.data(), got.bytes}, count), b = toDoubles(got.type, data->bytes, count);
    double most = 0, scale = 0;
    if (!isFloat && std::memcmp(got.data(), data->bytes.data(), got.bytes) == 0)
      b = a; // doubles do not hold all 64-bit integers
    for (size_t i = 0; i < count; ++i) {
      bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      double difference = std::fabs(a[i] - b[i]);
      if (!same && !(isFloat && difference <= arguments.atol + arguments.rtol * std::fabs(b[i])) && wrong++ == 0)
        first = i;
      if (!same && !(difference <= most))
        most = difference;
      scale = std::max(scale, std::fabs(b[i]));
    }
    if (!isFloat && !wrong && std::memcmp(got.data(), data->bytes.data(), got.bytes) != 0)
      wrong = 1;
    fmt::print("{}: largest difference {:.3g}, of largest value {:.3g}: {:.2e}  {}\n", got.name, most, scale,
               scale > 0 ? most / scale : most, wrong ? "FAILED" : "ok");
    if (wrong) {
      console.error(fmt::format("output '{}': {} of {} values differ, the first at {}: {} instead of {}", got.name,
                                wrong, count, first, a[first], b[first]));
      agree = false;
    }
  }
  return llvm::Error::success();
}

int Run::run() {
  auto model = openModel(arguments.bundle, arguments.target);
  if (!model)
    return console.fail(model.takeError(), rejected);
  if (llvm::Error error = readInputs(model->get()))
    return console.fail(std::move(error), rejected);
  if (llvm::Error error = execute(model->get()))
    return console.fail(std::move(error), rejected);
  if (llvm::Error error = writeOutputs())
    return console.fail(std::move(error), systemFailed);
  bool agree = true;
  if (llvm::Error error = compare(agree))
    return console.fail(std::move(error), rejected);
  return agree ? done : checkFailed;
}

static int runBundle(const RunArguments &arguments, Console &console) { return Run(arguments, console).run(); }

void tool::addRun(CLI::App &app, Command &chosen) {
  static const CLI::Validator tolerance(
      [](const std::string &text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && !text.empty() && std::isfinite(value) && value >= 0)
          return "";
        return "'" + text + "' is not a number of 0 or more";
      },
      "");
  auto declare = [](CLI::App &sub, RunArguments &o) {
    sub.add_option("bundle", o.bundle, "NAME.mrcb")->required();
    repeated(sub, "-i,--input", o.inputs, "NAME=FILE: an input tensor (.npy, ONNX .pb)");
    sub.add_option("--output-dir", o.outputDir, "folder for INDEX-NAME.npy (default: here; nothing with --expect)");
    repeated(sub, "--expect", o.expected, "NAME=FILE: compare an output, exit 1 if it differs");
    sub.add_option("--rtol", o.rtol, "allowed difference, of the expected value")
        ->check(tolerance)
        ->capture_default_str();
    sub.add_option("--atol", o.atol, "and beside that")->check(tolerance)->capture_default_str();
    sub.add_option("--threads", o.threads, "threads (default: one a CPU)")->check(CLI::Range(1u, maxThreads));
    sub.add_option("--target", o.target, "use this target of the bundle (default: the best that runs here)");
    sub.add_flag("--profile", o.profile, "print the time of each step");
    repeated(sub, "--tap", o.taps,
             "NODE: also write what this node's step computes, tap-STEP-NODE.npy; reduced dimensions are 1");
  };
  addCommand<RunArguments>(app, chosen, "run", "execute one variant on tensors from files", declare, runBundle);
}
