// Loop and Scan whose number of turns is known: the body is imported once a turn.
#include "Known.h"
#include "Node.h"

using namespace mlir;
using namespace mrcc;

static constexpr int64_t mostTurns = 4096;

static const onnx::Graph *bodyOf(NodeContext &c) {
  const onnx::Attribute *a = c.attribute("body");
  if (!a || !a->g)
    c.invalid("it has no body");
  return a ? a->g.get() : nullptr;
}

static Value joined(NodeContext &c, ArrayRef<Value> parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : c.concat(parts, axis);
}

/// Inputs: most turns, condition, carried values. The body takes turn, condition and carried values; it gives
/// condition, carried values and one part of each scan output.
static void loop(NodeContext &c) {
  const onnx::Graph *body = bodyOf(c);
  if (!body || body->inputs.size() < 2 || c.count() < 2)
    return c.invalid("its body or inputs are missing");
  size_t carried = body->inputs.size() - 2;
  if (c.count() - 2 != carried || body->outputs.size() < carried + 1)
    return c.invalid(Twine(c.count() - 2) + " carried values, its body takes " + Twine(carried) + " and gives " +
                     Twine(body->outputs.size()));
  int64_t turns = INT64_MAX;
  if (c.given(0)) {
    auto known = c.constantIntegers(0, "its number of turns");
    if (!known || known->size() != 1)
      return c.invalid("its number of turns is not one number");
    turns = known->front();
  }
  Type i1 = c.builder.getI1Type();
  Value condition = c.given(1) ? c.in(1) : makeScalar(c.builder, c.loc, i1, 1);
  SmallVector<Value> state;
  for (size_t i = 2; i < c.count(); ++i)
    state.push_back(c.in(i));
  SmallVector<SmallVector<Value>> scans(body->outputs.size() - carried - 1);
  for (int64_t turn = 0; turn < turns && c; ++turn) {
    auto goOn = knownScalar(condition);
    if (!goOn)
      return c.unsupported("its condition depends on data");
    if (*goOn == 0)
      break;
    if (turn == mostTurns)
      return c.unsupported("more than " + Twine(mostTurns) + " turns");
    SmallVector<Value> arguments{makeScalar(c.builder, c.loc, c.builder.getI64Type(), double(turn)), condition};
    arguments.append(state);
    auto values = c.body(*body, arguments);
    if (values.size() != body->outputs.size())
      return;
    condition = values[0];
    state.assign(values.begin() + 1, values.begin() + 1 + long(carried));
    for (size_t i = 0; i < scans.size(); ++i)
      scans[i].push_back(c.unsqueeze(values[1 + carried + i], 0));
  }
  c.results = state;
  for (auto [i, parts] : llvm::enumerate(scans)) {
    if (parts.empty() && c.wants(carried + i))
      return c.unsupported("no turns, so the shape of output " + Twine(carried + i) + " is not known");
    c.result(parts.empty() ? makeScalar(c.builder, c.loc, i1, 0) : joined(c, parts, 0));
  }
}

/// Inputs: states, then sequences that are cut along an axis. The body takes states and parts; it gives both again.
static void scan(NodeContext &c) {
  if (c.opset < 9)
    return c.unsupported("Scan of opset " + Twine(c.opset));
  const onnx::Graph *body = bodyOf(c);
  int64_t sequences = c.integer("num_scan_inputs", 0);
  if (!body || sequences < 1 || sequences > int64_t(c.count()))
    return c.invalid("num_scan_inputs is " + Twine(sequences));
  size_t states = c.count() - size_t(sequences);
  if (body->outputs.size() < states)
    return c.invalid(Twine(states) + " states, its body gives " + Twine(body->outputs.size()) + " values");
  auto list = [&](StringRef name, size_t i) {
    auto values = c.integers(name);
    return values && i < values->size() ? (*values)[i] : int64_t(0);
  };
  SmallVector<Value> state;
  for (size_t i = 0; i < states; ++i)
    state.push_back(c.in(i));
  SmallVector<int64_t> axes;
  int64_t turns = ShapedType::kDynamic;
  for (size_t i = 0; i < size_t(sequences); ++i) {
    Value v = c.in(states + i);
    axes.push_back(c.axis(list("scan_input_axes", i), c.rank(v)));
    int64_t d = c.dim(v, axes[i]);
    turns = ShapedType::isDynamic(turns) ? d : turns;
    if (!ShapedType::isDynamic(d) && d != turns)
      return c.invalid("its sequences have " + Twine(turns) + " and " + Twine(d) + " elements");
  }
  if (ShapedType::isDynamic(turns) || turns < 1 || turns > mostTurns)
    return c.unsupported("the number of turns is not known, 0, or above " + Twine(mostTurns));
  SmallVector<SmallVector<Value>> scans(body->outputs.size() - states);
  for (int64_t turn = 0; turn < turns && c; ++turn) {
    SmallVector<Value> arguments(state);
    for (size_t i = 0; i < size_t(sequences); ++i) {
      int64_t at = list("scan_input_directions", i) ? turns - 1 - turn : turn;
      arguments.push_back(c.squeeze(c.slice(c.in(states + i), axes[i], at, at + 1), axes[i]));
    }
    auto values = c.body(*body, arguments);
    if (values.size() != body->outputs.size())
      return;
    state.assign(values.begin(), values.begin() + long(states));
    for (size_t i = 0; i < scans.size(); ++i)
      scans[i].push_back(values[states + i]);
  }
  c.results = state;
  for (auto [i, parts] : llvm::enumerate(scans)) {
    if (!c)
      return;
    int64_t axis = c.axis(list("scan_output_axes", i), c.rank(parts[0]) + 1);
    SmallVector<Value> wide;
    for (Value v : parts)
      wide.push_back(c.unsqueeze(v, axis));
    if (list("scan_output_directions", i))
      std::reverse(wide.begin(), wide.end());
    c.result(joined(c, wide, axis));
  }
}

void mrcc::addControlFlow(HandlerTable &t) {
  t.add("Loop", loop);
  t.add("Scan", scan);
}
