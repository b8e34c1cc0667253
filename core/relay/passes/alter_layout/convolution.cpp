// Convolutions of blocked channels: whole, in groups, and depthwise.
#include <algorithm>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/arith/typical_dims.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/window.h"
#include "core/relay/passes/alter_layout/blocked_graph.h"

namespace lathe::relay {
namespace {

using ops::attrs_as;

/// Channels a group, of what is read and of results.
struct Channels {
  int64_t groups, in, out;
};

/// From a weight OIHW, where I counts the channels of one group.
Channels channels_of_convolution(const Call& e) {
  Ints weight = constant_shape(*tensor_type_of(e.args[1]));
  int64_t groups = attrs_as<ConvAttrs>(e.attrs).groups;
  return {groups, weight[1], weight[0] / groups};
}

bool is_unpadded(const ConvAttrs& a) {
  return std::all_of(a.padding.begin(), a.padding.end(), [](int64_t pad) { return pad == 0; });
}

/// The same data with an axis of extent 1 behind the others; a reshape where the shape is known, which costs
/// nothing.
Expr with_last_axis(const Expr& e) {
  const TensorType& type = *tensor_type_of(e);
  if (!has_constant_shape(type))
    return typed_call("expand_dims", {e}, make<ExpandDimsAttrs>(static_cast<int64_t>(type.shape.size())));
  Ints shape = constant_shape(type);
  shape.push_back(1);
  return reshaped(e, shape);
}

/// Products that one instruction sums have their input channels innermost.
std::string kernel_layout(int64_t in_block, int64_t out_block, int64_t products) {
  return products == 1 ? fmt::format("OIHW{}i{}o", in_block, out_block)
                       : fmt::format("OIHW{}i{}o{}i", in_block / products, out_block, products);
}

/// The packed call. The kernel has the channels of whole blocks; data is in blocks.
Expr packed(const Call& e, const Expr& data, const Expr& kernel, int64_t in_block, int64_t out_block,
            int64_t products, int64_t groups) {
  auto a = mutate(attrs_as<ConvAttrs>(e.attrs));
  // Then data and results are the same channels, in the same blocks.
  bool depthwise = in_block == 0;
  a->groups = groups;
  a->data_layout = data_layout(depthwise ? out_block : in_block);
  a->out_layout = data_layout(out_block);
  a->kernel_layout =
      depthwise ? fmt::format("OIHW1i{}o", out_block) : kernel_layout(in_block, out_block, products);
  if (a->channels) a->channels = int_value(tensor_type_of(kernel)->shape[0]);
  Expr weight = transform(kernel, "OIHW", a->kernel_layout);
  const char* op = depthwise ? "nn.contrib_depthwise_conv2d_NCHWc" : "nn.contrib_conv2d_NCHWc";
  return typed_call(op, {data, weight}, seal(std::move(a)));
}

/// The block that `data` has, where that is of half a vector and holds whole products; else `otherwise`.
int64_t block_of(const BlockedGraph& graph, const Expr& data, int64_t products, int64_t otherwise) {
  int64_t block = graph.found(data).block;
  return block && block % products == 0 && 2 * block >= graph.blocks.lanes() ? block : otherwise;
}

/// What blocks have Winograd's algorithm for, when enough is read to pay for its transforms.
bool may_transform(const ConvAttrs& a, const Ints& kernel, int64_t channels, int64_t lanes) {
  const bool dilates = std::any_of(a.dilation.begin(), a.dilation.end(), [](int64_t d) { return d != 1; });
  return kernel[2] == 3 && kernel[3] == 3 && !dilates && channels > lanes;
}

/// An extent of a result; where that is open, a typical one, which deep layers see a part of.
int64_t typical_extent(const lathe::Expr& extent) {
  VarMap sizes;
  post_order(extent, [&](const NodeRef& node) {
    if (const auto* dim = node.as<lathe::VarNode>()) sizes[dim] = lathe::Expr(kTypicalDim);
  });
  const lathe::Expr known = simplify(substitute(extent, sizes));
  return as_int(known) ? *as_int(known) : 0;
}

/// How wide the rows of results are.
int64_t width_of(const Call& e) { return typical_extent(e.checked_type.as<TensorType>()->shape.back()); }

/// Whether it is a matrix product of channels and places, where all rows of an image are one.
bool is_product_of_places(const ConvAttrs& a, const Ints& kernel) {
  const bool strides = std::any_of(a.strides.begin(), a.strides.end(), [](int64_t s) { return s != 1; });
  return kernel[2] == 1 && kernel[3] == 1 && !strides && is_unpadded(a);
}

/// Vectors along rows of NCHW; strides and products of several channels at once do not allow them.
bool may_have_rows(const Call& e, int64_t products) {
  const Ints& strides = attrs_as<ConvAttrs>(e.attrs).strides;
  return products == 1 && (strides.empty() || strides.back() == 1);
}

/// Lanes for each place of the result, as vectors along rows.
double lanes_in_rows(const BlockedGraph& graph, const Channels& c, int64_t width) {
  return static_cast<double>(c.out * graph.blocks.lanes_of_row(width)) / static_cast<double>(width);
}

/// Whether vectors along the rows of results take clearly fewer lanes than blocks of channels, filled up; for
/// data in blocks so many fewer that it may be turned. Products that need not be turned either way are worth
/// it for a little less, and for more channels than a block.
bool rows_fill_vectors(const BlockedGraph& graph, const Call& e, const Channels& c) {
  constexpr double kClearly = 1.3, kThanTransformed = 1.8, kUnturned = 1.2;
  constexpr double kTurning = 80;  // of an element, in lanes of products
  const Ints kernel = constant_shape(*tensor_type_of(e.args[1]));
  const auto& a = attrs_as<ConvAttrs>(e.attrs);
  const bool in_blocks = graph.found(e.args[0]).block;
  const bool as_product = !in_blocks && is_product_of_places(a, kernel);
  const auto& shape = e.checked_type.as<TensorType>()->shape;
  const int64_t width = width_of(e) * (as_product ? typical_extent(shape[2]) : 1);
  if (width == 0 || (c.out > graph.blocks.lanes() && !as_product)) return false;
  const double of_rows = lanes_in_rows(graph, c, width),
               of_blocks = static_cast<double>(graph.blocks.lanes_paid(c.out));
  const bool transforms = may_transform(a, kernel, c.in, graph.blocks.lanes());
  const double least = transforms ? kThanTransformed : as_product ? kUnturned : kClearly;
  if (of_blocks < least * of_rows) return false;
  const double less = static_cast<double>(kernel[2] * kernel[3]) * (of_blocks - of_rows);
  return !in_blocks || less > kTurning;
}

/// The block of bytes that the data is multiplied in by tile registers; else 0.
int64_t data_in_tiles(const BlockedGraph& graph, const Call& e, const Channels& c) {
  const DataType dtype = tensor_type_of(e.args[0])->dtype;
  return products_at_once(e) > 1 && dtype.bytes() == 1 ? graph.blocks.of_bytes_in_tiles(c.in) : 0;
}

/// Results of fewer channels than a block are vectors along rows where these may be: else the smallest block.
/// So are those of more channels where that takes less. Tiles have whole vectors, and those of bytes as many
/// as the next convolution wants.
int64_t block_of_results(const BlockedGraph& graph, const Call& e, const Channels& c, int64_t products) {
  constexpr int64_t kLeast = 4;
  if (c.out >= graph.blocks.lanes() && graph.blocks.fill_tiles(tensor_type_of(e.args[0])->dtype))
    return graph.blocks.lanes();
  if (const int64_t block = graph.blocks.of_bytes_in_tiles(c.out); block && data_in_tiles(graph, e, c))
    return block;
  const bool in_rows = may_have_rows(e, products);
  const int64_t block = graph.blocks.best(c.out, products);
  if (!block) return in_rows ? 0 : kLeast;
  return in_rows && rows_fill_vectors(graph, e, c) ? 0 : block;
}

Blocked whole_convolution(BlockedGraph& graph, const Call& e, const Channels& c, const Expr& kernel) {
  int64_t products = products_at_once(e), out_block = block_of_results(graph, e, c, products);
  if (!out_block) return {};
  const Expr& original = e.args[0];
  // A convolution only broadcasts its data: few channels that are not blocked yet are read where they lie
  // (NCHW1c is NCHW). Padding is copied in blocks, though, so then in one block of all channels.
  bool few = c.in <= graph.blocks.lanes() && !graph.found(original).block;
  bool in_place = few && products == 1 && (c.in == 1 || is_unpadded(attrs_as<ConvAttrs>(e.attrs)));
  int64_t in_block = in_place ? 1 : data_in_tiles(graph, e, c);
  if (!in_block) {
    const bool in_tiles = graph.blocks.fill_tiles(tensor_type_of(original)->dtype);
    const int64_t usual =
        in_tiles ? graph.blocks.read_in_tiles(c.in, products) : graph.blocks.read(c.in, products);
    in_block = block_of(graph, original, products, usual);
  }
  Expr data = in_place ? with_last_axis(graph.visit(original)) : graph.as_blocked(original, in_block).expr;
  // Weights of the channels beyond are 0, for what is read and for results.
  Expr all = extended(extended(kernel, 1, round_up(c.in, in_block)), 0, round_up(c.out, out_block));
  return {packed(e, data, all, in_block, out_block, products, 1), out_block, c.out};
}

/// (N, groups * channels, H, W) with each group's channels extended, or cut, to `channels`; N, H and W may be
/// open.
Expr with_group_channels(const Expr& e, int64_t groups, int64_t channels) {
  constexpr int64_t kAsItIs = 0, kApart = -4, kWithNext = -3;
  const int64_t given = channels_of(e) / groups;
  if (given == channels) return e;
  Expr apart = typed_call("reshape", {e},
                          make<ReshapeAttrs>(Ints{kAsItIs, kApart, groups, given, kAsItIs, kAsItIs}, false));
  apart = given < channels ? extended(apart, 2, channels) : first_of(apart, 2, channels);
  return typed_call("reshape", {apart},
                    make<ReshapeAttrs>(Ints{kAsItIs, kWithNext, kAsItIs, kAsItIs}, false));
}

/// The kernel of `groups` / `count` groups, each `count` of those before, with zeros for channels of the
/// others.
Expr with_joined_groups(const Expr& kernel, const Channels& c, int64_t count) {
  Ints shape = constant_shape(*tensor_type_of(kernel));
  // The identity over (group of the result, group of what it reads): 1 where they are the same.
  Tensor own = zeros({count, 1, count, 1, 1, 1}, tensor_type_of(kernel)->dtype);
  for (int64_t i = 0; i < count; ++i) own.set(i * (count + 1), 1);
  Expr apart = reshaped(kernel, {c.groups / count, count, c.out, 1, c.in, shape[2], shape[3]});
  return reshaped(typed_call("multiply", {apart, typed_constant(own)}),
                  {shape[0], count * c.in, shape[2], shape[3]});
}

/// How many groups to join so that their results fill a vector: that many times the products, which cost no
/// more than the idle lanes did, and channels in the blocks that other operators use.
int64_t groups_to_join(const Channels& c, int64_t lanes) {
  int64_t best = 1;
  for (int64_t count = 2; count <= c.groups; ++count)
    if (c.groups % count == 0 && count * c.out <= lanes && count * c.in <= 4 * lanes) best = count;
  return best;
}

/// Whether the results of a group are so few that vectors along rows take clearly fewer lanes than its block,
/// filled up. Tiles of so few results read more for a product, so a little less is not worth it.
bool leaves_lanes_idle(const BlockedGraph& graph, const Call& e, const Channels& c) {
  constexpr double kTimes = 2.5;
  const int64_t width = width_of(e);
  return width > 0 &&
         static_cast<double>(graph.blocks.lanes_paid(c.out)) >= kTimes * lanes_in_rows(graph, c, width);
}

Blocked grouped_convolution(BlockedGraph& graph, const Call& e, Channels c) {
  Expr kernel = graph.visit(e.args[1]);
  if (int64_t count = groups_to_join(c, graph.blocks.lanes()); count > 1) {
    kernel = with_joined_groups(kernel, c, count);
    c = {c.groups / count, c.in * count, c.out * count};
  }
  // All groups in one: an ordinary convolution with zeros in its kernel.
  if (c.groups == 1) return whole_convolution(graph, e, c, kernel);
  const int64_t products = products_at_once(e), out_block = graph.blocks.of_group(c.out, products);
  if (!out_block) return {};
  // Of a group's channels rather none is filled up: that would take a copy of the data.
  int64_t usual = graph.blocks.exact(c.in, products);
  if (!usual || usual % 4 != 0) {
    const int64_t read = graph.blocks.read(c.in, products);
    if (!usual || c.in % read == 0) usual = read;
  }
  int64_t in_block = block_of(graph, e.args[0], products, usual);
  // A block of the data must not reach into the next group.
  if (c.in % in_block) in_block = usual;
  int64_t in = round_up(c.in, in_block), out = round_up(c.out, out_block);
  if (out != c.out && may_have_rows(e, products) && leaves_lanes_idle(graph, e, c)) return {};
  Expr data = in == c.in ? graph.as_blocked(e.args[0], in_block).expr
                         : transform(with_group_channels(graph.visit(e.args[0]), c.groups, in), "NCHW",
                                     data_layout(in_block));
  kernel = extended(kernel, 1, in);
  // The groups' results are cut apart again, since channels beyond stand only behind all others.
  Ints shape = constant_shape(*tensor_type_of(kernel));
  Expr apart = extended(reshaped(kernel, {c.groups, c.out, in, shape[2], shape[3]}), 1, out);
  Expr result = packed(e, data, reshaped(apart, {c.groups * out, in, shape[2], shape[3]}), in_block,
                       out_block, products, c.groups);
  if (out == c.out) return {result, out_block, c.groups * c.out};
  return {with_group_channels(transform(result, data_layout(out_block), "NCHW"), c.groups, c.out)};
}

/// `axis` in places (i, j, k) of an extent of three factors, now in places (i, k, j).
Expr swapped(const Expr& e, size_t axis, const Ints& factors) {
  Ints shape = constant_shape(*tensor_type_of(e)), apart = shape, order(shape.size() + 2);
  apart.erase(apart.begin() + axis);
  apart.insert(apart.begin() + axis, factors.begin(), factors.end());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis + 1], order[axis + 2]);
  return reshaped(typed_call("transpose", {reshaped(e, apart)}, make<TransposeAttrs>(std::optional(order))),
                  shape);
}

