// One scanner for all shape options. Columns count characters, not bytes, from 1.
#include "ShapeText.h"
#include "mrcc/Driver/TensorFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mrcc;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

char UsageError::ID;

Error mrcc::usageError(const Twine &message) { return llvm::make_error<UsageError>(message); }

namespace {

constexpr StringRef special = "=;,\" ";
constexpr int64_t largestDim = int64_t(1) << 40;

class Scanner {
public:
  Scanner(StringRef text, std::string where, bool inFile) : text(text), where(std::move(where)), inFile(inFile) {}

  bool atEnd() const { return pos == text.size(); }
  bool take(char c) {
    if (atEnd() || text[pos] != c)
      return false;
    ++pos;
    return true;
  }
  void spaces() {
    while (take(' ') || take('\t'))
      ;
  }
  Error error(const Twine &message) const { return error(message, pos); }
  Error expected(const Twine &what) const { return error("expected " + what + ", got " + found()); }

  Expected<std::string> name(StringRef what) {
    std::string out;
    if (!take('"')) {
      while (!atEnd() && !special.contains(text[pos]))
        out += text[pos++];
      if (out.empty())
        return expected(what);
      return out;
    }
    size_t start = pos - 1;
    while (!take('"')) {
      take('\\');
      if (atEnd())
        return error("the quote is not closed", start);
      out += text[pos++];
    }
    if (out.empty())
      return error("the name is empty", start);
    return out;
  }

  Expected<int64_t> dim() {
    size_t start = pos;
    bool negative = take('-');
    size_t digits = pos;
    int64_t value = 0;
    while (!atEnd() && llvm::isDigit(text[pos])) {
      value = std::min(value, largestDim) * 10 + (text[pos] - '0');
      ++pos;
    }
    if (pos == digits) {
      pos = start;
      return expected("a dimension");
    }
    if (negative || value < 1)
      return error("a dimension must be 1 or more, got " + text.slice(start, pos), start);
    if (value > largestDim)
      return error("the dimension " + text.slice(start, pos) + " is too large", start);
    return value;
  }

  StringRef rest() const { return text.substr(pos); }

private:
  Error error(const Twine &message, size_t at) const {
    size_t column = 1;
    for (char c : text.take_front(at))
      column += (c & 0xC0) != 0x80; // bytes that continue a character do not count
    return usageError(inFile ? where + ":" + Twine(column) + ": " + message
                             : where + ": column " + Twine(column) + ": " + message);
  }
  std::string found() const {
    if (atEnd())
      return "the end";
    unsigned length = std::max<unsigned>(1, llvm::getNumBytesForUTF8(llvm::UTF8(text[pos])));
    return ("'" + text.substr(pos, length) + "'").str();
  }
  StringRef text;
  size_t pos = 0;
  std::string where;
  bool inFile;
};

} // namespace

static std::string optionText(StringRef option, StringRef value) { return (option + " '" + value + "'").str(); }

static Error scanDims(Scanner &scanner, std::vector<int64_t> &dims) {
  do {
    auto dim = scanner.dim();
    if (!dim)
      return dim.takeError();
    dims.push_back(*dim);
  } while (scanner.take('x'));
  return Error::success();
}

Expected<NamedDims> mrcc::scanShape(StringRef text, const std::string &where, bool inFile) {
  Scanner scanner(text, where, inFile);
  NamedDims shape;
  do {
    scanner.spaces();
    if (scanner.atEnd() && !shape.empty())
      break; // a ';' at the end
    auto name = scanner.name("an input's name");
    if (!name)
      return name.takeError();
    for (auto &[other, dims] : shape)
      if (other == *name)
        return scanner.error("input '" + *name + "' is named twice");
    if (!scanner.take('='))
      return scanner.expected("'=' after the input's name");
    shape.emplace_back(*name, std::vector<int64_t>());
    if (scanner.rest().starts_with("scalar")) {
      for (char c : StringRef("scalar"))
        scanner.take(c);
    } else if (Error error = scanDims(scanner, shape.back().second)) {
      return std::move(error);
    }
    scanner.spaces();
  } while (scanner.take(';'));
  if (!scanner.atEnd())
    return scanner.expected("'x', ';' or the end");
  return shape;
}

Expected<std::vector<std::pair<int64_t, int64_t>>> mrcc::scanSizes(StringRef text) {
  Scanner scanner(text, optionText("--size", text), false);
  std::vector<std::pair<int64_t, int64_t>> sizes;
  do {
    scanner.spaces();
    auto height = scanner.dim();
    if (!height)
      return height.takeError();
    if (!scanner.take('x'))
      return scanner.expected("'x' between height and width");
    auto width = scanner.dim();
    if (!width)
      return width.takeError();
    sizes.emplace_back(*height, *width);
    scanner.spaces();
  } while (scanner.take(','));
  if (!scanner.atEnd())
    return scanner.expected("',' or the end after HxW");
  return sizes;
}

