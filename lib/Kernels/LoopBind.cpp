// From a launch to a plan and its parameters:
//
//   1. settle    the body on this domain: dims of one point become 0; index comparisons and clamps that the extents
//                decide go away (a window that never leaves its input has no guards)
//      separate an interpolation is split into what a row of the input holds and what points make of it, where points are
//               as many as the row's places
//   2. order     parallel dims by the output's strides, reduced dims by the inputs', largest first
//   3. merge     neighbours that are jointly contiguous in every view and whose index the body does not use
//   4. vector    the dim that costs least to vectorise: unit steps are one load a vector, other steps one a lane; a dim
//                shorter than a vector runs as scalars; combining lanes costs once a row. Two dims of unit step, one on
//                either side, make a transposition in tiles, or, where one is a few channels, vectors of points whose
//                channels are sorted in registers
//   5. clip      conditions under which reduced values count become bounds of the reduced loops: windows at a border
//                have no guards either
//   6. tables    index arithmetic of a level that its unit would repeat is done once, before the loops
//   7. units     about 32 K element operations each, from extents alone
#include "Families.h"
#include "Loop.h"
#include "Work.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace mrcc::loops {

using Op = ExprNode::Op;

namespace {

llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "loop: " + message);
}

/// Element operations of a unit.
constexpr int64_t unitGoal = 32768;

/// A dim of the domain while plans are made.
struct Dim {
  int64_t extent = 1;
  bool reduced = false;
  std::vector<uint32_t> from;   // the body's dims that it stands for
  std::vector<int64_t> strides; // by view; 0 for views that are indexed
};

struct Range {
  int64_t low, high;
};

class Binder {
public:
  /// `separable`: rows of an interpolation may be separated.
  Binder(const LaunchSite &site, const Target &target, llvm::ArrayRef<unsigned> repeated, bool separable = true)
      : original(site), site(site), target(target), repeated(repeated), separable(separable) {}
  llvm::Expected<BoundLaunch> bind();

private:
  llvm::Error read();
  llvm::Error readCombines();
  llvm::Error checkViews();
  void settle();
  void makeDims();
  void order();
  void merge();
  bool mergeable(const Dim &outer, const Dim &inner) const;
  void chooseVector();
  double cost(unsigned d, llvm::function_ref<double(const ExprNode &)> price) const;
  int64_t stepOf(uint32_t node, const Dim &dim, bool &even) const;
  bool tileable(unsigned column, unsigned row) const;
  bool interleaves(unsigned channel, unsigned point) const;
  void moveToEnd(unsigned outer, unsigned inner);
  void moveLast(unsigned dim, bool reduced);
  uint32_t tabledLevels() const;
  bool separateRow();
  bool placeRow();
  void clip();
  std::optional<uint32_t> clipOf(uint32_t condition, unsigned &dim);
  void fill();
  Step stepFor(int64_t stride) const { return stride == 0 ? Step::none : stride == 1 ? Step::unit : Step::strided; }
  std::optional<Range> rangeOf(uint32_t node, const std::vector<std::optional<Range>> &known) const;
  const View &input(uint32_t i) const { return site.views[site.outputs + i]; }

  const LaunchSite &original;
  LaunchSite site; // a separated row is a further view
  const Target &target;
  llvm::ArrayRef<unsigned> repeated;
  const bool separable;
  std::optional<Separation> separation;
  std::vector<int64_t> extents;
  std::vector<bool> reduced;
  std::vector<bool> indexed; // by input
  std::vector<Dim> dims;     // parallel ones first
  unsigned parallel = 0;
  unsigned vector = 0;
  double instructions = 0;    // a point of the domain, by cost()
  std::vector<uint32_t> deps; // of the body's nodes on the body's dims
  Expr body;
  Plan plan;
  BoundLaunch bound;
};

//===-- reading ---------------------------------------------------------------------------------------------------===//

llvm::Error Binder::read() {
  auto it = site.config.find("extents");
  if (it == site.config.end())
    return fail("no extents");
  extents = it->second;
  if (extents.size() > 16)
    return fail("a domain of " + llvm::Twine(extents.size()) + " dimensions, 16 are possible");
  reduced.assign(extents.size(), false);
  if (auto r = site.config.find("reduce"); r != site.config.end())
    for (int64_t d : r->second) {
      if (d < 0 || d >= int64_t(extents.size()))
        return fail("reduced dimension " + llvm::Twine(d) + " of " + llvm::Twine(extents.size()));
      reduced[d] = true;
    }
  if (llvm::Error e = readCombines())
    return e;
  body = site.body;
  plan.outputs = site.outputs;
  plan.immediates = site.immediates.size();
  for (const View &v : site.views) {
    plan.sources.push_back(plan.types.size());
    plan.types.push_back(v.type);
  }
  std::copy(repeated.begin(), repeated.end(), plan.sources.end() - repeated.size());
  if (body.results.size() != plan.combined() + site.outputs)
    return fail("the body has " + llvm::Twine(body.results.size()) + " results, expected " +
                llvm::Twine(plan.combined()) + " combined and " + llvm::Twine(site.outputs) + " stored");
  return checkViews();
}

