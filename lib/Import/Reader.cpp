// The file -> onnx::Model. The stream is hashed while protobuf parses it; protobuf's own limits bound sizes (2 GB) and
// nesting (100 messages), everything that its types do not say is checked here or in Tensors.cpp.
#include "Tensors.h"
#include MRCC_ONNX_HEADER
#include "mrcc/Support/Sha256.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <unistd.h>

using namespace mrcc;
using namespace mrcc::onnx;
using llvm::Error;
using llvm::Expected;
using llvm::Twine;

char ImportError::ID;

static Error bad(const Twine &message) { return importError(ImportError::invalid, message); }

namespace {

class HashingFile : public google::protobuf::io::CopyingInputStream {
public:
  explicit HashingFile(int fd) : fd(fd) {}
  int Read(void *buffer, int size) override {
    ssize_t n;
    do
      n = ::read(fd, buffer, size_t(size));
    while (n < 0 && errno == EINTR);
    if (n < 0) {
      failure = errno;
      return -1;
    }
    hash.update(llvm::ArrayRef(static_cast<const uint8_t *>(buffer), size_t(n)));
    total += uint64_t(n);
    return int(n);
  }
  int fd, failure = 0;
  uint64_t total = 0;
  Sha256 hash;
};

/// Translates messages to plain data; the first error stays.
class Converter {
public:
  explicit Converter(std::string folder) : files(std::move(folder)) {}
  Error model(::onnx::ModelProto &proto, Model &out);

private:
  Error graph(::onnx::GraphProto &proto, Graph &out, const std::string &prefix);
  Error nodes(google::protobuf::RepeatedPtrField<::onnx::NodeProto> &protos, std::vector<Node> &out,
              const std::string &prefix);
  Error attribute(::onnx::AttributeProto &proto, Attribute &out, const std::string &node);
  static void valueInfo(const ::onnx::ValueInfoProto &proto, ValueInfo &out);
  static Error opsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &protos, Opsets &out);
  ExternalFiles files;
};

} // namespace

static std::string canonicalDomain(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }

Error Converter::opsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &protos, Opsets &out) {
  for (const auto &opset : protos) {
    auto [it, fresh] = out.emplace(canonicalDomain(opset.domain()), opset.version());
    if (!fresh && it->second != opset.version())
      return bad("domain '" + opset.domain() + "' is imported with opset " + Twine(it->second) + " and with " +
                 Twine(opset.version()));
  }
  return Error::success();
}

void Converter::valueInfo(const ::onnx::ValueInfoProto &proto, ValueInfo &out) {
  out.name = proto.name();
  if (!proto.has_type() || !proto.type().has_tensor_type()) {
    const auto &type = proto.type();
    out.otherType = type.has_sequence_type()        ? "is a sequence"
                    : type.has_optional_type()      ? "is an optional"
                    : type.has_map_type()           ? "is a map"
                    : type.has_sparse_tensor_type() ? "is a sparse tensor"
                                                    : "has no type";
    return;
  }
  const auto &type = proto.type().tensor_type();
  out.isTensor = true;
  out.onnxType = type.elem_type();
  out.type = mrcc::onnx::toDType(out.onnxType);
  out.ranked = type.has_shape();
  for (const auto &dim : type.shape().dim()) {
    bool known = dim.has_dim_value() && dim.dim_value() >= 0; // some exporters write -1
    bool named = dim.has_dim_param() && dim.dim_param() != "?";
    out.dims.push_back(known ? dim.dim_value() : mlir::ShapedType::kDynamic);
    out.symbols.push_back(named ? dim.dim_param() : "");
  }
}

