#include "tuner/compile.h"

#include "tuner/optimize.h"

namespace lathe::tuner {

runtime::ModuleImage compile_model(const relay::Module& module, const Target& target,
                                   const ScheduleWorkload& schedule) {
  return final_build(optimize(module, target), target, schedule);
}

runtime::ModuleImage compile_model(const relay::Module& module, const Target& target) {
  return compile_model(module, target, default_schedules(target));
}

runtime::ModuleImage compile_program(const relay::Module& module, const Target& target) {
  return final_build(optimize_program(module, target), target, default_schedules(target));
}

}  // namespace lathe::tuner
