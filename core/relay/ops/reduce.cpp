// Reductions over axes, and positions of extremes.
#include <algorithm>
#include <limits>

#include "core/relay/ops/families.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/reduced_axes.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

Ints reduced_axes(const std::optional<Ints>& axis, bool exclude, size_t rank) {
  // Without `axis` all axes vanish, unless `exclude` asks for all but those named: then none is.
  std::vector<bool> named(rank, !axis && !exclude);
  for (int64_t a : axis.value_or(Ints{}))
    named[static_cast<size_t>(a < 0 ? a + static_cast<int64_t>(rank) : a)] = true;
  Ints axes;
  for (size_t d = 0; d < rank; ++d)
    if (named[d] != (exclude && axis)) axes.push_back(static_cast<int64_t>(d));
  return axes;
}

namespace {

template <typename A>
Relation reduced_type(RelationContext& c, const A& a, std::optional<DataType> dtype) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  size_t rank = x->shape.size();
  for (int64_t axis : a.axis.value_or(Ints{})) front_axis(c, axis, static_cast<int64_t>(rank));
  Ints axes = reduced_axes(a.axis, a.exclude, rank);
  Shape shape;
  for (size_t d = 0; d < rank; ++d) {
    bool gone = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    if (!gone || a.keepdims) shape.push_back(gone ? Expr(1) : x->shape[d]);
  }
  c.result(tensor_type(shape, dtype.value_or(x->dtype)));
  return Relation::kSolved;
}

Relation reduce_type(RelationContext& c, const Attrs& attrs) {
  return reduced_type(c, attrs_as<ReduceAttrs>(attrs), std::nullopt);
}
Relation logical_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (x) require_dtype(c, 0, *x, kBool);
  return reduce_type(c, attrs);
}
Relation float_type(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0)) require_float(c, 0, *x);
  return reduce_type(c, attrs);
}
/// The mean has the shape of x with 1 for the reduced axes.
Relation variance_type(RelationContext& c, const Attrs& attrs) {
  const TensorType *x = c.tensor(0), *mean = c.tensor(1);
  if (!x || !mean) return Relation::kWaits;
  const ReduceAttrs& a = attrs_as<ReduceAttrs>(attrs);
  for (int64_t axis : a.axis.value_or(Ints{})) front_axis(c, axis, static_cast<int64_t>(x->shape.size()));
  Shape kept = x->shape;
  for (int64_t axis : reduced_axes(a.axis, a.exclude, kept.size())) kept[static_cast<size_t>(axis)] = 1;
  demand(c, 1, kept, x->dtype);
  return float_type(c, attrs);
}
Relation arg_type(RelationContext& c, const Attrs& attrs) {
  const ArgReduceAttrs& a = attrs_as<ArgReduceAttrs>(attrs);
  const Relation relation = reduced_type(c, a, kInt32);
  if (relation == Relation::kWaits) return relation;
  const Shape& shape = c.tensor(0)->shape;
  for (int64_t axis : reduced_axes(a.axis, a.exclude, shape.size())) {
    const Expr& extent = shape[static_cast<size_t>(axis)];
    if (is_int(extent, 0)) mismatch(c, "{} has no elements along axis {}", describe(shape), axis);
    require_at_least(c, extent, 1);
  }
  return relation;
}

Buffer over(FuncBuilder& f, const char* name, const ReduceAttrs& a, const Buffer& x, tir::Combiner combiner,
            const std::function<Expr(const std::vector<Expr>&)>& value) {
  return reduce_over(f, name, x->shape, reduced_axes(a.axis, a.exclude, x->shape.size()), a.keepdims,
                     combiner, value);
}

template <tir::Combiner kCombiner>
Buffers reduce(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  return {over(f, "reduce", attrs_as<ReduceAttrs>(attrs), in[0], kCombiner,
               [&](const std::vector<Expr>& i) { return load(in[0], i); })};
}

Expr count_of(const Buffer& x, const Ints& axes) {
  Expr count = 1;
  for (int64_t axis : axes) count = count * x->shape[axis];
  return count;
}

Buffers mean(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const ReduceAttrs& a = attrs_as<ReduceAttrs>(attrs);
  const DataType dtype = in[0]->dtype, wide = tir::dtype_of_sums(dtype);
  Buffer sum = over(f, "reduce", a, in[0], tir::Combiner::kSum,
                    [&](const std::vector<Expr>& i) { return cast(wide, load(in[0], i)); });
  Expr count = cast(wide, count_of(in[0], reduced_axes(a.axis, a.exclude, in[0]->shape.size())));
  return {f.compute("mean", sum->shape, [&](Vars i) { return cast(dtype, div(at(sum, i), count)); })};
}

/// mean((x - m)^2) where the mean m is the second argument, with the reduced axes kept.
Buffers variance(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const ReduceAttrs& a = attrs_as<ReduceAttrs>(attrs);
  Buffer sum = over(f, "squares", a, in[0], tir::Combiner::kSum, [&](const std::vector<Expr>& i) {
    std::vector<Expr> kept = i;
    for (size_t d = 0; d < kept.size(); ++d)
      if (is_int(in[1]->shape[d], 1)) kept[d] = 0;
    Expr difference = load(in[0], i) - load(in[1], kept);
    return difference * difference;
  });
  Expr count = count_of(in[0], reduced_axes(a.axis, a.exclude, in[0]->shape.size())) - (a.unbiased ? 1 : 0);
  return {
      f.compute("variance", sum->shape, [&](Vars i) { return div(at(sum, i), cast(sum->dtype, count)); })};
}

