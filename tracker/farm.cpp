#include "tracker/farm.h"

#include <algorithm>

#include "core/support/error.h"
#include "core/support/statistics.h"
#include "core/support/text.h"
#include "tracker/defaults.h"

namespace lathe::tracker {

using namespace defaults;

namespace {

/// Lease ids never repeat: the epoch is in the high half. So a late result of an earlier life can never be
/// taken for one of a lease given since, whatever the workers keep in their spools. 32 bits are four thousand
/// million leases of one epoch: at 1000 a second, 49 days.
LeaseId lease_id(uint64_t epoch, uint32_t count) { return epoch << 32 | count; }

}  // namespace

// No event starts the farm: an assignment needs workers, and none has said HELLO yet.
Farm::Farm(JournalState state, Time now, uint64_t store_bytes)
    : epoch_(state.epoch), now_(now), last_step_(now), builds_(store_bytes) {
  for (const db::WorkerHealth& health : state.health) health_.try_emplace(health.worker, health);
  drained_.insert(state.drained.begin(), state.drained.end());
  // One goes as the other comes: of a million, no second million is in memory.
  for (; !state.open.empty(); state.open.pop_front()) {
    OpenTrial& open = state.open.front();
    Trial& trial = add(open.trial, open.candidate, open.spec, open.said);
    // Most of a long queue was never leased: without a past a trial is small (farm.h).
    const bool is_fresh = open.grants.empty();
    if (!is_fresh) {
      trial.make_past().attempts = open.grants.back().attempt;
      trial.make_past().grants = std::move(open.grants);
    }
    if (open.leased) {
      const Grant& last = trial.past().grants.back();
      trial.lease = last.lease;
      // No peer yet: who held it is known by name only, until a HELLO of that name claims it (adopt). It
      // has as long as a silent worker has, and a heartbeat more, for that worker has to notice first
      // that the tracker is another.
      leases_[last.lease] = {.trial = trial.id,
                             .worker = last.worker,
                             .sent = now,
                             .deadline = now + std::min(kSilence + kHeartbeat, kLeaseLimit)};
    } else if (is_fresh) {
      queue(trial);
    } else {
      // Tried before: whom it took away, and who measured it, matters for where it goes next (suits).
      queue_retry(trial);
    }
  }
}

void Farm::step(const Event& event, Time now, Effects& effects) {
  // A clock that goes back would give deadlines that have passed, and pauses that are negative.
  now_ = std::max(now, now_);
  effects_ = &effects;
  // Whoever drives us was stopped or starved: that is no silence of the workers.
  if (const Time gap = now_ - last_step_; gap > kHeartbeat) {
    for (auto& [peer, worker] : workers_) worker.heard += gap;
    // `sent` too, for it says when a lease is overdue on its way (reconcile) and how long a
    // device was used (charge).
    for (auto& [id, lease] : leases_) lease.deadline += gap, lease.sent += gap;
  }
  last_step_ = now_;
  may_assign_ = true;
  struct Dispatch {
    Farm& farm;
    void operator()(const Received& e) { farm.receive(e); }
    void operator()(const Submit& e) { farm.submit(e); }
    void operator()(const CancelJob& e) { farm.cancel(e.job); }
    void operator()(const CancelRace& e) { farm.cancel_race(e.race); }
    void operator()(const Manage& e) { farm.manage(e); }
    void operator()(const Admit& e) { farm.admit(e); }
    void operator()(const Weigh& e) { farm.weigh(e); }
    void operator()(const Unreadable& e) { farm.give_up(e); }
    void operator()(const Tick&) { farm.tick(); }
    void operator()(const Close&) { farm.closed_ = true; }
  };
  std::visit(Dispatch{*this}, event);
  // Most events free a slot, add a trial or bring a worker. Of those that do not there are most: a worker
  // that says that it is well, again and again. What waits for time to pass is found with the next tick.
  if (may_assign_) assign();
  effects_ = nullptr;
}

// --- trials in

const Farm::Past& Farm::Trial::past() const {
  static const Past kNone;
  return past_ ? *past_ : kNone;
}

Farm::Past& Farm::Trial::make_past() {
  if (!past_) past_ = std::make_unique<Past>();
  return *past_;
}

Farm::Trial& Farm::add(TrialId id, CandidateId candidate, const std::shared_ptr<const TrialSpec>& spec,
                       const std::vector<Testimony>& said) {
  Trial& trial = trials_[id];
  trial.id = id;
  trial.candidate = candidate;
  trial.spec = spec;
  trial.pending_since = now_;
  if (!said.empty()) trial.make_past().avoid = said.back().worker, trial.make_past().said = said;
  open_[spec->job]++;
  Share& share = shares_[spec->owner];
  share.open++;
  // What is listed now, and not what was when its job was submitted.
  const auto listed = weights_.find(spec->owner);
  share.weight = listed != weights_.end() ? listed->second : spec->weight;
  return trial;
}

void Farm::weigh(const Weigh& event) {
  weights_ = event.owners;
  for (const auto& [owner, weight] : weights_)
    if (const auto share = shares_.find(owner); share != shares_.end()) share->second.weight = weight;
}

void Farm::submit(const Submit& event) {
  for (const Submission& one : event.trials) queue(add(one.trial, one.candidate, one.spec, one.said));
}

void Farm::cancel(JobId job) {
  // From the newest on, which are a running job's: nobody is to have all looked at again and again.
  // Gathered before any goes: closing erases from the map that is walked here.
  std::vector<TrialId> its;
  // open() is constant while nothing is closed, and says when the walk may stop.
  for (auto it = trials_.rbegin(); its.size() < open(job); ++it)
    if (it->second.spec->job == job) its.push_back(it->first);
  std::set<Lane> lanes;
  for (auto id = its.rbegin(); id != its.rend(); ++id) {
    Trial& trial = trials_.at(*id);
    lanes.insert(lane_of(*trial.spec));
    cancel(trial);
  }
  unqueue(lanes);
  incumbents_.forget(job);
}

void Farm::cancel(Trial& trial) {
  // One that nobody has claimed since a restart has nobody to be told: its worker hears of it
  // when it says HELLO (adopt).
  if (trial.lease != 0 && !leases_[trial.lease].peer.empty())
    send(leases_[trial.lease].peer, wire::Cancel{trial.lease});
  write_down(trial, Cancelled{trial.id});
  close_trial(trial);
}

// --- trials out to workers

void Farm::assign() {
  if (closed_ || (retries_.empty() && pending_.empty() && ready_.empty())) return;
  runner_slots_.clear();
  // One lease a worker and round, so that a short queue is spread over all of them.
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& [peer, worker] : workers_) {
      if (worker.leases.size() >= worker.credit()) continue;
      const std::optional<Offer> offer = take_pending(worker);
      if (!offer) continue;
      progress = true;
      Trial& trial = trials_.at(offer->trial);
      // A build that is known costs the builder nothing: the trial becomes ready for a runner at once, and
      // the builder is asked again in the next round.
      if (offer->part != wire::Part::kBuild || !recall_build(trial, worker.revision))
        grant(trial, peer, offer->part);
    }
  }
}

