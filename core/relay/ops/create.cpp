// Tensors from nothing, or from a shape.
#include <cmath>
#include <map>

#include "core/relay/analysis/sizes.h"
#include "core/relay/ops/attrs_zeros_by.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"
#include "core/relay/text.h"

namespace lathe::relay::ops {
namespace {

Shape shape_of_attrs(const InitAttrs& a) { return {a.shape.begin(), a.shape.end()}; }

Relation filled_type(RelationContext& c, const Attrs& attrs) {
  const InitAttrs& a = attrs_as<InitAttrs>(attrs);
  for (int64_t dim : a.shape)
    if (dim < 0) mismatch(c, "shape has {}, must not be negative", dim);
  DataType dtype = a.dtype.value_or(kFloat32);
  if (c.args() == 1) {
    const TensorType* value = c.tensor(0);
    if (!value) return Relation::kWaits;
    require_rank(c, 0, *value, 0);
    dtype = a.dtype.value_or(value->dtype);
  }
  c.result(tensor_type(shape_of_attrs(a), dtype));
  return Relation::kSolved;
}

template <int kValue>
Buffers filled(FuncBuilder& f, const Attrs&, Inputs, const Type& result) {
  const TensorType& type = tensor_of(result);
  return {f.compute("fill", type.shape, [&](Vars) { return lathe::constant(type.dtype, kValue); })};
}

/// Of the names that are dimensions of the arguments, in their order.
Relation zeros_by_type(RelationContext& c, const Attrs& attrs) {
  const ZerosByAttrs& a = attrs_as<ZerosByAttrs>(attrs);
  std::map<std::string, Expr> dims;
  for (size_t arg = 0; arg < c.args(); ++arg) {
    const TensorType* tensor = c.tensor(arg);
    if (!tensor) return Relation::kWaits;
    for (const Expr& dim : tensor->shape) dims.emplace(fmt::format("d{}", dims.size()), dim);
  }
  const Type written = parse_type(fmt::format("Tensor[{}, {}]", a.shape, to_string(a.dtype)),
                                  c.op().name + std::string(" shape"));
  Shape shape;
  for (const Expr& dim : tensor_of(written).shape) {
    VarMap values;
    bool unknown = false;
    post_order(dim, [&](const NodeRef& node) {
      const auto* name = node.as<lathe::VarNode>();
      if (!name) return;
      auto found = dims.find(name->name);
      if (found == dims.end())
        mismatch(c, "the arguments have {} dimensions, none is {}", dims.size(), name->name);
      values[name] = found->second;
      unknown |= found->second.as<Any>() != nullptr;
    });
    shape.push_back(unknown ? any_dim() : simplify_size(substitute(dim, values)));
    if (as_int(shape.back()) && int_value(shape.back()) < 0)
      mismatch(c, "{} of shape {} is {}, must not be negative", print(dim), a.shape, int_value(shape.back()));
  }
  c.result(tensor_type(shape, a.dtype));
  return Relation::kSolved;
}

Relation full_like_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* value = c.tensor(1);
  if (!value) return Relation::kWaits;
  require_rank(c, 1, *value, 0);
  return same_as_input(c, attrs);
}

Buffers full(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  const TensorType& type = tensor_of(result);
  return {f.compute("fill", type.shape, [&](Vars) { return cast(type.dtype, load(in.back(), {})); })};
}

}  // namespace

std::optional<int64_t> arange_count(const Tensor& start, const Tensor& stop, const Tensor& step) {
  constexpr int64_t kMost = 1'000'000'000'000;
  const bool real = start.dtype().is_float() || stop.dtype().is_float() || step.dtype().is_float();
  if (real) {
    const double count = std::ceil((stop.value(0) - start.value(0)) / step.value(0));
    // Written so that NaN is none, too.
    return count < kMost ? std::optional(static_cast<int64_t>(std::max(count, 0.0))) : std::nullopt;
  }
  // Not every integer is a double, and the span of two is of 65 bits.
  const auto whole = [](const Tensor& number) -> __int128 {
    const int64_t bits = number.integer(0);
    return number.dtype() == kUInt64 ? static_cast<uint64_t>(bits) : static_cast<__int128>(bits);
  };
  const __int128 by = whole(step), span = whole(stop) - whole(start);
  if (by == 0) return std::nullopt;
  const __int128 count = by > 0 ? (span + by - 1) / by : (span + by + 1) / by;
  return count < kMost ? std::optional(static_cast<int64_t>(std::max<__int128>(count, 0))) : std::nullopt;
}

