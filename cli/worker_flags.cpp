#include "cli/worker_flags.h"

#include <fmt/core.h>

#include "cli/keys.h"
#include "core/support/error.h"
#include "tracker/defaults.h"

namespace lathe::cli {

WorkerFlags::WorkerFlags() { settings.tracker = defaults::kTrackerEndpoint; }

void WorkerFlags::add_to(Flags& flags) {
  flags.add("--tracker", settings.tracker, "its address: tcp://HOST:PORT or ipc://PATH");
  flags.add("--name", settings.name, "this worker's name, nobody else's; HOST/0, HOST/1, ... when not given");
  flags.add("--key", key, "file with this worker's keys, from `keygen`");
  flags.add("--tracker-key", tracker_key, "the tracker's public key");
  flags.add("--quiet", quiet, "say nothing on stderr");
}

worker::WorkerSettings WorkerFlags::finish() {
  if (key.empty() != tracker_key.empty()) fail("--key and --tracker-key belong together");
  if (!key.empty()) {
    wire::check_key(tracker_key, "--tracker-key");
    settings.keys = wire::ClientKeys{.server_key = tracker_key, .own = load_keys(key)};
  }
  if (!quiet) settings.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  return settings;
}

}  // namespace lathe::cli
