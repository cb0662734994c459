// Holding and letting go of prepared variants, without running them, so that threads meet there all the time.
#include "Bundles.h"
#include "Model.h"
#include <doctest/doctest.h>
#include <thread>

using namespace test;
using namespace mrcc;

namespace mrcc::runtime {
struct TestAccess {
  static std::atomic<int64_t> &users(Model &model, uint32_t variant) { return model.entries[variant].users; }
};
} // namespace mrcc::runtime
using runtime::TestAccess;

static const std::vector<Size> four = {{16, 16}, {16, 32}, {16, 48}, {32, 16}};

TEST_CASE("preparing keeps the count of a thread that has just looked for the same variant") {
  Folder folder;
  write(folder / "a.mrcb", Contents(four));
  runtime::Options options;
  struct User {
    runtime::Model *model = nullptr;
    int calls = 0;
  } user;
  options.logUser = &user;
  options.log = [](void *u, mrcc_log_level, const char *) { // while the variant is prepared
    auto &user = *static_cast<User *>(u);
    TestAccess::users(*user.model, 0).fetch_add(1); // another thread in Model::hold: it counts itself first ...
    ++user.calls;
  };
  runtime::Model model(runtime::Storage::openPath(folder / "a.mrcb"), std::move(options));
  user.model = &model;
  user.calls = 0;
  model.acquire(0);
  REQUIRE(user.calls == 1);
  TestAccess::users(model, 0).fetch_sub(1); // ... and steps back when it finds nothing prepared
  CHECK(TestAccess::users(model, 0) == 1);
  model.release(0);
  CHECK(TestAccess::users(model, 0) == 0);
}

TEST_CASE("after a burst of variants that run at the same time, the limit holds again") {
  Folder folder;
  write(folder / "a.mrcb", Contents(four));
  runtime::Options options;
  options.preparedLimit = 2;
  std::vector<std::string> log;
  options.logUser = &log;
  options.log = [](void *user, mrcc_log_level, const char *message) {
    static_cast<std::vector<std::string> *>(user)->push_back(message);
  };
  runtime::Model model(runtime::Storage::openPath(folder / "a.mrcb"), std::move(options));
  for (uint32_t variant : {0, 1, 2, 3})
    model.acquire(variant);
  CHECK(model.numPrepared() == 4); // all run
  log.clear();
  model.release(3);
  CHECK(model.numPrepared() == 3); // the only one that is not running
  model.release(0);
  CHECK(model.numPrepared() == 2);
  model.release(1);
  model.release(2);
  CHECK(model.numPrepared() == 2);
  REQUIRE(log.size() == 2);
  CHECK(log[0].rfind("let go ", 0) == 0);
  CHECK(log[1].rfind("let go ", 0) == 0);
  model.acquire(1); // still there: nothing is prepared for it
  CHECK(log.size() == 2);
  model.release(1);
}

TEST_CASE("what a thread holds stays prepared, and nothing is held when all have released") {
  Folder folder;
  write(folder / "a.mrcb", Contents(four));
  runtime::Options options;
  options.preparedLimit = 1; // every other variant's turn evicts
  runtime::Model model(runtime::Storage::openPath(folder / "a.mrcb"), std::move(options));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 10000; ++i) {
        const uint32_t variant = (i / 4 + t / 4) % 3;
        const runtime::Prepared &held = model.acquire(variant);
        std::this_thread::yield();
        wrong += held.variant != variant || TestAccess::users(model, variant) < 1;
        model.release(variant);
      }
    });
  for (std::thread &t : threads)
    t.join();
  CHECK(wrong == 0);
  for (uint32_t variant = 0; variant < four.size(); ++variant)
    CHECK(TestAccess::users(model, variant) == 0);
  model.acquire(3); // makes room: all others can go
  CHECK(model.numPrepared() == 1);
  model.release(3);
}
