// Ctrl-C.
#pragma once

namespace lathe::cli {

/// From here on SIGINT and SIGTERM end the process with exit code 130, or are told to a live InterruptScope.
void install_interrupt_handler();

/// While one lives, the first signal only makes interrupted() true, so that a long job can stop in order; the
/// second ends the process. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  bool interrupted() const;
};

}  // namespace lathe::cli
