// A server without its network: one bundle, several sizes, several threads. Each thread has a context of its own, all
// share the model. Requests of mixed sizes come in a fixed, shuffled order; the runtime picks the variant by the shapes
// of a request's tensors. Prints latencies and memory, and fails if two runs of one request differ.
//
//   serve BUNDLE [--requests N] [--workers N] [NAME=FILE.npy ...]
//
// Without files three variants of the bundle get random inputs: the first, the middle and the last one. Files of one
// name belong to one request each, in the order given; names without a file get random values.
#include "mrcc/runtime.hpp"
#include "npy.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Arguments {
  std::string bundle;
  unsigned requests = 60, workers = 2;
  std::map<std::string, std::vector<Array>> files; // by input name
};

[[noreturn]] void die(const std::string &message) {
  std::fprintf(stderr, "serve: %s\n", message.c_str());
  std::exit(1);
}

Arguments parse(int argc, char **argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if ((word == "--requests" || word == "--workers") && i + 1 < argc)
      (word == "--requests" ? a.requests : a.workers) = unsigned(std::max(1, std::atoi(argv[++i])));
    else if (a.bundle.empty() && word[0] != '-')
      a.bundle = word;
    else if (equals != std::string::npos) {
      std::string wrong = readNpy(word.substr(equals + 1), a.files[word.substr(0, equals)].emplace_back());
      if (!wrong.empty())
        die(wrong);
    } else
      die("usage: serve BUNDLE [--requests N] [--workers N] [NAME=FILE.npy ...]");
  }
  if (a.bundle.empty())
    die("which bundle?");
  return a;
}

/// Values between 0 and 1 for floats, small ones for integers.
Array randomArray(const mrcc_tensor_info &info, unsigned seed) {
  Array array;
  array.dtype = info.dtype;
  array.dims.assign(info.dims, info.dims + info.rank);
  array.bytes = info.bytes;
  array.memory.resize((info.bytes + 7) / 8);
  std::minstd_rand random(seed);
  if (info.dtype == MRCC_F32) {
    auto *values = reinterpret_cast<float *>(array.memory.data());
    for (size_t i = 0; i < info.bytes / 4; ++i)
      values[i] = float(random() % 1000) / 1000;
  } else if (info.dtype == MRCC_I64 || info.dtype == MRCC_I32) {
    const size_t size = info.dtype == MRCC_I64 ? 8 : 4;
    for (size_t i = 0; i < info.bytes; i += size)
      reinterpret_cast<char *>(array.memory.data())[i] = char(random() % 4);
  }
  return array;
}

/// One kind of request: the tensors of one variant, and what the first run of it gave.
struct Request {
  mrcc_variant_info variant;
  std::vector<Array> inputs;
  std::vector<std::vector<uint64_t>> expected;
  std::vector<double> milliseconds; // of each run
};

std::vector<mrcc::Tensor> inputTensors(const Request &r) {
  std::vector<mrcc::Tensor> tensors;
  for (uint32_t i = 0; i < r.variant.num_inputs; ++i)
    tensors.emplace_back(r.variant.inputs[i], r.inputs[i].memory.data());
  return tensors;
}

/// What one worker needs for one kind of request: made once, used for all.
struct Slot {
  std::vector<mrcc::Tensor> inputs, outputs;
  std::vector<std::vector<uint64_t>> memory;
  explicit Slot(const Request &r) : inputs(inputTensors(r)) {
    for (uint32_t i = 0; i < r.variant.num_outputs; ++i) {
      memory.emplace_back((r.variant.outputs[i].bytes + 7) / 8);
      outputs.emplace_back(r.variant.outputs[i], memory.back().data());
    }
  }
};

std::vector<Request> makeRequests(const mrcc::Model &model, Arguments &a) {
  std::vector<Request> requests;
  std::vector<uint32_t> usable;
  for (uint32_t i = 0; i < model.numVariants(); ++i)
    if (model.variant(i).supported)
      usable.push_back(i);
  size_t count = 0;
  for (auto &[name, arrays] : a.files)
    count = std::max(count, arrays.size());
  if (count == 0)
    for (uint32_t i : std::set<uint32_t>{usable.front(), usable[usable.size() / 2], usable.back()})
      requests.push_back({model.variant(i), {}, {}, {}});
  for (size_t k = 0; k < count; ++k) // the variant that takes the k-th file of each name
    for (uint32_t i : usable) {
      const mrcc_variant_info v = model.variant(i);
      bool fits = true;
      for (uint32_t t = 0; t < v.num_inputs; ++t) {
        auto file = a.files.find(v.inputs[t].name);
        if (file != a.files.end() && k < file->second.size())
          fits &= file->second[k].dtype == v.inputs[t].dtype &&
                  file->second[k].dims == std::vector<int64_t>(v.inputs[t].dims, v.inputs[t].dims + v.inputs[t].rank);
      }
      if (fits) {
        requests.push_back({v, {}, {}, {}});
        break;
      }
      if (i == usable.back())
        die("no variant takes the files of request " + std::to_string(k));
    }
  for (size_t k = 0; k < requests.size(); ++k)
    for (uint32_t t = 0; t < requests[k].variant.num_inputs; ++t) {
      const mrcc_tensor_info &info = requests[k].variant.inputs[t];
      auto file = a.files.find(info.name);
      const bool given = file != a.files.end() && k < file->second.size();
      requests[k].inputs.push_back(given ? std::move(file->second[k]) : randomArray(info, unsigned(k * 100 + t + 1)));
    }
  return requests;
}

