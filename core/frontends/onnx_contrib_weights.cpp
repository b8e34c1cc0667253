// Operators of com.microsoft on weights of few bits: blocks of neighbours share a scale. The weights become
// integers of one byte each, times their scales: an expression of constants, which whoever compiles it may
// fold.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

int64_t divided_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// Rows of bytes as rows of `columns` numbers of so many bits, the lowest of a byte first.
Tensor unpacked(const Tensor& bytes, int64_t rows, int64_t columns, int64_t bits) {
  const int64_t each = 8 / bits, width = rows == 0 ? 0 : bytes.size() / rows;
  Tensor result({rows, columns}, kUInt8);
  const auto* from = bytes.as<uint8_t>();
  auto* to = result.as<uint8_t>();
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[r * columns + c] = static_cast<uint8_t>(from[r * width + c / each] >> (c % each * bits)) & mask;
  return result;
}

/// Input i, which must be known bytes: as many as `rows` rows of so many numbers take.
Tensor unpacked_input(const Node& node, size_t i, int64_t rows, int64_t columns, int64_t bits) {
  const Tensor& bytes = node.known_in(i);
  const int64_t width = divided_up(columns * bits, 8);
  if (bytes.dtype() != kUInt8 || bytes.size() != rows * width)
    node.reject("input {} of type {} and shape {}, must be {} rows of {} bytes", i, to_string(bytes.dtype()),
                shape_text(bytes.shape()), rows, width);
  return unpacked(bytes, rows, columns, bits);
}

/// An attribute that must be there and positive.
int64_t extent(const Node& node, const char* name) {
  const int64_t value = node.integer(name, 0);
  if (value < 1) node.reject("{} is {}, must be positive", name, value);
  return value;
}

/// Plus input `bias` where there is one.
Value with_bias(const Node& node, const Value& value, size_t bias) {
  return node.has(bias) ? plus(value, node.in(bias)) : value;
}

/// Data times the transpose of `weight`, (columns, k), plus input `bias` where there is one.
Value product(const Node& node, const Value& data, const Value& weight, size_t bias) {
  const Value columns = transposed(weight, {1, 0});
  return with_bias(node, converted_as("MatMul", node, {data, columns})[0], bias);
}

/// Numbers less their zero points in as few bits as hold them.
Value centred(const Tensor& values, const Value& zeros, int64_t bits) {
  // Differences of numbers of 8 bits do not fit 8.
  const DataType wide = bits < 8 ? kInt8 : kInt16;
  return minus(cast_to(constant(values), wide), cast_to(zeros, wide));
}

/// The group of each of a column's k numbers, in input i.
Ints groups_in(const Node& node, size_t i, int64_t k, int64_t blocks) {
  Ints groups = node.ints_in(i);  // those of padding follow, where they are told
  if (static_cast<int64_t>(groups.size()) < k) node.reject("groups of {} numbers, of {}", groups.size(), k);
  groups.resize(static_cast<size_t>(k));
  for (int64_t group : groups)
    if (group < 0 || group >= blocks) node.reject("group {} of {}", group, blocks);
  return groups;
}

/// Places of numbers, those of a group behind each other, where groups are as long as blocks; else nothing.
std::optional<Ints> in_blocks(const Ints& groups, int64_t block) {
  Ints order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  const auto group = [&](int64_t place) { return groups[static_cast<size_t>(place)]; };
  std::ranges::stable_sort(order, {}, group);
  for (size_t i = 0; i < order.size(); ++i)
    if (group(order[i]) != static_cast<int64_t>(i) / block) return std::nullopt;
  return order;
}

/// Rows of so many bytes whose first ones are at these places of the given rows.
Tensor reordered(const Tensor& rows, int64_t width, const Ints& order) {
  Tensor result = rows.clone();
  const auto* from = rows.as<uint8_t>();
  auto* to = result.as<uint8_t>();
  for (int64_t row = 0; row < rows.size(); row += width)
    for (size_t i = 0; i < order.size(); ++i) to[row + static_cast<int64_t>(i)] = from[row + order[i]];
  return result;
}

