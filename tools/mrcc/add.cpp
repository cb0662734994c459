// mrcc add: more resolutions into a bundle, in place. All variants are compiled again from the model, so the result is
// what one compile of the longer list gives; files that come out equal stay as they are.
#include "Pipeline.h"

using namespace mrcc;
using namespace mrcc::tool;

static int add(const CompileArguments &given, Console &console) {
  auto info = readBundle(given.output);
  if (!info) // before the lock, which makes a folder
    return console.fail(info.takeError(), rejected);
  auto lock = BundleLock::acquire(given.output);
  if (!lock)
    return console.fail(lock.takeError(), systemFailed);
  info = readBundle(given.output); // under the lock
  if (!info)
    return console.fail(info.takeError(), rejected);
  if (llvm::Error error = checkProducer(given.output, *info))
    return console.fail(std::move(error), rejected);
  CompileArguments arguments = given;
  arguments.targets.clear();
  for (const BundleInfo::Target &target : info->targets)
    arguments.targets.push_back(target.name);
  arguments.math = info->flags["math"];
  Pipeline pipeline(arguments, console);
  pipeline.lock = &*lock;
  pipeline.extends = &*info;
  return pipeline.run();
}

void tool::addAdd(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, CompileArguments &o) {
    sub.add_option("bundle", o.output, "NAME.mrcb, changed in place")->required();
    sub.add_option("model", o.model, "the ONNX file that it was compiled from")->required();
    declareShapes(sub, o.shapes);
    repeated(sub, "--bind", o.binds, "NAME=FILE: as it was compiled");
    declareJobs(sub, o.jobs);
    sub.add_flag("-k,--keep-going", o.keepGoing, "build the good shapes, list the bad ones, exit 1");
    sub.add_flag("--timing", o.timing, "how often each stage ran and for how long");
  };
  addCommand<CompileArguments>(app, chosen, "add", "compile more resolutions into a bundle", declare, add);
}
