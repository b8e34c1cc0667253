// The exit codes of `tune`: scripts rely on them.
#pragma once

namespace lathe::cli {

enum ExitCode : int {
  kSuccess = 0,
  kNegative = 1,      // the answer is no: a regression, a mismatch, nothing measured
  kBadInput = 2,      // usage, a bad file, an unknown name
  kInconclusive = 3,  // measured, but too noisy to decide
  kUnfit = 4,         // this machine cannot do it: memory, its CPU, a missing device
  kService = 5,       // the tracker refuses or cannot be reached
  kInterrupted = 130,
};

}  // namespace lathe::cli
