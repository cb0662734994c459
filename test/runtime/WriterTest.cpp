// What the writer makes: order does not matter, constants and kernels are there once, updates leave other files alone.
#include "Bundles.h"
#include "mrcc/Bundle/Hash.h"
#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

using namespace mrcc;
using namespace test;

static std::map<std::string, std::string> contentsOf(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder).string()] = readFile(entry.path());
  return files;
}

static BundleInfo infoOf(const std::string &path) {
  auto info = readBundle(path);
  const std::string message = info ? "" : llvm::toString(info.takeError());
  REQUIRE(message == "");
  return std::move(*info);
}

TEST_CASE("the order of variants changes no byte") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{64, 64}, {72, 128}, {8, 200}}));
  write(folder / "b.mrcb", Contents({{8, 200}, {64, 64}, {72, 128}}));
  CHECK(contentsOf(folder / "a.mrcb") == contentsOf(folder / "b.mrcb"));
}

TEST_CASE("variants are sorted by dims as numbers") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{100, 64}, {20, 64}, {20, 7}}));
  BundleInfo info = infoOf(folder / "a.mrcb");
  REQUIRE(info.variants.size() == 3);
  CHECK(info.variants[0].program.key == "x=1x3x20x7");
  CHECK(info.variants[1].program.key == "x=1x3x20x64");
  CHECK(info.variants[2].program.key == "x=1x3x100x64");
}

TEST_CASE("adding and removing a variant leaves the other programs' files and gives what writing it at once gives") {
  Folder folder;
  const std::string path = folder / "a.mrcb";
  write(path, Contents({{64, 64}, {72, 128}}));
  auto before = contentsOf(path);
  write(path, Contents({{64, 64}, {72, 128}, {8, 200}}));
  auto after = contentsOf(path);
  for (const auto &[name, bytes] : before)
    if (name.starts_with("variants/"))
      CHECK(after.at(name) == bytes);
  write(folder / "b.mrcb", Contents({{64, 64}, {72, 128}, {8, 200}}));
  CHECK(after == contentsOf(folder / "b.mrcb"));
  write(path, Contents({{64, 64}, {72, 128}}));
  CHECK(before == contentsOf(path));
}

TEST_CASE("the shared constants are the same file whatever the list of resolutions") {
  Folder folder;
  auto sharedFile = [&](const std::string &path) {
    for (const BundleInfo::File &f : infoOf(path).files)
      if (f.name.starts_with("constants-"))
        return f.name;
    return std::string();
  };
  write(folder / "a.mrcb", Contents({{64, 64}}));
  write(folder / "b.mrcb", Contents({{64, 64}, {72, 128}}));
  CHECK(sharedFile(folder / "a.mrcb") == sharedFile(folder / "b.mrcb"));
  CHECK(sharedFile(folder / "a.mrcb") != "");
}

TEST_CASE("bytes shared and unique add up to the files") {
  Folder folder;
  const std::string path = folder / "a.mrcb";
  write(path, Contents({{64, 64}, {32, 64}, {72, 128}})); // 64x64 and 32x64 share the ramp of width 64
  BundleInfo info = infoOf(path);
  uint64_t unique = 0, constantFiles = 0;
  for (const auto &v : info.variants)
    unique += v.uniqueConstantBytes;
  for (const auto &f : info.files) {
    CHECK(f.bytes == std::filesystem::file_size(path + "/" + f.name));
    constantFiles += f.name.starts_with("constants-") ? f.bytes : 0;
  }
  CHECK(info.constantBytes == 64 * 4 + 64 * 4 + 128 * 4);
  CHECK(info.constantBytes + info.paddingBytes == constantFiles);
  CHECK(unique + info.sharedConstantBytes == info.constantBytes);
  CHECK(unique == 128 * 4);
  CHECK(info.unsharedBytes == 3 * 64 * 4 + 2 * 64 * 4 + 128 * 4);
  REQUIRE(info.targets.size() == 1);
  CHECK(info.targets[0].kernelBytes == info.variants[0].codeBytes);
  CHECK(info.targets[0].sharedKernelBytes == info.targets[0].kernelBytes);
  CHECK(info.model.inputs.at(0).dims == std::vector<std::string>{"1", "3", "H", "W"});
  CHECK(info.flags.at("math") == "fast");
  CHECK(info.folded.size() == 1);
}

