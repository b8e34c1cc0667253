#include "workers/child_reply.h"

#include <csignal>
#include <utility>

#include "core/support/error.h"
#include "core/support/spawn.h"
#include "core/support/temporary_folder.h"
#include "tracker/defaults.h"

namespace lathe::worker {
namespace {

/// What a failed child leaves to say: how it ended and the end of its stderr.
std::string last_words(const Report& report) {
  std::string words = describe(report);
  if (!report.stderr_tail.empty()) words += (words.empty() ? "" : ": ") + report.stderr_tail;
  // The tracker would refuse a longer one, and the result with it.
  return words.substr(0, defaults::kMessageLimit);
}

}  // namespace

std::vector<std::string> with_role(std::vector<std::string> command, const char* role) {
  command.push_back(role);
  return command;
}

Reply reply_of(const Report& report, bool build) {
  // Still not believed: run children reply out of the process that the candidate ran in
  // (decode_reply checks).
  if (report.end == Report::End::kReplied) {
    try {
      return decode_reply(report.reply);
    } catch (const Error& error) {
      return {.outcome = build ? Outcome::kBuildFailed : Outcome::kCrashed, .message = error.what()};
    }
  }
  const Outcome outcome = build                                  ? Outcome::kBuildFailed
                          : report.end == Report::End::kTimedOut ? Outcome::kTimeout
                                                                 : Outcome::kCrashed;
  return {.outcome = outcome, .message = last_words(report)};
}

std::string why_build_says_nothing(const Reply& reply) {
  // More than any candidate takes. A child could say by itself that a disk is full, of any disk.
  constexpr uint64_t kRoom = 16 << 20;
  if (reply.outcome != Outcome::kBuildFailed) return "";
  if (std::string full = why_no_room(kRoom); !full.empty()) return full;
  // This machine's own (codegen::linker_for): those of other CPUs a worker is not asked for that has none.
  return has_program("ld") ? "" : "there is no `ld`; install binutils";
}

int signal_of(const Report& report) { return report.end == Report::End::kSignalled ? report.code : 0; }

bool killed_from_outside(const Report& report) {
  // No limit of ours ends a child with SIGKILL alone: see Supervision::classify.
  return report.end == Report::End::kLost ||
         (report.end == Report::End::kSignalled && report.code == SIGKILL);
}

bool Attempts::again(const Report& report) {
  if (report.end == Report::End::kLost) return ++lost_ < kSupervisors;
  return killed_from_outside(report) && second();
}

bool Attempts::second() { return !std::exchange(second_, true); }

}  // namespace lathe::worker
