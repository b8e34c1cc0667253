#include "core/relay/passes/to_mixed_precision.h"

#include <algorithm>
#include <unordered_map>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_tensors.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

/// One whose operands and sums are float32, and that gains by narrow operands.
bool is_product(const Call& call, const NarrowCosts& costs) {
  return is_real_tensor(Expr(&call)) && std::all_of(call.args.begin(), call.args.end(), is_real_tensor) &&
         costs.pays(call, kBFloat16);
}

class ToMixedPrecision final : public ExprMutator {
 public:
  ToMixedPrecision(const Ref<Function>& function, const NarrowCosts& costs)
      : costs_(costs), tensors_(function, [&](const Call& call) { return is_product(call, costs); }) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    const Op* op = operator_of(e);
    if (!op) return visit_default(e);
    if (op->narrow == NarrowRule::kProduct && is_product(*e, costs_)) return product(*e, *op->product);
    if (op->narrow == NarrowRule::kMean && op->mean && tensors_.is_narrow(e->args[0])) return mean(*e, *op);
    // Elements are chosen among narrow ones, and widened for who reads them here.
    if (is_choice(*e) && tensors_.is_narrow(e)) return loaded(e);
    std::vector<Expr> args;
    for (const Expr& arg : e->args) args.push_back(read(arg));
    // By address: what has not changed stays the same node, and passes behind see that.
    if (args == e->args) return e;
    auto copy = mutate(*e);
    copy->args = std::move(args);
    return seal(std::move(copy));
  }

  Expr visit_projection(const Ref<Projection>& e) override {
    return tensors_.is_narrow(e) ? loaded(e) : visit_default(e);
  }

  /// `original` rewritten, as who reads it gets it.
  Expr read(const Expr& original) {
    if (const auto* tuple = original.as<Tuple>()) {
      std::vector<Expr> items;
      for (const Expr& item : tuple->items) items.push_back(read(item));
      return items == tuple->items ? original : typed_tuple(items);
    }
    return tensors_.is_narrow(original) ? loaded(original) : visit(original);
  }

  /// As it is stored.
  Expr stored(const Expr& original) {
    // Once for all readers: a tensor is written in one way.
    if (Expr known = stored_[original.get()]) return known;
    return stored_[original.get()] = narrowed(original);
  }
  Expr loaded(const Expr& original) {
    if (Expr known = loaded_[original.get()]) return known;
    return loaded_[original.get()] = cast(stored(original), kFloat32);
  }

  /// An operator that chooses elements chooses narrow ones.
  Expr narrowed(const Expr& original) {
    const auto* part = original.as<Projection>();
    const Expr& source = part ? part->tuple : original;
    const Op* op = operator_of(source);
    if (!op || !is_choice(*source.as<Call>())) return cast(visit(original), kBFloat16);
    Expr& chosen = chosen_[source.get()];
    if (!chosen) {
      std::vector<Expr> args = source.as<Call>()->args;
      for (size_t i = 0; i < args.size(); ++i)
        args[i] = i == 0 || is_real_tensor(args[i]) ? stored_tensors(args[i]) : visit(args[i]);
      chosen = typed_call(op->name, args, source.as<Call>()->attrs);
    }
    return part ? typed_projection(chosen, part->index) : chosen;
  }

  /// The same for the items of a tuple.
  Expr stored_tensors(const Expr& original) {
    const auto* tuple = original.as<Tuple>();
    if (!tuple) return stored(original);
    std::vector<Expr> items;
    for (const Expr& item : tuple->items) items.push_back(stored(item));
    return typed_tuple(items);
  }

  Expr product(const Call& call, const ProductRule& rule) {
    return typed_call(call.callee.as<OpNode>()->name, {stored(call.args[0]), stored(call.args[1])},
                      rule.with_sums_of(call.attrs, kFloat32));
  }

  /// Widens while it sums.
  Expr mean(const Call& call, const Op& op) {
    size_t rank = call.args[0]->checked_type.as<TensorType>()->shape.size();
    Attrs attrs = op.mean(call.attrs, rank);
    // A mean of whole axes is written as such, and widens while it sums; one of windows stays the operator it
    // is.
    return attrs ? typed_call("mean", {loaded(call.args[0])}, attrs)
                 : typed_call(op.name, {loaded(call.args[0])}, call.attrs);
  }

  const NarrowCosts& costs_;
  NarrowTensors tensors_;
  std::unordered_map<const Node*, Expr> stored_, loaded_;  // by expression before rewriting
  std::unordered_map<const Node*, Expr> chosen_;           // calls that choose elements, tuples too
};

}  // namespace

Module to_mixed_precision(const Module& module, const NarrowCosts& costs) {
  return map_functions(module, [&](const Ref<Function>& function) {
    return function->attrs.primitive ? function : ToMixedPrecision(function, costs).visit_as(function);
  });
}

}  // namespace lathe::relay
