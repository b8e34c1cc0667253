// What primitives share that take a reduction apart.
#pragma once

#include "core/tir/builder.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

/// A block out[indices] = out[indices] (combiner) value.
struct Accumulation {
  tir::Buffer out;
  std::vector<Expr> indices;
  tir::Combiner combiner = tir::Combiner::kSum;
  Expr value;
};

/// Throws Error unless the block accumulates from the neutral element of its operation.
Accumulation accumulation_of(const Application& a, const tir::Block& block);

}  // namespace lathe::schedule
