// matmul and pack.
#include "Elements.h"

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

template <class C>
static Tensor matmul(DType type, ArrayRef<int64_t> resultDims, const Tensor &lhs, const Tensor &rhs) {
  Dims a = lhs.dims, b = rhs.dims;
  if (a.size() == 1)
    a.insert(a.begin(), 1);
  if (b.size() == 1)
    b.push_back(1);
  int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  Dims batchA(ArrayRef(a).drop_back(2)), batchB(ArrayRef(b).drop_back(2)), batch = *broadcastShapes(batchA, batchB);
  std::vector<C> x = lhs.all<C>(), y = rhs.all<C>(), out(product(resultDims));
  auto offset = [&](ArrayRef<int64_t> at, const Dims &own, int64_t matrix) {
    Dims strides = stridesOf(own);
    int64_t sum = 0;
    for (size_t i = 0; i < own.size(); ++i)
      sum += own[i] == 1 ? 0 : at[i + at.size() - own.size()] * strides[i];
    return sum * matrix;
  };
  C *z = out.data();
  forEachPoint(batch, [&](ArrayRef<int64_t> at) {
    const C *p = x.data() + offset(at, batchA, m * k), *q = y.data() + offset(at, batchB, k * n);
    for (int64_t i = 0; i < m; ++i, z += n)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          z[j] += p[i * k + l] * q[l * n + j];
  });
  return fromValues(type, resultDims, out);
}

Results fold::evaluateMatMul(Operation *op, Operands operands) {
  if (llvm::Error error = checkMultiplyAdds(op, {product(resultDims(op)), operands[0].dims.back()}))
    return error;
  // int64_t would overflow where uint64_t wraps, with the same low bits.
  return std::vector<Tensor>{withCompute(operands[0].type, [&]<class C>() {
    if constexpr (std::is_same_v<C, double>)
      return matmul<double>(resultType(op), resultDims(op), operands[0], operands[1]);
    else
      return matmul<uint64_t>(resultType(op), resultDims(op), operands[0], operands[1]);
  })};
}

/// Forms: see PackOp. Moves bytes; what no weight fills is zero.
Results fold::evaluatePack(Operation *op, Operands operands) {
  auto pack = cast<PackOp>(op);
  const Tensor &in = operands[0];
  Tensor out = makeTensor(in.type, resultDims(op));
  size_t w = in.width();
  auto move = [&](int64_t to, int64_t from) { std::memcpy(out.data() + to * w, in.at(from), w); };
  ArrayRef<int64_t> d = in.dims;
  if (pack.getForm() == "matmul") {
    int64_t n = d.back(), k = d[d.size() - 2], blocks = (n + 15) / 16, batch = product(d.drop_back(2));
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j)
          move(((b * blocks + j / 16) * k + i) * 16 + j % 16, (b * k + i) * n + j);
  } else if (pack.getForm() == "conv") {
    int64_t groups = pack.getGroup(), oc = d[0] / groups, ic = d[1], taps = d[2] * d[3];
    int64_t kc = packedChannelBlock(ic), outer = ic / kc, blocks = (oc + 15) / 16;
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t o = 0; o < oc; ++o)
        for (int64_t i = 0; i < ic; ++i)
          for (int64_t t = 0; t < taps; ++t)
            move((((((g * outer + i / kc) * blocks + o / 16) * taps + t) * kc) + i % kc) * 16 + o % 16,
                 ((g * oc + o) * ic + i) * taps + t);
  } else { // depthwise
    int64_t c = d[0], taps = d[2] * d[3];
    for (int64_t i = 0; i < c; ++i)
      for (int64_t t = 0; t < taps; ++t)
        move(t * c + i, i * taps + t);
  }
  return std::vector<Tensor>{std::move(out)};
}
