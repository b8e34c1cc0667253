#include "workers/instruction_counter.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/support/error.h"

namespace lathe::worker {

InstructionCounter::InstructionCounter() {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.disabled = 1;
  // Interrupts come as they like, and at the default level users may count their own part alone.
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  const long opened =
      syscall(SYS_perf_event_open, &attributes, /*pid=*/0, /*cpu=*/-1, /*group=*/-1, PERF_FLAG_FD_CLOEXEC);
  descriptor_ = static_cast<int>(opened);
  if (descriptor_ >= 0) return;
  // Why not is said where the count would stand: it is no error to have none.
  switch (errno) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      missing_ = "this machine has no instruction counter, as virtual ones often have none";
      break;
    case EACCES:
    case EPERM:
      missing_ = "the system keeps its counters from users: sysctl kernel.perf_event_paranoid=2";
      break;
    default:
      missing_ = fmt::format("perf_event_open: {}", strerror(errno));
  }
}

InstructionCounter::~InstructionCounter() {
  if (descriptor_ >= 0) close(descriptor_);
}

int64_t InstructionCounter::count(FunctionRef<void()> work) {
  CHECK(missing_.empty(), "{}", missing_);
  ioctl(descriptor_, PERF_EVENT_IOC_RESET, 0);
  ioctl(descriptor_, PERF_EVENT_IOC_ENABLE, 0);
  work();
  ioctl(descriptor_, PERF_EVENT_IOC_DISABLE, 0);
  int64_t counted = 0;
  CHECK(read(descriptor_, &counted, sizeof counted) == sizeof counted, "{}", strerror(errno));
  return counted;
}

}  // namespace lathe::worker
