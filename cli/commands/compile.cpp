#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/model_flags.h"

namespace lathe::cli {

int compile_command(Flags& flags) {
  ModelFlags model;
  std::string out;
  bool as_json = false;
  model.add_to(flags);
  flags.add("--out FILE", out, "the module file to write (MODEL.lathe)");
  flags.add("--json", as_json, "print one JSON object");
  if (!flags.parse()) return kSuccess;

  BestBuild compiled = compile(model, {});
  if (out.empty()) out = module_name(model.model) + ".lathe";
  runtime::write_module(out, compiled.image);
  const runtime::Plan& plan = compiled.image.plan;
  std::set<std::string_view> kernels;
  size_t steps = 0;
  int64_t tensor_bytes = plan.arena_bytes;
  auto count = [&](const runtime::Plan& each) {
    steps += each.steps.size();
    for (const runtime::Step& step : each.steps) kernels.insert(step.kernel);
  };
  count(plan);
  if (compiled.image.program)
    for (const runtime::Plan& each : compiled.image.program->plans) {
      count(each);
      tensor_bytes = std::max(tensor_bytes, plan.arena_bytes + each.arena_bytes);
    }
  if (as_json)
    fmt::print("{}\n", json_line({{"module", out},
                                  {"steps", steps},
                                  {"kernels", kernels.size()},
                                  {"kernels_measured", compiled.measured},
                                  {"weight_bytes", plan.constant_bytes},
                                  {"arena_bytes", tensor_bytes}}));
  else
    fmt::print(
        "{}: {} steps, {:.1f} MB of weights, {:.1f} MB of tensors, {} of {} kernels scheduled by "
        "measurement\n",
        out, steps, static_cast<double>(plan.constant_bytes) / 1e6, static_cast<double>(tensor_bytes) / 1e6,
        compiled.measured, kernels.size());
  return kSuccess;
}

}  // namespace lathe::cli
