// Bundles for tests of runtime and writer: real code, made from kernels.c instead of a model. The program is
//   arena0 = x * shared[5] + 1.5; arena1 = arena0 * ramp(W); y = 2 * reversed rows of arena1
// for x = 1x3xHxW, where ramp is a constant that depends on W and 1.5 a repeated value.
#pragma once
#include "mrcc/Bundle/Bundle.h"
#include "mrcc/runtime.h"
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

namespace test {

using Size = std::pair<int64_t, int64_t>; // H, W

struct Options {
  std::vector<std::string> features; // that the target claims to need
  std::string targetName = "cpu:test";
  int64_t denormalSteps = 0; // extra steps of kernel `divide`
  uint64_t startsLeast = 0;  // leastUnits of a last step of kernel `starts`, if not 0
  int repeat = 1;            // how often the three steps stand in the program
};

/// Contents with the memory that they refer to.
class Contents {
public:
  Contents(const std::vector<Size> &sizes, const Options &options = {});
  Contents(const Contents &) = delete;
  mrcc::BundleContents contents;

private:
  void addVariant(Size size, const Options &options);
  llvm::ArrayRef<uint8_t> keep(const std::vector<float> &values);
  std::deque<std::vector<uint8_t>> memory;
};

/// The code image and the kernels in it.
mrcc::BundleTarget testTarget(const Options &options);

/// y for one x, computed in double.
std::vector<float> expected(const std::vector<float> &x, Size size);
/// Multiples of 1/64, so that the program's arithmetic is exact for W up to some hundred and results compare for
/// equality.
std::vector<float> randomValues(size_t count, unsigned seed);

/// A folder that goes away.
class Folder {
public:
  Folder();
  ~Folder();
  std::filesystem::path path;
  std::string operator/(const std::string &name) const { return (path / name).string(); }
};

/// Writes a bundle there; ends the test if that fails.
void write(const std::string &path, const Contents &contents);

std::string readFile(const std::filesystem::path &path);
void writeFile(const std::filesystem::path &path, const std::string &bytes);

/// The code of what `function` returns through `mrcc_error **`, with its message.
struct Outcome {
  mrcc_code code = MRCC_OK;
  std::string message, place;
};
template <typename F> Outcome outcome(F function) {
  mrcc_error *error = nullptr;
  Outcome result;
  result.code = function(&error);
  result.message = mrcc_error_message(error);
  result.place = mrcc_error_place(error);
  mrcc_error_free(error);
  return result;
}

/// Opens and frees.
Outcome tryOpen(const std::string &path, mrcc_verify verify = MRCC_VERIFY_LAZY);
/// Opens, runs the first variant once, frees.
Outcome tryRun(const std::string &path, mrcc_verify verify = MRCC_VERIFY_LAZY);

/// A model with one context and tensors for its variants.
class Session {
public:
  explicit Session(const std::string &path, const mrcc_model_options *options = nullptr,
                   const mrcc_context_options *contextOptions = nullptr);
  ~Session();
  Session(const Session &) = delete;
  Outcome run(Size size);
  std::vector<float> x, y;
  mrcc_model *model = nullptr;
  mrcc_context *context = nullptr;
};

/// One call on a context. `y` gets the result's size.
Outcome runOnce(mrcc_context *context, const std::vector<float> &x, std::vector<float> &y, Size size);

} // namespace test
