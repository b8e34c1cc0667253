#include "core/relay/passes/round_block_products.h"

#include <algorithm>
#include <unordered_map>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/closed.h"
#include "core/relay/analysis/narrow_costs.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/tir/machine.h"

namespace lathe::relay {
namespace {

/// Products that a lane of 32 bits sums at once.
constexpr int64_t kGroup = 4;
/// The largest byte: data goes from -127 to 127.
constexpr double kLargest = 127;

const TensorType& type_of(const Expr& e) { return *e->checked_type.as<TensorType>(); }

/// Neighbours of a block that one step of the product takes: what a step writes out becomes code. 0: a block
/// is no whole steps of whole groups.
int64_t chunk_of(int64_t block) {
  constexpr int64_t kMost = 32, kFewest = 16;
  for (int64_t chunk = std::min(block, kMost); chunk >= kFewest; --chunk)
    if (block % chunk == 0 && chunk % (2 * kGroup) == 0) return chunk;
  return 0;
}

bool multiplies_bytes_faster(const Target& target) {
  const MachineModel& machine = machine_row(target).model;
  constexpr int64_t kGroups = 8;
  return static_cast<double>(kGroup) * dot_rate(machine, target, kUInt8, kGroups) >
         2 * machine.multiply_adds.at(target.vector_bits);
}

/// Weights as (columns, blocks, numbers), in digits from 0 on.
struct Digits {
  std::vector<int64_t> shape;
  std::vector<uint8_t> values;
  std::vector<uint8_t> zeros;  // of each block, or one for all
  int64_t bits;
};

/// Nothing where some block's range takes more than a byte.
std::optional<Digits> digits_of(const Tensor& weight) {
  Digits result{weight.shape(), {}, {}, 0};
  const int64_t blocks = result.shape[0] * result.shape[1], block = result.shape[2];
  std::vector<int64_t> numbers(static_cast<size_t>(weight.size()));
  for (int64_t i = 0; i < weight.size(); ++i) numbers[static_cast<size_t>(i)] = weight.integer(i);
  const auto bits_for = [](int64_t range) { return range < 4 ? 2 : range < 16 ? 4 : range < 256 ? 8 : 0; };
  int64_t least = 0, most = 0, widest = 0;
  std::vector<int64_t> lows;
  for (int64_t b = 0; b < blocks; ++b) {
    const auto begin = numbers.begin() + b * block;
    const auto [low, high] = std::minmax_element(begin, begin + block);
    // A zero is a digit, too.
    lows.push_back(std::min<int64_t>(*low, 0));
    const int64_t top = std::max<int64_t>(*high, 0);
    widest = std::max(widest, top - lows.back());
    least = std::min(least, lows.back()), most = std::max(most, top);
  }
  result.bits = bits_for(widest);
  if (result.bits == 0) return std::nullopt;
  if (bits_for(most - least) == result.bits) lows = {least};
  for (int64_t low : lows) result.zeros.push_back(static_cast<uint8_t>(-low));
  for (int64_t i = 0; i < weight.size(); ++i)
    result.values.push_back(static_cast<uint8_t>(
        numbers[static_cast<size_t>(i)] - lows[lows.size() == 1 ? 0 : static_cast<size_t>(i / block)]));
  return result;
}

/// (N / x, C, G, x, 4): of each chunk the first 4 G numbers of x columns in the lowest bits of bytes, the
/// next 4 G above them. Columns beyond the last are zeros.
Tensor packed(const Digits& digits, int64_t lanes, int64_t chunk) {
  const int64_t columns = digits.shape[0], depth = digits.shape[1] * digits.shape[2],
                outer = (columns + lanes - 1) / lanes, each = 8 / digits.bits,
                groups = chunk / (kGroup * each), chunks = depth / chunk;
  Tensor result = zeros({outer, chunks, groups, lanes, kGroup}, kUInt8);
  auto* to = result.as<uint8_t>();
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t group = k % chunk / kGroup, place = group % groups, digit = group / groups;
      uint8_t& byte =
          to[(((n / lanes * chunks + k / chunk) * groups + place) * lanes + n % lanes) * kGroup + k % kGroup];
      byte |=
          static_cast<uint8_t>(digits.values[static_cast<size_t>(n * depth + k)] << (digit * digits.bits));
    }
  return result;
}

/// (N, B) as (N / x, B, x), zeros for columns beyond the last.
template <typename T>
Tensor in_lanes(const T* from, DataType dtype, int64_t columns, int64_t blocks, int64_t lanes) {
  Tensor result = zeros({(columns + lanes - 1) / lanes, blocks, lanes}, dtype);
  T* to = result.as<T>();
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t b = 0; b < blocks; ++b)
      to[(n / lanes * blocks + b) * lanes + n % lanes] = from[n * blocks + b];
  return result;
}

Expr number(double value) { return typed_constant(full({}, kFloat32, value)); }

Expr last_axis_of(const char* op, const Expr& e) {
  return typed_call(op, {e}, make<ReduceAttrs>(std::optional(Ints{-1}), false, false, false));
}

