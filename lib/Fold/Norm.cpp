// softmax, batch_norm, layer_norm, group_norm, all in double.
#include "Elements.h"
#include "mrcc/Fold/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

static Tensor softmax(SoftmaxOp op, const Tensor &in) {
  int64_t axis = op.getAxis(), dim = in.dims[axis], inner = product(ArrayRef(in.dims).drop_front(axis + 1));
  int64_t outer = product(ArrayRef(in.dims).take_front(axis));
  std::vector<double> v = in.all<double>();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      auto at = [&](int64_t d) -> double & { return v[(o * dim + d) * inner + i]; };
      double top = -HUGE_VAL, sum = 0;
      for (int64_t d = 0; d < dim; ++d)
        top = at(d) > top || at(d) != at(d) ? at(d) : top;
      for (int64_t d = 0; d < dim; ++d)
        sum += portable::exp(at(d) - top);
      double logSum = portable::log(sum);
      for (int64_t d = 0; d < dim; ++d)
        at(d) = op.getLog() ? at(d) - top - logSum : portable::exp(at(d) - top) / sum;
    }
  return fromValues(in.type, in.dims, v);
}

static Tensor batchNorm(BatchNormOp op, Operands operands) {
  const Tensor &in = operands[0];
  std::vector<double> v = in.all<double>(), scale = operands[1].all<double>(), bias = operands[2].all<double>();
  std::vector<double> mean = operands[3].all<double>(), variance = operands[4].all<double>();
  double epsilon = op.getEpsilon().convertToFloat();
  size_t channels = scale.size();
  for (size_t i = 0; i < v.size(); ++i) {
    size_t c = i % channels;
    v[i] = (v[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + bias[c];
  }
  return fromValues(in.type, in.dims, v);
}

/// Subtracts the mean (unless rms) and divides by the deviation of the elements that `each` visits.
template <class Each> static void normalise(double count, bool rms, double epsilon, Each each) {
  double mean = 0, square = 0;
  if (!rms)
    each([&](double &x) { mean += x; });
  mean /= count;
  each([&](double &x) { square += (x - mean) * (x - mean); });
  double deviation = std::sqrt(square / count + epsilon);
  each([&](double &x) { x = (x - mean) / deviation; });
}

/// All values of `t` broadcast to `dims`.
static std::vector<double> broadcastTo(const Tensor &t, ArrayRef<int64_t> dims) {
  std::vector<double> own = t.all<double>(), out;
  Dims strides = stridesOf(t.dims);
  out.reserve(product(dims));
  forEachPoint(dims, [&](ArrayRef<int64_t> at) {
    int64_t from = 0;
    for (size_t i = 0, lead = dims.size() - t.dims.size(); i < t.dims.size(); ++i)
      from += t.dims[i] == 1 ? 0 : at[i + lead] * strides[i];
    out.push_back(own[from]);
  });
  return out;
}

static Tensor layerNorm(LayerNormOp op, Operands operands) {
  const Tensor &in = operands[0];
  std::vector<double> v = in.all<double>();
  int64_t inner = product(ArrayRef(in.dims).drop_front(op.getAxis())),
          outer = product(ArrayRef(in.dims).take_front(op.getAxis()));
  for (int64_t o = 0; o < outer; ++o)
    normalise(double(inner), op.getRms(), op.getEpsilon().convertToFloat(), [&](auto f) {
      for (int64_t i = 0; i < inner; ++i)
        f(v[o * inner + i]);
    });
  if (operands[1].present()) {
    std::vector<double> scale = broadcastTo(operands[1], in.dims);
    for (size_t i = 0; i < v.size(); ++i)
      v[i] *= scale[i];
  }
  if (operands[2].present()) {
    std::vector<double> bias = broadcastTo(operands[2], in.dims);
    for (size_t i = 0; i < v.size(); ++i)
      v[i] += bias[i];
  }
  return fromValues(in.type, in.dims, v);
}

static Tensor groupNorm(GroupNormOp op, Operands operands) {
  const Tensor &in = operands[0];
  int64_t channels = in.dims.back(), groups = op.getGroups(), size = channels / groups, batch = in.dims[0];
  int64_t points = product(ArrayRef(in.dims).drop_front().drop_back());
  std::vector<double> v = in.all<double>();
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t g = 0; g < groups; ++g)
      normalise(double(points * size), false, op.getEpsilon().convertToFloat(), [&](auto f) {
        for (int64_t p = 0; p < points; ++p)
          for (int64_t c = 0; c < size; ++c)
            f(v[(n * points + p) * channels + g * size + c]);
      });
  std::vector<double> scale(channels, 1), bias(channels, 0);
  if (operands[1].present())
    scale = operands[1].all<double>();
  if (operands[2].present())
    bias = operands[2].all<double>();
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = v[i] * scale[i % channels] + bias[i % channels];
  return fromValues(in.type, in.dims, v);
}

Results fold::evaluateNorm(Operation *op, Operands operands) {
  return std::vector<Tensor>{TypeSwitch<Operation *, Tensor>(op)
                                 .Case([&](SoftmaxOp o) { return softmax(o, operands[0]); })
                                 .Case([&](BatchNormOp o) { return batchNorm(o, operands); })
                                 .Case([&](LayerNormOp o) { return layerNorm(o, operands); })
                                 .Case([&](GroupNormOp o) { return groupNorm(o, operands); })};
}
