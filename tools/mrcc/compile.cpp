// mrcc compile: model + resolutions -> bundle, stage by stage.
#include "Pipeline.h"

using namespace mrcc;
using namespace mrcc::tool;

static int compile(const CompileArguments &arguments, Console &console) { return Pipeline(arguments, console).run(); }

void tool::addCompile(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, CompileArguments &o) {
    sub.add_option("model", o.model, "ONNX file")->required();
    sub.add_option("-o,--output", o.output, "the bundle, a folder (default: the model's name with .mrcb)")
        ->check(CLI::Validator([](const std::string &text) { return text.empty() ? "the name is empty" : ""; }, ""));
    declareShapes(sub, o.shapes);
    repeated(sub, "--bind", o.binds, "NAME=FILE: an input that becomes a constant (.npy, .pb)");
    repeated(sub, "--target", o.targets, "what CPU, several with commas; 'native' is this one")->capture_default_str();
    sub.add_option("--math", o.math, "'strict': no Winograd, each convolution sums its own products")
        ->check(CLI::IsMember({"fast", "strict"}))
        ->capture_default_str();
    declareJobs(sub, o.jobs);
    sub.add_flag("-k,--keep-going", o.keepGoing, "build the good shapes, list the bad ones, exit 1");
    sub.add_option("--dump-stages", o.dumpStages, "write the IR after each stage into this folder");
    sub.add_option("--stop-after", o.stopAfter,
                   "print the IR after this stage to stdout or -o, write no bundle (codegen: the kernels; bundle: "
                   "stops after all)")
        ->check(CLI::IsMember(std::vector<std::string>(stageNames().begin(), stageNames().end())));
    sub.add_flag("--timing", o.timing, "how often each stage ran and for how long");
    sub.add_flag("--verify-each", o.verifyEach, "run MLIR's verifier after every pass");
  };
  addCommand<CompileArguments>(app, chosen, "compile", "compile a model for a list of resolutions", declare, compile);
}
