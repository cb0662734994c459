// Algorithm: inputs become arguments (or constants), then nodes are imported in sorted order. A node is, in this order,
// a call of a model-local function (its body is imported in a fresh scope), an If whose condition is known (the branch
// is imported in a scope inside this one), or an op with a handler. What is not supported is noted and its outputs are
// lost; nodes that read lost values are skipped, so that one pass finds everything that stands in the way. Nodes that
// no output needs are only looked at for unknown ops. Any other fault stops the import at once.
#include "Importer.h"
#include "Checks.h"
#include "Known.h"
#include "Schemas.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cstring>

using namespace mlir;
using namespace mrcc;
using llvm::Error;
using llvm::Expected;

static constexpr int64_t newestOpset = 28;           // of the default domain; the newest whose ops were looked at
static constexpr unsigned deepest = 64;              // function calls and subgraphs inside each other
static constexpr size_t mostNodes = size_t(1) << 20; // functions that call functions can ask for any number

static Error bad(const Twine &message) { return onnx::importError(ImportError::invalid, message); }

Importer::Importer(const onnx::Model &model, MLIRContext &context, const ImportOptions &options,
                   std::vector<std::string> &notes)
    : model(model), context(context), options(options), notes(notes), builder(&context) {
  for (const onnx::Function &f : model.functions)
    functions.try_emplace(f.domain + ":" + f.name + ":" + f.overload, &f);
}

Expected<OwningOpRef<ModuleOp>> Importer::run() {
  if (Error error = checkOpset())
    return error;
  Location loc = UnknownLoc::get(&context);
  module = ModuleOp::create(loc);
  module.get()->setAttr("mrc.model_name", builder.getStringAttr(model.name));
  module.get()->setAttr("mrc.model_sha256", builder.getStringAttr(model.sha256));
  builder.setInsertionPointToEnd(module->getBody());
  main = func::FuncOp::create(builder, loc, "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(main.addEntryBlock());

  Scope scope;
  scope.opsets = &model.opsets;
  if (Error error = prepareInputs(scope))
    return error;
  std::vector<std::string> outputs;
  for (const onnx::ValueInfo &v : model.graph.outputs)
    outputs.push_back(v.name);
  if (outputs.empty())
    return bad("the graph has no outputs");
  if (Error error = importNodes(model.graph.nodes, outputs, scope))
    return error;
  for (const std::string &name : outputs)
    if (!lookup(name, scope))
      return bad("output '" + name + "' is made by no node, initialiser or input");
  if (Error error = unsupportedError())
    return error;
  finish(scope);
  std::string text;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) {
    text = text.empty() ? d.str() : text;
    return success();
  });
  if (failed(verify(*module)))
    return bad("internal error: the imported module is not valid: " + text);
  return std::move(module);
}

//===-- inputs and constants --------------------------------------------------------------------------------------===//

Expected<Type> Importer::argumentType(const onnx::ValueInfo &input) {
  if (input.type == DType::none)
    return onnx::importError(ImportError::unsupported,
                             "input '" + input.name + "' is a tensor of " + onnx::typeName(input.onnxType));
  SmallVector<int64_t> dims(input.dims.begin(), input.dims.end());
  auto given = options.inputDims.find(input.name);
  if (given != options.inputDims.end()) {
    SmallVector<int64_t> wanted(given->second.begin(), given->second.end());
    for (int64_t &d : wanted)
      d = d < 0 ? ShapedType::kDynamic : d;
    if (input.ranked && wanted.size() != dims.size())
      return bad("input '" + input.name + "' has rank " + Twine(dims.size()) + " (" + dimsText(dims) + "), got " +
                 dimsText(wanted));
    bool differs = false;
    for (auto [d, now] : llvm::zip(dims, wanted))
      differs |= !ShapedType::isDynamic(d) && d != now;
    overridden |= differs;
    if (differs)
      notes.push_back("input '" + input.name + "': the model's dims " + dimsText(dims) + " are overridden");
    dims = std::move(wanted);
  } else if (!input.ranked) {
    return bad("input '" + input.name + "' has no shape in the model; say it with --shape");
  }
  if (dims.size() > size_t(onnx::maxRank))
    return bad("input '" + input.name + "' has " + Twine(dims.size()) + " dimensions");
  SmallVector<int64_t> known(dims);
  std::replace(known.begin(), known.end(), ShapedType::kDynamic, int64_t(1));
  if (!denseBytes(input.type, known))
    return bad("input '" + input.name + "' of " + dimsText(dims) + " is too large");
  return RankedTensorType::get(dims, toType(&context, input.type));
}

