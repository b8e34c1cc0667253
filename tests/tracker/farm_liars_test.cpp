// Workers that say what is not so, or take what they will not do. Those that say anything:
// farm_hostile_test.cpp.
#include <ctime>
#include <deque>

#include "tests/tracker/farm_bench.h"
#include "tracker/device_class.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// A time below any machine's was not measured, or not of what the workload's text says: it is never
/// recorded, and another worker is asked. Whom others contradict gets no more leases.
TEST(Farm, BelievesNoImpossibleTimes) {
  Bench b;
  b.join("p", "liar", 1);
  b.join("q", "honest", 1);
  for (TrialId trial = 1; trial <= 3; ++trial) {
    b.submit(1, "cpu", 1, /*fastest_seconds=*/1e-6);
    wire::Lease lease;
    for (const Peer peer : {"p", "q"})
      if (const auto sent = b.sent<wire::Lease>(peer); !sent.empty()) {
        ASSERT_EQ(peer, "p") << "it has waited longer";
        lease = sent[0];
      }
    wire::Result result = b.ok(lease);
    result.samples = {1e-3f, 1e-9f};
    b.say("p", result);
    EXPECT_EQ(b.journal.entries().at(trial - 1).terminal, 0);
    if (b.sent<wire::Lease>("q").empty()) b.say("q", wire::Credit{1});
    b.say("q", b.ok(b.lease("q")));
    EXPECT_EQ(b.journal.entries().at(trial - 1).finished.result.outcome, Outcome::kOk);
    EXPECT_EQ(b.journal.entries().at(trial - 1).finished.worker, "honest");
    b.say("p", wire::Credit{1});
  }
  EXPECT_THAT(b.last.notes, IsEmpty());
  EXPECT_EQ(b.farm->open(1), 0);
  b.submit(2, "cpu", 1, 1e-6);
  EXPECT_THAT(b.sent<wire::Lease>("p"), IsEmpty()) << "three times another worker did well";
  b.say("q", wire::Credit{2});
}

/// It has good canaries meanwhile: they say nothing of who chooses when to lie.
TEST(Farm, ImpossibleTimesTakeAllWithThemThatTheirWorkerHasSaid) {
  Bench b;
  b.join("p", "liar", 1);
  b.join("q", "honest", 1);
  std::vector<Examined> distrusted;
  for (TrialId trial = 1; trial <= 3; ++trial) {
    b.submit(1, "cpu", 1, /*fastest_seconds=*/1e-6);
    wire::Result result = b.ok(b.lease("p"));
    result.samples = {1e-9f};
    b.say("p", result);
    if (b.sent<wire::Lease>("q").empty()) b.say("q", wire::Credit{1});
    b.say("q", b.ok(b.lease("q")));
    for (const Record& record : b.last.records)
      if (const auto* examined = std::get_if<Examined>(&record)) distrusted.push_back(*examined);
    b.say("p", wire::Credit{1});
  }
  ASSERT_THAT(distrusted, SizeIs(3));
  EXPECT_FALSE(distrusted[1].distrust);
  EXPECT_EQ(distrusted[2].health.worker, "liar");
  EXPECT_TRUE(distrusted[2].distrust && distrusted[2].lied);
}

/// Of a worker that speaks for itself: its own candidates are bounded where they are measured.
TEST(Farm, RecordsNoMoreSamplesThanAnybodyAsksFor) {
  Bench b;
  b.join("p", "v", 2);
  b.submit(2);
  const std::vector<wire::Lease> leases = b.sent<wire::Lease>("p");
  ASSERT_THAT(leases, SizeIs(2));
  for (const size_t count : {1000, 100000}) {
    wire::Result result = b.ok(leases[count == 1000 ? 0 : 1]);
    result.samples.assign(count, 1e-3f);
    b.say("p", result);
  }
  const auto& entries = b.journal.entries();
  EXPECT_EQ(entries.at(0).finished.result.outcome, Outcome::kOk);
  EXPECT_EQ(entries.at(1).finished.result.outcome, Outcome::kWrongResult);
  EXPECT_EQ(entries.at(1).finished.result.message, "100000 samples, and nobody asks for more than 1000");
  EXPECT_THAT(entries.at(1).finished.result.samples, IsEmpty());
}

