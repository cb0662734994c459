#include "Targets.h"
#include "mrcc/Driver/ShapeOptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mrcc;
using namespace mrcc::tool;

/// The last target of the table that this CPU's architecture and features allow.
static const Target *native() {
  llvm::Triple host(llvm::sys::getProcessTriple());
  auto features = llvm::sys::getHostCPUFeatures();
  const Target *best = nullptr;
  for (const Target &target : Target::all())
    if (llvm::Triple(target.triple).getArch() == host.getArch() &&
        llvm::all_of(target.features, [&](const std::string &f) { return features.lookup(f); }))
      best = &target;
  return best;
}

llvm::Expected<std::vector<const Target *>> tool::parseTargets(const std::vector<std::string> &values,
                                                               Console &console) {
  std::vector<const Target *> targets;
  for (const std::string &value : values) {
    llvm::SmallVector<llvm::StringRef> names;
    llvm::StringRef(value).split(names, ',');
    for (llvm::StringRef name : names) {
      const Target *target = name == "native" || name == "cpu:native" ? native() : Target::find(name);
      if (!target) {
        std::string known;
        for (const Target &t : Target::all())
          known += t.name + ", ";
        return usageError(
            "--target: " +
            (name == "native" ? llvm::Twine("this CPU runs no known target") : "unknown target '" + name + "'") +
            "; known are " + known + "native");
      }
      if (name.ends_with("native"))
        console.note("--target native is " + target->name + " here");
      if (!llvm::is_contained(targets, target))
        targets.push_back(target);
    }
  }
  return targets;
}
