// The order in which a graph's nodes are imported: files may list them unsorted.
#pragma once
#include "Onnx.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace mrcc::onnx {

/// Calls `use` for every name that the node reads, those that its subgraphs capture included.
void forEachUse(const Node &node, llvm::function_ref<void(llvm::StringRef)> use);

struct Order {
  std::vector<size_t> nodes; // indices, each after what it reads; the file's order where that is sorted
  std::vector<bool> live;    // by index: some output depends on the node
};

/// Fails on a cycle and on a name that two nodes produce.
llvm::Expected<Order> sortNodes(llvm::ArrayRef<Node> nodes, llvm::ArrayRef<std::string> outputs);

} // namespace mrcc::onnx
