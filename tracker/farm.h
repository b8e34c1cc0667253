// The core of the tracker: which trial is where, and what to say to whom. A deterministic state machine with
// no clock, socket or file inside, so that a simulation can drive it through any sequence of faults
// (tests/tracker/farm_simulation.cpp).
//
// The contract: at-least-once execution, exactly-once recording, no acknowledged result lost, bounded
// retries, bounded memory. A trial goes
//
//   pending -> leased -> finished | cancelled
//      ^---------'  lost with its worker, handed back, or never arrived
//
// in one lease where a worker both builds and measures. Where only runners are that link no compiler, it is
// leased to a builder first, of any architecture, and then with what that built to a runner
// (farm_builds.cpp).
//
// and leaves the farm when it is finished or cancelled. One that took three workers away is finished as
// kWorkerLost (quarantined).
//
// A race of two builds of a model is a trial, too, of which nothing is written down (farm_races.cpp).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tracker/build_index.h"
#include "tracker/contradictions.h"
#include "tracker/defaults.h"
#include "tracker/health.h"
#include "tracker/incumbents.h"
#include "tracker/journal.h"
#include "tracker/principals.h"
#include "tracker/told_device.h"
#include "tracker/wire/blob.h"
#include "tracker/wire/wire.h"

namespace lathe::tracker {

/// Monotonic time since any fixed start.
using Time = std::chrono::milliseconds;

/// A connection, named by the peer at random for the life of its process.
using Peer = std::string;

// --- what may happen

struct Received {
  Peer peer;
  wire::Message message;
  std::string key;  // the public key that the peer proved to hold; "" without keys
};

/// REQUIRES: as room() allows.
struct Submit {
  std::vector<Submission> trials;  // those of status kQueued; already in the journal
};

struct CancelJob {
  JobId job = 0;
};

/// Nobody waits for the race any more. One that has ended stays as it is.
struct CancelRace {
  TrialId race = 0;
};

/// What an administrator wants of a worker, connected or not.
struct Manage {
  enum class Order : uint8_t {
    kDrain,   // it finishes what it holds and takes no more
    kResume,  // it takes leases again
    kTrust,   // it is suspect no more, and a new baseline is made of its canaries
  };
  std::string worker;
  Order order = Order::kDrain;
};

/// Whose keys are listed, from now on. Before the first of these any key is, without caps.
struct Admit {
  std::map<std::string, Principal> keys;  // by public key
};

/// What owners weigh from now on, by name. Others weigh what their newest trials say.
struct Weigh {
  std::map<std::string, double> owners;
};

/// The journal has no recipe for the trial of this lease, which was not sent; or a file that its race needs
/// has changed under it.
struct Unreadable {
  LeaseId lease = 0;
  std::string problem;
};

/// At least every defaults::kTick.
struct Tick {};

/// No more leases from now on.
struct Close {};

using Event =
    std::variant<Received, Submit, CancelJob, CancelRace, Manage, Admit, Weigh, Unreadable, Tick, Close>;

// --- what is to be done, in this order: store what is built; commit all records; then send and tell

struct Outgoing {
  Peer peer;
  wire::Message message;
  std::shared_ptr<const TrialSpec> spec = {};  // of a LEASE to be filled in (carry_out.h); else null
};

/// Of the content store.
struct StoreChange {
  std::string digest;
  std::optional<std::string> bytes;  // none: it goes
};

/// A piece of a stored blob, for a runner; or of `file`.
struct Wanted {
  Peer peer;
  wire::BlobGet get;
  std::shared_ptr<const ModuleFile> file;
};

struct Effects {
  std::vector<StoreChange> stored;
  std::vector<Record> records;
  std::vector<Outgoing> messages;
  std::vector<Finished> finished;
  std::vector<Wanted> wanted;
  std::vector<std::string> notes;  // for the tracker's log
};

struct WorkerStatus {
  std::string name, device_class;
  std::shared_ptr<const ToldDevice> device;
  std::vector<std::string> backends;
  uint32_t slots = 0;
  uint32_t leases = 0;
  bool mute = false;         // it let a lease pass its time, and has measured nothing since
  bool runner_only = false;  // others build for it
  Time silent{0};
  bool drained = false;
  db::WorkerHealth health;         // its times are not set
  double drift = 0;                // of its last canary (Health::drift)
  std::optional<Time> canary_age;  // none: no canary came since it connected

