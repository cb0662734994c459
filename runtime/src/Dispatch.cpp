// From a call's tensors to a variant: by name, element type and dims, all compared for equality. A miss is explained.
#include "Failure.h"
#include "Model.h"
#include <algorithm>
#include <array>
#include <cstring>

using namespace mrcc;
using namespace mrcc::runtime;

static std::string describeDims(uint32_t rank, const int64_t *dims) {
  std::string text;
  for (uint32_t i = 0; i < rank; ++i)
    text += (i ? "x" : "") + std::to_string(dims[i]);
  return rank ? text : "scalar";
}

std::string runtime::describeTensor(const char *name, uint32_t rank, const int64_t *dims) {
  return std::string(name) + "=" + describeDims(rank, dims);
}

/// The caller's tensor that is the model's `number`-th, or null. A name that several outputs have stands for them in
/// order.
const mrcc_tensor *Model::findTensor(const Arguments &given, bool inputs, uint32_t number, uint32_t &at) const {
  const auto &infos = inputs ? entries[0].inputs : entries[0].outputs;
  const char *name = infos[number].name;
  const uint32_t skip = inputs ? 0 : occurrence[number];
  if (number < given.size() && (!given[number].name || (skip == 0 && std::strcmp(given[number].name, name) == 0 &&
                                                        (inputs || infos.size() == 1)))) {
    at = number;
    return &given[number];
  }
  uint32_t before = 0;
  for (at = 0; at < given.size(); ++at)
    if (given[at].name && std::strcmp(given[at].name, name) == 0 && before++ == skip)
      return &given[at];
  return nullptr;
}

void Model::match(const Arguments &given, bool inputs, uint32_t *order) const {
  const auto &infos = inputs ? entries[0].inputs : entries[0].outputs;
  const char *kind = inputs ? "input" : "output";
  uint32_t found = 0, missing = UINT32_MAX;
  for (uint32_t i = 0; i < infos.size(); ++i) {
    uint32_t at;
    if (findTensor(given, inputs, i, at)) {
      ++found;
      order[i] = at;
    } else if (infos[i].dtype == MRCC_NONE) {
      order[i] = UINT32_MAX;
    } else {
      missing = std::min(missing, i);
    }
  }
  if (found == given.size() && missing == UINT32_MAX)
    return;
  std::string names;
  for (const mrcc_tensor_info &t : infos)
    names += (names.empty() ? "" : ", ") + std::string(t.name) + " (" + mrcc_dtype_name(t.dtype) + ")";
  for (uint32_t i = 0; i < given.size() && found < given.size();
       ++i) { // a name that is wrong explains one that is missing
    const char *name = given[i].name;
    if (!name && i < infos.size())
      continue;
    const std::string shown = name ? "'" + std::string(name) + "'" : "number " + std::to_string(i);
    auto isName = [&](const mrcc_tensor_info &t) { return name && std::strcmp(t.name, name) == 0; };
    const auto wanted = std::count_if(infos.begin(), infos.end(), isName);
    int64_t seen = 0;
    for (uint32_t k = 0; k <= i; ++k)
      seen += name && given[k].name && std::strcmp(given[k].name, name) == 0;
    if (wanted == 0 || seen > wanted)
      fail(MRCC_UNKNOWN_TENSOR, name ? name : "",
           std::string(wanted ? "more than one " : "no ") + kind + " " + shown + "; the model's are " + names);
  }
  if (missing != UINT32_MAX)
    fail(MRCC_MISSING_TENSOR, infos[missing].name,
         std::string(kind) + " '" + infos[missing].name + "' is missing; the model's are " + names);
  fail(MRCC_UNKNOWN_TENSOR, "", std::string("more ") + kind + "s than the model has: " + names);
}

namespace {
/// Which of the caller's tensors is which; on the stack for all models but odd ones.
class Order {
public:
  explicit Order(size_t count) {
    if (count > few.size()) {
      many.resize(count);
      numbers = many.data();
    }
  }
  uint32_t *data() { return numbers; }
  uint32_t operator[](size_t i) const { return numbers[i]; }

private:
  std::array<uint32_t, 64> few;
  std::vector<uint32_t> many;
  uint32_t *numbers = few.data();
};
} // namespace

static bool sameType(const mrcc_tensor_info &info, const mrcc_tensor &given) {
  return info.dtype == given.dtype && info.rank == given.rank;
}

static bool sameTensor(const mrcc_tensor_info &info, const mrcc_tensor &given) {
  return sameType(info, given) && std::equal(info.dims, info.dims + info.rank, given.dims);
}

template <typename Test>
static bool all(const std::vector<mrcc_tensor_info> &infos, const Order &order, const Arguments &given, Test test) {
  for (uint32_t i = 0; i < infos.size(); ++i)
    if (order[i] != UINT32_MAX && !test(infos[i], given[order[i]]))
      return false;
  return true;
}

uint32_t Model::find(const Arguments &given) const {
  Order order(entries[0].inputs.size());
  match(given, true, order.data());
  for (uint32_t v : preference)
    if (all(entries[v].inputs, order, given, sameTensor))
      return v;
  explainMiss(given, order.data());
}

/// The comparable variant with the smallest cost, where a negative cost excludes one.
template <typename Cost> static std::optional<uint32_t> cheapest(const std::vector<uint32_t> &variants, Cost cost) {
  std::optional<uint32_t> best;
  double least = 0;
  for (uint32_t v : variants) {
    const double c = cost(v);
    if (c >= 0 && (!best || c < least)) {
      best = v;
      least = c;
    }
  }
  return best;
}

