// The families conv and conv_transpose: what they ask for, and which kernel does it, the first that fits.
//
//   one output channel, each output reads one input position        the kernel for one channel
//   1x1, any stride, no border, pixels of what it stores in one run the matmul kernel over pixels
//   at most 4 input channels                                        the kernel for few channels
//   3x3, stride 1, f32, enough tiles and channels, not strict       Winograd
//   everything else                                                 the direct kernel
#include "Conv.h"
#include "Families.h"
#include "MatMul.h"
#include <numeric>

namespace mrcc {

int64_t chunkOf(int64_t channels) {
  for (int64_t k = std::min<int64_t>(channels, 80); k > 1; --k)
    if (channels % k == 0)
      return k;
  return 1;
}

static std::vector<int64_t> list(const LaunchSite &site, const char *key, size_t size, int64_t otherwise) {
  auto it = site.config.find(key);
  std::vector<int64_t> values = it == site.config.end() ? std::vector<int64_t>() : it->second;
  values.resize(size, otherwise);
  return values;
}

llvm::Expected<ConvProblem> makeConvProblem(const LaunchSite &site, bool transposed) {
  if (site.numInputs() < 2 || site.output().dims.size() < 3 || site.output().dims.size() != site.input(0).dims.size())
    return llvm::createStringError("a convolution needs views [N, spatial..., C] of one rank and weights");
  ConvProblem p{site.output(), site.input(0), site.input(1), {}, {}, site.get("group", 1)};
  p.extras.assign(site.views.begin() + site.outputs + 2, site.views.end());
  const size_t spatial = p.out.dims.size() - 2;
  auto kernel = list(site, "kernel", spatial, 1), strides = list(site, "strides", spatial, 1);
  auto dilations = list(site, "dilations", spatial, 1), pads = list(site, "pads", 2 * spatial, 0);
  for (size_t d = 0; d < spatial; ++d) {
    ConvDim dim;
    dim.kernel = kernel[d];
    if (!transposed) {
      dim.inputStep = strides[d];
      dim.inputDilation = dilations[d];
      dim.firstTap = {0};
      dim.taps = {kernel[d]};
      dim.start = {-pads[d]};
    } else {
      // Tap k of output o reads position o + k * dilation - border of the input with stride - 1 zeros between elements;
      // only multiples of the stride are elements.
      const int64_t stride = strides[d], dilation = dilations[d], border = dilation * (kernel[d] - 1) - pads[d];
      const int64_t common = std::gcd(stride, dilation);
      dim.phases = stride;
      dim.inputDilation = dilation / common;
      dim.tapStep = stride / common;
      for (int64_t phase = 0; phase < stride; ++phase) {
        int64_t first = 0;
        auto position = [&](int64_t k) { return phase + k * dilation - border; };
        while (first < dim.tapStep && position(first) % stride != 0)
          ++first;
        const bool any = first < dim.tapStep && first < kernel[d];
        dim.firstTap.push_back(any ? first : 0);
        dim.taps.push_back(any ? ceilDiv(kernel[d] - first, dim.tapStep) : 0);
        dim.start.push_back(any ? position(first) / stride : 0);
      }
    }
    p.dims.push_back(dim);
  }
  return p;
}

/// Multiplications as the op is defined, times two.
static int64_t convFlops(const ConvProblem &p) {
  int64_t pixels = p.out.dims[0];
  for (size_t d = 0; d < p.spatial(); ++d) {
    // Taps over all phases make `kernel`, so an output position has kernel / phases of them on average.
    pixels *= p.dims[d].phases == 1 ? p.out.dims[d + 1] * p.dims[d].kernel : p.in.dims[d + 1] * p.dims[d].kernel;
  }
  return 2 * pixels * p.out.dims.back() * (p.in.dims.back() / p.group);
}

BoundLaunch startConv(const ConvProblem &p, const LaunchSite &site) {
  BoundLaunch bound;
  bound.kernel.family = "conv";
  bound.kernel.body = site.body.str();
  bound.kernel.types = {p.out.type, p.in.type, p.weights.type};
  bound.flops = convFlops(p);
  return bound;
}

// Pixels of a view as one run: [N, spatial...] has one stride.
static bool onePixelRun(const View &view) {
  int64_t expected = -1;
  for (size_t d = view.dims.size() - 1; d-- > 0;) {
    if (view.dims[d] == 1)
      continue;
    if (expected >= 0 && view.strides[d] != expected)
      return false;
    expected = view.strides[d] * view.dims[d];
  }
  return true;
}

// Each output reads one input pixel: a product whose rows are pixels.
static bool isMatMul(const ConvProblem &p) {
  if (p.group != 1)
    return false;
  for (const ConvDim &dim : p.dims)
    if (dim.kernel != 1 || dim.phases != 1 || dim.start[0] != 0)
      return false;
  for (size_t d = 0; d < p.spatial(); ++d) // no border
    if ((p.out.dims[d + 1] - 1) * p.dims[d].inputStep >= p.in.dims[d + 1])
      return false;
  return onePixelRun(p.out) && llvm::all_of(p.extras, onePixelRun);
}

/// The pixels that the outputs read.
static View sampled(const ConvProblem &p) {
  View view = p.in;
  for (size_t d = 0; d < p.spatial(); ++d) {
    view.dims[d + 1] = p.out.dims[d + 1];
    view.strides[d + 1] *= p.dims[d].inputStep;
  }
  return view;
}

namespace {
class ConvFamily : public KernelFamily {
public:
  explicit ConvFamily(bool transposed) : transposed(transposed) {}
  llvm::StringRef name() const override { return transposed ? "conv_transpose" : "conv"; }

  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override {
    auto p = makeConvProblem(site, transposed);
    if (!p)
      return p.takeError();
    if (fitsOne(*p))
      return bindOne(*p, site, target);
    if (isMatMul(*p)) {
      MatMulProblem product{p->out,    sampled(*p), p->weights,
                            p->extras, true,        p->in.dims.back() / chunkOf(p->in.dims.back())};
      product.b.dims = {1, 1, 1}; // the kernel needs no more than the address
      product.b.strides = {0, 0, 0};
      return bindMatMul(std::move(product), site, target);
    }
    if (fitsFew(*p))
      return bindFew(*p, site, target);
    if (fitsWinograd(*p, site))
      return bindWinograd(*p, site, target);
    return bindDirect(*p, site, target);
  }

  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &builder) const override {
    auto body = Expr::parse(kernel.body);
    if (!body)
      return body.takeError();
    if (kernel.config.count("few"))
      emitFew(kernel, *body, builder);
    else if (kernel.config.count("one"))
      emitOne(kernel, *body, builder);
    else if (kernel.config.count("winograd"))
      emitWinograd(kernel, *body, builder);
    else
      emitDirect(kernel, *body, builder);
    return llvm::Error::success();
  }

private:
  bool transposed;
};
} // namespace

const KernelFamily &convFamily() {
  static const ConvFamily family(false);
  return family;
}
const KernelFamily &convTransposeFamily() {
  static const ConvFamily family(true);
  return family;
}

} // namespace mrcc
