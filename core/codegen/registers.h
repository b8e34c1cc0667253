// Which local buffers live in registers.
#pragma once

#include <map>
#include <set>

#include "core/tir/stmt.h"

namespace lathe::codegen {

/// For each local buffer that is accessed at constant, dense places only, any two of them equal or disjoint:
/// these places, as (first element, lanes). Such a buffer is a set of registers (as far as there are enough).
using RegisterPlan = std::map<const tir::BufferNode*, std::set<std::pair<int64_t, int>>>;

/// REQUIRES: lowered level. A buffer used in a parallel loop outside of which it was allocated is left out.
RegisterPlan plan_registers(const tir::Stmt& body);

}  // namespace lathe::codegen
