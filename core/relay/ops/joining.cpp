// Tensors put together and cut apart.
#include <functional>

#include "core/relay/ops/families.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

int64_t wrapped(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

/// Joined parts agree in element type and in all dimensions but `axis` (-1: in all).
void same_except(RelationContext& c, const TensorType& a, const TensorType& b, int64_t axis) {
  bool same = a.shape.size() == b.shape.size() && a.dtype == b.dtype;
  for (size_t d = 0; same && d < a.shape.size(); ++d) {
    if (static_cast<int64_t>(d) == axis) continue;
    if (as_int(a.shape[d]) && as_int(b.shape[d]))
      same = int_value(a.shape[d]) == int_value(b.shape[d]);
    else if (!a.shape[d].as<Any>() && !b.shape[d].as<Any>())
      c.equal_dims(a.shape[d], b.shape[d]);
  }
  if (!same)
    mismatch(c, "{} of {} and {} of {} do not join along axis {}", describe(a.shape), to_string(a.dtype),
             describe(b.shape), to_string(b.dtype), axis);
}

Relation concatenate_type(RelationContext& c, const Attrs& attrs) {
  std::vector<const TensorType*> parts;
  if (!tuple_tensors(c, 0, parts)) return Relation::kWaits;
  Shape shape = parts[0]->shape;
  int64_t axis = front_axis(c, attrs_as<ConcatenateAttrs>(attrs).axis, static_cast<int64_t>(shape.size()));
  for (size_t p = 1; p < parts.size(); ++p) {
    same_except(c, *parts[0], *parts[p], axis);
    // `?` and a number may add up to anything.
    bool unknown = shape[axis].as<Any>() || parts[p]->shape[axis].as<Any>();
    shape[axis] = unknown ? any_dim() : shape[axis] + parts[p]->shape[axis];
  }
  c.result(tensor_type(shape, parts[0]->dtype));
  return Relation::kSolved;
}

/// The part that holds index i of the axis, found by comparing with the parts' ends in turn.
Buffers concatenate(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  int64_t axis = wrapped(attrs_as<ConcatenateAttrs>(attrs).axis, in[0]->shape.size());
  return {f.compute("concatenate", tensor_of(result).shape, [&](Vars i) {
    auto from = [&](size_t part, const Expr& start) {
      std::vector<Expr> indices = as_indices(i);
      indices[axis] = indices[axis] - start;
      return load(in[part], indices);
    };
    std::vector<Expr> starts{Expr(0)};
    for (const Buffer& part : in) starts.push_back(starts.back() + part->shape[axis]);
    // select evaluates one side for each element, so a part is only read where it has one. Of few parts a
    // chain, which becomes loops of their own (split_conditions); of many, such as the steps of a recurrence,
    // a tree of chains: else an element would ask as many questions as there are parts.
    constexpr size_t kChained = 32;
    std::function<Expr(size_t, size_t)> among = [&](size_t first, size_t end) {
      if (end - first > kChained) {
        const size_t middle = first + (end - first) / 2;
        return select(less(i[axis], starts[middle]), among(first, middle), among(middle, end));
      }
      Expr value = from(end - 1, starts[end - 1]);
      for (size_t part = end - 1; part-- > first;)
        value = select(less(i[axis], starts[part + 1]), from(part, starts[part]), value);
      return value;
    };
    return among(0, in.size());
  })};
}

Relation stack_type(RelationContext& c, const Attrs& attrs) {
  std::vector<const TensorType*> parts;
  if (!tuple_tensors(c, 0, parts)) return Relation::kWaits;
  Shape shape = parts[0]->shape;
  int64_t axis =
      front_axis(c, attrs_as<ConcatenateAttrs>(attrs).axis, static_cast<int64_t>(shape.size()) + 1);
  for (size_t p = 1; p < parts.size(); ++p) same_except(c, *parts[0], *parts[p], -1);
  shape.insert(shape.begin() + axis, Expr(static_cast<int64_t>(parts.size())));
  c.result(tensor_type(shape, parts[0]->dtype));
  return Relation::kSolved;
}

Buffers stack(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  int64_t axis = wrapped(attrs_as<ConcatenateAttrs>(attrs).axis, in[0]->shape.size() + 1);
  return {f.compute("stack", tensor_of(result).shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices.erase(indices.begin() + axis);
    // The last part needs no comparison: the index is inside the axis.
    Expr value = load(in.back(), indices);
    for (size_t part = in.size() - 1; part-- > 0;)
      value = select(equal(i[axis], Expr(static_cast<int64_t>(part))), load(in[part], indices), value);
    return value;
  })};
}

