// Shape inference on text: the declared result types are what must be inferred, unknown dims included; and the messages
// of shapes that cannot be.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mrcc/IR/Resize.h"
#include <doctest/doctest.h>

using namespace mlir;
using namespace mrcc;

namespace {
struct Parsed {
  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::vector<std::string> errors;
  OwningOpRef<ModuleOp> module;
  explicit Parsed(const std::string &body) {
    context.loadDialect<MrcDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([&](Diagnostic &d) { errors.push_back(d.str()); });
    module = parseSourceString<ModuleOp>(
        "func.func @f(%v: tensor<f32>) {\n%none = mrc.none : none\n" + body + "\nreturn }", &context);
  }
};

std::string text(Type t) {
  std::string out;
  llvm::raw_string_ostream(out) << t;
  return out;
}
} // namespace

/// Every op of the body infers exactly the types that it declares.
static void infers(const std::string &body) {
  INFO(body);
  Parsed p(body);
  REQUIRE(p.errors == std::vector<std::string>());
  p.module->walk([&](Operation *op) {
    auto infer = dyn_cast<InferShapes>(op);
    if (!infer)
      return;
    SmallVector<Type> types;
    CHECK(succeeded(infer.inferShapes(types)));
    for (auto [inferred, declared] : llvm::zip_equal(types, op->getResultTypes()))
      CHECK(text(inferred) == text(declared));
  });
}

/// `op` applied to %x of the type, with unknown operands made by casts of a range.
static std::string on(const char *type, const std::string &rest) {
  return "%x = builtin.unrealized_conversion_cast %v : tensor<f32> to " + std::string(type) + "\n" + rest;
}

