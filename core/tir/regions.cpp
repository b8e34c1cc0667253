#include "core/tir/regions.h"

#include <algorithm>

#include "core/support/error.h"

namespace lathe::tir {
namespace {
/// Interval arithmetic whose ends are expressions. Works on simplified expressions.
class Relaxation {
 public:
  Relaxation(const Domain& domain, const Analyzer& analyzer) : domain_(domain), analyzer_(analyzer) {}

  std::optional<Interval> over(const Expr& e) {
    if (const VarNode* v = e.as<VarNode>()) {
      // A handful of loops: a map would cost more.
      for (const auto& [var, extent] : domain_) {
        if (var.get() != v) continue;
        // Of a loop of no iterations the interval is empty, and any will do.
        // Recursive: triangular loops nest a few deep.
        auto last = over(extent - 1);  // the extent of an inner loop may depend on an outer one
        return last ? std::optional(Interval{0, last->max}) : std::nullopt;
      }
      return Interval{e, e};
    }
    // Not taken apart: the corner names it as it is.
    if (is_free(e)) return Interval{e, e};
    if (const Binary* b = e.as<Binary>()) return over_binary(*b);
    // Whatever the condition is.
    if (const Select* s = e.as<Select>()) return joined(over(s->if_true), over(s->if_false));
    return std::nullopt;
  }

 private:
  /// No variable of the domain occurs.
  bool is_free(const Expr& e) {
    return std::none_of(domain_.begin(), domain_.end(),
                        [&](const auto& d) { return uses_var(e, d.first.get()); });
  }

  /// Around both.
  std::optional<Interval> joined(const std::optional<Interval>& a, const std::optional<Interval>& b) {
    if (!a || !b) return std::nullopt;
    return Interval{min(a->min, b->min), max(a->max, b->max)};
  }

  /// A factor of unknown sign might turn the interval around.
  std::optional<Interval> over_product(const Interval& a, const Expr& factor) {
    if (analyzer_.can_prove(less_equal(0, factor))) return Interval{a.min * factor, a.max * factor};
    if (analyzer_.can_prove(less_equal(factor, 0))) return Interval{a.max * factor, a.min * factor};
    return std::nullopt;
  }

  std::optional<Interval> over_binary(const Binary& e) {
    auto a = over(e.a), b = over(e.b);
    if (!a || !b) return over_remainder(e);
    bool fixed_a = a->min == a->max, fixed_b = b->min == b->max;
    switch (e.op) {
      // Tight only where a and b share no variable; else wider than the values are.
      case BinaryOp::kAdd:
        return Interval{a->min + b->min, a->max + b->max};
      case BinaryOp::kSub:
        return Interval{a->min - b->max, a->max - b->min};
      case BinaryOp::kMin:
        return Interval{min(a->min, b->min), min(a->max, b->max)};
      case BinaryOp::kMax:
        return Interval{max(a->min, b->min), max(a->max, b->max)};
      case BinaryOp::kMul:
        // One factor must be the same for the whole domain; of two that vary nothing is said.
        if (fixed_b) return over_product(*a, b->min);
        return fixed_a ? over_product(*b, a->min) : std::nullopt;
      // Rounding down is monotone for a positive divisor.
      case BinaryOp::kFloorDiv:
        if (!fixed_b || !analyzer_.can_prove(less(0, b->min))) return std::nullopt;
        return Interval{floordiv(a->min, b->min), floordiv(a->max, b->min)};
      case BinaryOp::kFloorMod: {
        // Where both ends have one quotient the remainder does not wrap in between.
        Expr first = floordiv(a->min, b->min), last = floordiv(a->max, b->min);
        if (!fixed_b || !analyzer_.can_prove_equal(first, last)) return over_remainder(e);
        return Interval{floormod(a->min, b->min), floormod(a->max, b->min)};
      }
      default:
        return std::nullopt;
    }
  }

  /// Whatever is divided, or nothing is known of it: 0 to divisor - 1.
  std::optional<Interval> over_remainder(const Binary& e) {
    bool bounded = e.op == BinaryOp::kFloorMod && is_free(e.b) && analyzer_.can_prove(less(0, e.b));
    return bounded ? std::optional(Interval{imm(e.dtype, 0), e.b - imm(e.dtype, 1)}) : std::nullopt;
  }

