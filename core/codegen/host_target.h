// Targets filled in from what LLVM and the system know.
#pragma once

#include <string>
#include <vector>

#include "core/tir/target.h"

namespace lathe::codegen {

/// This machine, with the instruction sets that its system lets programs use.
Target host_target();

/// "cpu" is this machine; "cpu:mcpu=NAME" another CPU by LLVM's name, of this architecture or of the first
/// other that has one called so (aarch64, riscv64, x86_64), then with one core and plain caches; further
/// properties (vector=256, mattr=-avx512f;+fma, l2=..., see target.h) override what the name implies. The
/// result is complete: resolving its text gives it again. Throws Error, with a suggestion, on what is not
/// known.
Target resolve_target(const std::string& text);

/// What code compiled for `target` may ask of the CPU beyond its architecture's base, by the names of
/// /proc/cpuinfo, sorted: {"abm", "avx", "avx2", ...}. Features that no generated code uses (keys, hashes)
/// are left out. Throws Error when LLVM does not know the target.
std::vector<std::string> cpu_features(const Target& target);

}  // namespace lathe::codegen