TEST_CASE("unknown dims flow") {
  infers(on("tensor<?x3x?xf32>", R"(
    %a = mrc.unary exp %x : (tensor<?x3x?xf32>) -> tensor<?x3x?xf32>
    %b = mrc.transpose %a {perm = array<i64: 1, 0, 2>} : (tensor<?x3x?xf32>) -> tensor<3x?x?xf32>
    %c = mrc.reduce sum %b {axes = array<i64: 0, 2>, keepdims = false} : (tensor<3x?x?xf32>) -> tensor<?xf32>
    %d = mrc.concat %x, %x {axis = 1 : i64} : (tensor<?x3x?xf32>, tensor<?x3x?xf32>) -> tensor<?x6x?xf32>
    %e = mrc.flatten %x {axis = 2 : i64} : (tensor<?x3x?xf32>) -> tensor<?x?xf32>
    %f = mrc.unsqueeze %x {axes = array<i64: 0, 4>} : (tensor<?x3x?xf32>) -> tensor<1x?x3x?x1xf32>
    %g = mrc.squeeze %f {axes = array<i64: 0>} : (tensor<1x?x3x?x1xf32>) -> tensor<?x3x?x1xf32>
    %h, %i = mrc.split %x, %none {axis = 1 : i64} : (tensor<?x3x?xf32>, none) -> (tensor<?x2x?xf32>, tensor<?x1x?xf32>)
    %j = mrc.matmul %x, %b : (tensor<?x3x?xf32>, tensor<3x?x?xf32>) -> tensor<3x3x?xf32>
    %k = mrc.softmax %x {axis = 1 : i64} : (tensor<?x3x?xf32>) -> tensor<?x3x?xf32>
    %l = mrc.binary lt %x, %v : (tensor<?x3x?xf32>, tensor<f32>) -> tensor<?x3x?xi1>)"));
}

TEST_CASE("windows of unknown size") {
  infers(on("tensor<?x?x9x4xf32>", R"(
    %w = mrc.constant dense<1.0> : tensor<6x2x3x3xf32>
    %t = mrc.constant dense<1.0> : tensor<4x3x2x2xf32>
    %a = mrc.conv %x, %w, %none {strides = array<i64: 2, 2>, dilations = array<i64: 1, 2>, pads = array<i64: 1, 1, 1, 1>, group = 2 : i64}
      : (tensor<?x?x9x4xf32>, tensor<6x2x3x3xf32>, none) -> tensor<?x?x4x6xf32>
    %b = mrc.conv_transpose %x, %t, %none {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      output_padding = array<i64: 0, 1>, group = 2 : i64} : (tensor<?x?x9x4xf32>, tensor<4x3x2x2xf32>, none) -> tensor<?x?x19x6xf32>
    %c = mrc.pool max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      ceil_mode = true} : (tensor<?x?x9x4xf32>) -> tensor<?x?x5x4xf32>)"));
}

TEST_CASE("shape arithmetic is followed while it is not constant") {
  infers(on("tensor<?x12x?x64xf32>", R"(
    %shape = mrc.shape %x : (tensor<?x12x?x64xf32>) -> tensor<4xi64>
    %n = mrc.constant dense<[0]> : tensor<1xi64>
    %batch = mrc.gather %shape, %n {axis = 0 : i64} : (tensor<4xi64>, tensor<1xi64>) -> tensor<1xi64>
    %three = mrc.constant dense<3> : tensor<i64>
    %width = mrc.gather %shape, %three {axis = 0 : i64} : (tensor<4xi64>, tensor<i64>) -> tensor<i64>
    %four = mrc.constant dense<4> : tensor<i64>
    %quarter = mrc.binary div %width, %four : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %q = mrc.unsqueeze %quarter {axes = array<i64: 0>} : (tensor<i64>) -> tensor<1xi64>
    %rest = mrc.constant dense<[-1, 4]> : tensor<2xi64>
    %target = mrc.concat %batch, %q, %rest {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>, tensor<2xi64>) -> tensor<4xi64>
    %y = mrc.reshape %x, %target : (tensor<?x12x?x64xf32>, tensor<4xi64>) -> tensor<?x16x?x4xf32>
    %target2 = mrc.concat %batch, %q {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %e = mrc.constant dense<1.0> : tensor<1xf32>
    %f = mrc.expand %e, %target2 : (tensor<1xf32>, tensor<2xi64>) -> tensor<?x16xf32>)"));
}

TEST_CASE("reshape of unknown dims") {
  infers(on("tensor<?x3x8xf32>", R"(
    %a = mrc.constant dense<[0, -1]> : tensor<2xi64>
    %b = mrc.reshape %x, %a : (tensor<?x3x8xf32>, tensor<2xi64>) -> tensor<?x24xf32>
    %c = mrc.constant dense<[-1, 4]> : tensor<2xi64>
    %d = mrc.reshape %x, %c : (tensor<?x3x8xf32>, tensor<2xi64>) -> tensor<?x4xf32>
    %e = mrc.constant dense<[0, 2, -1, 4]> : tensor<4xi64>
    %f = mrc.reshape %x, %e : (tensor<?x3x8xf32>, tensor<4xi64>) -> tensor<?x2x3x4xf32>)"));
}

TEST_CASE("resize rounds as ONNX does, in float32") {
  // 10 * 0.7 is 6.99.. as real numbers of float32 0.7, but 7 when the product is rounded to float32; 15 * 0.6 likewise.
  infers(on("tensor<10x15x6xf32>", R"(
    %s = mrc.constant dense<[0.7, 0.6, 1.5]> : tensor<3xf32>
    %a = mrc.resize %x, %none, %s, %none {mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 0, 1, 2>, antialias = false,
      aspect_policy = "stretch", cubic_coeff = -0.75 : f32, exclude_outside = false, extrapolation = 0.0 : f32}
      : (tensor<10x15x6xf32>, none, tensor<3xf32>, none) -> tensor<7x9x9xf32>
    %t = mrc.constant dense<[20, 20]> : tensor<2xi64>
    %b = mrc.resize %x, %none, %none, %t {mode = "linear", coordinate = "half_pixel", nearest = "floor", axes = array<i64: 0, 1>, antialias = false,
      aspect_policy = "not_larger", cubic_coeff = -0.75 : f32, exclude_outside = false, extrapolation = 0.0 : f32}
      : (tensor<10x15x6xf32>, none, none, tensor<2xi64>) -> tensor<13x20x6xf32>)"));
}

TEST_CASE("windows") {
  struct {
    const char *autoPad;
    int64_t in, kernel, stride, dilation, begin, end;
    bool ceil;
    int64_t out, padBegin, padEnd;
  } cases[] = {
      {"explicit", 7, 3, 2, 1, 1, 1, false, 4, 1, 1},
      {"explicit", 5, 2, 2, 1, 0, 0, true, 3, 0, 0},
      {"explicit", 4, 2, 3, 1, 0, 1, true, 2, 0, 1},
      {"explicit", 3, 1, 2, 1, 0, 1, true, 2, 0, 1},  // a third window would start in the end padding
      {"explicit", 2, 3, 1, 1, 0, 0, false, 0, 0, 0}, // does not fit
      {"SAME_UPPER", 8, 3, 2, 1, 0, 0, false, 4, 0, 1},
      {"SAME_LOWER", 8, 3, 2, 1, 0, 0, false, 4, 1, 0},
      {"SAME_UPPER", 5, 3, 1, 2, 0, 0, false, 5, 2, 2},
      {"SAME_LOWER", 4, 1, 2, 1, 0, 0, false, 2, 0, 0},
      {"VALID", 7, 3, 2, 1, 9, 9, false, 3, 0, 0},
  };
  for (auto &c : cases) {
    WindowDim w = windowDim(c.autoPad, c.in, c.kernel, c.stride, c.dilation, c.begin, c.end, c.ceil);
    INFO(c.autoPad, " ", c.in, " ", c.kernel, " ", c.stride);
    CHECK(w.out == c.out);
    CHECK(w.padBegin == c.padBegin);
    CHECK(w.padEnd == c.padEnd);
  }
  // ONNX's convtranspose_output_shape: 3 -> 10 at stride 3, kernel 3 leaves a row of zeros at the end.
  WindowDim t = transposedWindowDim("explicit", 3, 3, 3, 1, 0, 0, 0, 10);
  CHECK(t.out == 10);
  CHECK(t.padBegin == 0);
  CHECK(t.padEnd == -1);
}

TEST_CASE("slices are clamped") {
  constexpr int64_t far = INT64_MAX, low = INT64_MIN;
  CHECK(sliceRange(5, 1, 4, 1) == SliceRange{1, 1, 3});
  CHECK(sliceRange(5, 0, far, 2) == SliceRange{0, 2, 3});
  CHECK(sliceRange(5, -2, far, 1) == SliceRange{3, 1, 2});
  CHECK(sliceRange(5, -1, low, -1) == SliceRange{4, -1, 5});
  CHECK(sliceRange(5, far, 0, -2) == SliceRange{4, -2, 2});
  CHECK(sliceRange(5, 3, 3, 1) == SliceRange{0, 1, 0});
  CHECK(sliceRange(5, 4, 0, low) == SliceRange{4, 1, 1});
  CHECK(sliceRange(0, 0, far, 1) == SliceRange{0, 1, 0});
  CHECK(sliceRange(0, -1, low, -1) == SliceRange{0, 1, 0});
}

static void fails(const std::string &body, const std::string &message) {
  INFO(body);
  Parsed p(body);
  REQUIRE(p.errors.size() >= 1);
  CHECK_MESSAGE(StringRef(p.errors[0]).contains(message), p.errors[0]);
}

TEST_CASE("shapes that cannot be name op, node and dimensions") {
  fails(on("tensor<2x3xf32>",
           "%a = mrc.constant dense<1.0> : tensor<4x5xf32>\n"
           "%r = mrc.matmul %x, %a : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32> loc(\"MatMul_7\")"),
        "'mrc.matmul' op of node 'MatMul_7': expected equal inner dimensions, got 2x3 and 4x5: 3 and 4");
  fails(on("tensor<1x8x8x5xf32>", "%w = mrc.constant dense<1.0> : tensor<6x4x3x3xf32>\n%r = mrc.conv %x, %w, %none "
                                  "{strides = array<i64: 1, 1>, dilations = "
                                  "array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : "
                                  "(tensor<1x8x8x5xf32>, tensor<6x4x3x3xf32>, none) "
                                  "-> tensor<1x6x6x6xf32>"),
        "expected 4 input channels, got 5");
  fails(on("tensor<2x3xf32>", "%r = mrc.transpose %x {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>"),
        "expected a permutation of 2");
  fails(on("tensor<2x3xf32>", "%r = mrc.softmax %x {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        "expected an axis in [0, 2), got 2");
  fails(on("tensor<2x3xf32>", "%r = mrc.squeeze %x {axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>"),
        "expected size 1 along axis 0, got 2x3");
  fails(on("tensor<2x3xf32>", "%r = mrc.unary exp %x : (tensor<2x3xf32>) -> tensor<2x4xf32>"),
        "has a result of type 'tensor<2x4xf32>', inferred 'tensor<2x3xf32>'");
  fails(on("tensor<2x3xi32>", "%r = mrc.unary exp %x : (tensor<2x3xi32>) -> tensor<2x3xi32>"),
        "expected a float operand of exp, got 'i32'");
  fails(on("tensor<4xf32>", "%r = mrc.bitcast %x {to = i64} : (tensor<4xf32>) -> tensor<4xi64>"),
        "expected a type as wide as 'f32', got 'i64'");
  fails(on("tensor<4xf32>", "%r = mrc.cast %x {to = f8E8M0FNU} : (tensor<4xf32>) -> tensor<4xf8E8M0FNU>"),
        "f8E8M0FNU is not cast, its bits are computed with");
  fails(on("tensor<4xf32>", "%s = mrc.constant dense<[1, 2]> : tensor<2xi64>\n%a, %b = mrc.split %x, %s {axis = 0 : "
                            "i64} : (tensor<4xf32>, tensor<2xi64>) -> "
                            "(tensor<1xf32>, tensor<2xf32>)"),
        "expected sizes that sum to 4 along axis 0, got 3");
  fails(on("tensor<4xf32>", "%s = mrc.constant dense<[1, 5]> : tensor<2xi64>\n%a = mrc.pad reflect %x, %s, %none, "
                            "%none : (tensor<4xf32>, tensor<2xi64>, none, "
                            "none) -> tensor<10xf32>"),
        "expected reflecting pads below the dimension's size 4 along axis 0, got 5");
}
