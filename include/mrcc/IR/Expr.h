// The scalar expression of a kernel: what is computed at one point of its iteration domain. Fused chains of
// element-wise ops, epilogues of convolutions, and the index arithmetic of gathers are all of this form. A plain value
// with equality and an order, printed as text in the IR (the `body` of mrc.launch) and in kernel descriptions.
//
// Text: nodes separated by ';', each `TYPE OP ARGS`, referring to earlier nodes as %N:
//   "f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3 -> %4"
// After `->` the results, one for each output of the launch.
#pragma once
#include "mrcc/Bundle/Format.h"
#include "mrcc/IR/Mrc.h"
#include "llvm/Support/Error.h"
#include <compare>
#include <map>
#include <optional>

namespace mrcc {

struct ExprNode {
  enum class Op : uint8_t {
    constant, // `bits`: the value, as bits of a double for floats, of an i64 for integers and bool
    iter,     // i64: the index in domain dimension `imm`
    load,     // the element of input operand `imm` at this point of the domain (its map says where)
    load_at,  // the element of input operand `imm` at [args...] (i64), one a dimension of the operand; always in bounds
    acc,      // the family's own result before fused ops (conv, matmul: accumulator; reduction: reduced value `imm`)
    extent,   // i64: dimension `imm % 16` of input operand `imm / 16`
    param,    // the launch's run-time immediate `imm` (i64, or f32/f64 by its bits)
    unary,    // UnaryKind `imm`
    binary,   // BinaryKind `imm`, operands of one type
    select,   // args: condition (boolean), a, b
    cast,     // to `type`, by ONNX's rules; `imm` 1 ("cast_wrapping"): to f8 without saturation
    bitcast,  // the same bits as `type`, which is as wide
    clamp_index, // i64: args x, n -> min(max(x, 0), n - 1)
  };
  Op op;
  DType type;
  uint32_t imm = 0;
  uint64_t bits = 0;
  llvm::SmallVector<uint32_t, 3> args;
  bool operator==(const ExprNode &) const = default;
};

struct Expr {
  std::vector<ExprNode> nodes;   // operands before users
  std::vector<uint32_t> results; // nodes

  std::string str() const;
  static llvm::Expected<Expr> parse(llvm::StringRef text);
  bool operator==(const Expr &) const = default;
  bool empty() const { return nodes.empty(); }

  // Builders: each returns the new node's number; equal nodes are found, not made again.
  uint32_t add(ExprNode node);
  uint32_t constant(DType type, double value);
  uint32_t integer(DType type, int64_t value);
  uint32_t number(DType type, int64_t value); // constant for floats, integer for the rest
  uint32_t iter(uint32_t dim);
  uint32_t load(DType type, uint32_t operand);
  uint32_t loadAt(DType type, uint32_t operand, llvm::ArrayRef<uint32_t> indices);
  uint32_t acc(DType type, uint32_t index = 0);
  uint32_t extent(uint32_t operand, uint32_t dim);
  uint32_t param(DType type, uint32_t index);
  uint32_t unary(UnaryKind kind, uint32_t x);
  uint32_t binary(BinaryKind kind, uint32_t a, uint32_t b);
  uint32_t select(uint32_t condition, uint32_t a, uint32_t b);
  uint32_t cast(DType type, uint32_t x);
  uint32_t bitcast(DType type, uint32_t x);
  uint32_t clampIndex(uint32_t x, uint32_t n);

  /// Copies `other`'s nodes in and returns the new numbers of its results. `operandMap[i]` is the operand that its
  /// operand i becomes; operands beyond operandMap keep their numbers. Where `loadTo` maps an operand, its `load` nodes
  /// are replaced by that node; `accTo` replaces acc nodes.
  std::vector<uint32_t> inlineExpr(const Expr &other, llvm::ArrayRef<uint32_t> operandMap,
                                   const std::map<uint32_t, uint32_t> &loadTo = {}, std::optional<uint32_t> accTo = {});
  /// Without nodes that no result needs.
  Expr pruned() const;
};

bool isFloat(DType type);    // f8e8m0 is none: its bits are an unsigned number
bool isUnsigned(DType type); // bool too
/// A node that takes many instructions: a float function of one operand other than a change of sign (exp, sqrt, round).
bool isExpensive(const ExprNode &node);
/// The type of a unary or binary node over operands of one type: comparisons, tests and logic give bool.
DType resultType(UnaryKind kind, DType operand);
DType resultType(BinaryKind kind, DType operand);
/// `bits` of a constant node: the value rounded (floats) or wrapped (integers) to its type.
uint64_t constantBits(DType type, double value);
uint64_t constantBits(DType type, int64_t value);
const llvm::fltSemantics &floatSemantics(DType type);

} // namespace mrcc
