// Direct convolution, any number of spatial dimensions, groups, dilations, strides and borders; also each phase of a
// transposed one.
//
// A register tile is some pixels of one output row times some columns (output channels). Loops of a unit of work, which
// is a block of rows (or of a part of a row) times one tile's columns:
//   chunk of input channels > row > tile of pixels > taps of outer dimensions > taps of the row > input channels
// Sums of all chunks but the last wait in scratch, [pixel][column], so the weights of one chunk stay in L2 while all
// pixels of the block pass, and the output is written once. Borders cost no copy and no second path: taps of outer
// dimensions are clipped by loop bounds; along the row, a pixel that falls outside reads a run of zeros instead.
//
// Every extent, stride and border is a parameter, so layers that differ in size and channels (mod the tile's width)
// share a kernel.
#include "Conv.h"

using namespace mlir;

namespace mrcc {

namespace {

template <class T> struct Params {
  /// An output or extra: where [n, 0..., 0] goes with n, and so on.
  struct Walk {
    T batch = 0, column = 0;
    std::vector<T> spatial;
  };
  T rows = 0, rowBlock = 0, rowBlocks = 1, pixelBlock = 0, pixelBlocks = 1; // rows of the phase grid, all of the batch
  T tiles = 0, groups = 1, groupColumns = 0; // column tiles of a group, with the ragged one
  T chunks = 1, depth = 0, panels = 0;       // packed weights
  std::vector<T> inSize, outSize;
  Walk in;
  std::vector<Walk> outs;
  std::vector<std::vector<T>> firstTap, taps, start; // [dim][phase]

  void resize(size_t spatial, const std::vector<int64_t> &phases, size_t outViews) {
    inSize.resize(spatial, T(0));
    outSize.resize(spatial, T(0));
    in.spatial.resize(spatial, T(0));
    outs.resize(outViews);
    for (Walk &walk : outs)
      walk.spatial.resize(spatial, T(0));
    for (auto *list : {&firstTap, &taps, &start})
      for (size_t d = 0; d < spatial; ++d)
        list->push_back(std::vector<T>(phases[d], T(0)));
  }
  template <class F> void each(F f) {
    for (T *x : {&rows, &rowBlock, &rowBlocks, &pixelBlock, &pixelBlocks, &tiles, &groups, &groupColumns, &chunks,
                 &depth, &panels})
      f(*x);
    auto all = [&](std::vector<T> &list) {
      for (T &x : list)
        f(x);
    };
    all(inSize);
    all(outSize);
    auto walk = [&](Walk &w) {
      f(w.batch);
      f(w.column);
      all(w.spatial);
    };
    walk(in);
    for (Walk &w : outs)
      walk(w);
    for (auto *list : {&firstTap, &taps, &start})
      for (auto &phases : *list)
        all(phases);
  }
};

Params<int64_t>::Walk spatialWalk(const View &view) {
  Params<int64_t>::Walk walk;
  walk.batch = view.strides.front();
  walk.column = view.strides.back();
  walk.spatial.assign(view.strides.begin() + 1, view.strides.end() - 1);
  return walk;
}

} // namespace

// Whether some tap of some pixel of dimension d reads outside the input.
static bool hasBorder(const ConvProblem &p, size_t d) {
  const ConvDim &dim = p.dims[d];
  for (int64_t phase = 0; phase < dim.phases; ++phase) {
    int64_t last = ceilDiv(p.out.dims[d + 1] - phase, dim.phases) - 1;
    if (last < 0 || dim.taps[phase] == 0)
      continue;
    if (dim.start[phase] < 0 ||
        last * dim.inputStep + dim.start[phase] + (dim.taps[phase] - 1) * dim.inputDilation >= p.in.dims[d + 1])
      return true;
  }
  return false;
}

/// Tiles multiply whole vectors of columns; sums of all chunks but the last go through scratch; each tap of a row finds
/// its pixels anew. Weights pass L2 for each block, and a block's input for each tile of columns where it is too big.
static Work directWork(const ConvProblem &p, const Params<int64_t> &q, const TileShape &tile, int64_t flops,
                       const LaunchSite &site, const Target &target) {
  const int64_t columns = q.groupColumns, lanes = ceilDiv(columns, tile.lanes) * tile.lanes;
  const int64_t outputs = viewBytes(p.out) * 8 / bitWidth(p.out.type);
  if (outputs == 0 || q.depth == 0)
    return {};
  const int64_t pixels = outputs / (columns * q.groups);
  const int64_t vectors = pixels * q.groups * lanes / tile.lanes, blocks = q.rowBlocks * q.pixelBlocks;
  const int64_t taps = flops / (2 * outputs * q.chunks * q.depth);
  const int64_t bytes = bitWidth(p.in.type) / 8, inBytes = viewBytes(p.in);
  Work work;
  work.multiplied = flops / columns * lanes;
  work.instructions =
      vectors * (finishInstructions(site) + 2 * (q.chunks - 1)) + pixels * q.groups * q.tiles * taps * q.chunks * 4;
  work.moved = rereadBytes(target, lanes * p.taps() * q.chunks * q.depth * q.groups * bytes, blocks);
  const int64_t blockBytes = inBytes / std::max<int64_t>(1, blocks * q.groups);
  work.moved += blocks * q.groups * rereadBytes(target, blockBytes, q.tiles);
  return work;
}

BoundLaunch bindDirect(const ConvProblem &p, const LaunchSite &site, const Target &target) {
  const DType compute = computeType(p.in.type);
  const size_t spatial = p.spatial(), last = spatial - 1;
  const int64_t columns = p.out.dims.back() / p.group, channels = p.in.dims.back() / p.group;
  const TileShape tile = chooseTile(target, compute, columns);
  BoundLaunch bound = startConv(p, site);
  KernelDescription &kernel = bound.kernel;
  auto &config = kernel.config;

  Params<int64_t> q;
  std::vector<int64_t> phases;
  int64_t phaseCount = 1;
  for (const ConvDim &dim : p.dims) {
    phases.push_back(dim.phases);
    phaseCount *= dim.phases;
  }
  q.resize(spatial, phases, 1 + p.extras.size());
  q.in = spatialWalk(p.in);
  q.outs[0] = spatialWalk(p.out);
  config["x0"] = strideClass(p.out);
  for (size_t i = 0; i < p.extras.size(); ++i) {
    kernel.types.push_back(p.extras[i].type);
    q.outs[i + 1] = spatialWalk(p.extras[i]);
    config["x" + std::to_string(i + 1)] = strideClass(p.extras[i]);
  }
  q.chunks = channels / chunkOf(channels);
  q.depth = chunkOf(channels);
  q.panels = ceilDiv(columns, 16);
  q.groups = p.group;
  q.groupColumns = columns;
  q.tiles = ceilDiv(columns, tile.width());
  q.rows = p.out.dims[0];
  bool outerBorder = false;
  const char axis[] = {'z', 'y', 'x'};
  for (size_t d = 0; d < spatial; ++d) {
    const ConvDim &dim = p.dims[d];
    q.inSize[d] = p.in.dims[d + 1];
    q.outSize[d] = p.out.dims[d + 1];
    q.firstTap[d] = dim.firstTap;
    q.taps[d] = dim.taps;
    q.start[d] = dim.start;
    if (d != last) {
      q.rows *= ceilDiv(q.outSize[d], dim.phases);
      outerBorder |= hasBorder(p, d);
    }
    std::string name(1, axis[3 - spatial + d]);
    config["k" + name] = dim.kernel;
    config["p" + name] = dim.phases;
    config["s" + name] = dim.inputStep;
    config["d" + name] = dim.inputDilation;
    config["t" + name] = dim.tapStep;
  }

  // A block: about 256 pixels, so that a chunk's weights are read often from L2; fewer where that leaves too few units,
  // but no less than 64.
  const int64_t pixels = ceilDiv(q.outSize[last], p.dims[last].phases), columnTiles = q.tiles * q.groups * phaseCount;
  auto block = [&](int64_t size) {
    q.pixelBlocks = std::max<int64_t>(1, ceilDiv(pixels, 2 * size));
    q.pixelBlock = q.pixelBlocks == 1 ? pixels : roundUp(ceilDiv(pixels, q.pixelBlocks), tile.rows);
    q.pixelBlocks = std::max<int64_t>(1, ceilDiv(pixels, std::max<int64_t>(1, q.pixelBlock)));
    q.rowBlocks =
        std::max<int64_t>(1, ceilDiv(q.rows, std::max<int64_t>(1, size / std::max<int64_t>(1, q.pixelBlock))));
    q.rowBlock = std::max<int64_t>(1, ceilDiv(q.rows, q.rowBlocks));
    q.rowBlocks = std::max<int64_t>(1, ceilDiv(q.rows, q.rowBlock));
    return q.rowBlocks * q.pixelBlocks * columnTiles;
  };
  int64_t units = block(256);
  if (units < 48)
    units = block(128);
  if (units < 48)
    units = block(64);
  bound.units = std::max<int64_t>(1, units);
  writeParams(q, bound.params);
  bound.work = directWork(p, q, tile, bound.flops, site, target);

  config["spatial"] = spatial;
  config["rows"] = tile.rows;
  config["vectors"] = tile.vectors;
  config["lanes"] = tile.lanes;
  config["tail"] = columns % tile.width();
  config["whole"] = columns >= tile.width();
  config["grouped"] = p.group > 1;
  config["chunked"] = q.chunks > 1;
  config["ahead"] = q.rowBlock * q.pixelBlock <= 256 && q.chunks > 1;
  config["border"] = hasBorder(p, last) + 2 * outerBorder;
  config["channel"] = p.in.dims.back() == 1 || q.in.column == 1 ? 1 : 2; // of the whole input: groups step by it, too
  config["immediate"] = bound.params.size();
  const int64_t bytes = bitWidth(compute) / 8;
  const int64_t zeros = roundUp(q.depth * bitWidth(p.in.type) / 8, 64);
  const int64_t sums = (q.chunks > 1 ? q.rowBlock * q.pixelBlock : tile.rows) * tile.width() * bytes;
  bound.scratchBytes = zeros + roundUp(sums, 64);
  finishBind(bound, site);
  return bound;
}

namespace {

class DirectEmitter {
public:
  DirectEmitter(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb)
      : kernel(kernel), kb(kb), arithmetic{kb, computeType(kernel.types[1])},
        tile{get("rows"), get("vectors"), get("lanes")}, spatial(get("spatial")), last(spatial - 1),
        chunked(get("chunked")), ahead(get("ahead")), rowBorder(get("border") & 1), outerBorder(get("border") & 2),
        epilogue(kb, kernel, body, arithmetic.type, get("immediate")) {}

