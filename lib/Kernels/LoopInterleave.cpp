// Maps over a few channels whose elements alternate in memory in some views (images, channels last) and lie in planes
// in the others. The vector level are the points; all channels of a vector of points are computed side by side. Views
// whose channels alternate are read and written as whole vectors, which are sorted in registers: by perfect shuffles
// where the channels are a power of two, else by one permutation a channel and blends, since elements of one channel
// then lie in different lanes of the vectors.
#include "LoopEmit.h"

using namespace mlir;

namespace mrcc::loops {

/// Lane l of sources[pick(l)].
static Value blended(ArrayRef<Value> sources, llvm::function_ref<int64_t(int64_t)> pick,
                     llvm::function_ref<Value(Value, Value, llvm::function_ref<int64_t(int64_t)>)> shuffle) {
  const int64_t n = cast<VectorType>(sources[0].getType()).getDimSize(0);
  Value result = sources[0];
  for (int64_t s = 1; s < int64_t(sources.size()); ++s)
    result = shuffle(result, sources[s], [&](int64_t l) { return pick(l) == s ? n + l : l; });
  return result;
}

/// c vectors of n points, one a channel, as c vectors of n elements in the order of memory.
Emitter::Values Emitter::interleaved(Values channels) {
  const int64_t c = channels.size(), n = cast<VectorType>(channels[0].getType()).getDimSize(0);
  if (c == 1)
    return channels;
  auto shuffle = [&](Value a, Value b, llvm::function_ref<int64_t(int64_t)> from) { return shuffled(a, b, from); };
  Values result;
  if (c % 2 == 0) {
    Values halves[2];
    for (int64_t k = 0; k < c; ++k)
      halves[k % 2].push_back(channels[k]);
    Values even = interleaved(halves[0]), odd = interleaved(halves[1]);
    for (int64_t j = 0; j < c / 2; ++j)
      for (int64_t first : {int64_t(0), n / 2})
        result.push_back(shuffled(even[j], odd[j], [&](int64_t l) { return first + l / 2 + l % 2 * n; }));
    return result;
  }
  // Of each channel one element goes to lane l, in the vector `to`.
  for (int64_t k = 0; k < c; ++k)
    channels[k] = shuffled(channels[k], channels[k], [&](int64_t l) {
      int64_t to = 0;
      while ((n * to + l) % c != k)
        ++to;
      return (n * to + l) / c;
    });
  for (int64_t j = 0; j < c; ++j)
    result.push_back(blended(channels, [&](int64_t l) { return (n * j + l) % c; }, shuffle));
  return result;
}

/// The inverse.
Emitter::Values Emitter::deinterleaved(Values memory) {
  const int64_t c = memory.size(), n = cast<VectorType>(memory[0].getType()).getDimSize(0);
  if (c == 1)
    return memory;
  auto shuffle = [&](Value a, Value b, llvm::function_ref<int64_t(int64_t)> from) { return shuffled(a, b, from); };
  Values result(c);
  if (c % 2 == 0) {
    for (int64_t odd : {0, 1}) {
      Values half;
      for (int64_t j = 0; j < c; j += 2)
        half.push_back(shuffled(memory[j], memory[j + 1], [&](int64_t l) { return 2 * l + odd; }));
      half = deinterleaved(half);
      for (int64_t k = 0; k < c / 2; ++k)
        result[2 * k + odd] = half[k];
    }
    return result;
  }
  for (int64_t k = 0; k < c; ++k) {
    auto from = [&](int64_t l) { // the vector whose lane l belongs to channel k
      int64_t j = 0;
      while ((n * j + l) % c != k)
        ++j;
      return j;
    };
    Value mine = blended(memory, from, shuffle);
    result[k] = shuffled(mine, mine, [&](int64_t i) { return (c * i + k) % n; });
  }
  return result;
}

bool Emitter::alternates(unsigned view) const {
  return plan.interleave && plan.steps[view][plan.parallel - 2] == Step::unit &&
         plan.steps[view][plan.parallel - 1] == Step::strided;
}

/// Points [low, high) of all channels.
void Emitter::interleavedRow(Index low, Index high) {
  const unsigned channelLevel = plan.parallel - 2, pointLevel = plan.parallel - 1;
  const int64_t c = plan.interleave;
  auto place = [&](unsigned view, Index at) { // of a point's first channel
    return kb.add(state.offsets[view], kb.mul(at, stride(view, pointLevel)));
  };
  Index whole = lanes > 1 ? kb.sub(high, kb.rem(kb.sub(high, low), lanes)) : low;
  kb.loop(low, whole, std::max<int64_t>(lanes, 1), [&](Index at) {
    for (unsigned v = plan.outputs; v < plan.types.size(); ++v) {
      if (!alternates(v))
        continue;
      Values memory;
      for (int64_t j = 0; j < c; ++j)
        memory.push_back(kb.loadVector(views[v], {kb.add(place(v, at), j * lanes)}, lanes));
      channels[v] = deinterleaved(memory);
    }
    std::vector<Values> results(plan.outputs);
    for (int64_t k = 0; k < c; ++k)
      scoped([&] {
        enter(channelLevel, k);
        enterVector(at, lanes, 1);
        for (unsigned o = 0; o < plan.outputs; ++o) {
          Value v = state.values[plan.body.results[o]][0];
          if (alternates(o))
            results[o].push_back(isa<VectorType>(v.getType()) ? v : kb.splat(v, lanes));
          else
            store(o, v, 0);
        }
      });
    for (unsigned o = 0; o < plan.outputs; ++o)
      if (alternates(o))
        for (auto [j, v] : llvm::enumerate(interleaved(results[o])))
          kb.storeVector(v, views[o], {kb.add(place(o, at), int64_t(j) * lanes)});
  });
  kb.loop(whole, high, 1, [&](Index at) {
    kb.loop(0, c, 1, [&](Index k) {
      scoped([&] {
        enter(channelLevel, k);
        enterVector(at, 0, 1);
        storeResults(0);
      });
    });
  });
}

} // namespace mrcc::loops
