// .npy: the magic, a version, a header that is a Python dictionary (descr, fortran_order, shape), then the elements.
#include "mrcc/Driver/TensorFile.h"
#include "mrcc/IR/Mrc.h"
#include "mrcc/IR/Shapes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>

using namespace mrcc;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

Error mrcc::checkRegularFile(const std::string &path, uint64_t most) {
  llvm::sys::fs::file_status status;
  if (std::error_code ec = llvm::sys::fs::status(path, status))
    return llvm::createStringError(path + ": " + ec.message());
  if (status.type() != llvm::sys::fs::file_type::regular_file)
    return llvm::createStringError(path + ": not a regular file");
  if (status.getSize() > most)
    return llvm::createStringError(path + ": it has " + Twine(status.getSize()) + " bytes, at most " + Twine(most) +
                                   " are read");
  return Error::success();
}

static constexpr StringRef magic("\x93NUMPY", 6);

/// NumPy's letter and item size for a type.
static std::string npyItem(DType type) {
  switch (type) {
  case DType::f64:
    return "f8";
  case DType::f32:
    return "f4";
  case DType::f16:
    return "f2";
  case DType::i8:
  case DType::i4:
  case DType::i2:
    return "i1";
  case DType::i16:
    return "i2";
  case DType::i32:
    return "i4";
  case DType::i64:
    return "i8";
  case DType::u8:
  case DType::u4:
  case DType::u2:
    return "u1";
  case DType::u16:
    return "u2";
  case DType::u32:
    return "u4";
  case DType::u64:
    return "u8";
  case DType::boolean:
    return "b1";
  case DType::bf16:
    return "V2";
  case DType::f8e4m3fn:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2:
  case DType::f8e5m2fnuz:
  case DType::f8e8m0:
  case DType::f4e2m1:
    return "V1";
  case DType::none:
    break;
  }
  return "";
}

namespace {
struct Header {
  char order = '='; // '<' '>' '|'
  std::string item; // "f4"
  bool fortran = false;
  std::vector<int64_t> dims;
};

/// Reads the dictionary; on anything else it says what it expected.
class HeaderParser {
public:
  explicit HeaderParser(StringRef text) : text(text) {}
  Expected<Header> parse();

private:
  void spaces() { text = text.ltrim(" \n\t"); }
  bool take(StringRef word) {
    spaces();
    return text.consume_front(word);
  }
  Expected<StringRef> string() {
    spaces();
    char quote = text.empty() ? 0 : text[0];
    size_t end = quote == '\'' || quote == '"' ? text.find(quote, 1) : StringRef::npos;
    if (end == StringRef::npos)
      return llvm::createStringError("its header is no dictionary of strings");
    StringRef out = text.slice(1, end);
    text = text.drop_front(end + 1);
    return out;
  }
  StringRef text;
};
} // namespace

Expected<Header> HeaderParser::parse() {
  Header header;
  bool descr = false, order = false, shape = false;
  if (!take("{"))
    return llvm::createStringError("its header is no dictionary");
  while (!take("}")) {
    auto key = string();
    if (!key)
      return key.takeError();
    if (!take(":"))
      return llvm::createStringError("its header lacks a ':'");
    if (*key == "descr") {
      spaces();
      if (text.starts_with("["))
        return llvm::createStringError("it holds records, not one element type");
      auto value = string();
      if (!value)
        return value.takeError();
      descr = value->size() >= 3;
      if (descr) {
        header.order = (*value)[0];
        header.item = value->drop_front(1).str();
      }
    } else if (*key == "fortran_order") {
      order = take("True");
      header.fortran = order;
      order |= take("False");
    } else if (*key == "shape") {
      shape = take("(");
      while (shape && !take(")")) {
        int64_t dim;
        spaces();
        if (text.consumeInteger(10, dim) || dim < 0)
          return llvm::createStringError("its shape is not a tuple of sizes");
        header.dims.push_back(dim);
        take("L"); // Python 2
        take(",");
      }
    } else {
      return llvm::createStringError("its header has an unknown key '%s'", key->str().c_str());
    }
    take(",");
  }
  if (!descr || !order || !shape)
    return llvm::createStringError("its header lacks descr, fortran_order or shape");
  return header;
}

