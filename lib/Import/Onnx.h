// An ONNX model as plain data: what the reader makes of the protobuf messages, checked, and all that the rest of the
// importer sees.
#pragma once
#include "mrcc/Bundle/Format.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mrcc::onnx {

/// Dense, row-major, as many bytes as type and dims ask for. `keeper` holds them.
struct Tensor {
  std::string name;
  int32_t onnxType = 0;
  DType type = DType::none; // none: an element type that mrcc lacks; then there are no bytes
  std::vector<int64_t> dims;
  llvm::ArrayRef<uint8_t> bytes;
  std::shared_ptr<void> keeper;
};

struct Graph;

struct Attribute {
  enum Kind { none, real, integer, text, tensor, graph, reals, integers, texts, other };
  std::string name;
  Kind kind = none;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::shared_ptr<const Tensor> t; // sparse tensors arrive dense
  std::shared_ptr<const Graph> g;
  std::string reference; // inside a function: the caller's attribute that this one stands for
};

struct Node {
  std::string op, domain, overload;
  std::string name; // the file's, or op type and index where that is empty
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
};

struct ValueInfo {
  std::string name;
  bool isTensor = false, ranked = false;
  const char *otherType = ""; // "is a sequence", where it is no tensor
  int32_t onnxType = 0;
  DType type = DType::none;
  std::vector<int64_t> dims; // ShapedType::kDynamic: open
  std::vector<std::string> symbols;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs, outputs;
  std::vector<ValueInfo> declared; // value_info: only ever compared with what inference finds
};

using Opsets = std::map<std::string, int64_t>; // domain -> version; the default domain is ""

struct Function {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> defaults; // attributes that have a default value
  std::vector<Node> nodes;
  Opsets opsets;
};

struct Model {
  std::string path, name, sha256;
  int64_t irVersion = 0;
  Opsets opsets;
  Graph graph;
  std::vector<Function> functions;
};

/// The name of an ONNX element type, for messages.
std::string typeName(int32_t onnxType);
/// none for what mrcc lacks.
DType toDType(int32_t onnxType);

} // namespace mrcc::onnx
