#include "Mutate.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

using namespace mrcc::fuzz;
using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;
template <typename T> using Repeated = google::protobuf::RepeatedPtrField<T>;
template <typename T> using Numbers = google::protobuf::RepeatedField<T>;

namespace {

struct Op {
  const char *name, *domain, *attributes; // "axis epsilon "
};

/// What a mutation may reach of a model.
struct Parts {
  std::vector<Repeated<NodeProto> *> bodies; // of the graph, its subgraphs and the functions
  std::vector<GraphProto *> graphs;
  std::vector<NodeProto *> nodes;
  std::vector<AttributeProto *> attributes;
  std::vector<TensorProto *> tensors;
  std::vector<std::string> values; // names
};

} // namespace

static constexpr Op ops[] = {
#define OP(NAME, INPUTS, OUTPUTS, ATTRIBUTES) {#NAME, "", ATTRIBUTES},
#include "../../lib/Import/Schemas.inc"
#undef OP
    {"FusedMatMul", "com.microsoft", "alpha transA transB transBatchA transBatchB "},
    {"FusedConv", "com.microsoft", "activation activation_params "},
    {"NhwcConv", "com.microsoft", "pads strides "},
    {"SkipLayerNormalization", "com.microsoft", "epsilon "},
    {"BiasGelu", "com.microsoft", ""},
    {"QLinearAdd", "com.microsoft", ""},
    {"DynamicQuantizeLSTM", "com.microsoft", "hidden_size direction "},
};

//===-- choices ---------------------------------------------------------------------------------------------------===//

static size_t below(Random &random, size_t n) { return n ? random() % n : 0; }
static bool oneIn(Random &random, size_t n) { return below(random, n) == 0; }
template <typename List> static auto &pick(Random &random, List &list) { return list[below(random, std::size(list))]; }
template <typename T> static T *pickIn(Random &random, Repeated<T> *list) {
  return list->empty() ? nullptr : list->Mutable(int(below(random, size_t(list->size()))));
}

static int64_t number(Random &random) {
  static constexpr int64_t edges[] = {64,
                                      127,
                                      128,
                                      255,
                                      256,
                                      1000,
                                      4096,
                                      65535,
                                      65536,
                                      1 << 20,
                                      INT32_MAX,
                                      INT32_MIN,
                                      int64_t(1) << 31,
                                      int64_t(1) << 32,
                                      int64_t(1) << 40,
                                      int64_t(1) << 48,
                                      int64_t(1) << 62,
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT64_MIN + 1,
                                      -65536};
  return oneIn(random, 4) ? pick(random, edges) : int64_t(below(random, 13)) - 4;
}

static float real(Random &random) {
  using Limits = std::numeric_limits<float>;
  static constexpr float edges[] = {0,
                                    -0.0f,
                                    1,
                                    -1,
                                    0.5f,
                                    2,
                                    255,
                                    1e10f,
                                    1e38f,
                                    -1e38f,
                                    1e-45f,
                                    Limits::infinity(),
                                    -Limits::infinity(),
                                    Limits::quiet_NaN()};
  return pick(random, edges);
}

static int type(Random &random) {
  return oneIn(random, 3) ? int(TensorProto::FLOAT) : int(below(random, TensorProto::DataType_ARRAYSIZE + 1));
}

static std::string word(Random &random) {
  static const char *const words[] = {"",
                                      "SAME_UPPER",
                                      "SAME_LOWER",
                                      "VALID",
                                      "NOTSET",
                                      "linear",
                                      "nearest",
                                      "cubic",
                                      "reflect",
                                      "edge",
                                      "wrap",
                                      "sum",
                                      "mul",
                                      "none",
                                      "DCR",
                                      "CRD",
                                      "forward",
                                      "reverse",
                                      "ij,jk->ik",
                                      "...ii->i",
                                      "up",
                                      "align_corners",
                                      "tf_crop_and_resize",
                                      "half_pixel",
                                      "asymmetric",
                                      "bidirectional",
                                      "x",
                                      "Relu",
                                      "tanh",
                                      "RIGHT",
                                      "border",
                                      "max"};
  return pick(random, words);
}

