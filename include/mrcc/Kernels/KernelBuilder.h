// A thin layer over OpBuilder in which kernels are written: index arithmetic that folds constants, loops as lambdas,
// register tiles, vectors. One KernelBuilder makes one `func.func @kernel`:
//
//   @kernel(memref<1xT> a view each..., index a param each..., index begin, index end, memref<1xi8> scratch)
//
// lib/Codegen wraps it into the bundle's KernelFunction.
#pragma once
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mrcc/Kernels/Kernel.h"

namespace mrcc {

/// An index: a compile-time integer or an SSA value of type index. Arithmetic on two integers folds.
class Index {
public:
  Index(int64_t constant) : constant(constant) {}
  Index(int constant) : constant(constant) {}
  Index(mlir::Value value) : value(value) {}
  bool isConstant() const { return !value; }
  int64_t constant = 0;
  mlir::Value value;
};

/// A strided memref over a view or scratch: element [i, j, ...] lies at sum(index * stride). `element` is the type that
/// loads give: bool is i8 in memory and i1 in values; integers are signless; bf16 is its bits (i16); f8, i4 and u4 are
/// raw bytes (i8).
struct Buffer {
  mlir::Value memref;
  mlir::Type element;
};

/// The type of values of `type` in a kernel, and of its elements in memory (see Buffer).
mlir::Type valueType(mlir::MLIRContext *context, DType type);
mlir::Type memoryType(mlir::MLIRContext *context, DType type);

class KernelBuilder {
public:
  /// Starts the function: `types` of the views, number of params. The context has arith, func, memref, scf, vector,
  /// math, affine, LLVM loaded.
  KernelBuilder(mlir::MLIRContext &context, const Target &target, llvm::ArrayRef<DType> types, unsigned numParams);
  /// Ends the function and gives the module away.
  mlir::OwningOpRef<mlir::ModuleOp> finish();

  mlir::OpBuilder b;
  mlir::Location loc;
  const Target &target;

  unsigned viewCount() const { return types.size(); }
  unsigned paramCount() const { return numParams; }
  Index param(unsigned i);
  Index begin();
  Index end();

  // Index arithmetic (values are never negative unless said so).
  mlir::Value ssa(Index x);
  Index add(Index a, Index b);
  Index sub(Index a, Index b);
  Index mul(Index a, Index b);
  Index div(Index a, Index b); // floor for not negative values
  Index rem(Index a, Index b);
  Index ceilDiv(Index a, Index b);
  Index min(Index a, Index b); // signed
  Index max(Index a, Index b); // signed

  // Control flow.
  using Values = llvm::SmallVector<mlir::Value>;
  void loop(Index lo, Index hi, Index step, llvm::function_ref<void(Index)> body);
  Values loop(Index lo, Index hi, Index step, mlir::ValueRange init,
              llvm::function_ref<Values(Index, mlir::ValueRange)> body);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise = nullptr);
  /// body(k) for the constant k in [lo, hi] that x is; nothing if it is none of them.
  void switchOn(Index x, int64_t lo, int64_t hi, llvm::function_ref<void(int64_t)> body);
  /// A function of its own, never inlined: it sees the views, params and scratch, and gets `args` as indices. Two micro
  /// kernels inlined into one function spill each other's accumulators.
  void outlined(llvm::StringRef name, llvm::ArrayRef<Index> args, llvm::function_ref<void(llvm::ArrayRef<Index>)> body);
  /// body(start, count): full tiles of `size`, then one tail tile whose count is a constant in each case of a switch.
  void tiles(Index n, int64_t size, llvm::function_ref<void(Index, int64_t)> body);
  /// ceil(n / size) tiles whose counts differ by one at most. `after` is emitted once, behind the switch over counts.
  void tilesEven(Index n, int64_t size, llvm::function_ref<void(Index, int64_t)> body,
                 llvm::function_ref<void(Index, Index)> after = nullptr);

  /// Lets LLVM's machine scheduler reorder this kernel's instructions. Otherwise they stay in the order of their
  /// making.
  void allowReordering();
  static constexpr llvm::StringLiteral reordersAttribute = "mrcc.reorders"; // on the module

