#include "schedules/regions.h"

#include "core/support/error.h"

namespace lathe::schedule {

using namespace tir;

namespace {
bool uses_any(const Expr& e, const Relaxed& relaxed) {
  bool found = false;
  post_order(e, [&](const NodeRef& node) {
    if (const VarNode* v = node.as<VarNode>()) found |= relaxed.count(v) > 0;
  });
  return found;
}

std::optional<Interval> relax_binary(const Binary& e, const Relaxed& relaxed, const Analyzer& context) {
  auto a = relax(e.a, relaxed, context), b = relax(e.b, relaxed, context);
  if (!a || !b) return std::nullopt;
  const int64_t* right = as_int(e.b);
  const int64_t* left = as_int(e.a);
  switch (e.op) {
    case BinaryOp::kAdd:
      return Interval{a->min + b->min, a->max + b->max};
    case BinaryOp::kSub:
      return Interval{a->min - b->max, a->max - b->min};
    case BinaryOp::kMin:
      return Interval{min(a->min, b->min), min(a->max, b->max)};
    case BinaryOp::kMax:
      return Interval{max(a->min, b->min), max(a->max, b->max)};
    case BinaryOp::kMul:
      if (left)
        return *left >= 0 ? Interval{b->min * *left, b->max * *left}
                          : Interval{b->max * *left, b->min * *left};
      if (right)
        return *right >= 0 ? Interval{a->min * *right, a->max * *right}
                           : Interval{a->max * *right, a->min * *right};
      return std::nullopt;
    case BinaryOp::kFloorDiv:
      if (!right || *right <= 0) return std::nullopt;
      return Interval{floordiv(a->min, *right), floordiv(a->max, *right)};
    case BinaryOp::kFloorMod:
      if (!right || *right <= 0) return std::nullopt;
      if (context.can_prove_equal(floordiv(a->min, *right), floordiv(a->max, *right)))
        return Interval{floormod(a->min, *right), floormod(a->max, *right)};
      return Interval{Expr(0), Expr(*right - 1)};
    default:
      return std::nullopt;
  }
}
}  // namespace

std::optional<Interval> relax(const Expr& e, const Relaxed& relaxed, const Analyzer& context) {
  if (!uses_any(e, relaxed)) return Interval{e, e};
  if (const VarNode* v = e.as<VarNode>()) return Interval{Expr(0), relaxed.at(v) - 1};
  if (const Binary* binary = e.as<Binary>()) return relax_binary(*binary, relaxed, context);
  return std::nullopt;
}

std::vector<Interval> touched(const Region& region, const Ref<Block>& block, const Relaxed& relaxed,
                              const Analyzer& context) {
  VarMap bindings;
  for (const BlockIter& iter : block->iters) bindings[iter.var.get()] = iter.value;
  std::vector<Interval> box;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Range& range = region.ranges[d];
    auto low = relax(context.simplify(substitute(range.min, bindings)), relaxed, context);
    auto high = relax(context.simplify(substitute(range.min + range.extent - 1, bindings)), relaxed, context);
    if (low && high)
      box.push_back({context.simplify(low->min), context.simplify(high->max)});
    else
      box.push_back({Expr(0), region.buffer->shape[d] - 1});
  }
  return box;
}

Interval hull(const Interval& a, const Interval& b, const Analyzer& context) {
  auto lower = [&](const Expr& x, const Expr& y) {
    if (context.can_prove(less_equal(x, y))) return x;
    return context.can_prove(less_equal(y, x)) ? y : min(x, y);
  };
  auto upper = [&](const Expr& x, const Expr& y) {
    if (context.can_prove(less_equal(x, y))) return y;
    return context.can_prove(less_equal(y, x)) ? x : max(x, y);
  };
  return {lower(a.min, b.min), upper(a.max, b.max)};
}

namespace {
/// Boxes of the buffers that statements touch, in order of first touch.
class RegionCollector {
 public:
  std::vector<Region> reads() const { return regions(reads_); }
  std::vector<Region> writes() const { return regions(writes_); }

  void visit(const Stmt& stmt) {
    if (!stmt) return;
    if (const For* loop = stmt.as<For>()) {
      loops_[loop->var.get()] = loop->extent;
      context_.bind_range(loop->var, loop->extent);
      visit_expr(loop->extent);
      visit(loop->body);
    } else if (const Seq* sequence = stmt.as<Seq>()) {
      for (const Stmt& child : sequence->stmts) visit(child);
    } else if (const If* branch = stmt.as<If>()) {
      visit_expr(branch->condition);
      visit(branch->then_case);
      visit(branch->else_case);
    } else if (const Store* store = stmt.as<Store>()) {
      for (const Expr& index : store->indices) visit_expr(index);
      visit_expr(store->value);
      add(writes_, store->buffer, store->indices);
    }
  }

 private:
  struct Touched {
    Buffer buffer;
    std::vector<Interval> box;
  };

  static std::vector<Region> regions(const std::vector<Touched>& touched) {
    std::vector<Region> result;
    for (const Touched& each : touched) {
      Region region{each.buffer, {}};
      for (const Interval& i : each.box) region.ranges.push_back({i.min, simplify(i.max - i.min + 1)});
      result.push_back(std::move(region));
    }
    return result;
  }

  void visit_expr(const Expr& e) {
    post_order(e, [&](const NodeRef& node) {
      if (const Load* load = node.as<Load>()) add(reads_, load->buffer, load->indices);
    });
  }

  void add(std::vector<Touched>& list, const Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<Interval> box;
    for (size_t d = 0; d < indices.size(); ++d) {
      auto interval = has_load(indices[d]) ? std::nullopt : relax(indices[d], loops_, context_);
      box.push_back(interval ? *interval : Interval{Expr(0), buffer->shape[d] - 1});
    }
    for (Touched& each : list) {
      if (each.buffer != buffer) continue;
      for (size_t d = 0; d < box.size(); ++d)
        if (!structural_equal(each.box[d].min, box[d].min) || !structural_equal(each.box[d].max, box[d].max))
          each.box[d] = hull(each.box[d], box[d], context_);
      return;
    }
    list.push_back({buffer, std::move(box)});
  }

  static bool has_load(const Expr& e) {
    bool found = false;
    post_order(e, [&](const NodeRef& node) { found |= node.as<Load>() != nullptr; });
    return found;
  }

  Relaxed loops_;
  Analyzer context_;
  std::vector<Touched> reads_, writes_;
};
}  // namespace

void infer_regions(Block& block) {
  RegionCollector collector;
  collector.visit(block.init);
  collector.visit(block.body);
  std::set<const BufferNode*> own, declared;
  for (const Region& region : collector.writes()) own.insert(region.buffer.get());
  for (const Region& region : block.reads) declared.insert(region.buffer.get());
  block.writes = collector.writes();
  block.reads.clear();
  // A reduction's reading of what it accumulates is declared only where it was before.
  for (Region& region : collector.reads())
    if (!own.count(region.buffer.get()) || declared.count(region.buffer.get()))
      block.reads.push_back(std::move(region));
}

}  // namespace lathe::schedule
