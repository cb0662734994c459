// The cost model on a machine of round numbers, against times computed by hand.
#include "mrcc/Kernels/Cost.h"
#include "KernelHarness.h"
#include <doctest/doctest.h>

using namespace mrcc;

namespace {

/// 100 GFLOP/s; 100, 50, 20 and 10 GB/s to read, half of that to write; caches of 32 kB, 1 MB and 16 MB.
Machine roundMachine() {
  Machine m;
  m.multiplyAdds = 100e9;
  m.levels = {{{32000, 100e9, 50e9}, {1000000, 50e9, 25e9}, {16000000, 20e9, 10e9}, {UINT64_MAX, 10e9, 5e9}}};
  return m;
}

KernelDescription kernelOf(const char *family) {
  KernelDescription kernel;
  kernel.family = family;
  return kernel;
}

View floats(Space space, int64_t count) { return {space, DType::f32, 0, 0, {count}, {1}}; }

/// out = f(in, constant), `count` floats each.
Step stepOf(int64_t count) {
  Step step;
  step.outputs = 1;
  step.views = {floats(Space::arena, count), floats(Space::arena, count), floats(Space::constant, count)};
  step.work.moved = 3 * 4 * count;
  return step;
}

const Target &v3() { return *Target::find("x86-64-v3"); }

} // namespace

TEST_CASE("bytes come from the caches by the share of the working set that they hold") {
  // 240 kB of views: 0.76 of them in L2, 0.985 of the rest in L3. A byte takes 0.76/50 + 0.2364/20 + 0.0036/10 ns to
  // read, twice that to write; 80 kB take 2.1904 and 4.3808 us.
  const Step step = stepOf(20000);
  auto memory = [](const Step &step, uint64_t programBytes) {
    return predict(kernelOf("matmul"), step, programBytes, v3(), roundMachine()).memory * 1e6;
  };
  CHECK(memory(step, 0) == doctest::Approx(4.3808 + 0.3 * 4.3808)); // constants are no nearer than the step's views
  // Constants of a program of 500 kB: 0.5/50 + 0.484375/20 + 0.015625/10 ns a byte. The longer side, 0.3 of the other.
  CHECK(memory(step, 500000) == doctest::Approx(2.1904 + 2.8625 + 0.3 * 4.3808));
  CHECK(memory(step, 10000000) == doctest::Approx(2.1904 + 6.5 + 0.3 * 4.3808));  // 0.375/20 + 0.625/10
  CHECK(memory(step, 100000000) == doctest::Approx(2.1904 + 8.0 + 0.3 * 4.3808)); // 1/10
  Step again = step; // 1 MB more passes L2: it comes from L3
  again.work.moved += 1000000;
  CHECK(memory(again, 500000) == doctest::Approx(2.1904 + 2.8625 + 50 + 0.3 * 4.3808));
  Step absent = step;
  absent.views.push_back({});
  CHECK(memory(absent, 500000) == memory(step, 500000));
}

TEST_CASE("arithmetic grows in proportion, and more of anything is never faster") {
  Step step = stepOf(1000);
  step.work.multiplied = 2000000;
  const Prediction once = predict(kernelOf("matmul"), step, 0, v3(), roundMachine());
  CHECK(once.arithmetic >= 2e6 / 100e9); // no faster than the peak
  step.work.multiplied *= 3;
  const Prediction thrice = predict(kernelOf("matmul"), step, 0, v3(), roundMachine());
  CHECK(thrice.arithmetic == doctest::Approx(3 * once.arithmetic));
  CHECK(thrice.total > once.total);
  CHECK(once.total >= std::max(once.arithmetic, once.memory));
  step.work.instructions = 1000;
  CHECK(predict(kernelOf("matmul"), step, 0, v3(), roundMachine()).arithmetic > thrice.arithmetic);
}

TEST_CASE("a schedule's work: whole vectors of columns, a body's instructions for each") {
  testing::Tensor a(DType::f32, {5, 7}), b(DType::f32, {2, 7, 16}), bias(DType::f32, {5, 20}), out(DType::f32, {5, 20});
  auto workOf = [&](const char *body) {
    auto bound = KernelFamily::find("matmul")->bind(
        testing::makeSite("matmul", {&out, &a, &b, &bias}, {{"packed", {1}}}, body), v3());
    REQUIRE(bool(bound));
    return bound->work;
  };
  const Work plain = workOf("f32 acc; f32 load 2; f32 add %0 %1 -> %2");
  CHECK(plain.multiplied == 2 * 5 * 24 * 7);        // 20 columns are three vectors of 8
  CHECK(plain.instructions == 5 * 3 * (1 + 1 + 1)); // load, add, store
  CHECK(plain.moved == 0);                          // one pass over everything
  const Work root = workOf("f32 acc; f32 load 2; f32 add %0 %1; f32 sqrt %2 -> %3");
  CHECK(root.multiplied == plain.multiplied);
  CHECK(root.instructions > plain.instructions);
}

TEST_CASE("every family and algorithm has a line in the table") {
  for (const char *family : {"conv", "matmul", "depthwise", "attention", "group_norm", "layer_norm", "softmax", "loop"})
    CHECK(predict(kernelOf(family), stepOf(10), 0, v3(), roundMachine()).total > 0);
  for (const char *algorithm : {"winograd", "few", "one"}) {
    KernelDescription kernel = kernelOf("conv");
    kernel.config[algorithm] = 1;
    CHECK(costClass(kernel) == std::string("conv ") + algorithm);
    CHECK(predict(kernel, stepOf(10), 0, v3(), roundMachine()).total > 0);
  }
  CHECK(costClass(kernelOf("conv")) == "conv");
  for (auto [key, name] : {std::pair("transpose", "loop transpose"), std::pair("combine0", "loop reduce")}) {
    KernelDescription kernel = kernelOf("loop");
    kernel.config[key] = 1;
    CHECK(costClass(kernel) == name);
    CHECK(predict(kernel, stepOf(10), 0, v3(), roundMachine()).total > 0);
  }
}
