#include "core/program/extents.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/arith/only_unknown.h"
#include "core/arith/simplify.h"
#include "core/program/bindings.h"
#include "core/program/ports.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/analysis/sizes.h"
#include "core/relay/functor.h"
#include "core/relay/op.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"
#include "core/runtime/program/sized.h"
#include "core/support/placed_error.h"
#include "core/support/stack.h"

namespace lathe::program {
namespace {

using namespace relay;
using relay::Expr, relay::Var;  // of two languages
using Dim = lathe::Expr;

Expr number(int64_t value) { return typed_constant(full({}, kInt64, static_cast<double>(value))); }
Expr real(double value) { return typed_constant(full({}, kFloat64, value)); }
/// As many elements as arange_count() allows.
constexpr double kMostOfRange = 1e12;

/// `arange` of numbers that are no constants: how many elements it has, a run tells.
bool is_open_range(const Expr& e) {
  const Call* call = call_of(e, "arange");
  if (!call) return false;
  const auto& args = call->args;
  return std::any_of(args.begin(), args.end(), [](const Expr& arg) { return !arg.as<Constant>(); });
}

}  // namespace

Expr extent_of(const Expr& tensor, int64_t axis) {
  auto attrs = std::make_unique<ExtentAttrs>();
  attrs->axis = axis;
  return typed_call("extent", {tensor}, seal(std::move(attrs)));
}

namespace {

class Extents {
 public:
  explicit Extents(bool check_params) : check_params_(check_params) {}

  Ref<Function> run(const Ref<Function>& function) {
    const size_t outer = names_.size();
    std::vector<Binding> first;
    std::vector<Tensors> tensors;
    for (const Var& param : function->params)
      append_tensors(param, type_of(param), /*known=*/nullptr, param->span, tensors, first);
    match(tensors, check_params_, first);
    auto copy = mutate(*function);
    copy->body = chain(function->body, std::move(first));
    forget(outer);
    return seal(std::move(copy));
  }

 private:
  Expr chain(const Expr& body, std::vector<Binding> done = {}) {
    Expr result;
    with_enough_stack([&] {
      std::vector<Binding> bindings;
      const Expr end = flatten(body, bindings);
      for (const Binding& each : bindings) done.push_back({each.var, rewritten(each.value, done)});
      result = rewritten(end, done);
      result = chain_of(done, result);
    });
    return result;
  }

  /// What a branch binds is gone behind it.
  Expr inner(const Expr& body) {
    const size_t outer = names_.size();
    const Expr result = chain(body);
    forget(outer);
    return result;
  }

  void forget(size_t outer) {
    for (; names_.size() > outer; names_.pop_back()) values_.erase(names_.back());
  }

  Expr rewritten(const Expr& e, std::vector<Binding>& done) {
    if (const If* branch = e.as<If>()) {
      auto copy = mutate(*branch);
      copy->then_case = inner(branch->then_case);
      copy->else_case = inner(branch->else_case);
      return seal(std::move(copy));
    }
    if (const Match* match = e.as<Match>()) {
      auto copy = mutate(*match);
      for (Clause& clause : copy->clauses) clause.body = inner(clause.body);
      return seal(std::move(copy));
    }
    if (const Function* function = e.as<Function>(); function && !function->attrs.primitive)
      return run(e.cast<Function>());
    if (const MatchCast* cast = e.as<MatchCast>()) {
      std::vector<Tensors> tensors;
      append_tensors(cast->value, cast->type, type_of(cast->value), e->span, tensors, done);
      match(tensors, /*check=*/true, done);
      return cast->value;
    }
    if (is_open_range(e)) return range(e, done);
    if (const Call* call = e.as<Call>(); call && call->callee.as<ExternFunc>()) return library(*call, done);
    return call_of(e, "extent") ? extent(e, done) : e;
  }

  Expr scalar(const char* op, std::vector<Expr> args, std::vector<Binding>& done) {
    return bound("n", typed_call(op, std::move(args)), done);
  }

  /// A dimension as a leaf; null where a variable of it has no value.
  Expr value_of(const Dim& dim, std::vector<Binding>& done) {
    if (const int64_t* value = as_int(dim)) return number(*value);
    if (dim.as<lathe::VarNode>()) {
      auto found = values_.find(dim.get());
      return found == values_.end() ? Expr() : found->second;
    }
    const Binary* binary = dim.as<Binary>();
    const char* op = binary ? operator_of(binary->op) : nullptr;
    if (!op) return Expr();
    const Expr a = value_of(binary->a, done), b = value_of(binary->b, done);
    return a && b ? scalar(op, {a, b}, done) : Expr();
  }

  /// A tensor of a value, what its type says, and what the value's own does, or null.
  struct Tensors {
    Expr value;
    const TensorType *type, *known;
    Span span;
    std::vector<bool> is_new = {};  // of the dimensions, which ones the tensor gives a value
  };

