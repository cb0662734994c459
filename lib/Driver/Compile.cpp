// Drives the stages. The shared module is printed once as bytecode (constants by key, so it is small) and parsed into
// one context a resolution, which dies with it.
//
// A graph whose form depends on dims that are open (the steps of an LSTM, an If on a shape, the turns of a Loop) has no
// shared module: import and simplify then run once a resolution, in its context, with all dims bound.
#include "mrcc/Driver/Compile.h"
#include "Passes.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mrcc/Bundle/Hash.h"
#include "mrcc/Codegen/Codegen.h"
#include "mrcc/Driver/Program.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"
#include <chrono>

using namespace mlir;
using namespace mrcc;

static constexpr const char *stageTable[] = {"import",      "simplify", "specialize", "form-kernels",
                                             "plan-memory", "codegen",  "bundle"};
static_assert(std::size(stageTable) == numStages);

llvm::ArrayRef<const char *> mrcc::stageNames() { return stageTable; }

static std::string quotedName(StringRef name) {
  if (name.find_first_of("=;,\" ") == StringRef::npos && !name.empty())
    return name.str();
  std::string out = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string mrcc::variantKey(const std::vector<std::string> &names, const VariantShapes &shapes) {
  std::string key;
  for (auto [i, name] : llvm::enumerate(names)) {
    key += (i ? ";" : "") + quotedName(name) + "=";
    if (shapes.dims[i].empty())
      key += "scalar";
    for (auto [j, d] : llvm::enumerate(shapes.dims[i]))
      key += (j ? "x" : "") + std::to_string(d);
  }
  return key;
}

std::string mrcc::printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  return text + "\n";
}

namespace {
/// Adds the time of its life to a stage.
class StageTimer {
public:
  /// `runs` is 0 for a part of a run that is counted elsewhere.
  StageTimer(StageTime &time, std::mutex &mutex, unsigned runs = 1)
      : time(time), mutex(mutex), runs(runs), start(std::chrono::steady_clock::now()) {}
  ~StageTimer() {
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::lock_guard lock(mutex);
    time.runs += runs;
    time.seconds += took.count();
  }

private:
  StageTime &time;
  std::mutex &mutex;
  unsigned runs;
  std::chrono::steady_clock::time_point start;
};

/// Collects error diagnostics of one context as text: "node 'conv1': message".
class Diagnostics {
public:
  explicit Diagnostics(MLIRContext &context)
      : handler(&context, [this](Diagnostic &d) {
          if (d.getSeverity() == DiagnosticSeverity::Error)
            add(d);
          else if (d.getSeverity() == DiagnosticSeverity::Warning || d.getSeverity() == DiagnosticSeverity::Remark)
            warnings.push_back(d.str());
          return success();
        }) {}
  llvm::Error take(llvm::StringRef fallback) { return llvm::createStringError(text.empty() ? fallback.str() : text); }
  std::vector<std::string> warnings;

private:
  void add(Diagnostic &d) {
    std::string node = nodeNames(d.getLocation());
    if (!text.empty())
      text += "\n";
    text += node.empty() ? d.str() : "node '" + node + "': " + reasonOf(d.str(), d.getLocation()).str();
  }
  std::string text;
  ScopedDiagnosticHandler handler;
};
} // namespace

static std::string attrText(Attribute attr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  attr.print(os);
  return text;
}

struct Compilation::State {
  ConstantStore store;
  ModelHandle handle;
  ModelInfo info;    // of the file
  ModelInfo program; // of the imported module: without binds
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  std::string bytecode;               // of the simplified module
  bool perResolution = false;         // import and simplify run once a resolution: there is no shared module
  llvm::StringSet<> sharedBlobs;      // keys
  std::set<std::string> sharedInline; // printed dense attributes
  std::vector<std::map<std::string, KernelDescription>> kernelsOfTarget;
  std::vector<std::shared_ptr<std::vector<uint8_t>>> owned;
  std::mutex mutex;

