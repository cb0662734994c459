// Elements of every type as double, int64_t or uint64_t and back.
#include "Elements.h"
#include "mrcc/IR/Expr.h"
#include <cmath>

using namespace mlir;
using namespace mrcc;
using namespace mrcc::fold;

Compute fold::computeOf(DType type) {
  if (isFloat(type))
    return Compute::floating;
  return isUnsigned(type) && type != DType::boolean ? Compute::natural : Compute::integer;
}

//===-- floats of 16, 8 and 4 bits --------------------------------------------------------------------------------===//

namespace {
struct SmallFormat {
  int exponentBits, mantissaBits, bias;
  enum { ieee, fn, fnuz, finite } kind; // fn: no infinities, NaN is all ones; fnuz: NaN is the negative zero
  uint32_t sign() const { return 1u << (exponentBits + mantissaBits); }
  uint32_t infinity() const { return ((1u << exponentBits) - 1) << mantissaBits; }
  uint32_t largest() const { return kind == ieee ? infinity() - 1 : kind == fn ? sign() - 2 : sign() - 1; }
  uint32_t nan() const {
    return kind == ieee ? infinity() | 1u << (mantissaBits - 1) : kind == fn ? sign() - 1 : sign();
  }
};

SmallFormat formatOf(DType type) {
  switch (type) {
  case DType::f16:
    return {5, 10, 15, SmallFormat::ieee};
  case DType::bf16:
    return {8, 7, 127, SmallFormat::ieee};
  case DType::f8e4m3fn:
    return {4, 3, 7, SmallFormat::fn};
  case DType::f8e4m3fnuz:
    return {4, 3, 8, SmallFormat::fnuz};
  case DType::f8e5m2:
    return {5, 2, 15, SmallFormat::ieee};
  case DType::f4e2m1:
    return {2, 1, 1, SmallFormat::finite};
  default:
    return {5, 2, 16, SmallFormat::fnuz}; // f8e5m2fnuz
  }
}
double power2(int k) { return std::bit_cast<double>(uint64_t(k + 1023) << 52); }
} // namespace

uint32_t fold::encodeSmall(DType type, double value, bool saturate) {
  SmallFormat format = formatOf(type);
  saturate = format.kind == SmallFormat::finite || (saturate && bitWidth(type) == 8);
  uint64_t bits = std::bit_cast<uint64_t>(value);
  uint32_t sign = bits >> 63 ? format.sign() : 0;
  if (value != value)
    return format.kind == SmallFormat::fnuz || format.kind == SmallFormat::finite ? format.nan() : sign | format.nan();
  bits &= ~(uint64_t(1) << 63);
  int exponent = std::max(int(bits >> 52) - 1023, 1 - format.bias);
  uint32_t code = format.largest() + 1;
  if (exponent < 200) { // below every format's overflow; infinity and far values stay at largest + 1
    // In units of the last place the value is below 2^(mantissa + 1); adding and taking 2^52 rounds to nearest even.
    double units = std::bit_cast<double>(bits) * power2(format.mantissaBits - exponent);
    uint32_t rounded = uint32_t((units + 0x1p52) - 0x1p52);
    // The hidden bit of a normal value carries into the exponent field, as does rounding up to the next binade.
    code = rounded + (uint32_t(exponent + format.bias - 1) << format.mantissaBits);
  }
  if (code > format.largest()) {
    if (saturate)
      code = format.largest();
    else if (format.kind == SmallFormat::fnuz)
      return format.nan();
    else
      code = format.kind == SmallFormat::ieee ? format.infinity() : format.nan();
  }
  return code == 0 && format.kind == SmallFormat::fnuz ? 0 : sign | code;
}

