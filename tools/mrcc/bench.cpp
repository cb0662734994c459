// mrcc bench: latency of variants on synthetic inputs, interleaved in rounds, against the machine's measured FMA peak.
#include "Explain.h"
#include "Peak.h"
#include "Runtime.h"
#include "Steps.h"
#include "Table.h"
#include "Tool.h"
#include "mrcc/Driver/ShapeOptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <thread>

using namespace mrcc;
using namespace mrcc::tool;

namespace {

struct BenchArguments {
  std::string bundle, target;
  std::vector<std::string> shapes;
  unsigned threads = 1, rounds = 15;
  bool all = false, steps = false, explain = false, json = false;
};

struct Result {
  mrcc_variant_info info;
  std::vector<Tensor> inputs, outputs;
  std::vector<double> seconds; // one a call
  std::vector<StepRecord> steps;
  std::optional<Explanation> explanation;
  uint64_t peakBytes = 0; // resident memory above that before the variant's first call; 0: not known
  double at(double quantile) const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[size_t(quantile * double(sorted.size() - 1) + 0.5)];
  }
};

class Bench {
public:
  Bench(const BenchArguments &arguments, Console &console) : arguments(arguments), console(console) {}
  int run();

private:
  llvm::Error select(const mrcc_model *model);
  llvm::Error measure(mrcc_context *context);
  llvm::Error measureSteps(mrcc_context *context);
  llvm::Error first(mrcc_context *context, Result &r);
  llvm::Error explainSteps();
  void printTable(const mrcc_model *model) const;
  void printJson(const mrcc_model *model, const mrcc_memory_info &memory) const;

  const BenchArguments &arguments;
  Console &console;
  std::vector<Result> results;
  double peak = 0;
};

/// The same values on every machine: f32 and f64 in [-1, 1), f16 and bf16 a little above 1, the rest 0 (it may be an
/// index).
void fill(Tensor &t) {
  uint64_t state = 0x9E3779B97F4A7C15u;
  auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(state >> 40) / double(1 << 23) - 1;
  };
  if (t.type == DType::f32)
    for (size_t i = 0; i < t.bytes / 4; ++i) {
      float v = float(next());
      std::memcpy(t.data() + i * 4, &v, 4);
    }
  else if (t.type == DType::f64)
    for (size_t i = 0; i < t.bytes / 8; ++i) {
      double v = next();
      std::memcpy(t.data() + i * 8, &v, 8);
    }
  else if (t.type == DType::f16 || t.type == DType::bf16)
    for (size_t i = 0; i < t.bytes / 2; ++i) { // 1.0 and its neighbours above
      uint16_t v = uint16_t((t.type == DType::f16 ? 0x3C00 : 0x3F80) + (state >> 60) + i % 8);
      std::memcpy(t.data() + i * 2, &v, 2);
    }
}

/// A line of /proc/self/status in bytes; 0 if there is none.
uint64_t statusBytes(const std::string &key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, key.size() + 1, key + ":") == 0)
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  return 0;
}

/// Makes the peak of resident memory start anew; false where the kernel does not let us.
bool resetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.flush();
  return bool(file);
}

llvm::Error invoke(mrcc_context *context, const std::vector<mrcc_tensor> &in, const std::vector<mrcc_tensor> &out) {
  return call(mrcc_context_run, context, in.data(), in.size(), out.data(), out.size());
}

std::vector<mrcc_tensor> byPosition(const std::vector<Tensor> &tensors) {
  auto views = viewsOf(tensors);
  for (mrcc_tensor &t : views)
    t.name = nullptr;
  return views;
}

} // namespace

/// --shape ones, all, or the first.
llvm::Error Bench::select(const mrcc_model *model) {
  auto variants = runnableVariants(model, arguments.target);
  if (!variants)
    return variants.takeError();
  if (variants->empty())
    return llvm::make_error<RuntimeError>(MRCC_UNSUPPORTED_CPU, "the bundle has no variant that this CPU runs");
  // Of several targets the best: the runtime would take it.
  std::vector<mrcc_variant_info> unique;
  for (const mrcc_variant_info &v : *variants)
    if (llvm::none_of(unique, [&](const mrcc_variant_info &u) { return std::strcmp(u.key, v.key) == 0; }))
      unique.push_back(v);
  std::vector<mrcc_variant_info> wanted;
  for (const std::string &text : arguments.shapes) {
    auto shape = parseShape(text);
    if (!shape)
      return shape.takeError();
    auto same = llvm::find_if(unique, [&](const mrcc_variant_info &v) {
      if (v.num_inputs != shape->size())
        return false;
      return llvm::all_of(llvm::ArrayRef(v.inputs, v.num_inputs), [&](const mrcc_tensor_info &t) {
        return llvm::any_of(*shape, [&](auto &s) {
          return s.first == t.name && llvm::ArrayRef<int64_t>(s.second) == llvm::ArrayRef(t.dims, t.rank);
        });
      });
    });
    if (same == unique.end()) {
      std::string keys;
      for (const mrcc_variant_info &v : unique)
        keys += (keys.empty() ? "" : ", ") + std::string(v.key);
      return llvm::createStringError("--shape '" + text + "': not compiled; the bundle has " + keys);
    }
    wanted.push_back(*same);
  }
  if (arguments.all)
    wanted = unique;
  if (wanted.empty())
    wanted.push_back(unique.front());
  for (const mrcc_variant_info &info : wanted) {
    Result &r = results.emplace_back();
    r.info = info;
    for (uint32_t i = 0; i < info.num_inputs; ++i)
      fill(r.inputs.emplace_back(info.inputs[i]));
    for (uint32_t i = 0; i < info.num_outputs; ++i)
      r.outputs.emplace_back(info.outputs[i]);
  }
  return llvm::Error::success();
}

