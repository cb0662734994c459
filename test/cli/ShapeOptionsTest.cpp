// --size, --dim, --shape, --shapes-file on models described in memory: what they give and what every mistake says.
#include "mrcc/Driver/ShapeOptions.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <doctest/doctest.h>

using namespace mrcc;

namespace {
ModelTensor tensor(std::string name, std::vector<std::string> dims) {
  ModelTensor t;
  t.name = std::move(name);
  t.type = DType::f32;
  for (const std::string &d : dims) {
    bool number = !d.empty() && d.find_first_not_of("0123456789") == std::string::npos;
    t.dims.push_back(number ? std::stoll(d) : -1);
    t.symbols.push_back(number ? "" : d);
  }
  return t;
}

ModelInfo model(std::vector<ModelTensor> inputs) { return {"m", "", std::move(inputs), {}}; }

struct Answer {
  std::string keys, notes, error;
  bool usage = false;
};

Answer resolve(const ModelInfo &info, ShapeOptions options, std::set<std::string> bound = {}) {
  Answer answer;
  auto list = resolveShapes(info, bound, options);
  if (!list) {
    llvm::Error error = list.takeError();
    answer.usage = error.isA<UsageError>();
    answer.error = llvm::toString(std::move(error));
    return answer;
  }
  std::vector<std::string> names;
  for (auto &t : info.inputs)
    if (!bound.count(t.name))
      names.push_back(t.name);
  for (auto &v : list->variants)
    answer.keys += (answer.keys.empty() ? "" : " ") + variantKey(names, v);
  for (auto &n : list->notes)
    answer.notes += (answer.notes.empty() ? "" : "\n") + n;
  return answer;
}

std::string sizes(const ModelInfo &info, std::vector<std::string> s) { return resolve(info, {s, {}, {}, {}}).keys; }
std::string sizesError(const ModelInfo &info, std::vector<std::string> s) {
  return resolve(info, {s, {}, {}, {}}).error;
}
std::string shapesError(const ModelInfo &info, std::vector<std::string> s) {
  return resolve(info, {{}, {}, s, {}}).error;
}

const ModelInfo detector = model({tensor("x", {"", "3", "", ""})});
const ModelInfo named = model({tensor("image", {"N", "3", "H", "W"}), tensor("mask", {"N", "H", "W"})});

/// A file that lives as long as the object.
struct File {
  explicit File(llvm::StringRef text) {
    int fd;
    llvm::SmallString<128> p;
    REQUIRE(!llvm::sys::fs::createTemporaryFile("shapes", "txt", fd, p));
    llvm::raw_fd_ostream(fd, true) << text;
    path = p.str().str();
  }
  ~File() { llvm::sys::fs::remove(path); }
  std::string path;
};
std::string fileKeys(const ModelInfo &info, llvm::StringRef text) {
  File file(text);
  return resolve(info, {{}, {}, {}, file.path}).keys;
}
std::string fileError(const ModelInfo &info, llvm::StringRef text) {
  File file(text);
  std::string error = resolve(info, {{}, {}, {}, file.path}).error;
  return error.substr(0, file.path.size()) == file.path ? "FILE" + error.substr(file.path.size()) : error;
}
} // namespace

TEST_CASE("--size binds height and width, batch is 1") {
  CHECK(sizes(detector, {"480x640,640x736"}) == "x=1x3x480x640 x=1x3x640x736");
  CHECK(sizes(detector, {"480x640", "32x64"}) == "x=1x3x480x640 x=1x3x32x64");
  CHECK(sizes(named, {"480x640"}) == "image=1x3x480x640;mask=1x480x640"); // symbols reach the other input
  CHECK(sizes(model({tensor("x", {"N", "H", "W", "3"})}), {"8x16"}) == "x=1x8x16x3");
  CHECK(sizes(model({tensor("x", {"1", "224", "224", "3"})}), {"8x16"}) == "x=1x8x16x3");
  CHECK(sizes(model({tensor("s", {"b", "4", "h", "w"}), tensor("t", {"1"}), tensor("e", {"b", "77", "256"})}),
              {"8x16"}) == "s=1x4x8x16;t=1;e=1x77x256");
}

TEST_CASE("fixed dimensions are overridden (the importer notes it)") {
  CHECK(sizes(model({tensor("x", {"4", "3", "224", "224"})}), {"480x640,224x224"}) == "x=1x3x480x640 x=1x3x224x224");
}

