// The supervisor's end of a sandbox: one thread, one child at a time. See sandbox.h.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "core/support/disk_use.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "workers/packets.h"
#include "workers/quiet.h"
#include "workers/sandbox.h"

namespace lathe::worker {
namespace {

// Where spawn() has put the worker's socket.
constexpr int kControl = 3;
constexpr size_t kStderrTail = 4096;
constexpr int kIgnored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE};
constexpr size_t kMostFiles = 1000;  // of a build: a linker has two dozen
// What a child says through its gate, and what it hears.
constexpr char kBegun = 'b', kOpenWindow = 'o', kCloseWindow = 'c', kGranted = 'k';
// The file may have been written by a candidate; a half, or somebody else's bytes, must not
// be taken for a reply.
constexpr uint64_t kReplyMagic =
    0x6c617468652d7231;  // a reply is this, its size, and its bytes: nothing less

using Clock = std::chrono::steady_clock;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// --- in the child

/// Gives the child its descriptors: 0 nothing, 1 and 2 the stderr pipe, 3 the gate, 4 the reply, 5 on the
/// task's.
std::vector<int> arrange_descriptors(int error_pipe, int gate, int reply, const std::vector<int>& passed) {
  std::vector<int> wanted = {open("/dev/null", O_RDONLY), error_pipe, error_pipe, gate, reply};
  wanted.insert(wanted.end(), passed.begin(), passed.end());
  const int base = 64;  // out of the way first, since the numbers may overlap
  // In the child the originals stay open until close_range; the copies above 64 go with them.
  for (int& fd : wanted) fd = fcntl(fd, F_DUPFD, base);
  std::vector<int> renumbered;
  for (size_t i = 0; i < wanted.size(); ++i) {
    dup2(wanted[i], static_cast<int>(i));
    if (i >= 5) renumbered.push_back(static_cast<int>(i));
  }
  // Also what a library of the supervisor opened: nothing but these is a candidate's to see.
  syscall(SYS_close_range, static_cast<unsigned>(wanted.size()), ~0u, 0);
  return renumbered;
}

struct ChildPlan {
  const Role* role;
  Limits limits;
  std::string request;
  int error_pipe, gate, reply;
  std::vector<int> passed;
  pid_t supervisor;
};

// After fork() in a process of one thread: the heap is whole, so this may allocate.
[[noreturn]] void run_child(const ChildPlan& plan) {
  // A group of its own, which is stopped and killed as one.
  setpgid(0, 0);
  // fork clears it, so each child asks for itself: prctl(2).
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The supervisor may have died before the signal was asked for.
  if (getppid() != plan.supervisor) _exit(124);
  // The supervisor ignores them, and what is ignored stays so over fork and exec.
  for (int signal : kIgnored) ::signal(signal, SIG_DFL);
  const std::vector<int> descriptors =
      arrange_descriptors(plan.error_pipe, plan.gate, plan.reply, plan.passed);
  if (!plan.limits.folder.empty()) setenv("TMPDIR", plan.limits.folder.c_str(), 1);
  // From here on whatever runs is a stranger's.
  // Ends the process (status 125) where it fails: a child that is half confined runs nothing.
  confine(plan.limits, plan.role->confinement);
  // Before anything of a stranger's runs, who could not take it back.
  (void)!write(3, &kBegun, 1);
  Child child(3, descriptors);
  std::string reply;
  try {
    reply = plan.role->body(plan.request, child);
  } catch (const std::exception& error) {
    // Said on stderr, of which the supervisor keeps the end.
    fmt::print(stderr, "{}\n", error.what());
    fflush(stderr);
    _exit(1);
  }
  // A candidate may end the process at any time and by any status: what it has not replied by then is no
  // reply.
  const uint64_t header[2] = {kReplyMagic, reply.size()};
  const bool written =
      write_all(4, {reinterpret_cast<const char*>(header), sizeof header}) && write_all(4, reply);
  // No destructors, for what they would find may have been overwritten.
  _exit(written ? 0 : 1);
}

// --- in the supervisor

/// The child of one task, from fork to report.
class Supervision {
 public:
  Supervision(const Role& role, const TaskPacket& packet, std::vector<int> descriptors)
      : role_(role), packet_(packet), descriptors_(std::move(descriptors)) {}

