// Convolution with few input channels (the first layer of a network), algorithm "few".
//
// The direct kernel's inner loop would be 3 steps long. Here a unit of work first copies the input rows that it needs
// to scratch, as planes with their border of zeros: [input row][channel][left border, pixels, right border], whatever
// the layout of the input (an NCHW image is copied by whole vectors). Then every tap of every pixel of a tile is a
// scalar at a constant distance from one address, and the taps of a row times the channels are straight code: no border
// is ever tested. Straight code keeps 16 accumulators (8 with 16 registers), hence the shorter tiles.
//
// Kernel, steps, dilations and channels are in the description; extents, strides and borders are parameters.
#include "Conv.h"

using namespace mlir;

namespace mrcc {

namespace {

constexpr int64_t mostChannels = 4;

template <class T> struct Params {
  T height = 0, width = 0, inHeight = 0, inWidth = 0, top = 0, left = 0;
  T rowBlock = 0, rowBlocks = 1, pitch = 0, right = 0; // pitch: elements of a plane's row in scratch
  T tiles = 0, panels = 0;
  ImageWalk<T> in;
  std::vector<ImageWalk<T>> outs;
  template <class F> void each(F f) {
    for (T *x :
         {&height, &width, &inHeight, &inWidth, &top, &left, &rowBlock, &rowBlocks, &pitch, &right, &tiles, &panels})
      f(*x);
    in.each(f);
    for (ImageWalk<T> &walk : outs)
      walk.each(f);
  }
};

} // namespace

bool fitsFew(const ConvProblem &p) {
  if (p.group != 1 || p.spatial() != 2 || p.in.dims.back() > mostChannels)
    return false;
  for (const ConvDim &dim : p.dims)
    if (dim.phases != 1)
      return false;
  return p.taps() > 1 && p.taps() <= 121;
}

BoundLaunch bindFew(const ConvProblem &p, const LaunchSite &site, const Target &target) {
  const DType compute = computeType(p.in.type);
  const int64_t columns = p.out.dims.back(), channels = p.in.dims.back(), bytes = bitWidth(compute) / 8;
  TileShape tile = chooseTile(target, compute, columns);
  tile.rows = std::max<int64_t>(2, std::min(tile.rows, (target.vectorRegisters >= 32 ? 16 : 8) / tile.vectors));
  BoundLaunch bound = startConv(p, site);
  KernelDescription &kernel = bound.kernel;
  auto &config = kernel.config;
  Params<int64_t> q;
  q.in = walkOf(p.in);
  q.outs = bindOperands(kernel, p.out, p.extras);
  const ConvDim &y = p.dims[0], &x = p.dims[1];
  q.height = p.out.dims[1], q.width = p.out.dims[2];
  q.inHeight = p.in.dims[1], q.inWidth = p.in.dims[2];
  q.top = -y.start[0], q.left = -x.start[0];
  // Room for all that the last tile may read.
  const int64_t lanes = tile.lanes, need = (q.width - 1) * x.inputStep + (x.kernel - 1) * x.inputDilation + 1;
  q.right = std::max<int64_t>(0, need - std::max<int64_t>(q.left, 0) - q.inWidth);
  q.pitch = roundUp(std::max(need, q.inWidth + std::max<int64_t>(q.left, 0)) + lanes, 16);
  const int64_t rows = p.out.dims[0] * q.height;
  q.rowBlock = std::clamp<int64_t>(std::min<int64_t>(q.height / 4, rows / 48), 1, 8);
  q.rowBlocks = std::max<int64_t>(1, ceilDiv(q.height, q.rowBlock));
  q.panels = ceilDiv(columns, 16);
  q.tiles = ceilDiv(columns, tile.width());
  bound.units = std::max<int64_t>(1, p.out.dims[0] * q.rowBlocks);
  writeParams(q, bound.params);
  const int64_t vectors = ceilDiv(columns, lanes),
                inRows = (q.rowBlock - 1) * y.inputStep + (y.kernel - 1) * y.inputDilation + 1;
  bound.work.multiplied = bound.flops / std::max<int64_t>(1, columns) * vectors * lanes;
  bound.work.instructions = rows * q.width * vectors * finishInstructions(site) +
                            bound.units * inRows * channels * q.pitch / lanes * (q.in.pixel == 1 ? 2 : 2 * lanes);
  config["few"] = 1;
  config["kh"] = y.kernel, config["kw"] = x.kernel;
  config["sh"] = y.inputStep, config["sw"] = x.inputStep;
  config["dh"] = y.inputDilation, config["dw"] = x.inputDilation;
  config["ic"] = channels;
  config["rows"] = tile.rows, config["vectors"] = tile.vectors, config["lanes"] = lanes;
  config["tail"] = columns % tile.width();
  config["whole"] = columns >= tile.width();
  config["plane"] = q.in.pixel == 1; // pixels of a channel are neighbours
  config["immediate"] = bound.params.size();
  bound.scratchBytes = roundUp(tile.rows * tile.width() * bytes, 64) + inRows * channels * q.pitch * bytes;
  finishBind(bound, site);
  return bound;
}

namespace {

class FewEmitter {
public:
  FewEmitter(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb)
      : kernel(kernel), kb(kb), arithmetic{kb, computeType(kernel.types[1])},
        tile{get("rows"), get("vectors"), get("lanes")}, kh(get("kh")), kw(get("kw")), sh(get("sh")), sw(get("sw")),
        dh(get("dh")), dw(get("dw")), ic(get("ic")), epilogue(kb, kernel, body, arithmetic.type, get("immediate")) {}

