// What an op handler works with: one ONNX node, its operands as mlir values, its attributes, and a builder of mrc ops.
//
// Failures stick: the first one is kept, and from then on ops are built without inference, so that handlers are
// straight code. Handlers look at types through the accessors here, which are safe for the placeholder types of that
// state.
#pragma once
#include "Onnx.h"
#include "mrcc/IR/Mrc.h"
#include "mrcc/Import/Import.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace mrcc {

/// A dimension: a number, or an i64 tensor of one element that holds it.
struct Extent {
  Extent(int64_t value) : value(value) {}
  Extent(mlir::Value tensor) : tensor(tensor) {}
  bool isKnown() const { return !tensor; }
  int64_t value = 0;
  mlir::Value tensor;
};

class NodeContext {
public:
  NodeContext(const onnx::Node &node, int64_t opset, mlir::OpBuilder &builder, mlir::Location loc,
              std::vector<std::string> &notes)
      : node(node), opset(opset), builder(builder), loc(loc), notes(notes) {}

  const onnx::Node &node;
  const int64_t opset; // of the node's domain
  mlir::OpBuilder &builder;
  const mlir::Location loc;
  std::vector<std::string> &notes;
  llvm::SmallVector<mlir::Value> operands; // null where absent
  llvm::SmallVector<mlir::Value>
      results; // what the handler makes; trailing outputs that nobody asked for may be missing

  //===-- failure ---------------------------------------------------------------------------------------------------//
  struct Failure {
    ImportError::Kind kind;
    std::string message;
  };
  std::optional<Failure> failure;
  void unsupported(const llvm::Twine &why) { fail(ImportError::unsupported, why); }
  void invalid(const llvm::Twine &why) { fail(ImportError::invalid, why); }
  void missing(llvm::StringRef attribute) { invalid("attribute '" + attribute + "' is missing"); }
  explicit operator bool() const { return !failure; }

  //===-- attributes ------------------------------------------------------------------------------------------------//
  const onnx::Attribute *attribute(llvm::StringRef name) const;
  bool has(llvm::StringRef name) const { return attribute(name); }
  int64_t integer(llvm::StringRef name, int64_t fallback);
  float real(llvm::StringRef name, float fallback);
  std::string text(llvm::StringRef name, llvm::StringRef fallback);
  std::optional<llvm::SmallVector<int64_t>> integers(llvm::StringRef name);

