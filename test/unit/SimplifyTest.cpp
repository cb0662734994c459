// Every function of the lit tests of simplify's passes computes the same before and after the passes of its RUN line,
// and after the whole pipeline. Random inputs; unknown dims get numbers.
#include "DimAnalysis.h"
#include "Interpret.h"
#include "Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <doctest/doctest.h>
#include <random>

using namespace mlir;
using namespace mrcc;

static void compare(func::FuncOp before, func::FuncOp after) {
  std::vector<test::Value> inputs;
  for (unsigned i = 0; i < before.getNumArguments(); ++i) {
    auto element = cast<RankedTensorType>(before.getArgumentTypes()[i]).getElementType();
    inputs.push_back(test::randomValue(RankedTensorType::get(test::chooseDims(before, i), element), i + 1));
  }
  auto a = test::interpret(before, inputs), b = test::interpret(after, inputs);
  for (auto *result : {&a, &b})
    if (!*result) {
      FAIL_CHECK(llvm::toString(result->takeError()));
      return;
    }
  REQUIRE(a->size() == b->size());
  for (size_t i = 0; i < a->size(); ++i) {
    // Fused ops round intermediate results of 16 bits less often: by half a unit in the last place each time.
    Type element = (*a)[i].type.getElementType();
    CHECK(test::difference((*a)[i], (*b)[i]) < (element.isF16() ? 2e-3 : element.isBF16() ? 1.6e-2 : 2e-6));
  }
}

/// The mrc- passes of the first RUN line.
static std::string passesOf(llvm::StringRef text) {
  std::string out;
  llvm::StringRef line = text.take_until([](char c) { return c == '\n'; });
  llvm::SmallVector<llvm::StringRef> words;
  line.split(words, ' ', -1, false);
  for (llvm::StringRef word : words)
    if (word.consume_front("--mrc-"))
      out += (out.empty() ? "mrc-" : ",mrc-") + word.str();
  return "func.func(" + out + ")";
}

static void testFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  REQUIRE_MESSAGE(bool(buffer), path);
  llvm::StringRef text = (*buffer)->getBuffer();
  MLIRContext context;
  context.disableMultithreading();
  context.loadDialect<func::FuncDialect, MrcDialect>();
  std::string passes = passesOf(text);
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, "// -----");
  for (llvm::StringRef part : parts) {
    auto module = parseSourceString<ModuleOp>(part, &context);
    if (!module) {
      FAIL_CHECK(path);
      return;
    }
    for (bool whole : {false, true}) {
      OwningOpRef<ModuleOp> changed(cast<ModuleOp>(module->clone()));
      PassManager pm(&context, "builtin.module");
      if (whole)
        buildSimplifyPipeline(pm);
      else
        REQUIRE(succeeded(parsePassPipeline(passes, pm)));
      REQUIRE(succeeded(pm.run(*changed)));
      for (auto function : module->getOps<func::FuncOp>()) {
        INFO(path, " ", function.getName().str(), whole ? " (whole pipeline)" : "");
        compare(function, changed->lookupSymbol<func::FuncOp>(function.getName()));
      }
    }
  }
}

TEST_CASE("passes do not change what is computed") {
  registerMrccPasses();
  for (const char *name : {"fold-batch-norm", "fold-scale", "fuse-norms", "fuse-activations", "fuse-attention",
                           "propagate-layout", "pack-weights"})
    testFile(std::string(MRCC_TEST_PASSES) + "/" + name + ".mlir");
}

//===-- random graphs ---------------------------------------------------------------------------------------------===//

namespace {
/// Builds a function of random ops with many transposes among them, on a static shape.
class Graph {
public:
  Graph(MLIRContext &context, unsigned seed) : b(&context), random(seed), module(ModuleOp::create(b.getUnknownLoc())) {
    auto type = RankedTensorType::get({2, 6, 5, 4}, b.getF32Type());
    function = func::FuncOp::create(b.getUnknownLoc(), "main", b.getFunctionType({type, type}, {}));
    module->push_back(function);
    function.addEntryBlock();
    b.setInsertionPointToStart(&function.front());
    none = NoneOp::create(b, loc(), b.getNoneType());
    values = {function.getArgument(0), function.getArgument(1)};
  }

  void build(int ops) {
    for (int i = 0; i < ops; ++i)
      values.push_back(next(pick(values)));
    std::vector<mlir::Value> results = {values.back(), pick(values)};
    func::ReturnOp::create(b, loc(), results);
    updateResultTypes(function);
  }

