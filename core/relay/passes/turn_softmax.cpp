#include "core/relay/passes/turn_softmax.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

class TurnSoftmax final : public ExprMutator {
 public:
  explicit TurnSoftmax(int64_t lanes) : lanes_(lanes) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    const Expr rebuilt = visit_default(e);
    const auto* call = rebuilt.as<Call>();
    const auto* op = call->callee.as<OpNode>();
    if (!op || (op->name != "nn.softmax" && op->name != "nn.fast_softmax" && op->name != "nn.log_softmax"))
      return rebuilt;
    const auto& type = *call->args[0]->checked_type.as<TensorType>();
    const auto rank = static_cast<int64_t>(type.shape.size());
    const int64_t given = ops::attrs_as<SoftmaxAttrs>(call->attrs).axis,
                  axis = given < 0 ? given + rank : given;
    const std::optional<int64_t> behind = elements_behind(type, axis);
    if (!behind || *behind == 1) return rebuilt;  // one element is no reason to move anything
    return is_narrow(type, axis, *behind) ? turned(*call, axis, rank) : rebuilt;
  }

  /// The number of elements that one step along the axis goes past; nothing where that is open, or the axis
  /// is the last.
  static std::optional<int64_t> elements_behind(const TensorType& type, int64_t axis) {
    const auto first = static_cast<size_t>(axis) + 1;
    if (first >= type.shape.size()) return std::nullopt;
    int64_t count = 1;
    for (size_t d = first; d < type.shape.size(); ++d) {
      if (!as_int(type.shape[d])) return std::nullopt;
      count *= int_value(type.shape[d]);
    }
    return count;
  }

  bool is_narrow(const TensorType& type, int64_t axis, int64_t behind) const {
    // A half is twice as fast along the axis, which moving it there and back takes.
    constexpr int64_t kFewestTimes = 4;
    const int64_t* length = as_int(type.shape[static_cast<size_t>(axis)]);
    const int64_t lanes = lanes_ * kFloat32.bytes() / type.dtype.bytes();
    return behind > 0 && behind * kFewestTimes <= lanes && length && *length >= lanes;
  }

  static Expr along_last(const Call& call, const Expr& x) {
    return typed_call(call.callee.as<OpNode>()->name, {x}, make<SoftmaxAttrs>(int64_t{-1}));
  }

  static Expr turned(const Call& call, int64_t axis, int64_t rank) {
    Ints last(static_cast<size_t>(rank)), back(last.size());
    std::iota(last.begin(), last.end(), 0);
    std::rotate(last.begin() + axis, last.begin() + axis + 1, last.end());
    for (size_t d = 0; d < last.size(); ++d) back[static_cast<size_t>(last[d])] = static_cast<int64_t>(d);
    const Expr rows = typed_call("transpose", {call.args[0]}, make<TransposeAttrs>(last));
    return typed_call("transpose", {along_last(call, rows)}, make<TransposeAttrs>(back));
  }

  int64_t lanes_;
};

}  // namespace

Module turn_softmax(const Module& module, const Target& target) {
  if (target.kind != "cpu") return module;
  return map_functions(
      module, [&](const Ref<Function>& function) { return TurnSoftmax(target.lanes()).visit_as(function); });
}

}  // namespace lathe::relay
