// How many values the enums of tensor programs have, for whatever reads nodes that hold them.
#pragma once

#include "core/arith/expr_fields.h"
#include "core/tir/stmt.h"

namespace lathe::reflect {

template <>
inline constexpr size_t kValuesOf<tir::Scope> = static_cast<size_t>(tir::Scope::kShared) + 1;
template <>
inline constexpr size_t kValuesOf<tir::Iteration> = static_cast<size_t>(tir::Iteration::kThreadZ) + 1;
template <>
inline constexpr size_t kValuesOf<tir::IterKind> = static_cast<size_t>(tir::IterKind::kOpaque) + 1;

}  // namespace lathe::reflect
