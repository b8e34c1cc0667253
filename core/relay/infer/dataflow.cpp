#include "core/relay/infer/dataflow.h"

#include <map>
#include <set>

#include "core/relay/functor.h"
#include "core/relay/infer/collector.h"

namespace lathe::relay {
namespace {

/// The variables of lets that name functions.
class LocalFunctions : public ExprVisitor {
 public:
  NodeSet names;

 private:
  void enter_let(const Ref<Let>& let) override {
    if (let->value.as<Function>()) names.insert(let->var.get());
  }
};

/// What the bodies of global functions do: their effects by themselves, and the functions that they call by
/// name. The body of a local function counts as that of the global one around it.
class Effects : public ExprVisitor {
 public:
  explicit Effects(const Module& module) {
    for (const auto& [name, function] : module->functions) locals_.visit(function);
    for (const auto& [name, function] : module->functions) {
      here_ = name;
      visit(function->body);
    }
    // A caller of an impure function is impure.
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [name, called] : calls_)
        for (const std::string& each : called)
          if (impure_.count(each) && impure_.insert(name).second) changed = true;
    }
  }

  bool is_impure(const std::string& name) const { return impure_.count(name) > 0; }
  bool names_function(const Expr& variable) const { return locals_.names.count(variable.get()) > 0; }
  bool has_blocks = false;

 private:
  void visit_ref_create(const Ref<RefCreate>& e) override { effect(e); }
  void visit_ref_read(const Ref<RefRead>& e) override { effect(e); }
  void visit_ref_write(const Ref<RefWrite>& e) override { effect(e); }
  void effect(const Expr& e) {
    impure_.insert(here_);
    visit_default(e);
  }

  void visit_call(const Ref<Call>& e) override {
    if (const GlobalVarNode* global = e->callee.as<GlobalVarNode>())
      calls_[here_].insert(global->name);
    else if (e->callee.as<VarNode>() && !names_function(e->callee))
      impure_.insert(here_);  // a parameter may be any function
    else if (const OpNode* op = e->callee.as<OpNode>(); op && op->row().stateful)
      impure_.insert(here_);
    else if (is_computed(e->callee))
      impure_.insert(here_);
    visit_default(e);
  }

  static bool is_computed(const Expr& callee) {
    switch (callee->kind()) {
      case ExprKind::kVar:
      case ExprKind::kGlobalVar:
      case ExprKind::kOp:
      case ExprKind::kConstructor:
      case ExprKind::kFunction:
      case ExprKind::kPrimFunc:
      case ExprKind::kExternFunc:
        return false;
      default:
        return true;
    }
  }

  void visit_dataflow(const Ref<Dataflow>& e) override {
    has_blocks = true;
    visit_default(e);
  }
  LocalFunctions locals_;
  std::string here_;
  std::map<std::string, std::set<std::string>> calls_;
  std::set<std::string> impure_;
};

/// Looks at what stands in blocks.
class Check : public ExprVisitor {
 public:
  Check(const Effects& effects, std::string function) : effects_(effects), function_(std::move(function)) {}

 private:
  void visit_dataflow(const Ref<Dataflow>& e) override {
    ++blocks_;
    visit_default(e);
    --blocks_;
  }
  void visit_default(const Expr& e) override {
    if (blocks_) check(e);
    ExprVisitor::visit_default(e);
  }

  void check(const Expr& e) const {
    switch (e->kind()) {
      case ExprKind::kIf:
      case ExprKind::kMatch:
        return refuse(e, "branches");
      case ExprKind::kFunction:
        if (!e.as<Function>()->attrs.primitive) refuse(e, "makes a function");
        return;
      case ExprKind::kRefCreate:
      case ExprKind::kRefRead:
      case ExprKind::kRefWrite:
        return refuse(e, "uses a reference");
      case ExprKind::kGrad:
        return refuse(e, "takes a gradient");
      case ExprKind::kCall:
        return check_call(*e.as<Call>());
      default:
        return;
    }
  }

  void check_call(const Call& call) const {
    if (const GlobalVarNode* global = call.callee.as<GlobalVarNode>()) {
      if (effects_.is_impure(global->name))
        refuse(Expr(&call), fmt::format("calls `@{}`, which has effects", global->name));
      return;
    }
    if (const VarNode* variable = call.callee.as<VarNode>()) {
      if (!effects_.names_function(call.callee) || effects_.is_impure(function_))
        refuse(Expr(&call), fmt::format("calls `%{}`, whose effects are not known", variable->name));
      return;
    }
    const OpNode* op = call.callee.as<OpNode>();
    if (op && op->row().stateful) refuse(Expr(&call), fmt::format("calls {}, which has effects", op->name));
  }

  [[noreturn]] static void refuse(const Expr& e, const std::string& what) {
    type_error(e, "a dataflow block is a straight line without effects; this one " + what);
  }

  const Effects& effects_;
  std::string function_;  // the global one
  int blocks_ = 0;
};

}  // namespace

void check_dataflow(const Module& module) {
  const Effects effects(module);
  if (!effects.has_blocks) return;
  for (const auto& [name, function] : module->functions) Check(effects, name).visit(function);
}

}  // namespace lathe::relay
