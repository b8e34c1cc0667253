// The same elements under another shape or layout.
#include <algorithm>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

/// The shape that reshape's codes ask for; -1 is left as a null dimension.
Shape decode(RelationContext& c, const Shape& in, const ReshapeAttrs& a) {
  Shape out;
  size_t source = 0;
  auto next = [&]() -> Expr {
    if (source >= in.size()) mismatch(c, "newshape needs more dimensions than {} has", describe(in));
    return in[source++];
  };
  for (size_t i = 0; i < a.newshape.size(); ++i) {
    int64_t code = a.newshape[i];
    if (code > 0 || (code == 0 && a.allowzero)) {
      out.push_back(code);
      ++source;
    } else if (code == 0) {
      out.push_back(next());
    } else if (code == -1) {
      if (std::count_if(out.begin(), out.end(), [](const Expr& e) { return !e; }))
        mismatch(c, "newshape has more than one -1");
      // To be computed from the number of elements; it stands for one dimension of the input.
      out.push_back({});
      ++source;
    } else if (code == -2) {
      while (source < in.size()) out.push_back(in[source++]);
    } else if (code == -3) {
      Expr first = next();
      out.push_back(dims_product({first, next()}, 0, 2));
    } else if (code == -4) {
      if (i + 2 >= a.newshape.size()) mismatch(c, "-4 in newshape must be followed by two dimensions");
      Expr whole = next();
      Expr first = a.newshape[i + 1], second = a.newshape[i + 2];
      // -4 splits a dimension in two, one of which may be left open.
      if (is_int(first, -1))
        first = floordiv(whole, second);
      else if (is_int(second, -1))
        second = floordiv(whole, first);
      out.push_back(first);
      out.push_back(second);
      i += 2;
    } else {
      mismatch(c, "newshape has {}; codes go from -4", code);
    }
  }
  return out;
}

/// The dimension -1 where others are 0. Those that the input has, too, are as good as copied, and what
/// remains tells it: [0, -1] of (0, 2) is (0, 2), as [n, -1] of (n, 2) is. Else 0 is as good as any number.
Expr left_of_nothing(const Shape& in, const Shape& shape) {
  const auto zeros = [](const Shape& dims) {
    return std::count_if(dims.begin(), dims.end(), [](const Expr& dim) { return is_int(dim, 0); });
  };
  if (zeros(in) != zeros(shape)) return 0;
  const auto others = [](const Shape& dims) {
    Expr product = 1;
    for (const Expr& dim : dims)
      if (!is_int(dim, 0)) product = product * dim;
    return product;
  };
  return simplify(floordiv(others(in), others(shape)));
}

Relation reshape_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  const ReshapeAttrs& a = attrs_as<ReshapeAttrs>(attrs);
  Shape shape = decode(c, x->shape, a);
  Expr total = dims_product(x->shape, 0, x->shape.size());
  auto open = std::find_if(shape.begin(), shape.end(), [](const Expr& e) { return !e; });
  if (open != shape.end()) {
    *open = 1;
    Expr rest = dims_product(shape, 0, shape.size());
    if (total.as<Any>() || rest.as<Any>())
      *open = any_dim();
    else
      *open = is_int(rest, 0) ? left_of_nothing(x->shape, shape) : simplify(floordiv(total, rest));
  }
  Expr count = dims_product(shape, 0, shape.size());
  if (as_int(count) && as_int(total) && int_value(count) != int_value(total))
    mismatch(c, "shape {} has {} elements, {} has {}", describe(x->shape), int_value(total), describe(shape),
             int_value(count));
  if (!count.as<Any>() && !total.as<Any>()) c.equal_dims(simplify(count), simplify(total));
  for (const Expr& dim : shape)
    if (as_int(dim) && int_value(dim) < 0)
      mismatch(c, "newshape gives {} a negative dimension", describe(x->shape));
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Relation reshape_like_type(RelationContext& c, const Attrs&) {
  const TensorType *x = c.tensor(0), *like = c.tensor(1);
  if (!x || !like) return Relation::kWaits;
  Expr have = dims_product(x->shape, 0, x->shape.size()),
       want = dims_product(like->shape, 0, like->shape.size());
  if (as_int(have) && as_int(want) && int_value(have) != int_value(want))
    mismatch(c, "shapes {} and {} have different numbers of elements", describe(x->shape),
             describe(like->shape));
  if (!have.as<Any>() && !want.as<Any>()) c.equal_dims(simplify(have), simplify(want));
  c.result(tensor_type(like->shape, x->dtype));
  return Relation::kSolved;
}