  /// "ready", "suspect", "draining" (it still holds leases) or "drained".
  std::string_view state() const;
};

/// What an owner of jobs has had of the devices since the tracker's start.
struct OwnerStatus {
  std::string name;
  double weight = 1;
  Time device_time{0};
};

struct FarmStatus {
  uint64_t epoch = 0;
  size_t pending = 0, leased = 0, room = 0;
  uint32_t slots = 0;  // leases all workers together are willing to hold
  std::vector<WorkerStatus> workers;
  std::vector<OwnerStatus> owners;
  std::vector<std::string> unserved;  // platforms of pending trials that no worker up is
  std::vector<std::string> unbuilt;   // that runners are, and no worker up builds for
  std::vector<std::string> withheld;  // that only drained and suspect workers are
  uint64_t distrusts = 0;             // how often results of a worker were found not to be believed
  bool given_up = false;  // of whoever asks for a job's devices (search_server.h): they have gone for good
};

class Farm {
 public:
  /// Takes up the open trials. Leases found are kept for their workers to claim by HELLO, for as long as a
  /// silent worker would be waited for.
  Farm(JournalState state, Time now, uint64_t store_bytes = defaults::kTrackerStoreBytes);

  /// Adds to `effects` what follows from `event`. Effects of several steps may be committed together.
  void step(const Event& event, Time now, Effects& effects);

  /// How many more trials of the job may be submitted now. An owner may have as many as there is room left
  /// beside them, so that whatever others do, there is room for a newcomer.
  size_t room(JobId job, const std::string& owner) const;
  size_t open(JobId job) const;  // trials of the job not yet terminal
  /// Whether there is, or was, a worker of that name.
  bool knows(const std::string& worker) const;
  FarmStatus status(Time now) const;

 private:
  /// What became of a trial so far; nothing, of most in a queue.
  struct Past {
    std::vector<Grant> grants;
    uint32_t attempts = 0;        // grants, those included that were handed back
    std::optional<Build> build;   // made for runners
    std::string avoid;            // the worker that should not run it, where there is another; or ""
    std::vector<Testimony> said;  // of one to be confirmed
    std::string doubted;          // the worker whose failure with it is not believed yet; or ""
    LeaseId doubted_lease = 0;    // what it failed by; a copy of that failure is no second opinion
    bool doubted_lie = false;     // it said a time that cannot be
    uint64_t place = 0;           // among retries_; or 0
  };
  /// Small: there are millions (defaults::kQueueLimit).
  class Trial {
   public:
    TrialId id = 0;
    CandidateId candidate = 0;
    std::shared_ptr<const TrialSpec> spec;
    Time pending_since{0};
    LeaseId lease = 0;  // the one in force, or 0: pending

    const Past& past() const;
    /// To add to it.
    Past& make_past();

   private:
    std::unique_ptr<Past> past_;  // null: none
  };
  struct Worker {
    std::string name, device_class, key, revision;
    std::shared_ptr<const ToldDevice> device;
    std::vector<std::string> backends, platforms;  // platforms: each backend alone and with the architecture
    std::vector<std::string> builds;               // platforms that it builds for others
    bool runner_only = false;
    uint32_t version = wire::kNewestVersion;  // of the protocol, that it and we speak
    uint32_t slots = 0;
    bool capped = false;   // it asks for more than its key may hold
    uint32_t overdue = 0;  // leases that it let pass their time since its last measurement
    bool mute = false;     // there is one of them
    Time heard{0}, joined{0};
    std::optional<Time> canary;   // the last
    Time sung = Time::min() / 2;  // up to when its canaries are paid for (may_sing)
    bool suspect = false, drained = false;
    int failures = 0;  // candidates in a row, up to the last
    std::set<LeaseId> leases;

    /// Leases that it may hold.
    uint32_t credit() const { return suspect || drained ? 0 : slots; }

