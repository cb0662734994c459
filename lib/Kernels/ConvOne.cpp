// Convolution to one output channel where each output reads one input position (algorithm "one"): a pointwise
// convolution, or a transposed one whose kernel is its stride. Segmentation and detection heads end so.
//
// One column would leave most lanes of a register tile empty. Here lanes run over input channels: a tile is as many
// pixels as lanes, each with one vector of partial sums, and a transposition in registers turns the sums into one
// vector of pixels. Vectors of phases along the row are interleaved, so the output is stored as it lies.
//
// Phases and which tap each has are in the description; extents and strides are parameters.
#include "Conv.h"

using namespace mlir;

namespace mrcc {

namespace {

constexpr int64_t mostPhases = 4; // along one dimension

template <class T> struct Params {
  T height = 0, width = 0, channels = 0, depth = 0, chunkStride = 0; // of the input; of packed weights
  T rows = 0, rowBlock = 1;                                          // input rows of all images; of a unit
  ImageWalk<T> in;
  std::vector<ImageWalk<T>> outs;
  template <class F> void each(F f) {
    for (T *x : {&height, &width, &channels, &depth, &chunkStride, &rows, &rowBlock})
      f(*x);
    in.each(f);
    for (ImageWalk<T> &walk : outs)
      walk.each(f);
  }
};

/// How a vector of pixels is walked.
int64_t pixelClass(const View &v) {
  int64_t stride = v.dims[2] == 1 ? 1 : v.strides[2];
  return stride == 0 || stride == 1 ? stride : 2;
}

} // namespace

bool fitsOne(const ConvProblem &p) {
  if (p.group != 1 || p.spatial() != 2 || p.out.dims.back() != 1 || p.in.type != DType::f32 ||
      p.weights.type != DType::f32 || p.in.strides.back() != 1)
    return false;
  for (size_t d = 0; d < 2; ++d) {
    const ConvDim &dim = p.dims[d];
    if (dim.phases > mostPhases || dim.inputStep != 1 || p.out.dims[d + 1] != p.in.dims[d + 1] * dim.phases)
      return false;
    for (int64_t phase = 0; phase < dim.phases; ++phase)
      if (dim.taps[phase] != 1 || dim.start[phase] != 0)
        return false;
  }
  return llvm::isPowerOf2_64(p.dims[1].phases);
}

BoundLaunch bindOne(const ConvProblem &p, const LaunchSite &site, const Target &target) {
  BoundLaunch bound = startConv(p, site);
  KernelDescription &kernel = bound.kernel;
  auto &config = kernel.config;
  Params<int64_t> q;
  q.height = p.in.dims[1], q.width = p.in.dims[2], q.channels = p.in.dims[3];
  q.depth = chunkOf(q.channels);
  q.chunkStride = p.taps() * q.depth * 16;
  q.rows = p.in.dims[0] * q.height;
  q.in = walkOf(p.in);
  q.outs = bindOperands(kernel, p.out, p.extras, pixelClass);
  const ConvDim &y = p.dims[0], &x = p.dims[1];
  const int64_t phases = y.phases * x.phases, lanes = target.lanes(32);
  q.rowBlock = std::clamp<int64_t>((1 << 17) / std::max<int64_t>(1, q.width * q.channels * phases), 1,
                                   std::max<int64_t>(1, q.rows / 16));
  bound.units = std::max<int64_t>(1, ceilDiv(q.rows, q.rowBlock));
  writeParams(q, bound.params);
  // A vector of partial sums an output; transposing and adding them is about a logarithm of steps.
  const int64_t outputs = q.rows * q.width * phases;
  bound.work.multiplied = 2 * outputs * roundUp(q.channels, lanes);
  bound.work.instructions = outputs * (2 + llvm::Log2_64(lanes)) + outputs / lanes * finishInstructions(site);
  config["one"] = 1;
  config["py"] = y.phases, config["px"] = x.phases;
  for (int64_t i = 0; i < phases; ++i)
    config["tap" + std::to_string(i)] = y.firstTap[i / x.phases] * x.kernel + x.firstTap[i % x.phases];
  config["lanes"] = lanes;
  config["rest"] = q.channels % lanes;
  config["immediate"] = bound.params.size();
  bound.scratchBytes = (phases * roundUp(q.channels, lanes) + x.phases * lanes) * 4;
  finishBind(bound, site);
  return bound;
}

namespace {

class OneEmitter {
public:
  OneEmitter(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb)
      : kernel(kernel), kb(kb), arithmetic{kb, DType::f32}, py(get("py")), px(get("px")), lanes(get("lanes")),
        rest(get("rest")), epilogue(kb, kernel, body, DType::f32, get("immediate")) {}

  void emit() {
    q.outs.resize(kernel.types.size() - 2);
    readParams(q, kb);
    stage = kb.scratch(0, DType::f32, {px * lanes});
    Index padded = kb.mul(kb.ceilDiv(q.channels, lanes), lanes);
    weights = kb.scratch(px * lanes * 4, DType::f32, {py * px, padded});
    copyWeights(padded);
    kb.loop(kb.begin(), kb.end(), 1, [&](Index u) {
      Index first = kb.mul(u, q.rowBlock);
      kb.loop(first, kb.min(kb.add(first, q.rowBlock), q.rows), 1, [&](Index r) {
        Index whole = kb.sub(q.width, kb.rem(q.width, lanes));
        kb.loop(0, whole, lanes, [&](Index x) { tile(r, x, nullptr); });
        Index tail = kb.sub(q.width, whole);
        kb.ifThen(kb.less(0, tail), [&] { tile(r, whole, &tail); });
      });
    });
  }

private:
  int64_t get(const std::string &key) const { return kernel.config.at(key); }