  void emit() {
    const char axis[] = {'z', 'y', 'x'};
    for (size_t d = 0; d < spatial; ++d) {
      std::string name(1, axis[3 - spatial + d]);
      dims.push_back({get("k" + name), get("p" + name), get("s" + name), get("d" + name), get("t" + name)});
    }
    std::vector<int64_t> phases;
    for (const Dim &dim : dims)
      phases.push_back(dim.phases);
    q.resize(spatial, phases, kernel.types.size() - 2);
    readParams(q, kb);
    for (size_t d = 0; d < spatial; ++d)
      if (dims[d].phases == 1) { // a plain convolution: all taps
        q.firstTap[d] = {0};
        q.taps[d] = {dims[d].kernel};
      }
    if (!chunked)
      q.chunks = 1;
    if (!get("grouped"))
      q.groups = 1;
    if (get("channel") == 1)
      q.in.column = 1;

    const DType type = kernel.types[1];
    const int64_t size = bitWidth(type) / 8;
    zeros = kb.scratch(0, type, {q.depth}, {q.in.column});
    if (rowBorder && get("channel") == 1) {
      Value zero = kb.constantVector(valueType(kb.b.getContext(), type), 0, 0);
      kb.loop(0, q.depth, 1, [&](Index i) { kb.store(zero, zeros, {i}); });
    }
    Index sumsAt = kb.mul(kb.div(kb.add(kb.mul(q.depth, size), 63), 64), 64);
    sums = kb.scratch(sumsAt, arithmetic.type, {1, tile.width()});
    kb.loop(kb.begin(), kb.end(), 1, [&](Index u) { unit(u); });
  }

private:
  struct Dim {
    int64_t kernel, phases, inputStep, inputDilation, tapStep;
  };
  int64_t get(const std::string &key) const { return kernel.config.at(key); }

