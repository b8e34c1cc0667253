// Which part of its buffers a piece of program touches, as boxes whose corners are expressions.
#pragma once

#include <optional>

#include "core/arith/simplify.h"
#include "core/tir/stmt.h"

namespace lathe::tir {

/// Variables and the number of values each takes (from 0): what a box is relaxed over.
using Domain = std::vector<std::pair<Var, Expr>>;
Domain domain_of(const std::vector<BlockIter>& iters);
/// `analyzer` with the variables of `domain` bound to their ranges.
Analyzer with_domain(Analyzer analyzer, const Domain& domain);

/// An interval min <= e <= max that contains e for all values of `domain`, with corners free of its
/// variables. Tight for sums of monotone terms over different variables, floordiv, min and max of these; a
/// floormod that wraps gives its whole range. Nothing when no interval is known (an index that was loaded, a
/// product of two variables). REQUIRES: `analyzer` knows the variables of `domain`.
struct Interval {
  Expr min, max;
};
std::optional<Interval> interval_over(const Expr& e, const Domain& domain, const Analyzer& analyzer);

/// The box around `region` for all values of `domain`; a dimension with no known interval becomes the whole
/// dimension.
Region relax(const Region& region, const Domain& domain, const Analyzer& analyzer);
/// The box around two boxes of one buffer; of two places that lie in memory, the whole dimension.
Region unite(const Region& a, const Region& b, const Analyzer& analyzer);
Region whole(const Buffer& buffer);
Region substitute(const Region& region, const VarMap& vars, const BufferMap& buffers = {});
/// Each element that `e` loads is one that `known` loads too: where `known` was computed, `e` can be.
bool loads_nothing_else(const Expr& e, const Expr& known);
/// Elements in a box. REQUIRES: nothing; symbolic extents give a symbolic number.
Expr element_count(const Region& region);

/// Boxes touched by one execution of a statement, one a buffer, in order of first access; buffers allocated
/// inside are left out. Corners depend on variables free in the statement only: loops inside are relaxed.
/// Blocks inside count as what they declare. An access under a select or If counts as if it always happened,
/// but for places that an If bounds from above.
struct Accesses {
  std::vector<Region> reads, writes;
};
/// Of the buffer `only`, where it is given: boxes take long to find.
Accesses accesses_of(const Stmt& stmt, const Analyzer& analyzer, const Buffer* only = nullptr);
/// What a block with these iterators should declare: the reads and writes of init and body as functions of
/// the iterators. A reduction's read of its own accumulator is not a read.
Accesses block_accesses(const std::vector<BlockIter>& iters, const Stmt& init, const Stmt& body);

}  // namespace lathe::tir
