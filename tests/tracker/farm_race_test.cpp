// Races of whole modules: who gets them, how they end, and that nothing of them is written down.
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/tracker/farm_bench.h"
#include "workers/agent.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Verdict = wire::ResultAck::Verdict;

constexpr TrialId kRace = TrialId{1} << 62;
const std::string kUntuned = "the untuned build",
                  kTuned = std::string(defaults::kChunkBytes + 10, 't');  // in two pieces

struct RaceBench : Bench {
  TemporaryFolder folder;
  bool open = false;  // the modules

  void race(double fastest_seconds = 0, const std::string& device_class = "") {
    write_file(folder / "untuned", kUntuned);
    write_file(folder / "tuned", kTuned);
    TrialSpec spec{.job = 1, .target = "cpu"};
    spec.fastest_seconds = fastest_seconds;
    spec.device_class = device_class;
    spec.is_open = open;
    spec.race = std::make_shared<const RaceModules>(
        RaceModules{std::make_shared<const ModuleFile>(folder / "untuned"),
                    std::make_shared<const ModuleFile>(folder / "tuned")});
    step(Submit{{{.trial = kRace, .spec = std::make_shared<const TrialSpec>(spec)}}});
  }
  void join_old(const Peer& peer, const std::string& name) {
    say(peer,
        wire::Hello{
            .newest_version = wire::kRaceVersion - 1, .worker = name, .device = "{}", .backends = {"cpu"}});
    say(peer, wire::Credit{4});
  }
  wire::Result turns(const wire::Lease& lease, std::vector<float> samples) {
    wire::Result result = ok(lease);
    result.samples = std::move(samples);
    return result;
  }
  Verdict verdict(const Peer& peer) const { return sent<wire::ResultAck>(peer).at(0).verdict; }
};

TEST(FarmRaces, AndOpenWorkloadsGoToAWorkerThatKnowsDimensions) {
  RaceBench b;
  b.say("p",
        wire::Hello{
            .newest_version = wire::kOpenVersion - 1, .worker = "old", .device = "{}", .backends = {"cpu"}});
  b.say("p", wire::Credit{4});
  b.journal.set_targets({"cpu"});
  std::vector<Submission> trials = b.journal.add(1, std::vector<Candidate>(1));
  TrialSpec open = *trials[0].spec;
  open.is_open = true;
  trials[0].spec = std::make_shared<TrialSpec>(open);
  b.step(Submit{trials});
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
  b.open = true;
  b.race();
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
  b.join("q", "new", 2);
  std::set<TrialId> given;
  for (const wire::Lease& lease : b.sent<wire::Lease>("q")) given.insert(lease.trial);
  EXPECT_THAT(given, ElementsAre(trials[0].trial, kRace));
}

TEST(FarmRaces, GoToAWorkerThatKnowsThem) {
  RaceBench b;
  b.join_old("p", "old");
  b.race();
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty());
  b.join("q", "new", 1);
  const wire::Lease lease = b.lease("q");
  EXPECT_EQ(lease.part, wire::Part::kRace);
  EXPECT_EQ(lease.reference, wire::blob_of(kUntuned));
  EXPECT_EQ(lease.artifact, wire::blob_of(kTuned));
  EXPECT_THAT(b.last.records, IsEmpty());
  b.say("q", b.turns(lease, {2e-3f, 1e-3f, 2e-3f, 1e-3f}));
  EXPECT_EQ(b.verdict("q"), Verdict::kRecorded);
  EXPECT_THAT(b.last.records, IsEmpty());
  ASSERT_THAT(b.last.finished, SizeIs(1));
  EXPECT_EQ(b.last.finished[0].trial, kRace);
  EXPECT_EQ(b.last.finished[0].job, 1u);
  EXPECT_THAT(b.last.finished[0].result.samples, ElementsAre(2e-3f, 1e-3f, 2e-3f, 1e-3f));
  EXPECT_EQ(b.farm->open(1), 0u);
}

TEST(FarmRaces, StayWithTheirClassOfDevices) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race(0, "EPYC, 8 cores");
  b.pass(1s);
  EXPECT_EQ(b.farm->status(b.now).leased, 0u);
}

TEST(FarmRaces, CountAgainstCredit) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  b.submit(1);
  EXPECT_EQ(b.farm->status(b.now).pending, 1u);
  EXPECT_EQ(b.farm->status(b.now).leased, 1u);
}