/// Where the parts begin, and the end of the last: in elements of the axis.
std::vector<Expr> split_points(const SplitAttrs& a, const Expr& extent) {
  std::vector<Expr> points{Expr(0)};
  for (int64_t part = 1; part < a.sections; ++part)
    points.push_back(floordiv(extent, Expr(a.sections)) * part);
  if (!a.sections) points.insert(points.end(), a.indices_or_sections.begin(), a.indices_or_sections.end());
  points.push_back(extent);
  return points;
}

Relation split_type(RelationContext& c, const Attrs& attrs) {
  const SplitAttrs& a = attrs_as<SplitAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  const Expr& extent = x->shape[axis];
  // Each part is a buffer: a hostile count must not make a million of them.
  if (a.sections < 0 || a.sections > (1 << 16) ||
      (a.sections > 0 && as_int(extent) && int_value(extent) % a.sections != 0))
    mismatch(c, "axis {} of {} does not divide into {} parts", axis, describe(x->shape), a.sections);
  require_multiple(c, extent, a.sections);
  if (!a.sections && !a.indices_or_sections.empty())
    require_at_least(c, extent, a.indices_or_sections.back());
  std::vector<Type> parts;
  std::vector<Expr> points = split_points(a, extent);
  for (size_t p = 0; p + 1 < points.size(); ++p) {
    Shape shape = x->shape;
    shape[axis] =
        extent.as<Any>() && (a.sections || p + 2 == points.size()) ? any_dim() : points[p + 1] - points[p];
    if (as_int(shape[axis]) && int_value(shape[axis]) < 0)
      mismatch(c, "indices {} of axis {} of {} must rise and stay within it",
               shape_text(a.indices_or_sections), axis, describe(x->shape));
    parts.push_back(tensor_type(shape, x->dtype));
  }
  c.result(tuple_type(parts));
  return Relation::kSolved;
}

Buffers split(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const SplitAttrs& a = attrs_as<SplitAttrs>(attrs);
  int64_t axis = wrapped(a.axis, in[0]->shape.size());
  std::vector<Expr> points = split_points(a, in[0]->shape[axis]);
  Buffers parts;
  for (size_t p = 0; p + 1 < points.size(); ++p)
    parts.push_back(f.compute("split", tensor_of(result, p).shape, [&](Vars i) {
      std::vector<Expr> indices = as_indices(i);
      indices[axis] = indices[axis] + points[p];
      return load(in[0], indices);
    }));
  return parts;
}

constexpr Op kJoiningOps[] = {
    {.name = "concatenate",
     .doc = "The tensors of a tuple, one after the other along `axis`.",
     .args = 1,
     .attrs = &ConcatenateAttrs::kType,
     .infer = concatenate_type,
     .compute = concatenate,
     .fusion = Fusion::kInjective,
     .layout = LayoutRule::kConcatenation,
     .narrow = NarrowRule::kChoice},
    {.name = "stack",
     .doc = "The tensors of a tuple along a new `axis`.",
     .args = 1,
     .attrs = &ConcatenateAttrs::kType,
     .infer = stack_type,
     .compute = stack,
     .fusion = Fusion::kInjective,
     .narrow = NarrowRule::kChoice},
    {.name = "split",
     .doc = "A tuple of parts along `axis`.",
     .args = 1,
     .attrs = &SplitAttrs::kType,
     .infer = split_type,
     .compute = split,
     .fusion = Fusion::kInjective,
     .narrow = NarrowRule::kChoice},
};
}  // namespace

std::span<const Op> joining_ops() { return kJoiningOps; }

}  // namespace lathe::relay::ops
