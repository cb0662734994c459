#include "mrcc/IR/Mrc.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mrcc;

#include "mrcc/IR/MrcDialect.cpp.inc"
#include "mrcc/IR/MrcEnums.cpp.inc"
#include "mrcc/IR/MrcInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mrcc/IR/MrcAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "mrcc/IR/MrcOps.cpp.inc"

void MrcDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mrcc/IR/MrcAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mrcc/IR/MrcOps.cpp.inc"
      >();
}

ConstantStore &MrcDialect::getStore() {
  if (!store) {
    owned = std::make_shared<ConstantStore>();
    store = owned.get();
  }
  return *store;
}

Operation *MrcDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto typed = dyn_cast<TypedAttr>(value);
  if (!typed || typed.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, type, typed);
}

//===-- constants -------------------------------------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult ConstantOp::inferShapes(SmallVectorImpl<Type> &types) {
  types.push_back(getValue().getType());
  return success();
}

/// The raw buffer of a dense attribute holds i1 packed in bits when printed by old rules; in LLVM 22 each bool is read
/// through the iterator, so unpack by value.
static ConstantData unpackDense(DenseElementsAttr dense) {
  ConstantData data{cast<RankedTensorType>(dense.getType()), {}, dense.isSplat(), nullptr};
  Type element = data.type.getElementType();
  if (element.isInteger(1)) {
    auto bytes = std::make_shared<std::vector<uint8_t>>();
    if (dense.isSplat())
      bytes->push_back(dense.getSplatValue<bool>());
    else
      for (bool v : dense.getValues<bool>())
        bytes->push_back(v);
    data.bytes = *bytes;
    data.keeper = bytes;
    return data;
  }
  if (DType type = toDType(element); isPacked(type)) { // one value a byte inside MLIR
    std::vector<uint8_t> loose;
    auto put = [&](auto zero) {
      using Element = decltype(zero);
      auto bits = [](const Element &v) {
        if constexpr (std::is_same_v<Element, APFloat>)
          return uint8_t(v.bitcastToAPInt().getZExtValue());
        else
          return uint8_t(v.getZExtValue());
      };
      if (dense.isSplat())
        return loose.push_back(bits(dense.getSplatValue<Element>()));
      for (const Element &v : dense.getValues<Element>())
        loose.push_back(bits(v));
    };
    if (isa<FloatType>(element))
      put(APFloat(0.0));
    else
      put(APInt());
    auto bytes = std::make_shared<std::vector<uint8_t>>(packElements(type, loose));
    data.bytes = *bytes;
    data.keeper = bytes;
    return data;
  }
  ArrayRef<char> raw = dense.getRawData();
  data.bytes = {reinterpret_cast<const uint8_t *>(raw.data()), raw.size()};
  return data;
}

std::optional<ConstantData> mrcc::getConstant(Attribute attr, MLIRContext *context) {
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(attr); dense && isa<RankedTensorType>(dense.getType()))
    return unpackDense(dense);
  if (auto blob = dyn_cast_or_null<BlobAttr>(attr)) {
    auto *entry = context->getLoadedDialect<MrcDialect>()->getStore().lookup(blob.getKey());
    if (!entry)
      return std::nullopt;
    return ConstantData{cast<RankedTensorType>(blob.getType()), entry->bytes, false, nullptr};
  }
  return std::nullopt;
}

std::optional<ConstantData> mrcc::getConstant(Value value) {
  auto op = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  return op ? getConstant(op.getValue(), op.getContext()) : std::nullopt;
}

template <typename T> static int64_t readInteger(const uint8_t *at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return int64_t(v);
}

static std::optional<int64_t> integerAt(DType type, const uint8_t *at) {
  switch (type) {
  case DType::i8:
    return readInteger<int8_t>(at);
  case DType::i16:
    return readInteger<int16_t>(at);
  case DType::i32:
    return readInteger<int32_t>(at);
  case DType::i64:
    return readInteger<int64_t>(at);
  case DType::u8:
  case DType::boolean:
    return readInteger<uint8_t>(at);
  case DType::u16:
    return readInteger<uint16_t>(at);
  case DType::u32:
    return readInteger<uint32_t>(at);
  case DType::u64:
    return readInteger<uint64_t>(at);
  default:
    return std::nullopt;
  }
}