void Farm::grant(Trial& trial, const Peer& peer, wire::Part part) {
  Worker& worker = workers_.at(peer);
  const LeaseId id = lease_id(epoch_, next_lease_++);
  std::vector<Grant>& grants = trial.make_past().grants;
  const uint32_t attempt = ++trial.make_past().attempts;
  // Grants are kept while the trial is open, but for those handed back: a result of any may end it
  // (on(Result)).
  grants.push_back({.lease = id, .attempt = attempt, .worker = worker.name});
  trial.lease = id;
  worker.leases.insert(id);
  leases_[id] = {.trial = trial.id,
                 .peer = peer,
                 .worker = worker.name,
                 .sent = now_,
                 .deadline = now_ + (part == wire::Part::kRace ? kRaceLimit : kLeaseLimit),
                 .part = part};
  charge_in_advance(leases_[id]);
  if (part == wire::Part::kBuild) building_[lane_of(*trial.spec)]++;
  // The record is committed before the message is sent (carry_out), so that a tracker that dies in between
  // finds the lease in its journal and renews it.
  write_down(trial, Leased{trial.id, grants.back(), worker.device->text});
  send_lease(trial, id);
}

void Farm::send_lease(const Trial& trial, LeaseId id) {
  LeaseState& lease = leases_.at(id);
  // Anew with each copy: reconcile() waits for this one to arrive before it sends the next.
  lease.sent = now_;
  // It may be asked for after its time, before the tick that ends it.
  const int64_t left = std::max<int64_t>(1, (lease.deadline - now_).count());
  wire::Lease message{.lease = id,
                      .trial = trial.id,
                      .attempt = trial.past().grants.back().attempt,
                      .limit_ms = static_cast<uint32_t>(left),
                      .part = lease.part};
  if (lease.part == wire::Part::kRace) {
    message.evaluation = trial.spec->race->evaluation;
    message.artifact = trial.spec->race->challenger->blob();
    message.reference = trial.spec->race->incumbent->blob();
    send(lease.peer, std::move(message));
    return;
  }
  if (lease.part == wire::Part::kRun) {
    message.artifact = trial.past().build->artifact;
    message.reference = trial.past().build->reference;
  }
  message.evaluation.incumbent_seconds = incumbents_.seconds(*trial.spec, voice_of(lease.worker));
  if (workers_.at(lease.peer).version >= wire::kIncumbentVersion)
    message.job = trial.spec->job, message.workload_id = trial.spec->workload_id;
  // Without workload and trace, which stay in the database until the lease is about to be
  // sent: see carry_out.h.
  effects_->messages.push_back({lease.peer, std::move(message), trial.spec});
}

