// Depthwise convolution: out[n, y, x, c] = body(sum over taps of in[n, y', x', c] * w[tap, c]), channels innermost.
//
// A register tile is 8 pixels of a row by one vector of channels. It goes through its rows of taps; in a row, each
// input vector is loaded once and used by every accumulator that it touches, in an order that leaves time between two
// additions to one accumulator (8 of them hide the latency of an FMA only if they take turns). Rows of taps outside are
// left out by the bounds of the loop; the first and last tiles of a row check their columns of taps.
//
// A unit of work is a range of rows of one image and a range of channels. It goes down the rows of one column of tiles
// before the next, so that of the rows of taps all but one are in L1.
//
// Extents, strides and borders are parameters; kernel size, step and dilation are in the description, and the distance
// of pixels where it is the number of channels.
#include "Families.h"
#include "Tile.h"
#include <map>
#include <set>

using namespace mlir;

namespace mrcc {

namespace {

constexpr int64_t tilePixels = 8;

/// Rows of taps up to which a tile is straight code.
constexpr int64_t straightRows = 3;

template <class T> struct Params {
  T height = 0, width = 0, channels = 0; // of the output
  T inHeight = 0, inWidth = 0, top = 0, left = 0;
  T insideLeft = 0, insideRight = 0; // output columns whose taps all lie inside
  T rowBlock = 0, rowBlocks = 1, channelBlock = 0, channelBlocks = 1;
  T tapStride = 0, weightChannel = 0;
  ImageWalk<T> in;
  std::vector<ImageWalk<T>> outs;
  // How far three pixels or taps are. See Strip.
  T inTriple = 0, tapTriple = 0;
  std::vector<T> outTriples;
  template <class F> void each(F f) {
    for (T *x : {&height, &width, &channels, &inHeight, &inWidth, &top, &left, &insideLeft, &insideRight, &rowBlock,
                 &rowBlocks, &channelBlock, &channelBlocks, &tapStride, &weightChannel, &inTriple, &tapTriple})
      f(*x);
    in.each(f);
    for (ImageWalk<T> &walk : outs)
      walk.each(f);
    for (T &x : outTriples)
      f(x);
  }
};

/// One image dimension: outputs [first, second) have all taps inside.
std::pair<int64_t, int64_t> insideRange(int64_t outputs, int64_t inputs, int64_t pad, int64_t reach, int64_t step) {
  int64_t first = std::min(outputs, ceilDiv(std::max<int64_t>(0, pad), step));
  int64_t room = inputs - reach + pad; // the last output's first tap may stand here
  int64_t second = room < 0 ? first : std::clamp(room / step + 1, first, outputs);
  return {first, second};
}

} // namespace

static llvm::Expected<BoundLaunch> bindDepthwise(const LaunchSite &site, const Target &target) {
  const size_t rank = site.output().dims.size();
  if (rank != 3 && rank != 4)
    return llvm::createStringError("depthwise takes views of rank 3 or 4, got %zu", rank);
  auto list = [&](const char *key, size_t size, int64_t otherwise) {
    auto it = site.config.find(key);
    std::vector<int64_t> values = it == site.config.end() ? std::vector<int64_t>(size, otherwise) : it->second;
    if (values.size() == size / 2 || values.size() == 1) // one dimension: height 1
      values.insert(values.begin(), 1, otherwise);
    return values;
  };
  auto lift = [&](View view) { // [N, W, C] -> [N, 1, W, C]
    if (view.dims.size() == 3) {
      view.dims.insert(view.dims.begin() + 1, 1);
      view.strides.insert(view.strides.begin() + 1, 0);
    }
    return view;
  };
  std::vector<int64_t> kernelSize = list("kernel", 2, 1), steps = list("strides", 2, 1),
                       dilations = list("dilations", 2, 1);
  std::vector<int64_t> pads(4, 0);
  if (auto it = site.config.find("pads"); it != site.config.end())
    pads = it->second.size() == 2 ? std::vector<int64_t>{0, it->second[0], 0, it->second[1]} : it->second;
  const View out = lift(site.output()), in = lift(site.input(0)), &weights = site.input(1);
  const DType compute = computeType(in.type);
  const int64_t lanes = target.lanes(bitWidth(compute));

  BoundLaunch bound;
  KernelDescription &kernel = bound.kernel;
  auto &config = kernel.config;
  kernel.family = "depthwise";
  kernel.body = site.body.str();
  kernel.types = {out.type, in.type, weights.type};
  Params<int64_t> q;
  std::vector<View> extras;
  for (unsigned i = 2; i < site.numInputs(); ++i)
    extras.push_back(lift(site.input(i)));
  q.in = walkOf(in);
  q.outs = bindOperands(kernel, out, extras);
  q.height = out.dims[1], q.width = out.dims[2], q.channels = out.dims[3];
  q.inHeight = in.dims[1], q.inWidth = in.dims[2];
  q.top = pads[0], q.left = pads[1];
  const int64_t reachY = dilations[0] * (kernelSize[0] - 1) + 1, reachX = dilations[1] * (kernelSize[1] - 1) + 1;
  const auto [insideTop, insideBottom] = insideRange(q.height, q.inHeight, q.top, reachY, steps[0]);
  std::tie(q.insideLeft, q.insideRight) = insideRange(q.width, q.inWidth, q.left, reachX, steps[1]);
  q.tapStride = weights.strides[0], q.weightChannel = weights.strides[1];
  q.inTriple = 3 * q.in.pixel, q.tapTriple = 3 * q.tapStride;
  for (const auto &walk : q.outs)
    q.outTriples.push_back(3 * walk.pixel);

  // Channels of a unit: the rows of taps of one tile stay in L1 from one row of tiles to the next.
  const int64_t taps = kernelSize[0] * kernelSize[1];
  const int64_t window = reachY * (steps[1] * (tilePixels - 1) + reachX) * bitWidth(compute) / 8;
  const int64_t vectors = std::max<int64_t>(1, ceilDiv(q.channels, lanes));
  int64_t perBlock = std::clamp<int64_t>((24 << 10) / (window * lanes), 1, vectors);
  q.channelBlocks = ceilDiv(vectors, perBlock);
  perBlock = ceilDiv(vectors, q.channelBlocks);
  q.channelBlock = perBlock * lanes;
  q.channelBlocks = ceilDiv(vectors, perBlock);
  // Units of about 2^18 multiplications, or as many as 16 threads want, but then none below 2^15.
  const int64_t work = q.height * q.width * q.channelBlock * taps;
  const int64_t shares = ceilDiv(16, std::max<int64_t>(1, out.dims[0] * q.channelBlocks));
  q.rowBlocks = std::max<int64_t>({1, work >> 18, std::min(shares, work >> 15)});
  q.rowBlock = std::max<int64_t>(1, ceilDiv(q.height, q.rowBlocks));
  q.rowBlocks = std::max<int64_t>(1, ceilDiv(q.height, q.rowBlock));
  bound.units = std::max<int64_t>(1, out.dims[0] * q.rowBlocks * q.channelBlocks);
  bound.flops = 2 * out.dims[0] * q.height * q.width * q.channels * taps;
  writeParams(q, bound.params);
  const int64_t outVectors = out.dims[0] * q.height * q.width * vectors;
  const int64_t tileLoads = kernelSize[0] * ((tilePixels - 1) * steps[1] + kernelSize[1]);
  bound.work.multiplied = 2 * outVectors * lanes * taps;
  bound.work.instructions = outVectors * finishInstructions(site) + outVectors * (tileLoads + taps) / tilePixels;

  config["kh"] = kernelSize[0], config["kw"] = kernelSize[1];
  config["sh"] = steps[0], config["sw"] = steps[1];
  config["dh"] = dilations[0], config["dw"] = dilations[1];
  config["lanes"] = lanes;
  config["tail"] = q.channels % lanes;
  config["whole"] = q.channels >= lanes;
  config["border"] = q.insideLeft > 0 || q.insideRight < q.width || insideTop > 0 || insideBottom < q.height;
  config["channel"] = q.in.channel == 1 || q.channels == 1 ? 1 : 2;
  config["weight"] = q.weightChannel == 1 || q.channels == 1 ? 1 : 2;
  // Where pixels follow each other without gaps, or are one, how far they are is in the code: addresses then take no
  // registers.
  auto known = [&](int64_t stride) { return stride == 0 || stride == q.channels ? stride : -1; };
  config["inPixel"] = known(q.in.pixel);
  config["taps"] = known(q.tapStride);
  for (size_t i = 0; i < q.outs.size(); ++i)
    config["pixel" + std::to_string(i)] = known(q.outs[i].pixel);
  // Input and output that do not stay in L2: the next row of tiles is fetched ahead.
  config["ahead"] =
      q.channelBlocks == 1 && q.in.pixel == q.channels && 4 * (viewBytes(in) + viewBytes(out)) > 5 * target.l2Bytes;
  config["immediate"] = bound.params.size();
  bound.scratchBytes = tilePixels * lanes * bitWidth(compute) / 8;
  finishBind(bound, site);
  return bound;
}

namespace {

class DepthwiseEmitter {
public:
  DepthwiseEmitter(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb)
      : kernel(kernel), kb(kb), arithmetic{kb, computeType(kernel.types[1])}, kh(get("kh")), kw(get("kw")),
        sh(get("sh")), sw(get("sw")), dh(get("dh")), dw(get("dw")), channelClass(get("channel")),
        epilogue(kb, kernel, body, arithmetic.type, get("immediate")) {}

