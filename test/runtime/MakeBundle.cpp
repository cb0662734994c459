// Writes the bundles that tests without LLVM use: nine sizes, and one of many small steps.
#define DOCTEST_CONFIG_IMPLEMENT
#include "Bundles.h"
#include <doctest/doctest.h>

static std::string folder;

TEST_CASE("write") {
  std::filesystem::create_directories(folder);
  std::vector<test::Size> sizes;
  for (int64_t h : {16, 64, 256})
    for (int64_t w : {16, 64, 256})
      sizes.push_back({h, w});
  test::Options many;
  many.repeat = 34; // 102 steps
  test::Contents nine(sizes), steps({{8, 16}}, many), parallel({{1, 16}, {64, 64}}, many);
  for (mrcc::BundleVariant &v : parallel.contents.variants)
    for (mrcc::Step &step : v.steps)
      step.flops = 1000000; // claims to be worth sharing
  test::write(folder + "/nine.mrcb", nine);
  test::write(folder + "/steps.mrcb", steps);
  test::write(folder + "/parallel.mrcb", parallel);

  // A seed for the fuzzer (fuzz.cpp): the files of a small bundle one after the other.
  test::Contents small({{4, 8}, {8, 4}});
  test::write(folder + "/small.mrcb", small);
  std::string seed = test::readFile(folder + "/small.mrcb/index");
  for (const auto &file : llvm::cantFail(mrcc::readBundle(folder + "/small.mrcb")).files)
    if (file.name != "index")
      seed += test::readFile(folder + "/small.mrcb/" + file.name);
  test::writeFile(folder + "/seed", seed);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  folder = argv[1];
  return doctest::Context().run();
}
