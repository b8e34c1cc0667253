// Which jobs are searched now: places of `--searches`, owners, and devices that are there or have gone.
#include <fmt/chrono.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/support/error.h"
#include "tracker/device_choice.h"
#include "tracker/farm.h"
#include "tracker/job_keeper.h"
#include "tracker/job_request.h"
#include "tracker/kept_search.h"

namespace lathe::tracker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWaiting = 1'000'000;  // jobs in the queue that are looked at

constexpr std::string_view kNoDevices = "no worker of its devices, ";  // begins all that says so

std::string date_text(int64_t wall_ms) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(wall_ms / 1000)));
}

/// What it began with, as the database knows it; nothing where that knows none of them any more.
std::optional<DeviceClass> known_device(db::Store& store, const db::ServedJob& job) {
  std::optional<DeviceClass> found;
  for (const auto& [id, device] : store.devices())
    if (DeviceClass known = device_class_of(device.details); known.name == job.device_class)
      found = std::move(known);
  if (!found) return std::nullopt;
  const std::string target = store.job(*job.job).target_name;
  // As in find_device().
  if (found->target != target) found->machine = "";
  found->target = target;
  return found;
}

}  // namespace

/// Nothing where the devices measure.
std::string JobKeeper::what_it_waits_for(const std::string& devices, ClassSlots slots,
                                         const Seen& seen) const {
  if (slots.answering > 0) return "";
  const std::string until =
      fmt::format(" (since {}; at {} the job ends with what it has)", date_text(seen.wall_ms),
                  date_text(seen.wall_ms + settings_.waits_for_devices.count()));
  if (slots.ready == 0) return fmt::format("{}{}, is ready{}", kNoDevices, devices, until);
  return fmt::format(
      "{}{}, answers: each has let a lease pass its {} minutes, and has measured nothing since{}", kNoDevices,
      devices, std::chrono::duration_cast<std::chrono::minutes>(defaults::kLeaseLimit).count(), until);
}

bool JobKeeper::is_given_up(const Seen& seen) const {
  return Clock::now() - seen.at > settings_.waits_for_devices;
}

/// Times of two classes are never mixed: a job that has begun waits for its own, and where they stay away its
/// search goes on without them, to end. REQUIRES: deciding_ is held; the job has begun.
void JobKeeper::await_devices(db::Store& store, const db::ServedJob& job, Choice& choice) {
  const auto [found, is_new] = absences_.try_emplace(job.id);
  Absence& absence = found->second;
  if (is_new) absence = {job.device_class, needs_of_request(job.request), {Clock::now(), store.now_ms()}};
  if (choice.device) return;
  choice.why = what_it_waits_for(job.device_class, {}, absence.seen);
  if (!is_given_up(absence.seen)) return;
  choice.device = known_device(store, job);
  if (choice.device) return;
  // An import into another database, say: nothing can be built for what is not known.
  choice.is_over = true;
  choice.why = fmt::format("its devices, {}, have gone, and the database knows none such", job.device_class);
}

