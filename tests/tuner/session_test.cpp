// Sessions against a fake machine: its latencies are a function of the program, and nothing is built or run.
#include "tuner/session.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <thread>

#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/family.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"
#include "tests/tuner/fake_device.h"
#include "tuner/checkpoint.h"

namespace lathe::tuner {
namespace {
using schedule::avx512_target;

/// Answers in order, a few at a time, as a farm would.
class FakeMeasurer final : public Measurer {
 public:
  explicit FakeMeasurer(std::vector<Task> tasks) : tasks_(std::move(tasks)) {}

  void submit(size_t task, std::span<const Proposal> proposals) override {
    EXPECT_LE(in_flight(), capacity());
    for (const Proposal& proposal : proposals) {
      EXPECT_TRUE(measured.insert({task, proposal.fingerprint}).second) << "measured twice";
      if (measured.size() == 1) first_program = proposal.program;
      waiting_.push_back(answer(task, proposal));
      // Every other one of one task.
      if (task == 0 && measured.size() % 2 == 0 && measured.size() < lying_until) {
        waiting_.back().seconds /= 3;
        lies.insert(proposal.fingerprint);
      }
    }
    rounds.push_back({task, proposals.size()});
  }
  std::vector<Withdrawn> withdrawn() override { return std::exchange(taken_back, {}); }
  /// What was said of the task, and what is on its way, as a farm does.
  void take_back_all(size_t task) {
    Withdrawn all{.task = task};
    for (const auto& [of, fingerprint] : measured)
      if (of == task) all.fingerprints.insert(fingerprint);
    taken_back = {all};
    for (Measured& answer : waiting_)
      if (answer.task == task) answer.outcome = Outcome::kWorkerLost;
  }
  std::vector<Measured> wait(std::chrono::milliseconds) override {
    std::vector<Measured> ended;
    for (int i = 0; i < 5 && !waiting_.empty(); ++i) {
      ended.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    std::this_thread::sleep_for(delay);
    return ended;
  }
  size_t in_flight() const override { return waiting_.size(); }
  size_t capacity() const override { return 16; }

  std::set<std::pair<size_t, std::string>> measured;
  std::vector<std::pair<size_t, size_t>> rounds;  // task, candidates
  tir::Func first_program;
  size_t failing_task = SIZE_MAX;  // all its candidates fail
  std::set<std::string> lies;      // fingerprints, said to take a third of what they do
  size_t lying_until = 0;          // candidates
  std::vector<Withdrawn> taken_back;
  std::chrono::milliseconds delay{0};

 private:
  Measured answer(size_t task, const Proposal& proposal) const {
    Measured answer{task, proposal.trace, proposal.fingerprint};
    if (task == failing_task) {
      answer.outcome = Outcome::kTimeout;
      answer.message = "too slow";
    } else {
      answer.seconds = latency(schedule::replay(proposal.trace, tasks_[task].workload));
    }
    return answer;
  }

  std::vector<Task> tasks_;
  std::deque<Measured> waiting_;
};

constexpr auto kQuiet = [](const SessionStatus&) {};
constexpr auto kNever = [] { return false; };

TEST(Session, SpendsItsTrialsAndReportsTheBest) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer measurer(tasks);
  Session session(tasks, avx512_target(), measurer, {.trials = 90, .seed = 1});
  int64_t last = 0, calls = 0;
  session.run(
      [&](const SessionStatus& status) {
        EXPECT_GE(status.trials, last);
        last = status.trials;
        ++calls;
      },
      kNever);
  EXPECT_EQ(measurer.measured.size(), 90u);
  ASSERT_GT(session.milestones().size(), 1u);
  EXPECT_DOUBLE_EQ(session.milestones().back().model_seconds, session.status().model_seconds);
  EXPECT_GT(calls, 5);
  SessionStatus status = session.status();
  EXPECT_EQ(status.trials, 90);
  EXPECT_GT(status.quality.samples, 0);
  double total = 0, by_default = 0;
  int64_t trials = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const TaskState& state = status.tasks[i];
    tir::Func program =
        schedule::replay(schedule::default_trace(tasks[i].workload, avx512_target()), tasks[i].workload);
    EXPECT_DOUBLE_EQ(state.default_seconds, latency(program));
    EXPECT_LE(state.best_seconds, state.default_seconds);
    EXPECT_DOUBLE_EQ(state.best_seconds, latency(schedule::replay(state.best, tasks[i].workload)));
    EXPECT_EQ(state.outcomes[static_cast<size_t>(Outcome::kOk)], state.trials);
    trials += state.trials;
    total += static_cast<double>(tasks[i].calls) * state.best_seconds;
    by_default += static_cast<double>(tasks[i].calls) * state.default_seconds;
  }
  EXPECT_EQ(trials, 90);
  EXPECT_DOUBLE_EQ(status.model_seconds, total);
  EXPECT_DOUBLE_EQ(status.default_model_seconds, by_default);
}

/// The best of what was said comes of who is found to lie when it has been learnt: nothing of that is left,
/// in what is shown, in what the search starts from, nor in the cost model.
TEST(Session, ForgetsWhatIsWithdrawn) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer measurer(tasks);
  measurer.lying_until = 60;
  Session session(tasks, avx512_target(), measurer, {.trials = 240, .seed = 1});
  bool told = false;
  std::vector<Lesson> lessons;
  std::string model;
  session.run(
      [&](const SessionStatus& status) {
        if (status.trials < 80 || std::exchange(told, true)) return;
        const tir::Func& workload = tasks[0].workload;
        EXPECT_TRUE(measurer.lies.contains(fingerprint(schedule::replay(status.tasks[0].best, workload))));
        const schedule::Trace honest = schedule::default_trace(workload, avx512_target());
        measurer.taken_back = {{.task = 0,
                                .fingerprints = measurer.lies,
                                .believed = {{honest, latency(schedule::replay(honest, workload))}}}};
      },
      kNever,
      [&](const RoundCheckpoint& round) {
        for (const RoundCheckpoint::Task& task : round.tasks)
          if (task.task == 0) lessons = parse_task_checkpoint(task.bytes).lessons;
        if (!round.model.empty()) model = round.model;
      });
  ASSERT_TRUE(told);
  const TaskState state = session.status().tasks[0];
  EXPECT_DOUBLE_EQ(state.best_seconds, latency(schedule::replay(state.best, tasks[0].workload)));
  EXPECT_FALSE(lessons.empty());
  for (const Lesson& lesson : lessons)
    EXPECT_FALSE(measurer.lies.contains(lesson.fingerprint)) << lesson.fingerprint;
  EXPECT_FALSE(model.empty()) << "learnt anew";
  for (const Milestone& milestone : session.milestones()) EXPECT_GT(milestone.seconds, 0);
  EXPECT_GE(session.milestones().front().model_seconds,
            static_cast<double>(tasks[0].calls) * state.best_seconds);
}