/// As send_lease, for a lease that its worker does not hold. What it was to run may be gone, with the tracker
/// that stored it.
void Farm::renew_lease(LeaseId id) {
  const LeaseState& lease = leases_.at(id);
  const Trial& trial = trials_.at(lease.trial);
  if (lease.part == wire::Part::kRun && !trial.past().build)
    release(id, /*lost=*/false);
  else
    send_lease(trial, id);
}

// --- and back

/// The lease is in force no more.
void Farm::take_back(LeaseId id) {
  const auto lease = leases_.find(id);
  Trial& trial = trials_.at(lease->second.trial);
  // A lease in force is the last of its trial's grants; Released and Finished in the journal rest on it.
  CHECK(trial.lease == id && trial.past().grants.back().lease == id, "trial {} has lost its lease", trial.id);
  trial.lease = 0;
  charge(lease->second);
  if (lease->second.part == wire::Part::kBuild) building_[lane_of(*trial.spec)]--;
  if (const auto worker = workers_.find(lease->second.peer); worker != workers_.end())
    worker->second.leases.erase(id);
  fetches_.erase(id);
  leases_.erase(lease);
}

/// The lease ends without a result.
Farm::Trial& Farm::end_lease(LeaseId id, bool lost) {
  Trial& trial = trials_.at(leases_.at(id).trial);
  take_back(id);
  trial.make_past().grants.back().lost = lost;
  trial.pending_since = now_;
  write_down(trial, Released{trial.id, id, lost});
  return trial;
}

void Farm::release(LeaseId id, bool lost) {
  const std::string worker = leases_.at(id).worker;
  Trial& trial = end_lease(id, lost);
  // Only losses count, not grants: a lease that was handed back, or taken from a suspect worker,
  // blames no candidate.
  const size_t times = losses(trial.past().grants);
  if (times < kLossesToQuarantine) {
    queue_retry(trial);
    return;
  }
  // Each once: the same worker may have been lost to it, restarted, and lost again.
  const std::set<std::string> names = workers_lost(trial.past().grants);
  wire::Result result{.lease = id,
                      .trial = trial.id,
                      .attempt = trial.past().grants.back().attempt,
                      .outcome = Outcome::kWorkerLost,
                      .message = fmt::format("quarantined: its worker went away {} times ({})", times,
                                             join_text({names.begin(), names.end()}, ", "))};
  finish(trial, worker, "", std::move(result));
}

