// Expressions: text and back, builders that find and fold, inlining, pruning, and what parse refuses.
#include "mrcc/IR/Expr.h"
#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace mrcc;

static Expr parse(const std::string &text) {
  auto e = Expr::parse(text);
  if (e)
    return *e;
  FAIL(llvm::toString(e.takeError()));
  return {};
}

static std::string refusal(const std::string &text) {
  auto e = Expr::parse(text);
  return e ? "" : llvm::toString(e.takeError());
}

TEST_CASE("text of an expression") {
  for (std::string text :
       {"f32 acc; f32 load 2; f32 add %0 %1; f32 const 0; f32 max %2 %3 -> %4",
        "f16 load 0; f32 cast %0; f32 sigmoid %1; f16 cast %2 -> %3",
        "i64 iter 0; i64 const 2; i64 mul %0 %1; i64 extent 1 2; i64 clamp_index %2 %3; u8 load_at 1 %4 %0 -> %5",
        "f32 acc; f32 acc 1; f32 div %0 %1 -> %0 %2",
        "f32 load 0; f32 load 1; bool lt %0 %1; f32 select %2 %0 %1; i64 param 3; f32 param 4 -> %3",
        "f32 const 0.1; f32 const 1e-07; f64 const 0.1; f16 const 0.0999755859375; bool const 1; u64 const "
        "18446744073709551615; i8 const -128 -> %0",
        "f32 load 0; f8e4m3fn cast_wrapping %0 -> %1", "f32 load 0; i32 bitcast %0; f4e2m1 cast %0 -> %1 %2", ""})
    CHECK(parse(text).str() == text);
}

TEST_CASE("every double survives printing in its type") {
  auto roundTrip = [](DType type, double v) {
    Expr e;
    e.results = {e.constant(type, v)};
    CHECK_MESSAGE(parse(e.str()) == e, e.str());
  };
  for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (double v : {0.0, -0.0, 1.0, -1.5, 0.1, 1e-3, 6.02e23, 1e-40, 4.9e-324, 3.4028234663852886e38, 1e300, HUGE_VAL,
                     -HUGE_VAL, double(NAN)})
      roundTrip(type, v);
    for (int i = 0; i < 2000; ++i)
      roundTrip(type, std::ldexp(std::sin(i * 1.7), i % 60 - 30));
  }
  Expr e;
  e.constant(DType::f32, HUGE_VAL);
  e.constant(DType::f32, -0.0);
  CHECK(e.str() == "f32 const #7ff0000000000000; f32 const #8000000000000000");
}

TEST_CASE("builders find equal nodes and fold what keeps values") {
  Expr e;
  uint32_t x = e.load(DType::f32, 0), one = e.constant(DType::f32, 1), i = e.iter(0);
  CHECK(e.load(DType::f32, 0) == x);
  CHECK(e.binary(BinaryKind::mul, x, one) == x);
  CHECK(e.binary(BinaryKind::sub, x, e.constant(DType::f32, 0)) == x);
  CHECK(e.binary(BinaryKind::add, x, e.constant(DType::f32, 0)) != x); // -0 + 0 is +0
  CHECK(e.binary(BinaryKind::add, i, e.integer(DType::i64, 0)) == i);
  CHECK(e.binary(BinaryKind::mul, e.integer(DType::i64, 6), e.integer(DType::i64, 7)) == e.integer(DType::i64, 42));
  CHECK(e.binary(BinaryKind::add, e.integer(DType::i8, 100), e.integer(DType::i8, 100)) == e.integer(DType::i8, -56));
  CHECK(e.binary(BinaryKind::lt, e.integer(DType::u8, 1), e.integer(DType::u8, 255)) == e.integer(DType::boolean, 1));
  CHECK(e.binary(BinaryKind::div, e.integer(DType::i64, 1), e.integer(DType::i64, 0)) != e.integer(DType::i64, 0));
  CHECK(e.select(e.integer(DType::boolean, 1), x, one) == x);
  CHECK(e.cast(DType::f32, x) == x);
  CHECK(e.clampIndex(e.integer(DType::i64, -3), e.integer(DType::i64, 5)) == e.integer(DType::i64, 0));
  CHECK(e.clampIndex(e.integer(DType::i64, 9), e.integer(DType::i64, 5)) == e.integer(DType::i64, 4));
  CHECK((e.nodes[e.binary(BinaryKind::ge, x, one)].type == DType::boolean));
  CHECK(e.constant(DType::f32, 0.1) == e.constant(DType::f32, double(0.1f)));
}

