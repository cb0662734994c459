// Expr: building, inlining and pruning. Builders find equal nodes and fold what keeps every value the same: identities
// of integers, exact ones of floats (x * 1, x / 1, x - 0), integer constants, selections that are decided.
#include "mrcc/IR/Expr.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

namespace mrcc {

bool isFloat(DType type) {
  switch (type) {
  case DType::f32:
  case DType::f64:
  case DType::f16:
  case DType::bf16:
  case DType::f8e4m3fn:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2:
  case DType::f8e5m2fnuz:
  case DType::f4e2m1:
    return true;
  default:
    return false;
  }
}

bool isUnsigned(DType type) {
  switch (type) {
  case DType::u8:
  case DType::u16:
  case DType::u32:
  case DType::u64:
  case DType::u4:
  case DType::u2:
  case DType::f8e8m0:
  case DType::boolean:
    return true;
  default:
    return false;
  }
}

bool isExpensive(const ExprNode &node) {
  return node.op == ExprNode::Op::unary && isFloat(node.type) && UnaryKind(node.imm) != UnaryKind::neg &&
         UnaryKind(node.imm) != UnaryKind::abs;
}

const llvm::fltSemantics &floatSemantics(DType type) {
  switch (type) {
  case DType::f32:
    return llvm::APFloat::IEEEsingle();
  case DType::f16:
    return llvm::APFloat::IEEEhalf();
  case DType::bf16:
    return llvm::APFloat::BFloat();
  case DType::f8e4m3fn:
    return llvm::APFloat::Float8E4M3FN();
  case DType::f8e4m3fnuz:
    return llvm::APFloat::Float8E4M3FNUZ();
  case DType::f8e5m2:
    return llvm::APFloat::Float8E5M2();
  case DType::f8e5m2fnuz:
    return llvm::APFloat::Float8E5M2FNUZ();
  case DType::f4e2m1:
    return llvm::APFloat::Float4E2M1FN();
  default:
    return llvm::APFloat::IEEEdouble();
  }
}

DType resultType(UnaryKind kind, DType operand) {
  switch (kind) {
  case UnaryKind::is_nan:
  case UnaryKind::is_pos_inf:
  case UnaryKind::is_neg_inf:
  case UnaryKind::logical_not:
    return DType::boolean;
  default:
    return operand;
  }
}

DType resultType(BinaryKind kind, DType operand) {
  switch (kind) {
  case BinaryKind::eq:
  case BinaryKind::lt:
  case BinaryKind::le:
  case BinaryKind::gt:
  case BinaryKind::ge:
  case BinaryKind::logical_and:
  case BinaryKind::logical_or:
  case BinaryKind::logical_xor:
    return DType::boolean;
  default:
    return operand;
  }
}

uint64_t constantBits(DType type, double value) {
  if (!isFloat(type))
    return constantBits(type, int64_t(value));
  llvm::APFloat rounded(value);
  bool lost;
  rounded.convert(floatSemantics(type), llvm::APFloat::rmNearestTiesToEven, &lost);
  rounded.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return rounded.bitcastToAPInt().getZExtValue();
}

uint64_t constantBits(DType type, int64_t value) {
  if (isFloat(type))
    return constantBits(type, double(value));
  if (type == DType::boolean)
    return value != 0;
  unsigned width = bitWidth(type);
  if (width == 64)
    return value;
  uint64_t low = uint64_t(value) & ((uint64_t(1) << width) - 1);
  return isUnsigned(type) ? low : uint64_t(llvm::SignExtend64(low, width));
}

uint32_t Expr::add(ExprNode node) {
  if (node.op == ExprNode::Op::constant)
    node.bits = isFloat(node.type) ? constantBits(node.type, llvm::bit_cast<double>(node.bits))
                                   : constantBits(node.type, int64_t(node.bits));
  for (uint32_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] == node)
      return i;
  nodes.push_back(std::move(node));
  return nodes.size() - 1;
}