TEST(FarmRaces, GoToAnotherWorkerWhenTheirsIsLost) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  const wire::Lease first = b.lease("p");
  b.join("q", "w", 1);
  b.say("p2", wire::Hello{.worker = "v", .device = "{}", .backends = {"cpu"}});  // v was killed, and is back
  const wire::Lease second = b.lease("q");
  EXPECT_NE(second.lease, first.lease);
  EXPECT_EQ(second.attempt, 2u);
  b.say("q", b.turns(second, {1, 2}));
  EXPECT_THAT(b.last.finished, SizeIs(1));
  EXPECT_THAT(b.last.records, IsEmpty());
}

TEST(FarmRaces, EndWithTheThirdWorkerThatTheyTakeAway) {
  RaceBench b;
  b.race();
  for (int life = 0; life < 4; ++life) {
    EXPECT_EQ(b.farm->open(1), 1u);
    b.say(fmt::format("p{}", life), wire::Hello{.worker = "v", .device = "{}", .backends = {"cpu"}});
    if (life < 3) b.say(fmt::format("p{}", life), wire::Credit{1});
  }
  ASSERT_THAT(b.last.finished, SizeIs(1));
  EXPECT_EQ(b.last.finished[0].result.outcome, Outcome::kWorkerLost);
  EXPECT_THAT(b.last.records, IsEmpty());
}

TEST(FarmRaces, AreHandedBackWithoutBlame) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  for (int round = 0; round < 5; ++round) {
    const wire::Lease lease = b.lease("p");
    b.say("p", wire::Drain{{lease.lease}});
    b.say("p", wire::Credit{1});
  }
  EXPECT_EQ(b.farm->open(1), 1u);
}

TEST(FarmRaces, AResultSaidTwiceCountsOnce) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  const wire::Lease lease = b.lease("p");
  b.say("p", b.turns(lease, {1, 2}));
  b.say("p", b.turns(lease, {1, 2}));
  EXPECT_EQ(b.verdict("p"), Verdict::kDuplicate);
  EXPECT_THAT(b.last.finished, IsEmpty());
}

TEST(FarmRaces, AFailureIsAnEnd) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  const wire::Lease lease = b.lease("p");
  b.say("p", wire::Result{.lease = lease.lease,
                          .trial = lease.trial,
                          .outcome = Outcome::kCrashed,
                          .message = "killed by signal 4",
                          .signal = 4});
  ASSERT_THAT(b.last.finished, SizeIs(1));
  EXPECT_EQ(b.last.finished[0].result.outcome, Outcome::kCrashed);
  EXPECT_THAT(b.last.records, IsEmpty());
}

TEST(FarmRaces, EndWhereNobodyIsToHaveThem) {
  RaceBench b;
  b.join_old("p", "old");
  b.race(0, "");
  std::vector<Finished> finished;
  for (Time waited{0}; waited <= defaults::kRaceWaits && finished.empty(); waited += 1s) {
    EXPECT_EQ(b.farm->open(1), 1u);
    b.say("p", wire::Heartbeat{});
    b.now += 1s;
    b.step(Tick{});
    finished = b.last.finished;
  }
  ASSERT_THAT(finished, SizeIs(1));
  EXPECT_THAT(finished[0].result.message, HasSubstr("no worker is"));
  EXPECT_EQ(finished[0].result.outcome, Outcome::kWorkerLost);
}

TEST(FarmRaces, WaitForAWorkerThatIsBusy) {
  RaceBench b;
  b.join("p", "v", 1);
  b.submit(1);
  const wire::Lease lease = b.lease("p");
  b.race();
  for (Time waited{0}; waited < 2 * defaults::kRaceWaits; waited += 1s) {
    b.say("p", wire::Heartbeat{{lease.lease}});
    b.now += 1s;
    b.step(Tick{});
  }
  b.say("p", b.ok(lease));
  EXPECT_EQ(b.lease("p").part, wire::Part::kRace);
}

TEST(FarmRaces, EndWithTheirJob) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  const wire::Lease lease = b.lease("p");
  b.step(CancelJob{1});
  EXPECT_THAT(b.sent<wire::Cancel>("p"), ElementsAre(wire::Cancel{lease.lease}));
  EXPECT_THAT(b.last.records, IsEmpty());
  b.say("p", b.turns(lease, {1, 2}));
  EXPECT_EQ(b.verdict("p"), Verdict::kStale);
}

