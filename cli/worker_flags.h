// The flags of every kind of worker: whom it serves, and under which name and key.
#pragma once

#include <string>

#include "cli/flags.h"
#include "workers/worker.h"

namespace lathe::cli {

struct WorkerFlags {
  worker::WorkerSettings settings;
  std::string key, tracker_key;

  WorkerFlags();
  void add_to(Flags& flags);
  /// The settings that the flags say; keys are read. REQUIRES: the flags were parsed. Throws Error.
  worker::WorkerSettings finish();
};

}  // namespace lathe::cli