Expected<std::pair<std::string, std::vector<int64_t>>> mrcc::scanDim(StringRef text) {
  Scanner scanner(text, optionText("--dim", text), false);
  std::pair<std::string, std::vector<int64_t>> result;
  auto name = scanner.name("a dimension's name");
  if (!name)
    return name.takeError();
  result.first = *name;
  if (!scanner.take('='))
    return scanner.expected("'=' after the dimension's name");
  do {
    scanner.spaces();
    auto value = scanner.dim();
    if (!value)
      return value.takeError();
    result.second.push_back(*value);
    scanner.spaces();
  } while (scanner.take(','));
  if (!scanner.atEnd())
    return scanner.expected("',' or the end");
  return result;
}

Expected<NamedDims> mrcc::parseShape(StringRef text) { return scanShape(text, optionText("--shape", text), false); }

Expected<std::pair<std::string, std::string>> mrcc::parseAssignment(StringRef option, StringRef text) {
  Scanner scanner(text, optionText(option, text), false);
  auto name = scanner.name("a name");
  if (!name)
    return name.takeError();
  if (!scanner.take('='))
    return scanner.expected("'=' after the name");
  if (scanner.atEnd())
    return scanner.expected("a file");
  return std::pair(*name, scanner.rest().str());
}

//===-- files -----------------------------------------------------------------------------------------------------===//

/// A line without its comment: '#' outside quotes, at the start or after a space.
static StringRef withoutComment(StringRef line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '\\')
      ++i;
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == '#' && !quoted && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t'))
      return line.take_front(i);
  }
  return line;
}

/// The JSON parser recurses; a list of shapes never nests deeper than three.
static bool nestsTooDeep(StringRef text) {
  int depth = 0;
  for (char c : text) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (depth > 64)
      return true;
  }
  return false;
}

/// A key that an object of valid JSON has twice; the parser keeps the last of its values without a word.
static std::optional<std::string> keyTwice(StringRef text) {
  std::vector<llvm::StringSet<>> objects;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{')
      objects.emplace_back();
    else if (text[i] == '}')
      objects.pop_back();
    if (text[i] != '"')
      continue;
    size_t begin = i++;
    while (text[i] != '"')
      i += text[i] == '\\' ? 2 : 1;
    if (!text.drop_front(i + 1).ltrim().starts_with(":"))
      continue;
    auto key = llvm::json::parse(text.slice(begin, i + 1)); // with its escapes
    if (!key)
      llvm::consumeError(key.takeError());
    else if (auto name = key->getAsString(); name && !objects.back().insert(*name).second)
      return name->str();
  }
  return std::nullopt;
}

static Expected<std::vector<WrittenShape>> readJson(StringRef text, const std::string &path) {
  auto bad = [&](const Twine &message) { return usageError(path + ": " + message); };
  if (nestsTooDeep(text))
    return bad("the JSON nests too deep; a list of objects, name -> list of dimensions, is expected");
  auto value = llvm::json::parse(text);
  if (!value)
    return bad(llvm::toString(value.takeError()));
  if (auto name = keyTwice(text))
    return bad("'" + *name + "' is there twice in one object");
  auto *list = value->getAsArray();
  if (!list)
    return bad("the JSON must be a list of objects, name -> list of dimensions");
  std::vector<WrittenShape> shapes;
  for (auto &item : *list) {
    WrittenShape shape;
    shape.where = path + ": entry " + std::to_string(shapes.size() + 1);
    auto *object = item.getAsObject();
    if (!object)
      return bad("entry " + Twine(shapes.size() + 1) + " is not an object, name -> list of dimensions");
    for (auto &[name, dims] : *object) {
      auto *numbers = dims.getAsArray();
      if (!numbers)
        return usageError(shape.where + ": '" + name.str() + "' is not a list of dimensions");
      std::vector<int64_t> out;
      for (auto &number : *numbers) {
        auto n = number.getAsInteger();
        if (!n || *n < 1 || *n > largestDim)
          return usageError(shape.where + ": '" + name.str() + "': a dimension must be a whole number of 1 or more");
        out.push_back(*n);
      }
      shape.dims.emplace_back(name.str(), std::move(out));
    }
    llvm::sort(shape.dims); // the object's own order is not kept by the parser
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Expected<std::vector<WrittenShape>> mrcc::readShapesFile(const std::string &path) {
  constexpr uint64_t longest = uint64_t(64) << 20;
  if (llvm::Error error = checkRegularFile(path, longest))
    return llvm::make_error<ImportError>(ImportError::invalid, "--shapes-file " + llvm::toString(std::move(error)));
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return llvm::make_error<ImportError>(ImportError::invalid,
                                         "--shapes-file " + path + ": " + file.getError().message());
  StringRef text = (*file)->getBuffer();
  text.consume_front("\xEF\xBB\xBF"); // some editors write a byte order mark
  if (StringRef start = text.ltrim(); start.starts_with("[") || start.starts_with("{"))
    return readJson(text, path);
  std::vector<WrittenShape> shapes;
  for (unsigned number = 1; !text.empty(); ++number) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    line = withoutComment(line).rtrim();
    if (line.empty())
      continue;
    std::string where = path + ":" + std::to_string(number);
    auto dims = scanShape(line, where, true);
    if (!dims)
      return dims.takeError();
    shapes.push_back({std::move(*dims), std::move(where)});
  }
  return shapes;
}
