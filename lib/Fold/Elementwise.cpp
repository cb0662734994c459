// unary, binary, select, cast. The output is walked in rows of its innermost dimension; each row is computed in blocks
// that are loaded as double, int64_t or uint64_t. If all operands are splats so is the result.
#include "Elements.h"
#include "mrcc/Fold/Math.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

static constexpr int64_t block = 1024;

//===-- functions of one value ------------------------------------------------------------------------------------===//

static double roundEven(double x) {
  double r = std::floor(x), d = x - r;
  if (d > 0.5 || (d == 0.5 && std::fmod(r, 2) != 0))
    r += 1;
  return std::copysign(r, x);
}

static double unaryFloat(UnaryKind kind, double x) {
  switch (kind) {
  case UnaryKind::abs:
    return std::fabs(x);
  case UnaryKind::acos:
    return portable::acos(x);
  case UnaryKind::acosh:
    return portable::acosh(x);
  case UnaryKind::asin:
    return portable::asin(x);
  case UnaryKind::asinh:
    return portable::asinh(x);
  case UnaryKind::atan:
    return portable::atan(x);
  case UnaryKind::atanh:
    return portable::atanh(x);
  case UnaryKind::ceil:
    return std::ceil(x);
  case UnaryKind::cos:
    return portable::cos(x);
  case UnaryKind::cosh:
    return portable::cosh(x);
  case UnaryKind::erf:
    return portable::erf(x);
  case UnaryKind::exp:
    return portable::exp(x);
  case UnaryKind::floor:
    return std::floor(x);
  case UnaryKind::is_nan:
    return x != x;
  case UnaryKind::is_pos_inf:
    return x == HUGE_VAL;
  case UnaryKind::is_neg_inf:
    return x == -HUGE_VAL;
  case UnaryKind::log:
    return portable::log(x);
  case UnaryKind::neg:
    return -x;
  case UnaryKind::reciprocal:
    return 1 / x;
  case UnaryKind::round_even:
    return roundEven(x);
  case UnaryKind::rsqrt:
    return 1 / std::sqrt(x);
  case UnaryKind::sigmoid:
    return portable::sigmoid(x);
  case UnaryKind::sign:
    return x > 0 ? 1 : x < 0 ? -1 : x; // keeps NaN and zeros
  case UnaryKind::sin:
    return portable::sin(x);
  case UnaryKind::sinh:
    return portable::sinh(x);
  case UnaryKind::sqrt:
    return std::sqrt(x);
  case UnaryKind::tan:
    return portable::tan(x);
  case UnaryKind::tanh:
    return portable::tanh(x);
  case UnaryKind::gelu:
    return portable::gelu(x);
  case UnaryKind::silu:
    return x == -HUGE_VAL ? 0 : x * portable::sigmoid(x);
  case UnaryKind::softplus:
    return portable::softplus(x);
  case UnaryKind::bitwise_not:
  case UnaryKind::logical_not:
    break; // not on floats
  }
  return 0;
}

template <class C> static C unaryInteger(UnaryKind kind, C x) {
  switch (kind) {
  case UnaryKind::abs:
    return std::is_signed_v<C> && x < 0 ? C(0 - uint64_t(x)) : x;
  case UnaryKind::neg:
    return C(0 - uint64_t(x));
  case UnaryKind::sign:
    return x > 0 ? 1 : C(x != 0 ? -1 : 0);
  case UnaryKind::bitwise_not:
    return ~x;
  case UnaryKind::logical_not:
    return x == 0;
  case UnaryKind::is_nan:
  case UnaryKind::is_pos_inf:
  case UnaryKind::is_neg_inf:
    return 0;
  default:
    return x; // ceil, floor, round of integers
  }
}

//===-- functions of two values -----------------------------------------------------------------------------------===//

