#include "Model.h"
#include "Cpu.h"
#include "Failure.h"
#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace mrcc;
using namespace mrcc::runtime;

Model::Model(Storage opened, Options given)
    : storage(std::move(opened)), options(std::move(given)), entries(storage.index().variants().size()) {
  const Index &records = index();
  producerText = records.producer();
  auto tensors = [&](uint32_t first, uint32_t count, std::vector<mrcc_tensor_info> &infos) {
    for (const TensorRecord &t : records.tensors().subspan(first, count)) {
      auto dims = records.dims().subspan(t.firstDim, t.rank);
      infos.push_back({records.text(t.name).data(), mrcc_dtype(t.type), t.rank, dims.data(),
                       size_t(denseBytes(DType(t.type), dims).value_or(0))});
    }
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    const VariantRecord &v = records.variants()[i];
    tensors(v.firstInput, v.numInputs, entries[i].inputs);
    tensors(v.firstOutput, v.numOutputs, entries[i].outputs);
  }
  const auto &outputs = entries[0].outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    occurrence.push_back(std::count_if(outputs.begin(), outputs.begin() + i, [&](const mrcc_tensor_info &t) {
      return std::strcmp(t.name, outputs[i].name) == 0;
    }));
  for (size_t i = 0; i < records.files().size(); ++i)
    verified.emplace_back(std::max(1u, records.files()[i].numBlocks));

  chooseTargets();
  // Programs are small: all are checked now, so that a bundle is refused as a whole.
  for (const VariantRecord &v : records.variants()) {
    storage.verifyFile(v.file);
    Program program = readProgram(storage.file(v.file).bytes, records, v, storage.name(v.file));
    for (const Step &step : program.steps)
      viewLimit = std::max(viewLimit, uint32_t(step.views.size()));
  }
  if (options.verify == MRCC_VERIFY_FULL)
    verifyAll();
  mapCode();
  storage.closeDescriptors();
}

Model::~Model() {
  for (Entry &entry : entries)
    delete entry.prepared.load();
}

void Model::log(mrcc_log_level level, const std::string &message) const {
  if (options.log)
    options.log(options.logUser, level, message.c_str());
  else if (level == MRCC_LOG_WARNING)
    std::fprintf(stderr, "mrcc: warning: %s\n", message.c_str());
}

// ---- Targets and code ----

static std::string machineName(uint32_t machine) {
  return machine == 62 ? "x86-64" : machine == 183 ? "aarch64" : "ELF machine " + std::to_string(machine);
}

void Model::chooseTargets() {
  const Index &records = index();
  bool known = options.target.empty();
  std::string names, closest; // of the target that misses the least
  for (const TargetRecord &record : records.targets()) {
    TargetState &state = targets.emplace_back();
    const std::string name(records.text(record.name));
    names += (names.empty() ? "" : ", ") + name;
    state.missing = record.machine == hostMachine() ? missingFeatures(records.text(record.features))
                                                    : "the architecture (" + machineName(record.machine) + ")";
    const bool wanted = options.target.empty() || options.target == name;
    known |= options.target == name;
    state.supported = wanted && state.missing.empty();
    if (wanted && !state.missing.empty() && (closest.empty() || state.missing.size() < closest.size()))
      closest = state.missing;
  }
  const std::string &name = storage.bundleName();
  if (!known)
    fail(MRCC_INVALID_ARGUMENT, options.target, name + ": no target " + options.target + "; the bundle has " + names);
  for (uint32_t i = 0; i < entries.size(); ++i)
    if (supported(i))
      preference.push_back(i);
  if (preference.empty())
    fail(MRCC_UNSUPPORTED_CPU, options.target.empty() ? names : options.target,
         name + ": compiled for " + (options.target.empty() ? names : options.target) + "; this CPU lacks " + closest);
  std::sort(preference.begin(), preference.end(), [&](uint32_t a, uint32_t b) {
    auto level = [&](uint32_t v) { return records.targets()[records.variants()[v].target].level; };
    return level(a) != level(b) ? level(a) > level(b) : a < b;
  });
}

void Model::mapCode() {
  const Index &records = index();
  images.resize(records.files().size());
  std::vector<bool> loaded(images.size());
  for (const KernelRecord &kernel : records.kernels()) {
    const TargetRecord &target = records.targets()[kernel.target];
    if (!targets[kernel.target].supported)
      continue;
    const std::string name = storage.name(kernel.file);
    if (!loaded[kernel.file]) {
      bool copied = false;
      images[kernel.file] = Image::load(storage.file(kernel.file), name, target.machine, copied);
      loaded[kernel.file] = true;
      if (copied)
        log(MRCC_LOG_INFO,
            name + ": code is copied, " + std::to_string(storage.file(kernel.file).bytes.size()) + " bytes");
    }
    if (!images[kernel.file].function(kernel.offset, kernel.bytes))
      damaged(name, "kernel " + std::string(records.text(kernel.name)) + " lies outside the code");
  }
}

