// Normalizations.
#include <algorithm>

#include "core/relay/ops/families.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

/// Axes [first, rank) but `except`.
Ints axes_from(size_t first, size_t rank, size_t except = SIZE_MAX) {
  Ints axes;
  for (size_t d = first; d < rank; ++d)
    if (d != except) axes.push_back(static_cast<int64_t>(d));
  return axes;
}

size_t axis_of(int64_t axis, const Buffer& x) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(x->shape.size()) : axis);
}

Expr dims_count(const Shape& shape, const Ints& axes) {
  Expr count = 1;
  for (int64_t axis : axes) count = count * shape[axis];
  return count;
}

/// Each vector argument has the length of `axis`.
Relation channel_vectors(RelationContext& c, int64_t axis) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  require_float(c, 0, *x);
  int64_t at = front_axis(c, axis, static_cast<int64_t>(x->shape.size()));
  for (size_t arg = 1; arg < c.args(); ++arg) demand(c, arg, {x->shape[at]}, x->dtype);
  return Relation::kSolved;
}

Relation batch_norm_type(RelationContext& c, const Attrs& attrs) {
  const NormAttrs& a = attrs_as<NormAttrs>(attrs);
  if (channel_vectors(c, a.axis) == Relation::kWaits) return Relation::kWaits;
  const TensorType* x = c.tensor(0);
  Type vector =
      tensor_type({x->shape[front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()))]}, x->dtype);
  c.result(tuple_type({tensor_type(x->shape, x->dtype), vector, vector}));
  return Relation::kSolved;
}

template <typename A>
Relation norm_type(RelationContext& c, const Attrs& attrs) {
  if (channel_vectors(c, attrs_as<A>(attrs).axis) == Relation::kWaits) return Relation::kWaits;
  return same_as_input(c, attrs);
}

Relation group_norm_type(RelationContext& c, const Attrs& attrs) {
  const NormAttrs& a = attrs_as<NormAttrs>(attrs);
  if (channel_vectors(c, a.axis) == Relation::kWaits) return Relation::kWaits;
  const TensorType* x = c.tensor(0);
  int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  if (axis == 0) mismatch(c, "axis is {}, which is the batch's", a.axis);
  const int64_t* channels = as_int(x->shape[axis]);
  if (a.num_groups < 1 || (channels && *channels % a.num_groups != 0))
    mismatch(c, "num_groups is {}, must divide the channels of {}", a.num_groups, describe(x->shape));
  require_multiple(c, x->shape[axis], a.num_groups);
  return same_as_input(c, attrs);
}

/// (x - mean) / sqrt(variance + epsilon)
Expr normalized(const Expr& x, const Expr& mean, const Expr& variance, double epsilon) {
  return div(x - mean, intrinsic(Intrinsic::kSqrt, variance + real(x, epsilon)));
}

Buffers batch_norm(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const NormAttrs& a = attrs_as<NormAttrs>(attrs);
  size_t axis = axis_of(a.axis, in[0]);
  Buffer y = f.compute("batch_norm", in[0]->shape, [&](Vars i) {
    auto at_channel = [&](size_t arg) { return load(in[arg], {i[axis]}); };
    // Arguments: data, gamma, beta, mean, variance.
    Expr value = normalized(at(in[0], i), at_channel(3), at_channel(4), a.epsilon);
    if (a.scale) value = value * at_channel(1);
    return a.center ? value + at_channel(2) : value;
  });
  auto copy = [&](size_t arg) {
    return f.compute("copy", in[arg]->shape, [&](Vars i) { return at(in[arg], i); });
  };
  // The statistics are results too; copies, since a buffer is not both an input and an output.
  return {y, copy(3), copy(4)};
}

/// 1 / sqrt(squares / count + epsilon): one division for all that it scales.
Buffer scale_of(FuncBuilder& f, const Buffer& squares, const Expr& count, double epsilon) {
  return f.compute("scale", squares->shape, [&](Vars i) {
    Expr variance = div(at(squares, i), count);
    return div(real(variance, 1), intrinsic(Intrinsic::kSqrt, variance + real(variance, epsilon)));
  });
}

/// `indices` into a tensor of which the `axes` are kept as 1.
Expr kept(const Buffer& b, std::vector<Expr> indices, const Ints& axes) {
  for (int64_t d : axes) indices[static_cast<size_t>(d)] = 0;
  return load(b, indices);
}

/// What standardizes x over its `axes`, which are kept as 1: the mean, null when it is not taken off, and
/// what to multiply with.
struct Statistics {
  Buffer mean, scale;
};

