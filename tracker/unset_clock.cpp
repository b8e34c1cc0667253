#include "tracker/unset_clock.h"

#include <ctime>
#include <utility>

namespace lathe::tracker {
namespace {

int64_t milliseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

std::function<int64_t()> unset_clock(const std::function<int64_t()>& wall, std::function<int64_t()> passed) {
  // Not CLOCK_MONOTONIC, which stands still while the machine sleeps.
  if (!passed) passed = [] { return milliseconds(CLOCK_BOOTTIME); };
  const int64_t start = (wall ? wall() : milliseconds(CLOCK_REALTIME)) - passed();
  return [start, passed = std::move(passed)] { return start + passed(); };
}

}  // namespace lathe::tracker
