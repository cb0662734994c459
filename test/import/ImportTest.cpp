// What the importer refuses, and how it says so; binds, external data, damaged bytes. Models are built as messages.
#include MRCC_ONNX_HEADER
#include "mrcc/Import/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mrcc/IR/Mrc.h"
#include "mrcc/Support/Sha256.h"
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

using namespace mrcc;
using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;
namespace fs = std::filesystem;

static void fill(ValueInfoProto &value, const std::string &name, int type, std::vector<int64_t> dims) {
  value.set_name(name);
  auto *tensor = value.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (int64_t d : dims)
    tensor->mutable_shape()->add_dim()->set_dim_value(d);
}

static NodeProto &addNode(GraphProto &graph, const std::string &op, std::vector<std::string> inputs,
                          std::vector<std::string> outputs) {
  NodeProto &node = *graph.add_node();
  node.set_op_type(op);
  for (auto &name : inputs)
    node.add_input(name);
  for (auto &name : outputs)
    node.add_output(name);
  return node;
}

static TensorProto &addInitializer(GraphProto &graph, const std::string &name, std::vector<int64_t> dims,
                                   std::vector<float> values) {
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  for (int64_t d : dims)
    tensor.add_dims(d);
  for (float v : values)
    tensor.add_float_data(v);
  return tensor;
}

static void setInts(NodeProto &node, const std::string &name, std::vector<int64_t> values) {
  AttributeProto &a = *node.add_attribute();
  a.set_name(name);
  a.set_type(AttributeProto::INTS);
  for (int64_t v : values)
    a.add_ints(v);
}

static void setInt(NodeProto &node, const std::string &name, int64_t value) {
  AttributeProto &a = *node.add_attribute();
  a.set_name(name);
  a.set_type(AttributeProto::INT);
  a.set_i(value);
}

/// y = x + w for x, w of 2x3.
static ModelProto goodModel() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  GraphProto &graph = *model.mutable_graph();
  fill(*graph.add_input(), "x", TensorProto::FLOAT, {2, 3});
  fill(*graph.add_output(), "y", TensorProto::FLOAT, {2, 3});
  addInitializer(graph, "w", {2, 3}, {1, 2, 3, 4, 5, 6});
  addNode(graph, "Add", {"x", "w"}, {"y"});
  return model;
}

static std::string bytesOf(const ModelProto &model) { return model.SerializePartialAsString(); }

struct Outcome {
  std::string error; // "" where the import succeeded
  int kind = -1;
};

