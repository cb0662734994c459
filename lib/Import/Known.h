// Values that can be known while importing although no constant op makes them: small computations on constants and on
// dims of static types. Exporters compute axes, repeats and conditions that way; the attributes of mrc ops need
// numbers.
#pragma once
#include "mrcc/IR/Mrc.h"

namespace mrcc {

/// The value, or nothing if it depends on data, or if it or what it is computed from has more elements than `most`.
std::optional<ConstantData> knownValue(mlir::Value value, int64_t most = 4096);

/// All elements as integers.
std::optional<llvm::SmallVector<int64_t>> knownIntegers(mlir::Value value);

/// The one element, or the value that all elements have.
std::optional<double> knownScalar(mlir::Value value);

/// Which small inputs decide a value that is not known, as the end of a message: often one that users set once, such as
/// a sample rate. "" where larger ones take part.
std::string bindHint(mlir::Value value);

} // namespace mrcc
