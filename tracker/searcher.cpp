#include "tracker/searcher.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/support/error.h"
#include "core/support/spawn.h"

namespace lathe::tracker {

Searcher::Searcher(const std::vector<std::string>& command, const std::string& log) {
  int ends[2];
  // No other child may hold an end: the stream must end when the searcher does.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail("cannot make a socket: {}", strerror(errno));
  socket_ = ends[0];
  try {
    // The database, its password, keys and the links of other searchers are not for it; a terminal's
    // interrupt is ours to pass on.
    pid_ = spawn({.command = command,
                  // Its results come by the link; what it prints is for nobody, but its errors are kept.
                  .files = {{0, "/dev/null"}, {1, "/dev/null"}, {2, log}},
                  .descriptors = {{3, ends[1]}},
                  .nothing_else = true,
                  .own_group = true});
  } catch (...) {
    for (const int end : ends) close(end);
    throw;
  }
  close(ends[1]);
}

Searcher::~Searcher() {
  close(socket_);
  if (pid_ < 0) return;
  signal_searcher(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Searcher::await_end() const {
  siginfo_t ignored;
  // WNOWAIT: a process that is waited for gives its number back, and others signal it by that until wait().
  while (waitid(P_PID, static_cast<id_t>(pid_), &ignored, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

int Searcher::wait() {
  // What it has left running goes with it.
  signal_searcher(pid_, SIGKILL);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

void signal_searcher(pid_t searcher, int signal) {
  // It is the first of its group (spawn), and of the calls that it may make none leaves a group.
  kill(signal == SIGKILL ? -searcher : searcher, signal);
}

std::string tail_of_log(const std::string& path) {
  constexpr std::streamoff kTail = 2000;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg(), from = std::max<std::streamoff>(0, size - kTail);
  std::string text(static_cast<size_t>(size - from), '\0');
  file.seekg(from);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  // What `fail` writes is the reason, without progress lines before it.
  if (const size_t error = text.rfind("error: "); error != std::string::npos) text = text.substr(error + 7);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace lathe::tracker
