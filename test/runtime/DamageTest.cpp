// Damaged, foreign and forged bundles: each gives an error of the right code that names the file, never a crash.
#include "Bundles.h"
#include "mrcc/Bundle/Archive.h"
#include "mrcc/Bundle/Hash.h"
#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <sys/stat.h>

using namespace mrcc;
using namespace test;

namespace {

/// A good bundle and a way to change one of its files.
class Victim {
public:
  explicit Victim(const Options &options = {}) {
    write(path, Contents({{16, 32}, {72, 128}}, options));
    for (const auto &entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file())
        files.push_back(std::filesystem::relative(entry.path(), path).string());
    std::sort(files.begin(), files.end());
  }
  /// The file whose name begins so.
  std::string named(const std::string &front) const {
    for (const std::string &f : files)
      if (f.starts_with(front))
        return f;
    FAIL("no file " << front);
    return {};
  }
  std::string read(const std::string &file) const { return readFile(path + "/" + file); }
  void put(const std::string &file, const std::string &bytes) const { writeFile(path + "/" + file, bytes); }
  /// Changes the index and gives it a right hash again.
  void forgeIndex(const std::function<void(std::string &)> &change) const {
    std::string index = read("index");
    change(index);
    const Hash128 hash = hashOfIndex(index.data(), index.size());
    std::memcpy(index.data() + offsetof(IndexHeader, hash), &hash, sizeof hash);
    put("index", index);
  }
  /// Replaces a program's file, with everything in the index that vouches for it.
  void forgeProgram(const std::string &bytes) const {
    const std::string file = named("variants/x=1x3x16x32");
    put(file, bytes);
    forgeIndex([&](std::string &index) {
      auto *header = reinterpret_cast<IndexHeader *>(index.data());
      auto *record = reinterpret_cast<FileRecord *>(index.data() + header->files.offset);
      for (uint64_t i = 0; i < header->files.count; ++i)
        if (std::string(index.data() + header->strings.offset + record[i].name.offset, record[i].name.length) == file) {
          record[i].bytes = bytes.size();
          record[i].hash = hashBytes(bytes);
        }
    });
  }
  void forgeProgram(const std::function<void(Program &)> &change) const {
    Program program;
    REQUIRE(fromBytes(read(named("variants/x=1x3x16x32")), programMark, program) == nullptr);
    change(program);
    forgeProgram(toBytes(program, programMark));
  }

  Folder folder;
  std::string path = folder / "victim.mrcb";
  std::vector<std::string> files;
};

bool isRefusal(mrcc_code code) {
  return code == MRCC_DAMAGED || code == MRCC_NOT_A_BUNDLE || code == MRCC_WRONG_VERSION;
}

} // namespace

TEST_CASE("every file cut at 16 places and to nothing is refused") {
  Victim victim;
  for (const std::string &file : victim.files) {
    if (file == "manifest.json")
      continue;
    const std::string good = victim.read(file);
    for (int part = 0; part < 17; ++part) {
      victim.put(file, good.substr(0, good.size() * part / 17));
      Outcome result = tryRun(victim.path);
      INFO(file << " cut to " << good.size() * part / 17 << ": " << result.message);
      CHECK(isRefusal(result.code));
      CHECK(result.message.find(file) != std::string::npos);
    }
    victim.put(file, good + "x");
    CHECK(isRefusal(tryRun(victim.path).code));
    victim.put(file, good);
  }
  CHECK(tryRun(victim.path).code == MRCC_OK);
}

TEST_CASE("every changed byte of index and programs is refused at open") {
  Victim victim;
  for (const std::string &file : victim.files) {
    if (file != "index" && !file.starts_with("variants/"))
      continue;
    std::string bytes = victim.read(file);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] ^= 1 << i % 8;
      victim.put(file, bytes);
      for (mrcc_verify verify : {MRCC_VERIFY_LAZY, MRCC_VERIFY_METADATA})
        if (!isRefusal(tryOpen(victim.path, verify).code))
          FAIL_CHECK(file << ": byte " << i);
      bytes[i] ^= 1 << i % 8;
    }
    victim.put(file, bytes);
  }
}