uint32_t Expr::constant(DType type, double value) {
  return add({ExprNode::Op::constant, type, 0, constantBits(type, value), {}});
}
uint32_t Expr::integer(DType type, int64_t value) {
  return add({ExprNode::Op::constant, type, 0, constantBits(type, value), {}});
}
uint32_t Expr::number(DType type, int64_t value) {
  return isFloat(type) ? constant(type, double(value)) : integer(type, value);
}
uint32_t Expr::iter(uint32_t dim) { return add({ExprNode::Op::iter, DType::i64, dim, 0, {}}); }
uint32_t Expr::load(DType type, uint32_t operand) { return add({ExprNode::Op::load, type, operand, 0, {}}); }
uint32_t Expr::loadAt(DType type, uint32_t operand, llvm::ArrayRef<uint32_t> indices) {
  return add({ExprNode::Op::load_at, type, operand, 0, {indices.begin(), indices.end()}});
}
uint32_t Expr::acc(DType type, uint32_t index) { return add({ExprNode::Op::acc, type, index, 0, {}}); }
uint32_t Expr::extent(uint32_t operand, uint32_t dim) {
  return add({ExprNode::Op::extent, DType::i64, operand * 16 + dim, 0, {}});
}
uint32_t Expr::param(DType type, uint32_t index) { return add({ExprNode::Op::param, type, index, 0, {}}); }

namespace {
bool isConstant(const ExprNode &node) { return node.op == ExprNode::Op::constant; }
double floatOf(const ExprNode &node) { return llvm::bit_cast<double>(node.bits); }
/// An integer constant of value v.
bool isInteger(const ExprNode &node, int64_t v) {
  return isConstant(node) && !isFloat(node.type) && int64_t(node.bits) == v;
}
/// The constant 1, or +0, of any type.
bool isOne(const ExprNode &node) {
  return isConstant(node) && (isFloat(node.type) ? floatOf(node) == 1 : node.bits == 1);
}
bool isZero(const ExprNode &node) { return isConstant(node) && node.bits == 0; }

/// Two integer constants; nothing where the result is undefined or the kind is not folded.
std::optional<int64_t> foldIntegers(BinaryKind kind, DType type, int64_t a, int64_t b) {
  bool natural = isUnsigned(type);
  switch (kind) {
  case BinaryKind::add:
    return int64_t(uint64_t(a) + uint64_t(b));
  case BinaryKind::sub:
    return int64_t(uint64_t(a) - uint64_t(b));
  case BinaryKind::mul:
    return int64_t(uint64_t(a) * uint64_t(b));
  case BinaryKind::div:
    if (b == 0 || b == -1)
      return std::nullopt;
    return natural ? int64_t(uint64_t(a) / uint64_t(b)) : a / b;
  case BinaryKind::max:
    return natural ? int64_t(std::max<uint64_t>(a, b)) : std::max(a, b);
  case BinaryKind::min:
    return natural ? int64_t(std::min<uint64_t>(a, b)) : std::min(a, b);
  case BinaryKind::eq:
    return a == b;
  case BinaryKind::lt:
    return natural ? uint64_t(a) < uint64_t(b) : a < b;
  case BinaryKind::le:
    return natural ? uint64_t(a) <= uint64_t(b) : a <= b;
  case BinaryKind::gt:
    return natural ? uint64_t(a) > uint64_t(b) : a > b;
  case BinaryKind::ge:
    return natural ? uint64_t(a) >= uint64_t(b) : a >= b;
  case BinaryKind::logical_and:
    return a && b;
  case BinaryKind::logical_or:
    return a || b;
  case BinaryKind::logical_xor:
    return !a != !b;
  default:
    return std::nullopt;
  }
}
} // namespace

uint32_t Expr::unary(UnaryKind kind, uint32_t x) {
  if (kind == UnaryKind::logical_not && isConstant(nodes[x]))
    return integer(DType::boolean, !nodes[x].bits);
  return add({ExprNode::Op::unary, resultType(kind, nodes[x].type), uint32_t(kind), 0, {x}});
}

uint32_t Expr::binary(BinaryKind kind, uint32_t a, uint32_t b) {
  const ExprNode &x = nodes[a], &y = nodes[b];
  DType type = x.type, result = resultType(kind, type);
  bool integers = !isFloat(type);
  if (integers && isConstant(x) && isConstant(y))
    if (auto folded = foldIntegers(kind, type, x.bits, y.bits))
      return integer(result, *folded);
  switch (kind) {
  case BinaryKind::add:
    if (integers && isZero(y))
      return a;
    if (integers && isZero(x))
      return b;
    break;
  case BinaryKind::sub:
    if (isZero(y))
      return a;
    break;
  case BinaryKind::mul:
    if (isOne(y))
      return a;
    if (isOne(x))
      return b;
    if (integers && (isZero(x) || isZero(y)))
      return integer(type, 0);
    break;
  case BinaryKind::div:
    if (isOne(y))
      return a;
    break;
  case BinaryKind::mod:
    if (integers && isOne(y))
      return integer(type, 0);
    break;
  case BinaryKind::logical_and:
    if (type != DType::boolean)
      break;
    if (isInteger(x, 1) || isInteger(y, 0))
      return b;
    if (isInteger(y, 1) || isInteger(x, 0))
      return a;
    break;
  case BinaryKind::logical_or:
    if (type != DType::boolean)
      break;
    if (isInteger(x, 0) || isInteger(y, 1))
      return b;
    if (isInteger(y, 0) || isInteger(x, 1))
      return a;
    break;
  default:
    break;
  }
  return add({ExprNode::Op::binary, result, uint32_t(kind), 0, {a, b}});
}

