// Runs tasks in fresh child processes, which may crash, hang or eat memory without harm to the worker.
//
//   worker ──spawns──> supervisor (this binary, `internal-sandbox ROLE`) ──forks, once a task──> child
//
// The supervisor is one-threaded and has done the slow things once (loading libraries, warming the compiler),
// so that a fresh child costs a fork, not a program start. It enforces the limits, keeps the tail of the
// child's stderr, opens the timed window for it (workers/quiet.h) and reports how it ended. When its worker
// goes, the supervisor ends the child with all that this has started, and itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workers/confine.h"

namespace lathe::worker {

// --- the worker's side

struct Task {
  std::string request;           // what the role's body gets
  std::vector<int> descriptors;  // passed to the child; stay the caller's
  Limits limits;
  bool stop_builders = false;  // while the child is in its timed window
};

struct Report {
  enum class End : uint8_t {
    kReplied,  // the body returned
    kExited,   // it did not, but called exit
    kSignalled,
    kTimedOut,  // over its wall or CPU limit
    kNoReply,   // ended well, but its reply is damaged
    kLost,      // the supervisor itself is gone: the machine's failure; another one starts with the next task
  };
  End end = End::kReplied;
  int code = 0;       // exit status, or signal; kLost: the supervisor's status as waitpid() tells it
  std::string reply;  // of the body
  std::string stderr_tail;
  double wall_seconds = 0, cpu_seconds = 0;
  uint64_t peak_bytes = 0;
};

/// "killed by signal 11 (Segmentation fault)" and the like; "" for kReplied.
std::string describe(const Report& report);

/// One supervisor and at most one task at a time. Not thread-safe.
class Sandbox {
 public:
  /// `command`: the program and arguments that end up in supervise(), for example {"/proc/self/exe",
  /// "internal-sandbox", "run"}. The supervisor starts with the first task.
  explicit Sandbox(std::vector<std::string> command);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  bool busy() const { return busy_; }
  /// Throws Unfit where no supervisor starts. REQUIRES: !busy().
  void start(const Task& task);
  /// To poll for reading while busy.
  int descriptor() const { return control_; }
  /// The report when it is there, without waiting.
  std::optional<Report> finish();
  /// start and finish.
  Report run(const Task& task);
  /// Ends the task, without a report.
  void abort();
  pid_t supervisor() const { return supervisor_; }

 private:
  void launch();
  int stop();

  std::vector<std::string> command_;
  pid_t supervisor_ = -1;
  int control_ = -1;
  bool busy_ = false;
};

// --- the child's side

/// What a body may ask of its supervisor.
class Child {
 public:
  Child(int gate, std::vector<int> descriptors) : gate_(gate), descriptors_(std::move(descriptors)) {}
  /// From open to close no one else is timed on this machine, and builders stand still or run on other cores.
  void open_window();
  void close_window();
  std::span<const int> descriptors() const { return descriptors_; }  // the task's, renumbered

 private:
  int gate_;
  std::vector<int> descriptors_;
};

struct Role {
  std::string_view name;
  Confinement confinement;
  void (*warm_up)();  // in the supervisor, once; may be null
  std::string (*body)(std::string_view request, Child& child);
};

/// The supervisor's main function: `arguments` ends with the name of a role; descriptor 3 is the control
/// socket. Returns the exit status when the worker has gone.
int supervise(std::span<const Role> roles, std::span<char* const> arguments);

}  // namespace lathe::worker
