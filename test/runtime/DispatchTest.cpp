// Which variant a call runs, and what a call that runs none is told.
#include "Bundles.h"
#include "mrcc/runtime.hpp"
#include <doctest/doctest.h>

using namespace test;
using mrcc::Tensor;

namespace {

/// A call that can be bent.
struct Call {
  std::vector<float> x, y;
  std::vector<int64_t> dims;
  mrcc_tensor in = MRCC_TENSOR_INIT, out = MRCC_TENSOR_INIT;
  explicit Call(Size size) : dims{1, 3, size.first, size.second} {
    x = randomValues(3 * size.first * size.second, 1);
    y.resize(x.size());
    in.name = "x";
    in.data = x.data();
    in.bytes = x.size() * 4;
    in.dtype = MRCC_F32;
    in.rank = 4;
    in.dims = dims.data();
    out = in;
    out.name = "y";
    out.data = y.data();
  }
  Outcome run(Session &session) {
    return outcome([&](mrcc_error **e) { return mrcc_context_run(session.context, &in, 1, &out, 1, e); });
  }
};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("a shape that was not compiled is told what was") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{64, 64}, {72, 128}}));
  Session session(folder / "a.mrcb");
  Outcome miss = Call({80, 80}).run(session);
  CHECK(miss.code == MRCC_NO_VARIANT);
  CHECK(miss.place == "x");
  CHECK(contains(miss.message, "x=1x3x80x80 is not compiled"));
  CHECK(contains(miss.message, "compiled: x=1x3x64x64, x=1x3x72x128;"));
  CHECK(contains(miss.message, "nearest: x=1x3x64x64"));
  CHECK(!contains(miss.message, "swapped"));
  miss = Call({128, 72}).run(session);
  CHECK(miss.code == MRCC_NO_VARIANT);
  CHECK(contains(miss.message, "height and width look swapped: x=1x3x72x128 is compiled"));
  CHECK(session.run({64, 64}).code == MRCC_OK);
  CHECK(session.run({72, 128}).code == MRCC_OK);
}

TEST_CASE("each wrong tensor has a code of its own, and nothing is written") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{8, 16}}));
  Session session(folder / "a.mrcb");
  auto refused = [&](auto change) {
    Call call({8, 16});
    change(call);
    Outcome result = call.run(session);
    CHECK(call.y == std::vector<float>(call.y.size()));
    CHECK(result.message != "");
    return result.code;
  };
  CHECK(refused([](Call &c) { c.in.rank = 3; }) == MRCC_WRONG_RANK);
  CHECK(refused([](Call &c) { c.dims[1] = 4; }) == MRCC_NO_VARIANT);
  CHECK(refused([](Call &c) { c.dims[0] = 0; }) == MRCC_NO_VARIANT);
  CHECK(refused([](Call &c) { c.dims[2] = -8; }) == MRCC_NO_VARIANT);
  CHECK(refused([](Call &c) { c.in.dtype = MRCC_F16; }) == MRCC_WRONG_TYPE);
  CHECK(refused([](Call &c) { c.in.data = nullptr; }) == MRCC_NULL_DATA);
  CHECK(refused([](Call &c) { c.in.bytes -= 1; }) == MRCC_BUFFER_TOO_SMALL);
  CHECK(refused([](Call &c) { c.in.name = "input"; }) == MRCC_UNKNOWN_TENSOR);
  CHECK(refused([](Call &c) { c.in.dims = nullptr; }) == MRCC_INVALID_ARGUMENT);
  CHECK(refused([](Call &c) { c.in.struct_size = 8; }) == MRCC_INVALID_ARGUMENT);
  CHECK(refused([](Call &c) { c.in.data = reinterpret_cast<char *>(c.in.data) + 2; }) == MRCC_MISALIGNED);
  CHECK(refused([](Call &c) { c.out.rank = 3; }) == MRCC_WRONG_RANK);
  CHECK(refused([](Call &c) { c.out.dtype = MRCC_F64; }) == MRCC_WRONG_TYPE);
  CHECK(refused([](Call &c) { c.out.data = nullptr; }) == MRCC_NULL_DATA);
  CHECK(refused([](Call &c) { c.out.bytes = 0; }) == MRCC_BUFFER_TOO_SMALL);
  CHECK(refused([](Call &c) { c.out.name = "x"; }) == MRCC_UNKNOWN_TENSOR);
  const int64_t padded[] = {3 * 8 * 20, 8 * 20, 20, 1}, same[] = {77, 8 * 16, 16, 1}; // a dim of 1 may have any stride
  CHECK(refused([&](Call &c) { c.in.strides = padded; }) == MRCC_UNSUPPORTED_STRIDES);
  CHECK(refused([&](Call &c) { c.out.strides = padded; }) == MRCC_UNSUPPORTED_STRIDES);
  Call call({8, 16});
  call.in.strides = call.out.strides = same;
  CHECK(call.run(session).code == MRCC_OK);
  CHECK(call.y == expected(call.x, {8, 16}));
  call = Call({8, 16});
  call.in.name = call.out.name = nullptr; // by position
  CHECK(call.run(session).code == MRCC_OK);
  call.out.dtype = MRCC_NONE; // whatever the variant gives
  call.out.rank = 0;
  CHECK(call.run(session).code == MRCC_OK);
}

