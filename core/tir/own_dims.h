// Dimensions of a program that are its own, and not of the graph around it.
#pragma once

#include <optional>

#include "core/tir/stmt.h"

namespace lathe::tir {

/// func f[h, w](a: float32[1 + h // 14 * (w // 14), 64])  ->  func f[n](a: float32[n, 64])
///
/// where the program needs h and w for nothing else: what is scheduled for rows finds rows, and layers that
/// see the image at other scales are one program. Each dimension of the result stands by itself in the shape
/// of a parameter, which is how calls tell it (places_of_dims). Gives `func` itself when there is nothing to
/// name, or not all can be. REQUIRES: unscheduled.
Func with_own_dims(const Func& func);

/// func f[n](x: float32[n]) -> (y: float32[n - 4])  ->  func f[m](x: float32[m + 4]) -> (y: float32[m])
///
/// since loops run over results: where tiles end is then told by a dimension, and not by a sum. Gives `func`
/// itself as above. REQUIRES: unscheduled.
Func with_dims_of_results(const Func& func);

/// Where a dimension is one of a parameter's extents.
struct DimPlace {
  size_t param = 0, axis = 0;
};
/// Of each dimension, in the order of dims_of(), the first such place; nothing when one has none.
std::optional<std::vector<DimPlace>> places_of_dims(const FuncNode& func);

}  // namespace lathe::tir