/// (..., K) as (..., K / part, part).
Expr in_parts(const Expr& e, int64_t parts, int64_t part) {
  Ints shape(type_of(e).shape.size() - 1, 0);
  shape.insert(shape.end(), {parts, part});
  return reshape(e, shape);
}

/// Data in bytes, what a step of each block's bytes stands for, and the sums of each chunk.
struct Bytes {
  Expr values, scale, sums;
};

Bytes bytes_of(const Expr& data, int64_t blocks, int64_t block, int64_t chunk) {
  const Expr parts = in_parts(data, blocks, block), largest = last_axis_of("max", typed_call("abs", {parts}));
  // Of zeros alone, too, there is a number to divide by.
  const Expr divisor = typed_call("maximum", {largest, number(1e-30)});
  const auto axis = static_cast<int64_t>(type_of(largest).shape.size());
  const Expr factor = typed_call("expand_dims", {typed_call("divide", {number(kLargest), divisor})},
                                 make<ExpandDimsAttrs>(axis, int64_t{1}));
  const Expr steps =
      typed_call("clip", {typed_call("multiply", {parts, factor})}, make<ClipAttrs>(-kLargest, kLargest));
  Ints flat(type_of(data).shape.size() - 1, 0);
  flat.push_back(-1);
  const Expr values = reshape(cast(typed_call("round", {steps}), kInt8), flat);
  const Expr chunks = in_parts(values, blocks * block / chunk, chunk);
  return {values, typed_call("multiply", {largest, number(1 / kLargest)}),
          last_axis_of("sum", cast(chunks, kInt32))};
}

bool may_round(const Call& call) {
  const auto* attrs = call.attrs.as<BlockDenseAttrs>();
  return attrs && attrs->may_round && type_of(call.args[0]).dtype == kFloat32 && is_closed(call.args[1]) &&
         is_closed(call.args[2]) && has_constant_shape(type_of(call.args[1])) &&
         chunk_of(constant_shape(type_of(call.args[1]))[2]) > 0;
}

using Known = std::unordered_map<const Node*, Tensor>;

class Rounder final : public ExprMutator {
 public:
  Rounder(const Target& target, const Known& known) : lanes_(target.lanes()), known_(known) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    const auto weight = known_.find(e->args.size() == 3 ? e->args[1].get() : nullptr);
    if (!call_of(e, "nn.block_dense") || weight == known_.end()) return visit_default(e);
    const std::optional<Digits> digits = digits_of(weight->second);
    return digits ? rounded(visit(e->args[0]), *digits, known_.at(e->args[2].get())) : visit_default(e);
  }

  Expr rounded(const Expr& data, const Digits& digits, const Tensor& scales) const {
    const int64_t columns = digits.shape[0], blocks = digits.shape[1], chunk = chunk_of(digits.shape[2]);
    const Bytes bytes = bytes_of(data, blocks, digits.shape[2], chunk);
    const Tensor zeros = digits.zeros.size() == 1
                             ? full({1, 1, 1}, kUInt8, digits.zeros[0])
                             : in_lanes(digits.zeros.data(), kUInt8, columns, blocks, lanes_);
    const Expr product =
        typed_call("nn.contrib_block_dense_pack",
                   {bytes.values, bytes.scale, bytes.sums, typed_constant(packed(digits, lanes_, chunk)),
                    typed_constant(in_lanes(scales.as<float>(), kFloat32, columns, blocks, lanes_)),
                    typed_constant(zeros)},
                   make<PackedBlockAttrs>(digits.bits));
    if (columns % lanes_ == 0) return product;
    auto first = std::make_unique<StridedSliceAttrs>();
    first->begin = {0}, first->end = {columns}, first->strides = {1}, first->axes = Ints{-1};
    return typed_call("strided_slice", {product}, seal(std::move(first)));
  }

  int64_t lanes_;
  const Known& known_;
};

class Permission final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    Expr rebuilt = visit_default(e);
    const Call* call = call_of(rebuilt, "nn.block_dense");
    return call ? typed_call("nn.block_dense", call->args, make<BlockDenseAttrs>(true)) : rebuilt;
  }
};

}  // namespace

Module let_blocks_round(const Module& module) {
  return map_functions(module, [](const Ref<Function>& function) { return Permission().visit_as(function); });
}

Module round_block_products(const Module& module, const Target& target, const Evaluate& evaluate) {
  std::vector<Expr> wanted;
  for (const auto& [name, function] : module->functions)
    post_order(function, [&](const NodeRef& node) {
      const Call* call = node.as<Call>();
      if (!call || !call_of(Expr(call), "nn.block_dense") || !may_round(*call)) return;
      if (has_many_rows(Expr(call), target) && !multiplies_bytes_faster(target)) return;
      wanted.insert(wanted.end(), {call->args[1], call->args[2]});
    });
  if (wanted.empty()) return module;
  const std::vector<Tensor> values = evaluate(wanted);
  Known known;
  for (size_t i = 0; i < wanted.size(); ++i) known[wanted[i].get()] = values[i];
  return map_functions(
      module, [&](const Ref<Function>& function) { return Rounder(target, known).visit_as(function); });
}

}  // namespace lathe::relay
