// The worker process: takes leases from a tracker, builds and measures their candidates in sandboxes, and
// sends the results. Builds and measurements overlap: while one candidate runs, the next are built
// (workers/quiet.h keeps the one from disturbing the other).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tracker/wire/socket.h"

namespace lathe::worker {

/// Of a worker. One that only runs has no compiler: its sandbox needs no "build" role.
enum class Duty : uint8_t { kBoth, kBuild, kRun };

struct WorkerSettings {
  std::string tracker;  // endpoint
  std::optional<wire::ClientKeys> keys;
  std::string
      name;  // stable across restarts, and nobody else's; "": the host's name and the first free number
  std::string device;  // JSON (workers/device.h)
  Duty duty = Duty::kBoth;
  int builders = 0;                 // builds at once; 0: one for each core
  bool canaries = true;             // it runs them for its tracker to judge it by
  std::vector<std::string> builds;  // platforms ("cpu/aarch64") that it builds for runners elsewhere
  /// The program and first arguments that lead to supervise(); the role's name is appended.
  std::vector<std::string> sandbox = {"/proc/self/exe", "internal-sandbox"};
  /// Told what happens, a line at a time. May be empty.
  std::function<void(const std::string& line)> log;
};

/// Serves until SIGTERM, SIGINT or SIGHUP: the first lets the trial being measured end, the second hands
/// everything back. Connects again and again while the tracker is away. Throws Error when the tracker refuses
/// this worker for good, and Unfit, with all handed back, when this machine fails however often one candidate
/// is tried. REQUIRES: a single thread, for it blocks those signals and reads them from a descriptor.
void serve(const WorkerSettings& settings);

}  // namespace lathe::worker
