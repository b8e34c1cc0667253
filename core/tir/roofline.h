// How near a kernel is to what the machine allows (Williams, Waterman, Patterson 2009, "Roofline").
#pragma once

#include <algorithm>

#include "core/tir/machine.h"
#include "core/tir/target.h"

namespace lathe {

/// The least seconds that `flops` operations and `bytes` moved to or from memory can take, and which of the
/// two it is.
struct Roofline {
  double seconds = 0;
  bool memory = false;  // else the arithmetic
  const char* name() const { return memory ? "memory" : "compute"; }
  /// The achieved share; 0 when nothing was measured.
  double share(double measured_seconds) const {
    return measured_seconds > 0 ? seconds / measured_seconds : 0;
  }
};

inline Roofline roofline(double flops, double bytes, const MachineLimits& limits) {
  double compute = flops / limits.flops, memory = bytes / limits.bandwidth;
  return memory > compute ? Roofline{memory, true} : Roofline{compute, false};
}

/// A bound from below on the seconds of `flops` operations that holds for any machine of the target's row,
/// however fast its clock and whatever the algorithm: a result below it was not measured.
inline double fastest_believable(double flops, const Target& target, int threads) {
  // No call takes less; no clock is faster; the most products that one instruction adds up at a time, and the
  // factor by which minimal filtering of 5x5 taps saves multiplications. Tile registers add as many as both
  // together, eight times those of vectors, and minimal filtering saves little there.
  constexpr double kCall = 2e-9, kClock = 6.5e9, kProductsAtOnce = 4, kSaved = 8;
  if (target.kind != "cpu") return kCall;
  const double lanes = target.vector_bits / 32.0;
  const double a_cycle = 2 * lanes * machine_row(target).model.multiply_adds.at(target.vector_bits);
  return std::max(kCall, flops / (a_cycle * kProductsAtOnce * kSaved * kClock * threads));
}

}  // namespace lathe
