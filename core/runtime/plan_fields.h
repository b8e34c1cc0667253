// How many values the enumerations of a plan have, for whoever reads one: a module's plan, a program's plans.
#pragma once

#include "core/runtime/plan.h"
#include "core/support/node_impl.h"

namespace lathe::reflect {
template <>
inline constexpr size_t kValuesOf<runtime::Place> = static_cast<size_t>(runtime::Place::kArena) + 1;
template <>
inline constexpr size_t kValuesOf<runtime::SizeOp> = static_cast<size_t>(runtime::SizeOp::kLess) + 1;
}  // namespace lathe::reflect
