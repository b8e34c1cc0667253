#include "core/runtime/plan.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/runtime/kernel.h"
#include "core/runtime/most_bytes.h"
#include "core/support/node_impl.h"
#include "core/support/text.h"

namespace lathe {
template <>
inline constexpr size_t reflect::kValuesOf<runtime::Place> = static_cast<size_t>(runtime::Place::kArena) + 1;
}

namespace lathe::runtime {
namespace {

/// An aligned range inside `size` bytes; the difference cannot overflow where a sum could.
void check_range(std::string_view what, int64_t at, int64_t bytes, int64_t size) {
  if (at < 0 || bytes < 0 || at % kAlignment != 0 || at > size || bytes > size - at)
    fail("module: {} lies at {}..{} of {} bytes", what, at, at + bytes, size);
}

/// The bytes of a value whose shape was read from a file.
int64_t checked_bytes(const Value& value) {
  if (value.dtype.lanes != 1 || value.dtype.code == TypeCode::kHandle)
    fail("module: a tensor of {}", to_string(value.dtype));
  int64_t bytes = value.dtype.bytes();
  for (int64_t dim : value.shape)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMostBytes)
      fail("module: a tensor of shape {}", shape_text(value.shape));
  return bytes;
}

const Value& value_at(const Plan& plan, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(plan.values.size()))
    fail("module: value {} of {}", index, plan.values.size());
  return plan.values[index];
}

/// A value lies inside what it lies in, and a view of an input is as large as the input.
void check_value(const Plan& plan, const Value& value) {
  int64_t bytes = checked_bytes(value);
  switch (value.place) {
    case Place::kInput: {
      if (value.at < 0 || value.at >= static_cast<int64_t>(plan.inputs.size()))
        fail("module: input {} of {}", value.at, plan.inputs.size());
      const Value& input = value_at(plan, plan.inputs[value.at].value);
      if (bytes != checked_bytes(input) || value.dtype != input.dtype)
        fail("module: a view of another size than input `{}`", plan.inputs[value.at].name);
      return;
    }
    case Place::kConstant:
      return check_range("a constant", value.at, bytes, plan.constant_bytes);
    case Place::kArena:
      return check_range("a tensor", value.at, bytes, plan.arena_bytes);
  }
}

/// Results come last among the arguments; kernels write these alone, and all of them are in the arena.
void check_step(const Plan& plan, const Step& step) {
  if (step.results < 1 || step.results > static_cast<int64_t>(step.args.size()))
    fail("module: kernel {} has {} arguments and {} results", step.kernel, step.args.size(), step.results);
  size_t first_result = step.args.size() - static_cast<size_t>(step.results);
  for (size_t i = 0; i < step.args.size(); ++i)
    if (value_at(plan, step.args[i]).place != Place::kArena && i >= first_result)
      fail("module: kernel {} writes to an input or a constant", step.kernel);
  check_range("a workspace", step.workspace_at, step.workspace_bytes, plan.arena_bytes);
}

}  // namespace

void check_plan(const Plan& plan) {
  for (int64_t bytes : {plan.arena_bytes, plan.constant_bytes})
    if (bytes < 0 || bytes > kMostBytes) fail("module: {} bytes of memory", bytes);
  // Inputs first: check_value relies on them.
  std::set<std::string_view> names;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Value& value = value_at(plan, plan.inputs[i].value);
    if (value.place != Place::kInput || value.at != static_cast<int64_t>(i) ||
        !names.insert(plan.inputs[i].name).second)
      fail("module: input {} (`{}`) is not a proper input", i, plan.inputs[i].name);
  }
  for (const Value& value : plan.values) check_value(plan, value);
  for (const Port& output : plan.outputs) value_at(plan, output.value);
  for (const Step& step : plan.steps) check_step(plan, step);
}

std::string plan_text(const Plan& plan) {
  return reflect::write(plan, [](const Node*) { return int64_t{0}; }).dump();
}

Plan parse_plan(std::string_view text) {
  Plan plan;
  try {
    reflect::read(nlohmann::json::parse(text), plan, [](int64_t) { return NodeRef(); });
  } catch (const nlohmann::json::exception& error) {
    fail("module: the plan is not as it should be: {}", error.what());
  }
  check_plan(plan);
  return plan;
}

int64_t bytes_of(const Plan& plan, const Step& step) {
  int64_t bytes = 0;
  for (int64_t arg : std::set<int64_t>(step.args.begin(), step.args.end()))
    bytes += plan.values[static_cast<size_t>(arg)].bytes();
  return bytes;
}

namespace {
size_t find_port(const char* kind, const std::vector<Port>& ports, std::string_view name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
    names.push_back(ports[i].name);
  }
  std::string hint = did_you_mean(name, names);
  fail("the model has no {} `{}`{}", kind, name, hint.empty() ? "; it has " + join_text(names, ", ") : hint);
}
}  // namespace

size_t find_input(const Plan& plan, std::string_view name) { return find_port("input", plan.inputs, name); }
size_t find_output(const Plan& plan, std::string_view name) {
  return find_port("output", plan.outputs, name);
}

}  // namespace lathe::runtime