Error Converter::attribute(::onnx::AttributeProto &proto, Attribute &out, const std::string &node) {
  out.name = proto.name();
  out.reference = proto.ref_attr_name();
  auto type = proto.type();
  if (type == ::onnx::AttributeProto::UNDEFINED) { // files older than IR version 2
    type = proto.has_f()          ? ::onnx::AttributeProto::FLOAT
           : proto.has_i()        ? ::onnx::AttributeProto::INT
           : proto.has_s()        ? ::onnx::AttributeProto::STRING
           : proto.has_t()        ? ::onnx::AttributeProto::TENSOR
           : proto.has_g()        ? ::onnx::AttributeProto::GRAPH
           : proto.floats_size()  ? ::onnx::AttributeProto::FLOATS
           : proto.ints_size()    ? ::onnx::AttributeProto::INTS
           : proto.strings_size() ? ::onnx::AttributeProto::STRINGS
                                  : ::onnx::AttributeProto::UNDEFINED;
  }
  switch (type) {
  case ::onnx::AttributeProto::FLOAT:
    out.kind = Attribute::real;
    out.f = proto.f();
    break;
  case ::onnx::AttributeProto::INT:
    out.kind = Attribute::integer;
    out.i = proto.i();
    break;
  case ::onnx::AttributeProto::STRING:
    out.kind = Attribute::text;
    out.s = proto.s();
    break;
  case ::onnx::AttributeProto::FLOATS:
    out.kind = Attribute::reals;
    out.floats.assign(proto.floats().begin(), proto.floats().end());
    break;
  case ::onnx::AttributeProto::INTS:
    out.kind = Attribute::integers;
    out.ints.assign(proto.ints().begin(), proto.ints().end());
    break;
  case ::onnx::AttributeProto::STRINGS:
    out.kind = Attribute::texts;
    out.strings.assign(proto.strings().begin(), proto.strings().end());
    break;
  case ::onnx::AttributeProto::TENSOR:
  case ::onnx::AttributeProto::SPARSE_TENSOR: {
    auto tensor = type == ::onnx::AttributeProto::TENSOR ? readTensor(*proto.mutable_t(), files)
                                                         : readSparse(*proto.mutable_sparse_tensor(), files);
    if (!tensor)
      return llvm::handleErrors(tensor.takeError(), [&](const ImportError &e) {
        return importError(e.kind, "node '" + node + "', attribute '" + out.name + "': " + e.message);
      });
    out.kind = Attribute::tensor;
    out.t = std::make_shared<Tensor>(std::move(*tensor));
    break;
  }
  case ::onnx::AttributeProto::GRAPH: {
    auto body = std::make_shared<Graph>();
    if (Error error = graph(*proto.mutable_g(), *body, node + "/"))
      return error;
    out.kind = Attribute::graph;
    out.g = std::move(body);
    break;
  }
  default:
    out.kind = out.reference.empty() ? Attribute::other : Attribute::none;
  }
  return Error::success();
}

Error Converter::nodes(google::protobuf::RepeatedPtrField<::onnx::NodeProto> &protos, std::vector<Node> &out,
                       const std::string &prefix) {
  out.reserve(size_t(protos.size()));
  for (auto &proto : protos) {
    Node &node = out.emplace_back();
    node.op = proto.op_type();
    node.domain = canonicalDomain(proto.domain());
    node.overload = proto.overload();
    node.name = prefix + (proto.name().empty() ? node.op + "_" + std::to_string(out.size() - 1) : proto.name());
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    for (auto &attr : *proto.mutable_attribute())
      if (Error error = attribute(attr, node.attributes.emplace_back(), node.name))
        return error;
  }
  return Error::success();
}

Error Converter::graph(::onnx::GraphProto &proto, Graph &out, const std::string &prefix) {
  out.name = proto.name();
  for (auto &init : *proto.mutable_initializer()) {
    auto tensor = readTensor(init, files);
    if (!tensor)
      return tensor.takeError();
    out.initializers.push_back(std::move(*tensor));
  }
  for (auto &init : *proto.mutable_sparse_initializer()) {
    auto tensor = readSparse(init, files);
    if (!tensor)
      return tensor.takeError();
    out.initializers.push_back(std::move(*tensor));
  }
  for (const auto &value : proto.input())
    valueInfo(value, out.inputs.emplace_back());
  for (const auto &value : proto.output())
    valueInfo(value, out.outputs.emplace_back());
  for (const auto &value : proto.value_info())
    valueInfo(value, out.declared.emplace_back());
  return nodes(*proto.mutable_node(), out.nodes, prefix);
}

Error Converter::model(::onnx::ModelProto &proto, Model &out) {
  if (!proto.has_graph())
    return bad("this is not an ONNX model: it has no graph");
  out.irVersion = proto.ir_version();
  if (Error error = opsets(proto.opset_import(), out.opsets))
    return error;
  if (out.opsets.empty()) {
    if (out.irVersion >= 3) // written after the graph, so a cut file lacks it
      return bad("the model imports no opset; the file is cut or damaged");
    out.opsets.emplace("", 1);
  }
  if (Error error = graph(*proto.mutable_graph(), out.graph, ""))
    return error;
  for (auto &function : *proto.mutable_functions()) {
    Function &f = out.functions.emplace_back();
    f.domain = canonicalDomain(function.domain());
    f.name = function.name();
    f.overload = function.overload();
    f.inputs.assign(function.input().begin(), function.input().end());
    f.outputs.assign(function.output().begin(), function.output().end());
    for (auto &attr : *function.mutable_attribute_proto())
      if (Error error = attribute(attr, f.defaults.emplace_back(), f.name))
        return error;
    if (Error error = opsets(function.opset_import(), f.opsets))
      return error;
    if (Error error = nodes(*function.mutable_node(), f.nodes, ""))
      return error;
  }
  return Error::success();
}

