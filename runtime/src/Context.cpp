#include "Context.h"
#include "Cpu.h"
#include "Failure.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <time.h>

using namespace mrcc;
using namespace mrcc::runtime;

Context::Context(std::shared_ptr<Model> of, const mrcc_context_options &options)
    : model(std::move(of)), parallel(options.parallel), parallelUser(options.parallel_user) {
  threads = std::min(options.threads ? options.threads : Pool::shared().size(), Team::maxThreads);
  const auto &inputs = model->inputs(0), &outputs = model->outputs(0);
  bases.resize(base::tensors + inputs.size() + outputs.size());
  views.resize(std::max(1u, model->mostViews()));
  hookViews.resize(views.size());
  order.resize(std::max(inputs.size(), outputs.size()));
  if (options.allocator)
    allocator = *options.allocator;
  if (options.workspace) {
    if (reinterpret_cast<uintptr_t>(options.workspace) % alignment != 0)
      fail(MRCC_MISALIGNED, "workspace", "the lent workspace is not aligned to 64 bytes");
    workspace = {static_cast<char *>(options.workspace), options.workspace_bytes, true};
  } else {
    mrcc_memory_info info = MRCC_MEMORY_INFO_INIT;
    model->memory(threads, info);
    allocate(info.workspace_bytes);
  }
  if (parallel)
    ownTeam = std::make_unique<Team>();
  else if (threads > 1)
    Pool::shared().start();
}

Context::~Context() {
  if (!workspace.memory || workspace.lent)
    return;
  if (allocator.allocate)
    allocator.release(allocator.user, workspace.memory, workspace.bytes);
  else
    munmap(workspace.memory, workspace.bytes);
}

void Context::allocate(uint64_t bytes) {
  if (bytes == 0)
    return;
  void *memory;
  if (allocator.allocate) {
    memory = allocator.allocate(allocator.user, bytes, alignment);
  } else { // pages become resident as they are touched, so small variants stay small
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      memory = nullptr;
    else // where there are huge pages: 1/512 of the page faults in the first call. Nothing is lost where it fails.
      madvise(memory, bytes, MADV_HUGEPAGE);
  }
  if (!memory)
    fail(MRCC_OUT_OF_MEMORY, "workspace", "no memory for a workspace of " + std::to_string(bytes) + " bytes");
  workspace = {static_cast<char *>(memory), bytes, false};
  if (reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
    allocator.release(allocator.user, memory, bytes);
    workspace = {};
    fail(MRCC_MISALIGNED, "workspace", "the allocator's memory is not aligned to 64 bytes");
  }
}

void Context::setHook(mrcc_step_function *function, void *user) {
  hook = function;
  hookUser = user;
}

void Context::memory(mrcc_memory_info &info) const {
  model->memory(threads, info);
  info.workspace_bytes = workspace.bytes;
}

static bool isDense(const mrcc_tensor &t) {
  if (!t.strides)
    return true;
  int64_t expected = 1;
  for (uint32_t d = t.rank; d-- > 0;) {
    if (t.dims[d] != 1 && t.strides[d] != expected)
      return false;
    expected *= t.dims[d];
  }
  return true;
}

/// Checks one side's tensors and notes their addresses.
void Context::bind(const std::vector<mrcc_tensor_info> &infos, const Arguments &given, bool inputs, uint32_t variant,
                   uint32_t firstBase) {
  const char *kind = inputs ? "input '" : "output '";
  model->match(given, inputs, order.data());
  for (uint32_t i = 0; i < infos.size(); ++i) {
    bases[firstBase + i] = nullptr;
    if (order[i] == UINT32_MAX)
      continue;
    const mrcc_tensor_info &info = infos[i];
    const mrcc_tensor &t = given[order[i]];
    auto refuse = [&](mrcc_code code, const std::string &what) {
      fail(code, info.name, kind + std::string(info.name) + "' " + what);
    };
    if (!inputs && t.dtype != MRCC_NONE) {
      if (t.dtype != info.dtype)
        refuse(MRCC_WRONG_TYPE, std::string("is ") + mrcc_dtype_name(info.dtype) + ", got " + mrcc_dtype_name(t.dtype));
      if (t.rank != info.rank)
        refuse(MRCC_WRONG_RANK, "has " + std::to_string(info.rank) + " dims, got " + std::to_string(t.rank));
      if (!std::equal(info.dims, info.dims + info.rank, t.dims)) {
        mrcc_variant_info v = MRCC_VARIANT_INFO_INIT;
        model->describe(variant, v);
        refuse(MRCC_NO_VARIANT, "is " + describeTensor(info.name, info.rank, info.dims) + " for " + v.key + ", got " +
                                    describeTensor(info.name, t.rank, t.dims));
      }
    }
    if (t.dtype != MRCC_NONE && info.bytes != 0 && !isDense(t))
      refuse(MRCC_UNSUPPORTED_STRIDES, "has strides that are not dense");
    if (!t.data && info.bytes != 0)
      refuse(MRCC_NULL_DATA, "has no memory");
    if (t.bytes < info.bytes)
      refuse(MRCC_BUFFER_TOO_SMALL, "needs " + std::to_string(info.bytes) + " bytes, got " + std::to_string(t.bytes));
    const unsigned size = bitWidth(DType(info.dtype)) / 8;
    if (size > 1 && info.bytes != 0 && reinterpret_cast<uintptr_t>(t.data) % size != 0)
      refuse(MRCC_MISALIGNED, "is not aligned to its elements of " + std::to_string(size) + " bytes");
    bases[firstBase + i] = static_cast<char *>(t.data);
  }
}

