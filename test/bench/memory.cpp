// Rows of kernels that memory bounds. Bodies are written as lib/Form writes them; maps of convolutional nets are
// channels last, as form-kernels leaves them.
#include "KernelBench.h"
#include <bit>

using namespace mrcc;
using namespace mrcc::testing;

namespace mrcc::bench {
namespace {

using Dims = std::vector<int64_t>;

int64_t bytesOf(const Dims &dims) {
  int64_t bytes = 4;
  for (int64_t d : dims)
    bytes *= d;
  return bytes;
}

int64_t pointsOf(const Dims &dims) { return bytesOf(dims) / 4; }

// Vector operations an element: the exponential clamps, splits off the power of two (3), evaluates five FMAs and
// scales; a division takes as long as five FMAs.
constexpr int64_t exponential = 10, division = 5, sigmoid = exponential + 1 + division;
constexpr int64_t gelu = 3 + 8 + exponential; // the exponential of a polynomial of the clamped size, and one FMA

int64_t bitsOf(float x) { return std::bit_cast<int32_t>(x); }

struct Memory {
  Bench &bench;

  //===-- softmax and norms ---------------------------------------------------------------------------------------===//

  void softmax(int64_t rows, int64_t columns) {
    const std::string label = "softmax " + times({rows, columns});
    if (!bench.wants(label))
      return;
    Tensor x = tensor({rows, columns}, 1), out = tensor({rows, columns});
    bench.run(label, makeSite("softmax", {&out, &x}, {{"axis", {1}}, {"log", {0}}}), {&out, &x},
              {bytesOf(x.dims()), bytesOf(x.dims()), 0, (4 + exponential) * rows * columns});
  }
  void softmaxes() {
    softmax(8 * 64, 64);    // U-Net: 8 heads at 8x8
    softmax(8 * 1024, 77);  // over a text's tokens, 32x32
    softmax(8 * 4096, 77);  // 64x64
    softmax(12 * 197, 197); // ViT-B
    softmax(1024, 1024);    // U-Net: a head at 32x32
    softmax(2048, 4096);    // half a head at 64x64
    softmax(20, 6625);      // recognition: columns of a line, characters
    softmax(80, 6625);
  }
  void layerNorm(int64_t rows, int64_t columns) {
    const std::string label = "layer_norm " + times({rows, columns});
    if (!bench.wants(label))
      return;
    Tensor x = tensor({rows, columns}, 1), scale = tensor({rows, columns}, 2), bias = tensor({rows, columns}, 3),
           out = tensor({rows, columns});
    scale.broadcast({0}), bias.broadcast({0});
    bench.run(label,
              makeSite("layer_norm", {&out, &x, &scale, &bias},
                       {{"axis", {1}}, {"rms", {0}}, {"epsilon", {bitsOf(1e-5f)}}, {"scale", {1}}, {"bias", {1}}}),
              {&out, &x, &scale, &bias}, {bytesOf(x.dims()), bytesOf(x.dims()), 0, 6 * rows * columns});
  }
  void layerNorms() {
    layerNorm(197, 768);  // ViT-B
    layerNorm(77, 768);   // CLIP's text
    layerNorm(1024, 640); // U-Net's attention at 32x32
    layerNorm(4096, 320);
    layerNorm(80, 120); // SVTR
    layerNorm(6 * 160, 120);
  }
  void groupNorm(int64_t side, int64_t channels) {
    const std::string label = "group_norm silu " + times({side, side, channels});
    if (!bench.wants(label))
      return;
    const Dims dims{1, side, side, channels};
    Tensor x = tensor(dims, 1), scale = tensor(dims, 2), bias = tensor(dims, 3), out = tensor(dims);
    scale.broadcast({0, 1, 2}), bias.broadcast({0, 1, 2});
    bench.run(label,
              makeSite("group_norm", {&out, &x, &scale, &bias},
                       {{"groups", {32}}, {"epsilon", {bitsOf(1e-5f)}}, {"scale", {1}}, {"bias", {1}}},
                       "f32 acc; f32 silu %0 -> %1"),
              {&out, &x, &scale, &bias}, {bytesOf(dims), bytesOf(dims), bytesOf(dims), (5 + sigmoid) * pointsOf(dims)});
  }
  void groupNorms() { // U-Net
    groupNorm(64, 320);
    groupNorm(64, 640);
    groupNorm(32, 320);
    groupNorm(32, 640);
    groupNorm(32, 1280);
    groupNorm(16, 640);
    groupNorm(16, 1280);
    groupNorm(8, 1280);
  }

  //===-- element-wise --------------------------------------------------------------------------------------------===//