/// What a worker has said is said again, by itself and by others, before and after its trial's end, and to
/// the next tracker.
TEST(Farm, AReplayedConversationEndsNothingTwice) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(2);
  const wire::Lease mine = b.lease("p");
  b.join("q", "w", 1);
  const wire::Lease other = b.lease("q");
  const std::vector<wire::Message> said = {
      wire::Heartbeat{{mine.lease}}, b.ok(mine), wire::Built{mine.lease, mine.trial, mine.attempt, {}, {}},
      wire::BlobGet{mine.lease, std::string(64, '0'), 0}, wire::Drain{{mine.lease}}};
  const auto expect_nothing = [&](const Peer& peer) {
    for (const wire::Message& message : said) {
      b.say(peer, message);
      EXPECT_THAT(b.last.finished, IsEmpty()) << wire::name_of(message);
      EXPECT_THAT(b.last.records, IsEmpty()) << wire::name_of(message);
    }
  };
  expect_nothing("q");
  b.say("p", b.ok(mine));
  ASSERT_THAT(b.last.finished, SizeIs(1));
  expect_nothing("p");
  b.join("p", "v", 0, {mine.lease, other.lease});
  wire::Result stolen = b.ok(other);
  b.say("p", stolen);
  EXPECT_THAT(b.last.finished, IsEmpty()) << "another worker's lease";
  stolen = b.ok(mine);
  stolen.trial = other.trial;
  b.say("p", stolen);
  EXPECT_THAT(b.last.finished, IsEmpty()) << "its own lease, for another trial";
  b.restart();
  b.join("p", "v", 0, {mine.lease, other.lease});
  expect_nothing("p");
  EXPECT_EQ(b.journal.entries().at(other.trial - 1).terminal, 0);
}

/// A program whose operations stand where nothing executes them: everybody's honest times are impossible. No
/// worker goes for it; the candidate fails, and says why.
TEST(Farm, AProgramThatOnlySaysItWorksExpelsNobody) {
  Bench b;
  b.join("p", "v", 1);
  b.join("q", "w", 1);
  for (TrialId trial = 1; trial <= 8; ++trial) {
    b.submit(1, "cpu", 1, /*fastest_seconds=*/1);
    for (int opinions = 0; opinions < 2; ++opinions) {
      const Grant grant = b.journal.entries().at(trial - 1).trial.grants.at(opinions);
      wire::Result result = b.ok({.lease = grant.lease, .trial = trial, .attempt = grant.attempt});
      b.say(grant.worker == "v" ? "p" : "q", result);
      for (const Peer peer : {"p", "q"}) EXPECT_THAT(b.sent<wire::Refusal>(peer), IsEmpty());
    }
    const MemoryJournal::Entry& entry = b.journal.entries().at(trial - 1);
    ASSERT_EQ(entry.terminal, 1);
    EXPECT_EQ(entry.finished.result.outcome, Outcome::kWrongResult);
    EXPECT_EQ(entry.finished.result.message, "a time that cannot be: 0.001 s for what takes 1 s at least");
    EXPECT_THAT(entry.finished.result.samples, IsEmpty());
  }
  b.submit(2);
  EXPECT_EQ(b.farm->status(b.now).leased, 2) << "both go on working";
}

