// The process that searches for a job of the service: its life, seen from outside.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lathe::tracker {

/// A searcher ends with this where what was given is right and its machine cannot do it, for want of memory
/// or room: the exit code of Unfit (cli/exit_codes.h).
inline constexpr int kSearcherUnfit = 4;

/// A searcher process with its socket; killed and waited for when it goes.
class Searcher {
 public:
  /// Throws Error with nothing left behind: no process, no descriptor. What it says goes to `log`.
  Searcher(const std::vector<std::string>& command, const std::string& log);
  ~Searcher();
  Searcher(const Searcher&) = delete;
  Searcher& operator=(const Searcher&) = delete;

  int socket() const { return socket_; }
  pid_t pid() const { return pid_; }
  /// Waits for its end, and leaves it to wait(): until then nobody else has its number.
  void await_end() const;
  /// Its wait status.
  int wait();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

/// SIGKILL goes to all that the searcher has started as well, which may hold its link, and is taken for the
/// searcher as long as that is open. REQUIRES: nobody has waited for it yet.
void signal_searcher(pid_t searcher, int signal);

/// The last lines of a searcher's log, which say what went wrong.
std::string tail_of_log(const std::string& path);

}  // namespace lathe::tracker