/// The first call prepares the variant: its memory is seen here.
llvm::Error Bench::first(mrcc_context *context, Result &r) {
  bool known = resetPeak();
  uint64_t before = statusBytes("VmRSS");
  if (llvm::Error error = invoke(context, viewsOf(r.inputs), byPosition(r.outputs)))
    return error;
  if (uint64_t after = statusBytes("VmHWM"); known && after > before)
    r.peakBytes = after - before;
  return llvm::Error::success();
}

/// Each round calls every variant for about 20 ms, so that a slow moment of the machine meets all of them.
llvm::Error Bench::measure(mrcc_context *context) {
  using Clock = std::chrono::steady_clock;
  for (Result &r : results)
    if (llvm::Error error = first(context, r))
      return error;
  for (unsigned round = 0; round < arguments.rounds; ++round)
    for (Result &r : results) {
      auto in = viewsOf(r.inputs), out = byPosition(r.outputs);
      auto end = Clock::now() + std::chrono::milliseconds(20);
      if (llvm::Error error = invoke(context, in, out)) // what others did to the caches
        return error;
      do {
        auto start = Clock::now();
        if (llvm::Error error = invoke(context, in, out))
          return error;
        r.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      } while (Clock::now() < end);
    }
  return llvm::Error::success();
}

llvm::Error Bench::measureSteps(mrcc_context *context) {
  for (Result &r : results) {
    StepRecorder recorder;
    auto in = viewsOf(r.inputs), out = byPosition(r.outputs);
    if (llvm::Error error = recorder.attach(context))
      return error;
    for (unsigned round = 0; round < arguments.rounds; ++round)
      if (llvm::Error error = invoke(context, in, out))
        return error;
    if (llvm::Error error = StepRecorder::detach(context))
      return error;
    r.steps = std::move(recorder.steps);
  }
  return llvm::Error::success();
}

/// Asks the cost model about the steps that were measured.
llvm::Error Bench::explainSteps() {
  auto info = readBundle(arguments.bundle);
  if (!info)
    return info.takeError();
  std::map<std::string, Machine> machines; // by target
  for (Result &r : results) {
    const auto variant = llvm::find_if(info->variants, [&](const BundleInfo::Variant &v) {
      return v.program.key == r.info.key && v.program.target == r.info.target;
    });
    const Target *target = Target::find(r.info.target);
    if (variant == info->variants.end() || !target) // written anew since it was opened, or by another mrcc
      return llvm::createStringError(arguments.bundle + ": no variant " + r.info.key + " for a known target");
    auto machine = machines.find(r.info.target);
    if (machine == machines.end())
      machine = machines.emplace(r.info.target, measureMachine(*target)).first;
    auto explanation = explain(*info, *variant, r.steps, *target, machine->second);
    if (!explanation)
      return explanation.takeError();
    r.explanation = std::move(*explanation);
  }
  return llvm::Error::success();
}

void Bench::printTable(const mrcc_model *model) const {
  fmt::print("{}, {} thread{}, FMA peak measured here {:.1f} GFLOP/s{}\n", mrcc_model_name(model), arguments.threads,
             arguments.threads == 1 ? "" : "s", peak * 1e-9,
             peakThreads(arguments.threads) < arguments.threads
                 ? fmt::format(" ({} CPUs)", peakThreads(arguments.threads))
                 : "");
  Table table({"<variant", "<target", "min ms", "median", "p90", "p99", "GFLOP", "GFLOP/s", "peak", "constants", "code",
               "arena", "peak memory"});
  for (const Result &r : results) {
    double t = median(r.seconds), rate = double(r.info.flops) / t;
    auto ms = [](double s) { return fmt::format("{:.3f}", s * 1e3); };
    table.row({r.info.key, r.info.target, ms(r.at(0)), ms(t), ms(r.at(0.9)), ms(r.at(0.99)),
               fmt::format("{:.3f}", double(r.info.flops) * 1e-9), fmt::format("{:.1f}", rate * 1e-9),
               peak > 0 ? fmt::format("{:.1f} %", 100 * rate / peak) : "-", bytesText(double(r.info.constant_bytes)),
               bytesText(double(r.info.code_bytes)), bytesText(double(r.info.arena_bytes)),
               r.peakBytes ? bytesText(double(r.peakBytes)) : "-"});
  }
  fmt::print("{}", table.text());
  for (const Result &r : results) {
    if (arguments.steps)
      fmt::print("\n{}\n{}", r.info.key, stepTable(r.steps, peak));
    if (r.explanation)
      fmt::print("\n{}\n{}", r.info.key, explainTable(*r.explanation, r.steps));
  }
}

