// Ctrl-C, and what is meant by it: SIGTERM, and SIGHUP of a terminal that is closed.
#pragma once

#include <string>

namespace lathe::cli {

/// From here on these signals end the process with exit code 130, and all that is unfinished with it
/// (core/support/unfinished.h), or are told to a live InterruptScope; SIGHUP unless it is ignored. What is
/// unfinished goes, too, when a pipe that nobody reads any more, SIGQUIT or SIGXCPU ends the process, and
/// when a file is cut short that it has mapped, which ends it with one message and exit code 2.
void install_interrupt_handler();

/// While one lives, the first signal only makes interrupted() true, so that a long job can stop in order; the
/// second ends the process. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  bool interrupted() const;
};

/// While one lives, a signal that ends the process prints `text` and a newline to stderr: how to go on. One
/// at a time.
class InterruptHint {
 public:
  explicit InterruptHint(const std::string& text);
  ~InterruptHint();
  InterruptHint(const InterruptHint&) = delete;
  InterruptHint& operator=(const InterruptHint&) = delete;

 private:
  std::string line_;
};

}  // namespace lathe::cli
