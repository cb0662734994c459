// Element-wise ops that map to one or two primitives, comparisons, logic, selection, casts.
#include "Node.h"

using namespace mlir;
using namespace mrcc;

template <UnaryKind kind> static void unary(NodeContext &c) { c.result(c.unary(kind, c.in(0))); }

/// Before opset 7, operands broadcast only if an attribute said so: the second one's dims start at `axis` of the first.
static Value legacyBroadcast(NodeContext &c, Value a, Value b) {
  if (c.opset >= 7 || !c.integer("broadcast", 0))
    return b;
  int64_t rank = c.rank(a), axis = c.integer("axis", rank - c.rank(b));
  SmallVector<int64_t> trailing;
  for (int64_t i = c.axis(axis, rank + 1) + c.rank(b); i < rank; ++i)
    trailing.push_back(c.rank(b) + int64_t(trailing.size()));
  return trailing.empty() ? b : c.unsqueeze(b, trailing);
}

template <BinaryKind kind> static void binary(NodeContext &c) {
  Value a = c.in(0), b = c.in(1);
  c.result(c.binary(kind, a, legacyBroadcast(c, a, b)));
}

/// Sum, Max, Min and Mean take any number of operands.
template <BinaryKind kind> static Value accumulate(NodeContext &c) {
  Value v = c.in(0);
  for (size_t i = 1; i < c.count(); ++i)
    v = c.binary(kind, v, c.in(i));
  return v;
}
template <BinaryKind kind> static void variadic(NodeContext &c) { c.result(accumulate<kind>(c)); }
static void mean(NodeContext &c) { c.result(c.div(accumulate<BinaryKind::add>(c), double(c.count()))); }

/// Base and exponent may have different types; the result has the base's.
static void power(NodeContext &c) {
  Value base = c.in(0), exponent = legacyBroadcast(c, base, c.in(1));
  Type type = c.element(base);
  if (type == c.element(exponent))
    return c.result(c.binary(BinaryKind::pow, base, exponent));
  if (c.isFloat(exponent) && !c.isFloat(base)) {
    Value v = c.binary(BinaryKind::pow, c.cast(base, c.element(exponent)), exponent);
    return c.result(c.cast(v, type));
  }
  c.result(c.binary(BinaryKind::pow, base, c.cast(exponent, type)));
}

static void mod(NodeContext &c) {
  bool fmod = c.integer("fmod", 0);
  c.result(c.binary(fmod ? BinaryKind::fmod : BinaryKind::mod, c.in(0), c.in(1)));
}

static void bitShift(NodeContext &c) {
  std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return c.invalid("direction is '" + direction + "', not LEFT or RIGHT");
  c.result(c.binary(direction == "LEFT" ? BinaryKind::shift_left : BinaryKind::shift_right, c.in(0), c.in(1)));
}

static void isInf(NodeContext &c) {
  bool positive = c.integer("detect_positive", 1), negative = c.integer("detect_negative", 1);
  Value v = c.in(0);
  if (positive && negative)
    return c.result(
        c.binary(BinaryKind::logical_or, c.unary(UnaryKind::is_pos_inf, v), c.unary(UnaryKind::is_neg_inf, v)));
  if (!positive && !negative)
    return c.result(c.fill(c.shapeOf(v), makeScalar(c.builder, c.loc, c.builder.getI1Type(), 0)));
  c.result(c.unary(positive ? UnaryKind::is_pos_inf : UnaryKind::is_neg_inf, v));
}

static void where(NodeContext &c) { c.result(c.select(c.in(0), c.in(1), c.in(2))); }

static void convert(NodeContext &c, Type to) {
  std::string mode = c.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    return c.invalid("round_mode is '" + mode + "', expected up, down or nearest");
  c.result(c.cast(c.in(0), to, c.integer("saturate", 1), mode));
}

static void castTo(NodeContext &c) {
  if (c.opset < 6) // a name then, a number later
    return c.unsupported("Cast of opset " + Twine(c.opset));
  convert(c, c.toElement(c.integer("to", 0)));
}

static void castLike(NodeContext &c) { convert(c, c.element(c.in(1))); }

static void bitCast(NodeContext &c) {
  Value v = c.in(0);
  Type to = c.toElement(c.integer("to", 0));
  if (!c)
    return;
  unsigned have = bitWidth(toDType(c.element(v))), want = bitWidth(toDType(to));
  if (have != want)
    return c.invalid("it reinterprets elements of " + Twine(have) + " bits as " + Twine(want));
  c.result(c.element(v) == to ? v : c.make<BitcastOp>(v, to));
}