// ---- Facts ----

void Model::describe(uint32_t variant, mrcc_variant_info &info) const {
  const VariantRecord &v = index().variants()[variant];
  const Entry &entry = entries[variant];
  info.key = index().text(v.key).data();
  info.target = index().text(index().targets()[v.target].name).data();
  info.supported = supported(variant);
  info.num_inputs = v.numInputs;
  info.num_outputs = v.numOutputs;
  info.inputs = entry.inputs.data();
  info.outputs = entry.outputs.data();
  info.arena_bytes = v.arenaBytes;
  info.scratch_bytes = v.scratchBytes;
  info.constant_bytes = v.constantBytes;
  info.unique_constant_bytes = v.uniqueConstantBytes;
  info.code_bytes = v.codeBytes;
  info.unique_code_bytes = v.uniqueCodeBytes;
  info.prepared_bytes = v.preparedBytes;
  info.flops = v.flops;
  info.steps = v.numSteps;
}

static uint64_t alignUp(uint64_t n) { return (n + alignment - 1) / alignment * alignment; }

uint64_t Model::workspaceBytes(uint32_t variant, uint32_t threads) const {
  const VariantRecord &v = index().variants()[variant];
  return alignUp(v.arenaBytes) + threads * alignUp(v.scratchBytes);
}

void Model::memory(uint32_t threads, mrcc_memory_info &info) const {
  info.constant_bytes = info.code_bytes = info.arena_bytes = info.scratch_bytes = info.workspace_bytes = 0;
  for (size_t i = 0; i < index().files().size(); ++i) {
    const FileRecord &file = index().files()[i];
    if (file.kind == FileKind::code)
      info.code_bytes += images[i].empty() ? 0 : file.bytes; // code of other CPUs is not mapped
    else if (file.kind != FileKind::program)
      info.constant_bytes += file.bytes;
  }
  for (uint32_t v : preference) {
    const VariantRecord &record = index().variants()[v];
    info.arena_bytes = std::max(info.arena_bytes, record.arenaBytes);
    info.scratch_bytes = std::max(info.scratch_bytes, record.scratchBytes);
    info.workspace_bytes = std::max(info.workspace_bytes, workspaceBytes(v, threads));
  }
  info.prepared = numPrepared();
}

// ---- Prepared variants ----

bool Model::hold(Entry &entry) const {
  int64_t users = entry.users.load(std::memory_order_relaxed);
  do {
    if (users < 0)
      return false;
  } while (!entry.users.compare_exchange_weak(users, users + 1, std::memory_order_acquire, std::memory_order_relaxed));
  if (entry.prepared.load(std::memory_order_acquire))
    return true;
  entry.users.fetch_sub(1, std::memory_order_release);
  return false;
}

