#include "core/runtime/plan_dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/support/error.h"
#include "core/support/floor_div.h"

namespace lathe::runtime {

void bind_dims(const Plan& open, std::span<const int64_t> dims, Plan& bound) {
  CHECK(dims.size() == open.dims.size(), "{} values for {} dimensions", dims.size(), open.dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dimension& dim = open.dims[i];
    if (dims[i] < dim.min || dims[i] > dim.max)
      fail("dimension {} is {}, the model was compiled for {} to {}", dim.name, dims[i], dim.min, dim.max);
  }
  // A program may have other numbers in each iteration of a loop: few sizes take no memory of the heap.
  std::array<int64_t, 64> few;
  std::vector<int64_t> many(open.sizes.size() > few.size() ? open.sizes.size() : 0);
  const std::span<int64_t> values(many.empty() ? few.data() : many.data(), open.sizes.size());
  evaluate_sizes(open.sizes, dims, values);
  auto number = [&](Size size) { return is_open(size) ? values[entry_of(size)] : size; };
  for (const Requirement& each : open.requirements)
    if (number(each.holds) == 0) {
      std::string given;
      for (size_t i = 0; i < dims.size(); ++i)
        given += fmt::format("{}{} = {}", i == 0 ? "" : ", ", open.dims[i].name, dims[i]);
      fail("the model needs {}, which does not hold for {}", each.text, given);
    }
  for (size_t i = 0; i < open.values.size(); ++i) {
    const Value& from = open.values[i];
    Value& to = bound.values[i];
    for (size_t d = 0; d < from.shape.size(); ++d) to.shape[d] = number(from.shape[d]);
    to.at = number(from.at);
  }
  for (size_t i = 0; i < open.steps.size(); ++i) {
    const Step& from = open.steps[i];
    Step& to = bound.steps[i];
    to.when = number(from.when);
    to.workspace_at = number(from.workspace_at);
    to.workspace_bytes = number(from.workspace_bytes);
    for (size_t d = 0; d < from.dims.size(); ++d) to.dims[d] = number(from.dims[d]);
  }
  bound.arena_bytes = number(open.arena_bytes);
  bound.dims.clear();
  bound.sizes.clear();
  bound.requirements.clear();
  check_numbers(bound);
}

Size size_at(const Plan& open, size_t i) {
  const Dimension& dim = open.dims[i];
  const Port& port = is_of_output(dim) ? open.outputs[static_cast<size_t>(of_output(dim.input))]
                                       : open.inputs[static_cast<size_t>(dim.input)];
  return open.values[static_cast<size_t>(port.value)].shape[static_cast<size_t>(dim.axis)];
}

bool stands_alone(const Plan& open, size_t i) {
  return open.sizes[entry_of(size_at(open, i))].op == SizeOp::kDim;
}

int64_t told_dimension(const Plan& open, size_t i, int64_t extent, std::span<const int64_t> dims) {
  if (stands_alone(open, i)) return extent;
  const size_t entry = entry_of(size_at(open, i));
  std::vector<int64_t> values(entry + 1), known(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i));
  known.resize(open.dims.size());
  // What the compiler wrote is linear in it, so that two values say it all.
  const auto size_where_it_is = [&](int64_t value) {
    known[i] = value;
    evaluate_sizes(std::span(open.sizes).first(entry + 1), known, values);
    return values[entry];
  };
  const int64_t rest = size_where_it_is(0);
  int64_t coefficient = 0;
  if (__builtin_sub_overflow(size_where_it_is(1), rest, &coefficient) || coefficient == 0) return 0;
  return linear_root(coefficient, rest, extent);
}

bool has_open_inputs(const Plan& plan) {
  return !std::all_of(plan.dims.begin(), plan.dims.end(), is_of_output);
}

int64_t bounded_arena(const Plan& open) {
  std::vector<int64_t> most, values(open.sizes.size());
  for (const Dimension& dim : open.dims) {
    if (dim.max == kMostBytes) return 0;
    most.push_back(dim.max);
  }
  if (!is_open(open.arena_bytes)) return open.arena_bytes;
  try {
    evaluate_sizes(open.sizes, most, values);
  } catch (const Error&) {
    return 0;
  }
  const int64_t bytes = values[entry_of(open.arena_bytes)];
  return bytes >= 0 && bytes <= kMostBytes ? bytes : 0;
}

namespace {
/// Sizes of files may be sums of sums without end.
constexpr int kMostDepth = 6;

std::string nested_text(const Plan& plan, Size size, int depth) {
  if (!is_open(size)) return std::to_string(size);
  if (depth > kMostDepth) return "...";
  const SizeEntry& entry = plan.sizes.at(entry_of(size));
  if (entry.op == SizeOp::kDim) return plan.dims.at(static_cast<size_t>(entry.a)).name;
  const std::string a = nested_text(plan, entry.a, depth + 1), b = nested_text(plan, entry.b, depth + 1);
  switch (entry.op) {
    case SizeOp::kAdd:
      return fmt::format("({} + {})", a, b);
    case SizeOp::kSub:
      return fmt::format("({} - {})", a, b);
    case SizeOp::kMul:
      return fmt::format("{} * {}", a, b);
    case SizeOp::kFloorDiv:
      return fmt::format("({} // {})", a, b);
    case SizeOp::kFloorMod:
      return fmt::format("({} % {})", a, b);
    case SizeOp::kMin:
      return fmt::format("min({}, {})", a, b);
    case SizeOp::kMax:
      return fmt::format("max({}, {})", a, b);
    case SizeOp::kAlign:
      return fmt::format("align({}, {})", a, b);
    case SizeOp::kEqual:
      return fmt::format("({} == {})", a, b);
    case SizeOp::kLess:
      return fmt::format("({} < {})", a, b);
    case SizeOp::kDim:
      break;
  }
  return "?";
}
}  // namespace

std::string size_text(const Plan& plan, Size size) { return nested_text(plan, size, 0); }

std::string open_shape_text(const Plan& plan, const std::vector<Size>& shape) {
  std::string text;
  for (Size size : shape) text += (text.empty() ? "" : ", ") + size_text(plan, size);
  return "(" + text + ")";
}

}  // namespace lathe::runtime