//===-- entry points ----------------------------------------------------------------------------------------------===//

/// Puts the file's path in front of an error.
static Error inFile(const std::string &path, Error error) {
  return llvm::handleErrors(std::move(error), [&](const ImportError &e) {
    return importError(e.kind, path.empty() ? e.message : path + ": " + e.message);
  });
}

static Expected<ModelHandle> convert(::onnx::ModelProto &proto, const std::string &folder,
                                     std::shared_ptr<Model> model) {
  if (Error error = Converter(folder).model(proto, *model))
    return inFile(model->path, std::move(error));
  for (const ValueInfo &input : model->graph.inputs) // before anyone asks for its dims
    if (!input.isTensor)
      return inFile(model->path, importError(ImportError::unsupported, "input '" + input.name + "' " + input.otherType +
                                                                           ", only tensors are supported"));
  if (model->name.empty())
    model->name = model->graph.name;
  return model;
}

static constexpr const char *notOnnx = "this is not an ONNX model, or the file is cut or damaged";

Expected<ModelHandle> mrcc::readModel(const std::string &path) {
  auto system = [&](const Twine &message) { return importError(ImportError::system, path + ": " + message); };
  llvm::sys::fs::file_status status;
  if (std::error_code ec = llvm::sys::fs::status(path, status))
    return bad(path + ": " + ec.message());
  if (status.type() != llvm::sys::fs::file_type::regular_file)
    return bad(path + ": not a regular file");
  if (status.getSize() == 0)
    return bad(path + ": the file is empty");
  if (status.getSize() > uint64_t(INT_MAX))
    return bad(path + ": " + Twine(status.getSize()) +
               " bytes is above protobuf's limit of 2 GB; keep the weights as external data");
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return system(std::strerror(errno));
  HashingFile file(fd);
  ::onnx::ModelProto proto;
  bool parsed;
  {
    google::protobuf::io::CopyingInputStreamAdaptor stream(&file, 1 << 20);
    parsed = proto.ParsePartialFromZeroCopyStream(&stream);
  }
  ::close(fd);
  if (file.failure)
    return system(std::strerror(file.failure));
  if (!parsed)
    return bad(path + ": " + notOnnx);
  auto model = std::make_shared<Model>();
  model->path = path;
  model->name = llvm::sys::path::stem(path).str();
  model->sha256 = file.hash.hex();
  std::string folder = llvm::sys::path::parent_path(path).str();
  return convert(proto, folder.empty() ? "." : folder, std::move(model));
}

Expected<ModelHandle> mrcc::readModel(llvm::ArrayRef<uint8_t> bytes, const std::string &folder,
                                      const std::string &name) {
  if (bytes.empty())
    return bad("the model is empty");
  ::onnx::ModelProto proto;
  if (bytes.size() > size_t(INT_MAX) || !proto.ParsePartialFromArray(bytes.data(), int(bytes.size())))
    return bad(notOnnx);
  auto model = std::make_shared<Model>();
  model->name = name;
  Sha256 hash;
  hash.update(bytes);
  model->sha256 = hash.hex();
  return convert(proto, folder, std::move(model));
}

/// Initialisers may be listed as inputs: they give the input a default value, which is what it keeps.
ModelInfo mrcc::modelInfo(const onnx::Model &model) {
  ModelInfo info{model.name, model.sha256, {}, {}};
  auto add = [](const ValueInfo &v, std::vector<ModelTensor> &list) {
    ModelTensor &t = list.emplace_back(ModelTensor{v.name, v.type, v.ranked, v.dims, v.symbols});
    std::replace(t.dims.begin(), t.dims.end(), mlir::ShapedType::kDynamic, int64_t(-1));
  };
  llvm::StringSet<> constants;
  for (const Tensor &t : model.graph.initializers)
    constants.insert(t.name);
  for (const ValueInfo &v : model.graph.inputs)
    if (!constants.contains(v.name))
      add(v, info.inputs);
  for (const ValueInfo &v : model.graph.outputs)
    add(v, info.outputs);
  return info;
}