//===-- parts -----------------------------------------------------------------------------------------------------===//

static void collect(GraphProto &graph, Parts &parts);

static void collect(Repeated<NodeProto> &nodes, Parts &parts) {
  parts.bodies.push_back(&nodes);
  for (NodeProto &node : nodes) {
    parts.nodes.push_back(&node);
    parts.values.insert(parts.values.end(), node.output().begin(), node.output().end());
    for (AttributeProto &a : *node.mutable_attribute()) {
      parts.attributes.push_back(&a);
      if (a.has_t())
        parts.tensors.push_back(a.mutable_t());
      if (a.has_g())
        collect(*a.mutable_g(), parts);
    }
  }
}

static void collect(GraphProto &graph, Parts &parts) {
  parts.graphs.push_back(&graph);
  for (TensorProto &t : *graph.mutable_initializer()) {
    parts.tensors.push_back(&t);
    parts.values.push_back(t.name());
  }
  for (auto &sparse : *graph.mutable_sparse_initializer()) {
    parts.tensors.push_back(sparse.mutable_values());
    parts.tensors.push_back(sparse.mutable_indices());
  }
  for (const ValueInfoProto &v : graph.input())
    parts.values.push_back(v.name());
  collect(*graph.mutable_node(), parts);
}

static Parts partsOf(ModelProto &model) {
  Parts parts;
  collect(*model.mutable_graph(), parts);
  for (auto &function : *model.mutable_functions())
    collect(*function.mutable_node(), parts);
  return parts;
}

//===-- attributes ------------------------------------------------------------------------------------------------===//

static void fillTensor(TensorProto &tensor, Random &random) {
  tensor.set_data_type(oneIn(random, 2) ? TensorProto::INT64 : TensorProto::FLOAT);
  const size_t count = below(random, 5);
  if (!oneIn(random, 3) || count != 1)
    tensor.add_dims(int64_t(count));
  for (size_t i = 0; i < count; ++i)
    if (tensor.data_type() == TensorProto::INT64)
      tensor.add_int64_data(number(random));
    else
      tensor.add_float_data(real(random));
}

static void setAttribute(AttributeProto &a, Random &random) {
  const std::string name = a.name();
  a.Clear();
  a.set_name(name);
  a.set_type(AttributeProto::AttributeType(1 + below(random, 8))); // FLOAT to STRINGS; graphs come with nodes
  for (size_t i = below(random, 5); i > 0; --i) {
    a.add_ints(number(random));
    a.add_floats(real(random));
    a.add_strings(word(random));
  }
  a.set_i(number(random));
  a.set_f(real(random));
  a.set_s(word(random));
  if (a.type() == AttributeProto::TENSOR)
    fillTensor(*a.mutable_t(), random);
}

/// One that the node's op knows, most of the time.
static void addAttribute(NodeProto &node, Random &random) {
  auto op = std::find_if(std::begin(ops), std::end(ops), [&](const Op &o) { return node.op_type() == o.name; });
  std::vector<std::string> names{"axis"};
  if (op != std::end(ops) && *op->attributes) {
    names.clear();
    for (const char *at = op->attributes; *at; at = std::strchr(at, ' ') + 1)
      names.emplace_back(at, std::strchr(at, ' '));
  }
  const std::string &name = pick(random, names);
  for (AttributeProto &a : *node.mutable_attribute())
    if (a.name() == name)
      return setAttribute(a, random);
  AttributeProto &a = *node.add_attribute();
  a.set_name(name);
  setAttribute(a, random);
}

template <typename T> static void changeNumbers(Numbers<T> &list, T value, Random &random) {
  if (list.empty() || oneIn(random, 5))
    list.Add(value);
  else if (oneIn(random, 5))
    list.RemoveLast();
  else
    list.Set(int(below(random, size_t(list.size()))), value);
}

