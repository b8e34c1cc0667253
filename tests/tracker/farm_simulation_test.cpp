// The whole farm in one thread and virtual time: a Farm on a MemoryJournal, several Agents, and a network
// that drops, doubles, delays and reorders, while trackers and workers crash. MemoryJournal itself aborts on
// a second terminal record; the checks below see that none is missing and that what the tuner was told is
// what was written.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <random>

#include "core/support/error.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"
#include "workers/agent.h"
#include "workers/confine.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;

struct Faults {
  int drop = 5, twice = 5, delay = 10;  // percent of messages
  int worker_crashes = 6, tracker_crashes = 4, partitions = 3, drains = 2;
  Time until = 60s;  // faults stop; the job must end
};

constexpr int kTrials = 60, kWorkers = 4;

/// What measuring trial `id` gives: the same on every worker, so that results can be checked.
wire::Result truth(TrialId id) {
  wire::Result result{.outcome = static_cast<Outcome>(id % 3 == 0 ? 2 + id % 3 : 0)};
  if (result.outcome == Outcome::kOk) result.samples = {static_cast<float>(id)};
  return result;
}

bool kills_its_worker(TrialId id) { return id == 17; }

class Simulation {
 public:
  Simulation(uint32_t seed, Faults faults) : random_(seed), faults_(faults) {
    start_tracker();
    for (int i = 0; i < kWorkers; ++i) start_worker(i);
    schedule_faults();
    every_tick();
  }

  /// Runs until all trials are terminal; false when that takes an hour of virtual time.
  bool run() {
    submit();
    while (!queue_.empty() && now_ < 3600s) {
      const auto next = queue_.begin();
      now_ = next->first.first;
      const auto action = std::move(next->second);
      queue_.erase(next);
      action();
      if (done()) return true;
    }
    return false;
  }

  const MemoryJournal& journal() const { return journal_; }
  const std::map<TrialId, int>& told() const { return told_; }
  Time now() const { return now_; }
  uint64_t acks_before_commit() const { return early_acks_; }

 private:
  struct Node {
    std::unique_ptr<worker::Agent> agent;
    Peer peer;
    int life = 0;
    bool partitioned = false;
  };

  int percent() { return static_cast<int>(random_() % 100); }
  Time between(Time low, Time high) { return low + Time(random_() % (high - low).count()); }
  void at(Time time, std::function<void()> action) {
    queue_.emplace(std::pair(time, serial_++), std::move(action));
  }

  bool done() const {
    if (journal_.entries().size() < kTrials) return false;
    for (const auto& entry : journal_.entries())
      if (entry.terminal == 0) return false;
    return true;
  }

  // --- tracker
  // ----------------------------------------------------------------------------------------------------
  void start_tracker() { farm_.emplace(journal_.start(), now_); }

  void submit() { step_farm(Submit{journal_.add(/*job=*/1, std::vector<Candidate>(kTrials))}); }

  void step_farm(const Event& event) {
    if (!farm_) return;
    Effects effects;
    farm_->step(event, now_, effects);
    // A crash may fall between the step, its commit, and its messages.
    const bool crashing = crash_tracker_;
    crash_tracker_ = false;
    if (crashing && random_() % 2) return restart_tracker();
    journal_.commit(effects.records);
    if (crashing) return restart_tracker();
    for (const Finished& finished : effects.finished) told_[finished.trial]++;
    for (Outgoing& out : effects.messages) {
      if (const auto* ack = std::get_if<wire::ResultAck>(&out.message); ack && !closed(ack->lease))
        early_acks_++;
      const std::string frame = wire::encode(out.message);
      transmit(out.peer, [this, peer = out.peer, frame] { deliver_to_worker(peer, frame); });
    }
  }

  bool closed(LeaseId lease) const {
    for (const auto& entry : journal_.entries())
      for (const Grant& grant : entry.trial.grants)
        if (grant.lease == lease) return entry.terminal == 1;
    return false;
  }

  void restart_tracker() {
    farm_.reset();
    at(now_ + between(10ms, 20s), [this] { start_tracker(); });
  }

  // --- workers
  // ----------------------------------------------------------------------------------------------------
  void start_worker(int i) {
    Node& node = nodes_[i];
    node.life++;
    node.peer = fmt::format("{}.{}", i, node.life);
    node.agent = std::make_unique<worker::Agent>(
        worker::AgentSettings{
            .name = fmt::format("w{}", i), .device = "{}", .backends = {"cpu"}, .builders = 1 + i % 2u},
        now_);
  }

  void crash_worker(int i) {
    nodes_[i].agent.reset();
    at(now_ + between(10ms, 30s), [this, i] { start_worker(i); });
  }

  void step_agent(int i, const worker::Event& event) {
    Node& node = nodes_[i];
    if (!node.agent) return;
    worker::Actions actions = node.agent->step(event, now_);
    const Peer peer = node.peer;
    for (const wire::Message& message : actions.send) {
      const std::string frame = wire::encode(message);
      transmit(peer, [this, peer, frame] { step_farm(Received{peer, wire::decode(frame)}); });
    }
    for (const wire::Lease& lease : actions.build) {
      trial_of_[lease.lease] = lease.trial;
      later(i, between(50ms, 500ms), worker::Built{lease.lease, {.build_seconds = 0.1}});
    }
    for (LeaseId id : actions.run) {
      if (kills_its_worker(trial_of_[id])) {
        at(now_ + 50ms, [this, i, peer] {
          if (nodes_[i].agent && nodes_[i].peer == peer) crash_worker(i);
        });
      } else {
        later(i, between(50ms, 300ms), worker::Measured{id, truth(trial_of_[id])});
      }
    }
    if (actions.exit) crash_worker(i);
  }

