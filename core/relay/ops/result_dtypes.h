// Attributes that name the element type of a result.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// The attributes with the type `of` gives for each that they name, where `of` is asked for real types alone;
/// the same where nothing changes. Null stays null.
Attrs with_real_dtypes(const Attrs& attrs, FunctionRef<DataType(DataType)> of);

}  // namespace lathe::relay