llvm::Error Binder::readCombines() {
  auto it = site.words.find("combine");
  if (it == site.words.end()) {
    if (llvm::is_contained(reduced, true))
      return fail("reduced dimensions without combine");
    return llvm::Error::success();
  }
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(it->second, words, " ,");
  for (llvm::StringRef word : words) {
    int kind = llvm::StringSwitch<int>(word)
                   .Case("sum", int(Combine::sum))
                   .Case("prod", int(Combine::prod))
                   .Case("max", int(Combine::max))
                   .Case("min", int(Combine::min))
                   .Case("argmax", int(Combine::argmax))
                   .Case("argmin", int(Combine::argmin))
                   .Case("argmax_last", int(Combine::argmax_last))
                   .Case("argmin_last", int(Combine::argmin_last))
                   .Case("max_number", int(Combine::max_number))
                   .Case("min_number", int(Combine::min_number))
                   .Default(-1);
    if (kind < 0)
      return fail("unknown combine '" + word + "'");
    plan.combines.push_back(Combine(kind));
  }
  return llvm::Error::success();
}

llvm::Error Binder::checkViews() {
  indexed.assign(site.numInputs(), false);
  for (const ExprNode &node : body.nodes) {
    if (node.op == Op::iter && node.imm >= extents.size())
      return fail("iter " + llvm::Twine(node.imm) + " of " + llvm::Twine(extents.size()) + " dimensions");
    if (node.op == Op::param && node.imm >= site.immediates.size())
      return fail("param " + llvm::Twine(node.imm) + " of " + llvm::Twine(site.immediates.size()) + " immediates");
    bool reads = node.op == Op::load || node.op == Op::load_at;
    uint32_t operand = node.op == Op::extent ? node.imm / 16 : node.imm;
    if ((reads || node.op == Op::extent) && operand >= site.numInputs())
      return fail("operand " + llvm::Twine(operand) + " of " + llvm::Twine(site.numInputs()));
    if (reads && node.type != input(operand).type)
      return fail("operand " + llvm::Twine(operand) + " is " + toString(input(operand).type) + ", the body loads " +
                  toString(node.type));
    if (node.op == Op::load_at) {
      indexed[operand] = true;
      if (node.args.size() != input(operand).dims.size())
        return fail("load_at with " + llvm::Twine(node.args.size()) + " indices of operand " + llvm::Twine(operand) +
                    " with " + llvm::Twine(input(operand).dims.size()) + " dimensions");
    }
  }
  for (unsigned i = 0; i < site.views.size(); ++i) {
    const View &v = site.views[i];
    bool loaded =
        i < site.outputs ||
        llvm::any_of(body.nodes, [&](const ExprNode &n) { return n.op == Op::load && n.imm + site.outputs == i; });
    if (loaded && v.strides.size() != extents.size())
      return fail("view " + llvm::Twine(i) + " has " + llvm::Twine(v.strides.size()) + " dimensions, the domain " +
                  llvm::Twine(extents.size()));
  }
  for (unsigned o = 0; o < site.outputs; ++o) {
    DType stored = body.nodes[body.results[plan.combined() + o]].type;
    if (stored != site.output(o).type)
      return fail("result " + llvm::Twine(o) + " is " + toString(stored) + ", its view " +
                  toString(site.output(o).type));
  }
  return llvm::Error::success();
}

//===-- settling the body -----------------------------------------------------------------------------------------===//

std::optional<Range> Binder::rangeOf(uint32_t n, const std::vector<std::optional<Range>> &known) const {
  const ExprNode &node = body.nodes[n];
  auto exactly = [](int64_t v) { return Range{v, v}; };
  if (node.type != DType::i64)
    return std::nullopt;
  switch (node.op) {
  case Op::constant:
    return exactly(node.bits);
  case Op::iter:
    return Range{0, std::max<int64_t>(extents[node.imm] - 1, 0)};
  case Op::extent:
    return exactly(input(node.imm / 16).dims[node.imm % 16]);
  case Op::param:
    return exactly(site.immediates[node.imm]);
  case Op::clamp_index: {
    auto count = known[node.args[1]];
    return count ? std::optional(Range{0, std::max<int64_t>(count->high - 1, 0)}) : std::nullopt;
  }
  case Op::binary:
    break;
  default:
    return std::nullopt;
  }
  auto a = known[node.args[0]], b = known[node.args[1]];
  if (!a || !b)
    return std::nullopt;
  const int64_t big = int64_t(1) << 40;
  for (const Range &r : {*a, *b})
    if (r.low < -big || r.high > big)
      return std::nullopt;
  switch (BinaryKind(node.imm)) {
  case BinaryKind::add:
    return Range{a->low + b->low, a->high + b->high};
  case BinaryKind::sub:
    return Range{a->low - b->high, a->high - b->low};
  case BinaryKind::mul: {
    if (std::max(std::abs(b->low), std::abs(b->high)) > (1 << 20))
      return std::nullopt;
    int64_t all[] = {a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high};
    return Range{*std::min_element(all, all + 4), *std::max_element(all, all + 4)};
  }
  case BinaryKind::div:
    if (a->low >= 0 && b->low > 0)
      return Range{a->low / b->high, a->high / b->low};
    return std::nullopt;
  case BinaryKind::mod:
    return b->low > 0 ? std::optional(Range{0, b->high - 1}) : std::nullopt;
  case BinaryKind::max:
    return Range{std::max(a->low, b->low), std::max(a->high, b->high)};
  case BinaryKind::min:
    return Range{std::min(a->low, b->low), std::min(a->high, b->high)};
  default:
    return std::nullopt;
  }
}