  void later(int i, Time delay, worker::Event event) {
    at(now_ + delay, [this, i, life = nodes_[i].life, event] {
      if (nodes_[i].life == life) step_agent(i, event);
    });
  }

  void deliver_to_worker(const Peer& peer, const std::string& frame) {
    for (int i = 0; i < kWorkers; ++i)
      if (nodes_[i].peer == peer) step_agent(i, wire::decode(frame));
  }

  // --- network and faults
  // -----------------------------------------------------------------------------------------
  void transmit(const Peer& peer, std::function<void()> arrive) {
    const bool rough = now_ < faults_.until;
    if (rough && (nodes_[peer[0] - '0'].partitioned || percent() < faults_.drop)) return;
    const int copies = rough && percent() < faults_.twice ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy)
      at(now_ + (rough && percent() < faults_.delay ? between(100ms, 8s) : between(1ms, 3ms)), arrive);
  }

  void schedule_faults() {
    const auto plan = [&](int count, std::function<void()> fault) {
      for (int i = 0; i < count; ++i) at(between(0s, faults_.until), fault);
    };
    plan(faults_.worker_crashes, [this] {
      const int i = random_() % kWorkers;
      if (nodes_[i].agent) crash_worker(i);
    });
    plan(faults_.tracker_crashes, [this] { crash_tracker_ = true; });
    plan(faults_.partitions, [this] {
      const int i = random_() % kWorkers;
      nodes_[i].partitioned = true;
      at(now_ + between(1s, 30s), [this, i] { nodes_[i].partitioned = false; });
    });
    plan(faults_.drains, [this] { step_agent(random_() % kWorkers, worker::Terminate{}); });
  }

  void every_tick() {
    step_farm(Tick{});
    for (int i = 0; i < kWorkers; ++i) step_agent(i, worker::Tick{});
    at(now_ + defaults::kTick, [this] { every_tick(); });
  }

  std::mt19937 random_;
  Faults faults_;
  Time now_ = 0s;
  uint64_t serial_ = 0;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> queue_;
  MemoryJournal journal_;
  std::optional<Farm> farm_;
  bool crash_tracker_ = false;
  Node nodes_[kWorkers];
  std::map<LeaseId, TrialId> trial_of_;
  std::map<TrialId, int> told_;
  uint64_t early_acks_ = 0;
};

void expect_each_recorded_once(const Simulation& simulation) {
  EXPECT_EQ(simulation.journal().entries().size(), static_cast<size_t>(kTrials));
  for (const auto& entry : simulation.journal().entries()) {
    const TrialId id = entry.trial.trial;
    ASSERT_EQ(entry.terminal, 1) << "trial " << id;
    const wire::Result& result = entry.finished.result;
    if (result.outcome == Outcome::kWorkerLost) {
      const auto& grants = entry.trial.grants;
      EXPECT_EQ(std::count_if(grants.begin(), grants.end(), [](const Grant& g) { return g.lost; }), 3) << id;
    } else {
      EXPECT_FALSE(kills_its_worker(id));
      EXPECT_EQ(result.outcome, truth(id).outcome) << "trial " << id;
      EXPECT_EQ(result.samples, truth(id).samples) << "trial " << id;
    }
  }
  for (const auto& [id, times] : simulation.told()) EXPECT_EQ(times, 1) << "trial " << id;
  EXPECT_EQ(simulation.acks_before_commit(), 0u);
}

TEST(FarmSimulation, CalmSeas) {
  Simulation simulation(1, {.drop = 0,
                            .twice = 0,
                            .delay = 0,
                            .worker_crashes = 0,
                            .tracker_crashes = 0,
                            .partitions = 0,
                            .drains = 0});
  ASSERT_TRUE(simulation.run());
  expect_each_recorded_once(simulation);
  EXPECT_EQ(simulation.told().size(), static_cast<size_t>(kTrials));
}

// LATHE_SIMULATION_SEED=n runs that seed alone; LATHE_SIMULATION_SEEDS=n runs as many.
TEST(FarmSimulation, EveryTrialOnceUnderFaults) {
  const char* one = getenv("LATHE_SIMULATION_SEED");
  const char* many = getenv("LATHE_SIMULATION_SEEDS");
  const uint32_t first = one ? atoi(one) : 1, last = one                 ? first
                                                     : many              ? atoi(many)
                                                     : worker::kConfines ? 2000
                                                                         : 200;
  Time latest{0};
  for (uint32_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(fmt::format("LATHE_SIMULATION_SEED={}", seed));
    Simulation simulation(seed, {});
    ASSERT_TRUE(simulation.run());
    expect_each_recorded_once(simulation);
    latest = std::max(latest, simulation.now());
    if (testing::Test::HasFailure()) break;
  }
  // Nothing waits for the last resort, the longest a lease may take.
  EXPECT_LT(latest, Faults().until + 60s);
}

}  // namespace
}  // namespace lathe::tracker