  Index pick(const std::vector<Index> &list, Index phase) {
    Index x = list[0];
    for (size_t i = 1; i < list.size(); ++i)
      x = kb.select(kb.equal(phase, int64_t(i)), list[i], x);
    return x;
  }

  void unit(Index u) {
    auto take = [&](Index &from, Index count) {
      Index x = kb.rem(from, count);
      from = kb.div(from, count);
      return x;
    };
    Index t = take(u, q.tiles);
    group = get("grouped") ? take(u, q.groups) : Index(0);
    Index pixelBlock = take(u, q.pixelBlocks), rowBlock = take(u, q.rowBlocks);
    phase.assign(spatial, 0);
    for (size_t d = spatial; d-- > 0;)
      if (dims[d].phases > 1)
        phase[d] = take(u, dims[d].phases);
    firstTap.clear(), taps.clear(), start.clear();
    for (size_t d = 0; d < spatial; ++d) {
      firstTap.push_back(pick(q.firstTap[d], phase[d]));
      taps.push_back(pick(q.taps[d], phase[d]));
      start.push_back(pick(q.start[d], phase[d]));
    }
    row0 = kb.mul(rowBlock, q.rowBlock);
    rowEnd = kb.min(kb.add(row0, q.rowBlock), q.rows);
    Index pixels = kb.div(kb.add(kb.sub(q.outSize[last], phase[last]), dims[last].phases - 1), dims[last].phases);
    pixel0 = kb.mul(pixelBlock, q.pixelBlock);
    pixelCount = kb.max(0, kb.min(q.pixelBlock, kb.sub(pixels, pixel0)));

    const int64_t tail = get("tail");
    if (!tail)
      return columns(t, tile.width());
    if (!get("whole"))
      return columns(0, tail);
    kb.ifThen(kb.less(t, kb.sub(q.tiles, 1)), [&] { columns(t, tile.width()); }, [&] { columns(t, tail); });
  }

