// The farm step by step: each rule of docs/tracker.md once. Faults in combination: farm_simulation_test.cpp.
#include <malloc.h>

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
  b.say("p", wire::Hello{.oldest_version = 7, .newest_version = 9, .worker = "v"});
  EXPECT_THAT(
      b.sent<wire::Refusal>("p"),
      ElementsAre(wire::Refusal{wire::Refusal::Code::kVersion, "tracker speaks versions 1..5, worker 7..9"}));
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

/// Where boards are that only run, what they run is built elsewhere, once; bytes travel in pieces.
class Boards : public testing::Test {
 protected:
  static constexpr const char* kTarget = "cpu:triple=aarch64-linux-gnu,mcpu=cortex-a72";

  void join(wire::Hello hello, const std::string& architecture, uint32_t slots) {
    hello.device = fmt::format(R"({{"architecture":"{}","revision":"r1"}})", architecture);
    const Peer peer = hello.worker;
    b.say(peer, std::move(hello));
    b.say(peer, wire::Credit{slots});
  }
  void join_builder(const Peer& peer = "builder", uint32_t slots = 4) {
    join({.worker = peer, .backends = {"cpu"}, .builds = {"cpu/x86_64", "cpu/aarch64"}}, "x86_64", slots);
  }
  void join_board(const Peer& peer = "board", uint32_t slots = 2) {
    join({.worker = peer, .backends = {"cpu"}, .runner_only = true}, "aarch64", slots);
  }
  wire::Built built(const wire::Lease& lease, const std::string& code) {
    return {.lease = lease.lease,
            .trial = lease.trial,
            .attempt = lease.attempt,
            .artifact = wire::blob_of(code),
            .reference = wire::blob_of("reference")};
  }
  /// Says BUILT and answers until it is acknowledged; returns how many pieces the farm asked for.
  int deliver(const Peer& peer, const wire::Lease& lease, const std::string& code) {
    int pieces = 0;
    for (b.say(peer, built(lease, code)); !b.sent<wire::BlobGet>(peer).empty(); ++pieces) {
      const wire::BlobGet get = b.sent<wire::BlobGet>(peer)[0];
      b.say(peer, wire::chunk_of(get.digest == wire::blob_of(code).digest ? code : "reference", get));
    }
    EXPECT_THAT(b.sent<wire::ResultAck>(peer), ElementsAre(wire::ResultAck{lease.lease, Verdict::kRecorded}));
    return pieces;
  }

  Bench b;
};

TEST_F(Boards, RunWhatOthersBuild) {
  join_board();
  b.submit(1, kTarget);
  EXPECT_THAT(b.sent<wire::Lease>("board"), IsEmpty());
  EXPECT_THAT(b.farm->status(b.now).unbuilt, ElementsAre("cpu/aarch64"));
  EXPECT_EQ(unserved_text(b.farm->status(b.now)),
            "no worker builds for cpu/aarch64: start one with `tune worker --tracker ...` on any machine");
  join_builder();
  EXPECT_THAT(b.farm->status(b.now).unbuilt, IsEmpty());
  const wire::Lease build = b.lease("builder");
  EXPECT_EQ(build.part, wire::Part::kBuild);
  EXPECT_EQ(build.target, kTarget);
  const std::string code(defaults::kChunkBytes + 1, 'c');
  EXPECT_EQ(deliver("builder", build, code), 3);
  EXPECT_THAT(b.last.stored, SizeIs(2));
  const wire::Lease run = b.lease("board");
  EXPECT_EQ(run.part, wire::Part::kRun);
  EXPECT_EQ(run.artifact, wire::blob_of(code));
  EXPECT_EQ(run.workload, "") << "the board needs no more than the code";
  b.say("board", wire::BlobGet{run.lease, run.artifact.digest, 0});
  EXPECT_THAT(b.last.wanted, SizeIs(1));
  b.say("board", b.ok(run));
  ASSERT_THAT(b.last.finished, SizeIs(1));
  EXPECT_EQ(b.last.finished[0].worker, "board");
  EXPECT_EQ(b.last.finished[0].revision, "r1");
  b.say("builder", built(build, code));
  EXPECT_THAT(b.sent<wire::ResultAck>("builder"),
              ElementsAre(wire::ResultAck{build.lease, Verdict::kDuplicate}));
}

TEST_F(Boards, TheSameIsBuiltOnce) {
  join_board();
  join_builder();
  b.submit(1, kTarget);
  deliver("builder", b.lease("builder"), "code");
  b.submit(1, kTarget);
  EXPECT_THAT(b.sent<wire::Lease>("builder"), IsEmpty());
  EXPECT_EQ(b.lease("board").artifact, wire::blob_of("code"));
}

