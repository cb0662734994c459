// Runs models on the constant evaluator and compares with stored outputs: importer and evaluator without any kernel.
//   mrcc-import-check [--verbose] CASE...
// A CASE is a folder with model.onnx and test_data_set_*/{input,output}_N.pb. Each case runs in a process of its own.
// Inputs that only hold a shape, axes and the like are bound to constants, the others give their dims.
#include "Case.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mrcc/Fold/Evaluate.h"
#include "mrcc/IR/Mrc.h"
#include "mrcc/Import/Import.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace mrcc;

/// The elements of a constant one by one.
static TensorData dense(const ConstantData &data) {
  TensorData t{toDType(data.type.getElementType()), data.type.getShape().vec(), data.bytes.vec()};
  if (!data.isSplat)
    return t;
  t.bytes.clear();
  int64_t count = data.type.getNumElements();
  if (bitWidth(t.type) < 8)
    t.bytes.assign((count + 1) / 2, uint8_t((data.bytes[0] & 15) * 17));
  else
    for (int64_t i = 0; i < count; ++i)
      llvm::append_range(t.bytes, data.bytes);
  return t;
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

/// "" where it passes.
static std::string check(const std::string &folder) {
  auto test = test::loadCase(folder);
  if (!test)
    return "failed: " + llvm::toString(test.takeError());
  auto model = readModel(folder + "/model.onnx");
  if (!model)
    return "refused: " + llvm::toString(model.takeError());
  ModelInfo info = modelInfo(**model);
  for (const test::DataSet &set : test->sets) {
    if (set.inputs.size() < info.inputs.size())
      return "failed: data are missing";
    MLIRContext context(MLIRContext::Threading::DISABLED);
    ImportOptions options;
    std::vector<TensorData> inputs;
    for (bool bindAll : {false, true}) {
      inputs.clear();
      options = {};
      for (size_t i = 0; i < info.inputs.size(); ++i) {
        const TensorData &tensor = set.inputs[i];
        const std::string &name = info.inputs[i].name;
        if (bindAll && test::isShapeLike(tensor, name)) {
          options.binds[name] = tensor;
        } else {
          options.inputDims[name] = tensor.dims;
          inputs.push_back(tensor);
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
      for (auto [i, want] : llvm::enumerate(set.outputs)) {
        if (i >= returned.size())
          return "failed: outputs are missing";
        std::string why = test::difference(want, dense(*getConstant(returned[i])), test->rtol, test->atol);
        if (!why.empty())
          return "failed: output " + std::to_string(i) + ": " + why;
      }
      break;
    }
  }
  return "";
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
