#include "tests/tracker/simulated_races.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tracker/defaults.h"

namespace lathe::tracker::testing {
namespace {

const std::string kUntuned = "the untuned build",
                  kTuned = std::string(defaults::kChunkBytes + 10, 't');  // in two pieces

/// Open for as long as they are kept; their names are gone.
RaceModules open_modules() {
  const TemporaryFolder folder;
  write_file(folder / "untuned", kUntuned);
  write_file(folder / "tuned", kTuned);
  return {std::make_shared<const ModuleFile>(folder / "untuned"),
          std::make_shared<const ModuleFile>(folder / "tuned")};
}

/// What the search's race gives, on every worker.
std::vector<float> turns_of(size_t search) { return {static_cast<float>(search + 1), 0.5f}; }

}  // namespace

SimulatedRaces::SimulatedRaces(const std::vector<RacingSearch>& searches, Fits fits, Violated violated)
    : fits_(std::move(fits)), violated_(std::move(violated)) {
  for (const RacingSearch& search : searches) searches_.push_back({.is = search});
}

// --- searches

std::vector<Event> SimulatedRaces::ask(size_t index) {
  static const RaceModules modules = open_modules();
  Search& search = searches_[index];
  std::vector<Event> said;
  if (search.over) return said;
  if (search.race != 0) {
    races_.at(search.race).over = true;
    said.emplace_back(CancelRace{search.race});
  }
  search.race = kFirstRace + races_.size();
  races_[search.race].search = index;
  // By its threads a worker knows whose race it is, whichever life of the tracker it got it from.
  RaceModules race = modules;
  race.evaluation.threads = static_cast<uint32_t>(index) + 1;
  TrialSpec spec{.job = search.is.job,
                 .target = search.is.target,
                 .race = std::make_shared<const RaceModules>(std::move(race))};
  said.emplace_back(
      Submit{{{.trial = search.race, .spec = std::make_shared<const TrialSpec>(std::move(spec))}}});
  return said;
}

CancelJob SimulatedRaces::cancel(size_t index) {
  Search& search = searches_[index];
  if (search.race != 0) races_.at(search.race).over = true;
  search.race = 0;
  search.over = true;
  return {search.is.job};
}

void SimulatedRaces::tracker_died() {
  for (Search& search : searches_) search.race = 0;
  races_.clear();
  told_.clear();
}

void SimulatedRaces::told(const Finished& finished) {
  if (!races_.at(finished.trial).over)
    violated_(fmt::format("race {:x} is told and goes on", finished.trial));
  if (!told_.insert(finished.trial).second) violated_(fmt::format("race {:x} is told twice", finished.trial));
  Search& search = searches_[races_.at(finished.trial).search];
  if (search.race != finished.trial) return;  // of an earlier life of its
  search.race = 0;
  search.over = true;
  search.raced = finished.result.outcome == Outcome::kOk;
}

// --- what the farm decides

void SimulatedRaces::decided(const Record& record) const {
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { body.trial; })
          if (body.trial >= kFirstRace) violated_(fmt::format("race {:x} is written down", body.trial));
      },
      record);
}

void SimulatedRaces::decided(const std::string& worker, const wire::Lease& lease) {
  const auto found = races_.find(lease.trial);
  if (found == races_.end() || found->second.over)
    return violated_(fmt::format("race {:x} goes to {}, and nobody waits for it", lease.trial, worker));
  Race& race = found->second;
  if (!fits_(worker, searches_[race.search].is.target))
    violated_(fmt::format("{} gets race {:x}, which it cannot run", worker, lease.trial));
  const auto [given, is_new] = race.leases.try_emplace(lease.lease, worker);
  if (given->second != worker)
    violated_(fmt::format("{}'s lease {:x} of a race is sent to {}", given->second, lease.lease, worker));
  if (is_new && lease.attempt != race.leases.size())
    violated_(fmt::format("attempt {} of a race after {}", lease.attempt, race.leases.size() - 1));
}

void SimulatedRaces::decided(const Finished& finished) {
  const auto found = races_.find(finished.trial);
  if (found == races_.end() || found->second.over)
    return violated_(fmt::format("race {:x} ends, and nobody waits for it", finished.trial));
  Race& race = found->second;
  race.over = true;
  const wire::Result& result = finished.result;
  if (result.outcome == Outcome::kWorkerLost) return;
  const auto lease = race.leases.find(result.lease);
  if (lease == race.leases.end() || lease->second != finished.worker)
    violated_(fmt::format("{} ends race {:x}, which it never had", finished.worker, finished.trial));
  if (searches_[race.search].is.kills)
    violated_(fmt::format("race {:x} has a result, though it kills its worker", finished.trial));
  if (result.outcome != Outcome::kOk || result.samples != turns_of(race.search))
    violated_(fmt::format("race {:x} has another result than it gave", finished.trial));
}

// --- a worker

wire::Result SimulatedRaces::run(const worker::Run& run) const {
  if (*run.reference != kUntuned || *run.artifact != kTuned)
    violated_(fmt::format("lease {:x} races other builds than its search's", run.lease.lease));
  return {.samples = turns_of(search_of(run))};
}

// --- at the end

bool SimulatedRaces::over() const {
  return std::all_of(searches_.begin(), searches_.end(), [](const Search& search) { return search.over; });
}

int SimulatedRaces::raced() const {
  return static_cast<int>(
      std::count_if(searches_.begin(), searches_.end(), [](const Search& search) { return search.raced; }));
}

bool SimulatedRaces::none_in(const Farm& farm) const {
  return std::all_of(searches_.begin(), searches_.end(),
                     [&](const Search& search) { return farm.open(search.is.job) == 0; });
}

}  // namespace lathe::tracker::testing
