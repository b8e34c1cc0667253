// Boards that only run: what they run is built elsewhere, and who may do what (farm_builds.cpp).
#include "tests/tracker/farm_bench.h"
#include "tracker/device_class.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Verdict = wire::ResultAck::Verdict;

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
  /// A builder comes with a key and says BUILT of all its leases; returns how many are fetched from it at
  /// once.
  int places_of_builder(const Peer& peer, const std::string& key, uint32_t slots) {
    wire::Hello hello{
        .worker = peer, .device = R"({"revision":"r1"})", .backends = {"cpu"}, .builds = {"cpu/aarch64"}};
    b.step(Received{peer, std::move(hello), key});
    b.step(Received{peer, wire::Credit{slots}, key});
    size_t places = 0;
    for (const wire::Lease& lease : b.sent<wire::Lease>(peer)) {
      b.step(Received{peer, built(lease, "code of " + peer + std::to_string(lease.lease)), key});
      places += b.sent<wire::BlobGet>(peer).size();
    }
    return static_cast<int>(places);
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

/// Builds that wait for whoever takes them are no reason to build nothing for the few who meet some needs.
TEST_F(Boards, OfSomeNeedsDoNotWaitBehindOthersBuilds) {
  join_builder("builder", 100);
  join_board("board", 2);
  b.say("large", wire::Hello{.worker = "large",
                             .device = R"({"architecture":"aarch64","memory_bytes":8589934592})",
                             .backends = {"cpu"},
                             .runner_only = true});
  b.say("large", wire::Credit{1});
  b.submit(10, kTarget);
  EXPECT_THAT(b.sent<wire::Lease>("builder"), SizeIs(3));
  const Candidate candidate{.trace = "of a large model"};
  std::vector<Submission> trials = b.journal.add(1, std::span(&candidate, 1));
  TrialSpec spec = *trials[0].spec;
  spec.needs = {{"memory", {int64_t{4} << 30}}};
  trials[0].spec = std::make_shared<TrialSpec>(spec);
  b.step(Submit{trials});
  EXPECT_EQ(b.lease("builder").trial, trials[0].trial);
  b.submit(10, kTarget);
  EXPECT_THAT(b.sent<wire::Lease>("builder"), IsEmpty()) << "of those there are as many as they take";
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

/// What the store holds is not asked for: with a size of its own choice a builder had the owner's builds go.
TEST_F(Boards, ASizeIsThatOfItsDigest) {
  join_board("board", 4);
  join_builder();
  b.submit(2, kTarget);
  const auto builds = b.sent<wire::Lease>("builder");
  ASSERT_THAT(builds, SizeIs(2));
  deliver("builder", builds[0], "code");
  wire::Built lie = built(builds[1], "code");
  lie.artifact.size = defaults::kBlobLimit;
  b.say("builder", lie);
  EXPECT_THAT(b.sent<wire::ResultAck>("builder"), IsEmpty());
  ASSERT_THAT(b.sent<wire::Refusal>("builder"), SizeIs(1));
  EXPECT_THAT(b.sent<wire::Refusal>("builder")[0].text, HasSubstr("a size that is not that of its digest"));
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

/// However slowly one of them sends.
TEST_F(Boards, ABuilderLeavesPlacesToOthers) {
  constexpr auto kPlaces = static_cast<int>(defaults::kBuildsFetched);
  join_board("board", 2 * kPlaces);
  join_builder("slow", kPlaces);
  b.submit(2 * kPlaces, kTarget);
  const auto slow = b.sent<wire::Lease>("slow");
  ASSERT_THAT(slow, SizeIs(kPlaces));
  join_builder("another", kPlaces);
  const auto leases = b.sent<wire::Lease>("another");
  ASSERT_THAT(leases, SizeIs(kPlaces));
  for (int i = 0; i < kPlaces; ++i) {
    b.say("slow", built(slow[i], fmt::format("slow {}", i)));
    ASSERT_THAT(b.sent<wire::BlobGet>("slow"), SizeIs(1));
  }
  for (int i = 0; i < kPlaces; ++i) {
    b.say("another", built(leases[i], fmt::format("code {}", i)));
    EXPECT_THAT(b.sent<wire::BlobGet>("another"), SizeIs(i < kPlaces / 2 ? 1 : 0)) << i;
  }
  b.say("slow", built(slow.back(), "slow 7"));
  EXPECT_THAT(b.sent<wire::BlobGet>("slow"), IsEmpty()) << "it gave way, and has as many as the other";
  b.say("slow", built(slow.front(), "slow 0"));
  EXPECT_THAT(b.sent<wire::BlobGet>("slow"), SizeIs(1)) << "which goes on";
}

/// As many keys as there are places are one owner's, and so one builder.
TEST_F(Boards, KeysOfOneOwnerLeavePlacesToOthers) {
  constexpr auto kPlaces = static_cast<int>(defaults::kBuildsFetched);
  const auto key_of = [](int i) { return fmt::format("slow key {}", i); };
  std::map<std::string, Principal> keys = {{"key", {.name = "another", .role = Role::kWorker}},
                                           {"", {.name = "boards", .role = Role::kWorker}}};
  for (int i = 0; i <= kPlaces; ++i) keys[key_of(i)] = {.name = "slow", .role = Role::kWorker};
  b.step(Admit{keys});
  join_board("board", 4 * kPlaces);
  b.submit(4 * kPlaces, kTarget);
  for (int i = 0; i < kPlaces; ++i)
    EXPECT_EQ(places_of_builder(fmt::format("slow {}", i), key_of(i), 1), 1) << "nobody else wants it";
  EXPECT_EQ(places_of_builder("slow more", key_of(kPlaces), 1), 0);
  EXPECT_EQ(places_of_builder("another", "key", kPlaces), kPlaces / 2);
}

/// Beside each other an owner's workers are by their keys.
TEST_F(Boards, OfOneOwnerNoKeyTakesAllPlaces) {
  constexpr auto kPlaces = static_cast<int>(defaults::kBuildsFetched);
  b.step(Admit{{{"first", {.name = "lab", .role = Role::kWorker}},
                {"second", {.name = "lab", .role = Role::kWorker}},
                {"", {.name = "boards", .role = Role::kWorker}}}});
  join_board("board", 4 * kPlaces);
  b.submit(2 * kPlaces, kTarget);
  for (const std::string key : {"first", "second"}) {
    EXPECT_EQ(places_of_builder(key, key, kPlaces), key == "first" ? kPlaces : kPlaces / 2);
  }
}

}  // namespace
}  // namespace lathe::tracker
