// The execution plan of a model: which kernels run in which order, and where every tensor lies.
//
// A plan whose model leaves dimensions open (`dims`) has sizes instead of numbers in shapes, offsets,
// workspaces and the arena (sizes.h); bind_dims() of plan_dims.h gives the plan for some values of them.
// Without open dimensions all are numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/runtime/most_bytes.h"
#include "core/runtime/sizes.h"
#include "core/support/node.h"
#include "core/support/tensor.h"

namespace lathe::runtime {

enum class Place : uint8_t {
  kInput,     // the caller's memory
  kConstant,  // the module's constants
  kArena,     // the executor's arena
};

/// A tensor at a place. Several values may lie at one place: views (reshape, flatten) cost no kernel.
struct Value {
  std::vector<Size> shape;
  DataType dtype;
  Place place = Place::kArena;
  Size at = 0;  // kInput: the number of the input; else the offset in bytes, a multiple of kAlignment
  static constexpr auto fields = std::tuple{field("shape", &Value::shape), field("dtype", &Value::dtype),
                                            field("place", &Value::place), field("at", &Value::at)};
  /// REQUIRES: the shape is of numbers.
  int64_t bytes() const { return shape_size(shape) * dtype.bytes(); }
};

/// A dimension that the model leaves open: what `axis` of input number `input` is in a run, or tells where it
/// is a size of this dimension and of those before it (told_dimension, plan_dims.h); or what an axis of an
/// output (of_output) is that a program has computed.
struct Dimension {
  std::string name;
  int64_t input = 0, axis = 0;
  int64_t min = 0, max = kMostBytes;  // what it may be, both included
  static constexpr auto fields = std::tuple{
      field("name", &Dimension::name), field("input", &Dimension::input), field("axis", &Dimension::axis),
      field("min", &Dimension::min), field("max", &Dimension::max)};
};

/// Dimension::input for a dimension that output number `output` tells, and back.
constexpr int64_t of_output(int64_t output) { return ~output; }
constexpr bool is_of_output(const Dimension& dim) { return dim.input < 0; }

/// What must hold of the dimensions and could not be decided when the model was compiled.
struct Requirement {
  Size holds = 1;    // 1, or 0
  std::string text;  // "n % 4 == 0"
  static constexpr auto fields =
      std::tuple{field("holds", &Requirement::holds), field("text", &Requirement::text)};
};

/// An input or an output of the model.
struct Port {
  std::string name;
  int64_t value = 0;
  static constexpr auto fields = std::tuple{field("name", &Port::name), field("value", &Port::value)};
};

/// One kernel call.
struct Step {
  std::string kernel;         // a symbol of the module's shared object
  std::vector<int64_t> args;  // values, in the order of the kernel's parameters
  int64_t results = 1;        // how many of the last args the kernel writes
  Size workspace_at = 0;      // offset in the arena
  Size workspace_bytes = 0;
  double flops = 0;        // of the unscheduled program; for reports; 0 where it depends on dimensions
  std::vector<Size> dims;  // the kernel's `dims` (kernel.h)
  Size when = 1;           // 0: not run; of steps that give the same results by other kernels one is
  static constexpr auto fields = std::tuple{field("kernel", &Step::kernel),
                                            field("args", &Step::args),
                                            field("results", &Step::results),
                                            field("workspace_at", &Step::workspace_at),
                                            field("workspace_bytes", &Step::workspace_bytes),
                                            field("flops", &Step::flops),
                                            field("dims", &Step::dims),
                                            field("when", &Step::when)};
};

struct Plan {
  std::string model, target;
  std::vector<std::string> cpu_features;  // of /proc/cpuinfo, that the kernels need
  std::vector<Value> values;
  std::vector<Port> inputs, outputs;  // outputs may repeat, and may be inputs or constants
  std::vector<Step> steps;
  Size arena_bytes = 0;
  int64_t constant_bytes = 0;
  int64_t arena_lower_bound = 0;  // no order-preserving plan could use fewer bytes; 0: not known
  std::vector<Dimension> dims;
  std::vector<SizeEntry> sizes;
  std::vector<Requirement> requirements;
  // For each output the input whose memory it may take over where nobody needs that after the run, as large
  // as it, or -1; empty where there is none. For programs: the inputs of a model stay the caller's.
  std::vector<int64_t> over;
  static constexpr auto fields = std::tuple{field("model", &Plan::model),
                                            field("target", &Plan::target),
                                            field("cpu_features", &Plan::cpu_features),
                                            field("values", &Plan::values),
                                            field("inputs", &Plan::inputs),
                                            field("outputs", &Plan::outputs),
                                            field("steps", &Plan::steps),
                                            field("arena_bytes", &Plan::arena_bytes),
                                            field("constant_bytes", &Plan::constant_bytes),
                                            field("arena_lower_bound", &Plan::arena_lower_bound),
                                            field("dims", &Plan::dims),
                                            field("sizes", &Plan::sizes),
                                            field("requirements", &Plan::requirements),
                                            field("over", &Plan::over)};
};

/// Throws Error when an index or offset of the plan is out of range, so that running it stays inside the
/// arena and the constants. Plans read from files pass through here; of those with open dimensions, all that
/// does not depend on these, and bind_dims() the rest.
void check_plan(const Plan& plan);
/// What of it depends on numbers alone: the rest of check_plan() holds for a plan whose open dimensions have
/// got values when it held before.
void check_numbers(const Plan& plan);

/// JSON, and back. parse_plan throws Error on malformed text, and checks the plan.
std::string plan_text(const Plan& plan);
Plan parse_plan(std::string_view text);

/// What a step must at least move: its arguments, each once.
int64_t bytes_of(const Plan& plan, const Step& step);

/// What the tensors and workspaces of all steps that run would take, each in memory of its own: arena_bytes
/// without the reuse. REQUIRES: sizes are numbers.
int64_t tensor_bytes(const Plan& plan);

/// The number of the input, or output, called `name`. Throws Error with the nearest name when there is none.
size_t find_input(const Plan& plan, std::string_view name);
size_t find_output(const Plan& plan, std::string_view name);

}  // namespace lathe::runtime
