#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "cli/exit_codes.h"

namespace lathe::cli {
namespace {

// Atomics without locks are all that a handler may share with the program (signal-safety(7)).
std::atomic<bool> deferred = false, seen = false;
// Made beforehand: a handler must not allocate.
std::atomic<const std::string*> hint = nullptr;

extern "C" void on_signal(int) {
  // The first is for the job to see, which drains; the second, or one that nobody waits for, ends at once
  // (C4).
  if (deferred.load() && !seen.exchange(true)) return;
  if (const std::string* line = hint.load()) (void)!write(STDERR_FILENO, line->data(), line->size());
  // Nothing that a handler may not call: no destructors, no locks.
  _exit(kInterrupted);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;  // without SA_RESTART: waiting calls return, and the job sees the flag
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that is closed asks for no other end than Ctrl-C; whoever started this by nohup asks for none.
  struct sigaction known {};
  sigaction(SIGHUP, nullptr, &known);
  if (known.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

InterruptScope::InterruptScope() { deferred = true; }
InterruptScope::~InterruptScope() { deferred = false; }
bool InterruptScope::interrupted() const { return seen.load(); }

InterruptHint::InterruptHint(const std::string& text) : line_(text + "\n") { hint = &line_; }
InterruptHint::~InterruptHint() { hint = nullptr; }

}  // namespace lathe::cli
