// Depthwise convolution: out[n, y, x, c] = body(sum over taps of in[n, y', x', c] * w[tap, c]), channels innermost.
//
// A register tile is 2 x 4 pixels (with 16 registers 1 x 8) by one vector of channels; each input vector is loaded once
// and used by every accumulator that it touches, row by row of the input, so that only the weights of the rows of taps
// in use need registers. The image is cut into the region whose taps all lie inside (straight code, no checks) and its
// border: border columns are tiles one pixel wide and eight high with a check a column of taps, border rows are tiles
// one pixel high that loop over the rows of taps that lie inside. A unit of work is a range of rows of one image and a
// range of channels.
//
// Extents, strides and borders are parameters; kernel size, step and dilation are in the description.
#include "Families.h"
#include "Tile.h"
#include <map>

using namespace mlir;

namespace mrcc {

namespace {

constexpr int64_t tilePixels = 8; // of a tile, whatever its form

template <class T> struct Params {
  T height = 0, width = 0, channels = 0; // of the output
  T inHeight = 0, inWidth = 0, top = 0, left = 0;
  T insideTop = 0, insideBottom = 0, insideLeft = 0, insideRight = 0; // outputs whose taps all lie inside
  T rowBlock = 0, rowBlocks = 1, channelBlock = 0, channelBlocks = 1;
  T tapStride = 0, weightChannel = 0;
  ImageWalk<T> in;
  std::vector<ImageWalk<T>> outs;
  template <class F> void each(F f) {
    for (T *x : {&height, &width, &channels, &inHeight, &inWidth, &top, &left, &insideTop, &insideBottom, &insideLeft,
                 &insideRight, &rowBlock, &rowBlocks, &channelBlock, &channelBlocks, &tapStride, &weightChannel})
      f(*x);
    in.each(f);
    for (ImageWalk<T> &walk : outs)
      walk.each(f);
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
  std::tie(q.insideTop, q.insideBottom) = insideRange(q.height, q.inHeight, q.top, reachY, steps[0]);
  std::tie(q.insideLeft, q.insideRight) = insideRange(q.width, q.inWidth, q.left, reachX, steps[1]);
  q.tapStride = weights.strides[0], q.weightChannel = weights.strides[1];

  // Units of about 2^17 multiplications, rows first; channels are cut where rows are few.
  const int64_t taps = kernelSize[0] * kernelSize[1], rowWork = std::max<int64_t>(1, q.width * q.channels * taps);
  q.rowBlock = std::clamp<int64_t>((1 << 17) / rowWork, 2, 16) / 2 * 2;
  q.rowBlocks = std::max<int64_t>(1, ceilDiv(q.height, q.rowBlock));
  const int64_t vectors = std::max<int64_t>(1, ceilDiv(q.channels, lanes)),
                wanted = ceilDiv(64, out.dims[0] * q.rowBlocks);
  const int64_t perBlock =
      std::max<int64_t>(ceilDiv(vectors, wanted),
                        std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, q.rowBlock * q.width * taps * lanes)));
  q.channelBlock = std::min(perBlock, vectors) * lanes;
  q.channelBlocks = std::max<int64_t>(1, ceilDiv(q.channels, q.channelBlock));
  bound.units = std::max<int64_t>(1, out.dims[0] * q.rowBlocks * q.channelBlocks);
  bound.flops = 2 * out.dims[0] * q.height * q.width * q.channels * taps;
  writeParams(q, bound.params);

  config["kh"] = kernelSize[0], config["kw"] = kernelSize[1];
  config["sh"] = steps[0], config["sw"] = steps[1];
  config["dh"] = dilations[0], config["dw"] = dilations[1];
  config["lanes"] = lanes;
  config["rows"] = target.vectorRegisters >= 32 ? 2 : 1;
  config["tail"] = q.channels % lanes;
  config["whole"] = q.channels >= lanes;
  config["border"] = (q.insideLeft > 0 || q.insideRight < q.width) + 2 * (q.insideTop > 0 || q.insideBottom < q.height);
  config["channel"] = q.in.channel == 1 || q.channels == 1 ? 1 : 2;
  config["weight"] = q.weightChannel == 1 || q.channels == 1 ? 1 : 2;
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
    readParams(q, kb);
    if (channelClass == 1)
      q.in.channel = 1;
    if (get("weight") == 1)
      q.weightChannel = 1;
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
    const bool rowsAtBorder = get("border") & 2;
    Index first = rowsAtBorder ? kb.min(kb.max(row0, q.insideTop), rowEnd) : row0;
    Index last = rowsAtBorder ? kb.max(kb.min(rowEnd, q.insideBottom), first) : rowEnd;
    kb.tiles(kb.sub(last, first), get("rows"), [&](Index y, int64_t rows) {
      kb.tilesEven(insideColumns(), tilePixels / get("rows"), [&](Index x, int64_t columns) {
        straight(kb.add(first, y), kb.add(insideLeft(), x), rows, columns, false);
      });
    });
    if (get("border") & 1) {
      auto column = [&](Index y, int64_t rows) {
        borderColumns([&](Index x) { straight(kb.add(first, y), x, rows, 1, true); });
      };
      Index whole = kb.mul(kb.div(kb.sub(last, first), tilePixels), tilePixels);
      kb.loop(0, whole, tilePixels, [&](Index y) { column(y, tilePixels); });
      kb.tiles(kb.sub(kb.sub(last, first), whole), 2, [&](Index y, int64_t rows) { column(kb.add(whole, y), rows); });
    }
    if (rowsAtBorder) {
      // Both ends as one loop, so that its body is emitted once.
      Index above = kb.sub(first, row0), below = kb.sub(rowEnd, last);
      kb.loop(0, kb.add(above, below), 1, [&](Index i) {
        borderRow(kb.select(kb.less(i, above), kb.add(row0, i), kb.add(last, kb.sub(i, above))));
      });
    }
  }

