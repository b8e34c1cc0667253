#include "core/relay/passes/alter_layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

using ops::attrs_as;

/// An expression whose channels (axis 1 of 4) are blocked by `block`: its shape is (N, C/block, H, W, block).
struct Blocked {
  Expr expr;
  int64_t block = 0;
};

std::string data_layout(int64_t block) { return block ? fmt::format("NCHW{}c", block) : "NCHW"; }

const TensorType* tensor_type_of(const Expr& e) {
  return e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
}

/// The channels of a 4-dimensional value, or 0 when it is none or they are not constant.
int64_t channels_of(const Expr& e) {
  const TensorType* type = tensor_type_of(e);
  return type && type->shape.size() == 4 && as_int(type->shape[1]) ? int_value(type->shape[1]) : 0;
}

bool is_shape(const Expr& e, const Ints& shape) {
  const TensorType* type = tensor_type_of(e);
  return type && has_constant_shape(*type) && constant_shape(*type) == shape;
}

const std::string& op_name(const Call& call) { return call.callee.as<OpNode>()->name; }

Expr transform(const Expr& e, const std::string& from, const std::string& to) {
  if (const Constant* c = e.as<Constant>())
    return typed_constant(transform_layout(c->value, Layout::parse(from), Layout::parse(to)));
  return typed_call("layout_transform", {e}, make<LayoutTransformAttrs>(from, to));
}

Expr reshaped(const Expr& e, const Ints& shape) {
  if (const Constant* c = e.as<Constant>()) return typed_constant(c->value.reshaped(shape));
  return typed_call("reshape", {e}, make<ReshapeAttrs>(shape));
}

/// Products that one instruction sums within a lane: 4 of 8-bit integers as int32, 2 of bfloat16 as float32;
/// else 1. The operands' innermost axis must hold that many.
int64_t products_at_once(DataType data, DataType weight, DataType sum) {
  auto is_8_bit = [](DataType type) { return type == kInt8 || type == kUInt8; };
  if (is_8_bit(data) && is_8_bit(weight) && sum == kInt32) return 4;
  return data == kBFloat16 && weight == kBFloat16 && sum == kFloat32 ? 2 : 1;
}

/// visit() gives each expression in its own layout; `blocked_` remembers those that were computed in blocked
/// form. A transformation that nobody asks for in the end is not part of the result.
class AlterLayout final : public ExprMutator {
 public:
  AlterLayout(int64_t lanes, int64_t lanes_at_once) : lanes_(lanes), lanes_at_once_(lanes_at_once) {}

 protected:
  Expr visit_function(const Ref<Function>& e) override {
    return e->attrs.primitive ? Expr(e) : ExprMutator::visit_function(e);
  }

  Expr visit_call(const Ref<Call>& e) override {
    const OpNode* op = e->callee.as<OpNode>();
    if (!op) return visit_default(e);
    if (op->name == "nn.dense") return packed_dense(e);
    if (Expr whole = with_whole_blocks(*e)) return first_channels(visit(whole), channels_of(e));
    Blocked result = blocked_call(e, *op);
    if (!result.block) return visit_default(e);
    blocked_[e.get()] = result;
    return transform(result.expr, data_layout(result.block), "NCHW");
  }

 private:
  using Handler = Blocked (AlterLayout::*)(const Ref<Call>&);