/// A task of which nothing is believed any more has not failed: it has its turn before all others.
TEST(Session, TriesAnewWhatNothingIsLeftOf) {
  std::vector<Task> tasks = two_tasks();
  for (const uint64_t seed : {1, 2, 3, 4}) {  // a task that failed has a turn by chance now and then
    FakeMeasurer measurer(tasks);
    Session session(tasks, avx512_target(), measurer, {.trials = 100, .seed = seed});
    size_t rounds_then = 0;
    session.run(
        [&](const SessionStatus& status) {
          if (status.trials < 40 || rounds_then > 0) return;
          rounds_then = measurer.rounds.size();
          measurer.take_back_all(0);
        },
        kNever);
    ASSERT_LT(rounds_then, measurer.rounds.size());
    EXPECT_EQ(measurer.rounds[rounds_then].first, 0u) << seed;
    EXPECT_GT(session.status().model_seconds, 0);
  }
}

TEST(Session, TheDefaultScheduleComesFirst) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer measurer(tasks);
  Session session(tasks, avx512_target(), measurer, {.trials = 1});
  session.run(kQuiet, kNever);
  ASSERT_EQ(measurer.rounds.size(), 1u);
  const tir::Func& workload = tasks[measurer.rounds[0].first].workload;
  EXPECT_TRUE(
      structural_equal(measurer.first_program,
                       schedule::replay(schedule::default_trace(workload, avx512_target()), workload)));
  // One task was never measured: there is no sum yet.
  EXPECT_EQ(session.status().model_seconds, 0);
}

