#include "core/relay/ops/rule.h"

#include <algorithm>

#include "core/arith/simplify.h"
#include "core/relay/ops/open_extents.h"
#include "core/tir/text.h"

namespace lathe::relay::ops {

std::string describe(const Shape& shape) {
  std::string text;
  for (const Expr& dim : shape) {
    if (!text.empty()) text += ", ";
    if (const auto* v = dim.as<lathe::VarNode>())
      text += v->name;
    else if (dim.as<Any>())
      text += "?";
    else
      text += tir::print(dim);
  }
  return "(" + text + ")";
}

int64_t front_axis(RelationContext& c, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    mismatch(c, "axis {} of a tensor of rank {}, must be from {} to {}", axis, rank, -rank, rank - 1);
  return axis < 0 ? axis + rank : axis;
}

void require_rank(RelationContext& c, size_t arg, const TensorType& type, size_t rank) {
  if (type.shape.size() != rank)
    mismatch(c, "argument {} has shape {}, must have rank {}", arg + 1, describe(type.shape), rank);
}

void require_dtype(RelationContext& c, size_t arg, const TensorType& type, DataType dtype) {
  if (type.dtype != dtype)
    mismatch(c, "argument {} has elements of {}, must have {}; insert a cast", arg + 1, to_string(type.dtype),
             to_string(dtype));
}

void require_float(RelationContext& c, size_t arg, const TensorType& type) {
  if (!type.dtype.is_float())
    mismatch(c, "argument {} has elements of {}, must have floating point; insert a cast", arg + 1,
             to_string(type.dtype));
}

void require_integers(RelationContext& c, size_t arg, const TensorType& type) {
  if (!type.dtype.is_int())
    mismatch(c, "argument {} has elements of {}, must have integers", arg + 1, to_string(type.dtype));
}

void require_axes(RelationContext& c, const Layout& layout, const std::string& letters) {
  bool same = layout.letters().size() == letters.size();
  for (char letter : letters) same &= layout.position(letter) >= 0;
  if (!same) mismatch(c, "layout {} must have the axes {}", layout.text(), letters);
}

void demand(RelationContext& c, size_t arg, const Shape& shape, DataType dtype) {
  const TensorType* type = c.tensor(arg);
  // A hole becomes what is demanded: a weight without annotation gets its type from the operator.
  if (!type) return c.unify_arg(arg, tensor_type(shape, dtype));
  require_dtype(c, arg, *type, dtype);
  bool agrees = type->shape.size() == shape.size();
  for (size_t i = 0; agrees && i < shape.size(); ++i) {
    const int64_t *have = as_int(type->shape[i]), *want = as_int(shape[i]);
    if (have && want) agrees = *have == *want;
  }
  if (!agrees)
    mismatch(c, "argument {} has shape {}, must have {}", arg + 1, describe(type->shape), describe(shape));
  // Symbolic dimensions; constants agree already, and their message names both shapes.
  for (size_t i = 0; i < shape.size(); ++i) c.equal_dims(type->shape[i], shape[i]);
}

Ints per_axis(RelationContext& c, const char* what, const Ints& values, size_t count, int64_t fallback) {
  if (values.empty()) return Ints(count, fallback);
  Ints result = values.size() == 1 ? Ints(count, values[0]) : values;
  if (result.size() != count) mismatch(c, "{} has {} numbers, must have {}", what, values.size(), count);
  for (int64_t value : result)
    if (value < 1) mismatch(c, "{} is {}, must be at least 1", what, value);
  return result;
}

Ints pad_pairs(RelationContext& c, const Ints& values, size_t count) {
  if (values.size() == 2 * count) return values;
  Ints result = values.empty() ? Ints(count, 0) : values.size() == 1 ? Ints(count, values[0]) : values;
  if (result.size() != count)
    mismatch(c, "padding has {} numbers, must have 1, {} or {}", values.size(), count, 2 * count);
  result.insert(result.end(), result.begin(), result.begin() + static_cast<int64_t>(count));
  return result;
}

bool share_variables(const Expr& a, const Expr& b) {
  bool found = false;
  post_order(a, [&](const NodeRef& node) {
    if (const auto* v = node.as<lathe::VarNode>()) found |= uses_var(b, v);
  });
  return found;
}

Shape broadcast_shape(RelationContext& c, const Shape& a, const Shape& b) {
  const Shape &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Expr &x = longer[offset + i], &y = shorter[i];
    // `x` of the longer shape is the result's dimension unless something below knows better.
    if (is_int(y, 1) || x == y) continue;
    // `?` against a number other than 1 is 1 or that number, and the number results from both.
    if (is_int(x, 1) || (x.as<Any>() && as_int(y))) {
      result[offset + i] = y;
    } else if (as_int(x) && as_int(y)) {
      if (int_value(x) != int_value(y))
        mismatch(c, "shapes {} and {} do not broadcast", describe(a), describe(b));
    } else if (!x.as<Any>() && !y.as<Any>() && is_repeated(x) != is_repeated(y)) {
      if (is_repeated(x)) result[offset + i] = y;
      require_one(c, is_repeated(x) ? x : y, is_repeated(x) ? y : x);
    } else if (!x.as<Any>() && !y.as<Any>()) {
      // A symbol against a number other than 1 is 1 or that number, as `?` is. Of two symbols that are not
      // the same, either may be 1; but two expressions of one size, as those of an image that was made
      // smaller and larger again, are to be equal, which a run checks.
      const bool same = c.same_dim(x, y), of_one_size = share_variables(x, y);
      if (!same && !of_one_size) c.broadcast_dims(x, y);
      if (as_int(y))
        result[offset + i] = y;
      else if (!same && of_one_size)
        c.equal_dims(x, y);
      else if (!same && !as_int(x))
        result[offset + i] = any_dim();
    } else if (y.as<Any>() && !as_int(x)) {
      result[offset + i] = y;
    }
  }
  return result;
}

