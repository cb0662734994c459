// What form-kernels, plan-memory and the kernels compute, against the constant evaluator: two implementations that
// share nothing but the meaning of the ops. Each function below goes all the way: launches, arena, machine code, a
// bundle in memory, the runtime.
#include "Interpret.h"
#include "Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mrcc/Bundle/Bundle.h"
#include "mrcc/Codegen/Codegen.h"
#include "mrcc/Driver/Program.h"
#include "mrcc/runtime.h"
#include <doctest/doctest.h>

using namespace mlir;
using namespace mrcc;

namespace {

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registry.insert<MrcDialect, func::FuncDialect>();
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

llvm::Expected<std::string> compileToMemory(func::FuncOp func) {
  llvm::SmallVector<llvm::SmallVector<int64_t>> dims;
  for (BlockArgument a : func.getArguments())
    dims.emplace_back(cast<RankedTensorType>(a.getType()).getShape());
  if (failed(specialize(func, dims)))
    return llvm::createStringError("specialize failed");
  PassManager pm(func.getContext(), func::FuncOp::getOperationName());
  pm.addPass(createFormKernels());
  pm.addPass(createPlanMemory());
  if (failed(pm.run(func)))
    return llvm::createStringError("form-kernels or plan-memory failed");
  const Target &target = *Target::find("x86-64-v3");
  auto built = buildProgram(func, target, /*strictMath=*/false, [](Attribute) { return true; });
  if (!built)
    return built.takeError();
  std::vector<KernelDescription> kernels;
  for (auto &[key, kernel] : built->kernels)
    kernels.push_back(kernel);
  auto image = compileKernels(kernels, target, 1);
  if (!image)
    return image.takeError();
  BundleContents contents;
  contents.producer = "mrcc test";
  BundleTarget bundleTarget;
  bundleTarget.name = target.name;
  bundleTarget.features = target.features;
  bundleTarget.image = image->bytes;
  for (auto &k : image->kernels)
    bundleTarget.kernels.push_back({k.kernel.key(), k.kernel.name(), k.offset, k.bytes});
  contents.targets.push_back(std::move(bundleTarget));
  built->variant.key = "only";
  contents.variants.push_back(std::move(built->variant));
  return packBundle(contents);
}

mrcc_tensor tensorOf(const std::string &name, RankedTensorType type, std::vector<uint8_t> &bytes) {
  mrcc_tensor t = MRCC_TENSOR_INIT;
  t.name = name.c_str();
  t.dtype = mrcc_dtype(toDType(type.getElementType()));
  t.rank = type.getRank();
  t.dims = type.getShape().data();
  t.data = bytes.data();
  t.bytes = bytes.size();
  return t;
}

/// Compiled and interpreted results of `text`'s @main on random inputs; the largest difference.
double compare(const std::string &text, unsigned seed) {
  auto context = makeContext();
  auto module = parseSourceString<ModuleOp>(text, context.get());
  REQUIRE(module);
  auto func = module->lookupSymbol<func::FuncOp>("main");
  std::vector<test::Value> inputs;
  for (auto [i, a] : llvm::enumerate(func.getArguments()))
    inputs.push_back(test::randomValue(cast<RankedTensorType>(a.getType()), seed + i));
  auto expected = test::interpret(func, inputs);
  if (!expected)
    FAIL(llvm::toString(expected.takeError()));
  auto bundle = compileToMemory(func);
  if (!bundle)
    FAIL(llvm::toString(bundle.takeError()));

  mrcc_model *model = nullptr;
  mrcc_context *run = nullptr;
  mrcc_error *error = nullptr;
  if (mrcc_model_open_memory(bundle->data(), bundle->size(), nullptr, &model, &error))
    FAIL(mrcc_error_message(error));
  if (mrcc_context_create(model, nullptr, &run, &error))
    FAIL(mrcc_error_message(error));
  std::vector<std::string> names;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<mrcc_tensor> in, out;
  names.reserve(32);
  bytes.reserve(32);
  for (auto [i, v] : llvm::enumerate(inputs)) {
    names.push_back("arg" + std::to_string(i));
    bytes.emplace_back(v.bytes.begin(), v.bytes.end());
    in.push_back(tensorOf(names.back(), v.type, bytes.back()));
  }
  for (auto [i, v] : llvm::enumerate(*expected)) {
    names.push_back("result" + std::to_string(i));
    bytes.emplace_back(byteSize(v.type), 0xCD);
    out.push_back(tensorOf(names.back(), v.type, bytes.back()));
  }
  if (mrcc_context_run(run, in.data(), in.size(), out.data(), out.size(), &error))
    FAIL(mrcc_error_message(error));
  double worst = 0;
  for (auto [i, v] : llvm::enumerate(*expected)) {
    test::Value got = v;
    got.bytes = bytes[inputs.size() + i];
    got.splat = false;
    worst = std::max(worst, test::difference(v, got));
  }
  mrcc_context_free(run);
  mrcc_model_free(model);
  return worst;
}

std::string function(const std::string &arguments, const std::string &result, const std::string &body) {
  return "func.func @main(" + arguments + ") -> " + result + " {\n" + body + "}\n";
}

void check(const std::string &arguments, const std::string &result, const std::string &body, double tolerance = 2e-6) {
  for (unsigned seed : {1u, 77u}) {
    CAPTURE(body);
    CHECK(compare(function(arguments, result, body), seed) <= tolerance);
  }
}

} // namespace

