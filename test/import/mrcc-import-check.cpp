// Runs models on the constant evaluator and compares with stored outputs: importer and evaluator without any kernel.
//   mrcc-import-check [--verbose] CASE...
// A CASE is a folder with model.onnx and test_data_set_*/{input,output}_N.pb. Each case runs in a process of its own.
// Inputs that only hold a shape, axes and the like are bound to constants, the others give their dims.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mrcc/Fold/Evaluate.h"
#include "mrcc/IR/Mrc.h"
#include "mrcc/Import/Import.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace mrcc;

static std::optional<TensorData> loadTensor(const std::string &path) {
  auto tensor = readTensorProto(path);
  if (tensor)
    return *tensor;
  llvm::errs() << llvm::toString(tensor.takeError()) << "\n";
  return std::nullopt;
}

static double elementAt(DType type, const uint8_t *bytes, size_t i, MLIRContext *context) {
  auto element = toType(context, type);
  size_t width = bitWidth(type) / 8;
  uint64_t bits = 0;
  std::memcpy(&bits, bytes + i * width, width);
  if (auto floating = dyn_cast<FloatType>(element)) {
    llvm::APFloat v(floating.getFloatSemantics(), llvm::APInt(unsigned(width * 8), bits));
    bool lost;
    v.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
    return v.convertToDouble();
  }
  return cast<IntegerType>(element).isUnsigned() ? double(bits)
                                                 : double(int64_t(bits << (64 - width * 8)) >> (64 - width * 8));
}

static std::string compare(const TensorData &want, const ConstantData &got, MLIRContext *context) {
  if (toDType(got.type.getElementType()) != want.type)
    return "type " + toString(toDType(got.type.getElementType())).str() + ", expected " + toString(want.type).str();
  if (got.type.getShape() != ArrayRef(want.dims))
    return "wrong dims";
  if (bitWidth(want.type) < 8)
    return got.isSplat || got.bytes == ArrayRef(want.bytes) ? "" : "elements differ";
  bool exact = !isa<FloatType>(got.type.getElementType());
  double worst = 0;
  for (size_t i = 0, n = size_t(got.type.getNumElements()); i < n; ++i) {
    double a = elementAt(want.type, want.bytes.data(), i, context);
    double b = elementAt(want.type, got.bytes.data(), got.isSplat ? 0 : i, context);
    if (std::isnan(a) && std::isnan(b))
      continue;
    double tolerance = exact ? 0 : 1e-5 + 1e-3 * std::fabs(a);
    if (!(a == b || std::fabs(a - b) <= tolerance)) {
      if (exact || std::isnan(a - b))
        return "element " + std::to_string(i) + " is " + std::to_string(b) + ", expected " + std::to_string(a);
      worst = std::max(worst, std::fabs(a - b) / tolerance);
    }
  }
  return worst > 0 ? "off by " + std::to_string(worst) + " tolerances" : "";
}

/// Evaluates every op in program order.
static std::string run(func::FuncOp main, std::vector<TensorData> &inputs) {
  OpBuilder builder(main.getContext());
  builder.setInsertionPointToStart(&main.getBody().front());
  for (auto [argument, data] : llvm::zip_equal(main.getArguments(), inputs)) {
    auto type = RankedTensorType::get(data.dims, toType(main.getContext(), data.type));
    argument.replaceAllUsesWith(makeConstant(builder, main.getLoc(), makeConstantAttr(type, data.bytes)));
  }
  for (Operation &op : llvm::make_early_inc_range(main.getBody().front())) {
    if (isa<ConstantOp, NoneOp, func::ReturnOp>(op))
      continue;
    std::string name = op.getName().getStringRef().str() + " of " + nodeNames(op.getLoc());
    if (failed(reinfer(&op)))
      return "shape of " + name;
    auto results = evaluate(&op);
    if (!results)
      return name + ": " + llvm::toString(results.takeError());
    builder.setInsertionPoint(&op);
    for (auto [result, value] : llvm::zip_equal(op.getResults(), *results))
      result.replaceAllUsesWith(makeConstant(builder, op.getLoc(), toAttr(std::move(value))));
    op.erase();
  }
  return "";
}

static bool isShapeLike(const TensorData &data, const std::string &name) {
  bool integers = data.type == DType::i64 || data.type == DType::i32;
  bool named =
      llvm::is_contained({"scales", "roi", "start", "limit", "delta", "lower_edge_hertz", "upper_edge_hertz"}, name);
  return named || (integers && data.dims.size() <= 1);
}

/// "" where it passes.
static std::string check(const std::string &folder) {
  auto model = readModel(folder + "/model.onnx");
  if (!model)
    return "refused: " + llvm::toString(model.takeError());
  ModelInfo info = modelInfo(**model);
  for (int set = 0;; ++set) {
    std::string data = folder + "/test_data_set_" + std::to_string(set) + "/";
    if (!llvm::sys::fs::exists(data))
      return set ? "" : "no data";
    MLIRContext context(MLIRContext::Threading::DISABLED);
    ImportOptions options;
    std::vector<TensorData> inputs;
    for (bool bindAll : {false, true}) {
      inputs.clear();
      options = {};
      for (size_t i = 0; i < info.inputs.size(); ++i) {
        auto tensor = loadTensor(data + "input_" + std::to_string(i) + ".pb");
        if (!tensor)
          return "unreadable data";
        const std::string &name = info.inputs[i].name;
        if (bindAll && isShapeLike(*tensor, name)) {
          options.binds[name] = *tensor;
        } else {
          options.inputDims[name] = tensor->dims;
          inputs.push_back(*tensor);
        }
      }
      std::vector<std::string> notes;
      auto module = importModel(**model, context, options, notes);
      if (!module && !bindAll) { // what needs constants is tried with them
        llvm::consumeError(module.takeError());
        continue;
      }
      if (!module)
        return "refused: " + llvm::toString(module.takeError());
      auto main = (*module)->lookupSymbol<func::FuncOp>("main");
      std::string problem = run(main, inputs);
      if (!problem.empty() && !bindAll)
        continue;
      if (!problem.empty())
        return "failed: " + problem;
      auto returned = main.getBody().front().getTerminator()->getOperands();
      for (auto [i, value] : llvm::enumerate(returned)) {
        auto want = loadTensor(data + "output_" + std::to_string(i) + ".pb");
        if (!want)
          return "unreadable data";
        if (std::string difference = compare(*want, *getConstant(value), &context); !difference.empty())
          return "failed: output " + std::to_string(i) + ": " + difference;
      }
      break;
    }
  }
}

int main(int argc, char **argv) {
  int failures = 0, count = 0;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    if (llvm::StringRef(argv[i]) == "--verbose") {
      verbose = true;
      continue;
    }
    ++count;
    llvm::StringRef name = llvm::sys::path::filename(llvm::StringRef(argv[i]).rtrim('/'));
    llvm::outs().flush();
    pid_t child = fork();
    if (child == 0) {
      std::string result = check(argv[i]);
      if (!result.empty() || verbose)
        llvm::outs() << name << ": " << (result.empty() ? "passed" : result) << "\n";
      llvm::outs().flush();
      _exit(!result.empty());
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
      llvm::outs() << name << ": crashed with signal " << WTERMSIG(status) << "\n";
    failures += status != 0;
  }
  llvm::outs() << count - failures << " of " << count << " passed\n";
  return failures != 0;
}
