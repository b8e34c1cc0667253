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
#include <iterator>
#include <span>
#include <vector>

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
  /// The next `count` instructions run when the loaded word equals `value` (has any / none of its bits).
  /// Jumps count instructions forwards: these run over what belongs to one call when it is another.
  void if_equal(uint32_t value, uint8_t count) { add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count); }
  void if_any(uint32_t bits, uint8_t count) { add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count); }
  void if_none(uint32_t bits, uint8_t count) { add(BPF_JMP | BPF_JSET | BPF_K, bits, count, 0); }

  bool install() {
    // The kernel copies it.
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    // Of this thread and of all that it starts.
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void result(uint32_t value) { add(BPF_RET | BPF_K, value); }
  void add(int code, uint32_t k, uint8_t jt = 0, uint8_t jf = 0) {
    code_.push_back({static_cast<uint16_t>(code), jt, jf, k});
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
  // What is refused returns an error that libc copes with; what no kernel of ours would call ends the
  // process.
  filter.load(offsetof(seccomp_data, arch));
  // A 32-bit call of an x86-64 process comes with another architecture, and with numbers that
  // mean other calls.
  filter.if_equal(kArchitecture, 1);
  filter.load(kNumber);  // another architecture's number falls through to a call that is not listed
  const auto allow = [&](std::span<const int> calls) {
    for (int call : calls) {
      filter.if_equal(static_cast<uint32_t>(call), 1);
      filter.allow();
    }
  };
  allow(kForRuns);
  if (confinement != Confinement::kRun) allow(kForBuilds);
  if (confinement == Confinement::kSearch) allow(kForSearches);
  // clone3 keeps its flags in memory, where a filter cannot look: glibc falls back to clone.
  filter.if_equal(SYS_clone3, 1);
  filter.refuse(ENOSYS);
  // Flags are the first argument on both architectures.
  filter.if_equal(SYS_clone, 4);
  filter.load(argument(0));
  if (confinement != Confinement::kRun)
    filter.if_none(kNamespaces, 1);
  else
    // A run may start threads, and no process: vfork and fork are not in its list.
    filter.if_any(CLONE_THREAD, 1);
  filter.allow();
  filter.kill();
  // Builds have all of it above, as far as Landlock lets them; a run may read what the loader reads.
  filter.if_equal(SYS_openat, 4);
  filter.load(argument(2));
  filter.if_none(O_ACCMODE | O_CREAT | O_TRUNC, 1);
  filter.allow();
  filter.refuse(EACCES);
  filter.if_equal(SYS_tgkill, 4);  // abort()
  filter.load(argument(0));
  filter.if_equal(static_cast<uint32_t>(getpid()), 1);
  filter.allow();
  filter.kill();
  // Copies of descriptors and their flags; an owner and its signal (F_SETOWN, F_SETSIG) reach any process.
  filter.if_equal(SYS_fcntl, 2 * std::size(kDescriptorCommands) + 2);
  filter.load(argument(1));
  for (int command : kDescriptorCommands) {
    filter.if_equal(static_cast<uint32_t>(command), 1);
    filter.allow();
  }
  filter.refuse(EPERM);
  filter.if_equal(SYS_ioctl, 4);  // isatty()
  filter.load(argument(1));
  filter.if_equal(TCGETS, 1);
  filter.allow();
  filter.refuse(EPERM);
  filter.if_equal(SYS_sched_setaffinity, 4);  // of the calling thread
  filter.load(argument(0));
  filter.if_equal(0, 1);
  filter.allow();
  filter.refuse(EPERM);
  // Reading limits, as pthread_create does: there are no new ones when both halves of their address are 0.
  filter.if_equal(SYS_prlimit64, 6);
  filter.load(argument(2));
  filter.if_equal(0, 3);
  filter.load(upper_half(2));
  filter.if_equal(0, 1);
  filter.allow();
  filter.kill();
  if (confinement != Confinement::kRun) {
    filter.if_equal(SYS_setpriority, 6);  // of the calling process
    filter.load(argument(0));
    filter.if_equal(PRIO_PROCESS, 3);
    filter.load(argument(1));
    filter.if_equal(0, 1);
    filter.allow();
    filter.refuse(EPERM);
  }
  filter.if_equal(SYS_prctl, 4);  // naming a thread
  filter.load(argument(0));
  filter.if_equal(PR_SET_NAME, 1);
  filter.allow();
  filter.refuse(EPERM);
  filter.kill();
  return filter.install();
}

}  // namespace lathe::worker
