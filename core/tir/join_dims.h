// Neighbouring dimensions that are open, as one where nothing tells them apart.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// b[.., i, j, ..] for i in 0..h, j in 0..w  ->  b[.., p, ..] for p in 0..h*w
///
/// where every block goes through both dimensions whole and at one place: 1x1 convolutions, element-wise
/// operators, means over an image. A tile then runs on across the ends of rows, and there is one edge instead
/// of one a row. Parameters change shape, not what lies where. Loops of a statement of its own (a scatter, a
/// sort) count as a block's variables, and its dimensions may be numbers, too: a slice is one run of memory.
/// Gives `func` itself when there is nothing to join, or no dimension is open. REQUIRES: unscheduled.
Func join_open_dims(const Func& func);

}  // namespace lathe::tir
