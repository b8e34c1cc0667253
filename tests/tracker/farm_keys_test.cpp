// What the keys of workers allow them, while they change.
#include "tests/tracker/farm_bench.h"

namespace lathe::tracker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Code = wire::Refusal::Code;

struct Keys : testing::Test {
  Bench b;
  std::map<std::string, Principal> keys = {{"lab key", {.name = "lab", .role = Role::kWorker}},
                                           {"other key", {.name = "other", .role = Role::kWorker}}};

  Keys() { list(); }
  void list() { b.step(Admit{keys}); }
  void hello(const Peer& peer, const std::string& name, const std::string& key) {
    b.step(Received{peer, wire::Hello{.worker = name, .device = "{}", .backends = {"cpu"}}, key});
  }
  void credit(const Peer& peer, const std::string& key, uint32_t slots) {
    b.step(Received{peer, wire::Credit{slots}, key});
  }
  std::vector<std::string> workers() const {
    std::vector<std::string> names;
    for (const WorkerStatus& worker : b.farm->status(b.now).workers) names.push_back(worker.name);
    return names;
  }
};

TEST_F(Keys, ARevokedOneLosesItsWorkersUnblamed) {
  hello("p", "v", "lab key");
  credit("p", "lab key", 1);
  b.submit(1);
  const wire::Lease lease = b.lease("p");
  hello("q", "w", "other key");
  credit("q", "other key", 1);
  keys.erase("lab key");
  list();
  EXPECT_THAT(workers(), ElementsAre("w"));
  EXPECT_THAT(b.last.notes, ElementsAre("worker v is cut off: its key is not listed any more"));
  EXPECT_EQ(b.lease("q").trial, lease.trial) << "it goes to the other at once";
  EXPECT_FALSE(b.journal.entries()[0].trial.grants[0].lost);
  b.step(Received{"p", b.ok(lease), "lab key"});
  EXPECT_THAT(b.last.finished, IsEmpty()) << "nothing it sends counts";
  hello("p", "v", "lab key");
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{Code::kNotAllowed, "the key of worker `v` is not listed any more"}));
  b.step(Received{"p", b.ok(lease), "lab key"});
  EXPECT_THAT(b.last.finished, IsEmpty());
}

/// A machine gets a new key, and keeps its name.
TEST_F(Keys, ANameOutlivesARevokedKey) {
  hello("p", "v", "lab key");
  hello("q", "v", "other key");
  EXPECT_EQ(b.sent<wire::Refusal>("q").at(0).text, "the name `v` belongs to a worker with another key");
  keys.erase("lab key");
  list();
  hello("q", "v", "other key");
  EXPECT_THAT(b.sent<wire::Welcome>("q"), SizeIs(1));
}

TEST_F(Keys, AConnectionIsOneWorker) {
  hello("p", "v", "lab key");
  hello("p", "w", "lab key");
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{Code::kNotAllowed,
                                        "the worker `v` calls itself `w` on the same connection"}));
  hello("p", "v", "lab key");
  EXPECT_THAT(b.sent<wire::Welcome>("p"), SizeIs(1));
  EXPECT_THAT(workers(), ElementsAre("v"));
}

/// Whoever makes names up fills no memory but with their own.
TEST_F(Keys, ManyNamesOfSomeMakeNobodyAStranger) {
  const auto leave = [&](const Peer& peer, const std::string& key) {
    b.step(Received{peer, wire::Bye{}, key});
  };
  constexpr int kHelpers = 3;
  for (int i = 0; i < kHelpers; ++i) keys[fmt::format("{}", i)] = {.name = "helper", .role = Role::kWorker};
  list();
  hello("p", "honest", "lab key");
  leave("p", "lab key");
  hello("p", "suspect", "0");
  for (uint32_t i = 1; i <= 7; ++i)
    b.step(Received{"p", wire::Canary{i, 1, i <= 5 ? 1e-5 : 2e-5, 1e-5}, "0"});
  ASSERT_EQ(b.farm->status(b.now).workers.at(0).state(), "suspect");
  leave("p", "0");
  // Each names as many devices as one may.
  constexpr size_t kNames = defaults::kDevicesToExpel - 1;
  static_assert(kHelpers * kNames > defaults::kNamesRemembered);
  for (int i = 0; i < kHelpers; ++i)
    for (size_t name = 0; name < kNames; ++name) {
      hello("q", fmt::format("{} {}", i, name), fmt::format("{}", i));
      leave("q", fmt::format("{}", i));
    }
  EXPECT_FALSE(b.farm->knows("0 0")) << "it has gone for others";
  hello("p", "honest", "other key");
  EXPECT_THAT(b.sent<wire::Refusal>("p"), SizeIs(1)) << "the name is the lab's";
  hello("p", "suspect", "0");
  EXPECT_EQ(b.farm->status(b.now).workers.at(0).state(), "suspect");
}