/// m + log(sum(exp(x - m))), m the largest element, or 0 where that is infinite: x - m would be no number.
Buffers logsumexp(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const ReduceAttrs& a = attrs_as<ReduceAttrs>(attrs);
  const Buffer& x = in[0];
  Ints axes = reduced_axes(a.axis, a.exclude, x->shape.size());
  auto kept = [&](std::vector<Expr> i) {
    for (int64_t axis : axes) i[axis] = 0;
    return i;
  };
  Buffer largest = reduce_over(f, "max", x->shape, axes, true, tir::Combiner::kMax,
                               [&](const std::vector<Expr>& i) { return load(x, i); });
  Buffer taken_off = f.compute("taken_off", largest->shape, [&](Vars i) {
    Expr m = at(largest, i);
    return select(intrinsic(Intrinsic::kIsInf, m), real(m, 0), m);
  });
  Buffer sum =
      reduce_over(f, "sum", x->shape, axes, true, tir::Combiner::kSum, [&](const std::vector<Expr>& i) {
        return intrinsic(Intrinsic::kExp, load(x, i) - load(taken_off, kept(i)));
      });
  return {f.compute("logsumexp", tensor_of(result).shape, [&](Vars i) {
    // `taken_off` and `sum` keep the reduced axes as 1; the result may not.
    std::vector<Expr> indices;
    size_t next = 0;
    for (size_t d = 0; d < x->shape.size(); ++d) {
      bool gone = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
      indices.push_back(gone ? Expr(0) : Expr(i[next]));
      if (!gone || a.keepdims) ++next;
    }
    return load(taken_off, indices) + intrinsic(Intrinsic::kLog, load(sum, indices));
  })};
}

/// Two reductions: the extreme, then the first (last) position, counted over the reduced axes, that holds it.
/// The extreme is that of the numbers; a NaN counts as equal to it, so that there always is a position.
template <tir::Combiner kCombiner>
Buffers arg_extreme(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const ArgReduceAttrs& a = attrs_as<ArgReduceAttrs>(attrs);
  const Buffer& x = in[0];
  Ints axes = reduced_axes(a.axis, a.exclude, x->shape.size());
  Buffer best = reduce_over(f, "extreme", x->shape, axes, true, kCombiner,
                            [&](const std::vector<Expr>& i) { return load(x, i); });
  tir::Combiner combiner = a.select_last_index ? tir::Combiner::kMax : tir::Combiner::kMin;
  return {reduce_over(f, "position", x->shape, axes, a.keepdims, combiner, [&](const std::vector<Expr>& i) {
    Expr position = 0;
    std::vector<Expr> kept = i;
    for (int64_t axis : axes) {
      position = position * x->shape[axis] + i[axis];
      kept[axis] = 0;
    }
    Expr element = load(x, i), extreme = load(best, kept);
    // False for NaN.
    Expr falls_short = kCombiner == tir::Combiner::kMax ? less(element, extreme) : less(extreme, element);
    // Elements other than the extreme take no part: they give what the combiner ignores.
    return select(falls_short, identity_of(combiner, kInt32), cast(kInt32, position));
  })};
}

constexpr Op row(const char* name, const char* doc, Compute compute, InferType infer = reduce_type,
                 const NodeType* attrs = &ReduceAttrs::kType, int args = 1,
                 LayoutRule layout = LayoutRule::kNone) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kReduction,
          .layout = layout};
}

/// A reduction of one tensor to its type: in any layout.
constexpr Op plain_row(const char* name, const char* doc, Compute compute) {
  return row(name, doc, compute, reduce_type, &ReduceAttrs::kType, 1, LayoutRule::kReduction);
}

constexpr Op kReduceOps[] = {
    plain_row("sum", "Sum over `axis`.", reduce<tir::Combiner::kSum>),
    plain_row("prod", "Product over `axis`.", reduce<tir::Combiner::kProd>),
    plain_row("max", "Largest over `axis`; NaN is passed over.", reduce<tir::Combiner::kMax>),
    plain_row("min", "Smallest over `axis`; NaN is passed over.", reduce<tir::Combiner::kMin>),
    row("all", "True where all over `axis` are, of booleans.", reduce<tir::Combiner::kAnd>, logical_type),
    row("any", "True where one over `axis` is, of booleans.", reduce<tir::Combiner::kOr>, logical_type),
    plain_row("mean", "Mean over `axis`.", mean),
    row("variance", "Mean squared difference from the mean, given as second argument with reduced axes of 1.",
        variance, variance_type, &ReduceAttrs::kType, 2),
    row("logsumexp", "log(sum(exp(x))) over `axis`, without overflow.", logsumexp, float_type),
    row("argmax", "Position of the largest over `axis`; NaN counts as equal to the largest number.",
        arg_extreme<tir::Combiner::kMax>, arg_type, &ArgReduceAttrs::kType),
    row("argmin", "Position of the smallest over `axis`; NaN counts as equal to the smallest number.",
        arg_extreme<tir::Combiner::kMin>, arg_type, &ArgReduceAttrs::kType),
};
}  // namespace

std::span<const Op> reduce_ops() { return kReduceOps; }

}  // namespace lathe::relay::ops