const Prepared &Model::acquire(uint32_t variant) {
  Entry &entry = entries[variant];
  if (!hold(entry)) {
    std::lock_guard lock(mutex);
    if (!hold(entry)) {
      const Prepared *made = prepare(variant);
      evict(options.preparedLimit - 1); // makes room for it
      entry.pinned |=
          options.pinFirst && std::none_of(entries.begin(), entries.end(), [](Entry &e) { return e.pinned; });
      entry.prepared.store(made, std::memory_order_release);
      entry.users.fetch_add(1, std::memory_order_relaxed); // not a store: others in `hold` may have counted themselves
      prepared.fetch_add(1, std::memory_order_relaxed);
    }
  }
  entry.stamp.store(clock.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  return *entry.prepared.load(std::memory_order_relaxed);
}

void Model::release(uint32_t variant) {
  entries[variant].users.fetch_sub(1, std::memory_order_release);
  if (prepared.load(std::memory_order_relaxed) <= options.preparedLimit)
    return;
  std::lock_guard lock(mutex);
  evict(options.preparedLimit);
}

/// Leaves at most so many. Variants that run now cannot go: there may be more than the limit until they are released.
void Model::evict(uint32_t most) {
  while (prepared.load(std::memory_order_relaxed) > most) {
    Entry *oldest = nullptr;
    for (Entry &entry : entries)
      if (entry.prepared.load(std::memory_order_relaxed) && !entry.pinned &&
          entry.users.load(std::memory_order_relaxed) == 0 &&
          (!oldest || entry.stamp.load(std::memory_order_relaxed) < oldest->stamp.load(std::memory_order_relaxed)))
        oldest = &entry;
    if (!oldest)
      return;
    int64_t none = 0;
    if (!oldest->users.compare_exchange_strong(none, locked, std::memory_order_acq_rel))
      continue; // it has just begun to run
    delete oldest->prepared.exchange(nullptr, std::memory_order_relaxed);
    prepared.fetch_sub(1, std::memory_order_relaxed);
    oldest->users.store(0, std::memory_order_release);
    log(MRCC_LOG_INFO, "let go " + std::string(index().text(index().variants()[oldest - entries.data()].key)));
  }
}

void Model::verifyAll() {
  for (uint32_t i = 0; i < verified.size(); ++i) {
    storage.verifyFile(i);
    verified[i].assign(verified[i].size(), true);
  }
}

void Model::verifyRange(uint32_t file, uint64_t offset, uint64_t bytes) {
  if (options.verify == MRCC_VERIFY_METADATA || bytes == 0)
    return;
  for (uint64_t block = offset / blockBytes; block <= (offset + bytes - 1) / blockBytes; ++block) {
    if (verified[file][block])
      continue;
    storage.verifyBlock(file, block);
    verified[file][block] = true;
  }
}

const Prepared *Model::prepare(uint32_t variant) {
  const Index &records = index();
  const VariantRecord &record = records.variants()[variant];
  if (!supported(variant))
    fail(MRCC_UNSUPPORTED_CPU, std::string(records.text(record.key)),
         std::string(records.text(record.key)) + " is compiled for " +
             std::string(records.text(records.targets()[record.target].name)) + "; this CPU lacks " +
             targets[record.target].missing);
  const Program program = readProgram(storage.file(record.file).bytes, records, record, storage.name(record.file));
  auto made = std::make_unique<Prepared>();
  made->variant = variant;
  made->arenaBytes = record.arenaBytes;
  made->scratchBytes = record.scratchBytes;
  made->numInputs = record.numInputs;
  made->numOutputs = record.numOutputs;

  made->splats.resize(program.constants.size() * 16);
  std::vector<const void *> constants;
  for (const ConstantRef &c : program.constants) {
    if (!c.splat.empty()) {
      uint8_t *place = made->splats.data() + constants.size() * 16;
      for (int i = 0; i < 16; ++i)
        place[i] = c.splat[i % c.splat.size()];
      constants.push_back(place);
      continue;
    }
    const ConstantRecord &entry = *records.find(c);
    verifyRange(entry.file, entry.offset, entry.bytes);
    constants.push_back(storage.file(entry.file).bytes.data() + entry.offset);
  }
  std::vector<const KernelRecord *> kernels;
  for (const Hash128 &id : program.kernels) {
    kernels.push_back(records.findKernel(id));
    verifyRange(kernels.back()->file, 0, storage.file(kernels.back()->file).bytes.size());
  }

  for (const Step &step : program.steps) {
    const KernelRecord &kernel = *kernels[step.kernel];
    PreparedStep &s = made->steps.emplace_back();
    s.function = images[kernel.file].function(kernel.offset, kernel.bytes);
    s.firstView = uint32_t(made->views.size());
    s.numViews = uint32_t(step.views.size());
    s.numOutputs = step.outputs;
    s.firstParam = uint32_t(made->params.size());
    s.units = step.units;
    s.leastUnits = step.leastUnits;
    s.flops = step.flops;
    s.moved = step.work.moved;
    s.bytes = 0;
    s.kernel = records.text(kernel.name).data();
    s.location = uint32_t(made->texts.size());
    made->texts.append(step.location.c_str(), step.location.size() + 1);
    made->params.insert(made->params.end(), step.params.begin(), step.params.end());
    for (const View &view : step.views) {
      PreparedView &v = made->views.emplace_back();
      v.type = view.type;
      v.shape = uint32_t(made->shapes.size());
      v.offset = view.offset;
      switch (view.space) {
      case Space::absent:
        v.base = base::fixed;
        v.offset = 0;
        break;
      case Space::input:
        v.base = base::tensors + view.index;
        break;
      case Space::output:
        v.base = base::tensors + record.numInputs + view.index;
        break;
      case Space::constant:
        v.base = base::fixed;
        v.offset += reinterpret_cast<uintptr_t>(constants[view.index]);
        break;
      case Space::arena:
        v.base = base::arena;
        break;
      }
      made->shapes.push_back(int64_t(view.dims.size()));
      made->shapes.insert(made->shapes.end(), view.dims.begin(), view.dims.end());
      made->shapes.insert(made->shapes.end(), view.strides.begin(), view.strides.end());
      if (view.space != Space::absent)
        s.bytes += viewBytes(view);
    }
    // Sharing costs about a microsecond; a core does some 40 operations or 16 bytes of memory traffic in a nanosecond.
    s.parallel = s.units > 1 && s.flops / 40 + s.bytes / 16 > 4000;
  }
  log(MRCC_LOG_INFO,
      "prepared " + program.key + " for " + program.target + ": " + std::to_string(made->steps.size()) + " steps");
  return made.release();
}
