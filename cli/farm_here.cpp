#include "cli/farm_here.h"

#include <memory>
#include <utility>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/keys.h"
#include "core/support/descriptors.h"
#include "core/support/error.h"
#include "core/support/spare_threads.h"
#include "core/support/unfit.h"
#include "tracker/farm.h"
#include "tracker/store_journal.h"
#include "workers/device.h"

namespace lathe::cli {
namespace {

static_assert(kUnfit == worker::kUnfitStatus);

/// Gives the tracker its keys, if it is to have some, and the local worker a pair of its own. Returns the
/// worker's flags for them.
std::vector<std::string> admit_workers(const FarmPlace& place, const std::string& folder,
                                       tracker::TrackerSettings& settings) {
  if (place.key.empty() != place.allow.empty()) fail("--key and --allow belong together");
  if (place.key.empty()) return {};
  const wire::KeyPair tracker = load_keys(place.key), worker = wire::make_keys();
  // A pair for this job alone: no file of the user's names it.
  settings.keys = wire::ServerKeys{.secret_key = tracker.secret_key, .allowed = {worker.public_key}};
  settings.principals = std::make_shared<tracker::Principals>("", place.allow);
  save_keys(folder + "/worker.key", worker);
  return {"--key", folder + "/worker.key", "--tracker-key", tracker.public_key};
}

}  // namespace

FarmHere::FarmHere(const FarmPlace& place, std::optional<db::JobId> resumed)
    : alone_(place.listen.empty()), threads_(place.threads) {
  require_descriptors();
  require_threads();
  tracker::TrackerSettings settings;
  settings.endpoint = place.listen.empty() ? "ipc://" + (folder_ / "tracker") : place.listen;
  settings.open_journal = [path = place.database, only = static_cast<tracker::JobId>(resumed.value_or(0))] {
    return tracker::open_store_journal(path, only);
  };
  std::vector<std::string> worker_keys = admit_workers(place, folder_.path(), settings);
  tracker_.emplace(std::move(settings));
  worker_.emplace(tracker_->endpoint(), std::move(worker_keys));
}

void FarmHere::require_fit() const {
  if (alone_ && has_few_cores())
    throw Unfit(fmt::format(
        "this machine's worker may use {} of the cores now, and the job's kernels run on {} threads; "
        "what was recorded is kept, and goes on once there are as many cores",
        worker_->cores(), threads_));
  if (is_unfit())
    throw Unfit(
        "this machine's worker can build or run nothing, as it has said; what was recorded is kept, and goes "
        "on once that is mended");
}

void require_worker_here(const Target& target, int64_t threads, const std::string& hint) {
  const worker::DeviceInfo device = worker::probe_device();
  const std::string platform = tracker::platform_of(to_text(target)),
                    here = tracker::platform_name(target.kind, device.architecture);
  // Else all its candidates would fail, one by one (F11).
  if (platform != here)
    throw Unfit(fmt::format("no worker is {}, for this machine is {}\n  hint: {}", platform, here, hint));
  if (device.cores < threads)
    throw Unfit(fmt::format("{} threads, where this machine's worker may use {} core{}\n  hint: {}", threads,
                            device.cores, device.cores == 1 ? "" : "s", hint));
}

}  // namespace lathe::cli
