// What the evaluators share: tensors of bytes, and elements read into and written from three compute types: double for
// floats, int64_t for signed integers and bool, uint64_t for unsigned ones. Sums and products of f32 (and narrower)
// values rounded from double are correctly rounded, so double serves them all.
#pragma once
#include "mrcc/Fold/Evaluate.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/Support/FormatVariadic.h"
#include <bit>

namespace mrcc::fold {

using Dims = llvm::SmallVector<int64_t>;

enum class Compute { floating, natural, integer };
Compute computeOf(DType type);

/// Rounds to a float of at most 16 bits and back. `saturate` concerns the 8-bit ones; that of 4 bits always does.
uint32_t encodeSmall(DType type, double value, bool saturate = true);
double decodeSmall(DType type, uint32_t bits);

/// Reads n elements as C; `C` fits the type's Compute class, or is double for any type.
template <class C> void load(DType type, const uint8_t *from, int64_t n, C *to);
/// Writes n elements by ONNX's conversion rules: floats round to nearest, floats to integers truncate (out of range:
/// the least i32 or i64, as x86 gives), integers keep their low bits, bool is "not zero".
template <class C> void store(DType type, const C *from, int64_t n, uint8_t *to, bool saturate = true);
/// A result that was computed in double as C, by the same rules.
template <class C> C fromDouble(double v);

/// What sums and products of a compute type are made in: those of integers wrap.
template <class C> using Wrapping = std::conditional_t<std::is_same_v<C, double>, double, uint64_t>;

/// An operand, or a result in the making. The packed types take a byte an element here (i4 and i2 extended).
/// f8e8m0 is its bits: only moved and reinterpreted.
struct Tensor {
  DType type = DType::none;
  Dims dims;
  llvm::ArrayRef<uint8_t> bytes; // of one element for a splat
  bool splat = false;
  std::shared_ptr<std::vector<uint8_t>> owned;

  bool present() const { return type != DType::none; }
  size_t width() const { return std::max(1u, bitWidth(type) / 8); }
  int64_t size() const;
  uint8_t *data() { return owned->data(); } // of a made tensor
  const uint8_t *at(int64_t i) const { return bytes.data() + (splat ? 0 : i * width()); }

  /// All elements as C.
  template <class C> std::vector<C> all() const {
    std::vector<C> out(size());
    if (splat && !out.empty()) {
      load(type, bytes.data(), 1, out.data());
      std::fill(out.begin() + 1, out.end(), out[0]);
    } else {
      load(type, bytes.data(), size(), out.data());
    }
    return out;
  }
  std::vector<int64_t> integers() const { // indices, shapes
    if (computeOf(type) == Compute::natural) {
      auto v = all<uint64_t>();
      return {v.begin(), v.end()};
    }
    return all<int64_t>();
  }
  Tensor dense() const; // bytes of every element
};

/// A zero-filled result.
Tensor makeTensor(DType type, llvm::ArrayRef<int64_t> dims);
Tensor makeSplat(DType type, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<uint8_t> element);
template <class C> Tensor fromValues(DType type, llvm::ArrayRef<int64_t> dims, const std::vector<C> &values) {
  Tensor out = makeTensor(type, dims);
  store(type, values.data(), values.size(), out.data());
  return out;
}

/// Row-major strides in elements.
Dims stridesOf(llvm::ArrayRef<int64_t> dims);
int64_t product(llvm::ArrayRef<int64_t> dims);

/// Calls f(indices) for each point of `dims` in row-major order.
template <class F> void forEachPoint(llvm::ArrayRef<int64_t> dims, F f) {
  if (llvm::is_contained(dims, 0))
    return;
  Dims at(dims.size());
  while (true) {
    f(llvm::ArrayRef<int64_t>(at));
    int64_t d = dims.size() - 1;
    for (; d >= 0 && ++at[d] == dims[d]; --d)
      at[d] = 0;
    if (d < 0)
      return;
  }
}

/// Calls f<C>() with the compute type of `type`.
template <class F> auto withCompute(DType type, F f) {
  switch (computeOf(type)) {
  case Compute::floating:
    return f.template operator()<double>();
  case Compute::natural:
    return f.template operator()<uint64_t>();
  case Compute::integer:
    break;
  }
  return f.template operator()<int64_t>();
}

using Results = llvm::Expected<std::vector<Tensor>>;
using Operands = llvm::ArrayRef<Tensor>;
template <class... T> llvm::Error fail(const char *format, T &&...values) {
  return llvm::createStringError(llvm::formatv(format, std::forward<T>(values)...).str());
}
/// An error with std::errc::result_out_of_range where the product of `factors` is above maxFoldedMultiplyAdds: folding
/// the op would take too long.
llvm::Error checkMultiplyAdds(mlir::Operation *op, llvm::ArrayRef<int64_t> factors);

/// DType and dims of a static result.
DType resultType(mlir::Operation *op, unsigned i = 0);
Dims resultDims(mlir::Operation *op, unsigned i = 0);

// One a file; each dispatches on its ops.
Results evaluateElementwise(mlir::Operation *op, Operands operands);
Results evaluateMovement(mlir::Operation *op, Operands operands);
Results evaluateIndexed(mlir::Operation *op, Operands operands);
Results evaluateReduction(mlir::Operation *op, Operands operands);
Results evaluateNorm(mlir::Operation *op, Operands operands);
Results evaluateWindow(mlir::Operation *op, Operands operands);
Results evaluateResize(mlir::Operation *op, Operands operands);
Results evaluateMatMul(mlir::Operation *op, Operands operands);
Results evaluatePack(mlir::Operation *op, Operands operands);

} // namespace mrcc::fold
