#include "tests/tracker/history.h"

#include <fmt/core.h>

#include <algorithm>

#include "tracker/defaults.h"

namespace lathe::tracker::testing {

using namespace defaults;
using Verdict = wire::ResultAck::Verdict;

namespace {

constexpr size_t kMostSaid = 20;
/// A lease goes out again this long after its worker was heard last, and a tick or two later at most.
constexpr Time kLeaseAgain = kSilence + kHeartbeat + 2 * kTick;

void set_member(std::set<std::string>& set, const std::string& name, bool is_member) {
  is_member ? (void)set.insert(name) : (void)set.erase(name);
}

}  // namespace

void History::violated(std::string rule) {
  if (violations_.size() < kMostSaid) violations_.push_back(fmt::format("at {} ms: {}", now_.count(), rule));
}

size_t History::open() const {
  return static_cast<size_t>(std::count_if(durable_.trials.begin(), durable_.trials.end(),
                                           [](const auto& entry) { return !entry.second.over; }));
}

void History::tracker_started(uint64_t epoch) {
  if (epoch <= epoch_) violated(fmt::format("epoch {} after epoch {}", epoch, epoch_));
  epoch_ = epoch;
  started_ = awake_;
  ahead_ = durable_;
  for (auto& [id, trial] : ahead_.trials) trial.waits_since = now_;
  for (auto& [name, worker] : workers_) worker = {.heard = awake_};
  names_.clear();
  to_tell_.clear();
}

Time History::silence(const std::string& worker) const {
  const auto found = workers_.find(worker);
  return awake_ - (found == workers_.end() ? started_ : std::max(started_, found->second.heard));
}

// --- what comes to the tracker

void History::heard(const Peer& peer, const wire::Message& message) {
  if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    names_[peer] = hello->worker;
    Worker& worker = workers_[hello->worker];
    if (!worker.peer.empty() && worker.peer != peer) superseded_.insert(hello->worker);
    if (worker.peer != peer) worker = {.peer = peer};
  }
  const auto known = names_.find(peer);
  if (known == names_.end()) return;
  const std::string& name = known->second;
  Worker& worker = workers_[name];
  if (worker.peer != peer) return;
  worker.heard = awake_;
  const auto hands_back = [&](const std::vector<uint64_t>& leases) {
    worker.credit = 0;
    for (LeaseId id : leases)
      if (const auto lease = ahead_.leases.find(id);
          lease != ahead_.leases.end() && lease->second.worker == name)
        handed_back_.insert(id);
  };
  if (const auto* credit = std::get_if<wire::Credit>(&message)) worker.credit = credit->slots;
  if (const auto* drain = std::get_if<wire::Drain>(&message)) hands_back(drain->returned);
  if (const auto* bye = std::get_if<wire::Bye>(&message)) {
    hands_back(bye->returned);
    for (const auto& [id, lease] : ahead_.leases)
      if (lease.worker == name) handed_back_.insert(id);
  }
  if (const auto* result = std::get_if<wire::Result>(&message)) {
    results_.insert({name, result->lease});
    if (const auto lease = ahead_.leases.find(result->lease);
        lease != ahead_.leases.end() && lease->second.worker == name && result->outcome != Outcome::kOk)
      failures_.insert(result->lease);
  }
  if (const auto* built = std::get_if<wire::Built>(&message)) built_.insert(built->lease);
}

void History::ticked() {
  for (const auto& [id, lease] : ahead_.leases) {
    if (lease.end != LeaseState::End::kNone) continue;
    const Time silent = std::min(silence(lease.worker), awake_ - lease.given);
    if (silent > kLeaseAgain)
      violated(
          fmt::format("lease {:x} is {}'s, who has been silent for {} ms", id, lease.worker, silent.count()));
  }
}

// --- what the farm decides

void History::apply(State& state, const Record& record) const {
  if (const auto* leased = std::get_if<Leased>(&record)) {
    TrialState& trial = state.trials[leased->trial];
    trial.lease = leased->grant.lease;
    trial.attempts++;
    state.leases[leased->grant.lease] = {
        .trial = leased->trial, .worker = leased->grant.worker, .epoch = epoch_, .given = awake_};
  } else if (const auto* released = std::get_if<Released>(&record)) {
    if (released->lost) state.trials[released->trial].lost.push_back(state.leases[released->lease].worker);
    end(state, released->lease, released->lost ? LeaseState::End::kLost : LeaseState::End::kReleased);
  } else if (const auto* finished = std::get_if<Finished>(&record)) {
    TrialState& trial = state.trials[finished->trial];
    trial.over = true;
    if (trial.lease != 0) end(state, trial.lease, LeaseState::End::kReleased);
    end(state, finished->result.lease, LeaseState::End::kResult);
  } else if (const auto* cancelled = std::get_if<Cancelled>(&record)) {
    TrialState& trial = state.trials[cancelled->trial];
    trial.over = true;
    if (trial.lease != 0) end(state, trial.lease, LeaseState::End::kCancelled);
  } else if (const auto* examined = std::get_if<Examined>(&record)) {
    set_member(state.suspect, examined->health.worker, !examined->health.suspect.empty());
  } else if (const auto* drained = std::get_if<Drained>(&record)) {
    set_member(state.drained, drained->worker, drained->drained);
  }
}

