#include "Table.h"
#include "llvm/Support/Unicode.h"
#include <algorithm>
#include <fmt/format.h>

using namespace mrcc::tool;

/// Columns that a terminal uses; bytes where the text is no UTF-8.
static size_t widthOf(const std::string &text) {
  int width = llvm::sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : size_t(width);
}

Table::Table(std::vector<std::string> titles) {
  for (std::string &title : titles) {
    left.push_back(!title.empty() && title[0] == '<');
    if (left.back())
      title.erase(0, 1);
  }
  rows.push_back(std::move(titles));
}

std::string Table::text() const {
  std::vector<size_t> widths(left.size());
  for (auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], widthOf(row[i]));
  std::string out;
  for (auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string pad(widths[i] - widthOf(row[i]), ' ');
      line += (i ? "  " : "") + (left[i] ? row[i] + pad : pad + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

static std::string scaled(double value, const char *unit, std::initializer_list<const char *> prefixes) {
  if (value < 1000)
    return fmt::format("{:.0f}{}{}", value, *unit ? " " : "", unit);
  std::string prefix;
  for (const char *p : prefixes) {
    prefix = p;
    value /= 1000;
    if (value < 999.5)
      break;
  }
  return fmt::format("{:.{}f} {}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, prefix, unit);
}

std::string mrcc::tool::bytesText(double bytes) { return scaled(bytes, "B", {"k", "M", "G", "T"}); }
std::string mrcc::tool::countText(double count) { return scaled(count, "", {"k", "M", "G", "T"}); }

std::string mrcc::tool::shortened(const std::string &text, size_t width) {
  if (text.size() <= width)
    return text;
  auto starts = [&](size_t at) { return (text[at] & 0xC0) != 0x80; }; // of a character
  size_t head = width / 2 - 1, tail = text.size() - (width - width / 2 - 2);
  while (head && !starts(head))
    --head;
  while (tail < text.size() && !starts(tail))
    ++tail;
  return text.substr(0, head) + "..." + text.substr(tail);
}
