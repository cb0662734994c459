// reduce, arg_reduce, cumulative. Floats accumulate in double, in row-major order of the reduced elements.
#include "Elements.h"
#include "mrcc/Fold/Math.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

template <class C> static C initial(ReduceKind kind, DType type) {
  bool floating = std::is_same_v<C, double>;
  unsigned bits = bitWidth(type);
  switch (kind) {
  case ReduceKind::prod:
    return 1;
  case ReduceKind::max:
  case ReduceKind::log_sum_exp:
    return floating                                         ? C(-HUGE_VAL)
           : type == DType::boolean || !std::is_signed_v<C> ? C(0)
                                                            : C(-(uint64_t(1) << (bits - 1)));
  case ReduceKind::min:
    return floating                 ? C(HUGE_VAL)
           : type == DType::boolean ? C(1)
           : std::is_signed_v<C>    ? C((uint64_t(1) << (bits - 1)) - 1)
                                    : C(~uint64_t(0) >> (64 - bits));
  default:
    return 0;
  }
}

/// acc op v, before `finish`.
template <class C> static C step(ReduceKind kind, C acc, C v) {
  using Sum = Wrapping<C>;
  switch (kind) {
  case ReduceKind::sum:
  case ReduceKind::mean:
  case ReduceKind::log_sum:
    return C(Sum(acc) + Sum(v));
  case ReduceKind::max:
  case ReduceKind::log_sum_exp:
    return v > acc || v != v ? v : acc;
  case ReduceKind::min:
    return v < acc || v != v ? v : acc;
  case ReduceKind::prod:
    return C(Sum(acc) * Sum(v));
  case ReduceKind::sum_square:
  case ReduceKind::l2:
    return C(Sum(acc) + Sum(v) * Sum(v));
  case ReduceKind::l1:
    return C(Sum(acc) + (v < 0 ? Sum(0) - Sum(v) : Sum(v)));
  }
  return acc;
}

namespace {
/// All elements in order, a block at a time: weights are large, and wider as C.
template <class C> struct Stream {
  const Tensor &t;
  int64_t at = 0, size = t.size();
  std::vector<C> block = std::vector<C>(1024);
  explicit Stream(const Tensor &t) : t(t) {}
  C next() {
    int64_t length = block.size(), i = at++ % length;
    if (i == 0 && t.splat && at == 1) {
      load(t.type, t.bytes.data(), 1, block.data());
      std::fill(block.begin() + 1, block.end(), block[0]);
    } else if (i == 0 && !t.splat) {
      load(t.type, t.at(at - 1), std::min(length, size - at + 1), block.data());
    }
    return block[i];
  }
};
} // namespace

template <class C> static Tensor reduce(ReduceOp op, const Tensor &in) {
  ReduceKind kind = op.getKind();
  Dims strides(in.dims.size(), 0), kept;
  int64_t count = 1;
  for (size_t i = 0; i < in.dims.size(); ++i) {
    bool reduced = llvm::is_contained(op.getAxes(), int64_t(i));
    kept.push_back(reduced ? 1 : in.dims[i]);
    count *= reduced ? in.dims[i] : 1;
  }
  Dims own = stridesOf(kept);
  for (size_t i = 0; i < kept.size(); ++i)
    strides[i] = kept[i] == 1 ? 0 : own[i];
  std::vector<C> acc(product(kept), initial<C>(kind, in.type));
  Stream<C> values(in);
  auto target = [&](ArrayRef<int64_t> at) {
    int64_t to = 0;
    for (size_t i = 0; i < at.size(); ++i)
      to += at[i] * strides[i];
    return to;
  };
  forEachPoint(in.dims, [&](ArrayRef<int64_t> at) {
    C &a = acc[target(at)];
    a = step(kind, a, values.next());
  });
  auto inDouble = [&](C v, auto f) { return fromDouble<C>(f(double(v))); };
  switch (kind) {
  case ReduceKind::mean:
    for (C &a : acc)
      a = std::is_same_v<C, double> ? C(a / C(count)) : count ? C(a / C(count)) : C(0);
    break;
  case ReduceKind::l2:
    for (C &a : acc)
      a = inDouble(a, [](double v) { return std::sqrt(v); });
    break;
  case ReduceKind::log_sum:
    for (C &a : acc)
      a = inDouble(a, portable::log);
    break;
  case ReduceKind::log_sum_exp: { // acc holds the maxima
    std::vector<double> sums(acc.size());
    Stream<C> again(in);
    forEachPoint(in.dims, [&](ArrayRef<int64_t> at) {
      int64_t to = target(at);
      double top = std::isinf(double(acc[to])) ? 0 : double(acc[to]);
      sums[to] += portable::exp(double(again.next()) - top);
    });
    for (size_t i = 0; i < acc.size(); ++i)
      acc[i] = fromDouble<C>(portable::log(sums[i]) + (std::isinf(double(acc[i])) || count == 0 ? 0 : double(acc[i])));
    break;
  }
  default:
    break;
  }
  return fromValues(in.type, resultDims(op), acc);
}

/// Elements as outer x dim x inner around `axis`.
struct AxisView {
  int64_t outer, dim, inner;
  AxisView(ArrayRef<int64_t> dims, int64_t axis)
      : outer(product(dims.take_front(axis))), dim(dims[axis]), inner(product(dims.drop_front(axis + 1))) {}
  int64_t at(int64_t o, int64_t d, int64_t i) const { return (o * dim + d) * inner + i; }
};

template <class C> static Tensor argReduce(ArgReduceOp op, const Tensor &in) {
  AxisView view(in.dims, op.getAxis());
  std::vector<C> values = in.all<C>();
  std::vector<int64_t> out;
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      for (int64_t d = 1; d < view.dim; ++d) {
        C v = values[view.at(o, d, i)], b = values[view.at(o, best, i)];
        bool better = op.getIsMax() ? v > b : v < b;
        if (better || (op.getSelectLast() && v == b))
          best = d;
      }
      out.push_back(best);
    }
  return fromValues(DType::i64, resultDims(op), out);
}

template <class C> static Tensor cumulative(CumulativeOp op, const Tensor &in) {
  using Sum = Wrapping<C>;
  AxisView view(in.dims, op.getAxis());
  std::vector<C> values = in.all<C>(), out(values.size());
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      Sum acc = op.getProduct() ? 1 : 0;
      for (int64_t k = 0; k < view.dim; ++k) {
        int64_t at = view.at(o, op.getReverse() ? view.dim - 1 - k : k, i);
        Sum next = op.getProduct() ? acc * Sum(values[at]) : acc + Sum(values[at]);
        out[at] = C(op.getExclusive() ? acc : next);
        acc = next;
      }
    }
  return fromValues(in.type, in.dims, out);
}

Results fold::evaluateReduction(Operation *op, Operands operands) {
  const Tensor &in = operands[0];
  return std::vector<Tensor>{withCompute(in.type, [&]<class C>() {
    if (auto o = dyn_cast<ReduceOp>(op))
      return reduce<C>(o, in);
    if (auto o = dyn_cast<ArgReduceOp>(op))
      return argReduce<C>(o, in);
    return cumulative<C>(cast<CumulativeOp>(op), in);
  })};
}
