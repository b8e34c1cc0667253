// Who gets the devices: owners by weight, jobs by class of devices.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/tracker/memory_journal.h"
#include "tracker/defaults.h"
#include "tracker/device_choice.h"
#include "tracker/farm.h"
#include "tracker/job_keeper.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;

/// Workers that take their time over each lease, and owners whose queues never run dry.
struct Fleet {
  MemoryJournal journal;
  Time now = 1s;
  Farm farm{journal.start(), now};
  struct Held {
    Peer peer;
    wire::Lease lease;
    Time until;
  };
  std::vector<Held> held;
  std::map<std::string, Time> had;  // device time by owner
  std::map<TrialId, std::string> owners;
  std::map<Peer, Time> pace;    // of a lease
  std::vector<Testimony> said;  // of what is submitted

  void step(const Event& event) {
    Effects effects;
    farm.step(event, now, effects);
    journal.commit(effects.records);
    for (const Outgoing& out : effects.messages)
      if (const auto* lease = std::get_if<wire::Lease>(&out.message))
        held.push_back({out.peer, *lease, now + pace[out.peer]});
  }
  void join(const Peer& peer, uint32_t slots, Time time, const std::string& model, int64_t gib = 8) {
    pace[peer] = time;
    const std::string device =
        fmt::format(R"({{"model": "{0}", "cores": 8, "architecture": "x86_64", "target": "cpu:mcpu={0}",)"
                    R"("memory_bytes": {1}, "kernel": "Linux 6.1.0-13-amd64"}})",
                    model, gib << 30);
    step(Received{peer, wire::Hello{.worker = peer, .device = device, .backends = {"cpu"}}});
    step(Received{peer, wire::Credit{slots}});
  }
  std::vector<TrialId> submit(const std::string& owner, double weight, int count,
                              const std::string& device_class = "",
                              const std::map<std::string, std::string>& needs = {}) {
    std::vector<TrialId> ids;
    std::vector<Submission> trials = journal.add(1, std::vector<Candidate>(static_cast<size_t>(count)));
    for (Submission& trial : trials) {
      TrialSpec spec = *trial.spec;
      spec.target = "cpu";
      spec.owner = owner;
      spec.weight = weight;
      spec.device_class = device_class;
      spec.needs = parse_needs(needs);
      trial.spec = std::make_shared<TrialSpec>(spec);
      trial.said = said;
      owners[trial.trial] = owner;
      ids.push_back(trial.trial);
    }
    step(Submit{trials});
    return ids;
  }
  void pass(Time time) {
    for (const Time end = now + time; now < end;) {
      now += 10ms;
      for (const auto& [peer, lease_time] : pace)
        step(Received{peer, wire::Heartbeat{.holding = holding(peer)}});
      std::vector<Held> due;
      std::erase_if(held, [&](const Held& one) {
        if (one.until > now) return false;
        due.push_back(one);
        return true;
      });
      for (const Held& one : due) {
        had[owners[one.lease.trial]] += pace[one.peer];
        step(Received{one.peer, wire::Result{.lease = one.lease.lease,
                                             .trial = one.lease.trial,
                                             .attempt = one.lease.attempt,
                                             .samples = {1e-3f}}});
      }
    }
  }
  std::vector<uint64_t> holding(const Peer& peer) const {
    std::vector<uint64_t> leases;
    for (const Held& one : held)
      if (one.peer == peer) leases.push_back(one.lease.lease);
    return leases;
  }
  double ratio(const std::string& a, const std::string& b) {
    return static_cast<double>(had[a].count()) / static_cast<double>(had[b].count());
  }
};

TEST(FarmShares, EqualOwnersHaveHalfEachWhateverTheyQueue) {  // F9
  Fleet fleet;
  fleet.join("p", 2, 300ms, "Zen");
  fleet.join("q", 1, 70ms, "Zen");
  fleet.submit("alice", 1, 5000);
  fleet.pass(1s);
  fleet.submit("bob", 1, 1500);  // later, and behind all of alice's
  fleet.had.clear();
  fleet.pass(60s);
  EXPECT_NEAR(fleet.ratio("alice", "bob"), 1, 0.05);
}

