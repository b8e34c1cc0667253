#include "cli/best_build.h"

#include <algorithm>

#include "cli/messages.h"
#include "db/store.h"
#include "tuner/best_schedules.h"
#include "tuner/checked_build.h"
#include "tuner/tasks.h"

namespace lathe::cli {
namespace {

void report_refusal(const tuner::CheckedBuild& build, double allowed) {
  if (build.refused)
    say("constants stay in full precision: in half the outputs are off by {:.1e}, more than {:.1e}",
        build.difference, allowed);
}

}  // namespace

OpenRecords records_of(const std::string& database) {
  if (database.empty()) return {};
  return [database] { return std::make_unique<db::Store>(database, db::StoreOptions{.read_only = true}); };
}

BestBuild best_build(const relay::Module& fused, const Target& target, const BuildSource& source) {
  const double allowed = source.max_relative_error;
  if (!source.open) {
    // Without bounds and values all dimensions are as any.
    const tuner::OpenPrograms open =
        source.open_dims.named.empty()
            ? tuner::OpenPrograms()
            : tuner::open_programs(fused, tuner::open_points(fused, source.open_dims));
    const auto family = [&](const tir::Func& workload) { return tuner::family_of_known(open, workload); };
    tuner::CheckedBuild build = tuner::checked_build(
        fused, target, {tuner::default_schedules(target, schedule::rounding_within(allowed)), family},
        {tuner::default_schedules(target), family}, allowed);
    report_refusal(build, allowed);
    return {std::move(build.image), 0, build.refused ? 0 : build.difference};
  }
  const tuner::OpenPoints points = tuner::open_points(fused, source.open_dims);
  const tuner::OpenPrograms open = tuner::open_programs(fused, points);
  // The second is for when the first, within the error in each kernel, is beyond it in the outputs.
  tuner::BestSchedules best(source.open(), target, source.threads, allowed,
                            tuner::tasks_digest(tuner::extract_tasks(fused, points)), open),
      exact(source.open(), target, source.threads, std::min(allowed, tuner::kExactError), "", open);
  tuner::CheckedBuild build =
      tuner::checked_build(fused, target, best.schedules(), exact.schedules(), allowed);
  report_refusal(build, allowed);
  return {std::move(build.image), build.refused ? exact.measured() : best.measured(),
          build.refused ? 0 : build.difference};
}

}  // namespace lathe::cli
