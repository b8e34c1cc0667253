#include "gate/unit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/plan_dims.h"
#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::gate {
namespace {

using runtime::ModuleHead;
using runtime::Plan;
using runtime::Port;

/// Names, shapes and types, in order: what a caller of either module has to know.
bool same_ports(const Plan& a, const Plan& b, std::vector<Port> Plan::*ports) {
  return std::equal((a.*ports).begin(), (a.*ports).end(), (b.*ports).begin(), (b.*ports).end(),
                    [&](const Port& x, const Port& y) {
                      const runtime::Value &of_x = a.values[static_cast<size_t>(x.value)],
                                           &of_y = b.values[static_cast<size_t>(y.value)];
                      // As text: what is open is an entry of its own plan's table.
                      return x.name == y.name && of_x.dtype == of_y.dtype &&
                             open_shape_text(a, of_x.shape) == open_shape_text(b, of_y.shape);
                    });
}

/// What all steps read and write at least, each argument once.
int64_t moved_bytes(const ModuleHead& head) {
  int64_t bytes = 0;
  for (const runtime::Step& step : head.plan.steps) bytes += runtime::bytes_of(head.plan, step);
  return bytes;
}

/// What is in the module's head: no process has to run for it.
struct CounterRow {
  const char* name;
  int64_t (*of)(const ModuleHead& head);
};
constexpr CounterRow kCounters[] = {
    {"code bytes", [](const ModuleHead& head) { return head.code_bytes; }},
    {"constant bytes", [](const ModuleHead& head) { return head.plan.constant_bytes; }},
    {"arena bytes", [](const ModuleHead& head) { return head.plan.arena_bytes; }},
    {"moved bytes", moved_bytes},
};

}  // namespace

Unit make_unit(std::string name, Side baseline, Side candidate) {
  for (Side* side : {&baseline, &candidate}) {
    side->head = runtime::read_module_head(side->file);
    runtime::require_cpu(side->head.plan, side->of);
  }
  const Plan &a = baseline.head.plan, &b = candidate.head.plan;
  for (auto ports : {&Plan::inputs, &Plan::outputs})
    if (!same_ports(a, b, ports))
      fail("{}: {} and {} are not builds of one model: their {} differ", name, baseline.of, candidate.of,
           ports == &Plan::inputs ? "inputs" : "outputs");
  // The digest has that of the constants, which loading does not read: where nothing is measured they would
  // be believed. Of any other unit a wrong constant costs no more than a verdict of what runs.
  if (baseline.head.digest == candidate.head.digest)
    for (const Side* side : {&baseline, &candidate}) runtime::verify_module(runtime::map_module(side->file));
  return {std::move(name), std::move(baseline), std::move(candidate)};
}

void settle(Side& side, std::vector<int64_t> dims) {
  Plan bound = side.head.plan;
  runtime::bind_dims(side.head.plan, dims, bound);
  side.head.plan = std::move(bound);
  std::vector<std::string> shapes;
  for (const runtime::Port& input : side.head.plan.inputs)
    shapes.push_back(input.name + " " +
                     open_shape_text(side.head.plan, side.head.plan.values[input.value].shape));
  side.shapes = join_text(shapes, ", ");
  side.dims = std::move(dims);
}

std::vector<Counter> counters_of(const Unit& unit) {
  std::vector<Counter> counters;
  for (const CounterRow& row : kCounters)
    counters.push_back({row.name, row.of(unit.baseline.head), row.of(unit.candidate.head)});
  return counters;
}

}  // namespace lathe::gate
