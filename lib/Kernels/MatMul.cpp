// out[b..., m, n] = body(sum over k of a[b..., m, k] * b[b..., k, n])
//
// Every extent and stride is a parameter, so layers that differ in M, N (mod the tile's width) and K share a kernel. A
// is read where it lies. B is one of
//   packed    [chunks][panels][K / chunks][16]: constant weights, zero beyond N
//   in place  any row stride, columns contiguous: few rows of A use it
//   copied    any strides: each tile's columns are packed into scratch first, transposed in registers if K is
//   contiguous
// A unit of work is a block of rows and a range of column tiles of one batch entry; inside it, each column tile passes
// all rows, whose register tiles differ by one row at most. K is never cut, so A's rows of a block and one panel of B
// must stay in L2: rows are about 256 KiB of A, at least 64.
#include "MatMul.h"
#include "Families.h"

using namespace mlir;

namespace mrcc {

namespace {

/// Products that are summed in one chain of roundings.
constexpr int64_t chainLength = 256;

/// Packed B's next columns are fetched ahead where they come from memory about as fast as they are used: up to so many
/// rows of A, in panels so long, or in panels in chunks that lie apart.
constexpr int64_t aheadRows = 128, aheadDepth = 2048;

enum BForm { bPacked = 0, bInPlace = 1, bCopied = 2, bTransposed = 3 };

template <class T> struct Params {
  int64_t batchRank = 0;
  size_t views = 0;
  T rows = 0, depth = 0, chunks = 1, tiles = 0; // M, K of a chunk, chunks, column tiles with the ragged one
  T rowBlock = 0, rowBlocks = 1, tileBlock = 0, tileBlocks = 1;
  T chain = 1;                        // chunks that are summed in one chain
  T chunkStride = 0, panelStride = 0; // packed B
  T bRow = 0, bColumn = 0;            // B as a view
  T aRow = 0, aDepth = 0, outColumn = 0;
  T line = 0, aLine = 0;             // rows of A in one line, and from line to line; 0: all have one stride
  std::vector<T> row, column;        // of out, then of each extra
  std::vector<T> extent;             // batch
  std::vector<std::vector<T>> batch; // strides: [view][batch dim]; out, a, b, extras

  void resize(int64_t rank, size_t viewCount) {
    batchRank = rank;
    views = viewCount;
    row.resize(views - 2, T(0));
    column.resize(views - 2, T(0));
    extent.resize(rank, T(0));
    batch.assign(views, std::vector<T>(rank, T(0)));
  }
  template <class F> void each(F f) {
    for (T *x : {&rows, &depth, &chunks, &tiles, &rowBlock, &rowBlocks, &tileBlock, &tileBlocks, &chain, &chunkStride,
                 &panelStride, &bRow, &bColumn, &aRow, &aDepth, &line, &aLine})
      f(*x);
    for (auto *list : {&row, &column, &extent})
      for (T &x : *list)
        f(x);
    for (auto &strides : batch)
      for (T &x : strides)
        f(x);
  }
};

/// A dimension with its stride in every view: out, a, b, extras.
struct Dim {
  int64_t extent;
  std::vector<int64_t> strides;
};

} // namespace

static int64_t at(const View &view, int64_t fromEnd, bool stride) {
  const auto &list = stride ? view.strides : view.dims;
  return fromEnd <= int64_t(list.size()) ? list[list.size() - fromEnd] : stride ? 0 : 1;
}

// For a register tile of either shape.
static int64_t stageBytes(const TileShape &main, const TileShape &ragged, int64_t elementBytes) {
  return roundUp(std::max(main.rows * main.width(), ragged.rows * ragged.width()) * elementBytes, 64);
}

// Batch dims of all views, outermost first, dims of size 1 dropped and neighbours joined where all views allow it.
static std::vector<Dim> batchDims(const MatMulProblem &p, const std::vector<View *> &views) {
  std::vector<Dim> dims;
  const int64_t inner = p.packed ? 3 : 2, rank = p.out.dims.size();
  for (int64_t d = rank; d > 2; --d) {
    Dim dim{at(p.out, d, false), {}};
    if (dim.extent == 1)
      continue;
    for (View *view : views) {
      int64_t place = view == &p.b ? d - 2 + inner : d;
      dim.strides.push_back(at(*view, place, false) == 1 ? 0 : at(*view, place, true));
    }
    if (!dims.empty()) {
      Dim &outer = dims.back();
      bool joins = true;
      for (size_t v = 0; v < views.size(); ++v)
        joins &= outer.strides[v] == dim.strides[v] * dim.extent;
      if (joins) {
        outer.extent *= dim.extent;
        outer.strides = dim.strides;
        continue;
      }
    }
    dims.push_back(dim);
  }
  return dims;
}

llvm::Expected<BoundLaunch> bindMatMul(MatMulProblem p, const LaunchSite &site, const Target &target) {
  const DType compute = computeType(p.a.type);
  BoundLaunch bound;
  KernelDescription &kernel = bound.kernel;
  kernel.family = "matmul";
  kernel.body = site.body.str();
  std::vector<View *> views = {&p.out, &p.a, &p.b};
  for (View &extra : p.extras)
    views.push_back(&extra);
  for (View *view : views)
    kernel.types.push_back(view->type);

  int64_t m = at(p.out, 2, false), n = at(p.out, 1, false), k = at(p.a, 1, false);
  std::vector<Dim> batch = batchDims(p, views);
  // Rows join the innermost batch dim where B does not vary: [B, S, K] x [K, N] has B * S rows.
  auto rowStride = [&](size_t v) { return at(*views[v], 2, true); };
  auto joinable = [&](const Dim &dim, bool lines) {
    if (dim.strides[2] != 0)
      return false;
    for (size_t v = 0; v < views.size(); ++v)
      if (v != 2 && !(lines && v == 1) && dim.strides[v] != rowStride(v) * m)
        return false;
    return true;
  };
  int64_t joined = 1, line = 0, aLine = 0;
  if (!batch.empty() && joinable(batch.back(), false)) {
    joined = batch.back().extent;
    batch.pop_back();
  } else if (!batch.empty() && m > 1 && joinable(batch.back(), true)) { // A alone has its rows in lines
    joined = batch.back().extent;
    line = m, aLine = batch.back().strides[1];
    batch.pop_back();
  } else if (!batch.empty() && m == 1 && batch.back().strides[2] == 0) { // vectors: the batch is the rows
    Dim dim = batch.back();
    batch.pop_back();
    m = dim.extent;
    for (size_t v = 0; v < views.size(); ++v)
      if (v != 2)
        views[v]->strides[views[v]->strides.size() - 2] = dim.strides[v];
  }
  m *= joined;

  const TileShape tile = chooseTile(target, compute, n);
  Params<int64_t> q;
  q.resize(batch.size(), views.size());
  int64_t entries = 1;
  for (size_t d = 0; d < batch.size(); ++d) {
    q.extent[d] = batch[d].extent;
    entries *= batch[d].extent;
    for (size_t v = 0; v < views.size(); ++v)
      q.batch[v][d] = batch[d].strides[v];
  }
  q.rows = m;
  q.line = line, q.aLine = aLine;
  q.chunks = p.packed ? p.chunks : 1;
  q.depth = k / q.chunks;
  q.chain = std::max<int64_t>(1, chainLength / std::max<int64_t>(1, q.depth));
  q.panelStride = q.depth * 16;
  q.chunkStride = roundUp(n, 16) * q.depth;
  q.tiles = ceilDiv(n, tile.width());
  q.aRow = rowStride(1);
  q.aDepth = at(p.a, 1, true);
  BForm form = bPacked;
  if (!p.packed) {
    q.bRow = at(p.b, 2, true);
    q.bColumn = at(p.b, 1, true);
    form = (q.bColumn == 1 || n == 1) && m <= 4 * tile.rows   ? bInPlace
           : q.bRow == 1 && q.bColumn != 1 && k >= tile.lanes ? bTransposed
                                                              : bCopied;
  }
  for (size_t v = 0, i = 0; v < views.size(); ++v)
    if (v != 1 && v != 2) {
      q.row[i] = rowStride(v);
      q.column[i++] = at(*views[v], 1, true);
      kernel.config["x" + std::to_string(i - 1)] = strideClass(*views[v]); // x0: the output
    }

  // Rows of a block: A's part about 256 KiB. Where B is copied, more rows to share the copy.
  const int64_t bytes = bitWidth(compute) / 8;
  // Rows that lie apart leave sets of L2 unused, as if they were longer.
  const int64_t spread = std::clamp<int64_t>(std::abs(q.aRow), k, 2 * k);
  int64_t block = std::max<int64_t>(64, (256 << 10) / std::max<int64_t>(1, spread * bytes));
  if (form >= bCopied)
    block = std::max<int64_t>(block, 512);
  q.rowBlocks = ceilDiv(m, block);
  q.rowBlock = std::max<int64_t>(1, roundUp(ceilDiv(m, q.rowBlocks), tile.rows));
  q.rowBlocks = ceilDiv(m, q.rowBlock);
  // Enough units for 16 threads and even shares, none below 50 microseconds' work of one core.
  bound.flops = 2 * entries * m * n * k;
  const int64_t wanted = std::clamp<int64_t>(bound.flops / 500000, 1, 96);
  q.tileBlocks = std::clamp<int64_t>(ceilDiv(wanted, entries * q.rowBlocks), 1, q.tiles);
  q.tileBlock = ceilDiv(q.tiles, q.tileBlocks);
  q.tileBlocks = ceilDiv(q.tiles, q.tileBlock);
  bound.units = std::max<int64_t>(1, entries * q.rowBlocks * q.tileBlocks);
  writeParams(q, bound.params);
  const int64_t tail = n % tile.width();
  const TileShape ragged = tail ? chooseTile(target, compute, tail) : tile;
  const int64_t columns = n - tail + roundUp(tail, ragged.lanes), vectors = ceilDiv(columns, tile.lanes);
  bound.work.multiplied = 2 * entries * m * columns * k;
  bound.work.instructions = entries * m * vectors * finishInstructions(site);
  if (form >= bCopied)
    bound.work.instructions += entries * q.rowBlocks * k * vectors * 4;
  bound.work.moved = rereadBytes(target, columns * k * bytes, entries * q.rowBlocks);

  kernel.config["rows"] = tile.rows;
  kernel.config["vectors"] = tile.vectors;
  kernel.config["lanes"] = tile.lanes;
  kernel.config["tail"] = tail;
  kernel.config["whole"] = n >= tile.width();
  kernel.config["chunked"] = q.chunks > 1;
  kernel.config["lines"] = line > 0;
  kernel.config["ahead"] = p.packed && m > tile.rows && (m <= aheadRows || k >= aheadDepth || q.chunks > 1);
  kernel.config["rowsAhead"] = p.packed && m > tile.rows && line == 0 && (q.aDepth == 1 || k == 1);
  kernel.config["chains"] = isFloat(compute) && k > chainLength;
  kernel.config["b"] = form;
  kernel.config["bColumn"] = form != bCopied ? 0 : q.bColumn == 1 ? 1 : 2;
  kernel.config["batch"] = batch.size();
  // A: which of its strides is 1.
  kernel.config["a"] = q.aDepth == 1 || k == 1 ? 1 : q.aRow == 1 ? 2 : 0;
  kernel.config["immediate"] = bound.params.size();
  bound.scratchBytes = stageBytes(tile, ragged, bytes) + (form >= bCopied ? roundUp(k, 16) * tile.width() * bytes : 0);
  finishBind(bound, site);
  return bound;
}

namespace {

class MatMulEmitter {
public:
  MatMulEmitter(const KernelDescription &kernel, KernelBuilder &kb, const Expr &body)
      : kernel(kernel), kb(kb), arithmetic{kb, computeType(kernel.types[1])},
        main{get("rows"), get("vectors"), get("lanes")}, tail(get("tail")),
        ragged(tail ? chooseTile(kb.target, arithmetic.type, tail) : main), form(BForm(get("b"))),
        epilogue(kb, kernel, body, arithmetic.type, get("immediate")) {}

