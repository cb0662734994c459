// Bundles on the compiler's side: what goes into one, writing it, and reading it back for dump, diff and verify.
#pragma once
#include "mrcc/Bundle/Format.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mrcc {

namespace runtime {
class Storage;
}

/// What every function here fails with: whether the system failed (disk, memory: exit code 5) or what was read is no
/// good bundle (3).
class BundleError : public llvm::ErrorInfo<BundleError> {
public:
  static char ID;
  BundleError(std::string message, bool system) : message(std::move(message)), system(system) {}
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  std::string message;
  bool system;
};

// What goes in. Spans must stay alive until the writer returns; they may be mapped files.

/// One kernel of a target's code image.
struct BundleKernel {
  std::string key;     // KernelDescription::key()
  std::string name;    // for people and profiles
  uint64_t offset = 0; // of the KernelFunction from the image's load base
  uint64_t bytes = 0;  // of code
};

struct BundleTarget {
  std::string name;                  // "cpu:x86-64-v3"
  std::vector<std::string> features; // that the CPU must have, as /proc/cpuinfo or cpuid name them: "avx2", "fma"
  uint32_t machine = 62;             // ELF's e_machine: 62 x86-64, 183 aarch64
  std::string image;                 // the linked code of `kernels`; no kernel in it that no variant calls
  std::vector<BundleKernel> kernels;
};

/// An entry of a variant's constant table. Equal bytes of all variants are found here and stored once.
struct BundleConstant {
  llvm::ArrayRef<uint8_t> bytes;
  bool shared = false; // made before any resolution was bound
  bool splat = false;  // `bytes` (1 to 16) repeat; all views of it have stride 0
};

struct BundleVariant {
  std::string key; // canonical: "x=1x3x480x640", inputs in the model's order joined by ';'
  uint32_t target = 0;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<BundleConstant> constants; // Space::constant's index; order and entries that are not used do not matter
  std::vector<std::string> kernels;      // Step::kernel's index: keys of BundleKernel
  uint64_t arenaBytes = 0, arenaLowerBound = 0;
  std::vector<Step> steps;
};

/// A fold that simplify or specialize made, for `dump`.
struct BundleFold {
  std::string node; // ONNX name of the result's node
  std::string ops;  // "Transpose Reshape"
  uint64_t bytesBefore = 0, bytesAfter = 0;
  std::string stage; // "simplify", or "specialize x=1x3x480x640"
  bool operator==(const BundleFold &) const = default;
};

/// The model as its file states it: dims are numbers or names.
struct BundleModel {
  struct Tensor {
    std::string name;
    DType type = DType::none;
    std::vector<std::string> dims;
  };
  std::string name, sha256;
  std::vector<Tensor> inputs, outputs;
};

struct BundleContents {
  BundleModel model;
  std::string producer;                     // "mrcc 0.1.0", at most 31 bytes
  std::map<std::string, std::string> flags; // what `add`, `link` and `diff` compare: "math" -> "fast", ...
  std::vector<BundleTarget> targets;
  std::vector<BundleVariant> variants; // in any order; equal ones are an error
  std::vector<BundleFold> folded;
  bool collideHashes = false; // test hook: all constants get one hash, so only their bytes keep them apart
};

/// Writes the folder `path`, so that whoever reads it at any moment, also after a crash, sees what was there before or
/// all of the new bundle. Files that exist already and are needed stay untouched; what nothing refers to is removed.
/// Two writers wait for each other. Any order of variants, targets, kernels, constants and folds gives the same bytes.
llvm::Error writeBundle(llvm::StringRef path, const BundleContents &contents);

/// What keeps a bundle from being written into an existing folder: the name of something in it that is not a bundle's,
/// where no bundle is. Empty if nothing does.
std::string foreignContent(llvm::StringRef path);

/// The same bundle as one piece of memory, which mrcc_model_open_memory of the runtime takes.
llvm::Expected<std::string> packBundle(const BundleContents &contents);

/// Held while a bundle is read, changed and written again (`add`, `remove`); writeBundle takes it by itself otherwise.
/// Waits for other processes; makes the folder if there is none.
class BundleLock {
public:
  static llvm::Expected<BundleLock> acquire(llvm::StringRef path);
  BundleLock(BundleLock &&other) noexcept : folder(other.folder), made(other.made) { other.folder = -1; }
  BundleLock &operator=(BundleLock &&) = delete;
  ~BundleLock();

private:
  friend llvm::Error writeBundle(const BundleLock &, llvm::StringRef, const BundleContents &);
  friend llvm::Error writeBundle(llvm::StringRef, const BundleContents &);
  BundleLock(int folder, bool made) : folder(folder), made(made) {}
  int folder = -1;
  bool made; // the folder, by acquire
};
llvm::Error writeBundle(const BundleLock &lock, llvm::StringRef path, const BundleContents &contents);

