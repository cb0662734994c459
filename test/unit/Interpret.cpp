#include "Interpret.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/ADT/DenseMap.h"
#include <cmath>
#include <limits>
#include <random>

using namespace mlir;
using namespace mrcc;
using TestValue = mrcc::test::Value;

static ConstantData dataOf(const TestValue &v) { return {v.type, v.bytes, v.splat, nullptr}; }
static const float *floats(const ConstantData &d) { return reinterpret_cast<const float *>(d.bytes.data()); }

/// Element `i` of dense f32, f16 or bf16 bytes.
static double readFloat(FloatType type, const uint8_t *bytes, int64_t i) {
  const unsigned width = type.getWidth() / 8;
  uint32_t bits = 0;
  std::memcpy(&bits, bytes + i * width, width);
  return llvm::APFloat(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits)).convertToDouble();
}
static void writeFloat(FloatType type, uint8_t *bytes, int64_t i, double value) {
  llvm::APFloat x(value);
  bool lost;
  x.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lost);
  const auto bits = uint32_t(x.bitcastToAPInt().getZExtValue());
  std::memcpy(bytes + i * (type.getWidth() / 8), &bits, type.getWidth() / 8);
}

static llvm::Error failed(const llvm::Twine &message) { return llvm::createStringError(message); }

/// softmax(q k^T scale + mask) v in double.
static TestValue attention(AttentionOp op, ArrayRef<ConstantData> in) {
  auto q = in[0].type.getShape(), k = in[1].type.getShape(), v = in[2].type.getShape();
  int64_t B = q[0], H = q[1], M = q[2], D = q[3], N = k[2], E = v[3];
  TestValue out;
  out.type = RankedTensorType::get({B, H, M, E}, in[0].type.getElementType());
  auto element = cast<FloatType>(out.type.getElementType());
  out.bytes.resize(B * H * M * E * element.getWidth() / 8);
  auto at = [&](const ConstantData &d, int64_t i) { return readFloat(element, d.bytes.data(), d.isSplat ? 0 : i); };
  auto mask = [&](std::array<int64_t, 4> where) -> double {
    if (!in[3].type)
      return 0;
    auto dims = in[3].type.getShape();
    int64_t offset = 0, lead = 4 - dims.size();
    for (size_t i = 0; i < dims.size(); ++i)
      offset = offset * dims[i] + (dims[i] == 1 ? 0 : where[lead + i]);
    return at(in[3], offset);
  };
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t m = 0; m < M; ++m) {
        std::vector<double> s(N);
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t n = 0; n < N; ++n) {
          for (int64_t d = 0; d < D; ++d)
            s[n] += at(in[0], ((b * H + h) * M + m) * D + d) * at(in[1], ((b * H + h) * N + n) * D + d);
          s[n] = s[n] * op.getScale().convertToFloat() + mask({b, h, m, n});
          top = std::max(top, s[n]);
        }
        for (double &x : s)
          sum += x = std::exp(x - top);
        for (int64_t e = 0; e < E; ++e) {
          double total = 0;
          for (int64_t n = 0; n < N; ++n)
            total += s[n] / sum * at(in[2], ((b * H + h) * N + n) * E + e);
          writeFloat(element, out.bytes.data(), ((b * H + h) * M + m) * E + e, total);
        }
      }
  return out;
}

