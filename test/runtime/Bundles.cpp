#include "Bundles.h"
#include "mrcc/Bundle/Hash.h"
#include "llvm/Object/ELFObjectFile.h"
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

using namespace mrcc;
using namespace test;

BundleTarget test::testTarget(const Options &options) {
  BundleTarget target;
  target.name = options.targetName;
  target.features = options.features;
  target.image = readFile(MRCC_TEST_IMAGE);
  auto object = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(target.image, "image"));
  REQUIRE(bool(object));
  for (const auto &symbol : object->getDynamicSymbolIterators()) {
    BundleKernel kernel;
    kernel.name = llvm::cantFail(symbol.getName()).str();
    kernel.key = "test " + kernel.name;
    kernel.offset = llvm::cantFail(symbol.getAddress());
    kernel.bytes = llvm::object::ELFSymbolRef(symbol).getSize();
    if ((kernel.name != "divide" || options.denormalSteps) && (kernel.name != "starts" || options.startsLeast))
      target.kernels.push_back(kernel);
  }
  return target;
}

static std::vector<float> sharedValues() {
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 0.25f * float(i) - 3;
  return values;
}

Contents::Contents(const std::vector<Size> &sizes, const Options &options) {
  contents.model.name = "test";
  contents.model.sha256 = std::string(64, '0');
  contents.model.inputs = {{"x", DType::f32, {"1", "3", "H", "W"}}};
  contents.model.outputs = {{"y", DType::f32, {"1", "3", "H", "W"}}};
  contents.producer = "mrcc test";
  contents.flags["math"] = "fast";
  contents.targets.push_back(testTarget(options));
  contents.folded.push_back({"/Mul", "Transpose", 256, 256, "simplify"});
  for (Size size : sizes)
    addVariant(size, options);
}

llvm::ArrayRef<uint8_t> Contents::keep(const std::vector<float> &values) {
  auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
  return memory.emplace_back(bytes, bytes + values.size() * sizeof(float));
}

void Contents::addVariant(Size size, const Options &options) {
  const auto [h, w] = size;
  const int64_t rows = 3 * h, bytes = rows * w * 4;
  std::vector<float> ramp(w);
  for (int64_t i = 0; i < w; ++i)
    ramp[i] = 1 + 0.5f * float(i);
  BundleVariant v;
  v.key = "x=1x3x" + std::to_string(h) + "x" + std::to_string(w);
  v.inputs = {{"x", DType::f32, {1, 3, h, w}}};
  v.outputs = {{"y", DType::f32, {1, 3, h, w}}};
  v.constants = {{keep(sharedValues()), true, false},
                 {keep(ramp), false, false},
                 {keep({1.5f}), true, true},
                 {keep({0.0f}), true, true}};
  v.kernels = {"test affine", "test reverse", "test divide", "test starts"};
  v.arenaBytes = v.arenaLowerBound = 2 * ((bytes + 63) / 64 * 64);
  const uint64_t second = v.arenaBytes / 2;
  auto view = [&](Space space, uint32_t index, uint64_t offset) {
    return View{space, DType::f32, index, offset, {rows, w}, {w, 1}};
  };
  auto broadcast = [&](uint32_t index, uint64_t offset, int64_t stride) {
    return View{Space::constant, DType::f32, index, offset, {rows, w}, {0, stride}};
  };
  auto step = [&](uint32_t kernel, std::vector<View> views, std::vector<int64_t> params, const char *name) {
    Step s;
    s.kernel = kernel;
    s.outputs = 1;
    s.views = std::move(views);
    s.params = std::move(params);
    s.units = rows;
    s.scratchBytes = kernel == 1 ? w * 4 : 0;
    s.flops = 2 * rows * w;
    s.location = name;
    v.steps.push_back(std::move(s));
  };
  for (int i = 0; i < options.repeat; ++i) {
    step(0, {view(Space::arena, 0, 0), view(Space::input, 0, 0), broadcast(0, 20, 0), broadcast(2, 0, 0)}, {w, 0},
         "/Add");
    step(0, {view(Space::arena, 0, second), view(Space::arena, 0, 0), broadcast(1, 0, 1), broadcast(3, 0, 0)}, {w, 1},
         "/Mul");
    step(1, {view(Space::output, 0, 0), view(Space::arena, 0, second)}, {w}, "/Reverse");
  }
  for (int64_t i = 0; i < options.denormalSteps; ++i)
    step(2, {view(Space::output, 0, 0), view(Space::input, 0, 0)}, {1024}, "/Div");
  if (options.startsLeast) {
    step(3, {view(Space::output, 0, 0), view(Space::input, 0, 0)}, {w}, "/Starts");
    v.steps.back().leastUnits = options.startsLeast;
  }
  contents.variants.push_back(std::move(v));
}

