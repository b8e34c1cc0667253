// The farm step by step: each rule of docs/tracker.md once. Faults in combination: farm_simulation_test.cpp.
#include "tests/tracker/farm_bench.h"
#include "tracker/device_class.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Verdict = wire::ResultAck::Verdict;

TEST(Farm, GivesAsManyLeasesAsCredit) {
  Bench b;
  b.join("p", "w", 2);
  b.submit(3);
  ASSERT_THAT(b.sent<wire::Lease>("p"), SizeIs(2));
  const auto first = b.sent<wire::Lease>("p")[0];
  EXPECT_EQ(first.trial, 1u);
  EXPECT_EQ(first.attempt, 1u);
  b.say("p", b.ok(first));
  EXPECT_THAT(b.sent<wire::ResultAck>("p"), ElementsAre(wire::ResultAck{first.lease, Verdict::kRecorded}));
  EXPECT_THAT(b.last.finished, SizeIs(1));
  EXPECT_EQ(b.lease("p").trial, 3u);
}

TEST(Farm, SpreadsAShortQueue) {
  Bench b;
  b.join("p", "v", 8);
  b.join("q", "w", 8);
  b.submit(2);
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(1));
  EXPECT_THAT(b.sent<wire::Lease>("q"), SizeIs(1));
}

TEST(Farm, LeaseGoesOutAgainTwelveSecondsAfterTheLastHeartbeat) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(1);
  const auto lost = b.lease("p");
  b.pass(2s);
  b.join("q", "w", 1);
  b.pass(8s - defaults::kTick);  // p: 9.75 s of silence
  EXPECT_THAT(b.farm->status(b.now).workers, SizeIs(2));
  b.pass(defaults::kTick);
  EXPECT_THAT(b.sent<wire::Lease>("q"), SizeIs(1));
  EXPECT_EQ(b.lease("q").attempt, 2u);
  // The late result of the first attempt counts, for the trial is still open: but its worker must say HELLO
  // first.
  b.say("p", b.ok(lost));
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{wire::Refusal::Code::kHelloFirst, "say HELLO first"}));
  b.join("p", "v", 0, {lost.lease});
  b.say("p", b.ok(lost));
  EXPECT_THAT(b.sent<wire::ResultAck>("p"), ElementsAre(wire::ResultAck{lost.lease, Verdict::kRecorded}));
  EXPECT_THAT(b.sent<wire::Cancel>("q"), SizeIs(1));
  b.say("p", b.ok(lost));
  EXPECT_THAT(b.sent<wire::ResultAck>("p"), ElementsAre(wire::ResultAck{lost.lease, Verdict::kDuplicate}));
}

TEST(Farm, RefusesResultsOfOthersLeases) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(1);
  const auto lease = b.lease("p");
  b.join("q", "w", 0);
  b.say("q", b.ok(lease));
  EXPECT_THAT(b.sent<wire::ResultAck>("q"), ElementsAre(wire::ResultAck{lease.lease, Verdict::kStale}));
  EXPECT_THAT(b.last.finished, IsEmpty());
}

TEST(Farm, QuarantinesAfterThreeLossesOnTwoWorkers) {
  Bench b;
  b.submit(1);
  b.join("p1", "v", 1);
  EXPECT_EQ(b.lease("p1").attempt, 1u);
  b.join("q1", "w", 1);
  b.join("r1", "x", 1);
  b.join("p2", "v", 1);  // v came back as another process: what it held is lost, and goes to w or x
  const auto& grants = b.journal.entries()[0].trial.grants;
  ASSERT_THAT(grants, SizeIs(2));
  const std::string second = grants[1].worker;
  EXPECT_THAT(second, AnyOf("w", "x"));
  b.join("q2", second, 1);  // the second loss: the third worker is not put at risk too
  ASSERT_THAT(grants, SizeIs(3));
  EXPECT_THAT(grants[2].worker, AnyOf("v", second));
  b.join("last", std::string(grants[2].worker), 1);
  const auto& entry = b.journal.entries()[0];
  ASSERT_EQ(entry.terminal, 1);
  EXPECT_EQ(entry.finished.result.outcome, Outcome::kWorkerLost);
  EXPECT_EQ(entry.finished.result.message,
            fmt::format("quarantined: its worker went away 3 times (v, {})", second));
}

TEST(Farm, AnyWorkerWillDoWhenTheOthersStayBusy) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(1);
  b.join("q", "w", 1);
  b.submit(1);  // keeps w busy
  b.join("p2", "v", 1);
  b.pass(defaults::kPreferOther - defaults::kTick);
  EXPECT_THAT(b.journal.entries()[0].trial.grants, SizeIs(1));
  b.pass(defaults::kTick);
  EXPECT_THAT(b.journal.entries()[0].trial.grants, SizeIs(2));
}

