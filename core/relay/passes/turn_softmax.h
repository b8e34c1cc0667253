// Softmax along an axis with few elements behind it, in whole vectors.
#pragma once

#include "core/relay/expr.h"
#include "core/tir/target.h"

namespace lathe::relay {

/// Neighbours in memory are of different rows where the axis of a softmax is not the last, and a vector takes
/// as many rows as there are elements behind the axis: 3 of 16 lanes of (2, 1000, 3) along axis 1. Where that
/// is a quarter of a vector or less, and rows are as long as a vector, the axis goes last:
///   nn.softmax(x, axis=1)  ->  transpose(nn.softmax(transpose(x, axes=[0, 2, 1])), axes=[0, 2, 1])
/// One element is no reason to move anything (squeeze_rows.h).
///
/// nn.softmax, nn.fast_softmax and nn.log_softmax whose sizes from the axis on are known; others stay, as do
/// those for devices other than processors. Stands before simplify_expr, which joins what it adds to
/// transposes that are there. REQUIRES: types are inferred; the result has its types.
Module turn_softmax(const Module& module, const Target& target);

}  // namespace lathe::relay
