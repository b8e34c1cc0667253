// Which tiles are worth trying for `winograd`: an analytic model of its products, its transforms and the
// caches.
#pragma once

#include "core/tir/target.h"
#include "schedules/convolution.h"
#include "schedules/space.h"

namespace lathe::schedule {

/// One way to cut a convolution: outputs of a tile, and the rows of tiles that are worked on together.
struct WinogradTiles {
  int64_t rows, columns, band;
  double cycles;  // estimated, of all cores together
};

/// The promising ones, the best first. Empty when the direct algorithm is better: surely (kRandom), or unless
/// a measurement shows otherwise (kHeuristic; no larger tiles than keep most digits, see cook_toom.h).
std::vector<WinogradTiles> winograd_tiles(const Convolution& c, const Target& target, const Policy& policy);

}  // namespace lathe::schedule
