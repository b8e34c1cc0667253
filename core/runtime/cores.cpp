#include "core/runtime/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace lathe::runtime {
namespace {

namespace fs = std::filesystem;

/// Microseconds of processor time a period over the period, in one control group; 0 for no limit.
double limit_of(const fs::path& group) {
  double quota = 0, period = 0;
  if (std::ifstream both(group / "cpu.max"); both >> quota >> period) return period > 0 ? quota / period : 0;
  // Version 1. In version 2 `cpu.max` begins with "max" where there is no limit, and reading that as a number
  // fails.
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;  // -1: none
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

double cgroup_core_limit(const std::string& groups, const std::string& root) {
  double tightest = 0;
  // cgroups(7): of version 1 a line for each hierarchy, of version 2 the one that begins with 0.
  std::istringstream lines(groups);
  for (std::string line;
       std::getline(lines, line);) {  // NUMBER:CONTROLLERS:PATH, no controllers in version 2
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    // A container may see its own group as the root, while the path is the host's: try all that exist.
    fs::path base = controllers.empty() ? fs::path(root) : fs::path(root) / controllers;
    // Limits hold for all groups below: the tightest on the way up counts.
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path();; path = path.parent_path()) {
      double limit = limit_of(base / path);
      if (limit > 0 && (tightest == 0 || limit < tightest)) tightest = limit;
      if (path.empty()) break;
    }
  }
  return tightest;
}

std::vector<int> allowed_cores() {
  // A system of more than 1024 processors refuses so short a set (sched_getaffinity(2)): one core is what is
  // left there.
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int available_cores() {
  auto cores = static_cast<int>(allowed_cores().size());
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream groups;
  groups << file.rdbuf();
  double limit = cgroup_core_limit(groups.str(), "/sys/fs/cgroup");
  // A part of a core counts as one.
  return limit > 0 ? std::clamp(static_cast<int>(std::ceil(limit)), 1, cores) : cores;
}

}  // namespace lathe::runtime
