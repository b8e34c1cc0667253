#include "tests/workers/deeds.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "core/support/error.h"
#include "core/support/file.h"
#include "workers/jobs.h"
#include "workers/packets.h"

namespace lathe::worker {

void spin() {
  for (volatile int i = 0;;) i = i + 1;
}

namespace {

int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : overflow_stack(depth + 1) + frame[0];
}

std::string exhaust_memory() {
  std::vector<std::string> hoard;
  for (;;) hoard.emplace_back(64 << 20, 'x');
}

/// One that sleeps, on a small stack: memory does not bound how many there are.
void start_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384);
  pthread_t thread;
  const auto body = [](void*) -> void* {
    std::this_thread::sleep_for(std::chrono::hours(1));
    return nullptr;
  };
  if (pthread_create(&thread, &attributes, body, nullptr) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

const Deed kDeeds[] = {
    {"loops for ever",
     [] {
       spin();
       return std::string();
     },
     Report::End::kTimedOut, -1},
    {"sleeps for ever",
     [] {
       for (;;) pause();
       return std::string();
     },
     Report::End::kSignalled, SIGSYS},
    {"sleeps politely",
     [] {
       std::this_thread::sleep_for(std::chrono::hours(1));
       return std::string();
     },
     Report::End::kTimedOut, -1},
    {"asks for windows and never looks",
     [] {
       while (write_all(3, "oc")) {  // opens one and closes it, on the gate
       }
       return std::string();
     },
     Report::End::kTimedOut, -1},
    {"aborts",
     [] {
       abort();
       return std::string();
     },
     Report::End::kSignalled, SIGABRT},
    {"reads null", [] { return std::string(1, *static_cast<volatile char*>(nullptr)); },
     Report::End::kSignalled, SIGSEGV},
    {"divides by zero",
     [] {
       raise(SIGFPE);
       return std::string();
     },
     Report::End::kSignalled, SIGFPE},
    {"overflows its stack", [] { return std::to_string(overflow_stack(0)); }, Report::End::kSignalled,
     SIGSEGV},
    {"exits early",
     [] {
       _exit(0);
       return std::string();
     },
     Report::End::kNoReply, 0},
    {"exits with 3",
     [] {
       _exit(3);
       return std::string();
     },
     Report::End::kExited, 3},
    {"throws", []() -> std::string { fail("out of ideas"); }, Report::End::kExited, 1},
    {"allocates for ever", exhaust_memory, Report::End::kExited, 1},
    {"allocates a terabyte", [] { return std::string(size_t{1} << 40, 'x'); }, Report::End::kExited, 1},
    {"forks",
     [] {
       fork();
       return std::string();
     },
     Report::End::kSignalled, SIGSYS},
    {"forks by vfork", [] { return std::to_string(system("true")); }, Report::End::kSignalled, SIGSYS},
    {"executes",
     [] {
       execl("/bin/true", "true", nullptr);
       return std::string();
     },
     Report::End::kSignalled, SIGSYS},
    {"kills its parent",
     [] {
       kill(getppid(), SIGKILL);
       return std::string();
     },
     Report::End::kSignalled, SIGSYS},
    {"traces its parent",
     [] {
       ptrace(PTRACE_ATTACH, 1, 0, 0);
       return std::string();
     },
     Report::End::kSignalled, SIGSYS},
    {"opens a socket", [] { return std::to_string(socket(AF_INET, SOCK_STREAM, 0)); },
     Report::End::kSignalled, SIGSYS},
#ifdef __x86_64__
    // The same call has other numbers there.
    {"opens a socket by the table of 32-bit programs",
     [] {
       long number = 359, family = AF_INET, type = SOCK_STREAM;  // i386's socket
       asm volatile("int $0x80" : "+a"(number) : "b"(family), "c"(type), "d"(0L) : "memory");
       return std::to_string(number);
     },
     Report::End::kSignalled, -1},  // SIGSYS, or SIGSEGV of a kernel that has no such table
    {"opens a socket by the table of x32",
     [] { return std::to_string(syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0)); },
     Report::End::kSignalled, SIGSYS},
#endif
    {"asks the kernel by a ring", [] { return std::to_string(syscall(425 /*io_uring_setup*/, 8, nullptr)); },
     Report::End::kSignalled, SIGSYS},
    {"removes a file", [] { return std::to_string(unlink(kOutside.c_str())); }, Report::End::kSignalled,
     SIGSYS},
    {"links", [] { return std::to_string(symlink("/etc/passwd", "/tmp/x")); }, Report::End::kSignalled,
     SIGSYS},
    {"mounts", [] { return std::to_string(chroot("/tmp")); }, Report::End::kSignalled, SIGSYS},
    {"fills a file",
     [] {
       while (write_all(4, std::string(1 << 20, 'x'))) {  // its reply's
       }
       return std::string();
     },
     Report::End::kSignalled, SIGXFSZ},
    {"makes memory files", [] { return std::to_string(memory_file("more", "")); }, Report::End::kSignalled,
     SIGSYS},
    {"limits its parent",
     [] {
       // Half of this address is 0, as the whole is of a caller who only reads.
       void* place = mmap(reinterpret_cast<void*>(uintptr_t{1} << 40), 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
       *static_cast<rlimit*>(place) = {0, 0};
       return std::to_string(syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, place, nullptr));
     },
     Report::End::kSignalled, SIGSYS},
    {"makes thousands of threads",
     [] {
       for (int i = 0; i < 2000; ++i) start_thread();
       std::this_thread::sleep_for(std::chrono::hours(1));
       return std::string();
     },
     Report::End::kSignalled, SIGSYS},
};

