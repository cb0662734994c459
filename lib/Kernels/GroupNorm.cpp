// group_norm, channels last. A unit normalises whole groups of one sample: a block of channels over all of space.
//
//   1. statistics  sums of (x - s) and (x - s)^2 for each channel, s the channel's first element: one pass, lanes are
//                  channels. Shifted sums do not cancel where the mean is far from 0.
//   2. combination mean and sum of squared differences of a group from those of its channels (Chan, Golub, LeVeque:
//                  "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979)
//   3. application (x - mean) * (scale / deviation) + bias and the epilogue: the second pass
//
//   views   out [N, ..., C]; in, scale, bias (config scale, bias: 0 or 1), extras of the epilogue, all of out's dims
//   with
//           stride 0 where they broadcast
//   config  groups, epsilon: bits of an f32
//   body    optional epilogue of acc and extras
#include "Families.h"
#include "Num.h"
#include "Work.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace mrcc {

namespace {

llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "group_norm: " + message);
}

class GroupNormFamily : public KernelFamily {
public:
  llvm::StringRef name() const override { return "group_norm"; }
  llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const override;
  llvm::Error emit(const KernelDescription &kernel, const Target &target, KernelBuilder &kb) const override;
};

/// How the parameters lie; `space`: levels of spatial dims that did not merge.
struct Layout {
  enum : unsigned { channels, groupSize, points, blocks, blockChannels, first };
  unsigned space, views;
  unsigned extent(unsigned level) const { return first + level; }
  unsigned stride(unsigned view, unsigned level) const {
    return first + space + view * (space + 2) + level;
  } // sample, space..., channel
  unsigned immediate(unsigned i) const { return first + space + views * (space + 2) + i; }
};

} // namespace

llvm::Expected<BoundLaunch> GroupNormFamily::bind(const LaunchSite &site, const Target &target) const {
  const View &out = site.output();
  const size_t rank = out.dims.size();
  const DType type = out.type;
  if (!isFloat(type) || bitWidth(type) < 16)
    return fail("elements of " + toString(type));
  if (rank < 2)
    return fail("expected [N, ..., C], got " + llvm::Twine(rank) + " dimensions");
  const int64_t groups = site.get("groups"), channels = out.dims.back(), samples = out.dims[0];
  if (groups < 1 || channels % groups != 0)
    return fail(llvm::Twine(groups) + " groups of " + llvm::Twine(channels) + " channels");
  const bool hasScale = site.get("scale", site.numInputs() > 1), hasBias = site.get("bias", site.numInputs() > 2);
  if (site.numInputs() < 1u + hasScale + hasBias)
    return fail("expected " + llvm::Twine(1 + hasScale + hasBias) + " inputs, got " + llvm::Twine(site.numInputs()));
  for (const View &v : site.views)
    if (v.strides.size() != rank)
      return fail("a view has " + llvm::Twine(v.strides.size()) + " dimensions, the output " + llvm::Twine(rank));
  // Spatial dims, outermost first; neighbours that are contiguous in every view become one.
  std::vector<int64_t> extents;
  std::vector<std::vector<int64_t>> strides;
  for (size_t d = 1; d + 1 < rank; ++d) {
    if (out.dims[d] == 1)
      continue;
    std::vector<int64_t> mine;
    for (const View &v : site.views)
      mine.push_back(v.strides[d]);
    bool joins = !extents.empty();
    for (size_t v = 0; v < mine.size() && joins; ++v)
      joins = strides.back()[v] == mine[v] * out.dims[d];
    if (joins) {
      extents.back() *= out.dims[d];
      strides.back() = mine;
    } else {
      extents.push_back(out.dims[d]);
      strides.push_back(mine);
    }
  }
  // Whole groups, so many that rows of a block fill vectors and cache lines.
  const int64_t size = channels / groups, even = std::lcm(size, int64_t(16));
  int64_t block = even <= 128 ? even : size;
  block *= std::max<int64_t>(1, llvm::divideCeil(32, block));
  block = std::min(block, channels);
  BoundLaunch bound;
  Layout layout{unsigned(extents.size()), unsigned(site.views.size())};
  auto &p = bound.params;
  p.assign(layout.immediate(site.immediates.size()), 0);
  int64_t points = 1;
  for (size_t l = 0; l < extents.size(); ++l) {
    p[layout.extent(l)] = extents[l];
    points *= extents[l];
  }
  p[Layout::channels] = channels;
  p[Layout::groupSize] = size;
  p[Layout::points] = points;
  p[Layout::blocks] = llvm::divideCeil(channels, block);
  p[Layout::blockChannels] = block;
  KernelDescription &k = bound.kernel;
  k.family = name().str();
  for (size_t v = 0; v < site.views.size(); ++v) {
    const View &view = site.views[v];
    k.types.push_back(view.type);
    p[layout.stride(v, 0)] = samples == 1 ? 0 : view.strides[0];
    for (size_t l = 0; l < extents.size(); ++l)
      p[layout.stride(v, 1 + l)] = strides[l][v];
    int64_t along = channels == 1 ? 1 : view.strides.back();
    p[layout.stride(v, 1 + layout.space)] = along;
    k.config["step" + std::to_string(v)] = along == 0 || along == 1 ? along : 2;
  }
  std::copy(site.immediates.begin(), site.immediates.end(), p.begin() + layout.immediate(0));
  k.config["space"] = layout.space;
  k.config["scale"] = hasScale;
  k.config["bias"] = hasBias;
  k.config["epsilon"] = site.get("epsilon");
  k.config["params"] = p.size();
  k.body = site.body.str();
  bound.units = std::max<int64_t>(1, samples * p[Layout::blocks]);
  if (samples == 0)
    p[Layout::points] = 0;
  bound.scratchBytes = 3 * llvm::alignTo(block * 8, 64);
  bound.flops = 8 * samples * channels * points;
  // Two passes: sums and squares, then scale, shift and body. The second reads the input again.
  const int64_t lanes = target.lanes(bitWidth(out.type == DType::f64 ? DType::f64 : DType::f32));
  bound.work.instructions = samples * points * llvm::divideCeil(channels, lanes) * (4 + 3 + finishInstructions(site));
  bound.work.moved = rereadBytes(target, viewBytes(site.input(0)), 2);
  return bound;
}

