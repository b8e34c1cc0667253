// What blocks touch, as boxes over the loops around them: the arithmetic behind compute_at and its relatives.
#pragma once

#include "schedules/program.h"

namespace lathe::schedule {

/// Inclusive bounds of an expression, as expressions of the variables that were not relaxed.
struct Interval {
  Expr min, max;
};

/// Variables that run over 0 .. extent-1.
using Relaxed = std::map<const VarNode*, Expr>;

/// The values `e` takes when each relaxed variable takes all its values. Exact for sums of distinct variables
/// times constants; else an over-approximation; nothing when no bounds are found.
std::optional<Interval> relax(const Expr& e, const Relaxed& relaxed, const Analyzer& context);

/// The box of indices `region` covers when the block at `path` runs for all values of the loops in `relaxed`,
/// over the other loops' variables. An unknown dimension is taken whole.
std::vector<Interval> touched(const tir::Region& region, const Ref<tir::Block>& block, const Relaxed& relaxed,
                              const Analyzer& context);

/// The smallest box around both.
Interval hull(const Interval& a, const Interval& b, const Analyzer& context);

/// Declared reads and writes of a block whose body changed, read off the body: single elements where an index
/// uses block variables only, else ranges over the inner loops.
void infer_regions(tir::Block& block);

}  // namespace lathe::schedule