TEST_CASE("element-wise chains, broadcasts and several results") {
  check("%x: tensor<3x1x7xf32>, %y: tensor<5x1xf32>", "(tensor<3x5x7xf32>, tensor<3x1x7xf32>)", R"(
    %0 = mrc.unary silu %x : (tensor<3x1x7xf32>) -> tensor<3x1x7xf32>
    %1 = mrc.binary mul %0, %y : (tensor<3x1x7xf32>, tensor<5x1xf32>) -> tensor<3x5x7xf32>
    %2 = mrc.unary tanh %1 : (tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
    return %2, %0 : tensor<3x5x7xf32>, tensor<3x1x7xf32>
  )");
  for (const char *type : {"i8", "ui8", "i16", "i32", "i64", "f64"}) {
    std::string t = std::string("tensor<2x9x") + type + ">", b = "tensor<2x9xi1>";
    check("%x: " + t + ", %y: " + t, t,
          "  %0 = mrc.binary lt %x, %y : (" + t + ", " + t + ") -> " + b + "\n  %1 = mrc.binary add %x, %y : (" + t +
              ", " + t + ") -> " + t + "\n  %2 = mrc.select %0, %1, %x : (" + b + ", " + t + ", " + t + ") -> " + t +
              "\n  return %2 : " + t + "\n");
  }
}

TEST_CASE("views: transposed, sliced, reshaped, expanded") {
  check("%x: tensor<4x6x5xf32>", "tensor<5x12xf32>", R"(
    %a = mrc.constant dense<[0, 1]> : tensor<2xi64>
    %p = mrc.constant dense<[1, -2]> : tensor<2xi64>
    %s2 = mrc.constant dense<[0, -1]> : tensor<2xi64>
    %e2 = mrc.constant dense<[4, -7]> : tensor<2xi64>
    %0 = mrc.slice %x, %s2, %e2, %a, %p : (tensor<4x6x5xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4x3x5xf32>
    %1 = mrc.transpose %0 {perm = array<i64: 2, 1, 0>} : (tensor<4x3x5xf32>) -> tensor<5x3x4xf32>
    %d = mrc.constant dense<[5, 12]> : tensor<2xi64>
    %2 = mrc.reshape %1, %d : (tensor<5x3x4xf32>, tensor<2xi64>) -> tensor<5x12xf32>
    %3 = mrc.unary neg %2 : (tensor<5x12xf32>) -> tensor<5x12xf32>
    return %3 : tensor<5x12xf32>
  )");
  check("%x: tensor<1x7xf32>", "tensor<3x7xf32>", R"(
    %d = mrc.constant dense<[3, 7]> : tensor<2xi64>
    %0 = mrc.expand %x, %d : (tensor<1x7xf32>, tensor<2xi64>) -> tensor<3x7xf32>
    return %0 : tensor<3x7xf32>
  )");
}

TEST_CASE("concat in place, of concats, of one value twice, of an argument") {
  check("%x: tensor<2x3xf32>, %y: tensor<2x4xf32>", "(tensor<2x17xf32>, tensor<2x3xf32>)", R"(
    %0 = mrc.unary exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %1 = mrc.concat %0, %y {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
    %2 = mrc.unary abs %y : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = mrc.concat %1, %2, %0, %0 {axis = 1 : i64} : (tensor<2x7xf32>, tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x17xf32>
    return %3, %0 : tensor<2x17xf32>, tensor<2x3xf32>
  )");
}

TEST_CASE("an argument, a constant and one value twice are returned") {
  check("%x: tensor<2x3xf32>", "(tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>)", R"(
    %c = mrc.constant dense<[4, -5]> : tensor<2xi64>
    %0 = mrc.unary exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %x, %0, %0, %c : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>
  )");
}

TEST_CASE("reductions of every kind") {
  for (const char *kind : {"sum", "mean", "max", "min", "prod", "sum_square", "l1", "l2", "log_sum_exp"})
    for (llvm::StringRef axes : {"0", "2", "0, 2", "1, 2", "0, 1, 2"}) {
      std::string dims = std::string(axes.contains('0') ? "1x" : "3x") + (axes.contains('1') ? "1x" : "5x") +
                         (axes.contains('2') ? "1" : "17");
      std::string result = "tensor<" + dims + "xf32>";
      check("%x: tensor<3x5x17xf32>", result,
            std::string("  %0 = mrc.reduce ") + kind + " %x {axes = array<i64: " + axes.str() +
                ">} : (tensor<3x5x17xf32>) -> " + result + "\n  return %0 : " + result + "\n",
            1e-5);
    }
}

TEST_CASE("arg_reduce keeps the first or the last") {
  for (const char *last : {"true", "false"})
    check("%x: tensor<4x9xi32>", "tensor<4x1xi64>",
          std::string("  %0 = mrc.arg_reduce %x {axis = 1 : i64, is_max = true, select_last = ") + last +
              "} : (tensor<4x9xi32>) -> tensor<4x1xi64>\n  return %0 : tensor<4x1xi64>\n");
}

TEST_CASE("pooling") {
  for (const char *kind : {"max_pool", "average_pool", "lp_pool"})
    for (const char *rest : {"ceil_mode = false", "ceil_mode = true, count_include_pad = true"}) {
      std::string dims =
          std::string(rest).find("ceil_mode = true") != std::string::npos ? "1x5x7x5xf32" : "1x4x7x5xf32";
      check("%x: tensor<1x9x13x5xf32>", "tensor<" + dims + ">",
            std::string("  %0 = mrc.pool ") + kind +
                " %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = "
                "array<i64: 1, 1, 0, 1>, " +
                rest + "} : (tensor<1x9x13x5xf32>) -> tensor<" + dims + ">\n  return %0 : tensor<" + dims + ">\n");
    }
}

TEST_CASE("convolutions whose weights only run time knows") {
  check("%x: tensor<2x7x9x6xf32>, %w: tensor<8x6x3x3xf32>, %b: tensor<8xf32>", "tensor<2x4x5x8xf32>", R"(
    %0 = mrc.conv %x, %w, %b {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64}
      : (tensor<2x7x9x6xf32>, tensor<8x6x3x3xf32>, tensor<8xf32>) -> tensor<2x4x5x8xf32>
    return %0 : tensor<2x4x5x8xf32>
  )");
  check("%x: tensor<1x5x4x6xf32>, %w: tensor<6x3x2x2xf32>", "tensor<1x10x8x6xf32>", R"(
    %n = mrc.none : none
    %0 = mrc.conv_transpose %x, %w, %n {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, output_padding = array<i64: 0, 0>, group = 2 : i64}
      : (tensor<1x5x4x6xf32>, tensor<6x3x2x2xf32>, none) -> tensor<1x10x8x6xf32>
    return %0 : tensor<1x10x8x6xf32>
  )");
  check("%x: tensor<1x4x5x6x2xf32>, %w: tensor<3x2x2x2x2xf32>", "tensor<1x3x4x5x3xf32>", R"(
    %n = mrc.none : none
    %0 = mrc.conv %x, %w, %n {strides = array<i64: 1, 1, 1>, dilations = array<i64: 1, 1, 1>, pads = array<i64: 0, 0, 0, 0, 0, 0>, group = 1 : i64}
      : (tensor<1x4x5x6x2xf32>, tensor<3x2x2x2x2xf32>, none) -> tensor<1x3x4x5x3xf32>
    return %0 : tensor<1x3x4x5x3xf32>
  )");
}

TEST_CASE("products of matrices, with vectors, of integers, with a tail") {
  check("%x: tensor<2x1x5x7xf32>, %y: tensor<3x7x4xf32>, %z: tensor<4xf32>", "tensor<2x3x5x4xf32>", R"(
    %0 = mrc.matmul %x, %y : (tensor<2x1x5x7xf32>, tensor<3x7x4xf32>) -> tensor<2x3x5x4xf32>
    %1 = mrc.binary add %0, %z : (tensor<2x3x5x4xf32>, tensor<4xf32>) -> tensor<2x3x5x4xf32>
    %2 = mrc.unary gelu %1 : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
    return %2 : tensor<2x3x5x4xf32>
  )");
  check("%x: tensor<7xf32>, %y: tensor<7xf32>", "tensor<f32>",
        "  %0 = mrc.matmul %x, %y : (tensor<7xf32>, tensor<7xf32>) -> tensor<f32>\n  return %0 : tensor<f32>\n");
  check("%x: tensor<5x7xi32>, %y: tensor<7x3xi32>", "tensor<5x3xi32>",
        "  %0 = mrc.matmul %x, %y : (tensor<5x7xi32>, tensor<7x3xi32>) -> tensor<5x3xi32>\n  return %0 : "
        "tensor<5x3xi32>\n");
}

TEST_CASE("movement: tile, pad, gather") {
  check("%x: tensor<2x3xf32>", "tensor<4x9xf32>", R"(
    %r = mrc.constant dense<[2, 3]> : tensor<2xi64>
    %0 = mrc.tile %x, %r : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<4x9xf32>
    return %0 : tensor<4x9xf32>
  )");
  for (const char *mode : {"constant", "edge", "reflect", "wrap"})
    check("%x: tensor<3x5xf32>", "tensor<6x5xf32>", std::string(R"(
    %p = mrc.constant dense<[2, -1, 1, 1]> : tensor<4xi64>
    %n = mrc.none : none
    %0 = mrc.pad )") + mode + R"( %x, %p, %n, %n : (tensor<3x5xf32>, tensor<4xi64>, none, none) -> tensor<6x5xf32>
    return %0 : tensor<6x5xf32>
  )");
  check("%x: tensor<4x5xf32>, %i: tensor<2x2xi64>", "tensor<4x2x2xf32>", R"(
    %0 = mrc.gather %x, %i {axis = 1 : i64} : (tensor<4x5xf32>, tensor<2x2xi64>) -> tensor<4x2x2xf32>
    return %0 : tensor<4x2x2xf32>
  )");
}

TEST_CASE("softmax and norms of f32 and f64") {
  for (const char *t : {"f32", "f64"}) {
    std::string x = std::string("tensor<2x5x12x") + t + ">", c = std::string("tensor<12x") + t + ">";
    for (int axis = 0; axis < 3; ++axis)
      check("%x: " + x, x,
            "  %0 = mrc.softmax %x {axis = " + std::to_string(axis) + " : i64} : (" + x + ") -> " + x +
                "\n  return %0 : " + x + "\n");
    check("%x: " + x + ", %s: " + c + ", %b: " + c, x,
          "  %0 = mrc.layer_norm %x, %s, %b {axis = 2 : i64, epsilon = 1.0e-05 : f32} : (" + x + ", " + c + ", " + c +
              ") -> " + x + "\n  return %0 : " + x + "\n");
    check("%x: " + x + ", %s: " + c + ", %b: " + c, x,
          "  %0 = mrc.group_norm %x, %s, %b {groups = 3 : i64, epsilon = 1.0e-05 : f32} : (" + x + ", " + c + ", " + c +
              ") -> " + x + "\n  return %0 : " + x + "\n");
  }
}

TEST_CASE("attention with a mask") {
  check("%q: tensor<1x2x5x8xf32>, %k: tensor<1x2x7x8xf32>, %v: tensor<1x2x7x6xf32>, %m: tensor<5x7xf32>",
        "tensor<1x2x5x6xf32>", R"(
    %0 = mrc.attention %q, %k, %v, %m {scale = 0.35 : f32} : (tensor<1x2x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x6xf32>, tensor<5x7xf32>) -> tensor<1x2x5x6xf32>
    return %0 : tensor<1x2x5x6xf32>
  )");
}

TEST_CASE("strict math keeps convolutions direct") {
  auto context = makeContext();
  std::string text = function("%x: tensor<1x32x32x16xf32>, %w: tensor<16x16x3x3xf32>", "tensor<1x32x32x16xf32>", R"(
    %n = mrc.none : none
    %0 = mrc.conv %x, %w, %n {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64}
      : (tensor<1x32x32x16xf32>, tensor<16x16x3x3xf32>, none) -> tensor<1x32x32x16xf32>
    return %0 : tensor<1x32x32x16xf32>
  )");
  for (bool strict : {false, true}) {
    auto module = parseSourceString<ModuleOp>(text, context.get());
    REQUIRE(module);
    auto func = module->lookupSymbol<func::FuncOp>("main");
    PassManager pm(context.get(), func::FuncOp::getOperationName());
    pm.addPass(createFormKernels());
    pm.addPass(createPlanMemory());
    REQUIRE(succeeded(pm.run(func)));
    auto built = buildProgram(func, *Target::find("x86-64-v3"), strict, [](Attribute) { return true; });
    REQUIRE(bool(built));
    unsigned winograd = 0;
    for (auto &[key, kernel] : built->kernels)
      winograd += kernel.config.count("winograd");
    CHECK(winograd == (strict ? 0 : 1));
  }
}