void History::end(State& state, LeaseId id, LeaseState::End how) const {
  LeaseState& lease = state.leases[id];
  lease.end = how;
  lease.ended_in = epoch_;
  TrialState& trial = state.trials[lease.trial];
  if (trial.lease == id) trial.lease = 0;
  trial.waits_since = now_;
}

void History::decided(std::span<const Record> records) {
  for (const Record& record : records) {
    std::visit([this](const auto& r) { check(r); }, record);
    apply(ahead_, record);
  }
}

void History::check(const Leased& record) {
  const auto& [id, attempt, worker, lost] = record.grant;
  const TrialState& trial = ahead_.trials[record.trial];
  if (trial.over) violated(fmt::format("trial {} is leased after its end", record.trial));
  if (trial.lease != 0) violated(fmt::format("trial {} is leased twice at once", record.trial));
  if (ahead_.leases.contains(id)) violated(fmt::format("lease {:x} is given again", id));
  if (id >> 32 != epoch_) violated(fmt::format("lease {:x} is not of epoch {}", id, epoch_));
  if (attempt != trial.attempts + 1) violated(fmt::format("attempt {} after {}", attempt, trial.attempts));
  if (trial.lost.size() >= kLossesToQuarantine)
    violated(fmt::format("trial {} is leased after {} losses", record.trial, trial.lost.size()));
  if (!fleet_.fits(worker, record.trial))
    violated(fmt::format("{} gets trial {}, which it cannot do", worker, record.trial));
  if (ahead_.suspect.contains(worker) || ahead_.drained.contains(worker))
    violated(fmt::format("{} gets trial {} while it is to get none", worker, record.trial));
  const auto held = std::count_if(ahead_.leases.begin(), ahead_.leases.end(), [&](const auto& entry) {
    return entry.second.worker == worker && entry.second.end == LeaseState::End::kNone;
  });
  if (const uint32_t credit = workers_[worker].credit; held >= credit)
    violated(
        fmt::format("{} gets a lease beyond the {} it holds and its credit of {}", worker, held, credit));
  check_preference(trial, record.trial, worker);
}

/// A candidate that took a worker away goes to another, and puts no third one at risk while one of the two is
/// there.
void History::check_preference(const TrialState& trial, TrialId id, const std::string& worker) {
  if (trial.lost.empty() || now_ - trial.waits_since >= kPreferOther || !fleet_.whole(worker, id)) return;
  const std::set<std::string> lost(trial.lost.begin(), trial.lost.end());
  const auto preferred = [&](const std::string& name) {
    return lost.contains(name) == (lost.size() >= kWorkersToRisk);
  };
  if (preferred(worker)) return;
  for (const WorkerStatus& other : fleet_.status().workers)
    if (other.slots > 0 && other.state() == "ready" && fleet_.whole(other.name, id) && preferred(other.name))
      violated(fmt::format("trial {}, which took {} workers away, goes to {} and not to {}", id, lost.size(),
                           worker, other.name));
}

void History::check(const Released& record) {
  const LeaseState& lease = ahead_.leases[record.lease];
  if (ahead_.trials[record.trial].lease != record.lease)
    violated(fmt::format("lease {:x} ends, which is not in force", record.lease));
  const bool gone = silence(lease.worker) >= kSilence || superseded_.contains(lease.worker) ||
                    awake_ - std::max(started_, lease.given) >= kLeaseLimit;
  if (record.lost && !gone)
    violated(fmt::format("{} is blamed for lease {:x} {} ms after it was heard", lease.worker, record.lease,
                         silence(lease.worker).count()));
  const bool unclaimed = lease.epoch != epoch_ && workers_[lease.worker].peer.empty();
  if (record.lost && unclaimed)
    violated(fmt::format("lease {:x} is lost with {}, who did not come since the tracker's start",
                         record.lease, lease.worker));
  if (!record.lost && !handed_back_.contains(record.lease) && !built_.contains(record.lease) &&
      !failures_.contains(record.lease) && !ahead_.suspect.contains(lease.worker) &&
      !(unclaimed && awake_ - started_ >= kSilence) && !fleet_.runner_only(lease.worker))
    violated(
        fmt::format("lease {:x} is taken from {}, who did not hand it back", record.lease, lease.worker));
}

