// The types of scalar expressions, for the verifier. Internal to core/tir.
#pragma once

#include <optional>
#include <string>

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Nothing, or what is wrong with the type of this one node given those of its operands. Vectors (Ramp,
/// Broadcast, lanes) are faults unless `vectors`.
std::optional<std::string> find_type_fault(const Expr& e, bool vectors);

}  // namespace lathe::tir
