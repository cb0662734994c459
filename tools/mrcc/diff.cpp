// mrcc diff: what differs between two bundles.
#include "Tool.h"
#include "mrcc/Bundle/Bundle.h"
#include <fmt/format.h>

using namespace mrcc;
using namespace mrcc::tool;

namespace {
struct DiffArguments {
  std::string before, after;
};
} // namespace

static int diff(const DiffArguments &arguments, Console &console) {
  auto before = readBundle(arguments.before);
  if (!before)
    return console.fail(before.takeError(), rejected);
  auto after = readBundle(arguments.after);
  if (!after)
    return console.fail(after.takeError(), rejected);
  auto lines = diffBundles(*before, *after);
  for (const std::string &line : lines)
    fmt::print("{}\n", line);
  return lines.empty() ? done : checkFailed;
}

void tool::addDiff(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, DiffArguments &o) {
    sub.add_option("before", o.before, "a bundle")->required();
    sub.add_option("after", o.after, "another")->required();
  };
  addCommand<DiffArguments>(app, chosen, "diff", "say what differs between two bundles, exit 1 if anything", declare,
                            diff);
}
