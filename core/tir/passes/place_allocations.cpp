#include "core/tir/passes/place_allocations.h"

#include <algorithm>

#include "core/tir/passes/mutator.h"
#include "core/tir/regions.h"

namespace lathe::tir {
namespace {
bool uses(const NodeRef& node, const Buffer& buffer) {
  bool found = false;
  if (node) post_order(node, [&](const NodeRef& n) { found |= n.same_as(buffer.get()); });
  return found;
}

bool same_indices(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t d = 0; d < a.size(); ++d)
    if (!structural_equal(a[d], b[d])) return false;
  return true;
}

/// Whether an index depends on `v`.
bool uses_var(const std::vector<Expr>& indices, const Var& v) {
  for (const Expr& index : indices)
    if (lathe::uses_var(index, v.get())) return true;
  return false;
}

bool uses_any(const Expr& e, const std::vector<Var>& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return lathe::uses_var(e, v.get()); });
}

/// An iteration of `loop` reads `buffer` before it stores to it.
bool reads_first(const For& loop, const Buffer& buffer) {
  std::optional<bool> reads;
  post_order(loop.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    const Store* store = node.as<Store>();
    if (!reads && load && load->buffer == buffer) reads = true;
    if (!reads && store && store->buffer == buffer) reads = false;
  });
  return reads.value_or(false);
}

const Region* region_of(const std::vector<Region>& regions, const Buffer& buffer) {
  auto found =
      std::find_if(regions.begin(), regions.end(), [&](const Region& r) { return r.buffer == buffer; });
  return found == regions.end() ? nullptr : &*found;
}

/// An iteration of `loop` surely reads elements of `buffer` that only other iterations store. Of a dimension
/// along which iterations do not move they store the same: what is read beyond it nobody stores, as padding.
bool reads_of_others(const For& loop, const Buffer& buffer, Analyzer analyzer) {
  analyzer.bind_range(loop.var, loop.extent);
  const Accesses accesses = accesses_of(loop.body, analyzer, &buffer);
  const Region *read = region_of(accesses.reads, buffer), *stored = region_of(accesses.writes, buffer);
  if (!read || !stored) return false;
  for (size_t d = 0; d < read->ranges.size(); ++d) {
    const Range &from = read->ranges[d], &to = stored->ranges[d];
    if (!uses_var({to.min, to.extent}, loop.var)) continue;
    if (analyzer.can_prove(less(from.min, to.min)) ||
        analyzer.can_prove(less(to.min + to.extent, from.min + from.extent)))
      return true;
  }
  return false;
}

/// Iterations of `loop` hand values of `buffer` to later ones: a store in it reads what an earlier iteration
/// may have stored.
bool accumulates(const For& loop, const Buffer& buffer) {
  bool found = false;
  post_order(loop.body, [&](const NodeRef& node) {
    const Store* store = node.as<Store>();
    if (!store || store->buffer != buffer) return;
    post_order(store->value, [&](const NodeRef& inner) {
      const Load* load = inner.as<Load>();
      if (!load || load->buffer != buffer) return;
      // The same element, and another one in each iteration: what it reads was written in this iteration.
      found |= !same_indices(load->indices, store->indices) || !uses_var(store->indices, loop.var);
    });
  });
  return found;
}

/// A store to `buffer` stands under a condition on `v`.
bool stores_under_condition(const Stmt& stmt, const Buffer& buffer, const Var& v, bool conditional = false) {
  auto inside = [&](const Stmt& inner, bool now) {
    return inner && stores_under_condition(inner, buffer, v, now);
  };
  if (const Store* store = stmt.as<Store>()) return conditional && store->buffer == buffer;
  if (const For* loop = stmt.as<For>()) return inside(loop->body, conditional);
  if (const Alloc* alloc = stmt.as<Alloc>()) return inside(alloc->body, conditional);
  if (const If* branch = stmt.as<If>()) {
    bool now = conditional || lathe::uses_var(branch->condition, v.get());
    return inside(branch->then_case, now) || inside(branch->else_case, now);
  }
  const Seq* seq = stmt.as<Seq>();
  return seq && std::any_of(seq->stmts.begin(), seq->stmts.end(),
                            [&](const Stmt& s) { return inside(s, conditional); });
}

