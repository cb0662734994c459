// Running: results, threads, the cache of prepared variants, memory that is lent or allocated by the caller, hooks.
#include "Bundles.h"
#include "mrcc/runtime.hpp"
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <limits>
#include <map>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#ifndef __has_feature // GCC
#define __has_feature(x) 0
#endif

using namespace test;

static const std::vector<Size> nine = {{16, 16}, {16, 32}, {16, 48}, {32, 16}, {32, 32},
                                       {32, 48}, {64, 16}, {64, 32}, {64, 48}};

TEST_CASE("all variants compute what they should, in any order, on one context") {
  Folder folder;
  write(folder / "a.mrcb", Contents(nine));
  Session session(folder / "a.mrcb");
  for (int round = 0; round < 3; ++round)
    for (Size size : {Size{64, 48}, {16, 16}, {32, 48}, {64, 16}, {16, 48}}) {
      CHECK(session.run(size).message == "");
      CHECK(session.y == expected(session.x, size));
    }
}

TEST_CASE("any number of threads gives the same result") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{300, 200}}));
  for (uint32_t threads : {1, 2, 3, 7, 16}) {
    REQUIRE(mrcc_set_threads(threads, nullptr) == MRCC_OK);
    CHECK(mrcc_get_threads() == threads);
    Session session(folder / "a.mrcb");
    for (int i = 0; i < 20; ++i) {
      CHECK(session.run({300, 200}).message == "");
      CHECK(session.y == expected(session.x, {300, 200}));
    }
  }
  mrcc_set_threads(0, nullptr);
}

TEST_CASE("the pool may change its size while contexts run") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{300, 200}}));
  std::atomic<bool> stop{false};
  mrcc_set_threads(4, nullptr);
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i)
    callers.emplace_back([&] {
      Session session(folder / "a.mrcb");
      while (!stop) {
        session.run({300, 200});
        if (session.y != expected(session.x, {300, 200}))
          FAIL_CHECK("wrong result");
      }
    });
  for (int i = 0; i < 30; ++i)
    mrcc_set_threads(1 + i % 4, nullptr);
  stop = true;
  for (std::thread &t : callers)
    t.join();
  mrcc_set_threads(0, nullptr);
}

TEST_CASE("eight threads, one model, mixed shapes, few prepared at a time") {
  Folder folder;
  write(folder / "a.mrcb", Contents(nine));
  mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
  options.prepared_limit = 2;
  Session session(folder / "a.mrcb", &options);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      mrcc_context *context = nullptr;
      if (mrcc_context_create(session.model, nullptr, &context, nullptr) != MRCC_OK)
        return void(++wrong);
      std::vector<float> y;
      for (int i = 0; i < 150; ++i) {
        if (t == 3 && i == 75) { // destroyed midway, and a new one
          mrcc_context_free(context);
          mrcc_context_create(session.model, nullptr, &context, nullptr);
        }
        const Size size = nine[(i * 7 + t * 5 + i * i) % nine.size()];
        std::vector<float> x = randomValues(3 * size.first * size.second, t * 1000 + i);
        wrong += runOnce(context, x, y, size).code != MRCC_OK || y != expected(x, size);
      }
      mrcc_context_free(context);
    });
  for (std::thread &t : threads)
    t.join();
  CHECK(wrong == 0);
  mrcc_memory_info info = MRCC_MEMORY_INFO_INIT;
  mrcc_model_memory(session.model, 1, &info, nullptr);
  CHECK(info.prepared <= 8);
  CHECK(session.run({16, 16}).code == MRCC_OK);
  CHECK(session.run({16, 32}).code == MRCC_OK);
  CHECK(session.run({16, 48}).code == MRCC_OK);
  mrcc_model_memory(session.model, 1, &info, nullptr);
  CHECK(info.prepared == 2);
}

/// Counts what the model says it prepared and let go.
struct Log {
  std::vector<std::string> lines;
  static void write(void *user, mrcc_log_level, const char *message) {
    static_cast<Log *>(user)->lines.push_back(message);
  }
  int count(const std::string &front) const {
    int n = 0;
    for (const std::string &line : lines)
      n += line.starts_with(front);
    return n;
  }
};