/// Those that ran when a tracker ended go first; then whose owner has the fewest running; then by priority,
/// and the oldest. REQUIRES: woken, or nothing changed but the fleet since the last call.
void JobKeeper::start_some(db::Store& store, bool woken) {
  // A look at a long queue takes a while, and would be taken twice a second.
  if (!woken && !waits_for_fleet_) return;
  const FarmStatus farm = farm_.status();
  Fleet fleet;
  for (const WorkerStatus& worker : farm.workers)
    fleet.push_back({worker.device, worker.backends, worker.slots});
  const bool is_late = std::any_of(absences_.begin(), absences_.end(),
                                   [&](const auto& one) { return is_given_up(one.second.seen); });
  if (!woken && !is_late && fleet == fleet_) return;
  fleet_ = std::move(fleet);
  waits_for_fleet_ = false;

  std::lock_guard deciding(deciding_);
  std::map<std::string, size_t> running;                     // by owner
  std::map<std::string, std::vector<db::ServedJob>> queues;  // by owner; the next job is the last
  std::set<db::ServedJobId> searched, waiting;
  size_t free = 0;
  {
    std::lock_guard lock(mutex_);
    // One that has ended but is not yet collected still counts, until the next round.
    free = settings_.searches - std::min(settings_.searches, searches_.size());
    for (const auto& [id, search] : searches_) {
      ++running[search->job.owner];
      searched.insert(id);
    }
    if (free == 0 && !woken) return;  // the end of one wakes
  }
  // Without the lock, for the queue may be long. What has ended since then is in `searched`, whatever state
  // was read; and what ended before had its last state before this reads it.
  for (const db::JobState state : {db::JobState::kRunning, db::JobState::kQueued})
    for (db::ServedJob& job : store.served_jobs({.state = state, .limit = kWaiting}))
      if (!searched.contains(job.id)) {
        waiting.insert(job.id);
        queues[job.owner].push_back(std::move(job));
      }
  std::erase_if(absences_, [&](const auto& one) { return !waiting.contains(one.first); });
  const auto rank = [](const db::ServedJob& job, size_t of_owner) {
    return std::tuple(job.state != db::JobState::kRunning, of_owner, -job.priority, job.id);
  };
  for (auto& [owner, queue] : queues)
    std::sort(queue.begin(), queue.end(),
              [&](const auto& a, const auto& b) { return rank(b, 0) < rank(a, 0); });
  Choices known;
  // Those whose devices are there, but take no leases for now, come after all who could begin to measure.
  std::vector<std::pair<db::ServedJob, DeviceClass>> later;
  while (free > 0 && !queues.empty()) {
    // An owner's rank changes with every start, so the least is looked for anew each time.
    const auto next = std::min_element(queues.begin(), queues.end(), [&](const auto& a, const auto& b) {
      return rank(a.second.back(), running[a.first]) < rank(b.second.back(), running[b.first]);
    });
    const db::ServedJob job = std::move(next->second.back());
    next->second.pop_back();
    if (next->second.empty()) queues.erase(next);
    Choice choice = find_device(job, farm, known);
    if (job.job && !choice.is_ready && !choice.is_damaged) await_devices(store, job, choice);
    if (!choice.device) {
      if (choice.is_over) {
        store.set_served_state(job.id, db::JobState::kFailed, choice.why);
        cancel_trials(store, job.id);
        continue;
      }
      waits_for_fleet_ = true;
      if (job.message != choice.why) store.set_served_state(job.id, job.state, choice.why);
      continue;
    }
    if (!choice.is_ready) {
      later.emplace_back(job, std::move(*choice.device));
      continue;
    }
    ++running[job.owner];
    --free;
    start(store, job, std::move(*choice.device));
  }
  for (auto& [job, device] : later) {
    if (free == 0) {
      queues[job.owner].push_back(std::move(job));
      continue;
    }
    --free;
    start(store, job, std::move(device));
  }
  if (free == 0) tell_that_places_are_taken(store, std::move(queues), farm, known);
}

/// Of those that could begin, or it would be said of them that they wait for devices.
/// REQUIRES: deciding_ is held.
void JobKeeper::tell_that_places_are_taken(db::Store& store,
                                           std::map<std::string, std::vector<db::ServedJob>> queues,
                                           const FarmStatus& farm, Choices& known) {
  const std::string waits = settings_.searches == 1
                                ? "waits for the end of the one search that may run at once"
                                : fmt::format("waits for one of {} searches to end", settings_.searches);
  // Of a long queue the next ones, for each costs a row.
  constexpr size_t kTold = 256;
  std::vector<db::ServedJobId> untold;
  for (auto& [owner, queue] : queues)
    for (size_t looked = 0; looked < kTold && !queue.empty(); ++looked, queue.pop_back()) {
      const db::ServedJob& job = queue.back();
      if (job.state == db::JobState::kQueued && job.message != waits && find_device(job, farm, known).device)
        untold.push_back(job.id);
    }
  if (untold.empty()) return;
  // All at once, for each commit waits for the disk.
  db::Transaction transaction = store.begin();
  for (const db::ServedJobId id : untold) store.set_served_state(id, db::JobState::kQueued, waits);
  transaction.commit();
}

