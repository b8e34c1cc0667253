#include "core/relay/ops/open_extents.h"

#include "core/arith/simplify.h"
#include "core/relay/analysis/sizes.h"

namespace lathe::relay::ops {

void require_in_runs(RelationContext& c, const lathe::Expr& a, const lathe::Expr& b) {
  const bool is_unknown = a.as<Any>() || b.as<Any>();
  if (!is_unknown && !(as_int(a) && as_int(b))) c.equal_dims(a, b);
}

void require_at_least(RelationContext& c, const lathe::Expr& extent, int64_t least) {
  if (least > 0 && !as_int(extent) && !extent.as<Any>()) c.equal_dims(extent, max(extent, least));
}

void require_multiple(RelationContext& c, const lathe::Expr& extent, int64_t divisor) {
  if (divisor > 1 && !as_int(extent) && !extent.as<Any>())
    c.equal_dims(simplify(floordiv(extent, lathe::Expr(divisor)) * divisor), extent);
}

void require_one(RelationContext& c, const lathe::Expr& one, const lathe::Expr& many) {
  const lathe::Expr some = simplify(min(many, 1));
  if (!structural_equal(some, simplify(one))) require_in_runs(c, one, some);
}

bool is_repeated(const lathe::Expr& dim) {
  if (const int64_t* extent = as_int(dim)) return *extent == 1;
  return !dim.as<Any>() && is_at_most(dim, 1);
}

}  // namespace lathe::relay::ops