/// Column-major bytes to row-major.
static std::vector<uint8_t> rowMajor(ArrayRef<uint8_t> in, ArrayRef<int64_t> dims, size_t item) {
  std::vector<uint8_t> out(in.size());
  std::vector<int64_t> index(dims.size());
  for (size_t to = 0; to + item <= out.size(); to += item) {
    size_t from = 0;
    for (size_t i = dims.size(); i-- > 0;)
      from = from * dims[i] + index[i];
    std::memcpy(&out[to], &in[from * item], item);
    for (size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i])
        break;
      index[i] = 0;
    }
  }
  return out;
}

Expected<TensorData> mrcc::readNpy(ArrayRef<uint8_t> bytes, DType wanted, const std::string &path,
                                   const std::string &what) {
  auto bad = [&](const Twine &message) { return llvm::createStringError((path + ": " + message).str()); };
  StringRef text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (!text.consume_front(magic))
    return bad("this is not an .npy file");
  if (text.size() < 4)
    return bad("the file is cut inside its header");
  int version = uint8_t(text[0]);
  if (version < 1 || version > 3)
    return bad("an .npy file of version " + Twine(version) + ", known are 1 to 3");
  size_t sizeBytes = version == 1 ? 2 : 4, size = 0;
  if (text.size() < 2 + sizeBytes)
    return bad("the file is cut inside its header");
  for (size_t i = sizeBytes; i-- > 0;)
    size = size << 8 | uint8_t(text[2 + i]);
  text = text.drop_front(2 + sizeBytes);
  if (text.size() < size)
    return bad("the file is cut inside its header");
  auto header = HeaderParser(text.take_front(size)).parse();
  if (!header)
    return bad(llvm::toString(header.takeError()));
  text = text.drop_front(size);
  for (unsigned t = 1; wanted == DType::none && bitWidth(DType(t)); ++t)
    if (npyItem(DType(t)) == header->item)
      wanted = DType(t);
  if (wanted == DType::none)
    return bad("elements of type '" + header->item + "' are not supported");
  if (header->item != npyItem(wanted))
    return bad(what + " has elements of type " + toString(wanted) + ", the file's are '" + header->item + "'");
  size_t item = std::max<size_t>(1, bitWidth(wanted) / 8);
  auto need = denseBytes(isPacked(wanted) ? DType::u8 : wanted, header->dims);
  if (!need || *need != text.size())
    return bad("its shape " + dimsText(header->dims) + " needs " + (need ? Twine(*need) : Twine("too many")) +
               " bytes, the file holds " + Twine(text.size()));
  TensorData data{wanted, header->dims, {}};
  ArrayRef<uint8_t> elements(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  data.bytes = header->fortran && header->dims.size() > 1 ? rowMajor(elements, header->dims, item) : elements.vec();
  if (header->order == '>' && item > 1)
    for (size_t i = 0; i + item <= data.bytes.size(); i += item)
      std::reverse(data.bytes.begin() + i, data.bytes.begin() + i + item);
  if (isPacked(wanted))
    data.bytes = packElements(wanted, data.bytes);
  return data;
}

Expected<TensorData> mrcc::readTensorFile(const std::string &path, DType wanted, const std::string &what) {
  if (Error error = checkRegularFile(path))
    return std::move(error);
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return llvm::createStringError(path + ": " + file.getError().message());
  StringRef text = (*file)->getBuffer();
  if (text.starts_with(magic))
    return readNpy({reinterpret_cast<const uint8_t *>(text.data()), text.size()}, wanted, path, what);
  if (text.empty())
    return llvm::createStringError(path + ": the file is empty");
  auto data = readTensorProto(path);
  if (!data)
    return data.takeError();
  if (wanted != DType::none && data->type != wanted)
    return llvm::createStringError(
        (path + ": " + what + " has elements of type " + toString(wanted) + ", the file's are " + toString(data->type))
            .str());
  return data;
}

Expected<TensorData> mrcc::readTensorFile(const std::string &path) { return readTensorFile(path, DType::none, ""); }

std::string mrcc::toNpy(DType type, ArrayRef<int64_t> dims, ArrayRef<uint8_t> data) {
  std::string item = npyItem(type);
  std::string header =
      std::string("{'descr': '") + (bitWidth(type) <= 8 ? '|' : '<') + item + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < dims.size(); ++i)
    header += (i ? ", " : "") + std::to_string(dims[i]);
  header += dims.size() == 1 ? "," : "";
  header += "), }";
  size_t unpadded = magic.size() + 4 + header.size() + 1;
  bool large = unpadded > 65000; // version 2 has a longer length
  header.append((64 - (unpadded + (large ? 2 : 0)) % 64) % 64, ' ');
  header += '\n';
  std::string out = magic.str();
  out += large ? '\2' : '\1';
  out += '\0';
  for (size_t i = 0; i < (large ? 4 : 2); ++i)
    out += char(header.size() >> (8 * i));
  out += header;
  if (isPacked(type)) {
    for (uint8_t v : unpackElements(type, data, *denseBytes(DType::u8, dims)))
      out += char(v);
    return out;
  }
  out.append(reinterpret_cast<const char *>(data.data()), data.size());
  return out;
}