void Bench::printJson(const mrcc_model *model, const mrcc_memory_info &memory) const {
  llvm::json::Array variants;
  for (const Result &r : results) {
    double t = median(r.seconds);
    llvm::json::Object v{{"key", r.info.key},
                         {"target", r.info.target},
                         {"calls", int64_t(r.seconds.size())},
                         {"min_ms", r.at(0) * 1e3},
                         {"median_ms", t * 1e3},
                         {"p90_ms", r.at(0.9) * 1e3},
                         {"p99_ms", r.at(0.99) * 1e3},
                         {"flops", int64_t(r.info.flops)},
                         {"flops_per_second", double(r.info.flops) / t},
                         {"peak_fraction", peak > 0 ? llvm::json::Value(double(r.info.flops) / t / peak) : nullptr},
                         {"constant_bytes", int64_t(r.info.constant_bytes)},
                         {"code_bytes", int64_t(r.info.code_bytes)},
                         {"arena_bytes", int64_t(r.info.arena_bytes)},
                         {"scratch_bytes", int64_t(r.info.scratch_bytes)},
                         {"peak_memory_bytes", r.peakBytes ? llvm::json::Value(int64_t(r.peakBytes)) : nullptr}};
    if (r.explanation)
      v["explain"] = explainJson(*r.explanation);
    if (arguments.steps) {
      llvm::json::Array steps;
      for (const StepRecord &s : r.steps)
        steps.push_back(llvm::json::Object{{"node", s.location},
                                           {"kernel", s.kernel},
                                           {"median_ms", s.median() * 1e3},
                                           {"flops", int64_t(s.flops)},
                                           {"bytes", int64_t(s.bytes)},
                                           {"moved_bytes", int64_t(s.moved)},
                                           {"units", int64_t(s.units)},
                                           {"threads", int64_t(s.threads)}});
      v["steps"] = std::move(steps);
    }
    variants.push_back(std::move(v));
  }
  llvm::json::Object all{{"model", mrcc_model_name(model)},
                         {"threads", int64_t(arguments.threads)},
                         {"rounds", int64_t(arguments.rounds)},
                         {"peak_flops_per_second", peak},
                         {"peak_threads", int64_t(peakThreads(arguments.threads))},
                         {"workspace_bytes", int64_t(memory.workspace_bytes)},
                         {"variants", std::move(variants)}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", llvm::json::Value(std::move(all)));
  fmt::print("{}\n", text);
}

int Bench::run() {
  if (arguments.explain && arguments.threads != 1)
    return console.fail(usageError("--explain: the cost model is that of one thread, --threads is " +
                                   std::to_string(arguments.threads)),
                        rejected);
  auto model = openModel(arguments.bundle, arguments.target);
  if (!model)
    return console.fail(model.takeError(), rejected);
  auto context = makeContext(model->get(), arguments.threads);
  if (!context)
    return console.fail(context.takeError(), rejected);
  llvm::Error error = select(model->get());
  if (!error)
    error = measure(context->get());
  if (!error && (arguments.steps || arguments.explain))
    error = measureSteps(context->get());
  if (!error && arguments.explain)
    error = explainSteps();
  mrcc_memory_info memory = MRCC_MEMORY_INFO_INIT;
  if (!error)
    error = call(mrcc_context_memory, static_cast<const mrcc_context *>(context->get()), &memory);
  if (error)
    return console.fail(std::move(error), rejected);
  peak = measurePeak(arguments.threads);
  if (arguments.json)
    printJson(model->get(), memory);
  else
    printTable(model->get());
  return done;
}

static int bench(const BenchArguments &arguments, Console &console) { return Bench(arguments, console).run(); }

void tool::addBench(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, BenchArguments &o) {
    sub.add_option("bundle", o.bundle, "NAME.mrcb")->required();
    auto *shape = repeated(sub, "--shape", o.shapes, "\"x=1x3x480x640\": this variant (default: the first)");
    sub.add_flag("--all", o.all, "all variants")->excludes(shape);
    sub.add_option("--threads", o.threads, "threads")->check(CLI::Range(1u, maxThreads))->capture_default_str();
    sub.add_option("--rounds", o.rounds, "rounds of about 20 ms a variant")
        ->check(CLI::Range(1u, 1000000u))
        ->capture_default_str();
    sub.add_option("--target", o.target, "use this target of the bundle (default: the best that runs here)");
    sub.add_flag("--steps", o.steps, "also the time of each step, its rates, the bytes that it moves and the least");
    sub.add_flag("--explain", o.explain, "also each step's time by the cost model, beside the measured one");
    sub.add_flag("--json", o.json, "for scripts");
  };
  addCommand<BenchArguments>(app, chosen, "bench", "measure latency and rates of variants", declare, bench);
}
