#include "tuner/graph_plan.h"

#include <unordered_map>
#include <unordered_set>

#include "core/relay/lower.h"

namespace lathe::tuner {
namespace {

using relay::Call;
using relay::Expr;
using relay::ExprKind;
using relay::Function;

/// The tensors of a type, tuples flattened.
void flatten(const relay::Type& type, std::vector<runtime::TensorType>& into) {
  CHECK(type, "the final build needs inferred types");
  if (const auto* tuple = type.as<relay::TupleType>()) {
    for (const relay::Type& item : tuple->items) flatten(item, into);
  } else if (const auto* tensor = type.as<relay::TensorType>()) {
    if (!has_constant_shape(*tensor))
      fail("the model has dimensions that are not known; give inputs with shapes");
    into.push_back({constant_shape(*tensor), tensor->dtype});
  } else {
    fail("values other than tensors and tuples of them cannot be compiled yet");
  }
}

std::vector<runtime::TensorType> flat_types(const relay::Type& type) {
  std::vector<runtime::TensorType> types;
  flatten(type, types);
  return types;
}

/// The expressions of `main` in order of execution: each after what it needs, once. Iterative, so that the
/// depth of the graph does not matter.
class Dataflow {
 public:
  explicit Dataflow(const relay::Module& module) : module_(module) {
    auto main = module->functions.find("main");
    if (main == module->functions.end()) fail("the module has no function @main");
    main_ = main->second;
    visit(main_->body);
  }

  const Function& main() const { return *main_; }
  const std::vector<Expr>& order() const { return order_; }
  /// What a let-bound variable stands for, or null for a parameter.
  Expr bound(const Expr& var) const {
    auto found = bound_.find(var.get());
    return found == bound_.end() ? Expr() : found->second;
  }
  /// The callee itself: global functions and let-bound functions resolved.
  Expr callee(const Call& call) const {
    Expr callee = call.callee;
    if (Expr value = bound(callee)) callee = value;
    if (const auto* global = callee.as<relay::GlobalVarNode>()) {
      auto function = module_->functions.find(global->name);
      if (function == module_->functions.end()) fail("the module has no function @{}", global->name);
      callee = function->second;
    }
    return callee;
  }

 private:
  std::vector<Expr> needs(const Expr& expr) {
    switch (expr->kind()) {
      case ExprKind::kCall:
        return expr.as<Call>()->args;
      case ExprKind::kTuple:
        return expr.as<relay::Tuple>()->items;
      case ExprKind::kProjection:
        return {expr.as<relay::Projection>()->tuple};
      case ExprKind::kLet: {
        const relay::Let* let = expr.as<relay::Let>();
        bound_[let->var.get()] = let->value;
        return {let->value, let->body};
      }
      case ExprKind::kVar:
        if (Expr value = bound(expr)) return {value};
        return {};
      case ExprKind::kConstant:
      case ExprKind::kFunction:  // let-bound; its calls are what runs
        return {};
      default:
        fail("control flow, closures and references cannot be compiled yet; the model has {}",
             expr->type().name);
    }
  }

  void visit(const Expr& root) {
    struct Frame {
      Expr expr;
      std::vector<Expr> needs;
      size_t next = 0;
    };
    std::unordered_set<const lathe::Node*> seen{root.get()};
    std::vector<Frame> stack{{root, needs(root)}};
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.needs.size()) {
        order_.push_back(frame.expr);
        stack.pop_back();
      } else if (Expr need = frame.needs[frame.next++]; seen.insert(need.get()).second) {
        stack.push_back({need, needs(need)});
      }
    }
  }

  relay::Module module_;
  Ref<Function> main_;
  std::vector<Expr> order_;
  std::unordered_map<const lathe::Node*, Expr> bound_;
};

/// Whether calls of the callee run a kernel; throws Error when they cannot be executed at all.
bool needs_kernel(const Expr& callee) {
  if (callee.as<relay::PrimFunc>()) return true;
  if (const Function* function = callee.as<Function>(); function && function->attrs.primitive)
    return !relay::is_view(callee.cast<Function>());
  if (const relay::OpNode* op = callee.as<relay::OpNode>())
    fail("operator {} cannot be compiled: it is in no fused function", op->name);
  fail("calls of {} cannot be compiled yet", callee->type().name);
}

class Planner {
 public:
  Planner(const Dataflow& flow, FunctionRef<const GraphKernel&(const Expr&)> kernel)
      : flow_(flow), kernel_(kernel) {}