TEST_CASE("missing and surplus tensors") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{8, 16}}));
  Session session(folder / "a.mrcb");
  Call call({8, 16});
  auto run = [&](std::vector<mrcc_tensor> in, std::vector<mrcc_tensor> out) {
    return outcome([&](mrcc_error **e) {
      return mrcc_context_run(session.context, in.data(), in.size(), out.data(), out.size(), e);
    });
  };
  CHECK(run({}, {call.out}).code == MRCC_MISSING_TENSOR);
  CHECK(contains(run({}, {call.out}).message, "input 'x' is missing"));
  CHECK(run({call.in}, {}).code == MRCC_MISSING_TENSOR);
  CHECK(run({call.in, call.in}, {call.out}).code == MRCC_UNKNOWN_TENSOR);
  CHECK(contains(run({call.in, call.in}, {call.out}).message, "more than one input 'x'"));
  mrcc_tensor wrong = call.in;
  wrong.name = "image";
  CHECK(contains(run({wrong}, {call.out}).message, "no input 'image'; the model's are x (f32)"));
  wrong.name = nullptr;
  CHECK(run({call.in, wrong}, {call.out}).code == MRCC_UNKNOWN_TENSOR);
  CHECK(run({call.in}, {call.out}).code == MRCC_OK);
}

TEST_CASE("tensors may come in any order, and two outputs of one name are two") {
  Contents contents({{8, 16}});
  auto &v = contents.contents.variants[0];
  v.inputs.push_back({"an odd name", mrcc::DType::i64, {}});
  v.outputs.push_back({"z", mrcc::DType::f32, {1, 3, 8, 16}});
  v.outputs.push_back({"y", mrcc::DType::f32, {1, 3, 8, 16}});
  mrcc::Step copy = v.steps.back(); // y again as output 2
  copy.views[0].index = 2;
  v.steps.push_back(copy);
  copy.views[0].index = 1;
  copy.views[1].offset = 0; // z is another value
  v.steps.push_back(copy);
  Folder folder;
  write(folder / "a.mrcb", contents);
  Session session(folder / "a.mrcb");
  std::vector<float> x = randomValues(3 * 8 * 16, 5), y(x.size()), z(x.size()), again(x.size());
  int64_t number = 4;
  mrcc_tensor in[] = {Tensor("an odd name", &number, {}).get(), MRCC_TENSOR_INIT};
  Tensor image("x", x.data(), {1, 3, 8, 16}), first("y", y.data(), {1, 3, 8, 16}), other("z", z.data(), {1, 3, 8, 16}),
      second("y", again.data(), {1, 3, 8, 16});
  in[1] = image.get();
  for (auto order : {std::array{&first, &second, &other}, std::array{&other, &first, &second},
                     std::array{&first, &other, &second}}) {
    y.assign(y.size(), 0);
    z = again = y;
    mrcc_tensor out[] = {order[0]->get(), order[1]->get(), order[2]->get()};
    Outcome result = outcome([&](mrcc_error **e) { return mrcc_context_run(session.context, in, 2, out, 3, e); });
    CHECK(result.message == "");
    CHECK(y == expected(x, {8, 16}));
    CHECK(again == y);
    CHECK(z != y);
  }
}