  void emit() {
    q.resize(get("batch"), kernel.types.size());
    readParams(q, kb);
    if (get("a") == 1)
      q.aDepth = 1;
    if (get("a") == 2)
      q.aRow = 1;
    if (!get("chunked"))
      q.chunks = 1;
    if (form == bInPlace || get("bColumn") == 1)
      q.bColumn = 1;
    kb.loop(kb.begin(), kb.end(), 1, [&](Index u) { unit(u); });
  }

private:
  int64_t get(const char *key) const { return kernel.config.at(key); }

  void unit(Index u) {
    Index tileBlock = kb.rem(u, q.tileBlocks), rest = kb.div(u, q.tileBlocks);
    Index rowBlock = kb.rem(rest, q.rowBlocks), entry = kb.div(rest, q.rowBlocks);
    SmallVector<Index> offset(q.views, 0);
    for (int64_t d = q.batchRank - 1; d >= 0; --d) {
      Index i = d == 0 ? entry : kb.rem(entry, q.extent[d]);
      entry = d == 0 ? entry : kb.div(entry, q.extent[d]);
      for (size_t v = 0; v < q.views; ++v)
        offset[v] = kb.add(offset[v], kb.mul(i, q.batch[v][d]));
    }
    a = kb.view(1, {q.rows, q.depth}, {get("lines") ? Index(1) : q.aRow, q.aDepth}, offset[1]);
    if (form == bPacked)
      b = kb.view(2, {q.chunks, 1, q.depth, 16}, {q.chunkStride, q.panelStride, 16, 1}, offset[2]);
    else if (form == bTransposed)
      b = kb.view(2, {1, q.depth}, {q.bColumn, 1}, offset[2]); // [column][k]
    else
      b = kb.view(2, {q.depth, 1}, {q.bRow, q.bColumn}, offset[2]);
    flatA = kb.view(1, {kb.mul(q.rows, q.aRow)}, {1}, offset[1]);
    epilogue.setOperands(q.views - 2, [&](size_t i) {
      const unsigned view = Epilogue::viewOf(i);
      int64_t column = get(("x" + std::to_string(i)).c_str());
      return Epilogue::Operand{kb.view(view, {q.rows, 1}, {q.row[i], strideOf(column, q.column[i])}, offset[view]),
                               column};
    });

    row0 = kb.mul(rowBlock, q.rowBlock);
    rows = kb.min(q.rowBlock, kb.sub(q.rows, row0));
    Index first = kb.mul(tileBlock, q.tileBlock), last = kb.min(kb.add(first, q.tileBlock), q.tiles);
    Index whole = tail ? kb.sub(q.tiles, 1) : q.tiles;
    if (get("whole"))
      kb.loop(first, kb.min(last, whole), 1, [&](Index t) { column(t, main, main.width()); });
    if (tail)
      kb.ifThen(kb.equal(last, q.tiles), [&] { column(whole, ragged, tail); });
  }

