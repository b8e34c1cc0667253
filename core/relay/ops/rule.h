// What the operator families share: reading attributes and shapes in type relations, and forms of
// element-wise definitions. An operator's file reads: relation, meaning, row.
#pragma once

#include "core/relay/op.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/layout.h"

namespace lathe::relay::ops {

// Inside the operator table "expression" means a scalar one; a graph expression is relay::Expr.
using Expr = lathe::Expr;
using Var = lathe::Var;
using tir::Buffer;
using tir::FuncBuilder;
using tir::load;
using tir::Vars;
using Shape = std::vector<Expr>;
using Buffers = std::vector<Buffer>;
using Inputs = std::span<const Buffer>;

/// The attributes as `A`; the defaults when the call has none.
template <typename A>
const A& attrs_as(const Attrs& attrs) {
  static const Ref<A> defaults = make<A>();
  const A* a = attrs.as<A>();
  CHECK(a || !attrs, "attributes of {} where {} are expected", attrs->type().name, A::kName);
  return a ? *a : *defaults;
}

/// ProductRule::with_sums_of, for attributes that name the type.
template <typename A>
Attrs with_sums_of(const Attrs& attrs, DataType dtype) {
  auto copy = mutate(attrs_as<A>(attrs));
  copy->out_dtype = dtype;
  return seal(std::move(copy));
}

/// Op::keeps_order, of all calls.
inline bool always_keeps_order(const Attrs&, const TensorType*, const TensorType*) { return true; }
constexpr Op in_order(Op op, decltype(Op::keeps_order) keeps_order = always_keeps_order) {
  op.keeps_order = keeps_order;
  return op;
}

/// Op::refusal.
constexpr Op checked(Op op) {
  op.refusal = Refusal::kByArguments;
  return op;
}

/// Op::slides_window.
constexpr Op window(Op op) {
  op.slides_window = true;
  return op;
}

// Type relations.

std::string describe(const Shape& shape);  // "(1, n, ?)"
/// Throws Error "<operator>: <message>".
template <typename... Args>
[[noreturn]] void mismatch(RelationContext& c, fmt::format_string<Args...> format, Args&&... args) {
  fail("{}: {}", c.op().name, fmt::format(format, std::forward<Args>(args)...));
}
/// `axis` counted from the front. Throws Error unless -rank <= axis < rank.
int64_t front_axis(RelationContext& c, int64_t axis, int64_t rank);
void require_rank(RelationContext& c, size_t arg, const TensorType& type, size_t rank);
void require_dtype(RelationContext& c, size_t arg, const TensorType& type, DataType dtype);
void require_float(RelationContext& c, size_t arg, const TensorType& type);
void require_integers(RelationContext& c, size_t arg, const TensorType& type);
/// Throws Error unless the layout is over exactly these axes, in any order.
void require_axes(RelationContext& c, const Layout& layout, const std::string& letters);
/// The argument's type becomes shape and dtype when it is a hole, else it must agree; Error with both shapes.
void demand(RelationContext& c, size_t arg, const Shape& shape, DataType dtype);
/// The axes of a transpose, counted from the front: all reversed where there are none.
Ints permutation(const TransposeAttrs& a, size_t rank);
/// The least (`upper`: the largest) integer of the type that a bound allows; the type's last one where that
/// is beyond it. Of uint64 its bits.
int64_t integer_bound(DataType dtype, double value, bool upper);
/// One number stands for all `count`; none stand for `fallback` each.
Ints per_axis(RelationContext& c, const char* what, const Ints& values, size_t count, int64_t fallback);
/// Padding as all begins, then all ends.
Ints pad_pairs(RelationContext& c, const Ints& values, size_t count);
/// Some symbol stands in both: two expressions of one size.
bool share_variables(const Expr& a, const Expr& b);
/// The shape of the element-wise combination of two shapes (NumPy's rule). Where two symbols can't be
/// compared it is `?`: run-time shapes decide.
Shape broadcast_shape(RelationContext& c, const Shape& a, const Shape& b);
/// Product of dimensions [begin, end).
Expr dims_product(const Shape& shape, size_t begin, size_t end);
/// The tensor types in a tuple argument; false while one is a hole.
bool tuple_tensors(RelationContext& c, size_t arg, std::vector<const TensorType*>& tensors);

/// Result: the type of the first argument.
Relation same_as_input(RelationContext& c, const Attrs& attrs);
/// The same, of floating-point elements only (the functions of analysis).
Relation same_as_float_input(RelationContext& c, const Attrs& attrs);
/// Result: the first argument's shape, of booleans.
Relation same_shape_bool(RelationContext& c, const Attrs& attrs);
/// Two arguments of one element type; the broadcast shape.
Relation broadcast(RelationContext& c, const Attrs& attrs);
Relation broadcast_bool(RelationContext& c, const Attrs& attrs);

/// How many of start, start + step, ... come before stop, tensors of one number; nothing where these say no
/// number, or one that is out of reach. Of integers it is exact.
std::optional<int64_t> arange_count(const Tensor& start, const Tensor& stop, const Tensor& step);

// Meanings.

const TensorType& tensor_of(const Type& type, size_t item = 0);  // of a tensor or tuple type
Expr at(const Buffer& buffer, Vars indices);
/// buffer[indices] as broadcasting reads it: aligned at the last axis, 0 where the dimension is 1.
Expr at_broadcast(const Buffer& buffer, Vars indices);
std::vector<Expr> as_indices(Vars vars);
Expr and_all(std::vector<Expr> conditions);
/// The elements of the first input in their order, under the result's shape.
Buffers reshaped(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result);
/// A block that copies `x` into a larger frame of `fill`: `before[d]` and `after[d]` elements more in
/// dimension d; `x` itself when there is nothing to add.
Buffer padded(FuncBuilder& f, const Buffer& x, const Ints& before, const Ints& after, const Expr& fill);
/// Combines value(indices into a tensor of `shape`) over `axes` (ascending, from the front); they vanish from
/// the result, or become 1 with `keepdims`.
Buffer reduce_over(FuncBuilder& f, const char* name, const Shape& shape, const Ints& axes, bool keepdims,
                   tir::Combiner combiner, const std::function<Expr(const std::vector<Expr>&)>& value);
/// A constant of the type of `like`.
inline Expr real(const Expr& like, double value) { return lathe::constant(like.dtype(), value); }

/// out[i] = F(in[i])
template <Expr (*F)(Expr)>
Buffers map1(FuncBuilder& f, const Attrs&, Inputs in, const Type&) {
  return {f.compute("map", in[0]->shape, [&](Vars i) { return F(at(in[0], i)); })};
}
/// out[i] = F(a[i], b[i]) with broadcasting
template <Expr (*F)(Expr, Expr)>
Buffers map2(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  return {f.compute("map", tensor_of(result).shape,
                    [&](Vars i) { return F(at_broadcast(in[0], i), at_broadcast(in[1], i)); })};
}

}  // namespace lathe::relay::ops