TEST(FarmRaces, EndWithTheSearchThatAskedForThem) {
  RaceBench b;
  b.join("p", "v", 1);
  b.submit(2);
  const wire::Lease candidate = b.lease("p");
  b.race();
  b.step(CancelRace{candidate.trial});
  EXPECT_EQ(b.farm->open(1), 3u) << "that is no race";
  b.say("p", b.ok(candidate));
  const wire::Lease lease = b.lease("p");
  ASSERT_EQ(lease.part, wire::Part::kRace);
  b.step(CancelRace{kRace});
  EXPECT_THAT(b.sent<wire::Cancel>("p"), ElementsAre(wire::Cancel{lease.lease}));
  EXPECT_THAT(b.last.records, SizeIs(1)) << "the next candidate's lease";
  EXPECT_THAT(b.last.finished, IsEmpty());
  EXPECT_EQ(b.farm->open(1), 1u) << "its job's candidates stay";
  b.step(CancelRace{kRace});
  EXPECT_EQ(b.farm->open(1), 1u);
}

TEST(FarmRaces, GoToAnotherWorkerWhenTheKeyOfTheirsIsRevoked) {
  RaceBench b;
  const auto say = [&](const std::string& who, wire::Message message) {
    b.step(Received{who, std::move(message), "the key of " + who});
  };
  const auto list = [&](const std::vector<std::string>& listed) {
    Admit event;
    for (const std::string& who : listed)
      event.keys["the key of " + who] = {.name = who, .role = Role::kWorker};
    b.step(event);
  };
  list({"v", "w"});
  for (const char* who : {"v", "w"})
    say(who, wire::Hello{.worker = who, .device = "{}", .backends = {"cpu"}});
  say("v", wire::Credit{1});
  b.race();
  const wire::Lease first = b.lease("v");
  say("w", wire::Credit{1});
  list({"w"});
  const wire::Lease second = b.lease("w");
  say("v", b.turns(first, {1, 2}));
  EXPECT_THAT(b.last.finished, IsEmpty()) << "what a revoked worker says";
  say("w", b.turns(second, {1, 2}));
  ASSERT_THAT(b.last.finished, SizeIs(1));
  EXPECT_EQ(b.last.finished[0].worker, "w");
  EXPECT_THAT(b.last.records, IsEmpty());
}

TEST(FarmRaces, AreForgottenByTheNextTracker) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  const wire::Lease lease = b.lease("p");
  b.restart();
  b.say("p", wire::Hello{.worker = "v", .device = "{}", .backends = {"cpu"}, .holding = {lease.lease}});
  EXPECT_THAT(b.sent<wire::Cancel>("p"), ElementsAre(wire::Cancel{lease.lease}));
  b.say("p", b.turns(lease, {1, 2}));
  EXPECT_EQ(b.verdict("p"), Verdict::kStale);
}

// --- workers that are not what they should be

TEST(FarmRaces, ATurnOfOneSideExpels) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race(/*fastest_seconds=*/1e-6);
  b.say("p", b.turns(b.lease("p"), {1, 1, 1}));
  ASSERT_THAT(b.sent<wire::Refusal>("p"), SizeIs(1));
  EXPECT_EQ(b.sent<wire::Refusal>("p")[0].code, wire::Refusal::Code::kSuspect);
  EXPECT_THAT(b.last.finished, IsEmpty());
  EXPECT_EQ(b.farm->open(1), 1u) << "another is asked";
}

TEST(FarmRaces, TimesThatCannotBeDecideNothing) {
  for (const std::vector<float>& samples : {std::vector<float>{1, 1e-9f}, std::vector<float>{0, 1}}) {
    RaceBench b;
    b.join("p", "v", 1);
    b.race(/*fastest_seconds=*/1e-6);
    b.say("p", b.turns(b.lease("p"), samples));
    ASSERT_THAT(b.last.finished, SizeIs(1)) << "nobody else can tell";
    EXPECT_EQ(b.last.finished[0].result.outcome, Outcome::kWrongResult);
    EXPECT_THAT(b.last.finished[0].result.samples, testing::IsEmpty());
  }
}

