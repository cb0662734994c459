// A loaded bundle: dispatch, and the variants that are prepared. Immutable but for the cache of prepared variants.
//
// A run holds its variant by a count in the variant's entry; a warm run changes that count and a time stamp, nothing
// else. Preparing and evicting happen under a mutex. To evict, the count is changed from 0 to `locked`, so no run can
// take the variant at that moment.
#pragma once
#include "Image.h"
#include "Storage.h"
#include "Variant.h"
#include <atomic>
#include <mutex>
#include <optional>

namespace mrcc::runtime {

struct Options {
  mrcc_verify verify = MRCC_VERIFY_LAZY;
  uint32_t preparedLimit = 10;
  bool pinFirst = false;
  std::string target;
  mrcc_log_function *log = nullptr;
  void *logUser = nullptr;
};

/// The tensors of a call, in the caller's order.
class Arguments {
public:
  Arguments(const mrcc_tensor *tensors, size_t count) : first(reinterpret_cast<const char *>(tensors)), count(count) {
    stride = count ? tensors->struct_size : 0;
  }
  const mrcc_tensor &operator[](size_t i) const { return *reinterpret_cast<const mrcc_tensor *>(first + i * stride); }
  size_t size() const { return count; }

private:
  const char *first;
  size_t count, stride;
};

class Model {
public:
  /// Throw Failure.
  Model(Storage storage, Options options);
  ~Model();
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  const Index &index() const { return storage.index(); }
  const char *producer() const { return producerText.c_str(); }
  void describe(uint32_t variant, mrcc_variant_info &info) const;
  void memory(uint32_t threads, mrcc_memory_info &info) const;
  uint64_t workspaceBytes(uint32_t variant, uint32_t threads) const;
  bool supported(uint32_t variant) const { return targets[index().variants()[variant].target].supported; }

  /// Which of the caller's tensors is the model's i-th, by name; UINT32_MAX for an optional one that is not given.
  /// Throws.
  void match(const Arguments &given, bool inputs, uint32_t *order) const;
  /// The variant for exactly these inputs; throws a failure that explains.
  uint32_t find(const Arguments &inputs) const;
  uint32_t nearest(const Arguments &inputs) const;
  uint32_t smallestCovering(const Arguments &inputs) const;
  const std::vector<mrcc_tensor_info> &inputs(uint32_t variant) const { return entries[variant].inputs; }
  const std::vector<mrcc_tensor_info> &outputs(uint32_t variant) const { return entries[variant].outputs; }

  /// Prepares the variant if need be and holds it until `release`. Throws.
  const Prepared &acquire(uint32_t variant);
  void release(uint32_t variant);
  uint32_t numPrepared() const { return prepared.load(std::memory_order_relaxed); }
  uint32_t mostViews() const { return viewLimit; }

  void log(mrcc_log_level level, const std::string &message) const;

private:
  friend struct TestAccess;
  struct TargetState {
    bool supported = false;
    std::string missing; // features, or "another architecture"
  };
  struct Entry {
    std::vector<mrcc_tensor_info> inputs, outputs;
    std::atomic<int64_t> users{0};
    std::atomic<const Prepared *> prepared{nullptr};
    std::atomic<uint64_t> stamp{0};
    bool pinned = false;
  };
  static constexpr int64_t locked = INT64_MIN / 2;

  void chooseTargets();
  void mapCode();
  void verifyAll();
  const mrcc_tensor *findTensor(const Arguments &given, bool inputs, uint32_t number, uint32_t &at) const;
  std::optional<uint32_t> nearestOf(const Arguments &given, const uint32_t *order) const;
  const char *swappedKey(const Arguments &given, const uint32_t *order) const;
  [[noreturn]] void explainMiss(const Arguments &given, const uint32_t *order) const;

  bool hold(Entry &entry) const;
  const Prepared *prepare(uint32_t variant);
  void verifyRange(uint32_t file, uint64_t offset, uint64_t bytes);
  void evict(uint32_t most);

  Storage storage;
  Options options;
  std::string producerText;
  std::vector<TargetState> targets;
  std::vector<Image> images; // by file; empty but for code of supported targets
  std::vector<Entry> entries;
  std::vector<uint32_t> preference; // variants that this CPU runs, the best target first among equal shapes
  std::vector<uint32_t> occurrence; // of output names that repeat: how many before it have this name
  uint32_t viewLimit = 0;

  std::mutex mutex;                        // preparing
  std::vector<std::vector<bool>> verified; // blocks by file
  std::atomic<uint64_t> clock{1};
  std::atomic<uint32_t> prepared{0};
};

/// "x=1x3x480x640"; "t=scalar".
std::string describeTensor(const char *name, uint32_t rank, const int64_t *dims);

} // namespace mrcc::runtime