TEST_CASE("changed constants and code are refused before they are used") {
  Victim victim;
  for (const std::string &file : victim.files) {
    if (!file.starts_with("constants-") && !file.starts_with("code-"))
      continue;
    const std::string good = victim.read(file);
    for (size_t i = 0; i < good.size(); i += std::max<size_t>(1, good.size() / 40)) {
      std::string bytes = good;
      bytes[i] ^= 0x10;
      victim.put(file, bytes);
      CHECK(tryOpen(victim.path, MRCC_VERIFY_FULL).code == MRCC_DAMAGED);
      // By hash when it is first used, or, in a code image's own headers, already when it is mapped.
      Outcome result = tryRun(victim.path);
      CHECK(result.code == MRCC_DAMAGED);
      CHECK(result.message.find(file) != std::string::npos);
    }
    victim.put(file, good);
  }
}

TEST_CASE("a missing file is named") {
  Victim victim;
  for (const std::string &file : victim.files) {
    const std::string good = victim.read(file);
    std::filesystem::remove(victim.path + "/" + file);
    Outcome result = tryRun(victim.path);
    if (file == "manifest.json") {
      CHECK(result.code == MRCC_OK); // for people alone
    } else {
      CHECK(result.code == (file == "index" ? MRCC_NOT_A_BUNDLE : MRCC_DAMAGED));
      CHECK(result.message.find(file == "index" ? victim.path : file) != std::string::npos);
    }
    auto problems = verifyBundle(victim.path);
    if (problems)
      CHECK((problems->size() == 1 && problems->front().find(file) != std::string::npos));
    else
      CHECK(llvm::toString(problems.takeError()).find("index") != std::string::npos);
    victim.put(file, good);
  }
}

TEST_CASE("verify names each damaged file, the manifest included") {
  Victim victim;
  for (const std::string &file : victim.files) {
    const std::string good = victim.read(file);
    std::string bytes = good;
    bytes[bytes.size() / 2] ^= 1;
    victim.put(file, bytes);
    auto problems = verifyBundle(victim.path);
    REQUIRE(bool(problems));
    REQUIRE(!problems->empty());
    CHECK(problems->front().find(file) != std::string::npos);
    victim.put(file, good);
  }
  CHECK(llvm::cantFail(verifyBundle(victim.path)).empty());
}

TEST_CASE("another format version is named with ours, and its header still reads") {
  Victim victim;
  for (uint32_t version : {formatVersion - 1, formatVersion + 1, 0xffffffffu}) {
    std::string index = victim.read("index");
    std::memcpy(index.data() + offsetof(IndexHeader, formatVersion), &version, sizeof version);
    victim.put("index", index);
    Outcome result = tryOpen(victim.path);
    CHECK(result.code == MRCC_WRONG_VERSION);
    CHECK(result.message.find("version " + std::to_string(version)) != std::string::npos);
    CHECK(result.message.find("reads version " + std::to_string(formatVersion)) != std::string::npos);
    CHECK(result.message.find("compile") != std::string::npos);
    auto header = readBundleHeader(victim.path);
    REQUIRE(bool(header));
    CHECK(header->version == version);
    CHECK(header->producer == "mrcc test");
    CHECK(llvm::toString(readBundle(victim.path).takeError()).find("version") != std::string::npos);
  }
}

TEST_CASE("what is no bundle is refused as such") {
  Folder folder;
  writeFile(folder / "text", "not a bundle, but longer than the header of one would be: " + std::string(400, '.'));
  writeFile(folder / "empty", "");
  std::filesystem::create_directory(folder / "folder");
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  for (const char *name : {"text", "empty", "folder", "fifo", "missing", "text/inside"}) {
    Outcome result = tryOpen(folder / name);
    INFO(name << ": " << result.message);
    CHECK(result.code == MRCC_NOT_A_BUNDLE);
    CHECK(result.message.find(name) != std::string::npos);
    CHECK(!bool(llvm::expectedToOptional(readBundle(folder / name))));
    CHECK(!bool(llvm::expectedToOptional(verifyBundle(folder / name))));
  }
}

