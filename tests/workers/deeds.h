// What hostile candidates and builds do in a sandbox, each with how it must end.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "workers/sandbox.h"

namespace lathe::worker {

/// A file that nobody in a sandbox may make.
inline const std::string kOutside = "/tmp/lathe-sandbox-test-outside";
/// A file that only this user may read, as keys are.
inline const std::string kKeyFile = "/tmp/lathe-sandbox-test-key";
/// A variable of the worker's environment that nobody in a sandbox has.
inline constexpr const char* kSecretVariable = "PGPASSWORD";

[[noreturn]] void spin();

/// Of a candidate.
struct Deed {
  const char* name;
  std::string (*act)();
  Report::End end;
  int code;  // signal or status; -1: any
};
/// Of who finds a hole in the compiler.
struct BuildDeed {
  const char* name;
  std::string (*act)();
  const char* reply;  // "" when it ends with SIGSYS
};

std::span<const Deed> hostile_candidates();
std::span<const BuildDeed> hostile_builds();

/// Does what `request` names. Throws Error where there is none of the name.
std::string commit_deed(std::string_view request, Child&);
std::string commit_build_deed(std::string_view request, Child&);

}  // namespace lathe::worker
