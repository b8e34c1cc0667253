#include "tracker/farm.h"

#include <algorithm>

#include "core/support/error.h"
#include "core/support/text.h"
#include "tracker/defaults.h"

namespace lathe::tracker {

using namespace defaults;

namespace {

/// Lease ids never repeat: the epoch is in the high half. So a late result of an earlier life can never be
/// taken for one of a lease given since, whatever the workers keep in their spools. 32 bits are four thousand
/// million leases of one epoch: at 1000 a second, 49 days.
LeaseId lease_id(uint64_t epoch, uint32_t count) { return epoch << 32 | count; }

size_t losses(const std::vector<Grant>& grants) {
  return static_cast<size_t>(
      std::count_if(grants.begin(), grants.end(), [](const Grant& g) { return g.lost; }));
}

std::set<std::string> workers_lost(const std::vector<Grant>& grants) {
  std::set<std::string> names;
  for (const Grant& grant : grants)
    if (grant.lost) names.insert(grant.worker);
  return names;
}

}  // namespace

// No event starts the farm: an assignment needs workers, and none has said HELLO yet.
Farm::Farm(JournalState state, Time now, uint64_t store_bytes)
    : epoch_(state.epoch), now_(now), last_step_(now), builds_(store_bytes) {
  for (const db::WorkerHealth& health : state.health) health_.try_emplace(health.worker, health);
  drained_.insert(state.drained.begin(), state.drained.end());
  // One goes as the other comes: of a million, no second million is in memory.
  for (; !state.open.empty(); state.open.pop_front()) {
    OpenTrial& open = state.open.front();
    Trial& trial = add(open.trial, open.candidate, open.spec, open.measured_by);
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
      retries_.push_back(trial.id);
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
  struct Dispatch {
    Farm& farm;
    void operator()(const Received& e) { farm.receive(e); }
    void operator()(const Submit& e) { farm.submit(e); }
    void operator()(const CancelJob& e) { farm.cancel(e.job); }
    void operator()(const CancelRace& e) { farm.cancel_race(e.race); }
    void operator()(const Manage& e) { farm.manage(e); }
    void operator()(const Admit& e) { farm.admit(e); }
    void operator()(const Unreadable& e) { farm.give_up(e); }
    void operator()(const Tick&) { farm.tick(); }
    void operator()(const Close&) { farm.closed_ = true; }
  };
  std::visit(Dispatch{*this}, event);
  // Every event may have freed a slot, added a trial or brought a worker; where it did none of these,
  // assign() finds nothing within one look at each worker.
  assign();
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
                       const std::string& measured_by) {
  Trial& trial = trials_[id];
  trial.id = id;
  trial.candidate = candidate;
  trial.spec = spec;
  trial.pending_since = now_;
  if (!measured_by.empty()) trial.make_past().avoid = measured_by;
  open_[spec->job]++;
  Share& share = shares_[spec->owner];
  share.open++;
  // The newest word counts: the file of principals may have changed since the owner's last job.
  share.weight = spec->weight;
  return trial;
}

void Farm::submit(const Submit& event) {
  for (const Submission& one : event.trials) queue(add(one.trial, one.candidate, one.spec, one.measured_by));
}

Farm::Lane Farm::lane_of(const TrialSpec& spec) {
  return {platform_of(spec.target), spec.device_class, spec.owner, spec.needs, spec.is_open};
}

bool Farm::runs(const Worker& worker, const Lane& lane) {
  return worker.runs(lane.platform) && (!lane.is_open || worker.version >= wire::kOpenVersion) &&
         (lane.device_class.empty() || lane.device_class == worker.device_class) &&
         has_at_least(worker.properties, lane.needs);
}

/// An owner who had nothing waiting has saved nothing up meanwhile: as in start-time fair queueing (Goyal et
/// al., SIGCOMM 1996), whoever comes back starts level with the least served of those who wait. Else a night
/// without jobs would be a credit that shuts all others out in the morning.
void Farm::queue(const Trial& trial) {
  const TrialSpec& spec = *trial.spec;
  std::optional<double> least;
  bool waits = false;
  // A lane that is here is not empty but for closed trials: pop() and unqueue() take emptied ones out. There
  // are as many as owners, platforms and classes of devices in use, so some dozens.
  for (const auto& [lane, trials] : pending_) {
    const double others = shares_[lane.owner].virtual_ms;
    least = least ? std::min(*least, others) : others;
    waits |= lane.owner == spec.owner;
  }
  Share& share = shares_[spec.owner];
  if (!waits && least) share.virtual_ms = std::max(share.virtual_ms, *least);
  // What cares who gets it is looked at one by one (suits); the queues of lanes are only popped. A race
  // cares, since workers of an older version know none.
  if (trial.past().avoid.empty() && !spec.race)
    pending_[lane_of(spec)].push_back(trial.id);
  else
    retries_.push_back(trial.id);
}

bool Farm::builds(const Worker& worker, const Lane& lane) {
  return worker.builds_for(lane.platform) && (!lane.is_open || worker.version >= wire::kOpenVersion);
}

/// As start-time fair queueing charges a packet when its service begins: else who has one lease in force, not
/// charged yet, would be given the next slot, too, before those who wait for their first. How long it will
/// take nobody knows; charge() puts that right.
void Farm::charge_in_advance(LeaseState& lease) {
  if (lease.part == wire::Part::kBuild) return;
  Share& share = shares_[trials_.at(lease.trial).spec->owner];
  lease.advance_ms = usual_ms_;
  share.virtual_ms += lease.advance_ms / share.weight;
}

/// A lease has ended: its owner has had the device for so long, whatever came of it. Whoever builds is no
/// device.
void Farm::charge(const LeaseState& lease) {
  if (lease.peer.empty() || lease.part == wire::Part::kBuild) return;
  Share& share = shares_[trials_.at(lease.trial).spec->owner];
  // One that ended within its first millisecond still counts, or a flood of them would be free.
  const Time held = std::max(Time(1), now_ - lease.sent);
  share.device_time += held;
  const auto held_ms = static_cast<double>(held.count());
  share.virtual_ms += (held_ms - lease.advance_ms) / share.weight;
  usual_ms_ += (held_ms - usual_ms_) / 16;
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
}

/// What has been closed while it waited, where no worker may ever come for it.
void Farm::unqueue(const std::set<Lane>& lanes) {
  // The queues hold numbers, not references, so that closing a trial need not find it there; pop()
  // skips what has gone. But nobody pops a lane without workers, so its numbers would pile up with
  // every job that is cancelled.
  const auto is_closed = [&](TrialId id) { return !trials_.contains(id); };
  for (Queues* queues : {&pending_, &ready_})
    for (const Lane& lane : lanes) {
      const auto found = queues->find(lane);
      if (found == queues->end()) continue;
      std::erase_if(found->second, is_closed);
      // A deque keeps its blocks, and the next job has other lanes.
      found->second.shrink_to_fit();
      if (found->second.empty()) queues->erase(found);
    }
  retries_.remove_if(is_closed);
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

/// What the worker may do about the trial now.
std::optional<wire::Part> Farm::part_for(const Worker& worker, const Trial& trial) const {
  const Lane lane = lane_of(*trial.spec);
  const bool runs = this->runs(worker, lane);
  // A race is of whole modules, built already, so a runner without a compiler may have it as well as anybody.
  if (trial.spec->race)
    return runs && worker.version >= wire::kRaceVersion ? std::optional(wire::Part::kRace) : std::nullopt;
  if (runs && !worker.runner_only) return wire::Part::kWhole;
  if (is_built(trial)) return runs ? std::optional(wire::Part::kRun) : std::nullopt;
  // Last: who can measure the trial itself should, and a build that nobody waits for would
  // only fill the store.
  if (builds(worker, lane) && wants_builds(lane)) return wire::Part::kBuild;
  return std::nullopt;
}

/// The keys of these workers; empty where any of them came without one, or is not known since our restart.
std::set<std::string> Farm::keys_lost(const std::set<std::string>& workers) const {
  std::set<std::string> keys;
  for (const std::string& name : workers) {
    const auto key = keys_.find(name);
    if (key == keys_.end() || key->second.empty()) return {};
    keys.insert(key->second);
  }
  return keys;
}

/// A candidate that took a worker away goes to another one, but never puts more than kWorkersToRisk at risk;
/// one to be confirmed, or whose failure is in doubt, goes to another one too. When there is none of that
/// kind, or it stays busy for a while, any will do.
bool Farm::suits(const Trial& trial, const Worker& worker) const {
  const std::optional<wire::Part> part = part_for(worker, trial);
  if (!part) return false;
  // Whoever measured it before may build it: what is wanted is another machine's time, not
  // another compiler's code.
  if (*part != wire::Part::kBuild && worker.name == trial.past().avoid &&
      now_ - trial.pending_since < kPreferAnother && has_another(trial, worker))
    return false;
  const std::set<std::string> lost = workers_lost(trial.past().grants);
  if (lost.empty()) return true;
  // Whoever holds a key is all of its workers: one key's word alone quarantines nothing, while another's
  // worker is up.
  const std::set<std::string> accused = keys_lost(lost);
  const bool waited = now_ - trial.pending_since >= kPreferOther;
  const auto is_other = [&](const Worker& candidate) {
    return !candidate.key.empty() && !accused.contains(candidate.key);
  };
  if (accused.size() == 1 && !is_other(worker) &&
      (!waited || losses(trial.past().grants) + 1 >= kLossesToQuarantine) &&
      std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
        return is_other(entry.second) && entry.second.credit() > 0 && part_for(entry.second, trial);
      }))
    return false;
  if (waited || (accused.size() == 1 && is_other(worker))) return true;
  const auto preferred = [&](const Worker& candidate) {
    // While fewer workers have been lost to it than may be put at risk, a new one is tried, which
    // tells whether candidate or worker is at fault. From then on only those that it has already
    // taken, if they came back.
    return candidate.credit() > 0 && part_for(candidate, trial) &&
           lost.contains(candidate.name) == (lost.size() >= kWorkersToRisk);
  };
  return preferred(worker) || std::none_of(workers_.begin(), workers_.end(),
                                           [&](const auto& entry) { return preferred(entry.second); });
}

std::optional<Farm::Offer> Farm::take_retry(const Worker& worker) {
  // The oldest first. Each may be refused by this worker and wanted by the next, so it stays where it is.
  for (auto it = retries_.begin(); it != retries_.end();) {
    const auto trial = trials_.find(*it);
    if (trial == trials_.end() || trial->second.lease != 0) {  // closed meanwhile by a late result
      it = retries_.erase(it);
    } else if (suits(trial->second, worker)) {
      const Offer offer{*it, *part_for(worker, trial->second)};
      retries_.erase(it);
      return offer;
    } else {
      ++it;
    }
  }
  return std::nullopt;
}

std::optional<Farm::Offer> Farm::take_pending(const Worker& worker) {
  // Before what is new: a job that ends waits for its confirmations, and a race holds up a whole search.
  if (const std::optional<Offer> offer = take_retry(worker)) return offer;
  // First what others wait for; they want no more than they can take.
  if (const std::optional<Offer> offer = take_unbuilt(worker)) return offer;
  // What is built already goes first, also to workers that could build it themselves: the work is done.
  const wire::Part part = worker.runner_only ? wire::Part::kRun : wire::Part::kWhole;
  if (const TrialId id = take_ready(worker)) return Offer{id, part};
  if (worker.runner_only) return std::nullopt;
  if (const TrialId id = pop(pending_, [&](const Lane& lane) { return runs(worker, lane); }))
    return Offer{id, part};
  return std::nullopt;
}

/// Of the lanes that fit, the next open trial of the owner who has had the least; or 0.
TrialId Farm::pop(Queues& queues, const std::function<bool(const Lane&)>& fits) {
  // A lane may hold nothing but closed trials; then it goes, and the next best is asked.
  for (;;) {
    auto best = queues.end();
    for (auto it = queues.begin(); it != queues.end(); ++it)
      if (fits(it->first) && (best == queues.end() ||
                              shares_[it->first.owner].virtual_ms < shares_[best->first.owner].virtual_ms))
        best = it;
    if (best == queues.end()) return 0;
    std::deque<TrialId>& trials = best->second;
    // At least one is taken off the front each time round, so all calls together cost no more than
    // all that was queued.
    TrialId id = 0;
    while (!trials.empty() && id == 0) {
      if (trials_.contains(trials.front())) id = trials.front();
      trials.pop_front();
    }
    if (trials.empty()) queues.erase(best);
    if (id != 0) return id;
  }
}

void Farm::assign() {
  if (closed_ || (retries_.empty() && pending_.empty() && ready_.empty())) return;
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
  write_down(trial, Leased{trial.id, grants.back(), worker.device});
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
    retries_.push_back(trial.id);
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
  write_down(trial, record);
  effects_->finished.push_back(std::move(record));
  close_trial(trial);
}

void Farm::close_trial(Trial& trial) {
  // It may end by the result of another lease than the one in force, or be cancelled under it.
  if (trial.lease != 0) take_back(trial.lease);
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
      expel(peer, fmt::format("it has held {} leases for longer than {} s, and says that it is well",
                              kOverdueToSuspect, kLeaseLimit.count() / 1000));
      continue;
    }
    if (!peer.empty()) send(peer, wire::Cancel{id});
    // Unclaimed after a restart of ours, a lease says nothing against its candidate.
    release(id, /*lost=*/!peer.empty());
  }
  drop_idle_fetches();
  end_hopeless_races();
}

}  // namespace lathe::tracker