TEST(Farm, TheOnlyWorkerGetsItsLossesBackAtOnce) {
  Bench b;
  b.submit(1);
  b.join("p1", "v", 1);
  b.join("p2", "v", 1);
  EXPECT_EQ(b.lease("p2").attempt, 2u);
}

TEST(Farm, RestartTakesUpHeldLeases) {
  Bench b;
  b.join("p", "v", 2);
  b.submit(2);
  const auto leases = b.sent<wire::Lease>("p");
  b.restart();
  b.say("p", wire::Heartbeat{{leases[0].lease}});
  EXPECT_THAT(b.sent<wire::Refusal>("p"), SizeIs(1));
  b.join("p", "v", 2, {leases[0].lease});
  b.say("p", b.ok(leases[0]));
  EXPECT_THAT(b.sent<wire::ResultAck>("p"),
              ElementsAre(wire::ResultAck{leases[0].lease, Verdict::kRecorded}));
}

TEST(Farm, RestartRenewsLeasesThatWereNotClaimed) {
  Bench b;
  b.join("p", "v", 2);
  b.submit(2);
  const auto leases = b.sent<wire::Lease>("p");
  b.restart();
  // Of its two leases the worker holds one: the other is said again, and is the same.
  b.say("p", wire::Hello{.worker = "v", .device = "{}", .backends = {"cpu"}, .holding = {leases[0].lease}});
  EXPECT_EQ(b.lease("p").lease, leases[1].lease);
  b.restart();
  // Nobody comes: both go to another, and nobody is blamed.
  b.join("q", "w", 2);
  b.pass(9s);
  b.say("q", wire::Heartbeat{});
  EXPECT_THAT(b.sent<wire::Lease>("q"), IsEmpty());
  b.pass(3s);
  EXPECT_THAT(b.sent<wire::Lease>("q"), SizeIs(2));
  for (const auto& entry : b.journal.entries()) {
    const auto& grants = entry.trial.grants;
    ASSERT_THAT(grants, SizeIs(2));
    EXPECT_FALSE(grants[0].lost);
    EXPECT_NE(grants[0].lease, grants[1].lease);
  }
}

TEST(Farm, SaysALostLeaseAgain) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(1);
  const auto lease = b.lease("p");
  b.pass(4s);
  b.say("p", wire::Heartbeat{});
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());  // may still be on its way
  b.pass(1s);
  b.say("p", wire::Heartbeat{});
  EXPECT_EQ(b.lease("p").lease, lease.lease);
  b.pass(5s);
  b.say("p", wire::Heartbeat{{lease.lease}});
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
}

TEST(Farm, DrainHandsBackWithoutBlame) {
  Bench b;
  b.join("p", "v", 2);
  b.submit(2);
  const auto leases = b.sent<wire::Lease>("p");
  b.join("q", "w", 1);
  b.say("p", wire::Drain{{leases[1].lease}});
  EXPECT_EQ(b.lease("q").trial, 2u);
  EXPECT_FALSE(b.journal.entries()[1].trial.grants[0].lost);
  b.say("p", b.ok(leases[0]));
  EXPECT_THAT(b.sent<wire::ResultAck>("p"), SizeIs(1));
  b.say("p", wire::Bye{});
  EXPECT_THAT(b.farm->status(b.now).workers, SizeIs(1));
}

TEST(Farm, CancelledJobsAreOver) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(2, "cpu", 7);
  const auto lease = b.lease("p");
  b.submit(1, "cpu", 8);
  b.step(CancelJob{7});
  EXPECT_THAT(b.sent<wire::Cancel>("p"), ElementsAre(wire::Cancel{lease.lease}));
  EXPECT_EQ(b.lease("p").trial, 3u);
  EXPECT_EQ(b.farm->open(7), 0u);
  b.say("p", b.ok(lease));
  EXPECT_THAT(b.sent<wire::ResultAck>("p"), ElementsAre(wire::ResultAck{lease.lease, Verdict::kStale}));
}

TEST(Farm, MatchesBackends) {
  Bench b;
  b.join("p", "v", 4);
  b.submit(1, "cuda:0");
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
  EXPECT_THAT(b.farm->status(b.now).unserved, ElementsAre("cuda"));
  b.submit(1, "cpu:mcpu=skylake");
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(1));
}

TEST(Farm, ATrackerThatSleptBlamesNobody) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(1);
  b.pass(1s);
  b.now += 3600s;
  b.step(Tick{});
  EXPECT_THAT(b.farm->status(b.now).workers, SizeIs(1));
}

TEST(Farm, RefusesStrangeVersionsAndMessages) {
  Bench b;
  b.say("p", wire::Hello{.oldest_version = 70, .newest_version = 90, .worker = "v"});
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{
                  wire::Refusal::Code::kVersion,
                  fmt::format("tracker speaks versions 1..{}, worker 70..90", wire::kNewestVersion)}));
  b.join("p", "v", 1);
  b.say("p", wire::Welcome{});
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{wire::Refusal::Code::kMalformed, "WELCOME is not for a tracker"}));
}

