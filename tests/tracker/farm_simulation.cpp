#include "tests/tracker/farm_simulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "tests/tracker/history.h"
#include "tests/tracker/memory_journal.h"
#include "tests/tracker/passing_journal.h"
#include "tests/tracker/simulated_races.h"
#include "tracker/carry_out.h"
#include "tracker/defaults.h"
#include "workers/agent.h"

namespace lathe::tracker::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 6, kLiar = kWorkers;  // the liar comes after them
constexpr JobId kJob = 1, kJobToCancel = 2;

/// Of worker i: the first builds for itself alone, the next two also for boards, the fourth for them alone.
bool is_board(int i) { return i == 4 || i == 5; }
bool builds_for_boards(int i) { return i >= 1 && i <= 3; }
bool only_builds(int i) { return i == 3; }
bool is_for_board(TrialId id) { return id % 2 == 0; }
int number_of(const std::string& worker) { return worker[1] - '0'; }
const std::vector<std::string> kTargets = {"cpu", "cpu:triple=aarch64-linux-gnu"};
bool runs(const std::string& worker, const std::string& target) {
  const int i = number_of(worker);
  return target == kTargets[0] ? !only_builds(i) : is_board(i);
}

bool does_both(const std::string& worker, TrialId trial) {
  return !is_for_board(trial) && number_of(worker) < 3;
}
bool fits(const std::string& worker, TrialId trial) {
  const int i = number_of(worker);
  return is_for_board(trial) ? is_board(i) || builds_for_boards(i) : does_both(worker, trial);
}

/// What is built of trial `id`: for one in three pieces.
std::string code_of(TrialId id) {
  std::string code = fmt::format("code of trial {}", id);
  if (id == 40) code.resize(2 * defaults::kChunkBytes + 1000, 'x');
  return code;
}
const std::string kReference = "the reference";

/// What measuring trial `id` gives: the same on every worker, so that results can be checked.
wire::Result truth(TrialId id) {
  wire::Result result{.outcome = id % 3 == 0 ? Outcome::kWrongResult : Outcome::kOk};
  if (result.outcome == Outcome::kOk) result.samples = {static_cast<float>(id)};
  return result;
}

bool kills_its_worker(TrialId id) { return id == 17 || id == 18; }
bool kills_its_builder(TrialId id) { return id == 20; }

/// One for any worker, one for boards, one that takes its workers away, and one whose job is cancelled.
std::vector<RacingSearch> racing_searches(const Faults& faults) {
  std::vector<RacingSearch> searches = {{3, kTargets[0]}, {4, kTargets[1]}};
  if (faults.killers) searches.push_back({5, kTargets[0], /*kills=*/true});
  if (faults.cancels) searches.push_back({6, kTargets[0]});
  return searches;
}

using Frame = std::shared_ptr<const std::string>;

class Simulation final : private Outside, private PassingJournal {
 public:
  Simulation(uint32_t seed, const Faults& faults)
      : PassingJournal(journal_),
        random_(seed),
        faults_(faults),
        races_(racing_searches(faults), runs,
               [this](std::string rule) { history_.violated(std::move(rule)); }) {
    start_tracker();
    for (int i = 0; i < kWorkers; ++i) start_worker(i);
    nodes_[kLiar].peer = fmt::format("{}.1", kLiar);
    at(faults_.submit_at, [this] { submit(kJob, kTrials); });
    schedule_faults();
    every_tick();
  }

  Voyage run() {
    while (now_ < 3600s && history_.violations().empty() && !done()) {
      const auto next = queue_.begin();
      now_ = next->first.first;
      const auto action = std::move(next->second);
      queue_.erase(next);
      action();
    }
    if (history_.violations().empty()) check_end();
    Voyage voyage{history_.violations(), now_, told_, builds_, races_.raced(), {}, {}};
    for (const auto& entry : journal_.entries())
      for (const Grant& grant : entry.trial.grants) voyage.leased.insert(grant.worker);
    for (const Examined& examined : journal_.distrusted()) voyage.distrusted.insert(examined.health.worker);
    return voyage;
  }

 private:
  struct Node {
    std::unique_ptr<worker::Agent> agent;
    Peer peer;
    int life = 0;
    Time clock{0};  // ahead of ours
    bool partitioned = false;
    std::set<LeaseId> built;
  };
  /// The tracker's process is gone.
  struct Crash {};

  int percent() { return static_cast<int>(random_() % 100); }
  Time between(Time low, Time high) { return low + Time(random_() % (high - low).count()); }
  void at(Time time, std::function<void()> action) {
    queue_.emplace(std::pair(time, serial_++), std::move(action));
  }