/// Nobody else can tell: it fails at once.
TEST(Farm, TheOnlyWorkersImpossibleTimesFail) {
  Bench b;
  b.join("p", "v", 1);
  b.submit(1, "cpu", 1, /*fastest_seconds=*/1);
  b.say("p", b.ok(b.lease("p")));
  EXPECT_EQ(b.farm->open(1), 0);
  EXPECT_EQ(b.journal.entries().at(0).finished.result.outcome, Outcome::kWrongResult);
  EXPECT_THAT(b.sent<wire::Refusal>("p"), IsEmpty());
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

/// Three leases that passed their time in a year are no reason to expel anybody.
TEST(Farm, ForgetsLateLeasesOfWhoeverMeasures) {
  Bench b;
  b.join("p", "slow at times", 1);
  for (uint32_t late = 0; late < 3 * defaults::kOverdueToSuspect; ++late) {
    b.submit(1);
    const wire::Lease slow = b.lease("p");
    wire::Lease again;
    while (again.lease == 0) {
      b.say("p", wire::Heartbeat{{slow.lease}});
      b.pass(1s);
      ASSERT_THAT(b.sent<wire::Refusal>("p"), IsEmpty());
      for (const wire::Lease& lease : b.sent<wire::Lease>("p")) again = lease;
    }
    b.say("p", b.ok(again));
    ASSERT_THAT(b.last.finished, SizeIs(1));
  }
}

/// Of a thousand candidates fifty take their workers away, each time (F5).
TEST(Farm, FiftyKillersAmongAThousandEndTheJob) {
  constexpr int kTrials = 1000, kEach = 20, kWorkers = 16;
  Bench b;
  std::map<Peer, int> lives;  // by name of a worker
  std::deque<std::pair<Peer, wire::Lease>> held;
  const auto collect = [&] {
    for (const Outgoing& out : b.last.messages)
      if (const auto* lease = std::get_if<wire::Lease>(&out.message)) held.emplace_back(out.peer, *lease);
  };
  const auto join = [&](const std::string& name) {
    const Peer peer = fmt::format("{}/{}", name, ++lives[name]);
    b.say(peer, wire::Hello{.worker = name, .device = "{}", .backends = {"cpu"}});
    collect();
    b.say(peer, wire::Credit{1});
    collect();
  };
  for (int i = 0; i < kWorkers; ++i) join(fmt::format("w{}", i));
  b.submit(kTrials);
  collect();
  const auto is_killer = [](TrialId trial) { return trial % kEach == 0; };
  for (int round = 0; b.farm->open(1) > 0 && round < 100'000; ++round) {
    if (held.empty()) {
      b.pass(defaults::kTick);
      collect();
      continue;
    }
    const auto [peer, lease] = held.front();
    held.pop_front();
    b.now += 1ms;
    if (is_killer(lease.trial)) {
      join(peer.substr(0, peer.find('/')));  // started again by whoever looks after it
    } else {
      b.say(peer, b.ok(lease));
      collect();
    }
  }
  ASSERT_EQ(b.farm->open(1), 0u);
  for (const MemoryJournal::Entry& entry : b.journal.entries()) {
    const TrialId trial = entry.trial.trial;
    EXPECT_EQ(entry.terminal, 1) << trial;
    EXPECT_EQ(entry.finished.result.outcome, is_killer(trial) ? Outcome::kWorkerLost : Outcome::kOk) << trial;
    std::set<std::string> workers;
    for (const Grant& grant : entry.trial.grants) workers.insert(grant.worker);
    EXPECT_LE(entry.trial.grants.size(), 3u) << trial;
    EXPECT_LE(workers.size(), 2u) << trial;
  }
}

/// One that holds much and says so without end: each time what it holds was looked for in all that it lists.
TEST(Farm, LongListsOfLeasesCostLittle) {
  constexpr uint32_t kHeld = 1024;
  constexpr size_t kListed = 4096;
  Bench b;
  b.join("p", "w", kHeld);
  b.submit(kHeld);
  wire::Heartbeat heartbeat;
  for (size_t i = 0; i < kListed - kHeld; ++i) heartbeat.holding.push_back(1'000'000'000'000 + i);
  for (const wire::Lease& lease : b.sent<wire::Lease>("p")) heartbeat.holding.push_back(lease.lease);
  ASSERT_EQ(heartbeat.holding.size(), kListed);
  const std::clock_t begin = std::clock();
  constexpr int kTimes = 100;
  for (int i = 0; i < kTimes; ++i) b.say("p", heartbeat);
  const double each = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kTimes;
  EXPECT_LT(each, 5e-3) << "one by one in all it is several times as much";
  EXPECT_EQ(b.sent<wire::Lease>("p").size(), 0u) << "it has them all";
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
  b.submit(1);
  const wire::Lease lease = b.lease("p");
  // It becomes another machine and says times of the one that it was.
  b.step(Received{
      "p", wire::Hello{.worker = "liar", .device = "{}", .backends = {"opencl"}, .holding = {lease.lease}},
      "k"});
  b.step(Received{"p", b.ok(lease), "k"});
  EXPECT_THAT(b.sent<wire::Refusal>("o"), SizeIs(1));
  EXPECT_THAT(b.farm->status(b.now).workers, IsEmpty());
  hello("q", "saint", "k");
  EXPECT_THAT(b.sent<wire::Refusal>("q"),
              ElementsAre(wire::Refusal{
                  wire::Refusal::Code::kSuspect,
                  "a worker of this key sent what cannot be, named too many devices, or let too many leases "
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

/// A worker that is another device each time it says HELLO: each would be a row of 16 KiB.
TEST(Farm, HoldsOutAgainstAWorkerOfManyDevices) {
  Bench b;
  b.submit(1);
  size_t devices = 0;
  const auto hello = [&](const Peer& peer, const std::string& name, const std::string& key, size_t device) {
    b.step(Received{
        peer,
        wire::Hello{
            .worker = name, .device = fmt::format(R"({{"host": "{}"}})", device), .backends = {"cpu"}},
        key});
  };
  for (; devices < 2 * defaults::kDevicesToExpel; ++devices) {
    hello("p", "chameleon", "k", devices);
    if (!b.sent<wire::Refusal>("p").empty()) break;
    hello("p", "chameleon", "k", devices);
    EXPECT_THAT(b.sent<wire::Welcome>("p"), SizeIs(1)) << "HELLO is repeated";
  }
  EXPECT_EQ(devices, defaults::kDevicesToExpel);
  EXPECT_EQ(b.sent<wire::Refusal>("p").at(0).code, wire::Refusal::Code::kSuspect);
  for (size_t i = 0; i < defaults::kWorkersLimit / 2; ++i) {
    hello(fmt::format("q{}", i), fmt::format("honest{}", i), "other", i);
    EXPECT_THAT(b.sent<wire::Welcome>(fmt::format("q{}", i)), SizeIs(1)) << "a fleet starts";
  }
}

TEST(Farm, AWorkerThatStartsAgainAndAgainIsOneDevice) {
  Bench b;
  for (size_t life = 0; life < defaults::kDevicesToExpel + 10; ++life) {
    const Peer peer = fmt::format("p{}", life);
    b.step(
        Received{peer, wire::Hello{.worker = "w", .device = R"({"host": "h"})", .backends = {"cpu"}}, "k"});
    ASSERT_THAT(b.sent<wire::Welcome>(peer), SizeIs(1)) << life;
  }
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

}  // namespace
}  // namespace lathe::tracker