  const Domain& domain_;
  const Analyzer& analyzer_;
};

/// Collects accesses in statement order, relaxing over loops on the way out.
/// Ranges stay bound in `analyzer_` after their loop: variables are distinct, and the analyzer is a copy.
class Collector {
 public:
  Collector(Analyzer analyzer, const Buffer* only) : analyzer_(std::move(analyzer)), only_(only) {}

  Accesses collect(const Stmt& stmt) {
    visit(stmt);
    return {std::move(reads_), std::move(writes_)};
  }

 private:
  void visit(const Stmt& stmt) {
    if (!stmt) return;
    switch (stmt->kind()) {
      case StmtKind::kFor: {
        const For& loop = *stmt.as<For>();
        visit(loop.extent);
        // After the extent, which is evaluated outside.
        domain_.emplace_back(loop.var, loop.extent);
        // So that products of this variable have a known sign.
        analyzer_.bind_range(loop.var, loop.extent);
        seen_.clear();
        visit(loop.body);
        seen_.clear();
        domain_.pop_back();
        return;
      }
      case StmtKind::kBlock:
        return visit_block(*stmt.as<Block>());
      case StmtKind::kStore: {
        const Store& store = *stmt.as<Store>();
        for (const Expr& index : store.indices) visit(index);
        visit(store.value);
        if (counts(store.buffer)) add(writes_, store.buffer, store.indices);
        return;
      }
      case StmtKind::kSeq:
        for (const Stmt& s : stmt.as<Seq>()->stmts) visit(s);
        return;
      // Both cases count, but no further than the condition lets them.
      case StmtKind::kIf: {
        const If& branch = *stmt.as<If>();
        visit(branch.condition);
        const size_t outer = bounds_.size();
        const std::vector<Expr> conditions = conjuncts(branch.condition);
        bounds_.insert(bounds_.end(), conditions.begin(), conditions.end());
        seen_.clear();
        visit(branch.then_case);
        seen_.clear();
        bounds_.resize(outer);
        return visit(branch.else_case);
      }
      case StmtKind::kAlloc:
        // Of no concern outside.
        local_.push_back(stmt.as<Alloc>()->buffer);
        return visit(stmt.as<Alloc>()->body);
    }
  }

  void visit(const Expr& e) {
    post_order(e, [&](const NodeRef& node) {
      const Load* load = node.as<Load>();
      if (!load || !counts(load->buffer) || has_seen(*load)) return;
      add(reads_, load->buffer, load->indices);
      // What is inlined reads the same element again and again: comparing is cheaper than simplifying.
      constexpr size_t kMostSeen = 32;
      if (seen_.size() < kMostSeen) seen_.push_back(load);
    });
  }

  /// Whether an equal load under the same loops was added.
  bool has_seen(const Load& load) const {
    return std::any_of(seen_.begin(), seen_.end(), [&](const Load* other) {
      return other->buffer == load.buffer &&
             std::equal(other->indices.begin(), other->indices.end(), load.indices.begin(),
                        load.indices.end(),
                        [](const Expr& a, const Expr& b) { return a == b || structural_equal(a, b); });
    });
  }

  /// By what it declares, with the values of its iterators: nobody looks inside.
  void visit_block(const Block& block) {
    VarMap values;
    for (const BlockIter& iter : block.iters) {
      visit(iter.value);
      values[iter.var.get()] = iter.value;
    }
    visit(block.predicate);
    local_.insert(local_.end(), block.allocs.begin(), block.allocs.end());
    for (const Region& region : block.reads) add(reads_, substitute(region, values));
    for (const Region& region : block.writes) add(writes_, substitute(region, values));
  }

