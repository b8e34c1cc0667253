#include "workers/worker.h"

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/keys.h"
#include "cli/messages.h"
#include "core/support/error.h"
#include "tracker/defaults.h"
#include "workers/confine.h"
#include "workers/local_worker.h"
#include "workers/machine_at_hand.h"

namespace lathe::cli {

int worker_command(Flags& flags) {
  worker::WorkerSettings settings{.tracker = defaults::kTrackerEndpoint};
  int64_t builders = 0;
  std::string key, tracker_key;
  bool with_parent = false;
  flags.add("--tracker ENDPOINT", settings.tracker, "its address: tcp://HOST:PORT or ipc://PATH");
  flags.add("--name NAME", settings.name,
            "this worker's name, nobody else's; HOST/0, HOST/1, ... when not given");
  flags.add("--builders", builders, 0, 1024, "candidates built at once; 0: one for each core");
  flags.add("--key FILE", key, "file with this worker's keys, from `tune keygen`");
  flags.add("--tracker-key KEY", tracker_key, "the tracker's public key");
  flags.add("--with-parent", with_parent, "end when the process that started this one ends");
  if (!flags.parse()) return kSuccess;

  worker::require_confinement();
  if (with_parent) worker::die_with_parent();
  settings.builders = static_cast<int>(builders);
  if (key.empty() != tracker_key.empty()) fail("--key and --tracker-key belong together");
  if (!key.empty()) {
    wire::check_key(tracker_key, "--tracker-key");
    settings.keys = wire::ClientKeys{.server_key = tracker_key, .own = load_keys(key)};
  }
  worker::DeviceInfo device = worker::measured_device();
  device.revision = revision();
  settings.device = worker::to_json(device);
  settings.log = [](const std::string& line) { say("{}", line); };
  worker::serve(settings);
  return kSuccess;
}

}  // namespace lathe::cli
