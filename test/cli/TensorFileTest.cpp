// .npy against bytes that NumPy 2.4 wrote, and what wrong files say.
#include "mrcc/Driver/TensorFile.h"
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>

using namespace mrcc;

namespace {
std::string npy(std::string header, std::string data, std::string version = std::string("\x01\x00", 2)) {
  std::string out = "\x93NUMPY" + version;
  out += char(header.size() & 255);
  out += char(header.size() >> 8);
  if (version[0] != 1)
    out += std::string(2, '\0');
  return out + header + data;
}
llvm::ArrayRef<uint8_t> bytesOf(const std::string &s) {
  return {reinterpret_cast<const uint8_t *>(s.data()), s.size()};
}
std::string failure(const std::string &file, DType wanted) {
  auto data = readNpy(bytesOf(file), wanted, "f.npy", "input 'x'");
  return data ? "read" : llvm::toString(data.takeError());
}
std::vector<double> values(const std::string &file, DType wanted) {
  auto data = readNpy(bytesOf(file), wanted, "f.npy", "input 'x'");
  REQUIRE(bool(data));
  size_t count = 1;
  for (int64_t d : data->dims)
    count *= size_t(d);
  return toDoubles(wanted, data->bytes, count);
}
template <typename T> std::string raw(std::vector<T> v) {
  return {reinterpret_cast<char *>(v.data()), v.size() * sizeof(T)};
}
} // namespace

TEST_CASE("what NumPy writes is read and written alike") {
  // np.save of np.arange(6, dtype='<f4').reshape(2, 3)
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header += std::string(128 - 10 - header.size() - 1, ' ') + "\n";
  std::string file = npy(header, raw<float>({0, 1, 2, 3, 4, 5}));
  CHECK(values(file, DType::f32) == std::vector<double>{0, 1, 2, 3, 4, 5});
  std::string ours = toNpy(DType::f32, {2, 3}, bytesOf(raw<float>({0, 1, 2, 3, 4, 5})));
  CHECK(ours == file);
  CHECK(toNpy(DType::i64, {7}, bytesOf(raw<int64_t>({0, 0, 0, 0, 0, 0, 0}))).find("'shape': (7,), }") !=
        std::string::npos);
  CHECK(toNpy(DType::i64, {}, bytesOf(raw<int64_t>({5}))).find("'shape': (), }") != std::string::npos);
  CHECK(toNpy(DType::boolean, {1}, bytesOf("\1")).find("'|b1'") != std::string::npos);
}

TEST_CASE("orders: Fortran, big-endian") {
  CHECK(values(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", raw<int32_t>({0, 3, 1, 4, 2, 5})),
               DType::i32) == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(values(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n", std::string("\0\1\1\0", 4)),
               DType::i16) == std::vector<double>{1, 256});
}

TEST_CASE("other header versions and spellings") {
  CHECK(values(npy("{\"shape\":(2,),'fortran_order':False,'descr':'|u1'}", "\5\6", std::string("\x02\x00", 2)),
               DType::u8) == std::vector<double>{5, 6});
  CHECK(values(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2L,), }", "\5\6", std::string("\x03\x00", 2)),
               DType::u8) == std::vector<double>{5, 6});
}

TEST_CASE("types that NumPy lacks") {
  CHECK(values(npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", std::string("\x80\x3f\x00\xc0", 4)),
               DType::bf16) == std::vector<double>{1, -2});
  CHECK(values(npy("{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }", "\x01\xff\x07"), DType::i4) ==
        std::vector<double>{1, -1, 7});
  std::string packed("\xf1\x07", 2); // 1, -1, 7
  std::string back = toNpy(DType::i4, {3}, bytesOf(packed));
  CHECK(back.substr(back.size() - 3) == "\x01\xff\x07");
  std::string quarters("\x8d\x02", 2); // 1, -1, 0, -2, -2
  back = toNpy(DType::i2, {5}, bytesOf(quarters));
  CHECK(back.substr(back.size() - 5) == std::string("\x01\xff\0\xfe\xfe", 5));
  CHECK(values(npy("{'descr': '|i1', 'fortran_order': False, 'shape': (5,), }", back.substr(back.size() - 5)),
               DType::i2) == std::vector<double>{1, -1, 0, -2, -2});
  CHECK(values(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", std::string("\1\3\0\2\3", 5)),
               DType::u2) == std::vector<double>{1, 3, 0, 2, 3});
  CHECK(values(npy("{'descr': '|V1', 'fortran_order': False, 'shape': (3,), }", "\x01\x0f\x05"), DType::f4e2m1) ==
        std::vector<double>{0.5, -6, 3});
  CHECK(values(npy("{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }", "\x7f\x82"), DType::f8e8m0) ==
        std::vector<double>{1, 8});
}

TEST_CASE("every type through a file") {
  for (unsigned t = 1; t <= unsigned(lastDType); ++t) {
    DType type = DType(t);
    std::string data(*denseBytes(type, std::vector<int64_t>{2, 4}), '\1');
    std::string file = toNpy(type, {2, 4}, bytesOf(data));
    auto read = readNpy(bytesOf(file), type, "f.npy", "x");
    REQUIRE(bool(read));
    CHECK(read->dims == std::vector<int64_t>{2, 4});
    CHECK(std::memcmp(read->bytes.data(), data.data(), data.size()) == 0);
  }
}

TEST_CASE("wrong files") {
  const std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  CHECK(failure("hello", DType::f32) == "f.npy: this is not an .npy file");
  CHECK(failure("\x93NUMPY", DType::f32) == "f.npy: the file is cut inside its header");
  CHECK(failure(npy(head, raw<float>({1})), DType::f32) == "f.npy: its shape 2 needs 8 bytes, the file holds 4");
  CHECK(failure(npy(head, raw<float>({1, 2, 3})), DType::f32) == "f.npy: its shape 2 needs 8 bytes, the file holds 12");
  CHECK(failure(npy(head, raw<float>({1, 2})), DType::i64) ==
        "f.npy: input 'x' has elements of type i64, the file's are 'f4'");
  CHECK(failure(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", ""), DType::f32) ==
        "f.npy: it holds records, not one element type");
  CHECK(failure(npy("{'descr': '<f4', 'shape': (2,), }", ""), DType::f32) ==
        "f.npy: its header lacks descr, fortran_order or shape");
  CHECK(failure(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", ""), DType::f32) ==
        "f.npy: its shape is not a tuple of sizes");
  CHECK(failure(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }", ""), DType::f32)
            .find("too many") != std::string::npos);
  CHECK(failure(npy("{'descr'", ""), DType::f32) == "f.npy: its header lacks a ':'");
  CHECK(failure(npy(head, "", std::string("\x09\x00", 2)), DType::f32) ==
        "f.npy: an .npy file of version 9, known are 1 to 3");
  std::string good = npy(head, raw<float>({1, 2}));
  for (size_t size = 0; size < good.size(); ++size)
    CHECK(failure(good.substr(0, size), DType::f32) != "read");
}