void Binder::settle() {
  std::vector<std::optional<Range>> known;
  for (uint32_t n = 0; n < body.nodes.size(); ++n)
    known.push_back(rangeOf(n, known));
  auto decided = [&](const ExprNode &node) -> std::optional<bool> {
    if (node.op != Op::binary || node.type != DType::boolean)
      return std::nullopt;
    auto a = known[node.args[0]], b = known[node.args[1]];
    if (!a || !b)
      return std::nullopt;
    auto order = [](bool yes, bool no) { return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt; };
    switch (BinaryKind(node.imm)) {
    case BinaryKind::lt:
      return order(a->high < b->low, a->low >= b->high);
    case BinaryKind::le:
      return order(a->high <= b->low, a->low > b->high);
    case BinaryKind::gt:
      return order(a->low > b->high, a->high <= b->low);
    case BinaryKind::ge:
      return order(a->low >= b->high, a->high < b->low);
    default:
      return std::nullopt;
    }
  };
  Expr settled;
  std::vector<uint32_t> renamed;
  for (const ExprNode &old : body.nodes) {
    ExprNode node = old;
    for (uint32_t &arg : node.args)
      arg = renamed[arg];
    if (auto fixed = decided(old)) {
      renamed.push_back(settled.integer(DType::boolean, *fixed));
      continue;
    }
    switch (old.op) {
    case Op::iter:
      renamed.push_back(extents[old.imm] == 1 ? settled.integer(DType::i64, 0) : settled.add(node));
      break;
    case Op::clamp_index: {
      auto x = known[old.args[0]], count = known[old.args[1]];
      bool inside = x && count && x->low >= 0 && x->high < count->low;
      renamed.push_back(inside ? node.args[0] : settled.clampIndex(node.args[0], node.args[1]));
      break;
    }
    case Op::unary:
      renamed.push_back(settled.unary(UnaryKind(old.imm), node.args[0]));
      break;
    case Op::binary:
      renamed.push_back(settled.binary(BinaryKind(old.imm), node.args[0], node.args[1]));
      break;
    case Op::select:
      renamed.push_back(settled.select(node.args[0], node.args[1], node.args[2]));
      break;
    case Op::load: // of an operand that is also indexed: at this point
      if (indexed[old.imm]) {
        for (size_t d = 0; d < extents.size(); ++d)
          node.args.push_back(input(old.imm).dims[d] == 1 ? settled.integer(DType::i64, 0) : settled.iter(d));
        node.op = Op::load_at;
      }
      [[fallthrough]];
    default:
      renamed.push_back(settled.add(node));
    }
  }
  for (uint32_t r : body.results)
    settled.results.push_back(renamed[r]);
  body = settled.pruned();
}

//===-- dims ------------------------------------------------------------------------------------------------------===//

void Binder::makeDims() {
  deps = dependencies(body, [&](uint32_t operand) {
    uint32_t mask = 0;
    for (size_t d = 0; d < extents.size(); ++d)
      if (extents[d] != 1 && input(operand).strides[d] != 0)
        mask |= 1u << d;
    return mask;
  });
  for (bool wanted : {false, true})
    for (uint32_t d = 0; d < extents.size(); ++d) {
      if (reduced[d] != wanted || extents[d] == 1)
        continue;
      Dim dim{extents[d], wanted, {d}, {}};
      for (unsigned v = 0; v < site.views.size(); ++v) {
        bool plain =
            v < site.outputs ||
            llvm::any_of(body.nodes, [&](const ExprNode &n) { return n.op == Op::load && n.imm + site.outputs == v; });
        dim.strides.push_back(plain ? site.views[v].strides[d] : 0);
      }
      dims.push_back(std::move(dim));
    }
}

/// How far a load or load_at moves in memory when `dim` does; `even` is false where that is not one number.
int64_t Binder::stepOf(uint32_t n, const Dim &dim, bool &even) const {
  const ExprNode &node = body.nodes[n];
  even = true;
  if (node.op == Op::load)
    return dim.strides[site.outputs + node.imm];
  int64_t step = 0;
  for (auto [k, arg] : llvm::enumerate(node.args)) {
    for (uint32_t f : dim.from) { // the body does not use the index of a merged dim: 0, or uneven by a loaded index
      auto c = coefficient(body, deps, arg, f);
      even &= c.has_value();
      step += c.value_or(0) * input(node.imm).strides[k];
    }
  }
  return even ? step : 0;
}