TEST_CASE("a packed bundle that is cut or changed is refused") {
  Folder folder;
  Contents contents({{16, 32}});
  const std::string packed = llvm::cantFail(packBundle(contents.contents));
  for (size_t shift : {0, 1})
    for (int part = 0; part <= 34; ++part) {
      const std::string bytes = std::string(shift, 'x') + packed.substr(0, packed.size() * part / 34);
      std::vector<char> exact(bytes.begin(), bytes.end()); // on the heap, so that a sanitizer sees its end
      mrcc_model *model = nullptr;
      Outcome result = outcome([&](mrcc_error **e) {
        return mrcc_model_open_memory(exact.size() == shift ? "" : exact.data() + shift, exact.size() - shift, nullptr,
                                      &model, e);
      });
      INFO(shift << ", " << part << ": " << result.message);
      if (part < 34)
        CHECK(isRefusal(result.code));
      else
        CHECK(result.code == MRCC_OK); // the whole, also where its constants and code are not aligned
      mrcc_model_free(model);
    }
}

TEST_CASE("a CPU without the target's features is refused with their names") {
  Options options;
  options.features = {"sse2", "avx9000", "time-travel"};
  Victim victim(options);
  Outcome result = tryOpen(victim.path);
  CHECK(result.code == MRCC_UNSUPPORTED_CPU);
  CHECK(result.message.find("avx9000 time-travel") != std::string::npos);
  CHECK(result.message.find("sse2") == std::string::npos);
  CHECK(llvm::cantFail(readBundle(victim.path)).variants.size() == 2); // dump and verify need no such CPU
  CHECK(llvm::cantFail(verifyBundle(victim.path)).empty());
}

TEST_CASE("forged numbers in the index are refused or harmless") {
  Victim victim;
  const std::string good = victim.read("index");
  for (uint32_t value : {0u, 1u, 0x7fffffffu, 0xffffffffu})
    for (size_t at = offsetof(IndexHeader, manifestHash); at + 4 <= good.size(); at += 4) {
      victim.put("index", good);
      victim.forgeIndex([&](std::string &index) { std::memcpy(index.data() + at, &value, 4); });
      mrcc_model *model = nullptr;
      if (mrcc_model_open(victim.path.c_str(), nullptr, &model, nullptr) == MRCC_OK)
        for (uint32_t v = 0; v < mrcc_model_num_variants(model); ++v)
          mrcc_model_prepare(model, v, nullptr);
      mrcc_model_free(model);
    }
}