TEST_CASE("--dim: product of its values, with and without --size") {
  CHECK(resolve(named, {{"8x16"}, {"N=1,2"}, {}, {}}).keys == "image=1x3x8x16;mask=1x8x16 image=2x3x8x16;mask=2x8x16");
  CHECK(resolve(named, {{}, {"N=1", "H=8,9", "W=4,5"}, {}, {}}).keys ==
        "image=1x3x8x4;mask=1x8x4 image=1x3x8x5;mask=1x8x5 image=1x3x9x4;mask=1x9x4 image=1x3x9x5;mask=1x9x5");
  CHECK(resolve(model({tensor("x", {"a b", "3"})}), {{}, {"\"a b\"=7"}, {}, {}}).keys == "x=7x3");
  CHECK(resolve(named, {{}, {"N=1", "N=2", "H=8", "W=4"}, {}, {}}).keys ==
        "image=1x3x8x4;mask=1x8x4 image=2x3x8x4;mask=2x8x4");
}

TEST_CASE("--dim: mistakes") {
  CHECK(resolve(named, {{}, {"K=1"}, {}, {}}).error ==
        "--dim: the model's inputs have no dimension 'K'; those that have a name are 'N', 'H' and 'W'");
  CHECK(resolve(named, {{}, {"N=1"}, {}, {}}).error ==
        "dimension 2 ('H') of input 'image' is open and no option gives it ('image': Nx3xHxW, 'mask': NxHxW); write "
        "--dim H=N "
        "or --shape 'image=1x3xHxW;mask=1xHxW' with numbers in place of the open dimensions");
  CHECK(resolve(named, {{"8x16"}, {"H=9"}, {}, {}}).error ==
        "dimension 'H' of input 'image' is given two values: 9 and, as the height of --size, 8");
  CHECK(resolve(named, {{}, {"N=0"}, {}, {}}).error == "--dim 'N=0': column 3: a dimension must be 1 or more, got 0");
  CHECK(resolve(named, {{}, {"N"}, {}, {}}).error ==
        "--dim 'N': column 2: expected '=' after the dimension's name, got the end");
  CHECK(resolve(named, {{}, {"N=1;2"}, {}, {}}).error == "--dim 'N=1;2': column 4: expected ',' or the end, got ';'");
  CHECK(resolve(named, {{}, {"N=1"}, {}, {}}).usage);
}

TEST_CASE("--size: mistakes show their column") {
  CHECK(sizesError(detector, {"480"}) == "--size '480': column 4: expected 'x' between height and width, got the end");
  CHECK(sizesError(detector, {"480x"}) == "--size '480x': column 5: expected a dimension, got the end");
  CHECK(sizesError(detector, {"480x64O"}) == "--size '480x64O': column 7: expected ',' or the end after HxW, got 'O'");
  CHECK(sizesError(detector, {"480\u00d7640"}) ==
        "--size '480\u00d7640': column 4: expected 'x' between height and width, got '\u00d7'");
  CHECK(sizesError(detector, {"0x640"}) == "--size '0x640': column 1: a dimension must be 1 or more, got 0");
  CHECK(sizesError(detector, {"480x-1"}) == "--size '480x-1': column 5: a dimension must be 1 or more, got -1");
  CHECK(sizesError(detector, {"480x99999999999999999999"}) ==
        "--size '480x99999999999999999999': column 5: the dimension 99999999999999999999 is too large");
}

TEST_CASE("--size: what is ambiguous is said, with the --shape to write") {
  CHECK(sizesError(model({tensor("a", {"1", "3", "", ""}), tensor("b", {"1", "1", "", ""})}), {"8x16"}) ==
        "--size: which image is meant is ambiguous, the model has 2: 'a' and 'b'; write --shape 'a=1x3x?x?;b=1x1x?x?' "
        "with "
        "numbers in place of the open dimensions");
  CHECK(
      sizesError(model({tensor("x", {"", "", "", ""})}), {"8x16"}) ==
      "--size: which dimension of input 'x' holds the channels is ambiguous, the model leaves all open; write --shape "
      "'x=1x?x8x16' with numbers in place of the open dimensions");
  CHECK(sizesError(model({tensor("x", {"1", "8", "8", "8"})}), {"8x16"}) ==
        "--size: whether input 'x' ('x': 1x8x8x8) has its channels first or last is ambiguous; write --shape "
        "'x=1x8x8x16' or "
        "--shape 'x=1x8x16x8'");
  CHECK(sizesError(model({tensor("x", {"1", "77"})}), {"8x16"}) ==
        "--size: the model has no image input, one of 4 dimensions ('x': 1x77); write --shape 'x=1x77'");
  CHECK(sizesError(model({tensor("x", {"", "3", "", ""}), tensor("t", {"1", "n"})}), {"8x16"}) ==
        "dimension 1 ('n') of input 't' is open and no option gives it ('x': ?x3x?x?, 't': 1xn); write --dim n=N or "
        "--shape "
        "'x=1x3x8x16;t=1xn' with numbers in place of the open dimensions");
}