TEST(FarmShares, WeightTwoHasTwiceAsMuch) {  // F9
  Fleet fleet;
  fleet.join("p", 3, 200ms, "Zen");
  fleet.submit("alice", 2, 3000);
  fleet.submit("bob", 1, 3000);
  fleet.pass(60s);
  EXPECT_NEAR(fleet.ratio("alice", "bob"), 2, 0.2);
}

/// What a job weighed when it was submitted is of then: it may have been paused for weeks.
TEST(FarmShares, AnOwnerWeighsWhatIsListedNow) {
  Fleet fleet;
  fleet.join("p", 3, 200ms, "Zen");
  fleet.step(Weigh{{{"alice", 2}, {"bob", 1}}});
  fleet.submit("alice", 100, 3000);
  fleet.submit("bob", 1, 3000);
  fleet.pass(60s);
  EXPECT_NEAR(fleet.ratio("alice", "bob"), 2, 0.2);
  fleet.had.clear();
  fleet.step(Weigh{{{"alice", 1}, {"bob", 3}}});
  fleet.pass(60s);
  EXPECT_NEAR(fleet.ratio("bob", "alice"), 3, 0.3);
  EXPECT_EQ(fleet.farm.status(fleet.now).owners.at(0).weight, 1);
}

/// What not all the same workers may have waits in queues of its own.
TEST(FarmShares, OfOneOwnerNoJobWaitsForTheEndOfOthers) {
  Fleet fleet;
  fleet.join("p", 2, 100ms, "Zen");
  fleet.submit("alice", 1, 1500);
  for (const TrialId trial : fleet.submit("alice", 1, 500, "", {{"cores", "2"}}))
    fleet.owners[trial] = "alice's of needs";
  fleet.pass(20s);
  EXPECT_NEAR(fleet.ratio("alice", "alice's of needs"), 1, 0.05);
}

/// Nor may those who come later be held up by what an owner has to be confirmed.
TEST(FarmShares, ConfirmationsArePartOfTheirOwnersShare) {
  Fleet fleet;
  fleet.join("p", 2, 100ms, "Zen");
  fleet.said = {{.worker = "another", .seconds = 1e-3}};
  fleet.submit("alice", 1, 3000);
  fleet.pass(20s);
  fleet.said.clear();
  fleet.submit("bob", 1, 1000);
  fleet.had.clear();
  fleet.pass(20s);
  EXPECT_NEAR(fleet.ratio("alice", "bob"), 1, 0.05);
}

TEST(FarmShares, WhoHadNothingToDoHasSavedNothingUp) {
  Fleet fleet;
  fleet.join("p", 1, 100ms, "Zen");
  fleet.submit("bob", 1, 1);
  fleet.submit("alice", 1, 3000);
  fleet.pass(100s);
  fleet.had.clear();
  fleet.submit("bob", 1, 3000);
  fleet.pass(20s);
  EXPECT_NEAR(fleet.ratio("alice", "bob"), 1, 0.05);
}

/// Beside an owner of ten times their weight with a full queue: as many newcomers as there are leases in 26
/// seconds, each with more to do than one lease.
TEST(FarmShares, NobodyWaitsHalfAMinuteForTheFirstLease) {  // F9
  Fleet fleet;
  fleet.join("p", 2, 2s, "Zen");
  fleet.submit("heavy", 10, 5000);
  fleet.pass(20s);
  for (int i = 0; i < 25; ++i) fleet.submit(fmt::format("newcomer {}", i), 1, 10);
  fleet.pass(30s);
  std::set<std::string> served;
  for (const auto& [owner, time] : fleet.had) served.insert(owner);
  for (const Fleet::Held& one : fleet.held) served.insert(fleet.owners[one.lease.trial]);
  for (int i = 0; i < 25; ++i) EXPECT_TRUE(served.contains(fmt::format("newcomer {}", i))) << i;
}