  /// Gives values to the dimensions of the types that have none; with `check`, compares the others.
  void match(std::vector<Tensors>& tensors, bool check, std::vector<Binding>& done) {
    // Variables first: an expression may stand before the dimension that tells its variable.
    for (Tensors& each : tensors) {
      each.is_new.resize(each.type->shape.size());
      for (size_t axis = 0; axis < each.type->shape.size(); ++axis) {
        const Dim& dim = each.type->shape[axis];
        if (!dim.as<lathe::VarNode>() || values_.count(dim.get())) continue;
        name(dim.as<lathe::VarNode>(), extent_of(each.value, static_cast<int64_t>(axis)), done);
        each.is_new[axis] = true;
      }
    }
    // Each may be what another one waits for.
    for (bool found = true; std::exchange(found, false);)
      for (const Tensors& each : tensors)
        for (size_t axis = 0; axis < each.type->shape.size(); ++axis)
          found |= match_only_unknown(each.type->shape[axis], each.value, axis, done);
    if (!check) return;
    for (const Tensors& each : tensors) compare(each, done);
  }

  /// Of 2 * k + m, where m has a value: k, rounded down, and never negative. That it comes out even is
  /// compared where dimensions are. The interpreter does the same (relay/interpret/dims.cpp). Whether there
  /// is such a k.
  bool match_only_unknown(const Dim& dim, const Expr& value, size_t axis, std::vector<Binding>& done) {
    const auto unknown =
        only_unknown(dim, [&](const lathe::VarNode* variable) { return values_.count(variable) != 0; });
    const Expr rest = unknown ? value_of(unknown->rest, done) : Expr();
    if (!rest) return false;
    const Expr extent = bound("n", extent_of(value, static_cast<int64_t>(axis)), done);
    const Expr difference = scalar("subtract", {extent, rest}, done);
    const Expr quotient = scalar("floor_divide", {difference, number(unknown->coefficient)}, done);
    name(unknown->variable, typed_call("maximum", {quotient, number(0)}), done);
    return true;
  }

  /// From here on, to the end of its branch, the variable has this value.
  void name(const lathe::VarNode* variable, const Expr& value, std::vector<Binding>& done) {
    values_[variable] = bound(variable->name.c_str(), value, done);
    names_.push_back(variable);
  }

  static void append_tensors(const Expr& value, const Type& type, const Type& known, const Span& span,
                             std::vector<Tensors>& tensors, std::vector<Binding>& done) {
    if (const TensorType* tensor = type.as<TensorType>())
      return tensors.push_back({value, tensor, known.as<TensorType>(), span});
    const TupleType *tuple = type.as<TupleType>(), *known_tuple = known.as<TupleType>();
    if (!tuple || !type_of(value).as<TupleType>()) return;
    for (size_t i = 0; i < tuple->items.size(); ++i) {
      const Expr item = bound("t", typed_projection(value, static_cast<int64_t>(i)), done);
      append_tensors(item, tuple->items[i], known_tuple ? known_tuple->items[i] : Type(), span, tensors,
                     done);
    }
  }

  void compare(const Tensors& tensor, std::vector<Binding>& done) {
    std::vector<Expr> args{tensor.value};
    bool any = false;
    for (size_t axis = 0; axis < tensor.is_new.size(); ++axis) {
      const Dim& dim = tensor.type->shape[axis];
      const bool holds = tensor.is_new[axis] || dim.as<Any>() ||
                         (tensor.known && !tensor.known->shape[axis].as<Any>() &&
                          prove_equal(tensor.known->shape[axis], dim));
      Expr wanted = holds ? Expr() : value_of(dim, done);
      any = any || wanted;
      args.push_back(wanted ? wanted : number(-1));
    }
    if (!any) return;
    auto check = mutate(*make<Call>(op_expr("match_shape"), std::move(args)));
    check->span = tensor.span;
    check->checked_type = type_of(tensor.value);
    bound("_", seal(std::move(check)), done);
  }

  /// What the type says, where it is said in dimensions that have values.
  Expr extent(const Expr& e, std::vector<Binding>& done) {
    const Expr& x = e.as<Call>()->args[0];
    const TensorType* type = type_of(x).as<TensorType>();
    const ExtentAttrs* attrs = e.as<Call>()->attrs.as<ExtentAttrs>();
    const int64_t axis = attrs ? attrs->axis : 0, rank = static_cast<int64_t>(type->shape.size());
    const Dim& dim = type->shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
    const Expr value = dim.as<Any>() ? Expr() : value_of(dim, done);
    return value ? value : e;
  }

