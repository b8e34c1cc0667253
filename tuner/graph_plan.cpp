#include "tuner/graph_plan.h"

#include <map>

namespace lathe::tuner {
namespace {

using relay::Call;
using relay::Expr;
using relay::ExprKind;

/// Gives out the values of the plan. A constant gets its place in the plan when something reads it as it is:
/// weights that only a prologue reads are not in the module.
class Planner {
 public:
  Planner(const Dataflow& flow, FunctionRef<const GraphKernel&(const KernelCall&)> kernel)
      : flow_(flow), kernel_(kernel) {}

  runtime::ModuleImage plan() {
    for (const relay::Var& param : flow_.main().params) add_input(*param, param->annotation);
    for (const Expr& expr : flow_.order())
      if (!values_.count(expr.get())) values_[expr.get()] = evaluate(expr);
    const Values results = all_placed(flow_.main().body);
    for (size_t i = 0; i < results.size(); ++i) builder_.output(fmt::format("output_{}", i), results[i]);
    return builder_.finish();
  }

 private:
  using Values = std::vector<int64_t>;      // of the plan; a tuple's are those of its items
  static constexpr int64_t kUnplaced = -1;  // a constant that has no value in the plan yet

  /// A parameter of a tuple type is an input for each tensor of it. A parameter without an annotation gets
  /// numbered names too.
  void add_input(const relay::VarNode& param, const relay::Type& annotation) {
    std::vector<runtime::TensorType> types = flat_types(param.checked_type ? param.checked_type : annotation);
    bool tuple = !annotation || annotation.as<relay::TupleType>();
    Values values;
    for (size_t i = 0; i < types.size(); ++i)
      values.push_back(builder_.input(tuple ? fmt::format("{}.{}", param.name, i) : param.name, types[i]));
    values_[&param] = std::move(values);
  }

  /// The values of one expression. Dataflow::order() has brought those of what it needs. Lets, tuples and
  /// projections make no step of the plan: they only name values that there are.
  Values evaluate(const Expr& expr) {
    switch (expr->kind()) {
      case ExprKind::kConstant:
        return {kUnplaced};
      case ExprKind::kLet:
        return values_.at(expr.as<relay::Let>()->body.get());
      case ExprKind::kVar: {
        Expr value = flow_.bound(expr);
        CHECK(value || values_.count(expr.get()), "a free variable in main");
        return values_.at(value ? value.get() : expr.get());
      }
      case ExprKind::kTuple: {
        Values values;
        for (const Expr& item : expr.as<relay::Tuple>()->items) {
          const Values& part = values_.at(item.get());
          values.insert(values.end(), part.begin(), part.end());
        }
        return values;
      }
      case ExprKind::kProjection: {
        const auto& projection = *expr.as<relay::Projection>();
        auto [first, count] = slice_of(projection);
        auto begin = values_.at(projection.tuple.get()).begin() + static_cast<int64_t>(first);
        return {begin, begin + static_cast<int64_t>(count)};
      }
      case ExprKind::kCall:
        return evaluate_call(expr.cast<Call>());
      default:
        return {};  // a let-bound function
    }
  }

  /// Value `index` of an expression, with its place in the plan.
  int64_t placed(const Expr& expr, size_t index) {
    int64_t value = values_.at(expr.get()).at(index);
    return value == kUnplaced ? builder_.constant(flow_.constants(expr)[index]) : value;
  }

  Values all_placed(const Expr& expr) {
    Values values;
    for (size_t i = 0; i < values_.at(expr.get()).size(); ++i) values.push_back(placed(expr, i));
    return values;
  }

  Values evaluate_call(const Ref<Call>& call) {
    std::vector<runtime::TensorType> results =
        flat_types(call->checked_type ? call->checked_type : call->out_type);
    KernelCall kernel_call = tuner::kernel_call(flow_, call);
    // A function that computes nothing shares bytes of its argument.
    if (kernel_call.is_view())
      return {builder_.view(placed(call->args.at(0), 0), results.at(0).shape, kernel_call.offset)};
    const GraphKernel& kernel = kernel_(kernel_call);
    return builder_.call({.kernel = kernel.name,
                          .args = kernel.prologue ? arguments_with_prologue(*call, kernel) : arguments(*call),
                          .results = std::move(results),
                          .workspace_bytes = kernel.workspace_bytes,
                          .flops = kernel.flops,
                          .reuse = kernel.reuse});
  }

  Values arguments(const Call& call) {
    Values values;
    for (const Expr& arg : call.args) {
      Values part = all_placed(arg);
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  /// One tensor of the arguments of a call, tuples flattened.
  struct Item {
    Expr expr;
    size_t index;
  };

  Values arguments_with_prologue(const Call& call, const GraphKernel& kernel) {
    std::vector<Item> items;
    for (const Expr& arg : call.args)
      for (size_t i = 0; i < values_.at(arg.get()).size(); ++i) items.push_back({arg, i});
    // Numbers of arguments count tensors, so tuples are flattened before anything is looked up.
    const std::vector<Tensor>& made = made_ahead(items, kernel);
    Values values;
    for (const tir::PartParam& argument : kernel.arguments) {
      if (argument.from_prologue) {
        values.push_back(builder_.constant(made.at(argument.number)));
      } else {
        const Item& item = items.at(argument.number);
        values.push_back(placed(item.expr, item.index));
      }
    }
    return values;
  }

  /// What the prologue of `kernel` gives for the constants among `items`; equal calls of it run once.
  const std::vector<Tensor>& made_ahead(const std::vector<Item>& items, const GraphKernel& kernel) {
    std::pair<std::string, std::vector<const void*>> key(kernel.name, {});
    std::vector<Tensor> constants;
    for (size_t number : kernel.prologue_arguments) {
      const Item& item = items.at(number);
      constants.push_back(flow_.constants(item.expr)[item.index]);
      CHECK(constants.back().defined(), "argument {} of {} is no constant", number, kernel.name);
      // The module keeps its constants while it is planned: equal addresses are equal tensors.
      key.second.push_back(constants.back().data());
    }
    auto [found, fresh] = made_ahead_.try_emplace(std::move(key));
    if (fresh) found->second = kernel.prologue(constants);
    return found->second;
  }

  const Dataflow& flow_;
  FunctionRef<const GraphKernel&(const KernelCall&)> kernel_;
  runtime::PlanBuilder builder_;
  NodeMap<Values> values_;
  // by kernel and addresses of its constants
  std::map<std::pair<std::string, std::vector<const void*>>, std::vector<Tensor>> made_ahead_;
};

}  // namespace

runtime::ModuleImage plan_graph(const relay::Module& module,
                                FunctionRef<const GraphKernel&(const KernelCall&)> kernel) {
  return Planner(Dataflow(module), kernel).plan();
}

}  // namespace lathe::tuner