namespace {

class GroupNormEmitter {
public:
  GroupNormEmitter(const KernelDescription &kernel, Expr body, KernelBuilder &kb)
      : kb(kb), body(std::move(body)), types(kernel.types),
        layout{unsigned(kernel.config.at("space")), unsigned(kernel.types.size())}, hasScale(kernel.config.at("scale")),
        hasBias(kernel.config.at("bias")), epsilon(llvm::bit_cast<float>(uint32_t(kernel.config.at("epsilon")))),
        wide(types[0] == DType::f64 ? DType::f64 : DType::f32) {
    for (unsigned v = 0; v < types.size(); ++v) {
      steps.push_back(kernel.config.at("step" + std::to_string(v)));
      views.push_back(kb.view(v, {int64_t(1) << 40}, {1}));
    }
    lanes = kb.target.vectorBits / bitWidth(wide);
  }
  void emit();

private:
  using Offsets = SmallVector<Index>;
  void statistics(const Offsets &at, Index begin, Index end);
  void sumSpace(unsigned level, Index offset, const Offsets &at, Index begin, Index end);
  void combineGroups(const Offsets &at, Index begin, Index end);
  void apply(unsigned level, const Offsets &at, Index begin, Index end);
  void applyAt(const Offsets &at, Index c, Index place, int64_t n);
  Num load(unsigned view, Index offset, Index c, int64_t n);
  Num widened(unsigned view, Index offset, Index c, int64_t n) {
    return cast(load(view, offset, c, n), types[view], wide);
  }
  Num cast(Num x, DType from, DType to) {
    return from == to ? x : Num(kb, emitNode(kb, {ExprNode::Op::cast, to, 0, 0, {0}}, {x.v}, {from}, x.lanes()));
  }
  void store(Num x, Index offset, Index c);
  Index along(unsigned view) {
    return steps[view] == 2 ? kb.param(layout.stride(view, 1 + layout.space)) : Index(steps[view]);
  }
  /// What is kept for each channel: its mean, its sum of squared differences (later the factor of its group) and its
  /// bias. While the sums are under way, totals of d and d^2 by slot.
  enum : int64_t { means = 0, squares = 1, biases = 2, sumTotals = biases, squareTotals = squares };
  Buffer scratch(int64_t which) {
    Index bytes = kb.mul(kb.div(kb.add(kb.mul(kb.param(Layout::blockChannels), 8), 63), 64), 64);
    return kb.scratch(kb.mul(bytes, which), wide, {int64_t(1) << 40});
  }
  Num real(double v, int64_t n) { return {kb, kb.constantVector(valueType(kb.b.getContext(), wide), v, n)}; }
  Num fromIndex(Index x) {
    Value i = arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getI64Type(), kb.ssa(x));
    return {kb, arith::SIToFPOp::create(kb.b, kb.loc, valueType(kb.b.getContext(), wide), i)};
  }
  Num get(Buffer m, Index at, int64_t n) { return {kb, n ? kb.loadVector(m, {at}, n) : kb.load(m, {at})}; }
  void put(Num x, Buffer m, Index at) { x.lanes() ? kb.storeVector(x.v, m, {at}) : kb.store(x.v, m, {at}); }
  /// Fetches the lines of n channels: a block's rows lie apart, which the CPU does not foresee.
  void fetch(unsigned view, Index offset, Index c, int64_t n) {
    const int64_t line = 512 / std::max(8u, bitWidth(types[view]));
    for (int64_t i = 0; i < n && steps[view] == 1; i += line)
      kb.prefetch(views[view], {kb.add(offset, kb.add(c, i))}, view == 0, 1);
  }
  Num spread(Num x, int64_t n) { return {kb, kb.splat(x.v, n)}; }
  /// f(channel, slot, lanes, vectors) for vectors over [begin, end), the last one overlapping; scalars where there are
  /// fewer channels than lanes. A vector has a slot of its own: begin + slot is its channel unless it overlaps.
  void overChannels(Index begin, Index end, int64_t unroll, llvm::function_ref<void(Index, Index, int64_t, int64_t)> f);

