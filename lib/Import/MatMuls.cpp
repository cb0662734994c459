// Matrix products.
#include "Activations.h"

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

/// ONNX Runtime's Gemm with an activation.
static void fusedGemm(NodeContext &c) {
  gemm(c);
  if (!c)
    return;
  Activation a = activationOf(c, c.text("activation", ""));
  a.alpha = c.real("activation_alpha", float(a.alpha)), a.beta = c.real("activation_beta", float(a.beta));
  c.result(activate(c, a, c.results.pop_back_val()));
}

/// An operand of FusedMatMul as [batch..., rows, columns]: with transBatch it is [rows, batch..., columns], with trans
/// rows and columns are exchanged besides.
static Value arranged(NodeContext &c, Value v, bool transBatch, bool trans) {
  int64_t rank = c.rank(v);
  if (transBatch && rank > 2) {
    SmallVector<int64_t> perm;
    for (int64_t i = 1; i < rank - 1; ++i)
      perm.push_back(i);
    perm.append({0, rank - 1});
    v = c.transpose(v, perm);
  }
  return trans && rank > 1 ? c.swapLast(v) : v;
}

static void fusedMatMul(NodeContext &c) {
  Value a = arranged(c, c.in(0), c.integer("transBatchA", 0), c.integer("transA", 0));
  Value b = arranged(c, c.in(1), c.integer("transBatchB", 0), c.integer("transB", 0));
  c.result(scaled(c, c.make<MatMulOp>(a, b), c.real("alpha", 1)));
}

void mrcc::addMatMuls(HandlerTable &t) {
  t.add("MatMul", matMul);
  t.add("Gemm", gemm);
  t.add("FusedGemm", fusedGemm, "com.microsoft");
  t.add("FusedMatMul", fusedMatMul, "com.microsoft");
}