  void emit() {
    q.outs.resize(kernel.types.size() - 2);
    q.outTriples.resize(q.outs.size(), 0);
    readParams(q, kb);
    if (channelClass == 1)
      q.in.channel = 1;
    if (get("weight") == 1)
      q.weightChannel = 1;
    auto known = [&](const std::string &key, Index &stride, Index &triple) {
      if (get(key) >= 0)
        stride = get(key), triple = 3 * get(key);
    };
    known("inPixel", q.in.pixel, q.inTriple);
    known("taps", q.tapStride, q.tapTriple);
    for (size_t i = 0; i < q.outs.size(); ++i)
      known("pixel" + std::to_string(i), q.outs[i].pixel, q.outTriples[i]);
    stage = kb.scratch(0, arithmetic.type, {tilePixels, get("lanes")});
    kb.loop(kb.begin(), kb.end(), 1, [&](Index u) { unit(u); });
  }

private:
  int64_t get(const std::string &key) const { return kernel.config.at(key); }

  void unit(Index u) {
    Index channelBlock = kb.rem(u, q.channelBlocks), rest = kb.div(u, q.channelBlocks);
    Index rowBlock = kb.rem(rest, q.rowBlocks), image = kb.div(rest, q.rowBlocks);
    inImage = kb.mul(image, q.in.batch);
    outImages.clear();
    for (auto &walk : q.outs)
      outImages.push_back(kb.mul(image, walk.batch));
    channel0 = kb.mul(channelBlock, q.channelBlock);
    channelEnd = kb.min(kb.add(channel0, q.channelBlock), q.channels);
    Index row0 = kb.mul(rowBlock, q.rowBlock), rowEnd = kb.min(kb.add(row0, q.rowBlock), q.height);
    auto rows = [&](Index x, int64_t columns, bool edge) {
      kb.loop(row0, rowEnd, 1, [&](Index y) { tile(y, x, columns, edge); });
    };
    kb.tilesEven(q.width, tilePixels, [&](Index x, int64_t columns) {
      if (!get("border"))
        return rows(x, columns, false);
      Value inside = kb.both(kb.less(kb.sub(q.insideLeft, 1), x), kb.less(kb.add(x, columns - 1), q.insideRight));
      kb.ifThen(inside, [&] { rows(x, columns, false); }, [&] { rows(x, columns, true); });
    });
  }