TEST_F(Boards, AFailedBuildIsTheCandidatesEnd) {
  join_board();
  join_builder();
  b.submit(1, kTarget);
  wire::Result failed{.lease = b.lease("builder").lease, .trial = 1, .outcome = Outcome::kBuildFailed};
  b.say("builder", failed);
  ASSERT_THAT(b.last.finished, SizeIs(1));
  EXPECT_EQ(b.last.finished[0].device, "") << "it says nothing of the builder's machine";
}

TEST_F(Boards, OnlyAsMuchIsBuiltAheadAsTheyTake) {
  join_builder("builder", 100);
  b.submit(10, kTarget);
  EXPECT_THAT(b.sent<wire::Lease>("builder"), IsEmpty());
  EXPECT_THAT(b.farm->status(b.now).unserved, ElementsAre("cpu/aarch64"));
  join_board("board", 2);
  EXPECT_THAT(b.sent<wire::Lease>("builder"), SizeIs(2));
}

/// A build that the store has dropped while a board was about to get it is made again.
TEST_F(Boards, WhatIsGoneIsBuiltAgain) {
  b.farm = std::make_unique<Farm>(b.journal.start(), b.now, /*store_bytes=*/20);
  join_board();
  join_builder();
  b.submit(2, kTarget);
  const auto builds = b.sent<wire::Lease>("builder");
  ASSERT_THAT(builds, SizeIs(2));
  deliver("builder", builds[0], "code of one");
  const wire::Lease first = b.lease("board");
  deliver("builder", builds[1], "code of two");
  EXPECT_THAT(b.last.stored, SizeIs(2)) << "one came, one went; the reference is both's";
  EXPECT_FALSE(b.last.stored[1].bytes);
  b.say("board", wire::BlobGet{first.lease, first.artifact.digest, 0});
  EXPECT_THAT(b.sent<wire::Cancel>("board"), ElementsAre(wire::Cancel{first.lease}));
  EXPECT_EQ(b.lease("builder").trial, first.trial);
  EXPECT_FALSE(b.journal.entries()[0].trial.grants.back().lost);
}

TEST_F(Boards, BytesAreWhatTheirDigestSays) {
  join_board();
  join_builder();
  b.submit(1, kTarget);
  b.say("builder", built(b.lease("builder"), "code"));
  const wire::BlobGet get = b.sent<wire::BlobGet>("builder")[0];
  b.say("builder", wire::BlobChunk{get.digest, 0, "evil"});
  EXPECT_EQ(b.sent<wire::Refusal>("builder").at(0).code, wire::Refusal::Code::kSuspect);
  EXPECT_THAT(b.last.stored, IsEmpty());
  EXPECT_EQ(b.farm->open(1), 1u);
}

/// A builder cannot measure for a board, nor a board build.
TEST_F(Boards, RolesAreKept) {
  join_board();
  join_builder();
  b.submit(1, kTarget);
  b.say("builder", b.ok(b.lease("builder")));
  EXPECT_EQ(b.sent<wire::Refusal>("builder").at(0).text,
            "a result that cannot be: times on a machine that it is not");
  EXPECT_EQ(b.farm->open(1), 1u);
  join_builder("another");
  deliver("another", b.lease("another"), "code");
  const wire::Lease run = b.lease("board");
  b.say("board", built(run, "code"));
  EXPECT_THAT(b.sent<wire::ResultAck>("board"), ElementsAre(wire::ResultAck{run.lease, Verdict::kStale}));
}

/// A worker of the release before: it builds and runs, for itself.
TEST_F(Boards, WorkersOfVersion1ServeTheirOwn) {
  join_board();
  join({.oldest_version = 1, .newest_version = 1, .worker = "old", .backends = {"cpu"}}, "x86_64", 4);
  EXPECT_THAT(b.farm->status(b.now).workers, SizeIs(2));
  b.submit(1, kTarget);
  EXPECT_THAT(b.sent<wire::Lease>("old"), IsEmpty());
  b.submit(1, "cpu:triple=x86_64-linux-gnu");
  EXPECT_EQ(b.lease("old").part, wire::Part::kWhole);
}

