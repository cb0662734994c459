// Expr as text, and back. Floats are printed in the fewest digits that give the same value in their type (f32: as f32);
// what digits cannot hold exactly and readably (NaN, infinities, subnormal numbers, -0) as `#` and the bits of the
// double.
#include "mrcc/IR/Expr.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include <charconv>
#include <cmath>

namespace mrcc {

using Op = ExprNode::Op;

//===-- printing --------------------------------------------------------------------------------------------------===//

static std::string constantText(const ExprNode &node) {
  if (!isFloat(node.type))
    return node.type == DType::u64 ? std::to_string(node.bits) : std::to_string(int64_t(node.bits));
  double v = llvm::bit_cast<double>(node.bits);
  bool plain = std::isfinite(v) && !(v == 0 && std::signbit(v)) &&
               (v == 0 || std::fabs(v) >= (node.type == DType::f32 ? 0x1p-126 : 0x1p-1022));
  if (!plain)
    return "#" + llvm::utohexstr(node.bits, /*LowerCase=*/true);
  char text[64];
  auto end = node.type == DType::f32 ? std::to_chars(text, text + sizeof text, float(v)).ptr
                                     : std::to_chars(text, text + sizeof text, v).ptr;
  return std::string(text, end);
}

static llvm::StringRef opName(const ExprNode &node) {
  switch (node.op) {
  case Op::constant:
    return "const";
  case Op::iter:
    return "iter";
  case Op::load:
    return "load";
  case Op::load_at:
    return "load_at";
  case Op::acc:
    return "acc";
  case Op::extent:
    return "extent";
  case Op::param:
    return "param";
  case Op::unary:
    return stringifyUnaryKind(UnaryKind(node.imm));
  case Op::binary:
    return stringifyBinaryKind(BinaryKind(node.imm));
  case Op::select:
    return "select";
  case Op::cast:
    return node.imm ? "cast_wrapping" : "cast";
  case Op::bitcast:
    return "bitcast";
  case Op::clamp_index:
    return "clamp_index";
  }
  return "";
}

std::string Expr::str() const {
  std::string s;
  for (const ExprNode &node : nodes) {
    s += (s.empty() ? "" : "; ") + toString(node.type).str() + " " + opName(node).str();
    switch (node.op) {
    case Op::constant:
      s += " " + constantText(node);
      break;
    case Op::iter:
    case Op::load:
    case Op::load_at:
    case Op::param:
      s += " " + std::to_string(node.imm);
      break;
    case Op::acc:
      if (node.imm)
        s += " " + std::to_string(node.imm);
      break;
    case Op::extent:
      s += " " + std::to_string(node.imm / 16) + " " + std::to_string(node.imm % 16);
      break;
    default:
      break;
    }
    for (uint32_t arg : node.args)
      s += " %" + std::to_string(arg);
  }
  if (!results.empty())
    s += " ->";
  for (uint32_t r : results)
    s += " %" + std::to_string(r);
  return s;
}

//===-- parsing ---------------------------------------------------------------------------------------------------===//

namespace {
llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// One node or the results: words with a place in the text for messages.
class Parser {
public:
  explicit Parser(Expr &expr) : expr(expr) {}
  llvm::Error node(llvm::StringRef text);
  llvm::Error results(llvm::StringRef text);

private:
  llvm::Error operation(ExprNode &node, llvm::StringRef name);
  llvm::Error constant(ExprNode &node, llvm::StringRef word);
  llvm::Error number(uint32_t &to, llvm::StringRef what, uint32_t limit);
  llvm::Error reference(uint32_t &to, llvm::StringRef word);
  llvm::Error check(const ExprNode &node, llvm::StringRef name);
  llvm::Error expectArgs(const ExprNode &node, llvm::StringRef name, size_t count);
  llvm::Error expectType(uint32_t arg, DType type, llvm::StringRef name);
  std::string where() const { return "node " + std::to_string(expr.nodes.size()) + ": "; }
  llvm::StringRef next() {
    if (words.empty())
      return "";
    llvm::StringRef word = words.front();
    words = words.drop_front();
    return word;
  }
  Expr &expr;
  llvm::SmallVector<llvm::StringRef> all;
  llvm::ArrayRef<llvm::StringRef> words;
};

llvm::Error Parser::node(llvm::StringRef text) {
  all.clear();
  llvm::SplitString(text, all);
  words = all;
  if (words.empty())
    return fail(where() + "expected a type, got nothing");
  llvm::StringRef typeName = next();
  auto type = parseDType(typeName);
  if (!type || *type == DType::none)
    return fail(where() + "unknown type '" + typeName + "'");
  ExprNode node{Op::constant, *type, 0, 0, {}};
  llvm::StringRef name = next();
  if (llvm::Error e = operation(node, name))
    return e;
  for (; !words.empty();) {
    uint32_t arg;
    if (llvm::Error e = reference(arg, next()))
      return e;
    node.args.push_back(arg);
  }
  if (llvm::Error e = check(node, name))
    return e;
  expr.nodes.push_back(std::move(node));
  return llvm::Error::success();
}

// The op and what follows its name, up to the arguments.
llvm::Error Parser::operation(ExprNode &node, llvm::StringRef name) {
  auto as = [&](Op op) { node.op = op; };
  if (name == "const")
    return constant(node, next());
  if (name == "iter" || name == "load" || name == "load_at" || name == "param") {
    as(name == "iter" ? Op::iter : name == "load" ? Op::load : name == "load_at" ? Op::load_at : Op::param);
    return number(node.imm, name, 1 << 20);
  }
  if (name == "acc") {
    as(Op::acc);
    return words.empty() ? llvm::Error::success() : number(node.imm, name, 1 << 20);
  }
  if (name == "extent") {
    as(Op::extent);
    uint32_t operand, dim;
    if (llvm::Error e = number(operand, "operand", 1 << 20))
      return e;
    if (llvm::Error e = number(dim, "dimension", 15))
      return e;
    node.imm = operand * 16 + dim;
    return llvm::Error::success();
  }
  if (name == "select" || name == "cast" || name == "cast_wrapping" || name == "clamp_index") {
    as(name == "select" ? Op::select : name == "clamp_index" ? Op::clamp_index : Op::cast);
    node.imm = name == "cast_wrapping";
    return llvm::Error::success();
  }
  if (name == "bitcast") {
    as(Op::bitcast);
    return llvm::Error::success();
  }
  if (auto kind = symbolizeUnaryKind(name)) {
    as(Op::unary);
    node.imm = uint32_t(*kind);
    return llvm::Error::success();
  }
  if (auto kind = symbolizeBinaryKind(name)) {
    as(Op::binary);
    node.imm = uint32_t(*kind);
    return llvm::Error::success();
  }
  return fail(where() + "unknown operation '" + name + "'");
}

llvm::Error Parser::constant(ExprNode &node, llvm::StringRef word) {
  auto bad = [&] { return fail(where() + "'" + word + "' is no " + toString(node.type) + " constant"); };
  const char *begin = word.begin(), *end = word.end();
  if (word.empty())
    return bad();
  if (!isFloat(node.type)) {
    int64_t v = 0;
    auto [stop, error] =
        node.type == DType::u64 ? std::from_chars(begin, end, node.bits) : std::from_chars(begin, end, v);
    if (node.type != DType::u64)
      node.bits = v;
    if (error != std::errc() || stop != end || node.bits != constantBits(node.type, int64_t(node.bits)))
      return bad();
    return llvm::Error::success();
  }
  if (*begin == '#') {
    auto [stop, error] = std::from_chars(begin + 1, end, node.bits, 16);
    if (error != std::errc() || stop != end)
      return bad();
    return llvm::Error::success();
  }
  double v = 0;
  float single = 0;
  auto [stop, error] = node.type == DType::f32 ? std::from_chars(begin, end, single) : std::from_chars(begin, end, v);
  if (node.type == DType::f32)
    v = single;
  if (error != std::errc() || stop != end || !std::isfinite(v))
    return bad();
  node.bits = constantBits(node.type, v);
  return llvm::Error::success();
}

llvm::Error Parser::number(uint32_t &to, llvm::StringRef what, uint32_t limit) {
  llvm::StringRef word = next();
  if (word.getAsInteger(10, to) || to > limit)
    return fail(where() + "expected a number up to " + llvm::Twine(limit) + " for " + what + ", got '" + word + "'");
  return llvm::Error::success();
}

llvm::Error Parser::reference(uint32_t &to, llvm::StringRef word) {
  llvm::StringRef digits = word;
  if (!digits.consume_front("%") || digits.getAsInteger(10, to))
    return fail(where() + "expected %N, got '" + word + "'");
  if (to >= expr.nodes.size())
    return fail(where() + "%" + llvm::Twine(to) + " is not defined before");
  return llvm::Error::success();
}

llvm::Error Parser::expectArgs(const ExprNode &node, llvm::StringRef name, size_t count) {
  if (node.args.size() == count)
    return llvm::Error::success();
  return fail(where() + name + " takes " + llvm::Twine(count) + " arguments, got " + llvm::Twine(node.args.size()));
}

llvm::Error Parser::expectType(uint32_t arg, DType type, llvm::StringRef name) {
  if (expr.nodes[arg].type == type)
    return llvm::Error::success();
  return fail(where() + name + " wants " + toString(type) + ", got %" + llvm::Twine(arg) + " of type " +
              toString(expr.nodes[arg].type));
}

llvm::Error Parser::check(const ExprNode &node, llvm::StringRef name) {
  auto own = [&](DType type) {
    return node.type == type ? llvm::Error::success()
                             : fail(where() + name + " gives " + toString(type) + ", not " + toString(node.type));
  };
  switch (node.op) {
  case Op::iter:
  case Op::extent:
    if (llvm::Error e = own(DType::i64))
      return e;
    return expectArgs(node, name, 0);
  case Op::constant:
  case Op::load:
  case Op::acc:
  case Op::param:
    return expectArgs(node, name, 0);
  case Op::load_at:
    for (uint32_t arg : node.args)
      if (llvm::Error e = expectType(arg, DType::i64, name))
        return e;
    return llvm::Error::success();
  case Op::unary:
    if (llvm::Error e = expectArgs(node, name, 1))
      return e;
    return own(resultType(UnaryKind(node.imm), expr.nodes[node.args[0]].type));
  case Op::binary:
    if (llvm::Error e = expectArgs(node, name, 2))
      return e;
    if (llvm::Error e = expectType(node.args[1], expr.nodes[node.args[0]].type, name))
      return e;
    return own(resultType(BinaryKind(node.imm), expr.nodes[node.args[0]].type));
  case Op::select:
    if (llvm::Error e = expectArgs(node, name, 3))
      return e;
    if (llvm::Error e = expectType(node.args[0], DType::boolean, name))
      return e;
    if (llvm::Error e = expectType(node.args[2], expr.nodes[node.args[1]].type, name))
      return e;
    return own(expr.nodes[node.args[1]].type);
  case Op::cast:
    return expectArgs(node, name, 1);
  case Op::bitcast: {
    if (llvm::Error e = expectArgs(node, name, 1))
      return e;
    DType from = expr.nodes[node.args[0]].type;
    if (bitWidth(from) != bitWidth(node.type))
      return fail(where() + name + " of " + toString(from) + " to " + toString(node.type) + ", which is not as wide");
    return llvm::Error::success();
  }
  case Op::clamp_index:
    if (llvm::Error e = expectArgs(node, name, 2))
      return e;
    for (uint32_t arg : node.args)
      if (llvm::Error e = expectType(arg, DType::i64, name))
        return e;
    return own(DType::i64);
  }
  return llvm::Error::success();
}

llvm::Error Parser::results(llvm::StringRef text) {
  all.clear();
  llvm::SplitString(text, all);
  if (all.empty())
    return fail("expected results after '->'");
  for (llvm::StringRef word : all) {
    uint32_t r;
    if (llvm::Error e = reference(r, word))
      return e;
    expr.results.push_back(r);
  }
  return llvm::Error::success();
}
} // namespace

llvm::Expected<Expr> Expr::parse(llvm::StringRef text) {
  Expr expr;
  if (text.trim().empty())
    return expr;
  auto [body, results] = text.split("->");
  Parser parser(expr);
  llvm::SmallVector<llvm::StringRef> parts;
  body.split(parts, ';');
  for (llvm::StringRef part : parts)
    if (llvm::Error e = parser.node(part))
      return std::move(e);
  if (text.contains("->"))
    if (llvm::Error e = parser.results(results))
      return std::move(e);
  return expr;
}

} // namespace mrcc