  /// Runs body(channel, lanes, active) over the unit's channels.
  void overChannels(llvm::function_ref<void(Index, int64_t, int64_t)> body) {
    const int64_t lanes = get("lanes"), tail = get("tail");
    Index end = tail ? kb.sub(channelEnd, kb.rem(channelEnd, lanes)) : channelEnd;
    if (get("whole"))
      kb.loop(channel0, end, lanes, [&](Index c) { body(c, lanes, lanes); });
    if (tail) {
      int64_t narrow = lanes;
      while (narrow / 2 >= tail && narrow > 4)
        narrow /= 2;
      kb.ifThen(kb.equal(channelEnd, q.channels), [&] { body(get("whole") ? end : Index(0), narrow, tail); });
    }
  }

  /// A run of pixels or taps and one vector of channels. The address of element i is written as the first one's plus
  /// i / 3 times `triple` plus i % 3 times `stride`, where `triple` is a parameter of its own unless the stride is known:
  /// did LLVM know that it is 3 * stride, it would keep each multiple of the stride in a register, and spill.
  struct Strip {
    unsigned view;
    Index offset, stride, triple, channel;
    int64_t channelClass;
  };
  Buffer window(const Strip &strip, int64_t group) {
    return kb.view(strip.view, {1, 1}, {strip.stride, strip.channel},
                   kb.add(strip.offset, kb.mul(strip.triple, group)));
  }
  Value loadFrom(const Strip &strip, int64_t i, int64_t lanes, int64_t active) {
    Value v = loadLanes(kb, window(strip, i / 3), {i % 3, 0}, strip.channelClass, lanes, active);
    return arithmetic.widen(v, kernel.types[strip.view]);
  }

