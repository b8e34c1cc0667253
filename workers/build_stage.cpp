#include "workers/build_stage.h"

#include <algorithm>
#include <utility>

#include "core/support/error.h"
#include "core/support/unfit.h"
#include "workers/child_reply.h"
#include "workers/quiet.h"

namespace lathe::worker {
namespace {

constexpr size_t kArtifactBytes = 128 << 20;

}  // namespace

BuildStage::BuildStage(const std::vector<std::string>& command, int builders) : artifacts_(kArtifactBytes) {
  for (int i = 0; i < builders; ++i)
    // Supervisors start with their first task, so idle builders cost nothing.
    builders_.push_back(std::make_unique<Sandbox>(with_role(command, "build")));
}

void BuildStage::start(const wire::Lease& lease) {
  candidates_[lease.lease] = std::make_unique<Candidate>(lease);
  next_build(lease.lease);
}

/// Builds what the lease lacks: the candidate, and for a runner elsewhere the unscheduled program.
void BuildStage::next_build(uint64_t id) {
  Candidate& candidate = *candidates_.at(id);
  const bool for_another = candidate.lease.part == wire::Part::kBuild;
  for (const bool unscheduled : {false, true}) {
    if (unscheduled && !for_another) break;
    Artifact& wanted = unscheduled ? candidate.reference : candidate.artifact;
    // Built by an earlier step of this lease.
    if (!wanted.object.empty()) continue;
    const Artifact* known = artifacts_.find(ArtifactCache::key_of(candidate.lease, unscheduled));
    if (!known) return start_build(candidate.lease, unscheduled);
    wanted = *known;
  }
  // Found in the cache or built just now: the same from here on.
  Ended ended{id, true, {.build_seconds = candidate.build_seconds, .artifact = candidate.artifact.digest}};
  if (for_another) {
    ended.artifact = encode(candidate.artifact);
    ended.reference = encode(candidate.reference);
    candidates_.erase(id);
  } else {
    candidate.keep(std::move(candidate.artifact));
  }
  ended_.push_back(std::move(ended));
}

void BuildStage::start_build(const wire::Lease& lease, bool unscheduled) {
  const auto idle =
      std::find_if(builders_.begin(), builders_.end(), [](const auto& b) { return !b->busy(); });
  CHECK(idle != builders_.end(), "no builder is idle");
  try {
    // The machine that runs it may have more cores.
    const bool here = lease.part == wire::Part::kWhole;
    // Not on the cores that measure, where there are enough.
    const CorePlan cores = plan_cores(here ? static_cast<int>(lease.evaluation.threads) : 1);
    const double limit = lease.evaluation.build_limit_seconds;
    (*idle)->start({.request = encode(BuildJob{lease.workload, lease.trace, lease.target, unscheduled}),
                    .limits = {.wall_seconds = limit,
                               // A linker runs beside the compiler.
                               .cpu_seconds = 2 * limit,
                               .memory_bytes = kBuildMemory,
                               .file_bytes = 256u << 20,
                               .cpus = cores.build}});
    // By builder: its report says nothing of a lease.
    building_[idle->get()] = {lease.lease, unscheduled};
  } catch (const Unfit& error) {
    lose(lease.lease, error.what());
  } catch (const Error& error) {
    ended_.push_back({lease.lease, true, {.outcome = Outcome::kBuildFailed, .message = error.what()}});
    candidates_.erase(lease.lease);
  }
}

void BuildStage::built(uint64_t lease, bool unscheduled, const Report& report) {
  Candidate& candidate = *candidates_.at(lease);
  if (candidate.attempts.again(report)) return start_build(candidate.lease, unscheduled);
  if (report.end == Report::End::kLost) return lose(lease, describe(report));
  Reply reply = reply_of(report, /*build=*/true);
  if (reply.outcome == Outcome::kOk) {
    candidate.attempts = {};
    // Builds that fail are not kept: the next worker or release may do better.
    artifacts_.add(ArtifactCache::key_of(candidate.lease, unscheduled), reply.artifact);
    (unscheduled ? candidate.reference : candidate.artifact) = std::move(reply.artifact);
    candidate.build_seconds += report.wall_seconds;
    return next_build(lease);
  }
  if (const std::string unfit = why_build_says_nothing(reply); !unfit.empty())
    return candidate.attempts.again({.end = Report::End::kLost}) ? start_build(candidate.lease, unscheduled)
                                                                 : lose(lease, unfit);
  if (unscheduled) reply.message = std::string(kUnscheduled) + reply.message;
  ended_.push_back({lease,
                    true,
                    {.outcome = reply.outcome,
                     .message = std::move(reply.message),
                     .signal = signal_of(report),
                     .build_seconds = candidate.build_seconds + report.wall_seconds}});
  candidates_.erase(lease);
}

void BuildStage::lose(uint64_t lease, std::string why) {
  ended_.push_back({.lease = lease, .built = true, .report = {.message = std::move(why)}, .lost = true});
  candidates_.erase(lease);
}

std::unique_ptr<Candidate> BuildStage::take(uint64_t lease) {
  const auto found = candidates_.find(lease);
  CHECK(found != candidates_.end(), "lease {} was not built", lease);
  return std::move(candidates_.extract(found).mapped());
}

void BuildStage::discard(uint64_t lease) {
  for (auto it = building_.begin(); it != building_.end(); ++it) {
    if (it->second.lease != lease) continue;
    // A new one is started for the next task, and its libraries load again: some tenths of a second.
    // Its supervisor dies with it: a task that is given up sends no report that might be taken for the next
    // one's.
    it->first->abort();
    building_.erase(it);
    break;
  }
  candidates_.erase(lease);
}

std::vector<Ended> BuildStage::collect() {
  for (const auto& builder : builders_) {
    if (!builder->busy()) continue;
    // Not ended yet.
    const std::optional<Report> report = builder->finish();
    if (!report) continue;
    const Building building = building_.extract(builder.get()).mapped();
    built(building.lease, building.unscheduled, *report);
  }
  return std::exchange(ended_, {});
}

std::vector<int> BuildStage::descriptors() const {
  std::vector<int> result;
  for (const auto& builder : builders_)
    if (builder->busy()) result.push_back(builder->descriptor());
  return result;
}

}  // namespace lathe::worker
