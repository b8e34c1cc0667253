#include "core/relay/passes/alter_layout.h"

#include "core/relay/analysis/calls.h"
#include "core/relay/passes/alter_layout/blocked_graph.h"

namespace lathe::relay {
namespace {

LayoutHandler handler_of(LayoutRule rule) {
  switch (rule) {
    case LayoutRule::kNone:
      return nullptr;
    case LayoutRule::kElementwise:
      return block_elementwise;
    case LayoutRule::kAttribute:
      return block_by_attribute;
    case LayoutRule::kReduction:
      return block_reduction;
    case LayoutRule::kPadding:
      return block_padding;
    case LayoutRule::kSlice:
      return block_slice;
    case LayoutRule::kConcatenation:
      return block_concatenation;
    case LayoutRule::kBias:
      return block_bias;
    case LayoutRule::kSlope:
      return block_slope;
    case LayoutRule::kConvolution:
      return block_convolution;
    case LayoutRule::kDense:
      return pack_dense;
  }
  CHECK(false, "layout rule {}", static_cast<int>(rule));
}

class AlterLayout final : public BlockedGraph {
 public:
  using BlockedGraph::BlockedGraph;

 protected:
  Expr visit_function(const Ref<Function>& e) override {
    return e->attrs.primitive ? Expr(e) : ExprMutator::visit_function(e);
  }

  Expr visit_call(const Ref<Call>& e) override {
    const OpNode* op = e->callee.as<OpNode>();
    LayoutHandler handler = op ? handler_of(op->row().layout) : nullptr;
    return given(e, handler ? handler(*this, e) : Blocked{});
  }

  Expr visit_projection(const Ref<Projection>& e) override {
    const Call* call = call_of(e->tuple, "split");
    return given(e, call ? block_part(*this, *call, e->index) : Blocked{});
  }

 private:
  Expr given(const Expr& e, const Blocked& result) {
    if (!result.expr) return visit_default(e);
    // Asked for its own layout, a blocked value is converted; later users of `e` that know blocks take it
    // from found() instead, and the conversion is no part of the result then.
    if (!result.block) return result.expr;
    remember(e, result);
    return plain(result);
  }
};

}  // namespace

Module alter_layout(const Module& module, const Target& target) {
  auto altered = mutate(*module);
  for (auto& [name, function] : altered->functions) function = AlterLayout(target).visit_as(function);
  return seal(std::move(altered));
}

}  // namespace lathe::relay
