// Tensors of sizes that a program computes: between numbers and dimensions.
//
// Where the numbers are constants these are operators as others, of types that are known. Else the type has
// `?` for a size, match_cast gives it a name, and programs run them without a kernel (core/program).
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"
#include "core/support/shape_fault.h"

namespace lathe::relay::ops {
namespace {

/// What the numbers from argument `first` on say; `?` for one that is no constant. Nothing while a type is
/// not known.
std::optional<Shape> given_sizes(RelationContext& c, size_t first, int64_t least) {
  Shape sizes;
  for (size_t i = first; i < c.args(); ++i) {
    const TensorType* type = c.tensor(i);
    if (!type) return std::nullopt;
    require_rank(c, i, *type, 0);
    require_integers(c, i, *type);
    const Constant* constant = c.constant(i);
    const int64_t value = constant ? constant->value.integer(0) : 0;
    if (value < least) mismatch(c, "a size is {}, must be at least {}", value, least);
    sizes.push_back(constant ? Expr(value) : any_dim());
  }
  return sizes;
}

Expr count_of(const Shape& shape) { return simplify(dims_product(shape, 0, shape.size())); }

/// The runtime's bound, so that no product of sizes overflows.
constexpr int64_t kMostBytes = int64_t{1} << 46;

void require_memory(RelationContext& c, const Shape& shape, DataType dtype) {
  int64_t bytes = dtype.bytes();
  for (const Expr& dim : shape) {
    const bool overflows = as_int(dim) && __builtin_mul_overflow(bytes, int_value(dim), &bytes);
    if (overflows || bytes > kMostBytes) mismatch(c, "a tensor of shape {} is too large", describe(shape));
  }
}

Relation extent_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  front_axis(c, attrs_as<ExtentAttrs>(attrs).axis, static_cast<int64_t>(x->shape.size()));
  c.result(tensor_type(Shape{}, kInt64));
  return Relation::kSolved;
}

Buffers extent(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const int64_t axis = attrs_as<ExtentAttrs>(attrs).axis, rank = static_cast<int64_t>(in[0]->shape.size());
  const Expr& dim = in[0]->shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  return {f.compute("extent", {}, [&](Vars) { return cast(kInt64, dim); })};
}

Relation zeros_of_type(RelationContext& c, const Attrs& attrs) {
  const std::optional<Shape> shape = given_sizes(c, 0, 0);
  if (!shape) return Relation::kWaits;
  const DataType dtype = attrs_as<ZerosOfAttrs>(attrs).dtype;
  require_memory(c, *shape, dtype);
  c.result(tensor_type(*shape, dtype));
  return Relation::kSolved;
}

Buffers zeros_of(FuncBuilder& f, const Attrs&, Inputs, const Type& result) {
  const TensorType& type = tensor_of(result);
  return {f.compute("fill", type.shape, [&](Vars) { return lathe::constant(type.dtype, 0); })};
}

Relation first_rows_type(RelationContext& c, const Attrs&) {
  const TensorType* x = c.tensor(0);
  const std::optional<Shape> count = given_sizes(c, 1, 0);
  if (!x || !count) return Relation::kWaits;
  if (x->shape.empty()) mismatch(c, "data is a scalar, must have at least rank 1");
  Shape shape = x->shape;
  if (as_int((*count)[0]) && as_int(shape[0]) && int_value((*count)[0]) > int_value(shape[0]))
    mismatch(c, "{} rows of {}", int_value((*count)[0]), describe(x->shape));
  shape[0] = (*count)[0];
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Buffers first_rows(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  return {f.compute("first_rows", tensor_of(result).shape, [&](Vars i) { return at(in[0], i); })};
}

Relation reshape_to_type(RelationContext& c, const Attrs&) {
  if (c.args() == 0) mismatch(c, "there is nothing to reshape");
  const TensorType* x = c.tensor(0);
  const std::optional<Shape> shape = given_sizes(c, 1, 0);
  if (!x || !shape) return Relation::kWaits;
  const Expr have = count_of(x->shape), want = count_of(*shape);
  if (as_int(have) && as_int(want) && int_value(have) != int_value(want))
    mismatch(c, "shape {} has {} elements, {} has {}", describe(x->shape), int_value(have), describe(*shape),
             int_value(want));
  if (!have.as<Any>() && !want.as<Any>()) c.equal_dims(have, want);
  c.result(tensor_type(*shape, x->dtype));
  return Relation::kSolved;
}

/// A number that is a constant says more than the type does; of another one nothing is known.
Relation match_shape_type(RelationContext& c, const Attrs&) {
  if (c.args() == 0) mismatch(c, "there is nothing to look at");
  const TensorType* x = c.tensor(0);
  const std::optional<Shape> wanted = given_sizes(c, 1, -1);
  if (!x || !wanted) return Relation::kWaits;
  require_rank(c, 0, *x, wanted->size());
  Shape shape = x->shape;
  std::vector<int64_t> have, want;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool known = as_int((*wanted)[d]) && as_int(shape[d]);
    have.push_back(known ? int_value(shape[d]) : -1);
    want.push_back(known ? int_value((*wanted)[d]) : -1);
    if (!is_int((*wanted)[d], -1)) shape[d] = (*wanted)[d];
  }
  if (const std::string fault = shape_fault(have, want); !fault.empty()) throw Error(fault);
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Relation require_type(RelationContext& c, const Attrs& attrs) {
  const TensorType *x = c.tensor(0), *holds = c.tensor(1);
  if (!x || !holds) return Relation::kWaits;
  require_rank(c, 1, *holds, 0);
  require_dtype(c, 1, *holds, kBool);
  const Constant* constant = c.constant(1);
  if (constant && constant->value.integer(0) == 0) mismatch(c, "{}", attrs_as<RequireAttrs>(attrs).message);
  c.result(tensor_type(x->shape, x->dtype));
  return Relation::kSolved;
}

constexpr Op kSizedOps[] = {
    {.name = "extent",
     .doc = "The dimension `axis` of x, as a number.",
     .args = 1,
     .attrs = &ExtentAttrs::kType,
     .infer = extent_type,
     .compute = extent,
     .fusion = Fusion::kElementwise},
    {.name = "zeros_of",
     .doc = "Zeros of a shape given by integers, an argument each. Of what is made by the shape of another "
            "tensor (broadcast_to_like, arange_like) it is that.",
     .args = -1,
     .attrs = &ZerosOfAttrs::kType,
     .infer = zeros_of_type,
     .compute = zeros_of,
     .fusion = Fusion::kElementwise},
    {.name = "first_rows",
     .doc = "The first rows of x, as many as the integer `count` says: at most all. Nothing is copied.",
     .args = 2,
     .infer = first_rows_type,
     .compute = first_rows,
     .fusion = Fusion::kInjective,
     .narrow = NarrowRule::kChoice},
    checked(in_order({.name = "reshape_to",
                      .doc = "The elements of x under a shape given by integers, an argument each.",
                      .args = -1,
                      .infer = reshape_to_type,
                      .compute = reshaped,
                      .fusion = Fusion::kInjective,
                      .narrow = NarrowRule::kChoice})),
    checked(in_order(
        {.name = "match_shape",
         .doc = "x, whose shape must be these integers, an argument each; -1: anything. An error where it "
                "is not.",
         .args = -1,
         .infer = match_shape_type,
         .compute = reshaped,
         .fusion = Fusion::kInjective,
         .narrow = NarrowRule::kChoice,
         .stateful = true})),
    checked(in_order({.name = "require",
                      .doc = "x, where the boolean `holds` is true; else the program ends with the message.",
                      .args = 2,
                      .attrs = &RequireAttrs::kType,
                      .infer = require_type,
                      .compute = reshaped,
                      .fusion = Fusion::kInjective,
                      .stateful = true})),
};

}  // namespace

std::span<const Op> sized_ops() { return kSizedOps; }

}  // namespace lathe::relay::ops
