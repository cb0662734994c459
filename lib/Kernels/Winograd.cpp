// Winograd convolution F(4x4, 3x3) from the plain packed weights: 36 multiplications where the definition has 144,
// after A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).
//
// The output is cut into tiles of 4 x 4 pixels, and tiles into blocks. For a block:
//   input transform   6 x 6 pixels of each tile -> V, 36 planes [chunk of channels][plane][tile][channel]
//   weight transform  3 x 3 taps -> U, 36 planes [plane][channel][column], for one tile of columns
//   products          M[plane] = V[plane] U[plane], 36 small matrix products by the register tile of matmul
//   output transform  36 values -> 4 x 4 pixels, body, store
// Weights are transformed in one of two ways:
//   call   all of them at the start of each call, where that is at most 4 MiB and tiles are many
//   fly    per block, tile of columns and chunk of channels, 0.2 to 0.4 MiB that stay in L2
// A tile at the border is transformed from a patch into which its valid pixels were copied; a ragged output tile goes
// through a patch, too (all do where the body is long or registers are few: it is then emitted once). Planes are an odd
// number of cache lines apart, so that the 36 lines of a transform do not fight for one set of L1.
//
// The points are 0, 5/8, -5/8, 3/2, -3/2 and infinity: of the pairs tried (NumPy in float32 against float64, 96
// channels) they round least, 1.4e-6 of the largest output where the usual 1 and 2 round 5.4e-6, at the same number of
// operations; their squares are exact. Direct convolution rounds several times less, hence strict math stays direct.
#include "Conv.h"

using namespace mlir;

