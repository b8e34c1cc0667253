// How near a kernel is to what the machine allows (Williams, Waterman, Patterson 2009, "Roofline").
#pragma once

#include "core/tir/machine.h"

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

}  // namespace lathe
