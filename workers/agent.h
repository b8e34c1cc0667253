// The worker's half of the conversation: which lease is at which stage, and what to tell the tracker. Like
// the farm on the other side, a deterministic state machine without I/O; workers/worker.h gives it sockets
// and processes, and the farm's simulation test runs many of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tracker/defaults.h"
#include "tracker/wire/blob.h"
#include "tracker/wire/wire.h"

namespace lathe::worker {

using Time = std::chrono::milliseconds;  // monotonic, since any fixed start
using LeaseId = uint64_t;

struct AgentSettings {
  std::string name;
  std::string device;                 // JSON fingerprint
  std::vector<std::string> backends;  // none: it measures nothing
  std::vector<std::string> builds;    // platforms that it builds for others' runners
  bool runner_only = false;           // it has no compiler
  bool canaries = true;               // it runs them
  uint64_t module_bytes = 0;          // of the two modules of a race that it has room for
  uint32_t builders = 1;              // builds at once
  uint32_t ahead = 2;  // leases held beyond those being built and run, so that neither stage waits
};

// --- what may happen

/// The build ended. `report` has the outcome when it failed; else kOk, and what is known so far.
struct Built {
  LeaseId lease = 0;
  wire::Result report;
  std::string artifact, reference;  // for a runner elsewhere
};

struct Measured {
  LeaseId lease = 0;
  wire::Result report;
};

/// Twice in a row no supervisor of this machine began or lived to the end: nothing is known of the lease.
/// It is handed back, and so is what waits: this machine works no more.
struct Lost {
  LeaseId lease = 0;
};

/// Of Actions::canary. Its number is the agent's to give.
struct CanaryEnded {
  wire::Canary canary;
};

struct Tick {};

/// SIGTERM: the first lets the running trial end, the second hands everything back at once.
struct Terminate {};

using Event = std::variant<wire::Message, Built, Measured, Lost, CanaryEnded, Tick, Terminate>;

// --- what is to be done

/// A lease to be measured.
struct Run {
  wire::Lease lease;
  /// What was built elsewhere, or the modules of a race; else null.
  wire::BlobCache::Bytes artifact, reference;
};

struct Actions {
  std::vector<wire::Lease> build;  // start building
  std::vector<Run> run;            // start measuring what was built
  bool canary = false;             // start the canary kernels: nothing else runs until they have ended
  std::vector<LeaseId> discard;    // stop building or measuring, drop the artifact
  std::vector<wire::Message> send;
  bool reconnect = false;  // the connection seems dead: make a new one
  bool exit = false;
  std::string ignored;  // what of the tracker's, and why
  std::string refused;  // why the tracker does not take us: never, with exit, or not now
};

class Agent {
 public:
  Agent(AgentSettings settings, Time now);

  Actions step(const Event& event, Time now);

  uint32_t slots() const;
  bool serving() const { return serving_; }
  size_t held() const { return tasks_.size(); }

 private:
  enum class Stage { kQueued, kBuilding, kFetching, kBuilt, kRunning, kSpooled };
  struct Task {
    wire::Lease lease;
    Stage stage = Stage::kQueued;
    Time deadline{0};
    Time began{0};        // its run
    wire::Result result;  // grows from stage to stage
    std::optional<wire::Built> built;
    wire::BlobCache::Bytes artifact, reference;  // for a runner, or from a builder
    Time sent{0};                                // the result, last
  };

  void receive(const wire::Message& message);
  void on(const wire::Welcome& welcome);
  void on(const wire::Lease& lease);
  bool has_room(const wire::Lease& lease) const;
  void on(const wire::ResultAck& ack);
  void on(const wire::Heartbeat&) {}
  void on(const wire::Cancel& cancel) { drop(cancel.lease); }
  void on(const wire::Refusal& refusal);
  void on(const wire::BlobGet& get);
  void on(const wire::BlobChunk& chunk);
  void built(const Built& event);
  void hold(Task& task, const Built& event);
  void measured(const Measured& event);
  void lost(const Lost& event);
  void canary_ended(const CanaryEnded& event);
  bool canary_is_due() const;
  void tick();
  void terminate();
  void start_stages();
  bool is_here(Task& task);
  bool refuses(Task& task);
  void fetch_more();
  void ask();
  void spool(Task& task);
  void drop(LeaseId id);
  void hand_back(LeaseId id);
  void hand_back_late();
  void say_late(std::vector<LeaseId> late);
  bool is_in_time(const Task& task) const;
  void remember(LeaseId id);
  void say_hello();
  void say_credit();
  std::vector<uint64_t> holding() const;
  size_t count(Stage stage) const;
  void send(wire::Message message) { actions_->send.push_back(std::move(message)); }

  AgentSettings settings_;
  Time now_;
  Time heard_;              // the tracker, last
  Time greeted_{-1000000};  // HELLO or heartbeat sent, last
  bool serving_ = false;    // WELCOME came on this connection
  uint32_t version_ = 0;    // that it named
  bool canary_runs_ = false;
  uint32_t canaries_ = 0;  // that ended
  Time canary_at_{0};      // its end, last
  Time run_takes_{0};      // the longest of the last runs, about; races apart
  bool draining_ = false;
  Time draining_since_{0};
  std::vector<uint64_t> returned_;  // by the drain
  std::map<LeaseId, Task> tasks_;   // in the order leased
  std::set<LeaseId> done_;          // late copies of these leases are ignored
  std::set<LeaseId> late_;          // of these, handed back without a drain
  std::deque<LeaseId> done_order_;
  std::optional<wire::BlobFetch> coming_;
  int wrong_ = 0;  // times that what came was not what its digest says, of this one
  LeaseId coming_for_ = 0;
  Time asked_{0};  // for its next piece, last
  wire::BlobCache blobs_{defaults::kRunnerStoreBytes};
  Actions* actions_ = nullptr;  // of the step in progress
};

}  // namespace lathe::worker
