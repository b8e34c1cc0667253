// Axes of one behind the rows of a reduction are taken out.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A row that axes of one element follow lies in memory as if it were the last axis, but schedules look for
/// rows there: the largest of (32, 100, 48, 1) along axes 2 and 3 was computed element by element.
///   max(x, axis=[2, 3], keepdims=1)  ->  expand_dims(max(squeeze(x, axis=[3]), axis=[2], keepdims=1),
///   axis=3) nn.global_max_pool2d(x)          ->  the same, likewise the average nn.softmax(x, axis=1) ->
///   expand_dims(nn.softmax(squeeze(x, axis=[2, 3])), ...) of (1, 1000, 1, 1)
///
/// Reductions of one operand (ReduceAttrs), global pools of channels second, and softmaxes. Stands behind
/// alter_layout: what has blocked channels has no such axes. REQUIRES: types are inferred; the result has its
/// types.
Module squeeze_rows(const Module& module);

}  // namespace lathe::relay