  void borderColumns(llvm::function_ref<void(Index)> body) {
    if (get("border") & 1)
      kb.loop(0, kb.add(q.insideLeft, kb.sub(q.width, q.insideRight)), 1, [&](Index i) {
        body(kb.select(kb.less(i, q.insideLeft), i, kb.add(q.insideRight, kb.sub(i, q.insideLeft))));
      });
  }
  Index insideLeft() { return get("border") & 1 ? q.insideLeft : Index(0); }
  Index insideColumns() { return get("border") & 1 ? kb.sub(q.insideRight, q.insideLeft) : q.width; }

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

  // Loads and stores of a tile go through windows that start at its first element, so that an address is a register
  // plus a multiple of the pixel's stride.

  /// [column][lane] of the input from channel c on, in the row that starts at `offset`.
  Buffer inputRow(Index offset, Index c) {
    return kb.view(1, {1, 1}, {q.in.pixel, q.in.channel}, kb.add(offset, kb.mul(c, q.in.channel)));
  }
  Index inputOffset(Index y, Index x) { return kb.add(inImage, kb.add(kb.mul(y, q.in.row), kb.mul(x, q.in.pixel))); }
  Value input(Buffer row, Index column, int64_t lanes, int64_t active) {
    return arithmetic.widen(loadLanes(kb, row, {column, 0}, channelClass, lanes, active), kernel.types[1]);
  }
  /// The weights of tap (ky, kx).
  Value weight(Index ky, Index kx, Index c, int64_t lanes, int64_t active) {
    Buffer row = kb.view(2, {1, 1}, {q.tapStride, q.weightChannel},
                         kb.add(kb.mul(ky, kb.mul(q.tapStride, kw)), kb.mul(c, q.weightChannel)));
    return arithmetic.widen(loadLanes(kb, row, {kx, 0}, get("weight"), lanes, active), kernel.types[2]);
  }

  /// Body and store of a tile of `columns` wide rows whose first pixel is (y, x).
  void finish(llvm::ArrayRef<Value> acc, Index y, Index x, int64_t columns, Index c, int64_t active) {
    auto operand = [&](size_t i) {
      auto &walk = q.outs[i];
      int64_t column = get("x" + std::to_string(i));
      Index stride = strideOf(column, walk.channel);
      Index offset = kb.add(kb.add(kb.mul(y, walk.row), kb.mul(x, walk.pixel)), kb.mul(c, stride));
      return Epilogue::Operand{
          kb.view(Epilogue::viewOf(i), {1, 1, 1}, {walk.row, walk.pixel, stride}, kb.add(outImages[i], offset)),
          column};
    };
    epilogue.setOperands(q.outs.size(), operand);
    if (!epilogue.heavy(12)) { // a tile has few products: a loop around the body would take as long as they do
      for (size_t i = 0; i < acc.size(); ++i)
        epilogue.store(acc[i], {int64_t(i) / columns, int64_t(i) % columns, 0}, active);
      return;
    }
    const int64_t lanes = cast<VectorType>(acc[0].getType()).getDimSize(0);
    for (size_t i = 0; i < acc.size(); ++i)
      kb.storeVector(acc[i], stage, {int64_t(i), 0});
    kb.loop(0, int64_t(acc.size()), 1, [&](Index i) {
      epilogue.store(kb.loadVector(stage, {i, 0}, lanes), {kb.div(i, columns), kb.rem(i, columns), 0}, active);
    });
  }