  /// Forgets some dims of the arguments and infers the types again.
  void forget() {
    SmallVector<Type> types;
    unsigned mask = random();
    for (auto argument : function.getArguments()) {
      SmallVector<int64_t> dims(cast<RankedTensorType>(argument.getType()).getShape());
      SmallVector<Attribute> names;
      for (auto [i, d] : llvm::enumerate(dims)) {
        bool open = mask >> i & 1;
        names.push_back(open ? Attribute(b.getStringAttr("d" + std::to_string(i))) : b.getI64IntegerAttr(d));
        d = open ? ShapedType::kDynamic : d;
      }
      function.setArgAttr(argument.getArgNumber(), "mrc.dims", b.getArrayAttr(names));
      argument.setType(RankedTensorType::get(dims, b.getF32Type()));
    }
    for (Operation &op : function.front().without_terminator())
      REQUIRE(succeeded(reinfer(&op)));
    updateResultTypes(function);
  }

  OwningOpRef<ModuleOp> take() { return std::move(module); }

private:
  Location loc() { return b.getUnknownLoc(); }
  unsigned below(unsigned n) { return random() % n; }
  template <typename T> T pick(const std::vector<T> &from) { return from[below(from.size())]; }
  static RankedTensorType typeOf(mlir::Value v) { return cast<RankedTensorType>(v.getType()); }
  mlir::Value integers(ArrayRef<int64_t> v) { return makeIntegers(b, loc(), v); }
  mlir::Value constant(ArrayRef<int64_t> dims) {
    test::Value v = test::randomValue(RankedTensorType::get(dims, b.getF32Type()), random());
    return makeConstant(b, loc(), toAttr(std::move(v)));
  }
  template <typename Op, typename... Args> mlir::Value make(mlir::Value x, Args &&...args) {
    auto op = Op::create(b, loc(), x.getType(), std::forward<Args>(args)...);
    REQUIRE(succeeded(reinfer(op)));
    return op->getResult(0);
  }
  Operation *at(mlir::Value v) { return v.getDefiningOp(); }

  mlir::Value next(mlir::Value x) {
    RankedTensorType type = typeOf(x);
    int64_t rank = type.getRank(), size = type.getNumElements();
    SmallVector<int64_t> dims(type.getShape());
    if (rank == 0 || size > 4000)
      return values[0];
    int64_t axis = below(rank), n = dims[axis];
    switch (below(24)) {
    default: { // a transpose, more often than anything else
      SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
      std::shuffle(perm.begin(), perm.end(), random);
      return make<TransposeOp>(x, x, perm);
    }
    case 0:
      return make<UnaryOp>(x, UnaryKind::tanh, x);
    case 1: { // with a constant of some of the dims
      for (int64_t &d : dims)
        d = below(2) ? d : 1;
      auto part = ArrayRef(dims).drop_front(below(rank));
      return below(2) ? make<BinaryOp>(x, BinaryKind::mul, x, constant(part))
                      : make<BinaryOp>(x, BinaryKind::sub, constant(part), x);
    }
    case 2: { // with another value that fits
      mlir::Value y = pick(values);
      return broadcastShapes(dims, typeOf(y).getShape()) ? make<BinaryOp>(x, BinaryKind::add, x, y)
                                                         : make<BinaryOp>(x, BinaryKind::add, x, x);
    }
    case 3:
      return make<ReduceOp>(x, ReduceKind::mean, x, ArrayRef<int64_t>{axis}, bool(below(2)));
    case 4:
      return make<SoftmaxOp>(x, x, axis);
    case 5:
      return make<ConcatOp>(x, ValueRange{x, make<UnaryOp>(x, UnaryKind::abs, x)}, axis);
    case 6:
      return make<SliceOp>(x, x, integers({n / 2}), integers({n}), integers({below(2) ? axis : axis - rank}), none);
    case 7: {
      SmallVector<int64_t> pads(2 * rank);
      pads[axis] = 1, pads[rank + axis] = below(2);
      return make<PadOp>(x, PadMode::constant, x, integers(pads), none, none);
    }
    case 8: {
      mlir::Value index = below(2) ? integers({n - 1, 0}) : makeScalar(b, loc(), b.getI64Type(), 0);
      return make<GatherOp>(x, x, index, axis);
    }
    case 9: { // to itself and one more dimension in front
      SmallVector<int64_t> shape(rank, 1);
      if (below(2) && rank < 5)
        shape.insert(shape.begin(), 2);
      return make<ExpandOp>(x, x, integers(shape));
    }
    case 10: {
      SmallVector<int64_t> repeats(rank, 1);
      repeats[axis] = 2;
      return make<TileOp>(x, x, integers(repeats));
    }
    case 11:
      return n == 1 ? make<SqueezeOp>(x, x, b.getDenseI64ArrayAttr({axis})) : x;
    case 12:
      return rank < 5 ? make<UnsqueezeOp>(x, x, ArrayRef<int64_t>{int64_t(below(rank + 1))}) : x;
    case 13: { // merge two dims
      if (axis + 1 == rank)
        return x;
      SmallVector<int64_t> shape(dims);
      shape[axis] *= shape[axis + 1];
      shape.erase(shape.begin() + axis + 1);
      if (below(2))
        shape[below(shape.size())] = -1;
      if (below(2) && axis > 0 && shape[0] != -1)
        shape[0] = 0;
      return make<ReshapeOp>(x, x, integers(shape));
    }
    case 14: { // take a dim apart
      if (n % 2 || rank > 4)
        return x;
      SmallVector<int64_t> shape(dims);
      shape[axis] = 2;
      shape.insert(shape.begin() + axis + 1, below(2) ? n / 2 : -1);
      return make<ReshapeOp>(x, x, integers(shape));
    }
    case 15: { // the dims computed
      auto shape = make<ShapeOp>(integers({0}), x, 0, IntegerAttr());
      mlir::Value flat = make<ReshapeOp>(x, x, integers({dims[0], -1}));
      return make<ReshapeOp>(x, make<UnaryOp>(flat, UnaryKind::neg, flat), shape);
    }
    case 16:
      return make<LayerNormOp>(x, x, constant(ArrayRef(dims).drop_front(axis)), none, axis, APFloat(1e-3f));
    case 17:
      return rank > 1 ? make<MatMulOp>(x, x, constant({dims.back(), 3})) : x;
    case 18:
      return make<CumulativeOp>(x, x, axis, false, bool(below(2)), bool(below(2)));
    }
  }

