// RNN, GRU and LSTM, unrolled: the inputs' products are one matmul over all steps, each step adds the state's product
// and applies the gates. The number of steps must be known.
#include "Activations.h"

using namespace mlir;
using namespace mrcc;

namespace {

class Recurrent {
public:
  Recurrent(NodeContext &c, int64_t gates, std::vector<std::string> activations)
      : c(c), gates(gates), defaults(std::move(activations)), inputWeights(c.swapLast(c.in(1))),
        stateWeights(c.swapLast(c.in(2))) {}
  /// Weights that are there as products want them.
  Recurrent(NodeContext &c, Value inputWeights, Value stateWeights)
      : c(c), gates(4), defaults{"Sigmoid", "Tanh", "Tanh"}, inputWeights(inputWeights), stateWeights(stateWeights) {}
  void run();

private:
  struct State {
    Value h, cell; // [B, H]
  };
  bool readActivations(int64_t directions);
  Value clipped(Value v);
  void direction(int64_t d, bool backward, Value x);
  State lstm(Value in, State s, Value r, int64_t d);
  State gru(Value in, State s, Value r, Value recurrentBias, int64_t d);
  SmallVector<Value> split(Value v, int64_t parts); // along the last dimension, of `hidden` each
  Value ofDirection(Value v, int64_t d) { return c.squeeze(c.slice(v, 0, d, d + 1), 0); }