  runtime::ModuleImage plan() {
    for (const relay::Var& param : flow_.main().params) add_input(*param, param->annotation);
    for (const Expr& expr : flow_.order()) values_.emplace(expr.get(), evaluate(expr));
    const std::vector<int64_t>& results = values_.at(flow_.main().body.get());
    for (size_t i = 0; i < results.size(); ++i) builder_.output(fmt::format("output_{}", i), results[i]);
    return builder_.finish();
  }

 private:
  using Values = std::vector<int64_t>;  // of the plan; a tuple's are those of its items

  void add_input(const relay::VarNode& param, const relay::Type& annotation) {
    std::vector<runtime::TensorType> types = flat_types(param.checked_type ? param.checked_type : annotation);
    bool tuple = !annotation || annotation.as<relay::TupleType>();
    Values values;
    for (size_t i = 0; i < types.size(); ++i)
      values.push_back(builder_.input(tuple ? fmt::format("{}.{}", param.name, i) : param.name, types[i]));
    values_.emplace(&param, values);
  }

  Values evaluate(const Expr& expr) {
    switch (expr->kind()) {
      case ExprKind::kConstant:
        return {builder_.constant(expr.as<relay::Constant>()->value)};
      case ExprKind::kLet:
        return values_.at(expr.as<relay::Let>()->body.get());
      case ExprKind::kVar: {
        Expr value = flow_.bound(expr);
        CHECK(value || values_.count(expr.get()), "a free variable in main");
        return values_.at(value ? value.get() : expr.get());
      }
      case ExprKind::kTuple:
        return values_of(expr.as<relay::Tuple>()->items);
      case ExprKind::kProjection:
        return evaluate_projection(*expr.as<relay::Projection>());
      case ExprKind::kCall:
        return evaluate_call(*expr.as<Call>());
      default:
        return {};  // a let-bound function
    }
  }

  Values values_of(const std::vector<Expr>& exprs) const {
    Values values;
    for (const Expr& expr : exprs) {
      const Values& item = values_.at(expr.get());
      values.insert(values.end(), item.begin(), item.end());
    }
    return values;
  }

  Values evaluate_projection(const relay::Projection& projection) {
    const auto* type = projection.tuple->checked_type.as<relay::TupleType>();
    CHECK(type, "a projection of what is not a tuple");
    size_t first = 0;
    for (int64_t i = 0; i < projection.index; ++i) first += flat_types(type->items[i]).size();
    size_t count = flat_types(type->items[projection.index]).size();
    const Values& all = values_.at(projection.tuple.get());
    return {all.begin() + static_cast<int64_t>(first), all.begin() + static_cast<int64_t>(first + count)};
  }

  Values evaluate_call(const Call& call) {
    std::vector<runtime::TensorType> results =
        flat_types(call.checked_type ? call.checked_type : call.out_type);
    Expr callee = flow_.callee(call);
    Values args = values_of(call.args);
    if (!needs_kernel(callee)) return {builder_.view(args.at(0), results.at(0).shape)};
    const GraphKernel& kernel = kernel_(callee);
    return builder_.call({.kernel = kernel.name,
                          .args = std::move(args),
                          .results = std::move(results),
                          .workspace_bytes = kernel.workspace_bytes,
                          .flops = kernel.flops});
  }

  const Dataflow& flow_;
  FunctionRef<const GraphKernel&(const Expr&)> kernel_;
  runtime::PlanBuilder builder_;
  std::unordered_map<const lathe::Node*, Values> values_;
};

}  // namespace

std::vector<Expr> kernel_callees(const relay::Module& module) {
  Dataflow flow(module);
  for (const relay::Var& param : flow.main().params)
    flat_types(param->checked_type ? param->checked_type : param->annotation);
  std::vector<Expr> callees;
  std::unordered_set<const lathe::Node*> seen;
  for (const Expr& expr : flow.order()) {
    const Call* call = expr.as<Call>();
    if (!call) continue;
    Expr callee = flow.callee(*call);
    if (needs_kernel(callee) && seen.insert(callee.get()).second) callees.push_back(callee);
  }
  return callees;
}

runtime::ModuleImage plan_graph(const relay::Module& module,
                                FunctionRef<const GraphKernel&(const Expr&)> kernel) {
  return Planner(Dataflow(module), kernel).plan();
}

}  // namespace lathe::tuner
