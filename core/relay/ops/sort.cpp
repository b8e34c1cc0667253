// Orders and running totals along one axis, and what is kept of an order.
#include "core/relay/ops/attrs_vision.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/order.h"
#include "core/relay/ops/order_rows.h"
#include "core/relay/ops/row_programs.h"
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

Relation topk_type(RelationContext& c, const Attrs& attrs) {
  const TopkAttrs& a = attrs_as<TopkAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  Shape shape = x->shape;
  if (a.k >= 1) {
    if (as_int(shape[axis]) && int_value(shape[axis]) < a.k)
      mismatch(c, "k is {}, axis {} of {} has fewer", a.k, axis, describe(x->shape));
    shape[axis] = a.k;
  }
  Type values = tensor_type(shape, x->dtype), indices = tensor_type(shape, a.dtype);
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

/// Edges of a box.
struct Box {
  Expr top, left, bottom, right;
  Expr area() const { return (bottom - top) * (right - left); }
};

Box box_at(const Buffer& boxes, const Expr& batch, const Expr& number, bool centred) {
  Expr at[4];
  for (int k = 0; k < 4; ++k) at[k] = load(boxes, {batch, number, Expr(k)});
  if (!centred) return {min(at[0], at[2]), min(at[1], at[3]), max(at[0], at[2]), max(at[1], at[3])};
  const Expr width = at[2] * real(at[2], 0.5), height = at[3] * real(at[3], 0.5);
  return {at[1] - height, at[0] - width, at[1] + height, at[0] + width};
}

/// Whether the part of two boxes' union that lies in both is more than `share`.
Expr overlaps(const Box& a, const Box& b, const Expr& share) {
  const Expr zero = real(share, 0);
  const Expr height = max(min(a.bottom, b.bottom) - max(a.top, b.top), zero),
             width = max(min(a.right, b.right) - max(a.left, b.left), zero);
  const Expr common = height * width;
  return logical_and(less(zero, common), less(share * (a.area() + b.area() - common), common));
}

Relation keep_best_type(RelationContext& c, const Attrs&) {
  const TensorType *boxes = c.tensor(0), *order = c.tensor(1);
  if (!boxes || !order) return Relation::kWaits;
  require_rank(c, 0, *boxes, 3);
  require_float(c, 0, *boxes);
  require_rank(c, 1, *order, 3);
  require_integers(c, 1, *order);
  c.equal_dims(boxes->shape[2], 4);
  c.equal_dims(boxes->shape[0], order->shape[0]);
  c.equal_dims(boxes->shape[1], order->shape[2]);
  demand(c, 2, order->shape, kBool);
  demand(c, 3, {}, kInt64);
  demand(c, 4, {}, boxes->dtype);
  c.result(tensor_type(order->shape, kBool));
  return Relation::kSolved;
}

/// Each box that is kept strikes out those behind it which it overlaps, a vector at a time: boxes kept times
/// boxes, for which their edges lie in order.
Buffers keep_best(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const bool centred = attrs_as<KeepBestAttrs>(attrs).centred;
  const Buffer &boxes = in[0], &order = in[1], &valid = in[2], &limit = in[3], &share = in[4];
  const Shape& shape = tensor_of(result).shape;
  auto edges = [&](const char* name, Expr Box::*edge) {
    return f.compute(name, shape,
                     [&](Vars v) { return box_at(boxes, v[0], cast(kInt64, at(order, v)), centred).*edge; });
  };
  const Buffer top = edges("top", &Box::top), left = edges("left", &Box::left),
               bottom = edges("bottom", &Box::bottom), right = edges("right", &Box::right);
  const Buffer kept = f.opaque(
      "kept", shape, kInt32, {top, left, bottom, right, valid, limit, share}, [&](const Buffer& out) {
        const Row row(valid, out, 2, variables_of(valid));
        const Expr& count = shape[2];
        auto box = [&](const Expr& rank) {
          const std::vector<Expr> place = row.place(rank);
          return Box{load(top, place), load(left, place), load(bottom, place), load(right, place)};
        };
        auto set = [&](const Expr& rank, const Expr& value) {
          return tir::store(out, row.place(rank), cast(kInt32, value));
        };
        const Cell number("number", kInt64);
        const tir::Stmt begin = in_open_vectors(count, [&](const Expr& i) { return set(i, row.element(i)); });
        const tir::Stmt ranks = loop("i", count, [&](const Expr& i) {
          const tir::Stmt strike_out = in_open_vectors(count - i - 1, [&](const Expr& behind) {
            const Expr j = i + 1 + behind;
            return make<tir::If>(overlaps(box(i), box(j), load(share, {})), set(j, 0));
          });
          return make<tir::If>(
              less(Expr(0), cast(kInt64, row.kept(i))),
              make<tir::If>(less(number.value(), load(limit, {})),
                            tir::seq({number.set(number.value() + 1), strike_out}), set(i, 0)));
        });
        return row.for_each(make<tir::Alloc>(number.buffer(), tir::seq({number.set(Expr(0)), begin, ranks})));
      });
  return {f.compute("is_kept", shape, [&](Vars v) { return less(Expr(0), cast(kInt64, at(kept, v))); })};
}

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute) {
  return {.name = name,
          .doc = doc,
          .args = 1,
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
    row("cumsum", "Running sums along `axis`.", &ScanAttrs::kType, scan_type, scan<tir::Combiner::kSum>),
    row("cumprod", "Running products along `axis`.", &ScanAttrs::kType, scan_type,
        scan<tir::Combiner::kProd>),
    {.name = "vision.keep_best",
     .doc = "Of boxes (b, n, 4) whether each is kept, taken in `order` (b, classes, n) of each class: where "
            "it is "
            "valid, overlaps none that is kept by more than a share of their union, and is among the first "
            "`limit` "
            "kept. (boxes, order, valid, limit, share)",
     .args = 5,
     .attrs = &KeepBestAttrs::kType,
     .infer = keep_best_type,
     .compute = keep_best,
     .fusion = Fusion::kOpaque},
};
}  // namespace

std::span<const Op> sort_ops() { return kSortOps; }

}  // namespace lathe::relay::ops
