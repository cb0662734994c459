// Interpolation in two steps. A body such as
//
//   w0 * (v0 * x[y0, x0, c] + v1 * x[y1, x0, c]) + w1 * (v0 * x[y0, x1, c] + v1 * x[y1, x1, c])
//
// computes the same function of the place along one dim (x0, x1) several times, and at many points of that dim for the
// same place. Its values at all places of an input row go to scratch first, in whole vectors whatever the number of
// channels; the body then reads them at x0 and x1:
//
//   row[x, c] = v0 * x[y0, x, c] + v1 * x[y1, x, c]         w0 * row[x0, c] + w1 * row[x1, c]
#include "Loop.h"

namespace mrcc::loops {

using Op = ExprNode::Op;

namespace {

class Separator {
public:
  Separator(const Expr &body, const LaunchSite &site, llvm::ArrayRef<int64_t> extents)
      : body(body), site(site), extents(extents), deps(dependencies(body, [&](uint32_t operand) {
          uint32_t mask = 0;
          for (size_t d = 0; d < extents.size(); ++d)
            if (view(operand).strides[d] != 0)
              mask |= 1u << d;
          return mask;
        })) {}
  std::optional<Separation> run();

private:
  const View &view(uint32_t operand) const { return site.views[site.outputs + operand]; }
  bool choose(uint32_t operand, unsigned along);
  bool findTops();
  bool alike(uint32_t a, uint32_t b) const;
  uint32_t atFirstPlace(uint32_t node, Expr &made, const std::vector<uint32_t> &renamed) const;
  Separation rewritten() const;