Relation batch_flatten_type(RelationContext& c, const Attrs&) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  if (x->shape.empty()) mismatch(c, "data is a scalar, must have at least rank 1");
  c.result(tensor_type({x->shape[0], simplify(dims_product(x->shape, 1, x->shape.size()))}, x->dtype));
  return Relation::kSolved;
}

/// Indices into `from` of the element at `i` of `to`, both row-major. Dimensions are matched in groups of
/// equal product, so that unchanged ones keep their index.
std::vector<Expr> reshaped_indices(const Shape& from, const Shape& to, Vars i) {
  std::vector<Expr> result(from.size());
  size_t a = 0, b = 0;
  // A group: the fewest dimensions of both sides from (a, b) on whose products are equal.
  while (a < from.size() || b < to.size()) {
    size_t a_end = a, b_end = b;
    int64_t a_size = 1, b_size = 1;
    auto grow = [](size_t& end, int64_t& size, const Shape& shape) { size *= int_value(shape[end++]); };
    if (a_end < from.size()) grow(a_end, a_size, from);
    if (b_end < to.size()) grow(b_end, b_size, to);
    // Whichever side has fewer elements takes its next dimension.
    while (a_size != b_size && (a_end < from.size() || b_end < to.size())) {
      bool left = b_end == to.size() || (a_end < from.size() && a_size < b_size);
      left ? grow(a_end, a_size, from) : grow(b_end, b_size, to);
    }
    Expr flat = 0;
    // Only within the group is an index computed by divisions, which analysis and code generation know less
    // of than of a plain variable.
    for (size_t d = b; d < b_end; ++d) flat = flat * to[d] + (is_int(to[d], 1) ? Expr(0) : Expr(i[d]));
    // `inner`: elements of the group behind dimension d; `before`: those of it in front.
    int64_t inner = a_size, before = 1;
    for (size_t d = a; d < a_end; ++d) {
      int64_t extent = int_value(from[d]);
      inner /= std::max<int64_t>(extent, 1);
      // The first dimension of a group needs no remainder: `flat` stays below the group's size.
      Expr index = floordiv(flat, Expr(inner));
      result[d] = extent == 1 ? Expr(0) : before == 1 ? index : floormod(index, Expr(extent));
      before *= extent;
    }
    a = a_end, b = b_end;
  }
  return result;
}

bool all_constant(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Expr& dim) { return as_int(dim) != nullptr; });
}

/// The same where dimensions are open: a group ends where the products can be shown to be equal, and all that
/// is left is one where none can.
std::vector<Expr> open_reshaped_indices(const Shape& from, const Shape& to, Vars i) {
  std::vector<Expr> result(from.size());
  size_t a = 0, b = 0;
  while (a < from.size() || b < to.size()) {
    size_t a_end = from.size(), b_end = to.size();
    for (size_t count = 1; count < a_end - a + b_end - b; ++count)
      for (size_t left = std::min(count, from.size() - a) + 1; left-- > 0;)
        if (size_t right = count - left;
            right <= to.size() - b && count < a_end - a + b_end - b &&
            prove_equal(dims_product(from, a, a + left), dims_product(to, b, b + right)))
          a_end = a + left, b_end = b + right;
    Expr flat = 0;
    for (size_t d = b; d < b_end; ++d) flat = flat * to[d] + (is_int(to[d], 1) ? Expr(0) : Expr(i[d]));
    for (size_t d = a; d < a_end; ++d) {
      Expr index = floordiv(flat, simplify(dims_product(from, d + 1, a_end)));
      bool first = is_int(simplify(dims_product(from, a, d)), 1);
      result[d] = is_int(from[d], 1) ? Expr(0) : first ? index : floormod(index, from[d]);
    }
    a = a_end, b = b_end;
  }
  return result;
}

}  // namespace

Buffers reshaped(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  const Shape &shape = tensor_of(result).shape, &from = in[0]->shape;
  auto indices = all_constant(shape) && all_constant(from) ? reshaped_indices : open_reshaped_indices;
  return {f.compute("reshape", shape, [&](Vars i) { return load(in[0], indices(from, shape, i)); })};
}

