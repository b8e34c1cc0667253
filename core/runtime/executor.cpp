#include "core/runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/runtime/output_arguments.h"
#include "core/runtime/pages.h"
#include "core/runtime/plan_dims.h"

namespace lathe::runtime {
namespace {

/// Kernels rely on it.
bool aligned(const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.data()) % kAlignment == 0; }

bool overlap(const Tensor& a, const Tensor& b) {
  // As numbers: pointers into different objects have no order.
  const auto first = reinterpret_cast<uintptr_t>(a.data()), second = reinterpret_cast<uintptr_t>(b.data());
  return a.bytes() > 0 && b.bytes() > 0 && first < second + static_cast<uintptr_t>(b.bytes()) &&
         second < first + static_cast<uintptr_t>(a.bytes());
}

/// An empty tensor may have no memory, and memcpy of a null pointer is undefined even of no bytes.
void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

/// Any number does for an open dimension.
bool fits(std::span<const int64_t> shape, const std::vector<Size>& wanted) {
  return std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end(),
                    [](int64_t have, Size want) { return is_open(want) || have == want; });
}

/// ", which is (2 * k)": what a shape of numbers is in dimensions, where they do not stand by themselves.
std::string meaning(const Plan& open, const std::vector<Size>& shape) {
  const bool stands_alone = std::all_of(shape.begin(), shape.end(), [&](Size size) {
    return !is_open(size) || open.sizes[entry_of(size)].op == SizeOp::kDim;
  });
  return stands_alone ? "" : ", which is " + open_shape_text(open, shape);
}

/// `open`: where `plan` is one that some values of its dimensions have made.
void require_type(const char* kind, const Port& port, const Plan& plan, std::span<const int64_t> shape,
                  DataType dtype, const Plan* open = nullptr) {
  const Value& value = plan.values[static_cast<size_t>(port.value)];
  if (!fits(shape, value.shape) || dtype != value.dtype)
    fail("{} `{}` is {} {}, must be {} {}{}", kind, port.name, to_string(dtype), shape_text(shape),
         to_string(value.dtype), open_shape_text(plan, value.shape),
         open ? meaning(*open, open->values[static_cast<size_t>(port.value)].shape) : "");
}
void require_type(const char* kind, const Port& port, const Plan& plan, const Tensor& tensor,
                  const Plan* open = nullptr) {
  require_type(kind, port, plan, tensor.shape(), tensor.dtype(), open);
}

RoomyPages allocate_arena(const Plan& plan, int64_t needed, int64_t wished) {
  return allocate_roomy(needed, wished,
                        fmt::format("the tensors of {}", plan.model.empty() ? "a model" : plan.model));
}

}  // namespace

Executor::Executor(std::shared_ptr<const Module> module, const LatheParallel* parallel)
    : module_(std::move(module)),
      turns_(module_->plan(), parallel, Turns::Runs::kOnce),
      dims_(plan().dims.size()),
      next_dims_(plan().dims.size()),
      inputs_(plan().inputs.size()),
      outputs_(plan().outputs.size()) {
  size_t buffers = 0;
  for (const Step& step : plan().steps) {
    // The arguments of all steps stand one after another: a step's are a part of that list, which kernels are
    // handed.
    first_buffer_.push_back(buffers);
    buffers += step.args.size();
  }
  if (module_->program()) machine_ = std::make_unique<Machine>(*module_->program(), parallel);
  buffers_.resize(buffers);
  if (has_open_dims()) return;
  arena_ = allocate_arena(plan(), plan().arena_bytes, 0);
  place_values();
}

