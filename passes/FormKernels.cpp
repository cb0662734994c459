// Turns every op into launches and views, then fuses:
//
//   1. lower      each op by its lowering (lib/Form), element-wise ops to one-node loops
//   2. sink       reshape(x) below element-wise loops of one use, so that what computes x can take them in
//   3. inline     a pointwise loop used by one other loop alone disappears into it, if both have as many points
//   4. epilogue   a pointwise loop whose operand is the only use of a launch that takes fused ops (convolution, matmul,
//                 norm, reduction) becomes that launch's tail; the rest of its operands become extras
//   5. views      copies where a view cannot be: a reshape of memory that is not contiguous to itself, operands of
//                 concat that are not launches of their own, results of the function that are not memory of their own,
//                 packed weights of one repeated value
//
// Steps 2 to 4 are one walk each, repeated until nothing changes: chains shrink by one a round at worst.
#include "Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mrcc/Form/Launch.h"
#include "mrcc/Form/Views.h"
#include <cmath>
#include <numeric>

namespace mrcc {
#define GEN_PASS_DEF_FORMKERNELS
#include "Passes.h.inc"
} // namespace mrcc

using namespace mlir;
using namespace mrcc;

namespace {

/// Families whose body may take in what follows: their last node is computed once for each output element.
bool takesEpilogue(LaunchOp launch) {
  StringRef f = launch.getFamily();
  if (f == "loop")
    return !getConfig(launch, "reduce").empty() && launch->getNumResults() == 1;
  return f == "conv" || f == "depthwise" || f == "conv_transpose" || f == "matmul" || f == "group_norm" ||
         f == "layer_norm";
}

/// A `loop` without reduction and with one result, whatever it loads.
bool isMap(LaunchOp launch) {
  return launch.getFamily() == "loop" && getConfig(launch, "reduce").empty() && launch->getNumResults() == 1;
}

/// Fuses the location of `from` into that of `into`.
void joinLocations(Operation *into, Operation *from) {
  into->setLoc(FusedLoc::get(into->getContext(), {from->getLoc(), into->getLoc()}));
}

/// Operations at one point, elementary functions at the price of their polynomials. A fused body stops growing at
/// `mostWork`: by then memory traffic is no longer what it waits for, and compile time grows with the square of a body.
int64_t workOf(const Expr &body) {
  int64_t work = 0;
  for (const ExprNode &node : body.nodes)
    work += isExpensive(node) ? 16 : 1;
  return work;
}
constexpr int64_t mostWork = 256;

/// A pointwise loop's immediates follow those of the launch that takes it in: shift its param nodes.
void shiftParams(Expr &e, uint32_t by) {
  for (ExprNode &n : e.nodes)
    if (n.op == ExprNode::Op::param)
      n.imm += by;
}

void appendImmediates(LaunchOp into, ArrayRef<int64_t> more) {
  if (more.empty())
    return;
  SmallVector<int64_t> all = getConfig(into, "immediates");
  llvm::append_range(all, more);
  NamedAttrList config(into.getConfig());
  config.set("immediates", Builder(into.getContext()).getDenseI64ArrayAttr(all));
  into.setConfigAttr(config.getDictionary(into.getContext()));
}

/// The operand numbers at which `value` is an operand of `launch`.
SmallVector<unsigned> operandsOf(LaunchOp launch, Value value) {
  SmallVector<unsigned> at;
  for (auto [i, v] : llvm::enumerate(launch.getInputs()))
    if (v == value)
      at.push_back(i);
  return at;
}

/// Replaces `old` by a launch with these operands, body, immediates; same family and config.
LaunchOp rebuild(OpBuilder &b, LaunchOp old, Type result, ValueRange inputs, const Expr &body,
                 ArrayRef<int64_t> immediates) {
  NamedAttrList config(old.getConfig());
  if (!immediates.empty())
    config.set("immediates", b.getDenseI64ArrayAttr(immediates));
  return LaunchOp::create(b, old.getLoc(), TypeRange(result), inputs, old.getFamilyAttr(),
                          config.getDictionary(b.getContext()), b.getStringAttr(body.str()), ArrayAttr());
}

/// Drops operands that the body no longer loads (loop family only) and renumbers the rest.
void dropUnused(LaunchOp launch) {
  Expr body = getBody(launch);
  std::vector<char> used(launch.getInputs().size(), 0);
  auto operandOf = [](const ExprNode &n) -> std::optional<uint32_t> {
    if (n.op == ExprNode::Op::load || n.op == ExprNode::Op::load_at)
      return n.imm;
    if (n.op == ExprNode::Op::extent)
      return n.imm / 16;
    return std::nullopt;
  };
  for (const ExprNode &n : body.nodes)
    if (auto o = operandOf(n))
      used[*o] = 1;
  SmallVector<uint32_t> to(used.size());
  SmallVector<Value> kept;
  for (size_t i = 0; i < used.size(); ++i) {
    to[i] = kept.size();
    if (used[i])
      kept.push_back(launch.getInputs()[i]);
  }
  if (kept.size() == used.size())
    return;
  for (ExprNode &n : body.nodes)
    if (auto o = operandOf(n))
      n.imm = n.op == ExprNode::Op::extent ? to[*o] * 16 + n.imm % 16 : to[*o];
  launch.getInputsMutable().assign(kept);
  setBody(launch, body);
}

/// A pointwise loop that consumes `value` by plain loads at full size: its result has the value's dims, up to leading
/// ones.
bool consumesWhole(LaunchOp consumer, Value value) {
  auto mine = typeOf(consumer.getResult(0)).getShape(), its = typeOf(value).getShape();
  return its.size() <= mine.size() && its == mine.take_back(its.size()) &&
         llvm::all_of(mine.drop_back(its.size()), [](int64_t d) { return d == 1; });
}

struct FormKernels : mrcc::impl::FormKernelsBase<FormKernels> {
  using FormKernelsBase::FormKernelsBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (failed(lower(func)))
      return signalPassFailure();
    dropDead(func);
    for (bool changed = true; changed;) {
      changed = false;
      for (auto step : {&FormKernels::sinkReshapes, &FormKernels::inlineProducers, &FormKernels::fuseEpilogues})
        while ((this->*step)(func))
          changed = true;
      dropDead(func);
    }
    numbersToImmediates(func);
    insertCopies(func);
    dropDead(func);
  }

