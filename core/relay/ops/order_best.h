// The first few of an order, without ordering the others; of short rows, all of it.
#pragma once

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// What takes the least time for the first `count` of rows of `n` elements: booleans of these numbers, of
/// which one holds, but where `count` is 0.
struct WaysToOrder {
  Expr by_placing, by_filtering, by_merging;
};
WaysToOrder ways_to_order(const Expr& n, const Expr& count);

/// What `order` promises where rows are not merged; where they are, `merged` stores it.
Buffer order_of_best(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count,
                     const WaysToOrder& ways, const std::vector<Buffer>& reads = {},
                     const std::function<tir::Stmt(const Buffer& out)>& merged = nullptr);

}  // namespace lathe::relay::ops