  /// Body and store of a tile whose first pixel is (y, x).
  void finish(llvm::ArrayRef<Value> acc, Index y, Index x, Index c, int64_t active) {
    SmallVector<Value> fixed(q.outs.size()); // what all pixels share
    auto setOperands = [&](int64_t group) {
      epilogue.setOperands(q.outs.size(), [&](size_t i) {
        auto &walk = q.outs[i];
        const int64_t channelClass = get("x" + std::to_string(i));
        Index channel = strideOf(channelClass, walk.channel);
        Index offset = kb.add(kb.add(kb.mul(y, walk.row), kb.mul(x, walk.pixel)), kb.mul(c, channel));
        Strip strip{Epilogue::viewOf(i), kb.add(outImages[i], offset), walk.pixel, q.outTriples[i], channel,
                    channelClass};
        return Epilogue::Operand{window(strip, group), channelClass, fixed[i]};
      });
    };
    setOperands(0);
    const int64_t lanes = cast<VectorType>(acc[0].getType()).getDimSize(0);
    for (size_t i = 1; i < q.outs.size(); ++i)
      if (get("pixel" + std::to_string(i)) == 0)
        fixed[i] = epilogue.load(i - 1, {0, 0}, lanes, active);
    setOperands(0);
    if (!epilogue.heavy(12)) { // a tile has few products: a loop around the body would take as long as they do
      for (size_t i = 0; i < acc.size(); ++i) {
        if (i > 0 && i % 3 == 0)
          setOperands(i / 3);
        epilogue.store(acc[i], {int64_t(i) % 3, 0}, active);
      }
      return;
    }
    for (size_t i = 0; i < acc.size(); ++i)
      kb.storeVector(acc[i], stage, {int64_t(i), 0});
    kb.loop(0, int64_t(acc.size()), 1,
            [&](Index i) { epilogue.store(kb.loadVector(stage, {i, 0}, lanes), {i, 0}, active); });
  }

