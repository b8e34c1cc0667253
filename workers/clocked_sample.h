// A time and the clock that it was taken at.
#pragma once

namespace lathe::worker {

struct ClockedSample {
  double seconds = 0;
  double hz = 0;  // of the device that computed, meanwhile; 0: it does not tell
};

}  // namespace lathe::worker