  bool done() const { return submitted_ == 1 + faults_.cancels && history_.open() == 0 && races_.over(); }

  // --- tracker
  void start_tracker() {
    content_.clear();
    effects_ = {};
    clock_ = between(0s, 1000000s);
    JournalState state = journal_.start();
    history_.at(now_, now_ - slept_);
    history_.tracker_started(state.epoch);
    farm_.emplace(std::move(state), now_ + clock_, faults_.store_bytes);
    races_.tracker_died();
    for (size_t i = 0; i < races_.count(); ++i) at(now_ + between(1s, 6s), [this, i] { race(i); });
  }

  void race(size_t search) {
    if (!awake()) return at(now_ + 1s, [=, this] { race(search); });
    for (const Event& event : races_.ask(search)) step_farm(event);
  }

  void cancel_race(size_t search) {
    if (!awake()) return at(now_ + 1s, [=, this] { cancel_race(search); });
    step_farm(races_.cancel(search));
  }

  /// A client says it again until the tracker is there to hear it.
  void submit(JobId job, int count) {
    if (!awake()) return at(now_ + 1s, [=, this] { submit(job, count); });
    std::vector<Candidate> candidates(count);
    for (int i = 0; i < count; ++i) candidates[i].trace = fmt::format("trace {} of {}", i, job);
    Submit event{journal_.add(job, candidates)};
    for (const Submission& submission : event.trials) history_.submitted(submission.trial, job);
    submitted_++;
    step_farm(event);
  }

  void cancel(JobId job) {
    bool open = false;
    for (const auto& entry : journal_.entries()) open |= entry.trial.spec->job == job && entry.terminal == 0;
    if (submitted_ > 1 && !open) return;
    if (submitted_ > 1 && awake()) {
      history_.asked_to_cancel(job);
      step_farm(CancelJob{job});
    }
    at(now_ + 1s, [=, this] { cancel(job); });
  }

  bool awake() const { return farm_ && now_ >= asleep_until_; }

  void step_farm(const Event& event) {
    if (!farm_) return;
    if (!awake()) return at(asleep_until_, [=, this] { step_farm(event); });
    history_.at(now_, now_ - slept_);
    if (const auto* received = std::get_if<Received>(&event))
      history_.heard(received->peer, received->message);
    const size_t records = effects_.records.size(), messages = effects_.messages.size(),
                 finished = effects_.finished.size();
    farm_->step(event, now_ + clock_, effects_);
    history_.decided(std::span(effects_.records).subspan(records));
    for (const Record& record : std::span(effects_.records).subspan(records)) races_.decided(record);
    for (const Outgoing& out : std::span(effects_.messages).subspan(messages))
      if (const auto* lease = std::get_if<wire::Lease>(&out.message);
          lease && lease->part == wire::Part::kRace)
        races_.decided(fmt::format("w{}", out.peer.substr(0, 1)), *lease);
    for (const Finished& one : std::span(effects_.finished).subspan(finished))
      if (one.trial >= kFirstRace) races_.decided(one);
    if (std::holds_alternative<Tick>(event)) history_.ticked();
    // A busy tracker commits what followed from several messages at once.
    if (!settles_) at(now_ + between(0ms, 3ms), [this, life = life_] { settle(life); });
    settles_ = true;
  }

  void settle(int life) {
    if (life != life_) return;
    settles_ = false;
    try {
      carry_out(std::exchange(effects_, {}), *this, *this);
      history_.carried_out();
    } catch (const Crash&) {
      farm_.reset();
      life_++;
      at(now_ + between(10ms, 20s), [this] { start_tracker(); });
    }
  }

  /// A crash may fall between any two things that the tracker does.
  void maybe_crash() {
    if (!crash_in_ || --*crash_in_ > 0) return;
    crash_in_.reset();
    throw Crash();
  }

  // Journal, on a disk that survives.
  std::vector<LeaseId> commit(std::span<const Record> records) override {
    maybe_crash();
    std::vector<LeaseId> refused = journal_.commit(records);
    history_.committed(records);
    maybe_crash();
    return refused;
  }