Error mrcc::writeNpy(const std::string &path, DType type, ArrayRef<int64_t> dims, ArrayRef<uint8_t> data) {
  std::error_code ec;
  llvm::raw_fd_ostream os(path, ec);
  if (!ec) {
    os << toNpy(type, dims, data);
    os.close();
    ec = os.error();
    os.clear_error();
  }
  return ec ? llvm::createStringError(path + ": " + ec.message()) : Error::success();
}

static double readFloat(const llvm::fltSemantics &semantics, unsigned bits, uint64_t value) {
  llvm::APFloat f(semantics, llvm::APInt(bits, value));
  bool lost;
  f.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return f.convertToDouble();
}

std::vector<double> mrcc::toDoubles(DType type, ArrayRef<uint8_t> bytes, size_t count) {
  std::vector<double> out(count);
  auto plain = [&](auto zero) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&zero, &bytes[i * sizeof zero], sizeof zero);
      out[i] = double(zero);
    }
  };
  auto small = [&](const llvm::fltSemantics &semantics) {
    unsigned size = bitWidth(type) / 8;
    for (size_t i = 0; i < count; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, &bytes[i * size], size);
      out[i] = readFloat(semantics, size * 8, value);
    }
  };
  switch (type) {
  case DType::f32:
    plain(float());
    break;
  case DType::f64:
    plain(double());
    break;
  case DType::f16:
    small(llvm::APFloat::IEEEhalf());
    break;
  case DType::bf16:
    small(llvm::APFloat::BFloat());
    break;
  case DType::f8e4m3fn:
    small(llvm::APFloat::Float8E4M3FN());
    break;
  case DType::f8e4m3fnuz:
    small(llvm::APFloat::Float8E4M3FNUZ());
    break;
  case DType::f8e5m2:
    small(llvm::APFloat::Float8E5M2());
    break;
  case DType::f8e5m2fnuz:
    small(llvm::APFloat::Float8E5M2FNUZ());
    break;
  case DType::i8:
    plain(int8_t());
    break;
  case DType::i16:
    plain(int16_t());
    break;
  case DType::i32:
    plain(int32_t());
    break;
  case DType::i64:
    plain(int64_t());
    break;
  case DType::boolean:
  case DType::u8:
    plain(uint8_t());
    break;
  case DType::u16:
    plain(uint16_t());
    break;
  case DType::u32:
    plain(uint32_t());
    break;
  case DType::u64:
    plain(uint64_t());
    break;
  case DType::i4:
  case DType::i2:
    for (size_t i = 0; uint8_t v : unpackElements(type, bytes, count))
      out[i++] = int8_t(v);
    break;
  case DType::u4:
  case DType::u2:
    for (size_t i = 0; uint8_t v : unpackElements(type, bytes, count))
      out[i++] = v;
    break;
  case DType::f4e2m1:
    for (size_t i = 0; uint8_t v : unpackElements(type, bytes, count))
      out[i++] = readFloat(llvm::APFloat::Float4E2M1FN(), 4, v);
    break;
  case DType::f8e8m0:
    small(llvm::APFloat::Float8E8M0FNU());
    break;
  case DType::none:
    break;
  }
  return out;
}
