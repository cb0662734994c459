// The same as consumer.c through the C++ interface.
#include <cstdio>
#include <mrcc/runtime.hpp>
#include <vector>

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  auto model = mrcc::Model::open(argv[1]);
  if (!model)
    return std::fprintf(stderr, "%s\n", model.error().message()), 1;
  auto context = mrcc::Context::create(*model);
  if (!context)
    return std::fprintf(stderr, "%s\n", context.error().message()), 1;
  const mrcc_variant_info v = model->variant(0);
  std::vector<float> in(v.inputs[0].bytes / 4), out(v.outputs[0].bytes / 4);
  if (mrcc::Error error =
          context->run({mrcc::Tensor(v.inputs[0], in.data())}, {mrcc::Tensor(v.outputs[0], out.data())}))
    return std::fprintf(stderr, "%s\n", error.message()), 1;
  std::printf("%s %s: %g\n", mrcc_version(), v.key, double(out[0]));
}