/// Nobody acts under another's name: neither evicts it nor ends its leases.
TEST(Farm, ANameBelongsToTheFirstKey) {
  Bench b;
  const auto hello = [&](const Peer& peer, const std::string& key) {
    b.step(Received{peer, wire::Hello{.worker = "w", .device = "{}", .backends = {"cpu"}}, key});
  };
  const wire::Refusal taken{wire::Refusal::Code::kNotAllowed,
                            "the name `w` belongs to a worker with another key"};
  hello("p", "mine");
  b.step(Received{"p", wire::Credit{1}, "mine"});
  b.submit(1);
  const wire::Lease lease = b.lease("p");
  hello("q", "another");
  EXPECT_THAT(b.sent<wire::Refusal>("q"), ElementsAre(taken));
  hello("p", "another");
  EXPECT_THAT(b.sent<wire::Refusal>("p"), ElementsAre(taken)) << "under its connection's name too";
  b.step(Received{"p", b.ok(lease), "another"});
  EXPECT_EQ(b.sent<wire::Refusal>("p")[0].code, wire::Refusal::Code::kHelloFirst);
  EXPECT_EQ(b.farm->open(1), 1);
  b.step(Received{"p", wire::Bye{}, "mine"});
  hello("q", "another");
  EXPECT_THAT(b.sent<wire::Refusal>("q"), ElementsAre(taken)) << "its leases may still be open";
  hello("r", "mine");
  EXPECT_THAT(b.sent<wire::Welcome>("r"), SizeIs(1)) << "restarted";
}

TEST(Farm, TakesSoManyWorkers) {
  Bench b;
  for (size_t i = 0; i < defaults::kWorkersLimit; ++i)
    b.join(fmt::format("p{}", i), fmt::format("w{}", i), 0);
  b.join("late", "late", 1);
  EXPECT_EQ(b.farm->status(b.now).workers.size(), defaults::kWorkersLimit);
  b.say("late", wire::Hello{.worker = "late"});
  EXPECT_THAT(b.sent<wire::Refusal>("late"),
              ElementsAre(wire::Refusal{wire::Refusal::Code::kFull, "the tracker has 1024 workers already"}));
  b.say("p7", wire::Bye{});
  b.join("late", "late", 1);
  EXPECT_EQ(b.farm->status(b.now).workers.size(), defaults::kWorkersLimit);
}

TEST(Farm, ATrialWaitsForItsPlatform) {
  Bench b;
  const auto join = [&](const Peer& peer, const std::string& architecture) {
    b.say(peer, wire::Hello{.worker = peer,
                            .device = fmt::format(R"({{"architecture":"{}"}})", architecture),
                            .backends = {"cpu"}});
    b.say(peer, wire::Credit{2});
  };
  join("here", "x86_64");
  b.submit(1, "cpu:triple=aarch64-linux-gnu,mcpu=cortex-a72");
  EXPECT_THAT(b.sent<wire::Lease>("here"), IsEmpty());
  EXPECT_THAT(b.farm->status(b.now).unserved, ElementsAre("cpu/aarch64"));
  b.submit(1, "cpu:triple=x86_64-pc-linux-gnu");
  EXPECT_THAT(b.sent<wire::Lease>("here"), SizeIs(1));
  join("board", "aarch64");
  EXPECT_THAT(b.sent<wire::Lease>("board"), SizeIs(1));
  EXPECT_THAT(b.farm->status(b.now).unserved, IsEmpty());
}

TEST(Farm, ClosedGivesNoLeases) {
  Bench b;
  b.step(Close{});
  b.join("p", "v", 1);
  b.submit(1);
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
}

TEST(Farm, FailsWhatTheJournalCannotRead) {
  Bench b;
  b.submit(2);
  b.journal.spoil(1, "its row is damaged");
  b.join("p", "w", 1);
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(1)) << "which carry_out does not send";
  ASSERT_EQ(b.unreadable.size(), 1u);
  b.step(b.unreadable[0]);
  ASSERT_EQ(b.last.finished.size(), 1u);
  EXPECT_EQ(b.last.finished[0].trial, 1u);
  EXPECT_EQ(b.last.finished[0].result.outcome, Outcome::kInvalidTrace);
  EXPECT_THAT(b.last.finished[0].result.message, HasSubstr("its row is damaged"));
  EXPECT_EQ(b.lease("p").trial, 2u) << "the place is free for the next";
  b.step(Unreadable{4711, "a lease that nobody has"});
  EXPECT_EQ(b.journal.entries()[0].terminal, 1);
}

}  // namespace
}  // namespace lathe::tracker