std::optional<uint32_t> Model::nearestOf(const Arguments &given, const uint32_t *order) const {
  return cheapest(preference, [&](uint32_t v) {
    double sum = 0;
    const auto &infos = entries[v].inputs;
    for (uint32_t i = 0; i < infos.size(); ++i) {
      if (order[i] == UINT32_MAX)
        continue;
      const mrcc_tensor &t = given[order[i]];
      if (!sameType(infos[i], t))
        return -1.0;
      for (uint32_t d = 0; d < t.rank; ++d) {
        const double a = double(infos[i].dims[d]), b = double(t.dims[d]), most = std::max(a, b);
        sum += most > 0 ? (a > b ? a - b : b - a) / most : 0;
      }
    }
    return sum;
  });
}

uint32_t Model::nearest(const Arguments &given) const {
  Order order(entries[0].inputs.size());
  match(given, true, order.data());
  if (auto v = nearestOf(given, order.data()))
    return *v;
  explainMiss(given, order.data());
}

uint32_t Model::smallestCovering(const Arguments &given) const {
  Order order(entries[0].inputs.size());
  match(given, true, order.data());
  auto found = cheapest(preference, [&](uint32_t v) {
    double elements = 0;
    const auto &infos = entries[v].inputs;
    for (uint32_t i = 0; i < infos.size(); ++i) {
      if (order[i] == UINT32_MAX)
        continue;
      const mrcc_tensor &t = given[order[i]];
      if (!sameType(infos[i], t))
        return -1.0;
      double product = 1;
      for (uint32_t d = 0; d < t.rank; ++d) {
        if (infos[i].dims[d] < t.dims[d])
          return -1.0;
        product *= double(infos[i].dims[d]);
      }
      elements += product;
    }
    return elements;
  });
  if (found)
    return *found;
  explainMiss(given, order.data());
}

/// Another variant's key that these dims would hit if height and width of an input changed places, or null.
const char *Model::swappedKey(const Arguments &given, const uint32_t *order) const {
  for (uint32_t v : preference) {
    bool swapped = false;
    const auto &infos = entries[v].inputs;
    auto swappedTensor = [&](const mrcc_tensor_info &info, const mrcc_tensor &t) {
      if (sameTensor(info, t))
        return true;
      if (!sameType(info, t) || t.rank < 2)
        return false;
      for (uint32_t d = t.rank - 2; d + 3 >= t.rank; --d) { // [..., H, W] or [..., H, W, C]
        std::vector<int64_t> dims(t.dims, t.dims + t.rank);
        std::swap(dims[d], dims[d + 1]);
        if (std::equal(dims.begin(), dims.end(), info.dims))
          return swapped = true;
        if (d == 0)
          break;
      }
      return false;
    };
    bool good = true;
    for (uint32_t i = 0; i < infos.size() && good; ++i)
      good = order[i] == UINT32_MAX || swappedTensor(infos[i], given[order[i]]);
    if (good && swapped)
      return index().text(index().variants()[v].key).data();
  }
  return nullptr;
}

void Model::explainMiss(const Arguments &given, const uint32_t *order) const {
  const auto &names = entries[0].inputs;
  std::string wanted;
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (order[i] == UINT32_MAX)
      continue;
    const mrcc_tensor &t = given[order[i]];
    std::string types, ranks;
    bool typeFits = false, rankFits = false;
    auto add = [](std::string &list, const std::string &item) {
      if ((", " + list + ",").find(", " + item + ",") == list.npos)
        list += (list.empty() ? "" : ", ") + item;
    };
    for (uint32_t v : preference) {
      const mrcc_tensor_info &info = entries[v].inputs[i];
      typeFits |= info.dtype == t.dtype;
      rankFits |= info.rank == t.rank;
      add(types, mrcc_dtype_name(info.dtype));
      add(ranks, std::to_string(info.rank));
    }
    if (!typeFits)
      fail(MRCC_WRONG_TYPE, names[i].name,
           std::string("input '") + names[i].name + "' is " + mrcc_dtype_name(t.dtype) + "; compiled: " + types);
    if (!rankFits)
      fail(MRCC_WRONG_RANK, names[i].name,
           std::string("input '") + names[i].name + "' has " + std::to_string(t.rank) + " dims (" +
               describeDims(t.rank, t.dims) + "); compiled: " + ranks);
    wanted += (wanted.empty() ? "" : ";") + describeTensor(names[i].name, t.rank, t.dims);
  }
  std::string message = wanted + " is not compiled; compiled: ", place;
  std::vector<std::string_view> keys;
  for (uint32_t v : preference)
    keys.push_back(index().text(index().variants()[v].key));
  for (size_t i = 0; i < keys.size(); ++i)
    if (std::find(keys.begin(), keys.begin() + i, keys[i]) == keys.begin() + i)
      message += (i ? ", " : "") + std::string(keys[i]);
  if (auto near = nearestOf(given, order)) {
    message += "; nearest: " + std::string(index().text(index().variants()[*near].key));
    for (uint32_t i = 0; i < names.size() && place.empty(); ++i)
      if (order[i] != UINT32_MAX && !sameTensor(entries[*near].inputs[i], given[order[i]]))
        place = names[i].name;
  }
  if (const char *key = swappedKey(given, order))
    message += std::string("; height and width look swapped: ") + key + " is compiled";
  fail(MRCC_NO_VARIANT, place, message);
}
