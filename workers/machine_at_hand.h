// What was measured of this machine, kept for the programs to come.
#pragma once

#include <optional>
#include <string>

#include "core/tir/target.h"
#include "workers/device.h"
#include "workers/machine_probe.h"

namespace lathe::worker {

struct KnownMachine {
  MachineReading reading;
  std::string when;  // "2026-11-22 18:50", UTC
};

/// Whether the target's CPU is this machine's. Of another one's code nothing is measured here, even where it
/// would run: the numbers would be this CPU's.
bool is_at_hand(const Target& target);

/// What was kept for code as `target` wants it (features, widths); nothing when that was never measured, or
/// by older probes, or on a machine that was another.
std::optional<KnownMachine> recall_machine(const Target& target);

/// Measures this machine and keeps that under the user's cache folder. Of
/// several processes at once one measures, after the other. Throws Error when it cannot be measured or kept:
/// what is not kept would be different in each program. REQUIRES: is_at_hand(target).
KnownMachine measure_and_keep(const Target& target);

/// What was kept, else measured now; of several processes at once only one measures.
KnownMachine recall_or_measure(const Target& target);

/// This machine's device with what is known of it, as a worker tells it to a tracker: where nothing can be
/// measured, without.
DeviceInfo measured_device();

}  // namespace lathe::worker
