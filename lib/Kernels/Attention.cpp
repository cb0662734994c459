// out = softmax(q k^T * scale + mask) v, for each batch entry and head, without the matrix of scores in memory.
//
// A unit of work is a block of queries of one head. The first unit of a head that a call does packs K into panels
// [keys / width][D + 1][width] and V into rows of whole vectors. Then, for each block of keys:
//   scores   S = q K^T * scale + mask, by the register tile of matmul
//   rows     new maximum; p = exp(S - maximum); the running sum stays a vector; what was summed so far is scaled
//   values   O = O * correction + p V, in tiles of at most three vectors of columns
// after M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018), and T. Dao et al.,
// "FlashAttention" (2022). With one block of keys nothing is corrected. Keys beyond the last have a score of minus
// infinity: what is added to the scores of a panel, 0 or -inf, is its last row.
#include "Families.h"
#include "Tile.h"
#include "VectorMath.h"
#include <cmath>

using namespace mlir;

namespace mrcc {

namespace {

constexpr int64_t queryBlock = 64, keyBlock = 256;

/// The least maximum. It is finite: rows whose every score is that low are uniform, rows of -inf give NaN, as the
/// definition.
constexpr double lowest = -3.40282346638528859812e38;

template <class T> struct Params {
  struct Walk {
    T batch = 0, head = 0, row = 0, column = 0;
  };
  T heads = 0, queries = 0, keys = 0, depth = 0, width = 0, blocks = 1;
  T pitchV = 0, offsetV = 0, offsetS = 0, offsetO = 0, offsetStat = 0, scale = 0;
  Walk out, q, k, v, mask;
  template <class F> void each(F f) {
    for (T *x :
         {&heads, &queries, &keys, &depth, &width, &blocks, &pitchV, &offsetV, &offsetS, &offsetO, &offsetStat, &scale})
      f(*x);
    for (Walk *w : {&out, &q, &k, &v, &mask})
      for (T *x : {&w->batch, &w->head, &w->row, &w->column})
        f(*x);
  }
};

} // namespace

static llvm::Expected<BoundLaunch> bindAttention(const LaunchSite &site, const Target &target) {
  const bool masked = site.get("mask") && site.numInputs() > 3;
  if (site.numInputs() < 3 || site.output().dims.size() != 4)
    return llvm::createStringError("attention takes q, k, v of rank 4");
  const View &out = site.output(), &query = site.input(0), &key = site.input(1), &value = site.input(2);
  BoundLaunch bound;
  KernelDescription &kernel = bound.kernel;
  auto &config = kernel.config;
  kernel.family = "attention";
  kernel.types = {out.type, query.type, key.type, value.type};
  Params<int64_t> q;
  auto walk = [](const View &v) {
    return Params<int64_t>::Walk{v.strides[0], v.strides[1], v.strides[2], v.strides[3]};
  };
  q.out = walk(out), q.q = walk(query), q.k = walk(key), q.v = walk(value);
  if (masked) {
    kernel.types.push_back(site.input(3).type);
    q.mask = walk(site.input(3));
  }
  q.heads = out.dims[1], q.queries = out.dims[2], q.keys = key.dims[2], q.depth = query.dims[3], q.width = out.dims[3];
  const TileShape tile = chooseTile(target, DType::f32, 1 << 20);
  // Columns of V: groups of at most three vectors, as even as possible; what half a vector of 512 bits holds, apart.
  const int64_t vectors = std::max<int64_t>(1, ceilDiv(q.width, tile.lanes)), rest = q.width % tile.lanes;
  const bool half = tile.lanes == 16 && rest > 0 && rest <= 8;
  const int64_t whole = vectors - half, group = whole == 0 ? 1 : ceilDiv(whole, ceilDiv(whole, 3));
  q.pitchV = vectors * tile.lanes;
  q.blocks = ceilDiv(q.queries, queryBlock);
  q.offsetV = roundUp(roundUp(q.keys, tile.width()) * (q.depth + 1) * 4, 64);
  q.offsetS = q.offsetV + roundUp(q.keys * q.pitchV * 4, 64);
  q.offsetO = q.offsetS + roundUp(tile.rows * (keyBlock + 16) * 4, 64);
  q.offsetStat = q.offsetO + queryBlock * q.pitchV * 4;
  q.scale = site.get("scale", 0x3f800000);
  bound.scratchBytes = q.offsetStat + 2 * queryBlock * tile.lanes * 4;
  bound.units = std::max<int64_t>(1, out.dims[0] * q.heads * q.blocks);
  bound.flops = 2 * out.dims[0] * q.heads * q.queries * q.keys * (q.depth + q.width);
  writeParams(q, bound.params);
  const int64_t rows = out.dims[0] * q.heads * q.queries, entries = out.dims[0] * q.heads,
                keyLanes = roundUp(q.keys, tile.width());
  bound.work.multiplied = 2 * rows * (keyLanes * q.depth + q.keys * (q.pitchV - half * tile.lanes / 2));
  const bool single = q.keys <= keyBlock;
  bound.work.instructions =
      rows * (keyLanes / tile.lanes * (16 + 6 + masked) + vectors * (single ? 2 : 4 * ceilDiv(q.keys, keyBlock)));
  bound.work.instructions += entries * q.keys * (q.depth + q.pitchV) / tile.lanes * 4; // packing
  config["rows"] = tile.rows, config["vectors"] = tile.vectors, config["lanes"] = tile.lanes;
  // Vectors of the last panel of keys, if not all of them are in use.
  const int64_t lastVectors = ceilDiv(q.keys % tile.width(), tile.lanes);
  config["last"] = lastVectors == tile.vectors ? 0 : lastVectors;
  config["group"] = group;
  config["tail"] = whole % group;
  config["whole"] = whole >= group;
  config["half"] = half;
  config["rest"] = rest;     // columns of the last vector, 0: all
  config["single"] = single; // one block of keys: nothing is summed before it
  config["mask"] = !masked ? 0 : 1 + strideClass(site.input(3));
  // Scores wait as plain products: exp(scale * (S - maximum)) takes the scale in. A mask is added to scaled ones.
  config["plain"] = !masked && llvm::bit_cast<float>(uint32_t(q.scale)) > 0;
  config["out"] = strideClass(out);
  config["q"] = q.q.column == 1 || q.depth == 1;
  config["k"] = q.k.column == 1 || q.depth == 1 ? 1 : q.k.row == 1 ? 2 : 0; // what is contiguous: depth, keys, nothing
  config["depthRest"] = config["k"] == 1 ? q.depth % tile.lanes : 0;
  config["v"] = q.v.column == 1 || q.width == 1;
  finishBind(bound, site);
  return bound;
}

namespace {

class AttentionEmitter {
public:
  AttentionEmitter(const KernelDescription &kernel, KernelBuilder &kb)
      : kernel(kernel), kb(kb), arithmetic{kb, DType::f32}, tile{get("rows"), get("vectors"), get("lanes")},
        masked(get("mask")), single(get("single")) {}

