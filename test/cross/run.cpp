// Runs a bundle's only variant in a program of another architecture: mrcc-cross-run BUNDLE FOLDER.
// Reads FOLDER/in0, in1, ... and writes FOLDER/out0, out1, ...: the dense bytes of each tensor in the model's order.
#include "mrcc/runtime.hpp"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

[[noreturn]] static void fail(const std::string &message) {
  std::fprintf(stderr, "mrcc-cross-run: %s\n", message.c_str());
  std::exit(1);
}

/// Reads or writes all of `data`.
static void transfer(const std::string &path, std::vector<char> &data, bool out) {
  std::FILE *file = std::fopen(path.c_str(), out ? "wb" : "rb");
  if (!file)
    fail(path + ": cannot be opened");
  size_t done = out ? std::fwrite(data.data(), 1, data.size(), file) : std::fread(data.data(), 1, data.size(), file);
  if (std::fclose(file) || done != data.size())
    fail(path + ": " + std::to_string(done) + " of " + std::to_string(data.size()) + " bytes");
}

/// Memory for each tensor, and what calls take.
struct Tensors {
  Tensors(const mrcc_tensor_info *infos, uint32_t count) : memory(count) {
    for (uint32_t i = 0; i < count; ++i) {
      memory[i].resize(infos[i].bytes);
      tensors.emplace_back(infos[i], memory[i].data());
    }
  }
  std::vector<std::vector<char>> memory;
  std::vector<mrcc::Tensor> tensors;
};

int main(int argc, char **argv) {
  if (argc != 3)
    fail("usage: mrcc-cross-run BUNDLE FOLDER");
  auto model = mrcc::Model::open(argv[1]);
  if (!model)
    fail(model.error().message());
  const mrcc_variant_info info = model->variant(0);
  Tensors in(info.inputs, info.num_inputs), out(info.outputs, info.num_outputs);
  const std::string folder = argv[2];
  for (size_t i = 0; i < in.memory.size(); ++i)
    transfer(folder + "/in" + std::to_string(i), in.memory[i], false);
  auto context = mrcc::Context::create(*model);
  if (!context)
    fail(context.error().message());
  if (auto error = context->run(in.tensors.data(), in.tensors.size(), out.tensors.data(), out.tensors.size()))
    fail(error.message());
  for (size_t i = 0; i < out.memory.size(); ++i)
    transfer(folder + "/out" + std::to_string(i), out.memory[i], true);
}