  ~Supervision() {
    for (int fd : descriptors_) close(fd);
    for (int fd : {pid_fd_, errors_, gate_, reply_})
      if (fd >= 0) close(fd);
  }

  void launch() {
    int pipe_ends[2], gate_ends[2];
    // No descriptors or no memory: the supervisor ends, and its worker starts another (Report::End::kLost).
    CHECK(pipe2(pipe_ends, O_CLOEXEC) == 0 &&
              socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate_ends) == 0,
          "{}", strerror(errno));
    errors_ = pipe_ends[0];
    gate_ = gate_ends[0];
    // A child that writes nothing must not keep us waiting.
    fcntl(errors_, F_SETFL, O_NONBLOCK);
    // Made here and written there: a file, so that a child that never ends cannot block us as
    // a full pipe would.
    reply_ = memory_file("reply", "");
    Limits limits{.wall_seconds = packet_.wall_seconds,
                  .cpu_seconds = packet_.cpu_seconds,
                  .memory_bytes = packet_.memory_bytes,
                  .file_bytes = packet_.file_bytes};
    // As many as cpu_set_t has.
    for (int cpu = 0; cpu < 1024; ++cpu)
      if (packet_.cpus[cpu / 64] >> cpu % 64 & 1) limits.cpus.push_back(cpu);
    if (role_.confinement == Confinement::kBuild) limits.folder = folder_.emplace().path();
    const ChildPlan plan{&role_,
                         limits,
                         // The request is the first of a task's descriptors (Sandbox::start); the rest are
                         // the child's.
                         read_descriptor(descriptors_[0]),
                         pipe_ends[1],
                         gate_ends[1],
                         reply_,
                         {descriptors_.begin() + 1, descriptors_.end()},
                         getpid()};
    started_ = last_ = Clock::now();
    // Of a process with one thread: no lock can be held by another one, which the child would not have.
    pid_ = fork();
    CHECK(pid_ >= 0, "fork: {}", strerror(errno));
    if (pid_ == 0) run_child(plan);
    setpgid(pid_, pid_);  // both do it: whichever comes first
    close(pipe_ends[1]);
    close(gate_ends[1]);
    // To poll for its end together with everything else; a SIGCHLD handler would race with that.
    pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    CHECK(pid_fd_ >= 0, "pidfd_open: {}", strerror(errno));
    // Before it can have done anything for long: a window that is open stops it here.
    if (role_.confinement == Confinement::kBuild) quiet_.enter(pid_);
  }

  /// False when the worker has gone, or wants the task to end.
  bool watch() {
    for (;;) {
      const bool building = role_.confinement == Confinement::kBuild;
      pollfd ready[] = {
          {pid_fd_, POLLIN, 0}, {errors_, POLLIN, 0}, {gate_, POLLIN, 0}, {kControl, POLLIN, 0}};
      // Who waits for a window tries each millisecond; a builder looks for one that opens; the rest are
      // limits.
      poll(ready, 4, waiting_ ? 1 : building ? 20 : 50);
      // A worker that wants the task to end closes the socket or kills us; it sends nothing while
      // a task runs.
      if (ready[3].revents != 0) {
        reap(/*kill=*/true);
        return false;
      }
      drain_errors();
      const bool ended = ready[0].revents != 0;
      // Not of one that has ended: its window is closed below, whatever it asked for last.
      if (!ended && ready[2].revents != 0) serve_gate();
      if (waiting_ && quiet_.try_open(packet_.stop_builders)) {
        waiting_ = false;
        grant();
      }
      const bool still = building && quiet_.obey();
      const auto now = Clock::now();
      // Time in which it had to wait or stand still is not its own.
      if (!waiting_ && !still) used_ += std::chrono::duration<double>(now - last_).count();
      last_ = now;
      timed_out_ = !ended && used_ > packet_.wall_seconds;
      crowded_ = !ended && role_.confinement == Confinement::kRun && threads() > most_threads();
      // Not while others are timed.
      overfull_ = !ended && building && !still && fills_its_folder(now);
      if (ended || timed_out_ || crowded_ || overfull_) break;
    }
    // One that ended by itself is waited for as well: its status and its usage come from there.
    reap(timed_out_ || crowded_ || overfull_);
    // What it wrote between the last look and its end.
    drain_errors();
    while (gate_ >= 0 && !begun_) serve_gate();
    // Cores that have been taken away, limits of this process's own: nothing is known of the task.
    if (!begun_ && WIFEXITED(status_)) fail("{}", tail_.empty() ? "a child did not begin" : tail_);
    return true;
  }