/// The statement under a condition and nothing else, when it alone uses `buffer`; else null.
const Stmt* guarded_user(const Stmt& stmt, const Buffer& buffer) {
  const If* branch = stmt.as<If>();
  return branch && !branch->else_case && !uses(branch->condition, buffer) ? &branch->then_case : nullptr;
}

/// Some iterations store nothing, and all of them read the same element: it must outlive an iteration.
bool outlives_iterations(const For& loop, const Buffer& buffer) {
  const Stmt* user = &loop.body;
  while (const Stmt* inner = guarded_user(*user, buffer)) user = inner;
  if (!stores_under_condition(*user, buffer, loop.var)) return false;
  bool found = false;
  post_order(loop.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    found |= load && load->buffer == buffer && !uses_var(load->indices, loop.var);
  });
  return found;
}

/// Whether the buffer may live inside one iteration, as iterations of a parallel loop need it. Vectorized and
/// unrolled loops become copies of their body and would copy the buffer too.
bool may_hold(const For& loop, const Buffer& buffer, const Analyzer& analyzer) {
  bool copies = loop.iteration == Iteration::kVectorized || loop.iteration == Iteration::kUnrolled;
  return !copies && !accumulates(loop, buffer) && !outlives_iterations(loop, buffer) &&
         !reads_first(loop, buffer) && !reads_of_others(loop, buffer, analyzer);
}

/// Gives `buffer` a place in `body`.
/// The walk goes straight inward, so the ranges it has bound all hold where it ends.
class Placer {
 public:
  Placer(Buffer buffer, Analyzer analyzer) : buffer_(std::move(buffer)), analyzer_(std::move(analyzer)) {}

  Stmt place(const Stmt& stmt) {
    if (const For* loop = stmt.as<For>(); loop && may_hold(*loop, buffer_, analyzer_)) {
      analyzer_.bind_range(loop->var, loop->extent);
      if (loop->iteration == Iteration::kParallel) enter_task(*loop);
      loops_.push_back(loop->var);
      return with_body(stmt.cast<For>(), place(loop->body));
    }
    if (const Seq* seq = stmt.as<Seq>()) {
      std::vector<Stmt> stmts = seq->stmts;
      size_t last = 0, users = 0;
      for (size_t i = 0; i < stmts.size(); ++i)
        if (uses(stmts[i], buffer_)) last = i, ++users;
      // Of two users neither can hold the buffer: it stays around the sequence.
      if (users == 1) {
        stmts[last] = place(stmts[last]);
        return tir::seq(std::move(stmts));
      }
    }
    if (const Stmt* inner = guarded_user(stmt, buffer_))
      return make<If>(stmt.as<If>()->condition, place(*inner));
    if (const Alloc* alloc = stmt.as<Alloc>()) return make<Alloc>(alloc->buffer, place(alloc->body));
    return allocate(stmt);
  }

  /// The place that was found is a thread's own memory, and how much of it depends on an open dimension.
  bool open_in_thread() const { return open_in_thread_; }

  /// Where it is open, with a part for each iteration of the parallel loops, which are one nest: the caller
  /// allocates it outside of them. Null where they are none.
  const Buffer& shared() const { return shared_; }

 private:
  void enter_task(const For& loop) {
    const bool is_first = !number_;
    is_nest_ &= (is_first || next_is_parallel_) && !uses_any(loop.extent, loops_);
    number_ = is_first ? Expr(loop.var) : number_ * loop.extent + loop.var;
    count_ = is_first ? loop.extent : count_ * loop.extent;
    const For* next = loop.body.as<For>();
    next_is_parallel_ = next && next->iteration == Iteration::kParallel;
  }

  /// Around all accesses in `stmt`; nothing when there is none.
  std::optional<Region> box_of(const Stmt& stmt, const Analyzer& analyzer) const {
    Accesses accesses = accesses_of(stmt, analyzer, &buffer_);
    std::optional<Region> box;
    for (const std::vector<Region>* regions : {&accesses.reads, &accesses.writes})
      for (const Region& region : *regions)
        if (region.buffer == buffer_) box = box ? unite(*box, region, analyzer) : region;
    return box;
  }

