// The whole farm in one thread and virtual time: a Farm on a MemoryJournal, several Agents, a liar, and a
// network that drops, doubles, delays and reorders, while trackers and workers crash and fall asleep, each by
// a clock of its own. Every other trial is for boards, which only run what workers of the other kind build. A
// second job is cancelled in its midst. Other jobs wait for races of two builds (simulated_races.h).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tracker/farm.h"

namespace lathe::tracker::testing {

struct Faults {
  int drop = 5, twice = 5, delay = 10, lies = 5;  // percent of messages
  int worker_crashes = 6, tracker_crashes = 4, searcher_crashes = 2, naps = 2, partitions = 3, drains = 2;
  bool killers = true;                               // candidates and a race that take their workers away
  bool cancels = true;                               // the second job, and one that races
  uint64_t store_bytes = 3 * defaults::kChunkBytes;  // less than all builds
  int slow_worker = -1;                              // whose canaries are 20% slower from slow_from on
  Time slow_from{0};
  Time submit_at{0};                      // the first job
  Time until = std::chrono::seconds(60);  // faults stop; the jobs must end
};

/// Nothing goes wrong.
constexpr Faults kCalm = {.drop = 0,
                          .twice = 0,
                          .delay = 0,
                          .lies = 0,
                          .worker_crashes = 0,
                          .tracker_crashes = 0,
                          .searcher_crashes = 0,
                          .naps = 0,
                          .partitions = 0,
                          .drains = 0,
                          .killers = false,
                          .cancels = false,
                          .store_bytes = defaults::kTrackerStoreBytes};

constexpr int kTrials = 60, kCancelled = 16;  // of the two jobs

struct Voyage {
  std::vector<std::string> violations;  // of the contract, in words
  Time ended{0};
  int told = 0;                      // results the tuner got
  int builds = 0;                    // begun
  int raced = 0;                     // searches that got the turns of their race
  std::set<std::string> leased;      // workers that got a lease
  std::set<std::string> distrusted;  // workers whose results were to be measured again
};

/// What the farm does under these faults; the same for the same seed. Any thread.
Voyage simulate(uint32_t seed, const Faults& faults);

}  // namespace lathe::tracker::testing
