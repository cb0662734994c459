// Making and reading launches.
#include "mrcc/Form/Launch.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

using namespace mlir;
using namespace mrcc;

RankedTensorType mrcc::typeOf(Value v) { return cast<RankedTensorType>(v.getType()); }

LaunchOp mrcc::createLaunch(OpBuilder &b, Location loc, Type result, ValueRange inputs, StringRef family,
                            LaunchConfig &config, const Expr &body) {
  return LaunchOp::create(b, loc, TypeRange(result), inputs, b.getStringAttr(family), config.get(),
                          body.empty() ? StringAttr() : b.getStringAttr(body.str()), ArrayAttr());
}

Expr mrcc::getBody(LaunchOp launch) {
  if (!launch.getBody())
    return {};
  llvm::Expected<Expr> body = Expr::parse(*launch.getBody());
  if (!body) // the verifier has parsed it
    llvm::reportFatalInternalError(body.takeError());
  return std::move(*body);
}

void mrcc::setBody(LaunchOp launch, const Expr &body) { launch.setBody(body.str()); }

SmallVector<int64_t> mrcc::getConfig(LaunchOp launch, StringRef name) {
  if (auto list = launch.getConfig().getAs<DenseI64ArrayAttr>(name))
    return SmallVector<int64_t>(list.asArrayRef());
  return {};
}

SmallVector<int64_t> mrcc::getExtents(LaunchOp launch) { return getConfig(launch, "extents"); }

bool mrcc::isPointwise(LaunchOp launch) {
  if (launch.getFamily() != "loop" || !getConfig(launch, "reduce").empty() || launch->getNumResults() != 1)
    return false;
  return llvm::none_of(getBody(launch).nodes, [](const ExprNode &n) {
    return n.op == ExprNode::Op::load_at || n.op == ExprNode::Op::extent || n.op == ExprNode::Op::iter;
  });
}

bool mrcc::isScheduledType(Value value) {
  return isa<Float16Type, BFloat16Type, Float32Type>(typeOf(value).getElementType());
}

DType mrcc::sumType(DType type) { return type == DType::f16 || type == DType::bf16 ? DType::f32 : type; }

Value mrcc::createCopy(OpBuilder &b, Location loc, Value value) {
  Point p(b, loc);
  uint32_t x = p.body.load(toDType(typeOf(value).getElementType()), p.operand(value));
  return p.loop(typeOf(value), x).getResult(0);
}

Value mrcc::createReshape(OpBuilder &b, Location loc, Value v, ArrayRef<int64_t> dims) {
  if (typeOf(v).getShape() == dims)
    return v;
  auto type = RankedTensorType::get(dims, typeOf(v).getElementType());
  return ReshapeOp::create(b, loc, type, v, makeIntegers(b, loc, dims), /*allowzero=*/llvm::is_contained(dims, 0));
}

Value mrcc::createTranspose(OpBuilder &b, Location loc, Value v, ArrayRef<int64_t> perm) {
  if (llvm::is_sorted(perm))
    return v;
  SmallVector<int64_t> dims;
  for (int64_t from : perm)
    dims.push_back(typeOf(v).getDimSize(from));
  return TransposeOp::create(b, loc, RankedTensorType::get(dims, typeOf(v).getElementType()), v, perm);
}

//===-- Point -----------------------------------------------------------------------------------------------------===//

uint32_t Point::operand(Value v) {
  auto it = llvm::find(inputs, v);
  if (it != inputs.end())
    return it - inputs.begin();
  inputs.push_back(v);
  return inputs.size() - 1;
}

/// A constant node for a constant of one value, if the node can hold it.
static std::optional<uint32_t> constantNode(Expr &body, Value v) {
  auto data = getConstant(v);
  if (!data || !(data->isSplat || data->type.getNumElements() == 1))
    return std::nullopt;
  DType type = toDType(data->type.getElementType());
  if (isa<FloatType>(data->type.getElementType()))
    return bitWidth(type) >= 16 ? std::optional(body.constant(type, *getScalar(v))) : std::nullopt;
  if (bitWidth(type) < 8 && type != DType::boolean)
    return std::nullopt;
  int64_t value = 0;
  std::memcpy(&value, data->bytes.data(), bitWidth(type) / 8);
  if (type == DType::i8 || type == DType::i16 || type == DType::i32) { // extend the sign
    unsigned shift = 64 - bitWidth(type);
    value = int64_t(uint64_t(value) << shift) >> shift;
  }
  return body.integer(type, value);
}

uint32_t Point::load(Value v) {
  if (auto node = constantNode(body, v))
    return *node;
  return body.load(toDType(typeOf(v).getElementType()), operand(v));
}

uint32_t Point::loadAt(Value v, ArrayRef<uint32_t> indices) {
  if (auto node = constantNode(body, v))
    return *node;
  return body.loadAt(toDType(typeOf(v).getElementType()), operand(v), indices);
}

uint32_t Point::immediate(int64_t value) {
  immediates.push_back(value);
  return body.param(DType::i64, immediates.size() - 1);
}

uint32_t Point::immediate(float value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  immediates.push_back(bits);
  return body.param(DType::f32, immediates.size() - 1);
}

LaunchOp Point::loop(RankedTensorType result, uint32_t value) {
  body.results = {value};
  LaunchConfig config(b.getContext());
  config.set("extents", result.getShape());
  if (!immediates.empty())
    config.set("immediates", immediates);
  return createLaunch(b, loc, result, inputs, "loop", config, body);
}

LaunchOp Point::reduce(RankedTensorType result, ArrayRef<int64_t> extents, ArrayRef<int64_t> dims, StringRef combine,
                       uint32_t value, llvm::function_ref<uint32_t(uint32_t)> post) {
  uint32_t acc = body.acc(body.nodes[value].type, 0);
  body.results = {value, post ? post(acc) : acc};
  LaunchConfig config(b.getContext());
  config.set("extents", extents).set("reduce", dims).set("combine", combine);
  if (!immediates.empty())
    config.set("immediates", immediates);
  return createLaunch(b, loc, result, inputs, "loop", config, body);
}
