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
  if (!health.suspect.empty()) return "suspect";
  if (drained) return leases > 0 ? "draining" : "drained";
  return "ready";
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
                    .withheld = withheld()};
  for (const auto& [peer, worker] : workers_) {
    status.slots += worker.credit();
    // There since greet(); forget_name() spares the names of connected workers.
    const Health& health = health_.at(worker.name);
    status.workers.push_back({.name = worker.name,
                              .device = worker.device,
                              .device_class = worker.device_class,
                              .backends = worker.backends,
                              .slots = worker.slots,
                              .leases = static_cast<uint32_t>(worker.leases.size()),
                              .silent = now - worker.heard,
                              .drained = worker.drained,
                              .health = health.row(),
                              .drift = health.drift()});
    if (worker.canary) status.workers.back().canary_age = now - *worker.canary;
  }
  for (const auto& [name, share] : shares_) status.owners.push_back({name, share.weight, share.device_time});
  return status;
}

/// Of trials that no worker has.
std::set<std::string> Farm::waiting_platforms() const {
  std::set<std::string> platforms;
  for (const auto* queues : {&pending_, &ready_})
    for (const auto& [lane, queue] : *queues)
      // Not `!empty()`: closed trials stay in their queues until they are popped.
      if (std::any_of(queue.begin(), queue.end(), [&](TrialId id) { return trials_.contains(id); }))
        platforms.insert(lane.platform);
  for (const TrialId id : retries_)
    if (const auto trial = trials_.find(id); trial != trials_.end() && trial->second.lease == 0)
      platforms.insert(lane_of(*trial->second.spec).platform);
  return platforms;
}

std::vector<std::string> Farm::unserved() const {
  std::vector<std::string> result;
  for (const std::string& platform : waiting_platforms())
    if (std::none_of(workers_.begin(), workers_.end(),
                     [&](const auto& entry) { return entry.second.runs(platform); }))
      result.push_back(platform);
  return result;
}

std::vector<std::string> Farm::withheld() const {
  std::vector<std::string> result;
  for (const std::string& platform : waiting_platforms()) {
    bool runs = false, may = false;
    for (const auto& [peer, worker] : workers_) {
      runs |= worker.runs(platform);
      may |= worker.runs(platform) && !worker.suspect && !worker.drained;
    }
    if (runs && !may) result.push_back(platform);
  }
  return result;
}

std::vector<std::string> Farm::unbuilt() const {
  std::vector<std::string> result;
  for (const std::string& platform : waiting_platforms()) {
    bool runs = false, builds = false;
    for (const auto& [peer, worker] : workers_) {
      runs |= worker.runs(platform);
      builds |= worker.builds_for(platform) || (worker.runs(platform) && !worker.runner_only);
    }
    if (runs && !builds) result.push_back(platform);
  }
  return result;
}

}  // namespace lathe::tracker
