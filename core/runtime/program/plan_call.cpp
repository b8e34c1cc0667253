#include "core/runtime/program/plan_call.h"

#include <chrono>

#include "core/runtime/output_arguments.h"
#include "core/runtime/plan_dims.h"
#include "core/support/error.h"

namespace lathe::runtime {

namespace {

void require_shape(const Plan& open, const Plan& bound, const Port& port, const std::vector<int64_t>& shape) {
  const auto value = static_cast<size_t>(port.value);
  if (bound.values[value].shape != shape)
    fail("a tensor of shape {} where {} is expected", shape_text(shape),
         open_shape_text(open, open.values[value].shape));
}

}  // namespace

bool PlanCall::fits(Shapes shapes) const {
  const Plan& open = *loaded_->plan;
  for (size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i]->size() != open.values[static_cast<size_t>(open.inputs[i].value)].shape.size())
      return false;
  return true;
}

void PlanCall::bind(Shapes shapes) {
  const Plan& open = *loaded_->plan;
  if (!bound_) bound_ = open;
  numbers_ = false;
  dims_.clear();
  for (const Dimension& dim : open.dims)
    dims_.push_back((*shapes[static_cast<size_t>(dim.input)])[static_cast<size_t>(dim.axis)]);
  bind_dims(open, dims_, *bound_);
  for (size_t i = 0; i < open.inputs.size(); ++i) require_shape(open, *bound_, open.inputs[i], *shapes[i]);
  numbers_ = true;
}

void PlanCall::place(char* arena) {
  const Plan& plan = this->plan();
  buffers_.clear(), inputs_.clear(), running_.clear();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (step.when != 0)
      running_.push_back({loaded_->kernels[i], buffers_.size(), arena + step.workspace_at, &step});
    for (int64_t arg : step.args) {
      const Value& value = plan.values[static_cast<size_t>(arg)];
      if (value.place == Place::kInput && step.when != 0)
        inputs_.push_back({buffers_.size(), static_cast<size_t>(value.at)});
      buffers_.push_back(value.place == Place::kArena      ? arena + value.at
                         : value.place == Place::kConstant ? loaded_->constants[static_cast<size_t>(arg)]
                                                           : nullptr);
    }
  }
  place_results(arena);
}

void PlanCall::place_results(char* arena) {
  const Plan& plan = this->plan();
  results_.clear(), own_.clear();
  arguments_.resize(plan.outputs.size());
  for (size_t number = 0; number < plan.outputs.size(); ++number) {
    const Port& port = plan.outputs[number];
    const Value& value = plan.values[static_cast<size_t>(port.value)];
    Result result{Source::kArena, 0, nullptr};
    std::vector<size_t>& arguments = arguments_[number];
    output_arguments(plan, value, arguments);
    if (value.place == Place::kInput) {
      result = {Source::kInput, static_cast<size_t>(value.at), nullptr};
    } else if (value.place == Place::kConstant) {
      result = {Source::kConstant, 0, loaded_->constants[static_cast<size_t>(port.value)]};
    } else if (arguments.empty()) {
      result.address = arena + value.at;
    } else {
      result = {Source::kOwn, 0, nullptr};
      for (size_t i = 0; i < number; ++i)
        if (results_[i].source == Source::kOwn && arguments_[i] == arguments)
          result = {Source::kEarlier, i, nullptr};
      if (result.source == Source::kOwn)
        for (size_t argument : arguments) own_.push_back({argument, number});
    }
    results_.push_back(result);
  }
}

void PlanCall::run(void* const* inputs, void* const* results, std::span<int64_t> spent) {
  using Clock = std::chrono::steady_clock;
  for (const Patch& patch : inputs_) buffers_[patch.buffer] = inputs[patch.number];
  for (const Patch& patch : own_) buffers_[patch.buffer] = results[patch.number];
  const Step* first = plan().steps.data();
  for (const Running& each : running_) {
    const auto i = static_cast<size_t>(each.step - first);
    const Clock::time_point before = spent.empty() ? Clock::time_point() : Clock::now();
    const int32_t code = each.kernel(buffers_.data() + each.first_buffer, each.workspace, turns_.next(i),
                                     each.step->dims.data());
    if (code != 0) fail("kernel {} reports that its check {} failed", each.step->kernel, code);
    if (!spent.empty())
      spent[i] += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - before).count();
  }
}

}  // namespace lathe::runtime
