// Builds one module from one model: scopes of names, node order, functions inlined, op handlers called, failures
// collected. See Importer.cpp.
#pragma once
#include "Node.h"
#include "Order.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace mrcc {

class Importer {
public:
  Importer(const onnx::Model &model, mlir::MLIRContext &context, const ImportOptions &options,
           std::vector<std::string> &notes);
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> run();

private:
  using Attributes = llvm::StringMap<const onnx::Attribute *>;

  /// The names of a graph or of a function's body. A value that is there but null was lost to an unsupported node.
  struct Scope {
    Scope *parent = nullptr; // the surrounding graph; a function sees none
    const onnx::Opsets *opsets = nullptr;
    const Attributes *attributes = nullptr; // what references inside a function mean
    std::string prefix;                     // of node names: where the function was called
    unsigned depth = 0;                     // of function calls and subgraphs
    llvm::StringMap<mlir::Value> values;
    llvm::StringMap<const onnx::Tensor *> tensors; // initialisers; they become values when something reads them
    llvm::StringSet<> absent;                      // a function's inputs that the call leaves out
  };

  struct Unsupported {
    std::string op, node, reason;
  };

  llvm::Error prepareInputs(Scope &scope);
  llvm::Error bindInput(const onnx::ValueInfo &input, const TensorData &data, Scope &scope);
  llvm::Expected<mlir::Type> argumentType(const onnx::ValueInfo &input);
  /// Nothing for an unknown name.
  std::optional<mlir::Value> lookup(llvm::StringRef name, Scope &scope);
  mlir::Value constant(const onnx::Tensor &tensor);
  llvm::Error importNodes(llvm::ArrayRef<onnx::Node> nodes, llvm::ArrayRef<std::string> outputs, Scope &scope);
  llvm::Error checkNodes(llvm::ArrayRef<onnx::Node> nodes, const Scope &scope);
  static std::string nameOf(const onnx::Node &node, const Scope &scope);
  llvm::Error importNode(const onnx::Node &node, Scope &scope);
  llvm::Error callFunction(const onnx::Function &function, const onnx::Node &node, llvm::ArrayRef<mlir::Value> operands,
                           Scope &scope);
  llvm::Error importIf(const onnx::Node &node, mlir::Value condition, Scope &scope);
  /// A subgraph of a node, its inputs bound to `arguments`.
  llvm::Expected<llvm::SmallVector<mlir::Value>>
  importBody(const onnx::Graph &body, llvm::ArrayRef<mlir::Value> arguments, const onnx::Node &node, Scope &scope);
  llvm::Error bindOutputs(const onnx::Node &node, llvm::ArrayRef<mlir::Value> results, Scope &scope);
  void lose(const onnx::Node &node, Scope &scope);
  void refuse(const onnx::Node &node, const Scope &scope, llvm::StringRef reason);
  void refuseUnknown(llvm::ArrayRef<onnx::Node> nodes, const Scope &scope, unsigned depth = 0);
  const onnx::Function *findFunction(const onnx::Node &node) const;
  int64_t opsetOf(llvm::StringRef domain, const Scope &scope) const;
  llvm::Error checkOpset() const;
  llvm::Error unsupportedError() const;
  void noteStaleShapes(const Scope &scope);
  void finish(const Scope &scope);

  const onnx::Model &model;
  mlir::MLIRContext &context;
  const ImportOptions &options;
  std::vector<std::string> &notes;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp main;
  mlir::OpBuilder builder; // at the end of the body; a constant stands before the first op that reads it
  llvm::StringMap<const onnx::Function *> functions;
  std::vector<Unsupported> refused;
  bool overridden = false; // a dimension that the file fixes has another size in the options
  size_t imported = 0;     // nodes, functions' bodies each time they are called
};

} // namespace mrcc
