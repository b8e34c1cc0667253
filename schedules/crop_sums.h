// Sums over windows that see mostly padding.
#pragma once

#include "core/arith/simplify.h"
#include "core/tir/stmt.h"

namespace lathe::schedule {

/// t[w] = select(1 <= w && w < 2, x[w - 1], 0), for w in 0..3
/// y[w] = y[w] + t[w + k] * f[k], for w in 0..1, k in 0..3   ->   y[w] = y[w] + x[w] * f[1]
///
/// Values at both ends of a reduction's variable for which all terms are neutral are left out; a padded image
/// of which nobody reads the padding any more is read itself. 0 times anything is taken for 0, as where
/// kernels are cropped in models of known sizes (core/relay/passes/crop_kernels.h), which this is for members
/// of small images. `dims`: what is known of dimensions that are open. REQUIRES: a canonical program,
/// unscheduled.
tir::Func crop_sums(const tir::Func& program, const Analyzer& dims = {});

}  // namespace lathe::schedule
