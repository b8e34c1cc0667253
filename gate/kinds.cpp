#include "gate/kinds.h"

#include <algorithm>

#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::gate {
namespace {

// The clock of a GPU moves by half and more with heat and power, that of a CPU's cores by little: a GPU is
// asked at that clock too, and timed more evenly once it is.
constexpr Kind kKinds[] = {
    {.name = "cpu", .clock = {}, .rule = {.margin = 0.03}},
    {.name = "cuda",
     .clock = worker::GpuDriver::kNvidia,
     .rule = {.margin = 0.02, .in_cycles = true, .clock_floor = 0.75, .unfit_share = 0.2}},
    {.name = "hip",
     .clock = worker::GpuDriver::kAmd,
     .rule = {.margin = 0.02, .in_cycles = true, .clock_floor = 0.75, .unfit_share = 0.2}},
};

}  // namespace

const Kind& kind_of(std::string_view target) {
  const std::string_view name = target.substr(0, target.find(':'));
  for (const Kind& kind : kKinds)
    if (kind.name == name) return kind;
  // Modules made by hand name no target; their code is this machine's.
  if (target.empty()) return kKinds[0];
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  fail("the gate knows no devices of the kind `{}`; it knows {}", name, join_text(names, ", "));
}

const Kind& kind_of(const std::vector<Unit>& units) {
  const Kind& kind = kind_of(units.at(0).target());
  for (const Unit& unit : units)
    for (const Side* side : {&unit.baseline, &unit.candidate})
      if (const Kind& other = kind_of(side->head.plan.target); &other != &kind)
        fail("{} is for a device of the kind {}, {} for one of the kind {}: gate them apart",
             units.at(0).candidate.of, kind.name, side->of, other.name);
  return kind;
}

}  // namespace lathe::gate