/// What it answers to a primitive that came after it says nothing of the candidate.
TEST_F(Boards, AWorkerOfVersion1DoesNotJudgeNewTraces) {
  join({.oldest_version = 1, .newest_version = 1, .worker = "old", .backends = {"cpu"}}, "x86_64", 1);
  b.submit(1, "cpu:triple=x86_64-linux-gnu");
  wire::Result result = b.ok(b.lease("old"));
  join({.worker = "new", .backends = {"cpu"}}, "x86_64", 1);
  result.outcome = Outcome::kInvalidTrace;
  result.samples = {};
  b.say("old", result);
  EXPECT_THAT(b.sent<wire::ResultAck>("old"), ElementsAre(wire::ResultAck{result.lease, Verdict::kStale}));
  EXPECT_EQ(b.farm->open(1), 1u);
  b.say("new", b.ok(b.lease("new")));
  EXPECT_EQ(b.farm->open(1), 0u);
}

/// It cannot read codes that came after it, and would say HELLO for ever.
TEST_F(Boards, AWorkerOfVersion1IsRefusedInItsWords) {
  const auto hello = [](const std::string& name, uint32_t version) {
    return wire::Hello{.newest_version = version, .worker = name, .device = "{}", .backends = {"cpu"}};
  };
  b.step(Received{"a", hello("taken", 2), "one key"});
  b.step(Received{"b", hello("taken", 1), "another"});
  EXPECT_EQ(b.sent<wire::Refusal>("b").at(0).code, wire::Refusal::Code::kVersion) << "it gives up";
  b.step(Received{"c", hello("taken", 2), "another"});
  EXPECT_EQ(b.sent<wire::Refusal>("c").at(0).code, wire::Refusal::Code::kNotAllowed);
  for (size_t i = 1; i < defaults::kWorkersLimit; ++i)
    b.step(Received{fmt::format("p{}", i), hello(fmt::format("w{}", i), 2), "one key"});
  b.step(Received{"d", hello("one more", 1), "k"});
  EXPECT_EQ(b.sent<wire::Refusal>("d").at(0).code, wire::Refusal::Code::kShuttingDown) << "it comes back";
  EXPECT_THAT(wire::encode(b.sent<wire::Refusal>("d").at(0)), testing::HasSubstr("1024 workers already"));
}

/// Fetched builds are held in memory until they are whole: a few at a time, and for as long as they come on.
TEST_F(Boards, FewBuildsAreFetchedAtOnce) {
  const auto count = static_cast<int>(defaults::kBuildsFetched) + 1;
  join_board("board", count);
  join_builder("builder", count);
  b.submit(count, kTarget);
  const auto leases = b.sent<wire::Lease>("builder");
  ASSERT_THAT(leases, SizeIs(count));
  for (int i = 0; i + 1 < count; ++i) {
    b.say("builder", built(leases[i], fmt::format("code {}", i)));
    EXPECT_THAT(b.sent<wire::BlobGet>("builder"), SizeIs(1));
  }
  b.say("builder", built(leases.back(), "code"));
  EXPECT_THAT(b.sent<wire::BlobGet>("builder"), IsEmpty());
  for (int i = 0; i < 6; ++i) {
    b.pass(2s);
    b.say("builder", wire::Heartbeat{{}});
    b.say("board", wire::Heartbeat{{}});
  }
  b.say("builder", built(leases.back(), "code"));
  EXPECT_THAT(b.sent<wire::BlobGet>("builder"), SizeIs(1)) << "the others did not go on";
}

/// A time below any machine's was not measured: it is not recorded, and who sent it gets nothing more.
TEST(Farm, BelievesNoImpossibleTimes) {
  Bench b;
  b.join("p", "liar", 1);
  b.submit(1, "cpu", 1, /*fastest_seconds=*/1e-6);
  wire::Result result = b.ok(b.lease("p"));
  result.samples = {1e-3f, 1e-9f};
  b.say("p", result);
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{wire::Refusal::Code::kSuspect,
                                        "a result that cannot be: 1e-09 s for what takes 1e-06 s at least"}));
  EXPECT_EQ(b.farm->open(1), 1);
  b.join("q", "liar", 1);
  EXPECT_THAT(b.sent<wire::Lease>("q"), IsEmpty());
  b.join("r", "honest", 1);
  b.say("r", b.ok(b.lease("r")));
  EXPECT_EQ(b.farm->open(1), 0);
}

