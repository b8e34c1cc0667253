// A session that is interrupted anywhere goes on as if nothing had happened.
#include "tuner/checkpoint.h"

#include <gtest/gtest.h>

#include <deque>
#include <limits>

#include "core/support/error.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/thrown_by.h"
#include "tests/tuner/fake_device.h"

namespace lathe::tuner {
namespace {

using schedule::avx512_target;

struct Crash {};

/// What outlives a session: the trials, and what it wrote down. Every candidate is measured once, when it was
/// first submitted; answers come in an order, and in portions, that depend on `order` alone.
struct World {
  explicit World(uint64_t order) : chance(order) {}

  std::vector<Task> tasks = two_tasks();
  schedule::Random chance;
  std::vector<std::string> submitted;  // "task fingerprint", in order, each once
  std::vector<SavedTask> saved{tasks.size()};
  std::string model;
  int rounds = 0;
};

class ShuffledMeasurer final : public Measurer {
 public:
  explicit ShuffledMeasurer(World& world) : world_(world) {}

  void submit(size_t task, std::span<const Proposal> proposals) override {
    for (const Proposal& proposal : proposals) {
      auto& known = world_.saved[task].candidates;
      if (known.emplace(proposal.fingerprint, schedule::to_json(proposal.trace)).second)
        world_.submitted.push_back(fmt::format("{} {}", task, proposal.fingerprint));
      Measured answer{task, proposal.trace, proposal.fingerprint};
      // Some fail, which is as good an answer.
      if (std::hash<std::string>()(proposal.fingerprint) % 10 == 0)
        answer.outcome = Outcome::kTimeout;
      else
        answer.seconds = latency(schedule::replay(proposal.trace, world_.tasks[task].workload));
      waiting_.push_back(std::move(answer));
    }
  }
  std::vector<Measured> wait(std::chrono::milliseconds) override {
    std::vector<Measured> ended;
    for (int64_t count = world_.chance.below(6); count > 0 && !waiting_.empty(); --count) {
      const int64_t at = world_.chance.below(static_cast<int64_t>(waiting_.size()));
      ended.push_back(std::move(waiting_[at]));
      waiting_.erase(waiting_.begin() + at);
    }
    return ended;
  }
  size_t in_flight() const override { return waiting_.size(); }
  size_t capacity() const override { return 16; }

