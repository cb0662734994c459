// Threads that share the units of a step.
//
// A team is one run's meeting point with the workers. For each step the caller deals [0, units) into one range a
// participant and announces it; everybody takes half of what is left at the front of its own range, later at the back
// of others', until nothing is left (more than half where the step says that starting costs). A range is one atomic
// word, so taking is one compare-and-swap, and whoever succeeds holds units that the step cannot end without: only then
// is the task read. The caller never waits for a worker that has taken nothing, so busy or missing workers cost no
// time. Which thread does which units does not matter for results.
//
// Idle workers look at all active teams, then pause, then sleep on a futex; waking is one system call, made only if
// somebody sleeps. With one thread nothing of this is touched.
#pragma once
#include "mrcc/Bundle/Format.h"
#include "mrcc/runtime.h"
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace mrcc::runtime {

/// A kernel call to be shared.
struct Task {
  KernelFunction *function = nullptr;
  char *const *views = nullptr;
  const int64_t *params = nullptr;
  uint64_t units = 0;
  uint64_t leastUnits = 1; // Step::leastUnits
  char *scratch = nullptr; // participant i's is at i * scratchStride
  uint64_t scratchStride = 0;
};

class Team {
public:
  static constexpr unsigned maxThreads = 255;

  constexpr Team() = default;

  /// Deals the task out and announces it.
  void begin(const Task &task, unsigned participants);
  /// Does units until none is left to take. True if it did any.
  bool work(unsigned participant);
  /// Waits until all units are done.
  void finish();
  /// Changes with every task.
  uint32_t epoch() const { return announced.load(std::memory_order_seq_cst); }

private:
  struct alignas(64) Range {
    std::atomic<uint64_t> word{0}; // participants (8 bits), begin (28), end (28)
  };
  void run(uint64_t begin, uint64_t end, unsigned participant);

  alignas(64) std::atomic<uint32_t> announced{0};
  Task task;
  uint64_t grain = 0; // units a dealt unit stands for; all zero at first, so that teams cost no file bytes
  std::atomic<uint32_t> leastTaken{0}; // keeps the number of calls of a kernel small; any value is right
  alignas(64) std::atomic<uint32_t> remaining{0};
  std::atomic<uint32_t> waiting{0};
  Range ranges[maxThreads];
};

class Pool {
public:
  static Pool &shared();
  ~Pool();
  /// In a child process after fork: the workers are gone, so it starts over.
  void forget();

  /// Threads, the caller's included.
  unsigned size() const { return wanted.load(std::memory_order_relaxed); }
  void resize(unsigned threads);
  /// Starts the workers if they do not run yet.
  void start();

  /// A team for one run, or null if too many are in use: run alone then.
  Team *acquire();
  void release(Team *team);
  /// Announces a task to up to `participants` - 1 workers, helps and waits.
  void run(Team &team, const Task &task, unsigned participants);

private:
  static constexpr unsigned maxTeams = 32;
  Pool();
  void worker(unsigned number);
  bool lookForWork(unsigned number, uint32_t (&seen)[maxTeams]);
  void startLocked();
  void wake(uint32_t whom);

  static Team teams[maxTeams];                 // zero pages until used
  alignas(64) std::atomic<uint32_t> active{0}; // teams in use, a bit each
  alignas(64) std::atomic<uint32_t> signal{0}; // what sleepers sleep on
  std::atomic<uint32_t> sleepers{0};
  std::atomic<unsigned> wanted;
  std::atomic<unsigned> stopFrom{Team::maxThreads + 1}; // workers from this number on must end
  std::mutex mutex;                                     // of the list of threads
  std::vector<std::thread> threads;                     // worker i is threads[i - 1]
};

} // namespace mrcc::runtime