    bool runs(const std::string& platform) const {
      return std::find(platforms.begin(), platforms.end(), platform) != platforms.end();
    }
    bool builds_for(const std::string& platform) const {
      return std::find(builds.begin(), builds.end(), platform) != builds.end();
    }
  };
  /// Trials that may go to the same workers on behalf of the same owner.
  struct Lane {
    std::string platform, device_class, owner;
    Properties needs;
    bool is_open = false;  // its kernels take dimensions: older workers would give them none
    auto operator<=>(const Lane&) const = default;
  };
  /// When a lane was last served decides between those whose owners have had as much: all lanes of one owner.
  struct Queue {
    std::deque<TrialId> trials;
    uint64_t turn = 0;
  };
  using Queues = std::map<Lane, Queue>;
  /// What else decides who may have a trial of a lane (suits): those alike in it, where one is refused, are
  /// refused unless they have waited longer.
  struct Kind {
    bool is_race = false;
    bool was_built = false;
    std::string avoid;
    std::vector<std::string> said;  // workers
    std::vector<std::string> lost;  // workers, one as often as it was lost
    auto operator<=>(const Kind&) const = default;
  };
  using Retries = std::map<Lane, std::map<Kind, std::map<uint64_t, TrialId>>>;  // by place, the oldest first
  /// What an owner has had of the devices: fair queueing by virtual time, which is device-seconds by weight.
  struct Share {
    double weight = 1;
    double virtual_ms = 0;
    Time device_time{0};
    size_t open = 0;  // trials
  };
  struct LeaseState {
    TrialId trial = 0;
    Peer peer;  // "" after a restart, until its worker claims it
    std::string worker;
    Time sent{0};
    Time deadline{0};
    wire::Part part = wire::Part::kWhole;
    double advance_ms = 0;  // what its owner was charged for it when it was given
  };
  /// Of what a builder built, on its way here.
  struct Fetch {
    wire::Built built;
    std::optional<wire::BlobFetch> coming;
    std::map<std::string, std::string> here;  // bytes by digest
    Time progress{0};
  };

  // farm_peers.cpp: what workers say.
  void receive(const Received& event);
  void greet(const Peer& peer, const wire::Hello& hello, const std::string& key);
  std::optional<wire::Refusal> refusal_of(const Peer& peer, const wire::Hello& hello, const std::string& key);
  void forget_former(const Peer& peer, const std::string& name);
  static void take_description(Worker& worker, const wire::Hello& hello);
  void take_up_leases(const Peer& peer, Worker& worker, const std::vector<uint64_t>& holding);
  bool owns_name(const std::string& name, const std::string& key);
  bool forget_some_name(const std::string& newest);
  void forget_name(const std::string& name);
  void refuse(const Peer& peer, uint32_t version, wire::Refusal refusal);
  std::string disbelief(const Trial& trial, const Worker& worker, const wire::Result& result) const;
  std::string impossible_time(const Trial& trial, const wire::Result& result) const;
  void expel(const Peer& peer, const std::string& reason, bool lied);
  void on(const Peer& peer, const wire::Credit& credit);
  void on(const Peer& peer, const wire::Result& result);
  void on(const Peer& peer, const wire::Canary& canary);
  bool may_sing(Worker& worker) const;
  void on(const Peer& peer, const wire::Built& built);
  void on(const Peer& peer, const wire::BlobGet& get);
  void on(const Peer& peer, const wire::BlobChunk& chunk);
  void on(const Peer& peer, const wire::Heartbeat& heartbeat);
  void on(const Peer& peer, const wire::Drain& drain);
  void on(const Peer& peer, const wire::Bye& bye);
  void reconcile(const Peer& peer, const std::vector<uint64_t>& holding);
  void adopt(const Peer& peer, Worker& worker, LeaseId id);
  void renew_unclaimed(const Peer& peer, Worker& worker);
  /// By what a worker is known beyond its connection: its key, or without keys its name.
  static const std::string& identity(const Worker& worker) {
    return worker.key.empty() ? worker.name : worker.key;
  }
  /// The same of a worker that may be gone.
  std::string identity_of(const std::string& name) const;
  /// To whom a key belongs, who may have several: the principal's name; of a key that is not listed, the key.
  std::string owner_of(const std::string& key) const;
  /// As whose word counts what a worker of that name says: its key's owner's, or without keys its own.
  std::string voice_of(const std::string& name) const;
  bool hand_back(const Peer& peer, const std::vector<uint64_t>& returned);
  void forget_worker(const Peer& peer, bool lost);