namespace {

Relation expand_dims_type(RelationContext& c, const Attrs& attrs) {
  const ExpandDimsAttrs& a = attrs_as<ExpandDimsAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()) + 1);
  if (a.num_newaxis < 0 || a.num_newaxis > 64)
    mismatch(c, "num_newaxis is {}, must be from 0 to 64", a.num_newaxis);
  Shape shape = x->shape;
  shape.insert(shape.begin() + axis, static_cast<size_t>(a.num_newaxis), Expr(1));
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Relation squeeze_type(RelationContext& c, const Attrs& attrs) {
  const SqueezeAttrs& a = attrs_as<SqueezeAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  std::vector<bool> drop(x->shape.size());
  for (size_t d = 0; d < drop.size() && !a.axis; ++d) drop[d] = is_int(x->shape[d], 1);
  for (int64_t axis : a.axis.value_or(Ints{})) {
    int64_t d = front_axis(c, axis, static_cast<int64_t>(drop.size()));
    if (as_int(x->shape[d]) && !is_int(x->shape[d], 1))
      mismatch(c, "axis {} of {} is not 1", d, describe(x->shape));
    if (!x->shape[d].as<Any>()) c.equal_dims(x->shape[d], 1);
    drop[d] = true;
  }
  Shape shape;
  for (size_t d = 0; d < drop.size(); ++d)
    if (!drop[d]) shape.push_back(x->shape[d]);
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Relation transpose_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  Ints axes = permutation(attrs_as<TransposeAttrs>(attrs), x->shape.size()), sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  Ints identity(x->shape.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (sorted != identity)
    mismatch(c, "axes {} are no permutation of the axes of {}", shape_text(axes), describe(x->shape));
  Shape shape;
  for (int64_t axis : axes) shape.push_back(x->shape[axis]);
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Buffers transpose(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  Ints axes = permutation(attrs_as<TransposeAttrs>(attrs), in[0]->shape.size());
  return {f.compute("transpose", tensor_of(result).shape, [&](Vars i) {
    std::vector<Expr> indices(axes.size());
    for (size_t d = 0; d < axes.size(); ++d) indices[axes[d]] = i[d];
    return load(in[0], indices);
  })};
}

Relation layout_transform_type(RelationContext& c, const Attrs& attrs) {
  const LayoutTransformAttrs& a = attrs_as<LayoutTransformAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  Layout from = Layout::parse(a.src_layout), to = Layout::parse(a.dst_layout);
  require_rank(c, 0, *x, from.rank());
  std::map<char, Expr> extents;
  for (char letter : from.letters()) extents[letter] = from.extent(letter, x->shape);
  for (char letter : to.letters())
    if (!extents.count(letter))
      mismatch(c, "layouts {} and {} have different axes", a.src_layout, a.dst_layout);
  if (from.letters().size() != to.letters().size())
    mismatch(c, "layouts {} and {} have different axes", a.src_layout, a.dst_layout);
  c.result(tensor_type(to.shape(extents), x->dtype));
  return Relation::kSolved;
}

Buffers layout_transform(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const LayoutTransformAttrs& a = attrs_as<LayoutTransformAttrs>(attrs);
  Layout from = Layout::parse(a.src_layout), to = Layout::parse(a.dst_layout);
  return {f.compute("layout_transform", tensor_of(result).shape, [&](Vars i) {
    std::map<char, Expr> whole;
    // From the indices of the result to those of whole axes, and on to those of the input.
    for (char letter : to.letters()) whole[letter] = to.whole_index(letter, as_indices(i));
    std::vector<Expr> indices = from.indices(whole);
    for (size_t d = 0; d < indices.size(); ++d)  // one block holds the whole axis
      if (is_int(in[0]->shape[d], 1)) indices[d] = 0;
    return load(in[0], indices);
  })};
}

Relation broadcast_to_type(RelationContext& c, const Attrs& attrs) {
  const InitAttrs& a = attrs_as<InitAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  Shape shape(a.shape.begin(), a.shape.end());
  for (int64_t dim : a.shape)
    if (dim < 0) mismatch(c, "shape has {}, must not be negative", dim);
  Shape joined = broadcast_shape(c, shape, x->shape);
  // What broadcasts together with the shape must come out as the shape itself: nothing else may grow.
  if (joined.size() != shape.size() ||
      !std::equal(joined.begin(), joined.end(), shape.begin(), [](const Expr& p, const Expr& q) {
        return !as_int(p) || !as_int(q) || int_value(p) == int_value(q);
      }))
    mismatch(c, "shape {} does not broadcast to {}", describe(x->shape), describe(shape));
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}
Relation broadcast_to_like_type(RelationContext& c, const Attrs&) {
  const TensorType *x = c.tensor(0), *like = c.tensor(1);
  if (!x || !like) return Relation::kWaits;
  if (x->shape.size() > like->shape.size())
    mismatch(c, "shape {} does not broadcast to {}", describe(x->shape), describe(like->shape));
  for (size_t d = 0; d < x->shape.size(); ++d) {
    const Expr &own = x->shape[d], &target = like->shape[like->shape.size() - x->shape.size() + d];
    if (as_int(own) && as_int(target) && !is_int(own, 1) && int_value(own) != int_value(target))
      mismatch(c, "shape {} does not broadcast to {}", describe(x->shape), describe(like->shape));
    if (is_int(own, 1) || (as_int(own) && as_int(target)) || own.as<Any>() || target.as<Any>()) continue;
    // Nothing grows: of an open one that is not the target's the run sees whether it is 1 or that. Where the
    // target is 1, so is it.
    if (is_int(target, 1) || as_int(own))
      c.equal_dims(own, target);
    else if (!c.same_dim(own, target))
      c.broadcast_dims(own, target);
  }
  c.result(tensor_type(like->shape, x->dtype));
  return Relation::kSolved;
}
Buffers broadcast_to(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  return {f.compute("broadcast", tensor_of(result).shape, [&](Vars i) { return at_broadcast(in[0], i); })};
}

/// Axes longer than 1 in order with their extents, an inner block joined to its outer part before it.
std::vector<std::pair<char, int64_t>> moving_axes(const Layout& layout, const TensorType& type) {
  std::vector<std::pair<char, int64_t>> moving;
  for (size_t d = 0; d < layout.rank(); ++d) {
    char letter = layout.axes()[d].letter;
    int64_t extent = int_value(type.shape[d]);
    if (extent == 1) continue;
    if (!moving.empty() && moving.back().first == letter)
      moving.back().second *= extent;
    else
      moving.emplace_back(letter, extent);
  }
  return moving;
}

bool keeps_order_of_axes(const Attrs& attrs, const TensorType* from, const TensorType* to) {
  if (!from || !to || !has_constant_shape(*from) || !has_constant_shape(*to)) return false;
  const auto& a = attrs_as<LayoutTransformAttrs>(attrs);
  // Axes of 1 may stand anywhere: they move no element.
  return moving_axes(Layout::parse(a.src_layout), *from) == moving_axes(Layout::parse(a.dst_layout), *to);
}

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute,
                 int args = 1) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kInjective,
          .narrow = NarrowRule::kChoice};
}

