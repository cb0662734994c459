// How a user names resolutions: --size, --dim, --shape, --shapes-file, turned into one list of variants. Every problem
// is a UsageError that says where it is (option and column) and, where something is ambiguous, the --shape to write
// instead.
#pragma once
#include "mrcc/Driver/Compile.h"
#include <set>

namespace mrcc {

/// What was asked for is wrong, not the files: exit code 2.
class UsageError : public llvm::ErrorInfo<UsageError> {
public:
  static char ID;
  explicit UsageError(const llvm::Twine &message) : message(message.str()) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
  std::string message;
};
llvm::Error usageError(const llvm::Twine &message);

/// The values as they were given.
struct ShapeOptions {
  std::vector<std::string> sizes;  // HxW[,HxW...]
  std::vector<std::string> dims;   // NAME=V[,V...]
  std::vector<std::string> shapes; // NAME=DxDx...[;NAME=...]
  std::string shapesFile;          // lines of the same with # comments, or JSON: a list of objects name -> dims
};

struct ShapeList {
  std::vector<VariantShapes> variants; // in the order given, each once
  std::vector<std::string> notes;      // merged repeats
};

/// `bound` are inputs that became constants (--bind). --size and --dim give the product of their values; --shape and
/// the file add to it. Without any option a model whose dimensions are all fixed gives its one variant.
llvm::Expected<ShapeList> resolveShapes(const ModelInfo &model, const std::set<std::string> &bound,
                                        const ShapeOptions &options);

/// NAME and dims of each input of one --shape value, as written: for `remove`, `run` and `bench`, which have no model.
llvm::Expected<std::vector<std::pair<std::string, std::vector<int64_t>>>> parseShape(llvm::StringRef text);

/// "x=page.npy": a name, in double quotes with backslash escapes where it holds `=;,"` or a space, and the rest as it
/// is.
llvm::Expected<std::pair<std::string, std::string>> parseAssignment(llvm::StringRef option, llvm::StringRef text);

/// The first input name, then "and"/commas, each in single quotes: for messages.
std::string listNames(const std::vector<std::string> &names);

} // namespace mrcc