static void identity(NodeContext &c) { c.result(c.in(0)); }

/// Inference: the data as they are, and a mask that keeps everything.
static void dropout(NodeContext &c) {
  if (c.opset < 7 && !c.integer("is_test", 0))
    return c.unsupported("is_test is 0, training");
  if (c.given(2)) {
    auto training = c.constantScalar(2, "training_mode");
    if (training && *training != 0)
      return c.unsupported("training_mode is true");
  }
  Value v = c.in(0);
  c.result(v);
  if (c.wants(1)) {
    Type type = c.opset >= 10 ? Type(c.builder.getI1Type()) : c.element(v);
    c.result(c.fill(c.shapeOf(v), makeScalar(c.builder, c.loc, type, 1)));
  }
}

void mrcc::addElementwise(HandlerTable &t) {
  t.add("Abs", unary<UnaryKind::abs>);
  t.add("Acos", unary<UnaryKind::acos>);
  t.add("Acosh", unary<UnaryKind::acosh>);
  t.add("Asin", unary<UnaryKind::asin>);
  t.add("Asinh", unary<UnaryKind::asinh>);
  t.add("Atan", unary<UnaryKind::atan>);
  t.add("Atanh", unary<UnaryKind::atanh>);
  t.add("BitwiseNot", unary<UnaryKind::bitwise_not>);
  t.add("Ceil", unary<UnaryKind::ceil>);
  t.add("Cos", unary<UnaryKind::cos>);
  t.add("Cosh", unary<UnaryKind::cosh>);
  t.add("Erf", unary<UnaryKind::erf>);
  t.add("Exp", unary<UnaryKind::exp>);
  t.add("Floor", unary<UnaryKind::floor>);
  t.add("IsNaN", unary<UnaryKind::is_nan>);
  t.add("Log", unary<UnaryKind::log>);
  t.add("Neg", unary<UnaryKind::neg>);
  t.add("Not", unary<UnaryKind::logical_not>);
  t.add("Reciprocal", unary<UnaryKind::reciprocal>);
  t.add("Round", unary<UnaryKind::round_even>);
  t.add("Sigmoid", unary<UnaryKind::sigmoid>);
  t.add("Sign", unary<UnaryKind::sign>);
  t.add("Sin", unary<UnaryKind::sin>);
  t.add("Sinh", unary<UnaryKind::sinh>);
  t.add("Softplus", unary<UnaryKind::softplus>);
  t.add("Sqrt", unary<UnaryKind::sqrt>);
  t.add("Tan", unary<UnaryKind::tan>);
  t.add("Tanh", unary<UnaryKind::tanh>);

  t.add("Add", binary<BinaryKind::add>);
  t.add("Sub", binary<BinaryKind::sub>);
  t.add("Mul", binary<BinaryKind::mul>);
  t.add("Div", binary<BinaryKind::div>);
  t.add("And", binary<BinaryKind::logical_and>);
  t.add("Or", binary<BinaryKind::logical_or>);
  t.add("Xor", binary<BinaryKind::logical_xor>);
  t.add("BitwiseAnd", binary<BinaryKind::bitwise_and>);
  t.add("BitwiseOr", binary<BinaryKind::bitwise_or>);
  t.add("BitwiseXor", binary<BinaryKind::bitwise_xor>);
  t.add("Equal", binary<BinaryKind::eq>);
  t.add("Less", binary<BinaryKind::lt>);
  t.add("LessOrEqual", binary<BinaryKind::le>);
  t.add("Greater", binary<BinaryKind::gt>);
  t.add("GreaterOrEqual", binary<BinaryKind::ge>);
  t.add("Pow", power);
  t.add("Mod", mod);
  t.add("BitShift", bitShift);
  t.add("Sum", variadic<BinaryKind::add>);
  t.add("Max", variadic<BinaryKind::max>);
  t.add("Min", variadic<BinaryKind::min>);
  t.add("Mean", mean);
  t.add("IsInf", isInf);
  t.add("Where", where);
  t.add("Cast", castTo);
  t.add("CastLike", castLike);
  t.add("BitCast", bitCast);
  t.add("Identity", identity);
  t.add("Dropout", dropout);
}
