// The runtime in a program that links nothing else: counts allocations and locks of warm calls and looks at resident
// memory. Usage: mrcc-runtime-alone FOLDER, made by mrcc-make-test-bundles. What calls cost is in
// test/bench/runtime.cpp.
#include "mrcc/runtime.hpp"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <random>
#include <string>
#include <vector>

// ---- Interposed: everything that allocates, and the lock ----

static std::atomic<long> allocations{0}, locks{0};

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t n) {
  ++allocations;
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  ++allocations;
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
  ++allocations;
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t alignment, size_t n) {
  ++allocations;
  return __libc_memalign(alignment, n);
}
int posix_memalign(void **p, size_t alignment, size_t n) {
  ++allocations;
  *p = __libc_memalign(alignment, n);
  return *p ? 0 : 12;
}
int pthread_mutex_lock(pthread_mutex_t *mutex) {
  static auto *real = reinterpret_cast<int (*)(pthread_mutex_t *)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return real(mutex);
}
}

// ---- Helpers ----

static int failures = 0;
static void check(bool good, const char *what) {
  std::printf("%s %s\n", good ? "ok  " : "FAIL", what);
  failures += !good;
}

/// A field of /proc/self/status in KiB.
static long status(const char *field) {
  long value = 0;
  if (FILE *file = std::fopen("/proc/self/status", "r")) {
    for (char line[256]; std::fgets(line, sizeof line, file);)
      if (std::strncmp(line, field, std::strlen(field)) == 0)
        value = std::atol(line + std::strlen(field) + 1);
    std::fclose(file);
  }
  return value;
}
static int mappings() {
  int lines = 0;
  if (FILE *file = std::fopen("/proc/self/maps", "r")) {
    for (int c; (c = std::fgetc(file)) != EOF;)
      lines += c == '\n';
    std::fclose(file);
  }
  return lines;
}

struct Buffers {
  std::vector<float> x = std::vector<float>(3 * 256 * 256, 0.5f), y = std::vector<float>(3 * 256 * 256);
};

static mrcc::Error run(mrcc::Context &context, Buffers &b, int64_t h, int64_t w) {
  return context.run({mrcc::Tensor("x", b.x.data(), {1, 3, h, w})}, {mrcc::Tensor("y", b.y.data(), {1, 3, h, w})});
}

static mrcc::Context makeContext(mrcc::Model &model, uint32_t threads) {
  mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
  options.threads = threads;
  auto context = mrcc::Context::create(model, &options);
  if (!context) {
    std::printf("%s\n", context.error().message());
    std::exit(1);
  }
  return std::move(*context);
}

static mrcc::Model openModel(const std::string &path) {
  auto model = mrcc::Model::open(path.c_str());
  if (!model) {
    std::printf("%s\n", model.error().message());
    std::exit(1);
  }
  return std::move(*model);
}

// ---- Tests ----

static void warmCalls(const std::string &folder, Buffers &b) {
  mrcc_set_threads(2, nullptr);
  mrcc::Model model = openModel(folder + "/nine.mrcb");
  for (uint32_t threads : {1, 2}) {
    mrcc::Context context = makeContext(model, threads);
    for (int64_t h : {16, 64, 256})
      for (int64_t w : {16, 64, 256})
        run(context, b, h, w);
    const long before = allocations, locksBefore = locks;
    bool good = true;
    for (int i = 0; i < 100; ++i)
      for (int64_t h : {16, 64, 256})
        for (int64_t w : {16, 64, 256})
          good &= !run(context, b, h, w);
    const long made = allocations - before, taken = locks - locksBefore;
    check(before > 0 && locksBefore > 0, "the counters count");
    check(good, "900 warm calls run");
    check(made == 0, ("they allocate nothing, threads: " + std::to_string(threads)).c_str());
    check(taken == 0, ("they take no lock, threads: " + std::to_string(threads)).c_str());
  }
}

static void flatMemory(const std::string &folder, Buffers &b) {
  mrcc_set_threads(1, nullptr);
  const long empty = status("VmRSS:");
  mrcc::Model model = openModel(folder + "/nine.mrcb");
  mrcc::Context context = makeContext(model, 1);
  const int64_t sides[] = {16, 64, 256};
  for (int64_t h : sides)
    for (int64_t w : sides)
      run(context, b, h, w);
  const long resident = status("VmRSS:");
  const int maps = mappings();
  std::minstd_rand random(1);
  for (int i = 0; i < 10000; ++i)
    run(context, b, sides[random() % 3], sides[random() % 3]);
  const long after = status("VmRSS:");
  const mrcc_memory_info info = model.memory(1);
  std::printf("     resident: %ld KiB before, +%ld after one round, +%ld after 10000 calls; workspace %ld KiB\n", empty,
              resident - empty, after - empty, long(info.workspace_bytes / 1024));
  check(after - resident <= 64, "resident memory is flat over 10000 calls of nine shapes");
  check(mappings() == maps, "and so are the mappings");
  check(resident - empty <= long(info.workspace_bytes + info.constant_bytes) / 1024 + 1024,
        "it is the constants, one workspace and less than 1 MiB");
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  Buffers b;
  warmCalls(argv[1], b);
  flatMemory(argv[1], b);
  std::printf("%s\n", failures ? "FAILED" : "passed");
  return failures != 0;
}
