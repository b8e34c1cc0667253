// How the evaluation of one candidate ended. A column of the database and a field on the wire: expected
// outcomes are data, not exceptions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lathe {

/// The numbers are stored and sent: append, never renumber.
enum class Outcome : uint8_t {
  kOk,            // measured, and its outputs agree with the unscheduled program
  kBuildFailed,   // replay was legal, but lowering or the compiler failed, crashed or ran out of time
  kTimeout,       // did not end within its run limit
  kCrashed,       // a signal, a nonzero return, or out of memory while running
  kWrongResult,   // ran, but its outputs differ from the reference
  kWorkerLost,    // took its workers away three times: quarantined
  kInvalidTrace,  // the trace does not replay on the workload
};

inline constexpr std::array<std::string_view, 7> kOutcomeNames = {
    "ok", "build_failed", "timeout", "crashed", "wrong_result", "worker_lost", "invalid_trace"};

inline std::string_view to_string(Outcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

inline std::optional<Outcome> parse_outcome(std::string_view name) {
  for (size_t i = 0; i < kOutcomeNames.size(); ++i)
    if (kOutcomeNames[i] == name) return static_cast<Outcome>(i);
  return std::nullopt;
}

}  // namespace lathe