  /// All chunks and rows of the block for the columns of tile t, of which `count` are real.
  void columns(Index t, int64_t count) {
    active = count;
    vectors = ceilDiv(active, tile.lanes);
    column0 = kb.add(kb.mul(group, q.groupColumns), kb.mul(t, tile.width()));
    place = panelPlaces(kb, t, tile.width(), tile.lanes, vectors);
    int64_t allTaps = 1;
    for (const Dim &dim : dims)
      allTaps *= dim.kernel;
    Index tapStride = kb.mul(q.depth, 16), panelStride = kb.mul(tapStride, allTaps),
          chunkStride = kb.mul(panelStride, q.panels);
    nextColumns = kb.select(kb.less(t, kb.sub(q.tiles, 1)), tile.width() / 16, 0);
    weights = kb.view(2, {1, 1, 1, q.depth, 16}, {chunkStride, panelStride, tapStride, 16, 1},
                      kb.mul(group, kb.mul(chunkStride, q.chunks)));
    if (chunked) {
      Value zero = arithmetic.zero(tile.lanes);
      kb.loop(0, kb.mul(kb.sub(rowEnd, row0), pixelCount), 1, [&](Index i) {
        for (int64_t j = 0; j < vectors; ++j)
          kb.storeVector(zero, sums, {i, j * tile.lanes});
      });
    }
    kb.loop(0, q.chunks, 1, [&](Index chunk) { kb.loop(row0, rowEnd, 1, [&](Index r) { row(chunk, r); }); });
  }

  void row(Index chunk, Index r) {
    // Which image and which outer position this row is.
    Index rest = r;
    std::vector<Index> grid(last, 0);
    for (size_t d = last; d-- > 0;) {
      Index count = kb.div(kb.add(q.outSize[d], dims[d].phases - 1), dims[d].phases);
      grid[d] = kb.rem(rest, count);
      rest = kb.div(rest, count);
    }
    std::vector<Index> output;
    Value inside;
    for (size_t d = 0; d < last; ++d) {
      output.push_back(kb.add(phase[d], kb.mul(grid[d], dims[d].phases)));
      if (dims[d].phases > 1) { // the last phases have one row less
        Value here = kb.less(output[d], q.outSize[d]);
        inside = inside ? kb.both(inside, here) : here;
      }
    }
    auto operand = [&](size_t i) {
      auto &walk = q.outs[i];
      int64_t column = get("x" + std::to_string(i));
      Index offset = kb.mul(rest, walk.batch);
      for (size_t d = 0; d < last; ++d)
        offset = kb.add(offset, kb.mul(output[d], walk.spatial[d]));
      offset = kb.add(offset, kb.mul(phase[last], walk.spatial[last]));
      return Epilogue::Operand{kb.view(Epilogue::viewOf(i), {1, 1},
                                       {kb.mul(walk.spatial[last], dims[last].phases), strideOf(column, walk.column)},
                                       offset),
                               column};
    };
    auto work = [&] {
      epilogue.setOperands(q.outs.size(), operand);
      pixels(chunk, r, rest, grid);
    };
    inside ? kb.ifThen(inside, work) : work();
  }

