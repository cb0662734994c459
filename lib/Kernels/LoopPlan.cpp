// Plans as kernel descriptions, and what both sides, binding and emission, have to know alike: the order of parameters
// and what a node depends on.
#include "Loop.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

namespace mrcc::loops {

using Op = ExprNode::Op;

unsigned Plan::combined() const {
  unsigned n = 0;
  for (Combine c : combines)
    n += isArg(c) ? 2 : 1;
  return n;
}

bool Plan::indexed(unsigned view) const {
  if (view < outputs)
    return false;
  return llvm::any_of(body.nodes,
                      [&](const ExprNode &node) { return node.op == Op::load_at && node.imm + outputs == view; });
}

bool Plan::maps() const {
  if (!reduces())
    return false;
  for (unsigned o = 0; o < outputs; ++o)
    for (unsigned l = parallel; l < rank; ++l)
      if (steps[o][l] != Step::none)
        return true;
  return false;
}

// Steps as decimal digits after a leading 1: none, unit, strided.
KernelDescription Plan::describe() const {
  KernelDescription k;
  k.family = "loop";
  for (unsigned v = 0; v < types.size(); ++v) {
    if (isRow(v))
      continue;
    if (sources[v] == v)
      k.types.push_back(types[v]);
    else
      k.config["source" + std::to_string(v)] = sources[v];
  }
  k.body = body.str();
  k.config.insert({{"outputs", outputs},
                   {"rank", rank},
                   {"parallel", parallel},
                   {"vector", vector},
                   {"params", Params(*this).total}});
  for (unsigned i = 0; i < window.size(); ++i)
    k.config["window" + std::to_string(i)] = window[i];
  if (pairs)
    k.config.insert({{"pairs", pairs->level}, {"pairWindow", pairs->window}, {"pairShift", pairs->shift}});
  for (unsigned i = 0; i < clips.size(); ++i)
    k.config["clip" + std::to_string(i)] = clips[i];
  if (immediates)
    k.config["immediates"] = immediates;
  if (transpose)
    k.config["transpose"] = 1;
  if (interleave)
    k.config["interleave"] = interleave;
  if (separated >= 0)
    k.config["separated"] = separated;
  if (cache)
    k.config["cache"] = 1;
  if (batch)
    k.config["batch"] = 1;
  if (tables)
    k.config["tables"] = tables;
  for (unsigned v = 0; v < types.size(); ++v) {
    int64_t digits = 1;
    for (Step s : steps[v])
      digits = digits * 10 + int64_t(s);
    k.config["steps" + std::to_string(v)] = digits;
  }
  for (unsigned i = 0; i < combines.size(); ++i)
    k.config["combine" + std::to_string(i)] = int64_t(combines[i]);
  return k;
}

llvm::Expected<Plan> Plan::parse(const KernelDescription &k) {
  auto get = [&](const std::string &name) {
    auto it = k.config.find(name);
    return it == k.config.end() ? int64_t(0) : it->second;
  };
  Plan p;
  p.types = k.types;
  for (unsigned v = 0; v < p.types.size(); ++v)
    p.sources.push_back(v);
  for (; k.config.count("source" + std::to_string(p.types.size()));) {
    p.sources.push_back(get("source" + std::to_string(p.types.size())));
    p.types.push_back(p.types[p.sources.back()]);
  }
  if (k.config.count("separated")) {
    p.separated = get("separated");
    p.sources.push_back(p.types.size());
    p.types.push_back(DType::f32);
  }
  for (unsigned i = 0; k.config.count("window" + std::to_string(i)); ++i)
    p.window.push_back(get("window" + std::to_string(i)));
  if (k.config.count("pairs"))
    p.pairs = Plan::Pairs{unsigned(get("pairs")), unsigned(get("pairWindow")), unsigned(get("pairShift"))};
  for (unsigned i = 0; k.config.count("clip" + std::to_string(i)); ++i)
    p.clips.push_back(get("clip" + std::to_string(i)));
  p.outputs = get("outputs");
  p.rank = get("rank");
  p.parallel = get("parallel");
  p.vector = get("vector");
  p.immediates = get("immediates");
  p.transpose = get("transpose");
  p.interleave = get("interleave");
  p.cache = get("cache");
  p.batch = get("batch");
  p.tables = get("tables");
  for (unsigned v = 0; v < p.types.size(); ++v) {
    std::vector<Step> steps;
    for (int64_t digits = get("steps" + std::to_string(v)); digits > 1; digits /= 10)
      steps.insert(steps.begin(), Step(digits % 10));
    p.steps.push_back(std::move(steps));
  }
  for (unsigned i = 0; k.config.count("combine" + std::to_string(i)); ++i)
    p.combines.push_back(Combine(get("combine" + std::to_string(i))));
  auto body = Expr::parse(k.body);
  if (!body)
    return body.takeError();
  p.body = std::move(*body);
  return p;
}

Params::Params(const Plan &plan) {
  unsigned next = count + plan.rank;
  for (unsigned v = 0; v < plan.types.size(); ++v)
    for (unsigned l = 0; l < plan.steps[v].size(); ++l)
      if (plan.steps[v][l] == Step::strided)
        strides[{v, l}] = next++;
  for (const ExprNode &node : plan.body.nodes)
    if (node.op == Op::extent && !extents.count(node.imm))
      extents[node.imm] = next++;
  if (plan.separated >= 0)
    rowLength = next++;
  firstImmediate = next;
  total = next + plan.immediates;
}

std::vector<uint32_t> dependencies(const Expr &body, llvm::function_ref<uint32_t(uint32_t)> load) {
  std::vector<uint32_t> deps;
  for (const ExprNode &node : body.nodes) {
    uint32_t mask = node.op == Op::iter ? 1u << node.imm : node.op == Op::load ? load(node.imm) : 0;
    for (uint32_t arg : node.args)
      mask |= deps[arg];
    deps.push_back(mask);
  }
  return deps;
}

std::optional<int64_t> coefficient(const Expr &body, const std::vector<uint32_t> &deps, uint32_t n, uint32_t dim) {
  const ExprNode &node = body.nodes[n];
  if (!(deps[n] >> dim & 1))
    return 0;
  if (node.op == Op::iter)
    return 1;
  if (node.op != Op::binary || node.type != DType::i64)
    return std::nullopt;
  auto a = coefficient(body, deps, node.args[0], dim), b = coefficient(body, deps, node.args[1], dim);
  if (!a || !b)
    return std::nullopt;
  const ExprNode &x = body.nodes[node.args[0]], &y = body.nodes[node.args[1]];
  switch (BinaryKind(node.imm)) {
  case BinaryKind::add:
    return *a + *b;
  case BinaryKind::sub:
    return *a - *b;
  case BinaryKind::mul:
    if (y.op == Op::constant)
      return *a * int64_t(y.bits);
    if (x.op == Op::constant)
      return *b * int64_t(x.bits);
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

//===-- analysis --------------------------------------------------------------------------------------------------===//

bool isElementary(const ExprNode &node) {
  if (!isFloat(node.type))
    return false;
  if (node.op == Op::binary)
    return BinaryKind(node.imm) == BinaryKind::pow;
  if (node.op != Op::unary)
    return false;
  switch (UnaryKind(node.imm)) {
  case UnaryKind::abs:
  case UnaryKind::neg:
  case UnaryKind::sign:
  case UnaryKind::floor:
  case UnaryKind::ceil:
  case UnaryKind::round_even:
  case UnaryKind::sqrt:
  case UnaryKind::rsqrt:
  case UnaryKind::reciprocal:
    return false;
  default:
    return true;
  }
}

/// Whether computing the node again is dearer than reading it from scratch: something transcendental, or a conversion.
static bool costly(const Expr &body, uint32_t n, std::vector<int> &known) {
  const ExprNode &node = body.nodes[n];
  if (known[n] < 0) {
    bool heavy = node.op == Op::cast || node.op == Op::load_at || isExpensive(node);
    for (uint32_t arg : node.args)
      heavy = heavy || costly(body, arg, known);
    known[n] = heavy;
  }
  return known[n];
}

/// For each node whether it follows from indices, parameters and extents alone.
static std::vector<bool> indexArithmetic(const Expr &body) {
  std::vector<bool> is;
  for (const ExprNode &node : body.nodes)
    is.push_back(node.op != Op::load && node.op != Op::load_at && node.op != Op::acc &&
                 llvm::all_of(node.args, [&](uint32_t arg) { return is[arg]; }));
  return is;
}

Analysis::Analysis(const Plan &plan) {
  const Expr &body = plan.body;
  const size_t count = body.nodes.size();
  deps = dependencies(body, [&](uint32_t operand) {
    uint32_t mask = 0;
    for (unsigned l = 0; l < plan.rank; ++l)
      if (plan.steps[plan.outputs + operand][l] != Step::none)
        mask |= 1u << l;
    return mask;
  });
  unsigned first = 0;
  for (Combine kind : plan.combines) {
    slots.push_back({kind, first, isArg(kind) ? 2u : 1u, 0});
    first += slots.back().width;
  }
  // Phases follow from which reduced values a node sees. Nodes come after their arguments, but acc may come before what
  // it stands for: repeat until nothing moves (at most once a slot).
  phaseOf.assign(count, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t n = 0; n < count; ++n) {
      unsigned phase = 0;
      if (body.nodes[n].op == Op::acc)
        for (const Slot &slot : slots)
          if (body.nodes[n].imm >= slot.first && body.nodes[n].imm < slot.first + slot.width)
            phase = slot.phase + 1;
      for (uint32_t arg : body.nodes[n].args)
        phase = std::max(phase, phaseOf[arg]);
      phaseOf[n] = phase;
    }
    for (Slot &slot : slots)
      for (unsigned part = 0; part < slot.width; ++part)
        if (unsigned phase = phaseOf[body.results[slot.first + part]]; phase > slot.phase && phase < slots.size()) {
          slot.phase = phase;
          moved = true;
        }
  }
  for (const Slot &slot : slots)
    phases = std::max(phases, slot.phase + 1);

  // From the results of each phase down; a costly value that an earlier phase computed is read from scratch, one that
  // follows from the index of one level from that level's tables.
  fromIndices = indexArithmetic(body);
  inRow.assign(count, false);
  std::vector<uint32_t> rowArgs; // what the row is computed from
  if (plan.separated >= 0) {
    std::vector<bool> reads; // follows from a load_at
    for (const ExprNode &node : body.nodes)
      reads.push_back(node.op == Op::load_at || llvm::any_of(node.args, [&](uint32_t arg) { return reads[arg]; }));
    inRow[body.results[plan.outputs]] = true;
    for (uint32_t n = count; n-- > 0;)
      for (uint32_t arg : body.nodes[n].args)
        if (inRow[n]) {
          inRow[arg] = inRow[arg] || reads[arg];
          if (!reads[arg])
            rowArgs.push_back(arg);
        }
  }
  tableOf.assign(count, -1);
  needed.assign(count, 0);
  cachedIn.assign(count, -1);
  cachePlace.assign(count, 0);
  std::vector<int> known(count, -1);
  for (unsigned phase = 0; phase <= phases; ++phase) {
    std::vector<uint32_t> roots;
    for (const Slot &slot : slots)
      if (slot.phase == phase)
        for (unsigned part = 0; part < slot.width; ++part)
          roots.push_back(body.results[slot.first + part]);
    if (phase == phases) {
      roots.insert(roots.end(), body.results.begin() + plan.combined(),
                   body.results.begin() + plan.combined() + plan.outputs);
      roots.insert(roots.end(), rowArgs.begin(), rowArgs.end());
    }
    while (!roots.empty()) {
      uint32_t n = roots.back();
      roots.pop_back();
      if (needed[n] >> phase & 1)
        continue;
      uint32_t before = needed[n];
      needed[n] |= 1u << phase;
      DType type = body.nodes[n].type;
      bool deep = plan.rank && deps[n] >> (plan.rank - 1) & 1 && plan.rank > plan.parallel;
      if (plan.cache && before && deep && (type == DType::f32 || type == DType::f64) && costly(body, n, known)) {
        if (cachedIn[n] < 0) {
          cachedIn[n] = llvm::countr_zero(before);
          cachePlace[n] = cached++;
        }
        continue;
      }
      bool oneLevel = llvm::isPowerOf2_32(deps[n]) && plan.tables & deps[n];
      if (oneLevel && fromIndices[n] && (type == DType::f32 || body.nodes[n].op == Op::clamp_index) &&
          costly(body, n, known)) {
        tableOf[n] = tabled.size();
        tabled.push_back(n);
        continue;
      }
      roots.insert(roots.end(), body.nodes[n].args.begin(), body.nodes[n].args.end());
    }
  }
}

} // namespace mrcc::loops
