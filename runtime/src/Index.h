// The index of a bundle, read in place. Construction checks its hash and that every record, text and number that
// another record refers to exists, so accessors need no checks.
#pragma once
#include "mrcc/Bundle/Format.h"
#include <span>
#include <string_view>

namespace mrcc::runtime {

class Index {
public:
  Index() = default;
  /// `bytes` are aligned to 8 and outlive the index. Throws Failure; `name` is the file for messages.
  Index(std::string_view bytes, const std::string &name);

  std::string_view all() const { return bytes; }
  const IndexHeader &header() const { return *reinterpret_cast<const IndexHeader *>(bytes.data()); }
  std::span<const FileRecord> files() const { return section<FileRecord>(header().files); }
  std::span<const TargetRecord> targets() const { return section<TargetRecord>(header().targets); }
  std::span<const VariantRecord> variants() const { return section<VariantRecord>(header().variants); }
  std::span<const TensorRecord> tensors() const { return section<TensorRecord>(header().tensors); }
  std::span<const int64_t> dims() const { return section<int64_t>(header().dims); }
  std::span<const ConstantRecord> constants() const { return section<ConstantRecord>(header().constants); }
  std::span<const KernelRecord> kernels() const { return section<KernelRecord>(header().kernels); }
  std::span<const Hash128> blocks() const { return section<Hash128>(header().blocks); }

  /// Followed by a zero byte.
  std::string_view text(Text t) const { return {bytes.data() + header().strings.offset + t.offset, t.length}; }
  std::string name(const FileRecord &file) const { return std::string(text(file.name)); }
  std::string_view producer() const;

  const ConstantRecord *find(const ConstantRef &ref) const;
  const KernelRecord *findKernel(const Hash128 &id) const;

private:
  template <typename T> std::span<const T> section(const Section &s) const {
    return {reinterpret_cast<const T *>(bytes.data() + s.offset), size_t(s.count)};
  }
  std::string_view bytes;
};

/// What the first bytes of an index say, whatever its version: for messages and for `dump`.
struct IndexVersion {
  bool isIndex = false;
  uint32_t version = 0;
  std::string producer;
};
IndexVersion readVersion(std::string_view bytes);

} // namespace mrcc::runtime