  /// Whoever calls a library function makes the memory of its results.
  Expr library(const Call& call, std::vector<Binding>& done) {
    std::vector<Ref<TensorType>> results;
    if (!append_tensor_types(call.checked_type, results))
      throw PlacedError(call.span, fmt::format("the result of a library function is {}, which is no tensor",
                                               print(call.checked_type)));
    auto copy = mutate(call);
    for (const Ref<TensorType>& result : results)
      for (const Dim& dim : result->shape) {
        if (as_int(dim)) continue;
        const Expr value = dim.as<Any>() ? Expr() : value_of(dim, done);
        if (!value)
          throw PlacedError(call.span,
                            fmt::format("the result of a library function is {}; neither a parameter "
                                        "nor a match_cast tells its size",
                                        print(Type(result))));
        copy->args.push_back(value);
      }
    return seal(std::move(copy));
  }

  /// start + step * (0, 1, ...), ceil((stop - start) / step) of them.
  Expr range(const Expr& e, std::vector<Binding>& done) {
    const Call& call = *e.as<Call>();
    const DataType dtype = e->checked_type.as<TensorType>()->dtype;
    auto as = [&](const Expr& x, DataType to) {
      auto attrs = std::make_unique<CastAttrs>();
      attrs->dtype = to;
      return bound("n", typed_call("cast", {x}, seal(std::move(attrs))), done);
    };
    // As the operator computes: how many in float64, elements in the type of the result.
    std::vector<Expr> args;
    for (const Expr& arg : call.args) args.push_back(as(arg, kFloat64));
    const Expr length = scalar("divide", {scalar("subtract", {args[1], args[0]}, done), args[2]}, done);
    // Rounded up: what a truncation toward zero leaves out is one more.
    const Expr whole = as(length, kInt64);
    const Expr less = as(scalar("less", {as(whole, kFloat64), length}, done), kInt64);
    const Expr count = scalar("maximum", {scalar("add", {whole, less}, done), number(0)}, done);
    // What the relation refuses of constants.
    const Expr is_range = scalar(
        "logical_and",
        {scalar("less", {length, real(kMostOfRange)}, done), scalar("not_equal", {args[2], real(0)}, done)},
        done);
    auto attrs_of_range = std::make_unique<RequireAttrs>();
    attrs_of_range->message = "arange: start, stop and step make no range";
    auto range =
        mutate(*typed_call("require", {count, is_range}, seal(std::move(attrs_of_range))).as<Call>());
    range->span = e->span;
    auto zeros = mutate(*typed_call("zeros_of", {bound("n", seal(std::move(range)), done)}).as<Call>());
    zeros->span = e->span;
    const Expr like = bound("t", seal(std::move(zeros)), done);
    auto attrs = std::make_unique<DtypeAttrs>();
    attrs->dtype = dtype;
    const Expr numbers = bound("t", typed_call("arange_like", {like}, seal(std::move(attrs))), done);
    auto in_type = [&](size_t i) { return as(call.args[i], dtype); };
    const Expr steps = bound("t", typed_call("multiply", {numbers, in_type(2)}), done);
    return typed_call("add", {in_type(0), steps});
  }

  const bool check_params_;
  std::unordered_map<const Node*, Expr> values_;  // of dimensions, by variable
  std::vector<const Node*> names_;                // of them, in the order in which they got values
};

}  // namespace

Ref<Function> with_extents(const Ref<Function>& function, bool check_params) {
  return Extents(check_params).run(function);
}

namespace {

bool has_unknown_dim(const Type& type) {
  if (const TensorType* tensor = type.as<TensorType>())
    return std::any_of(tensor->shape.begin(), tensor->shape.end(),
                       [](const Dim& dim) { return dim.as<Any>() != nullptr; });
  bool found = false;
  if (type) post_order(type, [&](const NodeRef& node) { found |= node.as<Any>() != nullptr; });
  return found;
}

}  // namespace

bool has_unknown_dims(const Module& module) {
  bool found = false;
  for (const auto& each : module->functions)
    post_order(each.second, [&](const NodeRef& node) {
      if (const auto* e = dynamic_cast<const RelayNode*>(node.get()))
        found = found || has_unknown_dim(e->checked_type);
    });
  return found;
}

bool is_requirement(const Expr& e) { return call_of(e, "require"); }

bool is_sized_call(const Expr& e) {
  const Op* op = operator_of(e);
  if (is_requirement(e)) return true;
  if (!op || !runtime::find_sized_op(op->name)) return false;
  const Call& call = *e.as<Call>();
  const std::string_view name = op->name;
  if (name == "extent") return true;
  const size_t first = name == "zeros_of" ? 0 : 1;
  for (size_t i = first; i < call.args.size(); ++i)
    if (!call.args[i].as<Constant>()) return true;
  if (name != "match_shape") return false;
  const TensorType* type = type_of(call.args[0]).as<TensorType>();
  return !type || !has_constant_shape(*type);
}

bool has_computed_sizes(const Ref<Function>& function) {
  bool found = false;
  post_order(function, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    if (call && call->callee.as<OpNode>())
      found |= is_open_range(Expr(call)) ||
               (call->callee.as<OpNode>()->name != "extent" && is_sized_call(Expr(call)));
  });
  return found;
}

}  // namespace lathe::program