  /// The call in blocked form; block 0 when it must keep its layout.
  Blocked blocked_call(const Ref<Call>& e, const OpNode& op) {
    static const std::pair<const char*, Handler> kHandlers[] = {
        {"nn.conv2d", &AlterLayout::convolution},
        {"nn.bias_add", &AlterLayout::bias_add},
        {"nn.prelu", &AlterLayout::prelu},
        {"concatenate", &AlterLayout::concatenation},
        {"nn.pad", &AlterLayout::padding},
        {"mean", &AlterLayout::spatial_reduction},
        {"max", &AlterLayout::spatial_reduction},
        {"sum", &AlterLayout::spatial_reduction},
        {"image.resize2d", &AlterLayout::with_layout<Resize2dAttrs>},
        {"nn.upsampling", &AlterLayout::with_layout<UpsamplingAttrs>},
        {"nn.max_pool2d", &AlterLayout::with_layout<PoolAttrs>},
        {"nn.avg_pool2d", &AlterLayout::with_layout<PoolAttrs>},
        {"nn.global_max_pool2d", &AlterLayout::with_layout<AdaptivePoolAttrs>},
        {"nn.global_avg_pool2d", &AlterLayout::with_layout<AdaptivePoolAttrs>},
        {"nn.adaptive_max_pool2d", &AlterLayout::with_layout<AdaptivePoolAttrs>},
        {"nn.adaptive_avg_pool2d", &AlterLayout::with_layout<AdaptivePoolAttrs>},
    };
    if (!channels_of(e)) return {};
    for (const auto& [name, handler] : kHandlers)
      if (op.name == name) return (this->*handler)(e);
    return op.row().layout == LayoutRule::kElementwise ? elementwise(e) : Blocked{};
  }

  /// The block for `channels`: full vectors or the most of them that divides (24 channels are two blocks of
  /// 12 lanes rather than three of 8, 42 three of 14), down to halves, then quarters; 0 when there is none. A
  /// smaller one where that leaves fewer lanes idle: 24 channels are three of 8 where 8 take half the time
  /// of 16.
  int64_t block_for(int64_t channels) const {
    constexpr double kWorthwhile = 1.1;  // more instructions for as many lanes
    int64_t best = 0;
    for (int64_t block = lanes_; block >= 4; --block)
      if (channels % block == 0 && (2 * block >= lanes_ || block % 4 == 0) &&
          (!best || used_lanes(block) > kWorthwhile * used_lanes(best)))
        best = block;
    return best;
  }

  /// The share of the lanes paid for.
  double used_lanes(int64_t block) const {
    int64_t paid = (block + lanes_at_once_ - 1) / lanes_at_once_ * lanes_at_once_;
    return static_cast<double>(block) / static_cast<double>(paid);
  }

  /// Whole vectors; else schedules pad the units and pack the weights themselves, which `products` at once in
  /// a lane keeps them from.
  int64_t dense_block_for(int64_t units, int64_t products) const {
    for (int64_t block = lanes_; block >= (products > 1 ? 4 : lanes_); block /= 2)
      if (units % block == 0) return block;
    return 0;
  }

  int64_t block_of(const Expr& original) const {
    auto found = blocked_.find(original.get());
    return found == blocked_.end() ? 0 : found->second.block;
  }

  /// `original` with its channels blocked by `block`.
  Expr as_blocked(const Expr& original, int64_t block) {
    auto found = blocked_.find(original.get());
    if (found != blocked_.end() && found->second.block == block) return found->second.expr;
    Expr& memo = converted_[{original.get(), block}];
    if (!memo) {
      bool direct = found == blocked_.end();
      memo = transform(direct ? visit(original) : found->second.expr,
                       data_layout(direct ? 0 : found->second.block), data_layout(block));
    }
    return memo;
  }