TEST_CASE("--shape: names with and without quotes, scalars, any order") {
  CHECK(resolve(named, {{}, {}, {"mask=1x8x16;image=1x3x8x16", "image=2x3x4x4; mask=2x4x4;"}, {}}).keys ==
        "image=1x3x8x16;mask=1x8x16 image=2x3x4x4;mask=2x4x4");
  for (const char *name : {"onnx::Conv_1", "images.1", "a/b:0"})
    CHECK(resolve(model({tensor(name, {""})}), {{}, {}, {std::string(name) + "=3"}, {}}).keys ==
          std::string(name) + "=3");
  CHECK(resolve(model({tensor("a b", {""})}), {{}, {}, {"\"a b\"=3"}, {}}).keys == "\"a b\"=3");
  CHECK(resolve(model({tensor("a\"=;\\", {""})}), {{}, {}, {"\"a\\\"=;\\\\\"=3"}, {}}).keys == "\"a\\\"=;\\\\\"=3");
  CHECK(resolve(model({tensor("\u753b\u50cf", {""})}), {{}, {}, {"\u753b\u50cf=3"}, {}}).keys == "\u753b\u50cf=3");
  CHECK(resolve(model({tensor("t", {}), tensor("x", {""})}), {{}, {}, {"t=scalar;x=2"}, {}}).keys == "t=scalar;x=2");
  ModelTensor unranked;
  unranked.name = "u";
  unranked.ranked = false;
  CHECK(resolve(model({unranked}), {{}, {}, {"u=2x3"}, {}}).keys == "u=2x3");
}

TEST_CASE("--shape: mistakes") {
  CHECK(shapesError(detector, {"input=1x3x64x64"}) ==
        "--shape 'input=1x3x64x64': the model has no input 'input'; its inputs are 'x'");
  CHECK(shapesError(named, {"image=1x3x8x8"}) ==
        "--shape 'image=1x3x8x8': no shape for 'mask'; the model's inputs are 'image': Nx3xHxW, 'mask': NxHxW");
  CHECK(shapesError(detector, {"x=1x3x64"}) == "--shape 'x=1x3x64': input 'x' has 4 dimensions ('x': ?x3x?x?), got 3");
  CHECK(shapesError(detector, {"x=scalar"}) == "--shape 'x=scalar': input 'x' has 4 dimensions ('x': ?x3x?x?), got 0");
  CHECK(shapesError(detector, {"x=1x3x0x64"}) ==
        "--shape 'x=1x3x0x64': column 7: a dimension must be 1 or more, got 0");
  CHECK(shapesError(detector, {"x=1x3x64x-64"}) ==
        "--shape 'x=1x3x64x-64': column 10: a dimension must be 1 or more, got -64");
  CHECK(shapesError(detector, {"x=1x3x48Ox640"}) ==
        "--shape 'x=1x3x48Ox640': column 9: expected 'x', ';' or the end, got 'O'");
  CHECK(shapesError(detector, {"x 1x3"}) == "--shape 'x 1x3': column 2: expected '=' after the input's name, got ' '");
  CHECK(shapesError(detector, {"=1x3"}) == "--shape '=1x3': column 1: expected an input's name, got '='");
  CHECK(shapesError(detector, {""}) == "--shape '': column 1: expected an input's name, got the end");
  CHECK(shapesError(detector, {"\"x=1"}) == "--shape '\"x=1': column 1: the quote is not closed");
  CHECK(shapesError(detector, {"x=1x3x8x8;x=1x3x8x8"}) ==
        "--shape 'x=1x3x8x8;x=1x3x8x8': column 12: input 'x' is named twice");
  CHECK(shapesError(model({tensor("\u753b", {""})}), {"\u753b=\u753b"}) ==
        "--shape '\u753b=\u753b': column 3: expected a dimension, got '\u753b'");
  CHECK(resolve(detector, {{}, {}, {"input=1"}, {}}).usage);
}

TEST_CASE("one symbol has one value") {
  CHECK(
      shapesError(named, {"image=1x3x8x16;mask=1x9x16"}) ==
      "--shape 'image=1x3x8x16;mask=1x9x16': dimension 'H' is given two values: 8 (dimension 2 of input 'image') and 9 "
      "(dimension 1 of input 'mask')");
}

TEST_CASE("equal variants are merged with one note that names the shape") {
  Answer a = resolve(detector, {{"8x16,8x16"}, {}, {"x=1x3x8x16", "x=2x3x8x16"}, {}});
  CHECK(a.keys == "x=1x3x8x16 x=2x3x8x16");
  CHECK(a.notes == "shape x=1x3x8x16 is given 3 times; one is compiled");
}