TEST(Session, IsDeterministic) {
  auto measured = [](uint64_t seed) {
    std::vector<Task> tasks = two_tasks();
    FakeMeasurer measurer(tasks);
    Session session(tasks, avx512_target(), measurer, {.trials = 40, .seed = seed});
    session.run(kQuiet, kNever);
    return measurer.measured;
  };
  auto three = measured(3);
  EXPECT_EQ(measured(3), three);
  EXPECT_NE(measured(4), three);
}

TEST(Session, FailuresAreCountedAndLeaveTheRestAlone) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer measurer(tasks);
  measurer.failing_task = 1;
  Session session(tasks, avx512_target(), measurer, {.trials = 60, .seed = 1});
  session.run(kQuiet, kNever);
  SessionStatus status = session.status();
  EXPECT_EQ(status.trials, 60);
  EXPECT_GT(status.tasks[0].best_seconds, 0);
  EXPECT_EQ(status.tasks[1].best_seconds, 0);
  EXPECT_GT(status.tasks[1].trials, 0);
  EXPECT_EQ(status.tasks[1].outcomes[static_cast<size_t>(Outcome::kTimeout)], status.tasks[1].trials);
  EXPECT_GT(status.tasks[0].trials,
            status.tasks[1].trials);  // the budget goes where there is something to gain
  EXPECT_EQ(status.model_seconds, 0);
}

TEST(Session, StopsWhenAskedWithoutWaitingForWhatIsInFlight) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer measurer(tasks);
  Session session(tasks, avx512_target(), measurer, {.trials = 1000});
  session.run(kQuiet, [&] { return session.status().trials >= 20; });
  EXPECT_GT(measurer.in_flight(), 0u);
  EXPECT_EQ(session.status().trials + static_cast<int64_t>(measurer.in_flight()),
            static_cast<int64_t>(measurer.measured.size()));
  EXPECT_LT(session.status().trials, 40);
}

TEST(Session, EndsWhenTheTimeIsSpent) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer measurer(tasks);
  measurer.delay = std::chrono::milliseconds(20);
  Session session(tasks, avx512_target(), measurer, {.trials = 0, .seconds = 0.3});
  session.run(kQuiet, kNever);
  EXPECT_GT(session.status().trials, 0);
  EXPECT_GE(session.status().seconds, 0.3);
  EXPECT_LT(session.status().seconds, 30);
  EXPECT_EQ(session.status().seconds_left, 0);
}

TEST(Session, EndsWhenTheModelIsFastEnough) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer free(tasks), aimed(tasks);
  Session whole(tasks, avx512_target(), free, {.trials = 120, .seed = 1});
  whole.run(kQuiet, kNever);
  EXPECT_EQ(whole.status().ending, Ending::kBudget);
  // Half of what there is to gain.
  const SessionStatus end = whole.status();
  double target = (end.model_seconds + end.default_model_seconds) / 2;
  Session session(tasks, avx512_target(), aimed, {.trials = 120, .target_seconds = target, .seed = 1});
  session.run(kQuiet, kNever);
  EXPECT_EQ(session.status().ending, Ending::kTarget);
  EXPECT_LE(session.status().model_seconds, target);
  EXPECT_LT(session.status().trials, 120);
  EXPECT_EQ(aimed.in_flight(), 0u);
  // What is known already may be fast enough.
  FakeMeasurer idle(tasks);
  Session known(tasks, avx512_target(), idle, {.target_seconds = target});
  for (size_t i = 0; i < tasks.size(); ++i) known.know(i, end.tasks[i].best, end.tasks[i].best_seconds);
  known.run(kQuiet, kNever);
  EXPECT_EQ(known.status().ending, Ending::kTarget);
  EXPECT_TRUE(idle.measured.empty());
}

