// The bundle's contract: what the compiler writes and the runtime reads. The one header that both include; it needs the
// C++ standard library alone (Archive.h and Hash.h beside it say how its programs are serialised and hashed).
//
// A bundle is a folder: `index` (the records below, read in place) and data files named by their content. The index
// alone refers to places in files; programs refer to constants and kernels by content, so a program file stays the same
// when a resolution is added and constants or kernels move. All numbers are little-endian.
#pragma once
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace mrcc {

static_assert(std::endian::native == std::endian::little, "bundles are read in place");

/// The version of everything in this header. A runtime reads its own version alone.
constexpr uint32_t formatVersion = 3; // 2: Step::work; 3: Step::leastUnits

/// xxh3-128 of some bytes (Hash.h). Ordered, and 32 hex digits in file names.
struct Hash128 {
  uint64_t low = 0, high = 0;
  friend auto operator<=>(const Hash128 &a, const Hash128 &b) {
    return a.high != b.high ? a.high <=> b.high : a.low <=> b.low;
  }
  bool operator==(const Hash128 &) const = default;
};

/// Element types. The numbers are part of the format: never reuse one.
enum class DType : uint8_t {
  none = 0, // an optional tensor that is absent
  f32 = 1,
  f64 = 2,
  f16 = 3,
  bf16 = 4,
  i8 = 5,
  i16 = 6,
  i32 = 7,
  i64 = 8,
  u8 = 9,
  u16 = 10,
  u32 = 11,
  u64 = 12,
  boolean = 13, // one byte, 0 or 1
  f8e4m3fn = 14,
  f8e4m3fnuz = 15,
  f8e5m2 = 16,
  f8e5m2fnuz = 17,
  i4 = 18, // two a byte, the first in the low half
  u4 = 19,
  f8e8m0 = 20, // a power of two: the exponent of f32 alone, 255 is NaN
  f4e2m1 = 21, // two a byte, no infinities and no NaN
  i2 = 22,     // four a byte, the first in the lowest bits
  u2 = 23,
};
constexpr DType lastDType = DType::u2;

/// Bits of one element; 0 for `none` and unknown numbers.
constexpr unsigned bitWidth(DType type) {
  switch (type) {
  case DType::f64:
  case DType::i64:
  case DType::u64:
    return 64;
  case DType::f32:
  case DType::i32:
  case DType::u32:
    return 32;
  case DType::f16:
  case DType::bf16:
  case DType::i16:
  case DType::u16:
    return 16;
  case DType::i8:
  case DType::u8:
  case DType::boolean:
  case DType::f8e4m3fn:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2:
  case DType::f8e5m2fnuz:
  case DType::f8e8m0:
    return 8;
  case DType::i4:
  case DType::u4:
  case DType::f4e2m1:
    return 4;
  case DType::i2:
  case DType::u2:
    return 2;
  case DType::none:
    break;
  }
  return 0;
}

/// Several elements share a byte, the first in the lowest bits; a tensor ends in a whole byte.
constexpr bool isPacked(DType type) { return type != DType::none && bitWidth(type) < 8; }

/// The largest tensor, and the largest arena or scratch memory: what is beyond is damage, and no compile makes it.
constexpr int64_t maxElements = int64_t(1) << 48;
constexpr int64_t maxWorkingBytes = int64_t(1) << 46;

/// Bytes of a dense tensor; nothing where it cannot be one: a negative dim, or dims beside those of 0 whose product is
/// over `maxElements`. Types without a width have elements of no bytes.
constexpr std::optional<uint64_t> denseBytes(DType type, std::span<const int64_t> dims) {
  int64_t elements = 1;
  bool empty = false;
  for (int64_t d : dims) {
    empty |= d == 0;
    if (d < 0 || d > maxElements / elements) // a 0 must not hide an overflow
      return std::nullopt;
    elements *= d == 0 ? 1 : d;
  }
  return empty ? 0 : (uint64_t(elements) * bitWidth(type) + 7) / 8;
}

/// Where a view's bytes lie.
enum class Space : uint8_t {
  absent = 0,   // an optional operand that is not there
  input = 1,    // the caller's tensor `index`, in the model's order
  output = 2,   // the caller's tensor `index`
  constant = 3, // entry `index` of the program's constant table
  arena = 4,    // the context's arena; `index` is 0
};

/// A strided tensor inside a space. `offset` is in bytes and points at element [0, ..., 0]; strides are in elements and
/// may be 0 (a repeated value) or negative.
struct View {
  Space space = Space::absent;
  DType type = DType::none;
  uint32_t index = 0;
  uint64_t offset = 0;
  std::vector<int64_t> dims, strides;
  template <class A> void serialize(A &a) { a(space, type, index, offset, dims, strides); }
  bool operator==(const View &) const = default;
};

/// Bytes of the elements that a view shows, each once: dims of stride 0 repeat theirs.
constexpr uint64_t viewBytes(const View &view) {
  uint64_t elements = 1;
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (view.strides[i] != 0 || view.dims[i] == 0)
      elements *= uint64_t(view.dims[i]);
  return (elements * bitWidth(view.type) + 7) / 8;
}

enum class StepKind : uint8_t {
  launch = 1, // call a kernel over [0, units)
  // Reserved: copy 2, library call 3, branch 4, loop 5, subprogram 6.
};

/// What the schedule of a step does on one core, for reports and the cost model. It follows from shapes and target.
struct Work {
  uint64_t multiplied = 0;   // flops of the multiply-adds of its tiles, those on padding and masked lanes too
  uint64_t instructions = 0; // about so many other vector instructions: transforms, bodies, their loads and stores
  uint64_t moved = 0;        // bytes that pass L2: each view's once, and what does not stay there as often as it passes
  template <class A> void serialize(A &a) { a(multiplied, instructions, moved); }
  bool operator==(const Work &) const = default;
};

/// One step of a static program. The first `outputs` views are written, the others read. A view's dims and strides say
/// which bytes the step touches: the loader checks that they lie inside their space.
struct Step {
  StepKind kind = StepKind::launch;
  uint32_t kernel = 0; // entry of the program's kernel table
  uint32_t outputs = 0;
  std::vector<View> views;
  std::vector<int64_t> params; // run-time parameters of the kernel: extents, strides, immediates
  uint64_t units = 0;          // units of work, split among threads by shape alone
  uint64_t leastUnits = 1;     // a thread takes so many at once while its share has them: a range's start costs
  uint64_t scratchBytes = 0;   // private memory of each worker
  uint64_t flops = 0;          // of the op as defined (direct convolution), for reports
  Work work;
  std::string location; // ONNX node names that the step stands for
  template <class A> void serialize(A &a) {
    a(kind, kernel, outputs, views, params, units, leastUnits, scratchBytes, flops, work, location);
  }
  bool operator==(const Step &) const = default;
};

/// A kernel's machine code. All kernels of a target have this type:
///   views    address of element [0, ..., 0] of each view of the step, in the step's order
///   params   the step's params
///   begin, end   the units of work to do, 0 <= begin < end <= step.units; any split gives the same bits
///   scratch  step.scratchBytes of private memory, 64-byte aligned, content undefined
using KernelFunction = void(char *const *views, const int64_t *params, int64_t begin, int64_t end, char *scratch);

/// An input or output of a program. Names may repeat among outputs.
struct TensorInfo {
  std::string name;
  DType type = DType::none;
  std::vector<int64_t> dims;
  template <class A> void serialize(A &a) { a(name, type, dims); }
  bool operator==(const TensorInfo &) const = default;
};

/// A constant by content. `ordinal` tells different bytes with one hash apart (0 unless hashes collide). A constant of
/// one repeated value is `splat`, its 1 to 16 bytes, and no bytes of a file; views of it have stride 0 everywhere.
struct ConstantRef {
  Hash128 hash;
  uint32_t ordinal = 0;
  uint64_t bytes = 0;
  std::vector<uint8_t> splat;
  template <class A> void serialize(A &a) { a(hash, ordinal, bytes, splat); }
  bool operator==(const ConstantRef &) const = default;
};

/// One resolution compiled for one target: the content of a file `variants/*.mrcv`.
struct Program {
  std::string key;    // "x=1x3x480x640", several inputs joined by ';'
  std::string target; // "cpu:x86-64-v3"
  std::vector<TensorInfo> inputs, outputs;
  std::vector<ConstantRef> constants; // Space::constant's index
  std::vector<Hash128> kernels;       // Step::kernel's index: kernelId() of each
  uint64_t arenaBytes = 0;
  uint64_t arenaLowerBound = 0; // the largest live set
  std::vector<Step> steps;
  template <class A> void serialize(A &a) {
    a(key, target, inputs, outputs, constants, kernels, arenaBytes, arenaLowerBound, steps);
  }
  bool operator==(const Program &) const = default;
};

/// Where arenas, scratch memory and constants begin in memory; constants begin at such offsets in their files, too.
constexpr uint64_t alignment = 64;

/// Constants and code are hashed in blocks of this size (the last one of a file may be shorter), so that a variant can
/// be checked without reading what others use.
constexpr uint64_t blockBytes = 256 * 1024;

/// In a packed bundle (one file or one piece of memory) the index comes first, then each file of its file table in
/// order, then manifest.json. Code and constants begin at multiples of `packAlignment` (pages of every CPU), the rest
/// at `alignment`.
constexpr uint64_t packAlignment = 64 * 1024;

// The index. A header, then sections of fixed-size records, each section at a multiple of 8 bytes.

struct Section {
  uint64_t offset; // from the start of the index
  uint64_t count;  // of records
};

struct Text { // into the section of strings
  uint32_t offset, length;
};

struct IndexHeader {
  // These fields keep their meaning and place in every version.
  char magic[8];
  uint32_t formatVersion;
  uint32_t headerBytes;
  char producer[32]; // "mrcc 0.1.0", filled up with zeros
  uint64_t indexBytes;
  // From here on, this version.
  Hash128 hash; // of the index without this field
  Hash128 manifestHash;
  uint64_t manifestBytes;
  Text model; // the model's name
  Section files, targets, variants, tensors, dims, constants, kernels, blocks, strings;
};
constexpr char indexMagic[8] = {'m', 'r', 'c', 'b', '\r', '\n', '\x1a', '\n'};

enum class FileKind : uint32_t {
  sharedConstants = 1,      // of the stages that do not know the resolution
  specialisedConstants = 2, // that only specialisation makes
  code = 3,                 // an ELF64 shared object without imports, relocations or writable data
  program = 4,              // a serialised Program
};

struct FileRecord {
  Text name; // relative, as in the folder
  FileKind kind;
  uint32_t firstBlock, numBlocks; // hashes of blocks; none of programs
  uint32_t reserved;
  uint64_t bytes;
  Hash128 hash; // of the whole file; part of its name
};

/// Sorted by level, the best first.
struct TargetRecord {
  Text name;        // "cpu:x86-64-v3"
  Text features;    // that the CPU must have, separated by spaces
  uint32_t machine; // ELF's e_machine
  uint32_t level;   // of those that a CPU can run, the highest is taken
};

/// Sorted by input dims, then target.
struct VariantRecord {
  Text key;
  uint32_t target;
  uint32_t file;                                           // the program
  uint32_t firstInput, numInputs, firstOutput, numOutputs; // tensors
  uint64_t arenaBytes;
  uint64_t scratchBytes;                       // of each worker: the largest of its steps
  uint64_t constantBytes, uniqueConstantBytes; // that it reads; that no other variant reads
  uint64_t codeBytes, uniqueCodeBytes;
  uint64_t preparedBytes; // private memory made at load
  uint64_t flops;
  uint32_t numSteps, numKernels, uniqueKernels;
  uint32_t reserved;
};

struct TensorRecord {
  Text name;
  uint32_t type; // DType
  uint32_t rank;
  uint32_t firstDim; // in dims, a section of int64_t
  uint32_t reserved;
};

/// Sorted by (hash, ordinal).
struct ConstantRecord {
  Hash128 hash;
  uint32_t ordinal;
  uint32_t file;
  uint64_t offset, bytes;
};

/// Sorted by id.
struct KernelRecord {
  Hash128 id;
  Text name;
  Text key;
  uint32_t file;
  uint32_t target;
  uint64_t offset; // of the KernelFunction from the image's load base
  uint64_t bytes;
};

static_assert(sizeof(Section) == 16 && sizeof(Text) == 8);
static_assert(offsetof(IndexHeader, formatVersion) == 8 && offsetof(IndexHeader, producer) == 16 &&
              offsetof(IndexHeader, indexBytes) == 48 && offsetof(IndexHeader, hash) == 56 &&
              sizeof(IndexHeader) == 248);
static_assert(sizeof(FileRecord) == 48 && sizeof(TargetRecord) == 24 && sizeof(VariantRecord) == 112 &&
              sizeof(TensorRecord) == 24 && sizeof(ConstantRecord) == 40 && sizeof(KernelRecord) == 56);
static_assert(std::is_trivially_copyable_v<IndexHeader> && std::is_trivially_copyable_v<KernelRecord>);

} // namespace mrcc
