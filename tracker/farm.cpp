#include "tracker/farm.h"

#include <algorithm>
#include <optional>

#include "core/support/error.h"
#include "core/support/text.h"
#include "tracker/defaults.h"

namespace lathe::tracker {

using namespace defaults;

std::string platform_of(const std::string& target) {
  constexpr std::string_view kTriple = "triple=";
  const std::string backend = target.substr(0, target.find(':'));
  const size_t triple = target.find(kTriple);
  if (triple == std::string::npos) return backend;
  const size_t start = triple + kTriple.size();
  return platform_name(backend, target.substr(start, target.find_first_of("-,", start) - start));
}

std::string platform_name(const std::string& backend, const std::string& architecture) {
  return fmt::format("{}/{}", backend, architecture);
}

std::string unserved_text(const FarmStatus& status) {
  if (status.unserved.empty()) return "";
  return fmt::format("no worker is {}: start one with `tune worker --tracker ...` on such a machine",
                     join_text(status.unserved, " or "));
}

namespace {

/// Lease ids never repeat: the epoch is in the high half.
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

Farm::Farm(JournalState state, Time now) : epoch_(state.epoch), now_(now), last_step_(now) {
  for (OpenTrial& open : state.open) {
    Trial& trial = trials_[open.trial];
    trial = {.id = open.trial, .spec = open.spec, .grants = std::move(open.grants), .pending_since = now};
    open_[trial.spec->job]++;
    if (open.leased) {
      const Grant& last = trial.grants.back();
      trial.lease = last.lease;
      leases_[last.lease] = {.trial = trial.id,
                             .worker = last.worker,
                             .sent = now,
                             .deadline = now + std::min(kSilence + kHeartbeat, kLeaseLimit)};
    } else if (trial.grants.empty()) {
      queue(trial);
    } else {
      retries_.push_back(trial.id);
    }
  }
}

void Farm::step(const Event& event, Time now, Effects& effects) {
  now_ = std::max(now, now_);
  effects_ = &effects;
  // Whoever drives us was stopped or starved: that is no silence of the workers.
  if (const Time gap = now_ - last_step_; gap > kHeartbeat) {
    for (auto& [peer, worker] : workers_) worker.heard += gap;
    for (auto& [id, lease] : leases_) lease.deadline += gap, lease.sent += gap;
  }
  last_step_ = now_;
  struct Dispatch {
    Farm& farm;
    void operator()(const Received& e) { farm.receive(e); }
    void operator()(const Submit& e) { farm.submit(e); }
    void operator()(const CancelJob& e) { farm.cancel(e.job); }
    void operator()(const Tick&) { farm.tick(); }
    void operator()(const Close&) { farm.closed_ = true; }
  };
  std::visit(Dispatch{*this}, event);
  assign();
  effects_ = nullptr;
}

// --- trials in

void Farm::submit(const Submit& event) {
  for (const Submission& submission : event.trials) {
    const TrialId id = submission.trial;
    trials_[id] = {.id = id, .spec = submission.spec, .pending_since = now_};
    open_[submission.spec->job]++;
    queue(trials_[id]);
  }
}

/// An owner who had nothing waiting has saved nothing up meanwhile.
void Farm::queue(const Trial& trial) {
  const TrialSpec& spec = *trial.spec;
  std::optional<double> least;
  bool waits = false;
  for (const auto& [lane, trials] : pending_) {
    const double others = shares_[lane.owner].virtual_ms;
    least = least ? std::min(*least, others) : others;
    waits |= lane.owner == spec.owner;
  }
  Share& share = shares_[spec.owner];
  share.weight = spec.weight;
  if (!waits && least) share.virtual_ms = std::max(share.virtual_ms, *least);
  pending_[{platform_of(spec.target), spec.device_class, spec.owner}].push_back(trial.id);
}

/// A lease has ended: its owner has had the device for so long.
void Farm::charge(const LeaseState& lease) {
  const auto trial = trials_.find(lease.trial);
  if (lease.peer.empty() || trial == trials_.end()) return;
  Share& share = shares_[trial->second.spec->owner];
  share.virtual_ms += static_cast<double>(std::max<int64_t>(1, (now_ - lease.sent).count())) / share.weight;
}

void Farm::cancel(JobId job) {
  for (auto it = trials_.begin(); it != trials_.end();) {
    Trial& trial = (it++)->second;  // close_trial erases it
    if (trial.spec->job != job) continue;
    if (trial.lease != 0 && !leases_[trial.lease].peer.empty())
      send(leases_[trial.lease].peer, wire::Cancel{trial.lease});
    effects_->records.push_back(Cancelled{trial.id});
    close_trial(trial);
  }
}

// --- trials out to workers

bool Farm::serves(const Worker& worker, const Trial& trial) const {
  const std::string platform = platform_of(trial.spec->target);
  if (!trial.spec->device_class.empty() && trial.spec->device_class != worker.device_class) return false;
  return std::find(worker.platforms.begin(), worker.platforms.end(), platform) != worker.platforms.end();
}

/// A candidate that took a worker away goes to another one, but never puts more than kWorkersToRisk at risk.
/// When there is none of that kind, or it stays busy for a while, any will do.
bool Farm::suits(const Trial& trial, const Worker& worker) const {
  if (!serves(worker, trial)) return false;
  const std::set<std::string> lost = workers_lost(trial.grants);
  if (lost.empty() || now_ - trial.pending_since >= kPreferOther) return true;
  const auto preferred = [&](const Worker& candidate) {
    return candidate.slots > 0 && serves(candidate, trial) &&
           lost.contains(candidate.name) == (lost.size() >= kWorkersToRisk);
  };
  return preferred(worker) || std::none_of(workers_.begin(), workers_.end(),
                                           [&](const auto& entry) { return preferred(entry.second); });
}

TrialId Farm::take_retry(const Worker& worker) {
  for (auto it = retries_.begin(); it != retries_.end();) {
    const auto trial = trials_.find(*it);
    if (trial == trials_.end() || trial->second.lease != 0) {  // closed meanwhile by a late result
      it = retries_.erase(it);
    } else if (suits(trial->second, worker)) {
      const TrialId id = *it;
      retries_.erase(it);
      return id;
    } else {
      ++it;
    }
  }
  return 0;
}

/// The next of the owner who has had the least.
TrialId Farm::take_pending(const Worker& worker) {
  for (;;) {
    auto best = pending_.end();
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      const Lane& lane = it->first;
      if (!lane.device_class.empty() && lane.device_class != worker.device_class) continue;
      if (std::find(worker.platforms.begin(), worker.platforms.end(), lane.platform) ==
          worker.platforms.end())
        continue;
      if (best == pending_.end() || shares_[lane.owner].virtual_ms < shares_[best->first.owner].virtual_ms)
        best = it;
    }
    if (best == pending_.end()) return 0;
    std::deque<TrialId>& trials = best->second;
    TrialId id = 0;
    while (!trials.empty() && id == 0) {
      if (trials_.contains(trials.front())) id = trials.front();
      trials.pop_front();
    }
    if (trials.empty()) pending_.erase(best);
    if (id != 0) return id;
  }
}

void Farm::assign() {
  if (closed_ || (retries_.empty() && pending_.empty())) return;
  // One lease a worker and round, so that a short queue is spread over all of them.
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& [peer, worker] : workers_) {
      if (worker.leases.size() >= worker.slots) continue;
      TrialId id = take_retry(worker);
      if (id == 0) id = take_pending(worker);
      if (id == 0) continue;
      grant(trials_.at(id), peer);
      progress = true;
    }
  }
}

