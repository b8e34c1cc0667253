// From a model to a module that runs.
#pragma once

#include "core/relay/expr.h"
#include "core/runtime/module_file.h"
#include "core/tir/target.h"
#include "tuner/final_build.h"

namespace lathe::tuner {

/// The graph passes (optimize.h), then the final build. REQUIRES: constant shapes. Throws Error for what does
/// not type-check or cannot be executed yet.
runtime::ModuleImage compile_model(const relay::Module& module, const Target& target,
                                   const ScheduleWorkload& schedule);

/// The same with default schedules: a build without measurements.
runtime::ModuleImage compile_model(const relay::Module& module, const Target& target);

/// Any module as a program, of which main, whatever it takes and gives, can be called by Machine::call.
runtime::ModuleImage compile_program(const relay::Module& module, const Target& target);

}  // namespace lathe::tuner
