// Pooling, resizing, reductions, padding, slices and joins of blocked channels.
#include <algorithm>
#include <numeric>

#include "core/relay/analysis/call_type.h"
#include "core/relay/passes/alter_layout/blocked_graph.h"

namespace lathe::relay {
namespace {

using ops::attrs_as;

/// The call on blocked data with `layout` among its attributes of type `A`; null when it has others. `args`
/// are those of the call.
template <typename A>
Expr told_of_layout(const Call& e, const Blocked& data, std::vector<Expr> args) {
  const A* a = e.attrs.as<A>();
  if (!a || (!a->layout.empty() && a->layout != "NCHW")) return {};
  auto altered = mutate(*a);
  altered->layout = data_layout(data.block);
  return typed_call(op_name(e), std::move(args), seal(std::move(altered)));
}

/// Channels to or from pixels: those of one pixel must be whole blocks.
Expr moved_to_pixels(const Call& e, const Blocked& data, const std::vector<Expr>& args) {
  const SubPixelAttrs* a = e.attrs.as<SubPixelAttrs>();
  // DCR: channels are (pixel, depth), so blocks of depth move as they are.
  bool apart = a && a->mode == "DCR" && data.is_whole() && channels_of(Expr(&e)) % data.block == 0;
  return apart ? told_of_layout<SubPixelAttrs>(e, data, args) : nullptr;
}

/// Whether these channels are blocks, the last of which may have others beyond them.
bool are_blocks(const Blocked& data, int64_t begin, int64_t end) {
  return 0 <= begin && begin < end && end <= data.channels && begin % data.block == 0 &&
         (end % data.block == 0 || end == data.channels);
}

}  // namespace

Blocked block_by_attribute(BlockedGraph& graph, const Ref<Call>& e) {
  Blocked data = graph.found(e->args[0]);
  if (!data.block || !data.is_uniform()) return {};
  // Arguments behind the image have no channels: the sizes it gets.
  std::vector<Expr> args{data.expr};
  for (size_t i = 1; i < e->args.size(); ++i) args.push_back(graph.visit(e->args[i]));
  Expr result = moved_to_pixels(*e, data, args);
  // Which attributes the operator has says how it is told; the others answer null.
  if (!result) result = told_of_layout<PoolAttrs>(*e, data, args);
  if (!result) result = told_of_layout<AdaptivePoolAttrs>(*e, data, args);
  if (!result) result = told_of_layout<ResizeAttrs>(*e, data, args);
  if (!result) result = told_of_layout<UpsamplingAttrs>(*e, data, args);
  return result ? Blocked{result, data.block, channels_of(e)} : Blocked{};
}

/// A reduction of height and width that keeps its axes.
Blocked block_reduction(BlockedGraph& graph, const Ref<Call>& e) {
  Blocked data = graph.found(e->args[0]);
  const ReduceAttrs& a = attrs_as<ReduceAttrs>(e->attrs);
  if (!data.block || !data.is_uniform() || !a.axis || a.exclude || !a.keepdims) return {};
  auto altered = mutate(a);
  for (int64_t& axis : *altered->axis) {
    axis = axis < 0 ? axis + 4 : axis;
    if (axis < 2) return {};
  }
  data.expr = typed_call(op_name(*e), {data.expr}, seal(std::move(altered)));
  return data;
}

/// Padding of all axes but the channels.
Blocked block_padding(BlockedGraph& graph, const Ref<Call>& e) {
  Blocked data = graph.found(e->args[0]);
  const PadAttrs& a = attrs_as<PadAttrs>(e->attrs);
  if (!data.block || a.pad_width.size() != 4 || a.pad_width[1] != Ints{0, 0}) return {};
  const Constant* value = e->args[1].as<Constant>();
  bool keeps_fill = value && value->value.value(0) == data.fill;
  // Beyond the channels the border would hold another number than the rest.
  if (!data.is_whole() && !keeps_fill) return {};
  auto altered = mutate(a);
  // Behind the fourth axis lies the one of a block.
  altered->pad_width.push_back({0, 0});
  data.expr = typed_call("nn.pad", {data.expr, graph.visit(e->args[1])}, seal(std::move(altered)));
  return data;
}

/// A slice, of channels one of whole blocks.
Blocked block_slice(BlockedGraph& graph, const Ref<Call>& e) {
  Blocked data = graph.found(e->args[0]);
  const StridedSliceAttrs& a = attrs_as<StridedSliceAttrs>(e->attrs);
  if (!data.block || !a.axes) return {};
  auto altered = mutate(a);
  for (size_t i = 0; i < altered->axes->size(); ++i) {
    int64_t& axis = (*altered->axes)[i];
    // Axes in front of the block keep their numbers; a negative one would count the block's.
    axis = axis < 0 ? axis + 4 : axis;
    if (axis != 1) continue;
    int64_t &begin = altered->begin[i], &end = altered->end[i];
    const bool by_one = a.slice_mode == "end" && a.stride(i) == 1;
    end = std::min(end, data.channels);
    if (!by_one || !are_blocks(data, begin, end)) return {};
    data.channels = end - begin;
    begin /= data.block, end = (end + data.block - 1) / data.block;
  }
  data.expr = typed_call(op_name(*e), {data.expr}, seal(std::move(altered)));
  return data;
}

/// One of the parts that channels are split into, of whole blocks.
Blocked block_part(BlockedGraph& graph, const Call& split, int64_t part) {
  Blocked data = graph.found(split.args[0]);
  const SplitAttrs& a = attrs_as<SplitAttrs>(split.attrs);
  if (!data.block || (a.axis != 1 && a.axis != -3)) return {};
  Ints ends = a.indices_or_sections;
  for (int64_t p = 1; p < a.sections; ++p) ends.push_back(p * (data.channels / a.sections));
  ends.push_back(data.channels);
  const int64_t begin = part ? ends[part - 1] : 0, end = ends[part];
  if (!are_blocks(data, begin, end)) return {};
  auto slice = std::make_unique<StridedSliceAttrs>();
  slice->axes = Ints{1};
  slice->begin = {begin / data.block}, slice->end = {(end + data.block - 1) / data.block};
  slice->strides = {1};
  data.channels = end - begin;
  data.expr = typed_call("strided_slice", {data.expr}, seal(std::move(slice)));
  return data;
}

/// One block that divides all parts, when one of them is blocked.
Blocked block_concatenation(BlockedGraph& graph, const Ref<Call>& e) {
  const Tuple* parts = e->args[0].as<Tuple>();
  if (!parts) return {};
  int64_t common = 0, axis = attrs_as<ConcatenateAttrs>(e->attrs).axis;
  bool blocked = false;
  for (const Expr& part : parts->items) {
    int64_t channels = channels_of(part);
    if (!channels) return {};
    common = std::gcd(common, channels);
    blocked |= graph.found(part).block > 0;
  }
  int64_t block = blocked ? graph.blocks.exact(common) : 0;
  if (!block) return {};
  std::vector<Expr> items;
  for (const Expr& part : parts->items) items.push_back(graph.as_blocked(part, block).expr);
  return {typed_call("concatenate", {typed_tuple(items)}, make<ConcatenateAttrs>(axis < 0 ? axis + 4 : axis)),
          block, channels_of(e)};
}

}  // namespace lathe::relay