Error Importer::bindInput(const onnx::ValueInfo &input, const TensorData &data, Scope &scope) {
  if (data.type != input.type)
    return bad("input '" + input.name + "' is " + toString(input.type) + ", the value given for it is " +
               toString(data.type));
  bool fits = !input.ranked || input.dims.size() == data.dims.size();
  for (auto [want, got] : llvm::zip(input.dims, data.dims))
    fits &= ShapedType::isDynamic(want) || want == got;
  auto bytes = denseBytes(data.type, data.dims);
  if (!fits || bytes != data.bytes.size())
    return bad("input '" + input.name + "' has dims " + dimsText(input.dims) + ", the value given for it " +
               dimsText(data.dims) + " in " + Twine(data.bytes.size()) + " bytes");
  auto type = RankedTensorType::get(data.dims, toType(&context, data.type));
  auto loc = NameLoc::get(StringAttr::get(&context, input.name));
  scope.values[input.name] = makeConstant(builder, loc, makeConstantAttr(type, data.bytes));
  return Error::success();
}

Error Importer::prepareInputs(Scope &scope) {
  llvm::StringSet<> inputs;
  for (const onnx::Tensor &t : model.graph.initializers)
    if (!scope.tensors.try_emplace(t.name, &t).second)
      return bad("initialiser '" + t.name + "' is there twice");
  for (const onnx::ValueInfo &input : model.graph.inputs) {
    if (input.name.empty() || !inputs.insert(input.name).second)
      return bad("input '" + input.name + "' " + (input.name.empty() ? "has no name" : "is there twice"));
    if (scope.tensors.contains(input.name))
      continue; // an initialiser with a default value
    if (auto bound = options.binds.find(input.name); bound != options.binds.end()) {
      if (Error error = bindInput(input, bound->second, scope))
        return error;
      continue;
    }
    auto type = argumentType(input);
    if (!type)
      return type.takeError();
    auto loc = NameLoc::get(StringAttr::get(&context, input.name));
    if (failed(main.insertArgument(main.getNumArguments(), *type, {}, loc)))
      return bad("input '" + input.name + "' cannot be an argument");
    unsigned index = main.getNumArguments() - 1;
    SmallVector<Attribute> dims;
    for (auto [i, d] : llvm::enumerate(cast<RankedTensorType>(*type).getShape()))
      dims.push_back(ShapedType::isDynamic(d)
                         ? Attribute(builder.getStringAttr(i < input.symbols.size() ? input.symbols[i] : ""))
                         : Attribute(builder.getI64IntegerAttr(d)));
    main.setArgAttr(index, "mrc.name", builder.getStringAttr(input.name));
    main.setArgAttr(index, "mrc.dims", builder.getArrayAttr(dims));
    scope.values[input.name] = main.getArgument(index);
  }
  auto known = [&](const std::string &name) -> Error {
    if (inputs.contains(name))
      return Error::success();
    std::vector<std::string> names;
    for (const ModelTensor &t : modelInfo(model).inputs)
      names.push_back("'" + t.name + "'");
    return bad("the model has no input '" + name + "'; its inputs are " + llvm::join(names, ", "));
  };
  for (auto &[name, data] : options.binds)
    if (Error error = known(name))
      return error;
  for (auto &[name, dims] : options.inputDims)
    if (Error error = known(name))
      return error;
  return Error::success();
}

Value Importer::constant(const onnx::Tensor &tensor) {
  auto loc = NameLoc::get(StringAttr::get(&context, tensor.name));
  auto type = RankedTensorType::get(tensor.dims, toType(&context, tensor.type));
  return makeConstant(builder, loc, makeConstantAttr(type, tensor.bytes, tensor.keeper));
}

std::optional<Value> Importer::lookup(StringRef name, Scope &scope) {
  for (Scope *s = &scope; s; s = s->parent) {
    if (auto it = s->values.find(name); it != s->values.end())
      return it->second;
    if (auto it = s->tensors.find(name); it != s->tensors.end()) {
      const onnx::Tensor &tensor = *it->second;
      if (tensor.type == DType::none) {
        refused.push_back({"initialiser", tensor.name, "element type " + onnx::typeName(tensor.onnxType)});
        return s->values[name] = Value();
      }
      return s->values[name] = constant(tensor);
    }
  }
  return std::nullopt;
}

