// Walks functions and gives every expression a type with holes, and operators their relations.
#pragma once

#include <deque>

#include "core/relay/functor.h"
#include "core/relay/infer/unifier.h"
#include "core/relay/op.h"
#include "core/relay/passes/infer_type.h"

namespace lathe::relay {

/// Throws TypeError at the place of `e`.
[[noreturn]] void type_error(const Expr& e, std::string_view message);

/// Where to report what is wrong with `operand` of `e`: at itself, but for a variable, which knows the place
/// of its binder alone.
inline const Expr& place(const Expr& operand, const Expr& e) { return operand.as<VarNode>() ? e : operand; }

class TypeCollector : public ExprVisitor {
 public:
  explicit TypeCollector(const Module& module);
  /// Types one global function, after the ones it calls; solves what can be solved.
  void add(const std::string& name);
  /// REQUIRES: every function is added. Throws Error for a relation that is still waiting.
  void finish();
  /// Fully known. Throws Error when a hole is left.
  Type type_of(const Expr& e) const;
  /// REQUIRES: finish().
  const std::vector<DimCheck>& checks() const { return checks_; }

 protected:
  void visit_default(const Expr& e) override;
  void visit_constant(const Ref<Constant>& e) override;
  void visit_var(const Var& e) override;
  void visit_global_var(const GlobalVar& e) override;
  void visit_op(const Ref<OpNode>&) override {}
  void visit_extern_func(const Ref<ExternFunc>&) override {}
  void visit_constructor(const Constructor& e) override;
  void visit_call(const Ref<Call>& e) override;
  void visit_let(const Ref<Let>& e) override;
  void visit_function(const Ref<Function>& e) override;
  void visit_tuple(const Ref<Tuple>& e) override;
  void visit_projection(const Ref<Projection>& e) override;
  void visit_if(const Ref<If>& e) override;
  void visit_match(const Ref<Match>& e) override;
  void visit_ref_create(const Ref<RefCreate>& e) override;
  void visit_ref_read(const Ref<RefRead>& e) override;
  void visit_ref_write(const Ref<RefWrite>& e) override;
  void visit_grad(const Ref<Grad>& e) override;
  void visit_prim_func(const Ref<PrimFunc>& e) override;
  void visit_match_cast(const Ref<MatchCast>& e) override;
  void visit_dataflow(const Ref<Dataflow>& e) override;
  void enter_let(const Ref<Let>& let) override;

 private:
  /// What waits: solve() is tried again when a hole among `types` is solved, until it says true.
  struct Waiting {
    Expr e;
    std::vector<Type> types;
    std::function<bool()> solve;
    bool solved = false, queued = false;
  };

  Type known(const Expr& e);  // visits it first
  Type united(const Expr& e, const std::vector<Expr>& bodies, std::string_view what);
  void check_kinds(const Expr& e, const Type& type) const;
  void check_type_arg(const Expr& e, const Type& type, Kind wanted, const std::string& what) const;
  void check_constraints(const Ref<Function>& function) const;
  void set(const Expr& e, const Type& type) { types_[e.get()] = unifier_.shallow(type); }
  void demand(const Expr& e, const Type& found, const Type& wanted, std::string_view what);
  [[noreturn]] void mismatch(const Expr& e, const Type& found, const Type& wanted,
                             std::string_view what) const;
  Type signature(const Ref<Function>& function);
  void wait(const Expr& e, std::vector<Type> types, std::function<bool()> solve);
  void try_solve(Waiting& waiting);
  void run_queue();
  void call_operator(const Ref<Call>& e, const OpNode& op);
  void relate(const Expr& e, const Op& row, const std::vector<Expr>& exprs, const std::vector<Type>& args,
              const Attrs& attrs, const Type& result);
  void meet_demands(const Expr& e);
  void call_tensor_program(const Ref<Call>& e);
  void require_told_sizes(const Ref<Call>& e);
  void call_function(const Ref<Call>& e, const Type& callee);
  void bind_pattern(const Expr& match, const Pattern& pattern, const Type& type);
  Type annotated(const Expr& e, const Type& annotation);
  std::string text(const Type& type) const;

  Module module_;
  Unifier unifier_;
  NodeMap<Type> types_;
  NodeMap<size_t> tuple_parts_;  // of tuple types made here, all levels counted
  std::unordered_map<std::string, Type> globals_;
  std::unordered_set<std::string> generalized_;  // globals whose dimensions are free to the caller
  // Of local functions, and of the variables of lets that name them: the dimensions that are.
  std::unordered_map<const Node*, std::unordered_set<const Node*>> dim_owners_, general_dims_;
  // The constraints of the functions around what is visited. Relations that wait keep those of their place.
  std::shared_ptr<const std::vector<Type>> given_ = std::make_shared<std::vector<Type>>();
  std::vector<DimCheck> checks_;
  std::deque<Waiting> waiting_;  // stable addresses
  std::deque<Waiting*> queue_;
  std::unordered_map<const Node*, std::vector<Waiting*>> dependents_;  // by hole
};

}  // namespace lathe::relay