  NodeContext &c;
  const int64_t gates;
  const std::vector<std::string> defaults;
  std::vector<Activation> activations;
  int64_t steps = 0, hidden = 0, perDirection = 0;
  Value lengths, initialH, initialC, peepholes;
  Value inputWeights, stateWeights; // [directions, I or H, gates H]
  Type type;
  SmallVector<Value> outputs, lastH, lastC; // one per direction
};

/// The lists of alpha and beta hold a value for each activation that takes one, in their order.
bool Recurrent::readActivations(int64_t directions) {
  perDirection = int64_t(defaults.size());
  auto *names = c.attribute("activations"), *alphas = c.attribute("activation_alpha"),
       *betas = c.attribute("activation_beta");
  auto take = [](const onnx::Attribute *list, size_t &next, double &value) {
    if (list && next < list->floats.size())
      value = list->floats[next++];
  };
  size_t nextAlpha = 0, nextBeta = 0;
  for (size_t at = 0; at < size_t(directions) * defaults.size(); ++at) {
    Activation a =
        activationOf(c, names && at < names->strings.size() ? names->strings[at] : defaults[at % defaults.size()]);
    if (a.takesAlpha())
      take(alphas, nextAlpha, a.alpha);
    if (a.takesBeta())
      take(betas, nextBeta, a.beta);
    activations.push_back(a);
  }
  return bool(c);
}

Value Recurrent::clipped(Value v) {
  if (!c.has("clip"))
    return v;
  double limit = c.real("clip", 0);
  return c.binary(BinaryKind::min, c.binary(BinaryKind::max, v, -limit), limit);
}

SmallVector<Value> Recurrent::split(Value v, int64_t parts) {
  SmallVector<Value> out;
  int64_t last = c.rank(v) - 1;
  for (int64_t i = 0; i < parts; ++i)
    out.push_back(parts == 1 ? v : c.slice(v, last, i * hidden, (i + 1) * hidden));
  return out;
}

/// Gates in the order input, output, forget, cell.
Recurrent::State Recurrent::lstm(Value in, State s, Value r, int64_t d) {
  auto g = split(c.add(in, c.make<MatMulOp>(s.h, r)), 4);
  const Activation *act = &activations[size_t(d * perDirection)];
  SmallVector<Value> p;
  if (peepholes)
    p = split(ofDirection(peepholes, d), 3); // input, output, forget
  auto peep = [&](Value gate, size_t i, Value cell) { return p.empty() ? gate : c.add(gate, c.mul(p[i], cell)); };
  Value i = activate(c, act[0], clipped(peep(g[0], 0, s.cell)));
  Value f = c.integer("input_forget", 0) ? c.sub(1.0, i) : activate(c, act[0], clipped(peep(g[2], 2, s.cell)));
  Value cell = c.add(c.mul(f, s.cell), c.mul(i, activate(c, act[1], clipped(g[3]))));
  Value o = activate(c, act[0], clipped(peep(g[1], 1, cell)));
  return {c.mul(o, activate(c, act[2], cell)), cell};
}

/// Gates in the order update, reset, hidden. `in` holds both biases of update and reset, of hidden the input's alone.
Recurrent::State Recurrent::gru(Value in, State s, Value r, Value recurrentBias, int64_t d) {
  const Activation *act = &activations[size_t(d * perDirection)];
  auto x = split(in, 3), weights = split(r, 3); // weights [H, H]
  Value z = activate(c, act[0], clipped(c.add(x[0], c.make<MatMulOp>(s.h, weights[0]))));
  Value reset = activate(c, act[0], clipped(c.add(x[1], c.make<MatMulOp>(s.h, weights[1]))));
  auto biased = [&](Value v) { return recurrentBias ? c.add(v, recurrentBias) : v; };
  Value carried = c.integer("linear_before_reset", 0) ? c.mul(reset, biased(c.make<MatMulOp>(s.h, weights[2])))
                                                      : biased(c.make<MatMulOp>(c.mul(reset, s.h), weights[2]));
  Value next = activate(c, act[1], clipped(c.add(x[2], carried)));
  return {c.add(c.mul(c.sub(1.0, z), next), c.mul(z, s.h)), nullptr};
}

void Recurrent::direction(int64_t d, bool backward, Value x) {
  Value in = c.make<MatMulOp>(x, ofDirection(inputWeights, d)), recurrentBias; // [T, B, gates H]
  Value r = ofDirection(stateWeights, d);
  if (c.given(3)) {
    Value bias = ofDirection(c.in(3), d);
    Value own = c.slice(bias, 0, 0, gates * hidden), state = c.slice(bias, 0, gates * hidden, 2 * gates * hidden);
    if (gates == 3) { // the hidden gate's recurrent bias comes before or after the reset
      recurrentBias = c.slice(state, 0, 2 * hidden, 3 * hidden);
      Value zeros = c.fill(c.constant(hidden), c.scalar(0, state));
      state = c.concat({c.slice(state, 0, 0, 2 * hidden), zeros}, 0);
    }
    in = c.add(in, c.add(own, state));
  }
  auto initial = [&](Value given) {
    return given ? ofDirection(given, d)
                 : c.fill(c.shape({c.dimOf(x, 1), hidden}), makeScalar(c.builder, c.loc, type, 0));
  };
  State s{initial(initialH), gates == 4 ? initial(initialC) : nullptr};
  SmallVector<Value> ys(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps && c; ++i) {
    int64_t t = backward ? steps - 1 - i : i;
    Value at = c.squeeze(c.slice(in, 0, t, t + 1), 0);
    State next = gates == 4   ? lstm(at, s, r, d)
                 : gates == 3 ? gru(at, s, r, recurrentBias, d)
                              : State{activate(c, activations[size_t(d)], clipped(c.add(at, c.make<MatMulOp>(s.h, r)))),
                                      nullptr};
    Value y = next.h;
    if (lengths) { // past the end of a sequence the state stays and the output is 0
      Value valid = c.unsqueeze(c.binary(BinaryKind::gt, lengths, double(t)), 1);
      y = c.select(valid, next.h, c.scalar(0, next.h));
      next.h = c.select(valid, next.h, s.h);
      if (next.cell)
        next.cell = c.select(valid, next.cell, s.cell);
    }
    s = next;
    ys[size_t(t)] = c.unsqueeze(y, {0, 1}); // [1, 1, B, H]
  }
  if (!c)
    return;
  outputs.push_back(ys.size() == 1 ? ys[0] : c.concat(ys, 0));
  lastH.push_back(c.unsqueeze(s.h, 0));
  if (s.cell)
    lastC.push_back(c.unsqueeze(s.cell, 0));
}

void Recurrent::run() {
  Value x = c.in(0);
  bool batchFirst = c.integer("layout", 0);
  std::string way = c.text("direction", "forward");
  int64_t directions = way == "bidirectional" ? 2 : 1;
  if (c.rank(x) != 3 || c.rank(inputWeights) != 3 || c.rank(stateWeights) != 3 ||
      (way != "forward" && way != "reverse" && directions == 1))
    return c.invalid("data of rank " + Twine(c.rank(x)) + ", direction '" + way + "'");
  hidden = c.integer("hidden_size", c.dim(stateWeights, 1));
  if (ShapedType::isDynamic(hidden) || hidden < 1 || hidden > 1 << 20 || c.dim(inputWeights, 0) != directions)
    return c.invalid("hidden_size " + Twine(hidden) + ", weights of " + Twine(c.dim(inputWeights, 0)) + " directions");
  if (batchFirst)
    x = c.transpose(x, {1, 0, 2});
  steps = c.dim(x, 0);
  if (ShapedType::isDynamic(steps) || steps < 1 || steps > 4096)
    return c.unsupported("the number of steps is not known or above 4096");
  if (!readActivations(directions))
    return;
  type = c.element(x);
  auto state = [&](size_t i) {
    Value v = c.given(i) ? c.in(i) : nullptr;
    return v && batchFirst ? c.transpose(v, {1, 0, 2}) : v;
  };
  lengths = c.given(4) ? c.in(4) : nullptr;
  initialH = state(5), initialC = gates == 4 ? state(6) : nullptr;
  peepholes = gates == 4 && c.given(7) ? c.in(7) : nullptr;
  for (int64_t d = 0; d < directions && c; ++d)
    direction(d, way == "reverse" || d == 1, x);
  if (!c)
    return;
  auto joined = [&](ArrayRef<Value> v, int64_t axis) { return v.size() == 1 ? v[0] : c.concat(v, axis); };
  Value y = joined(outputs, 1), h = joined(lastH, 0); // [T, directions, B, H], [directions, B, H]
  auto lead = [&](Value v) { return batchFirst ? c.transpose(v, {1, 0, 2}) : v; };
  c.results = {batchFirst ? c.transpose(y, {2, 0, 1, 3}) : y, lead(h)};
  if (!lastC.empty())
    c.result(lead(joined(lastC, 0)));
}

} // namespace