static Outcome importBytes(const std::string &bytes, const ImportOptions &options = {}, const std::string &folder = ".",
                           const std::function<void(mlir::ModuleOp)> &look = {}) {
  Outcome outcome;
  auto fail = [&](llvm::Error error) {
    llvm::handleAllErrors(std::move(error), [&](const ImportError &e) { outcome = {e.message, e.kind}; });
    return outcome;
  };
  auto model = readModel({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, folder, "test");
  if (!model)
    return fail(model.takeError());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<std::string> notes;
  auto module = importModel(**model, context, options, notes);
  if (!module)
    return fail(module.takeError());
  if (look)
    look(**module);
  return outcome;
}

static bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

TEST_CASE("SHA-256 of the standard's examples, both ways") {
  auto hash = [](const std::string &text, size_t piece, bool portable) {
    Sha256 sha(portable);
    for (size_t i = 0; i < text.size(); i += piece)
      sha.update({reinterpret_cast<const uint8_t *>(text.data()) + i, std::min(piece, text.size() - i)});
    return sha.hex();
  };
  for (bool portable : {false, true}) {
    CHECK(hash("", 1, portable) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(hash("abc", 1, portable) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 7, portable) ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(hash(std::string(1000000, 'a'), 999, portable) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST_CASE("a good model") {
  ModelProto model = goodModel();
  Outcome outcome = importBytes(bytesOf(model), {}, ".", [](mlir::ModuleOp module) {
    ModelInfo info = modelInfo(module);
    CHECK(info.name == "test");
    CHECK(info.sha256.size() == 64);
    REQUIRE(info.inputs.size() == 1);
    CHECK(info.inputs[0].name == "x");
    CHECK(toString(info.inputs[0].type).str() == "f32");
    CHECK(info.inputs[0].dims == std::vector<int64_t>{2, 3});
    REQUIRE(info.outputs.size() == 1);
    CHECK(info.outputs[0].name == "y");
    CHECK(info.outputs[0].dims == std::vector<int64_t>{2, 3});
  });
  CHECK(outcome.error == "");
}

TEST_CASE("broken models say what is wrong") {
  struct Case {
    const char *expected;
    std::function<void(ModelProto &)> breakIt;
    int kind = ImportError::invalid;
  };
  auto node = [](ModelProto &m) -> NodeProto & { return *m.mutable_graph()->mutable_node(0); };
  auto weights = [](ModelProto &m) -> TensorProto & { return *m.mutable_graph()->mutable_initializer(0); };
  auto addIndexed = [](ModelProto &m, const std::string &op, std::vector<int64_t> dims, std::vector<int64_t> indices,
                       const std::string &attribute, int64_t value) -> NodeProto & {
    TensorProto &at = *m.mutable_graph()->add_initializer();
    at.set_name("at");
    at.set_data_type(TensorProto::INT64);
    for (int64_t d : dims)
      at.add_dims(d);
    for (int64_t i : indices)
      at.add_int64_data(i);
    NodeProto &n = addNode(*m.mutable_graph(), op, {"y", "at"}, {"z"});
    setInt(n, attribute, value);
    m.mutable_graph()->mutable_output(0)->set_name("z");
    return n;
  };
  const std::vector<Case> cases{
      {"it has no graph", [](ModelProto &m) { m.clear_graph(); }},
      {"imports no opset; the file is cut", [](ModelProto &m) { m.clear_opset_import(); }},
      {"uses opset 99, the newest that is known here is",
       [](ModelProto &m) { m.mutable_opset_import(0)->set_version(99); }, ImportError::unsupported},
      {"domain '' is imported with opset 17 and with 18", [](ModelProto &m) { m.add_opset_import()->set_version(18); }},
      {"the graph has no outputs", [](ModelProto &m) { m.mutable_graph()->clear_output(); }},
      {"output 'z' is made by no node", [](ModelProto &m) { m.mutable_graph()->mutable_output(0)->set_name("z"); }},
      {"node 'Add_0' (Add): its input 'v' is made by no node", [&](ModelProto &m) { node(m).set_input(0, "v"); }},
      {"node 'Add_0' (Add): input 1 is missing", [&](ModelProto &m) { node(m).mutable_input()->RemoveLast(); }},
      {"value 'y' is produced twice: by node 'Add_0' and by node 'Add_1'",
       [](ModelProto &m) { addNode(*m.mutable_graph(), "Add", {"x", "w"}, {"y"}); }},
      {"the graph has a cycle: 2 nodes are in it or wait for it, the first is 'Exp_1'",
       [](ModelProto &m) {
         addNode(*m.mutable_graph(), "Exp", {"b"}, {"a"});
         addNode(*m.mutable_graph(), "Exp", {"a"}, {"b"});
       }},
      {"the graph has a cycle: 1 node is in it or waits for it, the first is 'Exp_1'",
       [](ModelProto &m) { addNode(*m.mutable_graph(), "Exp", {"a"}, {"a"}); }},
      {"value 'x' of node 'Add_0' has the name of an input",
       [&](ModelProto &m) {
         node(m).set_output(0, "x");
         m.mutable_graph()->mutable_output(0)->set_name("x");
       }},
      {"node 'Add_0' (Add): it has 3 inputs, the op has at most 2", [&](ModelProto &m) { node(m).add_input("x"); }},
      {"node 'Exp_1' (Exp): it has no output", [](ModelProto &m) { addNode(*m.mutable_graph(), "Exp", {"x"}, {}); }},
      {"node 'Flatten_1' (Flatten): attribute 'axis' is there twice",
       [](ModelProto &m) {
         NodeProto &n = addNode(*m.mutable_graph(), "Flatten", {"y"}, {"z"});
         setInt(n, "axis", 0);
         setInt(n, "axis", 1);
       }},
      {"node 'Gather_1' (Gather): index 3 is out of range, axis 1 has 3 elements",
       [&](ModelProto &m) { addIndexed(m, "Gather", {2}, {0, 3}, "axis", 1); }},
      {"node 'Gather_1' (Gather): index -4 is out of range, axis 1 has 3 elements",
       [&](ModelProto &m) { addIndexed(m, "Gather", {2}, {-3, -4}, "axis", 1); }},
      {"node 'GatherElements_1' (GatherElements): index -3 is out of range, axis 0 has 2 elements",
       [&](ModelProto &m) { addIndexed(m, "GatherElements", {1, 2}, {-2, -3}, "axis", 0); }},
      {"node 'GatherND_1' (GatherND): index 3 is out of range, axis 1 has 3 elements",
       [&](ModelProto &m) { addIndexed(m, "GatherND", {2, 2}, {1, 2, 0, 3}, "batch_dims", 0); }},
      {"node 'OneHot_1' (OneHot): depth is -3, expected 0 or more",
       [&](ModelProto &m) { addIndexed(m, "OneHot", {}, {-3}, "axis", -1).add_input("w"); }},
      {"node 'MaxPool_1' (MaxPool): pads is -1, expected 0 to 2147483647",
       [](ModelProto &m) {
         fill(*m.mutable_graph()->add_input(), "image", TensorProto::FLOAT, {1, 1, 4, 4});
         NodeProto &pool = addNode(*m.mutable_graph(), "MaxPool", {"image"}, {"z"});
         setInts(pool, "kernel_shape", {2, 2});
         setInts(pool, "pads", {0, -1, 0, 0});
         m.mutable_graph()->mutable_output(0)->set_name("z");
       }},
      {"value 'w' of node 'Add_0' has the name of an input",
       [&](ModelProto &m) {
         node(m).set_input(1, "x");
         node(m).set_output(0, "w");
         m.mutable_graph()->mutable_output(0)->set_name("w");
       }},
      {"input 'x' is there twice", [](ModelProto &m) { *m.mutable_graph()->add_input() = m.graph().input(0); }},
      {"initialiser 'w' is there twice",
       [](ModelProto &m) { *m.mutable_graph()->add_initializer() = m.graph().initializer(0); }},
      {"input 'x' is a tensor of string",
       [](ModelProto &m) { fill(*m.mutable_graph()->mutable_input(0), "x", TensorProto::STRING, {2}); },
       ImportError::unsupported},
      {"input 'x' has no type, only tensors are supported",
       [](ModelProto &m) { m.mutable_graph()->mutable_input(0)->clear_type(); }, ImportError::unsupported},
      {"input 'x' is a sequence, only tensors are supported",
       [](ModelProto &m) { m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_sequence_type(); },
       ImportError::unsupported},
      {"input 'x' has no shape in the model",
       [](ModelProto &m) {
         m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
       }},
      {"is too large",
       [](ModelProto &m) {
         fill(*m.mutable_graph()->mutable_input(0), "x", TensorProto::FLOAT, {int64_t(1) << 40, int64_t(1) << 40});
       }},
      {"tensor 'w' holds 20 bytes, 2x3 of float needs 24",
       [&](ModelProto &m) { weights(m).mutable_float_data()->RemoveLast(); }},
      {"tensor 'w' holds 7 bytes, 2x3 of float needs 24", [&](ModelProto &m) { weights(m).set_raw_data("1234567"); }},
      {"tensor 'w' has impossible dims -2x3", [&](ModelProto &m) { weights(m).set_dims(0, -2); }},
      {"tensor 'w' has impossible dims",
       [&](ModelProto &m) {
         weights(m).set_dims(0, int64_t(1) << 62);
         weights(m).set_dims(1, 8);
       }},
      {"has 100 dimensions, more than",
       [&](ModelProto &m) {
         for (int i = 2; i < 100; ++i)
           weights(m).add_dims(1);
       }},
      {"2x3 and 2x4",
       [&](ModelProto &m) {
         weights(m).set_dims(1, 4);
         weights(m).add_float_data(7);
         weights(m).add_float_data(8);
       }},
      {"attribute 'axis' is not an integer",
       [](ModelProto &m) {
         NodeProto &n = addNode(*m.mutable_graph(), "Gather", {"x", "x"}, {"z"});
         setInts(n, "axis", {1});
         m.mutable_graph()->mutable_output(0)->set_name("z");
       }},
      {"axis 5 is outside a tensor of rank 2",
       [](ModelProto &m) {
         NodeProto &n = addNode(*m.mutable_graph(), "ReduceMax", {"y"}, {"z"});
         setInts(n, "axes", {5});
         m.mutable_graph()->mutable_output(0)->set_name("z");
       }},
      {"perm is not a permutation of 2 dimensions",
       [](ModelProto &m) {
         NodeProto &n = addNode(*m.mutable_graph(), "Transpose", {"y"}, {"z"});
         setInts(n, "perm", {0, 0});
         m.mutable_graph()->mutable_output(0)->set_name("z");
       }},
      {"its data have rank 2, at least 3 is needed",
       [](ModelProto &m) {
         addNode(*m.mutable_graph(), "Conv", {"y", "w"}, {"z"});
         m.mutable_graph()->mutable_output(0)->set_name("z");
       }},
      {"nested deeper than",
       [](ModelProto &m) { // a function that calls itself
         auto &f = *m.add_functions();
         f.set_domain("my");
         f.set_name("F");
         f.add_input("x");
         f.add_output("y");
         for (NodeProto *n : {f.add_node(), m.mutable_graph()->add_node()}) {
           n->set_op_type("F");
           n->set_domain("my");
           n->add_input("x");
           n->add_output(n == &f.node(0) ? "y" : "z");
         }
         m.mutable_graph()->mutable_output(0)->set_name("z");
       }},
      {"node 'BitCast_1' (BitCast): it reinterprets elements of 32 bits as 64",
       [](ModelProto &m) {
         NodeProto &n = addNode(*m.mutable_graph(), "BitCast", {"y"}, {"z"});
         setInt(n, "to", TensorProto::INT64);
         m.mutable_graph()->mutable_output(0)->set_name("z");
         m.mutable_opset_import(0)->set_version(26);
       }},
      {"node 'Cast_1' (Cast): round_mode is 'sideways', expected up, down or nearest",
       [](ModelProto &m) {
         NodeProto &n = addNode(*m.mutable_graph(), "Cast", {"y"}, {"z"});
         setInt(n, "to", TensorProto::FLOAT8E8M0);
         AttributeProto &mode = *n.add_attribute();
         mode.set_name("round_mode");
         mode.set_type(AttributeProto::STRING);
         mode.set_s("sideways");
         m.mutable_graph()->mutable_output(0)->set_name("z");
         m.mutable_opset_import(0)->set_version(25);
       }},
      {"more than 1048576 nodes",
       [](ModelProto &m) { // functions that call the next one twice, 40 deep
         for (int i = 0; i < 40; ++i) {
           auto &f = *m.add_functions();
           f.set_domain("my");
           f.set_name("F" + std::to_string(i));
           f.add_input("x");
           f.add_output("y");
           for (int k = 0; k < 2; ++k) {
             NodeProto &n = *f.add_node();
             n.set_op_type(i == 39 ? "Identity" : "F" + std::to_string(i + 1));
             n.set_domain(i == 39 ? "" : "my");
             n.add_input(k ? "t" : "x");
             n.add_output(k ? "y" : "t");
           }
         }
         NodeProto &n = addNode(*m.mutable_graph(), "F0", {"x"}, {"z"});
         n.set_domain("my");
         m.mutable_graph()->mutable_output(0)->set_name("z");
       },
       ImportError::unsupported},
  };
  for (const Case &c : cases) {
    ModelProto model = goodModel();
    c.breakIt(model);
    Outcome outcome = importBytes(bytesOf(model));
    INFO("expected: ", c.expected);
    INFO("got: ", outcome.error);
    CHECK(contains(outcome.error, c.expected));
    CHECK(outcome.kind == c.kind);
  }
}

TEST_CASE("8-bit floats are moved and cast, not computed with") {
  for (int type :
       {TensorProto::FLOAT8E4M3FN, TensorProto::FLOAT8E4M3FNUZ, TensorProto::FLOAT8E5M2, TensorProto::FLOAT8E5M2FNUZ})
    for (const char *op : {"Relu", "Abs", "Neg", "Add", "Equal", "Identity", "Flatten"}) {
      ModelProto model = goodModel();
      GraphProto &graph = *model.mutable_graph();
      model.mutable_opset_import(0)->set_version(21);
      fill(*graph.mutable_input(0), "x", type, {2, 3});
      graph.clear_node();
      const bool two = op == std::string("Add") || op == std::string("Equal"), moves = op[0] == 'I' || op[0] == 'F';
      addNode(graph, op, two ? std::vector<std::string>{"x", "x"} : std::vector<std::string>{"x"}, {"y"}).set_name("n");
      Outcome outcome = importBytes(bytesOf(model));
      INFO(op, " of type ", type, ": ", outcome.error);
      CHECK(outcome.kind == (moves ? -1 : int(ImportError::unsupported)));
      CHECK(contains(outcome.error, moves ? "" : "'n'"));
      CHECK(contains(outcome.error, moves ? "" : "such tensors can only be moved and cast"));
    }
}

TEST_CASE("unknown attributes are noted, long names shortened") {
  ModelProto model = goodModel();
  setInt(*model.mutable_graph()->mutable_node(0), "frobnicate", 1);
  std::string bytes = bytesOf(model);
  auto read = readModel({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, ".", "test");
  REQUIRE(bool(read));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<std::string> notes;
  REQUIRE(bool(importModel(**read, context, {}, notes)));
  CHECK(notes == std::vector<std::string>{"node 'Add_0' (Add): attribute 'frobnicate' is unknown and ignored"});

  model = goodModel();
  model.mutable_graph()->mutable_node(0)->set_name("begin" + std::string(5000, 'n') + "end");
  model.mutable_graph()->mutable_node(0)->set_input(0, "v");
  std::string error = importBytes(bytesOf(model)).error;
  CHECK(contains(error, "node 'begin"));
  CHECK(contains(error, "..."));
  CHECK(contains(error, "end' (Add): its input 'v' is made by no node"));
  CHECK(error.size() < 300);
}

TEST_CASE("files that are no models") {
  CHECK(contains(importBytes("").error, "empty"));
  CHECK(contains(importBytes(std::string(1000, 'x')).error, "not an ONNX model"));
  auto path = [](const std::string &p) {
    auto model = readModel(p);
    REQUIRE(!model);
    return llvm::toString(model.takeError());
  };
  CHECK(contains(path("/no/such/model.onnx"), "/no/such/model.onnx: "));
  CHECK(contains(path("/"), "not a regular file"));
}

TEST_CASE("any cut and any flipped bit give an answer") {
  ModelProto model = goodModel();
  addInitializer(*model.mutable_graph(), "k", {1, 1, 2, 2}, {1, 2, 3, 4});
  addNode(*model.mutable_graph(), "Unsqueeze", {"y", "axes"}, {"u"});
  addNode(*model.mutable_graph(), "Conv", {"u", "k"}, {"z"});
  TensorProto &axes = *model.mutable_graph()->add_initializer();
  axes.set_name("axes");
  axes.set_data_type(TensorProto::INT64);
  axes.add_dims(2);
  axes.add_int64_data(0);
  axes.add_int64_data(1);
  model.mutable_graph()->mutable_output(0)->set_name("z");
  std::string bytes = bytesOf(model);
  CHECK(importBytes(bytes).error == "");
  for (size_t n = 0; n < bytes.size(); ++n) {
    INFO("cut at ", n);
    CHECK(importBytes(bytes.substr(0, n)).error != "");
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    for (int k = 0; k <= i % 3; ++k)
      damaged[random() % damaged.size()] ^= char(1 << random() % 8);
    importBytes(damaged); // no crash; many are still valid
  }
}

TEST_CASE("binds make constants of inputs") {
  std::string bytes = bytesOf(goodModel());
  TensorData value{DType::f32, {2, 3}, std::vector<uint8_t>(24)};
  ImportOptions options;
  options.binds["x"] = value;
  Outcome outcome =
      importBytes(bytes, options, ".", [](mlir::ModuleOp module) { CHECK(modelInfo(module).inputs.empty()); });
  CHECK(outcome.error == "");
  options.binds["x"].dims = {3, 2};
  CHECK(contains(importBytes(bytes, options).error, "input 'x' has dims 2x3, the value given for it 3x2"));
  options.binds["x"].type = DType::i32;
  CHECK(contains(importBytes(bytes, options).error, "input 'x' is f32, the value given for it is i32"));
  options.binds.clear();
  options.binds["q"] = value;
  CHECK(contains(importBytes(bytes, options).error, "the model has no input 'q'; its inputs are 'x'"));
}

TEST_CASE("sparse initialisers arrive dense") {
  ModelProto model = goodModel();
  model.mutable_graph()->clear_initializer();
  auto &sparse = *model.mutable_graph()->add_sparse_initializer();
  sparse.add_dims(2);
  sparse.add_dims(3);
  auto &values = *sparse.mutable_values();
  values.set_name("w");
  values.set_data_type(TensorProto::FLOAT);
  values.add_dims(2);
  values.add_float_data(7);
  values.add_float_data(8);
  auto &indices = *sparse.mutable_indices();
  indices.set_data_type(TensorProto::INT64);
  indices.add_dims(2);
  indices.add_dims(2);
  for (int64_t i : {0, 1, 1, 2})
    indices.add_int64_data(i);
  Outcome outcome = importBytes(bytesOf(model), {}, ".", [](mlir::ModuleOp module) {
    std::vector<float> found;
    module.walk([&](ConstantOp op) {
      auto data = getConstant(op.getResult());
      found.resize(data->bytes.size() / 4);
      std::memcpy(found.data(), data->bytes.data(), data->bytes.size());
    });
    CHECK(found == std::vector<float>{0, 7, 0, 0, 0, 8});
  });
  CHECK(outcome.error == "");
  indices.set_int64_data(3, 3);
  CHECK(contains(importBytes(bytesOf(model)).error, "sparse tensor 'w': index 3 is outside 0 to 2"));
  sparse.set_dims(0, int64_t(1) << 40);
  CHECK(contains(importBytes(bytesOf(model)).error, "bytes when dense"));
}

TEST_CASE("external data") {
  fs::path folder =
      fs::temp_directory_path() / ("mrcc-import-\xd1\x84 \xe3\x81\x8b-" + std::to_string(std::random_device()()));
  fs::create_directories(folder / "sub");
  std::vector<float> values{0, 1, 2, 3, 4, 5, 6};
  std::ofstream(folder / "sub" / "w.bin", std::ios::binary).write(reinterpret_cast<char *>(values.data()), 28);
  fs::create_symlink(folder / "sub" / "w.bin", folder / "link.bin");

  auto run = [&](const std::string &location, const std::string &offset, const std::string &length) {
    ModelProto model = goodModel();
    TensorProto &w = *model.mutable_graph()->mutable_initializer(0);
    w.clear_float_data();
    w.set_data_location(TensorProto::EXTERNAL);
    for (auto &[key, value] :
         {std::pair<std::string, std::string>{"location", location}, {"offset", offset}, {"length", length}})
      if (!value.empty()) {
        auto &entry = *w.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
    std::ofstream(folder / "model.onnx", std::ios::binary) << bytesOf(model);
    auto read = readModel((folder / "model.onnx").string());
    if (!read)
      return llvm::toString(read.takeError());
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    std::vector<std::string> notes;
    auto module = importModel(**read, context, {}, notes);
    if (!module)
      return llvm::toString(module.takeError());
    float first = -1;
    (*module)->walk([&](ConstantOp op) { std::memcpy(&first, getConstant(op.getResult())->bytes.data(), 4); });
    return "first is " + std::to_string(int(first));
  };
  CHECK(run("sub/w.bin", "4", "24") == "first is 1");
  CHECK(run("sub/w.bin", "", "") == "first is 0");
  CHECK(run("link.bin", "4", "") == "first is 1");
  CHECK(contains(run("sub/w.bin", "8", "24"),
                 "tensor 'w': bytes 8 to 32 lie outside the external data file 'sub/w.bin' of 28 bytes"));
  CHECK(contains(run("sub/w.bin", "18446744073709551600", ""), "lie outside"));
  CHECK(contains(run("sub/w.bin", "0", "20"), "external data length is 20 bytes, 2x3 of float needs 24"));
  CHECK(contains(run("sub/w.bin", "x", ""), "external data offset 'x' is not a number"));
  CHECK(contains(run("../w.bin", "", ""), "location '../w.bin' is refused"));
  CHECK(contains(run("sub/../../w.bin", "", ""), "is refused"));
  CHECK(contains(run("/etc/passwd", "", ""), "location '/etc/passwd' is refused"));
  CHECK(contains(run("", "", ""), "is refused"));
  std::string missing = run("no.bin", "", "");
  CHECK(contains(missing, "tensor 'w': external data file " + (folder / "no.bin").string()));
  CHECK(contains(missing, (folder / "model.onnx").string()));
  CHECK(contains(run("sub", "", ""), "is not a regular file"));
  fs::remove_all(folder);
}
