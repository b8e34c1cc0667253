// Who gets which trial next: queues by lane, shares of owners, and which worker suits a trial.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/support/error.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"

namespace lathe::tracker {

using namespace defaults;

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

Farm::Lane Farm::lane_of(const TrialSpec& spec) {
  return {platform_of(spec.target), spec.device_class, spec.owner, spec.needs, spec.is_open};
}

bool Farm::runs(const Worker& worker, const Lane& lane) {
  return worker.runs(lane.platform) && (!lane.is_open || worker.version >= wire::kOpenVersion) &&
         (lane.device_class.empty() || lane.device_class == worker.device_class) &&
         has_at_least(worker.device->properties, lane.needs);
}

/// An owner who had nothing waiting has saved nothing up meanwhile: as in start-time fair queueing (Goyal et
/// al., SIGCOMM 1996), whoever comes back starts level with the least served of those who wait. Else a night
/// without jobs would be a credit that shuts all others out in the morning.
void Farm::queue(Trial& trial) {
  const TrialSpec& spec = *trial.spec;
  std::optional<double> least;
  bool waits = false;
  // A lane that is here is not empty but for closed trials: pop() and unqueue() take emptied ones out. There
  // are as many as owners, platforms and classes of devices in use, so some dozens.
  const auto count = [&](const std::string& owner) {
    least = std::min(least.value_or(had(owner)), had(owner));
    waits |= owner == spec.owner;
  };
  for (const auto& [lane, trials] : pending_) count(lane.owner);
  for (const auto& [lane, kinds] : retries_) count(lane.owner);
  Share& share = shares_[spec.owner];
  if (!waits && least) share.virtual_ms = std::max(share.virtual_ms, *least);
  // What cares who gets it is looked at one by one (suits); the queues of lanes are only popped. A race
  // cares, since workers of an older version know none.
  if (std::as_const(trial).past().avoid.empty() && !spec.race)
    queue_of(pending_, lane_of(spec)).trials.push_back(trial.id);
  else
    queue_retry(trial);
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
      std::deque<TrialId>& trials = found->second.trials;
      std::erase_if(trials, is_closed);
      // A deque keeps its blocks, and the next job has other lanes.
      trials.shrink_to_fit();
      if (trials.empty()) queues->erase(found);
    }
}

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

/// Whose these workers are; empty where any of them came without a key, or is not known since our restart.
std::set<std::string> Farm::voices_lost(const std::set<std::string>& workers) const {
  std::set<std::string> voices;
  for (const std::string& name : workers) {
    const auto key = keys_.find(name);
    if (key == keys_.end() || key->second.empty()) return {};
    voices.insert(owner_of(key->second));
  }
  return voices;
}