static void rnn(NodeContext &c) { Recurrent(c, 1, {"Tanh"}).run(); }
static void gru(NodeContext &c) { Recurrent(c, 3, {"Sigmoid", "Tanh"}).run(); }
/// com.microsoft: int8 weights [directions, I, 4 H] and their scales; the products are done on real numbers.
static void dynamicQuantizeLstm(NodeContext &c) {
  auto weights = [&](size_t i, size_t scale, size_t zero) {
    auto wide = [&](Value v) { // one a direction, or one a column
      return c.rank(v) == 1 ? c.unsqueeze(v, {1, 2}) : c.unsqueeze(v, 1);
    };
    Type type = c.element(c.in(scale));
    Value v = c.cast(c.in(i), type);
    if (c.given(zero))
      v = c.sub(v, c.cast(wide(c.in(zero)), type));
    return c.mul(v, wide(c.in(scale)));
  };
  Recurrent(c, weights(1, 8, 9), weights(2, 10, 11)).run();
}

static void lstm(NodeContext &c) { Recurrent(c, 4, {"Sigmoid", "Tanh", "Tanh"}).run(); }

void mrcc::addRecurrent(HandlerTable &t) {
  t.add("RNN", rnn);
  t.add("GRU", gru);
  t.add("LSTM", lstm);
  t.add("DynamicQuantizeLSTM", dynamicQuantizeLstm, "com.microsoft");
}