  /// All rows of the block for column tile t, of which `active` columns are real, in tiles of `shape`.
  void column(Index t, const TileShape &shape, int64_t active) {
    tile = shape;
    stage = kb.scratch(0, arithmetic.type, {tile.rows, tile.width()});
    panel =
        kb.scratch(stageBytes(main, ragged, bitWidth(arithmetic.type) / 8), arithmetic.type, {q.depth, tile.width()});
    const int64_t vectors = ceilDiv(active, tile.lanes);
    Index column0 = kb.mul(t, main.width());
    if (form == bCopied)
      copyPanel(column0, vectors, active);
    if (form == bTransposed)
      transposePanel(column0, vectors, active);
    auto lanesOf = [&](int64_t j) { return std::min(tile.lanes, active - j * tile.lanes); };
    auto finish = [&](Index r, Value acc, int64_t j) {
      epilogue.store(acc, {kb.add(row0, r), kb.add(column0, j * tile.lanes)}, lanesOf(j));
    };
    auto tileProduct = [&](Index r0, int64_t count) {
      return product(t, column0, kb.add(row0, r0), count, vectors, active);
    };
    epilogue.tiles(rows, tile, vectors, stage, tileProduct, finish);
  }

  KernelBuilder::Values product(Index t, Index column0, Index first, int64_t count, int64_t vectors, int64_t active) {
    SmallVector<Index> at; // rows, or where they start
    if (get("lines")) {
      Index row = kb.rem(first, q.line), start = kb.mul(kb.div(first, q.line), q.aLine);
      for (int64_t r = 0; r < count; ++r) {
        at.push_back(kb.add(start, kb.mul(row, q.aRow)));
        Value ends = kb.equal(kb.add(row, 1), q.line);
        row = kb.select(ends, 0, kb.add(row, 1));
        start = kb.select(ends, kb.add(start, q.aLine), start);
      }
    } else {
      for (int64_t r = 0; r < count; ++r)
        at.push_back(kb.add(first, r));
    }
    const int64_t perPanel = 16 / tile.lanes;
    const auto place = panelPlaces(kb, t, main.width(), tile.lanes, vectors);
    const Index nextPanels = kb.select(kb.less(t, kb.sub(q.tiles, 1)), main.width() / 16, 0);
    const KernelBuilder::Values zero(count * vectors, arithmetic.zero(tile.lanes));
    // Lines of B at every 16 columns of the tile.
    auto prefetchB = [&](Index c, Index k, Index panels, int cacheLevel) {
      for (int64_t j = 0; j < vectors; j += perPanel)
        kb.prefetch(b, {c, kb.add(place[j].first, panels), k, 0}, false, cacheLevel);
    };
    // Tiles of narrow rows have fewer products to a load: they do without some of this.
    const bool ahead = get("ahead"), wide = tile.width() * bitWidth(kernel.types[0]) / 8 > 64,
               rowsAhead = get("rowsAhead") && (wide || !ahead);
    if (get("rowsAhead") && wide && epilogue.out.strideClass == 1)
      fetchOutput(kb.add(first, count), count, column0, active);
    // The next tile's rows of A in equal shares, if one follows the other without gaps: elements a step. The hardware
    // does not foresee many short rows.
    const Index nextRows = kb.mul(kb.add(first, count), q.aRow),
                share = kb.select(kb.equal(q.aRow, kb.mul(q.depth, q.chunks)), count, 0);
    auto multiply = [&](Index c, Index from, Index to, ValueRange in) {
      Index base = kb.mul(c, q.depth);
      auto loadA = [&](int64_t r, Index k) {
        return arithmetic.spread(kb.load(a, {at[r], kb.add(base, k)}), kernel.types[1], tile.lanes);
      };
      auto loadB = [&](int64_t j, Index k) {
        if (form == bPacked)
          return arithmetic.widen(kb.loadVector(b, {c, place[j].first, k, place[j].second}, tile.lanes),
                                  kernel.types[2]);
        if (form == bInPlace)
          return arithmetic.widen(
              kb.loadMasked(b, {k, kb.add(column0, j * tile.lanes)}, tile.lanes, active - j * tile.lanes),
              kernel.types[2]);
        return kb.loadVector(panel, {k, j * tile.lanes}, tile.lanes);
      };
      // The next chunk lies apart from this one; behind the last one come the next columns.
      Value goesOn = kb.less(c, kb.sub(q.chunks, 1));
      Index nextChunk = kb.select(goesOn, kb.add(c, 1), 0), nextChunkPanels = kb.select(goesOn, 0, nextPanels);
      // This tile's share of the next columns, which come from far away: one line a step, in as many steps.
      auto before = [&](Index row) { return kb.div(kb.mul(kb.sub(row, row0), kb.sub(to, from)), rows); };
      Index start = before(first), middle = kb.add(from, kb.sub(before(kb.add(first, count)), start));
      auto part = [&](Index from, Index to, ValueRange in, bool columns) {
        return multiplyLoop(arithmetic, from, to, count, vectors, in, loadA, loadB, [&](Index k) {
          if (columns)
            prefetchB(c, kb.add(k, start), nextPanels, 2);
          else if (get("chunked") && !ahead)
            prefetchB(nextChunk, k, nextChunkPanels, 2);
          if (rowsAhead)
            kb.prefetch(flatA, {kb.add(nextRows, kb.mul(kb.add(base, k), share))});
        });
      };
      return ahead ? part(middle, to, part(from, middle, in, true), false) : part(from, to, in, false);
    };
    auto chunks = [&](Index from, Index to, ValueRange in) {
      return kb.loop(from, to, 1, in, [&](Index c, ValueRange in) { return multiply(c, 0, q.depth, in); });
    };
    if (!get("chains"))
      return chunks(0, q.chunks, zero);
    // Each chain's sum starts at zero: the roundings of one do not see the size of the others.
    auto addTo = [&](ValueRange before, KernelBuilder::Values sum) {
      for (auto [part, total] : llvm::zip(sum, before))
        part = arithmetic.add(total, part);
      return sum;
    };
    if (get("chunked"))
      return kb.loop(0, kb.ceilDiv(q.chunks, q.chain), 1, zero, [&](Index i, ValueRange in) {
        Index from = kb.mul(i, q.chain);
        return addTo(in, chunks(from, kb.min(kb.add(from, q.chain), q.chunks), zero));
      });
    return kb.loop(0, q.depth, chainLength, zero, [&](Index k, ValueRange in) {
      return addTo(in, multiply(0, k, kb.min(kb.add(k, chainLength), q.depth), zero));
    });
  }

