// The whole farm in one thread and virtual time: a Farm on a MemoryJournal, several Agents, and a network
// that drops, doubles, delays and reorders, while trackers and workers crash. MemoryJournal itself aborts on
// a second terminal record; the checks below see that none is missing and that what the tuner was told is
// what was written. Every other trial is for boards, which only run what workers of the other kind build.
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
  bool killers = true;                               // candidates that take their workers away
  uint64_t store_bytes = 2 * defaults::kChunkBytes;  // less than all builds
  int slow_worker = -1;                              // whose canaries are 20% slower for a while
  Time slow_from = 0s, slow_until = 3600s;
  Time submit_at = 0s;
  Time until = 60s;  // faults stop; the job must end
};

constexpr int kTrials = 60, kWorkers = 6;

/// Of worker i: the first builds for itself alone, the next two also for boards, the fourth for them alone.
bool is_board(int i) { return i >= 4; }
bool builds_for_boards(int i) { return i >= 1 && i <= 3; }
bool only_builds(int i) { return i == 3; }
bool is_for_board(TrialId id) { return id % 2 == 0; }
const std::vector<std::string> kTargets = {"cpu", "cpu:triple=aarch64-linux-gnu"};

/// What is built of trial `id`: for some more than one piece.
std::string code_of(TrialId id) {
  std::string code = fmt::format("code of trial {}", id);
  if (id % 20 == 0) code.resize(defaults::kChunkBytes + 1000, 'x');
  return code;
}
const std::string kReference = "the reference";

/// What measuring trial `id` gives: the same on every worker, so that results can be checked.
wire::Result truth(TrialId id) {
  wire::Result result{.outcome = static_cast<Outcome>(id % 3 == 0 ? 2 + id % 3 : 0)};
  if (result.outcome == Outcome::kOk) result.samples = {static_cast<float>(id)};
  return result;
}

