// Which local buffers live in registers.
#pragma once

#include <map>
#include <set>

#include "core/tir/stmt.h"

namespace lathe::codegen {

/// A local buffer as a set of registers (as far as there are enough): its accesses are at constant, dense
/// places only, any two of them equal or disjoint; but a load may take several places that lie side by side.
struct RegisterBuffer {
  std::set<std::pair<int64_t, int>> places;  // (first element, lanes)
  /// Vectors are also loaded across the places, which then are the rows of a matrix of as many elements each,
  /// one after another: a column has an element of each of the first `column_lanes` rows. 0: they are not.
  int64_t row_elements = 0;
  int column_lanes = 0;
};
using RegisterPlan = std::map<const tir::BufferNode*, RegisterBuffer>;

/// REQUIRES: lowered level. A buffer used in a parallel loop outside of which it was allocated is left out.
RegisterPlan plan_registers(const tir::Stmt& body);

}  // namespace lathe::codegen
