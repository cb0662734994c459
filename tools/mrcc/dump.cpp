// mrcc dump: what is in a bundle, for people and (--json) for scripts.
#include "Asm.h"
#include "Table.h"
#include "Tool.h"
#include "mrcc/Bundle/Bundle.h"
#include "mrcc/Bundle/Hash.h"
#include "mrcc/Driver/ShapeOptions.h"
#include "mrcc/IR/Mrc.h"
#include "llvm/ADT/StringExtras.h"
#include <fmt/format.h>

using namespace mrcc;
using namespace mrcc::tool;

namespace {

struct DumpArguments {
  std::string bundle, kernel;
  bool json = false, program = false, constants = false;
};

std::string percent(uint64_t part, uint64_t whole) {
  return whole ? fmt::format("{:.1f} %", 100.0 * double(part) / double(whole)) : "-";
}

std::string join(const std::vector<std::string> &words, const char *between) { return llvm::join(words, between); }

std::string numbers(const std::vector<int64_t> &list, const char *between) {
  std::string out;
  for (size_t i = 0; i < list.size(); ++i)
    out += (i ? between : "") + std::to_string(list[i]);
  return out;
}

void printModel(const BundleInfo &info) {
  fmt::print("{}  (format {}, {})\n", info.model.name, info.version, info.producer);
  fmt::print("model sha256 {}\n", info.model.sha256);
  for (auto [what, list] : {std::pair("input", &info.model.inputs), std::pair("output", &info.model.outputs)})
    for (const BundleModel::Tensor &t : *list)
      fmt::print("{:<6}  {}  {} {}\n", what, t.name, toString(t.type).str(),
                 t.dims.empty() ? "scalar" : join(t.dims, "x"));
  for (auto &[name, value] : info.flags)
    fmt::print("{}: {}\n", name, value);
  for (const BundleInfo::Target &t : info.targets)
    fmt::print("target  {}  code {}, called by two variants or more {}; the CPU must have: {}\n", t.name,
               bytesText(double(t.imageBytes)), bytesText(double(t.sharedKernelBytes)),
               t.features.empty() ? "-" : t.features);
}

void printVariants(const BundleInfo &info) {
  Table table({"<variant", "<target", "program", "arena", "of bound", "prepared", "constants", "unique", "code",
               "unique", "steps", "kernels", "unique", "flop"});
  for (const BundleInfo::Variant &v : info.variants) {
    auto bytes = [](uint64_t b) { return bytesText(double(b)); };
    table.row({v.program.key, v.program.target, bytes(v.artifactBytes), bytes(v.program.arenaBytes),
               v.program.arenaLowerBound
                   ? fmt::format("{:.3f}", double(v.program.arenaBytes) / double(v.program.arenaLowerBound))
                   : "-",
               bytes(v.preparedBytes), bytes(v.constantBytes), bytes(v.uniqueConstantBytes), bytes(v.codeBytes),
               bytes(v.uniqueCodeBytes), std::to_string(v.program.steps.size()), std::to_string(v.kernels),
               std::to_string(v.uniqueKernels), countText(double(v.flops))});
  }
  fmt::print("\n{}", table.text());
}

/// Where the bytes are: constants and code by how many variants use them, and what each file holds.
void printBytes(const BundleInfo &info) {
  uint64_t unique = info.constantBytes - info.sharedConstantBytes;
  fmt::print("\nconstants  {} in {}: {} of two variants or more, {} of one; padding {}; separate compiles would have "
             "stored {}\n",
             info.constants.size(), bytesText(double(info.constantBytes)), bytesText(double(info.sharedConstantBytes)),
             bytesText(double(unique)), bytesText(double(info.paddingBytes)), bytesText(double(info.unsharedBytes)));
  Table files({"<file", "bytes", "share"});
  uint64_t total = 0;
  for (const BundleInfo::File &f : info.files)
    total += f.bytes;
  for (const BundleInfo::File &f : info.files)
    files.row({f.name, std::to_string(f.bytes), percent(f.bytes, total)});
  files.row({"total", std::to_string(total), ""});
  fmt::print("\n{}", files.text());
}

void printKernels(const BundleInfo &info) {
  Table table({"<kernel", "<target", "code", "variants"});
  for (const BundleInfo::Kernel &k : info.kernels)
    table.row({k.name, k.target, std::to_string(k.bytes), std::to_string(k.variants)});
  fmt::print("\n{}", table.text());
}

void printFolded(const BundleInfo &info) {
  if (info.folded.empty())
    return;
  Table table({"<folded node", "<ops", "bytes before", "after", "<stage"});
  for (const BundleFold &f : info.folded)
    table.row({shortened(f.node, 60), shortened(f.ops, 40), std::to_string(f.bytesBefore), std::to_string(f.bytesAfter),
               f.stage});
  fmt::print("\n{}", table.text());
}

std::string viewText(const View &v, const Program &program) {
  if (v.space == Space::absent)
    return "absent";
  std::string where;
  switch (v.space) {
  case Space::input:
    where = "input " + std::to_string(v.index);
    break;
  case Space::output:
    where = "output " + std::to_string(v.index);
    break;
  case Space::constant:
    where = "constant " + std::to_string(v.index) + (program.constants[v.index].splat.empty() ? "" : " (one value)");
    break;
  case Space::arena:
    where = "arena";
    break;
  case Space::absent:
    break;
  }
  return fmt::format("{} +{} {}[{}] strides [{}]", where, v.offset, toString(v.type).str(), numbers(v.dims, "x"),
                     numbers(v.strides, ","));
}

void printProgram(const BundleInfo &info, const BundleInfo::Variant &v) {
  const Program &p = v.program;
  fmt::print("\nprogram {} {}: arena {} bytes\n", p.key, p.target, p.arenaBytes);
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step &s = p.steps[i];
    fmt::print("{:4} {}  units {} ({} at once), scratch {}, flop {}, multiplied {}, instructions {}, moved {}  {}\n", i,
               info.kernels[v.kernelNumbers[s.kernel]].name, s.units, s.leastUnits, s.scratchBytes, s.flops,
               s.work.multiplied, s.work.instructions, s.work.moved, s.location);
    for (size_t k = 0; k < s.views.size(); ++k)
      fmt::print("       {} {}\n", k < s.outputs ? "out" : "in ", viewText(s.views[k], p));
    if (!s.params.empty())
      fmt::print("       params {}\n", numbers(s.params, " "));
  }
}