namespace {
/// Calls a function at the end of a scope, also when something is thrown.
template <typename F> struct AtEnd {
  F function;
  ~AtEnd() { function(); }
};
template <typename F> AtEnd(F) -> AtEnd<F>;
} // namespace

void Context::run(const Arguments &inputs, const Arguments &outputs) {
  if (busy.exchange(true, std::memory_order_acquire))
    fail(MRCC_BUSY, "", "another thread is using this context");
  AtEnd free{[&] { busy.store(false, std::memory_order_release); }};

  const uint32_t variant = model->find(inputs);
  bind(model->inputs(variant), inputs, true, variant, base::tensors);
  bind(model->outputs(variant), outputs, false, variant, base::tensors + uint32_t(model->inputs(variant).size()));
  const uint64_t needed = model->workspaceBytes(variant, threads);
  if (needed > workspace.bytes) {
    mrcc_variant_info v = MRCC_VARIANT_INFO_INIT;
    model->describe(variant, v);
    fail(MRCC_BUFFER_TOO_SMALL, "workspace",
         std::string(v.key) + " needs a workspace of " + std::to_string(needed) + " bytes, got " +
             std::to_string(workspace.bytes));
  }
  const Prepared &prepared = model->acquire(variant);
  AtEnd release{[&] { model->release(variant); }};
  runSteps(prepared);
}

void Context::runSteps(const Prepared &variant) {
  DefaultFloatModes modes;
  bases[base::fixed] = nullptr;
  bases[base::arena] = workspace.memory;
  const uint64_t stride = (variant.scratchBytes + alignment - 1) / alignment * alignment;
  char *scratch = workspace.memory + (variant.arenaBytes + alignment - 1) / alignment * alignment;
  Team *team = nullptr;
  if (threads > 1)
    team = parallel ? ownTeam.get() : Pool::shared().size() > 1 ? Pool::shared().acquire() : nullptr;
  if (hook) {
    for (const PreparedStep &step : variant.steps) {
      timespec before, after;
      clock_gettime(CLOCK_MONOTONIC, &before);
      runStep(variant, step, team, scratch, stride);
      clock_gettime(CLOCK_MONOTONIC, &after);
      tellHook(variant, step,
               uint64_t(after.tv_sec - before.tv_sec) * 1000000000 + uint64_t(after.tv_nsec - before.tv_nsec));
    }
  } else {
    for (const PreparedStep &step : variant.steps)
      runStep(variant, step, team, scratch, stride);
  }
  if (team && !parallel)
    Pool::shared().release(team);
}

inline void Context::runStep(const Prepared &variant, const PreparedStep &step, Team *team, char *scratch,
                             uint64_t stride) {
  const PreparedView *view = variant.views.data() + step.firstView;
  for (uint32_t i = 0; i < step.numViews; ++i) // addresses as numbers: a view may begin at any offset from null
    views[i] = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(bases[view[i].base]) + view[i].offset);
  const int64_t *params = variant.params.data() + step.firstParam;
  if (step.units == 0)
    return;
  if (!team || !step.parallel)
    return step.function(views.data(), params, 0, int64_t(step.units), scratch);
  share(*team, {step.function, views.data(), params, step.units, step.leastUnits, scratch, stride},
        unsigned(std::min<uint64_t>(threads, step.units)));
}

void Context::share(Team &team, const Task &task, unsigned participants) {
  if (!parallel)
    return Pool::shared().run(team, task, participants);
  team.begin(task, participants);
  parallel(
      parallelUser, participants,
      [](void *argument, uint32_t i) {
        DefaultFloatModes modes;
        static_cast<Team *>(argument)->work(i);
      },
      &team);
  team.work(0); // in case it ran none
  team.finish();
}

void Context::tellHook(const Prepared &variant, const PreparedStep &step, uint64_t nanoseconds) {
  for (uint32_t i = 0; i < step.numViews; ++i) {
    const PreparedView &v = variant.views[step.firstView + i];
    const int64_t *shape = variant.shapes.data() + v.shape;
    hookViews[i] = {views[i], mrcc_dtype(v.type), uint32_t(shape[0]), shape + 1, shape + 1 + shape[0]};
  }
  mrcc_step info{};
  info.struct_size = sizeof info;
  info.index = uint32_t(&step - variant.steps.data());
  info.count = uint32_t(variant.steps.size());
  info.location = variant.texts.data() + step.location;
  info.kernel = step.kernel;
  info.nanoseconds = nanoseconds;
  info.flops = step.flops;
  info.bytes = step.bytes;
  info.moved = step.moved;
  info.units = step.units;
  info.threads = step.parallel ? unsigned(std::min<uint64_t>(threads, step.units)) : 1;
  info.num_outputs = step.numOutputs;
  info.num_views = step.numViews;
  info.views = hookViews.data();
  hook(hookUser, &info);
}