/// A search whose devices have gone waits in the queue while others could begin, and goes on where it was
/// when they are back. Else a few such searches, which may be one user's, would keep everybody from all
/// others' devices. REQUIRES: keep()'s thread.
void JobKeeper::free_a_place(db::Store& store, const FarmStatus& farm) {
  std::optional<db::ServedJobId> idle;
  {
    std::lock_guard lock(mutex_);
    if (searches_.size() < settings_.searches) return;
    Clock::time_point since = Clock::now() - settings_.gives_way;
    for (const auto& [id, search] : searches_) {
      // A place is free already, or soon will be.
      if (search->ended || search->wanted != db::JobState::kDone) return;
      if (search->seen.at >= since || Clock::now() >= search->over_at || is_given_up(search->seen)) continue;
      idle = id;
      since = search->seen.at;
    }
  }
  if (!idle) return;
  Choices known;
  for (const db::ServedJob& job : store.served_jobs({.state = db::JobState::kQueued, .limit = kWaiting})) {
    if (!find_device(job, farm, known).is_ready) continue;
    log(fmt::format("job {} gives its place to others until its devices are back",
                    store.served_job(*idle).uuid));
    end(*idle, db::JobState::kQueued, SIGTERM);
    return;
  }
}

/// F11: a search whose devices have gone waits for them, and its job says so until they are back.
void JobKeeper::tell_what_searches_wait_for(db::Store& store) {
  constexpr auto kEvery = std::chrono::seconds(2);
  if (Clock::now() - told_ < kEvery) return;
  told_ = Clock::now();
  std::map<db::ServedJobId, std::string> waiters;  // and what to say of them
  {
    std::lock_guard lock(mutex_);
    if (searches_.empty() && absences_.empty()) return;
  }
  const FarmStatus farm = farm_.status();
  // Where there is no place for its search, they may have been there and gone again.
  std::erase_if(absences_, [&](const auto& one) {
    return slots_of(farm, one.second.device_class, one.second.needs).answering > 0;
  });
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, search] : searches_) {
      if (search->ended) continue;
      const Properties needs = needs_of_request(search->job.request);
      const ClassSlots slots = slots_of(farm, search->device.name, needs);
      if (slots.answering > 0) search->seen = {Clock::now(), store.now_ms()};
      waiters[id] = what_it_waits_for(search->device.name, slots, search->seen);
    }
  }
  if (waiters.empty()) return;
  {
    std::lock_guard deciding(deciding_);
    for (const auto& [id, waits] : waiters) {
      const db::ServedJob job = store.served_job(id);
      if (job.state != db::JobState::kRunning || job.message == waits) continue;
      // What else there is to say stays.
      if (job.message.empty() || job.message.starts_with(kNoDevices))
        store.set_served_state(id, job.state, waits);
    }
  }
  free_a_place(store, farm);
}

/// A job that has begun stays with its class of devices.
JobKeeper::Choice JobKeeper::find_device(const db::ServedJob& job, const FarmStatus& farm,
                                         Choices& known) const {
  try {
    const JobRequest request = parse_job_request(job.request);
    // Times of two classes are not compared: what the search began with, it ends with.
    const std::string& wanted = job.job ? job.device_class : request.device;
    const Properties needs = with_cores_for(request.threads, parse_needs(request.needs));
    const std::tuple key(request.target, wanted, needs);
    if (const auto found = known.find(key); found != known.end()) return found->second;
    Choice choice;
    // "cpu" is left for the device to settle; a target in full is brought to the one text
    // that keys the store.
    const bool any_processor = request.target.find(':') == std::string::npos;
    const std::string target = any_processor ? request.target : settings_.resolve_target(request.target);
    choice.device = choose_device_class(farm, target, wanted, needs, settings_.lacking, choice.why);
    choice.is_ready = choice.device && slots_of(farm, choice.device->name, needs).answering > 0;
    if (choice.device && !any_processor) {
      // The numbers were measured with what the worker compiles for by itself.
      if (choice.device->target != target) choice.device->machine = "";
      choice.device->target = target;
    }
    return known.emplace(key, std::move(choice)).first->second;
  } catch (const Error& error) {
    return {.device = std::nullopt, .why = error.what(), .is_damaged = true};
  }
}

}  // namespace lathe::tracker
