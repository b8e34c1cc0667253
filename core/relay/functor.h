// Walking and rewriting expressions. Three classes, as the field knows them:
//   ExprFunctor<R>  dispatch on the kind of an expression;
//   ExprVisitor     visits each distinct expression once;
//   ExprMutator     rewrites each distinct expression once; an untouched expression comes back as the same
//   node.
// Visitor and mutator reach the operands of calls, tuples, projections and lets from an explicit stack, so a
// chain of 100,000 calls or lets is no problem; functions, branches and match clauses nest on the machine's
// stack, which grows with them (core/support/stack.h).
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "core/relay/expr.h"
#include "core/support/node_map.h"

namespace lathe::relay {

template <typename R>
class ExprFunctor {
 public:
  virtual ~ExprFunctor() = default;
  virtual R visit(const Expr& e) { return dispatch(e); }

 protected:
  /// What a kind without its own override does.
  virtual R visit_default(const Expr& e) = 0;
  virtual R visit_constant(const Ref<Constant>& e) { return visit_default(e); }
  virtual R visit_var(const Var& e) { return visit_default(e); }
  virtual R visit_global_var(const GlobalVar& e) { return visit_default(e); }
  virtual R visit_op(const Ref<OpNode>& e) { return visit_default(e); }
  virtual R visit_constructor(const Constructor& e) { return visit_default(e); }
  virtual R visit_call(const Ref<Call>& e) { return visit_default(e); }
  virtual R visit_let(const Ref<Let>& e) { return visit_default(e); }
  virtual R visit_function(const Ref<Function>& e) { return visit_default(e); }
  virtual R visit_tuple(const Ref<Tuple>& e) { return visit_default(e); }
  virtual R visit_projection(const Ref<Projection>& e) { return visit_default(e); }
  virtual R visit_if(const Ref<If>& e) { return visit_default(e); }
  virtual R visit_match(const Ref<Match>& e) { return visit_default(e); }
  virtual R visit_ref_create(const Ref<RefCreate>& e) { return visit_default(e); }
  virtual R visit_ref_read(const Ref<RefRead>& e) { return visit_default(e); }
  virtual R visit_ref_write(const Ref<RefWrite>& e) { return visit_default(e); }
  virtual R visit_grad(const Ref<Grad>& e) { return visit_default(e); }
  virtual R visit_prim_func(const Ref<PrimFunc>& e) { return visit_default(e); }
  virtual R visit_extern_func(const Ref<ExternFunc>& e) { return visit_default(e); }
  virtual R visit_match_cast(const Ref<MatchCast>& e) { return visit_default(e); }
  virtual R visit_dataflow(const Ref<Dataflow>& e) { return visit_default(e); }

  R dispatch(const Expr& e) {
    switch (e->kind()) {
      case ExprKind::kConstant:
        return visit_constant(e.cast<Constant>());
      case ExprKind::kVar:
        return visit_var(e.cast<VarNode>());
      case ExprKind::kGlobalVar:
        return visit_global_var(e.cast<GlobalVarNode>());
      case ExprKind::kOp:
        return visit_op(e.cast<OpNode>());
      case ExprKind::kConstructor:
        return visit_constructor(e.cast<ConstructorNode>());
      case ExprKind::kCall:
        return visit_call(e.cast<Call>());
      case ExprKind::kLet:
        return visit_let(e.cast<Let>());
      case ExprKind::kFunction:
        return visit_function(e.cast<Function>());
      case ExprKind::kTuple:
        return visit_tuple(e.cast<Tuple>());
      case ExprKind::kProjection:
        return visit_projection(e.cast<Projection>());
      case ExprKind::kIf:
        return visit_if(e.cast<If>());
      case ExprKind::kMatch:
        return visit_match(e.cast<Match>());
      case ExprKind::kRefCreate:
        return visit_ref_create(e.cast<RefCreate>());
      case ExprKind::kRefRead:
        return visit_ref_read(e.cast<RefRead>());
      case ExprKind::kRefWrite:
        return visit_ref_write(e.cast<RefWrite>());
      case ExprKind::kGrad:
        return visit_grad(e.cast<Grad>());
      case ExprKind::kPrimFunc:
        return visit_prim_func(e.cast<PrimFunc>());
      case ExprKind::kExternFunc:
        return visit_extern_func(e.cast<ExternFunc>());
      case ExprKind::kMatchCast:
        return visit_match_cast(e.cast<MatchCast>());
      case ExprKind::kDataflow:
        return visit_dataflow(e.cast<Dataflow>());
    }
    CHECK(false, "expression of kind {}", e->kind_id());
  }
};

/// The operands of `e` that are expressions, arguments before the callee; patterns and types are not entered.
/// `in_scope` tells those evaluated in e's own scope from bodies (of functions, lets, branches, clauses).
void for_each_operand(const Expr& e, FunctionRef<void(const Expr& operand, bool in_scope)> f);

class ExprVisitor : public ExprFunctor<void> {
 public:
  void visit(const Expr& e) final;

 protected:
  /// Between the value of a let and its body.
  virtual void enter_let(const Ref<Let>&) {}
  /// Visits the operands.
  void visit_default(const Expr& e) override;

 private:
  NodeSet visited_;
};

class ExprMutator : public ExprFunctor<Expr> {
 public:
  Expr visit(const Expr& e) final;
  template <typename T>
  Ref<T> visit_as(const Ref<T>& e) {
    return visit(e).template cast<T>();
  }

 protected:
  /// Between the (rewritten) value of a let and its body: to substitute the variable, set(let->var, value).
  virtual void enter_let(const Ref<Let>&) {}
  virtual Type visit_type(const Type& type) { return type; }
  /// The expression over rewritten operands. It keeps the type and span it had.
  Expr visit_default(const Expr& e) override;
  /// Says that `to` stands for `from` from now on.
  void set(const Expr& from, Expr to) { done_[from.get()] = {from, std::move(to)}; }

 private:
  NodeRef visit_child(const NodeRef& child);

  struct Done {
    Expr from, to;  // the first keeps the key alive
  };
  NodeMap<Done> done_;
};

/// The module with each global function replaced by f(function); the same module when nothing changed.
Module map_functions(const Module& module, FunctionRef<Ref<Function>(const Ref<Function>&)> f);

/// `e` with free variables replaced.
Expr substitute(const Expr& e, const std::unordered_map<const Node*, Expr>& values);

}  // namespace lathe::relay