/// What follows from the plan, whenever its numbers are new.
void Executor::place_values() {
  running_.clear();
  for (size_t s = 0; s < plan().steps.size(); ++s) {
    const std::vector<int64_t>& args = plan().steps[s].args;
    for (size_t a = 0; a < args.size(); ++a) buffers_[first_buffer_[s] + a] = address(args[a]);
    if (plan().steps[s].when != 0) running_.push_back(s);
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    output_arguments(plan(), value_of(plan().outputs[i]), outputs_[i].arguments);
}

void Executor::set_dims(std::span<const int64_t> dims) {
  const Plan& open = module_->plan();
  if (dims.size() != open.dims.size())
    fail("{} dimensions are given, the model has {}", dims.size(), open.dims.size());
  if (open.dims.empty() || (bound_ && std::equal(dims.begin(), dims.end(), dims_.begin()))) return;
  // From here on nothing of an earlier shape is left, should the sizes of this one turn out wrong.
  Plan plan = bound_ ? std::move(*bound_) : open;
  bound_.reset();
  checked_ = false;
  bind_dims(open, dims, plan);
  if (plan.arena_bytes > arena_.bytes || !arena_.memory) {
    // Sequences grow by a token at a time: room for some more of them saves most allocations.
    const int64_t bounded = bounded_arena(open), roomy = arena_.bytes + arena_.bytes / 2;
    // First the old one goes; should there be no memory for the new one, the next run asks for what it needs.
    arena_ = {};
    arena_ = allocate_arena(open, plan.arena_bytes, bounded > 0 ? bounded : std::min(roomy, kMostBytes));
  }
  bound_ = std::move(plan);
  dims_.assign(dims.begin(), dims.end());
  place_values();
}

/// The sizes of a run are those of its inputs.
void Executor::follow_inputs() {
  const Plan& open = module_->plan();
  for (size_t i = 0; i < open.dims.size(); ++i)
    if (!is_of_output(open.dims[i]))  // others are as in the last run until this one knows better
      next_dims_[i] = told_dimension(open, i,
                                     inputs_[static_cast<size_t>(open.dims[i].input)]
                                         .bound.shape()[static_cast<size_t>(open.dims[i].axis)],
                                     next_dims_);
  set_dims(next_dims_);
  for (size_t i = 0; i < inputs_.size(); ++i)
    require_type("input", plan().inputs[i], plan(), inputs_[i].bound, &open);
  for (size_t i = 0; i < outputs_.size() && !machine_; ++i)
    if (outputs_[i].bound.defined())  // those of a program are looked at when it has run
      require_type("output", plan().outputs[i], plan(), outputs_[i].bound);
}

/// Where a value lies, unless it is an output that kernels write to the caller's memory.
void* Executor::address(int64_t value) const {
  const Value& tensor = plan().values[value];
  switch (tensor.place) {
    case Place::kInput:
      return inputs_[tensor.at].read.data();
    case Place::kConstant:
      return module_->constant(static_cast<size_t>(value));
    case Place::kArena:
      return static_cast<char*>(arena_.memory.get()) + tensor.at;
  }
  return nullptr;
}

void Executor::require_input(size_t i, std::span<const int64_t> shape, DataType dtype) const {
  require_type("input", plan().inputs.at(i), module_->plan(), shape, dtype);
}

void Executor::set_input(size_t i, Tensor tensor) {
  require_input(i, tensor.shape(), tensor.dtype());
  Input& input = inputs_[i];
  // A misaligned tensor is read through a copy; one made for an earlier tensor serves this one too.
  if (aligned(tensor)) {
    input.read = tensor;
  } else if (!input.read.defined() || input.read.data() == input.bound.data() ||
             input.read.shape() != tensor.shape()) {
    input.read = Tensor(tensor.shape(), tensor.dtype());
  }
  input.bound = std::move(tensor);
  checked_ = false;
  // Views of the input are arguments too: found by their place.
  for (size_t s = 0; s < plan().steps.size(); ++s) {
    const std::vector<int64_t>& args = plan().steps[s].args;
    for (size_t a = 0; a < args.size(); ++a) {
      const Value& arg = plan().values[args[a]];
      if (arg.place == Place::kInput && arg.at == static_cast<int64_t>(i))
        buffers_[first_buffer_[s] + a] = input.read.data();
    }
  }
}

void Executor::set_output(size_t i, Tensor tensor) {
  const Port& port = plan().outputs.at(i);
  if (tensor.defined()) require_type("output", port, module_->plan(), tensor);
  outputs_[i].bound = std::move(tensor);
  checked_ = false;
}

void Executor::set_function(const std::string& name, LibraryFunction function) {
  const std::span<const std::string> names = module_->library_functions();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    fail("the model calls no library function `{}`{}", name,
         did_you_mean(name, {names.begin(), names.end()}));
  machine_->set_library(static_cast<size_t>(found - names.begin()), function);
}

/// Once after each change of a binding; runs in between find `checked_`.
void Executor::check_bindings() {
  if (checked_) return;
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_[i].bound.defined()) fail("input `{}` is not set", plan().inputs[i].name);
  for (size_t i = 0; i < module_->library_functions().size(); ++i)
    if (!machine_->library(i).function)
      fail("library function `{}` is not given", module_->library_functions()[i]);
  if (has_open_dims()) follow_inputs();
  refuse_overlaps();
  place_outputs();
  checked_ = true;
}

