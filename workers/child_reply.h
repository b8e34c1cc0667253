// What the end of a worker's child says of the candidate that it built or ran.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workers/jobs.h"
#include "workers/sandbox.h"

namespace lathe::worker {

/// The same program, told what to be (internal_sandbox_main).
std::vector<std::string> with_role(std::vector<std::string> command, const char* role);

/// The child's reply, or the outcome that its end stands for.
Reply reply_of(const Report& report, bool build);

/// By which it was ended, or 0.
int signal_of(const Report& report);

/// Killed by somebody else, as far as one can tell: the system short of memory, or a person.
bool killed_from_outside(const Report& report);

/// Why a build that failed says nothing of its program: this machine has no linker, or no room for what one
/// writes.
/// "" of all others. REQUIRES: what the build itself has written is removed.
std::string why_build_says_nothing(const Reply& reply);

/// How often a task of a child's has been tried. What ended it may have been the kernel, short of memory, and
/// not its candidate.
class Attempts {
 public:
  /// Whether to try once more: after one child that was killed, and whenever a supervisor died, of which
  /// `kSupervisors` are tried. Of these nothing is known of the candidate, and no worker ends for one or two.
  bool again(const Report& report);
  /// Whether a second attempt is left, which is taken.
  bool second();

  static constexpr int kSupervisors = 5;

 private:
  int lost_ = 0;
  bool second_ = false;
};

/// Before the reasons of failures that are not the candidate's.
inline constexpr std::string_view kUnscheduled = "the unscheduled program: ";

/// Of any child that a compiler runs in.
inline constexpr uint64_t kBuildMemory = uint64_t{8} << 30;

}  // namespace lathe::worker