/// Constants by their bytes in one variant with one step that reads each of them.
static BundleInfo packedConstants(const std::string &path, const std::vector<std::vector<uint8_t>> &constants,
                                  bool collide) {
  Contents base({{4, 4}});
  BundleContents contents = base.contents;
  contents.collideHashes = collide;
  for (const auto &bytes : constants) {
    Step step = contents.variants[0].steps[0];
    const uint32_t number = contents.variants[0].constants.size();
    contents.variants[0].constants.push_back({bytes, true, false});
    step.views[2] = View{Space::constant, DType::u8, number, 0, {int64_t(bytes.size())}, {1}};
    contents.variants[0].steps.push_back(step);
  }
  llvm::Error error = writeBundle(path, contents);
  REQUIRE(!error);
  return infoOf(path);
}

template <typename T> static std::vector<uint8_t> bytesOf(std::vector<T> values) {
  auto *p = reinterpret_cast<const uint8_t *>(values.data());
  return {p, p + values.size() * sizeof(T)};
}

TEST_CASE("equal bytes merge, different bytes stay apart, also when all hashes are equal") {
  const std::vector<std::vector<uint8_t>> constants = {bytesOf<int64_t>({2, 2}),        bytesOf<int64_t>({0, 128}),
                                                       bytesOf<float>({0.0f}),          bytesOf<float>({-0.0f}),
                                                       bytesOf<uint32_t>({0x7fc00001}), bytesOf<uint32_t>({0x7fc00002}),
                                                       bytesOf<int64_t>({2, 2})};
  for (bool collide : {false, true}) {
    Folder folder;
    const std::string path = folder / "a.mrcb";
    BundleInfo info = packedConstants(path, constants, collide);
    CHECK(info.constants.size() == 2 + 6); // the test's own two, and six different ones
    CHECK(tryRun(path).message == "");     // and each program finds its own: the result is right
    const auto &program = info.variants[0].program;
    CHECK(program.steps[3].views[2].index == program.steps[9].views[2].index);
    for (size_t i = 3; i < 8; ++i)
      for (size_t j = i + 1; j < 9; ++j)
        CHECK(program.steps[i].views[2].index != program.steps[j].views[2].index);
    auto reader = llvm::cantFail(BundleReader::open(path)); // and so does who reads them one by one
    for (size_t i = 0; i < constants.size(); ++i) {
      const uint32_t index = program.steps[3 + i].views[2].index;
      CHECK(llvm::cantFail(reader.constant(program.constants[index])) == llvm::ArrayRef(constants[i]));
    }
    CHECK(llvm::toString(reader.constant({{1, 2}, 0, 4, {}}).takeError()) == path + ": no constant " + toHex({1, 2}));
  }
}

TEST_CASE("constants begin at multiples of 64") {
  Folder folder;
  BundleInfo info = packedConstants(folder / "a.mrcb",
                                    {bytesOf<uint8_t>({1}), bytesOf<int32_t>({2}), bytesOf<int64_t>({3}),
                                     bytesOf<float>({1, 2, 3}), bytesOf<float>(std::vector<float>(65, 7))},
                                    false);
  for (const auto &c : info.constants)
    CHECK(c.offset % 64 == 0);
}

TEST_CASE("a damaged data file is repaired by writing the bundle again") {
  Folder folder;
  const std::string path = folder / "a.mrcb";
  write(path, Contents({{64, 64}}));
  auto before = contentsOf(path);
  for (const auto &[name, bytes] : before) {
    std::string changed = bytes;
    changed[changed.size() / 2] ^= 1;
    writeFile(path + "/" + name, changed);
    write(path, Contents({{64, 64}}));
    CHECK(contentsOf(path) == before);
  }
}