  /// The lines that the next tile of these columns writes; the first rows of a block come without.
  void fetchOutput(Index first, int64_t count, Index column0, int64_t active) {
    const int64_t line = 64 * 8 / bitWidth(kernel.types[0]);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t j = 0; j < active; j += line)
        kb.prefetch(epilogue.out.buffer, {kb.add(first, r), kb.add(column0, j)}, /*write=*/true);
  }

  void copyPanel(Index column0, int64_t vectors, int64_t active) {
    kb.loop(0, q.depth, 1, [&](Index k) {
      for (int64_t j = 0; j < vectors; ++j) {
        Value v =
            loadLanes(kb, b, {k, kb.add(column0, j * tile.lanes)}, get("bColumn"), tile.lanes, active - j * tile.lanes);
        kb.storeVector(arithmetic.widen(v, kernel.types[2]), panel, {k, j * tile.lanes});
      }
    });
  }

  /// B's columns are contiguous in k: blocks of lanes x lanes are transposed in registers.
  void transposePanel(Index column0, int64_t vectors, int64_t active) {
    const int64_t lanes = tile.lanes;
    Index whole = kb.sub(q.depth, kb.rem(q.depth, lanes));
    for (int64_t j = 0; j < vectors; ++j) {
      const int64_t real = std::min(lanes, active - j * lanes);
      auto columnAt = [&](int64_t i) { return kb.add(column0, j * lanes + std::min(i, real - 1)); };
      kb.loop(0, whole, lanes, [&](Index k) {
        SmallVector<Value> v;
        for (int64_t i = 0; i < lanes; ++i)
          v.push_back(arithmetic.widen(kb.loadVector(b, {columnAt(i), k}, lanes), kernel.types[2]));
        transposeSquare(kb, v);
        for (int64_t i = 0; i < lanes; ++i)
          kb.storeVector(v[i], panel, {kb.add(k, i), j * lanes});
      });
      kb.loop(whole, q.depth, 1, [&](Index k) {
        for (int64_t i = 0; i < lanes; ++i)
          kb.store(arithmetic.widen(kb.load(b, {columnAt(i), k}), kernel.types[2]), panel, {k, j * lanes + i});
      });
    }
  }

  const KernelDescription &kernel;
  KernelBuilder &kb;
  Arithmetic arithmetic;
  const TileShape main;
  const int64_t tail;
  const TileShape ragged; // of the last columns
  TileShape tile = main;  // of the columns that are emitted
  const BForm form;
  Epilogue epilogue;
  Params<Index> q;
  Buffer a, flatA, b, stage, panel;
  Index row0 = 0, rows = 0;
};

class MatMulFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "matmul"; }

  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override {
    MatMulProblem p{site.output(), site.input(0), site.input(1), {}, site.get("packed") != 0, 1};
    p.extras.assign(site.views.begin() + site.outputs + 2, site.views.end());
    if (p.out.dims.size() < 2 || p.a.dims.size() < 2)
      return llvm::createStringError("matmul needs views of rank 2 and more, got %zu", p.out.dims.size());
    return bindMatMul(std::move(p), site, target);
  }

  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &builder) const override {
    auto body = Expr::parse(kernel.body);
    if (!body)
      return body.takeError();
    MatMulEmitter(kernel, builder, *body).emit();
    return llvm::Error::success();
  }
};

} // namespace

const KernelFamily &matMulFamily() {
  static const MatMulFamily family;
  return family;
}

} // namespace mrcc
