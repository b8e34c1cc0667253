// Axes of one behind rows are taken out.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A row that axes of one element follow lies in memory as if it were the last axis, but schedules look for
/// rows there: the largest of (32, 100, 48, 1) along axes 2 and 3 was computed element by element.
///   max(x, axis=[2, 3])  ->  max(squeeze(x, axis=[3]), axis=[2])
///   nn.max_pool2d(x)     ->  of (n, c, 1, h) for (n, c, h, 1), where windows are one pixel wide
///
/// Reductions and positions of extremes, softmaxes, norms, global pools of channels second, and pools; the
/// axes come back behind the result. Stands behind alter_layout: what has blocked channels has no such axes.
/// REQUIRES: types are inferred; the result has its types.
Module squeeze_rows(const Module& module);

}  // namespace lathe::relay
