#include "workers/confine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "core/support/unfit.h"

namespace lathe::worker {
namespace {

[[noreturn]] void give_up(const char* what) {
  fmt::print(stderr, "sandbox: {}: {}\n", what, strerror(errno));
  _exit(125);
}

void limit(int resource, uint64_t soft, uint64_t hard, const char* name) {
  const rlimit value{soft, hard};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &value) != 0) give_up(name);
}

void set_limits(const Limits& limits) {
  limit(RLIMIT_CORE, 0, 0, "RLIMIT_CORE");
  limit(RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes, "RLIMIT_FSIZE");
  if (limits.cpu_seconds > 0) {
    const auto seconds = static_cast<uint64_t>(std::ceil(limits.cpu_seconds));
    limit(RLIMIT_CPU, seconds, seconds + 1, "RLIMIT_CPU");
  }
  if (limits.memory_bytes > 0 && kConfines)
    limit(RLIMIT_AS, limits.memory_bytes, limits.memory_bytes, "RLIMIT_AS");
  if (!limits.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : limits.cpus) CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) give_up("sched_setaffinity");
  }
  // When memory runs out, the child is to go, not the worker.
  if (FILE* file = fopen("/proc/self/oom_score_adj", "we")) {
    fputs("1000", file);
    fclose(file);
  }
}

// --- files: only what the loader needs, read-only

int landlock_version() {
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

void deny_files() {
  if (landlock_version() < 1) return;  // as was agreed to; seccomp still refuses opening for writing
  landlock_ruleset_attr attr{};
  attr.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;  // all of version 1
  const int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0));
  if (rules < 0) give_up("landlock_create_ruleset");
  for (const char* folder : {"/lib", "/lib64", "/usr/lib", "/usr/local/lib", "/etc/ld.so.cache"}) {
    const int fd = open(folder, O_PATH | O_CLOEXEC);
    if (fd < 0) continue;
    landlock_path_beneath_attr beneath{};
    beneath.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
    beneath.parent_fd = fd;
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    close(fd);
  }
  if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) give_up("landlock_restrict_self");
  close(rules);
}

// --- system calls: a list of what a kernel and its thread pool need; anything else ends the process with
// SIGSYS ----

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

constexpr int kAllowed[] = {
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

constexpr int kDescriptorCommands[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};

constexpr uint32_t argument(int index) {  // the low half: little-endian, both architectures
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * index);
}

class Filter {
 public:
  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void allow() { result(SECCOMP_RET_ALLOW); }
  void kill() { result(SECCOMP_RET_KILL_PROCESS); }
  void refuse(int error) { result(SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)); }
  /// The next `count` instructions run when the loaded word equals `value` (has any / none of its bits).
  void if_equal(uint32_t value, uint8_t count) { add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count); }
  void if_any(uint32_t bits, uint8_t count) { add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count); }
  void if_none(uint32_t bits, uint8_t count) { add(BPF_JMP | BPF_JSET | BPF_K, bits, count, 0); }

  void install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) give_up("seccomp");
  }

 private:
  void result(uint32_t value) { add(BPF_RET | BPF_K, value); }
  void add(int code, uint32_t k, uint8_t jt = 0, uint8_t jf = 0) {
    code_.push_back({static_cast<uint16_t>(code), jt, jf, k});
  }
  std::vector<sock_filter> code_;
};

void deny_calls() {
  if (kArchitecture == 0) return;
  constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
  constexpr uint32_t kThread = 0x00010000;  // CLONE_THREAD
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.if_equal(kArchitecture, 1);
  filter.load(kNumber);  // another architecture's number falls through to a call that is not listed
  for (int call : kAllowed) {
    filter.if_equal(static_cast<uint32_t>(call), 1);
    filter.allow();
  }
  // clone3 keeps its flags in memory, where a filter cannot look: glibc falls back to clone.
  filter.if_equal(SYS_clone3, 1);
  filter.refuse(ENOSYS);
  filter.if_equal(SYS_clone, 4);
  filter.load(argument(0));
  filter.if_any(kThread, 1);
  filter.allow();
  filter.kill();
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
  filter.if_equal(SYS_prlimit64, 4);  // reading one's own limits: pthread_create's
  filter.load(argument(2));
  filter.if_equal(0, 1);
  filter.allow();
  filter.kill();
  filter.if_equal(SYS_prctl, 4);  // naming a thread
  filter.load(argument(0));
  filter.if_equal(PR_SET_NAME, 1);
  filter.allow();
  filter.refuse(EPERM);
  filter.kill();
  filter.install();
}

}  // namespace

std::string missing_confinement() {
  if (!kConfines) return "";
  if (kArchitecture == 0) return "a list of system calls for this architecture";
  return landlock_version() < 1 ? "Landlock (Linux 5.13)" : "";
}

void require_confinement() {
  const char* agreed = getenv("LATHE_UNCONFINED");
  if (agreed && std::string_view(agreed) == "1") return;
  if (const std::string missing = missing_confinement(); !missing.empty())
    throw Unfit(
        fmt::format("this system lacks {}, so that candidates would run unconfined\n"
                    "  hint: with LATHE_UNCONFINED=1 in the environment they do",
                    missing));
}

void confine(const Limits& limits, Confinement confinement) {
  set_limits(limits);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up("no_new_privs");
  if (confinement != Confinement::kRun || !kConfines) return;
  deny_files();
  deny_calls();
}

}  // namespace lathe::worker
