// What differs between two bundles, for people: a line a difference, the small facts first.
#include "mrcc/Bundle/Bundle.h"
#include "mrcc/Bundle/Hash.h"
#include <set>

using namespace mrcc;

namespace {

class Differences {
public:
  template <typename T> void value(const std::string &what, const T &a, const T &b) {
    if (a != b)
      lines.push_back(what + ": " + text(a) + " -> " + text(b));
  }

  /// Keys that only one side has, and values that differ.
  template <typename Value, typename Compare>
  void tables(const std::string &what, const std::map<std::string, Value> &a, const std::map<std::string, Value> &b,
              Compare compare) {
    for (const auto &[key, value] : a)
      if (!b.count(key))
        lines.push_back("- " + what + " " + key);
    for (const auto &[key, value] : b) {
      auto it = a.find(key);
      if (it == a.end())
        lines.push_back("+ " + what + " " + key);
      else
        compare(what + " " + key, it->second, value);
    }
  }

  std::vector<std::string> lines;

private:
  static std::string text(const std::string &s) { return s.empty() ? "none" : s; }
  static std::string text(uint64_t n) { return std::to_string(n); }
};

} // namespace

static std::string describe(const ConstantRef &c) {
  return (c.splat.empty() ? toHex(c.hash) : "repeated value") + " (" + std::to_string(c.bytes) + " bytes)";
}

/// The first step in which two programs differ says most; later ones often follow from it.
static void comparePrograms(Differences &d, const std::string &what, const BundleInfo::Variant &a,
                            const BundleInfo::Variant &b) {
  const Program &p = a.program, &q = b.program;
  if (p == q)
    return;
  const size_t before = d.lines.size();
  d.value(what + ": arena bytes", p.arenaBytes, q.arenaBytes);
  d.value(what + ": steps", uint64_t(p.steps.size()), uint64_t(q.steps.size()));
  for (size_t i = 0; i < std::min(p.steps.size(), q.steps.size()); ++i)
    if (p.kernels[p.steps[i].kernel] != q.kernels[q.steps[i].kernel] || !(p.steps[i] == q.steps[i])) {
      d.lines.push_back(what + ": step " + std::to_string(i) + " (" + q.steps[i].location + ") differs");
      break;
    }
  for (size_t i = 0; i < std::min(p.constants.size(), q.constants.size()); ++i)
    if (!(p.constants[i] == q.constants[i])) {
      d.lines.push_back(what + ": constant " + std::to_string(i) + ": " + describe(p.constants[i]) + " -> " +
                        describe(q.constants[i]));
      break;
    }
  if (d.lines.size() == before)
    d.lines.push_back(what + ": differs");
}

std::vector<std::string> mrcc::diffBundles(const BundleInfo &before, const BundleInfo &after) {
  Differences d;
  d.value("format version", uint64_t(before.version), uint64_t(after.version));
  d.value("producer", before.producer, after.producer);
  d.value("model name", before.model.name, after.model.name);
  d.value("model sha256", before.model.sha256, after.model.sha256);
  d.tables("flag", before.flags, after.flags,
           [&](const std::string &what, const std::string &a, const std::string &b) { d.value(what, a, b); });

  auto variants = [](const BundleInfo &info) {
    std::map<std::string, const BundleInfo::Variant *> table;
    for (const BundleInfo::Variant &v : info.variants)
      table[v.program.key + " for " + v.program.target] = &v;
    return table;
  };
  d.tables("variant", variants(before), variants(after),
           [&](const std::string &what, const BundleInfo::Variant *a, const BundleInfo::Variant *b) {
             comparePrograms(d, what, *a, *b);
           });
  auto kernels = [](const BundleInfo &info) {
    std::map<std::string, const BundleInfo::Kernel *> table;
    for (const BundleInfo::Kernel &k : info.kernels)
      table[k.name + " for " + k.target] = &k;
    return table;
  };
  d.tables("kernel", kernels(before), kernels(after),
           [&](const std::string &what, const BundleInfo::Kernel *a, const BundleInfo::Kernel *b) {
             d.value(what + ": key", a->key, b->key);
             d.value(what + ": code bytes", a->bytes, b->bytes);
           });
  auto constants = [](const BundleInfo &info) {
    std::map<std::string, uint64_t> table;
    for (const BundleInfo::Constant &c : info.constants)
      table[toHex(c.hash) + " (" + std::to_string(c.bytes) + " bytes)"] = c.bytes;
    return table;
  };
  d.tables("constant", constants(before), constants(after), [](const std::string &, uint64_t, uint64_t) {});
  auto files = [](const BundleInfo &info) {
    std::map<std::string, std::string> table;
    for (const BundleInfo::File &f : info.files)
      if (!f.hash.empty())
        table[f.name] = f.hash;
    return table;
  };
  if (d.lines.empty()) // code of the same kernels, then: only the files show it
    d.tables("file", files(before), files(after), [](const std::string &, const std::string &, const std::string &) {});
  if (!(before.folded == after.folded))
    d.lines.push_back("folds: " + std::to_string(before.folded.size()) + " -> " + std::to_string(after.folded.size()));
  return d.lines;
}
