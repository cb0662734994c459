#include "Schemas.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mrcc;
using namespace mrcc::onnx;

namespace {
struct Schema {
  size_t mostInputs, leastOutputs;
  llvm::StringRef attributes; // "axis epsilon "
};
} // namespace

static const llvm::StringMap<Schema> &schemas() {
  static const llvm::StringMap<Schema> table{
#define OP(NAME, INPUTS, OUTPUTS, ATTRIBUTES) {#NAME, {INPUTS, OUTPUTS, ATTRIBUTES}},
#include "Schemas.inc"
#undef OP
  };
  return table;
}

std::string onnx::checkSchema(const Node &node, std::vector<std::string> &unknown) {
  llvm::StringSet<> seen;
  for (const Attribute &a : node.attributes)
    if (!seen.insert(a.name).second)
      return "attribute '" + a.name + "' is there twice";
  auto it = node.domain.empty() ? schemas().find(node.op) : schemas().end();
  if (it == schemas().end())
    return "";
  const Schema &schema = it->second;
  if (node.inputs.size() > schema.mostInputs)
    return "it has " + std::to_string(node.inputs.size()) + " inputs, the op has at most " +
           std::to_string(schema.mostInputs);
  if (node.outputs.size() < schema.leastOutputs)
    return "it has no output";
  for (const Attribute &a : node.attributes)
    if ((" " + schema.attributes.str()).find(" " + a.name + " ") == std::string::npos)
      unknown.push_back(a.name);
  return "";
}