  /// rows x columns pixels whose rows of taps all lie inside; `check`: columns of taps may not.
  void straight(Index y, Index x, int64_t rows, int64_t columns, bool check) {
    // Distinct input rows and columns of the tile, in order.
    auto offsets = [](int64_t pixels, int64_t step, int64_t taps, int64_t dilation) {
      std::vector<int64_t> list;
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t t = 0; t < taps; ++t)
          list.push_back(p * step + t * dilation);
      llvm::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
      return list;
    };
    Index iy = kb.sub(kb.mul(y, sh), q.top), ix = kb.sub(kb.mul(x, sw), q.left);
    const auto rowOffsets = offsets(rows, sh, kh, dh), columnOffsets = offsets(columns, sw, kw, dw);
    std::vector<Value> valid;
    if (check)
      for (int64_t column : columnOffsets)
        valid.push_back(kb.inRange(kb.add(ix, column), q.inWidth));
    // The tap that output p uses of input offset o, or -1.
    auto tapOf = [](int64_t o, int64_t p, int64_t step, int64_t taps, int64_t dilation) -> int64_t {
      int64_t t = o - p * step;
      return t >= 0 && t % dilation == 0 && t / dilation < taps ? t / dilation : -1;
    };
    std::map<int64_t, Index> starts;
    for (int64_t row : rowOffsets)
      starts.emplace(row, inputOffset(kb.add(iy, row), ix));
    overChannels([&](Index c, int64_t lanes, int64_t active) {
      SmallVector<Value> acc(rows * columns, arithmetic.zero(lanes));
      std::vector<Value> w; // loaded at the first use
      std::map<int64_t, Buffer> lines;
      for (auto &[row, start] : starts)
        lines.emplace(row, inputRow(start, c));
      auto use = [&](SmallVector<Value> &acc, int64_t row, int64_t column) {
        Value d = input(lines.at(row), column, lanes, active);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t p = 0; p < columns; ++p) {
            int64_t ky = tapOf(row, r, sh, kh, dh), kx = tapOf(column, p, sw, kw, dw);
            if (ky < 0 || kx < 0)
              continue;
            Value &tap = w[ky * kw + kx];
            tap = tap ? tap : weight(ky, kx, c, lanes, active);
            acc[r * columns + p] = arithmetic.multiplyAdd(d, tap, acc[r * columns + p]);
          }
      };
      w.assign(kh * kw, Value());
      if (!check) {
        for (int64_t row : rowOffsets)
          for (int64_t column : columnOffsets)
            use(acc, row, column);
      } else {
        for (size_t i = 0; i < columnOffsets.size(); ++i)
          acc = guarded(valid[i], acc, [&](SmallVector<Value> acc) {
            w.assign(kh * kw, Value());
            for (int64_t row : rowOffsets)
              use(acc, row, columnOffsets[i]);
            return acc;
          });
      }
      finish(acc, y, x, columns, c, active);
    });
  }

  void borderRow(Index y) {
    kb.tilesEven(insideColumns(), 4,
                 [&](Index x, int64_t columns) { clipped(y, kb.add(insideLeft(), x), columns, false); });
    borderColumns([&](Index x) { clipped(y, x, 1, true); });
  }

  /// One row of pixels, over the rows of taps that lie inside.
  void clipped(Index y, Index x, int64_t columns, bool check) {
    Index iy = kb.sub(kb.mul(y, sh), q.top), ix = kb.sub(kb.mul(x, sw), q.left);
    Index lo = kb.ceilDiv(kb.max(0, kb.sub(0, iy)), dh);
    Index hi = kb.min(kh, kb.ceilDiv(kb.max(0, kb.sub(q.inHeight, iy)), dh));
    std::vector<Value> valid;
    if (check)
      for (int64_t kx = 0; kx < kw; ++kx)
        valid.push_back(kb.inRange(kb.add(ix, kx * dw), q.inWidth));
    overChannels([&](Index c, int64_t lanes, int64_t active) {
      SmallVector<Value> acc(columns, arithmetic.zero(lanes));
      acc = kb.loop(lo, hi, 1, acc, [&](Index ky, ValueRange values) {
        SmallVector<Value> acc(values);
        Buffer row = inputRow(inputOffset(kb.add(iy, kb.mul(ky, dh)), ix), c);
        for (int64_t kx = 0; kx < kw; ++kx) {
          auto taps = [&](SmallVector<Value> acc) {
            Value w = weight(ky, kx, c, lanes, active);
            for (int64_t p = 0; p < columns; ++p)
              acc[p] = arithmetic.multiplyAdd(input(row, p * sw + kx * dw, lanes, active), w, acc[p]);
            return acc;
          };
          acc = check ? guarded(valid[kx], acc, taps) : taps(acc);
        }
        return KernelBuilder::Values(acc);
      });
      finish(acc, y, x, columns, c, active);
    });
  }

  /// if condition: acc = then(acc)
  SmallVector<Value> guarded(Value condition, SmallVector<Value> acc,
                             llvm::function_ref<SmallVector<Value>(SmallVector<Value>)> then) {
    auto branch = scf::IfOp::create(kb.b, kb.loc, ValueRange(acc).getTypes(), condition, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(kb.b);
    kb.b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(kb.b, kb.loc, then(acc));
    kb.b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(kb.b, kb.loc, acc);
    return SmallVector<Value>(branch.getResults());
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