std::optional<SmallVector<int64_t>> mrcc::getIntegers(Value value) {
  auto data = getConstant(value);
  if (!data)
    return std::nullopt;
  DType type = toDType(data->type.getElementType());
  size_t width = bitWidth(type) / 8, n = data->type.getNumElements();
  SmallVector<int64_t> out;
  for (size_t i = 0; i < n; ++i) {
    auto v = integerAt(type, data->bytes.data() + (data->isSplat ? 0 : i * width));
    if (!v)
      return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<double> mrcc::getScalar(Value value) {
  auto data = getConstant(value);
  if (!data || !(data->isSplat || data->type.getNumElements() == 1))
    return std::nullopt;
  Type element = data->type.getElementType();
  if (auto type = dyn_cast<FloatType>(element)) {
    if (type.getWidth() > 64)
      return std::nullopt;
    uint64_t bits = 0;
    std::memcpy(&bits, data->bytes.data(), (type.getWidth() + 7) / 8);
    APFloat v(type.getFloatSemantics(), APInt(type.getWidth(), bits));
    bool lost;
    v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return v.convertToDouble();
  }
  if (auto v = integerAt(toDType(element), data->bytes.data()))
    return double(*v);
  return std::nullopt;
}

static constexpr int64_t largestInline = 64; // elements of a constant that is printed in the IR

/// One element's bytes if all are equal, else nothing. Sub-byte types never count as repeated.
static ArrayRef<uint8_t> repeatedElement(RankedTensorType type, ArrayRef<uint8_t> bytes) {
  size_t width = bitWidth(toDType(type.getElementType())) / 8;
  if (width == 0 || bytes.size() < width)
    return {};
  bool equal = bytes.size() == width || std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
  return equal ? bytes.take_front(width) : ArrayRef<uint8_t>();
}

static TypedAttr denseAttr(RankedTensorType type, ArrayRef<uint8_t> bytes, bool splat) {
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values(bytes.begin(), bytes.end());
    return splat ? DenseElementsAttr::get(type, values[0]) : DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  if (DType packed = toDType(type.getElementType()); isPacked(packed)) {
    unsigned width = bitWidth(packed);
    auto floating = dyn_cast<FloatType>(type.getElementType());
    SmallVector<APInt> values;
    SmallVector<APFloat> floats;
    for (uint8_t v : unpackElements(packed, bytes, splat ? 1 : type.getNumElements())) {
      APInt bits(width, v, /*isSigned=*/false, /*implicitTrunc=*/true);
      if (floating)
        floats.push_back(APFloat(floating.getFloatSemantics(), bits));
      else
        values.push_back(bits);
    }
    return floating ? DenseElementsAttr::get(type, ArrayRef<APFloat>(floats))
                    : DenseElementsAttr::get(type, ArrayRef<APInt>(values));
  }
  return DenseElementsAttr::getFromRawBuffer(type, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

/// dense<> where the constant is small or repeated, null where it belongs into the store.
static TypedAttr inlineAttr(RankedTensorType type, ArrayRef<uint8_t> bytes, bool isSplat) {
  if (ArrayRef<uint8_t> one = isSplat ? bytes : repeatedElement(type, bytes); !one.empty())
    return denseAttr(type, one, true);
  if (type.getNumElements() <= largestInline)
    return denseAttr(type, bytes, false);
  return nullptr;
}

TypedAttr mrcc::makeConstantAttr(RankedTensorType type, ArrayRef<uint8_t> bytes, bool isSplat) {
  if (TypedAttr attr = inlineAttr(type, bytes, isSplat))
    return attr;
  MLIRContext *context = type.getContext();
  return BlobAttr::get(context, context->getLoadedDialect<MrcDialect>()->getStore().intern(bytes).key, type);
}

TypedAttr mrcc::makeConstantAttr(RankedTensorType type, std::vector<uint8_t> &&bytes) {
  if (TypedAttr attr = inlineAttr(type, bytes, false))
    return attr;
  MLIRContext *context = type.getContext();
  return BlobAttr::get(context, context->getLoadedDialect<MrcDialect>()->getStore().intern(std::move(bytes)).key, type);
}

TypedAttr mrcc::makeConstantAttr(RankedTensorType type, ArrayRef<uint8_t> bytes, std::shared_ptr<void> keeper) {
  if (TypedAttr attr = inlineAttr(type, bytes, false))
    return attr;
  size_t width = std::max<size_t>(1, bitWidth(toDType(type.getElementType())) / 8);
  if (!keeper || reinterpret_cast<uintptr_t>(bytes.data()) % width)
    return makeConstantAttr(type, bytes);
  MLIRContext *context = type.getContext();
  auto &store = context->getLoadedDialect<MrcDialect>()->getStore();
  return BlobAttr::get(context, store.internMapped(bytes, std::move(keeper)).key, type);
}

Value mrcc::makeConstant(OpBuilder &builder, Location loc, TypedAttr attr) {
  return ConstantOp::create(builder, loc, attr.getType(), attr);
}

Value mrcc::makeIntegers(OpBuilder &builder, Location loc, ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, builder.getI64Type());
  return makeConstant(builder, loc,
                      makeConstantAttr(type, {reinterpret_cast<const uint8_t *>(values.data()), values.size() * 8}));
}

Value mrcc::makeScalar(OpBuilder &builder, Location loc, Type element, double value) {
  auto type = RankedTensorType::get({}, element);
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat v(value);
    bool lost;
    v.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    return makeConstant(builder, loc, DenseElementsAttr::get(type, v));
  }
  constexpr double end = 0x1p63;
  int64_t whole = value >= end ? INT64_MAX : value >= -end ? int64_t(value) : INT64_MIN;
  return makeConstant(
      builder, loc, DenseElementsAttr::get(type, APInt(element.getIntOrFloatBitWidth(), uint64_t(whole), true, true)));
}

//===-- types -----------------------------------------------------------------------------------------------------===//

DType mrcc::toDType(Type t) {
  if (t.isF32())
    return DType::f32;
  if (t.isF64())
    return DType::f64;
  if (t.isF16())
    return DType::f16;
  if (t.isBF16())
    return DType::bf16;
  if (isa<Float8E4M3FNType>(t))
    return DType::f8e4m3fn;
  if (isa<Float8E4M3FNUZType>(t))
    return DType::f8e4m3fnuz;
  if (isa<Float8E5M2Type>(t))
    return DType::f8e5m2;
  if (isa<Float8E5M2FNUZType>(t))
    return DType::f8e5m2fnuz;
  if (isa<Float8E8M0FNUType>(t))
    return DType::f8e8m0;
  if (isa<Float4E2M1FNType>(t))
    return DType::f4e2m1;
  auto i = dyn_cast<IntegerType>(t);
  if (!i)
    return DType::none;
  switch (i.getWidth()) {
  case 1:
    return DType::boolean;
  case 2:
    return i.isUnsigned() ? DType::u2 : DType::i2;
  case 4:
    return i.isUnsigned() ? DType::u4 : DType::i4;
  case 8:
    return i.isUnsigned() ? DType::u8 : DType::i8;
  case 16:
    return i.isUnsigned() ? DType::u16 : DType::i16;
  case 32:
    return i.isUnsigned() ? DType::u32 : DType::i32;
  case 64:
    return i.isUnsigned() ? DType::u64 : DType::i64;
  default:
    return DType::none;
  }
}

Type mrcc::toType(MLIRContext *c, DType type) {
  auto integer = [&](unsigned w) { return IntegerType::get(c, w); };
  auto natural = [&](unsigned w) { return IntegerType::get(c, w, IntegerType::Unsigned); };
  switch (type) {
  case DType::f32:
    return Float32Type::get(c);
  case DType::f64:
    return Float64Type::get(c);
  case DType::f16:
    return Float16Type::get(c);
  case DType::bf16:
    return BFloat16Type::get(c);
  case DType::i8:
    return integer(8);
  case DType::i16:
    return integer(16);
  case DType::i32:
    return integer(32);
  case DType::i64:
    return integer(64);
  case DType::u8:
    return natural(8);
  case DType::u16:
    return natural(16);
  case DType::u32:
    return natural(32);
  case DType::u64:
    return natural(64);
  case DType::boolean:
    return integer(1);
  case DType::f8e4m3fn:
    return Float8E4M3FNType::get(c);
  case DType::f8e4m3fnuz:
    return Float8E4M3FNUZType::get(c);
  case DType::f8e5m2:
    return Float8E5M2Type::get(c);
  case DType::f8e5m2fnuz:
    return Float8E5M2FNUZType::get(c);
  case DType::i4:
    return integer(4);
  case DType::u4:
    return natural(4);
  case DType::f8e8m0:
    return Float8E8M0FNUType::get(c);
  case DType::f4e2m1:
    return Float4E2M1FNType::get(c);
  case DType::i2:
    return integer(2);
  case DType::u2:
    return natural(2);
  case DType::none:
    break;
  }
  return nullptr;
}

static constexpr const char *dtypeNames[] = {
    "none", "f32",  "f64",      "f16",        "bf16",   "i8",         "i16", "i32", "i64",    "u8",     "u16", "u32",
    "u64",  "bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "i4",  "u4",  "f8e8m0", "f4e2m1", "i2",  "u2"};

StringRef mrcc::toString(DType type) {
  return size_t(type) < std::size(dtypeNames) ? dtypeNames[size_t(type)] : "unknown";
}

std::optional<DType> mrcc::parseDType(StringRef text) {
  for (size_t i = 0; i < std::size(dtypeNames); ++i)
    if (text == dtypeNames[i])
      return DType(i);
  return std::nullopt;
}

std::vector<uint8_t> mrcc::packElements(DType type, ArrayRef<uint8_t> loose) {
  const unsigned bits = bitWidth(type), perByte = 8 / bits, mask = (1u << bits) - 1;
  std::vector<uint8_t> out((loose.size() + perByte - 1) / perByte);
  for (size_t i = 0; i < loose.size(); ++i)
    out[i / perByte] |= (loose[i] & mask) << bits * (i % perByte);
  return out;
}

std::vector<uint8_t> mrcc::unpackElements(DType type, ArrayRef<uint8_t> packed, size_t count) {
  const unsigned bits = bitWidth(type), perByte = 8 / bits, mask = (1u << bits) - 1;
  const bool extend = type == DType::i4 || type == DType::i2;
  std::vector<uint8_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    uint8_t v = packed[i / perByte] >> bits * (i % perByte) & mask;
    out[i] = extend && v >> (bits - 1) ? v | ~mask : v;
  }
  return out;
}

size_t mrcc::byteSize(RankedTensorType type) {
  return (size_t(type.getNumElements()) * bitWidth(toDType(type.getElementType())) + 7) / 8;
}

//===-- shapes and locations --------------------------------------------------------------------------------------===//

static void collectNames(Location loc, SmallVectorImpl<StringRef> &names) {
  TypeSwitch<LocationAttr>(loc)
      .Case([&](NameLoc l) {
        if (!llvm::is_contained(names, l.getName().getValue()))
          names.push_back(l.getName());
        collectNames(l.getChildLoc(), names);
      })
      .Case([&](FusedLoc l) {
        for (Location part : l.getLocations())
          collectNames(part, names);
      })
      .Case([&](CallSiteLoc l) { collectNames(l.getCallee(), names); });
}

std::string mrcc::nodeNames(Location loc) {
  SmallVector<StringRef> names;
  collectNames(loc, names);
  return llvm::join(names, ";");
}

std::optional<SmallVector<int64_t>> mrcc::broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  size_t rank = std::max(a.size(), b.size());
  SmallVector<int64_t> out(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x == 1)
      out[i] = y;
    else if (y == 1 || x == y)
      out[i] = x;
    else if (ShapedType::isDynamic(x))
      out[i] = y;
    else if (ShapedType::isDynamic(y))
      out[i] = x;
    else
      return std::nullopt;
  }
  return out;
}

LogicalResult mrcc::reinfer(Operation *op) {
  auto infer = dyn_cast<InferShapes>(op);
  if (!infer)
    return success();
  SmallVector<Type> types;
  if (failed(infer.inferShapes(types)))
    return failure();
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types))
    result.setType(type);
  return success();
}
