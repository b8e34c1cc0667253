#include "schedules/coverage.h"

#include <algorithm>

#include "core/arith/one_to_one.h"

namespace lathe::schedule {

using namespace tir;

Domain loops_below(const Path& path, const Stmt& loop, bool inclusive) {
  Domain domain;
  for (size_t i = path.size() - 1; i-- > 0 && !path[i].as<Block>();) {
    const For* inner = path[i].as<For>();
    if (path[i] == loop && !inclusive) break;
    if (inner) domain.emplace_back(inner->var, inner->extent);
    if (path[i] == loop) break;
  }
  return domain;
}

Region relaxed(const Region& region, const Path& path, const Domain& domain, const Analyzer& context) {
  // Regions are declared in the block's own variables: first these become loops, then the loops of `domain`
  // run.
  VarMap bindings;
  for (const BlockIter& iter : path.back().as<Block>()->iters) bindings[iter.var.get()] = iter.value;
  return relax(tir::substitute(region, bindings), domain, context);
}

bool writes_once(const Path& path, const Domain& domain) {
  const Block& block = *path.back().as<Block>();
  Analyzer context = analyzer_at(path);
  // As many iterations as the box has elements, each at another place, leave none out. Reduction loops repeat
  // elements by intent.
  Expr points = 1;
  std::vector<Var> loops;
  for (const auto& [loop, extent] : domain) {
    if (carries(block, loop, IterKind::kReduce)) continue;
    points = points * extent;
    loops.push_back(loop);
  }
  VarMap bindings;
  for (const BlockIter& iter : block.iters) bindings[iter.var.get()] = iter.value;
  for (const Region& region : block.writes) {
    std::vector<Expr> place;
    for (const Range& range : region.ranges) place.push_back(substitute(range.min, bindings));
    if (!one_to_one(place, loops, context)) return false;
    Expr volume = 1;
    for (const Range& range : relaxed(region, path, domain, context).ranges) {
      const Expr extent = context.simplify(range.extent);
      const int64_t most = context.bound(extent).max;
      volume = volume * (most == INT64_MAX ? extent : Expr(std::max<int64_t>(most, 0)));
    }
    if (!context.can_prove_equal(volume, points)) return false;
  }
  return true;
}

Region written_in_all(const Path& path) {
  return relaxed(path.back().as<Block>()->writes[0], path, loops_below(path, top_statement(path), true),
                 analyzer_at(path));
}

bool writes_outside(const Block& block, const Region& box) {
  const Store* store = block.body.as<Store>();
  if (!store || block.writes.size() != 1) return false;
  Analyzer analyzer;
  VarMap values;
  for (const BlockIter& iter : block.iters) {
    // The predicate speaks of loops; where a variable is a loop as it is, it can speak of the variable
    // instead, whose range in the box is known. A predicate that keeps a loop proves nothing, and the answer
    // is no.
    if (const VarNode* loop = iter.value.as<VarNode>()) values[loop] = iter.var;
    for (size_t d = 0; d < store->indices.size(); ++d)
      if (store->indices[d].same_as(iter.var.get()) && as_int(box.ranges[d].min) &&
          as_int(box.ranges[d].extent))
        analyzer.bind(iter.var, {int_value(box.ranges[d].min),
                                 int_value(box.ranges[d].min) + int_value(box.ranges[d].extent) - 1});
  }
  return is_int(analyzer.simplify(substitute(block.predicate, values)), 0);
}

bool carries(const Block& block, const Var& loop, IterKind kind) {
  return std::any_of(block.iters.begin(), block.iters.end(), [&](const BlockIter& iter) {
    return iter.kind == kind && uses_var(iter.value, loop.get());
  });
}

}  // namespace lathe::schedule
