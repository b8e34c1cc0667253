// What the children of these tests do.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "workers/sandbox.h"

namespace lathe::worker {

std::span<const Role> test_roles();

/// The command that starts a supervisor of one of these roles.
inline std::vector<std::string> sandbox_command(const std::string& role) {
  return {"/proc/self/exe", "internal-sandbox", role};
}

}  // namespace lathe::worker
