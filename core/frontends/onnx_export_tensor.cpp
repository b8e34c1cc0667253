// Shapes, data movement and indexing as ONNX nodes.
#include <algorithm>
#include <numeric>

#include "core/frontends/onnx_exporter.h"
#include "core/relay/ops/rule.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// Any pure change of shape.
void reshape_to(Exporter& e, const Written& w) {
  // Else a dimension of 0 would mean that of the input.
  set_int(e.node("Reshape", {w.args[0], e.ints(w.result_shape())}, w.output()), "allowzero", 1);
}

void transpose(Exporter& e, const Written& w) {
  const auto rank = static_cast<size_t>(w.rank(0));
  set_ints(e.node("Transpose", {w.args[0]}, w.output()), "perm",
           relay::ops::permutation(w.attrs<relay::TransposeAttrs>(), rank));
}

void broadcast(Exporter& e, const Written& w) {
  e.node("Expand", {w.args[0], e.ints(w.result_shape())}, w.output());
}

/// The axis of a tuple's tensors joined: `rank` of the result.
int64_t joined_axis(const Written& w) {
  int64_t axis = w.attrs<relay::ConcatenateAttrs>().axis,
          rank = static_cast<int64_t>(w.result_shape().size());
  return axis < 0 ? axis + rank : axis;
}
void concatenate(Exporter& e, const Written& w) {
  set_int(e.node("Concat", w.args, w.output()), "axis", joined_axis(w));
}
void stack(Exporter& e, const Written& w) {
  Names parts;
  for (const std::string& arg : w.args) parts.push_back(e.add("Unsqueeze", {arg, e.ints({joined_axis(w)})}));
  set_int(e.node("Concat", parts, w.output()), "axis", joined_axis(w));
}

void split(Exporter& e, const Written& w) {
  int64_t axis = w.front(w.attrs<relay::SplitAttrs>().axis);
  Ints sizes;
  for (const relay::Type& part : w.call.checked_type.as<relay::TupleType>()->items)
    sizes.push_back(relay::constant_shape(*part.as<relay::TensorType>())[static_cast<size_t>(axis)]);
  // Sizes of the parts, where Relay has the places of the cuts.
  auto* node = e.node("Split", {w.args[0], e.ints(sizes)}, w.output());
  for (size_t i = 1; i < w.outputs.size(); ++i) node->add_output(w.outputs[i]);
  set_int(node, "axis", axis);
}

void strided_slice(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::StridedSliceAttrs>();
  Ints axes(a.begin.size()), begins = a.begin, ends = a.end, strides = a.strides;
  std::iota(axes.begin(), axes.end(), 0);
  if (a.axes) axes = *a.axes;
  for (int64_t& axis : axes) axis = w.front(axis);
  bool sizes = a.slice_mode == "size";
  if (strides.empty() || sizes) strides.assign(axes.size(), 1);
  if (strides.size() == 1) strides.assign(axes.size(), strides[0]);
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t extent = w.shape(0)[static_cast<size_t>(axes[k])];
    if (k >= ends.size()) ends.push_back(sizes ? -1 : extent);
    // Backwards from before the front there is nothing, where ONNX begins at the front.
    if (strides[k] < 0 && begins[k] < -extent) begins[k] = ends[k] = 0;
    if (!sizes) continue;
    int64_t begin = a.begin[k] < 0 ? a.begin[k] + extent : a.begin[k];
    // Mode "size": the number of elements, or all that follow.
    ends[k] = ends[k] < 0 ? extent : begin + ends[k];
  }
  e.node("Slice", {w.args[0], e.ints(begins), e.ints(ends), e.ints(axes), e.ints(strides)}, w.output());
}

/// Positions as `take` reads them: the nearest one where they lie outside, or counted around or from the end.
std::string placed(Exporter& e, const Written& w, const std::string& mode, int64_t extent) {
  // Gather wants positions inside, and leaves others undefined as "fast" does.
  if (mode == "fast") return w.args[1];
  std::string wide = e.cast(w.args[1], kInt64);
  if (mode == "wrap") return e.add("Mod", {wide, e.number(kInt64, static_cast<double>(extent))});
  // Gather counts from the end by itself.
  const int64_t first = mode == "from_end" ? -extent : 0;
  return e.add("Clip", {wide, e.number(kInt64, static_cast<double>(first)),
                        e.number(kInt64, static_cast<double>(extent - 1))});
}