/// The weights as they were before pack-weights, written from the layouts that PackOp describes.
static TestValue unpacked(Operation *op, const ConstantData &packed) {
  SmallVector<int64_t> dims;
  std::vector<float> out;
  const float *from = floats(packed);
  if (op->hasAttr("packed_k")) {
    int64_t k = op->getAttrOfType<IntegerAttr>("packed_k").getInt(),
            n = op->getAttrOfType<IntegerAttr>("packed_n").getInt();
    dims = {k, n};
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j)
        out.push_back(from[(j / 16 * k + i) * 16 + j % 16]);
  } else {
    auto kernel = op->getAttrOfType<DenseI64ArrayAttr>("packed_kernel").asArrayRef();
    int64_t oc = op->getAttrOfType<IntegerAttr>("packed_oc").getInt(),
            group = op->getAttrOfType<IntegerAttr>("group").getInt();
    int64_t taps = 1, ic = cast<RankedTensorType>(op->getOperand(0).getType()).getShape().back() / group,
            ocg = oc / group;
    for (int64_t k : kernel)
      taps *= k;
    int64_t kc = packedChannelBlock(ic), blocks = (ocg + 15) / 16;
    bool depthwise = packed.type.getRank() == 2, flip = isa<ConvTransposeOp>(op);
    auto read = [&](int64_t o, int64_t i, int64_t t) { // conv's own order: [OC, IC/group, taps]
      if (depthwise)
        return from[t * oc + o];
      int64_t g = o / ocg;
      o %= ocg;
      return from[((((g * (ic / kc) + i / kc) * blocks + o / 16) * taps + t) * kc + i % kc) * 16 + o % 16];
    };
    if (!flip) {
      dims = {oc, ic};
      for (int64_t o = 0; o < oc; ++o)
        for (int64_t i = 0; i < ic; ++i)
          for (int64_t t = 0; t < taps; ++t)
            out.push_back(read(o, i, t));
    } else {
      dims = {ic * group, ocg};
      for (int64_t i = 0; i < ic * group; ++i)
        for (int64_t o = 0; o < ocg; ++o)
          for (int64_t t = 0; t < taps; ++t)
            out.push_back(read(i / ic * ocg + o, i % ic, taps - 1 - t));
    }
    dims.append(kernel.begin(), kernel.end());
  }
  TestValue v;
  v.type = RankedTensorType::get(dims, packed.type.getElementType());
  v.bytes.assign(reinterpret_cast<uint8_t *>(out.data()), reinterpret_cast<uint8_t *>(out.data() + out.size()));
  return v;
}

static llvm::Expected<std::vector<TestValue>> runOp(Operation *op, SmallVector<ConstantData> operands) {
  if (auto a = dyn_cast<AttentionOp>(op)) {
    std::vector<TestValue> out;
    out.push_back(attention(a, operands));
    return out;
  }
  if (!op->hasAttr("packed_k") && !op->hasAttr("packed_kernel"))
    return evaluate(op, operands);
  TestValue weights = unpacked(op, operands[1]);
  OpBuilder b(op);
  op->setOperand(1, makeConstant(b, op->getLoc(), toAttr(std::move(weights)))); // its dims matter for auto_pad
  operands[1] = *getConstant(op->getOperand(1));
  for (StringRef name : {"packed_k", "packed_n", "packed_kernel", "packed_oc"})
    op->removeAttr(name);
  return evaluate(op, operands);
}

llvm::Expected<std::vector<TestValue>> mrcc::test::interpret(func::FuncOp function, ArrayRef<Value> inputs) {
  OwningOpRef<func::FuncOp> copy(cast<func::FuncOp>(function->clone()));
  Block &block = copy->front();
  llvm::DenseMap<mlir::Value, TestValue> values;
  OpBuilder b(function.getContext());
  auto set = [&](mlir::Value v, TestValue value) {
    v.setType(value.type);
    // Shapes and axes are looked up as constants by shape inference.
    if (value.type.getNumElements() <= 64 && isa<IntegerType>(value.type.getElementType()) &&
        !v.getDefiningOp<ConstantOp>()) {
      b.setInsertionPointToStart(&block);
      TestValue bytes = value;
      v.replaceAllUsesWith(makeConstant(b, v.getLoc(), toAttr(std::move(bytes))));
    }
    values[v] = std::move(value);
  };
  for (auto [argument, value] : llvm::zip_equal(block.getArguments(), inputs))
    set(argument, value);
  for (Operation &op : block.without_terminator()) {
    if (isa<NoneOp, ConstantOp>(op))
      continue;
    if (mlir::failed(reinfer(&op)))
      return ::failed("shape inference failed: " + op.getName().getStringRef());
    SmallVector<ConstantData> operands;
    for (mlir::Value v : op.getOperands()) {
      if (isa<NoneType>(v.getType()))
        operands.push_back({});
      else if (auto it = values.find(v); it != values.end())
        operands.push_back(dataOf(it->second));
      else
        operands.push_back(*getConstant(v));
    }
    auto results = runOp(&op, operands);
    if (!results)
      return results.takeError();
    for (auto [v, value] : llvm::zip_equal(op.getResults(), *results))
      set(v, std::move(value));
  }
  std::vector<Value> out;
  for (mlir::Value v : block.getTerminator()->getOperands()) {
    if (auto it = values.find(v); it != values.end()) {
      out.push_back(it->second);
    } else {
      auto data = getConstant(v);
      out.push_back({data->type, std::vector<uint8_t>(data->bytes.begin(), data->bytes.end()), data->isSplat});
    }
  }
  return out;
}

