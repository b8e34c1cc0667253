// Whom the farm believes, and who works: canaries, failures of a worker's own, confirmation elsewhere,
// drains.
#include <deque>
#include <optional>

#include "tests/tracker/farm_bench.h"
#include "workers/agent.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Order = Manage::Order;
using Verdict = wire::ResultAck::Verdict;

struct HealthBench : Bench {
  void sing(const Peer& peer, double compute) {
    say(peer, wire::Canary{++numbers[peer], 1, compute * 1e-5, 1e-5});
  }
  void make_baseline(const Peer& peer) {
    for (int i = 0; i < 5; ++i) sing(peer, 1);
  }
  void make_suspect(const Peer& peer) { sing(peer, 1.1), sing(peer, 1.1); }
  WorkerStatus worker(const std::string& name) const {
    for (const WorkerStatus& each : farm->status(now).workers)
      if (each.name == name) return each;
    ADD_FAILURE() << "no worker " << name;
    return {};
  }
  wire::Result failed(const wire::Lease& lease) {
    return {.lease = lease.lease,
            .trial = lease.trial,
            .attempt = lease.attempt,
            .outcome = Outcome::kCrashed,
            .message = "no"};
  }
  /// The lease that a worker with one slot has; its id is 0 when there is none.
  wire::Lease held_by(const std::string& name) const {
    for (const auto& entry : journal.entries()) {
      if (!entry.trial.leased || entry.terminal > 0) continue;
      const Grant& grant = entry.trial.grants.back();
      if (grant.worker == name)
        return {.lease = grant.lease, .trial = entry.trial.trial, .attempt = grant.attempt};
    }
    return {};
  }
  /// A trial to be measured again, which `by` measured last.
  void submit_confirmation(const std::string& by) {
    std::vector<Submission> trials = journal.add(1, std::vector<Candidate>(1));
    trials[0].said = {{.worker = by, .seconds = 1e-3}};
    step(Submit{trials});
  }
  /// Whom the last trial was leased to, in order.
  std::vector<std::string> holders() const {
    std::vector<std::string> names;
    for (const Grant& grant : journal.entries().back().trial.grants) names.push_back(grant.worker);
    return names;
  }

  std::map<Peer, uint32_t> numbers;
};

// --- canaries

/// Of each that is written down the log may say a line, and results be doubted.
TEST(FarmHealth, HearsNoMoreCanariesThanTheirTimeAllows) {
  HealthBench b;
  b.join("p", "w", 1);
  b.make_baseline("p");
  size_t changes = 0;
  for (int i = 0; i < 1000; ++i) {
    b.sing("p", i % 4 < 2 ? 1.1 : 1);
    changes += b.last.notes.size();
  }
  EXPECT_GT(changes, 10u);
  EXPECT_LT(changes, 64u);
}

TEST(FarmHealth, ASuspectWorkerGetsNoLeasesAndLosesThoseItHas) {
  HealthBench b;
  b.join("p", "v", 1);
  b.make_baseline("p");
  b.submit(1);
  const auto lease = b.lease("p");
  b.sing("p", 1.1);
  EXPECT_EQ(b.worker("v").state(), "ready");
  b.pass(1s);
  b.sing("p", 1.1);
  EXPECT_THAT(b.sent<wire::Cancel>("p"), ElementsAre(wire::Cancel{lease.lease}));
  const auto refusals = b.sent<wire::Refusal>("p");
  ASSERT_THAT(refusals, SizeIs(1));
  EXPECT_EQ(refusals[0].code, wire::Refusal::Code::kPaused);
  EXPECT_THAT(refusals[0].text, HasSubstr("no leases for now: 2 canaries in a row were off"));
  EXPECT_THAT(b.last.notes, ElementsAre(HasSubstr("worker v is suspect: 2 canaries")));
  EXPECT_EQ(b.worker("v").state(), "suspect");
  EXPECT_EQ(b.farm->status(b.now).slots, 0u);
  EXPECT_THAT(b.farm->status(b.now).withheld, ElementsAre("cpu"));
  EXPECT_THAT(unserved_text(b.farm->status(b.now)),
              HasSubstr("every worker that is cpu is drained or suspect"));
  ASSERT_THAT(b.journal.distrusted(), SizeIs(1));
  EXPECT_EQ(b.journal.distrusted()[0].health.worker, "v");
  // What it says of the trial no longer counts; another worker has it.
  b.join("q", "w", 1);
  EXPECT_EQ(b.lease("q").trial, lease.trial);
  b.say("p", b.ok(lease));
  EXPECT_THAT(b.sent<wire::ResultAck>("p"), ElementsAre(wire::ResultAck{lease.lease, Verdict::kStale}));
  EXPECT_THAT(b.last.finished, IsEmpty());
}