TEST_CASE("inlining maps operands, loads and results") {
  Expr inner = parse("f32 load 0; f32 load 1; f32 add %0 %1; f32 acc; f32 mul %2 %3; f32 param 1; f32 add %4 %5 -> %6");
  Expr outer;
  uint32_t acc = outer.acc(DType::f32), relu = outer.binary(BinaryKind::max, acc, outer.constant(DType::f32, 0));
  auto results = outer.inlineExpr(inner, {7, 8}, {{1, relu}}, relu);
  outer.results = {results[0]};
  CHECK(outer.str() == "f32 acc; f32 const 0; f32 max %0 %1; f32 load 7; f32 add %3 %2; f32 mul %4 %2; f32 param 1; "
                       "f32 add %5 %6 -> %7");
}

TEST_CASE("pruning keeps what results need") {
  Expr e = parse("f32 load 0; f32 load 1; f32 exp %1; f32 neg %0 -> %3 %3");
  CHECK(e.pruned().str() == "f32 load 0; f32 neg %0 -> %1 %1");
}

TEST_CASE("refused texts") {
  CHECK(refusal("f33 load 0") == "node 0: unknown type 'f33'");
  CHECK(refusal("none load 0") == "node 0: unknown type 'none'");
  CHECK(refusal("f32 lode 0") == "node 0: unknown operation 'lode'");
  CHECK(refusal("f32 load") == "node 0: expected a number up to 1048576 for load, got ''");
  CHECK(refusal("f32 load -1") == "node 0: expected a number up to 1048576 for load, got '-1'");
  CHECK(refusal("f32 const abc") == "node 0: 'abc' is no f32 constant");
  CHECK(refusal("f32 const inf") == "node 0: 'inf' is no f32 constant");
  CHECK(refusal("f32 const") == "node 0: '' is no f32 constant");
  CHECK(refusal("i8 const 128") == "node 0: '128' is no i8 constant");
  CHECK(refusal("bool const 2") == "node 0: '2' is no bool constant");
  CHECK(refusal("f32 load 0; f32 add %0 %1") == "node 1: %1 is not defined before");
  CHECK(refusal("f32 load 0; f32 add %0") == "node 1: add takes 2 arguments, got 1");
  CHECK(refusal("f32 load 0; f32 add %0 0") == "node 1: expected %N, got '0'");
  CHECK(refusal("f32 load 0; i64 load 1; f32 add %0 %1") == "node 2: add wants f32, got %1 of type i64");
  CHECK(refusal("f32 load 0; f32 lt %0 %0") == "node 1: lt gives bool, not f32");
  CHECK(refusal("f32 load 0; f32 select %0 %0 %0") == "node 1: select wants bool, got %0 of type f32");
  CHECK(refusal("f32 load 0; f32 load_at 1 %0") == "node 1: load_at wants i64, got %0 of type f32");
  CHECK(refusal("f32 load 0; i64 bitcast %0") == "node 1: bitcast of f32 to i64, which is not as wide");
  CHECK(refusal("i64 extent 0 16") == "node 0: expected a number up to 15 for dimension, got '16'");
  CHECK(refusal("f32 iter 0") == "node 0: iter gives i64, not f32");
  CHECK(refusal("f32 load 0;; f32 exp %0") == "node 1: expected a type, got nothing");
  CHECK(refusal("f32 load 0 ->") == "expected results after '->'");
  CHECK(refusal("f32 load 0 -> %1") == "node 1: %1 is not defined before");
}

TEST_CASE("expensive nodes are functions of one float that take more than an instruction") {
  auto last = [](const std::string &text) { return parse(text).nodes.back(); };
  for (const char *text :
       {"f32 load 0; f32 exp %0 -> %1", "f64 load 0; f64 sqrt %0 -> %1", "f16 acc; f16 tanh %0 -> %1"})
    CHECK_MESSAGE(isExpensive(last(text)), text);
  for (const char *text :
       {"f32 load 0; f32 neg %0 -> %1", "f32 load 0; f32 abs %0 -> %1", "i32 load 0; i32 abs %0 -> %1",
        "i32 load 0; i32 bitwise_not %0 -> %1", "f32 load 0; f32 add %0 %0 -> %1", "f32 load 0 -> %0"})
    CHECK_MESSAGE(!isExpensive(last(text)), text);
}