constexpr Op kShapeOps[] = {
    in_order(row("reshape",
                 "The elements in row-major order under `newshape` (codes 0, -1 .. -4: see ReshapeAttrs).",
                 &ReshapeAttrs::kType, reshape_type, reshaped)),
    checked(in_order(row("reshape_like", "The elements under the shape of the second argument.", nullptr,
                         reshape_like_type, reshaped, 2))),
    in_order(
        row("nn.batch_flatten", "(N, d...) to (N, product of d).", nullptr, batch_flatten_type, reshaped)),
    in_order(row("expand_dims", "Dimensions of 1 put in at `axis`.", &ExpandDimsAttrs::kType,
                 expand_dims_type, reshaped)),
    in_order(row("squeeze", "Dimensions of 1 dropped.", &SqueezeAttrs::kType, squeeze_type, reshaped)),
    row("transpose", "out[i] = in[i permuted by axes].", &TransposeAttrs::kType, transpose_type, transpose),
    in_order(row("layout_transform", "From src_layout to dst_layout, both over the same axes.",
                 &LayoutTransformAttrs::kType, layout_transform_type, layout_transform),
             keeps_order_of_axes),
    {.name = "broadcast_to",
     .doc = "Repeated to `shape` by NumPy's rule.",
     .args = 1,
     .attrs = &InitAttrs::kType,
     .infer = broadcast_to_type,
     .compute = broadcast_to,
     .fusion = Fusion::kBroadcast,
     .narrow = NarrowRule::kChoice},
    {.name = "broadcast_to_like",
     .doc = "Repeated to the shape of the second argument.",
     .args = 2,
     .infer = broadcast_to_like_type,
     .compute = broadcast_to,
     .fusion = Fusion::kBroadcast,
     .narrow = NarrowRule::kChoice},
};
}  // namespace

Ints permutation(const TransposeAttrs& a, size_t rank) {
  Ints axes(rank);
  if (!a.axes || (a.axes->empty() && rank)) {
    // No axes: all reversed.
    std::iota(axes.rbegin(), axes.rend(), 0);
    return axes;
  }
  axes = *a.axes;
  for (int64_t& axis : axes) axis = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  return axes;
}

std::span<const Op> shape_ops() { return kShapeOps; }

}  // namespace lathe::relay::ops