  void emit() {
    readParams(q, kb);
    if (get("q"))
      q.q.column = 1;
    if (get("k") == 1)
      q.k.column = 1;
    if (get("k") == 2)
      q.k.row = 1;
    if (get("v"))
      q.v.column = 1;
    q.out.column = strideOf(get("out"), q.out.column);
    if (masked)
      q.mask.column = strideOf(get("mask") - 1, q.mask.column);
    Value bits = arith::TruncIOp::create(
        kb.b, kb.loc, kb.b.getI32Type(),
        arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getI64Type(), kb.ssa(q.scale)).getResult());
    plain = get("plain");
    scale = kb.splat(arith::BitcastOp::create(kb.b, kb.loc, kb.b.getF32Type(), bits), tile.lanes);
    Value log2e = constant(1.4426950408889634);
    toBinary = plain ? mul(scale, log2e) : log2e;
    panels = kb.scratch(0, DType::f32, {1, kb.add(q.depth, 1), tile.width()});
    values = kb.scratch(q.offsetV, DType::f32, {q.keys, q.pitchV});
    scores = kb.scratch(q.offsetS, DType::f32, {tile.rows, keyBlock + 16});
    sums = kb.scratch(q.offsetO, DType::f32, {queryBlock, q.pitchV});
    stat = kb.scratch(q.offsetStat, DType::f32, {2, queryBlock, tile.lanes});
    kb.loop(kb.begin(), kb.end(), 1, [&](Index u) {
      Index block = kb.rem(u, q.blocks), rest = kb.div(u, q.blocks);
      Index head = kb.rem(rest, q.heads), entry = kb.div(rest, q.heads);
      auto view = [&](unsigned i, Params<Index>::Walk &w) {
        return kb.view(i, {1, 1}, {w.row, w.column}, kb.add(kb.mul(entry, w.batch), kb.mul(head, w.head)));
      };
      kb.ifThen(arith::OrIOp::create(kb.b, kb.loc, kb.equal(u, kb.begin()), kb.equal(block, 0)), [&] {
        packKeys(view(2, q.k), kb.add(kb.mul(entry, q.k.batch), kb.mul(head, q.k.head)));
        packValues(view(3, q.v));
      });
      out = view(0, q.out);
      queries = view(1, q.q);
      if (masked)
        mask = view(4, q.mask);
      Index q0 = kb.mul(block, queryBlock), count = kb.min(queryBlock, kb.sub(q.queries, q0));
      queryRows(q0, count);
    });
  }

private:
  int64_t get(const char *key) const { return kernel.config.at(key); }
  Value constant(double x) { return kb.constantVector(kb.b.getF32Type(), x, tile.lanes); }
  Value larger(Value x, Value y) { // y where unordered
    return arith::SelectOp::create(kb.b, kb.loc, arith::CmpFOp::create(kb.b, kb.loc, arith::CmpFPredicate::OGT, x, y),
                                   x, y);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(kb.b, kb.loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(kb.b, kb.loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(kb.b, kb.loc, x, y); }
  /// e^(x - maximum) of scaled scores.
  Value power(Value x, Value maximum) {
    Value t = plain ? kb.fma(x, toBinary, (-Num(kb, mul(maximum, toBinary))).v)
                    : mul(sub(x, maximum), toBinary); // the lowest numbers as masks: no product may overflow first
    return vmath::exp2Below({kb, t}).v;
  }

  /// Behind the last key stands the last key again: any numbers will do there that are finite where the keys are.
  void packKeys(Buffer keys, Index offset) {
    const int64_t width = tile.width(), lanes = tile.lanes;
    kb.loop(0, q.keys, width, [&](Index n) {
      Index panel = kb.div(n, width), real = kb.min(width, kb.sub(q.keys, n));
      for (int64_t j = 0; j < tile.vectors; ++j)
        kb.storeVector(arithmetic.zero(lanes), panels, {panel, q.depth, j * lanes});
      Value low = kb.constantVector(kb.b.getF32Type(), -HUGE_VAL, 0);
      kb.loop(real, width, 1, [&](Index i) { kb.store(low, panels, {panel, q.depth, i}); });
      auto key = [&](Index i) { return kb.min(kb.add(n, i), kb.sub(q.keys, 1)); };
      auto scalars = [&] {
        kb.loop(0, width, 1, [&](Index i) {
          Index row = key(i);
          kb.loop(0, q.depth, 1, [&](Index d) {
            kb.store(arithmetic.widen(kb.load(keys, {row, d}), kernel.types[2]), panels, {panel, d, i});
          });
        });
      };
      if (get("k") == 1) { // lanes x lanes blocks, transposed in registers
        const int64_t rest = get("depthRest");
        auto block = [&](Index d, int64_t active) {
          for (int64_t j = 0; j < tile.vectors; ++j) {
            SmallVector<Value> rows;
            for (int64_t i = 0; i < lanes; ++i)
              rows.push_back(
                  arithmetic.widen(kb.loadMasked(keys, {key(j * lanes + i), d}, lanes, active), kernel.types[2]));
            transposeSquare(kb, rows);
            for (int64_t i = 0; i < active; ++i)
              kb.storeVector(rows[i], panels, {panel, kb.add(d, i), j * lanes});
          }
        };
        Index whole = kb.sub(q.depth, rest);
        kb.loop(0, whole, lanes, [&](Index d) { block(d, lanes); });
        if (rest)
          block(whole, rest);
      } else if (get("k") == 2) {
        Buffer columns = kb.view(2, {1, 1}, {q.k.column, 1}, offset); // [d][key]
        auto vectors = [&] {
          kb.loop(0, q.depth, 1, [&](Index d) {
            for (int64_t j = 0; j < tile.vectors; ++j)
              kb.storeVector(
                  arithmetic.widen(kb.loadVector(columns, {d, kb.add(n, j * lanes)}, lanes), kernel.types[2]), panels,
                  {panel, d, j * lanes});
          });
        };
        kb.ifThen(kb.equal(real, width), vectors, scalars);
      } else {
        scalars();
      }
    });
  }

  void packValues(Buffer from) {
    const int64_t rest = get("rest"), lanes = tile.lanes;
    Index whole = rest ? kb.sub(q.width, rest) : q.width;
    auto copy = [&](Index n, Index e, int64_t active) {
      kb.storeVector(arithmetic.widen(loadLanes(kb, from, {n, e}, get("v") ? 1 : 2, lanes, active), kernel.types[3]),
                     values, {n, e});
    };
    kb.loop(0, q.keys, 1, [&](Index n) {
      kb.loop(0, whole, lanes, [&](Index e) { copy(n, e, lanes); });
      if (rest)
        copy(n, whole, rest);
    });
  }

  void queryRows(Index q0, Index count) {
    const int64_t lanes = tile.lanes;
    if (!single)
      kb.loop(0, count, 1, [&](Index i) {
        kb.storeVector(constant(lowest), stat, {0, i, 0});
        kb.storeVector(constant(0), stat, {1, i, 0});
        kb.loop(0, q.pitchV, lanes, [&](Index e) { kb.storeVector(constant(0), sums, {i, e}); });
      });
    kb.loop(0, q.keys, keyBlock, [&](Index k0) {
      Index n = kb.min(keyBlock, kb.sub(q.keys, k0));
      Index padded = kb.mul(kb.ceilDiv(n, tile.lanes), tile.lanes);
      const int64_t group = get("group"), tail = get("tail");
      // The scores of one tile of rows stay in L1 from their making to their use.
      auto make = [&](Index i, int64_t rows) {
        Index last = kb.rem(n, tile.width()), whole = get("last") ? kb.sub(n, last) : n;
        kb.loop(0, whole, tile.width(), [&](Index k) { scoreTile(q0, i, rows, k0, k, tile.vectors); });
        if (get("last"))
          kb.ifThen(kb.less(0, last), [&] { scoreTile(q0, i, rows, k0, whole, get("last")); });
      };
      auto use = [&](Index i, Index rows) {
        kb.loop(0, rows, 1, [&](Index r) { rowPass(r, kb.add(i, r), padded); });
        auto columns = [&](Index e, int64_t vectors, int64_t lanes) {
          const int64_t most = tile.rows == 8 ? 8 : vectors == 3 ? 4 : vectors == 2 ? 6 : tile.rows;
          kb.tilesEven(rows, std::min(most, tile.rows),
                       [&](Index r, int64_t rows) { valueTile(r, kb.add(i, r), rows, e, vectors, lanes, k0, n); });
        };
        Index whole = kb.sub(q.pitchV, get("half") * lanes), tailAt = kb.sub(whole, tail * lanes);
        if (get("whole"))
          kb.loop(0, tailAt, group * lanes, [&](Index e) { columns(e, group, lanes); });
        if (tail)
          columns(tailAt, tail, lanes);
        if (get("half"))
          columns(whole, 1, lanes / 2);
      };
      kb.tilesEven(count, tile.rows, make, use);
    });
    kb.loop(0, count, 1, [&](Index i) {
      Value sum = vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::ADD,
                                              kb.loadVector(stat, {1, i, 0}, lanes), arith::FastMathFlags::reassoc);
      Value factor =
          kb.splat(arith::DivFOp::create(kb.b, kb.loc, kb.constantVector(kb.b.getF32Type(), 1, 0), sum), lanes);
      const int64_t rest = get("rest");
      auto put = [&](Index e, int64_t active) {
        Value v = mul(kb.loadVector(sums, {i, e}, lanes), factor);
        storeLanes(kb, kernel.types[0] == DType::f32 ? v : kb.fromF32(v, out.element), out, {kb.add(q0, i), e},
                   get("out"), active);
      };
      kb.loop(0, rest ? kb.sub(q.width, rest) : q.width, lanes, [&](Index e) { put(e, lanes); });
      if (rest)
        put(kb.sub(q.width, rest), rest);
    });
  }

  /// Scores of `rows` rows from i on and `vectors` vectors of keys from k0 + k on, the start of a panel.
  void scoreTile(Index q0, Index i, int64_t rows, Index k0, Index k, int64_t vectors) {
    const int64_t lanes = tile.lanes;
    Index panel = kb.div(kb.add(k0, k), tile.width());
    KernelBuilder::Values limits, acc;
    for (int64_t j = 0; j < vectors; ++j)
      limits.push_back(kb.loadVector(panels, {panel, q.depth, j * lanes}, lanes));
    for (int64_t i = 0; i < rows * vectors; ++i)
      acc.push_back(plain ? limits[i % vectors] : arithmetic.zero(lanes));
    acc = multiplyLoop(
        arithmetic, 0, q.depth, rows, vectors, acc,
        [&](int64_t r, Index d) {
          return arithmetic.widen(kb.load(queries, {kb.add(kb.add(q0, i), r), d}), kernel.types[1]);
        },
        [&](int64_t j, Index d) { return kb.loadVector(panels, {panel, d, j * lanes}, lanes); });
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < vectors; ++j)
        kb.storeVector(plain ? acc[r * vectors + j] : kb.fma(acc[r * vectors + j], scale, limits[j]), scores,
                       {r, kb.add(k, j * lanes)});
    if (!masked)
      return;
    // Keys that are not there have no mask either.
    Index row = kb.add(q0, i), key = kb.add(k0, k), real = kb.min(tile.width(), kb.sub(q.keys, key));
    kb.loop(0, rows, 1, [&](Index r) {
      auto at = [&](Index c) { return std::vector<Index>{r, kb.add(k, c)}; };
      Index done = 0;
      if (get("mask") - 1 == 1) {
        done = kb.sub(real, kb.rem(real, lanes));
        kb.loop(0, done, lanes, [&](Index c) {
          Value m = arithmetic.widen(kb.loadVector(mask, {kb.add(row, r), kb.add(key, c)}, lanes), kernel.types[4]);
          kb.storeVector(add(kb.loadVector(scores, at(c), lanes), m), scores, at(c));
        });
      }
      kb.loop(done, real, 1, [&](Index c) {
        Value m = arithmetic.widen(kb.load(mask, {kb.add(row, r), kb.add(key, c)}), kernel.types[4]);
        kb.store(add(kb.load(scores, at(c)), m), scores, at(c));
      });
    });
  }