TEST_CASE("nearest and smallest covering") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{64, 64}, {64, 128}, {128, 128}}));
  auto model = mrcc::Model::open((folder / "a.mrcb").c_str());
  REQUIRE(bool(model));
  float dummy;
  auto key = [&](mrcc::Result<uint32_t> number) { return number ? std::string(model->variant(*number).key) : ""; };
  auto tensor = [&](int64_t h, int64_t w) {
    const int64_t dims[] = {1, 3, h, w};
    return Tensor("x", &dummy, MRCC_F32, dims, 4);
  };
  CHECK(key(model->find({tensor(64, 128)})) == "x=1x3x64x128");
  CHECK(key(model->nearest({tensor(60, 70)})) == "x=1x3x64x64");
  CHECK(key(model->nearest({tensor(1000, 1000)})) == "x=1x3x128x128");
  CHECK(key(model->smallestCovering({tensor(60, 70)})) == "x=1x3x64x128");
  CHECK(key(model->smallestCovering({tensor(65, 1)})) == "x=1x3x128x128");
  CHECK(key(model->smallestCovering({tensor(64, 64)})) == "x=1x3x64x64");
  auto none = model->smallestCovering({tensor(129, 1)});
  CHECK(none.error().code() == MRCC_NO_VARIANT);
  CHECK(model->nearest({Tensor("x", &dummy, {1, 3, 64})}).error().code() == MRCC_WRONG_RANK);
  CHECK(model->nearest({}).error().code() == MRCC_MISSING_TENSOR);
}

TEST_CASE("the better target of equal shapes is taken, one that this CPU lacks never") {
  Options good, better, impossible;
  better.features = {"sse2"};
  better.targetName = "cpu:better";
  impossible.features = {"sse2", "avx9000"};
  impossible.targetName = "cpu:impossible";
  Contents a({{8, 16}}, good), b({{8, 16}, {8, 24}}, better), c({{8, 16}, {8, 32}}, impossible);
  mrcc::BundleContents all = a.contents;
  for (auto [contents, number] : {std::pair{&b, 1u}, std::pair{&c, 2u}}) {
    all.targets.push_back(contents->contents.targets[0]);
    for (auto v : contents->contents.variants) {
      v.target = number;
      all.variants.push_back(v);
    }
  }
  Folder folder;
  REQUIRE(!writeBundle(folder / "a.mrcb", all));
  auto model = mrcc::Model::open((folder / "a.mrcb").c_str());
  REQUIRE(bool(model));
  CHECK(model->numVariants() == 5);
  float dummy;
  auto found = model->find({Tensor("x", &dummy, {1, 3, 8, 16})});
  REQUIRE(bool(found));
  CHECK(std::string(model->variant(*found).target) == "cpu:better");
  auto miss = model->find({Tensor("x", &dummy, {1, 3, 8, 32})});
  CHECK(miss.error().code() == MRCC_NO_VARIANT);
  CHECK(!contains(miss.error().message(), "x=1x3x8x32;"));
  for (uint32_t i = 0; i < 5; ++i)
    if (!model->variant(i).supported) {
      mrcc::Error error = model->prepare(i);
      CHECK(error.code() == MRCC_UNSUPPORTED_CPU);
      CHECK(contains(error.message(), "avx9000"));
    }
  mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
  options.target = "cpu:test";
  auto limited = mrcc::Model::open((folder / "a.mrcb").c_str(), &options);
  REQUIRE(bool(limited));
  CHECK(limited->find({Tensor("x", &dummy, {1, 3, 8, 24})}).error().code() == MRCC_NO_VARIANT);
  options.target = "cpu:impossible";
  CHECK(mrcc::Model::open((folder / "a.mrcb").c_str(), &options).error().code() == MRCC_UNSUPPORTED_CPU);
  options.target = "cpu:none";
  CHECK(mrcc::Model::open((folder / "a.mrcb").c_str(), &options).error().code() == MRCC_INVALID_ARGUMENT);
}

TEST_CASE("handles and structs that are wrong") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{8, 16}}));
  const std::string path = folder / "a.mrcb";
  mrcc_model *model = nullptr;
  mrcc_context *context = nullptr;
  CHECK(mrcc_model_open(nullptr, nullptr, &model, nullptr) == MRCC_INVALID_ARGUMENT);
  CHECK(mrcc_model_open(path.c_str(), nullptr, nullptr, nullptr) == MRCC_INVALID_ARGUMENT);
  CHECK(mrcc_model_open_memory(nullptr, 5, nullptr, &model, nullptr) == MRCC_INVALID_ARGUMENT);
  CHECK(mrcc_context_create(nullptr, nullptr, &context, nullptr) == MRCC_INVALID_ARGUMENT);
  CHECK(mrcc_context_run(nullptr, nullptr, 0, nullptr, 0, nullptr) == MRCC_INVALID_ARGUMENT);
  CHECK(mrcc_model_prepare(nullptr, 0, nullptr) == MRCC_INVALID_ARGUMENT);
  mrcc_model_free(nullptr);
  mrcc_context_free(nullptr);
  mrcc_error_free(nullptr);
  CHECK(mrcc_error_code(nullptr) == MRCC_OK);
  mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
  options.struct_size = 2;
  CHECK(mrcc_model_open(path.c_str(), &options, &model, nullptr) == MRCC_INVALID_ARGUMENT);
  options.struct_size = offsetof(mrcc_model_options, target); // an older caller: no such field
  options.target = reinterpret_cast<const char *>(1);
  REQUIRE(mrcc_model_open(path.c_str(), &options, &model, nullptr) == MRCC_OK);
  struct {
    mrcc_variant_info info = MRCC_VARIANT_INFO_INIT;
    char later[64] = {1};
  } newer;
  newer.info.struct_size = sizeof newer; // a newer caller: fields that we do not know stay
  CHECK(mrcc_model_variant(model, 0, &newer.info, nullptr) == MRCC_OK);
  CHECK((newer.later[0] == 1 && newer.info.steps == 3));
  CHECK(mrcc_model_variant(model, 1, &newer.info, nullptr) == MRCC_INVALID_ARGUMENT);
  CHECK(mrcc_model_variant(model, 0, nullptr, nullptr) == MRCC_INVALID_ARGUMENT);
  mrcc_model_free(model);
}

