// The bundle's contract: what the compiler writes and the runtime reads. The one header that both include; it needs the
// C++ standard library alone. Sources: design of the bundle, ARCHITECTURE.md.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mrcc {

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
};

/// Bits of one element; 0 for `none` and unknown numbers.
constexpr unsigned bitWidth(DType type) {
  switch (type) {
  case DType::f64: case DType::i64: case DType::u64: return 64;
  case DType::f32: case DType::i32: case DType::u32: return 32;
  case DType::f16: case DType::bf16: case DType::i16: case DType::u16: return 16;
  case DType::i8: case DType::u8: case DType::boolean: case DType::f8e4m3fn: case DType::f8e4m3fnuz:
  case DType::f8e5m2: case DType::f8e5m2fnuz: return 8;
  case DType::i4: case DType::u4: return 4;
  case DType::none: break;
  }
  return 0;
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

enum class StepKind : uint8_t {
  launch = 1, // call a kernel over [0, units)
  // Reserved: copy 2, library call 3, branch 4, loop 5, subprogram 6.
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
  uint64_t scratchBytes = 0;   // private memory of each worker
  uint64_t flops = 0;          // of the op as defined (direct convolution), for reports
  std::string location;        // ONNX node names that the step stands for
  template <class A> void serialize(A &a) {
    a(kind, kernel, outputs, views, params, units, scratchBytes, flops, location);
  }
  bool operator==(const Step &) const = default;
};

/// A kernel's machine code. All kernels of a target have this type:
///   views    address of element [0, ..., 0] of each view of the step, in the step's order
///   params   the step's params
///   begin, end   the units of work to do, 0 <= begin < end <= step.units; any split gives the same bits
///   scratch  step.scratchBytes of private memory, 64-byte aligned, content undefined
using KernelFunction = void(char *const *views, const int64_t *params, int64_t begin, int64_t end, char *scratch);

} // namespace mrcc
