// Result types of windowed ops (channels last), of resize and of packed weights.
#include "InferShapesUtil.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;
using namespace mrcc::infer;

/// Attributes with one entry a spatial dimension (two for pads), positive strides, dilations and kernels.
static LogicalResult checkWindow(Operation *op, int64_t spatial, ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides,
                                 ArrayRef<int64_t> dilations, ArrayRef<int64_t> pads, StringRef autoPad) {
  if (spatial < 1)
    return shapeError(op) << "expected an input of rank 3 and more, got rank " << spatial + 2;
  auto size = [&](ArrayRef<int64_t> values, const char *name, int64_t n) -> LogicalResult {
    if (int64_t(values.size()) == n)
      return success();
    return shapeError(op) << "expected " << n << " " << name << " for " << spatial << " spatial dimensions, got "
                          << values.size();
  };
  if (failed(size(kernel, "kernel dims", spatial)) || failed(size(strides, "strides", spatial)) ||
      failed(size(dilations, "dilations", spatial)) || failed(size(pads, "pads", 2 * spatial)))
    return failure();
  for (auto [values, name] : {std::pair(kernel, "kernel dims"), {strides, "strides"}, {dilations, "dilations"}})
    for (int64_t v : values)
      if (v < 1 && v != unknown)
        return shapeError(op) << "expected positive " << name << ", got " << dimsText(values);
  if (autoPad != "explicit" && autoPad != "SAME_UPPER" && autoPad != "SAME_LOWER" && autoPad != "VALID")
    return shapeError(op) << "expected auto_pad explicit, SAME_UPPER, SAME_LOWER or VALID, got '" << autoPad << "'";
  return success();
}

/// [N, out..., channels], or an error where a window does not fit.
static LogicalResult giveWindows(Operation *op, Types &types, Value input, ArrayRef<int64_t> kernel,
                                 ArrayRef<int64_t> dilations, int64_t channels) {
  Dims out = {dimsOf(input)[0]};
  for (auto [i, w] : llvm::enumerate(windowDims(op))) {
    if (w.out != unknown && w.out < 1)
      return shapeError(op) << "expected an output of at least 1, got spatial dimension " << i << " of size "
                            << dimsOf(input)[i + 1] << " with pads " << w.padBegin << " and " << w.padEnd
                            << " and a window of " << windowExtent(kernel[i], dilations[i]);
    out.push_back(w.out);
  }
  out.push_back(channels);
  return give(types, out, typeOf(input).getElementType());
}

/// Input channels, weights' channels a group and group agree.
static LogicalResult checkGroup(Operation *op, int64_t channels, int64_t perGroup, int64_t group) {
  if (group < 1)
    return shapeError(op) << "expected a positive group, got " << group;
  if (channels != unknown && perGroup != unknown && channels != held(Wide(perGroup) * group))
    return shapeError(op) << "expected " << held(Wide(perGroup) * group) << " input channels, got " << channels;
  return success();
}

LogicalResult ConvOp::inferShapes(SmallVectorImpl<Type> &types) {
  int64_t rank = typeOf(getInput()).getRank();
  Dims all = weightDims(*this);
  if (int64_t(all.size()) != rank)
    return shapeError(*this) << "expected weights of rank " << rank << ", got " << dimsText(all);
  ArrayRef<int64_t> weights = all;
  if (rank < 3 || failed(checkWindow(*this, rank - 2, weights.drop_front(2), getStrides(), getDilations(), getPads(),
                                     getAutoPad())))
    return rank < 3 ? checkWindow(*this, rank - 2, {}, {}, {}, {}, "") : failure();
  if (failed(checkGroup(*this, dimsOf(getInput()).back(), weights[1], getGroup())) ||
      failed(checkChannels(*this, getBias(), "bias", weights[0])) ||
      failed(checkSameElement(*this, getInput(), getWeights())) ||
      failed(checkSameElement(*this, getInput(), getBias())))
    return failure();
  if (weights[0] != unknown && weights[0] % int64_t(getGroup()) != 0)
    return shapeError(*this) << "expected output channels that " << getGroup() << " groups divide, got " << weights[0];
  if (llvm::is_contained(weights.drop_front(2), unknown))
    return shapeError(*this) << "expected weights with known kernel dims, got " << dimsText(weights);
  return giveWindows(*this, types, getInput(), weights.drop_front(2), getDilations(), weights[0]);
}