  const Expr &body;
  const LaunchSite &site;
  llvm::ArrayRef<int64_t> extents;
  std::vector<uint32_t> deps; // on dims
  // The operand, the position of its index that is separated, and that of the index inside it, if there is one.
  uint32_t operand = 0;
  unsigned k = 0;
  std::optional<unsigned> inside;
  uint32_t dim = 0;             // that the separated index depends on
  std::vector<uint32_t> places; // the different indices
  std::vector<uint32_t> tops;   // for each place the largest expression that depends on `dim` through it alone
};

/// Whether position `along` of the operand's indices can be separated; sets the fields.
bool Separator::choose(uint32_t operand, unsigned along) {
  this->operand = operand;
  k = along;
  places.clear();
  inside.reset();
  const View &v = view(operand);
  std::vector<const ExprNode *> loads;
  for (const ExprNode &node : body.nodes)
    if (node.op == Op::load_at && node.imm == operand)
      loads.push_back(&node);
  for (const ExprNode *load : loads)
    if (!llvm::is_contained(places, load->args[k]))
      places.push_back(load->args[k]);
  const uint32_t mask = deps[places[0]];
  if (places.size() < 2 || !llvm::isPowerOf2_32(mask) ||
      llvm::any_of(places, [&](uint32_t place) { return deps[place] != mask; }))
    return false;
  dim = llvm::Log2_32(mask);
  // Elements of a row lie side by side: the index inside runs over all of its dimension.
  if (v.strides[k] != 1) {
    for (unsigned m = 0; m < v.dims.size(); ++m) {
      const ExprNode &index = body.nodes[loads[0]->args[m]];
      if (m != k && v.strides[m] == 1 && v.dims[m] == v.strides[k] && index.op == Op::iter &&
          extents[index.imm] == v.dims[m])
        inside = m;
    }
    if (!inside)
      return false;
  }
  const uint32_t inner = inside ? deps[loads[0]->args[*inside]] : 0;
  for (const ExprNode *load : loads)
    for (unsigned m = 0; m < load->args.size(); ++m)
      if (m != k && (m == inside ? load->args[m] != loads[0]->args[m] : deps[load->args[m]] & (mask | inner)))
        return false;
  return v.dims[k] <= extents[dim]; // reads no more places than there are points
}

/// Finds the largest expressions, one a place, which must be alike.
bool Separator::findTops() {
  constexpr int none = -1, mixed = -2;
  std::vector<int> via;
  std::vector<std::vector<uint32_t>> found(places.size());
  uint32_t own = 1u << dim;
  auto top = [&](uint32_t n) {
    if (via[n] >= 0 && !llvm::is_contained(found[via[n]], n))
      found[via[n]].push_back(n);
  };
  for (const ExprNode &node : body.nodes)
    if (node.op == Op::load_at && node.imm == operand && inside)
      own |= deps[node.args[*inside]];
  for (const ExprNode &node : body.nodes) {
    int mine = none;
    if (node.op == Op::load_at && node.imm == operand) {
      mine = llvm::find(places, node.args[k]) - places.begin();
    } else {
      for (uint32_t arg : node.args) {
        int its = via[arg] == none && deps[arg] & own ? mixed : via[arg];
        mine = mine == none || mine == its ? its : its == none ? mine : mixed;
      }
    }
    via.push_back(mine);
    if (mine == mixed)
      for (uint32_t arg : node.args)
        top(arg);
  }
  for (uint32_t r : body.results)
    top(r);
  tops.clear();
  for (auto &mine : found) {
    if (mine.size() != 1 || body.nodes[mine[0]].op == Op::load_at || body.nodes[mine[0]].type != DType::f32)
      return false;
    tops.push_back(mine[0]);
  }
  return llvm::all_of(tops, [&](uint32_t t) { return alike(tops[0], t); });
}

/// Whether two expressions differ in their places alone.
bool Separator::alike(uint32_t a, uint32_t b) const {
  const ExprNode &x = body.nodes[a], &y = body.nodes[b];
  if (a == b)
    return true;
  if (x.op != y.op || x.type != y.type || x.imm != y.imm || x.bits != y.bits || x.args.size() != y.args.size())
    return false;
  for (unsigned m = 0; m < x.args.size(); ++m) {
    bool isPlace = x.op == Op::load_at && x.imm == operand && m == k;
    if (!isPlace && !alike(x.args[m], y.args[m]))
      return false;
  }
  return true;
}

/// A copy of the expression at the row's first element.
uint32_t Separator::atFirstPlace(uint32_t n, Expr &made, const std::vector<uint32_t> &renamed) const {
  ExprNode node = body.nodes[n];
  for (unsigned m = 0; m < node.args.size(); ++m) {
    bool first = node.op == Op::load_at && node.imm == operand && (m == k || m == inside);
    node.args[m] = first ? made.integer(DType::i64, 0) : atFirstPlace(node.args[m], made, renamed);
  }
  return node.op == Op::load_at || !node.args.empty() ? made.add(node) : renamed[n];
}

Separation Separator::rewritten() const {
  Separation s;
  const View &v = view(operand);
  s.row.type = DType::f32;
  s.row.dims = {v.dims[k]};
  s.row.strides = {1};
  s.dims = {dim};
  std::optional<uint32_t> element; // the index inside
  if (inside) {
    for (const ExprNode &node : body.nodes)
      if (node.op == Op::load_at && node.imm == operand)
        element = node.args[*inside];
    s.row.dims.push_back(v.dims[*inside]);
    s.row.strides = {v.strides[k], 1};
    s.dims.push_back(body.nodes[*element].imm);
  }
  std::vector<uint32_t> renamed;
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    ExprNode node = body.nodes[n];
    if (auto top = llvm::find(tops, n); top != tops.end()) {
      llvm::SmallVector<uint32_t> at{renamed[places[top - tops.begin()]]};
      if (element)
        at.push_back(renamed[*element]);
      renamed.push_back(s.body.loadAt(DType::f32, site.numInputs(), at));
      continue;
    }
    for (uint32_t &arg : node.args)
      arg = renamed[arg];
    renamed.push_back(s.body.add(node));
  }
  for (uint32_t r : body.results)
    s.body.results.push_back(renamed[r]);
  s.body.results.push_back(atFirstPlace(tops[0], s.body, renamed));
  s.body = s.body.pruned();
  return s;
}

std::optional<Separation> Separator::run() {
  for (const ExprNode &node : body.nodes)
    if (node.op == Op::load_at)
      for (unsigned along = 0; along < node.args.size(); ++along)
        if (choose(node.imm, along) && findTops())
          return rewritten();
  return std::nullopt;
}

} // namespace

std::optional<Separation> separate(const Expr &body, const LaunchSite &site, llvm::ArrayRef<int64_t> extents) {
  return Separator(body, site, extents).run();
}

} // namespace mrcc::loops
