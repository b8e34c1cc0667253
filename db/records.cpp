#include "db/records.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <numeric>

#include "core/support/digest.h"
#include "core/support/error.h"

namespace lathe::db {

namespace {
constexpr std::string_view kJobStateNames[kJobStates] = {"queued", "running", "stopped",
                                                         "done",   "failed",  "cancelled"};
constexpr std::string_view kTrialStateNames[kTrialStates] = {"pending", "leased",      "done",
                                                             "failed",  "quarantined", "cancelled"};
}  // namespace

std::string_view to_string(JobState state) { return kJobStateNames[static_cast<int>(state)]; }
std::string_view to_string(TrialState state) { return kTrialStateNames[static_cast<int>(state)]; }

JobState job_state_named(std::string_view name) {
  for (int i = 0; i < kJobStates; ++i)
    if (kJobStateNames[i] == name) return static_cast<JobState>(i);
  fail("no job is in state `{}`", name);
}

std::string new_uuid() {
  uint8_t bytes[16];
  CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
  // Version 4, variant 1 (RFC 4122): random but for these bits.
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  std::string text;
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  return text;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !digit) return false;
  }
  return true;
}

// Never to change: databases and packs know devices by it.
std::string fingerprint(const Device& device) {
  // Not of memory or kernel: a machine with a new kernel is the same device.
  return sha256(fmt::format("{}\n{}\n{}\n{}\n{}", device.host, device.model, device.architecture,
                            device.features, device.cores));
}

int64_t JobProgress::ended() const {
  return std::accumulate(outcomes, outcomes + kOutcomeNames.size(), int64_t{0});
}

}  // namespace lathe::db
