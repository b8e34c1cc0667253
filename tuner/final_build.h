// The last step of a job: every distinct kernel of a model compiled with the schedule chosen for it, and the
// plan that runs them.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "core/runtime/module_file.h"
#include "core/tir/target.h"
#include "schedules/family.h"
#include "schedules/space.h"

namespace lathe::tuner {

/// A workload (a canonical, unscheduled program) as it is to be computed. Called from several threads at
/// once.
using ScheduleWorkload = std::function<tir::Func(const tir::Func& workload)>;

/// The kernels of a workload with open dimensions. Called from several threads at once.
using FamilyOf = std::function<std::vector<schedule::Member>(const tir::Func& workload)>;

/// What a build follows: how its programs, or the members of their families, are scheduled.
struct BuildSchedules {
  template <typename Schedule>
  requires std::convertible_to<Schedule, ScheduleWorkload> BuildSchedules(
      Schedule of_program, FamilyOf of_open = schedule::family_of)
      : schedule(std::move(of_program)), family(std::move(of_open)) {}

  ScheduleWorkload schedule;
  FamilyOf family;
};

/// The default schedule for every workload: a build without measurements.
ScheduleWorkload default_schedules(const Target& target,
                                   schedule::Rounding rounding = schedule::Rounding::kNone);

/// Builds one model, perhaps many times over with other schedules. What a build has in common with one that
/// still lives is not compiled, and its constants are not transformed, again: they share it.
class ModelBuilder {
 public:
  /// Throws Error for what cannot be executed yet (graph_plan.h). REQUIRES: constant shapes.
  ModelBuilder(const relay::Module& fused, const Target& target,
               const FamilyOf& family = schedule::family_of);
  ~ModelBuilder();

  /// The distinct programs. Calls of equal programs share one kernel.
  size_t size() const;
  const tir::Func& workload(size_t i) const;
  /// Of the plan's steps that run workload i.
  const std::string& kernel_name(size_t i) const;

  struct Compiled;  // a kernel with its prologue and what that made of the constants
  struct Build {
    runtime::ModuleImage image;
    std::vector<std::shared_ptr<const Compiled>> kernels;  // what later builds may share
  };
  /// `scheduled[i]` is workload i, scheduled; the same node is the same program.
  Build build(std::span<const tir::Func> scheduled);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Compiles a fused module once. Throws Error as ModelBuilder does.
runtime::ModuleImage final_build(const relay::Module& fused, const Target& target,
                                 const BuildSchedules& schedules);

}  // namespace lathe::tuner