void Binder::order() {
  auto memoryStep = [&](const Dim &dim) {
    int64_t step = 0;
    for (uint32_t n = 0; n < body.nodes.size(); ++n)
      if (body.nodes[n].op == Op::load || body.nodes[n].op == Op::load_at) {
        bool even;
        if (int64_t s = std::abs(stepOf(n, dim, even)); s && (!step || s < step))
          step = s;
      }
    return step;
  };
  parallel = llvm::count_if(dims, [](const Dim &d) { return !d.reduced; });
  std::stable_sort(dims.begin(), dims.begin() + parallel, [&](const Dim &a, const Dim &b) {
    int64_t x = std::abs(a.strides[0]), y = std::abs(b.strides[0]);
    return x != y ? x > y : memoryStep(a) > memoryStep(b);
  });
  std::stable_sort(dims.begin() + parallel, dims.end(),
                   [&](const Dim &a, const Dim &b) { return memoryStep(a) > memoryStep(b); });
}

bool Binder::mergeable(const Dim &outer, const Dim &inner) const {
  if (outer.reduced != inner.reduced)
    return false;
  for (const ExprNode &node : body.nodes)
    if (node.op == Op::iter && (llvm::is_contained(outer.from, node.imm) || llvm::is_contained(inner.from, node.imm)))
      return false;
  for (size_t v = 0; v < outer.strides.size(); ++v)
    if (outer.strides[v] != inner.strides[v] * inner.extent)
      return false;
  return true;
}

void Binder::merge() {
  for (size_t i = 0; i + 1 < dims.size();) {
    if (!mergeable(dims[i], dims[i + 1])) {
      ++i;
      continue;
    }
    dims[i + 1].extent *= dims[i].extent;
    llvm::append_range(dims[i + 1].from, dims[i].from);
    dims.erase(dims.begin() + i);
    if (i > 0)
      --i;
  }
  parallel = llvm::count_if(dims, [](const Dim &d) { return !d.reduced; });
}

//===-- the vector level ------------------------------------------------------------------------------------------===//

/// Instructions an element when `d` is the vector level, roughly; `price` is that of a node.
double Binder::cost(unsigned d, llvm::function_ref<double(const ExprNode &)> price) const {
  const Dim &dim = dims[d];
  unsigned widest = 8;
  for (const ExprNode &node : body.nodes)
    if (node.type != DType::i64 && node.type != DType::boolean)
      widest = std::max(widest, bitWidth(node.type));
  for (unsigned o = 0; o < site.outputs; ++o)
    widest = std::max(widest, bitWidth(site.output(o).type));
  double lanes = std::max(1u, target.vectorBits / widest), a = 0;
  uint32_t mask = 0;
  for (uint32_t f : dim.from)
    mask |= 1u << f;
  bool vectorised = dim.extent >= lanes;
  double whole = vectorised ? std::ceil(dim.extent / lanes) / dim.extent : 1; // vectors an element
  double outside = 1.0 / std::max<int64_t>(dim.extent, 1);                    // once a row
  auto access = [&](int64_t step, bool even) {
    if (even && step == 0)
      return outside;
    return even && step == 1 ? whole : vectorised ? 1.5 : 1.0;
  };
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const ExprNode &node = body.nodes[n];
    if (node.op == Op::load || node.op == Op::load_at) {
      bool even;
      int64_t step = stepOf(n, dim, even);
      a += access(step, even) * (even ? 1 : 2);
    } else if (node.op == Op::unary || node.op == Op::binary || node.op == Op::select || node.op == Op::cast ||
               node.op == Op::bitcast) {
      a += (deps[n] & mask ? whole : outside) * price(node);
    }
  }
  for (unsigned o = 0; o < site.outputs; ++o) {
    double stores = access(dim.strides[o], true);
    for (const Dim &r : dims)
      if (r.reduced && r.strides[o] == 0)
        stores /= std::max<int64_t>(r.extent, 1);
    a += stores;
  }
  if (dim.reduced) // lanes are combined once a row
    a += (vectorised ? 12.0 : 4.0) * outside * std::max<size_t>(1, plan.combines.size()) + whole;
  return a + 2 * outside;
}

/// Whether the launch is a transposition of `column` (unit step in some operand) and `row` (unit step in the output).
bool Binder::tileable(unsigned column, unsigned row) const {
  if (plan.reduces() || site.outputs != 1 || dims[column].extent < smallestTile || dims[row].extent < smallestTile)
    return false;
  if (dims[row].strides[0] != 1 || bitWidth(site.output().type) < 8)
    return false;
  bool any = false;
  for (const ExprNode &node : body.nodes) {
    if (node.op == Op::load_at || node.op == Op::iter)
      return false;
    if (node.op != Op::load)
      continue;
    const auto &strides = dims[column].strides;
    unsigned v = site.outputs + node.imm;
    any |= strides[v] == 1 && dims[row].strides[v] != 0 && dims[row].strides[v] != 1 && bitWidth(node.type) >= 8;
  }
  return any;
}