namespace {

std::string number_text(const Tensor& number) {
  return number.dtype().is_float() ? fmt::format("{}", number.value(0)) : std::to_string(number.integer(0));
}

/// Start, stop and step are constants when the number of elements is to be known.
Relation arange_type(RelationContext& c, const Attrs& attrs) {
  const Constant *start = c.constant(0), *stop = c.constant(1), *step = c.constant(2);
  Expr count = any_dim();
  if (start && stop && step) {
    for (const Constant* each : {start, stop, step})
      if (each->value.size() != 1) mismatch(c, "start, stop and step must be scalars");
    if (step->value.value(0) == 0) mismatch(c, "step is 0");
    const std::optional<int64_t> known = arange_count(start->value, stop->value, step->value);
    if (!known)
      mismatch(c, "from {} to {} by {} is no range", number_text(start->value), number_text(stop->value),
               number_text(step->value));
    count = *known;
  }
  c.result(tensor_type({count}, attrs_as<DtypeAttrs>(attrs).dtype));
  return Relation::kSolved;
}

Buffers arange(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  const TensorType& type = tensor_of(result);
  auto scalar = [&](size_t arg) { return cast(type.dtype, load(in[arg], {})); };
  return {f.compute("arange", type.shape,
                    [&](Vars i) { return scalar(0) + cast(type.dtype, i[0]) * scalar(2); })};
}

Relation shape_of_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  c.result(tensor_type({Expr(static_cast<int64_t>(x->shape.size()))}, attrs_as<DtypeAttrs>(attrs).dtype));
  return Relation::kSolved;
}

Buffers shape_of(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  const TensorType& type = tensor_of(result);
  return {f.compute("shape", type.shape, [&](Vars i) {
    // A chain of selects, as an expression cannot index the list of dimensions.
    Expr value = lathe::constant(type.dtype, 0);
    for (size_t d = in[0]->shape.size(); d-- > 0;)
      value = select(equal(i[0], Expr(static_cast<int64_t>(d))), cast(type.dtype, in[0]->shape[d]), value);
    return value;
  })};
}

/// Of a vector, which gives its length alone.
Relation arange_like_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  require_rank(c, 0, *x, 1);
  c.result(tensor_type(x->shape, attrs_as<DtypeAttrs>(attrs).dtype));
  return Relation::kSolved;
}

Buffers arange_like(FuncBuilder& f, const Attrs&, Inputs, const Type& result) {
  const TensorType& type = tensor_of(result);
  return {f.compute("arange", type.shape, [&](Vars i) { return cast(type.dtype, i[0]); })};
}

Relation ndarray_size_type(RelationContext& c, const Attrs& attrs) {
  if (!c.tensor(0)) return Relation::kWaits;
  c.result(tensor_type(Shape{}, attrs_as<DtypeAttrs>(attrs).dtype));
  return Relation::kSolved;
}

Buffers ndarray_size(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  DataType dtype = tensor_of(result).dtype;
  return {f.compute("size", {},
                    [&](Vars) { return cast(dtype, dims_product(in[0]->shape, 0, in[0]->shape.size())); })};
}

Relation one_hot_type(RelationContext& c, const Attrs& attrs) {
  const OneHotAttrs& a = attrs_as<OneHotAttrs>(attrs);
  const TensorType *indices = c.tensor(0), *on = c.tensor(1);
  if (!indices || !on) return Relation::kWaits;
  int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(indices->shape.size()) + 1);
  if (a.depth < 1) mismatch(c, "depth is {}, must be at least 1", a.depth);
  Shape shape = indices->shape;
  shape.insert(shape.begin() + axis, Expr(a.depth));
  c.result(tensor_type(shape, a.dtype.value_or(on->dtype)));
  return Relation::kSolved;
}

Buffers one_hot(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const OneHotAttrs& a = attrs_as<OneHotAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  int64_t axis = a.axis < 0 ? a.axis + static_cast<int64_t>(type.shape.size()) : a.axis;
  return {f.compute("one_hot", type.shape, [&](Vars i) {
    std::vector<Expr> rest = as_indices(i);
    rest.erase(rest.begin() + axis);
    Expr index = cast(kInt64, load(in[0], rest));
    auto scalar = [&](size_t arg) {
      return cast(type.dtype, load(in[arg], std::vector<Expr>(in[arg]->shape.size(), Expr(0))));
    };
    return select(equal(index, i[axis]), scalar(1), scalar(2));
  })};
}

constexpr Op row(const char* name, const char* doc, int args, const NodeType* attrs, InferType infer,
                 Compute compute) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kElementwise};
}

constexpr Op kCreateOps[] = {
    row("zeros", "Zeros.", 0, &InitAttrs::kType, filled_type, filled<0>),
    row("ones", "Ones.", 0, &InitAttrs::kType, filled_type, filled<1>),
    row("zeros_by", "Zeros, of a shape that is computed from the arguments' dimensions.", -1,
        &ZerosByAttrs::kType, zeros_by_type, filled<0>),
    row("full", "The scalar argument everywhere.", 1, &InitAttrs::kType, filled_type, full),
    row("full_like", "The scalar second argument in the shape and type of the first.", 2, nullptr,
        full_like_type, full),
    row("arange", "start, start + step, ... before stop.", 3, &DtypeAttrs::kType, arange_type, arange),
    row("arange_like", "0, 1, 2, ..., as many as the vector has elements.", 1, &DtypeAttrs::kType,
        arange_like_type, arange_like),
    row("shape_of", "The dimensions, as a vector.", 1, &DtypeAttrs::kType, shape_of_type, shape_of),
    row("ndarray_size", "The number of elements.", 1, &DtypeAttrs::kType, ndarray_size_type, ndarray_size),
    row("one_hot", "on_value where the new axis has the index, else off_value.", 3, &OneHotAttrs::kType,
        one_hot_type, one_hot),
};
}  // namespace

std::span<const Op> create_ops() { return kCreateOps; }

}  // namespace lathe::relay::ops