  void emit() {
    q.outs.resize(kernel.types.size() - 2);
    readParams(q, kb);
    if (get("plane"))
      q.in.pixel = 1;
    const int64_t bytes = bitWidth(arithmetic.type) / 8;
    stage = kb.scratch(0, arithmetic.type, {tile.rows, tile.width()});
    planes = kb.scratch(roundUp(tile.rows * tile.width() * bytes, 64), arithmetic.type, {1, ic, q.pitch});
    weights = kb.view(2, {1, kh * kw, ic, 16}, {kh * kw * ic * 16, ic * 16, 16, 1});
    kb.loop(kb.begin(), kb.end(), 1, [&](Index u) {
      Index rowBlock = kb.rem(u, q.rowBlocks), image = kb.div(u, q.rowBlocks);
      Index row0 = kb.mul(rowBlock, q.rowBlock), rowEnd = kb.min(kb.add(row0, q.rowBlock), q.height);
      copyRows(image, row0, rowEnd);
      kb.loop(row0, rowEnd, 1, [&](Index y) { row(image, y, kb.mul(kb.sub(y, row0), sh)); });
    });
  }

private:
  int64_t get(const std::string &key) const { return kernel.config.at(key); }

  /// The rows that outputs [row0, rowEnd) read, with zeros where there is no input.
  void copyRows(Index image, Index row0, Index rowEnd) {
    Buffer in =
        kb.view(1, {q.inHeight, q.inWidth, ic}, {q.in.row, q.in.pixel, q.in.channel}, kb.mul(image, q.in.batch));
    Index first = kb.sub(kb.mul(row0, sh), q.top);
    Index count = kb.add(kb.mul(kb.sub(kb.sub(rowEnd, row0), 1), sh), (kh - 1) * dh + 1);
    // A negative border drops pixels instead.
    Index skip = kb.max(0, kb.sub(0, q.left)), left = kb.max(0, q.left);
    Index pixels = kb.max(0, kb.sub(q.inWidth, skip)), end = kb.add(left, pixels);
    Value zero = arithmetic.zero(0);
    kb.loop(0, count, 1, [&](Index r) {
      Index y = kb.add(first, r);
      kb.loop(0, ic, 1, [&](Index c) {
        auto clear = [&](Index from, Index to) {
          kb.loop(from, to, 1, [&](Index x) { kb.store(zero, planes, {r, c, x}); });
        };
        kb.ifThen(
            kb.inRange(y, q.inHeight),
            [&] {
              clear(0, left);
              Index done = 0;
              auto copy = [&](Index x, int64_t lanes) {
                std::vector<Index> from = {y, kb.add(skip, x), c}, to = {r, c, kb.add(left, x)};
                if (lanes == 0)
                  return kb.store(arithmetic.widen(kb.load(in, from), kernel.types[1]), planes, to);
                Buffer line = kb.view(1, {1}, {1},
                                      kb.add(kb.add(kb.mul(image, q.in.batch), kb.mul(y, q.in.row)),
                                             kb.add(kb.mul(c, q.in.channel), from[1])));
                kb.storeVector(arithmetic.widen(kb.loadVector(line, {0}, lanes), kernel.types[1]), planes, to);
              };
              if (get("plane")) {
                done = kb.sub(pixels, kb.rem(pixels, tile.lanes));
                kb.loop(0, done, tile.lanes, [&](Index x) { copy(x, tile.lanes); });
              }
              kb.loop(done, pixels, 1, [&](Index x) { copy(x, 0); });
              clear(end, kb.add(end, q.right));
            },
            [&] { clear(0, kb.add(end, q.right)); });
      });
    });
  }

