#include "core/relay/passes/widen_products.h"

#include <algorithm>
#include <unordered_set>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_tensors.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

bool is_8_bit(const Expr& e) {
  const auto* type = e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
  return type && type->dtype.is_int() && type->dtype.bits == 8;
}

/// The call whose elements `e` is made of, all of 8 bits: others of its arguments are no tensors of these, or
/// constants (what padding holds).
const Call* choice_of(const Expr& e) {
  const Op* op = operator_of(e);
  if (!op || op->narrow != NarrowRule::kChoice || !is_8_bit(e)) return nullptr;
  const auto& args = e.as<Call>()->args;
  const auto* tuple = args[0].as<Tuple>();
  const bool chosen =
      tuple ? std::all_of(tuple->items.begin(), tuple->items.end(), is_8_bit) : is_8_bit(args[0]);
  const bool others = std::all_of(args.begin() + 1, args.end(),
                                  [](const Expr& arg) { return !is_8_bit(arg) || arg.as<Constant>(); });
  return chosen && others ? e.as<Call>() : nullptr;
}

class ProductWidener final : public ExprMutator {
 public:
  ProductWidener(const Ref<Function>& function, const NarrowCosts& costs) {
    std::vector<Expr> order;  // operands first
    post_order(function->body, [&](const NodeRef& node) {
      if (dynamic_cast<const RelayNode*>(node.get())) order.push_back(node.cast<RelayNode>());
    });
    for (size_t i = order.size(); i-- > 0;) {
      const Op* op = operator_of(order[i]);
      if (!op) continue;
      const Call& call = *order[i].as<Call>();
      if (op->narrow == NarrowRule::kProduct && is_8_bit(call.args[0]) && is_8_bit(call.args[1]) &&
          tensor_type(order[i]).dtype == kInt32 && costs.widens(call)) {
        products_.insert(&call);
        for (const Expr& arg : call.args) wide_.insert(arg.get());
      }
      // Users come before what they read.
      if (!wide_.count(&call) || !choice_of(order[i])) continue;
      const auto* tuple = call.args[0].as<Tuple>();
      for (const Expr& from : tuple ? tuple->items : std::vector{call.args[0]}) wide_.insert(from.get());
    }
  }

 private:
  static const TensorType& tensor_type(const Expr& e) { return *e->checked_type.as<TensorType>(); }

  Expr visit_call(const Ref<Call>& e) override {
    if (products_.count(e.get()))
      return typed_call(operator_of(e)->name, {wide(e->args[0]), wide(e->args[1])}, e->attrs);
    if (const Op* op = operator_of(e);
        op && std::string_view(op->name) == "cast" && wide_.count(e->args[0].get()))
      return cast(wide(e->args[0]), tensor_type(e).dtype);
    auto copy = mutate(*e);
    copy->args = read(e->args);
    return copy->args == e->args ? Expr(e) : Expr(seal(std::move(copy)));
  }
  Expr visit_tuple(const Ref<Tuple>& e) override {
    std::vector<Expr> items = read(e->items);
    return items == e->items ? Expr(e) : typed_tuple(items);
  }

  /// As the types they had.
  std::vector<Expr> read(const std::vector<Expr>& originals) {
    std::vector<Expr> result;
    for (const Expr& e : originals)
      result.push_back(wide_.count(e.get()) && !e.as<Constant>() ? cast(wide(e), tensor_type(e).dtype)
                                                                 : visit(e));
    return result;
  }

  /// As int16.
  Expr wide(const Expr& original) {
    Expr& known = widened_[original.get()];
    if (!known) known = widened(original);
    return known;
  }
  Expr widened(const Expr& original) {
    if (const auto* constant = original.as<Constant>()) {
      Tensor values(constant->value.shape(), kInt16);
      for (int64_t i = 0; i < values.size(); ++i)
        values.as<int16_t>()[i] = static_cast<int16_t>(constant->value.integer(i));
      return typed_constant(values);
    }
    const Call* choice = choice_of(original);
    if (!choice) return cast(visit(original), kInt16);
    std::vector<Expr> args;
    for (size_t i = 0; i < choice->args.size(); ++i) {
      const Expr& arg = choice->args[i];
      const auto* tuple = i == 0 ? arg.as<Tuple>() : nullptr;
      if (!tuple) {
        args.push_back(i == 0 || is_8_bit(arg) ? wide(arg) : visit(arg));
        continue;
      }
      std::vector<Expr> items;
      for (const Expr& item : tuple->items) items.push_back(wide(item));
      args.push_back(typed_tuple(items));
    }
    return typed_call(operator_of(original)->name, args, choice->attrs);
  }

  std::unordered_set<const Node*> products_, wide_;  // before rewriting
  std::unordered_map<const Node*, Expr> widened_;
};

}  // namespace

Module widen_products(const Module& module, const NarrowCosts& costs) {
  return map_functions(module, [&](const Ref<Function>& function) {
    return function->attrs.primitive ? function : ProductWidener(function, costs).visit_as(function);
  });
}

}  // namespace lathe::relay