static void changeAttribute(AttributeProto &a, Random &random) {
  if (oneIn(random, 8))
    return setAttribute(a, random);
  switch (a.type()) {
  case AttributeProto::INTS:
    return changeNumbers(*a.mutable_ints(), number(random), random);
  case AttributeProto::FLOATS:
    return changeNumbers(*a.mutable_floats(), real(random), random);
  case AttributeProto::STRING:
    return a.set_s(word(random));
  case AttributeProto::FLOAT:
    return a.set_f(real(random));
  case AttributeProto::INT:
    return a.set_i(number(random));
  default:
    return setAttribute(a, random);
  }
}

//===-- tensors ---------------------------------------------------------------------------------------------------===//

/// Bits of an element in raw data.
static size_t bits(int type) {
  switch (type) {
  case TensorProto::DOUBLE:
  case TensorProto::INT64:
  case TensorProto::UINT64:
    return 64;
  case TensorProto::FLOAT:
  case TensorProto::INT32:
  case TensorProto::UINT32:
    return 32;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
  case TensorProto::INT16:
  case TensorProto::UINT16:
    return 16;
  case TensorProto::INT4:
  case TensorProto::UINT4:
  case TensorProto::FLOAT4E2M1:
    return 4;
  case TensorProto::INT2:
  case TensorProto::UINT2:
    return 2;
  default:
    return 8;
  }
}

/// Makes the data as long as the dims say, where that is little.
static void fit(TensorProto &tensor) {
  constexpr size_t most = 4096;
  size_t count = 1;
  for (int64_t d : tensor.dims()) {
    if (d < 0 || size_t(d) > most)
      return;
    count *= size_t(d);
    if (count > most)
      return;
  }
  std::string raw = tensor.raw_data();
  auto copy = [&](const auto &field) {
    raw.assign(reinterpret_cast<const char *>(field.data()), field.size() * sizeof(*field.data()));
  };
  if (tensor.float_data_size())
    copy(tensor.float_data());
  else if (tensor.int64_data_size())
    copy(tensor.int64_data());
  else if (tensor.int32_data_size())
    copy(tensor.int32_data());
  tensor.clear_float_data();
  tensor.clear_int64_data();
  tensor.clear_int32_data();
  raw.resize((count * bits(tensor.data_type()) + 7) / 8);
  tensor.set_raw_data(raw);
}

static void changeElement(TensorProto &tensor, Random &random) {
  if (tensor.int64_data_size())
    return changeNumbers(*tensor.mutable_int64_data(), number(random), random);
  if (tensor.float_data_size())
    return changeNumbers(*tensor.mutable_float_data(), real(random), random);
  if (tensor.int32_data_size())
    return changeNumbers(*tensor.mutable_int32_data(), int32_t(number(random)), random);
  std::string &raw = *tensor.mutable_raw_data();
  const size_t width = std::max<size_t>(bits(tensor.data_type()) / 8, 1);
  if (raw.size() < width)
    return;
  const int64_t integer = number(random);
  const float f = real(random);
  char bytes[8];
  std::memcpy(bytes, &integer, 8);
  if (tensor.data_type() == TensorProto::FLOAT)
    std::memcpy(bytes, &f, 4);
  std::memcpy(raw.data() + below(random, raw.size() / width) * width, bytes, width);
}

static void changeTensor(TensorProto &tensor, Random &random) {
  switch (below(random, 8)) {
  case 0:
    tensor.set_data_type(type(random));
    return oneIn(random, 4) ? void() : fit(tensor);
  case 1:
  case 2:
    changeNumbers(*tensor.mutable_dims(), number(random), random);
    return oneIn(random, 4) ? void() : fit(tensor);
  case 3:
    if (oneIn(random, 4)) {
      tensor.set_data_location(TensorProto::EXTERNAL);
      auto &entry = *tensor.add_external_data();
      entry.set_key(oneIn(random, 2) ? "location" : "offset");
      entry.set_value(std::to_string(number(random)));
    }
    return;
  default:
    return changeElement(tensor, random);
  }
}