  void row(Index image, Index y, Index inRow) {
    auto operand = [&](size_t i) {
      auto &walk = q.outs[i];
      int64_t column = get("x" + std::to_string(i));
      Index offset = kb.add(kb.mul(image, walk.batch), kb.mul(y, walk.row));
      return Epilogue::Operand{
          kb.view(Epilogue::viewOf(i), {q.width, 1}, {walk.pixel, strideOf(column, walk.channel)}, offset), column};
    };
    epilogue.setOperands(q.outs.size(), operand);
    const int64_t tail = get("tail");
    if (get("whole"))
      kb.loop(0, tail ? kb.sub(q.tiles, 1) : q.tiles, 1, [&](Index t) { columns(t, tile.width(), inRow); });
    if (tail)
      columns(kb.sub(q.tiles, 1), tail, inRow);
  }

  void columns(Index t, int64_t active, Index inRow) {
    const int64_t vectors = ceilDiv(active, tile.lanes);
    Index column0 = kb.mul(t, tile.width());
    const auto place = panelPlaces(kb, t, tile.width(), tile.lanes, vectors);
    auto finish = [&](Index x, Value acc, int64_t j) {
      epilogue.store(acc, {x, kb.add(column0, j * tile.lanes)}, std::min(tile.lanes, active - j * tile.lanes));
    };
    auto product = [&](Index x, int64_t count) {
      const KernelBuilder::Values zero(count * vectors, arithmetic.zero(tile.lanes));
      Index x0 = kb.mul(x, sw);
      return kb.loop(0, kh, 1, zero, [&](Index ky, ValueRange in) {
        KernelBuilder::Values sums(in);
        Index r = kb.add(inRow, kb.mul(ky, dh));
        for (int64_t c = 0; c < ic; ++c)
          for (int64_t kx = 0; kx < kw; ++kx) {
            SmallVector<Value> w;
            for (auto [panel, lane] : place)
              w.push_back(arithmetic.widen(
                  kb.loadVector(weights, {panel, kb.add(kb.mul(ky, kw), kx), c, lane}, tile.lanes), kernel.types[2]));
            for (int64_t i = 0; i < count; ++i) {
              Value a = kb.broadcastLoad(planes, {r, c, kb.add(x0, i * sw + kx * dw)}, tile.lanes);
              for (int64_t j = 0; j < vectors; ++j)
                sums[i * vectors + j] = arithmetic.multiplyAdd(a, w[j], sums[i * vectors + j]);
            }
          }
        return sums;
      });
    };
    epilogue.tiles(q.width, tile, vectors, stage, product, finish);
  }

  const KernelDescription &kernel;
  KernelBuilder &kb;
  Arithmetic arithmetic;
  const TileShape tile;
  const int64_t kh, kw, sh, sw, dh, dw, ic;
  Epilogue epilogue;
  Params<Index> q;
  Buffer stage, planes, weights;
};

} // namespace

void emitFew(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb) {
  FewEmitter(kernel, body, kb).emit();
}

} // namespace mrcc