std::vector<int64_t> mrcc::test::chooseDims(func::FuncOp function, unsigned argument) {
  static constexpr int64_t byPosition[] = {2, 6, 5, 7, 3, 4};
  auto names = function.getArgAttrOfType<ArrayAttr>(argument, "mrc.dims");
  std::vector<int64_t> out;
  for (auto [i, n] : llvm::enumerate(cast<RankedTensorType>(function.getArgumentTypes()[argument]).getShape())) {
    auto name = names ? dyn_cast<StringAttr>(names[i]) : StringAttr();
    if (!ShapedType::isDynamic(n))
      out.push_back(n);
    else if (name && !name.empty())
      out.push_back(2 + name.getValue().front() % 7); // the same everywhere
    else
      out.push_back(byPosition[i % 6]);
  }
  return out;
}

TestValue mrcc::test::randomValue(RankedTensorType type, unsigned seed) {
  TestValue v;
  v.type = type;
  v.bytes.resize(byteSize(type));
  std::mt19937 random(seed);
  int64_t n = type.getNumElements();
  if (auto element = dyn_cast<FloatType>(type.getElementType()); element && element.getWidth() <= 32) {
    for (int64_t i = 0; i < n; ++i)
      writeFloat(element, v.bytes.data(), i, float(int32_t(random())) / 2147483648.0f);
  } else {
    size_t width = n ? v.bytes.size() / n : 0; // little endian: the lowest byte is enough
    for (int64_t i = 0; i < n; ++i)
      v.bytes[i * width] = random() % (type.getElementType().isInteger(1) ? 2 : 4);
  }
  return v;
}

double mrcc::test::difference(const Value &a, const Value &b) {
  constexpr double differs = std::numeric_limits<double>::infinity();
  if (a.type != b.type)
    return differs;
  auto element = [&](const Value &v, int64_t i) { return v.splat ? 0 : i; };
  int64_t n = a.type.getNumElements();
  double largest = 0, worst = 0;
  if (!isa<Float32Type, Float16Type, BFloat16Type>(a.type.getElementType())) {
    size_t width = bitWidth(toDType(a.type.getElementType())) / 8;
    for (int64_t i = 0; i < n; ++i)
      if (std::memcmp(a.bytes.data() + element(a, i) * width, b.bytes.data() + element(b, i) * width, width))
        return differs;
    return 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    auto type = cast<FloatType>(a.type.getElementType());
    double x = readFloat(type, a.bytes.data(), element(a, i)), y = readFloat(type, b.bytes.data(), element(b, i));
    if (std::isnan(x) || std::isnan(y)) {
      if (std::isnan(x) != std::isnan(y))
        return differs;
      continue;
    }
    largest = std::max(largest, std::abs(x));
    worst = std::max(worst, x == y ? 0 : std::abs(x - y));
  }
  return worst == 0 ? 0 : worst / std::max(largest, 1e-30);
}