/// Whether `channel` is a few elements that lie side by side in some views, while in the others points do.
bool Binder::interleaves(unsigned channel, unsigned point) const {
  const Dim &c = dims[channel], &p = dims[point];
  if (plan.reduces() || c.extent > largestInterleave || p.extent < smallestInterleaved ||
      llvm::any_of(plan.types, isPacked) || llvm::is_contained(indexed, true))
    return false;
  bool alternating = false, planar = false;
  for (unsigned v = 0; v < site.views.size(); ++v) {
    bool alternates = c.strides[v] == 1 && p.strides[v] == c.extent;
    if (!alternates && p.strides[v] != 0 && p.strides[v] != 1)
      return false;
    alternating |= alternates;
    planar |= p.strides[v] == 1;
  }
  return alternating && planar;
}

/// Two parallel dims as the last of them.
void Binder::moveToEnd(unsigned outer, unsigned inner) {
  Dim o = dims[outer], i = dims[inner];
  dims.erase(dims.begin() + std::max(outer, inner));
  dims.erase(dims.begin() + std::min(outer, inner));
  dims.insert(dims.begin() + parallel - 2, {o, i});
}

void Binder::moveLast(unsigned d, bool isReduced) {
  auto end = isReduced ? dims.end() : dims.begin() + parallel;
  std::rotate(dims.begin() + d, dims.begin() + d + 1, end);
}

void Binder::chooseVector() {
  if (dims.empty())
    return;
  unsigned best = 0;
  double least = 0;
  for (unsigned d = 0; d < dims.size(); ++d) {
    double c = cost(d, [](const ExprNode &node) { return isExpensive(node) ? 8.0 : 1.0; });
    bool last = d + 1 == parallel;
    if (d == 0 || c < least * 0.999 || (last && c <= least * 1.001)) {
      best = d;
      least = c;
    }
  }
  if (separation && separation->dims.size() == 1) // a row in scratch is read along itself
    for (unsigned d = 0; d < parallel; ++d)
      if (dims[d].from == separation->dims)
        best = d;
  instructions = cost(best, [](const ExprNode &node) { return double(instructionsOf(node)); });
  for (unsigned row = 0; row < parallel; ++row)
    for (unsigned column = 0; column < parallel; ++column)
      if (row != column && !plan.transpose && !plan.interleave && (tileable(column, row) || interleaves(column, row))) {
        plan.transpose = tileable(column, row);
        plan.interleave = plan.transpose ? 0 : dims[column].extent;
        moveToEnd(column, row);
        best = parallel - 1;
        // Of a tile: into scratch, out of it, and a logarithm of shuffles between. Of channels: a load, a store and
        // about two shuffles.
        const double lanes = target.lanes(bitWidth(site.output().type));
        instructions = (4 + (plan.transpose ? llvm::Log2_64(uint64_t(lanes)) : 0) + instructionsOf(body)) / lanes;
      }
  bool isReduced = dims[best].reduced;
  if (!plan.transpose && !plan.interleave)
    moveLast(best, isReduced);
  vector = isReduced ? dims.size() - 1 : parallel - 1;
}

//===-- separation ------------------------------------------------------------------------------------------------===//

/// Makes the row of an interpolation a view, where there is one.
bool Binder::separateRow() {
  if (!repeated.empty() || plan.reduces() || llvm::any_of(plan.types, isPacked))
    return false;
  separation = separate(body, site, extents);
  if (!separation)
    return false;
  body = separation->body;
  site.views.push_back(separation->row);
  plan.types.push_back(DType::f32);
  plan.sources.push_back(plan.sources.size());
  indexed.push_back(true);
  return true;
}

/// Finds the level of the separated dim: the last one, or the last but one if the last is that of the elements inside.
bool Binder::placeRow() {
  const unsigned count = separation->dims.size();
  if (parallel < count || vector + 1 != parallel || plan.transpose || plan.interleave)
    return false;
  const unsigned level = parallel - count;
  for (unsigned i = 0; i < count; ++i)
    if (dims[level + i].from != std::vector<uint32_t>{separation->dims[i]})
      return false;
  // Vectors inside places overlap at a row's end, where an output that lies on an operand could have been written.
  if (count > 1 && llvm::any_of(body.nodes, [](const ExprNode &n) { return n.op == Op::load; }))
    return false;
  plan.separated = level;
  // The row's values: once a place instead of once a point.
  instructions += double(body.nodes.size()) / target.lanes() * separation->row.dims[0] / dims[level].extent;
  return true;
}

//===-- clips -----------------------------------------------------------------------------------------------------===//