TEST_CASE("the least recently used variant goes first, a pinned one never") {
  Folder folder;
  write(folder / "a.mrcb", Contents(nine));
  for (bool pin : {false, true}) {
    Log log;
    mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
    options.prepared_limit = 3;
    options.pin_first = pin;
    options.log = &Log::write;
    options.log_user = &log;
    Session session(folder / "a.mrcb", &options);
    for (int i : {0, 1, 2, 0, 1, 2})
      session.run(nine[i]);
    CHECK(log.count("prepared") == 3);
    CHECK(log.count("let go") == 0);
    session.run(nine[3]); // 0 was used longest ago
    CHECK(log.count(pin ? "let go x=1x3x16x32" : "let go x=1x3x16x16") == 1);
    session.run(nine[0]);
    CHECK(log.count("prepared x=1x3x16x16") == (pin ? 1 : 2));
    for (Size size : nine)
      session.run(size);
    mrcc_memory_info info = MRCC_MEMORY_INFO_INIT;
    mrcc_model_memory(session.model, 1, &info, nullptr);
    CHECK(info.prepared == 3);
    const int before = log.count("prepared");
    session.run(nine[0]);
    CHECK(log.count("prepared") == before + !pin);
  }
}

TEST_CASE("a workspace may be lent and shared by contexts that take turns") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{64, 48}, {16, 16}}));
  write(folder / "b.mrcb", Contents({{32, 48}}));
  auto a = mrcc::Model::open((folder / "a.mrcb").c_str()), b = mrcc::Model::open((folder / "b.mrcb").c_str());
  REQUIRE((a && b));
  const uint64_t bytes = std::max(a->memory(2).workspace_bytes, b->memory(2).workspace_bytes);
  const uint64_t small = 2 * 3 * 16 * 16 * 4 + 2 * 64;
  std::vector<char> memory(bytes + 64);
  char *aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  auto create = [&](mrcc::Model &model, char *at, uint64_t size) {
    mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    options.workspace = at;
    options.workspace_bytes = size;
    return mrcc::Context::create(model, &options);
  };
  auto first = create(*a, aligned, bytes), second = create(*b, aligned, bytes);
  REQUIRE((first && second));
  std::vector<float> y;
  for (int i = 0; i < 5; ++i) {
    std::vector<float> x = randomValues(3 * 64 * 48, i), z = randomValues(3 * 32 * 48, i);
    CHECK(runOnce(first->get(), x, y, {64, 48}).message == "");
    CHECK(y == expected(x, {64, 48}));
    CHECK(runOnce(second->get(), z, y, {32, 48}).message == "");
    CHECK(y == expected(z, {32, 48}));
  }
  auto tight = create(*a, aligned, small);
  REQUIRE(bool(tight));
  CHECK(tight->memory().workspace_bytes == small);
  std::vector<float> x = randomValues(3 * 64 * 48, 1);
  Outcome refused = runOnce(tight->get(), x, y, {64, 48});
  CHECK(refused.code == MRCC_BUFFER_TOO_SMALL);
  CHECK(refused.message.find(std::to_string(small)) != std::string::npos);
  x = randomValues(3 * 16 * 16, 1);
  CHECK(runOnce(tight->get(), x, y, {16, 16}).message == "");
  CHECK(y == expected(x, {16, 16}));
  CHECK(create(*a, aligned + 4, bytes - 64).error().code() == MRCC_MISALIGNED);
}

/// Memory with a limit, counted.
struct Allocator {
  size_t held = 0, limit = SIZE_MAX, calls = 0;
  static void *allocate(void *user, size_t bytes, size_t alignment) {
    auto &self = *static_cast<Allocator *>(user);
    ++self.calls;
    if (self.held + bytes > self.limit)
      return nullptr;
    self.held += bytes;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void release(void *user, void *memory, size_t bytes) {
    static_cast<Allocator *>(user)->held -= bytes;
    std::free(memory);
  }
  mrcc_allocator get() { return {allocate, release, this}; }
};

TEST_CASE("the caller's allocator gives every byte of the workspace, or the error says that it did not") {
  Folder folder;
  write(folder / "a.mrcb", Contents(nine));
  auto model = mrcc::Model::open((folder / "a.mrcb").c_str());
  REQUIRE(bool(model));
  Allocator memory;
  mrcc_allocator hooks = memory.get();
  mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
  options.allocator = &hooks;
  options.threads = 3;
  {
    auto context = mrcc::Context::create(*model, &options);
    REQUIRE(bool(context));
    CHECK(memory.held == model->memory(3).workspace_bytes);
    std::vector<float> x = randomValues(3 * 64 * 48, 1), y;
    CHECK(runOnce(context->get(), x, y, {64, 48}).message == "");
    CHECK(y == expected(x, {64, 48}));
    CHECK(memory.calls == 1);
    memory.limit = memory.held; // nothing more for a second one
    auto second = mrcc::Context::create(*model, &options);
    CHECK(second.error().code() == MRCC_OUT_OF_MEMORY);
    CHECK(runOnce(context->get(), x, y, {64, 48}).message == "");
  }
  CHECK(memory.held == 0);
  hooks.release = nullptr;
  CHECK(mrcc::Context::create(*model, &options).error().code() == MRCC_INVALID_ARGUMENT);
}

TEST_CASE("a context keeps its model alive") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{16, 16}}));
  Session session(folder / "a.mrcb");
  mrcc_model_free(session.model);
  session.model = nullptr;
  std::filesystem::remove_all(folder / "a.mrcb"); // and it needs the files no more, even those that it has not read yet
  CHECK(session.run({16, 16}).message == "");
  CHECK(session.y == expected(session.x, {16, 16}));
}

