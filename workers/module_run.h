// Times a whole module in a fresh process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workers/clocked_sample.h"
#include "workers/gpus.h"
#include "workers/sandbox.h"

namespace lathe::worker {

struct ModuleRun {
  std::string module;  // a file
  int threads = 1;
  double seconds = 0.3;                 // of runs that count
  bool count = false;                   // instructions too
  std::optional<GpuDriver> clock = {};  // whose GPU computes; none: this CPU
  std::vector<int64_t> dims = {};       // that the module leaves open, in its plan's order
};

/// What one process saw.
struct ModuleTimes {
  // Of each slice of the time the fastest run, for what disturbs only adds, and the mean of the clocks before
  // the slice and after it. At least one, 1,000 at most.
  std::vector<ClockedSample> samples;
  int64_t runs = 0;
  int64_t instructions = 0;  // of a run on one thread; 0: not counted
  std::string uncounted;     // why not, when they were asked for
};

/// The body of the module role: the request is a ModuleRun, the reply ModuleTimes. Random inputs, the same
/// each time; the timed window is open during warm-up and runs.
std::string module_run_body(std::string_view request, Child& child);

/// Starts a process (`command`: as Sandbox takes it, of the module role) that loads the module and times it.
/// Nothing when `stop` said so. Throws Error, naming the module, when it crashes, hangs or does not load;
/// Unfit when somebody else ended the process, and another one after it.
std::optional<ModuleTimes> run_module(const std::vector<std::string>& command, const ModuleRun& run,
                                      const std::function<bool()>& stop);

}  // namespace lathe::worker
