// Constant folding of ops one by one in program order, with the rule that keeps the bundle small and the record that
// `dump` shows. Used by fold-constants (before resolutions are bound) and by specialize.
#pragma once
#include "mrcc/Fold/Evaluate.h"
#include "llvm/ADT/DenseMap.h"
#include <map>

namespace mlir::func {
class FuncOp;
}

namespace mrcc {

/// What may be folded, by the bytes of an op's constant operands (a splat counts one element) and of its results:
/// - results that are splats, or of at most `largestSmall` bytes, or not bigger than the operands: yes;
/// - what costs work at run time (matmul, convolution, interpolation, norms, ...): yes, whatever its size;
/// - tables made from little, such as position grids and anchors (operands' sources of at most `largestSmall` bytes, a
///   result of at most `largestTable`): yes, unless the op only repeats or converts elements;
/// - the rest (a broadcast, a big range, a cast to a wider type): no. Ops that repeat stay, but what is computed from
///   their values may still fold;
/// - the cast of integers of at most 8 bits with two dims or more, quantised weights: no, however small they are.
class Folder {
public:
  static constexpr int64_t largestSmall = 4096, largestTable = 1 << 20;

  explicit Folder(llvm::StringRef stage) : stage(stage) {}

  /// Replaces the op's results by constants and erases it. False if it stays. Warns where only the limit on
  /// multiply-adds kept it.
  bool tryFold(mlir::Operation *op);

  /// To be called before anyone else erases an op between calls of tryFold.
  void forget(mlir::Operation *op);

  /// Erases what is dead in the function and appends to the module's `mrc.folded` one dictionary {node, ops,
  /// bytes_before, bytes_after, stage} for each constant that was made here and is still used. Records of an earlier
  /// call whose constant went into another are dropped: they are part of that one's record.
  void finish(mlir::func::FuncOp func);

private:
  struct Origin { // of a folded or virtual value
    int64_t sourceBytes = 0;
    llvm::SmallVector<std::string, 2> ops; // the kinds, in order of their first use
    std::string node;
  };
  struct Virtual { // the value of an op that stays
    std::shared_ptr<Evaluated> value;
    Origin origin;
  };
  Origin originOf(mlir::Operation *op, llvm::ArrayRef<ConstantData> operands);
  const Origin *earlier(mlir::Operation *constant, int64_t bytes);

  std::string stage;
  llvm::DenseMap<mlir::Value, Virtual> virtuals;
  llvm::DenseMap<mlir::Operation *, Origin> made; // constants
  std::optional<std::map<std::pair<std::string, int64_t>, Origin>>
      earlierRecords; // the module's records by node and bytes
};

/// Erases pure ops whose results have no use, and constants.
void eraseDeadOps(mlir::func::FuncOp func);

} // namespace mrcc