  std::unique_ptr<MLIRContext> makeContext() {
    DialectRegistry registry;
    registry.insert<MrcDialect, func::FuncDialect>();
    auto c = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    c->loadAllAvailableDialects();
    c->getLoadedDialect<MrcDialect>()->setStore(&store);
    return c;
  }
};

Compilation::Compilation(CompileOptions o) : state(std::make_unique<State>()), options(std::move(o)) {
  bundle.producer = "mrcc " MRCC_VERSION;
}
Compilation::~Compilation() = default;

const ModelInfo &Compilation::model() const { return state->info; }

llvm::Error Compilation::read(const std::string &path) {
  return take([&] { return readModel(path); });
}

llvm::Error Compilation::read(llvm::ArrayRef<uint8_t> bytes, const std::string &folder, const std::string &name) {
  return take([&] { return readModel(bytes, folder, name); });
}

llvm::Error Compilation::take(llvm::function_ref<llvm::Expected<ModelHandle>()> read) {
  StageTimer timer(times[size_t(StageId::import)], state->mutex, /*runs=*/0);
  auto handle = read();
  if (!handle)
    return handle.takeError();
  state->handle = *handle;
  state->info = modelInfo(**handle);
  return llvm::Error::success();
}

/// Part of a file's name for each key: what files cannot hold becomes '_', long ones are cut, equal ones get a number.
static std::vector<std::string> fileNames(llvm::ArrayRef<std::string> keys) {
  std::vector<std::string> names;
  llvm::StringSet<> taken;
  for (StringRef key : keys) {
    std::string front = key.take_front(160).str(), name; // most systems end at 255 bytes
    while (front.size() < key.size() && !front.empty() && (key[front.size()] & 0xC0) == 0x80) // no half characters
      front.pop_back();
    for (char &c : front)
      if (uint8_t(c) < 32 || StringRef("/ \";=").contains(c))
        c = '_';
    name = front;
    for (unsigned n = 2; !taken.insert(name).second; ++n)
      name = front + "-" + std::to_string(n);
    names.push_back(std::move(name));
  }
  return names;
}

static llvm::Error dumpModule(const CompileOptions &options, StageId id, StringRef suffix, ModuleOp module) {
  if (options.dumpStages.empty())
    return llvm::Error::success();
  std::string name =
      std::to_string(size_t(id)) + "-" + stageTable[size_t(id)] + (suffix.empty() ? "" : "-" + suffix.str()) + ".mlir";
  llvm::SmallString<128> path(options.dumpStages);
  llvm::sys::path::append(path, name);
  std::error_code ec = llvm::sys::fs::create_directories(options.dumpStages);
  if (!ec) {
    llvm::raw_fd_ostream os(path, ec);
    if (!ec) {
      os << printModule(module);
      os.flush();
      ec = os.error();
      os.clear_error();
    }
  }
  return ec ? llvm::createStringError(std::errc::io_error, "--dump-stages: cannot write %s: %s", path.c_str(),
                                      ec.message().c_str())
            : llvm::Error::success();
}

/// Dims of each input that no bind replaces. Which resolutions are in the list must not show in the shared module: a
/// dimension that the file leaves open stays so.
llvm::Expected<ImportOptions> Compilation::openDims(llvm::ArrayRef<VariantShapes> shapes) const {
  ImportOptions import;
  import.binds = options.binds;
  size_t next = 0;
  for (const auto &input : state->info.inputs) {
    if (options.binds.count(input.name))
      continue;
    std::vector<int64_t> dims;
    bool first = true;
    for (const VariantShapes &s : shapes) {
      const std::vector<int64_t> &mine = s.dims[next];
      if (first)
        dims = mine;
      else if (mine.size() != dims.size())
        return llvm::createStringError("input '%s': resolutions of different rank", input.name.c_str());
      for (size_t i = 0; i < dims.size(); ++i)
        if (dims[i] != mine[i])
          dims[i] = -1;
      first = false;
    }
    if (input.ranked && input.dims.size() == dims.size())
      for (size_t i = 0; i < dims.size(); ++i)
        if (input.dims[i] != dims[i])
          dims[i] = -1;
    import.inputDims[input.name] = dims;
    ++next;
  }
  return import;
}