TEST_F(Keys, OnlySomeRolesMeasure) {
  keys["lab key"].role = Role::kViewer;
  keys["other key"].role = Role::kAdmin;
  list();
  hello("p", "v", "lab key");
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{Code::kNotAllowed,
                                        "the key of worker `v` is lab's, a viewer, who may not measure"}));
  hello("q", "w", "other key");
  EXPECT_THAT(workers(), ElementsAre("w"));
  keys["other key"].role = Role::kSubmitter;
  list();
  EXPECT_EQ(b.sent<wire::Refusal>("q").at(0).code, Code::kNotAllowed) << "its role has changed";
  EXPECT_THAT(workers(), IsEmpty());
}

TEST_F(Keys, HaveSoManyWorkers) {
  keys["lab key"].workers = 2;
  list();
  hello("p", "u", "lab key");
  b.pass(std::chrono::seconds(1));
  hello("q", "v", "lab key");
  hello("r", "w", "lab key");
  EXPECT_THAT(
      b.sent<wire::Refusal>("r"),
      ElementsAre(wire::Refusal{Code::kFull, "lab may have 2 workers at once, and worker `w` is one more"}));
  hello("q2", "v", "lab key");
  EXPECT_THAT(workers(), ElementsAre("u", "v")) << "started again, it is no more than it was";
  hello("s", "x", "other key");
  EXPECT_THAT(workers(), SizeIs(3)) << "caps are of one key";
  keys["lab key"].workers = 1;
  list();
  EXPECT_EQ(b.sent<wire::Refusal>("q2").at(0).code, Code::kFull);
  EXPECT_THAT(workers(), ElementsAre("u", "x")) << "the newest goes";
}

TEST_F(Keys, HoldSoManyLeases) {
  keys["lab key"].slots = 3;
  list();
  hello("p", "v", "lab key");
  credit("p", "lab key", 2);
  EXPECT_THAT(b.sent<wire::Refusal>("p"), IsEmpty());
  hello("q", "w", "lab key");
  credit("q", "lab key", 9);
  const std::string said = "worker `w` asks for 9 leases at once and gets 1: lab may have 3 in all";
  EXPECT_THAT(b.sent<wire::Refusal>("q"), ElementsAre(wire::Refusal{Code::kPaused, said}));
  EXPECT_THAT(b.last.notes, ElementsAre(said));
  b.submit(10);
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(2));
  EXPECT_THAT(b.sent<wire::Lease>("q"), SizeIs(1));
  credit("q", "lab key", 9);
  EXPECT_THAT(b.sent<wire::Refusal>("q"), IsEmpty()) << "it is told once";
  b.step(Received{"p", wire::Bye{}, "lab key"});
  credit("q", "lab key", 9);
  EXPECT_THAT(b.sent<wire::Lease>("q"), SizeIs(2)) << "what another leaves is its to have";
  keys["lab key"].slots = 0;
  list();
  credit("q", "lab key", 9);
  EXPECT_EQ(b.farm->status(b.now).slots, 0u);
}

