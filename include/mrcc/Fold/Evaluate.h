// The constant evaluator: runs one op on constant operands with our own baseline code, in a fixed order and without the
// C library's transcendental functions, so that a fold gives the same bytes on every host and what running would give
// to rounding. Linear in bytes; matmul and convolution are capped.
#pragma once
#include "mrcc/IR/Mrc.h"
#include "llvm/Support/Error.h"

namespace mrcc {

/// A result: dense row-major bytes (packed where elements are less than a byte), or one element of a splat. `type` is
/// static.
struct Evaluated {
  mlir::RankedTensorType type;
  std::vector<uint8_t> bytes;
  bool splat = false;
};

/// Most multiply-adds of a matmul or convolution that is folded: some seconds.
inline constexpr int64_t maxFoldedMultiplyAdds = int64_t(1) << 32;

/// Is there an evaluator for ops of this kind? (All but launch, attention, none, constant and ops on
/// packed weights.)
bool canEvaluate(mlir::Operation *op);

/// The op's results. Its result types must be static (reinfer it first); an operand that is none has a null type.
/// Operands need not be what the op has: their bytes are taken from `operands` alone. Fails without a diagnostic,
/// saying why (too many multiply-adds, integer division by zero, an index out of range).
llvm::Expected<std::vector<Evaluated>> evaluate(mlir::Operation *op, llvm::ArrayRef<ConstantData> operands);
/// The same with the op's own operands, which must be constant or none.
llvm::Expected<std::vector<Evaluated>> evaluate(mlir::Operation *op);

/// The operands' constants (null types for none); nothing if one is not constant.
std::optional<llvm::SmallVector<ConstantData>> constantOperands(mlir::Operation *op);

/// The attribute of a result; takes its bytes.
mlir::TypedAttr toAttr(Evaluated &&value);

} // namespace mrcc