  /// `inputs`: which dims each input repeats along; `operations`: of one element.
  void map(const std::string &name, const Dims &dims, const std::vector<std::vector<int>> &inputs, int64_t operations,
           const std::string &body, std::vector<int64_t> immediates = {}) {
    const std::string label = "elementwise " + name + " " + times(dims);
    if (!bench.wants(label))
      return;
    Demand work{0, bytesOf(dims), 0, operations * pointsOf(dims)};
    Tensor out = tensor(dims);
    std::vector<Tensor> read;
    for (const std::vector<int> &repeated : inputs) {
      read.push_back(tensor(dims, read.size() + 1));
      read.back().broadcast(repeated);
      int64_t bytes = bytesOf(dims);
      for (int d : repeated)
        bytes /= dims[d];
      work.read += bytes;
    }
    std::vector<Tensor *> all{&out};
    for (Tensor &t : read)
      all.push_back(&t);
    LaunchSite site = makeSite("loop", all, {{"extents", dims}}, body);
    site.immediates = std::move(immediates);
    bench.run(label, site, all, work);
  }
  void maps() {
    const std::string add = "f32 load 0; f32 load 1; f32 add %0 %1 -> %2";
    map("add", {1, 56, 56, 256}, {{}, {}}, 1, add); // residuals: ResNet-50, EfficientNet, ViT
    map("add", {1, 28, 28, 40}, {{}, {}}, 1, add);
    map("add", {1, 197, 768}, {{}, {}}, 1, add);
    map("mul", {1, 64, 64, 320}, {{}, {}}, 1, "f32 load 0; f32 load 1; f32 mul %0 %1 -> %2");
    map("bias add", {1, 197, 3072}, {{}, {0, 1}}, 1, add);
    map("time add", {1, 32, 32, 640}, {{}, {0, 1, 2}}, 1, add);
    map("scale", {1, 28, 28, 240}, {{}, {1, 2}}, 1, "f32 load 0; f32 load 1; f32 mul %0 %1 -> %2"); // squeeze, excite
    map("scale", {1, 112, 112, 96}, {{}, {1, 2}}, 1, "f32 load 0; f32 load 1; f32 mul %0 %1 -> %2");
    const std::string siluBody = "f32 load 0; f32 silu %0 -> %1", geluBody = "f32 load 0; f32 gelu %0 -> %1";
    map("silu", {1, 64, 64, 320}, {{}}, sigmoid, siluBody);                              // U-Net
    map("silu", {1, 112, 112, 96}, {{}}, sigmoid, siluBody);                             // EfficientNet
    map("sigmoid", {1, 480, 640, 1}, {{}}, sigmoid, "f32 load 0; f32 sigmoid %0 -> %1"); // detection
    map("gelu", {1, 197, 3072}, {{}}, gelu, geluBody);                                   // ViT-B
    map("gelu", {1, 4096, 1280}, {{}}, gelu, geluBody);                                  // U-Net
    map("geglu", {1, 1024, 2560}, {{}, {}}, gelu + 1, "f32 load 0; f32 gelu %0; f32 load 1; f32 mul %1 %2 -> %3");
    const std::string hardSwish = "f32 load 0; f32 param 0; f32 mul %0 %1; f32 const 0.5; f32 add %2 %3; f32 const 0; "
                                  "f32 max %4 %5; f32 const 1; f32 min %6 %7; f32 mul %0 %8 -> %9";
    map("hardswish", {1, 112, 112, 64}, {{}}, 5, hardSwish, {bitsOf(1 / 6.0f)}); // MobileNetV3
    map("hardswish", {1, 120, 160, 96}, {{}}, 5, hardSwish, {bitsOf(1 / 6.0f)}); // detection
  }

  //===-- resize --------------------------------------------------------------------------------------------------===//