/// In two passes: the mean, then squares of what is left. Mean of squares less square of the mean would be
/// one pass, and lose all digits where the mean is large.
Statistics statistics(FuncBuilder& f, const Buffer& x, const Ints& axes, double epsilon, bool center) {
  Expr count = cast(x->dtype, dims_count(x->shape, axes));
  Buffer mean;
  if (center) {
    Buffer sum = reduce_over(f, "sum", x->shape, axes, true, tir::Combiner::kSum,
                             [&](const std::vector<Expr>& i) { return load(x, i); });
    mean = f.compute("mean", sum->shape, [&](Vars i) { return div(at(sum, i), count); });
  }
  Buffer squares =
      reduce_over(f, "squares", x->shape, axes, true, tir::Combiner::kSum, [&](const std::vector<Expr>& i) {
        Expr difference = center ? load(x, i) - kept(mean, i, axes) : load(x, i);
        return difference * difference;
      });
  return {mean, scale_of(f, squares, count, epsilon)};
}

/// (x - mean) * scale, or x * scale.
Expr standardized(const Buffer& x, const Statistics& s, Vars i, const Ints& axes) {
  Expr value = s.mean ? at(x, i) - kept(s.mean, as_indices(i), axes) : at(x, i);
  return value * kept(s.scale, as_indices(i), axes);
}

/// Statistics over `axes` of x, then the affine map by vectors along `axis`.
Buffer normalize(FuncBuilder& f, Inputs in, const Ints& axes, size_t axis, double epsilon, bool scale,
                 bool center) {
  Statistics s = statistics(f, in[0], axes, epsilon, true);
  return f.compute("normalize", in[0]->shape, [&](Vars i) {
    Expr value = standardized(in[0], s, i, axes);
    if (scale) value = value * load(in[1], {i[axis]});
    return center ? value + load(in[2], {i[axis]}) : value;
  });
}

/// As reduce_over() takes them.
Ints ascending(const Ints& given, const Buffer& x) {
  Ints axes;
  for (int64_t a : given) axes.push_back(static_cast<int64_t>(axis_of(a, x)));
  std::sort(axes.begin(), axes.end());
  return axes;
}

Relation standardize_type(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0))
    for (int64_t axis : attrs_as<StandardizeAttrs>(attrs).axes)
      front_axis(c, axis, static_cast<int64_t>(x->shape.size()));
  return same_as_float_input(c, attrs);
}

Buffers standardize(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const StandardizeAttrs& a = attrs_as<StandardizeAttrs>(attrs);
  Ints axes = ascending(a.axes, in[0]);
  Statistics s = statistics(f, in[0], axes, a.epsilon, a.center);
  return {f.compute("standardize", in[0]->shape, [&](Vars i) { return standardized(in[0], s, i, axes); })};
}

Buffers layer_norm(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const LayerNormAttrs& a = attrs_as<LayerNormAttrs>(attrs);
  size_t axis = axis_of(a.axis, in[0]);
  return {normalize(f, in, {static_cast<int64_t>(axis)}, axis, a.epsilon, a.scale, a.center)};
}

Buffers instance_norm(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const NormAttrs& a = attrs_as<NormAttrs>(attrs);
  size_t axis = axis_of(a.axis, in[0]);
  return {normalize(f, in, axes_from(1, in[0]->shape.size(), axis), axis, a.epsilon, a.scale, a.center)};
}

/// Channels are seen as (groups, channels / groups); statistics run over all but the batch and the group.
Buffers group_norm(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const NormAttrs& a = attrs_as<NormAttrs>(attrs);
  const Buffer& x = in[0];
  size_t axis = axis_of(a.axis, x);
  Expr per_group = floordiv(x->shape[axis], Expr(a.num_groups));
  Shape grouped = x->shape;
  grouped[axis] = per_group;
  grouped.insert(grouped.begin() + static_cast<int64_t>(axis), Expr(a.num_groups));
  Ints axes = axes_from(1, grouped.size(), axis);
  Expr count = cast(x->dtype, dims_count(grouped, axes));
  // x by indices of the grouped shape: (.., group, channel in it, ..).
  auto element = [&](std::vector<Expr> i) {
    i[axis] = i[axis] * per_group + i[axis + 1];
    i.erase(i.begin() + static_cast<int64_t>(axis) + 1);
    return load(x, i);
  };
  Buffer sum = reduce_over(f, "sum", grouped, axes, false, tir::Combiner::kSum, element);
  Buffer mean = f.compute("mean", sum->shape, [&](Vars i) { return div(at(sum, i), count); });
  Buffer squares =
      reduce_over(f, "squares", grouped, axes, false, tir::Combiner::kSum, [&](const std::vector<Expr>& i) {
        Expr difference = element(i) - load(mean, {i[0], i[axis]});
        return difference * difference;
      });
  Buffer factor = scale_of(f, squares, count, a.epsilon);
  return {f.compute("normalize", x->shape, [&](Vars i) {
    Expr group = floordiv(i[axis], per_group);
    Expr value = (at(x, i) - load(mean, {i[0], group})) * load(factor, {i[0], group});
    if (a.scale) value = value * load(in[1], {i[axis]});
    return a.center ? value + load(in[2], {i[axis]}) : value;
  })};
}