/// A candidate that took a worker away goes to another one, but never puts more than kWorkersToRisk at risk;
/// one to be confirmed, or whose failure is in doubt, goes to another one too. When there is none of that
/// kind, or it stays busy for a while, any will do.
bool Farm::suits(const Trial& trial, const Worker& worker) const {
  const std::optional<wire::Part> part = part_for(worker, trial);
  if (!part) return false;
  // Whoever measured it before may build it: what is wanted is another machine's time, not
  // another compiler's code.
  if (*part != wire::Part::kBuild && now_ - trial.pending_since < kPreferAnother &&
      prefers_another(trial, worker))
    return false;
  const std::set<std::string> lost = workers_lost(trial.past().grants);
  if (lost.empty()) return true;
  // Whoever holds keys is all of their workers: one principal's word alone quarantines nothing, while
  // another's worker is up.
  const std::set<std::string> accused = voices_lost(lost);
  const bool waited = now_ - trial.pending_since >= kPreferOther;
  const auto is_other = [&](const Worker& candidate) {
    return !candidate.key.empty() && !accused.contains(owner_of(candidate.key));
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

Farm::Kind Farm::kind_of(const Trial& trial) {
  const Past& past = trial.past();
  Kind kind{.is_race = trial.spec->race != nullptr, .was_built = past.build.has_value(), .avoid = past.avoid};
  for (const Testimony& one : past.said) kind.said.push_back(one.worker);
  for (const Grant& grant : past.grants)
    if (grant.lost) kind.lost.push_back(grant.worker);
  return kind;
}

/// Behind all that wait so.
void Farm::queue_retry(Trial& trial) {
  trial.make_past().place = ++last_place_;
  file_retry(trial);
  may_assign_ = true;
}

void Farm::file_retry(const Trial& trial) {
  retries_[lane_of(*trial.spec)][kind_of(trial)][trial.past().place] = trial.id;
}

/// Before anything changes that its kind is made of. Nothing for a trial that is not there.
void Farm::unfile_retry(const Trial& trial) {
  if (trial.past().place == 0) return;
  const auto lane = retries_.find(lane_of(*trial.spec));
  CHECK(lane != retries_.end(), "trial {} is not where it waits", trial.id);
  const auto kind = lane->second.find(kind_of(trial));
  CHECK(kind != lane->second.end() && kind->second.erase(trial.past().place) == 1,
        "trial {} is not among its like", trial.id);
  if (kind->second.empty()) lane->second.erase(kind);
  if (lane->second.empty()) retries_.erase(lane);
}

/// The oldest that suits the worker, of the owner who has had the least; or null. All trials of a class that
/// has gone away wait here, or of a job that has much to be confirmed, and each free worker asks with each
/// frame that comes: so neither lanes that are not its own are looked into, nor more than the first of a
/// kind.
const Farm::Trial* Farm::find_retry(const Worker& worker) const {
  const Trial* first = nullptr;
  for (const auto& [lane, kinds] : retries_) {
    if (!runs(worker, lane) && !builds(worker, lane)) continue;
    for (const auto& [kind, waiting] : kinds)
      for (const auto& [place, id] : waiting) {
        if (first &&
            std::pair(had(first->spec->owner), first->past().place) < std::pair(had(lane.owner), place))
          break;
        const Trial& trial = trials_.at(id);
        if (suits(trial, worker)) first = &trial;
        // Whether a build is still in the store is each one's own matter.
        if (!kind.was_built) break;
      }
  }
  return first;
}

/// Nothing where it suits no more.
std::optional<Farm::Offer> Farm::take_retry(const Worker& worker, const Trial& retry) {
  const std::optional<wire::Part> part = part_for(worker, retry);
  if (!part) return std::nullopt;
  Trial& trial = trials_.at(retry.id);
  unfile_retry(trial);
  trial.make_past().place = 0;
  return Offer{trial.id, *part};
}

/// What the owner has had who has had the least of those with something new for the worker.
double Farm::least_had(const Worker& worker) const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [lane, queue] : ready_)
    if (runs(worker, lane)) least = std::min(least, had(lane.owner));
  for (const auto& [lane, queue] : pending_)
    if ((runs(worker, lane) && !worker.runner_only) || (builds(worker, lane) && wants_builds(lane)))
      least = std::min(least, had(lane.owner));
  return least;
}

std::optional<Farm::Offer> Farm::take_pending(const Worker& worker) {
  // An owner's retries before its new ones: a job that ends waits for its confirmations, and a race holds up
  // a whole search. But not before those who have had less, or whoever has much to be confirmed has it all.
  const Trial* retry = find_retry(worker);
  const bool is_due = retry && had(retry->spec->owner) <= least_had(worker);
  std::optional<Offer> offer;
  if (is_due) offer = take_retry(worker, *retry);
  if (!offer) offer = take_new(worker);
  // Of whoever has had less there were closed trials alone.
  if (!offer && retry && !is_due) offer = take_retry(worker, *retry);
  return offer;
}

std::optional<Farm::Offer> Farm::take_new(const Worker& worker) {
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

/// One that has nothing to do is forgotten, and comes back behind the others that wait: of two that are
/// emptied and filled again and again neither is ahead.
Farm::Queue& Farm::queue_of(Queues& queues, const Lane& lane) {
  const auto [queue, is_new] = queues.try_emplace(lane);
  if (is_new) queue->second.turn = ++last_turn_;
  return queue->second;
}

/// Of the lanes that fit, the next open trial of the owner who has had the least, and of those the one of the
/// lane that was served longest ago; or 0.
TrialId Farm::pop(Queues& queues, const std::function<bool(const Lane&)>& fits) {
  // A lane may hold nothing but closed trials; then it goes, and the next best is asked.
  for (;;) {
    auto best = queues.end();
    const auto rank = [&](const auto& lane) { return std::pair(had(lane.first.owner), lane.second.turn); };
    for (auto it = queues.begin(); it != queues.end(); ++it)
      if (fits(it->first) && (best == queues.end() || rank(*it) < rank(*best))) best = it;
    if (best == queues.end()) return 0;
    std::deque<TrialId>& trials = best->second.trials;
    best->second.turn = ++last_turn_;
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

}  // namespace lathe::tracker