std::vector<float> test::expected(const std::vector<float> &x, Size size) {
  const auto [h, w] = size;
  const double shared = sharedValues()[5];
  std::vector<float> y(x.size());
  for (int64_t r = 0; r < 3 * h; ++r)
    for (int64_t i = 0; i < w; ++i) {
      const int64_t from = w - 1 - i;
      y[r * w + i] = float(2 * (double(x[r * w + from]) * shared + 1.5) * (1 + 0.5 * double(from)));
    }
  return y;
}

std::vector<float> test::randomValues(size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<float> values(count);
  for (float &v : values)
    v = float(int64_t(random() % 2001) - 1000) / 64;
  return values;
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "mrcc-test-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()));
  path = name;
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void test::write(const std::string &path, const Contents &contents) {
  llvm::Error error = writeBundle(path, contents.contents);
  const std::string message = error ? llvm::toString(std::move(error)) : "";
  REQUIRE(message == "");
}

std::string test::readFile(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}
void test::writeFile(const std::filesystem::path &path, const std::string &bytes) {
  // Without truncation where the size stays: some file systems flush a file that was truncated, a millisecond each
  // time.
  std::error_code missing;
  const bool inPlace = std::filesystem::file_size(path, missing) == bytes.size() && !missing;
  std::fstream(path, std::ios::binary | std::ios::out | (inPlace ? std::ios::in : std::ios::trunc)) << bytes;
}

Outcome test::tryOpen(const std::string &path, mrcc_verify verify) {
  mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
  options.verify = verify;
  mrcc_model *model = nullptr;
  Outcome result = outcome([&](mrcc_error **e) { return mrcc_model_open(path.c_str(), &options, &model, e); });
  CHECK((model != nullptr) == (result.code == MRCC_OK));
  mrcc_model_free(model);
  return result;
}

Outcome test::tryRun(const std::string &path, mrcc_verify verify) {
  mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
  options.verify = verify;
  mrcc_model *model = nullptr;
  mrcc_context *context = nullptr;
  Outcome result = outcome([&](mrcc_error **e) { return mrcc_model_open(path.c_str(), &options, &model, e); });
  if (result.code == MRCC_OK)
    result = outcome([&](mrcc_error **e) { return mrcc_context_create(model, nullptr, &context, e); });
  if (result.code == MRCC_OK) {
    mrcc_variant_info info = MRCC_VARIANT_INFO_INIT;
    mrcc_model_variant(model, 0, &info, nullptr);
    const Size size = {info.inputs[0].dims[2], info.inputs[0].dims[3]};
    std::vector<float> x = randomValues(info.inputs[0].bytes / 4, 1), y;
    result = runOnce(context, x, y, size);
    if (result.code == MRCC_OK)
      CHECK(y == expected(x, size));
  }
  mrcc_context_free(context);
  mrcc_model_free(model);
  return result;
}

Outcome test::runOnce(mrcc_context *context, const std::vector<float> &x, std::vector<float> &y, Size size) {
  const int64_t dims[] = {1, 3, size.first, size.second};
  y.resize(x.size());
  mrcc_tensor in = MRCC_TENSOR_INIT, out = MRCC_TENSOR_INIT;
  in.name = "x";
  in.data = const_cast<float *>(x.data());
  in.bytes = x.size() * 4;
  in.dtype = MRCC_F32;
  in.rank = 4;
  in.dims = dims;
  out = in;
  out.name = "y";
  out.data = y.data();
  return outcome([&](mrcc_error **e) { return mrcc_context_run(context, &in, 1, &out, 1, e); });
}

Session::Session(const std::string &path, const mrcc_model_options *options,
                 const mrcc_context_options *contextOptions) {
  Outcome opened = outcome([&](mrcc_error **e) { return mrcc_model_open(path.c_str(), options, &model, e); });
  REQUIRE(opened.message == "");
  opened = outcome([&](mrcc_error **e) { return mrcc_context_create(model, contextOptions, &context, e); });
  REQUIRE(opened.message == "");
}
Session::~Session() {
  mrcc_context_free(context);
  mrcc_model_free(model);
}

Outcome Session::run(Size size) {
  if (x.size() != size_t(3 * size.first * size.second))
    x = randomValues(3 * size.first * size.second, unsigned(size.first * 1000 + size.second));
  return runOnce(context, x, y, size);
}