  /// Columns of the input that a tile reads, in the order in which it uses them: in each pass no pixel is touched
  /// twice, so that one addition to a sum is over before the next one starts.
  std::vector<int64_t> columnOrder(int64_t columns) {
    std::set<int64_t> rest;
    for (int64_t p = 0; p < columns; ++p)
      for (int64_t kx = 0; kx < kw; ++kx)
        rest.insert(p * sw + kx * dw);
    std::vector<int64_t> order;
    while (!rest.empty()) {
      std::vector<bool> touched(columns);
      for (auto it = rest.begin(); it != rest.end();) {
        bool free = true;
        for (int64_t p = 0; p < columns; ++p)
          free &= tapOf(*it, p) < 0 || !touched[p];
        if (!free) {
          ++it;
          continue;
        }
        for (int64_t p = 0; p < columns; ++p)
          touched[p] = touched[p] || tapOf(*it, p) >= 0;
        order.push_back(*it);
        it = rest.erase(it);
      }
    }
    return order;
  }
  /// The tap of a row that pixel p of a tile applies to the tile's input column, or -1.
  int64_t tapOf(int64_t column, int64_t p) const {
    int64_t t = column - p * sw;
    return t >= 0 && t % dw == 0 && t / dw < kw ? t / dw : -1;
  }

  /// `columns` pixels of row y from x on. `edge`: columns of taps may lie outside.
  void tile(Index y, Index x, int64_t columns, bool edge) {
    if (!get("border"))
      return sums(y, x, columns, edge, 0, kh);
    Index iy = inputRow(y);
    Index lo = kb.ceilDiv(kb.max(0, kb.sub(0, iy)), dh);
    Index hi = kb.min(kh, kb.ceilDiv(kb.max(0, kb.sub(q.inHeight, iy)), dh));
    auto clipped = [&] { sums(y, x, columns, edge, lo, hi); };
    if (edge || kh > straightRows)
      return clipped();
    kb.ifThen(kb.equal(kb.sub(hi, lo), kh), [&] { sums(y, x, columns, edge, 0, kh); }, clipped);
  }

  Index inputRow(Index y) { return kb.sub(kb.mul(y, sh), q.top); } // of the first tap, negative in the border
  Index inputColumn(Index x) { return kb.sub(kb.mul(x, sw), q.left); }

  /// A tile over the rows of taps [lo, hi).
  void sums(Index y, Index x, int64_t columns, bool edge, Index lo, Index hi) {
    Index ix = inputColumn(x), iy = kb.add(inputRow(y), kb.mul(lo, dh));
    const std::vector<int64_t> order = columnOrder(columns);
    std::map<int64_t, Value> valid;
    if (edge)
      for (int64_t column : order)
        valid[column] = kb.inRange(kb.add(ix, column), q.inWidth);
    Index inRow = kb.mul(q.in.row, dh), tapRow = kb.mul(q.tapStride, kw);
    Index inStart = kb.add(inImage, kb.add(kb.mul(iy, q.in.row), kb.mul(ix, q.in.pixel))),
          tapStart = kb.mul(lo, tapRow);
    overChannels([&](Index c, int64_t lanes, int64_t active) {
      // Carried from row to row of taps: the sums, where the row of the input starts, and its weights.
      KernelBuilder::Values carried(columns, arithmetic.zero(lanes));
      carried.push_back(kb.ssa(kb.add(inStart, kb.mul(c, q.in.channel))));
      carried.push_back(kb.ssa(kb.add(tapStart, kb.mul(c, q.weightChannel))));
      auto step = [&](Index, ValueRange before) {
        Index in = before[columns], taps = before[columns + 1];
        KernelBuilder::Values after = addRow(before.take_front(columns), in, taps, order, valid, lanes, active);
        after.push_back(kb.ssa(kb.add(in, inRow)));
        after.push_back(kb.ssa(kb.add(taps, tapRow)));
        return after;
      };
      if (lo.isConstant() && hi.isConstant() && kh <= straightRows)
        for (int64_t ky = 0; ky < kh; ++ky)
          carried = step(ky, carried);
      else
        carried = kb.loop(lo, hi, 1, carried, step);
      if (get("ahead"))
        fetchAhead(y, x, c, columns, lanes);
      finish(ArrayRef<Value>(carried).drop_back(2), y, x, c, active);
    });
  }

