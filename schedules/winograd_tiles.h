// Which tiles are worth trying for `winograd`: an analytic model of its products, its transforms and the
// caches.
#pragma once

#include <array>

#include "core/tir/target.h"
#include "schedules/convolution.h"
#include "schedules/cook_toom.h"
#include "schedules/space.h"

namespace lathe::schedule {

/// One way to cut a convolution: outputs of a tile, and the rows of tiles that are worked on together.
struct WinogradTiles {
  int64_t rows, columns, band;
  double cycles;  // estimated, of all cores together
};

/// The filtering along rows and columns.
std::array<Filtering, 2> tile_of(const Convolution& c, int64_t rows, int64_t columns);

/// The promising ones, the best first. Empty when the direct algorithm is better: surely (kRandom), or unless
/// a measurement shows otherwise (kHeuristic; no larger tiles than keep most digits, see cook_toom.h).
std::vector<WinogradTiles> winograd_tiles(const Convolution& c, const Target& target, const Policy& policy);

/// Whether tiles keep enough digits when their transformed weights are rounded to half precision: the output
/// transform of larger ones multiplies the errors by 8.
inline bool half_weights_suffice(const std::array<Filtering, 2>& tile) {
  return tile[0].products_of_a_phase() <= 4 && tile[1].products_of_a_phase() <= 4;
}

}  // namespace lathe::schedule
