// Which arguments of a kernel its result may overwrite.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tir/stmt.h"

namespace lathe::tuner {

/// The inputs (numbers of parameters) whose memory the only result may share: no element of the result is
/// stored twice, a store reads the input at its own element or not at all, and nothing else reads the input
/// or the result. A residual that a convolution adds, an operand of an element-wise kernel; or the result
/// begins as a copy of it (tir::leading_copy), which the kernel then leaves out. REQUIRES: `lowered` is at
/// the lowered level, so that this holds for the order in which the kernel really runs.
std::vector<int64_t> in_place_arguments(const tir::FuncNode& lowered);

}  // namespace lathe::tuner
