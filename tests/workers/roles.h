// What the children of these tests do.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "workers/sandbox.h"

namespace lathe::worker {

std::span<const Role> test_roles();
/// A pipeline's, whose candidates answer in the place of what measures them (run_stage_test.cpp).
std::span<const Role> forging_roles();

/// The command that starts a supervisor of one of these roles.
inline std::vector<std::string> sandbox_command(const std::string& role) {
  return {"/proc/self/exe", "internal-sandbox", role};
}

}  // namespace lathe::worker