  void send_report() {
    ReportPacket report{};
    report.wall_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    report.cpu_seconds = seconds(usage_.ru_utime) + seconds(usage_.ru_stime);
    report.peak_bytes = static_cast<uint64_t>(usage_.ru_maxrss) * 1024;
    std::string reply;
    report.end = static_cast<uint8_t>(classify(report.code, reply));
    // Who hears of its end, and looks for room, finds what it has written gone.
    folder_.reset();
    const int reply_file = memory_file("reply", reply), tail_file = memory_file("stderr", tail());
    send_packet(kControl, &report, sizeof report, {reply_file, tail_file});
    close(reply_file);
    close(tail_file);
  }

 private:
  void serve_gate() {
    char ask = 0;
    if (read(gate_, &ask, 1) != 1) {  // the child has closed it: nothing more to serve
      close(gate_);
      gate_ = -1;
    } else if (ask == kBegun) {
      begun_ = true;
    } else if (ask == kOpenWindow && !window_) {
      window_ = waiting_ = true;
    } else if (ask == kCloseWindow && window_) {
      // Back to what it was: others may be timed from here on.
      window_ = false;
      quiet_.close();
    }
  }

  /// Without waiting for room: a child that asks, and never looks, would keep its limits from being enforced.
  void grant() const { (void)!send(gate_, &kGranted, 1, MSG_DONTWAIT | MSG_NOSIGNAL); }

  /// The last kStderrTail bytes are kept. At most a megabyte is read at a time, so that a child that never
  /// stops writing does not keep its limits from being enforced.
  void drain_errors() {
    char buffer[65536];
    for (int round = 0; round < 16; ++round) {
      const ssize_t got = read(errors_, buffer, sizeof buffer);
      if (got == 0) {  // the child has closed it: to poll it would never wait again
        close(errors_);
        errors_ = -1;
      }
      if (got <= 0) break;
      // Cut only at twice the size, so that each byte is moved once.
      tail_.append(buffer, static_cast<size_t>(got));
      written_ += static_cast<uint64_t>(got);
      if (tail_.size() > 2 * kStderrTail) tail_.erase(0, tail_.size() - kStderrTail);
    }
  }

  /// No cgroup counts them for every user: a process that makes more than any pool of ours is found here.
  static size_t most_threads() {
    static const long cores = sysconf(_SC_NPROCESSORS_CONF);
    return 64 + 2 * static_cast<size_t>(std::max(cores, 1L));
  }
  size_t threads() const {
    struct stat folder {};
    // Besides itself and its parent a folder has a link for each folder in it: no need to read the directory.
    return stat(fmt::format("/proc/{}/task", pid_).c_str(), &folder) == 0 ? folder.st_nlink - 2 : 0;
  }

  /// The kernel bounds each file that a build writes, and not how many there are. Looked at now and then,
  /// since a look costs a millisecond.
  bool fills_its_folder(Clock::time_point now) {
    if (now < next_look_) return false;
    next_look_ = now + std::chrono::milliseconds(250);
    const DiskUse use = disk_use(folder_->path(), pid_, kMostFiles);
    // Twice: what comes and goes may look so for a moment.
    const bool uncounted = std::exchange(uncounted_, use.uncounted) && use.uncounted;
    return use.files > kMostFiles || use.bytes > most_bytes() || uncounted;
  }
  /// A linker's output, what it is made of, and as much again.
  uint64_t most_bytes() const { return 4 * packet_.file_bytes; }

  void reap(bool kill_it) {
    // The group, with a linker or whatever else it has started.
    if (kill_it) kill(-pid_, SIGKILL);
    while (wait4(pid_, &status_, 0, &usage_) < 0 && errno == EINTR) {
    }
    // The number is not used again while the group has members.
    kill(-pid_, SIGKILL);  // whatever it may have left behind in its group
    quiet_.leave();
    quiet_.close();
  }