  static int64_t most(const Expr& e, const Analyzer& analyzer) {
    Expr extent = analyzer.simplify(e);
    return as_int(extent) ? *as_int(extent) : analyzer.bound(extent).max;
  }

  /// Here, around `stmt`, as large as the box of all its accesses and with indices counted from the corner of
  /// that box. A dimension shrinks only where a constant bounds the box: memory needs a constant size. Where
  /// the extent varies, its largest value counts.
  Stmt allocate(const Stmt& stmt) {
    std::optional<Region> box = box_of(stmt, analyzer_);
    if (!box) return stmt;
    std::vector<Expr> shape, base;
    bool smaller = false;
    for (size_t d = 0; d < box->ranges.size(); ++d) {
      const int64_t bound = most(box->ranges[d].extent, analyzer_);
      const int64_t* whole = as_int(buffer_->shape[d]);
      // Of an open dimension a known part may be larger than the whole, which does no harm.
      bool shrinks = whole ? bound < *whole : bound < INT64_MAX;
      smaller |= shrinks;
      shape.push_back(shrinks ? Expr(bound) : buffer_->shape[d]);
      base.push_back(shrinks ? analyzer_.simplify(box->ranges[d].min) : Expr(0));
    }
    open_in_thread_ = number_ && !std::all_of(shape.begin(), shape.end(),
                                              [](const Expr& extent) { return as_int(extent) != nullptr; });
    if (open_in_thread_ && is_nest_ && !next_is_parallel_) {
      shape.insert(shape.begin(), simplify(count_));
      shared_ = buffer(buffer_->name, shape, buffer_->dtype);
      return rebased(stmt, shared_, base);
    }
    if (!smaller) return make<Alloc>(buffer_, stmt);
    Buffer small = buffer(buffer_->name, shape, buffer_->dtype, buffer_->scope);
    return make<Alloc>(small, rebased(stmt, small, base));
  }

  /// With `base` as the corner, and the number of the iteration first where `small` has a part for each.
  Stmt rebased(const Stmt& stmt, const Buffer& small, const std::vector<Expr>& base) {
    auto rebase = [&](std::vector<Expr> indices) {
      for (size_t d = 0; d < indices.size(); ++d) indices[d] = simplify(indices[d] - base[d]);
      if (small == shared_) indices.insert(indices.begin(), simplify(number_));
      return indices;
    };
    NodeRef result = rewrite(stmt, [&](const NodeRef& node) -> NodeRef {
      if (const Load* load = node.as<Load>(); load && load->buffer == buffer_)
        return tir::load(small, rebase(load->indices));
      if (const Store* store = node.as<Store>(); store && store->buffer == buffer_)
        return tir::store(small, rebase(store->indices), store->value);
      return node;
    });
    return result.cast<StmtNode>();
  }

  Buffer buffer_, shared_;
  Analyzer analyzer_;
  std::vector<Var> loops_;  // on the way here
  Expr number_, count_;     // of the iteration of the parallel ones, and how many there are
  bool is_nest_ = true, next_is_parallel_ = false, open_in_thread_ = false;
};

class PlaceAllocations final : public StmtMutator {
 protected:
  Stmt visit_alloc(const Ref<Alloc>& alloc) override {
    // From the inside out: the innermost buffers have their places before the box of an outer one is asked
    // for.
    Stmt body = visit(alloc->body);
    if (!body || !uses(body, alloc->buffer)) return body;
    Placer placer(alloc->buffer, analyzer_);
    Stmt placed = placer.place(body);
    if (!placer.open_in_thread()) return placed;
    // A thread's own memory has a size that is known: this stays in the workspace, where each iteration has a
    // part of its own.
    if (placer.shared()) return make<Alloc>(placer.shared(), placed);
    const Buffer& own = alloc->buffer;
    Buffer shared = buffer(own->name, own->shape, own->dtype);
    return make<Alloc>(shared, substitute(body, {}, {{own.get(), shared}}));
  }
};
}  // namespace

Stmt place_allocations(const Stmt& body) { return PlaceAllocations().visit(body); }

}  // namespace lathe::tir
