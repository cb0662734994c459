// The text forms of resolutions: a scanner that knows its column, and what it reads. Private to lib/Driver.
#pragma once
#include "mrcc/Driver/ShapeOptions.h"

namespace mrcc {

using NamedDims = std::vector<std::pair<std::string, std::vector<int64_t>>>; // one --shape, in the order written

/// A shape as written, and where.
struct WrittenShape {
  NamedDims dims;
  std::string where; // "--shape 'x=1x3'", "shapes.txt:3"
};

/// `where` stands in front of messages; `inFile` says that it is FILE:LINE.
llvm::Expected<NamedDims> scanShape(llvm::StringRef text, const std::string &where, bool inFile);
llvm::Expected<std::vector<std::pair<int64_t, int64_t>>> scanSizes(llvm::StringRef text);
llvm::Expected<std::pair<std::string, std::vector<int64_t>>> scanDim(llvm::StringRef text);
/// Reads lines or JSON, whichever it is.
llvm::Expected<std::vector<WrittenShape>> readShapesFile(const std::string &path);

} // namespace mrcc