TEST(FarmHealth, GoodCanariesBringTheLeasesBack) {
  HealthBench b;
  b.join("p", "v", 1);
  b.make_baseline("p");
  b.make_suspect("p");
  b.submit(1);
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
  b.sing("p", 1);
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
  b.sing("p", 1);
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(1));
  EXPECT_THAT(b.last.notes, ElementsAre("worker v is trusted again"));
}

TEST(FarmHealth, SuspicionOutlivesTrackerAndWorker) {
  HealthBench b;
  b.join("p", "v", 1);
  b.make_baseline("p");
  b.submit(1);
  const auto lease = b.lease("p");
  b.make_suspect("p");
  b.restart();
  b.join("p", "v", 1, {lease.lease});
  EXPECT_EQ(b.worker("v").state(), "suspect");
  EXPECT_EQ(b.worker("v").leases, 0u);
  b.join("another process", "v", 1);
  b.pass(1s);
  EXPECT_EQ(b.worker("v").state(), "suspect");
  b.sing("another process", 1), b.sing("another process", 1);
  EXPECT_EQ(b.worker("v").state(), "ready");
}

TEST(FarmHealth, LeasesFromBeforeAreTakenBackFromASuspectWorker) {
  HealthBench b;
  b.join("p", "v", 1);
  b.make_baseline("p");
  b.sing("p", 1.1);
  b.submit(1);
  const auto lease = b.lease("p");
  // The tracker dies after the verdict is written and before the lease's end is.
  Effects lost;
  b.farm->step(Received{"p", wire::Canary{++b.numbers["p"], 1, 1.1e-5, 1e-5}}, b.now, lost);
  for (const Record& record : lost.records)
    if (std::holds_alternative<Examined>(record)) b.journal.commit(std::span(&record, 1));
  b.restart();
  b.say("p", wire::Hello{.worker = "v", .device = "{}", .backends = {"cpu"}, .holding = {lease.lease}});
  EXPECT_THAT(b.sent<wire::Cancel>("p"), ElementsAre(wire::Cancel{lease.lease}));
  EXPECT_THAT(b.sent<wire::Refusal>("p"), SizeIs(1));
}

TEST(FarmHealth, AWorkerOfAnOlderVersionWorksWithoutCanaries) {
  HealthBench b;
  b.say("p", wire::Hello{.newest_version = 2, .worker = "v", .device = "{}", .backends = {"cpu"}});
  EXPECT_EQ(b.sent<wire::Welcome>("p").at(0).version, 2u);
  b.say("p", wire::Credit{1});
  b.submit(1);
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(1));
  EXPECT_EQ(b.worker("v").state(), "ready");
  EXPECT_FALSE(b.worker("v").canary_age);
}

TEST(FarmHealth, AnAdministratorTrusts) {
  HealthBench b;
  b.join("p", "v", 1);
  b.make_baseline("p");
  b.make_suspect("p");
  b.submit(1);
  b.step(Manage{"v", Order::kTrust});
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(1));
  b.restart();
  b.join("p", "v", 1);
  EXPECT_EQ(b.worker("v").state(), "ready");
}

// --- the worker's side