  Blocked convolution(const Ref<Call>& e) {
    const ConvAttrs& a = attrs_as<ConvAttrs>(e->attrs);
    const TensorType* weight = tensor_type_of(e->args[1]);
    if (!ops::is_plain(a) || !weight || !has_constant_shape(*weight)) return {};
    int64_t in = channels_of(e->args[0]), out = int_value(weight->shape[0]),
            per_group = int_value(weight->shape[1]);
    bool depthwise = a.groups > 1 && a.groups == in && in == out;
    int64_t group = depthwise ? 1 : products_of(*e), missing = 0;
    int64_t out_block = block_for(depthwise ? out : out / a.groups);
    int64_t in_block = depthwise ? out_block : block_for(per_group);
    // A convolution only broadcasts its data: few channels that are not blocked yet are read where they lie
    // (NCHW1c is NCHW). Padding is copied in blocks, though, so then in one block of all channels.
    bool few = a.groups == 1 && in <= lanes_ && !block_of(e->args[0]);
    if (few && group == 1 && is_unpadded(a)) {
      in_block = 1;
    } else if (!in_block && a.groups == 1 && in <= 2 * lanes_) {
      in_block = (in + group - 1) / group * group;
      missing = in_block - in;
    }
    if (!in_block || !out_block) return {};
    auto altered = mutate(a);
    altered->data_layout = data_layout(in_block);
    altered->out_layout = data_layout(out_block);
    altered->kernel_layout = fmt::format("OIHW{}i{}o", depthwise ? 1 : in_block, out_block);
    if (group > 1) altered->kernel_layout = fmt::format("OIHW{}i{}o{}i", in_block / group, out_block, group);
    Expr kernel = visit(e->args[1]), data;
    if (in_block == 1) {
      data = with_last_axis(visit(e->args[0]));
    } else if (missing == 0) {
      data = as_blocked(e->args[0], in_block);
    } else {
      kernel = with_more_channels(kernel, missing);
      data = transform(with_more_channels(visit(e->args[0]), missing), "NCHW", altered->data_layout);
    }
    kernel = transform(kernel, "OIHW", altered->kernel_layout);
    const char* op = depthwise ? "nn.contrib_depthwise_conv2d_NCHWc" : "nn.contrib_conv2d_NCHWc";
    return {typed_call(op, {data, kernel}, seal(std::move(altered))), out_block};
  }

  /// A convolution whose results have no block (257 channels) with more of them, of weight zero, up to whole
  /// vectors; null for others, and for those of few results, where more would cost more than vectors gain.
  Expr with_whole_blocks(const Call& e) const {
    const Constant* weight = op_name(e) == "nn.conv2d" ? e.args[1].as<Constant>() : nullptr;
    if (!weight) return {};
    const ConvAttrs& a = attrs_as<ConvAttrs>(e.attrs);
    Ints shape = weight->value.shape();
    bool has_input_blocks = block_for(shape[1]) || shape[1] <= 2 * lanes_;
    if (!ops::is_plain(a) || a.groups != 1 || shape[0] < lanes_ || block_for(shape[0]) || !has_input_blocks)
      return {};
    shape[0] = (shape[0] + lanes_ - 1) / lanes_ * lanes_;
    Tensor more = zeros(shape, weight->value.dtype());
    std::memcpy(more.data(), weight->value.data(), static_cast<size_t>(weight->value.bytes()));
    auto widened = mutate(a);
    widened->channels = shape[0];
    return typed_call("nn.conv2d", {e.args[0], typed_constant(more)}, seal(std::move(widened)));
  }

  static Expr first_channels(const Expr& e, int64_t count) {
    auto attrs = std::make_unique<StridedSliceAttrs>();
    attrs->begin = {0}, attrs->end = {count}, attrs->strides = {1}, attrs->axes = Ints{1};
    return typed_call("strided_slice", {e}, seal(std::move(attrs)));
  }

  static int64_t products_of(const Call& product) {
    return products_at_once(tensor_type_of(product.args[0])->dtype, tensor_type_of(product.args[1])->dtype,
                            product.checked_type.as<TensorType>()->dtype);
  }

  /// `count` channels (axis 1) of zeros behind those of `e`.
  static Expr with_more_channels(const Expr& e, int64_t count) {
    auto attrs = make<PadAttrs>(std::vector<Ints>{{0, 0}, {0, count}, {0, 0}, {0, 0}});
    return typed_call("nn.pad", {e, typed_constant(full({}, tensor_type_of(e)->dtype, 0))}, attrs);
  }

  static bool is_unpadded(const ConvAttrs& a) {
    return std::all_of(a.padding.begin(), a.padding.end(), [](int64_t pad) { return pad == 0; });
  }

  /// The same data with an axis of extent 1 behind the others; a reshape where the shape is known, which
  /// costs nothing.
  static Expr with_last_axis(const Expr& e) {
    const TensorType& type = *tensor_type_of(e);
    if (!has_constant_shape(type))
      return typed_call("expand_dims", {e}, make<ExpandDimsAttrs>(static_cast<int64_t>(type.shape.size())));
    Ints shape = constant_shape(type);
    shape.push_back(1);
    return reshaped(e, shape);
  }