  // Outside.
  void store(const StoreChange& change) override {
    maybe_crash();
    if (change.bytes)
      content_[change.digest] = *change.bytes;
    else
      content_.erase(change.digest);
  }
  void log(const std::string&) override {}
  void send(const Outgoing& out) override {
    maybe_crash();
    history_.sent(out);
    to_worker(out.peer, out.message);
  }
  bool send_piece(const Wanted& wanted) override {
    const wire::BlobGet& get = wanted.get;
    if (wanted.file)
      to_worker(wanted.peer, wire::BlobChunk{get.digest, get.offset,
                                             wanted.file->read(get.offset, defaults::kChunkBytes)});
    else if (const auto bytes = content_.find(get.digest); bytes != content_.end())
      to_worker(wanted.peer, wire::chunk_of(bytes->second, get));
    return true;
  }
  void tell(std::vector<Finished> all) override {
    maybe_crash();
    for (const Finished& finished : all)
      if (finished.trial >= kFirstRace)
        races_.told(finished);
      else
        history_.told(finished), told_++;
  }

  // --- workers
  void start_worker(int i) {
    Node& node = nodes_[i];
    node.life++;
    node.peer = fmt::format("{}.{}", i, node.life);
    node.clock = between(0s, 1000000s);
    node.built.clear();
    worker::AgentSettings settings{
        .name = fmt::format("w{}", i),
        .device = fmt::format(R"({{"architecture":"{}"}})", is_board(i) ? "aarch64" : "x86_64"),
        .backends = {"cpu"},
        .runner_only = is_board(i),
        .module_bytes = 1 << 20,
        .builders = is_board(i) ? 0 : 1 + i % 2u};
    if (only_builds(i)) settings.backends.clear();
    if (builds_for_boards(i)) settings.builds = {"cpu/x86_64", "cpu/aarch64"};
    node.agent = std::make_unique<worker::Agent>(settings, now_ + node.clock);
  }

  void crash_worker(int i) {
    nodes_[i].agent.reset();
    at(now_ + between(10ms, 30s), [this, i] { start_worker(i); });
  }

  void step_agent(int i, const worker::Event& event) {
    Node& node = nodes_[i];
    if (!node.agent) return;
    worker::Actions actions = node.agent->step(event, now_ + node.clock);
    for (const wire::Message& message : actions.send) {
      to_tracker(node.peer, message);
      if (now_ < faults_.until && percent() < faults_.lies) lie(message);
    }
    for (const wire::Lease& lease : actions.build) {
      builds_++;
      if (!node.built.insert(lease.lease).second)
        history_.violated(fmt::format("w{} builds for lease {:x} twice", i, lease.lease));
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
      if (run.lease.part == wire::Part::kRace) {
        if (races_.kills(run))
          crash_soon(i);
        else
          later(i, between(500ms, 3s), worker::Measured{run.lease.lease, races_.run(run)});
        continue;
      }
      if (is_board(i) && (*run.artifact != code_of(trial) || *run.reference != kReference))
        history_.violated(fmt::format("w{} runs other code than that of trial {}", i, trial));
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
    return i == faults_.slow_worker && now_ >= faults_.slow_from ? 1.2e-5 : 1e-5;
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

  /// Another worker says what it overheard as its own, with times of its own, and hands back what it never
  /// had.
  void lie(const wire::Message& overheard) {
    const Peer& liar = nodes_[kLiar].peer;
    wire::Hello hello{.worker = fmt::format("w{}", kLiar), .backends = {"cpu"}};
    if (const auto* result = std::get_if<wire::Result>(&overheard)) {
      wire::Result altered = *result;
      altered.outcome = Outcome::kOk;
      altered.samples = {1e6};
      to_tracker(liar, hello);
      to_tracker(liar, altered);
    } else if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&overheard)) {
      hello.holding = heartbeat->holding;
      to_tracker(liar, hello);
      to_tracker(liar, wire::Drain{heartbeat->holding});
    }
  }

  // --- network and faults
  void to_tracker(const Peer& peer, const wire::Message& message) {
    transmit(peer, message, [this, peer](const Frame& frame) {
      step_farm(Received{peer, wire::decode(*frame)});
    });
  }

  void to_worker(const Peer& peer, const wire::Message& message) {
    transmit(peer, message, [this, peer](const Frame& frame) {
      for (int i = 0; i < kWorkers; ++i)
        if (nodes_[i].peer == peer) step_agent(i, wire::decode(*frame));
    });
  }