  void add(std::vector<Region>& list, const Buffer& buffer, const std::vector<Expr>& indices) {
    Region region{buffer, {}};
    for (const Expr& index : indices) {
      const Ramp* ramp = index.as<Ramp>();
      const int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
      if (stride) {
        // The box from the first lane to the last, gaps included.
        int64_t last = *stride * (ramp->dtype.lanes - 1);
        region.ranges.push_back({last < 0 ? ramp->base + last : ramp->base, imm(kInt64, std::abs(last) + 1)});
      } else if (index.dtype().lanes > 1) {
        // Lanes anywhere (gathered): the whole dimension.
        size_t dimension = region.ranges.size();
        region.ranges.push_back({imm(kInt64, 0), buffer->shape[dimension]});
      } else {
        region.ranges.push_back({index, imm(kInt64, 1)});
      }
    }
    add(list, std::move(region));
  }

  bool counts(const Buffer& buffer) const { return !only_ || buffer == *only_; }

  void add(std::vector<Region>& list, Region region) {
    if (!counts(region.buffer) || std::find(local_.begin(), local_.end(), region.buffer) != local_.end())
      return;
    // At once, not when the loop ends: the boxes in the list speak of variables outside of `stmt` alone, and
    // can be united.
    Region box = relax(region, domain_, analyzer_);
    for (size_t d = 0; d < box.ranges.size() && !bounds_.empty(); ++d) clip(box.ranges[d], region.ranges[d]);
    region = std::move(box);
    auto same =
        std::find_if(list.begin(), list.end(), [&](const Region& r) { return r.buffer == region.buffer; });
    if (same == list.end())
      list.push_back(std::move(region));
    else
      *same = unite(*same, region, analyzer_);
  }

  /// Ends the box where a condition around the access ends it: places are `part` + something else, and
  /// `part` < limit.
  void clip(Range& box, const Range& places) {
    for (const Expr& bound : bounds_) {
      const Binary* compare = bound.as<Binary>();
      if (!compare || (compare->op != BinaryOp::kLt && compare->op != BinaryOp::kLe)) continue;
      if (!varies(compare->a) || varies(compare->b) || compare->a.dtype() != places.min.dtype()) continue;
      const Expr other = analyzer_.simplify(places.min - compare->a);
      if (varies(other) || !as_int(places.extent)) continue;
      const Expr end = other + compare->b + (compare->op == BinaryOp::kLe ? 1 : 0) + (places.extent - 1),
                 extent = analyzer_.simplify(end - box.min);
      // Of an empty box nothing is known.
      if (analyzer_.can_prove(less(extent, box.extent)) && analyzer_.can_prove(less(0, extent)))
        box.extent = extent;
    }
  }

  /// Uses a variable of the loops inside the statement.
  bool varies(const Expr& e) const {
    return std::any_of(domain_.begin(), domain_.end(),
                       [&](const auto& loop) { return uses_var(e, loop.first.get()); });
  }