  /// Pooling, resizing: the operator itself knows blocked layouts.
  template <typename A>
  Blocked with_layout(const Ref<Call>& e) {
    int64_t block = block_of(e->args[0]);
    const A& a = attrs_as<A>(e->attrs);
    if (!block || (!a.layout.empty() && a.layout != "NCHW")) return {};
    auto altered = mutate(a);
    altered->layout = data_layout(block);
    return {typed_call(op_name(*e), {as_blocked(e->args[0], block)}, seal(std::move(altered))), block};
  }

  /// data + bias (C) becomes add of a bias (C/x, 1, 1, x).
  Blocked bias_add(const Ref<Call>& e) {
    int64_t block = block_of(e->args[0]), axis = attrs_as<ChannelAttrs>(e->attrs).axis;
    if (!block || (axis != 1 && axis != -3)) return {};
    Expr bias = reshaped(visit(e->args[1]), {channels_of(e) / block, 1, 1, block});
    return {typed_call("add", {as_blocked(e->args[0], block), bias}), block};
  }

  /// max(x, 0) + alpha * min(x, 0), with alpha as (C/x, 1, 1, x).
  Blocked prelu(const Ref<Call>& e) {
    int64_t block = block_of(e->args[0]), axis = attrs_as<ChannelAttrs>(e->attrs).axis;
    if (!block || (axis != 1 && axis != -3)) return {};
    Expr x = as_blocked(e->args[0], block), zero = typed_constant(full({}, tensor_type_of(x)->dtype, 0));
    Expr alpha = reshaped(visit(e->args[1]), {channels_of(e) / block, 1, 1, block});
    Expr below = typed_call("multiply", {typed_call("minimum", {x, zero}), alpha});
    return {typed_call("add", {typed_call("nn.relu", {x}), below}), block};
  }

  /// A reduction of height and width that keeps its axes.
  Blocked spatial_reduction(const Ref<Call>& e) {
    int64_t block = block_of(e->args[0]);
    const ReduceAttrs& a = attrs_as<ReduceAttrs>(e->attrs);
    if (!block || !a.axis || a.exclude) return {};
    auto altered = mutate(a);
    for (int64_t& axis : *altered->axis) {
      axis = axis < 0 ? axis + 4 : axis;
      if (axis < 2) return {};
    }
    return {typed_call(op_name(*e), {as_blocked(e->args[0], block)}, seal(std::move(altered))), block};
  }

  /// Padding of all axes but the channels.
  Blocked padding(const Ref<Call>& e) {
    int64_t block = block_of(e->args[0]);
    const PadAttrs& a = attrs_as<PadAttrs>(e->attrs);
    if (!block || a.pad_width.size() != 4 || a.pad_width[1] != Ints{0, 0}) return {};
    auto altered = mutate(a);
    altered->pad_width.push_back({0, 0});
    return {
        typed_call("nn.pad", {as_blocked(e->args[0], block), visit(e->args[1])}, seal(std::move(altered))),
        block};
  }

  /// One block that divides all parts, when one of them is blocked.
  Blocked concatenation(const Ref<Call>& e) {
    const Tuple* parts = e->args[0].as<Tuple>();
    if (!parts) return {};
    int64_t common = 0;
    bool blocked = false;
    for (const Expr& part : parts->items) {
      common = std::gcd(common, channels_of(part));
      blocked |= block_of(part) > 0;
    }
    int64_t block = blocked && common ? block_for(common) : 0;
    if (!block) return {};
    std::vector<Expr> items;
    for (const Expr& part : parts->items) items.push_back(as_blocked(part, block));
    int64_t axis = attrs_as<ConcatenateAttrs>(e->attrs).axis;
    return {
        typed_call("concatenate", {typed_tuple(items)}, make<ConcatenateAttrs>(axis < 0 ? axis + 4 : axis)),
        block};
  }

  Blocked elementwise(const Ref<Call>& e) {
    int64_t block = 0, channels = channels_of(e);
    for (const Expr& arg : e->args)
      if (channels_of(arg) == channels) block = std::max(block, block_of(arg));
    if (!block) return {};
    std::vector<Expr> args;
    for (const Expr& arg : e->args) {
      args.push_back(broadcastable(arg, channels, block));
      if (!args.back()) return {};
    }
    return {typed_call(op_name(*e), args, e->attrs), block};
  }

