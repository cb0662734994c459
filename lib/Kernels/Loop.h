// The loop family's plan: a domain of nested levels over which a body runs. A launch becomes a plan and run-time
// parameters (LoopBind.cpp); the plan is the kernel's description (LoopPlan.cpp) and becomes code (LoopEmit.cpp).
//
// A reduction may have phases: what is combined may depend on values that an earlier phase reduced (softmax: the
// maximum, then the sum of exponentials), and outputs that vary over reduced dims are computed in a last pass over the
// domain. Costly values that two phases need are kept in scratch.
//
// Levels: the parallel dims, outer to inner, then the reduced ones. One of them is the vector level: the last parallel
// level (then reductions run inside it, one accumulator a lane) or the last reduced level (then lanes are combined at
// the end, in a fixed order).
#pragma once
#include "mrcc/Kernels/Kernel.h"

namespace mrcc {
class KernelBuilder;
}

namespace mrcc::loops {

/// max and min let NaN through, max_number and min_number skip it (one instruction instead of three). Of equal values
/// the first or last index stays.
enum class Combine : uint8_t { sum, prod, max, min, argmax, argmin, argmax_last, argmin_last, max_number, min_number };
inline bool isArg(Combine c) { return c >= Combine::argmax && c <= Combine::argmin_last; }

/// How a view's address moves along a level (or, for a view read by load_at, along a dimension of its own).
enum class Step : uint8_t { none = 0, unit = 1, strided = 2 };

struct Plan {
  std::vector<DType> types; // of views, outputs first
  unsigned outputs = 1, rank = 0, parallel = 0, vector = 0, immediates = 0;
  bool transpose = false;               // the two innermost parallel levels are walked in square tiles
  unsigned interleave = 0;              // channels of the last level but one, if some views have them alternate
  int separated = -1;                   // a level whose row is interpolated in two steps, see LoopSeparate.cpp
  bool cache = false;                   // values are kept in scratch between phases
  bool batch = false;                   // each phase runs over some rows, so that rows hide each other's latency
  uint32_t tables = 0;                  // levels, as bits, whose index arithmetic is done once, before the loops
  std::vector<std::vector<Step>> steps; // for each view, by level; own dims where `indexed`
  std::vector<Combine> combines;        // argmax and argmin take two results: value and index
  Expr body;                            // iter: levels. Results: combined, stored, what a separated row holds,
                                        // one for each clip
  std::vector<unsigned> window; // extents of the reduced levels if they are few: code for whole windows is unrolled
  // A parallel level, two of whose points share rows of their windows and are computed side by side; a reduced level, of
  // whose points the second window lacks the first `shift` of the first; see LoopPairs.cpp.
  struct Pairs {
    unsigned level, window, shift;
  };
  std::optional<Pairs> pairs;
  std::vector<unsigned> clips;   // a reduced level that runs only where the result is not negative
  std::vector<unsigned> sources; // the kernel's view that each view reads: the last ones may repeat others; a separated
                                 // row is the last view of all and lies in scratch

  /// Whether the view is the separated row.
  bool isRow(unsigned view) const { return separated >= 0 && view + 1 == types.size(); }
  bool reduces() const { return !combines.empty(); }
  bool vectorReduces() const { return vector >= parallel; }
  /// Results that are combined; the others are stored.
  unsigned combined() const;
  bool indexed(unsigned view) const; // read by load_at
  /// Reduces, and then computes outputs at every point.
  bool maps() const;
  /// Items of a level outside of rows: points, or pairs of them.
  bool pairsUp(unsigned level) const { return pairs && pairs->level == level; }
  /// The results are a load's elements.
  bool copies() const { return body.nodes.size() == 1 && body.nodes[0].op == ExprNode::Op::load; }
  /// Rows of a tile of a transposition; other bodies than copies pass it through scratch.
  int64_t tileRows() const;
  unsigned levelsOutsideRow() const {
    if (separated >= 0)
      return separated;
    return transpose || interleave ? parallel - 2 : vectorReduces() || parallel == 0 ? parallel : parallel - 1;
  }

