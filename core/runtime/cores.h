// Which cores this process may use, and how much of them.
#pragma once

#include <string>
#include <vector>

namespace lathe::runtime {

/// The numbers of the cores that the calling thread may run on; never empty.
std::vector<int> allowed_cores();

/// Threads worth starting: the allowed cores, or fewer when a control group limits the processor time (its
/// quota, rounded up). At least 1.
int available_cores();

/// The tightest limit of a control group and its parents, in cores; 0 when there is none. `groups` is the
/// text of /proc/self/cgroup, `root` where the control groups are mounted (versions 1 and 2 are understood).
double cgroup_core_limit(const std::string& groups, const std::string& root);

}  // namespace lathe::runtime