/// One of two takes leases and then says that it wants none, so that the other may have as many.
TEST_F(Keys, HoldNoMoreByTakingTurns) {
  keys["lab key"].slots = 3;
  list();
  hello("p", "v", "lab key");
  credit("p", "lab key", 3);
  b.submit(10);
  EXPECT_THAT(b.sent<wire::Lease>("p"), SizeIs(3));
  credit("p", "lab key", 0);
  hello("q", "w", "lab key");
  credit("q", "lab key", 3);
  EXPECT_THAT(b.sent<wire::Lease>("q"), IsEmpty());
}

TEST_F(Keys, KeepNames) {
  keys["lab key"].worker_names = "lab-*";
  list();
  hello("p", "mine", "lab key");
  EXPECT_THAT(b.sent<wire::Refusal>("p"),
              ElementsAre(wire::Refusal{Code::kNotAllowed, "workers of lab are called `lab-*`, not `mine`"}));
  hello("q", "lab-1", "other key");
  EXPECT_THAT(b.sent<wire::Refusal>("q"),
              ElementsAre(wire::Refusal{Code::kNotAllowed, "the name `lab-1` is kept for lab"}));
  hello("p", "lab-1", "lab key");
  EXPECT_THAT(workers(), ElementsAre("lab-1"));
}

/// A worker of version 1 knows no such code, and gives up for another one that it knows.
TEST_F(Keys, RefuseOldWorkersInTheirWords) {
  keys["lab key"].role = Role::kViewer;
  list();
  b.step(Received{"p", wire::Hello{.newest_version = 1, .worker = "v", .device = "{}"}, "lab key"});
  EXPECT_EQ(b.sent<wire::Refusal>("p").at(0).code, Code::kVersion);
}

/// Two workers of one key that come anew each time they hold leases, as the word of one against every
/// candidate.
TEST_F(Keys, OneAloneQuarantinesNothing) {
  hello("p1", "v", "lab key");
  credit("p1", "lab key", 1);
  b.submit(1);
  hello("o", "other", "other key");
  credit("o", "other key", 1);
  b.submit(1);  // keeps the other busy
  const wire::Lease busy = b.lease("o");
  hello("q1", "w", "lab key");
  credit("q1", "lab key", 1);
  hello("p2", "v", "lab key");
  credit("p2", "lab key", 1);
  const auto& entry = b.journal.entries()[0];
  const auto wait = [&] {
    b.step(Received{"o", wire::Heartbeat{{busy.lease}}, "other key"});
    b.pass(defaults::kPreferOther);
  };
  wait();
  ASSERT_THAT(entry.trial.grants, SizeIs(2)) << "for a while it waits for somebody else, not longer";
  for (int round = 0; round < 4; ++round) {
    for (const auto& [peer, name] : {std::pair<Peer, std::string>("p", "v"), {"q", "w"}}) {
      hello(peer + fmt::format("again {}", round), name, "lab key");
      credit(peer + fmt::format("again {}", round), "lab key", 1);
    }
    wait();
  }
  EXPECT_THAT(entry.trial.grants, SizeIs(2))
      << "the third time it is somebody else's, however long that takes";
  EXPECT_EQ(entry.terminal, 0);
  b.step(Received{"o", b.ok(busy), "other key"});
  const wire::Lease lease = b.lease("o");
  EXPECT_EQ(lease.trial, entry.trial.trial);
  b.step(Received{"o", b.ok(lease), "other key"});
  EXPECT_EQ(entry.finished.result.outcome, Outcome::kOk);
}

/// Two keys of one owner that come anew each time they hold leases, as two of one key do.
TEST_F(Keys, OneOwnerQuarantinesNothing) {
  keys["lab's second key"] = {.name = "lab", .role = Role::kWorker};
  list();
  hello("o", "other", "other key");
  credit("o", "other key", 1);
  b.submit(1);  // keeps the other busy
  const wire::Lease busy = b.lease("o");
  b.submit(1);
  for (int round = 0; round < 6; ++round)
    for (const auto& [name, key] :
         {std::pair<std::string, std::string>("v", "lab key"), {"w", "lab's second key"}}) {
      hello(name + std::to_string(round), name, key);
      credit(name + std::to_string(round), key, 1);
      b.step(Received{"o", wire::Heartbeat{{busy.lease}}, "other key"});
      b.pass(defaults::kPreferOther);
    }
  EXPECT_EQ(b.journal.entries()[1].terminal, 0) << "the third time it is somebody else's";
  EXPECT_THAT(b.journal.entries()[1].trial.grants, SizeIs(2));
}

