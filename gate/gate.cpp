#include "gate/gate.h"

#include <algorithm>
#include <utility>

namespace lathe::gate {

Gate::Gate(const Rule& rule, int units, uint64_t seed)
    : trials_(static_cast<size_t>(units), Trial(rule, units)), dropped_(trials_.size()), coin_(seed) {}

std::optional<Gate::Pair> Gate::next() {
  // All are measured on one device.
  if (std::any_of(trials_.begin(), trials_.end(),
                  [](const Trial& trial) { return trial.verdict() == Verdict::kUnfit; }))
    return std::nullopt;
  for (size_t tried = 0; tried < trials_.size(); ++tried) {
    // Decided units are passed over; the turn goes on behind the unit that is given.
    const size_t unit = turn_++ % trials_.size();
    if (open(unit)) return Pair{static_cast<int>(unit), (coin_() & 1) != 0};
  }
  return std::nullopt;
}

void Gate::record(const Pair& pair, Process baseline, Process candidate) {
  trials_.at(static_cast<size_t>(pair.unit)).add(std::move(baseline), std::move(candidate));
}

}  // namespace lathe::gate