TEST(FarmShares, AJobIsMeasuredByItsClassOfDevicesAlone) {
  Fleet fleet;
  fleet.join("p", 2, 100ms, "Zen");
  fleet.join("q", 2, 100ms, "Core");
  fleet.submit("alice", 1, 20, "Core, 8 cores");
  EXPECT_EQ(fleet.holding("p").size(), 0u);
  EXPECT_EQ(fleet.holding("q").size(), 2u);
  fleet.submit("bob", 1, 20);
  EXPECT_EQ(fleet.holding("p").size(), 2u);  // any will do
  fleet.pass(10s);
  EXPECT_EQ(fleet.farm.open(1), 0u);
}

TEST(FarmShares, AJobOfSomeNeedsIsMeasuredByWhoHasAsMuch) {  // F11
  Fleet fleet;
  fleet.join("small", 2, 100ms, "Zen", 8);
  fleet.submit("alice", 1, 20, "Zen, 8 cores", {{"memory", "16GiB"}});
  EXPECT_EQ(fleet.holding("small").size(), 0u);
  EXPECT_EQ(unserved_text(fleet.farm.status(fleet.now)),
            "no worker is cpu (Zen, 8 cores) with memory of 16 GiB or more: start one with `tune worker "
            "--tracker ...` on such a machine");
  fleet.join("large", 2, 100ms, "Zen", 16);
  EXPECT_EQ(fleet.holding("large").size(), 2u);
  EXPECT_EQ(unserved_text(fleet.farm.status(fleet.now)), "");
  fleet.pass(10s);
  EXPECT_EQ(fleet.farm.open(1), 0u);
}