  /// Brings what the tile below adds to the input, and its outputs, into cache, a share with each vector of channels.
  /// Pixels that follow each other without gaps are one run; outputs that do not are not fetched.
  void fetchAhead(Index y, Index x, Index c, int64_t columns, int64_t lanes) {
    auto fetch = [&](unsigned view, Index start, int64_t pixels) {
      Index run = kb.add(start, kb.mul(c, pixels));
      for (int64_t i = 0; i < pixels * lanes; i += 16)
        kb.prefetch(kb.view(view, {1}, {1}, kb.add(run, i)), {0}, view == 0);
    };
    Index row = kb.add(inputRow(y), kh * dh), pixel = kb.mul(inputColumn(x), q.in.pixel);
    for (int64_t r = 0; r < sh; ++r)
      fetch(1, kb.add(inImage, kb.add(kb.mul(kb.add(row, r), q.in.row), pixel)), columns * sw);
    const auto &out = q.outs[0];
    if (get("pixel0") > 0)
      fetch(0, kb.add(outImages[0], kb.add(kb.mul(kb.add(y, 1), out.row), kb.mul(x, out.pixel))), columns);
  }

  /// Adds one row of taps to the sums of a tile. `valid`: for columns of the input that may lie outside, whether not.
  KernelBuilder::Values addRow(ValueRange before, Index inStart, Index tapStart, ArrayRef<int64_t> order,
                               const std::map<int64_t, Value> &valid, int64_t lanes, int64_t active) {
    const Strip in{1, inStart, q.in.pixel, q.inTriple, q.in.channel, channelClass};
    const Strip taps{2, tapStart, q.tapStride, q.tapTriple, q.weightChannel, get("weight")};
    KernelBuilder::Values acc(before), w;
    for (int64_t kx = 0; kx < kw; ++kx)
      w.push_back(loadFrom(taps, kx, lanes, active));
    for (int64_t column : order) {
      auto use = [&](KernelBuilder::Values acc) {
        Value d = loadFrom(in, column, lanes, active);
        for (auto [p, sum] : llvm::enumerate(acc))
          if (int64_t kx = tapOf(column, p); kx >= 0)
            sum = arithmetic.multiplyAdd(d, w[kx], sum);
        return acc;
      };
      auto guard = valid.find(column);
      acc = guard == valid.end() ? use(acc) : guarded(guard->second, acc, use);
    }
    return acc;
  }

  /// if condition: acc = then(acc)
  KernelBuilder::Values guarded(Value condition, KernelBuilder::Values acc,
                                llvm::function_ref<KernelBuilder::Values(KernelBuilder::Values)> then) {
    auto branch = scf::IfOp::create(kb.b, kb.loc, ValueRange(acc).getTypes(), condition, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(kb.b);
    kb.b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(kb.b, kb.loc, then(acc));
    kb.b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(kb.b, kb.loc, acc);
    return KernelBuilder::Values(branch.getResults());
  }

  const KernelDescription &kernel;
  KernelBuilder &kb;
  Arithmetic arithmetic;
  const int64_t kh, kw, sh, sw, dh, dw, channelClass;
  Epilogue epilogue;
  Params<Index> q;
  Buffer stage;
  Index inImage = 0, channel0 = 0, channelEnd = 0;
  SmallVector<Index> outImages; // offsets of the unit's image
};

class DepthwiseFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "depthwise"; }
  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override {
    return bindDepthwise(site, target);
  }
  llvm::Error emit(const KernelDescription &kernel, const Target &, KernelBuilder &builder) const override {
    auto body = Expr::parse(kernel.body);
    if (!body)
      return body.takeError();
    DepthwiseEmitter(kernel, *body, builder).emit();
    return llvm::Error::success();
  }
};

} // namespace

const KernelFamily &depthwiseFamily() {
  static const DepthwiseFamily family;
  return family;
}

} // namespace mrcc
