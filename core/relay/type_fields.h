// How many values the enums of Relay have, those of scalar expressions and tensor programs included, for
// whatever reads nodes that hold them.
#pragma once

#include "core/relay/type.h"
#include "core/tir/stmt_fields.h"

namespace lathe::reflect {

template <>
inline constexpr size_t kValuesOf<relay::Kind> = static_cast<size_t>(relay::Kind::kAdt) + 1;

}  // namespace lathe::reflect