TEST(DeviceClass, OfTheWorkersThatFitTheOneWithTheMostSlots) {
  Fleet fleet;
  std::string why;
  const auto choose = [&](const std::string& target, const std::string& wanted,
                          const std::map<std::string, std::string>& needs = {}) {
    const auto found =
        choose_device_class(fleet.farm.status(fleet.now), target, wanted, parse_needs(needs), {}, why);
    return found ? found->name : "";
  };
  EXPECT_EQ(choose("cpu", ""), "");
  EXPECT_EQ(why, "no worker is cpu: start one with `tune worker --tracker ...` on such a machine");
  fleet.join("p", 2, 100ms, "Zen");
  fleet.join("q", 3, 100ms, "Core");
  fleet.join("r", 2, 100ms, "Zen");
  EXPECT_EQ(choose("cpu", ""), "Zen, 8 cores");
  EXPECT_EQ(choose("cpu", "Core"), "Core, 8 cores");
  EXPECT_EQ(choose("cpu:triple=x86_64-linux-gnu,mcpu=haswell", "Core"), "Core, 8 cores");
  EXPECT_EQ(choose("cpu", "Coer"), "");
  EXPECT_EQ(why, "no device is called `Coer`; there are: Core, 8 cores; Zen, 8 cores");
  EXPECT_EQ(choose("cpu", std::string(100'000, 'x')), "");
  EXPECT_EQ(why, "no device is called `" + std::string(80, 'x') +
                     "... (100000 bytes)`; there are: Core, 8 cores; Zen, 8 cores");
  fleet.join("s", 1, 100ms, "Zen", 64);
  EXPECT_EQ(choose("cpu", "", {{"memory", "48GiB"}, {"driver", "6.1"}}), "Zen, 8 cores");
  EXPECT_EQ(choose("cpu", "", {{"memory", "65GiB"}, {"driver", "6.2"}}), "");
  EXPECT_EQ(why,
            "no device has driver 6.2 or newer and memory of 65 GiB or more; without are: Core, 8 cores; "
            "Zen, 8 cores");
  EXPECT_EQ(choose("cpu", "Core", {{"cores", "8"}}), "Core, 8 cores");
  EXPECT_EQ(choose("cpu", "", {{"cores", "9"}}), "");
  EXPECT_EQ(why, "no device has 9 cores or more; without are: Core, 8 cores; Zen, 8 cores");
  EXPECT_EQ(choose("cpu:triple=aarch64-linux-gnu", ""), "");
  EXPECT_EQ(why, "no worker is cpu/aarch64: start one with `tune worker --tracker ...` on such a machine");
}

TEST(DeviceClass, WorkersThatAnswerComeBeforeThoseThatLetLeasesPass) {
  Fleet fleet;
  std::string why;
  const auto choice = [&] {
    return choose_device_class(fleet.farm.status(fleet.now), "cpu", "", {}, {}, why).value().name;
  };
  fleet.join("p", 2, 100ms, "Zen");
  fleet.join("q", 3, 10'000s, "Core");
  EXPECT_EQ(choice(), "Core, 8 cores");
  fleet.submit("a", 1, 1, "Core, 8 cores");
  fleet.pass(defaults::kLeaseLimit + 1s);
  fleet.step(Tick{});
  EXPECT_EQ(choice(), "Zen, 8 cores");
  fleet.pace["q"] = 100ms;
  fleet.submit("a", 1, 1, "Core, 8 cores");
  fleet.pass(10s);
  EXPECT_EQ(choice(), "Core, 8 cores") << "it has measured since";
}

/// Each search asks how many slots there are, several times a second, and a device's text has up to 64 KiB.
TEST(DeviceClass, WhatWorkersToldIsSharedWithWhoeverAsks) {
  Fleet fleet;
  fleet.join("p", 2, 100ms, "Zen");
  const FarmStatus first = fleet.farm.status(fleet.now), second = fleet.farm.status(fleet.now);
  ASSERT_EQ(first.workers.size(), 1u);
  EXPECT_EQ(first.workers[0].device, second.workers[0].device) << "one text in memory";
  EXPECT_EQ(first.workers[0].device->its_class.name, first.workers[0].device_class);
}

TEST(DeviceClass, NoneThatLacksWhatTheTargetsCodeUses) {
  Fleet fleet;
  std::string why;
  const LackingFeatures lacking = [](const std::string& target, const std::string& device) {
    const bool able = target.ends_with("znver4") ? device.ends_with("Zen") : true;
    return able ? std::vector<std::string>() : std::vector<std::string>{"avx512_bf16", "sse4a"};
  };
  const auto choose = [&](const std::string& cpu) {
    const auto found = choose_device_class(fleet.farm.status(fleet.now),
                                           "cpu:triple=x86_64-linux-gnu,mcpu=" + cpu, "", {}, lacking, why);
    return found ? found->name : "";
  };
  fleet.join("q", 3, 100ms, "Core");
  EXPECT_EQ(choose("haswell"), "Core, 8 cores");
  EXPECT_EQ(choose("znver4"), "");
  EXPECT_EQ(why, "no device runs code for this target; Core, 8 cores lacks avx512_bf16, sse4a");
  fleet.join("p", 2, 100ms, "Zen");
  EXPECT_EQ(choose("znver4"), "Zen, 8 cores");
}

TEST(DeviceClass, ARunnerLeavesTheCpuToTheJob) {
  FarmStatus farm;
  farm.workers.push_back({.name = "board",
                          .device = std::make_shared<const ToldDevice>(
                              R"({"model": "A76", "cores": 4, "architecture": "x86_64"})"),
                          .backends = {"cpu"},
                          .runner_only = true});
  std::string why;
  EXPECT_FALSE(choose_device_class(farm, "cpu", "", {}, {}, why));
  EXPECT_EQ(why,
            "the workers board only run code, and do not say which CPU they are: name it, as in "
            "--target cpu:mcpu=NAME");
}

TEST(DeviceClass, AnOlderReleasesDeviceIsNamed) {
  FarmStatus farm;
  farm.workers.push_back({.name = "old",
                          .device = std::make_shared<const ToldDevice>(
                              R"({"model": "Zen", "cores": 8, "architecture": "x86_64"})"),
                          .backends = {"cpu"}});
  std::string why;
  EXPECT_FALSE(choose_device_class(farm, "cpu", "", {}, {}, why));
  EXPECT_EQ(why,
            "of an older release, which does not say what it compiles for, are the workers old: update them");
}

}  // namespace
}  // namespace lathe::tracker
