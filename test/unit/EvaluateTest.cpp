// The constant evaluator against NumPy and ONNX Runtime: each function of data/fold-cases.txt (written by
// fold_cases.py) returns pairs of a computed value and the expected one. Shape inference is checked on the same ops:
// from constant operands it must find the declared, static types.
#include "mrcc/Fold/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>

using namespace mlir;
using namespace mrcc;

static std::unique_ptr<MLIRContext> makeContext() {
  auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<MrcDialect, func::FuncDialect>();
  return context;
}

/// Elements as doubles; integers beyond 2^53 are compared by their bytes before.
static std::vector<double> numbers(const ConstantData &data) {
  std::vector<double> out;
  Type element = data.type.getElementType();
  int64_t n = data.type.getNumElements();
  size_t width = std::max(1u, bitWidth(toDType(element)) / 8);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t bits = 0;
    if (DType type = toDType(element); isPacked(type)) {
      const int64_t at = data.isSplat ? 0 : i * bitWidth(type);
      bits = data.bytes[at / 8] >> at % 8 & ((1 << bitWidth(type)) - 1);
    } else {
      std::memcpy(&bits, data.bytes.data() + (data.isSplat ? 0 : i * width), width);
    }
    if (auto f = dyn_cast<FloatType>(element)) {
      APFloat v(f.getFloatSemantics(), APInt(f.getWidth(), bits));
      bool lost;
      v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      out.push_back(v.convertToDouble());
    } else {
      unsigned w = element.getIntOrFloatBitWidth();
      bool sign = !element.isUnsignedInteger() && w > 1 && bits >> (w - 1) & 1;
      out.push_back(double(int64_t(sign ? bits | (w == 64 ? 0 : ~uint64_t(0) << w) : bits)));
    }
  }
  return out;
}

static std::vector<uint8_t> denseBytes(const ConstantData &data) {
  std::vector<uint8_t> out(data.bytes.begin(), data.bytes.end());
  if (data.isSplat && bitWidth(toDType(data.type.getElementType())) >= 8)
    for (int64_t i = 1; i < data.type.getNumElements(); ++i)
      out.insert(out.end(), data.bytes.begin(), data.bytes.end());
  return out;
}

static std::string difference(const ConstantData &got, const ConstantData &want, double rtol, double atol) {
  if (got.type != want.type)
    return "other type";
  if (denseBytes(got) == denseBytes(want))
    return "";
  std::vector<double> a = numbers(got), b = numbers(want);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i]))
      continue;
    if (a[i] == b[i] || std::fabs(a[i] - b[i]) <= atol + rtol * std::fabs(b[i]))
      continue;
    return llvm::formatv("element {0}: got {1:E9}, expected {2:E9}", i, a[i], b[i]).str();
  }
  return "";
}

TEST_CASE("values of ops on constants") {
  auto context = makeContext();
  const char *other = std::getenv("MRCC_FOLD_CASES");
  auto module = parseSourceFile<ModuleOp>(other ? other : MRCC_TEST_DATA "/fold-cases.txt", context.get());
  REQUIRE(module);
  for (auto func : module->getOps<func::FuncOp>()) {
    std::string name = func.getName().str();
    INFO("case ", name);
    DenseMap<Value, ConstantData> values;
    for (Operation &op : func.getBody().front()) {
      if (auto end = dyn_cast<func::ReturnOp>(op)) {
        double rtol = func->getAttrOfType<FloatAttr>("rtol").getValueAsDouble();
        double atol = func->getAttrOfType<FloatAttr>("atol").getValueAsDouble();
        for (unsigned i = 0; i < end.getNumOperands(); i += 2)
          if (values.count(end.getOperand(i)))
            CHECK(difference(values[end.getOperand(i)], values[end.getOperand(i + 1)], rtol, atol) == "");
        break;
      }
      if (auto constant = dyn_cast<ConstantOp>(op)) {
        values[constant.getOutput()] = *getConstant(constant.getOutput());
        continue;
      }
      if (isa<NoneOp>(op))
        continue;
      SmallVector<Type> types;
      CHECK(succeeded(cast<InferShapes>(op).inferShapes(types)));
      CHECK(types == SmallVector<Type>(op.getResultTypes()));
      auto results = evaluate(&op);
      if (!results) {
        std::string message = llvm::toString(results.takeError());
        CHECK(message == "");
        continue;
      }
      for (auto [result, value] : llvm::zip_equal(op.getResults(), *results)) {
        auto kept = std::make_shared<Evaluated>(std::move(value));
        CHECK(kept->bytes.size() ==
              (kept->splat ? std::max(1u, bitWidth(toDType(kept->type.getElementType())) / 8) : byteSize(kept->type)));
        values[result] = {kept->type, kept->bytes, kept->splat, kept};
      }
    }
  }
}

