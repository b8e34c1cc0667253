#include "tracker/race_spec.h"

#include <algorithm>

#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "core/tir/roofline.h"
#include "core/tir/target.h"
#include "tracker/defaults.h"

namespace lathe::tracker {

TrialSpec race_spec(const RaceOrder& order) {
  const uint32_t threads = std::clamp<uint32_t>(order.threads, 1, kMostThreads);
  TrialSpec spec{.job = order.job,
                 .target = order.target,
                 .needs = with_cores_for(threads, order.needs),
                 .is_open = !order.dims.empty()};
  spec.fastest_seconds =
      // The model's own operations, as its tasks have them: a race that is faster than any machine
      // could be is made up.
      fastest_believable(order.flops, parse_target_text(order.target), static_cast<int>(threads));
  spec.race = std::make_shared<const RaceModules>(
      RaceModules{.incumbent = std::make_shared<ModuleFile>(order.incumbent),
                  .challenger = std::make_shared<ModuleFile>(order.challenger),
                  .evaluation = {.threads = threads,
                                 .budget_seconds = std::clamp(order.seconds, 0.0, defaults::kRaceTurns),
                                 .run_limit_seconds = defaults::kRaceRun,
                                 .dims = order.dims}});
  if (const std::string fault = wire::fault_of(spec.race->evaluation); !fault.empty())
    fail("a race that no worker would read: {}", fault);
  return spec;
}

}  // namespace lathe::tracker