/// Inputs: data, weights as (columns, blocks, bytes of a block), their scales, zero points, the group of each
/// of a column's numbers, whose scale and zero point it has (blocks of neighbours without them), bias.
Values matmul_n_bits(const Node& node) {
  const int64_t k = extent(node, "K"), n = extent(node, "N"), block = extent(node, "block_size"),
                bits = node.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) node.reject("weights of {} bits", bits);
  const int64_t blocks = divided_up(k, block);
  node.constant_shape({n, blocks, block});
  Tensor values = unpacked_input(node, 1, n, blocks * block, bits);
  const Value scales = cast_to(reshape(node.in(2), {n, blocks}), kFloat32);
  const bool has_real_zeros = node.has(3) && node.dtype(3).is_float();
  const Value zeros = !node.has(3)     ? scalar(kUInt8, static_cast<double>(1 << (bits - 1)))
                      : has_real_zeros ? reshape(cast_to(node.in(3), kFloat32), {n, blocks})
                                       : constant(unpacked_input(node, 3, n, blocks, bits));
  Value data = node.in(0);
  if (node.has(4)) {
    const Ints groups = groups_in(node, 4, k, blocks);
    const std::optional<Ints> order = in_blocks(groups, block);
    if (!order) {
      const auto of_numbers = [&](const Value& value) { return taken(value, int_constant(groups), 1); };
      const Value zero = cast_to(node.has(3) ? of_numbers(zeros) : zeros, kFloat32),
                  real = minus(sliced(cast_to(constant(values), kFloat32), 1, 0, k), zero);
      return {product(node, data, times(real, of_numbers(scales)), 5)};
    }
    // A sum does not mind the order of its terms: groups of numbers that are neighbours.
    values = reordered(values, blocks * block, *order);
    data = taken(data, int_constant(*order), node.rank(0) - 1);
  }
  values = values.reshaped({n, blocks, block});
  const auto of_blocks = [&](const Value& value) { return reshape(value, {n, blocks, 1}); };
  if (has_real_zeros) {
    const Value real = times(minus(cast_to(constant(values), kFloat32), of_blocks(zeros)), of_blocks(scales));
    return {product(node, data, sliced(reshape(real, {n, blocks * block}), 1, 0, k), 5)};
  }
  const Value weight = centred(values, node.has(3) ? of_blocks(zeros) : zeros, bits);
  // Numbers behind the last one have zeros for data.
  if (const int64_t missing = blocks * block - k; missing > 0)
    data = padded_along(data, node.rank(0) - 1, 0, missing, number(data, 0));
  // At the fourth level activations of 8 bits are accurate enough.
  auto attrs = make<relay::BlockDenseAttrs>(node.integer("accuracy_level", 0) == 4);
  return {with_bias(node, emit("nn.block_dense", {data, weight, scales}, attrs), 5)};
}

// What four bits stand for, as in bitsandbytes: quantiles of a normal distribution, and a float of a sign,
// two bits of exponent and one of mantissa over its largest value.
constexpr std::array<float, 16> kNormalFloat4 = {
    -1.0F,       -0.69619280F, -0.52507305F, -0.39491749F, -0.28444138F, -0.18477343F, -0.09105004F, 0.0F,
    0.07958030F, 0.16093020F,  0.24611230F,  0.33791524F,  0.44070983F,  0.56261700F,  0.72295684F,  1.0F};
constexpr std::array<float, 16> kFloat4 = {
    0.0F,  0.00520833F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
    -0.0F, -0.00520833F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};