TEST(FarmRaces, NothingIsBuiltForThem) {
  RaceBench b;
  b.say("p", wire::Hello{.worker = "v", .device = "{}", .backends = {"cpu"}, .builds = {"cpu"}});
  b.say("p", wire::Credit{1});
  b.race();
  const wire::Lease lease = b.lease("p");
  b.say("p", wire::Built{lease.lease, lease.trial, 1, wire::blob_of("code"), wire::blob_of("reference")});
  EXPECT_EQ(b.verdict("p"), Verdict::kStale);
  EXPECT_THAT(b.sent<wire::BlobGet>("p"), IsEmpty());
}

TEST(FarmRaces, GiveTheirOwnModulesAway) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  const wire::Lease lease = b.lease("p");
  b.say("p", wire::BlobGet{lease.lease, lease.reference.digest, 4});
  ASSERT_THAT(b.last.wanted, SizeIs(1));
  EXPECT_EQ(b.last.wanted[0].file->read(4, 7), "untuned");
  b.say("p", wire::BlobGet{lease.lease, std::string(64, 'a'), 0});
  EXPECT_THAT(b.last.wanted, IsEmpty());
}

/// A searcher may cut its modules short after it has asked for a race.
TEST(FarmRaces, EndWhenTheirModulesChange) {
  RaceBench b;
  b.join("p", "v", 1);
  b.race();
  const wire::Lease lease = b.lease("p");
  b.step(Unreadable{lease.lease, "its module is not what it was when the race began"});
  EXPECT_THAT(b.sent<wire::Cancel>("p"), ElementsAre(wire::Cancel{lease.lease}));
  ASSERT_THAT(b.last.finished, SizeIs(1));
  EXPECT_THAT(b.last.finished[0].result.message, HasSubstr("not what it was"));
  EXPECT_THAT(b.last.records, IsEmpty());
  b.step(Unreadable{lease.lease, "asked for twice"});
  EXPECT_THAT(b.last.finished, IsEmpty());
  b.submit(1);
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(1)) << "its worker is free";
}

// --- the worker's side

struct RaceAgent {
  RaceBench farm;
  worker::Agent agent;
  std::vector<worker::Run> runs;

  explicit RaceAgent(uint64_t module_bytes)
      : agent({.name = "board",
               .device = "{}",
               .backends = {"cpu"},
               .runner_only = true,
               .canaries = false,
               .module_bytes = module_bytes,
               .builders = 0},
              Time(0)) {}

  /// What the agent says goes to the farm, and what that says back, until both are silent.
  void step(const worker::Event& event) {
    worker::Actions actions = agent.step(event, farm.now);
    for (worker::Run& run : actions.run) runs.push_back(std::move(run));
    for (const wire::Message& message : actions.send) {
      farm.say("p", message);
      const Effects answers = farm.last;
      for (const Outgoing& out : answers.messages) step(out.message);
      for (const Wanted& wanted : answers.wanted)
        step(wire::Message(wire::BlobChunk{wanted.get.digest, wanted.get.offset,
                                           wanted.file->read(wanted.get.offset, defaults::kChunkBytes)}));
    }
  }
};

TEST(AgentRaces, GetBothModulesAndRunOnce) {
  RaceAgent a(1 << 20);
  a.step(worker::Tick{});
  a.farm.race();
  const wire::Lease lease = a.farm.lease("p");
  a.step(wire::Message(lease));
  a.step(wire::Message(lease));
  ASSERT_THAT(a.runs, SizeIs(1));
  EXPECT_EQ(*a.runs[0].reference, kUntuned);
  EXPECT_EQ(*a.runs[0].artifact, kTuned);
  a.step(worker::Measured{lease.lease, {.samples = {1, 2}}});
  EXPECT_EQ(a.farm.farm->open(1), 0u);
}

TEST(AgentRaces, RefuseModulesThatThereIsNoRoomFor) {
  RaceAgent a(1000);
  a.step(worker::Tick{});
  a.farm.race();
  const wire::Lease lease = a.farm.lease("p");
  const worker::Actions actions = a.agent.step(wire::Message(lease), a.farm.now);
  ASSERT_THAT(actions.send, SizeIs(1));
  const auto& result = std::get<wire::Result>(actions.send[0]);
  EXPECT_EQ(result.outcome, Outcome::kBuildFailed);
  EXPECT_THAT(result.message, HasSubstr("board has room for modules of 1000 bytes"));
}

}  // namespace
}  // namespace lathe::tracker
