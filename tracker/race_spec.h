// A race of two builds as a trial of the farm.
#pragma once

#include <string>

#include "tracker/journal.h"

namespace lathe::tracker {

struct RaceOrder {
  JobId job = 0;
  std::string target;                 // complete text
  std::string incumbent, challenger;  // module files
  double flops = 0;                   // of one run of the model: none can take less than these do
  uint32_t threads = 1;
  double seconds = 30;             // about, and at most defaults::kRaceTurns
  std::vector<int64_t> dims = {};  // what the modules' open dimensions are in it
  Properties needs = {};           // of its devices, beside cores for the threads
};

/// For any worker that runs code for the target and has so many cores. Throws Error for files that ModuleFile
/// refuses.
TrialSpec race_spec(const RaceOrder& order);

}  // namespace lathe::tracker
