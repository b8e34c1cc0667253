#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "cli/exit_codes.h"
#include "core/support/unfinished.h"

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
  // Nothing that a handler may not call: no destructors, no locks of others.
  remove_unfinished();
  _exit(kInterrupted);
}

/// What ends a process that has not asked for anything else does so still, as whoever started it sees.
extern "C" void on_end(int number) {
  remove_unfinished();
  // Its usual action is back (SA_RESETHAND), and comes when this handler is over.
  raise(number);
}

/// Of a module that is in use while another is copied over it, say: what was mapped of it is not there any
/// more. Of an address that cannot be, which is a mistake of ours, the process ends as ever.
extern "C" void on_bus_error(int number, siginfo_t* what, void*) {
  remove_unfinished();
  if (what->si_code == BUS_ADRERR) {
    constexpr std::string_view kWhy =
        "error: a file was cut short, or its disk failed, while it was read; "
        "replace files that are in use by renaming others\n";
    (void)!write(STDERR_FILENO, kWhy.data(), kWhy.size());
    _exit(kBadInput);
  }
  raise(number);
}

void unless_ignored(int number, const struct sigaction& action) {
  struct sigaction known {};
  sigaction(number, nullptr, &known);
  if (known.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  // One at a time in a thread: the second would wait for what the first has locked.
  sigfillset(&action.sa_mask);
  action.sa_handler = on_signal;  // without SA_RESTART: waiting calls return, and the job sees the flag
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that is closed asks for no other end than Ctrl-C; whoever started this by nohup asks for none.
  unless_ignored(SIGHUP, action);
  // Of `tune ... | head`, say.
  action.sa_handler = on_end;
  action.sa_flags = SA_RESETHAND;
  for (int number : {SIGPIPE, SIGQUIT, SIGXCPU}) unless_ignored(number, action);
  action.sa_sigaction = on_bus_error;
  action.sa_flags |= SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

InterruptScope::InterruptScope() { deferred = true; }
InterruptScope::~InterruptScope() { deferred = false; }
bool InterruptScope::interrupted() const { return seen.load(); }

InterruptHint::InterruptHint(const std::string& text) : line_(text + "\n") { hint = &line_; }
InterruptHint::~InterruptHint() { hint = nullptr; }

}  // namespace lathe::cli
