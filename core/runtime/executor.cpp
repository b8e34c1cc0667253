#include "core/runtime/executor.h"

#include <chrono>

#include "core/runtime/pages.h"

namespace lathe::runtime {
namespace {

bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kAlignment == 0; }

}  // namespace

Executor::Executor(std::shared_ptr<const Module> module, const LatheParallel* parallel)
    : module_(std::move(module)),
      parallel_(parallel),
      arena_(allocate_pages(static_cast<uint64_t>(plan().arena_bytes))),
      inputs_(plan().inputs.size()) {
  for (const Step& step : plan().steps) {
    first_buffer_.push_back(buffers_.size());
    for (int64_t arg : step.args) buffers_.push_back(address(plan().values[arg], static_cast<size_t>(arg)));
  }
}

void* Executor::address(const Value& value, size_t index) const {
  switch (value.place) {
    case Place::kInput:
      return inputs_[value.at].data();
    case Place::kConstant:
      return module_->constant(index);
    case Place::kArena:
      return static_cast<char*>(arena_.get()) + value.at;
  }
  return nullptr;
}

void Executor::set_input(size_t i, Tensor tensor) {
  const Port& port = plan().inputs.at(i);
  const Value& value = plan().values[port.value];
  if (tensor.shape() != value.shape || tensor.dtype() != value.dtype)
    fail("input `{}` is {} {}, must be {} {}", port.name, to_string(tensor.dtype()),
         shape_text(tensor.shape()), to_string(value.dtype), shape_text(value.shape));
  inputs_[i] = aligned(tensor.data()) ? std::move(tensor) : tensor.clone();
  for (size_t s = 0; s < plan().steps.size(); ++s) {
    const std::vector<int64_t>& args = plan().steps[s].args;
    for (size_t a = 0; a < args.size(); ++a) {
      const Value& arg = plan().values[args[a]];
      if (arg.place == Place::kInput && arg.at == static_cast<int64_t>(i))
        buffers_[first_buffer_[s] + a] = inputs_[i].data();
    }
  }
}

void Executor::require_inputs() const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_[i].defined()) fail("input `{}` is not set", plan().inputs[i].name);
}

void Executor::call(size_t step) {
  void* workspace = static_cast<char*>(arena_.get()) + plan().steps[step].workspace_at;
  int32_t code = module_->kernel(step)(buffers_.data() + first_buffer_[step], workspace, parallel_);
  if (code != 0) fail("kernel {} reports that its check {} failed", plan().steps[step].kernel, code);
}

void Executor::run() {
  require_inputs();
  for (size_t step = 0; step < first_buffer_.size(); ++step) call(step);
}

void Executor::run_timed(std::span<int64_t> spent) {
  CHECK(spent.size() == plan().steps.size(), "{} clocks for {} steps", spent.size(), plan().steps.size());
  require_inputs();
  auto before = std::chrono::steady_clock::now();
  for (size_t step = 0; step < first_buffer_.size(); ++step) {
    call(step);
    auto after = std::chrono::steady_clock::now();
    spent[step] += std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
    before = after;
  }
}

Tensor Executor::output(size_t i) const {
  int64_t index = plan().outputs.at(i).value;
  const Value& value = plan().values[index];
  void* data = address(value, static_cast<size_t>(index));
  switch (value.place) {
    case Place::kInput:
      return inputs_[value.at].reshaped(value.shape);
    case Place::kConstant:
      return Tensor(value.shape, value.dtype, std::const_pointer_cast<Module>(module_), data);
    case Place::kArena:
      return Tensor(value.shape, value.dtype, arena_, data);
  }
  return Tensor();
}

void set_random_inputs(Executor& executor, uint64_t seed) {
  const Plan& plan = executor.plan();
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Value& value = plan.values[static_cast<size_t>(plan.inputs[i].value)];
    executor.set_input(i, random_tensor(value.shape, value.dtype, seed + i));
  }
}

}  // namespace lathe::runtime
