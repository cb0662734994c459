// How programs and other records are serialised: cereal archives. Integers of more than a byte take as few bytes as
// they need (7 bits a byte, signed ones zigzag), which makes a program a quarter as large; every length is checked
// against the bytes left before anything is allocated. An error is a state, not an exception: after it every read gives
// zero and every length is 0, so loading code runs to its end and the caller asks once. Do not include
// <cereal/types/vector.hpp> or string.hpp beside this: their loads call resize() with the length as read.
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

  uint64_t readInteger() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      uint8_t byte = 0;
      read(&byte, 1);
      value |= uint64_t(byte & 127) << shift;
      if (shift == 63 && byte > 1)
        break;
      if (byte < 128)
        return value;
    }
    return fail("an integer of more than 64 bits"), 0;
  }

  /// A count of elements, each of which takes at least one byte of what is left.
  size_t length() {
    const uint64_t n = readInteger();
    if (n > bytes.size())
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
  void writeInteger(uint64_t value) {
    for (; value >= 128; value >>= 7)
      bytes.push_back(char(value | 128));
    bytes.push_back(char(value));
  }
  void length(size_t n) { writeInteger(n); }

private:
  using Base = cereal::OutputArchive<OutputArchive, cereal::AllowEmptyClassElision>;
  std::string &bytes;
};

template <typename T>
concept Plain = std::is_arithmetic_v<T> && !std::is_same_v<T, long double>; // cereal turns enums into these
template <typename T>
concept Packed = std::is_integral_v<T> && (sizeof(T) > 1);
template <typename T>
concept Bytes = std::is_integral_v<T> && sizeof(T) == 1 && !std::is_same_v<T, bool>;

// Found by argument-dependent look-up in cereal's dispatch, for these two archives alone.
template <Plain T> void CEREAL_LOAD_FUNCTION_NAME(InputArchive &a, T &v) {
  if constexpr (std::is_same_v<T, bool>) {
    uint8_t byte = 0;
    a.read(&byte, 1);
    if (byte > 1)
      a.fail("a flag is neither 0 nor 1");
    v = byte == 1;
  } else if constexpr (Packed<T>) {
    const uint64_t n = a.readInteger();
    v = std::is_signed_v<T> ? T(int64_t(n >> 1) ^ -int64_t(n & 1)) : T(n);
    if (std::is_signed_v<T> ? int64_t(v) != (int64_t(n >> 1) ^ -int64_t(n & 1)) : uint64_t(v) != n)
      a.fail("an integer exceeds its type");
  } else {
    a.read(&v, sizeof v);
  }
}
template <Plain T> void CEREAL_SAVE_FUNCTION_NAME(OutputArchive &a, const T &v) {
  if constexpr (Packed<T>)
    a.writeInteger(std::is_signed_v<T> ? uint64_t(v) << 1 ^ uint64_t(int64_t(v) >> 63) : uint64_t(v));
  else
    a.write(&v, sizeof v);
}

inline void CEREAL_LOAD_FUNCTION_NAME(InputArchive &a, Hash128 &h) { a.read(&h, sizeof h); }
inline void CEREAL_SAVE_FUNCTION_NAME(OutputArchive &a, const Hash128 &h) { a.write(&h, sizeof h); }

inline void CEREAL_LOAD_FUNCTION_NAME(InputArchive &a, std::string &s) {
  s.resize(a.length());
  a.read(s.data(), s.size());
}
inline void CEREAL_SAVE_FUNCTION_NAME(OutputArchive &a, const std::string &s) {
  a.length(s.size());
  a.write(s.data(), s.size());
}

template <typename T> void CEREAL_LOAD_FUNCTION_NAME(InputArchive &a, std::vector<T> &v) {
  v.clear();
  if constexpr (Bytes<T>) {
    v.resize(a.length());
    a.read(v.data(), v.size());
  } else {
    size_t n = a.length(); // memory follows the bytes that really arrive: no reserve(n)
    for (size_t i = 0; i < n && a.ok(); ++i)
      a(v.emplace_back());
  }
}
template <typename T> void CEREAL_SAVE_FUNCTION_NAME(OutputArchive &a, const std::vector<T> &v) {
  a.length(v.size());
  if constexpr (Bytes<T>)
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
