// `tune worker`: builds and measures for a tracker. lathe-runner (cli/runner/) is the worker without a
// compiler.
#include "workers/worker.h"

#include <map>
#include <string>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/worker_flags.h"
#include "core/codegen/compile.h"
#include "tracker/farm.h"
#include "workers/confine.h"
#include "workers/local_worker.h"
#include "workers/machine_at_hand.h"

namespace lathe::cli {
namespace {

/// REQUIRES: it is one.
worker::Duty parse_duty(const std::string& role) {
  static const std::map<std::string, worker::Duty> kDuties = {
      {"both", worker::Duty::kBoth}, {"build", worker::Duty::kBuild}, {"run", worker::Duty::kRun}};
  return kDuties.at(role);
}

}  // namespace

int worker_command(Flags& flags) {
  WorkerFlags common;
  int64_t builders = 0, parent = 0;
  std::string role = "both";
  common.add_to(flags);
  flags.add("--role both|build|run", role,
            "both; or build, for runners elsewhere; or run, what others build");
  flags.add("--builders", builders, 0, 1024, "candidates built at once; 0: one for each core");
  flags.add("--with-parent PID", parent, 0, INT32_MAX,
            "end when the process of this number ends, which started this one; 0: go on without it");
  if (!flags.parse()) return kSuccess;

  // Before it says to a tracker that it is here.
  worker::require_confinement();
  if (parent > 0) worker::die_with_parent(static_cast<pid_t>(parent));
  worker::WorkerSettings settings = common.finish();
  settings.builders = static_cast<int>(builders);
  settings.duty = parse_duty(role);
  settings.canaries = parent == 0;  // alone, it has nobody to be compared with
  if (settings.duty != worker::Duty::kRun)
    for (const std::string& architecture : codegen::architectures())
      settings.builds.push_back(tracker::platform_name("cpu", architecture));
  worker::DeviceInfo device = worker::measured_device();
  device.revision = revision();
  settings.device = worker::to_json(device);
  worker::serve(settings);
  return kSuccess;
}

}  // namespace lathe::cli