ImportOptions Compilation::boundDims(const VariantShapes &shapes) const {
  ImportOptions import;
  import.binds = options.binds;
  size_t next = 0;
  for (const auto &input : state->info.inputs)
    if (!options.binds.count(input.name))
      import.inputDims[input.name] = shapes.dims[next++];
  return import;
}

llvm::Error Compilation::import(llvm::ArrayRef<VariantShapes> shapes) {
  state->context = state->makeContext();
  auto open = openDims(shapes);
  if (!open)
    return open.takeError();
  auto run = [&](const ImportOptions &import) -> llvm::Error {
    StageTimer timer(times[size_t(StageId::import)], state->mutex);
    auto module = importModel(*state->handle, *state->context, import, notes);
    if (!module)
      return module.takeError();
    state->module = std::move(*module);
    return llvm::Error::success();
  };
  size_t noteCount = notes.size();
  llvm::Error error = run(*open);
  if (error && error.isA<ImportError>() && !shapes.empty() && open->inputDims != boundDims(shapes[0]).inputDims) {
    // Perhaps it only lacks the dims. What stands in the way with all of them known is the better message.
    bool unsupported = false;
    error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<ImportError> e) -> llvm::Error {
      unsupported = e->kind == ImportError::unsupported;
      return unsupported ? llvm::Error::success() : llvm::Error(std::move(e));
    });
    if (unsupported) {
      notes.resize(noteCount);
      error = run(boundDims(shapes[0]));
    }
    state->perResolution = unsupported && !error;
  }
  if (error)
    return error;
  state->program = modelInfo(*state->module);
  bundle.model.name = state->info.name;
  bundle.model.sha256 = state->info.sha256;
  auto describe = [](const auto &tensors, auto &out) {
    for (const auto &t : tensors) {
      BundleModel::Tensor b{t.name, t.type, {}};
      for (size_t i = 0; i < t.dims.size(); ++i)
        b.dims.push_back(t.dims[i] >= 0                                  ? std::to_string(t.dims[i])
                         : i < t.symbols.size() && !t.symbols[i].empty() ? t.symbols[i]
                                                                         : "?");
      out.push_back(std::move(b));
    }
  };
  describe(state->info.inputs, bundle.model.inputs);
  describe(state->program.outputs, bundle.model.outputs); // inferred: what files state is often missing or wrong
  if (state->perResolution) // the dims of one resolution, even their number, say nothing about the model
    for (auto [tensor, declared] : llvm::zip(bundle.model.outputs, state->info.outputs)) {
      tensor.dims.assign(1, "...");
      if (declared.ranked)
        tensor.dims.assign(declared.dims.size(), "?");
      for (size_t i = 0; declared.ranked && i < declared.symbols.size(); ++i)
        if (!declared.symbols[i].empty())
          tensor.dims[i] = declared.symbols[i];
    }
  if (!state->perResolution) {
    if (llvm::Error error = dumpModule(options, StageId::import, "", *state->module))
      return error;
    if (options.stopAfter == "import")
      stageTexts.emplace_back("", printModule(*state->module));
  } else {
    state->module = nullptr; // addVariants makes one a resolution
  }
  return llvm::Error::success();
}

bool Compilation::isPerResolution() const { return state->perResolution; }

/// Folds that a stage recorded on the module.
static void collectFolds(ModuleOp module, std::vector<BundleFold> &out, const std::string &stage, bool all) {
  auto list = module->getAttrOfType<ArrayAttr>("mrc.folded");
  if (!list)
    return;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    auto text = [&](StringRef key) {
      auto s = entry.getAs<StringAttr>(key);
      return s ? s.str() : std::string();
    };
    auto number = [&](StringRef key) {
      auto n = entry.getAs<IntegerAttr>(key);
      return n ? uint64_t(n.getInt()) : 0;
    };
    if (all || text("stage") == "specialize")
      out.push_back({text("node"), text("ops"), number("bytes_before"), number("bytes_after"), stage});
  }
}

