// The exit codes of `tune`: scripts rely on them. `tune help exit-codes` and the manual pages print the
// table.
#pragma once

namespace lathe::cli {

enum ExitCode : int {
  kSuccess = 0,
  kNegative = 1,
  kBadInput = 2,
  kInconclusive = 3,
  kUnfit = 4,
  kService = 5,
  kInterrupted = 130,
};

struct ExitCodeRow {
  ExitCode code;
  const char* meaning;
};

inline constexpr ExitCodeRow kExitCodes[] = {
    {kSuccess, "success"},
    {kNegative, "the answer is no: a regression, a mismatch, nothing measured, nothing known"},
    {kBadInput, "usage, a bad or unwritable file, an unknown name, a wrong configuration"},
    {kInconclusive, "measured, but too noisy to decide"},
    {kUnfit, "this machine cannot do it: memory, a full disk, its CPU, a missing device, no fitting worker"},
    {kService, "the tracker refuses or cannot be reached"},
    {kInterrupted, "stopped by SIGINT, SIGTERM or SIGHUP; what was measured is kept"},
};

}  // namespace lathe::cli