/// A worker that takes all it can get, says that it is well and never answers: it costs its leases' time
/// once. What it held goes to others, and of all those candidates only the first few have lost a lease.
TEST(Farm, HoldsOutAgainstAWorkerThatOnlyTakes) {
  Bench b;
  b.join("p", "hoarder", 1024);
  b.submit(1000);
  const std::vector<wire::Lease> leases = b.sent<wire::Lease>("p");
  ASSERT_THAT(leases, SizeIs(1000));
  wire::Heartbeat alive;
  for (const wire::Lease& lease : leases) alive.holding.push_back(lease.lease);
  std::vector<wire::Refusal> refused;
  for (const Time end = b.now + defaults::kLeaseLimit + 2s; b.now < end;) {
    b.say("p", alive);
    b.pass(1s);
    for (const wire::Refusal& refusal : b.sent<wire::Refusal>("p")) refused.push_back(refusal);
    if (!refused.empty()) break;
  }
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0].code, wire::Refusal::Code::kSuspect);
  EXPECT_EQ(refused[0].text, "it has held 3 leases for longer than 300 s, and says that it is well");
  EXPECT_THAT(b.farm->status(b.now).workers, IsEmpty());
  b.join("q", "honest", 1024);
  EXPECT_THAT(b.sent<wire::Lease>("q"), SizeIs(1000));
  b.join("r", "hoarder", 1024);
  EXPECT_THAT(b.sent<wire::Refusal>("r"), SizeIs(1)) << "it stays out";
}

/// Under another name neither.
TEST(Farm, AKeyThatLiedStaysOut) {
  Bench b;
  const auto hello = [&](const Peer& peer, const std::string& name, const std::string& key) {
    b.step(Received{peer, wire::Hello{.worker = name, .device = "{}", .backends = {"cpu"}}, key});
  };
  hello("p", "liar", "k");
  b.step(Received{"p", wire::Credit{1}, "k"});
  hello("o", "its friend", "k");
  b.submit(1, "cpu", 1, /*fastest_seconds=*/1e-6);
  wire::Result result = b.ok(b.lease("p"));
  result.samples = {1e-9f};
  b.step(Received{"p", result, "k"});
  EXPECT_THAT(b.sent<wire::Refusal>("o"), SizeIs(1));
  EXPECT_THAT(b.farm->status(b.now).workers, IsEmpty());
  hello("q", "saint", "k");
  EXPECT_THAT(
      b.sent<wire::Refusal>("q"),
      ElementsAre(wire::Refusal{wire::Refusal::Code::kSuspect,
                                "a worker of this key sent a result that cannot be, or let too many leases "
                                "pass their time"}));
  hello("r", "other", "l");
  EXPECT_THAT(b.sent<wire::Welcome>("r"), SizeIs(1));
}

/// A worker that takes leases and hands them back, for ever: each is a row of the database.
TEST(Farm, HoldsOutAgainstAWorkerThatHandsAllBack) {
  Bench b;
  b.submit(1);
  b.join("p", "fickle", 1);
  wire::Lease lease = b.lease("p");
  size_t returned = 0;
  for (; returned < 2 * defaults::kReturnsToExpel; ++returned) {
    b.say("p", wire::Drain{{lease.lease}});
    if (!b.sent<wire::Refusal>("p").empty()) break;
    b.say("p", wire::Credit{1});
    ASSERT_THAT(b.sent<wire::Lease>("p"), SizeIs(1)) << returned;
    const wire::Lease next = b.lease("p");
    EXPECT_EQ(next.attempt, lease.attempt + 1);
    lease = next;
  }
  EXPECT_EQ(returned + 1, defaults::kReturnsToExpel);
  EXPECT_THAT(b.farm->status(b.now).workers, IsEmpty());
  b.join("q", "honest", 1);
  b.say("q", b.ok(b.lease("q")));
  EXPECT_THAT(b.last.finished, SizeIs(1));
}

TEST(Farm, WhoMeasuresMayHandBackAsOftenAsItLikes) {
  Bench b;
  b.join("p", "v", 1);
  for (size_t i = 0; i < 10; ++i) {
    b.submit(1);
    const wire::Lease lease = b.lease("p");
    b.say("p", wire::Drain{{lease.lease}});
    b.say("p", b.ok(lease));
    EXPECT_THAT(b.last.finished, IsEmpty()) << "what was handed back is another's to answer";
    b.say("p", wire::Credit{1});
    b.say("p", b.ok(b.lease("p")));
    EXPECT_THAT(b.last.finished, SizeIs(1));
  }
}