/// What two workers say is told to others, if they are not one owner's.
TEST_F(Keys, OneOwnerIsOneVoice) {
  keys["lab's second key"] = {.name = "lab", .role = Role::kWorker};
  list();
  const std::pair<std::string, std::string> workers[] = {
      {"v", "lab key"}, {"w", "lab's second key"}, {"o", "other key"}, {"v", "lab key"}};
  std::vector<double> incumbents;
  for (int i = 0; const auto& [name, key] : workers) {
    const Peer peer = std::to_string(i++);
    hello(peer, name, key);
    credit(peer, key, 1);
    Candidate candidate{.workload = 7, .trace = peer};
    candidate.evaluation.incumbent_seconds = wire::kNoIncumbent;
    b.step(Submit{b.journal.add(1, std::vector{candidate})});
    const wire::Lease lease = b.lease(peer);
    incumbents.push_back(lease.evaluation.incumbent_seconds);
    b.step(Received{peer, b.ok(lease), key});
    b.step(Received{peer, wire::Bye{}, key});
  }
  EXPECT_EQ(incumbents[2], wire::kNoIncumbent) << "nothing is told of what one owner says alone";
  EXPECT_LT(incumbents[3], wire::kNoIncumbent);
}

/// Nor is anybody found out by it.
TEST_F(Keys, OneOwnerContradictsNobody) {
  keys["lab's second key"] = {.name = "lab", .role = Role::kWorker};
  keys["a third key"] = {.name = "third", .role = Role::kWorker};
  list();
  const auto state_of = [&](const std::string& worker) {
    for (const WorkerStatus& each : b.farm->status(b.now).workers)
      if (each.name == worker) return std::string(each.state());
    return std::string("gone");
  };
  const std::string device = R"({"model":"m","cores":2})";
  for (const auto& [name, key] : {std::pair<std::string, std::string>("honest", "other key"),
                                  {"v", "lab key"},
                                  {"w", "lab's second key"},
                                  {"x", "a third key"}}) {
    b.step(Received{name, wire::Hello{.worker = name, .device = device, .backends = {"cpu"}}, key});
    for (uint32_t i = 1; i <= 5; ++i) b.step(Received{name, wire::Canary{i, 1, 1e-5, 1e-5}, key});
  }
  std::vector<Testimony> said;
  const auto measure = [&](const std::string& name, const std::string& key, float seconds) {
    b.step(Received{name, wire::Credit{1}, key});
    const Candidate candidate{.trace = name};
    std::vector<Submission> trials = b.journal.add(1, std::span(&candidate, 1));
    trials[0].said = said;
    b.step(Submit{trials});
    wire::Result result = b.ok(b.lease(name));
    result.samples = {seconds};
    b.step(Received{name, result, key});
    b.step(Received{name, wire::Credit{0}, key});
    said.push_back({name, "m, 2 cores", seconds});
  };
  measure("honest", "other key", 1e-3f);
  measure("v", "lab key", 4e-3f);
  measure("w", "lab's second key", 4e-3f);
  EXPECT_EQ(state_of("honest"), "ready");
  measure("x", "a third key", 4e-3f);
  EXPECT_EQ(state_of("honest"), "suspect") << "two owners do";
}

/// A candidate that does kill its workers still ends, where one key is all there is.
TEST_F(Keys, TheOnlyOnesLossesCount) {
  b.submit(1);
  for (int life = 0; life < 3; ++life) {
    hello(fmt::format("p{}", life), "v", "lab key");
    credit(fmt::format("p{}", life), "lab key", 1);
  }
  EXPECT_EQ(b.journal.entries()[0].terminal, 0);
  hello("p3", "v", "lab key");
  EXPECT_EQ(b.journal.entries()[0].finished.result.outcome, Outcome::kWorkerLost);
}

}  // namespace
}  // namespace lathe::tracker
