// Fuzzes what `mrcc compile` does with a model's bytes, up to the plan of the memory, and to the code where there is
// little of it. A refusal must say why; an imported module, and what each pass makes of it, must be valid.
#include "mrcc/Driver/Compile.h"
#include "mrcc/Driver/ShapeOptions.h"
#include "llvm/Support/xxhash.h"
#include <cstdio>

using namespace mrcc;

/// LLVM's allocators poison their memory where they are instrumented, and MLIR's library allocates from the same ones
/// without.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }

/// Ends the process with a report of the input.
static void report(const std::string &what) {
  std::fprintf(stderr, "fuzz-import: %s\n", what.c_str());
  __builtin_trap();
}

/// A refusal that explains nothing: it is empty, blames the compiler, or is what the driver says for a pass that failed
/// without a word.
static void check(llvm::StringRef message) {
  if (message.empty() || message.contains("internal error") || message.contains("could not be read back"))
    report("poor error: '" + message.str() + "'");
  for (llvm::StringRef stage : stageNames())
    if (message.ends_with((stage + " failed").str()))
      report("poor error: '" + message.str() + "'");
}

static bool refused(llvm::Error error) {
  if (!error)
    return false;
  check(llvm::toString(std::move(error)));
  return true;
}

/// Dims of all inputs: what is open has the size that its symbol (or place) stands for; the last two dims of an image
/// are `image` where that is not 0.
static VariantShapes shapesOf(const ModelInfo &model, uint64_t seed, int64_t image) {
  VariantShapes shapes;
  for (const ModelTensor &input : model.inputs) {
    std::vector<int64_t> &dims = shapes.dims.emplace_back(input.dims);
    if (!input.ranked)
      dims.assign(seed % 5, -1);
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] < 0)
        dims[i] = 1 + int64_t((seed + (i < input.symbols.size() ? llvm::xxh3_64bits(input.symbols[i]) : i)) % 9);
    if (image && dims.size() == 4)
      dims[2] = dims[3] = image;
  }
  return shapes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint64_t seed = llvm::xxh3_64bits({data, size});
  CompileOptions options;
  options.targets = {Target::find("x86-64-v3")};
  options.jobs = 1;
  options.keepGoing = true;
  options.verifyEach = true;
  Compilation compilation(options);
  if (refused(compilation.read({data, size}, "/nonexistent", "fuzz")))
    return 0;
  if (auto given = resolveShapes(compilation.model(), {}, {}); !given)
    refused(given.takeError());
  std::vector<VariantShapes> shapes{shapesOf(compilation.model(), seed, 0)};
  if (auto other = shapesOf(compilation.model(), seed / 9, int64_t(seed % 13)); other != shapes[0])
    shapes.push_back(std::move(other));
  if (refused(compilation.import(shapes)) || refused(compilation.simplify()) ||
      refused(compilation.addVariants(shapes)))
    return 0;
  for (auto &[key, why] : compilation.rejected)
    check(why);
  return 0;
}