  /// Row r of the scores becomes numbers to multiply V by; maximum, sum and O of row i of the block are brought up to
  /// date.
  void rowPass(Index r, Index i, Index padded) {
    const int64_t lanes = tile.lanes;
    Value start = single ? constant(lowest) : kb.loadVector(stat, {0, i, 0}, lanes);
    // Two chains, of which the second leaves out a last odd vector.
    Index pairs = kb.sub(padded, kb.rem(padded, 2 * lanes));
    auto overKeys = [&](KernelBuilder::Values init, llvm::function_ref<Value(Index, Value)> step) {
      init = kb.loop(0, pairs, 2 * lanes, init, [&](Index k, ValueRange in) {
        return KernelBuilder::Values{step(k, in[0]), step(kb.add(k, lanes), in[1])};
      });
      return kb.loop(pairs, padded, lanes, init,
                     [&](Index k, ValueRange in) { return KernelBuilder::Values{step(k, in[0]), in[1]}; });
    };
    auto two =
        overKeys({start, start}, [&](Index k, Value top) { return larger(kb.loadVector(scores, {r, k}, lanes), top); });
    Value top = vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::MAXNUMF, larger(two[0], two[1]));
    Value maximum = kb.splat(top, lanes);
    Value correction = single ? Value() : power(start, maximum);
    Value sum = single ? constant(0) : mul(kb.loadVector(stat, {1, i, 0}, lanes), correction);
    two = overKeys({sum, constant(0)}, [&](Index k, Value sum) {
      Value p = power(kb.loadVector(scores, {r, k}, lanes), maximum);
      kb.storeVector(p, scores, {r, k});
      return add(sum, p);
    });
    kb.storeVector(add(two[0], two[1]), stat, {1, i, 0});
    if (single)
      return;
    kb.storeVector(maximum, stat, {0, i, 0});
    kb.loop(0, q.pitchV, lanes,
            [&](Index e) { kb.storeVector(mul(kb.loadVector(sums, {i, e}, lanes), correction), sums, {i, e}); });
  }