  //===-- operands --------------------------------------------------------------------------------------------------//
  size_t count() const { return operands.size(); }
  bool given(size_t i) const { return i < operands.size() && operands[i]; }
  mlir::Value in(size_t i);       // a required operand; fails where it is absent
  mlir::Value optional(size_t i); // mrc.none where it is absent
  bool wants(size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
  /// The operand's integers, which must be known now.
  std::optional<llvm::SmallVector<int64_t>> constantIntegers(size_t i, llvm::StringRef what);
  std::optional<double> constantScalar(size_t i, llvm::StringRef what);
  /// An integer list that older opsets keep in an attribute and newer ones in an operand.
  std::optional<llvm::SmallVector<int64_t>> integersOf(llvm::StringRef attribute, size_t operand);

  //===-- types -----------------------------------------------------------------------------------------------------//
  static mlir::RankedTensorType type(mlir::Value v) { return llvm::cast<mlir::RankedTensorType>(v.getType()); }
  static mlir::Type element(mlir::Value v) { return type(v).getElementType(); }
  static int64_t rank(mlir::Value v) { return type(v).getRank(); }
  static int64_t dim(mlir::Value v, int64_t i); // kDynamic where it is unknown
  static bool isFloat(mlir::Value v) { return llvm::isa<mlir::FloatType>(element(v)); }
  /// -1 counts from the end; fails outside the rank.
  int64_t axis(int64_t axis, int64_t rank);
  llvm::SmallVector<int64_t> axes(llvm::ArrayRef<int64_t> axes, int64_t rank); // sorted, each once
  /// The product of two sizes; fails where it is beyond any tensor's.
  int64_t times(int64_t a, int64_t b);
  mlir::Type toElement(int64_t onnxType);

  //===-- building --------------------------------------------------------------------------------------------------//
  /// Makes an op with one result and infers its type.
  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    Op op = Op::create(builder, loc, placeholder(), std::forward<Args>(args)...);
    infer(op);
    return settle(op);
  }
  mlir::Value none() { return NoneOp::create(builder, loc, builder.getNoneType()); }
  mlir::Value unary(UnaryKind kind, mlir::Value v) { return make<UnaryOp>(kind, v); }
  mlir::Value binary(BinaryKind kind, mlir::Value a, mlir::Value b) { return make<BinaryOp>(kind, a, b); }
  mlir::Value binary(BinaryKind kind, mlir::Value a, double b) { return binary(kind, a, scalar(b, a)); }
  mlir::Value binary(BinaryKind kind, double a, mlir::Value b) { return binary(kind, scalar(a, b), b); }
  mlir::Value add(auto a, auto b) { return binary(BinaryKind::add, a, b); }
  mlir::Value sub(auto a, auto b) { return binary(BinaryKind::sub, a, b); }
  mlir::Value mul(auto a, auto b) { return binary(BinaryKind::mul, a, b); }
  mlir::Value div(auto a, auto b) { return binary(BinaryKind::div, a, b); }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) { return make<SelectOp>(condition, a, b); }
  mlir::Value scalar(double value, mlir::Value like) { return makeScalar(builder, loc, element(like), value); }
  mlir::Value constant(llvm::ArrayRef<int64_t> values) { return makeIntegers(builder, loc, values); }
  /// v itself where it has this element type. `roundMode` (up, down, nearest) concerns f8E8M0FNU.
  mlir::Value cast(mlir::Value v, mlir::Type to, bool saturate = true, llvm::StringRef roundMode = "up");
  mlir::Value transpose(mlir::Value v, llvm::ArrayRef<int64_t> perm); // v itself for the identity
  mlir::Value reshape(mlir::Value v, llvm::ArrayRef<int64_t> dims) { return make<ReshapeOp>(v, constant(dims)); }
  mlir::Value reshapeTo(mlir::Value v, llvm::ArrayRef<Extent> dims);
  mlir::Value unsqueeze(mlir::Value v, llvm::ArrayRef<int64_t> axes) { return make<UnsqueezeOp>(v, axes); }
  mlir::Value squeeze(mlir::Value v, llvm::ArrayRef<int64_t> axes) {
    return make<SqueezeOp>(v, builder.getDenseI64ArrayAttr(axes));
  }
  mlir::Value concat(llvm::ArrayRef<mlir::Value> values, int64_t axis) { return make<ConcatOp>(values, axis); }
  mlir::Value slice(mlir::Value v, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  mlir::Value reduce(ReduceKind kind, mlir::Value v, llvm::ArrayRef<int64_t> axes, bool keepdims = true) {
    return make<ReduceOp>(kind, v, axes, keepdims);
  }
  mlir::Value shapeOf(mlir::Value v) { return make<ShapeOp>(v); }
  Extent dimOf(mlir::Value v, int64_t i);
  Extent product(llvm::ArrayRef<Extent> dims);
  mlir::Value shape(llvm::ArrayRef<Extent> dims); // an i64 tensor of these dims
  mlir::Value fill(mlir::Value shape, mlir::Value value) { return make<FillOp>(shape, value); }
  mlir::Value range(Extent count);                      // 0, 1, ... as i64
  mlir::Value number(Extent value, mlir::Type element); // a tensor that broadcasts: rank 0 or 1
  mlir::Value swapLast(mlir::Value v);                  // the last two dimensions exchanged
  /// Channels last and back: [N, C, spatial...] <-> [N, spatial..., C].
  mlir::Value toChannelsLast(mlir::Value v);
  mlir::Value toChannelsFirst(mlir::Value v);

  void result(mlir::Value v) { results.push_back(v); }
  /// Imports the body of a subgraph on these values; its outputs, or nothing after a failure or where something inside
  /// is not supported, which is noted there: the handler then just returns.
  std::function<llvm::SmallVector<mlir::Value>(const onnx::Graph &, llvm::ArrayRef<mlir::Value>)> body;
  /// Infers the result types of an op that make() did not make.
  void infer(mlir::Operation *op);

private:
  /// The op's result, or a constant in its place where that is a short list of integers which can be known now: shapes,
  /// axes and the like, on which the shapes of what follows depend.
  mlir::Value settle(mlir::Operation *op);
  mlir::RankedTensorType placeholder() { return mlir::RankedTensorType::get({}, builder.getF32Type()); }
  void fail(ImportError::Kind kind, const llvm::Twine &why) {
    if (!failure)
      failure = Failure{kind, why.str()};
  }
};

using Handler = void (*)(NodeContext &);

/// Op handlers by domain and type.
class HandlerTable {
public:
  void add(llvm::StringRef op, Handler handler, llvm::StringRef domain = "") { table[key(domain, op)] = handler; }
  Handler find(llvm::StringRef domain, llvm::StringRef op) const { return table.lookup(key(domain, op)); }

private:
  static std::string key(llvm::StringRef domain, llvm::StringRef op) { return (domain + ":" + op).str(); }
  llvm::StringMap<Handler> table;
};

const HandlerTable &handlers(); // all of them, made at the first call

// One per family, each in the file of that name.
void addElementwise(HandlerTable &);
void addActivations(HandlerTable &);
void addConvolutions(HandlerTable &);
void addPools(HandlerTable &);
void addMovement(HandlerTable &);
void addIndexing(HandlerTable &);
void addReductions(HandlerTable &);
void addNorms(HandlerTable &);
void addMatMuls(HandlerTable &);
void addShapes(HandlerTable &);
void addResize(HandlerTable &);
void addAttention(HandlerTable &);
void addQuantization(HandlerTable &);
void addLosses(HandlerTable &);
void addSignal(HandlerTable &);
void addSampling(HandlerTable &);
void addEinsum(HandlerTable &);
void addRecurrent(HandlerTable &);
void addSelection(HandlerTable &);
void addControlFlow(HandlerTable &);
void addContrib(HandlerTable &);

} // namespace mrcc
