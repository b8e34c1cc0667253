// Watches a farm from outside (what it heard, decided, wrote down, sent and told) and says where that breaks
// the contract of docs/tracker.md.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tracker/farm.h"
#include "tracker/journal.h"

namespace lathe::tracker::testing {

/// What the farm is to know of its workers.
struct Fleet {
  std::function<bool(const std::string& worker, TrialId trial)> fits;   // may build or measure it
  std::function<bool(const std::string& worker, TrialId trial)> whole;  // may do both
  std::function<bool(const std::string& worker)> runner_only;
  std::function<FarmStatus()> status;  // of the farm that has just made a step
};

class History {
 public:
  explicit History(Fleet fleet) : fleet_(std::move(fleet)) {}

  /// It is now `now`, and the tracker has been awake for `awake` of that. Before whatever happens then.
  void at(Time now, Time awake) { now_ = now, awake_ = awake, superseded_.clear(); }
  void submitted(TrialId trial, JobId job) { ahead_.trials[trial].job = durable_.trials[trial].job = job; }
  void asked_to_cancel(JobId job) { cancelled_.insert(job); }
  void tracker_started(uint64_t epoch);
  /// By a tracker that is up, before its step.
  void heard(const Peer& peer, const wire::Message& message);
  void ticked();
  /// The records of one step, after it.
  void decided(std::span<const Record> records);
  void committed(std::span<const Record> records);
  void sent(const Outgoing& out);
  void told(const Finished& finished);
  /// The tracker has done all that followed from its last commit.
  void carried_out();

  void violated(std::string rule);
  const std::vector<std::string>& violations() const { return violations_; }
  size_t open() const;  // trials without a terminal record

 private:
  struct LeaseState {
    TrialId trial = 0;
    std::string worker;
    uint64_t epoch = 0, ended_in = 0;
    Time given{0};  // awake time
    enum class End { kNone, kReleased, kLost, kResult, kCancelled } end = End::kNone;
  };
  struct TrialState {
    JobId job = 0;
    LeaseId lease = 0;  // in force
    uint32_t attempts = 0;
    std::vector<std::string> lost;  // workers that went away with it
    Time waits_since{0};            // by the clock
    bool over = false;
  };
  struct State {
    std::map<TrialId, TrialState> trials;
    std::map<LeaseId, LeaseState> leases;
    std::set<std::string> suspect, drained;  // workers
  };
  struct Worker {
    Peer peer;  // the last that came with this name
    uint32_t credit = 0;
    Time heard{0};  // awake time
  };

  void apply(State& state, const Record& record) const;
  void end(State& state, LeaseId lease, LeaseState::End end) const;
  void check(const Leased& record);
  void check(const Released& record);
  void check(const Finished& record);
  void check(const Cancelled& record);
  void check(const Examined&) {}
  void check(const Drained&) {}
  void check_preference(const TrialState& trial, TrialId id, const std::string& worker);
  void check(const Peer& peer, const wire::Lease& lease);
  void check(const Peer& peer, const wire::ResultAck& ack);
  void check(const Peer& peer, const wire::Cancel& cancel);
  void check(const Peer& peer, const wire::Welcome& welcome);
  void check(const Peer& peer, const wire::Heartbeat& heartbeat);
  Time silence(const std::string& worker) const;

  Fleet fleet_;
  Time now_{0}, awake_{0}, started_{0};
  uint64_t epoch_ = 0;
  State ahead_, durable_;  // as the farm believes; as its journal has it
  std::map<std::string, Worker> workers_;
  std::map<Peer, std::string> names_;
  std::set<std::string> superseded_;                   // workers: another process has just come with the name
  std::set<std::pair<std::string, LeaseId>> results_;  // heard of a worker
  std::set<LeaseId> failures_;                         // of those, without a time
  std::set<LeaseId> built_, handed_back_;
  std::set<LeaseId> of_races_;  // of which nothing is written down (simulated_races.h)
  std::set<JobId> cancelled_;
  std::set<TrialId> told_, to_tell_;
  std::vector<std::string> violations_;
};

}  // namespace lathe::tracker::testing