/// No worker could be told more than this one: of a race it has the lease, of all else it never heard.
void Farm::give_up(const Unreadable& event) {
  const auto lease = leases_.find(event.lease);
  if (lease == leases_.end()) return;
  Trial& trial = trials_.at(lease->second.trial);
  wire::Result result{.lease = event.lease,
                      .trial = trial.id,
                      .attempt = trial.past().grants.back().attempt,
                      .outcome = Outcome::kInvalidTrace,
                      .message = "the tracker cannot read what is to be measured: " + event.problem};
  effects_->notes.push_back(fmt::format("trial {} fails: {}", trial.id, result.message));
  if (trial.spec->race && !lease->second.peer.empty()) send(lease->second.peer, wire::Cancel{event.lease});
  finish(trial, lease->second.worker, "", std::move(result));
}

void Farm::finish(Trial& trial, std::string worker, std::string device, wire::Result result) {
  Finished record{trial.id, trial.spec->job, std::move(worker), std::move(device), std::move(result)};
  if (trial.past().build) record.revision = trial.past().build->revision;
  // The worker repeats the result until it hears of it; a copy that comes after the trial has gone is a
  // duplicate and no stale one.
  remember(record.result.lease);
  // Only what was believed comes to here: a time that cannot be is a failure by now (impossible_time).
  if (record.result.outcome == Outcome::kOk && !record.result.samples.empty() && !trial.spec->race)
    incumbents_.note(*trial.spec, trial.candidate, voice_of(record.worker),
                     summarize(record.result.samples).median);
  write_down(trial, record);
  effects_->finished.push_back(std::move(record));
  close_trial(trial);
}

void Farm::close_trial(Trial& trial) {
  // It may end by the result of another lease than the one in force, or be cancelled under it.
  if (trial.lease != 0) take_back(trial.lease);
  unfile_retry(trial);
  if (const auto open = open_.find(trial.spec->job); --open->second == 0) open_.erase(open);
  shares_[trial.spec->owner].open--;
  trials_.erase(trial.id);
}

// Bounded: a worker repeats a result every two seconds until it is acknowledged, so only the newest leases
// matter. One forgotten is called stale, at which the worker drops it just the same.
void Farm::remember(LeaseId id) {
  if (!recent_set_.insert(id).second) return;
  recent_.push_back(id);
  if (recent_.size() <= kRecentLeases) return;
  recent_set_.erase(recent_.front());
  recent_.pop_front();
}

void Farm::tick() {
  // Gathered first: forgetting a worker changes the map, and its leases may be taken up by others.
  std::vector<Peer> silent;
  for (const auto& [peer, worker] : workers_)
    if (now_ - worker.heard >= kSilence) silent.push_back(peer);
  for (const Peer& peer : silent) forget_worker(peer, /*lost=*/true);

  std::vector<LeaseId> late;
  for (const auto& [id, lease] : leases_)
    if (now_ >= lease.deadline) late.push_back(id);
  // leases_ is hashed, and a simulation that fails must fail again the same way.
  std::sort(late.begin(), late.end());  // the same order on every machine
  for (LeaseId id : late) {
    const auto lease = leases_.find(id);
    if (lease == leases_.end()) continue;  // its worker was expelled
    const Peer peer = lease->second.peer;
    // How long a race takes, and its modules on their way, is not the worker's alone.
    const bool is_race = lease->second.part == wire::Part::kRace;
    // One that hangs with each lease and still sends heartbeats would else hold trials for five
    // minutes each, for ever.
    if (!peer.empty() && !is_race && ++workers_.at(peer).overdue == kOverdueToSuspect) {
      expel(peer,
            fmt::format("it has held {} leases for longer than {} s, and says that it is well",
                        kOverdueToSuspect, kLeaseLimit.count() / 1000),
            /*lied=*/false);
      continue;
    }
    if (!peer.empty()) {
      send(peer, wire::Cancel{id});
      if (!is_race) workers_.at(peer).mute = true;
    }
    // Unclaimed after a restart of ours, a lease says nothing against its candidate.
    release(id, /*lost=*/!peer.empty());
  }
  drop_idle_fetches();
  end_hopeless_races();
}

}  // namespace lathe::tracker
