// A search under way, as its keeper knows it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "db/records.h"
#include "tracker/device_class.h"
#include "tracker/job_keeper.h"

namespace lathe::tracker {

struct JobKeeper::Search {
  using Clock = std::chrono::steady_clock;
  db::ServedJob job;
  DeviceClass device;
  db::JobState wanted = db::JobState::kDone;  // else what it is stopped for; kRunning: the tracker ends
  Clock::time_point kill_at = Clock::time_point::max();  // it was asked to end, and has not
  Seen seen;                                             // its devices, when last looked
  Clock::time_point over_at = Clock::time_point::max();  // its own time is: it ends by itself (Patience)
  pid_t pid = -1;
  uint64_t most_bytes = 0;  // of its folder
  bool uncounted = false;   // so it was at the last look
  std::string excess;       // it was killed for what it has there
  bool ended = false;
  std::thread thread;
};

}  // namespace lathe::tracker