uint32_t Expr::select(uint32_t condition, uint32_t a, uint32_t b) {
  if (isConstant(nodes[condition]))
    return nodes[condition].bits ? a : b;
  if (a == b)
    return a;
  return add({ExprNode::Op::select, nodes[a].type, 0, 0, {condition, a, b}});
}

uint32_t Expr::cast(DType type, uint32_t x) {
  const ExprNode &node = nodes[x];
  if (node.type == type)
    return x;
  if (isConstant(node) && !isFloat(node.type)) {
    int64_t v = node.bits;
    if (!isFloat(type))
      return integer(type, v);
    if ((type == DType::f32 || type == DType::f64) && v >= -(1 << 24) && v <= 1 << 24)
      return constant(type, double(v));
  }
  return add({ExprNode::Op::cast, type, 0, 0, {x}});
}

uint32_t Expr::bitcast(DType type, uint32_t x) {
  return nodes[x].type == type ? x : add({ExprNode::Op::bitcast, type, 0, 0, {x}});
}

uint32_t Expr::clampIndex(uint32_t x, uint32_t n) {
  if (isConstant(nodes[x]) && isConstant(nodes[n]))
    return integer(DType::i64, std::min(std::max<int64_t>(nodes[x].bits, 0), int64_t(nodes[n].bits) - 1));
  return add({ExprNode::Op::clamp_index, DType::i64, 0, 0, {x, n}});
}

std::vector<uint32_t> Expr::inlineExpr(const Expr &other, llvm::ArrayRef<uint32_t> operandMap,
                                       const std::map<uint32_t, uint32_t> &loadTo, std::optional<uint32_t> accTo) {
  auto operand = [&](uint32_t i) { return i < operandMap.size() ? operandMap[i] : i; };
  std::vector<uint32_t> renamed;
  for (ExprNode node : other.nodes) {
    for (uint32_t &arg : node.args)
      arg = renamed[arg];
    uint32_t made = 0;
    switch (node.op) {
    case ExprNode::Op::load:
      if (auto it = loadTo.find(node.imm); it != loadTo.end()) {
        made = it->second;
        break;
      }
      [[fallthrough]];
    case ExprNode::Op::load_at:
      node.imm = operand(node.imm);
      made = add(node);
      break;
    case ExprNode::Op::extent:
      made = extent(operand(node.imm / 16), node.imm % 16);
      break;
    case ExprNode::Op::acc:
      made = accTo ? *accTo : add(node);
      break;
    case ExprNode::Op::unary:
      made = unary(UnaryKind(node.imm), node.args[0]);
      break;
    case ExprNode::Op::binary:
      made = binary(BinaryKind(node.imm), node.args[0], node.args[1]);
      break;
    case ExprNode::Op::select:
      made = select(node.args[0], node.args[1], node.args[2]);
      break;
    case ExprNode::Op::cast:
      made = node.imm ? add(node) : cast(node.type, node.args[0]);
      break;
    case ExprNode::Op::bitcast:
      made = bitcast(node.type, node.args[0]);
      break;
    case ExprNode::Op::clamp_index:
      made = clampIndex(node.args[0], node.args[1]);
      break;
    case ExprNode::Op::constant:
    case ExprNode::Op::iter:
    case ExprNode::Op::param:
      made = add(node);
      break;
    }
    renamed.push_back(made);
  }
  std::vector<uint32_t> made;
  for (uint32_t r : other.results)
    made.push_back(renamed[r]);
  return made;
}

Expr Expr::pruned() const {
  std::vector<bool> needed(nodes.size());
  for (uint32_t r : results)
    needed[r] = true;
  for (uint32_t i = nodes.size(); i-- > 0;)
    if (needed[i])
      for (uint32_t arg : nodes[i].args)
        needed[arg] = true;
  Expr kept;
  std::vector<uint32_t> renamed(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (!needed[i])
      continue;
    ExprNode node = nodes[i];
    for (uint32_t &arg : node.args)
      arg = renamed[arg];
    renamed[i] = kept.nodes.size();
    kept.nodes.push_back(std::move(node));
  }
  for (uint32_t r : results)
    kept.results.push_back(renamed[r]);
  return kept;
}

} // namespace mrcc
