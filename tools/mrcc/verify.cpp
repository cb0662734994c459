// mrcc verify: every hash, bound and reference of a bundle, without executing anything.
#include "Tool.h"
#include "mrcc/Bundle/Bundle.h"
#include "llvm/Support/FileSystem.h"
#include <fmt/format.h>

using namespace mrcc;
using namespace mrcc::tool;

namespace {
struct VerifyArguments {
  std::string bundle;
};
} // namespace

static int verify(const VerifyArguments &arguments, Console &console) {
  auto problems = verifyBundle(arguments.bundle);
  if (!problems) // what is there is no bundle (any more): a check that failed; a path that is not there: an input
    return console.fail(problems.takeError(), llvm::sys::fs::exists(arguments.bundle) ? checkFailed : rejected);
  for (const std::string &problem : *problems)
    console.error(problem);
  if (problems->empty())
    fmt::print("{}: ok\n", arguments.bundle);
  return problems->empty() ? done : checkFailed;
}

void tool::addVerify(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, VerifyArguments &o) { sub.add_option("bundle", o.bundle, "NAME.mrcb")->required(); };
  addCommand<VerifyArguments>(app, chosen, "verify", "check a bundle without executing anything", declare, verify);
}
