// Bias, activations and what inference drops.
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

/// A vector along `axis` beside the data.
Relation channel_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  int64_t axis = front_axis(c, attrs_as<ChannelAttrs>(attrs).axis, static_cast<int64_t>(x->shape.size()));
  demand(c, 1, {x->shape[axis]}, x->dtype);
  return same_as_input(c, attrs);
}

template <Expr (*F)(Expr, Expr)>
Buffers by_channel(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  int64_t axis = attrs_as<ChannelAttrs>(attrs).axis;
  if (axis < 0) axis += static_cast<int64_t>(in[0]->shape.size());
  return {f.compute("map", in[0]->shape, [&](Vars i) { return F(at(in[0], i), load(in[1], {i[axis]})); })};
}

Expr relu(Expr x) { return max(x, lathe::constant(x.dtype(), 0)); }
Expr slope_below_zero(Expr x, Expr slope) {
  return select(less(lathe::constant(x.dtype(), 0), x), x, x * slope);
}

Buffers leaky_relu(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  double alpha = attrs_as<LeakyReluAttrs>(attrs).alpha;
  return {f.compute("leaky_relu", in[0]->shape, [&](Vars i) {
    Expr x = at(in[0], i);
    return slope_below_zero(x, real(x, alpha));
  })};
}

/// (data, mask): at inference the data itself and a mask of ones.
Relation dropout_type(RelationContext& c, const Attrs&) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  Type type = tensor_type(x->shape, x->dtype);
  c.result(tuple_type({type, type}));
  return Relation::kSolved;
}

Buffers dropout(FuncBuilder& f, const Attrs&, Inputs in, const Type&) {
  return {f.compute("copy", in[0]->shape, [&](Vars i) { return at(in[0], i); }),
          f.compute("mask", in[0]->shape, [&](Vars) { return lathe::constant(in[0]->dtype, 1); })};
}

constexpr Op kActivationOps[] = {
    {.name = "nn.bias_add",
     .doc = "data + bias along `axis`.",
     .args = 2,
     .attrs = &ChannelAttrs::kType,
     .infer = channel_type,
     .compute = by_channel < lathe::operator+>,
     .fusion = Fusion::kBroadcast,
     .layout = LayoutRule::kBias},
    {.name = "nn.prelu",
     .doc = "x > 0 ? x : alpha[channel] * x.",
     .args = 2,
     .attrs = &ChannelAttrs::kType,
     .infer = channel_type,
     .compute = by_channel<slope_below_zero>,
     .fusion = Fusion::kBroadcast,
     .layout = LayoutRule::kSlope},
    {.name = "nn.relu",
     .doc = "max(x, 0).",
     .args = 1,
     .infer = same_as_input,
     .compute = map1<relu>,
     .fusion = Fusion::kElementwise,
     .layout = LayoutRule::kElementwise},
    {.name = "nn.leaky_relu",
     .doc = "x > 0 ? x : alpha * x.",
     .args = 1,
     .attrs = &LeakyReluAttrs::kType,
     .infer = same_as_input,
     .compute = leaky_relu,
     .fusion = Fusion::kElementwise,
     .layout = LayoutRule::kElementwise},
    {.name = "nn.dropout",
     .doc = "(data, mask); at inference the data unchanged.",
     .args = 1,
     .attrs = &DropoutAttrs::kType,
     .infer = dropout_type,
     .compute = dropout,
     .fusion = Fusion::kOpaque},
};
}  // namespace

std::span<const Op> activation_ops() { return kActivationOps; }

}  // namespace lathe::relay::ops