/// A comparison as a number that is not negative where it holds, if that number moves evenly with one reduced dim, not
/// with the vector level, and consists of index arithmetic.
std::optional<uint32_t> Binder::clipOf(uint32_t condition, unsigned &dim) {
  const ExprNode node = body.nodes[condition];
  if (node.op != Op::binary || body.nodes[node.args[0]].type != DType::i64)
    return std::nullopt;
  uint32_t a = node.args[0], b = node.args[1], one = body.integer(DType::i64, 1), rest;
  auto minus = [&](uint32_t x, uint32_t y) { return body.binary(BinaryKind::sub, x, y); };
  switch (BinaryKind(node.imm)) {
  case BinaryKind::ge:
    rest = minus(a, b);
    break;
  case BinaryKind::gt:
    rest = minus(minus(a, b), one);
    break;
  case BinaryKind::le:
    rest = minus(b, a);
    break;
  case BinaryKind::lt:
    rest = minus(minus(b, a), one);
    break;
  default:
    return std::nullopt;
  }
  std::function<bool(uint32_t)> plain = [&](uint32_t n) {
    const ExprNode &x = body.nodes[n];
    bool leaf = x.op == Op::constant || x.op == Op::iter || x.op == Op::extent || x.op == Op::param;
    return x.type == DType::i64 && (leaf || (x.op == Op::binary && plain(x.args[0]) && plain(x.args[1])));
  };
  deps = dependencies(body, [](uint32_t) { return 0u; });
  if (!plain(rest))
    return std::nullopt;
  std::optional<unsigned> level;
  for (unsigned d = 0; d < dims.size(); ++d)
    for (uint32_t f : dims[d].from)
      if (deps[rest] >> f & 1) {
        if (d == vector || (dims[d].reduced && level))
          return std::nullopt;
        if (dims[d].reduced)
          level = d;
      }
  if (!level)
    return std::nullopt;
  auto step = coefficient(body, deps, rest, dims[*level].from[0]);
  if (!step || *step == 0)
    return std::nullopt;
  dim = *level;
  return rest;
}

/// select(c and d and ..., value, what changes nothing) in everything that is combined: conditions that all have become
/// bounds; clamps of what a bound keeps inside go away.
void Binder::clip() {
  if (!plan.reduces() || llvm::any_of(plan.combines, isArg))
    return;
  std::vector<bool> reducedValue; // one phase, and outputs after it
  for (const ExprNode &node : body.nodes)
    reducedValue.push_back(node.op == Op::acc ||
                           llvm::any_of(node.args, [&](uint32_t arg) { return reducedValue[arg]; }));
  for (unsigned slot = 0; slot < plan.combined(); ++slot)
    if (reducedValue[body.results[slot]])
      return;
  for (const Dim &dim : dims)
    for (unsigned o = 0; o < site.outputs; ++o)
      if (dim.reduced && dim.strides[o] != 0)
        return;
  auto identity = [&](Combine kind, const ExprNode &node) {
    if (node.op != Op::constant)
      return false;
    bool floating = isFloat(node.type);
    double v = llvm::bit_cast<double>(node.bits);
    switch (kind) {
    case Combine::sum:
      return node.bits == 0;
    case Combine::prod:
      return floating ? v == 1 : node.bits == 1;
    case Combine::max:
    case Combine::max_number:
      return floating ? v == -HUGE_VAL
                      : node.bits == (isUnsigned(node.type)
                                          ? 0
                                          : constantBits(node.type, -(int64_t(1) << (bitWidth(node.type) - 2)) * 2));
    default:
      return floating && v == HUGE_VAL;
    }
  };
  std::function<void(uint32_t, std::vector<uint32_t> &)> terms = [&](uint32_t n, std::vector<uint32_t> &all) {
    const ExprNode &node = body.nodes[n];
    if (node.op != Op::binary || BinaryKind(node.imm) != BinaryKind::logical_and ||
        body.nodes[node.args[0]].type != DType::boolean)
      return all.push_back(n);
    terms(node.args[0], all);
    terms(node.args[1], all);
  };
  std::vector<std::vector<uint32_t>> conditions;
  for (unsigned slot = 0; slot < plan.combined(); ++slot) {
    const ExprNode &node = body.nodes[body.results[slot]];
    if (node.op != Op::select || !identity(plan.combines[slot], body.nodes[node.args[2]]))
      return;
    terms(node.args[0], conditions.emplace_back());
  }
  std::map<uint32_t, std::pair<uint32_t, unsigned>> clipped; // condition -> number, dim
  for (uint32_t c : conditions[0]) {
    unsigned dim = 0;
    if (llvm::all_of(conditions, [&](auto &all) { return llvm::is_contained(all, c); }))
      if (auto rest = clipOf(c, dim))
        clipped[c] = {*rest, dim};
  }
  if (clipped.empty())
    return;
  std::vector<std::optional<Range>> known;
  for (uint32_t n = 0; n < body.nodes.size(); ++n)
    known.push_back(rangeOf(n, known));
  auto bounded = [&](uint32_t x, uint32_t n) { // 0 <= x < n holds, by extents or by a clip
    bool low = known[x] && known[x]->low >= 0, high = known[x] && known[n] && known[x]->high < known[n]->low;
    for (auto &[c, where] : clipped) {
      const ExprNode &node = body.nodes[c];
      if (node.args[0] != x)
        continue;
      low |= BinaryKind(node.imm) == BinaryKind::ge && body.nodes[node.args[1]].op == Op::constant &&
             int64_t(body.nodes[node.args[1]].bits) >= 0;
      high |= BinaryKind(node.imm) == BinaryKind::lt && node.args[1] == n;
    }
    return low && high;
  };
  Expr made;
  std::vector<uint32_t> renamed;
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    ExprNode node = body.nodes[n];
    const ExprNode old = node;
    for (uint32_t &arg : node.args)
      arg = renamed[arg];
    if (clipped.count(n))
      renamed.push_back(made.integer(DType::boolean, 1));
    else if (old.op == Op::clamp_index && bounded(old.args[0], old.args[1]))
      renamed.push_back(node.args[0]);
    else if (old.op == Op::binary)
      renamed.push_back(made.binary(BinaryKind(old.imm), node.args[0], node.args[1]));
    else if (old.op == Op::select)
      renamed.push_back(made.select(node.args[0], node.args[1], node.args[2]));
    else
      renamed.push_back(made.add(node));
  }
  for (uint32_t r : body.results)
    made.results.push_back(renamed[r]);
  for (auto &[c, where] : clipped) {
    made.results.push_back(renamed[where.first]);
    plan.clips.push_back(where.second);
  }
  body = made.pruned();
}

