// What a gate asks of each kind of device: a row each.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gate/rule.h"
#include "gate/unit.h"
#include "workers/gpus.h"

namespace lathe::gate {

struct Kind {
  std::string_view name;                   // before the colon of a target's text
  std::optional<worker::GpuDriver> clock;  // whose clock is read beside the samples; none: this CPU's
  Rule rule;
};

/// Throws Error for a kind without a row.
const Kind& kind_of(std::string_view target);

/// Of all of these: what a gate measures it measures on one device. Throws Error when they are of several
/// kinds. REQUIRES: a unit.
const Kind& kind_of(const std::vector<Unit>& units);

}  // namespace lathe::gate
