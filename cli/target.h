// Targets as users name them, with what is known of their machines.
#pragma once

#include <string>
#include <vector>

#include "core/tir/machine.h"

namespace lathe::cli {

/// Where the numbers of a target's machine come from; those given count before the measured ones, and these
/// before its row of the table.
struct TargetKnowledge {
  Target target;  // with all of it
  MachineNumbers given, measured;
  std::vector<std::string> unsettled;  // measured in vain
  std::string source;                  // of what was measured, for people; "" when nothing was
};

enum class Measure : uint8_t { kIfNeeded, kAgain };

/// Resolves the text (codegen::resolve_target). The machine at hand is measured when it never was (a terminal
/// is told), or `again`; of another one the latest that a worker told the database counts. Throws Error for a
/// bad text, for a database that cannot be read, and when another machine is to be measured again.
TargetKnowledge know_target(const std::string& text, const std::string& database, Measure measure);

/// Whether this machine's CPU runs code for the target.
bool runs_here(const Target& target);

/// The same for those who only compile for it. `database` may be empty.
Target target_of(const std::string& text, const std::string& database = "");

}  // namespace lathe::cli
