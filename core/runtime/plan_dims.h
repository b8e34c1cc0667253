// Plans with open dimensions: the plan for some values of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/runtime/plan.h"

namespace lathe::runtime {

/// The plan for values of open.dims, in their order: the same steps over numbers. `bound` is a copy of
/// `open`, or what an earlier call made of one. Throws Error when a value is outside the dimension's range, a
/// requirement does not hold, or check_numbers() refuses the result; `bound` is then good for another call
/// only. REQUIRES: `open` has been checked.
void bind_dims(const Plan& open, std::span<const int64_t> dims, Plan& bound);

/// The size that stands at the place of dimension `i`, in the shape of an input or an output. REQUIRES:
/// `open` has been checked.
Size size_at(const Plan& open, size_t i);
/// Whether that is the dimension itself, not an expression of it.
bool stands_alone(const Plan& open, size_t i);
/// Dimension `i` in a run in which its place is of this extent, and the dimensions before it are as `dims`
/// says: of 2 * k half of it. That the shape comes out with it is for the caller to compare.
int64_t told_dimension(const Plan& open, size_t i, int64_t extent, std::span<const int64_t> dims);

/// Whether inputs may be of several shapes: a dimension is open that no output tells.
bool has_open_inputs(const Plan& plan);

/// The arena's size with each dimension at its upper bound; 0 where one of them has none, or the sum is no
/// memory at all.
int64_t bounded_arena(const Plan& open);

/// "2 * n": a size as people write it.
std::string size_text(const Plan& plan, Size size);
/// "(n, 4)".
std::string open_shape_text(const Plan& plan, const std::vector<Size>& shape);

}  // namespace lathe::runtime
