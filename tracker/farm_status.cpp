// What others may ask the farm, and how platforms are called.
#include <algorithm>

#include "core/support/error.h"
#include "core/support/text.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"

namespace lathe::tracker {

using namespace defaults;

std::string platform_of(const std::string& target) {
  constexpr std::string_view kTriple = "triple=";
  const std::string backend = target.substr(0, target.find(':'));
  const size_t triple = target.find(kTriple);
  if (triple == std::string::npos) return backend;
  const size_t start = triple + kTriple.size();
  // A triple is architecture-vendor-system, and the comma ends the option.
  return platform_name(backend, target.substr(start, target.find_first_of("-,", start) - start));
}

std::string platform_name(const std::string& backend, const std::string& architecture) {
  return fmt::format("{}/{}", backend, architecture);
}

std::string_view WorkerStatus::state() const {
  // What an administrator said comes first: why it is not believed stands beside it (health.suspect).
  if (drained) return leases > 0 ? "draining" : "drained";
  return health.suspect.empty() ? "ready" : "suspect";
}

ClassSlots slots_of(const FarmStatus& status, const std::string& device_class, const Properties& needs) {
  if (device_class.empty()) return {.ready = status.slots, .answering = status.slots};
  ClassSlots slots;
  for (const WorkerStatus& worker : status.workers)
    if (worker.device_class == device_class && worker.state() == "ready" &&
        (needs.empty() || has_at_least(worker.device->properties, needs))) {
      slots.ready += worker.slots;
      if (!worker.mute) slots.answering += worker.slots;
    }
  return slots;
}

std::string unserved_text(const FarmStatus& status) {
  if (!status.unserved.empty())
    return fmt::format("no worker is {}: start one with `tune worker --tracker ...` on such a machine",
                       join_text(status.unserved, " or "));
  if (!status.unbuilt.empty())
    return fmt::format("no worker builds for {}: start one with `tune worker --tracker ...` on any machine",
                       join_text(status.unbuilt, " or "));
  if (!status.withheld.empty())
    return fmt::format("every worker that is {} is drained or suspect: `tune jobs --devices` says which",
                       join_text(status.withheld, " or "));
  return "";
}

size_t Farm::room(JobId job, const std::string& owner) const {
  // min() since trials that a restart found are taken up, however many they are.
  const size_t free = kQueueLimit - std::min(kQueueLimit, trials_.size());
  const auto share = shares_.find(owner);
  const size_t theirs = share == shares_.end() ? 0 : share->second.open;
  // As many as there is room left beside them: with r free of R and o its own, o may grow to (r + o) / 2. One
  // owner alone gets half of all; each that comes later, half of what is left.
  const size_t of_owner = free > theirs ? (free - theirs) / 2 : 0;
  return std::min(of_owner, kQueueOfJob - std::min(kQueueOfJob, open(job)));
}

size_t Farm::open(JobId job) const {
  const auto found = open_.find(job);
  return found == open_.end() ? 0 : found->second;
}

bool Farm::knows(const std::string& worker) const {
  return keys_.contains(worker) || drained_.contains(worker);
}

FarmStatus Farm::status(Time now) const {
  FarmStatus status{.epoch = epoch_,
                    .pending = trials_.size() - leases_.size(),
                    .leased = leases_.size(),
                    .room = kQueueLimit - std::min(kQueueLimit, trials_.size()),
                    .unserved = unserved(),
                    .unbuilt = unbuilt(),
                    .withheld = withheld(),
                    .distrusts = distrusts_};
  for (const auto& [peer, worker] : workers_) {
    status.slots += worker.credit();
    // There since greet(); forget_name() spares the names of connected workers.
    const Health& health = health_.at(worker.name);
    status.workers.push_back({.name = worker.name,
                              .device_class = worker.device_class,
                              .device = worker.device,
                              .backends = worker.backends,
                              .slots = worker.slots,
                              .leases = static_cast<uint32_t>(worker.leases.size()),
                              .mute = worker.mute,
                              .runner_only = worker.runner_only,
                              .silent = now - worker.heard,
                              .drained = worker.drained,
                              .health = health.row(),
                              .drift = health.drift()});
    if (worker.canary) status.workers.back().canary_age = now - *worker.canary;
  }
  for (const auto& [name, share] : shares_) status.owners.push_back({name, share.weight, share.device_time});
  return status;
}

/// Where the trials wait that no worker has; of no owner.
std::set<Farm::Lane> Farm::waiting() const {
  std::set<Lane> lanes;
  const auto add = [&](Lane lane) {
    lane.owner.clear();
    lanes.insert(std::move(lane));
  };
  for (const auto* queues : {&pending_, &ready_})
    for (const auto& [lane, queue] : *queues)
      // Not `!empty()`: closed trials stay in their queues until they are popped.
      if (std::any_of(queue.trials.begin(), queue.trials.end(),
                      [&](TrialId id) { return trials_.contains(id); }))
        add(lane);
  for (const auto& [lane, kinds] : retries_) add(lane);
  return lanes;
}

/// "cpu/x86_64 (Zen, 8 cores) with memory of 16 GiB or more".
std::string Farm::describe(const Lane& lane) {
  std::string text = lane.platform;
  if (!lane.device_class.empty()) text += fmt::format(" ({})", lane.device_class);
  if (lane.is_open) text += " that knows open dimensions";
  if (!lane.needs.empty()) text += " with " + describe_needs(lane.needs);
  return text;
}

std::vector<std::string> Farm::unserved() const {
  std::vector<std::string> result;
  for (const Lane& lane : waiting())
    if (std::none_of(workers_.begin(), workers_.end(),
                     [&](const auto& entry) { return runs(entry.second, lane); }))
      result.push_back(describe(lane));
  return result;
}

std::vector<std::string> Farm::withheld() const {
  std::vector<std::string> result;
  for (const Lane& lane : waiting()) {
    bool can = false, may = false;
    for (const auto& [peer, worker] : workers_) {
      can |= runs(worker, lane);
      may |= runs(worker, lane) && !worker.suspect && !worker.drained;
    }
    if (can && !may) result.push_back(describe(lane));
  }
  return result;
}

std::vector<std::string> Farm::unbuilt() const {
  std::vector<std::string> result;
  for (const Lane& lane : waiting()) {
    bool can = false, built = false;
    for (const auto& [peer, worker] : workers_) {
      can |= runs(worker, lane);
      built |= builds(worker, lane) || (runs(worker, lane) && !worker.runner_only);
    }
    if (can && !built) result.push_back(lane.platform);
  }
  return result;
}

}  // namespace lathe::tracker
