#include "Pool.h"
#include "Cpu.h"
#include <algorithm>
#include <bit>
#include <climits>
#include <csignal>
#include <linux/futex.h>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <system_error>
#include <time.h>
#include <unistd.h>

using namespace mrcc;
using namespace mrcc::runtime;

static void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

static uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

/// Sleeps while `word` is `expected`, until someone wakes those that share a bit of `mask`.
static void sleepOn(std::atomic<uint32_t> &word, uint32_t expected, uint32_t mask) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_BITSET_PRIVATE, expected, nullptr, nullptr, mask);
}
static void wakeOn(std::atomic<uint32_t> &word, uint32_t mask) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, mask);
}

// ---- Team ----

static constexpr uint64_t numberMask = (1 << 28) - 1;
static constexpr uint64_t pack(uint64_t participants, uint64_t begin, uint64_t end) {
  return participants << 56 | begin << 28 | end;
}

void Team::begin(const Task &next, unsigned participants) {
  task = next;
  grain = next.units / numberMask + 1;
  const uint64_t dealt = (next.units + grain - 1) / grain;
  remaining.store(uint32_t(dealt), std::memory_order_relaxed);
  const uint64_t least = (std::min(next.leastUnits, next.units) + grain - 1) / grain;
  leastTaken.store(uint32_t(std::max(dealt / (participants * 6) + 1, least)), std::memory_order_relaxed);
  for (unsigned i = 0; i < participants; ++i)
    ranges[i].word.store(pack(participants, dealt * i / participants, dealt * (i + 1) / participants),
                         std::memory_order_release);
  announced.fetch_add(1, std::memory_order_seq_cst);
}

void Team::run(uint64_t begin, uint64_t end, unsigned participant) {
  task.function(task.views, task.params, int64_t(begin * grain), int64_t(std::min(end * grain, task.units)),
                task.scratch + participant * task.scratchStride);
}

bool Team::work(unsigned participant) {
  bool any = false;
  for (unsigned k = 0;;) {
    const unsigned participants = ranges[0].word.load(std::memory_order_acquire) >> 56;
    if (participant >= participants || k >= participants)
      return any;
    std::atomic<uint64_t> &word = ranges[(participant + k) % participants].word;
    uint64_t seen = word.load(std::memory_order_acquire);
    uint64_t begin = seen >> 28 & numberMask, end = seen & numberMask;
    if (begin >= end || seen >> 56 != participants) { // nothing left, or the next task is just being dealt
      ++k;
      continue;
    }
    const uint64_t take =
        std::min(end - begin, std::max<uint64_t>((end - begin + 1) / 2, leastTaken.load(std::memory_order_relaxed)));
    const uint64_t rest = k == 0 ? pack(participants, begin + take, end) : pack(participants, begin, end - take);
    if (!word.compare_exchange_weak(seen, rest, std::memory_order_acq_rel, std::memory_order_relaxed))
      continue;
    if (k == 0)
      run(begin, begin + take, participant);
    else
      run(end - take, end, participant);
    any = true;
    if (remaining.fetch_sub(uint32_t(take), std::memory_order_seq_cst) == take &&
        waiting.load(std::memory_order_seq_cst))
      wakeOn(remaining, ~0u);
  }
}

void Team::finish() {
  for (int spin = 0; spin < 4000; ++spin) {
    if (remaining.load(std::memory_order_acquire) == 0)
      return;
    relax();
  }
  waiting.store(1, std::memory_order_seq_cst); // a worker holds units and does not get on: let it have this core
  while (uint32_t left = remaining.load(std::memory_order_seq_cst))
    sleepOn(remaining, left, ~0u);
  waiting.store(0, std::memory_order_relaxed);
}

// ---- Pool ----

static unsigned usableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return std::clamp(unsigned(CPU_COUNT(&set)), 1u, Team::maxThreads);
  return std::clamp(std::thread::hardware_concurrency(), 1u, Team::maxThreads);
}

constinit Team Pool::teams[maxTeams];

Pool &Pool::shared() {
  static Pool pool;
  return pool;
}