//===-- values, nodes, graphs -------------------------------------------------------------------------------------===//

static void changeValue(ValueInfoProto &value, Random &random) {
  auto &tensor = *value.mutable_type()->mutable_tensor_type();
  if (oneIn(random, 4))
    return tensor.set_elem_type(type(random));
  auto &dims = *tensor.mutable_shape()->mutable_dim();
  if (oneIn(random, 16))
    return tensor.clear_shape();
  if (dims.empty() || oneIn(random, 6))
    tensor.mutable_shape()->add_dim();
  else if (oneIn(random, 6))
    return dims.RemoveLast();
  auto &dim = *pickIn(random, &dims);
  if (oneIn(random, 3))
    dim.set_dim_param(oneIn(random, 2) ? "n" : "m");
  else
    dim.set_dim_value(number(random));
}

static void changeOperands(NodeProto &node, const Parts &parts, Random &random) {
  Repeated<std::string> &names = oneIn(random, 8) ? *node.mutable_output() : *node.mutable_input();
  const std::string name = parts.values.empty() || oneIn(random, 8) ? "" : pick(random, parts.values);
  if (names.empty() || oneIn(random, 4))
    *names.Add() = name;
  else if (oneIn(random, 4))
    names.RemoveLast();
  else if (oneIn(random, 4))
    names.SwapElements(0, names.size() - 1);
  else
    *pickIn(random, &names) = name;
}

static void changeNode(NodeProto &node, const Parts &parts, Random &random) {
  switch (below(random, 6)) {
  case 0: {
    const Op &op = pick(random, ops);
    node.set_op_type(op.name);
    return node.set_domain(op.domain);
  }
  case 1:
  case 2:
    return addAttribute(node, random);
  case 3:
    if (!node.attribute().empty() && oneIn(random, 2))
      node.mutable_attribute()->DeleteSubrange(int(below(random, size_t(node.attribute_size()))), 1);
    return;
  default:
    return changeOperands(node, parts, random);
  }
}

/// Appends a node that reads what there is; its results become outputs of the graph.
static void addNode(GraphProto &graph, const Parts &parts, Random &random) {
  const Op &op = pick(random, ops);
  NodeProto &node = *graph.add_node();
  node.set_op_type(op.name);
  node.set_domain(op.domain);
  for (size_t i = 1 + below(random, 3); i > 0 && !parts.values.empty(); --i)
    node.add_input(pick(random, parts.values));
  node.add_output("new" + std::to_string(random() % 1000));
  if (oneIn(random, 2))
    addAttribute(node, random);
  graph.add_output()->set_name(node.output(0));
}

static void addTensor(GraphProto &graph, Random &random) {
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(graph.input_size() && oneIn(random, 2) ? graph.input(0).name()
                                                         : "t" + std::to_string(random() % 100));
  fillTensor(tensor, random);
}

/// An input becomes a constant of small dims, so that what reads it folds.
static void bindInput(GraphProto &graph, Random &random) {
  const ValueInfoProto *input = pickIn(random, graph.mutable_input());
  if (!input)
    return;
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(input->name());
  tensor.set_data_type(input->type().tensor_type().elem_type());
  for (const auto &dim : input->type().tensor_type().shape().dim())
    tensor.add_dims(dim.has_dim_value() ? dim.dim_value() : int64_t(1 + below(random, 4)));
  fit(tensor);
  for (int i = 0; i < 4; ++i)
    changeElement(tensor, random);
}