namespace mrcc {

namespace {

constexpr int64_t out4 = 4, in6 = 6, planes = in6 * in6;
constexpr double pointA = 0.625, pointB = 1.5, a2 = pointA * pointA, b2 = pointB * pointB;

template <class T> struct Params {
  T height = 0, width = 0, inHeight = 0, inWidth = 0, top = 0, left = 0;
  T tilesDown = 0, tilesAcross = 0, tiles = 0, block = 0; // tiles: of all images
  T columnTiles = 0, columnGroup = 0, columnGroups = 1;
  T channels = 0, chunk = 0, part = 0, parts = 1, panels = 0; // part: channels of one product; chunk: of packed weights
  T pitchU = 0, pitchV = 0, pitchM = 0, offsetV = 0, offsetM = 0, offsetPatch = 0, offsetStage = 0;
  ImageWalk<T> in;
  std::vector<ImageWalk<T>> outs;
  template <class F> void each(F f) {
    for (T *x : {&height,      &width,   &inHeight,    &inWidth,     &top,         &left,         &tilesDown,
                 &tilesAcross, &tiles,   &block,       &columnTiles, &columnGroup, &columnGroups, &channels,
                 &chunk,       &part,    &parts,       &panels,      &pitchU,      &pitchV,       &pitchM,
                 &offsetV,     &offsetM, &offsetPatch, &offsetStage})
      f(*x);
    in.each(f);
    for (ImageWalk<T> &walk : outs)
      walk.each(f);
  }
};

/// Elements to step over so that the step is an odd number of 64-byte lines.
int64_t oddLines(int64_t floats) { return (ceilDiv(floats, 16) | 1) * 16; }

} // namespace

bool fitsWinograd(const ConvProblem &p, const LaunchSite &site) {
  if (p.in.type != DType::f32 || p.weights.type != DType::f32 || p.group != 1 || p.spatial() != 2 || site.get("strict"))
    return false;
  for (const ConvDim &dim : p.dims)
    if (dim.kernel != 3 || dim.phases != 1 || dim.inputStep != 1 || dim.inputDilation != 1)
      return false;
  const int64_t channels = p.in.dims.back(), columns = p.out.dims.back();
  if (channels < 16 || columns < 16 || chunkOf(channels) < 8 || p.in.strides.back() != 1)
    return false;
  // Multiplications per pair of channels: 41 a tile (its products and its share of the transforms) and the weights'
  // transform once, against 9 a pixel; with a margin for memory.
  const int64_t pixels = p.out.dims[0] * p.out.dims[1] * p.out.dims[2];
  const int64_t tiles = p.out.dims[0] * ceilDiv(p.out.dims[1], out4) * ceilDiv(p.out.dims[2], out4);
  return 4 * 9 * pixels > 5 * (41 * tiles + 165);
}

/// What the emitter below does, a transform at its arithmetic, loads and stores. U and V pass L2 where they do not fit.
static Work winogradWork(const Params<int64_t> &q, const TileShape &tile, int64_t columns, bool call,
                         const LaunchSite &site, const Target &target) {
  constexpr int64_t ofInput = 144 + 2 * planes, ofOutput = 110 + planes + 2 * out4 * out4, ofWeights = 81 + 9 + planes;
  const int64_t blocks = ceilDiv(q.tiles, q.block), vectors = ceilDiv(columns, tile.lanes);
  const int64_t depth = q.parts * ceilDiv(q.part, tile.lanes) * tile.lanes;
  Work work;
  work.multiplied = 2 * planes * q.tiles * vectors * tile.lanes * q.channels;
  work.instructions = q.tiles * depth / tile.lanes * ofInput;
  work.instructions += q.channels * vectors * ofWeights * (call ? 1 : blocks);
  work.instructions += q.tiles * vectors * (ofOutput + planes * (2 * q.parts - 1));
  work.instructions +=
      q.height * q.width * (q.tiles / (q.tilesDown * q.tilesAcross)) * vectors * finishInstructions(site);
  const int64_t weights = 9 * q.channels * q.panels * 16 * 4, u = planes * q.pitchU * q.columnTiles * 4,
                v = planes * q.parts * q.pitchV * 4;
  work.moved = call ? rereadBytes(target, u, blocks + 2) : rereadBytes(target, weights, blocks);
  work.moved += blocks * rereadBytes(target, v, q.columnTiles + 2);
  return work;
}

BoundLaunch bindWinograd(const ConvProblem &p, const LaunchSite &site, const Target &target) {
  const int64_t channels = p.in.dims.back(), columns = p.out.dims.back();
  const TileShape tile = chooseTile(target, DType::f32, columns);
  BoundLaunch bound = startConv(p, site);
  KernelDescription &kernel = bound.kernel;
  auto &config = kernel.config;
  Params<int64_t> q;
  q.in = walkOf(p.in);
  q.outs = bindOperands(kernel, p.out, p.extras);
  q.height = p.out.dims[1], q.width = p.out.dims[2];
  q.inHeight = p.in.dims[1], q.inWidth = p.in.dims[2];
  q.top = -p.dims[0].start[0], q.left = -p.dims[1].start[0];
  q.tilesDown = ceilDiv(q.height, out4), q.tilesAcross = ceilDiv(q.width, out4);
  q.tiles = p.out.dims[0] * q.tilesDown * q.tilesAcross;
  q.columnTiles = ceilDiv(columns, tile.width());
  q.channels = channels;
  q.chunk = chunkOf(channels);
  q.panels = ceilDiv(columns, 16);
  const int64_t allWeights = planes * oddLines(channels * tile.width()) * q.columnTiles * 4;
  const bool call = allWeights <= (4 << 20) && q.tiles >= 64;
  q.part = call ? channels : q.chunk;
  q.parts = channels / q.part;
  if (call) {
    q.block = tile.lanes == 16 ? 16 : 24;
    if (q.tiles < 16 * q.block) // few: alike, in a number that divides among threads
      q.block = ceilDiv(q.tiles, roundUp(ceilDiv(q.tiles, q.block), 4));
    q.columnGroups = 1;
  } else {
    // V of a block is at most 6 MiB.
    q.block = std::clamp<int64_t>((6 << 20) / (planes * channels * 4) / 8 * 8, 16, 128);
    q.block = std::min(q.block, roundUp(q.tiles, tile.rows));
    q.columnGroups = std::clamp<int64_t>(ceilDiv(48, ceilDiv(q.tiles, q.block)), 1, q.columnTiles);
  }
  q.columnGroup = ceilDiv(q.columnTiles, q.columnGroups);
  q.columnGroups = ceilDiv(q.columnTiles, q.columnGroup);
  bound.units = ceilDiv(q.tiles, q.block) * q.columnGroups;
  bound.leastUnits = call ? bound.units : q.columnGroups; // they share U or V
  q.pitchU = oddLines(q.part * tile.width());
  q.pitchV = oddLines(q.block * q.part + tile.lanes); // a whole vector may be stored at the last channels
  q.pitchM = oddLines(q.block * tile.width());
  q.offsetV = planes * q.pitchU * (call ? q.columnTiles : 1) * 4;
  q.offsetM = q.offsetV + planes * q.parts * q.pitchV * 4;
  q.offsetPatch = q.offsetM + planes * q.pitchM * 4;
  q.offsetStage = q.offsetPatch + roundUp(planes * channels * 4, 64);
  bound.scratchBytes = q.offsetStage + out4 * out4 * tile.width() * 4;
  writeParams(q, bound.params);
  bound.work = winogradWork(q, tile, columns, call, site, target);
  config["winograd"] = 1;
  config["call"] = call;
  config["rows"] = tile.rows, config["vectors"] = tile.vectors, config["lanes"] = tile.lanes;
  config["tail"] = columns % tile.width();
  config["whole"] = columns >= tile.width();
  config["rest"] = q.part % tile.lanes;
  config["immediate"] = bound.params.size();
  finishBind(bound, site);
  return bound;
}

namespace {

class WinogradEmitter {
public:
  WinogradEmitter(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb)
      : kernel(kernel), kb(kb), arithmetic{kb, DType::f32}, tile{get("rows"), get("vectors"), get("lanes")},
        call(get("call")), rest(get("rest")), epilogue(kb, kernel, body, DType::f32, get("immediate")) {}

