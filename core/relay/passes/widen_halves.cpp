#include "core/relay/passes/widen_halves.h"

#include <algorithm>
#include <unordered_map>

#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_tensors.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/result_dtypes.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

bool is_half(const Type& type) {
  const auto* tensor = type ? type.as<TensorType>() : nullptr;
  return tensor && tensor->dtype == kFloat16;
}
bool is_half(const Expr& e) { return is_half(e->checked_type); }

DataType wide(DataType dtype) { return dtype == kFloat16 ? kFloat32 : dtype; }

Type wide(const Type& type) {
  return rewrite(type,
                 [](const NodeRef& node) {
                   const auto* tensor = node.as<TensorType>();
                   if (!tensor || tensor->dtype != kFloat16) return node;
                   return NodeRef(tensor_type(tensor->shape, kFloat32));
                 })
      .cast<TypeNode>();
}

bool has_half(const NodeRef& root) {
  bool found = false;
  post_order(root, [&](const NodeRef& node) {
    const auto* type = node.as<TensorType>();
    const auto* literal = node.as<Constant>();
    const auto* casts = node.as<CastAttrs>();
    found |= (type && type->dtype == kFloat16) || (literal && literal->value.dtype() == kFloat16) ||
             (casts && casts->dtype == kFloat16);
  });
  return found;
}

/// Without a type: types of what this makes are inferred again.
Expr untyped_cast(const Expr& e, DataType dtype) { return call("cast", {e}, make<CastAttrs>(dtype)); }

class HalfWidener final : public ExprMutator {
 public:
  explicit HalfWidener(const NarrowCosts& costs) : costs_(costs) {}

  /// What callers outside give and take keeps its type.
  Ref<Function> entry(const Function& main) {
    auto copy = mutate(main);
    for (Var& param : copy->params) {
      const Var given = make_var(param->name, param->annotation);
      set(param, is_half(param) ? held(param, given) : Expr(given));
      param = given;
    }
    copy->body = result(main.body);
    copy->checked_type = nullptr;
    return seal(std::move(copy));
  }

 private:
  Type visit_type(const Type& type) override { return wide(type); }

  Expr visit_constant(const Ref<Constant>& e) override {
    if (e->value.dtype() != kFloat16) return e;
    Tensor values(e->value.shape(), kFloat32);
    for (int64_t i = 0; i < values.size(); ++i) values.as<float>()[i] = static_cast<float>(e->value.value(i));
    return constant(values);
  }

  Expr visit_call(const Ref<Call>& e) override {
    const Op* op = operator_of(e);
    if (op && moves(*op) && is_half(e) && chooses_held(e->args[0]))
      return held(e, call(op->name, halves(e->args), e->attrs));
    if (op && op->narrow == NarrowRule::kProduct && is_half(e->args[0]) && is_half(e->args[1]) &&
        !(is_matrix_product(*e) && e->args[1].as<Constant>()) && costs_.pays(*e, kFloat16))
      return call(op->name, halves(e->args), op->product->with_sums_of(e->attrs, kFloat32));
    // Passes that look for quantization see nothing between a product and its operands.
    if (is_cast_to_itself(*e)) return visit(e->args[0]);
    auto copy = mutate(*visit_default(e).as<Call>());
    copy->attrs = with_real_dtypes(e->attrs, [](DataType dtype) { return wide(dtype); });
    return seal(std::move(copy));
  }

  /// Compares nothing, as the largest of a window does.
  static bool moves(const Op& op) {
    return op.narrow == NarrowRule::kChoice && op.fusion != Fusion::kAnchor &&
           op.fusion != Fusion::kReduction;
  }

  /// Once all is float32.
  static bool is_cast_to_itself(const Call& call) {
    const auto* to = call.attrs.as<CastAttrs>();
    const auto* from = to ? call.args[0]->checked_type.as<TensorType>() : nullptr;
    return from && wide(from->dtype) == wide(to->dtype);
  }

  /// `original` lies in memory as `half`; who computes with it reads it as float32.
  Expr held(const Expr& original, const Expr& half) {
    held_[original.get()] = half;
    return untyped_cast(half, kFloat32);
  }

  bool is_held(const Expr& e) const { return held_.count(e.get()) != 0 || (is_half(e) && e.as<Constant>()); }
  bool chooses_held(const Expr& from) const {
    const auto* tuple = from.as<Tuple>();
    return tuple ? std::any_of(tuple->items.begin(), tuple->items.end(),
                               [&](const Expr& e) { return is_held(e); })
                 : is_held(from);
  }

  /// As float16.
  Expr half(const Expr& original) {
    if (original.as<Constant>()) return original;
    const Expr value = visit(original);
    if (const auto found = held_.find(original.get()); found != held_.end()) return found->second;
    Expr& known = rounded_[original.get()];
    if (!known) known = untyped_cast(value, kFloat16);
    return known;
  }
  /// Those that are of float16, and the rest as they become.
  std::vector<Expr> halves(const std::vector<Expr>& originals) {
    std::vector<Expr> result;
    for (const Expr& e : originals) {
      const auto* items = e.as<Tuple>();
      result.push_back(items ? tuple(halves(items->items)) : is_half(e) ? half(e) : visit(e));
    }
    return result;
  }

  /// The value of `main`.
  Expr result(const Expr& body) {
    if (is_half(body)) return half(body);
    if (!has_half(body->checked_type)) return visit(body);
    const auto* type = body->checked_type.as<TupleType>();
    if (const auto* items = body.as<Tuple>()) return tuple(halves(items->items));
    const Var whole = make_var("result");
    std::vector<Expr> parts;
    for (size_t i = 0; i < type->items.size(); ++i) {
      const Expr part = project(whole, static_cast<int64_t>(i));
      parts.push_back(is_half(type->items[i]) ? untyped_cast(part, kFloat16) : part);
    }
    return make<Let>(whole, visit(body), tuple(parts));
  }

  const NarrowCosts& costs_;
  std::unordered_map<const Node*, Expr> held_, rounded_;  // as float16, by expression before rewriting
};

/// What the boundary of `main` can cast.
bool is_tensor_or_other(const Type& type) { return is_half(type) || !has_half(type); }

bool can_widen(const Module& module) {
  const auto main = module->functions.find("main");
  if (main == module->functions.end()) return false;
  const Function& entry = *main->second;
  for (const Var& param : entry.params)
    if (!is_tensor_or_other(param->checked_type)) return false;
  const Type& result = entry.body->checked_type;
  const auto* parts = result.as<TupleType>();
  const bool castable = parts ? std::all_of(parts->items.begin(), parts->items.end(), is_tensor_or_other)
                              : is_tensor_or_other(result);
  if (!castable) return false;
  for (const auto& [name, data] : module->types)
    if (has_half(data)) return false;
  bool known = true;
  post_order(module, [&](const NodeRef& node) {
    const auto* callee = node.as<GlobalVarNode>();
    const auto* function = node.as<Function>();
    known &= !node.as<PrimFunc>() && !node.as<ExternFunc>() && !(callee && callee->name == "main") &&
             !(function && function->attrs.primitive);
  });
  return known;
}

}  // namespace

Module widen_halves(const Module& module, const NarrowCosts& costs) {
  if (!has_half(module) || !can_widen(module)) return module;
  auto result = mutate(*module);
  for (auto& [name, function] : result->functions) {
    HalfWidener widener(costs);
    function = name == "main" ? widener.entry(*function) : widener.visit_as(function);
  }
  return seal(std::move(result));
}

}  // namespace lathe::relay