  KernelDescription describe() const;
  static llvm::Expected<Plan> parse(const KernelDescription &kernel);
};

/// What is combined together: one result, or two of argmax and argmin.
struct Slot {
  Combine kind;
  unsigned first, width, phase;
};

/// What each node of a plan's body depends on, and when it is needed.
struct Analysis {
  explicit Analysis(const Plan &plan);
  std::vector<Slot> slots;
  unsigned phases = 0;              // of the reduction; the last one, where outputs are computed, has this number
  std::vector<uint32_t> deps;       // levels, as bits
  std::vector<unsigned> phaseOf;    // the first phase in which the node can be computed
  std::vector<uint32_t> needed;     // phases that compute (or read from scratch) the node, as bits
  std::vector<int> cachedIn;        // the phase that keeps the node in scratch; -1: none
  std::vector<unsigned> cachePlace; // number among those kept
  unsigned cached = 0;
  std::vector<bool> fromIndices; // follows from indices and parameters alone
  std::vector<bool> inRow;       // computed where the separated row is
  std::vector<int> tableOf;      // number of the table that the node is read from; -1: none
  std::vector<uint32_t> tabled;  // the node of each table
};

/// Where the run-time parameters lie: fixed ones, then those that the plan calls for.
struct Params {
  enum Fixed : unsigned {
    perUnit,
    items,
    blocks,
    blockSize,
    count
  }; // blockSize: rows of a batch, where there are batches
  explicit Params(const Plan &plan);
  unsigned extent(unsigned level) const { return count + level; }
  /// Of a view's strided step.
  unsigned stride(unsigned view, unsigned level) const { return strides.at({view, level}); }
  unsigned operandExtent(uint32_t imm) const { return extents.at(imm); }
  unsigned immediate(unsigned i) const { return firstImmediate + i; }
  std::map<std::pair<unsigned, unsigned>, unsigned> strides;
  std::map<uint32_t, unsigned> extents; // by the imm of extent nodes
  unsigned rowLength = 0;               // elements of a separated row
  unsigned firstImmediate = 0, total = 0;
};

/// Levels (or dims) that each node's value depends on, as bits; `load` says those of a load of a view.
std::vector<uint32_t> dependencies(const Expr &body, llvm::function_ref<uint32_t(uint32_t operand)> load);
/// Whether a node is computed by a polynomial: an elementary function of a float.
bool isElementary(const ExprNode &node);
/// The constant by which `node` (i64) grows when dimension `dim` does; nothing if it does not grow evenly.
std::optional<int64_t> coefficient(const Expr &body, const std::vector<uint32_t> &deps, uint32_t node, uint32_t dim);

/// A body in two steps: it reads a further operand, the row, and its last result is what the row holds, where indices of
/// places and of elements inside them are 0.
struct Separation {
  Expr body;
  View row;                   // as it lies in scratch: places, and elements inside them if there are several
  std::vector<uint32_t> dims; // of the domain: the one whose index the places follow from, that of the elements
};
std::optional<Separation> separate(const Expr &body, const LaunchSite &site, llvm::ArrayRef<int64_t> extents);

/// The pairs that a plan with a window can make, if any.
std::optional<Plan::Pairs> findPairs(const Plan &plan, const Analysis &analysis);

/// Binds a launch of the loop family. `repeated`: the last views of the site are further views of these, by number.
llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target, llvm::ArrayRef<unsigned> repeated = {});
/// Emits any kernel that bind() made, whatever name its family has.
llvm::Error emit(const KernelDescription &kernel, KernelBuilder &builder);

/// Most points of an unrolled window.
constexpr int64_t largestWindow = 16;
/// Most rows of a batch, and most points of each.
constexpr int64_t largestBatch = 16, longestBatched = 2048;
/// Bytes of an element of a table: a weight (f32) or an index (i32).
constexpr int64_t tableBytes = 4;
/// Elements that a table has beyond its level's extent, itself rounded up to `tableStep`: its last value again.
constexpr int64_t tablePadding = 48, tableStep = 16;
/// Most channels of an interleaved map, and its fewest points.
constexpr int64_t largestInterleave = 4, smallestInterleaved = 16;
/// Columns of a tile of a transposition, and rows of one that passes through scratch or is copied.
constexpr int64_t tileSide = 64, tileRowsCopied = 512;
/// Both extents of a transposition are at least this, and those of its last tiles, too.
constexpr int64_t smallestTile = 16, largestTile = tileSide + smallestTile;
/// Tiles of `side` along an extent; the last one is larger if a small rest is left.
inline int64_t tilesOf(int64_t extent, int64_t side) {
  return std::max<int64_t>(1, (extent + side - smallestTile) / side);
}
inline int64_t Plan::tileRows() const { return copies() ? tileRowsCopied : tileSide; }

} // namespace mrcc::loops
