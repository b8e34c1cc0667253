// One kernel by the best schedules of each design space, in turn.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/tir/target.h"
#include "tuner/final_build.h"

namespace lathe::bench {

struct SpaceRace {
  /// Builds a module that runs the kernel alone, with this schedule, and gives what runs it once.
  std::function<std::function<void()>(const tuner::ScheduleWorkload&)> build;
  Target target;
  uint64_t samples = 24;  // schedules tried of each space
};

struct RacedSchedule {
  double seconds = 0;  // median, the second-level cache cleared before each run
  std::string trace;
};

/// The fastest schedule of each kind (kinds_of_schedules) that has one, timed in turn on this thread.
std::map<std::string, RacedSchedule> race_spaces(const SpaceRace& race);

/// A design space, and "in blocks" where its schedules cut reductions: in the order of tables.
std::vector<std::string> kinds_of_schedules();

/// The first two lines of a Markdown table: `first` columns, then one a kind, each followed by `unit`.
std::string table_head(const std::string& first, const std::string& unit);

}  // namespace lathe::bench
