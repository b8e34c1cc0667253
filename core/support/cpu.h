// What this machine's CPU is and can do.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lathe {

/// The CPU's own name for itself, else its architecture's.
std::string cpu_name();

/// Those of `wanted`, names from /proc/cpuinfo, that this CPU lacks, that its system does not let programs
/// use, or that are not known here.
std::vector<std::string> missing_cpu_features(std::span<const std::string> wanted);

}  // namespace lathe