 private:
  World& world_;
  std::deque<Measured> waiting_;
};

/// One life of a session in the world, which crashes after it wrote down `lifetime` rounds.
SessionStatus live(World& world, int lifetime, int64_t trials, bool known_tasks = false) {
  ShuffledMeasurer measurer(world);
  Session session(world.tasks, avx512_target(), measurer, {.trials = trials, .seed = 3});
  if (world.rounds > 0) {
    session.restore(world.saved, world.model);
  } else if (known_tasks) {
    for (size_t i = 0; i < world.tasks.size(); ++i) {
      const tir::Func& workload = world.tasks[i].workload;
      const schedule::Trace trace = schedule::default_trace(workload, avx512_target());
      const tir::Func program = schedule::replay(trace, workload);
      world.saved[i].candidates.emplace(fingerprint(program), schedule::to_json(trace));
      session.know(i, trace, latency(program));
    }
  }
  session.run([](const SessionStatus&) {}, [] { return false; },
              [&](const RoundCheckpoint& round) {
                for (const RoundCheckpoint::Task& task : round.tasks)
                  world.saved[task.task].bytes = task.bytes;
                if (!round.model.empty()) world.model = round.model;
                ++world.rounds;
                if (lifetime-- == 0 && static_cast<int64_t>(world.submitted.size()) < trials) throw Crash();
              });
  return session.status();
}

constexpr int kForEver = std::numeric_limits<int>::max();

TEST(Checkpoint, WhatIsProposedDependsOnNoOrderOfAnswers) {
  World one(1), two(2);
  live(one, kForEver, 100);
  live(two, kForEver, 100);
  EXPECT_EQ(one.submitted.size(), 100u);
  EXPECT_EQ(one.submitted, two.submitted);
}

TEST(Checkpoint, ASearchThatCrashesInEveryRoundIsTheSearchThatDoesNot) {
  for (const bool known : {false, true}) {
    World whole(1), torn(7);
    const SessionStatus expected = live(whole, kForEver, 100, known);
    ASSERT_FALSE(whole.model.empty()) << "or no model was tried";
    int lives = 1;
    SessionStatus found;
    for (;; ++lives) {
      try {
        found = live(torn, /*lifetime=*/0, 100, known);
        break;
      } catch (const Crash&) {
      }
      ASSERT_LT(lives, 100);
    }
    EXPECT_GT(lives, 8);
    EXPECT_EQ(torn.submitted, whole.submitted);
    EXPECT_EQ(torn.model, whole.model);
    EXPECT_EQ(found.trials, expected.trials);
    EXPECT_EQ(found.ending, expected.ending);
    for (size_t i = 0; i < whole.tasks.size(); ++i) {
      EXPECT_EQ(found.tasks[i].best, expected.tasks[i].best);
      EXPECT_EQ(found.tasks[i].best_seconds, expected.tasks[i].best_seconds);
      EXPECT_EQ(found.tasks[i].outcomes, expected.tasks[i].outcomes);
      EXPECT_EQ(found.tasks[i].since_best, expected.tasks[i].since_best);
      EXPECT_EQ(torn.saved[i].bytes.size(), whole.saved[i].bytes.size());
    }
  }
}

TEST(Checkpoint, BytesComeBack) {
  TaskCheckpoint checkpoint{.shared = {4, UINT64_MAX, 70, 16, 40, {0.1, 1.0 / 3, 9}},
                            .best_after = {std::numeric_limits<double>::infinity(), 0.1},
                            .lessons = {{"ab", std::numeric_limits<double>::infinity()}, {"cd", 1e-300}}};
  const tir::Func workload = two_tasks()[1].workload;
  const schedule::Trace trace = schedule::default_trace(workload, avx512_target());
  checkpoint.search = {.random = 1ull << 63, .elite = {{trace, 0.3}}, .seen = {"x"}, .codes = {UINT64_MAX}};
  checkpoint.state.best = trace;
  checkpoint.open = {{69, trace, "ef", -2.5}};
  const TaskCheckpoint back = parse_task_checkpoint(to_bytes(checkpoint));
  EXPECT_EQ(to_bytes(back), to_bytes(checkpoint));
  EXPECT_EQ(back.search, checkpoint.search);
  EXPECT_EQ(back.shared.random, UINT64_MAX);
  EXPECT_EQ(back.best_after, checkpoint.best_after);
  EXPECT_EQ(back.lessons[0].seconds, checkpoint.lessons[0].seconds);
}

/// What is said of a world that cannot go on.
std::string refusal(World& world) {
  ShuffledMeasurer measurer(world);
  Session session(world.tasks, avx512_target(), measurer, {.trials = 1, .seed = 3});
  return thrown_by([&] { session.restore(world.saved, world.model); });
}

/// The database may come from anywhere.
TEST(Checkpoint, DamagedOnesAreErrors) {
  World world(1);
  try {
    live(world, 6, 100);
  } catch (const Crash&) {
  }
  const std::string bytes = world.saved[0].bytes;
  schedule::Random random(5);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    World damaged = world;
    std::string& victim = damaged.saved[0].bytes;
    const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(victim.size())));
    if (i % 2)
      victim.resize(at);
    else
      victim[at] = static_cast<char>(random.below(256));
    ShuffledMeasurer measurer(damaged);
    Session session(damaged.tasks, avx512_target(), measurer, {.trials = 1, .seed = 3});
    try {
      session.restore(damaged.saved, damaged.model);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_THROW(parse_task_checkpoint(""), Error);
  EXPECT_THROW(parse_task_checkpoint(std::string(100'000, '[')), Error);
  EXPECT_THROW(parse_task_checkpoint(R"({"version":2})"), Error);
  // Hours of replaying, or of proposing before the first answer is waited for.
  World endless = world;
  TaskCheckpoint checkpoint = parse_task_checkpoint(bytes);
  ASSERT_FALSE(checkpoint.lessons.empty());
  checkpoint.lessons.resize(30'000, checkpoint.lessons[0]);
  endless.saved[0].bytes = to_bytes(checkpoint);
  EXPECT_EQ(refusal(endless), "the checkpoint of " + world.tasks[0].name +
                                  fmt::format(" cannot be used: it has learnt 30000 times from {} candidates",
                                              world.saved[0].candidates.size()));
  checkpoint = parse_task_checkpoint(bytes);
  checkpoint.shared.window = size_t{1} << 62;
  endless.saved[0].bytes = to_bytes(checkpoint);
  EXPECT_EQ(refusal(endless), "the checkpoint of " + world.tasks[0].name +
                                  " cannot be used: it is damaged: it waits for 4611686018427387904");
  world.saved[0].candidates.clear();
  EXPECT_EQ(refusal(world), "the checkpoint of " + world.tasks[0].name +
                                " cannot be used: it has learnt from a candidate that is not there");
  world.saved[0].bytes = std::string(1000, '\xff');
  EXPECT_EQ(refusal(world), "the checkpoint of " + world.tasks[0].name +
                                " cannot be used: it is damaged: it is no object of JSON");
}

}  // namespace
}  // namespace lathe::tuner
