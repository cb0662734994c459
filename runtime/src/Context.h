// What one call at a time needs: the workspace (arena, then scratch memory of each thread), the addresses of this
// call's tensors, and where a step's threads meet. Everything is allocated at creation.
#pragma once
#include "Model.h"
#include "Pool.h"
#include <memory>

namespace mrcc::runtime {

class Context {
public:
  /// Throw Failure. `options` has the size of this version.
  Context(std::shared_ptr<Model> model, const mrcc_context_options &options);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  void run(const Arguments &inputs, const Arguments &outputs);
  void setHook(mrcc_step_function *function, void *user);
  void memory(mrcc_memory_info &info) const;

private:
  struct Workspace {
    char *memory = nullptr;
    uint64_t bytes = 0;
    bool lent = false;
  };
  void allocate(uint64_t bytes);
  void bind(const std::vector<mrcc_tensor_info> &infos, const Arguments &given, bool inputs, uint32_t variant,
            uint32_t firstBase);
  void runSteps(const Prepared &variant);
  void runStep(const Prepared &variant, const PreparedStep &step, Team *team, char *scratch, uint64_t stride);
  void share(Team &team, const Task &task, unsigned participants);
  void tellHook(const Prepared &variant, const PreparedStep &step, uint64_t nanoseconds);

  std::shared_ptr<Model> model;
  unsigned threads;
  Workspace workspace;
  mrcc_allocator allocator{};
  mrcc_parallel_function *parallel = nullptr;
  void *parallelUser = nullptr;
  std::unique_ptr<Team> ownTeam; // where the caller's threads meet
  mrcc_step_function *hook = nullptr;
  void *hookUser = nullptr;
  std::vector<char *> bases;
  std::vector<char *> views; // of the current step
  std::vector<uint32_t> order;
  std::vector<mrcc_view> hookViews;
  std::atomic<bool> busy{false};
};

} // namespace mrcc::runtime
