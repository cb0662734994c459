// What the matrix-like families (matmul, conv, depthwise) share: element types, the register tile, the epilogue that
// applies a body to accumulators, and parameter lists that bind and emit walk in the same order.
#pragma once
#include "Work.h"
#include "mrcc/Kernels/KernelBuilder.h"

namespace mrcc {

/// The register tile: `rows` x (`vectors` * `lanes`) accumulators.
struct TileShape {
  int64_t rows, vectors, lanes;
  int64_t width() const { return vectors * lanes; }
};

/// The tile for `columns` output columns, by the rules in the implementation.
TileShape chooseTile(const Target &target, DType compute, int64_t columns);

/// Accumulators' type for inputs of this type: f32 for f16 and bf16, i32 for 8 and 16 bits.
DType computeType(DType input);

/// Arithmetic on accumulators.
struct Arithmetic {
  KernelBuilder &kb;
  DType type;
  mlir::Value zero(int64_t lanes);
  mlir::Value widen(mlir::Value x, DType from); // of `from` to `type`
  /// The scalar x of `from` in all lanes, of `type`. Halves are repeated first: one lane is widened no faster than all.
  mlir::Value spread(mlir::Value x, DType from, int64_t lanes);
  mlir::Value multiplyAdd(mlir::Value x, mlir::Value y, mlir::Value z);
  mlir::Value add(mlir::Value x, mlir::Value y);
};

/// k = lo..hi: acc[r * vectors + j] += a(r, k) * b(j, k), where a gives a scalar or all lanes of one, with k split over
/// several sets of accumulators where a tile has too few of them to hide the latency of an FMA. `fetch(k)`, if given,
/// is called for each k before its use.
/// `unroll`: steps of k in the loop's body where there is one set; more than one is only for operands at so simple
/// places that LLVM's scheduler does not gather their loads and spill (measured: matmul lost a third).
KernelBuilder::Values multiplyLoop(Arithmetic &arithmetic, Index lo, Index hi, int64_t rows, int64_t vectors,
                                   mlir::ValueRange acc, llvm::function_ref<mlir::Value(int64_t, Index)> a,
                                   llvm::function_ref<mlir::Value(int64_t, Index)> b,
                                   llvm::function_ref<void(Index)> fetch = nullptr, int64_t unroll = 1);

/// Panel and first lane in it of each of `vectors` vectors from column t * width on, in weights packed in panels of 16
/// columns.
llvm::SmallVector<std::pair<Index, Index>> panelPlaces(KernelBuilder &kb, Index t, int64_t width, int64_t lanes,
                                                       int64_t vectors);

/// How a view's last dimension is walked: 0 a repeated element, 1 contiguous, 2 any stride (in descriptions).
int64_t strideClass(const View &view);
inline Index strideOf(int64_t strideClass, Index runtime) { return strideClass < 2 ? Index(strideClass) : runtime; }

/// Loads and stores a vector along a dimension of the given stride class; `active` lanes are real.
mlir::Value loadLanes(KernelBuilder &kb, Buffer m, llvm::ArrayRef<Index> at, int64_t strideClass, int64_t lanes,
                      int64_t active);
void storeLanes(KernelBuilder &kb, mlir::Value v, Buffer m, llvm::ArrayRef<Index> at, int64_t strideClass,
                int64_t active);

/// rows[i][j] <- rows[j][i], for as many vectors as lanes (a power of two), in registers.
void transposeSquare(KernelBuilder &kb, llvm::SmallVectorImpl<mlir::Value> &rows);

/// The body of a launch on accumulators. Buffers of the output (first) and the extras are set for each block of rows.
class Epilogue {
public:
  /// `immediate` is the place of the first immediate among the params.
  Epilogue(KernelBuilder &kb, const KernelDescription &kernel, const Expr &body, DType compute, unsigned immediate);
  struct Operand {
    Buffer buffer;
    int64_t strideClass;
    mlir::Value value = {}; // of an extra that was loaded before: all lanes, taken in place of a load
  };
  Operand out;
  llvm::SmallVector<Operand> extras; // input operand 2 and up
  /// `operand(i)` makes the output (0) and the extras (1 and up), of `count` in all; viewOf(i) is the launch's view.
  template <class F> void setOperands(size_t count, F operand) {
    out = operand(0);
    extras.clear();
    for (size_t i = 1; i < count; ++i)
      extras.push_back(operand(i));
  }
  static unsigned viewOf(size_t i) { return i == 0 ? 0 : i + 2; }
  /// What extra i holds at `at`.
  mlir::Value load(size_t i, llvm::ArrayRef<Index> at, int64_t lanes, int64_t active);
  /// Output element(s) at `at` (last index: column) from the accumulator.
  void store(mlir::Value acc, llvm::ArrayRef<Index> at, int64_t active);
  /// A body so long that a tile's accumulators go through memory, so that it is emitted once and not for each of them.
  bool heavy(int limit = 4) const;
  /// Goes through `rows` rows in tiles: `product(first, count)` gives the count * vectors accumulators of a tile,
  /// `finish(row, acc, j)` stores vector j of a row. Through `stage` [tile.rows, tile.width()] where the body is heavy;
  /// full tiles do without, unless it is very long.
  void tiles(Index rows, const TileShape &tile, int64_t vectors, Buffer stage,
             llvm::function_ref<KernelBuilder::Values(Index, int64_t)> product,
             llvm::function_ref<void(Index, mlir::Value, int64_t)> finish);

private:
  KernelBuilder &kb;
  const Expr &body;
  DType compute, outType;
  unsigned immediate;
};

/// The value of a body's `param` node.
mlir::Value immediateValue(KernelBuilder &kb, DType type, unsigned param);

/// How far, in elements, a view of [N, H, W, C] goes with each of its dimensions.
template <class T> struct ImageWalk {
  T batch = 0, row = 0, pixel = 0, channel = 0;
  template <class F> void each(F f) {
    for (T *x : {&batch, &row, &pixel, &channel})
      f(*x);
  }
};
ImageWalk<int64_t> walkOf(const View &view);

/// The output and what the body loads beside the accumulators: their types and stride classes x0, x1, ... go into the
/// description, their walks are returned.
std::vector<ImageWalk<int64_t>> bindOperands(KernelDescription &kernel, const View &out, llvm::ArrayRef<View> extras,
                                             int64_t (*classOf)(const View &) = strideClass);

/// Parameter lists: a struct template `P<T>` with `each(f)`; bind makes a P<int64_t>, emit reads a P<Index>.
template <class P> void writeParams(P &p, std::vector<int64_t> &to) {
  p.each([&](int64_t &x) { to.push_back(x); });
}
template <class P> unsigned readParams(P &p, KernelBuilder &kb) {
  unsigned n = 0;
  p.each([&](Index &x) { x = kb.param(n++); });
  return n;
}

/// Ends bind: appends the immediates and notes the number of params.
void finishBind(BoundLaunch &bound, const LaunchSite &site);

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }

} // namespace mrcc