TEST_CASE("what is not ours is never replaced or removed") {
  Folder folder;
  writeFile(folder / "file", "mine");
  CHECK(llvm::toString(writeBundle(folder / "file", Contents({{4, 4}}).contents)).find("not a folder") !=
        std::string::npos);
  std::filesystem::create_directory(folder / "work");
  writeFile(folder / "work/notes.txt", "mine");
  CHECK(llvm::toString(writeBundle(folder / "work", Contents({{4, 4}}).contents)).find("not a bundle") !=
        std::string::npos);
  CHECK(readFile(folder / "work/notes.txt") == "mine");
  write(folder / "a.mrcb", Contents({{4, 4}}));
  writeFile(folder / "a.mrcb/notes.txt", "mine");
  write(folder / "a.mrcb", Contents({{8, 8}}));
  CHECK(readFile(folder / "a.mrcb/notes.txt") == "mine");
  CHECK(tryRun(folder / "a.mrcb").message == "");
}

TEST_CASE("a bundle that cannot be written leaves the old one") {
  Folder folder;
  const std::string path = folder / "a.mrcb";
  CHECK(llvm::toString(writeBundle(folder / "missing/a.mrcb", Contents({{4, 4}}).contents)) != "");
  write(path, Contents({{4, 4}}));
  auto before = contentsOf(path);
  std::filesystem::create_directory(path + "/index.new"); // the index cannot be created
  writeFile(path + "/index.new/x", "");
  CHECK(llvm::toString(writeBundle(path, Contents({{8, 8}}).contents)) != "");
  std::filesystem::remove_all(path + "/index.new");
  CHECK(contentsOf(path) == before);
}

TEST_CASE("contents that do not fit together are refused") {
  auto refused = [](auto change) {
    Contents c({{4, 4}, {8, 8}});
    BundleContents contents = c.contents;
    change(contents);
    Folder folder;
    llvm::Error error = writeBundle(folder / "a.mrcb", contents);
    CHECK(!std::filesystem::exists(folder / "a.mrcb"));
    return llvm::toString(std::move(error));
  };
  CHECK(refused([](BundleContents &c) { c.variants[1] = c.variants[0]; }).find("twice") != std::string::npos);
  CHECK(refused([](BundleContents &c) { c.targets[0].kernels.pop_back(); }).find("no kernel") != std::string::npos);
  CHECK(refused([](BundleContents &c) { c.targets[0].kernels.push_back({"k", "k", 0, 1}); }).find("no variant calls") !=
        std::string::npos);
  CHECK(refused([](BundleContents &c) { c.variants[0].steps[0].kernel = 9; }).find("does not exist") !=
        std::string::npos);
  CHECK(refused([](BundleContents &c) { c.variants[0].steps[0].views[2].index = 9; }).find("does not exist") !=
        std::string::npos);
  CHECK(refused([](BundleContents &c) { c.producer = std::string(40, 'x'); }).find("too long") != std::string::npos);
}

TEST_CASE("an update that was killed at its last step has lost nothing") {
  Folder folder;
  const std::string path = folder / "a.mrcb";
  write(path, Contents({{64, 64}}));
  std::filesystem::rename(path + "/manifest.json", path + "/manifest.json.new");
  CHECK(infoOf(path).model.name == "test");
  auto problems = verifyBundle(path);
  REQUIRE(bool(problems));
  CHECK(problems->empty());
  write(path, Contents({{64, 64}}));
  CHECK(!std::filesystem::exists(path + "/manifest.json.new"));
}

/// Writes the bundles in turn until it is killed.
static pid_t startWriter(const std::string &path, const Contents &a, const Contents &b) {
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0;; ++i)
      if (llvm::Error error = writeBundle(path, (i % 2 ? a : b).contents)) {
        llvm::consumeError(std::move(error));
        _exit(1);
      }
  }
  return child;
}
static void stopWriter(pid_t child) {
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status)); // it had not failed before
}