Relation lrn_type(RelationContext& c, const Attrs& attrs) {
  const LrnAttrs& a = attrs_as<LrnAttrs>(attrs);
  if (a.size < 1 || a.size > 65536) mismatch(c, "size is {}, must be from 1 to 65536", a.size);
  if (const TensorType* x = c.tensor(0)) front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  return same_as_float_input(c, attrs);
}

Relation l2_normalize_type(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0))
    for (int64_t axis : attrs_as<L2NormalizeAttrs>(attrs).axis)
      front_axis(c, axis, static_cast<int64_t>(x->shape.size()));
  return same_as_float_input(c, attrs);
}

/// x / (bias + alpha/size * sum of squares of the `size` neighbours along axis) ^ beta
Buffers lrn(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const LrnAttrs& a = attrs_as<LrnAttrs>(attrs);
  const Buffer& x = in[0];
  size_t axis = axis_of(a.axis, x);
  Ints before(x->shape.size(), 0), after = before;
  before[axis] = (a.size - 1) / 2;
  after[axis] = a.size - 1 - before[axis];
  // Zeros beyond the ends, so that each sum is over `size` terms.
  Buffer frame = padded(f, x, before, after, lathe::constant(x->dtype, 0));
  Buffer squares = f.reduce("squares", x->shape, {Expr(a.size)}, tir::Combiner::kSum, [&](Vars i, Vars r) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = indices[axis] + r[0];
    return load(frame, indices) * load(frame, indices);
  });
  return {f.compute("lrn", x->shape, [&](Vars i) {
    Expr value = at(x, i);
    return div(value, binary(BinaryOp::kPow,
                             at(squares, i) * real(value, a.alpha / static_cast<double>(a.size)) +
                                 real(value, a.bias),
                             real(value, a.beta)));
  })};
}

/// x / sqrt(max(sum of squares over axis, eps))
Buffers l2_normalize(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const L2NormalizeAttrs& a = attrs_as<L2NormalizeAttrs>(attrs);
  const Buffer& x = in[0];
  Ints axes = ascending(a.axis, x);
  if (axes.empty()) axes = axes_from(0, x->shape.size());
  Buffer squares = reduce_over(f, "squares", x->shape, axes, true, tir::Combiner::kSum,
                               [&](const std::vector<Expr>& i) { return load(x, i) * load(x, i); });
  Buffer scale = f.compute("scale", squares->shape, [&](Vars i) {
    Expr sum = at(squares, i);
    return div(real(sum, 1), intrinsic(Intrinsic::kSqrt, max(sum, real(sum, a.eps))));
  });
  return {f.compute("l2_normalize", x->shape,
                    [&](Vars i) { return at(x, i) * kept(scale, as_indices(i), axes); })};
}

constexpr Op row(const char* name, const char* doc, int args, const NodeType* attrs, InferType infer,
                 Compute compute, Fusion fusion = Fusion::kReduction) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = fusion};
}

constexpr Op kNormOps[] = {
    row("nn.batch_norm",
        "(gamma * (x - mean) / sqrt(var + epsilon) + beta, mean, var) from data, gamma, beta, mean, var; "
        "inference form.",
        5, &NormAttrs::kType, batch_norm_type, batch_norm, Fusion::kOpaque),
    row("nn.layer_norm", "Normalizes along `axis`, then gamma * x + beta.", 3, &LayerNormAttrs::kType,
        norm_type<LayerNormAttrs>, layer_norm),
    row("nn.instance_norm", "Normalizes over the spatial axes of each channel, then gamma * x + beta.", 3,
        &NormAttrs::kType, norm_type<NormAttrs>, instance_norm),
    row("nn.group_norm", "Normalizes over groups of channels and the spatial axes, then gamma * x + beta.", 3,
        &NormAttrs::kType, group_norm_type, group_norm),
    row("nn.standardize",
        "(x - mean) / sqrt(variance + epsilon) with statistics over `axes`; without `center` x / sqrt(mean "
        "of "
        "squares + epsilon).",
        1, &StandardizeAttrs::kType, standardize_type, standardize),
    row("nn.lrn", "x / (bias + alpha/size * sum of squares of `size` neighbours along axis) ^ beta.", 1,
        &LrnAttrs::kType, lrn_type, lrn, Fusion::kOpaque),
    row("nn.l2_normalize", "x / sqrt(max(sum of squares along axis, eps)).", 1, &L2NormalizeAttrs::kType,
        l2_normalize_type, l2_normalize),
};
}  // namespace

std::span<const Op> norm_ops() { return kNormOps; }

}  // namespace lathe::relay::ops