TEST_CASE("a bundle may be replaced while it is in use") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{16, 16}, {32, 32}}));
  Session session(folder / "a.mrcb");
  CHECK(session.run({16, 16}).message == "");
  write(folder / "a.mrcb", Contents({{8, 8}}));
  CHECK(session.run({32, 32}).message == "");
  CHECK(session.y == expected(session.x, {32, 32}));
  CHECK(tryRun(folder / "a.mrcb").message == "");
}

TEST_CASE("the caller's threads may do the work, one after the other too") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{300, 200}}));
  struct User {
    int mode, calls = 0;
  };
  for (int mode = 0; mode < 3; ++mode) { // threads; in reverse order on one thread; not at all
    User user{mode};
    mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
    options.threads = 4;
    options.parallel_user = &user;
    options.parallel = [](void *u, uint32_t tasks, void (*task)(void *, uint32_t), void *argument) {
      auto &user = *static_cast<User *>(u);
      ++user.calls;
      CHECK(tasks == 4);
      std::vector<std::thread> threads;
      for (uint32_t i = tasks; i-- > 0 && user.mode < 2;)
        if (user.mode == 0)
          threads.emplace_back(task, argument, i);
        else
          task(argument, i);
      for (std::thread &t : threads)
        t.join();
    };
    Session session(folder / "a.mrcb", nullptr, &options);
    for (int i = 0; i < 3; ++i) {
      CHECK(session.run({300, 200}).message == "");
      CHECK(session.y == expected(session.x, {300, 200}));
    }
    CHECK(user.calls == 9);
  }
}

TEST_CASE("a thread takes at least the units that a step says at once") {
  constexpr int64_t rows = 900, threads = 4;
  auto callsWith = [&](uint64_t least) {
    Folder folder;
    Options bundle;
    bundle.startsLeast = least;
    write(folder / "a.mrcb", Contents({{rows / 3, 200}}, bundle));
    mrcc_context_options options = MRCC_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    options.parallel = [](void *, uint32_t tasks, void (*task)(void *, uint32_t), void *argument) {
      for (uint32_t i = 0; i < tasks; ++i) // one after the other: the first takes the others' units, too
        task(argument, i);
    };
    Session session(folder / "a.mrcb", nullptr, &options);
    CHECK(session.run({rows / 3, 200}).message == "");
    return std::set<float>(session.y.begin(), session.y.end()).size();
  };
  CHECK(callsWith(1) > 2 * threads);
  CHECK(callsWith(rows / threads) == threads);
  CHECK(callsWith(rows / threads / 3) == 3 * threads);
  CHECK(callsWith(rows) == threads); // more than a share: all of it
  CHECK(callsWith(uint64_t(1) << 63) == threads);
}

TEST_CASE("a context that is busy says so") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{16, 16}}));
  Session session(folder / "a.mrcb");
  struct User {
    Session &session;
    Outcome inner;
  } user{session, {}};
  mrcc_context_set_step_hook(
      session.context,
      [](void *u, const mrcc_step *) {
        auto &user = *static_cast<User *>(u);
        std::thread([&] {
          std::vector<float> x = randomValues(3 * 16 * 16, 1), y;
          user.inner = runOnce(user.session.context, x, y, {16, 16});
        }).join();
      },
      &user, nullptr);
  CHECK(session.run({16, 16}).message == "");
  CHECK(user.inner.code == MRCC_BUSY);
}

