// Kernels: from a launch with its views to a description (a value; equal descriptions are one kernel) and to the
// run-time parameters of the call, and from a description to MLIR.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mrcc/Bundle/Format.h"
#include "mrcc/IR/Expr.h"
#include "llvm/Support/Error.h"
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mrcc {

/// What code is made for. Data, never asked of the host; bytes of a bundle depend on it alone.
struct Target {
  std::string name;    // "cpu:x86-64-v3"
  std::string cpu;     // LLVM's name: x86-64-v3
  std::string triple;  // x86_64-unknown-linux-gnu
  unsigned vectorBits; // widest vectors: 128, 256 or 512
  unsigned vectorRegisters;
  uint64_t l1Bytes, l2Bytes, l3Bytes; // what schedules assume
  std::vector<std::string> features;  // that the CPU must have, for the loader's check: "avx2", "fma", ...
  unsigned lanes(unsigned bits = 32) const { return vectorBits / bits; }
  bool has(llvm::StringRef feature) const; // one of `features`, or "neon" on aarch64

  static const std::vector<Target> &all();         // x86-64 (baseline), x86-64-v3, x86-64-v4, aarch64
  static const Target *find(llvm::StringRef name); // with or without "cpu:"
};

/// A kernel as a value. Spatial and batch extents and strides are run-time parameters and never in here.
struct KernelDescription {
  std::string family;                    // "conv", "matmul", "loop", ...
  std::map<std::string, int64_t> config; // channels, kernel size, tile, ...; "params": how many run-time parameters
  std::vector<DType> types;              // of the views, outputs first
  std::string body;                      // Expr text
  auto operator<=>(const KernelDescription &) const = default;
  /// One line, unique: "conv ic=24 kh=3 ... [f32,f32,f32] {body}". The order of kernels in a bundle is that of keys.
  std::string key() const;
  /// The description that has this key: what a bundle says of a kernel is all that its code is made from.
  static std::optional<KernelDescription> parse(llvm::StringRef key);
  /// A name for people and symbols: family, main numbers, 8 hex digits of the key's hash.
  std::string name() const;
};

/// A launch as form-kernels and plan-memory left it. Views: outputs first, then inputs (`outputs` says how many).
struct LaunchSite {
  std::string family;
  std::map<std::string, std::vector<int64_t>> config; // integers; a scalar is a list of one
  std::map<std::string, std::string> words;           // strings
  Expr body;
  std::vector<View> views;
  uint32_t outputs = 1;
  std::vector<int64_t> immediates; // values of the body's `param` nodes
  const View &output(unsigned i = 0) const { return views[i]; }
  const View &input(unsigned i) const { return views[outputs + i]; }
  unsigned numInputs() const { return views.size() - outputs; }
  int64_t get(llvm::StringRef key, int64_t otherwise = 0) const {
    auto it = config.find(key.str());
    return it == config.end() || it->second.empty() ? otherwise : it->second[0];
  }
};

/// What the program stores of a launch. `views` of the step are the site's, unless `views` here replaces them.
struct BoundLaunch {
  KernelDescription kernel;
  std::vector<int64_t> params;
  int64_t units = 1;        // > 0; unit u's work depends on shapes alone
  int64_t leastUnits = 1;   // a thread takes so many at once: they share what the kernel does at a range's start
  int64_t scratchBytes = 0; // for each worker
  int64_t flops = 0;
  Work work; // `moved` need not hold the bytes of the views themselves: buildProgram adds them
};

/// One family of kernels. Stateless; every function may be called from any thread.
class KernelFamily {
public:
  virtual ~KernelFamily() = default;
  virtual llvm::StringRef name() const = 0;
  /// Chooses the schedule from shapes and target (a stated rule) and computes the run-time parameters.
  virtual llvm::Expected<BoundLaunch> bind(const LaunchSite &site, const Target &target) const = 0;
  /// Emits `func.func @kernel` with KernelBuilder. Depends on the description and the target alone.
  virtual llvm::Error emit(const KernelDescription &kernel, const Target &target,
                           class KernelBuilder &builder) const = 0;

  static const KernelFamily *find(llvm::StringRef name); // table in lib/Kernels/Families.cpp
};

} // namespace mrcc