TEST_CASE(
    "a writer killed at any moment leaves nothing, the old bundle or the new one, and the next writer cleans up") {
  Folder folder;
  Contents a({{16, 16}, {24, 16}}), b({{16, 16}, {32, 48}});
  write(folder / "a.mrcb", a);
  write(folder / "b.mrcb", b);
  const auto filesOfA = contentsOf(folder / "a.mrcb");
  for (int round = 0; round < 50; ++round) {
    const std::string path = folder / ("x" + std::to_string(round % 10) + ".mrcb"); // on nothing, then on what is there
    pid_t child = startWriter(path, a, b);
    usleep(500 + round * round * 37 % 40000);
    stopWriter(child);
    if (!std::filesystem::exists(path + "/index")) {
      CHECK(tryOpen(path).code == MRCC_NOT_A_BUNDLE);
      continue;
    }
    CHECK(tryRun(path, MRCC_VERIFY_FULL).message == "");
    CHECK(llvm::cantFail(verifyBundle(path)).empty());
    BundleInfo info = infoOf(path);
    const std::string second = info.variants.at(1).program.key;
    CHECK((second == "x=1x3x24x16" || second == "x=1x3x32x48"));
    write(path, a);
    CHECK(contentsOf(path) == filesOfA);
  }
}

TEST_CASE("readers and two writers at once: everybody sees whole bundles") {
  Folder folder;
  const std::string path = folder / "a.mrcb";
  Contents a({{16, 16}, {24, 16}}), b({{16, 16}, {32, 48}});
  write(path, a);
  pid_t first = startWriter(path, a, b), second = startWriter(path, b, a);
  for (int i = 0; i < 100; ++i) {
    CHECK(tryRun(path, MRCC_VERIFY_FULL).message == "");
    usleep(1000);
  }
  stopWriter(first);
  stopWriter(second);
  write(path, a);
  CHECK(contentsOf(path).size() == infoOf(path).files.size() + 1); // the manifest
}

TEST_CASE("manifest and dump say the same, and diff finds what changed") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{64, 64}, {8, 8}}));
  write(folder / "b.mrcb", Contents({{64, 64}, {8, 16}}));
  BundleInfo a = infoOf(folder / "a.mrcb"), b = infoOf(folder / "b.mrcb");
  CHECK(llvm::cantFail(toJson(a)) == readFile(folder / "a.mrcb/manifest.json"));
  CHECK(llvm::cantFail(toJson(a, folder / "a.mrcb")).find("sha256\": \"") != std::string::npos);
  CHECK(diffBundles(a, a).empty());
  auto lines = diffBundles(a, b);
  auto has = [&](const std::string &line) { return std::find(lines.begin(), lines.end(), line) != lines.end(); };
  CHECK(has("- variant x=1x3x8x8 for cpu:test"));
  CHECK(has("+ variant x=1x3x8x16 for cpu:test"));
}

TEST_CASE("the packed form runs from memory, at any address, and from a file") {
  Folder folder;
  Contents contents({{64, 64}, {72, 128}});
  std::string packed = llvm::cantFail(packBundle(contents.contents));
  writeFile(folder / "a.pack", packed);
  CHECK(tryRun(folder / "a.pack").message == "");
  CHECK(llvm::cantFail(readBundle(folder / "a.pack")).variants.size() == 2);
  for (size_t shift : {0, 1, 8, 63}) {
    std::vector<char> memory(packed.size() + 128);
    char *aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    std::memcpy(aligned + shift, packed.data(), packed.size());
    mrcc_model *model = nullptr;
    Outcome opened = outcome(
        [&](mrcc_error **e) { return mrcc_model_open_memory(aligned + shift, packed.size(), nullptr, &model, e); });
    REQUIRE(opened.message == "");
    mrcc_context *context = nullptr;
    REQUIRE(mrcc_context_create(model, nullptr, &context, nullptr) == MRCC_OK);
    std::vector<float> x = randomValues(3 * 72 * 128, 3), y;
    CHECK(runOnce(context, x, y, {72, 128}).message == "");
    CHECK(y == expected(x, {72, 128}));
    mrcc_context_free(context);
    mrcc_model_free(model);
  }
}