  LogicalResult lower(func::FuncOp func) {
    SmallVector<Operation *> ops;
    func.walk([&](Operation *op) {
      if (op->getParentOp() == func && !isa<func::ReturnOp, ConstantOp, NoneOp, LaunchOp, ConcatOp>(op) &&
          !isViewOp(op))
        ops.push_back(op);
    });
    bool ok = true;
    for (Operation *op : ops)
      ok &= succeeded(lowerToLaunches(op));
    return success(ok);
  }

  static void dropDead(func::FuncOp func) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.front())))
      if (op.use_empty() && isMemoryEffectFree(&op) && !op.hasTrait<OpTrait::IsTerminator>())
        op.erase();
  }

  /// reshape(x) -> loop: compute the loop on x's dims instead and reshape its result, where every other operand is
  /// repeated or can be reshaped alike. Only for x made by a launch that would take the loop in.
  bool sinkReshapes(func::FuncOp func) {
    bool changed = false;
    for (Operation &op : llvm::make_early_inc_range(func.front())) {
      auto loop = dyn_cast<LaunchOp>(&op);
      if (!loop || !isPointwise(loop))
        continue;
      auto result = typeOf(loop.getResult(0));
      ReshapeOp reshape;
      for (Value v : loop.getInputs())
        if (auto r = v.getDefiningOp<ReshapeOp>(); r && r->hasOneUse() && consumesWhole(loop, v)) {
          auto source = r.getInput().getDefiningOp<LaunchOp>();
          if (source && source->hasOneUse() && (takesEpilogue(source) || isPointwise(source)))
            reshape = r;
        }
      if (!reshape || typeOf(reshape.getOutput()).getShape() != result.getShape())
        continue;
      auto dims = typeOf(reshape.getInput()).getShape();
      SmallVector<std::pair<Value, SmallVector<int64_t>>> others; // operand -> its dims on x's side
      bool fits = true;
      for (Value v : loop.getInputs()) {
        if (v == reshape.getOutput())
          continue;
        auto mapped = mapOperand(typeOf(v).getShape(), result.getShape(), dims);
        // What another launch makes would be reshaped in turn, and would ask for the opposite.
        auto maker = v.getDefiningOp<LaunchOp>();
        bool stays = mapped && (ArrayRef(*mapped) == typeOf(v).getShape() || !maker ||
                                !(takesEpilogue(maker) || isPointwise(maker)));
        fits &= stays;
        if (fits)
          others.emplace_back(v, *mapped);
      }
      if (!fits)
        continue;
      OpBuilder b(loop);
      IRMapping map;
      map.map(reshape.getOutput(), reshape.getInput());
      for (auto &[v, to] : others)
        map.map(v, createReshape(b, loop.getLoc(), v, to));
      auto moved = cast<LaunchOp>(b.clone(*loop, map));
      moved.getResult(0).setType(RankedTensorType::get(dims, result.getElementType()));
      NamedAttrList config(moved.getConfig());
      config.set("extents", b.getDenseI64ArrayAttr(dims));
      moved.setConfigAttr(config.getDictionary(b.getContext()));
      loop.getResult(0).replaceAllUsesWith(createReshape(b, loop.getLoc(), moved.getResult(0), result.getShape()));
      loop.erase();
      reshape.erase();
      changed = true;
    }
    return changed;
  }

  /// Dims under which an operand that broadcasts against `from` broadcasts against `to` (a reshape of `from`) alike.
  static std::optional<SmallVector<int64_t>> mapOperand(ArrayRef<int64_t> operand, ArrayRef<int64_t> from,
                                                        ArrayRef<int64_t> to) {
    int64_t count = 1, whole = 1;
    for (int64_t d : operand)
      count *= d;
    for (int64_t d : from)
      whole *= d;
    if (count == 1)
      return SmallVector<int64_t>(to.size(), 1);
    if (count == whole)
      return SmallVector<int64_t>(to);
    // A vector along the last dim, if that dim stays.
    if (!operand.empty() && operand.back() == count && !to.empty() && from.back() == count && to.back() == count) {
      SmallVector<int64_t> dims(to.size(), 1);
      dims.back() = count;
      return dims;
    }
    return std::nullopt;
  }

  bool inlineProducers(func::FuncOp func) {
    bool changed = false;
    for (Operation &op : llvm::make_early_inc_range(func.front())) {
      auto consumer = dyn_cast<LaunchOp>(&op);
      if (!consumer || consumer.getFamily() != "loop")
        continue;
      for (Value v : SmallVector<Value>(consumer.getInputs())) {
        auto producer = v.getDefiningOp<LaunchOp>();
        // What loads at computed places (resize, pad, gather) goes into plain loops alone: reductions order their own
        // loads.
        bool plain = getConfig(consumer, "reduce").empty();
        if (!producer || !(plain ? isMap(producer) : isPointwise(producer)) || !onlyUser(v, consumer))
          continue;
        if (inlineInto(producer, consumer)) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  static bool onlyUser(Value v, Operation *user) {
    return llvm::all_of(v.getUsers(), [&](Operation *u) { return u == user; });
  }

  bool inlineInto(LaunchOp producer, LaunchOp consumer) {
    Value v = producer.getResult(0);
    Expr body = getBody(consumer);
    auto at = operandsOf(consumer, v);
    if (at.size() != 1)
      return false;
    // Plain loads over the whole domain alone: nothing is computed twice.
    auto extents = getExtents(consumer);
    auto dims = typeOf(v).getShape();
    int64_t lead = int64_t(extents.size()) - int64_t(dims.size());
    if (lead < 0 ||
        !llvm::all_of(
            ArrayRef(extents).take_front(lead), [](int64_t d) { return d == 1; }) ||
        ArrayRef(extents).drop_front(lead) != dims)
      return false;
    for (const ExprNode &n : body.nodes)
      if ((n.op == ExprNode::Op::load_at && n.imm == at[0]) || (n.op == ExprNode::Op::extent && n.imm / 16 == at[0]))
        return false;
    Expr inner = getBody(producer);
    if (workOf(inner) + workOf(body) > mostWork)
      return false;
    for (ExprNode &n : inner.nodes) // the consumer's domain may have leading dims of 1
      if (n.op == ExprNode::Op::iter)
        n.imm += lead;
    shiftParams(inner, getConfig(consumer, "immediates").size());
    SmallVector<Value> inputs(consumer.getInputs());
    SmallVector<uint32_t> operandMap;
    // An operand read at computed places keeps its own dims, so it stays apart from one that is read point by point.
    bool plainLoads = isPointwise(producer) && isPointwise(consumer);
    for (Value o : producer.getInputs()) {
      auto it = plainLoads ? llvm::find(inputs, o) : inputs.end();
      operandMap.push_back(it - inputs.begin());
      if (it == inputs.end())
        inputs.push_back(o);
    }
    // The producer's nodes first, then the consumer's with its load replaced.
    Expr joined;
    uint32_t value = joined.inlineExpr(inner, operandMap)[0];
    SmallVector<uint32_t> same(consumer.getInputs().size());
    std::iota(same.begin(), same.end(), 0);
    joined.results = joined.inlineExpr(body, same, {{at[0], value}});
    appendImmediates(consumer, getConfig(producer, "immediates"));
    consumer.getInputsMutable().assign(inputs);
    setBody(consumer, joined.pruned());
    dropUnused(consumer);
    joinLocations(consumer, producer);
    producer.erase();
    return true;
  }

  bool fuseEpilogues(func::FuncOp func) {
    bool changed = false;
    for (Operation &op : llvm::make_early_inc_range(func.front())) {
      auto tail = dyn_cast<LaunchOp>(&op);
      if (!tail || !isPointwise(tail))
        continue;
      // The latest launch among the candidates: the others then stand before it already.
      LaunchOp anchor;
      for (Value v : tail.getInputs()) {
        auto launch = v.getDefiningOp<LaunchOp>();
        if (launch && takesEpilogue(launch) && onlyUser(v, tail) && consumesWhole(tail, v) &&
            typeOf(v).getRank() == typeOf(tail.getResult(0)).getRank() && (!anchor || anchor->isBeforeInBlock(launch)))
          anchor = launch;
      }
      if (anchor && fuseTail(anchor, tail))
        changed = true;
    }
    return changed;
  }

  bool fuseTail(LaunchOp anchor, LaunchOp tail) {
    Expr body = getBody(anchor), more = getBody(tail);
    if (body.empty()) { // norms start without one
      DType t = toDType(typeOf(anchor.getResult(0)).getElementType());
      body.results = {body.acc(t)};
    }
    if (workOf(body) + workOf(more) > mostWork)
      return false;
    Value v = anchor.getResult(0);
    bool loop = anchor.getFamily() == "loop";
    if (!loop && !isScheduledType(tail.getResult(0)))
      return false; // the scheduled families store floats
    auto at = operandsOf(tail, v);
    shiftParams(more, getConfig(anchor, "immediates").size());
    OpBuilder b(tail);
    SmallVector<Value> inputs(anchor.getInputs());
    SmallVector<uint32_t> operandMap(tail.getInputs().size(), 0);
    // Reduced dims that follow the output's: operands do not vary along them.
    int64_t behind = loop ? int64_t(getExtents(anchor).size()) - typeOf(v).getRank() : 0;
    for (auto [i, o] : llvm::enumerate(tail.getInputs())) {
      if (o == v)
        continue;
      operandMap[i] = inputs.size();
      SmallVector<int64_t> dims(typeOf(o).getShape());
      dims.append(behind, 1);
      inputs.push_back(typeOf(o).getNumElements() == 1 ? o : createReshape(b, tail.getLoc(), o, dims));
    }
    std::map<uint32_t, uint32_t> loadTo;
    size_t last = body.results.size() - 1; // reductions keep what they combine in front
    for (unsigned i : at)
      loadTo[i] = body.results[last];
    body.results[last] = body.inlineExpr(more, operandMap, loadTo)[0];
    SmallVector<int64_t> immediates = getConfig(anchor, "immediates");
    llvm::append_range(immediates, getConfig(tail, "immediates"));
    LaunchOp fused = rebuild(b, anchor, tail.getResult(0).getType(), inputs, body.pruned(), immediates);
    joinLocations(fused, tail);
    tail.getResult(0).replaceAllUsesWith(fused.getResult(0));
    tail.erase();
    anchor.erase();
    return true;
  }

  /// A model's own numbers in bodies become immediates, so that kernels that differ in them alone are one. Small halves
  /// and integers (0, 0.5, 1, 6) stay: they are parts of an op.
  void numbersToImmediates(func::FuncOp func) {
    auto isOwn = [](const ExprNode &n) {
      if (n.op != ExprNode::Op::constant || n.type != DType::f32)
        return false;
      double v = llvm::bit_cast<double>(n.bits);
      return std::isfinite(v) && !(std::abs(v) <= 16 && 2 * v == std::floor(2 * v));
    };
    for (LaunchOp launch : func.getOps<LaunchOp>()) {
      if (!llvm::is_contained({"loop", "conv", "depthwise", "conv_transpose", "matmul"}, launch.getFamily()))
        continue;
      Expr body = getBody(launch);
      SmallVector<int64_t> numbers;
      const size_t first = getConfig(launch, "immediates").size();
      for (ExprNode &n : body.nodes)
        if (isOwn(n)) {
          numbers.push_back(llvm::bit_cast<uint32_t>(float(llvm::bit_cast<double>(n.bits))));
          n = ExprNode{ExprNode::Op::param, DType::f32, uint32_t(first + numbers.size() - 1), 0, {}};
        }
      appendImmediates(launch, numbers);
      if (!numbers.empty())
        setBody(launch, body);
    }
  }

  /// Packed weights are read as vectors: one of a repeated value has no bytes to read, so it is written out first.
  void writeOutSplatWeights(func::FuncOp func) {
    for (Operation &op : llvm::make_early_inc_range(func.front())) {
      auto launch = dyn_cast<LaunchOp>(&op);
      if (!launch || !llvm::is_contained({"conv", "depthwise", "conv_transpose", "matmul"}, launch.getFamily()))
        continue;
      auto data = getConstant(launch->getOperand(1));
      if (!data || !data->isSplat)
        continue;
      OpBuilder b(launch);
      Point p(b, launch.getLoc());
      Value repeated = launch->getOperand(1);
      launch->setOperand(1, p.loop(typeOf(repeated), p.load(repeated)).getResult(0));
    }
  }

  void insertCopies(func::FuncOp func) {
    writeOutSplatWeights(func);
    // Operands of concat that are not a launch's or concat's own memory.
    for (Operation &op : llvm::make_early_inc_range(func.front())) {
      auto concat = dyn_cast<ConcatOp>(&op);
      if (!concat)
        continue;
      OpBuilder b(concat);
      for (OpOperand &operand : concat->getOpOperands()) {
        Operation *def = operand.get().getDefiningOp();
        bool inPlace = def && isa<LaunchOp, ConcatOp>(def) && llvm::count(concat.getInputs(), operand.get()) == 1 &&
                       firstConcat(operand.get()) == concat;
        if (!inPlace)
          operand.set(createCopy(b, concat.getLoc(), operand.get()));
      }
    }
    // Reshapes whose source is not contiguous enough; copies change what follows, so analyse again.
    for (bool changed = true; changed;) {
      changed = false;
      ViewAnalysis views(func);
      for (Operation &op : llvm::make_early_inc_range(func.front()))
        if (isViewOp(&op) && !views.lookup(op.getResult(0)) && views.lookup(op.getOperand(0))) {
          OpBuilder b(&op);
          op.setOperand(0, createCopy(b, op.getLoc(), op.getOperand(0)));
          changed = true;
        }
    }
    // Results: memory of their own, whole and in order, each once.
    auto ret = cast<func::ReturnOp>(func.front().getTerminator());
    ViewAnalysis views(func);
    llvm::DenseSet<Value> taken;
    OpBuilder b(ret);
    for (OpOperand &operand : ret->getOpOperands()) {
      const ValueView *view = views.lookup(operand.get());
      Operation *def = view ? view->root.getDefiningOp() : nullptr;
      bool own = def && isa<LaunchOp, ConcatOp>(def) && view->isContiguous() && view->offset == 0 &&
                 typeOf(view->root).getNumElements() == typeOf(operand.get()).getNumElements() &&
                 taken.insert(view->root).second;
      if (!own)
        operand.set(createCopy(b, def ? def->getLoc() : operand.get().getLoc(), operand.get()));
    }
  }

  /// The first concat in program order that has `v` as operand: the one that it lies in.
  static ConcatOp firstConcat(Value v) {
    ConcatOp first;
    for (Operation *user : v.getUsers())
      if (auto concat = dyn_cast<ConcatOp>(user); concat && (!first || concat->isBeforeInBlock(first)))
        first = concat;
    return first;
  }
};
} // namespace