double fold::decodeSmall(DType type, uint32_t bits) {
  SmallFormat format = formatOf(type);
  double sign = bits & format.sign() ? -1 : 1;
  uint32_t code = bits & (format.sign() - 1);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (format.kind == SmallFormat::fnuz && bits == format.sign())
    return nan;
  if (format.kind == SmallFormat::fn && code == format.nan())
    return nan;
  if (format.kind == SmallFormat::ieee && code >= format.infinity())
    return code > format.infinity() ? nan : sign * std::numeric_limits<double>::infinity();
  uint32_t exponent = code >> format.mantissaBits, mantissa = code & ((1u << format.mantissaBits) - 1);
  if (exponent == 0)
    return sign * mantissa * power2(1 - format.bias - format.mantissaBits);
  return sign * (mantissa + (1u << format.mantissaBits)) * power2(int(exponent) - format.bias - format.mantissaBits);
}

//===-- load and store --------------------------------------------------------------------------------------------===//

template <class T, class C> static void loadAs(const uint8_t *from, int64_t n, C *to) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, from + i * sizeof v, sizeof v);
    to[i] = C(v);
  }
}

template <class C> void fold::load(DType type, const uint8_t *from, int64_t n, C *to) {
  switch (type) {
  case DType::f32:
    return loadAs<float>(from, n, to);
  case DType::f64:
    return loadAs<double>(from, n, to);
  case DType::f16:
  case DType::bf16:
    for (int64_t i = 0; i < n; ++i)
      to[i] = C(decodeSmall(type, from[2 * i] | from[2 * i + 1] << 8));
    return;
  case DType::f8e4m3fn:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2:
  case DType::f8e5m2fnuz:
  case DType::f4e2m1:
    for (int64_t i = 0; i < n; ++i)
      to[i] = C(decodeSmall(type, from[i]));
    return;
  case DType::i2:
  case DType::i4:
  case DType::i8:
    return loadAs<int8_t>(from, n, to);
  case DType::i16:
    return loadAs<int16_t>(from, n, to);
  case DType::i32:
    return loadAs<int32_t>(from, n, to);
  case DType::i64:
    return loadAs<int64_t>(from, n, to);
  case DType::u2:
  case DType::u4:
  case DType::u8:
  case DType::boolean:
  case DType::f8e8m0:
    return loadAs<uint8_t>(from, n, to);
  case DType::u16:
    return loadAs<uint16_t>(from, n, to);
  case DType::u32:
    return loadAs<uint32_t>(from, n, to);
  case DType::u64:
    return loadAs<uint64_t>(from, n, to);
  case DType::none:
    return;
  }
}

static int64_t truncate64(double v) { return v >= -0x1p63 && v < 0x1p63 ? int64_t(v) : INT64_MIN; }
static int64_t truncate32(double v) { return v > -0x1p31 - 1 && v < 0x1p31 ? int64_t(v) : INT32_MIN; }

/// An integer of type T by the rules of `store`.
template <class T, class C> static T toInteger(C v) {
  if constexpr (!std::is_same_v<C, double>)
    return T(v);
  else if constexpr (std::is_same_v<T, uint64_t>)
    return v >= 0x1p63 && v < 0x1p64 ? uint64_t(v) : uint64_t(truncate64(v));
  else if constexpr (sizeof(T) == 8 || std::is_same_v<T, uint32_t>)
    return T(truncate64(v));
  else
    return T(truncate32(v));
}

template <class C> C fold::fromDouble(double v) {
  if constexpr (std::is_same_v<C, double>)
    return v;
  else
    return toInteger<C>(v);
}

template <class T, class C> static void storeAs(const C *from, int64_t n, uint8_t *to) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    if constexpr (std::is_floating_point_v<T>)
      v = T(from[i]);
    else
      v = toInteger<T>(from[i]);
    std::memcpy(to + i * sizeof v, &v, sizeof v);
  }
}