void Farm::grant(Trial& trial, const Peer& peer) {
  Worker& worker = workers_.at(peer);
  const LeaseId id = lease_id(epoch_, next_lease_++);
  const uint32_t attempt = static_cast<uint32_t>(trial.grants.size()) + 1;
  trial.grants.push_back({.lease = id, .attempt = attempt, .worker = worker.name});
  trial.lease = id;
  worker.leases.insert(id);
  leases_[id] = {
      .trial = trial.id, .peer = peer, .worker = worker.name, .sent = now_, .deadline = now_ + kLeaseLimit};
  effects_->records.push_back(Leased{trial.id, trial.grants.back(), worker.device});
  send_lease(trial, id);
}

void Farm::send_lease(const Trial& trial, LeaseId id) {
  LeaseState& lease = leases_.at(id);
  lease.sent = now_;
  send(lease.peer, wire::Lease{.lease = id,
                               .trial = trial.id,
                               .attempt = trial.grants.back().attempt,
                               .limit_ms = static_cast<uint32_t>((lease.deadline - now_).count()),
                               .workload = *trial.spec->workload,
                               .trace = trial.spec->trace,
                               .target = trial.spec->target,
                               .evaluation = trial.spec->evaluation,
                               .seed = trial.spec->seed});
}

// --- and back

