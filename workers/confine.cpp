#include "workers/confine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "core/support/unfit.h"
#include "workers/call_filter.h"

namespace lathe::worker {
namespace {

[[noreturn]] void give_up(const char* what) {
  fmt::print(stderr, "sandbox: {}: {}\n", what, strerror(errno));
  // In a child that has not begun: nothing is to be tidied up.
  _exit(125);
}

void limit(int resource, uint64_t soft, uint64_t hard, const char* name) {
  // Hard and soft alike, where the kernel does not warn first: the child cannot raise either.
  const rlimit value{soft, hard};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &value) != 0) give_up(name);
}

void set_limits(const Limits& limits) {
  // A core file of a crash would be written by the kernel, outside of all other limits.
  limit(RLIMIT_CORE, 0, 0, "RLIMIT_CORE");
  limit(RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes, "RLIMIT_FSIZE");
  if (limits.cpu_seconds > 0) {
    const auto seconds = static_cast<uint64_t>(std::ceil(limits.cpu_seconds));
    // In whole seconds, as the kernel counts. A handler may outlive SIGXCPU, but not the SIGKILL a second
    // later.
    limit(RLIMIT_CPU, seconds, seconds + 1, "RLIMIT_CPU");
  }
  // Sanitizers map terabytes that they never touch.
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
    // The highest there is.
    fputs("1000", file);
    fclose(file);
  }
}

// --- files: of the system what is needed, read-only; and a folder of its own

int landlock_version() {
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kReadAndRun = kRead | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
// Of version 1 (Linux 5.13). What later ones add (truncate, ioctl on devices) is seccomp's to refuse.
constexpr uint64_t kAll = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;  // of version 1

struct OpenPath {
  const char* path;
  uint64_t access;
};
constexpr OpenPath kForLoader[] = {{"/lib", kRead},
                                   {"/lib64", kRead},
                                   {"/usr/lib", kRead},
                                   {"/usr/local/lib", kRead},
                                   {"/etc/ld.so.cache", kRead}};
constexpr OpenPath kForLinker[] = {
    {"/bin", kReadAndRun}, {"/lib", kReadAndRun},       {"/lib64", kReadAndRun},
    {"/usr", kReadAndRun}, {"/etc/ld.so.cache", kRead}, {"/dev/null", kRead | LANDLOCK_ACCESS_FS_WRITE_FILE}};

void allow(int rules, const char* path, uint64_t access) {
  // Not every system has all of them: what is missing cannot be used either.
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = access;
  beneath.parent_fd = fd;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
  close(fd);
}

void deny_files(const Limits& limits, Confinement confinement) {
  if (landlock_version() < 1) return;  // as was agreed to; seccomp still refuses a run to open for writing
  // What is handled is denied unless a rule allows it.
  landlock_ruleset_attr attr{};
  attr.handled_access_fs = kAll;
  const int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0));
  if (rules < 0) give_up("landlock_create_ruleset");
  const bool runs = confinement == Confinement::kRun;
  for (const OpenPath& open : runs ? std::span<const OpenPath>(kForLoader) : kForLinker)
    // A rule that cannot be added leaves its path denied.
    allow(rules, open.path, open.access);
  if (!limits.folder.empty()) allow(rules, limits.folder.c_str(), kAll);
  if (!limits.file.empty()) allow(rules, limits.file.c_str(), kRead);
  if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) give_up("landlock_restrict_self");
  close(rules);
}

}  // namespace

std::string missing_confinement() {
  if (!kConfines) return "";
  if (!filters_calls()) return "a list of system calls for this architecture";
  if (landlock_version() < 1) return "Landlock (Linux 5.13)";
  return has_seccomp() ? "" : "seccomp";
}

void require_confinement(std::string_view what) {
  const char* agreed = getenv("LATHE_UNCONFINED");
  if (agreed && std::string_view(agreed) == "1") return;
  if (const std::string missing = missing_confinement(); !missing.empty())
    // No confinement, no run, unless told so (S7).
    throw Unfit(
        fmt::format("this system lacks {}, so that {} would run unconfined\n"
                    "  hint: with LATHE_UNCONFINED=1 in the environment they do",
                    missing, what));
}

void confine(const Limits& limits, Confinement confinement) {
  set_limits(limits);
  // Without root neither Landlock nor seccomp is to be had otherwise: a set-user-id program must not run
  // confined.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up("no_new_privs");
  if (confinement == Confinement::kTrusted || !kConfines) return;
  deny_files(limits, confinement);
  // Last, for its list has none of the calls above.
  if (!filter_calls(confinement)) give_up("seccomp");
}

}  // namespace lathe::worker
