// Launches in the IR: made by the lowerings of lib/Form, read by plan-memory and the program builder.
#pragma once
#include "mrcc/IR/Mrc.h"
#include "mrcc/Kernels/Kernel.h"

namespace mrcc {

/// The dictionary of a launch's `config` under construction.
class LaunchConfig {
public:
  explicit LaunchConfig(mlir::MLIRContext *context) : b(context) {}
  LaunchConfig &set(llvm::StringRef name, llvm::ArrayRef<int64_t> values) {
    attrs.set(name, b.getDenseI64ArrayAttr(values));
    return *this;
  }
  LaunchConfig &set(llvm::StringRef name, int64_t value) { return set(name, llvm::ArrayRef<int64_t>(value)); }
  LaunchConfig &set(llvm::StringRef name, llvm::StringRef word) {
    attrs.set(name, b.getStringAttr(word));
    return *this;
  }
  mlir::DictionaryAttr get() { return attrs.getDictionary(b.getContext()); }

private:
  mlir::Builder b;
  mlir::NamedAttrList attrs;
};

/// A launch with one result. An empty body is left out.
LaunchOp createLaunch(mlir::OpBuilder &b, mlir::Location loc, mlir::Type result, mlir::ValueRange inputs,
                      llvm::StringRef family, LaunchConfig &config, const Expr &body);

Expr getBody(LaunchOp launch);
void setBody(LaunchOp launch, const Expr &body);
llvm::SmallVector<int64_t> getConfig(LaunchOp launch, llvm::StringRef name);
/// A `loop` launch without reduction whose every output point depends on `load` operands and constants alone.
bool isPointwise(LaunchOp launch);
/// The iteration domain of a `loop` launch.
llvm::SmallVector<int64_t> getExtents(LaunchOp launch);

/// Element types that the matrix-like families (conv, depthwise, conv_transpose, matmul, attention) take: f32, f16,
/// bf16.
bool isScheduledType(mlir::Value value);
/// The type in which sums of products of this type run: f32 for f16 and bf16.
DType sumType(DType type);

/// `loop` launch that copies `value` into a new contiguous tensor.
mlir::Value createCopy(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value);

/// Replaces `op` (any mrc op but constants, views and launches) by launches and views, in front of it. Fails with an
/// error at the op if no kernel can do it.
llvm::LogicalResult lowerToLaunches(mlir::Operation *op);

/// One lowering for each op that needs one: table in lib/Form/Lower.cpp.
using Lowering = mlir::FailureOr<mlir::Value> (*)(mlir::Operation *op, mlir::OpBuilder &b);

/// What one point of a `loop` computes, under construction: a body with its operands.
struct Point {
  mlir::OpBuilder &b;
  mlir::Location loc;
  Expr body;
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<int64_t> immediates;

  Point(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}
  uint32_t operand(mlir::Value v);
  /// The operand's element at this point; a constant of one repeated value becomes a constant node.
  uint32_t load(mlir::Value v);
  uint32_t loadAt(mlir::Value v, llvm::ArrayRef<uint32_t> indices);
  uint32_t immediate(int64_t value); // i64, a run-time parameter: does not make another kernel
  uint32_t immediate(float value);   // f32, the same
  uint32_t index(int64_t value) { return body.integer(DType::i64, value); }
  /// Without reduction: one result a point.
  LaunchOp loop(mlir::RankedTensorType result, uint32_t value);
  /// `value` combined over the dims `reduce` of `extents` by `combine`, then `post` (node; 0 results: the reduced
  /// value).
  LaunchOp reduce(mlir::RankedTensorType result, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> reduce,
                  llvm::StringRef combine, uint32_t value, llvm::function_ref<uint32_t(uint32_t acc)> post = nullptr);
};

mlir::RankedTensorType typeOf(mlir::Value v);
/// mrc.reshape to static dims (a view where it can be).
mlir::Value createReshape(mlir::OpBuilder &b, mlir::Location loc, mlir::Value v, llvm::ArrayRef<int64_t> dims);
mlir::Value createTranspose(mlir::OpBuilder &b, mlir::Location loc, mlir::Value v, llvm::ArrayRef<int64_t> perm);

} // namespace mrcc
