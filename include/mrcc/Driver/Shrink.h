// A bundle without some of its variants, made from the bundle alone: what `mrcc remove` writes.
#pragma once
#include "mrcc/Bundle/Bundle.h"
#include <memory>

namespace mrcc {

struct ShrunkBundle {
  BundleContents contents;
  std::unique_ptr<BundleReader> reader; // keeps the constants that `contents` refers to
};

/// The contents that a compile of the kept variants alone has: constants are the bundle's (a damaged one is an error),
/// the kernels that are still called are compiled anew from their descriptions. At least one variant must be kept. The
/// result refers to `info`.
llvm::Expected<ShrunkBundle> shrinkBundle(llvm::StringRef path, const BundleInfo &info,
                                          llvm::function_ref<bool(const BundleInfo::Variant &)> keep, unsigned jobs);

} // namespace mrcc
