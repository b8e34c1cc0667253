// The LATHE_ variables of the environment that set no flag. Any other is the name of a flag, or a mistake.
#pragma once

namespace lathe::cli {

struct Variable {
  const char* name;
  const char* help;
  bool for_developers = false;  // scripts and tests read it, `tune` does not
};

inline constexpr Variable kVariables[] = {
    {"LATHE_CACHE", "folder for what can be made again, instead of $XDG_CACHE_HOME/lathe"},
    {"LATHE_TOKEN", "the token that a tracker knows you by, where --token-file names none"},
    {"LATHE_UNCONFINED", "1: where the system cannot confine candidates, they run all the same"},
    {"LATHE_BIN", "folder of the programs that benchmarks start", true},
    {"LATHE_CHECK_BASE", "revision that ./run check --changed compares with", true},
    {"LATHE_DEEP", "the one kind of long and deep texts that is tried", true},
    {"LATHE_LONG", "how long chains are, and how deep, in texts that are tried", true},
    {"LATHE_PROGRAMS", "FIRST-LAST: the seeds of random programs that passes are compared on", true},
    {"LATHE_SEEDED_BUG", "which of the bugs seeded into a test's copy of the tracker is at work", true},
    {"LATHE_SIMULATION_SEED", "the one seed that the simulated farm runs with", true},
    {"LATHE_SIMULATION_SEEDS", "how many seeds the simulated farm runs with", true},
};

}  // namespace lathe::cli