  Analyzer analyzer_;
  const Buffer* only_;
  Domain domain_;
  std::vector<Expr> bounds_;  // conditions around
  std::vector<Buffer> local_;
  std::vector<Region> reads_, writes_;
  std::vector<const Load*> seen_;  // of the loops around, some of them
};

/// Provably the same box of the same buffer.
/// What cannot be proved equal counts as different, so the access is declared: one too many does no harm.
bool same_region(const Region& a, const Region& b) {
  if (!(a.buffer == b.buffer)) return false;
  for (size_t i = 0; i < a.ranges.size(); ++i)
    if (!prove_equal(a.ranges[i].min, b.ranges[i].min) ||
        !prove_equal(a.ranges[i].extent, b.ranges[i].extent))
      return false;
  return true;
}
}  // namespace

Domain domain_of(const std::vector<BlockIter>& iters) {
  Domain domain;
  for (const BlockIter& iter : iters) domain.emplace_back(iter.var, iter.extent);
  return domain;
}

Analyzer with_domain(Analyzer analyzer, const Domain& domain) {
  for (const auto& [var, extent] : domain) analyzer.bind_range(var, extent);
  return analyzer;
}

std::optional<Interval> interval_over(const Expr& e, const Domain& domain, const Analyzer& analyzer) {
  auto interval = Relaxation(domain, analyzer).over(analyzer.simplify(e));
  if (!interval) return std::nullopt;
  return Interval{analyzer.simplify(interval->min), analyzer.simplify(interval->max)};
}

Region relax(const Region& region, const Domain& domain, const Analyzer& analyzer) {
  Region result{region.buffer, {}};
  // A dimension of which nothing is known is taken whole, and leaves the others as they are.
  for (size_t i = 0; i < region.ranges.size(); ++i) {
    std::optional<Interval> low = interval_over(region.ranges[i].min, domain, analyzer);
    std::optional<Interval> size = interval_over(region.ranges[i].extent, domain, analyzer);
    if (!low || !size) {
      result.ranges.push_back({imm(kInt64, 0), region.buffer->shape[i]});
      continue;
    }
    // The last start and the largest size together: an upper limit when both vary.
    result.ranges.push_back({low->min, analyzer.simplify(low->max - low->min + size->max)});
  }
  return result;
}

namespace {
/// A corner was itself loaded.
bool reads_memory(const Range& range) {
  bool found = false;
  for (const Expr& e : {range.min, range.extent})
    post_order(e, [&](const NodeRef& node) { found |= node.as<Load>() != nullptr; });
  return found;
}
}  // namespace

Region unite(const Region& a, const Region& b, const Analyzer& analyzer) {
  Region result{a.buffer, {}};
  for (size_t i = 0; i < a.ranges.size(); ++i) {
    const Range &x = a.ranges[i], &y = b.ranges[i];
    // The usual case of several accesses: without a min and a max that would have to be simplified away.
    // By structure and not by proof, which would cost a simplification for each.
    if (structural_equal(x.min, y.min) && structural_equal(x.extent, y.extent)) {
      result.ranges.push_back(x);
      continue;
    }
    if (reads_memory(x) || reads_memory(y)) {
      // What indices in memory reach is known to nobody, and sixteen taps of them double an expression each.
      result.ranges.push_back({imm(kInt64, 0), a.buffer->shape[i]});
      continue;
    }
    Expr low = analyzer.simplify(min(x.min, y.min));
    Expr high = analyzer.simplify(max(x.min + x.extent, y.min + y.extent));
    result.ranges.push_back({low, analyzer.simplify(high - low)});
  }
  return result;
}

Region whole(const Buffer& buffer) {
  Region region{buffer, {}};
  for (const Expr& dim : buffer->shape) region.ranges.push_back({imm(kInt64, 0), dim});
  return region;
}

Region substitute(const Region& region, const VarMap& vars, const BufferMap& buffers) {
  auto renamed = buffers.find(region.buffer.get());
  Region result{renamed == buffers.end() ? region.buffer : renamed->second, {}};
  for (const Range& range : region.ranges)
    result.ranges.push_back({substitute(range.min, vars, buffers), substitute(range.extent, vars, buffers)});
  return result;
}

bool loads_nothing_else(const Expr& e, const Expr& known) {
  std::vector<Expr> loaded;
  post_order(known, [&](const NodeRef& node) {
    if (node.as<Load>()) loaded.push_back(node.cast<ExprNode>());
  });
  bool nothing = true;
  post_order(e, [&](const NodeRef& node) {
    if (node.as<Load>())
      nothing &= std::any_of(loaded.begin(), loaded.end(),
                             [&](const Expr& load) { return structural_equal(load, node); });
  });
  return nothing;
}

Expr element_count(const Region& region) {
  Expr count = imm(kInt64, 1);
  for (const Range& range : region.ranges) count = count * range.extent;
  return simplify(count);
}

Accesses accesses_of(const Stmt& stmt, const Analyzer& analyzer, const Buffer* only) {
  return Collector(analyzer, only).collect(stmt);
}

Accesses block_accesses(const std::vector<BlockIter>& iters, const Stmt& init, const Stmt& body) {
  // Nothing is known but the iterators: what a block declares must hold wherever a schedule moves it.
  Analyzer analyzer = with_domain({}, domain_of(iters));
  Accesses accesses = accesses_of(seq({init, body}), analyzer);
  // The body's read of what init has written is the accumulator.
  if (init) {
    std::erase_if(accesses.reads, [&](const Region& read) {
      return std::any_of(accesses.writes.begin(), accesses.writes.end(),
                         [&](const Region& write) { return same_region(read, write); });
    });
  }
  return accesses;
}

}  // namespace lathe::tir
