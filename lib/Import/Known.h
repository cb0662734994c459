// Values that can be known while importing although no constant op makes them: small computations on constants and on
// dims of static types. Exporters compute axes, repeats and conditions that way; the attributes of mrc ops need
// numbers.
#pragma once
#include "mrcc/IR/Mrc.h"

namespace mrcc {

/// The value, or nothing if it depends on data or is large.
std::optional<ConstantData> knownValue(mlir::Value value);

/// All elements as integers.
std::optional<llvm::SmallVector<int64_t>> knownIntegers(mlir::Value value);

/// The one element, or the value that all elements have.
std::optional<double> knownScalar(mlir::Value value);

} // namespace mrcc