TEST_CASE("forged programs are refused") {
  Victim victim;
  auto refused = [&](const std::function<void(Program &)> &change, mrcc_code code = MRCC_DAMAGED) {
    const std::string program = victim.read(victim.named("variants/x=1x3x16x32")), index = victim.read("index");
    victim.forgeProgram(change);
    Outcome result = tryOpen(victim.path);
    INFO(result.message);
    CHECK(result.code == code);
    CHECK((code == MRCC_OK || result.message.find("variants/x=1x3x16x32") != std::string::npos));
    victim.put(victim.named("variants/x=1x3x16x32"), program);
    victim.put("index", index);
    return result.message;
  };
  auto view = [&](auto change) {
    return refused([&](Program &p) {
      change(p.steps[2].views[1]); /* the end of the arena */
    });
  };
  CHECK(refused([](Program &) {}, MRCC_OK) == "");
  const std::string where = view([](View &v) { v.offset += 4; });
  CHECK(where.find("step 2") != std::string::npos);
  view([](View &v) { v.offset = ~uint64_t(0) - 3; });
  view([](View &v) { v.offset = uint64_t(1) << 63; });
  view([](View &v) { v.offset = 2; });
  view([](View &v) { v.dims[0] += 1000000; });
  view([](View &v) { v.dims[0] = -1; });
  view([](View &v) { v.dims[0] = int64_t(1) << 62; });
  view([](View &v) { v.strides[1] = -1000; });
  view([](View &v) { v.strides[0] = int64_t(1) << 60; });
  view([](View &v) { v.strides[0] = INT64_MIN; });
  view([](View &v) { v.strides.pop_back(); });
  view([](View &v) { v.type = DType(77); });
  view([](View &v) { v.type = DType::none; });
  view([](View &v) { v.type = DType::f64; });
  view([](View &v) { v.space = Space(9); });
  view([](View &v) { v.index = 1; });
  view([](View &v) { v.space = Space::input, v.index = 7; });
  view([](View &v) { v.space = Space::output, v.index = 1; });
  view([](View &v) { v.space = Space::constant, v.index = 99; });
  view([](View &v) { v.dims.assign(65, 1), v.strides.assign(65, 1); });
  refused([](Program &p) { p.steps[0].views[0].space = Space::input; });
  refused([](Program &p) { p.steps[0].views[0].space = Space::constant; });
  refused([](Program &p) { p.steps[0].kernel = 5; });
  refused([](Program &p) { p.steps[0].outputs = 9; });
  refused([](Program &p) { p.steps[0].units = ~uint64_t(0); });
  refused([](Program &p) { p.steps[0].scratchBytes = uint64_t(1) << 40; });
  refused([](Program &p) { p.steps[0].kind = StepKind(2); }, MRCC_UNSUPPORTED_PROGRAM);
  refused([](Program &p) { p.arenaBytes += 64; });
  refused([](Program &p) { p.inputs[0].dims[3] = 31; });
  refused([](Program &p) { p.inputs[0].name = "z"; });
  refused([](Program &p) { p.inputs.clear(); });
  refused([](Program &p) { p.outputs.push_back(p.outputs[0]); });
  refused([](Program &p) { p.constants[0].hash.low ^= 1; });
  refused([](Program &p) { p.constants[0].ordinal = 1; });
  refused([](Program &p) { p.constants[0].bytes += 64; });
  refused([](Program &p) { p.constants[0].splat.assign(17, 0); });
  refused([](Program &p) { p.kernels[0].high ^= 1; });
  refused([](Program &p) { p.steps.pop_back(); });
  refused([](Program &p) { p.key = "other"; });
}

TEST_CASE("programs of random bytes and random changes are refused or prepared") {
  Victim victim;
  const std::string program = victim.read(victim.named("variants/x=1x3x16x32")), index = victim.read("index");
  std::vector<float> random = randomValues(4000, 7);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = program;
    auto number = [&](int k, size_t below) { return size_t((random[4 * i + k] + 16) * 64) % below; };
    const size_t at = number(0, bytes.size());
    if (i % 4 == 0)
      bytes.resize(at);
    else if (i % 4 == 1)
      bytes.insert(at, std::string(number(1, 40), char(number(2, 256))));
    else
      bytes[at] = char(number(1, 256));
    victim.put("index", index);
    victim.forgeProgram(bytes);
    mrcc_model *model = nullptr;
    if (mrcc_model_open(victim.path.c_str(), nullptr, &model, nullptr) == MRCC_OK)
      mrcc_model_prepare(model, 0, nullptr);
    mrcc_model_free(model);
  }
}

TEST_CASE("code and constants of another build do not pair") {
  Victim a, b;
  Contents other({{16, 32}, {72, 128}});
  for (auto &v : other.contents.variants)
    v.arenaLowerBound += 64; // other programs, same everything else
  write(b.path, other);
  const std::string mine = a.named("variants/x=1x3x16x32");
  for (const auto &entry : std::filesystem::directory_iterator(b.path + "/variants"))
    if (entry.path().filename().string().starts_with("x=1x3x16x32"))
      a.put(mine, readFile(entry.path()));
  CHECK(tryOpen(a.path).code == MRCC_DAMAGED);
}