/// Kernels are compiled for buffers that do not alias: a shared byte would give wrong results silently.
void Executor::refuse_overlaps() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].bound.defined()) continue;
    auto refuse = [&](const char* kind, const Port& other, const Tensor& memory) {
      if (memory.defined() && overlap(outputs_[i].bound, memory))
        fail("the memory of output `{}` overlaps that of {} `{}`", plan().outputs[i].name, kind, other.name);
    };
    for (size_t j = 0; j < inputs_.size(); ++j) refuse("input", plan().inputs[j], inputs_[j].bound);
    for (size_t j = 0; j < i; ++j) refuse("output", plan().outputs[j], outputs_[j].bound);
  }
}

/// The output that kernels write to the caller's memory and that `output` is, too; or nullptr.
const Executor::Output* Executor::same_tensor(const Output& output) const {
  for (const Output& other : outputs_)
    if (other.direct && other.arguments == output.arguments) return &other;
  return nullptr;
}

/// First every output goes back to the arena, then those that can be written to the caller's memory go there:
/// the bindings of the last run must leave no trace. Of several outputs that are one tensor the first is
/// written, the others are copies of it.
void Executor::place_outputs() {
  auto pass = [&](const Output& output, void* memory) {
    for (size_t argument : output.arguments) buffers_[argument] = memory;
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].direct = false;
    pass(outputs_[i], address(plan().outputs[i].value));
  }
  for (Output& output : outputs_) {
    // No arguments: an input, a constant, or a tensor whose memory others use too (output_arguments).
    if (output.arguments.empty() || !output.bound.defined() || !aligned(output.bound) || same_tensor(output))
      continue;
    output.direct = true;
    pass(output, output.bound.data());
  }
}

void Executor::copy_inputs() {
  for (const Input& input : inputs_)
    if (input.read.data() != input.bound.data())
      copy(input.read.data(), input.bound.data(), input.bound.bytes());
}

void Executor::copy_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    if (!output.bound.defined() || output.direct) continue;
    const Output* written = same_tensor(output);
    copy(output.bound.data(), written ? written->bound.data() : address(plan().outputs[i].value),
         output.bound.bytes());
  }
}

void Executor::call(size_t step) {
  // Planned with the tensors, so that it does not overlap one that the step needs.
  void* workspace = static_cast<char*>(arena_.memory.get()) + plan().steps[step].workspace_at;
  int32_t code = module_->kernel(step)(buffers_.data() + first_buffer_[step], workspace, turns_.next(step),
                                       plan().steps[step].dims.data());
  if (code != 0) fail("kernel {} reports that its check {} failed", plan().steps[step].kernel, code);
}

/// In place of the steps, which there are none of: to the places of the outputs in the arena.
void Executor::run_program() {
  std::vector<Value> inputs;
  std::vector<DataType> outputs;
  std::vector<void*> read;
  for (const Port& port : plan().inputs) inputs.push_back(value_of(port));
  for (const Port& port : plan().outputs) outputs.push_back(value_of(port).dtype);
  for (const Input& input : inputs_) read.push_back(input.read.data());
  machine_->run(inputs, read, outputs, [&](auto shapes) { return places_of_outputs(shapes); });
}

