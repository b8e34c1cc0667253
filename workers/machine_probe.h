// The numbers of a machine (core/tir/machine.h), measured: small kernels of our own code generation, timed in
// cycles.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/tir/machine.h"

namespace lathe::worker {

struct MachineReading {
  MachineNumbers numbers;
  std::vector<std::string> unsettled;  // measured, and no two rounds agreed: the row's numbers count
  double seconds = 0;                  // that measuring took
  double disturbed = 0;                // share of the samples that something else ran beside
};

/// Measures this machine as code for `target` uses it, within about two seconds (ten when it is not quiet).
/// Samples are short, so that many lie between two switches to another process; a disturbed one does not
/// count. All probes take turns in rounds, and a number counts once its two best rounds agree, seconds apart
/// if it must be. Throws Error when kernels cannot be built.
/// REQUIRES: this machine runs what is compiled for `target`.
MachineReading measure_machine(const Target& target);

/// The least of the rounds, in which something costs so many cycles, when another one comes within
/// `tolerance` of it.
std::optional<double> settled(std::vector<double> rounds, double tolerance);

/// A rate of instructions is a whole number or a half; what comes within 10% of one is that, and two machines
/// of one kind get the same numbers. Others keep `digits` digits.
double snapped(double rate, int digits);
double rounded(double value, int digits);

}  // namespace lathe::worker