  KernelBuilder &kb;
  Expr body;
  std::vector<DType> types;
  Layout layout;
  bool hasScale, hasBias;
  double epsilon;
  DType wide;
  SmallVector<int64_t> steps; // of channels, by view: 0, 1 or 2 (other)
  SmallVector<Buffer> views;
  int64_t lanes = 1;
};

void GroupNormEmitter::overChannels(Index begin, Index end, int64_t unroll,
                                    llvm::function_ref<void(Index, Index, int64_t, int64_t)> f) {
  Index count = kb.sub(end, begin);
  kb.ifThen(
      kb.less(count, lanes), [&] { kb.loop(begin, end, 1, [&](Index c) { f(c, kb.sub(c, begin), 0, 1); }); },
      [&] {
        Index main = unroll > 1 ? kb.sub(end, kb.rem(count, lanes * unroll)) : begin;
        if (unroll > 1)
          kb.loop(begin, main, lanes * unroll, [&](Index c) { f(c, kb.sub(c, begin), lanes, unroll); });
        kb.loop(main, end, lanes, [&](Index c) { f(kb.min(c, kb.sub(end, lanes)), kb.sub(c, begin), lanes, 1); });
      });
}

Num GroupNormEmitter::load(unsigned view, Index offset, Index c, int64_t n) {
  if (steps[view] == 0)
    return {kb, kb.splat(kb.load(views[view], {offset}), n)};
  if (n == 0)
    return {kb, kb.load(views[view], {kb.add(offset, kb.mul(c, along(view)))})};
  if (steps[view] == 1)
    return {kb, kb.loadVector(views[view], {kb.add(offset, c)}, n)};
  KernelBuilder::Values elements;
  for (int64_t lane = 0; lane < n; ++lane)
    elements.push_back(kb.load(views[view], {kb.add(offset, kb.mul(kb.add(c, lane), along(view)))}));
  return {kb, vector::FromElementsOp::create(kb.b, kb.loc, VectorType::get({n}, elements[0].getType()), elements)};
}

void GroupNormEmitter::store(Num x, Index offset, Index c) {
  int64_t n = x.lanes();
  if (n && steps[0] == 1)
    return kb.storeVector(x.v, views[0], {kb.add(offset, c)});
  for (int64_t lane = 0; lane < std::max<int64_t>(n, 1); ++lane) {
    Value v = n ? vector::ExtractOp::create(kb.b, kb.loc, x.v, ArrayRef<int64_t>{lane}).getResult() : x.v;
    kb.store(v, views[0], {kb.add(offset, kb.mul(kb.add(c, lane), along(0)))});
  }
}