bool kills_its_worker(TrialId id) { return id == 17 || id == 18; }
bool kills_its_builder(TrialId id) { return id == 20; }

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
    at(faults_.submit_at, [this] { submit(); });
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
  uint64_t runs_of_wrong_code() const { return wrong_code_; }
  uint64_t builds() const { return builds_; }
  bool has_killers() const { return faults_.killers; }

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
  void start_tracker() {
    content_.clear();
    farm_.emplace(journal_.start(), now_, faults_.store_bytes);
  }

  void submit() {
    std::vector<Candidate> candidates(kTrials);
    for (int i = 0; i < kTrials; ++i) candidates[i].trace = fmt::format("trace {}", i);
    step_farm(Submit{journal_.add(/*job=*/1, candidates)});
  }

  void step_farm(const Event& event) {
    if (!farm_) return;
    Effects effects;
    farm_->step(event, now_, effects);
    // A crash may fall between the step, its commit, and its messages.
    const bool crashing = crash_tracker_;
    crash_tracker_ = false;
    if (crashing && random_() % 2) return restart_tracker();
    for (const StoreChange& change : effects.stored) {
      if (change.bytes)
        content_[change.digest] = *change.bytes;
      else
        content_.erase(change.digest);
    }
    journal_.commit(effects.records);
    if (crashing) return restart_tracker();
    for (const Finished& finished : effects.finished) told_[finished.trial]++;
    for (Outgoing& out : effects.messages) {
      if (const auto* ack = std::get_if<wire::ResultAck>(&out.message); ack && !closed(ack->lease))
        early_acks_++;
      const std::string frame = wire::encode(out.message);
      transmit(out.peer, [this, peer = out.peer, frame] { deliver_to_worker(peer, frame); });
    }
    for (const Wanted& wanted : effects.wanted) {
      const auto bytes = content_.find(wanted.get.digest);
      if (bytes == content_.end()) continue;
      const std::string frame = wire::encode(wire::chunk_of(bytes->second, wanted.get));
      transmit(wanted.peer, [this, peer = wanted.peer, frame] { deliver_to_worker(peer, frame); });
    }
  }

  /// Whether what was done under the lease is over: the trial, or its build.
  bool closed(LeaseId lease) const {
    for (const auto& entry : journal_.entries())
      for (const Grant& grant : entry.trial.grants)
        if (grant.lease == lease)
          return entry.terminal == 1 || !entry.trial.leased || entry.trial.grants.back().lease != lease;
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
    worker::AgentSettings settings{
        .name = fmt::format("w{}", i),
        .device = fmt::format(R"({{"architecture":"{}"}})", is_board(i) ? "aarch64" : "x86_64"),
        .backends = {"cpu"},
        .runner_only = is_board(i),
        .builders = is_board(i) ? 0 : 1 + i % 2u};
    if (only_builds(i)) settings.backends.clear();
    if (builds_for_boards(i)) settings.builds = {"cpu/x86_64", "cpu/aarch64"};
    node.agent = std::make_unique<worker::Agent>(settings, now_);
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
      builds_++;
      worker::Built built{lease.lease, {.build_seconds = 0.1}};
      if (lease.part == wire::Part::kBuild)
        built.artifact = code_of(lease.trial), built.reference = kReference;
      if (faults_.killers && kills_its_builder(lease.trial))
        crash_soon(i);
      else
        later(i, between(50ms, 500ms), built);
    }
    for (const worker::Run& run : actions.run) {
      const TrialId trial = run.lease.trial;
      if (is_board(i)) wrong_code_ += *run.artifact != code_of(trial) || *run.reference != kReference;
      if (faults_.killers && kills_its_worker(trial))
        crash_soon(i);
      else
        later(i, between(50ms, 300ms), worker::Measured{run.lease.lease, truth(trial)});
    }
    if (actions.canary)
      later(
          i, between(15ms, 30ms),
          worker::CanaryEnded{{.kernels = 1, .compute_seconds = canary_seconds(i), .memory_seconds = 1e-5}});
    if (actions.exit) crash_worker(i);
  }

  double canary_seconds(int i) const {
    return i == faults_.slow_worker && now_ >= faults_.slow_from && now_ < faults_.slow_until ? 1.2e-5 : 1e-5;
  }

  void crash_soon(int i) {
    at(now_ + 50ms, [this, i, peer = nodes_[i].peer] {
      if (nodes_[i].agent && nodes_[i].peer == peer) crash_worker(i);
    });
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
  MemoryJournal journal_{kTargets};
  std::optional<Farm> farm_;
  bool crash_tracker_ = false;
  Node nodes_[kWorkers];
  std::map<std::string, std::string> content_;  // the tracker's store
  std::map<TrialId, int> told_;
  uint64_t early_acks_ = 0, wrong_code_ = 0, builds_ = 0;
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
      EXPECT_FALSE(simulation.has_killers() && (kills_its_worker(id) || kills_its_builder(id)));
      EXPECT_EQ(is_board(entry.finished.worker[1] - '0'), is_for_board(id)) << "trial " << id;
      EXPECT_EQ(result.outcome, truth(id).outcome) << "trial " << id;
      EXPECT_EQ(result.samples, truth(id).samples) << "trial " << id;
    }
  }
  for (const auto& [id, times] : simulation.told()) EXPECT_EQ(times, 1) << "trial " << id;
  EXPECT_EQ(simulation.acks_before_commit(), 0u);
  EXPECT_EQ(simulation.runs_of_wrong_code(), 0u);
}

TEST(FarmSimulation, CalmSeas) {
  Simulation simulation(1, {.drop = 0,
                            .twice = 0,
                            .delay = 0,
                            .worker_crashes = 0,
                            .tracker_crashes = 0,
                            .partitions = 0,
                            .drains = 0,
                            .killers = false,
                            .store_bytes = defaults::kTrackerStoreBytes});
  ASSERT_TRUE(simulation.run());
  expect_each_recorded_once(simulation);
  EXPECT_EQ(simulation.told().size(), static_cast<size_t>(kTrials));
  EXPECT_EQ(simulation.builds(), static_cast<uint64_t>(kTrials));
}

// A worker whose device is slower for a while gets nothing meanwhile, and the job ends all the same.
TEST(FarmSimulation, ASlowWorkerIsLeftOut) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Simulation simulation(seed, {.slow_worker = 0, .slow_from = 200s, .submit_at = 230s});
    ASSERT_TRUE(simulation.run());
    expect_each_recorded_once(simulation);
    ASSERT_EQ(simulation.journal().distrusted().size(), 1u);
    EXPECT_EQ(simulation.journal().distrusted()[0].health.worker, "w0");
    for (const auto& entry : simulation.journal().entries())
      for (const Grant& grant : entry.trial.grants) EXPECT_NE(grant.worker, "w0");
    if (testing::Test::HasFailure()) break;
  }
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
