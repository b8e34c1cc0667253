// Which register tiles are worth trying for a vectorized reduction: an analytic model of the inner loop.
#pragma once

#include "core/tir/target.h"
#include "schedules/anatomy.h"

namespace lathe::schedule {

/// Lanes to vectorize a dimension of that extent with: the target's, or a divisor of the extent that comes
/// near; 1 when there is none.
int64_t vector_width(int64_t extent, const Target& target);
/// Lanes to vectorize a row of that length with: as above where that takes no more vectors, else the
/// target's, or the next power of two for a shorter row, its end masked; 1 for rows of a few elements.
int64_t row_width(int64_t extent, const Target& target);
/// The lanes a reduction is vectorized with; 1 when it is not worth it.
int64_t vector_width(const VectorReduction& reduction, const Target& target);

/// Vectors of a panel of weights for one row or two, half of them for up to kPanelRows: enough chains of
/// additions for the latency of each.
inline constexpr int64_t kPanelVectors = 8;

/// A register tile: how many values of each tiled variable one execution of the reduction loops computes.
struct RegisterTile {
  std::vector<int64_t> sizes;  // by position in the list of tiled variables
  double cost = 0;  // cycles for a vector of results and one step of the reduction; lower is better
};

/// The variables a register tile extends along: at most three spatial ones, the innermost that take more than
/// one value, in order. The vector variable counts in vectors.
std::vector<size_t> tiled_variables(const VectorReduction& reduction, const Target& target);

/// Values that variable `i` takes, the vector variable in vectors.
int64_t steps_of(const VectorReduction& reduction, size_t i, const Target& target);

/// How many edges may cut a tile. Where extents are open it is one: lowering has a copy of the tile's code
/// for each part that may be there, and copies for all parts along two dimensions are too many.
enum class Edges : uint8_t { kAny, kOne };

/// The promising tiles, the best first. Never empty. The model: the machine's multiply-adds and loads a cycle
/// and its latency, weights from the second-level cache, accumulators and operands within the vector
/// registers.
std::vector<RegisterTile> register_tiles(const VectorReduction& reduction, const Target& target,
                                         Edges edges = Edges::kAny);

}  // namespace lathe::schedule