/// Evaluates the one op of a function body that is given as text.
static llvm::Expected<std::vector<Evaluated>> evaluateText(MLIRContext &context, const std::string &body,
                                                           OwningOpRef<ModuleOp> &module) {
  module = parseSourceString<ModuleOp>("func.func @f() {\n" + body + "\nreturn }", &context);
  REQUIRE(module);
  Operation &last =
      *std::prev((*module->getOps<func::FuncOp>().begin()).getBody().front().getTerminator()->getIterator());
  return evaluate(&last);
}

TEST_CASE("splats stay splats") {
  auto context = makeContext();
  OwningOpRef<ModuleOp> module;
  const char *bodies[] = {
      "%a = mrc.constant dense<2.0> : tensor<500x500xf32>\n%b = mrc.unary exp %a : (tensor<500x500xf32>) -> "
      "tensor<500x500xf32>",
      "%a = mrc.constant dense<2.0> : tensor<4x500xf32>\n%b = mrc.transpose %a {perm = array<i64: 1, 0>} : "
      "(tensor<4x500xf32>) -> tensor<500x4xf32>",
      "%a = mrc.constant dense<2> : tensor<4x5xi8>\n%c = mrc.constant dense<2> : tensor<4x6xi8>\n"
      "%b = mrc.concat %a, %c {axis = 1 : i64} : (tensor<4x5xi8>, tensor<4x6xi8>) -> tensor<4x11xi8>",
      "%a = mrc.constant dense<0.0> : tensor<4xf32>\n%p = mrc.constant dense<3> : tensor<2xi64>\n%n = mrc.none : none\n"
      "%b = mrc.pad constant %a, %p, %n, %n : (tensor<4xf32>, tensor<2xi64>, none, none) -> tensor<10xf32>",
      "%a = mrc.constant dense<1> : tensor<300xi4>\n%b = mrc.cast %a {to = f16} : (tensor<300xi4>) -> tensor<300xf16>",
  };
  for (const char *body : bodies) {
    auto results = evaluateText(*context, body, module);
    REQUIRE(bool(results));
    CHECK(results->front().splat);
    CHECK(results->front().bytes.size() <= 4);
    auto dense = dyn_cast<DenseElementsAttr>(toAttr(std::move(results->front())));
    REQUIRE(dense);
    CHECK(dense.isSplat());
  }
}

TEST_CASE("folds that fail say why") {
  auto context = makeContext();
  OwningOpRef<ModuleOp> module;
  auto message = [&](const char *body) {
    auto results = evaluateText(*context, body, module);
    REQUIRE(!results);
    return llvm::toString(results.takeError());
  };
  CHECK(message("%a = mrc.constant dense<1> : tensor<2xi32>\n%z = mrc.constant dense<0> : tensor<2xi32>\n"
                "%b = mrc.binary mod %a, %z : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>") ==
        "division of integers by zero");
  CHECK(message("%a = mrc.constant dense<1.0> : tensor<5000x5000xf32>\n"
                "%b = mrc.matmul %a, %a : (tensor<5000x5000xf32>, tensor<5000x5000xf32>) -> tensor<5000x5000xf32>") ==
        "mrc.matmul of 1.25E+11 multiply-adds is above the folder's limit of 4294967296");
}