  void pixels(Index chunk, Index r, Index image, const std::vector<Index> &grid) {
    const bool heavy = epilogue.heavy();
    Index sumRow = chunked ? kb.mul(kb.sub(r, row0), pixelCount) : Index(0);
    auto lanesOf = [&](int64_t j) { return std::min(tile.lanes, active - j * tile.lanes); };
    auto finish = [&](Index x, Value acc, int64_t j) {
      epilogue.store(acc, {kb.add(pixel0, x), kb.add(column0, j * tile.lanes)}, lanesOf(j));
    };
    auto isLast = [&] { return kb.equal(chunk, kb.sub(q.chunks, 1)); };
    auto sumAt = [&](Index x, int64_t i) { return kb.add(chunked ? kb.add(sumRow, x) : Index(0), i); };
    auto micro = [&](Index x, int64_t count) {
      if (ahead) { // this tile's share of the lines that a tap has in the next chunk or columns
        Index work = kb.mul(kb.sub(rowEnd, row0), pixelCount), done = kb.add(kb.mul(kb.sub(r, row0), pixelCount), x);
        shareBegin = kb.div(kb.mul(done, q.depth), work);
        shareEnd = kb.div(kb.mul(kb.add(done, count), q.depth), work);
        Value more = kb.less(chunk, kb.sub(q.chunks, 1));
        nextChunk = kb.select(more, kb.add(chunk, 1), 0);
        nextPanels = kb.select(more, 0, nextColumns);
      }
      KernelBuilder::Values acc;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < vectors; ++j)
          acc.push_back(arithmetic.zero(tile.lanes));
      acc = outerTaps(0, acc, chunk, image, grid, {}, x, count);
      if (chunked) // a chunk's sum starts at zero: chains of roundings end with the chunk
        for (int64_t i = 0; i < count; ++i)
          for (int64_t j = 0; j < vectors; ++j) {
            Value &sum = acc[i * vectors + j];
            sum = arithmetic.add(kb.loadVector(sums, {sumAt(x, i), j * tile.lanes}, tile.lanes), sum);
          }
      auto keep = [&] {
        for (int64_t i = 0; i < count; ++i)
          for (int64_t j = 0; j < vectors; ++j)
            kb.storeVector(acc[i * vectors + j], sums, {sumAt(x, i), j * tile.lanes});
      };
      auto put = [&] {
        for (int64_t i = 0; i < count; ++i)
          for (int64_t j = 0; j < vectors; ++j)
            finish(kb.add(x, i), acc[i * vectors + j], j);
      };
      if (heavy)
        keep();
      else if (chunked)
        kb.ifThen(isLast(), put, keep);
      else
        put();
    };
    auto after = [&](Index x, Index count) {
      auto put = [&] {
        kb.loop(0, count, 1, [&](Index i) {
          Index at = chunked ? kb.add(kb.add(sumRow, x), i) : i;
          for (int64_t j = 0; j < vectors; ++j)
            finish(kb.add(x, i), kb.loadVector(sums, {at, j * tile.lanes}, tile.lanes), j);
        });
      };
      if (heavy)
        chunked ? kb.ifThen(isLast(), put) : put();
    };
    kb.tilesEven(pixelCount, tile.rows, micro, after);
  }

  /// Taps of dimension d and further ones, for the tile's `count` pixels from x on. `at` is the input position in the
  /// dimensions before d.
  KernelBuilder::Values outerTaps(size_t d, ValueRange acc, Index chunk, Index image, const std::vector<Index> &grid,
                                  std::vector<std::pair<Index, Index>> at, Index x, int64_t count) {
    if (d == last)
      return rowTaps(acc, chunk, image, at, x, count);
    Index origin = kb.add(kb.mul(grid[d], dims[d].inputStep), start[d]), lo = 0, hi = taps[d];
    if (outerBorder) {
      Index dilation = dims[d].inputDilation;
      lo = kb.ceilDiv(kb.max(0, kb.sub(0, origin)), dilation);
      hi = kb.min(hi, kb.ceilDiv(kb.max(0, kb.sub(q.inSize[d], origin)), dilation));
    }
    return kb.loop(lo, hi, 1, acc, [&](Index t, ValueRange in) {
      auto next = at;
      next.push_back(
          {kb.add(origin, kb.mul(t, dims[d].inputDilation)), kb.add(firstTap[d], kb.mul(t, dims[d].tapStep))});
      return outerTaps(d + 1, in, chunk, image, grid, next, x, count);
    });
  }