void take(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::TakeAttrs>();
  int64_t axis = a.axis ? w.front(*a.axis) : 0;
  std::string data = a.axis ? w.args[0] : e.reshaped(w.args[0], {-1});
  int64_t extent = a.axis ? w.shape(0)[static_cast<size_t>(axis)] : shape_size(w.shape(0));
  const std::string places = placed(e, w, a.mode, extent);
  if (a.batch_dims == 0) return set_int(e.node("Gather", {data, places}, w.output()), "axis", axis);
  // GatherND takes behind the batch: the axes between go behind what is taken, and back.
  const int64_t batch = a.batch_dims, between = axis - batch, taken = w.rank(1) - batch;
  Ints order(static_cast<size_t>(w.rank(0))), back(w.result_shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::iota(back.begin(), back.end(), 0);
  std::rotate(order.begin() + batch, order.begin() + axis, order.begin() + axis + 1);
  std::rotate(back.begin() + batch, back.begin() + batch + taken, back.begin() + batch + taken + between);
  const std::string found = e.fresh(), tuples = e.cast(e.add("Unsqueeze", {places, e.ints({-1})}), kInt64);
  set_int(e.node("GatherND", {e.transposed(data, order), tuples}, found), "batch_dims", batch);
  set_ints(e.node("Transpose", {found}, w.output()), "perm", back);
}

void gather(Exporter& e, const Written& w) {
  set_int(e.node("GatherElements", w.args, w.output()), "axis", w.front(w.attrs<relay::GatherAttrs>().axis));
}

/// The index tuple last, as ONNX has it.
std::string tuple_last(Exporter& e, const Written& w) {
  Ints axes(static_cast<size_t>(w.rank(1)));
  std::iota(axes.begin(), axes.end(), 1);
  axes.back() = 0;
  return e.cast(e.transposed(w.args[1], axes), kInt64);
}
void gather_nd(Exporter& e, const Written& w) {
  set_int(e.node("GatherND", {w.args[0], tuple_last(e, w)}, w.output()), "batch_dims",
          w.attrs<relay::GatherNdAttrs>().batch_dims);
}

std::string reduction_of(Exporter& e, const std::string& name) {
  if (name == "min" || name == "max") e.need_opset(18);
  return name == "update" ? "none" : name;
}
void scatter_elements(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ScatterElementsAttrs>();
  auto* node = e.node("ScatterElements", w.args, w.output());
  set_int(node, "axis", w.front(a.axis));
  set_text(node, "reduction", reduction_of(e, a.reduction));
}
void scatter_nd(Exporter& e, const Written& w) {
  const std::string& mode = w.attrs<relay::ScatterNdAttrs>().mode;
  set_text(e.node("ScatterND", {w.args[0], tuple_last(e, w), w.args[2]}, w.output()), "reduction",
           reduction_of(e, mode));
}

void tile(Exporter& e, const Written& w) {
  Ints reps = w.attrs<relay::TileAttrs>().reps, shape = w.shape(0);
  auto rank = std::max(reps.size(), shape.size());
  reps.insert(reps.begin(), rank - reps.size(), 1);
  shape.insert(shape.begin(), rank - shape.size(), 1);
  std::string x = static_cast<int64_t>(rank) == w.rank(0) ? w.args[0] : e.reshaped(w.args[0], shape);
  e.node("Tile", {x, e.ints(reps)}, w.output());
}

void repeat(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::RepeatAttrs>();
  Ints wide = w.shape(0);
  auto after = wide.begin() + w.front(a.axis) + 1;
  Ints single = wide;
  single.insert(single.begin() + (after - wide.begin()), 1);
  wide.insert(after, a.repeats);
  // A new axis behind the repeated one is spread and merged with it.
  std::string spread = e.add("Expand", {e.reshaped(w.args[0], single), e.ints(wide)});
  e.node("Reshape", {spread, e.ints(w.result_shape())}, w.output());
}

void reverse(Exporter& e, const Written& w) {
  int64_t axis = w.front(w.attrs<relay::ReverseAttrs>().axis);
  // From the last element backwards, past the first.
  e.node("Slice", {w.args[0], e.ints({-1}), e.ints({INT64_MIN + 1}), e.ints({axis}), e.ints({-1})},
         w.output());
}

Ints pads_of(const std::vector<Ints>& width) {
  Ints pads;
  for (size_t side : {size_t{0}, size_t{1}})
    for (const Ints& axis : width) pads.push_back(axis[side]);
  return pads;
}
void pad(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::PadAttrs>();
  Names inputs{w.args[0], e.ints(pads_of(a.pad_width))};
  if (a.pad_mode == "constant") inputs.push_back(e.cast(e.reshaped(w.args[1], {}), w.dtype(0)));
  set_text(e.node("Pad", inputs, w.output()), "mode", a.pad_mode);
}
void mirror_pad(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::MirrorPadAttrs>();
  if (a.mode != "REFLECT") w.reject("in mode {}", a.mode);
  set_text(e.node("Pad", {w.args[0], e.ints(pads_of(a.pad_width))}, w.output()), "mode", "reflect");
}

void sub_pixel(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::SubPixelAttrs>();
  if (a.layout != "NCHW") w.reject("in layout {}", a.layout);
  bool to_space = w.op() == "nn.depth_to_space";
  // SpaceToDepth has no modes.
  if (!to_space && a.mode != "DCR") w.reject("in mode {}", a.mode);
  auto* node = e.node(find_export(w.op())->onnx, w.args, w.output());
  set_int(node, "blocksize", a.block_size);
  if (to_space) set_text(node, "mode", a.mode);
}

void one_hot(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::OneHotAttrs>();
  Names values;
  // ONNX has off before on, in one tensor.
  for (size_t arg : {size_t{2}, size_t{1}})
    values.push_back(e.reshaped(e.cast(w.args[arg], w.type().dtype), {1}));
  std::string both = e.fresh();
  set_int(e.node("Concat", values, both), "axis", 0);
  std::string depth = e.number(kInt64, static_cast<double>(a.depth));
  set_int(e.node("OneHot", {e.cast(w.args[0], kInt64), depth, both}, w.output()), "axis", a.axis);
}

void arange(Exporter& e, const Written& w) {
  Names numbers;
  for (const std::string& arg : w.args) numbers.push_back(e.cast(e.reshaped(arg, {}), w.type().dtype));
  e.node("Range", numbers, w.output());
}

void arange_like(Exporter& e, const Written& w) {
  std::vector<int64_t> numbers(static_cast<size_t>(w.shape(0)[0]));
  std::iota(numbers.begin(), numbers.end(), 0);
  set_int(e.node("Cast", {e.ints(numbers)}, w.output()), "to", onnx_dtype(w.type().dtype));
}

/// What is known of the argument's shape.
void shape_of_argument(Exporter& e, const Written& w) {
  std::string value = w.op() == "shape_of" ? e.ints(w.shape(0))
                                           : e.number(kInt64, static_cast<double>(shape_size(w.shape(0))));
  set_int(e.node("Cast", {value}, w.output()), "to", onnx_dtype(w.type().dtype));
}

constexpr ExportRow kRows[] = {
    {"reshape", reshape_to},
    {"reshape_like", reshape_to},
    {"squeeze", reshape_to},
    {"expand_dims", reshape_to},
    {"nn.batch_flatten", reshape_to},
    {"transpose", transpose},
    {"broadcast_to", broadcast},
    {"broadcast_to_like", broadcast},
    {"concatenate", concatenate},
    {"stack", stack},
    {"split", split},
    {"strided_slice", strided_slice},
    {"take", take},
    {"gather", gather},
    {"gather_nd", gather_nd},
    {"scatter_elements", scatter_elements},
    {"scatter_nd", scatter_nd},
    {"tile", tile},
    {"repeat", repeat},
    {"reverse", reverse},
    {"nn.pad", pad},
    {"nn.mirror_pad", mirror_pad},
    {"nn.depth_to_space", sub_pixel, "DepthToSpace"},
    {"nn.space_to_depth", sub_pixel, "SpaceToDepth"},
    {"one_hot", one_hot},
    {"arange", arange},
    {"arange_like", arange_like},
    {"shape_of", shape_of_argument},
    {"ndarray_size", shape_of_argument},
};
}  // namespace

std::span<const ExportRow> tensor_exports() { return kRows; }

}  // namespace lathe::onnx
