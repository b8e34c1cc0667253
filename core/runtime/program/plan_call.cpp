#include "core/runtime/program/plan_call.h"

#include <chrono>

#include "core/runtime/output_arguments.h"
#include "core/support/error.h"

namespace lathe::runtime {

PlanCall::PlanCall(const LoadedPlan& loaded, char* arena) : loaded_(&loaded), arena_(arena) {
  const Plan& plan = *loaded.plan;
  for (const Step& step : plan.steps) {
    first_buffer_.push_back(buffers_.size());
    for (int64_t arg : step.args) {
      const Value& value = plan.values[static_cast<size_t>(arg)];
      if (value.place == Place::kInput) inputs_.push_back({buffers_.size(), static_cast<size_t>(value.at)});
      buffers_.push_back(value.place == Place::kArena      ? arena + value.at
                         : value.place == Place::kConstant ? loaded.constants[static_cast<size_t>(arg)]
                                                           : nullptr);
    }
  }
  std::vector<std::vector<size_t>> arguments;
  for (const Port& port : plan.outputs) {
    const Value& value = plan.values[static_cast<size_t>(port.value)];
    Result result{Source::kArena, 0, nullptr};
    arguments.push_back(output_arguments(plan, value));
    if (value.place == Place::kInput) {
      result = {Source::kInput, static_cast<size_t>(value.at), nullptr};
    } else if (value.place == Place::kConstant) {
      result = {Source::kConstant, 0, loaded.constants[static_cast<size_t>(port.value)]};
    } else if (arguments.back().empty()) {
      result.address = arena + value.at;
    } else {
      result = {Source::kOwn, 0, nullptr};
      for (size_t i = 0; i < results_.size(); ++i)
        if (results_[i].source == Source::kOwn && arguments[i] == arguments.back())
          result = {Source::kEarlier, i, nullptr};
      if (result.source == Source::kOwn)
        for (size_t argument : arguments.back()) own_.push_back({argument, results_.size()});
    }
    results_.push_back(result);
  }
}

void PlanCall::run(void* const* inputs, void* const* results, const LatheParallel* parallel,
                   std::span<int64_t> spent) {
  using Clock = std::chrono::steady_clock;
  for (const Patch& patch : inputs_) buffers_[patch.buffer] = inputs[patch.number];
  for (const Patch& patch : own_) buffers_[patch.buffer] = results[patch.number];
  const std::vector<Step>& steps = loaded_->plan->steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Clock::time_point before = spent.empty() ? Clock::time_point() : Clock::now();
    const int32_t code = loaded_->kernels[i](buffers_.data() + first_buffer_[i],
                                             arena_ + steps[i].workspace_at, parallel, nullptr);
    if (code != 0) fail("kernel {} reports that its check {} failed", steps[i].kernel, code);
    if (!spent.empty())
      spent[i] += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - before).count();
  }
}

}  // namespace lathe::runtime