  KernelBuilder::Values rowTaps(ValueRange acc, Index chunk, Index image,
                                const std::vector<std::pair<Index, Index>> &at, Index x, int64_t count) {
    Index offset = kb.mul(image, q.in.batch), outerTap = 0;
    for (size_t d = 0; d < last; ++d) {
      offset = kb.add(offset, kb.mul(at[d].first, q.in.spatial[d]));
      outerTap = kb.add(kb.mul(outerTap, dims[d].kernel), at[d].second);
    }
    Index channel = kb.mul(chunk, q.depth);
    if (get("grouped"))
      channel = kb.add(channel, kb.mul(group, kb.mul(q.depth, q.chunks)));
    offset = kb.add(offset, kb.mul(channel, q.in.column));
    const Dim &dim = dims[last];
    Index origin = kb.add(kb.mul(kb.add(pixel0, x), dim.inputStep), start[last]);
    const bool select = rowBorder && get("channel") == 1, mask = rowBorder && !select;
    return kb.loop(0, taps[last], 1, acc, [&](Index t, ValueRange in) {
      Index first = kb.add(origin, kb.mul(t, dim.inputDilation));
      Index tap = kb.add(kb.mul(outerTap, dim.kernel), kb.add(firstTap[last], kb.mul(t, dim.tapStep)));
      SmallVector<Buffer> pixel;
      SmallVector<Value> valid;
      for (int64_t i = 0; i < count; ++i) {
        Index position = kb.add(first, i * dim.inputStep);
        if (mask) {
          valid.push_back(kb.inRange(position, q.inSize[last]));
          position = kb.select(valid[i], position, 0);
        }
        pixel.push_back(kb.view(1, {q.depth}, {q.in.column}, kb.add(offset, kb.mul(position, q.in.spatial[last]))));
        if (select)
          pixel[i] = kb.select(kb.inRange(position, q.inSize[last]), pixel[i], zeros);
      }
      auto fetch = [&](Index k) {
        for (int64_t j = 0; j < vectors; j += 16 / tile.lanes)
          kb.prefetch(weights, {nextChunk, kb.add(place[j].first, nextPanels), tap, kb.add(k, shareBegin), 0});
      };
      auto loadA = [&](int64_t i, Index k) {
        Value v = kb.load(pixel[i], {k});
        if (mask)
          v = arith::SelectOp::create(kb.b, kb.loc, valid[i], v, kb.constantVector(pixel[i].element, 0, 0));
        return arithmetic.spread(v, kernel.types[1], tile.lanes);
      };
      auto loadB = [&](int64_t j, Index k) {
        return arithmetic.widen(kb.loadVector(weights, {chunk, place[j].first, tap, k, place[j].second}, tile.lanes),
                                kernel.types[2]);
      };
      auto multiply = [&](Index from, Index to, ValueRange in, llvm::function_ref<void(Index)> fetch) {
        return multiplyLoop(arithmetic, from, to, count, vectors, in, loadA, loadB, fetch);
      };
      if (!ahead)
        return multiply(0, q.depth, in, nullptr);
      Index share = kb.sub(shareEnd, shareBegin);
      return multiply(share, q.depth, multiply(0, share, in, fetch), nullptr);
    });
  }

  const KernelDescription &kernel;
  KernelBuilder &kb;
  Arithmetic arithmetic;
  const TileShape tile;
  const size_t spatial, last;
  const bool chunked, ahead, rowBorder, outerBorder;
  Epilogue epilogue;
  std::vector<Dim> dims;
  Params<Index> q;
  Buffer zeros, sums, weights;
  // Of the unit that is being emitted.
  Index group = 0, row0 = 0, rowEnd = 0, pixel0 = 0, pixelCount = 0, column0 = 0;
  int64_t active = 0, vectors = 0;
  std::vector<Index> phase, firstTap, taps, start;
  Index nextColumns = 0, nextChunk = 0, nextPanels = 0, shareBegin = 0, shareEnd = 0; // what is fetched ahead
  SmallVector<std::pair<Index, Index>> place; // panel and lane of each vector of the tile
};

} // namespace

void emitDirect(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb) {
  DirectEmitter(kernel, body, kb).emit();
}

} // namespace mrcc
