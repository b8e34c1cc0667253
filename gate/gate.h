// Which pair a gate measures next, and what it has decided: a deterministic state machine without I/O.
// gate/run.h gives it processes and clocks, tests/gate/simulation_test.cpp noise.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "gate/rule.h"

namespace lathe::gate {

class Gate {
 public:
  /// `seed`: of the order within pairs. REQUIRES: units >= 1.
  Gate(const Rule& rule, int units, uint64_t seed);

  struct Pair {
    int unit = 0;
    bool candidate_first = false;
  };
  /// The pair to measure now; nothing when every unit is decided, or one has found the device unfit.
  /// Undecided units take turns, so that a bad minute of the machine costs each a pair or two. A coin says
  /// which side begins: between equal sides it alone makes the sign of a pair's difference, whatever else the
  /// machine does meanwhile.
  std::optional<Pair> next();
  /// What the processes of the pair saw that next() gave.
  void record(const Pair& pair, Process baseline, Process candidate);
  /// There is nothing to measure of this unit any more.
  void drop(int unit) { dropped_.at(static_cast<size_t>(unit)) = true; }

  const Trial& trial(int unit) const { return trials_.at(static_cast<size_t>(unit)); }

 private:
  bool open(size_t unit) const { return !dropped_[unit] && !trials_[unit].verdict(); }

  std::vector<Trial> trials_;
  std::vector<bool> dropped_;
  size_t turn_ = 0;  // the unit to look at first
  std::mt19937_64 coin_;
};

}  // namespace lathe::gate