  Report::End classify(int32_t& code, std::string& reply) const {
    // Before its status is looked at: that is SIGKILL, ours.
    if (timed_out_) return Report::End::kTimedOut;
    if (crowded_) {  // as for a call that is not allowed
      code = SIGSYS;
      return Report::End::kSignalled;
    }
    if (overfull_) {  // as for one file that is too large
      code = SIGXFSZ;
      return Report::End::kSignalled;
    }
    if (WIFSIGNALED(status_)) {
      code = WTERMSIG(status_);
      // The kernel ends one over its CPU limit by SIGXCPU, a second later by SIGKILL.
      const double cpu = seconds(usage_.ru_utime) + seconds(usage_.ru_stime);
      // SIGKILL alone may be anybody's.
      const bool over = packet_.cpu_seconds > 0 && cpu >= packet_.cpu_seconds;
      return code == SIGXCPU || (code == SIGKILL && over) ? Report::End::kTimedOut : Report::End::kSignalled;
    }
    code = WEXITSTATUS(status_);
    if (code != 0) return Report::End::kExited;
    // Read only now that nobody can write it any more.
    const std::string file = read_descriptor(reply_);
    uint64_t header[2] = {};
    if (file.size() < sizeof header) return Report::End::kNoReply;
    memcpy(header, file.data(), sizeof header);
    // Cut off at a limit of its files, or written by something else than run_child.
    if (header[0] != kReplyMagic || header[1] != file.size() - sizeof header) return Report::End::kNoReply;
    reply = file.substr(sizeof header);
    return Report::End::kReplied;
  }

  std::string tail() const {
    if (crowded_) return fmt::format("more than {} threads\n{}", most_threads(), tail_);
    if (overfull_)
      return fmt::format("more than {} MiB or {} files in its folder\n{}", most_bytes() >> 20, kMostFiles,
                         tail_);
    if (written_ <= kStderrTail) return tail_;
    return fmt::format("[{} bytes, the last {}:]\n{}", written_, kStderrTail,
                       tail_.substr(tail_.size() - kStderrTail));
  }

  const Role& role_;
  const TaskPacket& packet_;
  std::vector<int> descriptors_;
  Quiet quiet_;
  std::optional<TemporaryFolder> folder_;  // of a build, which may end before it has tidied up
  pid_t pid_ = -1;
  int pid_fd_ = -1, errors_ = -1, gate_ = -1, reply_ = -1;
  Clock::time_point started_, last_;
  bool begun_ = false;    // it is confined, and runs what it was sent
  double used_ = 0;       // of the wall limit
  bool window_ = false;   // asked for
  bool waiting_ = false;  // and not yet granted
  bool timed_out_ = false;
  // More threads than any pool of ours: see most_threads.
  bool crowded_ = false;    // with threads
  bool overfull_ = false;   // its folder
  bool uncounted_ = false;  // at the last look
  Clock::time_point next_look_;
  int status_ = 0;
  rusage usage_{};
  std::string tail_;
  uint64_t written_ = 0;  // to stderr
};

}  // namespace

void Child::open_window() {
  // Blocks until the supervisor has the machine's lock for this child.
  char granted = 0;
  if (write(gate_, &kOpenWindow, 1) != 1 || read(gate_, &granted, 1) != 1 || granted != kGranted)
    fail("sandbox: no timed window was granted");
}

void Child::close_window() { (void)!write(gate_, &kCloseWindow, 1); }

int supervise(std::span<const Role> roles, std::span<char* const> arguments) {
  const Role* role = nullptr;
  for (const Role& candidate : roles)
    // Sandbox's command ends with the role's name.
    if (!arguments.empty() && candidate.name == arguments.back()) role = &candidate;
  if (!role) fail("internal-sandbox: no such role");
  // What comes from the terminal is for the worker to handle. When that has gone, its end of the socket says
  // so: a signal would end this process before it has ended what its child has started.
  for (int signal : kIgnored) ::signal(signal, SIG_IGN);
  if (role->warm_up) role->warm_up();
  for (;;) {
    TaskPacket packet{};
    std::vector<int> descriptors;
    // The worker is gone, or has closed its end: the supervisor's only way out.
    if (!receive_packet(kControl, &packet, sizeof packet, descriptors) || descriptors.empty()) return 0;
    Supervision supervision(*role, packet, std::move(descriptors));
    supervision.launch();
    if (!supervision.watch()) return 0;
    supervision.send_report();
  }
}

}  // namespace lathe::worker
