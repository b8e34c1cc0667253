#include "core/relay/functor.h"

#include <algorithm>
#include <functional>

#include "core/support/stack.h"

namespace lathe::relay {
namespace {

/// The operand that a let's chain continues with is left out: it has its own turn, after enter_let.
bool on_explicit_stack(ExprKind kind) {
  return kind != ExprKind::kFunction && kind != ExprKind::kIf && kind != ExprKind::kMatch;
}

/// Calls finish(e) for `root` and what it needs, operands first, each once. What finish() recurses into
/// (bodies) comes by here again, as deep as the program nests.
void walk(const Expr& root, FunctionRef<bool(const Expr&)> is_done, FunctionRef<void(const Expr&)> finish,
          FunctionRef<void(const Ref<Let>&)> enter_let) {
  struct Frame {
    const Expr*
        e;  // a field of a node that `root` keeps alive: counting references takes as long as the rest
    int stage = 0;
  };
  std::vector<Frame> stack{{&root}};
  while (!stack.empty()) {
    // A copy: pushing below moves the frames.
    Frame frame = stack.back();
    const Expr& e = *frame.e;
    // Looked up when it is met first, no more: of a long program each look is a miss of the cache.
    if (frame.stage == 0 && is_done(e)) {
      stack.pop_back();
      continue;
    }
    // Stages of a let: operands (its value), then enter_let and the body, then itself. Others: operands,
    // itself. finish() may walk on its own (bodies of functions), and finds their operands done.
    stack.back().stage += 1;
    const Let* let = e.as<Let>();
    int last_stage = let ? 2 : 1;
    if (frame.stage == last_stage || !on_explicit_stack(e->kind())) {
      stack.pop_back();
      finish(e);
    } else if (frame.stage == 1) {  // only a let has this stage
      enter_let(e.cast<Let>());
      stack.push_back({&let->body});
    } else {
      // Pushed in reverse, so that they are finished in the order of evaluation.
      size_t first = stack.size();
      for_each_operand(e, [&](const Expr& operand, bool in_scope) {
        if (in_scope) stack.push_back({&operand});
      });
      std::reverse(stack.begin() + static_cast<long>(first), stack.end());
    }
  }
}

}  // namespace

void for_each_operand(const Expr& e, FunctionRef<void(const Expr&, bool)> f) {
  switch (e->kind()) {
    case ExprKind::kCall: {
      const Call& call = *e.as<Call>();
      for (const Expr& arg : call.args) f(arg, true);
      f(call.callee, true);
      return;
    }
    case ExprKind::kLet: {
      const Let& let = *e.as<Let>();
      f(let.value, true);
      f(let.body, false);
      return;
    }
    case ExprKind::kFunction:
      f(e.as<Function>()->body, false);
      return;
    case ExprKind::kTuple:
      for (const Expr& item : e.as<Tuple>()->items) f(item, true);
      return;
    case ExprKind::kProjection:
      f(e.as<Projection>()->tuple, true);
      return;
    case ExprKind::kIf: {
      const If& branch = *e.as<If>();
      f(branch.condition, true);
      f(branch.then_case, false);
      f(branch.else_case, false);
      return;
    }
    case ExprKind::kMatch: {
      const Match& match = *e.as<Match>();
      f(match.value, true);
      for (const Clause& clause : match.clauses) f(clause.body, false);
      return;
    }
    case ExprKind::kRefCreate:
      f(e.as<RefCreate>()->value, true);
      return;
    case ExprKind::kRefRead:
      f(e.as<RefRead>()->ref, true);
      return;
    case ExprKind::kRefWrite:
      f(e.as<RefWrite>()->ref, true);
      f(e.as<RefWrite>()->value, true);
      return;
    case ExprKind::kGrad:
      f(e.as<Grad>()->function, true);
      return;
    case ExprKind::kMatchCast:
      f(e.as<MatchCast>()->value, true);
      return;
    case ExprKind::kDataflow:
      f(e.as<Dataflow>()->body, false);
      return;
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobalVar:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kPrimFunc:
    case ExprKind::kExternFunc:
      return;
  }
}

void ExprVisitor::visit(const Expr& e) {
  if (visited_.count(e.get())) return;
  with_enough_stack([&] {
    walk(
        e, [&](const Expr& each) { return visited_.count(each.get()); },
        [&](const Expr& each) {
          visited_.insert(each.get());
          dispatch(each);
        },
        [&](const Ref<Let>& let) { enter_let(let); });
  });
}

/// Of what walk() has on its stack the operands are done already; functions, branches and matches recurse
/// here.
void ExprVisitor::visit_default(const Expr& e) {
  for_each_operand(e, [&](const Expr& operand, bool) { visit(operand); });
}

Expr ExprMutator::visit(const Expr& e) {
  if (const Done* found = done_.find(e.get())) return found->to;
  with_enough_stack([&] {
    walk(
        e, [&](const Expr& each) { return done_.count(each.get()); },
        [&](const Expr& each) {
          Expr result = dispatch(each);
          set(each, std::move(result));
        },
        [&](const Ref<Let>& let) { enter_let(let); });
  });
  return done_.at(e.get()).to;
}

NodeRef ExprMutator::visit_child(const NodeRef& child) {
  // First what is known of it: most are done, and the kind of a node takes longer to find out.
  if (const Done* found = done_.find(child.get())) return found->to;
  if (dynamic_cast<const RelayNode*>(child.get())) return visit(child.cast<RelayNode>());
  if (dynamic_cast<const TypeNode*>(child.get())) return visit_type(child.cast<TypeNode>());
  // Patterns bind variables, which an override may replace.
  if (dynamic_cast<const PatternNode*>(child.get()))
    return child->map_children([&](const NodeRef& part) { return visit_child(part); });
  return child;
}

Expr ExprMutator::visit_default(const Expr& e) {
  return e->map_children([&](const NodeRef& child) { return visit_child(child); }).cast<RelayNode>();
}

Module map_functions(const Module& module, FunctionRef<Ref<Function>(const Ref<Function>&)> f) {
  auto result = mutate(*module);
  bool changed = false;
  for (auto& [name, function] : result->functions) {
    Ref<Function> mapped = f(function);
    // Pointer comparison: passes give back the same function when nothing changed.
    changed |= !(mapped == function);
    function = std::move(mapped);
  }
  return changed ? seal(std::move(result)) : module;
}

Expr substitute(const Expr& e, const std::unordered_map<const Node*, Expr>& values) {
  class Substitute : public ExprMutator {
   public:
    explicit Substitute(const std::unordered_map<const Node*, Expr>& values) : values_(values) {}
    Expr visit_var(const Var& var) override {
      auto found = values_.find(var.get());
      return found == values_.end() ? Expr(var) : found->second;
    }

   private:
    const std::unordered_map<const Node*, Expr>& values_;
  };
  return values.empty() ? e : Substitute(values).visit(e);
}

}  // namespace lathe::relay