  /// weights[phase][channel], zero beyond the channels.
  void copyWeights(Index padded) {
    for (int64_t i = 0; i < py * px; ++i) {
      Buffer packed =
          kb.view(2, {1, q.depth}, {q.chunkStride, 16}, kb.mul(kb.mul(q.depth, 16), get("tap" + std::to_string(i))));
      kb.loop(0, kb.div(q.channels, q.depth), 1, [&](Index chunk) {
        kb.loop(0, q.depth, 1, [&](Index k) {
          kb.store(kb.load(packed, {chunk, k}), weights, {i, kb.add(kb.mul(chunk, q.depth), k)});
        });
      });
      kb.loop(q.channels, padded, 1, [&](Index k) { kb.store(arithmetic.zero(0), weights, {i, k}); });
    }
  }

  /// As many pixels as lanes from x on, in row r of all images; `count`: only so many are there.
  void tile(Index r, Index x, const Index *count) {
    Index image = kb.div(r, q.height), y = kb.rem(r, q.height);
    Index offset = kb.add(kb.mul(image, q.in.batch), kb.mul(y, q.in.row));
    SmallVector<Buffer> pixels;
    for (int64_t p = 0; p < lanes; ++p) {
      Index at = count ? kb.min(kb.add(x, p), kb.sub(q.width, 1)) : kb.add(x, p);
      pixels.push_back(kb.view(1, {q.channels}, {1}, kb.add(offset, kb.mul(at, q.in.pixel))));
    }
    for (int64_t phase = 0; phase < py; ++phase) {
      auto operand = [&](size_t i) {
        auto &walk = q.outs[i];
        int64_t pixel = get("x" + std::to_string(i));
        Index stride = strideOf(pixel, walk.pixel), first = kb.mul(kb.mul(x, px), stride);
        Index row = kb.mul(kb.add(kb.mul(y, py), phase), walk.row);
        return Epilogue::Operand{
            kb.view(Epilogue::viewOf(i), {1}, {stride}, kb.add(kb.mul(image, walk.batch), kb.add(row, first))), pixel};
      };
      epilogue.setOperands(q.outs.size(), operand);
      SmallVector<Value> sums;
      for (int64_t i = 0; i < px; ++i)
        sums.push_back(pixelSums(pixels, phase * px + i));
      interleave(sums);
      for (int64_t i = 0; i < px; ++i)
        if (count)
          kb.storeVector(sums[i], stage, {i * lanes});
        else
          epilogue.store(sums[i], {i * lanes}, lanes);
      if (count)
        kb.loop(0, kb.mul(*count, px), 1, [&](Index i) { epilogue.store(kb.loadVector(stage, {i}, 1), {i}, 1); });
    }
  }

  /// One sum a pixel, in lanes.
  Value pixelSums(llvm::ArrayRef<Buffer> pixels, int64_t phase) {
    auto add = [&](Index c, ValueRange sums, int64_t active) {
      KernelBuilder::Values result;
      Value w = kb.loadVector(weights, {phase, c}, lanes);
      for (auto [pixel, sum] : llvm::zip(pixels, sums))
        result.push_back(arithmetic.multiplyAdd(kb.loadMasked(pixel, {c}, lanes, active), w, sum));
      return result;
    };
    Index whole = kb.sub(q.channels, rest);
    KernelBuilder::Values sums(lanes, arithmetic.zero(lanes));
    sums = kb.loop(0, whole, lanes, sums, [&](Index c, ValueRange in) { return add(c, in, lanes); });
    if (rest)
      sums = add(whole, sums, rest);
    transposeSquare(kb, sums);
    for (int64_t half = lanes / 2; half >= 1; half /= 2) // pairwise
      for (int64_t i = 0; i < half; ++i)
        sums[i] = arithmetic.add(sums[i], sums[i + half]);
    return sums[0];
  }

  /// Vectors of the phases' pixels become vectors of neighbouring outputs: log2(px) perfect shuffles.
  void interleave(SmallVector<Value> &vectors) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < lanes / 2; ++i) {
      low.append({i, lanes + i});
      high.append({lanes / 2 + i, lanes + lanes / 2 + i});
    }
    const int64_t n = vectors.size();
    for (int64_t stage = 1; stage < n; stage *= 2) {
      SmallVector<Value> next;
      for (int64_t i = 0; i < n / 2; ++i) {
        next.push_back(vector::ShuffleOp::create(kb.b, kb.loc, vectors[i], vectors[i + n / 2], low));
        next.push_back(vector::ShuffleOp::create(kb.b, kb.loc, vectors[i], vectors[i + n / 2], high));
      }
      vectors = next;
    }
  }

  const KernelDescription &kernel;
  KernelBuilder &kb;
  Arithmetic arithmetic;
  const int64_t py, px, lanes, rest;
  Epilogue epilogue;
  Params<Index> q;
  Buffer weights, stage;
};

} // namespace

void emitOne(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb) {
  OneEmitter(kernel, body, kb).emit();
}

} // namespace mrcc
