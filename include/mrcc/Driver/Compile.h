// The pipeline as a library: one model in, the contents of a bundle out.
//
//   Compilation c(options);
//   c.read("det.onnx"); c.import(shapes); c.simplify(); c.addVariants(shapes); c.generateCode(); // each may fail
//   writeBundle("det.mrcb", c.contents());
//
// An error's code says its kind where it is not the model or a shape: std::errc::not_supported, std::errc::io_error.
#pragma once
#include "mlir/IR/MLIRContext.h"
#include "mrcc/Bundle/Bundle.h"
#include "mrcc/Import/Import.h"
#include "mrcc/Kernels/Kernel.h"
#include "mrcc/Support/ConstantStore.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <memory>

namespace mrcc {

/// The stages' names by StageId: what --stop-after, --dump-stages and --timing say.
llvm::ArrayRef<const char *> stageNames();

enum class StageId { import, simplify, specialize, formKernels, planMemory, codegen, bundle };
constexpr size_t numStages = size_t(StageId::bundle) + 1;

struct CompileOptions {
  std::vector<const Target *> targets; // at least one
  bool strictMath = false;
  unsigned jobs = 0;                       // 0: one a core
  bool keepGoing = false;                  // a bad shape does not stop the others
  bool verifyEach = false;                 // MLIR's verifier after every pass
  std::string dumpStages;                  // folder, or empty
  std::string stopAfter;                   // a stage's name, or empty
  std::map<std::string, TensorData> binds; // inputs that become constants
  /// Called from any thread; may be null.
  std::function<void(const std::string &stage, size_t done, size_t total)> progress;
};

struct StageTime {
  unsigned runs = 0;
  double seconds = 0; // of all runs, summed over threads
};

/// One resolution: dims of each input of the program, in the model's order.
struct VariantShapes {
  std::vector<std::vector<int64_t>> dims;
  bool operator==(const VariantShapes &) const = default;
  auto operator<=>(const VariantShapes &) const = default;
};

/// "x=1x3x480x640", several inputs joined by ';'. Names that hold `=;,"` or a space are quoted; rank 0 is "scalar".
std::string variantKey(const std::vector<std::string> &names, const VariantShapes &shapes);

class Compilation {
public:
  explicit Compilation(CompileOptions options);
  ~Compilation();

  /// Reads the model; `model()` is known afterwards.
  llvm::Error read(const std::string &path);
  /// The same from memory; external data is looked for in `folder`.
  llvm::Error read(llvm::ArrayRef<uint8_t> bytes, const std::string &folder, const std::string &name);
  const ModelInfo &model() const;
  /// Imports with all dims that `shapes` (all variants) disagree on, or that the file leaves open, dynamic. Where that
  /// is not enough to know the graph, import and simplify become part of addVariants (isPerResolution).
  llvm::Error import(llvm::ArrayRef<VariantShapes> shapes);
  bool isPerResolution() const;
  llvm::Error simplify();
  /// specialize, form-kernels, plan-memory and the program of each; in parallel. With keepGoing the failed ones land in
  /// `rejected`, otherwise the first (in the list's order) is the error.
  llvm::Error addVariants(llvm::ArrayRef<VariantShapes> shapes);
  llvm::Error generateCode();
  /// Valid as long as the Compilation lives: constants are spans of its store.
  const BundleContents &contents() const { return bundle; }

  std::vector<std::string> notes;                            // for the user, in order
  std::vector<std::pair<std::string, std::string>> rejected; // variant key, why
  StageTime times[numStages];                                // by StageId
  /// With stopAfter: the IR after that stage, once (key "") or per variant in the list's order.
  std::vector<std::pair<std::string, std::string>> stageTexts;

private:
  struct State;
  llvm::Error take(llvm::function_ref<llvm::Expected<ModelHandle>()> read);
  llvm::Expected<ImportOptions> openDims(llvm::ArrayRef<VariantShapes> shapes) const;
  ImportOptions boundDims(const VariantShapes &shapes) const;
  std::unique_ptr<State> state;
  CompileOptions options;
  BundleContents bundle;
};

/// The IR of the module as text without weights, for --stop-after and dumps.
std::string printModule(mlir::ModuleOp module);

} // namespace mrcc