// What is in a bundle.

struct BundleInfo {
  struct File {
    std::string name; // the index is among them, manifest.json is not
    uint64_t bytes = 0;
    std::string hash; // xxh3-128, hex; none of the index
  };
  struct Kernel {
    std::string name, key, target;
    uint64_t bytes = 0, offset = 0; // of code; in the image
    unsigned variants = 0;          // that call it
  };
  struct Target {
    std::string name, features;
    uint64_t imageBytes = 0, kernelBytes = 0; // the file; the code of kernels in it
    uint64_t sharedKernelBytes = 0;           // of kernels that two variants or more call
  };
  struct Variant {
    Program program;
    uint64_t artifactBytes = 0; // of its file
    uint64_t constantBytes = 0, uniqueConstantBytes = 0;
    uint64_t codeBytes = 0, uniqueCodeBytes = 0;
    uint64_t scratchBytes = 0, preparedBytes = 0, flops = 0;
    unsigned kernels = 0, uniqueKernels = 0;
    std::vector<unsigned> kernelNumbers; // of program.kernels, in `kernels` of the bundle
  };
  struct Constant {
    Hash128 hash;
    uint32_t ordinal = 0;
    uint64_t bytes = 0, offset = 0;
    bool shared = false;   // in the shared stage's file
    unsigned variants = 0; // that use it
  };
  uint32_t version = 0;
  std::string producer;
  BundleModel model;
  std::map<std::string, std::string> flags;
  std::vector<Target> targets;
  std::vector<File> files;
  std::vector<Variant> variants;
  std::vector<Kernel> kernels;
  std::vector<Constant> constants;
  std::vector<BundleFold> folded;
  uint64_t constantBytes = 0;       // each once
  uint64_t paddingBytes = 0;        // between constants: constantBytes + paddingBytes is the size of their files
  uint64_t sharedConstantBytes = 0; // used by two variants or more; plus all uniqueConstantBytes gives constantBytes
  uint64_t unsharedBytes = 0;       // what separate compiles would have stored
};

/// The facts of a bundle (a folder or a packed file), checked except for constants and code.
llvm::Expected<BundleInfo> readBundle(llvm::StringRef path);

/// What the first bytes say in any format version, for `dump` of a bundle that readBundle refuses.
struct BundleHeader {
  uint32_t version = 0;
  std::string producer;
};
llvm::Expected<BundleHeader> readBundleHeader(llvm::StringRef path);

/// design's `dump --json`, indented, with a newline. manifest.json is the same without each file's sha256, which is
/// added where `path` is not empty (reads every file).
llvm::Expected<std::string> toJson(const BundleInfo &info, llvm::StringRef path = {});

/// Checks every hash, bound and reference, executes nothing. Each problem is a line that names the file concerned; none
/// is a good bundle. Fails where there is no bundle at all.
llvm::Expected<std::vector<std::string>> verifyBundle(llvm::StringRef path);

/// What differs, a line each; none for equal bundles.
std::vector<std::string> diffBundles(const BundleInfo &before, const BundleInfo &after);

/// The bytes of constants and code images, for `remove` and `dump --asm`, each checked against the index's hashes when
/// it is read. What it hands out stays mapped as long as the reader lives, also when the bundle is replaced meanwhile.
class BundleReader {
public:
  static llvm::Expected<BundleReader> open(llvm::StringRef path);
  BundleReader(BundleReader &&) noexcept;
  ~BundleReader();
  /// Of a file, not of a repeated value.
  llvm::Expected<llvm::ArrayRef<uint8_t>> constant(const ConstantRef &ref) const;
  llvm::Expected<llvm::ArrayRef<uint8_t>> image(llvm::StringRef target) const;

private:
  explicit BundleReader(std::shared_ptr<const runtime::Storage> storage);
  llvm::Expected<llvm::ArrayRef<uint8_t>> read(uint32_t file, uint64_t offset, uint64_t bytes) const;
  std::shared_ptr<const runtime::Storage> storage;
};

} // namespace mrcc
