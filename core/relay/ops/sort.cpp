// Orders and running totals along one axis.
#include "core/relay/ops/families.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/order.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

size_t wrapped(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

/// The elements at `positions` along `axis`.
Buffer picked(FuncBuilder& f, const Buffer& x, const Buffer& positions, size_t axis) {
  return f.compute("picked", positions->shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = at(positions, i);
    return load(x, indices);
  });
}

Buffer converted(FuncBuilder& f, const Buffer& positions, DataType dtype) {
  return f.compute("indices", positions->shape, [&](Vars i) { return cast(dtype, at(positions, i)); });
}

template <bool kIndices>
Relation sort_type(RelationContext& c, const Attrs& attrs) {
  const SortAttrs& a = attrs_as<SortAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  c.result(tensor_type(x->shape, kIndices ? a.dtype : x->dtype));
  return Relation::kSolved;
}

template <bool kIndices>
Buffers sort(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const SortAttrs& a = attrs_as<SortAttrs>(attrs);
  size_t axis = wrapped(a.axis, in[0]->shape.size());
  Buffer positions = order(f, in[0], axis, a.is_ascend, in[0]->shape[axis]);
  return {kIndices ? converted(f, positions, a.dtype) : picked(f, in[0], positions, axis)};
}

/// What ret_type asks for, of values of `shape`.
Relation top_result(RelationContext& c, const TopkAttrs& a, const TensorType& x, const Shape& shape) {
  Type values = tensor_type(shape, x.dtype), indices = tensor_type(shape, a.dtype);
  if (a.ret_type == "both")
    c.result(tuple_type({values, indices}));
  else if (a.ret_type == "values")
    c.result(values);
  else if (a.ret_type == "indices")
    c.result(indices);
  else
    mismatch(c, "ret_type is `{}`, must be both, values or indices", a.ret_type);
  return Relation::kSolved;
}

Relation topk_type(RelationContext& c, const Attrs& attrs) {
  const TopkAttrs& a = attrs_as<TopkAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  Shape shape = x->shape;
  if (a.k >= 1) {
    if (as_int(shape[axis]) && int_value(shape[axis]) < a.k)
      mismatch(c, "k is {}, axis {} of {} has fewer", a.k, axis, describe(x->shape));
    require_at_least(c, shape[axis], a.k);
    shape[axis] = a.k;
  }
  return top_result(c, a, *x, shape);
}

Relation topk_like_type(RelationContext& c, const Attrs& attrs) {
  const TopkAttrs& a = attrs_as<TopkAttrs>(attrs);
  const TensorType *x = c.tensor(0), *like = c.tensor(1);
  if (!x || !like) return Relation::kWaits;
  if (a.k != 1) mismatch(c, "k is what the vector's length says, must not be given");
  require_rank(c, 1, *like, 1);
  const auto axis = static_cast<size_t>(front_axis(c, a.axis, static_cast<int64_t>(x->shape.size())));
  const Expr &n = x->shape[axis], &k = like->shape[0];
  if (as_int(n) && as_int(k) && int_value(n) < int_value(k))
    mismatch(c, "the vector has {} elements, axis {} of {} has fewer", int_value(k), axis,
             describe(x->shape));
  require_in_runs(c, max(n, k), n);
  Shape shape = x->shape;
  shape[axis] = k;
  return top_result(c, a, *x, shape);
}

Buffers topk(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const TopkAttrs& a = attrs_as<TopkAttrs>(attrs);
  size_t axis = wrapped(a.axis, in[0]->shape.size());
  Buffer positions = order(f, in[0], axis, a.is_ascend, tensor_of(result).shape[axis]);
  if (a.ret_type == "indices") return {converted(f, positions, a.dtype)};
  Buffer values = picked(f, in[0], positions, axis);
  return a.ret_type == "values" ? Buffers{values} : Buffers{values, converted(f, positions, a.dtype)};
}

Relation scan_type(RelationContext& c, const Attrs& attrs) {
  const ScanAttrs& a = attrs_as<ScanAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  if (a.axis) front_axis(c, *a.axis, static_cast<int64_t>(x->shape.size()));
  // Without an axis the tensor is scanned as one row.
  Shape shape = a.axis ? x->shape : Shape{dims_product(x->shape, 0, x->shape.size())};
  c.result(tensor_type(shape, a.dtype.value_or(x->dtype)));
  return Relation::kSolved;
}

/// out[0] = start, out[i] = out[i-1] combined with x[i-1] when exclusive; else out[i] includes x[i].
template <tir::Combiner kCombiner>
Buffers scan(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const ScanAttrs& a = attrs_as<ScanAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  Buffer x = in[0];
  if (!a.axis)
    x = f.compute("flat", type.shape, [&](Vars i) {
      std::vector<Expr> indices(in[0]->shape.size());
      Expr rest = i[0];
      for (size_t d = indices.size(); d-- > 0; rest = floordiv(rest, in[0]->shape[d]))
        indices[d] = floormod(rest, in[0]->shape[d]);
      return load(in[0], indices);
    });
  size_t axis = a.axis ? wrapped(*a.axis, x->shape.size()) : 0;
  return {f.ordered("scan", type.shape, axis, type.dtype, [&](const Buffer& out, Vars vars) {
    std::vector<Expr> here = as_indices(vars), before = here;
    before[axis] = here[axis] - 1;
    Expr start = identity_of(kCombiner, type.dtype), first = less(here[axis], Expr(1));
    Expr previous = select(first, start, load(out, before));
    Expr value = cast(type.dtype, load(x, a.exclusive ? before : here));
    if (a.exclusive) value = select(first, start, value);
    return combine(kCombiner, previous, value);
  })};
}

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute,
                 int args = 1) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kOpaque};
}

constexpr Op kSortOps[] = {
    row("sort", "The elements along `axis` in order, NaN last.", &SortAttrs::kType, sort_type<false>,
        sort<false>),
    row("argsort",
        "Positions of the elements along `axis` in order, those of NaN last; equal ones keep theirs.",
        &SortAttrs::kType, sort_type<true>, sort<true>),
    row("topk", "The k largest (smallest) along `axis`, and their positions; NaN comes after all numbers.",
        &TopkAttrs::kType, topk_type, topk),
    row("topk_like", "topk of as many as the vector has elements.", &TopkAttrs::kType, topk_like_type, topk,
        2),
    row("cumsum", "Running sums along `axis`.", &ScanAttrs::kType, scan_type, scan<tir::Combiner::kSum>),
    row("cumprod", "Running products along `axis`.", &ScanAttrs::kType, scan_type,
        scan<tir::Combiner::kProd>),
};
}  // namespace

std::span<const Op> sort_ops() { return kSortOps; }

}  // namespace lathe::relay::ops