TEST_CASE("the step hook sees steps, times and the values that were just written") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{16, 32}}));
  Session session(folder / "a.mrcb");
  struct User {
    std::vector<std::string> steps;
    std::vector<float> sums;
    bool good = true;
  } user;
  mrcc_context_set_step_hook(
      session.context,
      [](void *u, const mrcc_step *step) {
        auto &user = *static_cast<User *>(u);
        user.steps.push_back(std::string(step->location) + " " + step->kernel);
        const mrcc_view &out = step->views[0];
        user.good &= step->count == 3 && step->index + 1 == user.steps.size() && step->num_outputs == 1 &&
                     out.rank == 2 && out.dims[0] == 48 && out.dims[1] == 32 && out.strides[0] == 32 &&
                     out.dtype == MRCC_F32 && step->flops == 2 * 48 * 32 && step->bytes >= 2 * 48 * 32 * 4;
        user.sums.push_back(static_cast<const float *>(out.data)[5 * 32 + 7]);
      },
      &user, nullptr);
  CHECK(session.run({16, 32}).message == "");
  CHECK(user.good);
  CHECK(user.steps == std::vector<std::string>{"/Add affine", "/Mul affine", "/Reverse reverse"});
  const float x = session.x[5 * 32 + 7], first = x * -1.75f + 1.5f;
  CHECK(user.sums[0] == first);
  CHECK(user.sums[1] == first * 4.5f);
  CHECK(user.sums[2] == session.y[5 * 32 + 7]);
  mrcc_context_set_step_hook(session.context, nullptr, nullptr, nullptr);
  CHECK(session.run({16, 32}).message == "");
  CHECK(user.steps.size() == 3);
}

#if defined(__x86_64__)
TEST_CASE("the caller's floating-point modes do not reach the result, and stay") {
  Options options;
  options.denormalSteps = 1;
  Folder folder;
  write(folder / "a.mrcb", Contents({{16, 32}}, options));
  Session session(folder / "a.mrcb");
  const unsigned before = _mm_getcsr();
  std::vector<float> x(3 * 16 * 32, std::numeric_limits<float>::min()), y;
  _mm_setcsr(before | 0x8040); // flush to zero, denormals are zero
  Outcome result = runOnce(session.context, x, y, {16, 32});
  CHECK(_mm_getcsr() == (before | 0x8040));
  _mm_setcsr(before);
  CHECK(result.message == "");
  CHECK(y[5] == std::numeric_limits<float>::min() / 1024);
  CHECK(y[5] != 0);
}
#endif

TEST_CASE("a child process after fork runs") {
  Folder folder;
  write(folder / "a.mrcb", Contents({{300, 200}}));
  mrcc_set_threads(3, nullptr);
  {
    Session session(folder / "a.mrcb");
    session.run({300, 200});
    pid_t child = fork();
    if (child == 0) {
      session.run({300, 200});
      bool good = session.y == expected(session.x, {300, 200});
#if !__has_feature(thread_sanitizer)   // which allows no new threads here
      mrcc_context *context = nullptr; // starts workers of its own
      mrcc_context_create(session.model, nullptr, &context, nullptr);
      std::vector<float> y;
      good &= runOnce(context, session.x, y, {300, 200}).code == MRCC_OK && y == session.y;
      mrcc_context_free(context);
#endif
      mrcc_set_threads(1, nullptr);
      _exit(good ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    session.run({300, 200});
    CHECK(session.y == expected(session.x, {300, 200}));
  }
  mrcc_set_threads(0, nullptr);
}

TEST_CASE("facts through the interface agree with the bundle") {
  Folder folder;
  write(folder / "a.mrcb", Contents(nine));
  auto model = mrcc::Model::open((folder / "a.mrcb").c_str());
  REQUIRE(bool(model));
  auto info = llvm::cantFail(mrcc::readBundle(folder / "a.mrcb"));
  CHECK(std::string(model->name()) == "test");
  CHECK(std::string(mrcc_model_producer(model->get())) == "mrcc test");
  REQUIRE(model->numVariants() == 9);
  uint64_t largest = 0;
  for (uint32_t i = 0; i < 9; ++i) {
    const mrcc_variant_info v = model->variant(i);
    const auto &w = info.variants[i];
    CHECK(v.key == w.program.key);
    CHECK(v.arena_bytes == w.program.arenaBytes);
    CHECK(v.scratch_bytes == w.scratchBytes);
    CHECK(v.constant_bytes == w.constantBytes);
    CHECK(v.unique_constant_bytes == w.uniqueConstantBytes);
    CHECK(v.code_bytes == w.codeBytes);
    CHECK(v.unique_code_bytes == w.uniqueCodeBytes);
    CHECK(v.flops == w.flops);
    CHECK(v.steps == 3);
    CHECK(v.inputs[0].bytes == size_t(3 * nine[i].first * nine[i].second * 4));
    largest = std::max(largest, v.arena_bytes);
  }
  CHECK(model->memory().arena_bytes == largest);
  CHECK(model->memory(2).workspace_bytes >= largest + 2 * 48 * 4);
}