static void changeGraph(GraphProto &graph, const Parts &parts, Random &random) {
  switch (below(random, 6)) {
  case 0:
    return addNode(graph, parts, random);
  case 1:
    return addTensor(graph, random);
  case 2:
    return bindInput(graph, random);
  case 3:
    if (!parts.values.empty())
      graph.add_output()->set_name(pick(random, parts.values));
    return;
  case 4:
    if (!graph.node().empty())
      graph.mutable_node()->DeleteSubrange(int(below(random, size_t(graph.node_size()))), 1);
    return;
  default:
    if (ValueInfoProto *value = pickIn(random, oneIn(random, 5) ? graph.mutable_output() : graph.mutable_input()))
      changeValue(*value, random);
  }
}

static void changeOpset(ModelProto &model, Random &random) {
  if (auto *opset = pickIn(random, model.mutable_opset_import()))
    opset->set_version(oneIn(random, 8) ? number(random) : int64_t(6 + below(random, 23)));
}

void mrcc::fuzz::mutate(ModelProto &model, Random &random) {
  Parts parts = partsOf(model);
  switch (below(random, 10)) {
  case 0:
    return oneIn(random, 3) ? changeOpset(model, random) : void();
  case 1:
  case 2:
    return changeGraph(*pick(random, parts.graphs), parts, random);
  case 3:
  case 4:
    return parts.tensors.empty() ? void() : changeTensor(*pick(random, parts.tensors), random);
  case 5:
  case 6:
    return parts.attributes.empty() ? void() : changeAttribute(*pick(random, parts.attributes), random);
  default:
    return parts.nodes.empty() ? void() : changeNode(*pick(random, parts.nodes), parts, random);
  }
}

void mrcc::fuzz::cross(ModelProto &model, const ModelProto &other, Random &random) {
  const GraphProto &from = other.graph();
  GraphProto &to = *model.mutable_graph();
  if (from.node().empty())
    return;
  std::set<std::string> there;
  for (const TensorProto &t : to.initializer())
    there.insert(t.name());
  for (const ValueInfoProto &v : to.input())
    there.insert(v.name());
  const size_t first = below(random, size_t(from.node_size())), count = 1 + below(random, 3);
  std::set<std::string> read;
  for (size_t i = first; i < std::min(first + count, size_t(from.node_size())); ++i) {
    const NodeProto &node = from.node(int(i));
    read.insert(node.input().begin(), node.input().end());
    NodeProto &copy = *to.add_node();
    copy = node;
    for (std::string &name : *copy.mutable_output())
      if (!name.empty())
        to.add_output()->set_name(name += there.insert(name).second ? "" : "'");
  }
  for (const TensorProto &t : from.initializer())
    if (read.count(t.name()) && there.insert(t.name()).second)
      *to.add_initializer() = t;
  for (const ValueInfoProto &v : from.input())
    if (read.count(v.name()) && there.insert(v.name()).second)
      *to.add_input() = v;
  if (model.opset_import().empty())
    *model.mutable_opset_import() = other.opset_import();
}

//===-- libFuzzer's hooks -----------------------------------------------------------------------------------------===//

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

static bool parse(ModelProto &model, const uint8_t *data, size_t size) {
  return model.ParsePartialFromArray(data, int(size)) && model.has_graph();
}

/// Writes the model if it fits; 0 where it does not.
static size_t write(const ModelProto &model, uint8_t *data, size_t most) {
  const size_t size = model.ByteSizeLong();
  return size <= most && model.SerializePartialToArray(data, int(most)) ? size : 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  ModelProto model;
  if (oneIn(random, 12) || !parse(model, data, size))
    return LLVMFuzzerMutate(data, size, most);
  for (size_t i = 1 + below(random, 3); i > 0; --i)
    mutate(model, random);
  const size_t written = write(model, data, most);
  return written ? written : LLVMFuzzerMutate(data, size, most);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t sizeA, const uint8_t *b, size_t sizeB,
                                            uint8_t *out, size_t most, unsigned seed) {
  Random random(seed);
  ModelProto model, other;
  if (!parse(model, a, sizeA) || !parse(other, b, sizeB))
    return 0;
  cross(model, other, random);
  return write(model, out, most);
}