Pool::Pool() : wanted(usableCpus()) {
  pthread_atfork(nullptr, nullptr, [] { shared().forget(); });
}

void Pool::forget() {
  new (&threads) std::vector<std::thread>; // those of the parent are nothing here, neither to join nor to detach
  active.store(0);
  sleepers.store(0);
  new (&mutex) std::mutex; // whoever held it is gone
}

Pool::~Pool() { resize(1); }

void Pool::resize(unsigned count) {
  count = count == 0 ? usableCpus() : std::min(count, Team::maxThreads);
  std::lock_guard lock(mutex);
  wanted.store(count, std::memory_order_relaxed);
  if (threads.size() + 1 > count) {
    stopFrom.store(count, std::memory_order_seq_cst);
    wake(~0u);
    for (size_t i = count - 1; i < threads.size(); ++i)
      threads[i].join();
    threads.resize(count - 1);
    stopFrom.store(Team::maxThreads + 1, std::memory_order_seq_cst);
  } else if (!threads.empty()) {
    startLocked();
  }
}

void Pool::start() {
  std::lock_guard lock(mutex);
  startLocked();
}

void Pool::startLocked() {
  while (threads.size() + 1 < wanted.load(std::memory_order_relaxed)) {
    sigset_t all, before; // signals belong to the application's threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      threads.emplace_back(&Pool::worker, this, unsigned(threads.size() + 1));
    } catch (const std::system_error &) { // no more threads to be had: the callers do the work
      wanted.store(unsigned(threads.size() + 1), std::memory_order_relaxed);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
}

Team *Pool::acquire() {
  uint32_t used = active.load(std::memory_order_relaxed);
  while (~used) {
    const unsigned i = std::countr_one(used);
    if (active.compare_exchange_weak(used, used | 1u << i, std::memory_order_acq_rel, std::memory_order_relaxed))
      return &teams[i];
  }
  return nullptr;
}

void Pool::release(Team *team) { active.fetch_and(~(1u << (team - teams)), std::memory_order_release); }

void Pool::run(Team &team, const Task &task, unsigned participants) {
  team.begin(task, participants);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    wake(participants > 32 ? ~0u : uint32_t((uint64_t(1) << participants) - 1) & ~1u);
  team.work(0);
  team.finish();
}

/// Bit i of `whom`: workers i, i + 32, ...
void Pool::wake(uint32_t whom) {
  signal.fetch_add(1, std::memory_order_seq_cst);
  wakeOn(signal, whom);
}

bool Pool::lookForWork(unsigned number, uint32_t (&seen)[maxTeams]) {
  bool any = false;
  for (uint32_t left = active.load(std::memory_order_acquire); left; left &= left - 1) {
    const unsigned i = std::countr_zero(left);
    const uint32_t epoch = teams[i].epoch();
    if (epoch != seen[i]) {
      seen[i] = epoch;
      any |= teams[i].work(number);
    }
  }
  return any;
}

void Pool::worker(unsigned number) {
  pthread_setname_np(pthread_self(), "mrcc");
  DefaultFloatModes modes;
  constexpr uint64_t patience = 100000;    // ns without work before sleeping: longer than most steps that run alone
  constexpr uint64_t idlePatience = 20000; // while no run is under way
  uint32_t seen[maxTeams] = {};
  uint64_t idleSince = now();
  for (unsigned round = 1; number < stopFrom.load(std::memory_order_relaxed); ++round) {
    if (lookForWork(number, seen)) {
      idleSince = now();
      continue;
    }
    relax();
    if (round % 64 != 0)
      continue;
    const bool running = active.load(std::memory_order_relaxed) != 0;
    if (now() - idleSince < (running ? patience : idlePatience))
      continue;
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t before = signal.load(std::memory_order_seq_cst);
    // Whoever announces a task after this look sees a sleeper and changes the signal.
    if (!lookForWork(number, seen) && number < stopFrom.load(std::memory_order_seq_cst))
      sleepOn(signal, before, 1u << number % 32);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
    idleSince = now();
  }
}