static double binaryFloat(BinaryKind kind, double a, double b) {
  switch (kind) {
  case BinaryKind::add:
    return a + b;
  case BinaryKind::sub:
    return a - b;
  case BinaryKind::mul:
    return a * b;
  case BinaryKind::div:
    return a / b;
  case BinaryKind::fmod:
    return std::fmod(a, b);
  case BinaryKind::mod: { // the divisor's sign
    double r = std::fmod(a, b);
    return r == 0 ? std::copysign(r, b) : (r < 0) != (b < 0) ? r + b : r;
  }
  case BinaryKind::pow:
    return portable::pow(a, b);
  case BinaryKind::max:
    return a != a || a > b ? a : b; // NaN if either is
  case BinaryKind::min:
    return a != a || a < b ? a : b;
  case BinaryKind::eq:
    return a == b;
  case BinaryKind::lt:
    return a < b;
  case BinaryKind::le:
    return a <= b;
  case BinaryKind::gt:
    return a > b;
  case BinaryKind::ge:
    return a >= b;
  default:
    return 0; // not on floats
  }
}

template <class C> static C powInteger(C base, C exponent) {
  if constexpr (std::is_signed_v<C>)
    if (exponent < 0)
      return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, b = uint64_t(base);
  for (uint64_t e = uint64_t(exponent); e; e >>= 1, b *= b)
    if (e & 1)
      result *= b;
  return C(result);
}