void printConstants(const BundleInfo &info) {
  Table table({"<constant", "bytes", "offset", "<stage", "variants"});
  for (const BundleInfo::Constant &c : info.constants)
    table.row({toHex(c.hash) + (c.ordinal ? "." + std::to_string(c.ordinal) : ""), std::to_string(c.bytes),
               std::to_string(c.offset), c.shared ? "simplify" : "specialize", std::to_string(c.variants)});
  fmt::print("\n{}", table.text());
}

/// All kernels of that name (one a target).
int printAsm(const BundleInfo &info, const DumpArguments &arguments, Console &console) {
  bool found = false;
  for (const BundleInfo::Kernel &k : info.kernels) {
    if (k.name != arguments.kernel)
      continue;
    found = true;
    auto reader = BundleReader::open(arguments.bundle);
    if (!reader)
      return console.fail(reader.takeError(), rejected);
    auto image = reader->image(k.target);
    if (!image)
      return console.fail(image.takeError(), rejected);
    auto text = disassemble(llvm::toStringRef(*image), k.offset, k.bytes, k.target);
    if (!text)
      return console.fail(text.takeError(), unsupported);
    fmt::print("{} {}: {} bytes\n{}\n{}", k.name, k.target, k.bytes, k.key, *text);
  }
  if (found)
    return done;
  std::vector<std::string> names;
  for (const BundleInfo::Kernel &k : info.kernels)
    names.push_back(k.name);
  return console.fail(
      usageError("--asm: the bundle has no kernel '" + arguments.kernel + "'; it has " + listNames(names)), rejected);
}

/// What a bundle of another format version still says.
void printHeader(const std::string &path) {
  auto header = readBundleHeader(path);
  if (header)
    fmt::print("format_version {}\nproducer {}\n", header->version, header->producer);
  else
    llvm::consumeError(header.takeError());
}

} // namespace

static int dump(const DumpArguments &arguments, Console &console) {
  auto info = readBundle(arguments.bundle);
  if (!info) {
    if (!arguments.json)
      printHeader(arguments.bundle);
    return console.fail(info.takeError(), rejected);
  }
  if (!arguments.kernel.empty())
    return printAsm(*info, arguments, console);
  if (arguments.json) {
    auto text = toJson(*info, arguments.bundle);
    if (!text)
      return console.fail(text.takeError(), rejected);
    fmt::print("{}", *text);
    return done;
  }
  printModel(*info);
  printVariants(*info);
  printBytes(*info);
  printKernels(*info);
  printFolded(*info);
  if (arguments.constants)
    printConstants(*info);
  if (arguments.program)
    for (const BundleInfo::Variant &v : info->variants)
      printProgram(*info, v);
  return done;
}

void tool::addDump(CLI::App &app, Command &chosen) {
  auto declare = [](CLI::App &sub, DumpArguments &o) {
    sub.add_option("bundle", o.bundle, "NAME.mrcb")->required();
    auto *json = sub.add_flag("--json", o.json, "for scripts");
    sub.add_flag("--program", o.program, "each variant's steps with their views")->excludes(json);
    sub.add_flag("--constants", o.constants, "each constant")->excludes(json);
    sub.add_option("--asm", o.kernel, "KERNEL: its instructions")->excludes(json);
  };
  addCommand<DumpArguments>(app, chosen, "dump", "say what is in a bundle", declare, dump);
}
