// Which arguments of which kernels an output is, so that it can be computed in the caller's memory.
#pragma once

#include <cstddef>
#include <vector>

#include "core/runtime/plan.h"

namespace lathe::runtime {

/// Finds the places among the arguments of all steps, one after another, that are the tensor of `output` from
/// the step that computes it to the end: pass other memory there, and the tensor lies in that. None when it
/// has to stay where the plan puts it: an input, a constant, a tensor of which another output is a part, or
/// one that shares some of its memory with another one later on (which no plan of PlanBuilder's does).
void output_arguments(const Plan& plan, const Value& output, std::vector<size_t>& found);

}  // namespace lathe::runtime
