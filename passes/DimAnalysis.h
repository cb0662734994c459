// Symbolic dimensions: what is known about a `?` before specialisation. A dimension is a constant times symbols; two
// dimensions of any values are equal at run time if their monomials are equal. Symbols come from the model's named
// dimensions, from opaque values, and from functions of other dimensions (a strided window, a sum), so that two
// branches that do the same arithmetic stay comparable. Reshapes are solved (0, -1 and shape arithmetic). An analysis
// is a snapshot: make a new one after changing the IR.
#pragma once
#include "mrcc/IR/Mrc.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>

namespace mrcc {

/// factor * product of symbols (sorted, repeated where squared). As an element of a shape tensor it may be 0 or -1.
struct Dim {
  int64_t factor = 1;
  llvm::SmallVector<unsigned, 2> symbols;
  bool isConstant() const { return symbols.empty(); }
  bool is(int64_t value) const { return symbols.empty() && factor == value; }
  bool operator==(const Dim &other) const = default;
  Dim operator*(const Dim &other) const;
};

class DimAnalysis {
public:
  Dim dim(mlir::Value value, unsigned index);
  llvm::SmallVector<Dim> dims(mlir::Value value);
  /// The elements of an integer tensor of rank 0 or 1 and static length; nothing for other tensors.
  std::optional<llvm::SmallVector<Dim>> elements(mlir::Value value);
  /// True if the element's value is arbitrary data: it may be 0 or -1, which mean something else in a reshape.
  bool isData(const Dim &dim) const;

private:
  Dim compute(mlir::Value value, unsigned index);
  Dim ofReshape(mlir::Operation *op, unsigned index);
  Dim symbol(const std::string &key, bool data = false);
  Dim opaque(mlir::Value value, unsigned index);
  Dim function(llvm::StringRef name, llvm::ArrayRef<Dim> arguments);
  Dim broadcast(mlir::Value result, unsigned index, mlir::ValueRange operands, unsigned fromEnd);
  std::optional<llvm::SmallVector<Dim>> computeElements(mlir::Value value);

  std::map<std::string, unsigned> symbols;
  std::vector<bool> data; // per symbol
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, Dim> known;
};

/// A cut of a reshape into independent parts: input dims [in.first, in.second) become output dims [out.first,
/// out.second). A part may be empty on one side (a dimension of size 1).
struct ReshapePart {
  std::pair<unsigned, unsigned> in, out;
};
/// The finest cut that the symbols prove; the rest is one part.
llvm::SmallVector<ReshapePart> cutReshape(llvm::ArrayRef<Dim> in, llvm::ArrayRef<Dim> out);

} // namespace mrcc
