// How programs and other records are serialised: cereal archives, little-endian, every length checked against the bytes
// left before anything is allocated. An error is a state, not an exception: after it every read gives zero and every
// length is 0, so loading code runs to its end and the caller asks once. Do not include <cereal/types/vector.hpp> or
// string.hpp beside this: their loads call resize() with the length as read.
#pragma once
#include "mrcc/Bundle/Format.h"
#include <cereal/cereal.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mrcc {

class InputArchive : public cereal::InputArchive<InputArchive, cereal::AllowEmptyClassElision> {
public:
  explicit InputArchive(std::string_view bytes) : Base(this), bytes(bytes) {}

  bool ok() const { return message == nullptr; }
  /// All was read and it was right; bytes left over are an error, too.
  bool done() {
    if (!bytes.empty())
      fail("bytes follow the end");
    return ok();
  }
  const char *error() const { return message; }
  void fail(const char *why) {
    if (!message)
      message = why;
    bytes = {};
  }

  void read(void *to, size_t size) {
    if (size > bytes.size())
      fail("cut short");
    if (size == 0)
      return;
    if (!ok())
      return void(std::memset(to, 0, size));
    std::memcpy(to, bytes.data(), size);
    bytes.remove_prefix(size);
  }

  /// A count of elements, each of which takes at least `smallest` bytes of what is left.
  size_t length(size_t smallest) {
    uint32_t n = 0;
    read(&n, sizeof n);
    if (n > bytes.size() / smallest)
      return fail("a length exceeds the bytes left"), 0;
    return ok() ? n : 0;
  }

private:
  using Base = cereal::InputArchive<InputArchive, cereal::AllowEmptyClassElision>;
  std::string_view bytes;
  const char *message = nullptr;
};

class OutputArchive : public cereal::OutputArchive<OutputArchive, cereal::AllowEmptyClassElision> {
public:
  explicit OutputArchive(std::string &bytes) : Base(this), bytes(bytes) {}
  void write(const void *from, size_t size) { bytes.append(static_cast<const char *>(from), size); }
  void length(size_t n) {
    uint32_t v = n;
    write(&v, sizeof v);
  }

private:
  using Base = cereal::OutputArchive<OutputArchive, cereal::AllowEmptyClassElision>;
  std::string &bytes;
};

template <typename T>
concept Plain = std::is_arithmetic_v<T> && !std::is_same_v<T, long double>; // cereal turns enums into these

// Found by argument-dependent look-up in cereal's dispatch, for these two archives alone.
template <Plain T> void CEREAL_LOAD_FUNCTION_NAME(InputArchive &a, T &v) {
  if constexpr (std::is_same_v<T, bool>) {
    uint8_t byte = 0;
    a.read(&byte, 1);
    if (byte > 1)
      a.fail("a flag is neither 0 nor 1");
    v = byte == 1;
  } else {
    a.read(&v, sizeof v);
  }
}
template <Plain T> void CEREAL_SAVE_FUNCTION_NAME(OutputArchive &a, const T &v) { a.write(&v, sizeof v); }

inline void CEREAL_LOAD_FUNCTION_NAME(InputArchive &a, std::string &s) {
  s.resize(a.length(1));
  a.read(s.data(), s.size());
}
inline void CEREAL_SAVE_FUNCTION_NAME(OutputArchive &a, const std::string &s) {
  a.length(s.size());
  a.write(s.data(), s.size());
}

template <typename T> void CEREAL_LOAD_FUNCTION_NAME(InputArchive &a, std::vector<T> &v) {
  v.clear();
  if constexpr (Plain<T>) {
    v.resize(a.length(sizeof(T)));
    a.read(v.data(), v.size() * sizeof(T));
  } else {
    size_t n = a.length(1); // memory follows the bytes that really arrive: no reserve(n)
    for (size_t i = 0; i < n && a.ok(); ++i)
      a(v.emplace_back());
  }
}
template <typename T> void CEREAL_SAVE_FUNCTION_NAME(OutputArchive &a, const std::vector<T> &v) {
  a.length(v.size());
  if constexpr (Plain<T>)
    a.write(v.data(), v.size() * sizeof(T));
  else
    for (const T &e : v)
      a(e);
}

/// A value as a file of its own: a mark that says what it is, the format's version, then the value.
constexpr char programMark[4] = {'m', 'r', 'c', 'v'};

template <typename T> std::string toBytes(const T &value, const char (&mark)[4]) {
  std::string bytes(mark, 4);
  OutputArchive out(bytes);
  out(formatVersion, const_cast<T &>(value)); // the one member function serves both directions
  return bytes;
}

/// Null, or what is wrong with the bytes.
template <typename T> const char *fromBytes(std::string_view bytes, const char (&mark)[4], T &value) {
  if (bytes.size() < 4 || std::memcmp(bytes.data(), mark, 4) != 0)
    return "not a file of this kind";
  InputArchive in(bytes.substr(4));
  uint32_t version = 0;
  in(version);
  if (in.ok() && version != formatVersion)
    return "another format version";
  in(value);
  in.done();
  return in.error();
}

} // namespace mrcc

CEREAL_REGISTER_ARCHIVE(mrcc::InputArchive)
CEREAL_REGISTER_ARCHIVE(mrcc::OutputArchive)
CEREAL_SETUP_ARCHIVE_TRAITS(mrcc::InputArchive, mrcc::OutputArchive)