/// A worker that says that it is another device while it holds a lease: times of one class never count for
/// another.
TEST(Farm, ADeviceDoesNotChangeUnderItsLease) {
  Bench b;
  const std::string slow = R"({"model": "slow", "cores": 2})", fast = R"({"model": "fast", "cores": 64})";
  const auto hello = [&](const Peer& peer, const std::string& device, std::vector<uint64_t> holding = {}) {
    b.say(peer,
          wire::Hello{.worker = peer, .device = device, .backends = {"cpu"}, .holding = std::move(holding)});
    b.say(peer, wire::Credit{1});
  };
  hello("p", slow);
  TrialSpec spec{.job = 1, .workload = std::make_shared<std::string>("w"), .target = "cpu"};
  spec.device_class = device_class_of(slow).name;
  std::vector<Submission> trials = b.journal.add(1, std::vector<Candidate>(1));
  trials[0].spec = std::make_shared<const TrialSpec>(spec);
  b.step(Submit{trials});
  const wire::Lease lease = b.lease("p");
  hello("p", fast, {lease.lease});
  b.say("p", b.ok(lease));
  EXPECT_THAT(b.last.finished, IsEmpty());
  EXPECT_THAT(b.sent<wire::Refusal>("p"), SizeIs(1));
  EXPECT_THAT(b.farm->status(b.now).workers, IsEmpty()) << "who says what cannot be is believed nothing more";
  hello("q", slow);
  EXPECT_THAT(b.sent<wire::Lease>("q"), SizeIs(1)) << "and it is measured by another";
}

/// Nor does a release: who speaks an older version from one message to the next gets what that one knows.
TEST(Farm, AWorkerMayChangeItsVersion) {
  Bench b;
  for (const uint32_t version : {wire::kNewestVersion, wire::kOldestVersion, wire::kNewestVersion}) {
    b.say("p", wire::Hello{.newest_version = version, .worker = "p", .device = "{}", .backends = {"cpu"}});
    ASSERT_THAT(b.sent<wire::Welcome>("p"), SizeIs(1));
    EXPECT_EQ(b.sent<wire::Welcome>("p")[0].version, version);
  }
  for (const auto& [oldest, newest] :
       {std::pair(wire::kNewestVersion + 1, UINT32_MAX), {0u, 0u}, {UINT32_MAX, 1u}}) {
    b.say("q",
          wire::Hello{.oldest_version = oldest, .newest_version = newest, .worker = "q", .device = "{}"});
    EXPECT_THAT(b.sent<wire::Refusal>("q"), SizeIs(1)) << oldest << ".." << newest;
  }
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

/// A queue of a million trials, as several jobs of one owner fill it, without what stays in the journal.
class LongQueue : public testing::Test {
 protected:
  void submit(JobId job, const std::string& owner, size_t count, const std::string& target = "cpu") {
    const auto spec = std::make_shared<const TrialSpec>(TrialSpec{
        .job = job, .workload = std::make_shared<std::string>("w"), .target = target, .owner = owner});
    Submit event;
    for (size_t i = 0; i < count; ++i) {
      ++last_;
      event.trials.push_back({.trial = last_, .candidate = static_cast<CandidateId>(last_), .spec = spec});
    }
    step(event);
  }
  void step(const Event& event) {
    Effects effects;
    farm_.step(event, Time(1), effects);
  }
  static size_t allocated() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

  TrialId last_ = 0;
  Farm farm_{JournalState{}, Time(0)};
};

TEST_F(LongQueue, TakesLittleMemoryAndLeavesRoomForOthers) {
  constexpr size_t kJobs = 10;
  const size_t before = allocated();
  for (JobId job = 1; job <= kJobs; ++job) {
    EXPECT_EQ(farm_.room(job, "alice"), defaults::kQueueOfJob);
    submit(job, "alice", defaults::kQueueOfJob);
    EXPECT_EQ(farm_.room(job, "alice"), 0u) << "a job has no more than its share";
  }
  const size_t trials = kJobs * defaults::kQueueOfJob;
  EXPECT_EQ(farm_.status(Time(1)).pending, trials);
  EXPECT_LE(allocated() - before, trials * 150);
  EXPECT_EQ(farm_.room(kJobs + 1, "alice"), 0u) << "nor does an owner";
  EXPECT_EQ(farm_.room(kJobs + 1, "bob"), defaults::kQueueOfJob);
}

/// Where no worker comes for it, nothing but its end takes it out of the queue.
TEST_F(LongQueue, ForgetsWhatWasCancelled) {
  submit(1, "alice", 10, "cuda");
  const size_t before = allocated();
  for (JobId job = 2; job < 22; ++job) {
    submit(job, "alice", 10'000, "cuda");
    step(CancelJob{job});
  }
  EXPECT_LE(allocated(), before + 100'000);
  EXPECT_EQ(farm_.status(Time(1)).pending, 10u);
}

}  // namespace
}  // namespace lathe::tracker
