#include "ReshapeOperand.h"
#include "Rewrite.h"

using namespace mlir;
using namespace mrcc;

Origin mrcc::originOf(DimAnalysis &analysis, Value shape, std::optional<SmallVector<Dim>> elements, int64_t index) {
  if (!shape || !elements || !typeOf(shape).getElementType().isInteger(64))
    return {};
  const Dim &d = (*elements)[index];
  if (d.is(-1))
    return {nullptr, index, true};
  return d.is(0) || analysis.isData(d) ? Origin{} : Origin{shape, index, false};
}

Value mrcc::reshapeOperand(OpBuilder &b, Location loc, Value input, ArrayRef<Dim> inDims, ArrayRef<Dim> outDims,
                           ArrayRef<Origin> origin) {
  SmallVector<std::optional<int64_t>> known(outDims.size());
  for (auto [i, d] : llvm::enumerate(outDims)) {
    if (d.is(0))
      return nullptr; // an empty tensor: leave it alone
    if (d.isConstant())
      known[i] = d.factor;
    else if (i < inDims.size() && inDims[i] == d)
      known[i] = 0;
  }
  bool inferred = false;
  for (bool before : {true, false})
    for (size_t i = 0; i < known.size(); ++i)
      if (!known[i] && !inferred && (origin[i].inferred || !before))
        known[i] = -1, inferred = true;
  if (llvm::all_of(known, [](auto &k) { return k.has_value(); })) {
    SmallVector<int64_t> values;
    for (auto &k : known)
      values.push_back(*k);
    return makeIntegers(b, loc, values);
  }
  SmallVector<Value> parts;
  auto one = RankedTensorType::get({1}, b.getI64Type());
  for (size_t i = 0; i < known.size(); ++i) {
    auto at = llvm::find(inDims, outDims[i]);
    int64_t k = at - inDims.begin();
    if (known[i])
      parts.push_back(makeIntegers(b, loc, *known[i]));
    else if (at != inDims.end())
      parts.push_back(ShapeOp::create(b, loc, one, input, k, b.getI64IntegerAttr(k + 1)));
    else if (origin[i].tensor)
      parts.push_back(GatherOp::create(b, loc, one, origin[i].tensor, makeIntegers(b, loc, origin[i].index), 0));
    else
      return nullptr;
  }
  return ConcatOp::create(b, loc, RankedTensorType::get({int64_t(parts.size())}, b.getI64Type()), parts, 0);
}

void mrcc::simplifyShape(ReshapeOp op) {
  if (isConstant(op.getShape()))
    return;
  OpBuilder b(op);
  DimAnalysis analysis;
  SmallVector<Dim> in = analysis.dims(op.getInput()), out = analysis.dims(op.getOutput());
  auto elements = analysis.elements(op.getShape());
  SmallVector<Origin> origin;
  for (size_t i = 0; i < out.size(); ++i)
    origin.push_back(originOf(analysis, op.getShape(), elements, i));
  Value shape = reshapeOperand(b, op.getLoc(), op.getInput(), in, out, origin);
  Operation *old = op.getShape().getDefiningOp();
  if (shape && isConstant(shape)) {
    op.getShapeMutable().assign(shape);
    op.setAllowzero(false);
    eraseDead(old);
  } else if (shape) {
    eraseDead(shape.getDefiningOp());
  }
}