  // Memory. Strides are in elements.
  Buffer view(unsigned i, llvm::ArrayRef<Index> dims, llvm::ArrayRef<Index> strides, Index offset = 0);
  /// A row-major part of the worker's scratch from `byteOffset` (a multiple of 64) on.
  Buffer scratch(Index byteOffset, DType type, llvm::ArrayRef<Index> dims, llvm::ArrayRef<Index> strides = {});
  mlir::Value load(Buffer m, llvm::ArrayRef<Index> at);
  void store(mlir::Value v, Buffer m, llvm::ArrayRef<Index> at);
  mlir::Value loadVector(Buffer m, llvm::ArrayRef<Index> at, int64_t lanes);
  void storeVector(mlir::Value v, Buffer m, llvm::ArrayRef<Index> at);
  /// The first `active` lanes (a constant), zeros beyond.
  mlir::Value loadMasked(Buffer m, llvm::ArrayRef<Index> at, int64_t lanes, int64_t active);
  void storeMasked(mlir::Value v, Buffer m, llvm::ArrayRef<Index> at, int64_t active);
  mlir::Value broadcastLoad(Buffer m, llvm::ArrayRef<Index> at, int64_t lanes);
  void prefetch(Buffer m, llvm::ArrayRef<Index> at, bool write = false, int cacheLevel = 2); // the line, into L1 or L2

  // Values.
  mlir::Value splat(mlir::Value scalar, int64_t lanes);
  mlir::Value constantVector(mlir::Type element, double v, int64_t lanes);
  // The same on every target: what it has no instruction for becomes others, never a call. Scalars or vectors.
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z); // x * y + z; rounded twice where there is no FMA
  mlir::Value roundEven(mlir::Value x);
  mlir::Value floor(mlir::Value x);
  mlir::Value ceil(mlir::Value x);
  mlir::Value toF32(mlir::Value x);                  // from f16, bf16 (i16); f32 stays
  mlir::Value fromF32(mlir::Value x, mlir::Type to); // to f16, bf16 (nearest even), or f32
  // Comparisons of indices (signed) and conditions.
  mlir::Value less(Index a, Index b);
  mlir::Value equal(Index a, Index b);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value inRange(Index x, Index n); // 0 <= x < n
  Index select(mlir::Value condition, Index a, Index b);
  Buffer select(mlir::Value condition, Buffer a, Buffer b); // b takes a's type: the same strides

private:
  void startFunction(llvm::StringRef name, unsigned extra);
  mlir::Value flat(mlir::Value pointer, DType type);
  mlir::Value halfToF32(mlir::Value x);
  mlir::Value f32ToHalf(mlir::Value x);
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp func; // the one that is being written
  llvm::SmallVector<DType> types;
  unsigned numParams;
  unsigned numOutlined = 0;
};

/// Emits one node of an expression on scalars or vectors of `lanes` (0: scalar). Transcendentals become polynomials and
/// integer tricks, never calls. `args` are the values of the node's arguments, of types `argTypes`; scalars among them
/// are spread over the lanes. Not for leaves (acc, load, load_at, iter, extent, param). i64 and index values are of
/// type i64.
mlir::Value emitNode(KernelBuilder &kb, const ExprNode &node, llvm::ArrayRef<mlir::Value> args,
                     llvm::ArrayRef<DType> argTypes, int64_t lanes);

/// Emits a whole body whose leaves (acc, load, load_at, iter, extent, param) `leaf` provides; returns its results as
/// vectors of `lanes` (0: scalars). A leaf may be a scalar: what depends on scalars alone is computed once, not by
/// lane. `contract`: a float product that only an addition reads becomes one fma with it.
llvm::SmallVector<mlir::Value>
emitBody(KernelBuilder &kb, const Expr &body, int64_t lanes, bool contract,
         llvm::function_ref<mlir::Value(const ExprNode &, llvm::ArrayRef<mlir::Value>)> leaf);

/// One binary node on values: the combining step of a reduction.
mlir::Value emitCombine(KernelBuilder &kb, BinaryKind kind, DType type, mlir::Value a, mlir::Value b);

} // namespace mrcc