template <class C> void fold::store(DType type, const C *from, int64_t n, uint8_t *to, bool saturate) {
  switch (type) {
  case DType::f32:
    return storeAs<float>(from, n, to);
  case DType::f64:
    return storeAs<double>(from, n, to);
  case DType::f16:
  case DType::bf16:
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits = encodeSmall(type, double(from[i]));
      to[2 * i] = bits;
      to[2 * i + 1] = bits >> 8;
    }
    return;
  case DType::f8e4m3fn:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2:
  case DType::f8e5m2fnuz:
  case DType::f4e2m1:
    for (int64_t i = 0; i < n; ++i)
      to[i] = encodeSmall(type, double(from[i]), saturate);
    return;
  case DType::boolean:
    for (int64_t i = 0; i < n; ++i)
      to[i] = from[i] != 0;
    return;
  case DType::i2:
  case DType::i4:
    for (int64_t i = 0, shift = 8 - bitWidth(type); i < n; ++i)
      to[i] = uint8_t(int8_t(toInteger<int8_t>(from[i]) << shift) >> shift);
    return;
  case DType::u2:
  case DType::u4:
    for (int64_t i = 0, mask = (1 << bitWidth(type)) - 1; i < n; ++i)
      to[i] = toInteger<uint8_t>(from[i]) & mask;
    return;
  case DType::i8:
    return storeAs<int8_t>(from, n, to);
  case DType::i16:
    return storeAs<int16_t>(from, n, to);
  case DType::i32:
    return storeAs<int32_t>(from, n, to);
  case DType::i64:
    return storeAs<int64_t>(from, n, to);
  case DType::u8:
  case DType::f8e8m0:
    return storeAs<uint8_t>(from, n, to);
  case DType::u16:
    return storeAs<uint16_t>(from, n, to);
  case DType::u32:
    return storeAs<uint32_t>(from, n, to);
  case DType::u64:
    return storeAs<uint64_t>(from, n, to);
  case DType::none:
    return;
  }
}

namespace mrcc::fold {
template void load(DType, const uint8_t *, int64_t, double *);
template void load(DType, const uint8_t *, int64_t, int64_t *);
template void load(DType, const uint8_t *, int64_t, uint64_t *);
template void store(DType, const double *, int64_t, uint8_t *, bool);
template void store(DType, const int64_t *, int64_t, uint8_t *, bool);
template void store(DType, const uint64_t *, int64_t, uint8_t *, bool);
template double fromDouble(double);
template int64_t fromDouble(double);
template uint64_t fromDouble(double);
} // namespace mrcc::fold

//===-- tensors ---------------------------------------------------------------------------------------------------===//

int64_t fold::product(ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

int64_t Tensor::size() const { return product(dims); }

Tensor Tensor::dense() const {
  if (!splat)
    return *this;
  Tensor out = makeTensor(type, dims);
  for (int64_t i = 0, n = size(), w = width(); i < n; ++i)
    std::memcpy(out.data() + i * w, bytes.data(), w);
  return out;
}

Tensor fold::makeTensor(DType type, ArrayRef<int64_t> dims) {
  Tensor t;
  t.type = type;
  t.dims.assign(dims.begin(), dims.end());
  t.owned = std::make_shared<std::vector<uint8_t>>(product(dims) * t.width());
  t.bytes = *t.owned;
  return t;
}

Tensor fold::makeSplat(DType type, ArrayRef<int64_t> dims, ArrayRef<uint8_t> element) {
  Tensor t;
  t.type = type;
  t.dims.assign(dims.begin(), dims.end());
  t.splat = true;
  t.owned = std::make_shared<std::vector<uint8_t>>(element.begin(), element.end());
  t.bytes = *t.owned;
  return t;
}

Dims fold::stridesOf(ArrayRef<int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (int64_t i = int64_t(dims.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

DType fold::resultType(Operation *op, unsigned i) {
  return toDType(cast<RankedTensorType>(op->getResult(i).getType()).getElementType());
}
Dims fold::resultDims(Operation *op, unsigned i) {
  return Dims(cast<RankedTensorType>(op->getResult(i).getType()).getShape());
}

llvm::Error fold::checkMultiplyAdds(Operation *op, ArrayRef<int64_t> factors) {
  double all = 1;
  for (int64_t f : factors)
    all *= double(f);
  if (all <= double(maxFoldedMultiplyAdds))
    return llvm::Error::success();
  return llvm::createStringError(std::make_error_code(std::errc::result_out_of_range),
                                 llvm::formatv("{0} of {1:E2} multiply-adds is above the folder's limit of {2}",
                                               op->getName().getStringRef(), all, maxFoldedMultiplyAdds)
                                     .str());
}