Expr dims_product(const Shape& shape, size_t begin, size_t end) {
  Expr product = 1;
  for (size_t i = begin; i < end; ++i) {
    if (shape[i].as<Any>()) return any_dim();
    product = product * shape[i];
  }
  return product;
}

bool tuple_tensors(RelationContext& c, size_t arg, std::vector<const TensorType*>& tensors) {
  Type type = c.type(arg);
  if (!type || type.as<HoleType>()) return false;
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) mismatch(c, "argument {} must be a tuple of tensors", arg + 1);
  for (const Type& item : tuple->items) {
    if (item.as<HoleType>()) return false;
    const TensorType* tensor = item.as<TensorType>();
    if (!tensor) mismatch(c, "argument {} must be a tuple of tensors", arg + 1);
    tensors.push_back(tensor);
  }
  if (tensors.empty()) mismatch(c, "argument {} is an empty tuple, at least one tensor is needed", arg + 1);
  return true;
}

Relation same_as_input(RelationContext& c, const Attrs&) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  c.result(tensor_type(x->shape, x->dtype));
  return Relation::kSolved;
}

Relation same_as_float_input(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0)) require_float(c, 0, *x);
  return same_as_input(c, attrs);
}

Relation same_shape_bool(RelationContext& c, const Attrs&) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  c.result(tensor_type(x->shape, kBool));
  return Relation::kSolved;
}

namespace {
Relation broadcast_to_dtype(RelationContext& c, std::optional<DataType> dtype) {
  const TensorType *a = c.tensor(0), *b = c.tensor(1);
  if (!a || !b) return Relation::kWaits;
  if (a->dtype != b->dtype)
    mismatch(c, "element types {} and {} differ; insert a cast", to_string(a->dtype), to_string(b->dtype));
  c.result(tensor_type(broadcast_shape(c, a->shape, b->shape), dtype.value_or(a->dtype)));
  return Relation::kSolved;
}
}  // namespace

Relation broadcast(RelationContext& c, const Attrs&) { return broadcast_to_dtype(c, {}); }
Relation broadcast_bool(RelationContext& c, const Attrs&) { return broadcast_to_dtype(c, kBool); }

const TensorType& tensor_of(const Type& type, size_t item) {
  const TupleType* tuple = type.as<TupleType>();
  const TensorType* tensor = tuple ? tuple->items.at(item).as<TensorType>() : type.as<TensorType>();
  CHECK(tensor, "an operator's result type is no tensor");
  return *tensor;
}

std::vector<Expr> as_indices(Vars vars) { return {vars.begin(), vars.end()}; }

Expr at(const Buffer& buffer, Vars indices) { return load(buffer, as_indices(indices)); }

Expr at_broadcast(const Buffer& buffer, Vars indices) {
  size_t rank = buffer->shape.size(), offset = indices.size() - rank;
  std::vector<Expr> own;
  for (size_t d = 0; d < rank; ++d)
    own.push_back(is_repeated(buffer->shape[d]) ? Expr(0) : Expr(indices[offset + d]));
  return load(buffer, own);
}

Expr and_all(std::vector<Expr> conditions) {
  Expr all = imm(kBool, 1);
  for (Expr& condition : conditions) all = logical_and(all, std::move(condition));
  return all;
}

Buffer padded(FuncBuilder& f, const Buffer& x, const Ints& before, const Ints& after, const Expr& fill) {
  Shape shape = x->shape;
  bool any = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] = shape[d] + before[d] + after[d];
    any |= before[d] || after[d];
  }
  if (!any) return x;
  return f.compute("pad", shape, [&](Vars i) {
    std::vector<Expr> indices, inside;
    for (size_t d = 0; d < shape.size(); ++d) {
      indices.push_back(Expr(i[d]) - before[d]);
      // Only sides that grow need a test; one that is cut off (negative) needs none, but holds in any case.
      if (before[d]) inside.push_back(less_equal(Expr(before[d]), i[d]));
      if (after[d]) inside.push_back(less(i[d], x->shape[d] + before[d]));
    }
    return select(and_all(inside), load(x, indices), fill);
  });
}

Buffer reduce_over(FuncBuilder& f, const char* name, const Shape& shape, const Ints& axes, bool keepdims,
                   tir::Combiner combiner, const std::function<Expr(const std::vector<Expr>&)>& value) {
  std::vector<bool> reduced(shape.size());
  for (int64_t axis : axes) reduced[axis] = true;
  Shape kept, extents;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (reduced[d]) extents.push_back(shape[d]);
    if (!reduced[d] || keepdims) kept.push_back(reduced[d] ? Expr(1) : shape[d]);
  }
  // Indices into the whole tensor, put together from those of the result and those that are reduced.
  auto element = [&](Vars i, Vars r) {
    std::vector<Expr> indices;
    size_t next_kept = 0, next_reduced = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      indices.push_back(reduced[d] ? Expr(r[next_reduced++]) : Expr(i[next_kept]));
      if (!reduced[d] || keepdims) ++next_kept;
    }
    return value(indices);
  };
  if (extents.empty()) return f.compute(name, kept, [&](Vars i) { return element(i, {}); });
  return f.reduce(name, kept, extents, combiner, element);
}

}  // namespace lathe::relay::ops