  OpBuilder b;
  std::mt19937 random;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  mlir::Value none;
  std::vector<mlir::Value> values;
};
} // namespace

TEST_CASE("random graphs with transposes compute the same after propagate-layout") {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    MLIRContext context;
    context.disableMultithreading();
    context.loadDialect<func::FuncDialect, MrcDialect>();
    Graph graph(context, seed);
    graph.build(4 + seed % 20);
    if (seed % 3)
      graph.forget();
    auto module = graph.take();
    auto function = *module->getOps<func::FuncOp>().begin();
    OwningOpRef<ModuleOp> changed(cast<ModuleOp>(module->clone()));
    PassManager pm(&context, "builtin.module");
    if (seed % 2)
      pm.addNestedPass<func::FuncOp>(createPropagateLayout());
    else
      buildSimplifyPipeline(pm);
    REQUIRE(succeeded(pm.run(*changed)));
    std::vector<test::Value> inputs;
    for (unsigned i = 0; i < 2; ++i)
      inputs.push_back(test::randomValue(RankedTensorType::get({2, 6, 5, 4}, Float32Type::get(&context)), seed + i));
    auto a = test::interpret(function, inputs), b = test::interpret(*changed->getOps<func::FuncOp>().begin(), inputs);
    if (!a || !b) {
      FAIL_CHECK(llvm::toString(a ? b.takeError() : a.takeError()));
      module->dump();
      changed->dump();
      continue;
    }
    for (size_t i = 0; i < a->size(); ++i)
      if (double d = test::difference((*a)[i], (*b)[i]); !(d < 1e-5)) {
        FAIL_CHECK("output ", i, " differs by ", d);
        module->dump();
        changed->dump();
      }
  }
}

TEST_CASE("dimensions are equal after equal scales, and not after scales that differ in the last bit") {
  MLIRContext context;
  context.disableMultithreading();
  context.loadDialect<func::FuncDialect, MrcDialect>();
  std::string text = "func.func @main(%x: tensor<?xf32>) -> (";
  const std::string attributes =
      R"({mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 0>, antialias = false,
          aspect_policy = "stretch", cubic_coeff = -7.5e-01 : f32, exclude_outside = false, extrapolation = 0.0 : f32})";
  const char *scales[] = {"0x3FAAAAAA", "0x3FAAAAAB", "0x3FAAAAAA", "2.0"}; // the first three print as 1.333333
  text += "tensor<?xf32>) { %none = mrc.none : none\n";
  for (size_t i = 0; i < std::size(scales); ++i)
    text += "%s" + std::to_string(i) + " = mrc.constant dense<[" + scales[i] + "]> : tensor<1xf32>\n%" +
            std::to_string(i) + " = mrc.resize %x, %none, %s" + std::to_string(i) + ", %none " + attributes +
            " : (tensor<?xf32>, none, tensor<1xf32>, none) -> tensor<?xf32>\n";
  auto module = parseSourceString<ModuleOp>(text + "return %0 : tensor<?xf32> }", &context);
  REQUIRE(bool(module));
  llvm::SmallVector<Dim> dims;
  DimAnalysis analysis;
  module->walk([&](ResizeOp r) { dims.push_back(analysis.dim(r.getResult(), 0)); });
  REQUIRE(dims.size() == std::size(scales));
  CHECK(dims[0] == dims[2]);
  CHECK(dims[0] != dims[1]);
  CHECK(dims[3].factor == 2);
}
