// The last step of a job: every distinct kernel of a model compiled with the schedule chosen for it, and the
// plan that runs them.
#pragma once

#include <functional>

#include "core/relay/expr.h"
#include "core/runtime/module_file.h"
#include "core/tir/target.h"

namespace lathe::tuner {

/// A workload (a canonical, unscheduled program) as it is to be computed. Called from several threads at
/// once.
using ScheduleWorkload = std::function<tir::Func(const tir::Func& workload)>;

/// The default schedule for every workload: a build without measurements.
ScheduleWorkload default_schedules(const Target& target);

/// Compiles a fused module with constant shapes. Calls of equal programs share one kernel. Throws Error for
/// what cannot be executed yet (graph_plan.h).
runtime::ModuleImage final_build(const relay::Module& fused, const Target& target,
                                 const ScheduleWorkload& schedule);

}  // namespace lathe::tuner
