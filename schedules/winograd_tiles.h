// Which tiles are worth trying for `winograd`: an analytic model of its products, its transforms and the
// caches.
#pragma once

#include <optional>

#include "core/tir/target.h"
#include "schedules/convolution.h"
#include "schedules/space.h"

namespace lathe::schedule {

/// One way to cut a convolution: outputs of a tile, and the rows of tiles that are worked on together, of one
/// image of a batch or of all.
struct WinogradTiles {
  int64_t rows, columns, band;
  bool of_one_image;
  double cycles;  // estimated, of all cores together
};

/// The dimension of the result that tells images apart, which share their weights; none where there is one.
std::optional<size_t> image_dim(const Convolution& c);

/// The promising ones, the best first. Empty when the direct algorithm is better: surely (kRandom), or unless
/// a measurement shows otherwise (kHeuristic; no larger tiles than keep most digits, see cook_toom.h). Bands
/// of one image are for batches whose size is known: `is_open` where the extents are typical ones.
std::vector<WinogradTiles> winograd_tiles(const Convolution& c, const Target& target, const Policy& policy,
                                          bool is_open);

}  // namespace lathe::schedule