  /// O of `rows` rows from i on += the scores' rows from r0 on, times `vectors` vectors of `lanes` columns of V.
  void valueTile(Index r0, Index i, int64_t rows, Index e, int64_t vectors, int64_t lanes, Index k0, Index n) {
    KernelBuilder::Values acc;
    auto at = [&](int64_t r, int64_t j) { return std::vector<Index>{kb.add(i, r), kb.add(e, j * lanes)}; };
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < vectors; ++j)
        acc.push_back(single ? arithmetic.zero(lanes) : kb.loadVector(sums, at(r, j), lanes));
    acc = multiplyLoop(
        arithmetic, 0, n, rows, vectors, acc, [&](int64_t r, Index k) { return kb.load(scores, {kb.add(r0, r), k}); },
        [&](int64_t j, Index k) { return kb.loadVector(values, {kb.add(k0, k), kb.add(e, j * lanes)}, lanes); });
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < vectors; ++j)
        kb.storeVector(acc[r * vectors + j], sums, at(r, j));
  }

  const KernelDescription &kernel;
  KernelBuilder &kb;
  Arithmetic arithmetic;
  const TileShape tile;
  const bool masked, single;
  bool plain = false;
  Params<Index> q;
  Value scale, toBinary;
  Buffer panels, values, scores, sums, stat, out, queries, mask;
};

class AttentionFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "attention"; }
  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override {
    return bindAttention(site, target);
  }
  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &builder) const override {
    AttentionEmitter(kernel, builder).emit();
    return llvm::Error::success();
  }
};

} // namespace

const KernelFamily &attentionFamily() {
  static const AttentionFamily family;
  return family;
}

} // namespace mrcc
