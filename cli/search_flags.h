// The flags that say what a tuning job is to do, wherever it is done.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/tune_job.h"

namespace lathe::cli {

class SearchFlags {
 public:
  /// Adds them; `job`, which outlives this, holds the defaults and gets what is parsed.
  SearchFlags(Flags& flags, TuneJob& job);
  /// What follows from several of them. REQUIRES: parsed. Throws Error for a malformed shape.
  void settle(const Flags& flags);

 private:
  TuneJob& job_;
  std::vector<std::string> shapes_;
};

/// Which of a tracker's devices measure the job.
class DeviceFlags {
 public:
  DeviceFlags(Flags& flags, TuneJob& job);
  /// REQUIRES: parsed. Throws Error for needs that no device can have.
  void settle();

 private:
  TuneJob& job_;
  std::vector<std::string> needs_;
};

}  // namespace lathe::cli
