// A program beside this one, gone at the latest when its owner is.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lathe::bench {

class ChildProcess {
 public:
  /// `words`: program and arguments. Its standard output is kept for output(). Throws Error when it cannot
  /// be started.
  explicit ChildProcess(const std::vector<std::string>& words);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool running();
  /// Sends `signal` and waits for the end. What it printed.
  std::string end(int signal);

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

/// The path of another program of this build.
std::string beside_us(const std::string& program);

/// Of a process, in MiB: VmRSS, what it holds, or VmHWM, the most it held. 0 when it is gone.
double memory_mib(pid_t process, const std::string& row);

}  // namespace lathe::bench