TEST_CASE("no option: a model without open dimensions has one variant") {
  CHECK(resolve(model({tensor("x", {"1", "3"}), tensor("t", {})}), {}).keys == "x=1x3;t=scalar");
  CHECK(resolve(detector, {}).error == "no resolutions are named and the model leaves dimensions open ('x': ?x3x?x?): "
                                       "use --size, --dim, --shapes-file or "
                                       "--shape 'x=1x3x?x?' with numbers in place of the open dimensions");
}

TEST_CASE("inputs that are bound to constants are no inputs") {
  const ModelInfo info = model({tensor("x", {"n"}), tensor("sr", {})});
  CHECK(resolve(info, {{}, {"n=4"}, {}, {}}, {"sr"}).keys == "x=4");
  CHECK(resolve(info, {{}, {}, {"x=4;sr=scalar"}, {}}, {"sr"}).error ==
        "--shape 'x=4;sr=scalar': the model has no input 'sr'; its inputs are 'x'");
  CHECK(resolve(info, {}, {"rate"}).error == "--bind: the model has no input 'rate'; its inputs are 'x' and 'sr'");
}

TEST_CASE("shapes file: lines with comments") {
  CHECK(fileKeys(detector, "# sizes\nx=1x3x8x16\n\n  x=1x3x4x4  # small\r\n") == "x=1x3x8x16 x=1x3x4x4");
  CHECK(fileKeys(model({tensor("a#b", {""}), tensor("c #", {""})}), "a#b=3;\"c #\"=4 #x\n") == "a#b=3;\"c #\"=4");
  CHECK(fileKeys(detector, "\xEF\xBB\xBFx=1x3x8x16") == "x=1x3x8x16");
  CHECK(fileError(detector, "x=1x3x8x16\n\nx=1x3xy\n") == "FILE:3:7: expected a dimension, got 'y'");
  CHECK(fileError(detector, "x=1x3x8x16\ny=1\n") == "FILE:2: the model has no input 'y'; its inputs are 'x'");
  CHECK(fileError(detector, "# nothing\n").substr(0, 13) == "--shapes-file");
}

TEST_CASE("shapes file: JSON") {
  CHECK(fileKeys(detector, "[{\"x\": [1, 3, 8, 16]}, {\"x\": [1,3,4,4]}]") == "x=1x3x8x16 x=1x3x4x4");
  CHECK(fileKeys(model({tensor("t", {}), tensor("x", {""})}), "[{\"x\": [2], \"t\": []}]") == "t=scalar;x=2");
  CHECK(fileError(detector, "[{\"x\": [1, 3, 8, 16]}").substr(0, 5) == "FILE:");
  CHECK(fileError(detector, "{\"x\": [1]}") == "FILE: the JSON must be a list of objects, name -> list of dimensions");
  CHECK(fileError(detector, "[[1]]") == "FILE: entry 1 is not an object, name -> list of dimensions");
  CHECK(fileError(detector, "[{\"x\": 3}]") == "FILE: entry 1: 'x' is not a list of dimensions");
  CHECK(fileError(detector, "[{\"x\": [1, 3, 8, 0]}]") ==
        "FILE: entry 1: 'x': a dimension must be a whole number of 1 or more");
  CHECK(fileError(detector, "[{\"x\": [1, 3, 8, 1.5]}]") ==
        "FILE: entry 1: 'x': a dimension must be a whole number of 1 or more");
  CHECK(fileError(detector, "[{\"y\": [1]}]") == "FILE: entry 1: the model has no input 'y'; its inputs are 'x'");
  CHECK(fileError(detector, std::string(100000, '[')) ==
        "FILE: the JSON nests too deep; a list of objects, name -> list of dimensions, is expected");
}

TEST_CASE("a shapes file that is not there is no usage error") {
  Answer a = resolve(detector, {{}, {}, {}, "/nonexistent/shapes"});
  CHECK(a.error == "--shapes-file /nonexistent/shapes: No such file or directory");
  CHECK(!a.usage);
}

TEST_CASE("NAME=FILE") {
  auto good = parseAssignment("--input", "x=a=b.npy");
  REQUIRE(bool(good));
  CHECK(good->first == "x");
  CHECK(good->second == "a=b.npy");
  auto quoted = parseAssignment("--input", "\"a b\"=c d.npy");
  REQUIRE(bool(quoted));
  CHECK(quoted->first == "a b");
  CHECK(quoted->second == "c d.npy");
  for (auto [text, message] : {std::pair("x", "--input 'x': column 2: expected '=' after the name, got the end"),
                               std::pair("x=", "--input 'x=': column 3: expected a file, got the end"),
                               std::pair("=f", "--input '=f': column 1: expected a name, got '='")}) {
    auto bad = parseAssignment("--input", text);
    REQUIRE(!bad);
    CHECK(llvm::toString(bad.takeError()) == message);
  }
}
