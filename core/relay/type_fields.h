// How many values the enum of Relay's types has, for whatever reads nodes that hold it.
#pragma once

#include "core/relay/type.h"
#include "core/support/node_impl.h"

namespace lathe::reflect {

template <>
inline constexpr size_t kValuesOf<relay::Kind> = static_cast<size_t>(relay::Kind::kAdt) + 1;

}  // namespace lathe::reflect
