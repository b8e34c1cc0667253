#include "workers/worker.h"

#include <fmt/core.h>

#include <map>
#include <string>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/keys.h"
#include "core/codegen/compile.h"
#include "core/support/error.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"
#include "workers/confine.h"
#include "workers/local_worker.h"
#include "workers/machine_at_hand.h"

namespace lathe::cli {
namespace {

worker::Duty parse_duty(const std::string& role) {
  static const std::map<std::string, worker::Duty> kDuties = {
      {"both", worker::Duty::kBoth}, {"build", worker::Duty::kBuild}, {"run", worker::Duty::kRun}};
  const auto duty = kDuties.find(role);
  if (duty == kDuties.end()) fail("--role {} must be both, build or run", role);
  return duty->second;
}

}  // namespace

int worker_command(Flags& flags) {
  worker::WorkerSettings settings{.tracker = defaults::kTrackerEndpoint};
  int64_t builders = 0;
  std::string key, tracker_key, role = "both";
  bool with_parent = false, quiet = false;
  flags.add("--tracker", settings.tracker, "its address: tcp://HOST:PORT or ipc://PATH");
  flags.add("--name", settings.name, "this worker's name, nobody else's; HOST/0, HOST/1, ... when not given");
  flags.add("--role", role,
            "build and run candidates: both; or build (for runners elsewhere), or run (what others build)");
  flags.add("--builders", builders, 0, 1024, "candidates built at once; 0: one for each core");
  flags.add("--key", key, "file with this worker's keys, from `tune keygen`");
  flags.add("--tracker-key", tracker_key, "the tracker's public key");
  flags.add("--with-parent", with_parent, "end when the process that started this one ends");
  flags.add("--quiet", quiet, "say nothing on stderr");
  if (!flags.parse()) return kSuccess;

  worker::require_confinement();
  if (with_parent) worker::die_with_parent();
  settings.builders = static_cast<int>(builders);
  settings.duty = parse_duty(role);
  if (settings.duty != worker::Duty::kRun)
    for (const std::string& architecture : codegen::architectures())
      settings.builds.push_back(tracker::platform_name("cpu", architecture));
  if (key.empty() != tracker_key.empty()) fail("--key and --tracker-key belong together");
  if (!key.empty()) {
    wire::check_key(tracker_key, "--tracker-key");
    settings.keys = wire::ClientKeys{.server_key = tracker_key, .own = load_keys(key)};
  }
  worker::DeviceInfo device = worker::measured_device();
  device.revision = revision();
  settings.device = worker::to_json(device);
  if (!quiet) settings.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  worker::serve(settings);
  return kSuccess;
}

}  // namespace lathe::cli