TEST_CASE("the C++ interface counts a tensor's bytes by its element type") {
  auto bytes = [](mrcc_dtype dtype, std::vector<int64_t> dims) {
    char data = 0;
    return Tensor("x", &data, dtype, dims.data(), dims.size()).get().bytes;
  };
  for (mrcc_dtype dtype : {MRCC_F64, MRCC_I64, MRCC_U64})
    CHECK(bytes(dtype, {3, 5}) == 120);
  for (mrcc_dtype dtype : {MRCC_F32, MRCC_I32, MRCC_U32})
    CHECK(bytes(dtype, {3, 5}) == 60);
  for (mrcc_dtype dtype : {MRCC_F16, MRCC_BF16, MRCC_I16, MRCC_U16})
    CHECK(bytes(dtype, {3, 5}) == 30);
  for (mrcc_dtype dtype :
       {MRCC_I8, MRCC_U8, MRCC_BOOL, MRCC_F8E4M3FN, MRCC_F8E4M3FNUZ, MRCC_F8E5M2, MRCC_F8E5M2FNUZ, MRCC_F8E8M0})
    CHECK(bytes(dtype, {3, 5}) == 15);
  for (mrcc_dtype dtype : {MRCC_I4, MRCC_U4, MRCC_F4E2M1}) { // two a byte, the last byte is full or half full
    CHECK(bytes(dtype, {3, 5}) == 8);
    CHECK(bytes(dtype, {4, 4}) == 8);
    CHECK(bytes(dtype, {}) == 1);
  }
  for (mrcc_dtype dtype : {MRCC_I2, MRCC_U2}) { // four a byte
    CHECK(bytes(dtype, {3, 5}) == 4);
    CHECK(bytes(dtype, {4, 4}) == 4);
    CHECK(bytes(dtype, {1}) == 1);
  }
  CHECK(bytes(MRCC_F32, {3, 0}) == 0);
}

TEST_CASE("a tensor of more dims than the C++ interface holds is refused") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{4, 4}}));
  auto model = mrcc::Model::open((folder / "a.mrcb").c_str());
  REQUIRE(bool(model));
  std::vector<float> x(48);
  auto code = [&](const Tensor &t) { return model->find({t}).error().code(); };
  CHECK(code(Tensor("x", x.data(), {1, 1, 1, 1, 1, 3, 4, 4})) == MRCC_WRONG_RANK);
  CHECK(code(Tensor("x", x.data(), {1, 1, 1, 1, 1, 1, 3, 4, 4})) == MRCC_INVALID_ARGUMENT);
  const std::vector<int64_t> many(100, 1);
  CHECK(code(Tensor("x", x.data(), MRCC_F32, many.data(), many.size())) == MRCC_INVALID_ARGUMENT);
}

TEST_CASE("any number of tensors goes through the C++ interface") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{4, 4}}));
  auto model = mrcc::Model::open((folder / "a.mrcb").c_str());
  REQUIRE(bool(model));
  auto context = mrcc::Context::create(*model);
  REQUIRE(bool(context));
  std::vector<float> x = randomValues(48, 1), y(48);
  const std::vector<Tensor> in(40, Tensor("x", x.data(), {1, 3, 4, 4})), out = {Tensor("y", y.data(), {1, 3, 4, 4})};
  CHECK(context->run(in.data(), 40, out.data(), 1).code() == MRCC_UNKNOWN_TENSOR); // the same name again
  CHECK(!context->run(in.data(), 1, out.data(), 1));
  CHECK(y == expected(x, {4, 4}));
}