/// Serves its share of the requests; returns what went wrong, or nothing.
std::string work(mrcc::Model &model, const std::vector<Request> &requests, const std::vector<size_t> &order,
                 std::atomic<size_t> &next, std::vector<std::pair<size_t, double>> &times) {
  mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
  options.threads = 1; // the workers themselves keep the cores busy
  auto context = mrcc::Context::create(model, &options);
  if (!context)
    return context.error().message();
  std::vector<Slot> slots;
  for (const Request &r : requests)
    slots.emplace_back(r);
  for (size_t i; (i = next++) < order.size();) {
    Slot &slot = slots[order[i]];
    const auto start = std::chrono::steady_clock::now();
    if (mrcc::Error error =
            context->run(slot.inputs.data(), slot.inputs.size(), slot.outputs.data(), slot.outputs.size()))
      return error.message();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times.push_back({order[i], time.count()});
    if (slot.memory != requests[order[i]].expected)
      return std::string(requests[order[i]].variant.key) + ": another result than in the first run";
  }
  return "";
}

double residentMegabytes() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, 6, "VmRSS:") == 0)
      return std::atof(line.c_str() + 6) / 1024;
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments a = parse(argc, argv);
  const double before = residentMegabytes();
  auto model = mrcc::Model::open(a.bundle.c_str());
  if (!model)
    die(model.error().message());
  std::vector<Request> requests = makeRequests(*model, a);

  // The first run of each size prepares its variant; what it gives is what all others must give.
  {
    auto context = mrcc::Context::create(*model);
    if (!context)
      die(context.error().message());
    for (Request &r : requests) {
      Slot slot(r);
      if (mrcc::Error error =
              context->run(slot.inputs.data(), slot.inputs.size(), slot.outputs.data(), slot.outputs.size()))
        die(error.message());
      r.expected = std::move(slot.memory);
    }
  }

  std::vector<size_t> order(a.requests);
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i % requests.size();
  std::shuffle(order.begin(), order.end(), std::minstd_rand(1));
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  std::vector<std::string> problems(a.workers);
  std::vector<std::vector<std::pair<size_t, double>>> times(a.workers);
  const auto start = std::chrono::steady_clock::now();
  for (unsigned w = 0; w < a.workers; ++w)
    threads.emplace_back([&, w] { problems[w] = work(*model, requests, order, next, times[w]); });
  for (std::thread &t : threads)
    t.join();
  const std::chrono::duration<double> total = std::chrono::steady_clock::now() - start;
  for (const std::string &problem : problems)
    if (!problem.empty())
      die(problem);

  for (auto &list : times)
    for (auto [number, time] : list)
      requests[number].milliseconds.push_back(time);
  std::printf("%-32s %8s %10s %10s %12s\n", "variant", "calls", "median ms", "worst ms", "arena MiB");
  for (Request &r : requests) {
    std::sort(r.milliseconds.begin(), r.milliseconds.end());
    const bool any = !r.milliseconds.empty();
    std::printf("%-32s %8zu %10.2f %10.2f %12.2f\n", r.variant.key, r.milliseconds.size(),
                any ? r.milliseconds[r.milliseconds.size() / 2] : 0, any ? r.milliseconds.back() : 0,
                double(r.variant.arena_bytes) / (1 << 20));
  }
  const mrcc_memory_info memory = model->memory(1);
  std::printf("%u requests by %u workers in %.2f s; resident %.1f MiB more than at the start\n", a.requests, a.workers,
              total.count(), residentMegabytes() - before);
  std::printf("constants %.2f MiB once, code %.2f MiB, workspace %.2f MiB for each context\n",
              double(memory.constant_bytes) / (1 << 20), double(memory.code_bytes) / (1 << 20),
              double(memory.workspace_bytes) / (1 << 20));
}