static LogicalResult runSimplify(ModuleOp module, const CompileOptions &options) {
  PassManager pm(module.getContext());
  pm.enableVerifier(options.verifyEach);
  buildSimplifyPipeline(pm);
  return pm.run(module);
}

llvm::Error Compilation::simplify() {
  if (state->perResolution) // addVariants does it
    return llvm::Error::success();
  Diagnostics diagnostics(*state->context);
  {
    StageTimer timer(times[size_t(StageId::simplify)], state->mutex);
    if (failed(runSimplify(*state->module, options)))
      return diagnostics.take("simplify failed");
  }
  for (std::string &w : diagnostics.warnings)
    notes.push_back(std::move(w));
  if (llvm::Error error = dumpModule(options, StageId::simplify, "", *state->module))
    return error;
  if (options.stopAfter == "simplify")
    stageTexts.emplace_back("", printModule(*state->module));
  collectFolds(*state->module, bundle.folded, "simplify", true);
  state->module->walk([&](ConstantOp c) {
    if (auto blob = dyn_cast<BlobAttr>(c.getValue()))
      state->sharedBlobs.insert(blob.getKey());
    else
      state->sharedInline.insert(attrText(c.getValue()));
  });
  llvm::raw_string_ostream os(state->bytecode);
  if (failed(writeBytecodeToFile(*state->module, os)))
    return llvm::createStringError("the simplified module could not be serialised");
  return llvm::Error::success();
}

