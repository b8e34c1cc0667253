// Takes a child process the means to harm its machine, before it runs code that nobody has vetted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::worker {

/// Bounds of one child. 0 in `memory_bytes` or `cpu_seconds`: none.
struct Limits {
  double wall_seconds = 10;  // from start; time spent stopped, or waiting for a quiet machine, is not counted
  double cpu_seconds = 0;    // of all its threads together
  uint64_t memory_bytes = 0;        // of address space
  uint64_t file_bytes = 64u << 20;  // of any file it writes
  std::vector<int> cpus;            // it may run on; none: anywhere
  std::string folder;               // where a build or a search may write; "": nowhere
  std::string file;                 // that a search may read besides; "": none
};

enum class Confinement : uint8_t {
  kTrusted,  // code that the user names, as `tune run` would run it: limits only
  // The others: no network, no signal to others, no file but the system's libraries, which they read
  // (Landlock and seccomp, as far as the kernel has them).
  kBuild,   // a compiler of ours, that parses what others sent: it also runs the system's programs, for it
            // calls a linker, and has a folder of its own
  kSearch,  // a tuner, that parses a stranger's model: as a build, and it writes to the socket it has
  kRun,     // generated code: also no file it could write, no new process
};

/// False in sanitizer builds: sanitizers reserve terabytes of addresses and make system calls of their own,
/// so that memory is not limited there and nothing else confined.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kConfines = false;
#else
inline constexpr bool kConfines = true;
#endif

/// What kConfines promises and this system does not give: "Landlock (Linux 5.13)", say; "" when it gives all.
std::string missing_confinement();

/// Throws Unfit when something is missing, unless the environment's LATHE_UNCONFINED=1 says that `what`
/// ("candidates", "searches") may run with what there is.
void require_confinement(std::string_view what = "candidates");

/// Applies both to the calling process, for good. REQUIRES: a single thread. Ends the process with a message
/// on stderr when the kernel refuses a limit.
void confine(const Limits& limits, Confinement confinement);

}  // namespace lathe::worker
