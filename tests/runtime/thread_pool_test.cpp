#include "core/runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "core/runtime/cores.h"

namespace lathe::runtime {
namespace {

using Body = std::function<void(int64_t, int64_t)>;

void launch(const LatheParallel* parallel, int64_t iterations, Body body) {
  parallel->launch(
      parallel->pool,
      [](void* closure, int64_t begin, int64_t end) { (*static_cast<Body*>(closure))(begin, end); }, &body,
      iterations);
}

TEST(ThreadPool, RunsEachIterationOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t iterations : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      std::vector<int> runs(iterations);  // not atomic: chunks are disjoint and the join orders them
      launch(pool.parallel(), iterations, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++runs[i];
      });
      EXPECT_EQ(std::count(runs.begin(), runs.end(), 1), iterations) << threads << " threads";
    }
  }
}

TEST(ThreadPool, EachThreadBeginsWithItsOwnPart) {
  ThreadPool pool(2);
  std::atomic<int> arrived;
  std::vector<std::thread::id> owner(2);
  for (int round = 0; round < 50; ++round) {
    arrived = 0;
    launch(pool.parallel(), 2, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(end - begin, 1);
      ++arrived;
      while (arrived < 2) std::this_thread::yield();  // so that no thread runs both
      if (round == 0) owner[begin] = std::this_thread::get_id();
      EXPECT_EQ(owner[begin], std::this_thread::get_id());
    });
  }
  EXPECT_EQ(owner[0], std::this_thread::get_id());
  EXPECT_NE(owner[1], owner[0]);
}

TEST(ThreadPool, OthersHelpAThreadThatIsLate) {
  ThreadPool pool(2);
  std::atomic<int> done = 0;
  launch(pool.parallel(), 64, [&](int64_t begin, int64_t end) {
    // The worker comes no further than its first piece until everything else is done.
    bool late = begin == 32;
    while (late && done < 64 - (end - begin)) std::this_thread::yield();
    done += static_cast<int>(end - begin);
  });
  EXPECT_EQ(done, 64);
}

TEST(ThreadPool, SharesOfFewIterationsAreOnePiece) {
  ThreadPool pool(2);
  for (int round = 0; round < 50; ++round)
    launch(pool.parallel(), 14, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin % 7, 0);
      EXPECT_EQ(end - begin, 7);
    });
}

TEST(ThreadPool, MoreThreadsThanCoresAreNoTrouble) {
  ThreadPool pool(16);
  std::atomic<int64_t> sum = 0;
  for (int round = 0; round < 300; ++round)
    launch(pool.parallel(), 40, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 300 * 40);
}

TEST(ThreadPool, NestedLaunchesRunSerially) {
  ThreadPool pool(4);
  std::atomic<int> inner = 0;
  launch(pool.parallel(), 4, [&](int64_t, int64_t) {
    std::thread::id outer = std::this_thread::get_id();
    launch(pool.parallel(), 100, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(outer, std::this_thread::get_id());
      inner += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(inner, 400);
}

TEST(ThreadPool, LaunchesOfSeveralThreadsDoNotMix) {
  ThreadPool pool(2);
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::vector<int> runs(10);
        launch(pool.parallel(), 10, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++runs[i];
        });
        ASSERT_EQ(std::count(runs.begin(), runs.end(), 1), 10);
      }
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPool, WakesSleepersManyTimes) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum = 0;
  for (int round = 0; round < 200; ++round) {
    if (round % 20 == 0) usleep(1000);  // longer than the workers spin
    launch(pool.parallel(), round % 5, [&](int64_t begin, int64_t end) { sum += end - begin; });
  }
  EXPECT_EQ(sum, 400);
}

TEST(ThreadPool, PinsAndGivesBackTheCallersCores) {
  cpu_set_t before, during, after;
  sched_getaffinity(0, sizeof before, &before);
  {
    ThreadPool pool(1, /*pin=*/true);
    sched_getaffinity(0, sizeof during, &during);
    EXPECT_EQ(CPU_COUNT(&during), 1);
    EXPECT_EQ(available_cores(), 1);
  }
  sched_getaffinity(0, sizeof after, &after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPool, GivesCoresBackToItsMakerWhoeverEndsIt) {
  auto cores = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
  };
  const int before = cores();
  if (before < 2) GTEST_SKIP() << "one core";
  auto pool = std::make_unique<ThreadPool>(2, /*pin=*/true);
  EXPECT_EQ(cores(), 1);
  int of_other = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pool.reset();
    of_other = cores();
  }).join();
  EXPECT_EQ(of_other, 1);
  EXPECT_EQ(cores(), before);
}

TEST(SerialParallel, RunsOnTheCaller) {
  int64_t runs = 0;
  launch(serial_parallel(), 5, [&](int64_t begin, int64_t end) { runs += end - begin; });
  launch(serial_parallel(), 0, [&](int64_t, int64_t) { runs += 100; });
  EXPECT_EQ(runs, 5);
}

}  // namespace
}  // namespace lathe::runtime