//===-- the bound launch ------------------------------------------------------------------------------------------===//

/// The levels whose tables pay: a unit computes each of their points at least twice. Indices are to fit in 32 bits.
uint32_t Binder::tabledLevels() const {
  if (plan.reduces() || plan.transpose || plan.interleave)
    return 0;
  for (const View &v : site.views)
    if (llvm::any_of(v.dims, [](int64_t d) { return d > INT32_MAX; }))
      return 0;
  uint32_t levels = 0;
  int64_t outside = 1, inside = 1;
  for (const Dim &d : dims)
    inside *= d.extent;
  for (unsigned l = 0; l < dims.size() && inside > 0; ++l) {
    inside /= dims[l].extent;
    if (outside > 1 && std::min(outside * dims[l].extent, unitGoal / inside) >= 2 * dims[l].extent)
      levels |= 1u << l;
    outside *= dims[l].extent;
  }
  return levels;
}

void Binder::fill() {
  plan.rank = dims.size();
  plan.parallel = parallel;
  plan.vector = vector;
  std::vector<uint32_t> levelOf(extents.size(), 0);
  for (unsigned l = 0; l < dims.size(); ++l)
    for (uint32_t f : dims[l].from)
      levelOf[f] = l;
  plan.body = body;
  for (ExprNode &node : plan.body.nodes)
    if (node.op == Op::iter)
      node.imm = levelOf[node.imm];
  for (unsigned v = 0; v < site.views.size(); ++v) {
    std::vector<Step> steps;
    if (plan.indexed(v)) {
      for (size_t k = 0; k < site.views[v].dims.size(); ++k)
        steps.push_back(site.views[v].dims[k] == 1 ? Step::none : stepFor(site.views[v].strides[k]));
    } else {
      for (const Dim &dim : dims)
        steps.push_back(stepFor(dim.strides[v]));
    }
    plan.steps.push_back(std::move(steps));
  }

  // Values kept between phases: for each point of a row, a scalar or the vectors of a tile. Short rows go in batches.
  plan.cache = true;
  plan.tables = tabledLevels();
  Analysis analysis(plan);
  if (analysis.tabled.empty())
    plan.tables = 0;
  int64_t points = 1, batch = 1;
  for (unsigned l = parallel; l < dims.size(); ++l)
    points *= dims[l].extent;
  if (plan.maps() && plan.vectorReduces() && parallel > 0 && points > 0 && points <= longestBatched) {
    plan.batch = true;
    batch = std::min<int64_t>(largestBatch, std::max<int64_t>(4096 / points, 2));
  }
  bool indexedWindow = llvm::any_of(body.nodes, [](const ExprNode &n) { return n.op == Op::load_at; });
  if (plan.reduces() && !plan.vectorReduces() && !plan.maps() && indexedWindow && points > 1 && points <= largestWindow)
    for (unsigned l = parallel; l < dims.size(); ++l)
      plan.window.push_back(dims[l].extent);
  int64_t rowPoints = points;
  for (unsigned l = plan.levelsOutsideRow(); l < parallel; ++l)
    rowPoints *= dims[l].extent;
  if (rowPoints <= unitGoal) // else rows are cut into blocks
    plan.pairs = findPairs(plan, analysis);
  int64_t kept = analysis.cached * points * batch * (plan.vectorReduces() ? 8 : 4 * target.vectorBits / 8);
  plan.cache = kept > 0 && kept <= (4 << 20);
  if (plan.cache)
    bound.scratchBytes = llvm::alignTo(kept, 64);
  if (plan.batch)
    bound.scratchBytes += plan.combined() * largestBatch * 8;
  for (uint32_t n : analysis.tabled) {
    int64_t extent = dims[llvm::Log2_32(analysis.deps[n])].extent;
    bound.scratchBytes += (llvm::alignTo(extent, tableStep) + tablePadding) * tableBytes;
  }
  int64_t rowLength = 1;
  if (separation)
    for (int64_t d : separation->row.dims)
      rowLength *= d;
  if (plan.separated == int(vector))
    bound.scratchBytes += llvm::alignTo(rowLength * 4, 64);
  bound.kernel = plan.describe();

  // Work of one item: a row, a block of a long row, a tile; times what is reduced.
  Params layout(plan);
  int64_t reducedPoints = 1, rows = 1, row = 1, blocks = 1, blockSize = 1;
  for (const Dim &d : dims)
    if (d.reduced)
      reducedPoints *= d.extent;
  for (unsigned l = 0; l < plan.levelsOutsideRow(); ++l)
    rows *= plan.pairsUp(l) ? llvm::divideCeil(dims[l].extent, 2) : dims[l].extent;
  for (unsigned l = plan.levelsOutsideRow(); l < parallel; ++l)
    row *= dims[l].extent;
  const int64_t goal = unitGoal;
  int64_t weight = std::max<int64_t>(reducedPoints, 1);
  if (plan.pairs)
    weight *= 2;
  if (plan.interleave) { // a row of points, each with all of its channels
    weight = plan.interleave;
    row /= plan.interleave;
  }
  if (plan.transpose) {
    int64_t down = tilesOf(dims[parallel - 2].extent, tileSide),
            across = tilesOf(dims[parallel - 1].extent, plan.tileRows());
    blocks = down * across;
    blockSize = across; // tiles side by side
    row = llvm::divideCeil(row, blocks);
  } else if (row * weight > 2 * goal && !plan.vectorReduces() && plan.separated < 0) {
    // Blocks of one row: equal to within one vector, none shorter than 64 elements unless the row is.
    int64_t size = std::max<int64_t>(llvm::alignTo(std::max<int64_t>(goal / weight, 1), 64), 64);
    blocks = std::max<int64_t>(row / size, 1);
    blockSize = llvm::alignTo(llvm::divideCeil(row, blocks), 64);
    blocks = llvm::divideCeil(row, blockSize);
    if (blocks > 1 && row - (blocks - 1) * blockSize < 64)
      --blocks; // the last one takes the rest
    row = blockSize;
  }
  if (blocks == 1 && !plan.transpose)
    blockSize = row;
  int64_t items = rows * blocks;
  int64_t perUnit = std::max<int64_t>(1, goal / std::max<int64_t>(1, row * weight));
  if (llvm::any_of(plan.types, isPacked))
    perUnit = std::max<int64_t>(items, 1); // several elements a byte: one unit writes all
  bound.units = std::max<int64_t>(1, llvm::divideCeil(items, perUnit));
  auto &p = bound.params;
  p.assign(layout.total, 0);
  p[Params::perUnit] = perUnit;
  p[Params::items] = items;
  p[Params::blocks] = blocks;
  p[Params::blockSize] = plan.batch ? batch : blockSize;
  for (unsigned l = 0; l < dims.size(); ++l)
    p[layout.extent(l)] = dims[l].extent;
  for (auto [at, index] : layout.strides)
    p[index] = plan.indexed(at.first) ? site.views[at.first].strides[at.second] : dims[at.second].strides[at.first];
  for (auto [imm, index] : layout.extents)
    p[index] = input(imm / 16).dims[imm % 16];
  if (plan.separated >= 0)
    p[layout.rowLength] = rowLength;
  std::copy(site.immediates.begin(), site.immediates.end(), p.begin() + layout.firstImmediate);
  int64_t operations = llvm::count_if(
      body.nodes, [](const ExprNode &n) { return isFloat(n.type) && (n.op == Op::unary || n.op == Op::binary); });
  int64_t allPoints = reducedPoints;
  for (unsigned l = 0; l < parallel; ++l)
    allPoints *= dims[l].extent;
  bound.flops = (operations + plan.combines.size()) * allPoints;
  bound.work.instructions = uint64_t(instructions * double(allPoints));
  if (plan.transpose && !plan.copies())
    for (unsigned v = plan.outputs; v < plan.types.size(); ++v)
      bound.scratchBytes += largestTile * largestTile * 8;
}

llvm::Expected<BoundLaunch> Binder::bind() {
  if (llvm::Error e = read())
    return std::move(e);
  settle();
  const bool rows = separable && separateRow();
  makeDims();
  order();
  merge();
  chooseVector();
  if (rows && !placeRow()) // as one step
    return Binder(original, target, repeated, false).bind();
  clip();
  fill();
  return std::move(bound);
}

} // namespace

llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target, llvm::ArrayRef<unsigned> repeated) {
  return Binder(site, target, repeated).bind();
}

} // namespace mrcc::loops