/// A node's name in messages. Calls inside each other make it long: then its ends.
std::string Importer::nameOf(const onnx::Node &node, const Scope &scope) {
  constexpr size_t longest = 200, end = 80;
  std::string name = scope.prefix + node.name;
  if (name.size() <= longest)
    return name;
  size_t head = end, tail = name.size() - end;
  auto inside = [&](size_t i) { return (name[i] & 0xC0) == 0x80; }; // of a UTF-8 character
  while (head > 0 && inside(head))
    --head;
  while (tail < name.size() && inside(tail))
    ++tail;
  return name.substr(0, head) + "..." + name.substr(tail);
}

//===-- nodes -----------------------------------------------------------------------------------------------------===//

/// What the op's schema forbids, of nodes that no output needs too; and names that are taken before any node.
Error Importer::checkNodes(ArrayRef<onnx::Node> nodes, const Scope &scope) {
  for (const onnx::Node &node : nodes) {
    for (const std::string &name : node.outputs)
      if (!name.empty() && (scope.values.contains(name) || scope.tensors.contains(name)))
        return bad("value '" + name + "' of node '" + nameOf(node, scope) +
                   "' has the name of an input or initialiser");
    std::vector<std::string> unknown;
    std::string why = findFunction(node) ? "" : onnx::checkSchema(node, unknown);
    if (!why.empty())
      return bad("node '" + nameOf(node, scope) + "' (" + node.op + "): " + why);
    for (const std::string &name : unknown)
      if (std::string note =
              "node '" + nameOf(node, scope) + "' (" + node.op + "): attribute '" + name + "' is unknown and ignored";
          !llvm::is_contained(notes, note))
        notes.push_back(std::move(note));
  }
  return Error::success();
}

Error Importer::importNodes(ArrayRef<onnx::Node> nodes, ArrayRef<std::string> outputs, Scope &scope) {
  if (Error error = checkNodes(nodes, scope))
    return error;
  auto order = onnx::sortNodes(nodes, outputs);
  if (!order)
    return order.takeError();
  for (size_t i : order->nodes) {
    if (!order->live[i])
      refuseUnknown(nodes[i], scope);
    else if (Error error = importNode(nodes[i], scope))
      return error;
  }
  return Error::success();
}

const onnx::Function *Importer::findFunction(const onnx::Node &node) const {
  return functions.lookup(node.domain + ":" + node.op + ":" + node.overload);
}

int64_t Importer::opsetOf(StringRef domain, const Scope &scope) const {
  auto it = scope.opsets->find(domain.str());
  return it == scope.opsets->end() ? 1 : it->second;
}

/// The node with every reference to an attribute of the enclosing function replaced by what the caller said.
static onnx::Node resolveReferences(const onnx::Node &node,
                                    const llvm::StringMap<const onnx::Attribute *> &attributes) {
  onnx::Node out = node;
  llvm::erase_if(out.attributes, [&](onnx::Attribute &a) {
    if (a.reference.empty())
      return false;
    const onnx::Attribute *value = attributes.lookup(a.reference);
    if (value) {
      std::string name = a.name;
      a = *value;
      a.name = name;
    }
    return !value;
  });
  return out;
}

static bool isIf(const onnx::Node &node) { return node.domain.empty() && node.op == "If"; }

