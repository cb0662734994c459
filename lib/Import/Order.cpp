#include "Order.h"
#include "Checks.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <queue>

using namespace mrcc;
using namespace mrcc::onnx;
using llvm::StringRef;
using llvm::Twine;

static void forEachCapture(const Graph &graph, llvm::function_ref<void(StringRef)> use) {
  llvm::StringSet<> defined;
  for (const ValueInfo &v : graph.inputs)
    defined.insert(v.name);
  for (const Tensor &t : graph.initializers)
    defined.insert(t.name);
  for (const Node &node : graph.nodes)
    for (const std::string &name : node.outputs)
      defined.insert(name);
  auto free = [&](StringRef name) {
    if (!defined.contains(name))
      use(name);
  };
  for (const Node &node : graph.nodes)
    forEachUse(node, free);
  for (const ValueInfo &v : graph.outputs)
    free(v.name);
}

void onnx::forEachUse(const Node &node, llvm::function_ref<void(StringRef)> use) {
  for (const std::string &name : node.inputs)
    if (!name.empty())
      use(name);
  for (const Attribute &a : node.attributes)
    if (a.g)
      forEachCapture(*a.g, use);
}

llvm::Expected<Order> onnx::sortNodes(llvm::ArrayRef<Node> nodes, llvm::ArrayRef<std::string> outputs) {
  llvm::StringMap<size_t> producers;
  for (auto [i, node] : llvm::enumerate(nodes))
    for (const std::string &name : node.outputs) {
      if (name.empty())
        continue;
      auto [it, fresh] = producers.try_emplace(name, i);
      if (!fresh)
        return importError(ImportError::invalid, "value '" + name + "' is produced twice: by node '" +
                                                     nodes[it->second].name + "' and by node '" + node.name + "'");
    }
  std::vector<std::vector<size_t>> users(nodes.size());
  std::vector<size_t> waiting(nodes.size()); // uses that are not ready
  for (auto [i, node] : llvm::enumerate(nodes))
    forEachUse(node, [&, i = i](StringRef name) {
      if (auto it = producers.find(name); it != producers.end()) {
        users[it->second].push_back(i);
        ++waiting[i];
      }
    });
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready; // lowest index first: keeps the file's order
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!waiting[i])
      ready.push(i);
  Order order;
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    order.nodes.push_back(i);
    for (size_t user : users[i])
      if (--waiting[user] == 0)
        ready.push(user);
  }
  if (order.nodes.size() != nodes.size()) {
    size_t first = llvm::find_if(waiting, [](size_t n) { return n > 0; }) - waiting.begin();
    size_t count = nodes.size() - order.nodes.size();
    return importError(ImportError::invalid,
                       "the graph has a cycle: " + Twine(count) +
                           (count == 1 ? " node is in it or waits for it" : " nodes are in it or wait for it") +
                           ", the first is '" + nodes[first].name + "'");
  }
  llvm::StringSet<> needed;
  for (const std::string &name : outputs)
    needed.insert(name);
  order.live.resize(nodes.size());
  for (size_t i : llvm::reverse(order.nodes)) {
    order.live[i] = llvm::any_of(nodes[i].outputs, [&](const std::string &name) { return needed.contains(name); });
    if (order.live[i])
      forEachUse(nodes[i], [&](StringRef name) { needed.insert(name); });
  }
  return order;
}
