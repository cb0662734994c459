// Plain tables for terminals: columns as wide as their widest cell, text left, numbers right.
#pragma once
#include <string>
#include <vector>

namespace mrcc::tool {

class Table {
public:
  /// A title that begins with '<' makes its column left-aligned.
  explicit Table(std::vector<std::string> titles);
  void row(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
  std::string text() const;

private:
  std::vector<bool> left;
  std::vector<std::vector<std::string>> rows;
};

/// "4.72 MB", "12.0 kB", "96 B": powers of ten.
std::string bytesText(double bytes);
/// "3.45 G", "12.0 M".
std::string countText(double count);

/// Shortens text in the middle of a list: the first and last `width` / 2 characters.
std::string shortened(const std::string &text, size_t width);

} // namespace mrcc::tool
