// Matrix products.
#include "Node.h"

using namespace mlir;
using namespace mrcc;

static void matMul(NodeContext &c) { c.result(c.make<MatMulOp>(c.in(0), c.in(1))); }

static Value scaled(NodeContext &c, Value v, double factor) { return factor == 1 ? v : c.mul(v, factor); }

static void gemm(NodeContext &c) {
  Value a = c.in(0), b = c.in(1);
  if (c.rank(a) != 2 || c.rank(b) != 2)
    return c.invalid("its operands have ranks " + Twine(c.rank(a)) + " and " + Twine(c.rank(b)) + ", not 2");
  a = c.integer("transA", 0) ? c.swapLast(a) : a;
  b = c.integer("transB", 0) ? c.swapLast(b) : b;
  Value v = scaled(c, c.make<MatMulOp>(a, b), c.real("alpha", 1));
  float beta = c.real("beta", 1);
  if (c.given(2) && beta != 0)
    v = c.add(v, scaled(c, c.in(2), beta));
  c.result(v);
}

static void fusedMatMul(NodeContext &c) {
  if (c.integer("transBatchA", 0) || c.integer("transBatchB", 0))
    return c.unsupported("transBatchA or transBatchB");
  Value a = c.in(0), b = c.in(1);
  a = c.integer("transA", 0) ? c.swapLast(a) : a;
  b = c.integer("transB", 0) ? c.swapLast(b) : b;
  c.result(scaled(c, c.make<MatMulOp>(a, b), c.real("alpha", 1)));
}

void mrcc::addMatMuls(HandlerTable &t) {
  t.add("MatMul", matMul);
  t.add("Gemm", gemm);
  t.add("FusedMatMul", fusedMatMul, "com.microsoft");
}
