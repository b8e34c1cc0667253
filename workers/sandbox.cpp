// The worker's end of a sandbox; the supervisor's is supervisor.cpp.
#include "workers/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/support/error.h"
#include "core/support/spawn.h"
#include "core/support/unfit.h"
#include "workers/packets.h"

namespace lathe::worker {

std::string describe(const Report& report) {
  switch (report.end) {
    case Report::End::kReplied:
      return "";
    case Report::End::kExited:
      return fmt::format("exited with status {}", report.code);
    case Report::End::kSignalled:
      return fmt::format("killed by signal {} ({})", report.code, strsignal(report.code));
    case Report::End::kTimedOut:
      return fmt::format("over its time limit after {:.1f} s ({:.1f} s of CPU)", report.wall_seconds,
                         report.cpu_seconds);
    case Report::End::kNoReply:
      return "ended without a valid reply";
    case Report::End::kLost:
      return WIFSIGNALED(report.code)
                 ? fmt::format("its supervisor was killed by signal {} ({})", WTERMSIG(report.code),
                               strsignal(WTERMSIG(report.code)))
                 : fmt::format("its supervisor exited with status {}", WEXITSTATUS(report.code));
  }
  return "";
}

Sandbox::Sandbox(std::vector<std::string> command) : command_(std::move(command)) {
  CHECK(!command_.empty());
}

Sandbox::~Sandbox() { stop(); }

void Sandbox::launch() {
  int ends[2];
  // Packets keep their bounds, carry descriptors, and end with either side.
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    fail("sandbox: cannot make a socket: {}", strerror(errno));
  try {
    // Keys, sockets and the files of other tasks stay here; and so does the mask of the signals that the
    // worker reads from a descriptor.
    supervisor_ = spawn(
        {.command = command_, .descriptors = {{3, ends[1]}}, .nothing_else = true, .all_signals = true});
  } catch (...) {
    for (const int end : ends) close(end);
    throw;
  }
  close(ends[1]);
  control_ = ends[0];
}

/// The status of the supervisor, as waitpid() tells it.
int Sandbox::stop() {
  if (supervisor_ < 0) return 0;
  close(control_);  // which the supervisor takes as its end
  // It first ends its child with all that this has started; were it killed, the child alone would follow.
  constexpr int kPatience = 2000;  // ms
  const int end = static_cast<int>(syscall(SYS_pidfd_open, supervisor_, 0));
  pollfd ended{.fd = end, .events = POLLIN};
  if (poll(&ended, 1, kPatience) != 1) kill(supervisor_, SIGKILL);
  if (end >= 0) close(end);
  int status = 0;
  waitpid(supervisor_, &status, 0);
  supervisor_ = -1;
  control_ = -1;
  busy_ = false;
  return status;
}

void Sandbox::start(const Task& task) {
  CHECK(!busy_, "sandbox: a task is running");
  TaskPacket packet{};
  packet.wall_seconds = task.limits.wall_seconds;
  packet.cpu_seconds = task.limits.cpu_seconds;
  packet.memory_bytes = task.limits.memory_bytes;
  packet.file_bytes = task.limits.file_bytes;
  for (int cpu : task.limits.cpus) {
    CHECK(cpu >= 0 && cpu < 1024, "cpu {}", cpu);
    packet.cpus[cpu / 64] |= uint64_t{1} << cpu % 64;
  }
  packet.stop_builders = task.stop_builders;
  // A workload has up to megabytes: more than a packet takes.
  const int request = memory_file("request", task.request);
  std::vector<int> descriptors = {request};
  descriptors.insert(descriptors.end(), task.descriptors.begin(), task.descriptors.end());
  // Twice: a supervisor that was killed between two tasks is no fault of this one.
  for (int attempt = 0;; ++attempt) {
    try {
      if (supervisor_ < 0) launch();
      send_packet(control_, &packet, sizeof packet, descriptors);
      break;
    } catch (const Error& error) {  // killed since its last task, say: a new one is as good
      stop();
      if (attempt > 0) {
        close(request);
        throw Unfit(error.what());
      }
    }
  }
  close(request);
  busy_ = true;
}

std::optional<Report> Sandbox::finish() {
  CHECK(busy_, "sandbox: no task is running");
  pollfd ready{.fd = control_, .events = POLLIN};
  // Never waits; run() does.
  if (poll(&ready, 1, 0) <= 0) return std::nullopt;
  ReportPacket packet{};
  std::vector<int> descriptors;
  // Reply and stderr come as files: a packet of this kind of socket has a limit, and they have not.
  const bool whole = receive_packet(control_, &packet, sizeof packet, descriptors) && descriptors.size() == 2;
  Report report{.end = Report::End::kLost};
  if (whole) {
    report = {.end = static_cast<Report::End>(packet.end),
              .code = packet.code,
              .reply = read_descriptor(descriptors[0]),
              .stderr_tail = read_descriptor(descriptors[1]),
              .wall_seconds = packet.wall_seconds,
              .cpu_seconds = packet.cpu_seconds,
              .peak_bytes = packet.peak_bytes};
  }
  for (int fd : descriptors) close(fd);
  busy_ = false;
  // With the next task another is started.
  if (!whole) report.code = stop();
  return report;
}

Report Sandbox::run(const Task& task) {
  start(task);
  for (;;) {
    pollfd ready{.fd = control_, .events = POLLIN};
    poll(&ready, 1, -1);
    if (std::optional<Report> report = finish()) return *report;
  }
}

void Sandbox::abort() {
  if (busy_) stop();
}

}  // namespace lathe::worker
