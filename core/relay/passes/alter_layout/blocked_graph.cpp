#include "core/relay/passes/alter_layout/blocked_graph.h"

#include <algorithm>
#include <cstring>

#include "core/relay/analysis/call_type.h"
#include "core/tir/machine.h"

namespace lathe::relay {

Blocked BlockedGraph::found(const Expr& original) const {
  auto at = found_.find(original.get());
  return at == found_.end() ? Blocked{} : at->second;
}

Expr BlockedGraph::plain(const Blocked& value) {
  // Channels beyond are cut off once they are one axis again.
  return first_of(transform(value.expr, data_layout(value.block), "NCHW"), 1, value.channels);
}

Blocked BlockedGraph::as_blocked(const Expr& original, int64_t block) {
  // As it was computed, as it was converted for somebody before, or converted now.
  Blocked known = found(original);
  if (known.block == block) return known;
  Blocked& memo = converted_[{original.get(), block}];
  if (memo.expr) return memo;
  Blocked result{{}, block, channels_of(original)};
  // From block to block without NCHW between. Channels beyond stand in the way: their number differs.
  if (known.block && known.is_whole() && result.is_whole())
    result.expr = transform(known.expr, data_layout(known.block), data_layout(block));
  else
    result.expr = transform(extended(visit(original), 1, result.padded()), "NCHW", data_layout(block));
  return converted_[{original.get(), block}] = result;
}

std::string data_layout(int64_t block) { return fmt::format("NCHW{}c", block); }

const TensorType* tensor_type_of(const Expr& e) {
  return e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
}

int64_t channels_of(const Expr& e) {
  const TensorType* type = tensor_type_of(e);
  return type && type->shape.size() == 4 && as_int(type->shape[1]) ? int_value(type->shape[1]) : 0;
}

bool is_shape(const Expr& e, const Ints& shape) {
  const TensorType* type = tensor_type_of(e);
  return type && has_constant_shape(*type) && constant_shape(*type) == shape;
}

const std::string& op_name(const Call& call) { return call.callee.as<OpNode>()->name; }

int64_t products_at_once(const Call& product) {
  const DataType sum = product.checked_type.as<TensorType>()->dtype;
  auto length = [&](size_t i) { return dot_length(tensor_type_of(product.args[i])->dtype, sum); };
  return length(0) == length(1) ? std::max<int64_t>(length(0), 1) : 1;
}

Expr transform(const Expr& e, const std::string& from, const std::string& to) {
  if (const Constant* c = e.as<Constant>())
    return typed_constant(transform_layout(c->value, Layout::parse(from), Layout::parse(to)));
  return typed_call("layout_transform", {e}, make<LayoutTransformAttrs>(from, to));
}

Expr reshaped(const Expr& e, const Ints& shape) {
  if (const Constant* c = e.as<Constant>()) return typed_constant(c->value.reshaped(shape));
  return typed_call("reshape", {e}, make<ReshapeAttrs>(shape));
}

namespace {
/// Row by row, where a row is all bytes of `axis` and the axes behind it.
Tensor extended_tensor(const Tensor& tensor, int64_t axis, int64_t extent) {
  Ints shape = tensor.shape();
  int64_t rows = 1, given = tensor.dtype().bytes(), wanted;
  for (size_t d = 0; d < shape.size(); ++d) (static_cast<int64_t>(d) < axis ? rows : given) *= shape[d];
  wanted = shape[axis] ? given / shape[axis] * extent : 0;
  shape[axis] = extent;
  Tensor result = zeros(shape, tensor.dtype());
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(static_cast<char*>(result.data()) + row * wanted,
                static_cast<const char*>(tensor.data()) + row * given, static_cast<size_t>(given));
  return result;
}
}  // namespace

Expr extended(const Expr& e, int64_t axis, int64_t extent) {
  const TensorType& type = *tensor_type_of(e);
  int64_t given = int_value(type.shape[axis]);
  if (given == extent) return e;
  if (const Constant* c = e.as<Constant>()) return typed_constant(extended_tensor(c->value, axis, extent));
  std::vector<Ints> width(type.shape.size(), Ints{0, 0});
  width[axis][1] = extent - given;
  return typed_call("nn.pad", {e, typed_constant(full({}, type.dtype, 0))}, make<PadAttrs>(width));
}

Expr first_of(const Expr& e, int64_t axis, int64_t extent) {
  if (is_int(tensor_type_of(e)->shape[axis], extent)) return e;
  auto attrs = std::make_unique<StridedSliceAttrs>();
  attrs->begin = {0}, attrs->end = {extent}, attrs->strides = {1}, attrs->axes = Ints{axis};
  return typed_call("strided_slice", {e}, seal(std::move(attrs)));
}

Expr blocked_vector(const Expr& e, const Blocked& data) {
  return reshaped(extended(e, 0, data.padded()), {data.padded() / data.block, 1, 1, data.block});
}

}  // namespace lathe::relay
