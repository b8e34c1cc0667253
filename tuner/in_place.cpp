#include "tuner/in_place.h"

#include <set>

namespace lathe::tuner {
namespace {

using namespace tir;

bool same_indices(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!structural_equal(a[i], b[i])) return false;
  return true;
}

bool uses(const std::vector<Expr>& indices, const Var& var) {
  bool found = false;
  for (const Expr& index : indices)
    post_order(index, [&](const NodeRef& node) { found |= node.get() == var.get(); });
  return found;
}

/// Walks the program once and strikes out the inputs that are read anywhere else than where they are
/// overwritten.
class Walk {
 public:
  explicit Walk(const FuncNode& func) : result_(func.params.back()) {
    for (size_t i = 0; i + 1 < func.params.size(); ++i)
      // Sharing means byte for byte: another type or shape puts elements elsewhere.
      if (func.params[i]->dtype == result_->dtype &&
          constant_shape(func.params[i]) == constant_shape(result_))
        candidates_.insert(func.params[i].get());
  }

  std::set<const Node*> candidates(const Stmt& body) {
    if (!candidates_.empty()) visit(body);
    return std::move(candidates_);
  }

 private:
  /// `loops_` holds the loops around `stmt` that run more than once.
  void visit(const Stmt& stmt) {
    if (const For* loop = stmt.as<For>()) {
      read(loop->extent, nullptr);
      bool repeats = !is_int(loop->extent, 1);
      if (repeats) loops_.push_back(loop->var);
      visit(loop->body);
      if (repeats) loops_.pop_back();
    } else if (const Seq* seq = stmt.as<Seq>()) {
      for (const Stmt& each : seq->stmts) visit(each);
    } else if (const If* branch = stmt.as<If>()) {
      read(branch->condition, nullptr);
      visit(branch->then_case);
      if (branch->else_case) visit(branch->else_case);
    } else if (const Alloc* alloc = stmt.as<Alloc>()) {
      visit(alloc->body);
    } else if (const Store* store = stmt.as<Store>()) {
      // A loop that no index of the store uses writes its element again in each iteration, when the input
      // that lay there is gone.
      bool final = store->buffer == result_;
      for (const Var& loop : loops_)
        if (final && !uses(store->indices, loop)) candidates_.clear();  // stores an element again and again
      read(store->value, final ? &store->indices : nullptr);
      // An index that is loaded is read apart from any element.
      for (const Expr& index : store->indices) read(index, nullptr);
    }
  }

  /// `allowed`: where the element of the result lies that the expression makes; null: it makes none.
  void read(const Expr& expr, const std::vector<Expr>* allowed) {
    post_order(expr, [&](const NodeRef& node) {
      const Load* load = node.as<Load>();
      if (!load) return;
      // A result that is read, a partial sum say, was stored before: the input's element would be gone by
      // then.
      if (load->buffer == result_) candidates_.clear();
      if (!allowed || !same_indices(load->indices, *allowed)) candidates_.erase(load->buffer.get());
    });
  }

  Buffer result_;
  std::set<const Node*> candidates_;
  std::vector<Var> loops_;
};

}  // namespace

std::vector<int64_t> in_place_arguments(const FuncNode& lowered) {
  std::vector<int64_t> arguments;
  if (lowered.outputs != 1) return arguments;
  std::set<const Node*> found = Walk(lowered).candidates(lowered.body);
  for (size_t i = 0; i + 1 < lowered.params.size(); ++i)
    if (found.count(lowered.params[i].get())) arguments.push_back(static_cast<int64_t>(i));
  return arguments;
}

}  // namespace lathe::tuner