  void emit() {
    kb.allowReordering(); // transforms are 36 loads, then 36 stores: the scheduler shortens what lives between
    q.outs.resize(kernel.types.size() - 2);
    readParams(q, kb);
    q.in.channel = 1;
    if (call) {
      q.parts = 1;
      q.columnGroups = 1;
    }
    weights = kb.view(2, {1, 1, 9, q.chunk, 16},
                      {kb.mul(kb.mul(q.panels, q.chunk), 9 * 16), kb.mul(q.chunk, 9 * 16), kb.mul(q.chunk, 16), 16, 1});
    u = kb.scratch(0, DType::f32, {1, q.part, tile.width()}, {q.pitchU, tile.width(), 1});
    v = kb.scratch(q.offsetV, DType::f32, {1, q.block, q.part}, {q.pitchV, q.part, 1});
    m = kb.scratch(q.offsetM, DType::f32, {planes, q.block, tile.width()}, {q.pitchM, tile.width(), 1});
    patch = kb.scratch(q.offsetPatch, DType::f32, {in6, in6, q.channels});
    stage = kb.scratch(q.offsetStage, DType::f32, {out4, out4, tile.width()});

    const int64_t tail = get("tail");
    auto overColumns = [&](Index from, Index to, llvm::function_ref<void(Index, int64_t)> body) {
      Index whole = tail ? kb.sub(q.columnTiles, 1) : q.columnTiles;
      if (get("whole"))
        kb.loop(from, kb.min(to, whole), 1, [&](Index t) { body(t, tile.width()); });
      if (tail)
        kb.ifThen(kb.equal(to, q.columnTiles), [&] { body(whole, tail); });
    };
    if (call)
      overColumns(0, q.columnTiles, [&](Index t, int64_t active) {
        kb.loop(0, kb.div(q.channels, q.chunk), 1,
                [&](Index c) { transformWeights(t, active, c, kb.mul(c, q.chunk)); });
      });
    kb.loop(kb.begin(), kb.end(), 1, [&](Index unit) {
      Index group = kb.rem(unit, q.columnGroups), block = kb.div(unit, q.columnGroups);
      Index t0 = kb.mul(block, q.block), count = kb.min(q.block, kb.sub(q.tiles, t0));
      // Units of one block follow each other: V is made by the first of them that this call does.
      auto input = [&] { transformInput(t0, count); };
      if (call)
        input();
      else
        kb.ifThen(arith::OrIOp::create(kb.b, kb.loc, kb.equal(unit, kb.begin()), kb.equal(group, 0)), input);
      Index from = kb.mul(group, q.columnGroup), to = kb.min(kb.add(from, q.columnGroup), q.columnTiles);
      overColumns(from, to, [&](Index t, int64_t active) { columns(t, active, t0, count); });
    });
  }

private:
  int64_t get(const char *key) const { return kernel.config.at(key); }
  Value add(Value x, Value y) { return arith::AddFOp::create(kb.b, kb.loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(kb.b, kb.loc, x, y); }
  Value mul(double k, Value x) { return arith::MulFOp::create(kb.b, kb.loc, constant(k), x); }
  Value mad(double k, Value x, Value y) { return kb.fma(constant(k), x, y); }
  Value constant(double k) { return kb.constantVector(kb.b.getF32Type(), k, tile.lanes); }

  using Line = std::vector<Value>;
  // One-dimensional transforms: B^T d, G g and A^T m of the paper for the points 0, a, -a, b, -b and infinity.
  Line inputLine(const Line &d) {
    Value evenA = mad(-b2, d[2], d[4]), oddA = mad(-b2, d[1], d[3]);
    Value evenB = mad(-a2, d[2], d[4]), oddB = mad(-a2, d[1], d[3]);
    return {mad(a2 * b2, d[0], mad(-a2 - b2, d[2], d[4])),
            mad(pointA, oddA, evenA),
            mad(-pointA, oddA, evenA),
            mad(pointB, oddB, evenB),
            mad(-pointB, oddB, evenB),
            mad(a2 * b2, d[1], mad(-a2 - b2, d[3], d[5]))};
  }
  Line weightLine(const Line &g) {
    constexpr double scaleA = 1 / (2 * a2 * (a2 - b2)), scaleB = 1 / (2 * b2 * (b2 - a2));
    Value evenA = mad(scaleA * a2, g[2], mul(scaleA, g[0])), evenB = mad(scaleB * b2, g[2], mul(scaleB, g[0]));
    return {mul(1 / (a2 * b2), g[0]),          mad(scaleA * pointA, g[1], evenA),  mad(-scaleA * pointA, g[1], evenA),
            mad(scaleB * pointB, g[1], evenB), mad(-scaleB * pointB, g[1], evenB), g[2]};
  }
  Line outputLine(const Line &x) {
    Value evenA = add(x[1], x[2]), oddA = sub(x[1], x[2]), evenB = add(x[3], x[4]), oddB = sub(x[3], x[4]);
    return {add(x[0], add(evenA, evenB)), mad(pointB, oddB, mul(pointA, oddA)), mad(b2, evenB, mul(a2, evenA)),
            mad(b2 * pointB, oddB, mad(a2 * pointA, oddA, x[5]))};
  }
  /// Along columns, then along rows. `at[r][c]`.
  std::vector<Line> twice(Line (WinogradEmitter::*transform)(const Line &), const std::vector<Line> &at) {
    std::vector<Line> byColumn, result;
    for (size_t c = 0; c < at[0].size(); ++c) {
      Line column;
      for (const Line &row : at)
        column.push_back(row[c]);
      byColumn.push_back((this->*transform)(column));
    }
    for (size_t r = 0; r < byColumn[0].size(); ++r) {
      Line row;
      for (const Line &column : byColumn)
        row.push_back(column[r]);
      result.push_back((this->*transform)(row));
    }
    return result;
  }

  Index planeU(Index t, Index plane) { return call ? kb.add(kb.mul(t, planes), plane) : plane; }

  /// U[.., first + k] for the channels k of chunk c.
  void transformWeights(Index t, int64_t active, Index c, Index first) {
    const int64_t vectors = ceilDiv(active, tile.lanes), perPanel = 16 / tile.lanes;
    for (int64_t j = 0; j < vectors; ++j) {
      Index lane = kb.add(kb.mul(t, tile.vectors), j);
      Index panel = kb.div(lane, perPanel), part = kb.mul(kb.rem(lane, perPanel), tile.lanes);
      kb.loop(0, q.chunk, 1, [&](Index k) {
        std::vector<Line> g(3);
        for (int64_t tap = 0; tap < 9; ++tap)
          g[tap / 3].push_back(kb.loadVector(weights, {c, panel, tap, k, part}, tile.lanes));
        auto result = twice(&WinogradEmitter::weightLine, g);
        for (int64_t i = 0; i < planes; ++i)
          kb.storeVector(result[i / in6][i % in6], u, {planeU(t, i), kb.add(first, k), j * tile.lanes});
      });
    }
  }

  struct Place {
    Index image, y, x; // of the tile's first output pixel
  };
  Place place(Index t) {
    Index across = kb.rem(t, q.tilesAcross), rest = kb.div(t, q.tilesAcross);
    return {kb.div(rest, q.tilesDown), kb.mul(kb.rem(rest, q.tilesDown), out4), kb.mul(across, out4)};
  }

  /// body(channel, active lanes) over `count` channels, of which the last rest % lanes make no whole vector.
  void overChannels(Index count, llvm::function_ref<void(Index, int64_t)> body) {
    Index whole = rest ? kb.sub(count, rest) : count;
    kb.loop(0, whole, tile.lanes, [&](Index c) { body(c, tile.lanes); });
    if (rest)
      body(whole, rest);
  }

  void transformInput(Index t0, Index count) {
    kb.loop(0, count, 1, [&](Index i) {
      Place p = place(kb.add(t0, i));
      Index y = kb.sub(p.y, q.top), x = kb.sub(p.x, q.left);
      Index image = kb.mul(p.image, q.in.batch);
      auto fits = [&](Index at, Index size) {
        return kb.both(kb.inRange(at, size), kb.less(kb.add(at, in6 - 1), size));
      };
      Value inside = kb.both(fits(y, q.inHeight), fits(x, q.inWidth));
      Buffer in = kb.view(1, {q.inHeight, q.inWidth, q.channels}, {q.in.row, q.in.pixel, 1}, image);
      Value zero = arithmetic.zero(tile.lanes);
      kb.ifThen(
          inside, [] {},
          [&] {
            kb.loop(0, in6, 1, [&](Index r) {
              kb.loop(0, in6, 1, [&](Index c) {
                Index yy = kb.add(y, r), xx = kb.add(x, c);
                auto copy = [&](bool real) {
                  kb.loop(0, q.parts, 1, [&](Index part) {
                    overChannels(q.part, [&](Index k, int64_t active) {
                      Index channel = kb.add(kb.mul(part, q.part), k);
                      kb.storeMasked(real ? kb.loadMasked(in, {yy, xx, channel}, tile.lanes, active) : zero, patch,
                                     {r, c, channel}, active);
                    });
                  });
                };
                kb.ifThen(
                    kb.both(kb.inRange(yy, q.inHeight), kb.inRange(xx, q.inWidth)), [&] { copy(true); },
                    [&] { copy(false); });
              });
            });
          });
      Buffer window = kb.view(1, {in6, in6, q.channels}, {q.in.row, q.in.pixel, 1},
                              kb.add(image, kb.add(kb.mul(y, q.in.row), kb.mul(x, q.in.pixel))));
      Buffer from = kb.select(
          inside, window,
          kb.scratch(q.offsetPatch, DType::f32, {in6, in6, q.channels}, {kb.mul(q.channels, in6), q.channels, 1}));
      kb.loop(0, q.parts, 1, [&](Index part) {
        overChannels(q.part, [&](Index k, int64_t active) {
          Index channel = kb.add(kb.mul(part, q.part), k);
          std::vector<Line> d(in6);
          for (int64_t i = 0; i < planes; ++i)
            d[i / in6].push_back(kb.loadMasked(from, {i / in6, i % in6, channel}, tile.lanes, active));
          auto result = twice(&WinogradEmitter::inputLine, d);
          // Lanes beyond the part spill into the next tile's row, which is written later.
          for (int64_t plane = 0; plane < planes; ++plane)
            kb.storeVector(result[plane / in6][plane % in6], v, {kb.add(kb.mul(part, planes), plane), i, k});
        });
      });
    });
  }

  void columns(Index t, int64_t active, Index t0, Index count) {
    auto part = [&](Index p, bool first) {
      if (!call)
        transformWeights(t, active, p, 0);
      kb.loop(0, planes, 1, [&](Index plane) {
        call ? fetchImages(t, active, t0, count, plane) : fetchWeights(t, p, plane);
        product(t, active, plane, p, count, first);
      });
    };
    part(0, true);
    kb.loop(1, q.parts, 1, [&](Index p) { part(p, false); });
    transformOutput(t, active, t0, count);
  }

  /// Brings 1/36 of what the block's end and the next block's start touch into L2: the block's outputs in these
  /// columns, and with the first columns the input of as many tiles behind the block.
  void fetchImages(Index t, int64_t active, Index t0, Index count, Index plane) {
    auto share = [&](Index i) { return kb.div(kb.mul(i, count), planes); };
    kb.loop(share(plane), share(kb.add(plane, 1)), 1, [&](Index i) {
      Place here = place(kb.add(t0, i));
      auto &walk = q.outs[0];
      Buffer out = kb.view(0, {out4, out4, 1}, {walk.row, walk.pixel, walk.channel},
                           kb.add(kb.add(kb.mul(here.image, walk.batch), kb.mul(kb.mul(t, tile.width()), walk.channel)),
                                  kb.add(kb.mul(here.y, walk.row), kb.mul(here.x, walk.pixel))));
      kb.loop(0, out4, 1, [&](Index r) {
        for (int64_t c = 0; c < out4; ++c)
          for (int64_t line = 0; line < active; line += 16)
            kb.prefetch(out, {r, c, line}, true);
      });
      Index ahead = kb.add(t0, kb.add(count, i));
      kb.ifThen(kb.both(kb.equal(t, 0), kb.less(ahead, q.tiles)), [&] {
        Place next = place(ahead);
        Index y = kb.sub(next.y, q.top), x = kb.sub(next.x, q.left);
        Buffer in = kb.view(1, {in6, in6, q.channels}, {q.in.row, q.in.pixel, 1},
                            kb.add(kb.mul(next.image, q.in.batch), kb.add(kb.mul(y, q.in.row), kb.mul(x, q.in.pixel))));
        kb.loop(0, in6, 1, [&](Index r) {
          kb.loop(0, q.channels, 16, [&](Index k) {
            for (int64_t c = 0; c < out4; ++c) // the next tile reads the other two
              kb.prefetch(in, {r, c, k});
          });
        });
      });
    });
  }

  /// Brings 1/36 of the weights of the next part (or the next columns' first) into L2: they come from memory.
  void fetchWeights(Index t, Index part, Index plane) {
    Value more = kb.less(part, kb.sub(q.parts, 1));
    Index chunk = kb.select(more, kb.add(part, 1), 0);
    Index tileAt = kb.select(more, t, kb.min(kb.add(t, 1), kb.sub(q.columnTiles, 1)));
    Index panel = kb.div(kb.mul(tileAt, tile.width()), 16), lines = kb.div(kb.add(q.chunk, 3), 4); // 9 taps / 36
    Buffer all = kb.view(2, {1, 1, kb.mul(lines, planes), 16},
                         {kb.mul(kb.mul(q.panels, q.chunk), 9 * 16), kb.mul(q.chunk, 9 * 16), 16, 1});
    kb.loop(0, lines, 1, [&](Index i) {
      for (int64_t j = 0; j < ceilDiv(tile.width(), 16); ++j)
        kb.prefetch(all, {chunk, kb.add(panel, j), kb.add(kb.mul(plane, lines), i), 0});
    });
  }

  /// M[plane] (+)= V[part][plane] U[plane]. Sums of later parts are added to M behind the loop: its lines are in cache
  /// by then, and the sum rounds less.
  void product(Index t, int64_t active, Index plane, Index part, Index count, bool first) {
    const int64_t vectors = ceilDiv(active, tile.lanes);
    Index planeV = kb.add(kb.mul(part, planes), plane), up = planeU(t, plane);
    kb.tilesEven(count, tile.rows, [&](Index i, int64_t rows) {
      if (!first)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < vectors; ++j)
            kb.prefetch(m, {plane, kb.add(i, r), j * tile.lanes}, true);
      KernelBuilder::Values acc(rows * vectors, arithmetic.zero(tile.lanes));
      acc = multiplyLoop(
          arithmetic, 0, q.part, rows, vectors, acc,
          [&](int64_t r, Index k) { return kb.load(v, {planeV, kb.add(i, r), k}); },
          [&](int64_t j, Index k) { return kb.loadVector(u, {up, k, j * tile.lanes}, tile.lanes); },
          [&](Index k) {
            if (!call) // walks the next plane's rows of this tile, one line a step
              kb.prefetch(v, {kb.add(planeV, 1), i, kb.mul(k, rows)});
          },
          /*unroll=*/4);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < vectors; ++j) {
          SmallVector<Index> at = {plane, kb.add(i, r), j * tile.lanes};
          Value sum = acc[r * vectors + j];
          kb.storeVector(first ? sum : add(sum, kb.loadVector(m, at, tile.lanes)), m, at);
        }
    });
  }