void Farm::release(LeaseId id, bool lost) {
  const LeaseState lease = leases_.at(id);
  charge(lease);
  leases_.erase(id);
  if (const auto worker = workers_.find(lease.peer); worker != workers_.end())
    worker->second.leases.erase(id);
  Trial& trial = trials_.at(lease.trial);
  CHECK(trial.lease == id && trial.grants.back().lease == id, "trial {} has lost its lease", trial.id);
  trial.lease = 0;
  trial.grants.back().lost = lost;
  trial.pending_since = now_;
  const size_t times = losses(trial.grants);
  effects_->records.push_back(Released{trial.id, id, lost});
  if (times < kLossesToQuarantine) {
    retries_.push_back(trial.id);
    return;
  }
  const std::set<std::string> names = workers_lost(trial.grants);
  wire::Result result{.lease = id,
                      .trial = trial.id,
                      .attempt = trial.grants.back().attempt,
                      .outcome = Outcome::kWorkerLost,
                      .message = fmt::format("quarantined: its worker went away {} times ({})", times,
                                             join_text({names.begin(), names.end()}, ", "))};
  finish(trial, lease.worker, "", std::move(result));
}

void Farm::finish(Trial& trial, std::string worker, std::string device, wire::Result result) {
  Finished record{trial.id, trial.spec->job, std::move(worker), std::move(device), std::move(result)};
  remember(record.result.lease);
  effects_->records.push_back(record);
  effects_->finished.push_back(std::move(record));
  close_trial(trial);
}

void Farm::close_trial(Trial& trial) {
  if (trial.lease != 0) {
    const auto lease = leases_.find(trial.lease);
    charge(lease->second);
    if (const auto worker = workers_.find(lease->second.peer); worker != workers_.end())
      worker->second.leases.erase(trial.lease);
    leases_.erase(lease);
  }
  if (const auto open = open_.find(trial.spec->job); --open->second == 0) open_.erase(open);
  trials_.erase(trial.id);
}

void Farm::remember(LeaseId id) {
  if (!recent_set_.insert(id).second) return;
  recent_.push_back(id);
  if (recent_.size() <= kRecentLeases) return;
  recent_set_.erase(recent_.front());
  recent_.pop_front();
}

void Farm::tick() {
  std::vector<Peer> silent;
  for (const auto& [peer, worker] : workers_)
    if (now_ - worker.heard >= kSilence) silent.push_back(peer);
  for (const Peer& peer : silent) forget_worker(peer, /*lost=*/true);

  std::vector<LeaseId> late;
  for (const auto& [id, lease] : leases_)
    if (now_ >= lease.deadline) late.push_back(id);
  std::sort(late.begin(), late.end());  // the same order on every machine
  for (LeaseId id : late) {
    const Peer peer = leases_.at(id).peer;
    if (!peer.empty()) send(peer, wire::Cancel{id});
    // Unclaimed after a restart of ours, a lease says nothing against its candidate.
    release(id, /*lost=*/!peer.empty());
  }
}

// --- what others may ask

size_t Farm::room() const { return trials_.size() < kQueueLimit ? kQueueLimit - trials_.size() : 0; }

size_t Farm::open(JobId job) const {
  const auto found = open_.find(job);
  return found == open_.end() ? 0 : found->second;
}

FarmStatus Farm::status(Time now) const {
  FarmStatus status{.epoch = epoch_,
                    .pending = trials_.size() - leases_.size(),
                    .leased = leases_.size(),
                    .room = room(),
                    .unserved = unserved()};
  for (const auto& [peer, worker] : workers_) {
    status.slots += worker.slots;
    status.workers.push_back({.name = worker.name,
                              .device = worker.device,
                              .device_class = worker.device_class,
                              .backends = worker.backends,
                              .slots = worker.slots,
                              .leases = static_cast<uint32_t>(worker.leases.size()),
                              .silent = now - worker.heard});
  }
  return status;
}

std::vector<std::string> Farm::unserved() const {
  std::vector<std::string> result;
  for (const auto& pending : pending_) {
    const auto& queue = pending.second;
    const bool wanted =
        std::any_of(queue.begin(), queue.end(), [&](TrialId id) { return trials_.contains(id); });
    const bool served = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
      const auto& platforms = entry.second.platforms;
      return std::find(platforms.begin(), platforms.end(), pending.first.platform) != platforms.end();
    });
    if (wanted && !served && (result.empty() || result.back() != pending.first.platform))
      result.push_back(pending.first.platform);
  }
  return result;
}

}  // namespace lathe::tracker