/// Where a program puts outputs of these shapes, which may tell dimensions of the plan.
std::vector<void*> Executor::places_of_outputs(std::span<const std::vector<int64_t>> shapes) {
  const Plan& open = module_->plan();
  bool told = false;
  for (size_t i = 0; i < open.dims.size(); ++i) {
    const Dimension& dim = open.dims[i];
    if (!is_of_output(dim)) continue;
    const auto output = static_cast<size_t>(of_output(dim.input)), axis = static_cast<size_t>(dim.axis);
    if (axis >= shapes[output].size()) fail("module: output {} of the program has another rank", output);
    next_dims_[i] = shapes[output][axis];
    told = true;
  }
  if (told) {
    set_dims(next_dims_);
    place_outputs();
    checked_ = true;
  }
  std::vector<void*> places;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Port& port = plan().outputs[i];
    if (shapes[i] != value_of(port).shape)
      fail("output `{}` is of shape {}, {} is expected", port.name, shape_text(shapes[i]),
           open_shape_text(open, open.values[static_cast<size_t>(port.value)].shape));
    if (outputs_[i].bound.defined()) require_type("output", port, plan(), outputs_[i].bound);
    places.push_back(address(port.value));
  }
  return places;
}

void Executor::run() {
  check_bindings();
  copy_inputs();
  for (size_t step : running_) call(step);
  if (machine_) run_program();
  copy_outputs();
}

std::vector<Executor::PlannedStep> Executor::steps() const {
  std::vector<PlannedStep> all;
  auto add = [&](const Plan& plan) {
    for (const Step& step : plan.steps) all.push_back({&step.kernel, &plan, &step});
  };
  add(plan());
  if (module_->program())
    for (const Plan& each : module_->program()->program.plans) add(each);
  for (const std::string& name : module_->library_functions()) all.push_back({&name, nullptr, nullptr});
  return all;
}

void Executor::run_timed(std::span<int64_t> spent, std::span<int64_t> calls) {
  CHECK(spent.size() == steps().size(), "{} clocks for {} steps", spent.size(), steps().size());
  check_bindings();
  copy_inputs();
  // One look at the clock a step: where one ends the next begins.
  auto before = std::chrono::steady_clock::now();
  for (size_t step : running_) {
    call(step);
    auto after = std::chrono::steady_clock::now();
    spent[step] += std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
    before = after;
    if (!calls.empty()) ++calls[step];
  }
  if (machine_) {
    machine_->set_clocks(spent, calls);
    run_program();
    machine_->set_clocks({}, {});
  }
  copy_outputs();
}

/// Without a copy: in order, the caller's memory, that of another output which is the same tensor, or where
/// the value lies.
Tensor Executor::output(size_t i) const {
  const Output& output = outputs_.at(i);
  if (output.bound.defined()) return output.bound;
  const int64_t index = plan().outputs[i].value;
  const Value& value = plan().values[index];
  if (const Output* written = same_tensor(output)) return written->bound.reshaped(value.shape);
  void* data = address(index);
  switch (value.place) {
    case Place::kInput:
      return inputs_[value.at].read.reshaped(value.shape);
    // The tensor keeps the module, or the arena, alive: it may outlive the executor.
    case Place::kConstant:
      return Tensor(value.shape, value.dtype, std::const_pointer_cast<Module>(module_), data);
    case Place::kArena:
      return Tensor(value.shape, value.dtype, arena_.memory, data);
  }
  return Tensor();
}

void set_random_inputs(Executor& executor, uint64_t seed) {
  const Plan& plan = executor.plan();
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Value& value = plan.values[static_cast<size_t>(plan.inputs[i].value)];
    if (std::any_of(value.shape.begin(), value.shape.end(), is_open))
      fail("input `{}` is {}: say what is open, as in --shape {}=...", plan.inputs[i].name,
           open_shape_text(plan, value.shape), plan.inputs[i].name);
    executor.set_input(i, random_tensor(value.shape, value.dtype, seed + i));
  }
}

}  // namespace lathe::runtime