/// Inputs: data, weights as numbers of 4 bits in a row, the largest of each block.
Values matmul_bnb4(const Node& node) {
  const int64_t k = extent(node, "K"), n = extent(node, "N"), block = extent(node, "block_size");
  const int64_t type = node.integer("quant_type", 1);
  if (type != 0 && type != 1) node.reject("quant_type is {}, must be 0 or 1", type);
  node.constant_shape({n, k});
  const int64_t blocks = divided_up(n * k, block);
  node.constant_shape({blocks, block});
  const Tensor& bytes = node.known_in(1);
  if (bytes.dtype() != kUInt8 || bytes.size() != divided_up(n * k, 2))
    node.reject("weights of shape {}, must be {} bytes", shape_text(bytes.shape()), divided_up(n * k, 2));
  const std::array<float, 16>& stands_for = type == 1 ? kNormalFloat4 : kFloat4;
  Tensor shares({blocks, block}, kFloat32);
  auto* to = shares.as<float>();
  std::fill(to, to + shares.size(), 0.0F);
  const auto* from = bytes.as<uint8_t>();
  // The first of two is in the upper half of its byte.
  for (int64_t i = 0; i < n * k; ++i) to[i] = stands_for[from[i / 2] >> (i % 2 ? 0 : 4) & 15];
  const Value real = times(constant(shares), cast_to(reshape(node.in(2), {blocks, 1}), kFloat32));
  const Value weight = sliced(reshape(real, {blocks * block}), 0, 0, n * k);
  return {product(node, node.in(0), cast_to(reshape(weight, {n, k}), node.dtype(0)), node.inputs())};
}

/// Rows, or what `gather_axis` says, of a table of numbers of few bits; blocks are neighbours along another
/// axis.
Values gather_block_quantized(const Node& node) {
  const int64_t bits = node.integer("bits", 4), block = node.integer("block_size", 128);
  const int64_t rank = node.rank(0), gathered = node.axis(node.integer("gather_axis", 0), rank),
                blocked = node.axis(node.integer("quantize_axis", 1), rank);
  if (gathered == blocked) node.reject("blocks along the axis that is gathered from");
  if (bits != 4 && bits != 8) node.reject("a table of numbers of {} bits", bits);
  if (block < 1) node.reject("a block_size of {}", block);
  const auto a = static_cast<size_t>(blocked);
  for (size_t i : {size_t{2}, size_t{3}})
    if (node.has(i) && node.rank(i) != rank) node.reject("scales or zero points of rank {}", node.rank(i));
  const int64_t blocks = node.dim(2, blocked);
  Value table = node.in(0), zeros = node.has(3) ? node.in(3) : Value();
  // Of a type of its own, which is held in bytes, a number a byte; or two of them in each.
  const bool packed =
      bits == 4 && node.dtype(0) == kUInt8 && divided_up(2 * node.dim(0, blocked), block) == blocks;
  if (packed) {
    if (blocked != rank - 1) node.reject("packed numbers that are no neighbours along the last axis");
    const auto spread = [&](size_t i, int64_t columns) {
      Ints shape = node.shape(i);
      shape.back() = 1;
      const int64_t rows = shape_size(shape);
      shape.back() = columns;
      return constant(unpacked_input(node, i, rows, columns, bits).reshaped(shape));
    };
    table = spread(0, 2 * node.dim(0, blocked));
    if (zeros) zeros = spread(3, blocks);
  }
  const int64_t count = shape_of(table)[a];
  const Value indices = node.in(1);
  const int64_t axis = blocked + (gathered < blocked ? node.rank(1) - 1 : 0);
  const auto of_elements = [&](const Value& value) {
    return sliced(emit("repeat", {value}, make<relay::RepeatAttrs>(block, axis)), axis, 0, count);
  };
  const auto taken_rows = [&](const Value& from) { return taken(from, indices, gathered); };
  Value real = cast_to(taken_rows(table), kFloat32);
  if (zeros)
    real = minus(real, of_elements(cast_to(taken_rows(zeros), kFloat32)));
  else if (node.dtype(0) == kUInt8)
    real = minus(real, number(real, static_cast<double>(1 << (bits - 1))));
  const DataType dtype = node.dtype(2);
  return {cast_to(times(real, of_elements(cast_to(taken_rows(node.in(2)), kFloat32))), dtype)};
}

constexpr Converter kConverters[] = {
    {"MatMulNBits", matmul_n_bits, Arithmetic::kWide},
    {"MatMulBnb4", matmul_bnb4, Arithmetic::kWide},
    {"GatherBlockQuantized", gather_block_quantized},
};
}  // namespace

std::span<const Converter> contrib_weight_converters() { return kConverters; }

}  // namespace lathe::onnx
