#include "tuner/graph_plan.h"

#include <limits>
#include <map>

#include "core/relay/op.h"
#include "core/relay/ops/rule.h"
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
  Planner(const Dataflow& flow, FunctionRef<const KernelFamily&(const KernelCall&)> kernels)
      : flow_(flow), kernels_(kernels) {}

  runtime::ModuleImage plan() {
    sizes_.define_inputs(flow_.main());
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
    require_equal_sizes(*call);
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
                      .workspace_bytes = workspace(kernel, kernel_call),
                      .flops = kernel.flops,
                      .dims = dims(kernel, kernel_call),
                      .reuse = kernel.reuse,
                      .when = whens[i]});
    }
    return builder_.call_one_of(std::move(ways));
  }

  /// For each kernel of the family, 1 in runs in which the dimensions of this call are its, else 0.
  std::vector<runtime::Size> whens_of(const KernelFamily& family, const KernelCall& call) {
    using enum runtime::SizeOp;
    if (family.kernels.size() == 1) return {1};
    const std::vector<runtime::Size> dims = sizes_.dims_of_call(call);
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
  std::vector<runtime::Size> dims(const GraphKernel& kernel, const KernelCall& call) {
    if (kernel.dims.empty()) return {};
    const std::vector<runtime::Size> all = sizes_.dims_of_call(call);
    CHECK(all.size() == kernel.workload_dims.size(), "{} dimensions for a workload of {}", all.size(),
          kernel.workload_dims.size());
    std::vector<runtime::Size> taken;
    for (size_t number : kernel.dims) taken.push_back(all.at(number));
    return taken;
  }

  runtime::Size workspace(const GraphKernel& kernel, const KernelCall& call) {
    if (!kernel.open_workspace) return kernel.workspace_bytes;
    const std::vector<runtime::Size> all = sizes_.dims_of_call(call);
    PlanSizes of_kernel(builder_);
    for (size_t i = 0; i < all.size(); ++i) of_kernel.define(kernel.workload_dims.at(i), all[i]);
    return of_kernel.of(kernel.open_workspace);
  }

  /// What types could not tell of sizes: that a reshape holds as many elements, and that operands which are
  /// combined element by element, or joined, are of one shape.
  void require_equal_sizes(const Call& call) {
    const auto* function = flow_.callee(call).as<relay::Function>();
    if (!function || !sizes_.open()) return;
    post_order(function->body, [&](const NodeRef& node) {
      const auto* inner = node.as<Call>();
      const auto* op = inner ? inner->callee.as<relay::OpNode>() : nullptr;
      if (!op || inner->args.empty()) return;
      const auto* from = inner->args[0]->checked_type.as<relay::TensorType>();
      const auto* to = inner->checked_type.as<relay::TensorType>();
      if (op->name == "reshape" && from && to) sizes_.require_equal(elements(*from), elements(*to));
      if (op->row().fusion == relay::Fusion::kElementwise || op->row().fusion == relay::Fusion::kBroadcast)
        for (const Expr& arg : inner->args) require_aligned(arg, to);
      if (op->row().layout == relay::LayoutRule::kConcatenation) require_joined(*inner);
    });
  }

  /// Aligned at the end, dimensions that are open on both sides are equal.
  void require_aligned(const Expr& arg, const relay::TensorType* to) {
    const auto* from = arg->checked_type.as<relay::TensorType>();
    if (!from || !to) return;
    const size_t rank = std::min(from->shape.size(), to->shape.size());
    for (size_t d = 1; d <= rank; ++d) {
      const lathe::Expr &a = from->shape[from->shape.size() - d], &b = to->shape[to->shape.size() - d];
      if (!as_int(a) && !as_int(b)) sizes_.require_equal(a, b);
    }
  }

  void require_joined(const Call& call) {
    const auto* parts = call.args[0]->checked_type.as<relay::TupleType>();
    if (!parts || parts->items.empty()) return;
    const auto* first = parts->items[0].as<relay::TensorType>();
    const auto axis = relay::ops::attrs_as<relay::ConcatenateAttrs>(call.attrs).axis;
    for (const relay::Type& item : parts->items) {
      const auto* part = item.as<relay::TensorType>();
      const auto rank = static_cast<int64_t>(first && part ? part->shape.size() : 0);
      for (int64_t d = 0; d < rank; ++d)
        if (d != (axis < 0 ? axis + rank : axis))
          sizes_.require_equal(first->shape[static_cast<size_t>(d)], part->shape[static_cast<size_t>(d)]);
    }
  }

  static lathe::Expr elements(const relay::TensorType& type) {
    lathe::Expr count = 1;
    for (const lathe::Expr& dim : type.shape) count = count * dim;
    return count;
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
  FunctionRef<const KernelFamily&(const KernelCall&)> kernels_;
  runtime::PlanBuilder builder_;
  PlanSizes sizes_{builder_};
  NodeMap<Values> values_;
  // by kernel and addresses of its constants
  std::map<std::pair<std::string, std::vector<const void*>>, std::vector<Tensor>> made_ahead_;
};

}  // namespace

runtime::ModuleImage plan_graph(const relay::Module& module,
                                FunctionRef<const KernelFamily&(const KernelCall&)> kernels,
                                const std::string& graph) {
  return Planner(Dataflow(module, graph), kernels).plan();
}

}  // namespace lathe::tuner