std::string result_of(bool done) { return done ? "done" : strerror(errno); }

int run_shell(const std::string& script) {
  const int status = system(script.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

const BuildDeed kBuildDeeds[] = {
    {"reads a key", [] { return result_of(open(kKeyFile.c_str(), O_RDONLY) >= 0); }, "Permission denied"},
    {"reads its parent's memory",
     [] { return result_of(open(fmt::format("/proc/{}/mem", getppid()).c_str(), O_RDONLY) >= 0); },
     "Permission denied"},
    {"reads its parent's environment",
     [] { return result_of(open(fmt::format("/proc/{}/environ", getppid()).c_str(), O_RDONLY) >= 0); },
     "Permission denied"},
    {"reads its own environment",
     [] { return std::string(getenv(kSecretVariable) ? "has a secret" : "has none"); }, "has none"},
    {"lists a home", [] { return result_of(open("/root", O_RDONLY | O_DIRECTORY) >= 0); },
     "Permission denied"},
    {"reads a key by a program",
     [] { return std::to_string(run_shell("exec 2>/dev/null; cat " + kKeyFile)); }, "1"},
    {"links to a key",
     [] {
       return result_of(symlink(kKeyFile.c_str(), (std::string(getenv("TMPDIR")) + "/link").c_str()) == 0);
     },
     ""},
    {"writes outside", [] { return result_of(open(kOutside.c_str(), O_CREAT | O_WRONLY, 0600) >= 0); },
     "Permission denied"},
    {"removes a key", [] { return result_of(unlink(kKeyFile.c_str()) == 0); }, "Permission denied"},
    {"moves a key",
     [] {
       return result_of(rename(kKeyFile.c_str(), (std::string(getenv("TMPDIR")) + "/key").c_str()) == 0);
     },
     "Permission denied"},
    {"writes inside",
     [] {
       const std::string path = std::string(getenv("TMPDIR")) + "/file";
       write_file(path, "text");
       return read_file(path);
     },
     "text"},
    {"runs a linker", [] { return std::to_string(run_shell("ld --version >/dev/null")); }, "0"},
    {"opens a socket", [] { return result_of(socket(AF_INET, SOCK_STREAM, 0) >= 0); }, ""},
    {"opens a local socket", [] { return result_of(socket(AF_UNIX, SOCK_STREAM, 0) >= 0); }, ""},
    {"kills its parent", [] { return result_of(kill(getppid(), SIGKILL) == 0); }, ""},
    {"traces its parent", [] { return result_of(ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0); }, ""},
    {"leaves its group", [] { return result_of(setsid() >= 0); }, ""},
    {"slows its parent", [] { return result_of(setpriority(PRIO_PROCESS, getppid(), 19) == 0); },
     "Operation not permitted"},
    {"slows its user", [] { return result_of(setpriority(PRIO_USER, 0, 19) == 0); },
     "Operation not permitted"},
    {"slows itself", [] { return result_of(setpriority(PRIO_PROCESS, 0, 19) == 0); }, "done"},
    {"takes namespaces", [] { return result_of(unshare(CLONE_NEWUSER) == 0); }, ""},
    {"takes namespaces with a child",
     [] { return result_of(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0); }, ""},
};

}  // namespace

std::span<const Deed> hostile_candidates() { return kDeeds; }
std::span<const BuildDeed> hostile_builds() { return kBuildDeeds; }

std::string commit_deed(std::string_view request, Child&) {
  for (const Deed& deed : kDeeds)
    if (deed.name == request) return deed.act();
  fail("no such deed");
}

std::string commit_build_deed(std::string_view request, Child&) {
  for (const BuildDeed& deed : kBuildDeeds)
    if (deed.name == request) return deed.act();
  fail("no such deed");
}

}  // namespace lathe::worker
