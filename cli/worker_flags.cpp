#include "cli/worker_flags.h"

#include "cli/keys.h"
#include "cli/messages.h"
#include "core/support/error.h"
#include "core/support/printable.h"
#include "tracker/defaults.h"

namespace lathe::cli {

WorkerFlags::WorkerFlags() { settings.tracker = defaults::kTrackerEndpoint; }

void WorkerFlags::add_to(Flags& flags) {
  flags.add("--tracker ENDPOINT", settings.tracker, "its address: tcp://HOST:PORT or ipc://PATH");
  flags.add("--name NAME", settings.name,
            "this worker's name, nobody else's; HOST/0, HOST/1, ... when not given");
  flags.add("--key FILE", key, "file with this worker's keys, from `keygen`");
  flags.add("--tracker-key KEY", tracker_key, "the tracker's public key");
}

worker::WorkerSettings WorkerFlags::finish() {
  // A tracker would not even say whom it refuses.
  if (has_control_characters(settings.name) || as_utf8(settings.name) != settings.name ||
      settings.name.size() > defaults::kNameLimit)
    fail("--name {}: must be UTF-8 of {} bytes at most, without control characters",
         printable(as_utf8(settings.name)), defaults::kNameLimit);
  if (key.empty() != tracker_key.empty()) fail("--key and --tracker-key belong together");
  if (!key.empty()) {
    wire::check_key(tracker_key, "--tracker-key");
    settings.keys = wire::ClientKeys{.server_key = tracker_key, .own = load_keys(key)};
  }
  settings.log = [](const std::string& line) { say("{}", line); };
  return settings;
}

}  // namespace lathe::cli