void History::check(const Finished& record) {
  const TrialState& trial = ahead_.trials[record.trial];
  const LeaseId id = record.result.lease;
  if (trial.over) violated(fmt::format("trial {} ends twice", record.trial));
  const auto lease = ahead_.leases.find(id);
  if (lease == ahead_.leases.end() || lease->second.trial != record.trial)
    return violated(fmt::format("trial {} ends by lease {:x}, which it never had", record.trial, id));
  if (lease->second.worker != record.worker)
    violated(fmt::format("{} ends {}'s lease {:x}", record.worker, lease->second.worker, id));
  if (record.result.outcome == Outcome::kWorkerLost) {
    if (trial.lost.size() != kLossesToQuarantine)
      violated(fmt::format("trial {} is quarantined after {} losses", record.trial, trial.lost.size()));
  } else if (!results_.contains({record.worker, id})) {
    violated(fmt::format("a result of lease {:x} that {} did not send", id, record.worker));
  } else if (ahead_.suspect.contains(record.worker)) {
    violated(fmt::format("a result of {} counts while it is suspect", record.worker));
  }
}

void History::check(const Cancelled& record) {
  const TrialState& trial = ahead_.trials[record.trial];
  if (trial.over) violated(fmt::format("trial {} ends twice", record.trial));
  if (!cancelled_.contains(trial.job)) violated(fmt::format("trial {} is cancelled by nobody", record.trial));
}

// --- what it writes down, says and tells

void History::committed(std::span<const Record> records) {
  for (const Record& record : records) {
    apply(durable_, record);
    if (const auto* finished = std::get_if<Finished>(&record)) to_tell_.insert(finished->trial);
  }
}

void History::sent(const Outgoing& out) {
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { check(out.peer, body); }) check(out.peer, body);
      },
      out.message);
}

void History::check(const Peer& peer, const wire::Lease& message) {
  if (message.part == wire::Part::kRace) {
    of_races_.insert(message.lease);
    return;
  }
  const auto lease = durable_.leases.find(message.lease);
  if (lease == durable_.leases.end() || lease->second.trial != message.trial)
    return violated(fmt::format("lease {:x} is sent and not written down", message.lease));
  if (names_[peer] != lease->second.worker)
    violated(fmt::format("{}'s lease {:x} is sent to {}", lease->second.worker, message.lease, names_[peer]));
  if (message.limit_ms > kLeaseLimit.count())
    violated(fmt::format("lease {:x} is for {} ms", message.lease, message.limit_ms));
}

void History::check(const Peer& peer, const wire::ResultAck& ack) {
  if (of_races_.contains(ack.lease)) return;
  const auto found = durable_.leases.find(ack.lease);
  const LeaseState lease = found == durable_.leases.end() ? LeaseState{} : found->second;
  const bool taken = lease.end == LeaseState::End::kResult ||
                     (lease.end == LeaseState::End::kReleased && built_.contains(ack.lease));
  const bool said_taken = ack.verdict != Verdict::kStale;
  if (said_taken && !taken) violated(fmt::format("lease {:x} is acknowledged and not recorded", ack.lease));
  if (!said_taken && lease.end == LeaseState::End::kResult && lease.ended_in == epoch_ &&
      names_[peer] == lease.worker)
    violated(fmt::format("the recorded result of lease {:x} is called stale", ack.lease));
}

void History::check(const Peer& peer, const wire::Cancel& cancel) {
  const auto lease = durable_.leases.find(cancel.lease);
  if (lease != durable_.leases.end() && lease->second.end == LeaseState::End::kNone &&
      names_[peer] == lease->second.worker)
    violated(fmt::format("lease {:x} is called void, and is in force", cancel.lease));
}

void History::check(const Peer&, const wire::Welcome& welcome) {
  if (welcome.epoch != epoch_) violated(fmt::format("WELCOME says epoch {}, not {}", welcome.epoch, epoch_));
}

void History::check(const Peer&, const wire::Heartbeat& heartbeat) {
  if (heartbeat.epoch != epoch_)
    violated(fmt::format("a heartbeat says epoch {}, not {}", heartbeat.epoch, epoch_));
}

void History::told(const Finished& finished) {
  if (!durable_.trials[finished.trial].over)
    violated(fmt::format("trial {} is told and not recorded", finished.trial));
  if (!told_.insert(finished.trial).second) violated(fmt::format("trial {} is told twice", finished.trial));
  to_tell_.erase(finished.trial);
}

void History::carried_out() {
  for (TrialId trial : to_tell_) violated(fmt::format("trial {} is recorded and not told", trial));
  to_tell_.clear();
}

}  // namespace lathe::tracker::testing