  /// Twice the height and width of [1, channels, h, w], channels last in memory.
  void resize(const std::string &mode, int64_t h, int64_t w, int64_t channels, const std::string &body) {
    const std::string label = "resize " + mode + " x2 " + times({h, w, channels});
    if (!bench.wants(label))
      return;
    const std::vector<int> channelsLast{0, 2, 3, 1};
    Tensor x = tensor({1, channels, h, w}, 1, channelsLast), out = tensor({1, channels, 2 * h, 2 * w}, 0, channelsLast);
    LaunchSite site = makeSite("loop", {&out, &x}, {{"extents", out.dims()}}, body);
    site.immediates = {bitsOf(2), bitsOf(2)};
    bench.run(label, site, {&out, &x},
              {bytesOf(x.dims()), bytesOf(out.dims()), 0, (mode == "linear" ? 4 : 1) * pointsOf(out.dims())});
  }
  void resizes() {
    const std::string nearest =
        "i64 iter 0; i64 iter 1; i64 iter 2; f32 cast %2; f32 param 0; f32 div %3 %4; i64 extent 0 2; f32 floor %5; "
        "i64 cast %7; i64 clamp_index %8 %6; i64 iter 3; f32 cast %10; f32 param 1; f32 div %11 %12; i64 extent 0 3; "
        "f32 floor %13; i64 cast %15; i64 clamp_index %16 %14; f32 load_at 0 %0 %1 %9 %17 -> %18";
    const std::string linear =
        "i64 iter 0; i64 iter 1; i64 iter 2; f32 cast %2; f32 const 0.5; f32 add %3 %4; f32 param 0; f32 div %5 %6; "
        "f32 sub %7 %4; i64 extent 0 2; f32 floor %8; f32 sub %8 %10; i64 cast %10; i64 const 1; i64 add %12 %13; "
        "i64 clamp_index %12 %9; f32 const 1; f32 sub %16 %11; i64 clamp_index %14 %9; i64 iter 3; f32 cast %19; "
        "f32 add %20 %4; f32 param 1; f32 div %21 %22; f32 sub %23 %4; i64 extent 0 3; f32 floor %24; f32 sub %24 %26; "
        "i64 cast %26; i64 add %28 %13; i64 clamp_index %28 %25; f32 sub %16 %27; i64 clamp_index %29 %25; "
        "f32 load_at 0 %0 %1 %15 %30; f32 mul %17 %33; f32 load_at 0 %0 %1 %18 %30; f32 mul %11 %35; f32 add %34 %36; "
        "f32 mul %31 %37; f32 load_at 0 %0 %1 %15 %32; f32 mul %17 %39; f32 load_at 0 %0 %1 %18 %32; f32 mul %11 %41; "
        "f32 add %40 %42; f32 mul %27 %43; f32 add %38 %44 -> %45";
    resize("nearest", 30, 40, 96, nearest); // detection's pyramid
    resize("nearest", 60, 80, 96, nearest);
    resize("nearest", 60, 80, 24, nearest);
    resize("nearest", 32, 32, 640, nearest); // U-Net
    resize("nearest", 16, 16, 1280, nearest);
    resize("linear", 28, 28, 256, linear); // segmentation
    resize("linear", 60, 80, 64, linear);
    resize("linear", 64, 64, 21, linear);
    resize("linear", 240, 320, 1, linear); // a mask
  }

  //===-- transpositions ------------------------------------------------------------------------------------------===//

  /// A copy of a tensor whose memory has `order` (slowest first) to one that is dense in the order of its dims.
  void transpose(const std::string &name, const Dims &dims, const std::vector<int> &order) {
    const std::string label = "transpose " + name + " " + times(dims);
    if (!bench.wants(label))
      return;
    Tensor x = tensor(dims, 1, order), out = tensor(dims);
    bench.run(label, makeSite("loop", {&out, &x}, {{"extents", dims}}, "f32 load 0 -> %0"), {&out, &x},
              {bytesOf(dims), bytesOf(dims), 0, pointsOf(dims)});
  }
  void transposes() {
    transpose("from NCHW", {1, 224, 224, 3}, {0, 3, 1, 2}); // to channels last
    transpose("from NCHW", {1, 480, 640, 3}, {0, 3, 1, 2});
    transpose("from NCHW", {1, 64, 64, 4}, {0, 3, 1, 2});
    transpose("from NCHW", {1, 56, 56, 64}, {0, 3, 1, 2});
    transpose("to NCHW", {1, 3, 512, 512}, {0, 2, 3, 1});
    transpose("to NCHW", {1, 320, 64, 64}, {0, 2, 3, 1});
    transpose("to NCHW", {1, 2048, 7, 7}, {0, 2, 3, 1});
    transpose("2-D", {768, 768}, {1, 0});
    transpose("2-D", {1000, 2048}, {1, 0});
    transpose("2-D", {80, 6625}, {1, 0});
    transpose("split heads", {1, 12, 197, 64}, {0, 2, 1, 3}); // ViT-B
    transpose("split heads", {1, 8, 4096, 40}, {0, 2, 1, 3}); // U-Net
    transpose("keys", {1, 12, 64, 197}, {0, 3, 1, 2});        // heads split and transposed
  }

  //===-- pooling -------------------------------------------------------------------------------------------------===//

