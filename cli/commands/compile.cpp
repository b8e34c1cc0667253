#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/model_flags.h"
#include "core/runtime/plan_dims.h"
#include "core/support/bounded_json.h"
#include "core/support/printable.h"
#include "tuner/native_library.h"

namespace lathe::cli {
namespace {

/// open: n of input `x` (1..2048), ...
void print_open(const runtime::Plan& plan) {
  std::string text;
  for (const runtime::Dimension& dim : plan.dims) {
    if (is_of_output(dim)) continue;
    text += fmt::format("{}{} of `{}`", text.empty() ? "open: " : ", ", dim.name,
                        plan.inputs[static_cast<size_t>(dim.input)].name);
    if (dim.max < runtime::kMostBytes) text += fmt::format(" ({}..{})", dim.min, dim.max);
  }
  // The names are the model's, which may be a stranger's.
  if (!text.empty()) fmt::print("{}\n", printable(text));
}

}  // namespace

int compile_command(Flags& flags) {
  ModelFlags model;
  std::string out;
  bool as_json = false, native = false;
  model.add_to(flags);
  flags.add("--out FILE", out, "the module file to write (MODEL.lathe), or the library (libMODEL.so)");
  flags.add("--native", native, "write a shared library for programs to link with, and a C header beside it");
  flags.add("--json", as_json, "print one JSON object");
  if (!flags.parse()) return kSuccess;

  BestBuild compiled = compile(model, {});
  std::string header;
  const std::string name = module_name(model.model);
  if (out.empty()) out = native ? "lib" + name + ".so" : name + ".lathe";
  if (native)
    header = tuner::write_native_library(out, compiled.image);
  else
    runtime::write_module(out, compiled.image);
  const runtime::Plan& plan = compiled.image.plan;
  std::set<std::string_view> kernels;
  size_t steps = 0;
  // With all dimensions as large as they may be.
  const int64_t own_bytes = runtime::bounded_arena(plan);
  int64_t arena_bytes = own_bytes;
  auto count = [&](const runtime::Plan& each) {
    steps += each.steps.size();
    for (const runtime::Step& step : each.steps) kernels.insert(step.kernel);
  };
  count(plan);
  if (compiled.image.program)
    for (const runtime::Plan& each : compiled.image.program->plans) {
      count(each);
      arena_bytes = std::max(arena_bytes, own_bytes + runtime::bounded_arena(each));
    }
  const std::string arena = arena_bytes == 0 && runtime::is_open(plan.arena_bytes)
                                ? "any size"
                                : fmt::format("{:.1f} MB", static_cast<double>(arena_bytes) / 1e6);
  std::vector<std::string> open;
  for (const runtime::Dimension& dim : plan.dims)
    if (!is_of_output(dim)) open.push_back(dim.name);
  if (as_json) {
    nlohmann::json report = {{"module", out},
                             {"open", open},
                             {"steps", steps},
                             {"kernels", kernels.size()},
                             {"kernels_measured", compiled.measured},
                             {"weight_bytes", plan.constant_bytes},
                             {"arena_bytes", arena_bytes}};
    if (native) report["header"] = header;
    fmt::print("{}\n", json_line(report));
  } else {
    fmt::print(
        "{}: {} steps, {:.1f} MB of weights, {} of tensors, {} of {} kernels scheduled by "
        "measurement\n",
        out, steps, static_cast<double>(plan.constant_bytes) / 1e6, arena, compiled.measured, kernels.size());
    if (native) fmt::print("{}: what C and C++ programs include\n", header);
    print_open(plan);
  }
  return kSuccess;
}

}  // namespace lathe::cli
