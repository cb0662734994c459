#include "npy.h"
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

static const std::map<std::string, std::pair<mrcc_dtype, size_t>> types = {
    {"<f4", {MRCC_F32, 4}}, {"<f8", {MRCC_F64, 8}}, {"<f2", {MRCC_F16, 2}}, {"|i1", {MRCC_I8, 1}},
    {"<i2", {MRCC_I16, 2}}, {"<i4", {MRCC_I32, 4}}, {"<i8", {MRCC_I64, 8}}, {"|u1", {MRCC_U8, 1}},
    {"<u2", {MRCC_U16, 2}}, {"<u4", {MRCC_U32, 4}}, {"<u8", {MRCC_U64, 8}}, {"|b1", {MRCC_BOOL, 1}}};

/// The text behind 'key': in the header's dictionary.
static std::string field(const std::string &header, const std::string &key) {
  size_t at = header.find("'" + key + "':");
  return at == std::string::npos ? "" : header.substr(header.find_first_not_of(' ', at + key.size() + 3));
}

std::string readNpy(const std::string &path, Array &array) {
  std::ifstream in(path, std::ios::binary);
  unsigned char head[12] = {};
  if (!in)
    return path + ": cannot open";
  in.read(reinterpret_cast<char *>(head), 10);
  size_t length = head[8] | head[9] << 8;
  if (head[6] >= 2) { // version 2 has a length of four bytes
    in.read(reinterpret_cast<char *>(head + 10), 2);
    length |= size_t(head[10]) << 16 | size_t(head[11]) << 24;
  }
  if (!in || std::memcmp(head, "\x93NUMPY", 6) != 0 || length > 65536)
    return path + ": not a .npy file";
  std::string header(length, ' ');
  in.read(header.data(), std::streamsize(length));
  const std::string descr = field(header, "descr"), order = field(header, "fortran_order");
  std::string shape = field(header, "shape");
  auto type = types.find(descr.substr(1, 3));
  if (descr.empty() || type == types.end() || shape.empty() || order.compare(0, 5, "False") != 0)
    return path + ": an element type or order that this sample does not read";
  array.dtype = type->second.first;
  array.bytes = type->second.second;
  array.dims.clear();
  shape = shape.substr(1, shape.find(')') - 1);
  for (char *at = shape.data(); *at;) {
    char *end;
    const int64_t dim = std::strtoll(at, &end, 10);
    if (end == at)
      break;
    if (dim < 0 || __builtin_mul_overflow(array.bytes, size_t(dim), &array.bytes) || array.bytes > size_t(1) << 40)
      return path + ": impossible shape";
    array.dims.push_back(dim);
    at = end + std::strspn(end, ", ");
  }
  array.memory.resize((array.bytes + 7) / 8);
  in.read(reinterpret_cast<char *>(array.memory.data()), std::streamsize(array.bytes));
  return in ? "" : path + ": cut short";
}