/// `bits`: the type's width, for shifts. A divisor is not 0 (checked before). Arithmetic wraps.
template <class C> static C binaryInteger(BinaryKind kind, C a, C b, unsigned bits) {
  uint64_t ua = uint64_t(a), ub = uint64_t(b);
  switch (kind) {
  case BinaryKind::add:
    return C(ua + ub);
  case BinaryKind::sub:
    return C(ua - ub);
  case BinaryKind::mul:
    return C(ua * ub);
  case BinaryKind::div:
    return b == C(-1) && std::is_signed_v<C> ? C(0 - ua) : a / b;
  case BinaryKind::fmod:
    return b == C(-1) && std::is_signed_v<C> ? 0 : a % b;
  case BinaryKind::mod: {
    C r = b == C(-1) && std::is_signed_v<C> ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
  case BinaryKind::pow:
    return powInteger(a, b);
  case BinaryKind::max:
    return std::max(a, b);
  case BinaryKind::min:
    return std::min(a, b);
  case BinaryKind::logical_and:
    return a && b;
  case BinaryKind::logical_or:
    return a || b;
  case BinaryKind::logical_xor:
    return (a != 0) != (b != 0);
  case BinaryKind::bitwise_and:
    return a & b;
  case BinaryKind::bitwise_or:
    return a | b;
  case BinaryKind::bitwise_xor:
    return a ^ b;
  case BinaryKind::shift_left:
    return ub >= bits ? 0 : C(ua << ub);
  case BinaryKind::shift_right:
    return ub >= bits ? C(a < 0 ? -1 : 0) : C(a >> ub);
  case BinaryKind::eq:
    return a == b;
  case BinaryKind::lt:
    return a < b;
  case BinaryKind::le:
    return a <= b;
  case BinaryKind::gt:
    return a > b;
  case BinaryKind::ge:
    return a >= b;
  }
  return 0;
}

//===-- rows ------------------------------------------------------------------------------------------------------===//

/// Walks the broadcast of `operands` in rows. Calls f(offset of the row in the output, element offsets of the operands,
/// their steps along the row, length).
template <class F> static void forEachRow(ArrayRef<int64_t> dims, ArrayRef<const Tensor *> operands, F f) {
  size_t n = operands.size(), rank = dims.size();
  SmallVector<Dims, 3> strides(n, Dims(rank, 0));
  for (size_t k = 0; k < n; ++k) {
    ArrayRef<int64_t> own = operands[k]->dims;
    Dims s = stridesOf(own);
    for (size_t i = 0; i < own.size() && !operands[k]->splat; ++i)
      strides[k][i + rank - own.size()] = own[i] == 1 ? 0 : s[i];
  }
  // Merge neighbours that every operand walks alike, so that rows are long.
  Dims merged;
  SmallVector<Dims, 3> steps(n);
  for (size_t i = rank; i-- > 0;) {
    if (dims[i] == 1)
      continue;
    bool joins = !merged.empty();
    for (size_t k = 0; joins && k < n; ++k)
      joins = strides[k][i] == steps[k].back() * merged.back();
    if (joins) {
      merged.back() *= dims[i];
      continue;
    }
    merged.push_back(dims[i]);
    for (size_t k = 0; k < n; ++k)
      steps[k].push_back(strides[k][i]);
  }
  if (merged.empty()) {
    merged.push_back(1);
    for (size_t k = 0; k < n; ++k)
      steps[k].push_back(0);
  }
  int64_t row = merged[0], out = 0;
  Dims outer(llvm::reverse(ArrayRef(merged).drop_front()));
  forEachPoint(outer, [&](ArrayRef<int64_t> at) {
    SmallVector<int64_t, 3> offsets(n, 0), rowSteps;
    for (size_t k = 0; k < n; ++k) {
      for (size_t i = 0; i < at.size(); ++i)
        offsets[k] += at[i] * steps[k][at.size() - i];
      rowSteps.push_back(steps[k][0]);
    }
    f(out, ArrayRef(offsets), ArrayRef(rowSteps), row);
    out += row;
  });
}

/// Elements first, first + step, ... (step 0 or 1) of `t` as C.
template <class C> static void loadRow(const Tensor &t, int64_t first, int64_t step, int64_t n, C *to) {
  const uint8_t *at = t.bytes.data() + first * t.width();
  if (step == 1 || n == 1)
    return load(t.type, at, n, to);
  if (step == 0) {
    load(t.type, at, 1, to);
    std::fill(to + 1, to + n, to[0]);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    load(t.type, at + i * step * t.width(), 1, to + i);
}

/// Computes an element-wise result of `dims` block by block: f(values of the operands, n, out). All of compute type C.
template <class C, class F>
static Tensor map(DType type, ArrayRef<int64_t> dims, ArrayRef<const Tensor *> operands, F f, bool saturate = true) {
  bool splat = llvm::all_of(operands, [](const Tensor *t) { return t->splat || t->size() == 1; }) &&
               !llvm::is_contained(dims, 0);
  Dims ones(dims.size(), 1);
  Tensor out = makeTensor(type, splat ? ArrayRef<int64_t>(ones) : dims);
  std::vector<std::vector<C>> values(operands.size(), std::vector<C>(block));
  std::vector<C> result(block);
  forEachRow(out.dims, operands, [&](int64_t first, ArrayRef<int64_t> offsets, ArrayRef<int64_t> steps, int64_t row) {
    for (int64_t done = 0; done < row; done += block) {
      int64_t n = std::min(block, row - done);
      for (size_t k = 0; k < operands.size(); ++k)
        loadRow(*operands[k], offsets[k] + done * steps[k], steps[k], n, values[k].data());
      f(values, n, result.data());
      store(type, result.data(), n, out.data() + (first + done) * out.width(), saturate);
    }
  });
  if (splat) {
    out.dims.assign(dims.begin(), dims.end());
    out.splat = true;
  }
  return out;
}

//===-- ops -------------------------------------------------------------------------------------------------------===//

template <class C> static Tensor unary(UnaryOp op, const Tensor &x) {
  UnaryKind kind = op.getKind();
  return map<C>(resultType(op), resultDims(op), &x, [&](auto &in, int64_t n, C *out) {
    for (int64_t i = 0; i < n; ++i)
      if constexpr (std::is_same_v<C, double>)
        out[i] = unaryFloat(kind, in[0][i]);
      else
        out[i] = unaryInteger<C>(kind, in[0][i]);
  });
}

static Results binary(BinaryOp op, const Tensor &a, const Tensor &b) {
  BinaryKind kind = op.getKind();
  Compute compute = computeOf(a.type);
  if (kind == BinaryKind::pow && computeOf(b.type) == Compute::floating)
    compute = Compute::floating;
  const Tensor *operands[] = {&a, &b};
  if (compute == Compute::floating) {
    return std::vector<Tensor>{
        map<double>(resultType(op), resultDims(op), operands, [&](auto &in, int64_t n, double *out) {
          for (int64_t i = 0; i < n; ++i)
            out[i] = binaryFloat(kind, in[0][i], in[1][i]);
        })};
  }
  bool divides = kind == BinaryKind::div || kind == BinaryKind::mod || kind == BinaryKind::fmod;
  bool byZero = false;
  unsigned bits = bitWidth(a.type);
  auto run = [&]<class C>() {
    return map<C>(resultType(op), resultDims(op), operands, [&](auto &in, int64_t n, C *out) {
      for (int64_t i = 0; i < n; ++i) {
        if (divides && in[1][i] == 0) {
          byZero = true;
          out[i] = 0;
          continue;
        }
        out[i] = binaryInteger<C>(kind, in[0][i], in[1][i], bits);
      }
    });
  };
  Tensor out = compute == Compute::natural ? run.template operator()<uint64_t>() : run.template operator()<int64_t>();
  if (byZero)
    return fail("division of integers by zero");
  return std::vector<Tensor>{std::move(out)};
}

/// The chosen elements keep their bits, whatever the type (a NaN's payload, too).
static Tensor select(SelectOp op, const Tensor &c, const Tensor &a, const Tensor &b) {
  Dims dims = resultDims(op);
  if (c.splat || c.size() == 1) { // one operand, maybe broadcast
    const Tensor &chosen = c.bytes[0] ? a : b;
    if (chosen.splat)
      return makeSplat(chosen.type, dims, chosen.bytes);
  }
  if (a.splat && b.splat && a.bytes == b.bytes)
    return makeSplat(a.type, dims, a.bytes);
  Tensor out = makeTensor(a.type, dims);
  size_t w = a.width();
  const Tensor *operands[] = {&c, &a, &b};
  forEachRow(dims, operands, [&](int64_t first, ArrayRef<int64_t> at, ArrayRef<int64_t> steps, int64_t row) {
    for (int64_t i = 0; i < row; ++i) {
      int64_t k = c.bytes[at[0] + i * steps[0]] ? 1 : 2;
      std::memcpy(out.data() + (first + i) * w, operands[k]->bytes.data() + (at[k] + i * steps[k]) * w, w);
    }
  });
  return out;
}

/// The same bits as another type. A packed type's elements are a byte here, extended as the type asks.
static Tensor bitcast(const Tensor &x, DType to) {
  Tensor out = x;
  out.type = to;
  if (!isPacked(to) || to == x.type)
    return out;
  out.owned = std::make_shared<std::vector<uint8_t>>(unpackElements(to, packElements(x.type, x.bytes), x.bytes.size()));
  out.bytes = *out.owned;
  return out;
}

Results fold::evaluateElementwise(Operation *op, Operands operands) {
  if (auto o = dyn_cast<UnaryOp>(op))
    return std::vector<Tensor>{withCompute(operands[0].type, [&]<class C>() { return unary<C>(o, operands[0]); })};
  if (auto o = dyn_cast<BinaryOp>(op))
    return binary(o, operands[0], operands[1]);
  if (auto o = dyn_cast<SelectOp>(op))
    return std::vector<Tensor>{select(o, operands[0], operands[1], operands[2])};
  if (isa<BitcastOp>(op))
    return std::vector<Tensor>{bitcast(operands[0], resultType(op))};
  auto cast = llvm::cast<CastOp>(op);
  DType to = resultType(op);
  if (to == operands[0].type)
    return std::vector<Tensor>{operands[0]};
  return std::vector<Tensor>{withCompute(operands[0].type, [&]<class C>() {
    const Tensor *x = &operands[0];
    return map<C>(
        to, resultDims(op), x, [&](auto &in, int64_t n, C *out) { std::copy_n(in[0].data(), n, out); },
        cast.getSaturate());
  })};
}