Error Importer::importNode(const onnx::Node &raw, Scope &scope) {
  if (++imported > mostNodes)
    return onnx::importError(ImportError::unsupported, "the model has more than " + Twine(mostNodes) + " nodes");
  bool refers = scope.attributes && llvm::any_of(raw.attributes, [](auto &a) { return !a.reference.empty(); });
  std::optional<onnx::Node> resolved;
  if (refers)
    resolved = resolveReferences(raw, *scope.attributes);
  const onnx::Node &node = refers ? *resolved : raw;

  SmallVector<Value> operands;
  bool lost = false;
  for (const std::string &name : node.inputs) {
    if (name.empty() || scope.absent.contains(name)) {
      operands.push_back(nullptr);
      continue;
    }
    auto value = lookup(name, scope);
    if (!value)
      return bad("node '" + nameOf(node, scope) + "' (" + node.op + "): its input '" + name +
                 "' is made by no node, initialiser or input");
    lost |= !*value;
    operands.push_back(*value);
  }
  const onnx::Function *function = findFunction(node);
  Handler handler = handlers().find(node.domain, node.op);
  if (!function && !handler && !isIf(node)) {
    refuse(node, scope, "");
    lost = true;
  }
  if (lost) {
    for (const onnx::Attribute &a : node.attributes)
      if (a.g)
        refuseUnknown(a.g->nodes, scope, 1);
    lose(node, scope);
    return Error::success();
  }
  if (function)
    return callFunction(*function, node, operands, scope);
  if (isIf(node))
    return importIf(node, operands.empty() ? Value() : operands[0], scope);

  auto loc = NameLoc::get(builder.getStringAttr(scope.prefix + node.name));
  NodeContext c(node, opsetOf(node.domain, scope), builder, loc, notes);
  c.operands = std::move(operands);
  Error inner = Error::success();
  bool bodyLost = false;
  c.body = [&](const onnx::Graph &body, ArrayRef<Value> arguments) -> SmallVector<Value> {
    auto values = importBody(body, arguments, node, scope);
    if (!values)
      inner = llvm::joinErrors(std::move(inner), values.takeError());
    else if (!(bodyLost |= llvm::is_contained(*values, Value())))
      return *values;
    return {};
  };
  handler(c);
  if (inner)
    return inner;
  if (bodyLost || (c.failure && c.failure->kind == ImportError::unsupported)) {
    for (const onnx::Attribute &a : node.attributes)
      if (a.g)
        refuseUnknown(a.g->nodes, scope, 1);
    if (!bodyLost)
      refuse(node, scope, c.failure->message);
    lose(node, scope);
    return Error::success();
  }
  if (c.failure)
    return onnx::importError(c.failure->kind,
                             "node '" + nameOf(node, scope) + "' (" + node.op + "): " + c.failure->message);
  return bindOutputs(node, c.results, scope);
}

Error Importer::bindOutputs(const onnx::Node &node, ArrayRef<Value> results, Scope &scope) {
  for (auto [i, name] : llvm::enumerate(node.outputs)) {
    if (name.empty())
      continue;
    if (i >= results.size()) {
      refuse(node, scope, ("output " + Twine(i)).str());
      scope.values[name] = Value();
    } else if (!scope.values.try_emplace(name, results[i]).second || scope.tensors.contains(name)) {
      return bad("value '" + name + "' of node '" + nameOf(node, scope) + "' has the name of an input or initialiser");
    }
  }
  return Error::success();
}

void Importer::lose(const onnx::Node &node, Scope &scope) {
  for (const std::string &name : node.outputs)
    if (!name.empty())
      scope.values[name] = Value();
}

//===-- functions and branches ------------------------------------------------------------------------------------===//