/// Results of as many copies of each channel as it has results.
Blocked convolution_of_copies(BlockedGraph& graph, const Call& e, const Channels& c) {
  // Every copy is a channel of its own: an ordinary depthwise convolution of groups * out channels.
  int64_t block = graph.blocks.best(c.groups * c.out);
  if (!block) return {};
  Blocked result{{}, block, c.groups * c.out};
  Expr copies = typed_call("repeat", {graph.visit(e.args[0])}, make<RepeatAttrs>(c.out, int64_t{1}));
  Expr data = transform(extended(copies, 1, result.padded()), "NCHW", data_layout(block));
  Expr kernel = extended(graph.visit(e.args[1]), 0, result.padded());
  result.expr = packed(e, data, kernel, 0, block, 1, result.padded());
  return result;
}

/// Each channel by itself. Where a channel has several results, either the data is copied first or the
/// results, a block of them for each of a channel, are put in order: whatever is less, which strides say.
Blocked depthwise_convolution(BlockedGraph& graph, const Call& e, const Channels& c) {
  const Ints& strides = attrs_as<ConvAttrs>(e.attrs).strides;
  bool fewer = std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride > 1; });
  if (c.out > 1 && (!fewer || !has_constant_shape(*tensor_type_of(e.args[0]))))
    return convolution_of_copies(graph, e, c);
  int64_t best = graph.blocks.best(c.groups);
  if (!best) return {};
  int64_t block = block_of(graph, e.args[0], 1, best), groups = round_up(c.groups, block);
  Expr kernel = extended(graph.visit(e.args[1]), 0, groups * c.out);
  // (block, channel, result) -> (block, result, channel): for each result of a channel, a block of channels.
  if (c.out > 1) kernel = swapped(kernel, 0, {groups / block, block, c.out});
  Expr result = packed(e, graph.as_blocked(e.args[0], block).expr, kernel, 0, block, 1, groups);
  if (c.out == 1) return {result, block, c.groups};
  // And back.
  Expr plain = swapped(transform(result, data_layout(block), "NCHW"), 1, {groups / block, c.out, block});
  return {first_of(plain, 1, c.groups * c.out)};
}

}  // namespace

Blocked block_convolution(BlockedGraph& graph, const Ref<Call>& e) {
  const TensorType* weight = tensor_type_of(e->args[1]);
  bool plain = ops::is_plain(attrs_as<ConvAttrs>(e->attrs)) && weight && has_constant_shape(*weight);
  // Other layouts are the model's choice, and channels must be constant to be cut into blocks.
  if (!plain || !channels_of(e) || !channels_of(e->args[0])) return {};
  Channels c = channels_of_convolution(*e);
  if (c.groups > 1 && c.in == 1) return depthwise_convolution(graph, *e, c);
  if (c.groups > 1) return grouped_convolution(graph, *e, c);
  return whole_convolution(graph, *e, c, graph.visit(e->args[1]));
}

}  // namespace lathe::relay