//===-- 1. statistics ---------------------------------------------------------------------------------------------===//

/// Adds d and d^2 of each channel to its totals, over the spatial levels from `level` on. Of the innermost level a few
/// points at a time are summed in registers: the rows of all channels of the block stream side by side, and long sums
/// are sums of short ones.
void GroupNormEmitter::sumSpace(unsigned level, Index offset, const Offsets &at, Index begin, Index end) {
  Index extent = kb.param(layout.extent(level)), step = kb.param(layout.stride(1, 1 + level));
  if (level + 1 < layout.space)
    return kb.loop(0, extent, 1,
                   [&](Index i) { sumSpace(level + 1, kb.add(offset, kb.mul(i, step)), at, begin, end); });
  const int64_t run = 32;
  kb.loop(0, extent, run, [&](Index start) {
    Index stop = kb.min(kb.add(start, run), extent);
    overChannels(begin, end, 4, [&](Index c, Index slot, int64_t n, int64_t unroll) {
      SmallVector<Num> shift;
      for (int64_t u = 0; u < unroll; ++u)
        shift.push_back(widened(1, at[1], kb.add(c, u * n), n));
      KernelBuilder::Values zeros(2 * unroll, real(0, n).v);
      auto sums = kb.loop(start, stop, 1, zeros, [&](Index i, ValueRange in) {
        KernelBuilder::Values out(in.begin(), in.end());
        Index point = kb.add(offset, kb.mul(i, step));
        fetch(1, kb.add(point, kb.mul(step, run)), c, n * unroll);
        for (int64_t u = 0; u < unroll; ++u) {
          Num d = widened(1, point, kb.add(c, u * n), n) - shift[u];
          out[2 * u] = (Num(kb, out[2 * u]) + d).v;
          out[2 * u + 1] = fma(d, d, Num(kb, out[2 * u + 1])).v;
        }
        return out;
      });
      for (int64_t i = 0; i < 2 * unroll; ++i) {
        Buffer totals = scratch(i % 2 ? squareTotals : sumTotals);
        Index place = kb.add(slot, i / 2 * n);
        put(get(totals, place, n) + Num(kb, sums[i]), totals, place);
      }
    });
  });
}

/// Mean and sum of squared differences of each channel.
void GroupNormEmitter::statistics(const Offsets &at, Index begin, Index end) {
  overChannels(begin, end, 1, [&](Index, Index slot, int64_t n, int64_t) {
    for (int64_t which : {sumTotals, squareTotals})
      put(real(0, n), scratch(which), slot);
  });
  if (layout.space > 0) // one point differs from itself by nothing
    sumSpace(0, at[1], at, begin, end);
  overChannels(begin, end, 1, [&](Index c, Index slot, int64_t n, int64_t) {
    Num sum = get(scratch(sumTotals), slot, n), square = get(scratch(squareTotals), slot, n);
    Num count = spread(fromIndex(kb.param(Layout::points)), n), mean = sum / count;
    put(widened(1, at[1], c, n) + mean, scratch(means), kb.sub(c, begin));
    put(square - mean * sum, scratch(squares), kb.sub(c, begin));
  });
}

//===-- 2. combination --------------------------------------------------------------------------------------------===//

/// Replaces means and squares by mean, scale / deviation and bias of each channel.
void GroupNormEmitter::combineGroups(const Offsets &at, Index begin, Index end) {
  Index size = kb.param(Layout::groupSize);
  Num points = fromIndex(kb.param(Layout::points)), channels = fromIndex(size);
  auto over = [&](Index first, int64_t which, llvm::function_ref<Num(Num)> f) {
    auto sum = kb.loop(0, size, 1, {real(0, 0).v}, [&](Index i, ValueRange total) {
      return KernelBuilder::Values{(Num(kb, total[0]) + f(get(scratch(which), kb.add(first, i), 0))).v};
    });
    return Num(kb, sum[0]);
  };
  kb.loop(0, kb.sub(end, begin), size, [&](Index first) {
    Num mean = over(first, means, [](Num x) { return x; }) / channels;
    Num inside = over(first, squares, [](Num x) { return x; });
    Num between = over(first, means, [&](Num x) { return (x - mean) * (x - mean); });
    Num variance = (inside + points * between) / (points * channels);
    variance = larger(variance, variance.real(0)) + (variance - variance); // rounding below 0; NaN stays
    Num scale = variance.real(1) / sqrt(variance + variance.real(epsilon));
    kb.loop(0, size, 1, [&](Index i) {
      Index place = kb.add(first, i), c = kb.add(begin, place);
      Num mine = hasScale ? scale * widened(2, at[2], c, 0) : scale;
      Num bias = hasBias ? widened(2 + hasScale, at[2 + hasScale], c, 0) : real(0, 0);
      put(mean, scratch(means), place);
      put(mine, scratch(squares), place);
      put(bias, scratch(biases), place);
    });
  });
}

