// The bytes of a bundle before they are written anywhere. Private to lib/Bundle.
#pragma once
#include "mrcc/Bundle/Bundle.h"
#include <string>
#include <vector>

namespace mrcc {

/// A data file: pieces with zeros between them. Constants stay where they are, nothing is copied.
struct DataFile {
  struct Piece {
    uint64_t offset;
    llvm::ArrayRef<uint8_t> bytes;
  };
  std::string name;
  FileKind kind;
  uint64_t bytes = 0;
  std::vector<Piece> pieces; // in ascending order
  std::string owned;         // what a piece of a program shows

  /// Calls `sink(bytes, size)` with the content in order; stops and returns false when the sink does.
  template <typename Sink> bool stream(Sink sink) const {
    static const char zeros[alignment] = {};
    uint64_t at = 0;
    for (const Piece &piece : pieces) {
      for (; at < piece.offset; at += std::min<uint64_t>(sizeof zeros, piece.offset - at))
        if (!sink(zeros, std::min<uint64_t>(sizeof zeros, piece.offset - at)))
          return false;
      if (!piece.bytes.empty() && !sink(reinterpret_cast<const char *>(piece.bytes.data()), piece.bytes.size()))
        return false;
      at += piece.bytes.size();
    }
    return true;
  }
};

struct BundleLayout {
  std::string index, manifest;
  std::vector<DataFile> files; // in the order of the file table
};

/// Everything sorted, each constant and kernel once, all references resolved.
llvm::Expected<BundleLayout> layOut(const BundleContents &contents);

/// The facts that index and programs hold, in BundleInfo's form, without the report (model, flags, folds). Fails where
/// the runtime would refuse the index.
llvm::Expected<BundleInfo> describeIndex(const std::string &index, std::vector<Program> programs);

/// Sums of what variants use: fills the numbers of variants, constants, kernels and targets from their tables.
void account(BundleInfo &info);

/// BundleInfo as JSON, with these hashes of files by name; and the report back from it. False if it is no JSON object.
std::string printInfo(const BundleInfo &info, const std::map<std::string, std::string> &sha256);
bool readReport(llvm::StringRef manifest, BundleInfo &info);

llvm::Error bundleError(const llvm::Twine &message, bool system = false);

} // namespace mrcc