llvm::Error Compilation::addVariants(llvm::ArrayRef<VariantShapes> shapes) {
  std::vector<std::string> names;
  for (const auto &input : state->program.inputs)
    names.push_back(input.name);
  state->kernelsOfTarget.resize(options.targets.size());
  struct Result {
    std::string error;
    std::error_code kind = llvm::inconvertibleErrorCode(); // of `error`
    std::vector<BuiltProgram> programs;                    // one a target
    std::vector<BundleFold> folds;
    std::vector<std::string> warnings;
    std::string printed; // with stopAfter
  };
  std::vector<Result> results(shapes.size());
  std::vector<std::string> keys;
  for (const VariantShapes &s : shapes)
    keys.push_back(variantKey(names, s));
  const std::vector<std::string> files = fileNames(keys);
  std::atomic<size_t> done = 0;
  auto one = [&](size_t i) {
    Result &r = results[i];
    const std::string &key = keys[i];
    auto refuse = [&](llvm::Error error) {
      llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &e) {
        r.error = e.message();
        r.kind = e.convertToErrorCode();
      });
    };
    auto context = state->makeContext();
    Diagnostics diagnostics(*context);
    OwningOpRef<ModuleOp> module;
    auto run = [&](StageId id, llvm::function_ref<LogicalResult()> body) {
      {
        StageTimer timer(times[size_t(id)], state->mutex);
        if (failed(body())) {
          if (r.error.empty()) {
            refuse(diagnostics.take(std::string(stageTable[size_t(id)]) + " failed"));
            if (id == StageId::formKernels) // what a shape allows, specialize has decided
              r.kind = std::make_error_code(std::errc::not_supported);
          }
          return false;
        }
      }
      if (llvm::Error error = dumpModule(options, id, files[i], *module)) {
        refuse(std::move(error));
        return false;
      }
      if (options.stopAfter == stageTable[size_t(id)])
        r.printed = printModule(*module);
      return true;
    };
    if (!state->perResolution) {
      module = parseSourceString<ModuleOp>(state->bytecode, context.get());
      if (!module) {
        r.error = llvm::toString(diagnostics.take("the simplified module could not be read back"));
        return;
      }
    } else {
      auto import = [&] {
        auto imported = importModel(*state->handle, *context, boundDims(shapes[i]), r.warnings);
        if (imported)
          module = std::move(*imported);
        else
          refuse(imported.takeError());
        return success(r.error.empty());
      };
      if (!run(StageId::import, import) || options.stopAfter == "import" ||
          !run(StageId::simplify, [&] { return runSimplify(*module, options); }))
        return;
      collectFolds(*module, r.folds, "specialize " + key, true);
      if (options.stopAfter == "simplify")
        return;
    }
    auto func = module->lookupSymbol<func::FuncOp>("main");
    auto runPass = [&](std::unique_ptr<Pass> pass) {
      PassManager pm(context.get(), func::FuncOp::getOperationName());
      pm.enableVerifier(options.verifyEach);
      pm.addPass(std::move(pass));
      return pm.run(func);
    };
    llvm::SmallVector<llvm::SmallVector<int64_t>> dims;
    for (const auto &d : shapes[i].dims)
      dims.emplace_back(d.begin(), d.end());
    if (!run(StageId::specialize, [&] { return specialize(func, dims); }))
      return;
    collectFolds(*module, r.folds, "specialize " + key, false);
    if (options.stopAfter == "specialize" || !run(StageId::formKernels, [&] { return runPass(createFormKernels()); }) ||
        options.stopAfter == "form-kernels" || !run(StageId::planMemory, [&] { return runPass(createPlanMemory()); }) ||
        options.stopAfter == "plan-memory")
      return;
    llvm::append_range(r.warnings, diagnostics.warnings);
    for (const Target *target : options.targets) {
      auto built = buildProgram(func, *target, options.strictMath, [&](Attribute attr) {
        auto blob = dyn_cast<BlobAttr>(attr);
        return blob ? state->sharedBlobs.contains(blob.getKey()) : state->sharedInline.count(attrText(attr)) != 0;
      });
      if (!built) {
        refuse(built.takeError());
        return;
      }
      built->variant.key = key;
      built->variant.target = r.programs.size();
      r.programs.push_back(std::move(*built));
    }
    if (options.progress)
      options.progress("specialize", ++done, shapes.size());
  };
  const unsigned jobs = numThreads(options.jobs);
  if (jobs > 1 && shapes.size() > 1) {
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
    for (size_t i = 0; i < shapes.size(); ++i)
      pool.async([&, i] { one(i); });
    pool.wait();
  } else {
    for (size_t i = 0; i < shapes.size(); ++i)
      one(i);
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    Result &r = results[i];
    if (!r.error.empty()) {
      if (!options.keepGoing || r.kind == std::errc::io_error)
        return llvm::createStringError(r.kind, "shape %s: %s", keys[i].c_str(), r.error.c_str());
      rejected.emplace_back(keys[i], r.error);
      continue;
    }
    if (!r.printed.empty())
      stageTexts.emplace_back(keys[i], std::move(r.printed));
    for (size_t t = 0; t < r.programs.size(); ++t) {
      BuiltProgram &p = r.programs[t];
      state->kernelsOfTarget[t].insert(p.kernels.begin(), p.kernels.end());
      llvm::append_range(state->owned, p.owned);
      bundle.variants.push_back(std::move(p.variant));
    }
    llvm::append_range(bundle.folded, r.folds);
    for (std::string &w : r.warnings)
      if (!llvm::is_contained(notes, w))
        notes.push_back(std::move(w));
  }
  return llvm::Error::success();
}

llvm::Error Compilation::generateCode() {
  StageTimer timer(times[size_t(StageId::codegen)], state->mutex);
  const unsigned jobs = numThreads(options.jobs);
  bundle.flags["math"] = options.strictMath ? "strict" : "fast";
  for (auto &[name, data] : options.binds)
    bundle.flags["bind " + name] = toString(data.type).str() + " " + dimsText(data.dims) + " " +
                                   toHex(hashBytes(data.bytes.data(), data.bytes.size()));
  for (size_t t = 0; t < options.targets.size(); ++t) {
    std::vector<KernelDescription> list;
    for (auto &[key, kernel] : state->kernelsOfTarget[t])
      list.push_back(kernel);
    auto image = compileKernels(std::move(list), *options.targets[t], jobs, [&](size_t done, size_t total) {
      if (options.progress)
        options.progress("codegen", done, total);
    });
    if (!image)
      return image.takeError();
    bundle.targets.push_back(bundleTarget(*options.targets[t], std::move(*image)));
  }
  return llvm::Error::success();
}