  void transformOutput(Index t, int64_t active, Index t0, Index count) {
    const int64_t vectors = ceilDiv(active, tile.lanes);
    Index column0 = kb.mul(t, tile.width());
    kb.loop(0, count, 1, [&](Index i) {
      Place p = place(kb.add(t0, i));
      auto operand = [&](size_t n) {
        auto &walk = q.outs[n];
        int64_t column = get(("x" + std::to_string(n)).c_str());
        Index offset = kb.add(kb.mul(p.image, walk.batch), kb.add(kb.mul(p.y, walk.row), kb.mul(p.x, walk.pixel)));
        return Epilogue::Operand{kb.view(Epilogue::viewOf(n), {out4, out4, 1},
                                         {walk.row, walk.pixel, strideOf(column, walk.channel)}, offset),
                                 column};
      };
      epilogue.setOperands(q.outs.size(), operand);
      auto pixels = [&](int64_t j) {
        std::vector<Line> x(in6);
        for (int64_t plane = 0; plane < planes; ++plane)
          x[plane / in6].push_back(kb.loadVector(m, {plane, i, j * tile.lanes}, tile.lanes));
        return twice(&WinogradEmitter::outputLine, x);
      };
      auto put = [&](Value v, Index r, Index c, int64_t j) {
        epilogue.store(v, {r, c, kb.add(column0, j * tile.lanes)}, std::min(tile.lanes, active - j * tile.lanes));
      };
      auto direct = [&] {
        for (int64_t j = 0; j < vectors; ++j) {
          auto result = pixels(j);
          for (int64_t pixel = 0; pixel < out4 * out4; ++pixel)
            put(result[pixel / out4][pixel % out4], pixel / out4, pixel % out4, j);
        }
      };
      Index down = kb.min(out4, kb.sub(q.height, p.y)), across = kb.min(out4, kb.sub(q.width, p.x));
      auto staged = [&] {
        for (int64_t j = 0; j < vectors; ++j) {
          auto result = pixels(j);
          for (int64_t pixel = 0; pixel < out4 * out4; ++pixel)
            kb.storeVector(result[pixel / out4][pixel % out4], stage, {pixel / out4, pixel % out4, j * tile.lanes});
        }
        kb.loop(0, down, 1, [&](Index r) {
          kb.loop(0, across, 1, [&](Index c) {
            for (int64_t j = 0; j < vectors; ++j)
              put(kb.loadVector(stage, {r, c, j * tile.lanes}, tile.lanes), r, c, j);
          });
        });
      };
      if (epilogue.heavy() || kb.target.vectorRegisters < 32) // with few registers the pixels go through memory anyway
        staged();
      else
        kb.ifThen(kb.both(kb.equal(down, out4), kb.equal(across, out4)), direct, staged);
    });
  }

  const KernelDescription &kernel;
  KernelBuilder &kb;
  Arithmetic arithmetic;
  const TileShape tile;
  const bool call;
  const int64_t rest;
  Epilogue epilogue;
  Params<Index> q;
  Buffer weights, u, v, m, patch, stage;
};

} // namespace

void emitWinograd(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb) {
  WinogradEmitter(kernel, body, kb).emit();
}

} // namespace mrcc
