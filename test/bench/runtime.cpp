// mrcc-bench-runtime: what the runtime itself costs, in a program that links nothing else.
//
//   mrcc-bench-runtime FOLDER             a step's overhead, alone and shared by two threads, on the bundles that
//                                         mrcc-make-test-bundles writes there
//   mrcc-bench-runtime --cold BUNDLE...   the first call of a new process beside its later calls, of the first variant
//                                         of each bundle; files are in the page cache
#include "mrcc/runtime.hpp"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using Clock = std::chrono::steady_clock;

/// Microseconds.
static double since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

static double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

template <typename T> static T orExit(mrcc::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "mrcc-bench-runtime: %s\n", result.error().message());
    std::exit(3);
  }
  return std::move(*result);
}

static mrcc::Context makeContext(mrcc::Model &model, uint32_t threads) {
  mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
  options.threads = threads;
  return orExit(mrcc::Context::create(model, &options));
}

/// The first variant that runs here, with tensors of ones.
class Call {
public:
  explicit Call(mrcc::Model &model, uint32_t threads = 1) : context(makeContext(model, threads)) {
    for (uint32_t v = 0; v < mrcc_model_num_variants(model.get()); ++v) {
      info = MRCC_VARIANT_INFO_INIT;
      mrcc_model_variant(model.get(), v, &info, nullptr);
      if (info.supported)
        break;
    }
    for (uint32_t i = 0; i < info.num_inputs; ++i)
      add(info.inputs[i], inputs);
    for (uint32_t i = 0; i < info.num_outputs; ++i)
      add(info.outputs[i], outputs);
    for (uint32_t i = 0; i < info.num_inputs; ++i)
      if (info.inputs[i].dtype == MRCC_F32)
        std::fill_n(static_cast<float *>(inputs[i].data), info.inputs[i].bytes / 4, 1.0f);
  }
  /// Microseconds of one call.
  double operator()() {
    const auto start = Clock::now();
    mrcc_error *error = nullptr;
    if (mrcc_context_run(context.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), &error)) {
      std::fprintf(stderr, "mrcc-bench-runtime: %s\n", mrcc_error_message(error));
      std::exit(3);
    }
    return since(start);
  }
  /// The median of later calls, for about `seconds`.
  double warm(double seconds) {
    (*this)();
    std::vector<double> times;
    for (const auto start = Clock::now(); since(start) < seconds * 1e6 || times.size() < 5;)
      times.push_back((*this)());
    return median(std::move(times));
  }
  mrcc_variant_info info;

private:
  void add(const mrcc_tensor_info &of, std::vector<mrcc_tensor> &to) {
    mrcc_tensor t = MRCC_TENSOR_INIT;
    t.bytes = of.bytes;
    memory.emplace_back(of.bytes + 64);
    t.data = memory.back().data() + (64 - reinterpret_cast<uintptr_t>(memory.back().data()) % 64) % 64;
    t.dtype = of.dtype, t.rank = of.rank, t.dims = of.dims;
    to.push_back(t);
  }
  mrcc::Context context;
  std::vector<std::vector<char>> memory;
  std::vector<mrcc_tensor> inputs, outputs;
};

// ---- Overhead ----

/// Steps of so few values that their kernels take some nanoseconds: what remains is the runtime's.
static void overhead(const std::string &folder) {
  mrcc::Model model = orExit(mrcc::Model::open((folder + "/parallel.mrcb").c_str()));
  mrcc_set_threads(2, nullptr);
  Call alone(model, 1), two(model, 2);
  std::vector<double> serial, shared;
  for (int round = 0; round < 15; ++round) {
    serial.push_back(alone.warm(0.02));
    shared.push_back(two.warm(0.02));
  }
  const double steps = alone.info.steps, one = median(serial), both = median(shared);
  std::printf("a hundred steps at one thread: %.2f us (at most 5)\n", 100 * one / steps);
  std::printf("a step shared by two threads:  %.2f us over one thread's %.2f (at most 2)\n", (both - one) / steps,
              one / steps);
}

// ---- Cold start ----

struct Start {
  double open, first, warm; // microseconds; open: with the context
};

static Start startCold(const char *bundle) {
  const auto start = Clock::now();
  mrcc::Model model = orExit(mrcc::Model::open(bundle));
  Call call(model);
  Start result{since(start), call(), 0};
  result.warm = call.warm(0.5);
  return result;
}

/// In a process of its own.
static Start inChild(const char *bundle) {
  int ends[2];
  Start result{};
  if (pipe(ends) != 0)
    std::exit(5);
  const pid_t child = fork();
  if (child == 0) {
    result = startCold(bundle);
    _exit(write(ends[1], &result, sizeof result) == ssize_t(sizeof result) ? 0 : 5);
  }
  close(ends[1]);
  const bool whole = child > 0 && read(ends[0], &result, sizeof result) == ssize_t(sizeof result);
  close(ends[0]);
  if (child < 0 || waitpid(child, nullptr, 0) != child || !whole)
    std::exit(5);
  return result;
}

static void cold(const char *bundle) {
  std::vector<double> open, first, warm, ratio;
  for (int round = 0; round < 9; ++round) {
    const Start s = inChild(bundle);
    open.push_back(s.open), first.push_back(s.first), warm.push_back(s.warm);
    ratio.push_back(s.first / s.warm);
  }
  std::printf("%s: open %.2f ms, first call %.2f ms, later ones %.2f ms: %.2f times (at most 1.3)\n", bundle,
              median(open) / 1e3, median(first) / 1e3, median(warm) / 1e3, median(ratio));
}

int main(int argc, char **argv) {
  if (argc >= 3 && std::strcmp(argv[1], "--cold") == 0) {
    for (int i = 2; i < argc; ++i)
      cold(argv[i]);
    return 0;
  }
  if (argc != 2) {
    std::fprintf(stderr, "usage: mrcc-bench-runtime FOLDER | --cold BUNDLE...\n");
    return 2;
  }
  overhead(argv[1]);
  return 0;
}