  /// A window over [1, h, w, channels], channels last: [1, channels, oh, ow, k, k] is the domain.
  void pool(bool isMax, int64_t h, int64_t w, int64_t channels, int64_t k, int64_t stride, int64_t pad) {
    const std::string label = std::string("pool ") + (isMax ? "max " : "average ") + times({k, k}) + " s" +
                              std::to_string(stride) + " " + times({h, w, channels});
    if (!bench.wants(label))
      return;
    const std::vector<int> channelsLast{0, 2, 3, 1};
    Tensor x = tensor({1, channels, h, w}, 1, channelsLast),
           out = tensor({1, channels, (h + 2 * pad - k) / stride + 1, (w + 2 * pad - k) / stride + 1}, 0, channelsLast);
    LaunchSite site = makeSite("loop", {&out, &x}, {{"reduce", {4, 5}}});
    Expr &e = site.body;
    std::vector<uint32_t> at{e.iter(0), e.iter(1)};
    uint32_t inside = e.integer(DType::boolean, 1);
    for (int d = 0; d < 2; ++d) {
      uint32_t n = e.extent(0, 2 + d);
      uint32_t place =
          e.binary(BinaryKind::add, e.binary(BinaryKind::mul, e.iter(2 + d), e.integer(DType::i64, stride)),
                   e.binary(BinaryKind::sub, e.iter(4 + d), e.integer(DType::i64, pad)));
      inside = e.binary(BinaryKind::logical_and, inside, e.binary(BinaryKind::ge, place, e.integer(DType::i64, 0)));
      inside = e.binary(BinaryKind::logical_and, inside, e.binary(BinaryKind::lt, place, n));
      at.push_back(e.clampIndex(place, n));
    }
    uint32_t value = e.loadAt(DType::f32, 0, at), zero = e.constant(DType::f32, 0);
    if (isMax)
      e.results = {e.select(inside, value, e.constant(DType::f32, -HUGE_VAL)), e.acc(DType::f32)};
    else
      e.results = {e.select(inside, value, zero), e.select(inside, e.constant(DType::f32, 1), zero),
                   e.binary(BinaryKind::div, e.acc(DType::f32, 0), e.acc(DType::f32, 1))};
    Dims extents = out.dims();
    for (int i = 0; i < 2; ++i) {
      extents.push_back(k);
      site.views[0].dims.push_back(1);
      site.views[0].strides.push_back(0);
    }
    site.config["extents"] = extents;
    site.words["combine"] = isMax ? "max_number" : "sum sum";
    bench.run(label, site, {&out, &x}, {bytesOf(x.dims()), bytesOf(out.dims()), 0, k * k * pointsOf(out.dims())});
  }
  void globalAverage(int64_t h, int64_t w, int64_t channels) {
    const std::string label = "pool global average " + times({h, w, channels});
    if (!bench.wants(label))
      return;
    const std::vector<int> channelsLast{0, 2, 3, 1};
    Tensor x = tensor({1, channels, h, w}, 1, channelsLast), out = tensor({1, channels, 1, 1}, 0, channelsLast);
    Tensor stored = out;
    stored.broadcast({2, 3});
    LaunchSite site = makeSite("loop", {&stored, &x}, {{"extents", x.dims()}, {"reduce", {2, 3}}},
                               "f32 load 0; f32 acc; i64 param 0; f32 cast %2; f32 div %1 %3 -> %0 %4");
    site.immediates = {h * w};
    site.words["combine"] = "sum";
    bench.run(label, site, {&out, &x}, {bytesOf(x.dims()), bytesOf(out.dims()), 0, pointsOf(x.dims())});
  }
  void pools() {
    pool(true, 112, 112, 64, 3, 2, 1); // ResNet-50
    pool(true, 80, 75, 64, 3, 2, 1);
    pool(true, 224, 224, 64, 2, 2, 0); // VGG, segmentation
    pool(true, 35, 35, 288, 3, 2, 0);  // Inception
    pool(false, 56, 56, 128, 2, 2, 0); // DenseNet
    pool(false, 28, 28, 256, 2, 2, 0);
    pool(false, 14, 14, 512, 2, 2, 0);
    globalAverage(7, 7, 2048);  // ResNet-50
    globalAverage(7, 7, 1280);  // MobileNet, EfficientNet
    globalAverage(28, 28, 240); // squeeze, excite
    globalAverage(112, 112, 96);
  }
};
} // namespace

void runMemory(Bench &bench) {
  Memory memory{bench};
  memory.softmaxes();
  memory.layerNorms();
  memory.groupNorms();
  memory.maps();
  memory.resizes();
  memory.transposes();
  memory.pools();
}

} // namespace mrcc::bench