Error Importer::callFunction(const onnx::Function &function, const onnx::Node &node, ArrayRef<Value> operands,
                             Scope &scope) {
  if (scope.depth >= deepest)
    return bad("node '" + nameOf(node, scope) + "': functions and subgraphs are nested deeper than " + Twine(deepest));
  if (operands.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    return bad("node '" + nameOf(node, scope) + "' has " + Twine(operands.size()) + " inputs and " +
               Twine(node.outputs.size()) + " outputs, function " + function.name + " has " +
               Twine(function.inputs.size()) + " and " + Twine(function.outputs.size()));
  Attributes attributes;
  for (const onnx::Attribute &a : function.defaults)
    attributes[a.name] = &a;
  for (const onnx::Attribute &a : node.attributes)
    attributes[a.name] = &a;
  Scope inner;
  inner.opsets = function.opsets.empty() ? scope.opsets : &function.opsets;
  inner.attributes = &attributes;
  inner.prefix = scope.prefix + node.name + "/";
  inner.depth = scope.depth + 1;
  for (auto [i, name] : llvm::enumerate(function.inputs))
    if (i < operands.size() && operands[i])
      inner.values[name] = operands[i];
    else
      inner.absent.insert(name);
  if (Error error = importNodes(function.nodes, function.outputs, inner))
    return error;
  SmallVector<Value> results;
  for (const std::string &name : function.outputs) {
    auto value = lookup(name, inner);
    if (!value)
      return bad("function " + function.name + ": output '" + name + "' is made by no node or input");
    results.push_back(*value);
  }
  return bindOutputs(node, results, scope);
}

Error Importer::importIf(const onnx::Node &node, Value condition, Scope &scope) {
  const onnx::Graph *branches[2] = {};
  for (const onnx::Attribute &a : node.attributes)
    if (a.name == "then_branch" || a.name == "else_branch")
      branches[a.name == "else_branch"] = a.g.get();
  for (size_t i = 0; i < 2; ++i)
    if (!branches[i])
      return bad("node '" + nameOf(node, scope) + "' (If): attribute '" + (i ? "else" : "then") +
                 "_branch' is missing");
  if (!condition)
    return bad("node '" + nameOf(node, scope) + "' (If): input 0 is missing");
  auto known = knownScalar(condition);
  if (!known) {
    refuseUnknown(branches[0]->nodes, scope, 1);
    refuseUnknown(branches[1]->nodes, scope, 1);
    refuse(node, scope, "its condition is not a constant" + bindHint(condition));
    lose(node, scope);
    return Error::success();
  }
  auto results = importBody(*branches[*known == 0], {}, node, scope);
  return results ? bindOutputs(node, *results, scope) : results.takeError();
}

Expected<SmallVector<Value>> Importer::importBody(const onnx::Graph &body, ArrayRef<Value> arguments,
                                                  const onnx::Node &node, Scope &scope) {
  if (scope.depth >= deepest)
    return bad("node '" + nameOf(node, scope) + "': functions and subgraphs are nested deeper than " + Twine(deepest));
  if (arguments.size() != body.inputs.size())
    return bad("node '" + nameOf(node, scope) + "': its subgraph has " + Twine(body.inputs.size()) +
               " inputs, expected " + Twine(arguments.size()));
  Scope inner;
  inner.parent = &scope;
  inner.opsets = scope.opsets;
  inner.attributes = scope.attributes;
  inner.prefix = scope.prefix;
  inner.depth = scope.depth + 1;
  for (auto [input, value] : llvm::zip_equal(body.inputs, arguments))
    inner.values[input.name] = value;
  for (const onnx::Tensor &t : body.initializers)
    inner.tensors.try_emplace(t.name, &t);
  std::vector<std::string> outputs;
  for (const onnx::ValueInfo &v : body.outputs)
    outputs.push_back(v.name);
  if (Error error = importNodes(body.nodes, outputs, inner))
    return error;
  SmallVector<Value> results;
  for (const std::string &name : outputs) {
    auto value = lookup(name, inner);
    if (!value)
      return bad("node '" + nameOf(node, scope) + "': output '" + name + "' of its subgraph is made by no node");
    results.push_back(*value);
  }
  return results;
}

//===-- what is not supported -------------------------------------------------------------------------------------===//

void Importer::refuse(const onnx::Node &node, const Scope &scope, StringRef reason) {
  std::string op = (node.domain.empty() ? "" : node.domain + "::") + node.op + " (opset " +
                   std::to_string(opsetOf(node.domain, scope)) + ")";
  refused.push_back({op, scope.prefix + node.name, reason.str()});
}

/// Notes the unknown ops of nodes that are not imported, inside subgraphs too.
void Importer::refuseUnknown(ArrayRef<onnx::Node> nodes, const Scope &scope, unsigned depth) {
  if (depth > deepest)
    return;
  for (const onnx::Node &node : nodes) {
    if (!findFunction(node) && !isIf(node) && !handlers().find(node.domain, node.op))
      refuse(node, scope, "");
    for (const onnx::Attribute &a : node.attributes)
      if (a.g)
        refuseUnknown(a.g->nodes, scope, depth + 1);
  }
}

Error Importer::checkOpset() const {
  auto it = model.opsets.find("");
  if (it == model.opsets.end())
    return Error::success(); // a model of other domains alone: its nodes are refused one by one
  if (it->second > newestOpset)
    return onnx::importError(ImportError::unsupported, "the model uses opset " + Twine(it->second) +
                                                           ", the newest that is known here is " + Twine(newestOpset));
  if (it->second < 1)
    return bad("the model uses opset " + Twine(it->second) + ", expected 1 to " + Twine(newestOpset));
  return Error::success();
}

Error Importer::unsupportedError() const {
  if (refused.empty())
    return Error::success();
  constexpr size_t mostNames = 50;
  std::vector<std::pair<Unsupported, std::vector<std::string>>> groups; // in order of the first node
  llvm::StringSet<> seen;
  size_t count = 0;
  for (const Unsupported &u : refused) {
    if (!seen.insert(u.op + "\n" + u.node + "\n" + u.reason).second)
      continue; // a function's body is looked at once per call
    auto group = llvm::find_if(groups, [&](auto &g) { return g.first.op == u.op && g.first.reason == u.reason; });
    if (group == groups.end())
      group = groups.insert(group, {u, {}});
    group->second.push_back("'" + u.node + "'");
    ++count;
  }
  std::string text = std::to_string(count) + (count == 1 ? " node is" : " nodes are") + " not supported:";
  for (auto &[key, names] : groups) {
    text += "\n  " + key.op + ", " + std::to_string(names.size()) + (names.size() == 1 ? " node: " : " nodes: ");
    text += llvm::join(ArrayRef(names).take_front(mostNames), ", ");
    if (names.size() > mostNames)
      text += " and " + std::to_string(names.size() - mostNames) + " more";
    if (!key.reason.empty())
      text += ": " + key.reason;
  }
  return onnx::importError(ImportError::unsupported, text);
}

//===-- the end ---------------------------------------------------------------------------------------------------===//

/// Files often declare shapes that are wrong; one note says so, inference is what counts.
void Importer::noteStaleShapes(const Scope &scope) {
  size_t wrong = 0;
  std::string first;
  auto compare = [&](const onnx::ValueInfo &v) {
    Value value = scope.values.lookup(v.name);
    auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
    if (!type || !v.isTensor || !v.ranked)
      return;
    bool fits = type.getRank() == int64_t(v.dims.size());
    for (auto [a, b] : llvm::zip(type.getShape(), v.dims))
      fits &= ShapedType::isDynamic(a) || ShapedType::isDynamic(b) || a == b;
    if (!fits && wrong++ == 0)
      first = "'" + v.name + "', declared as " + dimsText(v.dims); // the same text for all resolutions
  };
  for (const onnx::ValueInfo &v : model.graph.declared)
    compare(v);
  for (const onnx::ValueInfo &v : model.graph.outputs)
    compare(v);
  if (wrong)
    notes.push_back("shapes that the model declares are wrong and not used: " + std::to_string(wrong) +
                    ", the first: " + first);
}

void Importer::finish(const Scope &scope) {
  SmallVector<Value> values;
  SmallVector<Type> types;
  for (const onnx::ValueInfo &v : model.graph.outputs) {
    values.push_back(scope.values.lookup(v.name));
    types.push_back(values.back().getType());
  }
  func::ReturnOp::create(builder, main.getLoc(), values);
  main.setFunctionType(builder.getFunctionType(main.getArgumentTypes(), types));
  for (auto [i, v] : llvm::enumerate(model.graph.outputs))
    main.setResultAttr(i, "mrc.name", builder.getStringAttr(v.name));
  if (!overridden) // then what the file says of all that follows is stale by intent
    noteStaleShapes(scope);
}

Expected<OwningOpRef<ModuleOp>> mrcc::importModel(const onnx::Model &model, MLIRContext &context,
                                                  const ImportOptions &options, std::vector<std::string> &notes) {
  context.loadDialect<MrcDialect, func::FuncDialect>();
  auto module = Importer(model, context, options, notes).run();
  if (module || model.path.empty())
    return module;
  return llvm::handleErrors(module.takeError(), [&](const ImportError &e) {
    return onnx::importError(e.kind, model.path + ": " + e.message);
  });
}

Expected<OwningOpRef<ModuleOp>> mrcc::importModel(const std::string &path, MLIRContext &context,
                                                  const ImportOptions &options, std::vector<std::string> &notes) {
  auto model = readModel(path);
  if (!model)
    return model.takeError();
  return importModel(**model, context, options, notes);
}

ModelInfo mrcc::modelInfo(ModuleOp module) {
  ModelInfo info;
  auto text = [](Attribute a) { return a ? cast<StringAttr>(a).str() : std::string(); };
  info.name = text(module->getAttr("mrc.model_name"));
  info.sha256 = text(module->getAttr("mrc.model_sha256"));
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return info;
  auto add = [&](std::vector<ModelTensor> &list, Type type, Attribute name, ArrayAttr dims) {
    auto tensor = cast<RankedTensorType>(type);
    ModelTensor &t = list.emplace_back();
    t.name = text(name);
    t.type = mrcc::toDType(tensor.getElementType());
    for (auto [i, d] : llvm::enumerate(tensor.getShape())) {
      t.dims.push_back(ShapedType::isDynamic(d) ? -1 : d);
      auto symbol = dims && i < dims.size() ? dyn_cast<StringAttr>(dims[i]) : StringAttr();
      t.symbols.push_back(symbol ? symbol.str() : "");
    }
  };
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    add(info.inputs, main.getArgumentTypes()[i], main.getArgAttr(i, "mrc.name"),
        main.getArgAttrOfType<ArrayAttr>(i, "mrc.dims"));
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    add(info.outputs, main.getResultTypes()[i], main.getResultAttr(i, "mrc.name"), nullptr);
  return info;
}
