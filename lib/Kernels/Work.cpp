#include "Work.h"

namespace mrcc {

/// About what VectorMath and VectorTrig make of a function of f32. Division and root keep their unit busy for as long
/// as eight other instructions.
static int64_t instructionsOf(UnaryKind kind) {
  switch (kind) {
  case UnaryKind::neg:
  case UnaryKind::abs:
  case UnaryKind::floor:
  case UnaryKind::ceil:
  case UnaryKind::round_even:
  case UnaryKind::is_nan:
  case UnaryKind::is_pos_inf:
  case UnaryKind::is_neg_inf:
  case UnaryKind::logical_not:
  case UnaryKind::bitwise_not:
    return 1;
  case UnaryKind::sign:
    return 4;
  case UnaryKind::sqrt:
  case UnaryKind::reciprocal:
    return 8;
  case UnaryKind::rsqrt:
    return 16;
  case UnaryKind::exp:
    return 18;
  case UnaryKind::sigmoid:
  case UnaryKind::silu:
    return 28;
  case UnaryKind::log:
    return 30;
  case UnaryKind::gelu:
    return 32;
  case UnaryKind::tanh:
    return 40;
  case UnaryKind::erf:
    return 44;
  case UnaryKind::softplus:
    return 60;
  default: // in f64, and twice as many vectors of that
    return 80;
  }
}

int64_t instructionsOf(const ExprNode &node) {
  switch (node.op) {
  case ExprNode::Op::constant: // in registers or folded into their users
  case ExprNode::Op::iter:
  case ExprNode::Op::acc:
  case ExprNode::Op::extent:
  case ExprNode::Op::param:
    return 0;
  case ExprNode::Op::unary:
    return isFloat(node.type) ? instructionsOf(UnaryKind(node.imm)) : 1;
  case ExprNode::Op::binary:
    switch (BinaryKind(node.imm)) {
    case BinaryKind::div:
      return 8;
    case BinaryKind::mod:
    case BinaryKind::fmod:
      return 16;
    case BinaryKind::pow:
      return isFloat(node.type) ? 60 : 16;
    default:
      return 1;
    }
  default:
    return 1;
  }
}

int64_t instructionsOf(const Expr &body) {
  int64_t count = 0;
  for (const ExprNode &node : body.nodes)
    count += instructionsOf(node);
  return count;
}

} // namespace mrcc