  // farm_keys.cpp: what a worker's key allows.
  const Principal* principal_of(const std::string& key) const;
  std::optional<wire::Refusal> objection(const std::string& name, const std::string& key) const;
  uint32_t allowed_slots(const Peer& peer, uint32_t asked);
  void admit(const Admit& event);

  // farm_health.cpp: whom to believe, and who is to work.
  Health& health_of(const Worker& worker);
  void judge(const std::string& name, Health::Change change, bool good, bool lied = false);
  void distrust_all(const std::string& identity);
  void take_leases_back(const Peer& peer);
  void pause(const Peer& peer, const std::string& why);
  void explain(const Peer& peer, std::string why);
  bool wants_second_opinion(const Trial& trial, const Worker& worker, const wire::Result& result,
                            bool impossible) const;
  void doubt(Trial& trial, const std::string& worker, LeaseId lease, bool lied);
  void blame(const std::string& worker, TrialId trial, bool lied);
  std::vector<Word> words_of(const std::vector<Testimony>& said, const std::string& device_class) const;
  void compare(std::vector<Testimony> said, const Worker& worker, CandidateId candidate, double seconds);
  bool has_another(const Trial& trial, const Worker& worker,
                   const std::function<bool(const Worker&)>& wanted = {}) const;
  bool prefers_another(const Trial& trial, const Worker& worker) const;
  void manage(const Manage& order);

  // farm.cpp: trials.
  Trial& add(TrialId id, CandidateId candidate, const std::shared_ptr<const TrialSpec>& spec,
             const std::vector<Testimony>& said);
  void submit(const Submit& event);
  void weigh(const Weigh& event);
  void cancel(JobId job);
  void cancel(Trial& trial);
  void unqueue(const std::set<Lane>& lanes);
  void give_up(const Unreadable& event);
  void tick();
  void assign();
  struct Offer {
    TrialId trial = 0;
    wire::Part part = wire::Part::kWhole;
  };
  std::optional<Offer> take_pending(const Worker& worker);
  std::optional<Offer> take_retry(const Worker& worker, const Trial& retry);
  std::optional<Offer> take_new(const Worker& worker);
  double had(const std::string& owner) const { return shares_.at(owner).virtual_ms; }
  double least_had(const Worker& worker) const;
  const Trial* find_retry(const Worker& worker) const;
  static Kind kind_of(const Trial& trial);
  void queue_retry(Trial& trial);
  void file_retry(const Trial& trial);
  void unfile_retry(const Trial& trial);
  Queue& queue_of(Queues& queues, const Lane& lane);
  TrialId pop(Queues& queues, const std::function<bool(const Lane&)>& fits);
  void queue(Trial& trial);
  void charge_in_advance(LeaseState& lease);
  void charge(const LeaseState& lease);
  static Lane lane_of(const TrialSpec& spec);
  static std::string describe(const Lane& lane);
  static bool runs(const Worker& worker, const Lane& lane);
  static bool builds(const Worker& worker, const Lane& lane);
  std::optional<wire::Part> part_for(const Worker& worker, const Trial& trial) const;
  bool suits(const Trial& trial, const Worker& worker) const;
  std::set<std::string> voices_lost(const std::set<std::string>& workers) const;
  void grant(Trial& trial, const Peer& peer, wire::Part part);
  void send_lease(const Trial& trial, LeaseId id);
  void renew_lease(LeaseId id);
  Trial& end_lease(LeaseId id, bool lost);
  void take_back(LeaseId id);
  void release(LeaseId id, bool lost);
  void finish(Trial& trial, std::string worker, std::string device, wire::Result result);
  void close_trial(Trial& trial);
  void remember(LeaseId id);