  /// An operand that broadcasts against (N, channels/block, H, W, block) as `arg` does against (N, channels,
  /// H, W); null when there is none.
  Expr broadcastable(const Expr& arg, int64_t channels, int64_t block) {
    const TensorType* type = tensor_type_of(arg);
    if (!type) return nullptr;
    size_t rank = type->shape.size();
    if (rank == 0) return visit(arg);
    if (rank == 4 && channels_of(arg) == channels) return as_blocked(arg, block);
    if (is_shape(arg, {channels, 1, 1})) return reshaped(visit(arg), {channels / block, 1, 1, block});
    if (rank == 3 && is_int(type->shape[0], channels))
      return transform(visit(arg), "CHW", fmt::format("CHW{}c", block));
    if (rank >= 3 && !is_int(type->shape[rank - 3], 1)) return nullptr;
    return typed_call("expand_dims", {visit(arg)},
                      make<ExpandDimsAttrs>(static_cast<int64_t>(rank)));  // the same for all channels
  }

  Expr packed_dense(const Ref<Call>& e) {
    const TensorType* weight = tensor_type_of(e->args[1]);
    int64_t group = products_of(*e), block = 0;
    if (weight && has_constant_shape(*weight)) block = dense_block_for(int_value(weight->shape[0]), group);
    const DenseAttrs& a = attrs_as<DenseAttrs>(e->attrs);
    if (!block || !a.weight_layout.empty()) return visit_default(e);
    auto altered = mutate(a);
    altered->weight_layout = fmt::format("NC{}n", block);
    auto [data, kernel] = flattened_in_blocks(e);
    if (group > 1 && int_value(weight->shape[1]) % group == 0)
      altered->weight_layout += fmt::format("{}c", group);
    Expr packed = transform(kernel, "NC", altered->weight_layout);
    return typed_call("nn.contrib_dense_pack", {data, packed}, seal(std::move(altered)));
  }

  /// The operands of a dense layer. A flattened image of blocked channels stays in that order, and the
  /// columns of constant weights follow it.
  std::pair<Expr, Expr> flattened_in_blocks(const Ref<Call>& e) {
    Expr data = e->args[0], kernel = visit(e->args[1]);
    std::pair<Expr, Expr> usual{visit(data), kernel};
    const Call* flatten = data.as<Call>();
    const Constant* weights = kernel.as<Constant>();
    if (!flatten || !weights || !flatten->callee.as<OpNode>()) return usual;
    if (op_name(*flatten) != "nn.batch_flatten" && op_name(*flatten) != "reshape") return usual;
    const TensorType *image = tensor_type_of(flatten->args[0]), *flat = tensor_type_of(data);
    int64_t block = block_of(flatten->args[0]);
    if (!block || !image || !flat || !has_constant_shape(*image) || flat->shape.size() != 2) return usual;
    Ints shape = constant_shape(*image);
    int64_t columns = shape[1] * shape[2] * shape[3];
    if (!is_shape(data, {shape[0], columns})) return usual;
    int64_t rows = weights->value.shape()[0];
    Tensor moved = transform_layout(weights->value.reshaped({rows, shape[1], shape[2], shape[3]}),
                                    Layout::parse("NCHW"), Layout::parse(data_layout(block)));
    return {reshaped(as_blocked(flatten->args[0], block), {shape[0], columns}),
            typed_constant(moved.reshaped({rows, columns}))};
  }

  int64_t lanes_, lanes_at_once_;
  std::map<const Node*, Blocked> blocked_;
  std::map<std::pair<const Node*, int64_t>, Expr> converted_;
};
}  // namespace

Module alter_layout(const Module& module, const Target& target) {
  auto altered = mutate(*module);
  for (auto& [name, function] : altered->functions)
    function = AlterLayout(std::clamp(target.lanes(), 4, 16), std::clamp(target.lanes_at_once(), 4, 16))
                   .visit_as(function);
  return seal(std::move(altered));
}

}  // namespace lathe::relay
