#include "Check.h"
#include "Failure.h"
#include "mrcc/Bundle/Archive.h"
#include <algorithm>

using namespace mrcc;
using namespace mrcc::runtime;

namespace {

class Checker {
public:
  Checker(const Program &program, const Index &index, const VariantRecord &record, const std::string &name)
      : program(program), index(index), record(record), name(name) {}

  void check() {
    require(program.key == index.text(record.key), "another key than in the index");
    require(program.target == index.text(index.targets()[record.target].name), "another target than in the index");
    require(program.arenaBytes == record.arenaBytes, "another arena size than in the index");
    require(program.steps.size() == record.numSteps, "another number of steps than in the index");
    tensors(program.inputs, record.firstInput, record.numInputs);
    tensors(program.outputs, record.firstOutput, record.numOutputs);
    for (const ConstantRef &c : program.constants) {
      if (!c.splat.empty()) {
        require(c.splat.size() <= 16, "a repeated value of more than 16 bytes");
        continue;
      }
      const ConstantRecord *entry = index.find(c);
      require(entry && entry->bytes == c.bytes, "a constant that the bundle does not have");
    }
    for (const Hash128 &id : program.kernels) {
      const KernelRecord *kernel = index.findKernel(id);
      require(kernel && kernel->target == record.target, "a kernel that the bundle does not have");
    }
    for (number = 0; number < program.steps.size(); ++number)
      step(program.steps[number]);
  }

private:
  void require(bool good, const char *what) const {
    if (!good)
      damaged(name, number < program.steps.size() ? "step " + std::to_string(number) + ": " + what : what);
  }

  void tensors(const std::vector<TensorInfo> &infos, uint32_t first, uint32_t count) {
    require(infos.size() == count, "another number of tensors than in the index");
    for (uint32_t i = 0; i < count; ++i) {
      const TensorRecord &t = index.tensors()[first + i];
      auto dims = index.dims().subspan(t.firstDim, t.rank);
      require(infos[i].name == index.text(t.name) && uint32_t(infos[i].type) == t.type &&
                  std::equal(dims.begin(), dims.end(), infos[i].dims.begin(), infos[i].dims.end()),
              "another tensor than in the index");
    }
  }

  void step(const Step &step) {
    if (step.kind != StepKind::launch)
      fail(MRCC_UNSUPPORTED_PROGRAM, name,
           name + ": step " + std::to_string(number) + " is of kind " + std::to_string(int(step.kind)) +
               ", which this runtime does not have");
    require(step.kernel < program.kernels.size(), "a kernel that the program does not list");
    require(step.outputs <= step.views.size(), "more outputs than views");
    require(step.scratchBytes <= record.scratchBytes, "more scratch memory than in the index");
    require(step.units <= uint64_t(1) << 62, "too many units");
    for (size_t i = 0; i < step.views.size(); ++i)
      view(step.views[i], i < step.outputs);
  }

  /// Bytes of the space that a view lies in.
  uint64_t spaceBytes(const View &v, bool written) const {
    switch (v.space) {
    case Space::input:
      require(!written, "writes an input");
      require(v.index < program.inputs.size(), "an input that does not exist");
      return denseBytes(program.inputs[v.index].type, program.inputs[v.index].dims).value_or(0);
    case Space::output:
      require(v.index < program.outputs.size(), "an output that does not exist");
      return denseBytes(program.outputs[v.index].type, program.outputs[v.index].dims).value_or(0);
    case Space::constant: {
      require(!written, "writes a constant");
      require(v.index < program.constants.size(), "a constant that does not exist");
      const ConstantRef &c = program.constants[v.index];
      return c.splat.empty() ? c.bytes : c.splat.size();
    }
    case Space::arena:
      require(v.index == 0, "an arena that does not exist");
      return program.arenaBytes;
    case Space::absent:
      break;
    }
    require(false, "a view in an unknown space");
    return 0;
  }

  void view(const View &v, bool written) const {
    if (v.space == Space::absent)
      return;
    const uint64_t space = spaceBytes(v, written);
    const unsigned bits = bitWidth(v.type);
    require(bits != 0, "a view of an unknown element type");
    require(v.dims.size() == v.strides.size(), "a view with more dims than strides");
    require(v.offset <= space, "a view begins outside its space");
    require(bits < 8 || v.offset % (bits / 8) == 0, "a view is not aligned to its elements");
    // First and last element, in elements from the offset. Each dim may add 2^62 at most, so 64 of them fit in 128
    // bits.
    __int128 low = 0, high = 0;
    bool empty = false;
    require(v.dims.size() <= 64, "a view of too many dims");
    for (size_t i = 0; i < v.dims.size(); ++i) {
      const int64_t dim = v.dims[i], stride = v.strides[i];
      require(dim >= 0 && dim <= maxElements && stride >= -maxElements && stride <= maxElements,
              "a view of impossible extent");
      empty |= dim == 0;
      const __int128 reach = __int128(dim - 1) * stride;
      (reach < 0 ? low : high) += reach;
    }
    if (empty)
      return;
    const __int128 offset = __int128(v.offset) * 8; // bits: sub-byte elements exist
    require(offset + low * bits >= 0 && offset + (high + 1) * bits <= __int128(space) * 8,
            "a view reaches outside its space");
  }

  const Program &program;
  const Index &index;
  const VariantRecord &record;
  const std::string &name;
  size_t number = SIZE_MAX; // of the step being checked
};

} // namespace

Program runtime::readProgram(std::string_view bytes, const Index &index, const VariantRecord &record,
                             const std::string &name) {
  Program program;
  if (const char *wrong = fromBytes(bytes, programMark, program))
    damaged(name, wrong);
  Checker(program, index, record, name).check();
  return program;
}