  // farm_builds.cpp: what is built for runners elsewhere.
  TrialId take_ready(const Worker& worker);
  std::optional<Offer> take_unbuilt(const Worker& worker);
  void queue_built(Trial& trial);
  bool recall_build(Trial& trial, const std::string& revision);
  bool wants_builds(const Lane& lane) const;
  bool is_built(const Trial& trial) const { return trial.past().build && builds_.holds(*trial.past().build); }
  void advance(const Peer& peer, LeaseId id);
  void complete(const Peer& peer, LeaseId id);
  bool free_place(const Worker& worker);
  void drop_idle_fetches();

  // farm_races.cpp
  void write_down(const Trial& trial, Record record);
  static std::shared_ptr<const ModuleFile> find_module(const Trial& trial, const std::string& digest);
  void cancel_race(TrialId race);
  void end_hopeless_races();

  // farm_status.cpp
  std::vector<std::string> unserved() const;
  std::vector<std::string> unbuilt() const;
  std::vector<std::string> withheld() const;
  std::set<Lane> waiting() const;

  void send(const Peer& peer, wire::Message message) {
    effects_->messages.push_back({peer, std::move(message)});
  }

  uint64_t epoch_;
  uint32_t next_lease_ = 1;  // of this epoch
  Time now_;
  Time last_step_;
  bool closed_ = false;
  Effects* effects_ = nullptr;  // of the step in progress

  std::map<TrialId, Trial> trials_;
  std::unordered_map<LeaseId, LeaseState> leases_;
  std::map<Peer, Worker> workers_;
  std::optional<std::map<std::string, Principal>> listed_;  // by key
  std::map<std::string, std::string> keys_;               // by name of a worker: the first that came with it
  std::map<std::string, std::deque<std::string>> named_;  // the same by key, in the order they came
  std::set<std::string> expelled_;                        // keys that are refused; without keys, names
  std::map<std::string, size_t> returned_;  // by the same: leases handed back since a result was recorded
  std::map<std::string, size_t> devices_;   // by the same: devices named since then
  std::map<std::string, std::string> device_of_;  // by name of a worker: the digest of the last it was
  std::map<std::string, Health> health_;          // by name of a worker
  uint64_t distrusts_ = 0;
  std::set<std::string> drained_;  // names
  std::unordered_map<JobId, size_t> open_;
  Queues pending_;                         // never tried; may name closed trials
  Queues ready_;                           // built for runners; as pending_
  uint64_t last_turn_ = 0;                 // of a lane
  std::map<std::string, Share> shares_;    // by owner
  std::map<std::string, double> weights_;  // by owner, of those who are listed
  double usual_ms_ = 100;                  // of a lease on a device: a moving mean
  Retries retries_;                        // that not every worker should have
  uint64_t last_place_ = 0;                // of retries_
  bool may_assign_ = false;                // the step may have changed what assign() would find
  /// Leases that the runners of a lane may hold, while leases are given out (wants_builds).
  mutable std::map<Lane, size_t> runner_slots_;
  std::map<Lane, size_t> building_;  // leases of builds
  Incumbents incumbents_;
  BuildIndex builds_;
  std::map<LeaseId, Fetch> fetches_;
  std::deque<LeaseId> recent_;  // recorded lately, oldest first
  std::set<LeaseId> recent_set_;
};

/// How often a worker went away with the trial of these, and which workers did.
size_t losses(const std::vector<Grant>& grants);
std::set<std::string> workers_lost(const std::vector<Grant>& grants);

/// What a worker must be to run code for a target: "cpu/aarch64" of "cpu:triple=aarch64-linux-gnu,...", "cpu"
/// of one that names no architecture.
std::string platform_of(const std::string& target);
std::string platform_name(const std::string& backend, const std::string& architecture);

/// Leases that workers of the class ("": of any) with these properties are willing to hold.
struct ClassSlots {
  uint32_t ready = 0;
  uint32_t answering = 0;  // of these, those of workers that are not mute
};
ClassSlots slots_of(const FarmStatus& status, const std::string& device_class, const Properties& needs);

/// What to do about trials that no worker up can take, as people read it; "" when there are none.
std::string unserved_text(const FarmStatus& status);

}  // namespace lathe::tracker
