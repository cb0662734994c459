// Constants and shape arithmetic.
#include "Node.h"

using namespace mlir;
using namespace mrcc;

static Value fromTensor(NodeContext &c, const onnx::Tensor &tensor) {
  if (tensor.type == DType::none) {
    c.unsupported("element type " + onnx::typeName(tensor.onnxType));
    return nullptr;
  }
  auto type = RankedTensorType::get(tensor.dims, toType(c.builder.getContext(), tensor.type));
  return makeConstant(c.builder, c.loc, makeConstantAttr(type, tensor.bytes, tensor.keeper));
}

static Value floats(NodeContext &c, ArrayRef<float> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, c.builder.getF32Type());
  return makeConstant(c.builder, c.loc,
                      makeConstantAttr(type, {reinterpret_cast<const uint8_t *>(values.data()), values.size() * 4}));
}

static void constant(NodeContext &c) {
  if (auto *a = c.attribute("value"); a && a->t)
    return c.result(fromTensor(c, *a->t));
  if (auto *a = c.attribute("sparse_value"); a && a->t)
    return c.result(fromTensor(c, *a->t));
  if (c.has("value_float"))
    return c.result(makeConstant(
        c.builder, c.loc,
        DenseElementsAttr::get(RankedTensorType::get({}, c.builder.getF32Type()), c.real("value_float", 0))));
  if (c.has("value_int"))
    return c.result(makeConstant(
        c.builder, c.loc,
        DenseElementsAttr::get(RankedTensorType::get({}, c.builder.getI64Type()), c.integer("value_int", 0))));
  if (auto *a = c.attribute("value_floats"))
    return c.result(floats(c, a->floats));
  if (auto list = c.integers("value_ints"))
    return c.result(c.constant(*list));
  if (c.has("value_string") || c.has("value_strings"))
    return c.unsupported("a constant of strings");
  c.invalid("it has no value");
}

static void shape(NodeContext &c) {
  int64_t start = c.integer("start", 0);
  IntegerAttr end = c.has("end") ? c.builder.getI64IntegerAttr(c.integer("end", 0)) : nullptr;
  c.result(c.make<ShapeOp>(c.in(0), uint64_t(start), end));
}

static void size(NodeContext &c) { c.result(c.make<SizeOp>(c.in(0))); }

static Value asScalar(NodeContext &c, Value v) { return c.rank(v) == 0 ? v : c.squeeze(v, 0); }

static void range(NodeContext &c) {
  c.result(c.make<RangeOp>(asScalar(c, c.in(0)), asScalar(c, c.in(1)), asScalar(c, c.in(2))));
}

static void constantOfShape(NodeContext &c) {
  auto *a = c.attribute("value");
  Value value = a && a->t ? fromTensor(c, *a->t) : makeScalar(c.builder, c.loc, c.builder.getF32Type(), 0);
  if (c)
    c.result(c.fill(c.in(0), value));
}

void mrcc::addShapes(HandlerTable &t) {
  t.add("Constant", constant);
  t.add("Shape", shape);
  t.add("Size", size);
  t.add("Range", range);
  t.add("ConstantOfShape", constantOfShape);
}