LogicalResult ConvTransposeOp::inferShapes(SmallVectorImpl<Type> &types) {
  int64_t rank = typeOf(getInput()).getRank();
  Dims all = weightDims(*this);
  if (int64_t(all.size()) != rank)
    return shapeError(*this) << "expected weights of rank " << rank << ", got " << dimsText(all);
  ArrayRef<int64_t> weights = all;
  if (rank < 3 || failed(checkWindow(*this, rank - 2, weights.drop_front(2), getStrides(), getDilations(), getPads(),
                                     getAutoPad())))
    return rank < 3 ? checkWindow(*this, rank - 2, {}, {}, {}, {}, "") : failure();
  if (int64_t(getOutputPadding().size()) != rank - 2 ||
      (getOutputShape() && int64_t(getOutputShape()->size()) != rank - 2))
    return shapeError(*this) << "expected " << rank - 2 << " output paddings and output dims, one a spatial dimension";
  int64_t channels = dimsOf(getInput()).back(), group = getGroup(), outputs = weights[1];
  if (group < 1 || (channels != unknown && channels % group != 0))
    return shapeError(*this) << "expected input channels that " << group << " groups divide, got " << channels;
  if (!mergeDim(channels, weights[0]))
    return shapeError(*this) << "expected " << weights[0] << " input channels, got " << channels;
  outputs = outputs == unknown ? unknown : held(Wide(outputs) * group);
  if (failed(checkChannels(*this, getBias(), "bias", outputs)) ||
      failed(checkSameElement(*this, getInput(), getWeights())) ||
      failed(checkSameElement(*this, getInput(), getBias())))
    return failure();
  if (llvm::is_contained(weights.drop_front(2), unknown))
    return shapeError(*this) << "expected weights with known kernel dims, got " << dimsText(weights);
  return giveWindows(*this, types, getInput(), weights.drop_front(2), getDilations(), outputs);
}

LogicalResult PoolOp::inferShapes(SmallVectorImpl<Type> &types) {
  int64_t rank = typeOf(getInput()).getRank();
  if (failed(checkWindow(*this, rank - 2, getKernel(), getStrides(), getDilations(), getPads(), getAutoPad())))
    return failure();
  return giveWindows(*this, types, getInput(), getKernel(), getDilations(), dimsOf(getInput()).back());
}

static LogicalResult badScale(ResizeOp op, int64_t dim, float scale, int64_t axis) {
  InFlightDiagnostic d = shapeError(op);
  d << "expected a positive scale that gives at most 2^48 elements, got " << scale;
  if (dim != unknown)
    d << " of " << dim;
  return d << " along axis " << axis;
}

LogicalResult ResizeOp::inferShapes(SmallVectorImpl<Type> &types) {
  Dims dims(dimsOf(getInput()));
  for (int64_t axis : getAxes())
    if (failed(checkAxis(*this, axis, dims.size())))
      return failure();
  bool bySizes = !isNone(getSizes());
  Value operand = bySizes ? getSizes() : getScales();
  if (isNone(operand))
    return shapeError(*this) << "expected scales or sizes, got neither";
  if (typeOf(operand).getRank() != 1)
    return shapeError(*this) << "expected scales and sizes of rank 1, got " << dimsText(dimsOf(operand));
  int64_t n = dimsOf(operand)[0];
  if (!mergeDim(n, getAxes().size()))
    return shapeError(*this) << "expected " << getAxes().size() << " scales or sizes, got " << n;
  if (auto all = resizeDims(*this)) {
    for (auto [axis, d] : llvm::zip_equal(getAxes(), *all)) {
      const bool good = d.out >= 0 && (d.out == 0 || dims[axis] != 0);
      if (!good && !bySizes)
        return badScale(*this, dims[axis], d.scale, axis);
      if (!good)
        return shapeError(*this) << "expected positive scales and sizes, got " << dims[axis] << " to " << d.out
                                 << " along axis " << axis;
      dims[axis] = d.out;
    }
    return give(types, dims, typeOf(getInput()).getElementType());
  }
  auto sizes = bySizes && getAspectPolicy() != "not_larger" && getAspectPolicy() != "not_smaller"
                   ? partialIntegers(operand)
                   : std::nullopt;
  auto scales = bySizes ? std::nullopt : getFloats(operand);
  for (auto [i, axis] : llvm::enumerate(getAxes())) {
    if (scales && i < scales->size()) {
      auto scaled = scaledDim(std::max<int64_t>(dims[axis], 1), float((*scales)[i]));
      if (!scaled)
        return badScale(*this, dims[axis], float((*scales)[i]), axis);
      dims[axis] = dims[axis] == unknown ? unknown : *scaledDim(dims[axis], float((*scales)[i]));
    } else
      dims[axis] = sizes && i < sizes->size() ? (*sizes)[i].value_or(unknown) : unknown;
  }
  return give(types, dims, typeOf(getInput()).getElementType());
}

LogicalResult PackOp::inferShapes(SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(getInput());
  int64_t group = getGroup();
  if (!typeOf(getInput()).hasStaticShape())
    return shapeError(*this) << "expected a static weight, got " << dimsText(dims);
  Dims out;
  auto ceilDiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  if (getForm() == "matmul" && dims.size() >= 2) {
    out.assign(dims.begin(), dims.end() - 2);
    out.append({ceilDiv(dims.back(), 16), dims[dims.size() - 2], 16});
  } else if (getForm() == "conv" && dims.size() == 4 && group >= 1 && dims[0] % group == 0 && dims[1] > 0) {
    if (group > 1)
      out.push_back(group);
    int64_t block = packedChannelBlock(dims[1]);
    out.append({dims[1] / block, ceilDiv(dims[0] / group, 16), dims[2] * dims[3], block, 16});
  } else if (getForm() == "depthwise" && dims.size() == 4 && dims[1] == 1) {
    out = {dims[2] * dims[3], dims[0]};
  } else {
    return shapeError(*this) << "cannot pack " << dimsText(dims) << " in form '" << getForm() << "' with group "
                             << group;
  }
  return give(types, out, typeOf(getInput()).getElementType());
}
