// What every launch must agree with, whatever its family: body, operands and views. Families check the rest when they
// bind (lib/Kernels).
#include "mrcc/IR/Expr.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mrcc;

/// Values that `combine` reduces: one a word, two for the arg words (value and index).
static size_t combinedValues(LaunchOp launch) {
  auto combine = launch.getConfig().getAs<StringAttr>("combine");
  size_t count = 0;
  if (combine)
    for (StringRef word : llvm::split(combine.getValue(), ' '))
      count += word.starts_with("arg") ? 2 : word.empty() ? 0 : 1;
  return count;
}

/// What is wrong with the numbers that a node holds; "" if nothing.
static std::string nodeProblem(LaunchOp launch, const ExprNode &node, size_t immediates) {
  auto operand = [&](uint32_t i) -> std::string {
    if (i < launch.getInputs().size())
      return isa<RankedTensorType>(launch.getInputs()[i].getType()) ? ""
                                                                    : "input " + std::to_string(i) + " is no tensor";
    return "there is no input " + std::to_string(i) + ", the launch has " + std::to_string(launch.getInputs().size());
  };
  auto rank = [&](uint32_t i) { return size_t(cast<RankedTensorType>(launch.getInputs()[i].getType()).getRank()); };
  std::string why;
  switch (node.op) {
  case ExprNode::Op::load:
    return operand(node.imm);
  case ExprNode::Op::load_at:
    if (why = operand(node.imm); why.empty() && node.args.size() != rank(node.imm))
      why = "input " + std::to_string(node.imm) + " has " + std::to_string(rank(node.imm)) + " dimensions, got " +
            std::to_string(node.args.size()) + " indices";
    return why;
  case ExprNode::Op::extent:
    if (why = operand(node.imm / 16); why.empty() && node.imm % 16 >= rank(node.imm / 16))
      why = "input " + std::to_string(node.imm / 16) + " has no dimension " + std::to_string(node.imm % 16);
    return why;
  case ExprNode::Op::param:
    if (node.imm >= immediates)
      why = "there is no immediate " + std::to_string(node.imm) + ", the launch has " + std::to_string(immediates);
    return why;
  case ExprNode::Op::iter: {
    auto extents = launch.getConfig().getAs<DenseI64ArrayAttr>("extents");
    if (!extents || node.imm >= extents.size())
      why = "there is no domain dimension " + std::to_string(node.imm);
    return why;
  }
  default:
    return why;
  }
}

static LogicalResult verifyBody(LaunchOp launch) {
  auto body = Expr::parse(*launch.getBody());
  if (!body)
    return launch.emitOpError("body: ") << llvm::toString(body.takeError());
  auto immediates = launch.getConfig().getAs<DenseI64ArrayAttr>("immediates");
  for (auto [i, node] : llvm::enumerate(body->nodes))
    if (std::string why = nodeProblem(launch, node, immediates ? immediates.size() : 0); !why.empty())
      return launch.emitOpError("body: node ") << i << ": " << why;
  const size_t expected = combinedValues(launch) + launch->getNumResults();
  if (body->results.size() != expected)
    return launch.emitOpError("body: expected ") << expected << " results, got " << body->results.size();
  return success();
}

static LogicalResult verifyViews(LaunchOp launch) {
  const size_t values = launch->getNumResults() + launch->getNumOperands();
  if (launch.getViews()->size() != values)
    return launch.emitOpError("expected a view of each of ")
           << launch->getNumResults() << " results and " << launch->getNumOperands() << " inputs, got "
           << launch.getViews()->size();
  for (auto [i, attr] : llvm::enumerate(*launch.getViews())) {
    auto view = dyn_cast<ViewAttr>(attr);
    if (!view)
      return launch.emitOpError("view ") << i << ": expected #mrc.view, got " << attr;
    if (!llvm::is_contained({"input", "output", "constant", "arena", "absent"}, view.getSpace()))
      return launch.emitOpError("view ") << i << ": unknown space '" << view.getSpace() << "'";
    if (view.getDims().size() != view.getStrides().size())
      return launch.emitOpError("view ") << i << ": " << view.getDims().size() << " dims and "
                                         << view.getStrides().size() << " strides";
  }
  return success();
}

LogicalResult LaunchOp::verify() {
  if (getBody() && failed(verifyBody(*this)))
    return failure();
  return getViews() ? verifyViews(*this) : success();
}
