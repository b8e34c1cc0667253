#include "workers/call_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "core/support/error.h"

namespace lathe::worker {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

/// What a kernel and its thread pool need.
constexpr int kForRuns[] = {
    // memory
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_membarrier,
    // descriptors it has been given, and the loader's
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_ftruncate,
    SYS_ppoll,
    // threads and time
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_gettid,
    SYS_getpid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getcpu,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_restart_syscall,
    // its own end
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
#if defined(__x86_64__)
    SYS_poll,
    SYS_access,
    SYS_readlink,
    SYS_stat,
    SYS_arch_prctl,
#endif
};

/// What a compiler needs besides, and a linker that it starts.
constexpr int kForBuilds[] = {
    // files, within what Landlock leaves
    SYS_openat,
    SYS_faccessat2,
    SYS_getdents64,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_umask,
    SYS_getcwd,
    SYS_fallocate,
    SYS_fsync,
    SYS_fadvise64,
    SYS_statfs,
    SYS_fstatfs,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    // the linker's process
    SYS_execve,
    SYS_wait4,
    SYS_waitid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_times,
    SYS_set_tid_address,
    SYS_getpriority,
#if defined(__x86_64__)
    SYS_open,
    SYS_lstat,
    SYS_mkdir,
    SYS_rmdir,
    SYS_unlink,
    SYS_rename,
    SYS_chmod,
    SYS_dup2,
    SYS_pipe,
    SYS_vfork,
#endif
};

/// What a search needs besides: the link to its tracker is a socket, and the only one it can have; what it
/// builds it runs once, from memory, to see that its outputs are right.
constexpr int kForSearches[] = {SYS_sendto, SYS_memfd_create};

constexpr int kDescriptorCommands[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};

// Struct seccomp_data, seccomp(2): the arguments are 64 bits each.
constexpr uint32_t argument(int index) {  // the low half: little-endian, both architectures
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * index);
}
/// An address has two halves, and the kernel takes both; of an int it takes the low one alone.
constexpr uint32_t upper_half(int index) { return argument(index) + 4; }

class Filter {
 public:
  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void allow() { result(SECCOMP_RET_ALLOW); }
  void kill() { result(SECCOMP_RET_KILL_PROCESS); }
  void refuse(int error) { result(SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)); }
  /// What `then` adds runs where the loaded word is `value` (has any, or none, of its bits), before what is
  /// added next, which finds another word where `then` loads one and gives no result.
  template <typename F>
  void when(uint32_t value, const F& then) {
    add_jump(BPF_JEQ, value, &sock_filter::jf, then);
  }
  template <typename F>
  void when_any(uint32_t bits, const F& then) {
    add_jump(BPF_JSET, bits, &sock_filter::jf, then);
  }
  template <typename F>
  void when_none(uint32_t bits, const F& then) {
    add_jump(BPF_JSET, bits, &sock_filter::jt, then);
  }

  bool install() {
    // The kernel copies it.
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    // Of this thread and of all that it starts.
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void result(uint32_t value) { add(BPF_RET | BPF_K, value); }
  void add(int code, uint32_t k) { code_.push_back({static_cast<uint16_t>(code), 0, 0, k}); }
  /// A jump counts instructions forwards, by a byte: over what `then` adds, by the way of `otherwise`.
  template <typename F>
  void add_jump(int test, uint32_t k, uint8_t sock_filter::*otherwise, const F& then) {
    const size_t jump = code_.size();
    add(BPF_JMP | test | BPF_K, k);
    then();
    const size_t count = code_.size() - jump - 1;
    CHECK(count <= UINT8_MAX, "a jump over {} instructions", count);
    code_[jump].*otherwise = static_cast<uint8_t>(count);
  }
  std::vector<sock_filter> code_;
};

}  // namespace

bool filters_calls() { return kArchitecture != 0; }

bool has_seccomp() { return prctl(PR_GET_SECCOMP) >= 0; }

bool filter_calls(Confinement confinement) {
  if (!filters_calls() || !has_seccomp()) return true;  // as was agreed to
  constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
  // In a namespace of its own a process is root: most of the kernel's holes are open to that alone.
  constexpr uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  Filter filter;
  const auto allow = [&] { filter.allow(); };
  // What is refused returns an error that libc copes with; what no kernel of ours would call ends the
  // process.
  filter.load(offsetof(seccomp_data, arch));
  // A 32-bit call of an x86-64 process comes with another architecture, and with numbers that
  // mean other calls: what is loaded then is not listed, and falls through all of it.
  filter.when(kArchitecture, [&] { filter.load(kNumber); });
  const auto allow_all = [&](std::span<const int> calls) {
    for (int call : calls) filter.when(static_cast<uint32_t>(call), allow);
  };
  allow_all(kForRuns);
  if (confinement != Confinement::kRun) allow_all(kForBuilds);
  if (confinement == Confinement::kSearch) allow_all(kForSearches);
  // clone3 keeps its flags in memory, where a filter cannot look: glibc falls back to clone.
  filter.when(SYS_clone3, [&] { filter.refuse(ENOSYS); });
  filter.when(SYS_clone, [&] {
    // Flags are the first argument on both architectures.
    filter.load(argument(0));
    if (confinement != Confinement::kRun)
      filter.when_none(kNamespaces, allow);
    else
      // A run may start threads, and no process: vfork and fork are not in its list.
      filter.when_any(CLONE_THREAD, allow);
    filter.kill();
  });
  // Builds have all of it above, as far as Landlock lets them; a run may read what the loader reads.
  filter.when(SYS_openat, [&] {
    filter.load(argument(2));
    filter.when_none(O_ACCMODE | O_CREAT | O_TRUNC, allow);
    filter.refuse(EACCES);
  });
  filter.when(SYS_tgkill, [&] {  // abort()
    filter.load(argument(0));
    filter.when(static_cast<uint32_t>(getpid()), allow);
    filter.kill();
  });
  // Copies of descriptors and their flags; an owner and its signal (F_SETOWN, F_SETSIG) reach any process.
  filter.when(SYS_fcntl, [&] {
    filter.load(argument(1));
    allow_all(kDescriptorCommands);
    filter.refuse(EPERM);
  });
  filter.when(SYS_ioctl, [&] {  // isatty()
    filter.load(argument(1));
    filter.when(TCGETS, allow);
    filter.refuse(EPERM);
  });
  filter.when(SYS_sched_setaffinity, [&] {  // of the calling thread
    filter.load(argument(0));
    filter.when(0, allow);
    filter.refuse(EPERM);
  });
  // Reading limits, as pthread_create does: there are no new ones when both halves of their address are 0.
  filter.when(SYS_prlimit64, [&] {
    filter.load(argument(2));
    filter.when(0, [&] {
      filter.load(upper_half(2));
      filter.when(0, allow);
    });
    filter.kill();
  });
  if (confinement != Confinement::kRun)
    filter.when(SYS_setpriority, [&] {  // of the calling process
      filter.load(argument(0));
      filter.when(PRIO_PROCESS, [&] {
        filter.load(argument(1));
        filter.when(0, allow);
      });
      filter.refuse(EPERM);
    });
  filter.when(SYS_prctl, [&] {  // naming a thread
    filter.load(argument(0));
    filter.when(PR_SET_NAME, allow);
    filter.refuse(EPERM);
  });
  filter.kill();
  return filter.install();
}

}  // namespace lathe::worker
