#include "core/support/unfinished.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/support/disk_use.h"
#include "core/support/error.h"

namespace lathe {
namespace {

/// A spinning lock, which a handler may take: whoever else has it is no thread that a handler has
/// interrupted. By the process that holds it: of one that was forked meanwhile the thread is not here that
/// would give it back, and nothing in its list is this process's to remove. 0: free.
std::atomic<pid_t> holder = 0;

void lock() noexcept {
  const pid_t self = getpid();
  for (;;) {
    pid_t other = 0;
    if (holder.compare_exchange_strong(other, self, std::memory_order_acquire)) return;
    if (other != self && holder.compare_exchange_strong(other, self, std::memory_order_acquire)) return;
    sched_yield();
  }
}

class Guard {
 public:
  Guard() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    lock();
  }
  ~Guard() {
    holder.store(0, std::memory_order_release);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  sigset_t before_{};
};

/// As remove_folder(), of files and folders, without what a handler may not call: readdir(3) allocates.
void remove_by_calls(int beside, const char* name, int depth) noexcept {
  if (unlinkat(beside, name, 0) == 0 || errno != EISDIR || depth == 0) return;
  const int folder = openat(beside, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  alignas(dirent64) char entries[2048];
  for (ssize_t size = 0; (size = getdents64(folder, entries, sizeof entries)) > 0;)
    for (ssize_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
        remove_by_calls(folder, entry->d_name, depth - 1);
    }
  close(folder);
  unlinkat(beside, name, AT_REMOVEDIR);
}

}  // namespace

Unfinished::Unfinished(const std::function<std::string()>& make) {
  const Guard guard;
  path_ = make();
  maker_ = getpid();
  next_ = std::exchange(first_, this);
}

Unfinished::~Unfinished() {
  try {
    // Strangers' programs may have written there.
    if (maker_ != 0 && unlink(path().c_str()) != 0 && errno == EISDIR) remove_folder(path());
  } catch (const Error&) {
    // It stays, which harms nobody who is still here.
  }
  const Guard guard;
  Unfinished** link = &first_;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

void Unfinished::finish(const std::function<void()>& rename) {
  const Guard guard;
  rename();
  maker_ = 0;
}

void remove_unfinished() noexcept {
  constexpr int kDepth = 8;  // of what this program makes
  constexpr int kRounds = 100;
  lock();
  // In rounds: a linker that this process has started may still put something there.
  for (const Unfinished* thing = Unfinished::first_; thing; thing = thing->next_)
    for (int round = 0; round < kRounds && thing->maker_ == getpid(); ++round) {
      remove_by_calls(AT_FDCWD, thing->path_.c_str(), kDepth);
      if (access(thing->path_.c_str(), F_OK) != 0) break;
    }
}

}  // namespace lathe
