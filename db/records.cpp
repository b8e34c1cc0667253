#include "db/records.h"

#include <fmt/core.h>

#include <numeric>

#include "core/support/text.h"

namespace lathe::db {

namespace {
constexpr std::string_view kJobStateNames[kJobStates] = {"queued", "running", "stopped",
                                                         "done",   "failed",  "cancelled"};
constexpr std::string_view kTrialStateNames[kTrialStates] = {"pending", "leased",      "done",
                                                             "failed",  "quarantined", "cancelled"};
}  // namespace

std::string_view to_string(JobState state) { return kJobStateNames[static_cast<int>(state)]; }
std::string_view to_string(TrialState state) { return kTrialStateNames[static_cast<int>(state)]; }

std::string fingerprint(const Device& device) {
  return sha256(fmt::format("{}\n{}\n{}\n{}\n{}", device.host, device.model, device.architecture,
                            device.features, device.cores));
}

int64_t JobProgress::ended() const {
  return std::accumulate(outcomes, outcomes + kOutcomeNames.size(), int64_t{0});
}

}  // namespace lathe::db
