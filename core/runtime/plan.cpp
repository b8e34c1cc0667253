#include "core/runtime/plan.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/runtime/kernel.h"
#include "core/runtime/most_bytes.h"
#include "core/runtime/plan_fields.h"
#include "core/support/text.h"

namespace lathe::runtime {
namespace {

/// An aligned range inside `size` bytes; the difference cannot overflow where a sum could.
void check_range(std::string_view what, int64_t at, int64_t bytes, int64_t size) {
  if (at < 0 || bytes < 0 || at % kAlignment != 0 || at > size || bytes > size - at)
    fail("module: {} of {} bytes lies at {} of {} bytes", what, bytes, at, size);
}

const Value& value_at(const Plan& plan, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(plan.values.size()))
    fail("module: value {} of {}", index, plan.values.size());
  return plan.values[index];
}

/// One walk over a plan that may come from anywhere. What depends on open dimensions is passed over; where
/// there are none nothing does.
class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  void check() const {
    check_sizes(plan_.sizes, plan_.dims.size());
    check_memory(plan_.constant_bytes);
    // Inputs first: check_value relies on them.
    std::set<std::string_view> names;
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const Value& value = value_at(plan_, plan_.inputs[i].value);
      if (value.place != Place::kInput || value.at != static_cast<int64_t>(i) ||
          !names.insert(plan_.inputs[i].name).second)
        fail("module: input {} (`{}`) is not a proper input", i, plan_.inputs[i].name);
    }
    const std::vector<int64_t> latest = latest_dimensions();
    for (size_t i = 0; i < plan_.dims.size(); ++i) check_dimension(i, latest);
    for (const Port& output : plan_.outputs) value_at(plan_, output.value);
    check_over();
    for (const Requirement& each : plan_.requirements) known(each.holds);
    check_numbers();
  }

  void check_numbers() const {
    if (known(plan_.arena_bytes)) {
      // Which of the sizes is wrong says more than what memory they would come to.
      if (plan_.arena_bytes < 0)
        for (const Value& value : plan_.values) checked_bytes(value);
      check_memory(plan_.arena_bytes);
    }
    for (const Value& value : plan_.values) check_value(value);
    for (const Step& step : plan_.steps) check_step(step);
  }

 private:
  /// Whether the size is a number, as all are where no dimension is open; throws for one that is nothing.
  bool known(Size size) const {
    if (!is_open(size) || plan_.dims.empty()) return true;
    if (size == INT64_MIN || entry_of(size) >= plan_.sizes.size())
      fail("module: size {} of {}", size, plan_.sizes.size());
    return false;
  }

  static void check_memory(int64_t bytes) {
    if (bytes < 0 || bytes > kMostBytes) fail("module: {} bytes of memory", bytes);
  }

  /// The bytes of a value, where they are known.
  std::optional<int64_t> checked_bytes(const Value& value) const {
    if (value.dtype.lanes != 1 || value.dtype.code == TypeCode::kHandle)
      fail("module: a tensor of {}", to_string(value.dtype));
    int64_t bytes = value.dtype.bytes();
    bool all_known = true;
    for (Size dim : value.shape) {
      if (!known(dim))
        all_known = false;
      else if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMostBytes)
        fail("module: a tensor of shape {}", shape_text(value.shape));
    }
    return all_known ? std::optional(bytes) : std::nullopt;
  }

  /// Of each size the last of the dimensions that it is made of; -1 where there are none.
  std::vector<int64_t> latest_dimensions() const {
    std::vector<int64_t> latest;
    for (const SizeEntry& entry : plan_.sizes) {
      const auto of = [&](Size operand) { return is_open(operand) ? latest[entry_of(operand)] : -1; };
      latest.push_back(entry.op == SizeOp::kDim ? entry.a : std::max(of(entry.a), of(entry.b)));
    }
    return latest;
  }

  /// An input tells it by a size of it and of those before it, an output where it stands by itself.
  void check_dimension(size_t i, const std::vector<int64_t>& latest) const {
    const Dimension& dim = plan_.dims[i];
    const std::vector<Port>& ports = is_of_output(dim) ? plan_.outputs : plan_.inputs;
    const int64_t number = is_of_output(dim) ? of_output(dim.input) : dim.input;
    bool proper = number < static_cast<int64_t>(ports.size()) && dim.min >= 0 && dim.min <= dim.max &&
                  dim.max <= kMostBytes;
    // Only a program has outputs before their sizes are known.
    proper = proper && (!is_of_output(dim) || plan_.steps.empty());
    const Value* port = proper ? &value_at(plan_, ports[static_cast<size_t>(number)].value) : nullptr;
    proper = proper && dim.axis >= 0 && dim.axis < static_cast<int64_t>(port->shape.size());
    const Size size = proper ? port->shape[static_cast<size_t>(dim.axis)] : 0;
    const auto number_of_it = static_cast<int64_t>(i);
    if (!proper || known(size) || latest[entry_of(size)] != number_of_it ||
        (is_of_output(dim) && plan_.sizes[entry_of(size)] != SizeEntry{SizeOp::kDim, number_of_it, 0}))
      fail("module: dimension {} (`{}`) is not a proper dimension", i, dim.name);
  }

  void check_over() const {
    bool proper = plan_.over.empty() || plan_.over.size() == plan_.outputs.size();
    for (int64_t input : plan_.over)
      proper = proper && input >= -1 && input < static_cast<int64_t>(plan_.inputs.size());
    if (!proper) fail("module: outputs over inputs that there are not");
  }

  /// A value lies inside what it lies in, and a view of an input is as large as the input.
  void check_value(const Value& value) const {
    const std::optional<int64_t> bytes = checked_bytes(value);
    switch (value.place) {
      case Place::kInput: {
        if (value.at < 0 || value.at >= static_cast<int64_t>(plan_.inputs.size()))
          fail("module: input {} of {}", value.at, plan_.inputs.size());
        const Value& input = value_at(plan_, plan_.inputs[value.at].value);
        const std::optional<int64_t> whole = checked_bytes(input);
        if (value.dtype != input.dtype || (bytes && whole && *bytes != *whole))
          fail("module: a view of another size than input `{}`", plan_.inputs[value.at].name);
        return;
      }
      case Place::kConstant:
        if (!bytes) fail("module: a constant of shape {}", shape_text(value.shape));
        return check_range("a constant", value.at, *bytes, plan_.constant_bytes);
      case Place::kArena:
        if (known(value.at) && bytes && known(plan_.arena_bytes))
          check_range("a tensor", value.at, *bytes, plan_.arena_bytes);
        return;
    }
  }

  /// Results come last among the arguments; kernels write these alone, and all of them are in the arena.
  void check_step(const Step& step) const {
    if (step.results < 1 || step.results > static_cast<int64_t>(step.args.size()))
      fail("module: kernel {} has {} arguments and {} results", step.kernel, step.args.size(), step.results);
    size_t first_result = step.args.size() - static_cast<size_t>(step.results);
    for (size_t i = 0; i < step.args.size(); ++i)
      if (value_at(plan_, step.args[i]).place != Place::kArena && i >= first_result)
        fail("module: kernel {} writes to an input or a constant", step.kernel);
    for (Size dim : step.dims)
      if (known(dim) && dim < 0) fail("module: kernel {} takes dimension {}", step.kernel, dim);
    known(step.when);
    // Each by itself: all of them are looked at.
    const bool at = known(step.workspace_at), bytes = known(step.workspace_bytes);
    if (at && bytes && known(plan_.arena_bytes))
      check_range("a workspace", step.workspace_at, step.workspace_bytes, plan_.arena_bytes);
  }

  const Plan& plan_;
};

}  // namespace

void check_plan(const Plan& plan) { Checker(plan).check(); }
void check_numbers(const Plan& plan) { Checker(plan).check_numbers(); }

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

int64_t tensor_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Step& step : plan.steps) {
    if (step.when == 0) continue;
    bytes += step.workspace_bytes;
    for (size_t i = step.args.size() - static_cast<size_t>(step.results); i < step.args.size(); ++i)
      bytes += plan.values[static_cast<size_t>(step.args[i])].bytes();
  }
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