TEST(AgentCanaries, RunFirstAndThenEveryNowAndThenBetweenMeasurements) {
  worker::Agent agent({.name = "w", .device = "{}", .backends = {"cpu"}}, 0s);
  EXPECT_FALSE(agent.step(worker::Tick{}, 1s).canary) << "nobody would hear";
  EXPECT_TRUE(agent.step(wire::Message(wire::Welcome{3, 1}), 2s).canary);
  agent.step(wire::Message(wire::Lease{.lease = 1, .limit_ms = 100'000}), 3s);
  EXPECT_THAT(agent.step(worker::Built{1, {}, "", ""}, 4s).run, IsEmpty()) << "the canary runs";
  const worker::Actions ended = agent.step(worker::CanaryEnded{{0, 1, 1e-5, 2e-5}}, 5s);
  EXPECT_THAT(ended.run, SizeIs(1));
  EXPECT_THAT(ended.send, ElementsAre(wire::Message(wire::Canary{1, 1, 1e-5, 2e-5})));
  agent.step(wire::Message(wire::Heartbeat{}), 14s);
  EXPECT_FALSE(agent.step(worker::Tick{}, 5s + defaults::kCanaryEvery).canary) << "the candidate runs";
  EXPECT_TRUE(agent.step(worker::Measured{1, {.samples = {1}}}, 6s + defaults::kCanaryEvery).canary);
}

TEST(AgentCanaries, NoneForATrackerOfAnOlderVersion) {
  worker::Agent agent({.name = "w", .device = "{}", .backends = {"cpu"}}, 0s);
  EXPECT_FALSE(agent.step(wire::Message(wire::Welcome{2, 1}), 1s).canary);
  EXPECT_FALSE(agent.step(worker::Tick{}, 100s).canary);
}

TEST(AgentCanaries, BeingPausedIsSaidAndNoReasonToLeave) {
  worker::Agent agent({.name = "w", .device = "{}", .backends = {"cpu"}}, 0s);
  const wire::Refusal paused{wire::Refusal::Code::kPaused, "no leases for now: why"};
  const worker::Actions actions = agent.step(wire::Message(paused), 1s);
  EXPECT_EQ(actions.refused, "no leases for now: why");
  EXPECT_FALSE(actions.exit);
}

// --- a worker of many cores

/// It builds for many, and runs one at a time: what waits for that is not late by its fault.
void expect_in_time(Outcome outcome) {
  constexpr Time kRun = 10s, kWatched = 30min;
  Bench b;
  worker::Agent agent({.name = "w", .device = "{}", .backends = {"cpu"}, .canaries = false, .builders = 64},
                      b.now);
  b.submit(500);
  std::deque<wire::Message> to_agent;
  std::deque<worker::LeaseId> built;
  std::optional<std::pair<worker::LeaseId, Time>> running;
  size_t finished = 0;
  const auto heard = [&] {
    for (const Outgoing& out : b.last.messages) to_agent.push_back(out.message);
    finished += b.last.finished.size();
    EXPECT_THAT(b.sent<wire::Refusal>("p"), IsEmpty());
    EXPECT_THAT(b.sent<wire::Cancel>("p"), IsEmpty()) << "late";
  };
  const auto step = [&](const worker::Event& event) {
    const worker::Actions actions = agent.step(event, b.now);
    for (const wire::Lease& lease : actions.build) built.push_back(lease.lease);
    for (const worker::Run& run : actions.run) running = {run.lease.lease, b.now + kRun};
    for (const wire::Message& message : actions.send) b.say("p", message), heard();
  };
  for (const Time end = b.now + kWatched; b.now < end; b.now += defaults::kTick) {
    b.step(Tick{});
    heard();
    step(worker::Tick{});
    if (running && b.now >= running->second) {
      const worker::LeaseId lease = std::exchange(running, std::nullopt)->first;
      wire::Result report{.outcome = outcome};
      if (outcome == Outcome::kOk) report.samples = {10};
      step(worker::Measured{lease, report});
    }
    for (; !built.empty(); built.pop_front()) step(worker::Built{built.front(), {}, "", ""});
    for (; !to_agent.empty(); to_agent.pop_front()) step(to_agent.front());
  }
  EXPECT_THAT(b.farm->status(b.now).workers, SizeIs(1));
  EXPECT_GE(finished, static_cast<size_t>(kWatched / (kRun + 1s)));
  for (const MemoryJournal::Entry& entry : b.journal.entries())
    EXPECT_EQ(losses(entry.trial.grants), 0u) << entry.trial.trial;
}

TEST(WideWorker, MeasuresInTime) { expect_in_time(Outcome::kOk); }
TEST(WideWorker, IsInTimeWhereAllFail) { expect_in_time(Outcome::kTimeout); }

/// What is short of time comes back, else trackers would be asked for it without end.
TEST(WideWorker, KeepsWhatHasNoTimeForAllItMayTake) {
  worker::Agent agent({.name = "w", .device = "{}", .backends = {"cpu"}, .canaries = false}, 0s);
  agent.step(wire::Message(wire::Welcome{}), 0s);
  for (const uint64_t id : {1, 2}) {
    agent.step(wire::Message(
                   wire::Lease{.lease = id, .limit_ms = 100'000, .evaluation = {.run_limit_seconds = 900}}),
               0s);
    agent.step(worker::Built{id, {}, "", ""}, 0s);
  }
  const auto handed_back = [](const worker::Actions& actions) {
    return std::count_if(actions.send.begin(), actions.send.end(), [](const wire::Message& message) {
      return std::holds_alternative<wire::Drain>(message);
    });
  };
  agent.step(wire::Message(wire::Heartbeat{}), 49s);
  EXPECT_EQ(handed_back(agent.step(worker::Tick{}, 49s)), 0);
  const worker::Actions half = agent.step(worker::Tick{}, 50s);
  EXPECT_EQ(handed_back(half), 1);
  EXPECT_THAT(half.send, Contains(wire::Message(wire::Drain{{2}}))) << "the other runs";
  EXPECT_EQ(agent.held(), 1u);
  const worker::Actions again = agent.step(wire::Message(wire::Lease{.lease = 2, .limit_ms = 50'000}), 55s);
  EXPECT_EQ(handed_back(again), 1) << "the tracker has not heard it";
  EXPECT_EQ(agent.held(), 1u);
}

// --- failures of a worker's own

TEST(FarmHealth, AWorkerThatFailsWhatOthersDoWellIsSuspect) {
  HealthBench b;
  b.join("bad", "v", 1);
  b.join("good", "w", 1);
  b.submit(20);
  int failed = 0;
  const auto& entries = b.journal.entries();
  for (; b.worker("v").state() == "ready"; ++failed) {
    ASSERT_LT(failed, 10);
    b.say("bad", b.failed(b.held_by("v")));
    b.say("good", b.ok(b.held_by("w")));
    b.say("good", b.ok(b.held_by("w")));
  }
  EXPECT_EQ(failed, defaults::kFailuresToDoubt + 3) << "two count, the others are tried elsewhere too";
  EXPECT_THAT(b.worker("v").health.suspect,
              HasSubstr("3 candidates failed with it and did well with another"));
  EXPECT_EQ(
      std::count_if(entries.begin(), entries.end(),
                    [](const auto& e) { return e.terminal && e.finished.result.outcome != Outcome::kOk; }),
      defaults::kFailuresToDoubt);
  EXPECT_THAT(b.journal.distrusted(), SizeIs(1));
}

TEST(FarmHealth, CandidatesThatFailEverywhereAreTheirOwnFault) {
  HealthBench b;
  b.join("p", "v", 1);
  b.join("q", "w", 1);
  b.submit(12);
  for (int round = 0; round < 12; ++round)
    for (const auto& [peer, name] : {std::pair("p", "v"), std::pair("q", "w")})
      if (const wire::Lease lease = b.held_by(name); lease.lease != 0) b.say(peer, b.failed(lease));
  for (const auto& entry : b.journal.entries()) {
    EXPECT_EQ(entry.terminal, 1) << entry.trial.trial;
    EXPECT_LE(entry.trial.grants.size(), 2u) << "one more opinion, not more";
  }
  EXPECT_EQ(b.worker("v").state(), "ready");
  EXPECT_EQ(b.worker("w").state(), "ready");
}

TEST(FarmHealth, ACopyOfAFailureInDoubtIsNoSecondOpinion) {
  HealthBench b;
  b.join("bad", "v", 1);
  b.join("good", "w", 1);
  b.submit(20);
  for (int i = 0; i < defaults::kFailuresToDoubt; ++i) b.say("bad", b.failed(b.held_by("v")));
  const wire::Result in_doubt = b.failed(b.held_by("v"));
  b.say("bad", in_doubt);
  b.say("bad", in_doubt);
  EXPECT_EQ(b.journal.entries().at(in_doubt.trial - 1).terminal, 0);
}

TEST(FarmHealth, TheOnlyWorkersFailuresCountAtOnce) {
  HealthBench b;
  b.join("p", "v", 1);
  b.submit(6);
  for (int i = 0; i < 6; ++i) {
    const Grant grant = b.journal.entries()[i].trial.grants.at(0);
    b.say("p", b.failed({.lease = grant.lease, .trial = static_cast<TrialId>(i + 1), .attempt = 1}));
    EXPECT_EQ(b.journal.entries()[i].terminal, 1);
  }
}

// --- confirmation

TEST(FarmHealth, AnotherWorkerOfTheClassConfirms) {
  HealthBench b;
  b.join("p", "v", 4);
  b.join("q", "w", 1);
  b.submit(5);  // keeps both busy: four and one
  b.submit_confirmation("v");
  EXPECT_THAT(b.holders(), IsEmpty());
  b.pass(1s);
  const Grant& busy = b.journal.entries()[1].trial.grants.at(0);
  ASSERT_EQ(busy.worker, "w");
  b.say("q", b.ok({.lease = busy.lease, .trial = 2, .attempt = 1}));
  EXPECT_THAT(b.holders(), ElementsAre("w"));
}

TEST(FarmHealth, WhoMeasuredItConfirmsWhereThereIsNobodyElse) {
  HealthBench b;
  b.join("p", "v", 1);
  b.say("q", wire::Hello{.worker = "w", .device = R"({"model":"another","cores":2})", .backends = {"cpu"}});
  b.submit_confirmation("v");  // w has no credit
  EXPECT_THAT(b.holders(), ElementsAre("v"));
}

TEST(FarmHealth, WhoMeasuredItConfirmsWhenTheOthersStayBusy) {
  HealthBench b;
  b.join("q", "w", 1);
  b.submit(1);
  b.join("p", "v", 1);
  b.submit_confirmation("v");
  b.pass(defaults::kPreferAnother - defaults::kTick);
  b.say("p", wire::Heartbeat{});
  EXPECT_THAT(b.holders(), IsEmpty());
}

TEST(FarmHealth, ASuspectWorkerIsNobodyElse) {
  HealthBench b;
  b.join("p", "v", 1);
  b.join("q", "w", 1);
  b.make_baseline("q");
  b.make_suspect("q");
  b.submit_confirmation("v");
  EXPECT_THAT(b.holders(), ElementsAre("v"));
}

// --- drains

TEST(FarmHealth, ADrainedWorkerFinishesAndTakesNoMore) {
  HealthBench b;
  b.join("p", "v", 1);
  b.submit(2);
  const auto lease = b.lease("p");
  b.step(Manage{"v", Order::kDrain});
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{wire::Refusal::Code::kPaused,
                                        "no leases for now: drained by an administrator"}));
  EXPECT_EQ(b.worker("v").state(), "draining");
  b.say("p", b.ok(lease));
  EXPECT_THAT(b.last.finished, SizeIs(1));
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
  EXPECT_EQ(b.worker("v").state(), "drained");
  // It stays so, whoever is started again.
  b.restart();
  b.join("p2", "v", 1);
  EXPECT_EQ(b.worker("v").state(), "drained");
  b.step(Manage{"v", Order::kResume});
  EXPECT_THAT(b.sent<wire::Lease>("p2"), SizeIs(1));
  b.restart();
  EXPECT_TRUE(b.journal.start().drained.empty());
}

TEST(FarmHealth, ADrainedWorkerStaysDrainedWhateverItsCanariesSay) {
  HealthBench b;
  b.join("p", "v", 1);
  b.make_baseline("p");
  b.step(Manage{"v", Order::kDrain});
  for (int i = 0; i < 2; ++i) {
    b.sing("p", 1.1);
    b.pass(1s);
  }
  EXPECT_EQ(b.worker("v").state(), "drained");
  EXPECT_THAT(b.worker("v").health.suspect, HasSubstr("2 canaries")) << "why it is not believed is said, too";
  b.step(Manage{"v", Order::kResume});
  EXPECT_EQ(b.worker("v").state(), "suspect");
}

TEST(FarmHealth, KnowsWhomItHasSeen) {
  HealthBench b;
  EXPECT_FALSE(b.farm->knows("v"));
  b.join("p", "v", 1);
  EXPECT_TRUE(b.farm->knows("v"));
  b.step(Manage{"v", Order::kDrain});
  b.restart();
  EXPECT_TRUE(b.farm->knows("v")) << "one that is drained is known for good";
}

}  // namespace
}  // namespace lathe::tracker