//===-- 3. application --------------------------------------------------------------------------------------------===//

void GroupNormEmitter::applyAt(const Offsets &at, Index c, Index place, int64_t n) {
  auto constant = [&](int64_t which) { return get(scratch(which), place, n); };
  Num y = fma(widened(1, at[1], c, n) - constant(means), constant(squares), constant(biases));
  if (body.empty())
    return store(cast(y, wide, types[0]), at[0], c);
  auto leaf = [&](const ExprNode &node, ArrayRef<Value>) -> Value {
    switch (node.op) {
    case ExprNode::Op::acc:
      return cast(y, wide, node.type).v;
    case ExprNode::Op::load:
      return load(1 + node.imm, at[1 + node.imm], c, n).v;
    default:
      break;
    }
    Value bits =
        arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getI64Type(), kb.ssa(kb.param(layout.immediate(node.imm))));
    if (node.type == DType::f32) {
      Value low = arith::TruncIOp::create(kb.b, kb.loc, kb.b.getI32Type(), bits);
      return arith::BitcastOp::create(kb.b, kb.loc, kb.b.getF32Type(), low);
    }
    return node.type == DType::f64 ? arith::BitcastOp::create(kb.b, kb.loc, kb.b.getF64Type(), bits).getResult() : bits;
  };
  store(Num(kb, emitBody(kb, body, n, /*contract=*/true, leaf)[0]), at[0], c);
}

void GroupNormEmitter::apply(unsigned level, const Offsets &at, Index begin, Index end) {
  if (level == layout.space)
    return overChannels(begin, end, 2, [&](Index c, Index, int64_t n, int64_t unroll) {
      if (level > 0) // some rows ahead
        for (unsigned v : {1, 0})
          fetch(v, kb.add(at[v], kb.mul(kb.param(layout.stride(v, level)), 4)), c, n * unroll);
      applyAt(at, c, kb.sub(c, begin), n * unroll); // LLVM halves each operation: both parts share its constants
    });
  kb.loop(0, kb.param(layout.extent(level)), 1, [&](Index i) {
    Offsets inner;
    for (unsigned v = 0; v < at.size(); ++v)
      inner.push_back(kb.add(at[v], kb.mul(i, kb.param(layout.stride(v, 1 + level)))));
    apply(level + 1, inner, begin, end);
  });
}

void GroupNormEmitter::emit() {
  kb.loop(kb.begin(), kb.end(), 1, [&](Index unit) {
    Index blocks = kb.param(Layout::blocks), sample = kb.div(unit, blocks), block = kb.rem(unit, blocks);
    Index begin = kb.mul(block, kb.param(Layout::blockChannels));
    Index end = kb.min(kb.add(begin, kb.param(Layout::blockChannels)), kb.param(Layout::channels));
    Offsets at;
    for (unsigned v = 0; v < types.size(); ++v)
      at.push_back(kb.mul(sample, kb.param(layout.stride(v, 0))));
    kb.ifThen(kb.less(0, kb.param(Layout::points)), [&] { // an empty sample has no first element
      statistics(at, begin, end);
      combineGroups(at, begin, end);
      apply(0, at, begin, end);
    });
  });
}

} // namespace

llvm::Error GroupNormFamily::emit(const KernelDescription &kernel, const Target &, KernelBuilder &kb) const {
  auto body = Expr::parse(kernel.body);
  if (!body)
    return body.takeError();
  GroupNormEmitter(kernel, std::move(*body), kb).emit();
  return llvm::Error::success();
}

const KernelFamily &groupNormFamily() {
  static const GroupNormFamily family;
  return family;
}

} // namespace mrcc