  void transmit(const Peer& peer, const wire::Message& message, std::function<void(const Frame&)> arrive) {
    const bool rough = now_ < faults_.until;
    if (rough && (nodes_[peer[0] - '0'].partitioned || percent() < faults_.drop)) return;
    const Frame frame = std::make_shared<const std::string>(wire::encode(message));
    const int copies = rough && percent() < faults_.twice ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy)
      at(now_ + (rough && percent() < faults_.delay ? between(100ms, 8s) : between(1ms, 3ms)),
         [arrive, frame] { arrive(frame); });
  }

  void schedule_faults() {
    const auto plan = [&](int count, std::function<void()> fault) {
      for (int i = 0; i < count; ++i) at(between(0s, faults_.until), fault);
    };
    plan(faults_.worker_crashes, [this] {
      const int i = random_() % kWorkers;
      if (nodes_[i].agent) crash_worker(i);
    });
    plan(faults_.tracker_crashes, [this] { crash_in_ = 1 + random_() % 5; });
    plan(faults_.searcher_crashes, [this] {
      if (const size_t i = random_() % races_.count(); races_.waits(i)) race(i);
    });
    plan(faults_.naps, [this] {
      if (!awake()) return;
      asleep_until_ = now_ + between(3s, 25s);
      slept_ += asleep_until_ - now_;
    });
    plan(faults_.partitions, [this] {
      const int i = random_() % kWorkers;
      nodes_[i].partitioned = true;
      at(now_ + between(1s, 30s), [this, i] { nodes_[i].partitioned = false; });
    });
    plan(faults_.drains, [this] { step_agent(random_() % kWorkers, worker::Terminate{}); });
    if (faults_.cancels) {
      const Time when = between(0s, faults_.until);
      at(when, [this] { submit(kJobToCancel, kCancelled); });
      at(when + between(0s, 5s), [this] { cancel(kJobToCancel); });
      // The last; in its race if that comes soon.
      at(between(1s, 12s), [this] { cancel_race(races_.count() - 1); });
    }
  }

  void every_tick() {
    step_farm(Tick{});
    for (int i = 0; i < kWorkers; ++i) step_agent(i, worker::Tick{});
    at(now_ + defaults::kTick, [this] { every_tick(); });
  }

  // --- at the end
  void check_end() {
    if (!races_.over()) return history_.violated("a search waits for its race for ever");
    if (!done()) return history_.violated(fmt::format("{} trials never end", history_.open()));
    // Nothing waits for the last resort, the longest a lease may take.
    if (now_ > std::max(faults_.until, faults_.submit_at) + 90s)
      history_.violated("the last trial comes late");
    for (const auto& entry : journal_.entries()) check_trial(entry);
    if (farm_ &&
        (farm_->open(kJob) > 0 || !races_.none_in(*farm_) || farm_->status(now_ + clock_).leased > 0))
      history_.violated("the farm keeps trials that have ended");
  }

  void check_trial(const MemoryJournal::Entry& entry) {
    const TrialId id = entry.trial.trial;
    const Finished& finished = entry.finished;
    if (entry.terminal != 1) history_.violated(fmt::format("trial {} ended {} times", id, entry.terminal));
    if (finished.trial == 0 && entry.trial.spec->job != kJobToCancel)
      history_.violated(fmt::format("trial {} has no result", id));
    if (finished.trial == 0 || finished.result.outcome == Outcome::kWorkerLost) return;
    if (faults_.killers && (kills_its_worker(id) || kills_its_builder(id)))
      history_.violated(fmt::format("trial {} has a result, though it kills its worker", id));
    if (is_board(number_of(finished.worker)) != is_for_board(id))
      history_.violated(fmt::format("trial {} was measured by {}", id, finished.worker));
    if (finished.result.outcome != truth(id).outcome || finished.result.samples != truth(id).samples)
      history_.violated(fmt::format("trial {} has another result than was measured", id));
  }

  std::mt19937 random_;
  const Faults faults_;
  Time now_ = 0s;
  uint64_t serial_ = 0;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> queue_;

  MemoryJournal journal_{kTargets};
  std::optional<Farm> farm_;
  Effects effects_;  // not carried out yet
  bool settles_ = false;
  int life_ = 0;
  Time clock_{0};  // the tracker's, ahead of ours
  Time asleep_until_{0}, slept_{0};
  std::optional<int> crash_in_;                 // so many things more that it does
  std::map<std::string, std::string> content_;  // its store

  Node nodes_[kWorkers + 1];
  History history_{{.fits = fits,
                    .whole = does_both,
                    .runner_only = [](const std::string& worker) { return is_board(number_of(worker)); },
                    .status = [this] { return farm_->status(now_ + clock_); }}};
  SimulatedRaces races_;
  int submitted_ = 0, told_ = 0, builds_ = 0;
};

}  // namespace

Voyage simulate(uint32_t seed, const Faults& faults) { return Simulation(seed, faults).run(); }

}  // namespace lathe::tracker::testing
