#include "tuner/graph_plan.h"

#include <limits>
#include <map>

#include "core/relay/passes/infer_type.h"
#include "core/tir/dims.h"
#include "tuner/plan_sizes.h"

namespace lathe::tuner {
namespace {

using relay::Call;
using relay::Expr;
using relay::ExprKind;

/// Gives out the values of the plan. A constant gets its place in the plan when something reads it as it is:
/// weights that only a prologue reads are not in the module.
class Planner {
 public:
  Planner(const relay::Module& graph, const Dataflow& flow,
          FunctionRef<const KernelFamily&(const KernelCall&)> kernels)
      : graph_(graph), flow_(flow), kernels_(kernels) {}

  runtime::ModuleImage plan() {
    sizes_.define_inputs(flow_.main());
    require_equal_dims();
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
    std::vector<runtime::TensorType> types =
        sizes_.types(param.checked_type ? param.checked_type : annotation);
    bool tuple = !annotation || annotation.as<relay::TupleType>();
    Values values;
    for (size_t i = 0; i < types.size(); ++i)
      values.push_back(builder_.input(tuple ? fmt::format("{}.{}", param.name, i) : param.name, types[i]));
    values_[&param] = std::move(values);
  }

  /// What types could not decide holds in each run that goes on.
  void require_equal_dims() {
    if (!sizes_.open()) return;
    for (const relay::DimCheck& check : relay::undecided_dims(graph_))
      if (sizes_.knows(check.a) && sizes_.knows(check.b)) sizes_.require_equal(check.a, check.b);
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
        sizes_.types(call->checked_type ? call->checked_type : call->out_type);
    KernelCall kernel_call = tuner::kernel_call(flow_, call);
    // A function that computes nothing shares bytes of its argument.
    if (kernel_call.is_view())
      return {builder_.view(placed(call->args.at(0), 0), results.at(0).shape, kernel_call.offset)};
    const KernelFamily& family = kernels_(kernel_call);
    const std::vector<runtime::Size> whens = whens_of(family, kernel_call);
    std::vector<runtime::Call> ways;
    for (size_t i = 0; i < family.kernels.size(); ++i) {
      const GraphKernel& kernel = family.kernels[i];
      if (whens[i] == 0) continue;
      ways.push_back({.kernel = kernel.name,
                      .args = kernel.prologue ? arguments_with_prologue(*call, kernel) : arguments(*call),
                      .results = results,
                      .workspace_bytes = workspace(kernel, family, kernel_call),
                      .flops = kernel.flops,
                      .dims = dims(kernel, family, kernel_call),
                      .reuse = kernel.reuse,
                      .when = whens[i]});
    }
    return builder_.call_one_of(std::move(ways));
  }

  /// For each kernel of the family, 1 in runs in which the dimensions of this call are its, else 0.
  std::vector<runtime::Size> whens_of(const KernelFamily& family, const KernelCall& call) {
    using enum runtime::SizeOp;
    if (family.kernels.size() == 1) return {1};
    const std::vector<runtime::Size> dims = sizes_.dims_of_call(call, family.workload);
    std::vector<runtime::Size> whens(family.kernels.size());
    runtime::Size left = 1;  // none of the members before has them
    for (const KernelFamily::Member& member : family.members) {
      runtime::Size has = 1;
      auto also = [&](runtime::Size holds) { has = builder_.size(kMul, has, holds); };
      for (size_t i = 0; i < dims.size(); ++i) {
        const schedule::DimValues& values = member.dims.at(i);
        if (values.is_number()) {
          also(builder_.size(kEqual, dims[i], values.min));
          continue;
        }
        if (values.min > 0) also(builder_.size(kLess, values.min - 1, dims[i]));
        if (values.max < std::numeric_limits<int64_t>::max())
          also(builder_.size(kLess, dims[i], values.max + 1));
      }
      const runtime::Size taken = builder_.size(kMul, left, has);
      whens[member.kernel] = builder_.size(kAdd, whens[member.kernel], taken);
      left = builder_.size(kSub, left, taken);
    }
    return whens;
  }

  /// What the kernel takes of the dimensions that its workload has in this call.
  std::vector<runtime::Size> dims(const GraphKernel& kernel, const KernelFamily& family,
                                  const KernelCall& call) {
    if (kernel.dims.empty()) return {};
    const std::vector<runtime::Size> all = sizes_.dims_of_call(call, family.workload);
    const size_t count = tir::dims_of(*family.workload).size();
    CHECK(all.size() == count, "{} dimensions for a workload of {}", all.size(), count);
    std::vector<runtime::Size> taken;
    for (size_t number : kernel.dims) taken.push_back(all.at(number));
    return taken;
  }

  runtime::Size workspace(const GraphKernel& kernel, const KernelFamily& family, const KernelCall& call) {
    if (!kernel.open_workspace) return kernel.workspace_bytes;
    const std::vector<runtime::Size> all = sizes_.dims_of_call(call, family.workload);
    const std::vector<Var> dims = tir::dims_of(*family.workload);
    PlanSizes of_kernel(builder_);
    for (size_t i = 0; i < all.size(); ++i) of_kernel.define(dims.at(i), all[i]);
    return of_kernel.of(kernel.open_workspace);
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

  const relay::Module& graph_;
  const Dataflow& flow_;
  FunctionRef<const KernelFamily&(const KernelCall&)> kernels_;
  runtime::PlanBuilder builder_;
  PlanSizes sizes_{builder_};
  NodeMap<Values> values_;
  // by kernel and addresses of its constants
  std::map<std::pair<std::string, std::vector<const void*>>, std::vector<Tensor>> made_ahead_;
};

/// The graph as main, with what it may call.
relay::Module alone(const relay::Module& module, const std::string& graph) {
  auto copy = mutate(*module);
  std::erase_if(copy->functions, [](const auto& each) { return !each.second->attrs.primitive; });
  copy->functions["main"] = module->functions.at(graph);
  return seal(std::move(copy));
}

}  // namespace

runtime::ModuleImage plan_graph(const relay::Module& module,
                                FunctionRef<const KernelFamily&(const KernelCall&)> kernels,
                                const std::string& graph) {
  return Planner(alone(module, graph), Dataflow(module, graph), kernels).plan();
}

}  // namespace lathe::tuner