/// Schedules whose loops differ may leave the same code.
TEST(Search, ProposesEachCodeOnce) {
  tir::Func func = schedule::elementwise(24, 49, kFloat32);
  TaskSearch search(func, avx512_target(), /*seed=*/1);
  std::set<uint64_t> codes;
  size_t proposed = 0;
  for (int round = 0; round < 8; ++round)
    for (const Proposal& proposal : search.propose(16, {})) {
      ++proposed;
      codes.insert(structural_hash(tir::lower(tir::split_prologue(proposal.program).main, avx512_target())));
    }
  EXPECT_GT(proposed, 50u);
  EXPECT_EQ(codes.size(), proposed);
}

TEST(Session, EndsWhenThereIsNothingLeftToTry) {
  std::vector<Task> tasks = {
      task_of("sum_0", schedule::reduction({1, 6}, 1, tir::Combiner::kSum, kFloat32), 1)};
  FakeMeasurer measurer(tasks);
  Session session(tasks, avx512_target(), measurer, {.trials = 100'000});
  session.run(kQuiet, kNever);
  EXPECT_EQ(session.status().ending, Ending::kExhausted);
  EXPECT_TRUE(session.status().tasks[0].exhausted);
  EXPECT_LT(session.status().trials, 1000);
}

TEST(Session, TrialsGoWhereTheLimitsLeaveSomethingToGain) {
  std::vector<Task> tasks = {task_of("one_0", schedule::conv2d({.height = 14, .width = 14}, kFloat32), 1),
                             task_of("two_0", schedule::conv2d({.height = 15, .width = 14}, kFloat32), 1)};
  const MachineLimits limits{1e12, 1e12};
  const auto trials_of_first = [&](double first, double second) {
    tasks[0].flops = first, tasks[1].flops = second;
    FakeMeasurer measurer(tasks);
    Session session(tasks, avx512_target(), measurer, {.trials = 120, .limits = limits, .seed = 1});
    session.run(kQuiet, kNever);
    return session.status().tasks[0].trials;
  };
  double most = 1e12 * 1e3;  // beyond what is measured: nothing is left but another algorithm
  EXPECT_GT(trials_of_first(0, most), 70);
  EXPECT_LT(trials_of_first(most, 0), 50);
}

TEST(Fingerprint, LeavesOutWhatRunsAhead) {
  tir::Func dense = tir::with_constant_params(schedule::dense(4, 32, 16, kFloat32), 0b10);
  schedule::Schedule plain(dense);
  schedule::BlockHandle copy = plain.cache_read(plain.get_block("dense"), 1, tir::Scope::kGlobal);
  schedule::Schedule parallel = plain, other = plain;
  parallel.parallel(parallel.get_loops(copy)[0]);
  EXPECT_EQ(fingerprint(parallel.func()), fingerprint(plain.func()));
  other.parallel(other.get_loops(other.get_block("dense"))[0]);
  EXPECT_NE(fingerprint(other.func()), fingerprint(plain.func()));
  EXPECT_NE(fingerprint(tir::with_constant_params(parallel.func(), 0)),
            fingerprint(tir::with_constant_params(plain.func(), 0)));
}

TEST(Session, StartsFromWhatIsKnown) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer first(tasks);
  Session before(tasks, avx512_target(), first, {.trials = 60, .seed = 1});
  before.run(kQuiet, kNever);
  SessionStatus known = before.status();

  FakeMeasurer second(tasks);
  Session session(tasks, avx512_target(), second, {.trials = 20, .seed = 2});
  for (size_t i = 0; i < tasks.size(); ++i) {
    session.know(i, known.tasks[i].best, known.tasks[i].best_seconds);
    session.know(i, schedule::default_trace(tasks[i].workload, avx512_target()),
                 known.tasks[i].default_seconds);
  }
  session.know(0, known.tasks[1].best, 1e-9);  // does not apply to this task: ignored
  EXPECT_DOUBLE_EQ(session.status().model_seconds, known.model_seconds);
  EXPECT_DOUBLE_EQ(session.status().default_model_seconds, known.default_model_seconds);
  session.run(kQuiet, kNever);
  EXPECT_LE(session.status().model_seconds, known.model_seconds);
  for (size_t i = 0; i < tasks.size(); ++i)
    EXPECT_FALSE(
        second.measured.contains({i, fingerprint(schedule::replay(known.tasks[i].best, tasks[i].workload))}));
}

TEST(Session, InheritsTheModelOfAnEarlierJob) {
  std::vector<Task> tasks = two_tasks();
  FakeMeasurer first(tasks);
  Session before(tasks, avx512_target(), first, {.trials = 200, .seed = 1});
  std::string saved;
  before.run(kQuiet, kNever, [&](const RoundCheckpoint& round) {
    if (!round.model.empty()) saved = round.model;
  });
  ASSERT_NE(saved, "");

  // With as few trials as this a job learns no model of its own.
  auto best_after = [&](const std::string& model) {
    FakeMeasurer measurer(tasks);
    Session session(tasks, avx512_target(), measurer, {.trials = 30, .seed = 5});
    session.know_model(model);
    session.run(kQuiet, kNever);
    EXPECT_EQ(session.status().quality.samples, 0);
    return session.status().model_seconds;
  };
  double without = best_after("");
  EXPECT_LT(best_after(saved), without);
  EXPECT_EQ(best_after("junk"), without);
  std::string other_features = saved;
  other_features[20] ^= 1;
  EXPECT_EQ(best_after(other_features), without);
}

TEST(Session, SaysWhenMostOfTheSpeedWasReached) {
  const std::vector<Milestone> milestones = {{10, 1, 9.0}, {20, 2, 4.2}, {50, 5, 4.1}, {90, 9, 4.0}};
  EXPECT_EQ(reached(milestones, 0.95)->trials, 20);  // 4.0 / 4.2 is above 0.95
  EXPECT_EQ(reached(milestones, 0.96)->trials, 50);
  EXPECT_EQ(reached(milestones, 1)->trials, 90);
  EXPECT_EQ(reached(milestones, 0.1)->trials, 10);
  EXPECT_FALSE(reached({}, 0.95));
}

/// A dense layer of any number of rows, at these numbers.
std::vector<Task> open_tasks(const std::vector<int64_t>& rows) {
  const tir::Func open = tir::canonical(
      tir::parse_func(R"(func dense[n](a: float32[n, 64], b: float32[64, 32]) -> (c: float32[n, 32]) {
  block root {
    for i in 0..n {
      for j in 0..32 {
        for k in 0..64 {
          block product(spatial y in 0..n = i, spatial x in 0..32 = j, reduce r in 0..64 = k) {
            reads a[y, r], b[r, x]
            writes c[y, x]
            init {
              c[y, x] = 0.0
            }
            c[y, x] = c[y, x] + a[y, r] * b[r, x]
          }
        }
      }
    }
  }
})"));
  std::vector<Task> tasks;
  for (int64_t n : rows) {
    tasks.push_back(task_of("dense", schedule::program_at(open, std::vector{n}), 1));
    tasks.back().program = "dense";
    tasks.back().sizes = {n};
  }
  return tasks;
}

TEST(Session, SizesOfAProgramExchangeTheirBest) {
  const std::vector<Task> tasks = open_tasks({16, 256});
  FakeMeasurer measurer(tasks);
  Session session(tasks, avx512_target(), measurer, {.trials = 60, .seed = 3});
  session.run(kQuiet, kNever);
  const SessionStatus status = session.status();
  for (size_t i : {0, 1}) {
    EXPECT_GT(status.tasks[i].best_seconds, 0);
    EXPECT_LE(status.tasks[i].best_seconds, status.tasks[i].default_seconds);
  }
  // A fingerprint is of the schedule and not of the size, so that the choice of kernels can follow it.
  std::set<std::string> at[2];
  for (const auto& [task, print] : measurer.measured) at[task].insert(print);
  const auto print_of = [&](size_t task) {
    return fingerprint(schedule::replay(status.tasks[task].best, tasks[0].workload));
  };
  // Each was measured where the other is best, but for what the last rounds have found.
  size_t shared = 0;
  for (const std::string& print : at[0]) shared += at[1].count(print);
  EXPECT_GE(shared, 2u);
  EXPECT_TRUE(at[0].contains(print_of(0)));
  EXPECT_TRUE(at[1].contains(print_of(1)));
}

}  // namespace
}  // namespace lathe::tuner
