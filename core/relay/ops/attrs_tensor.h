// Attributes of the tensor operators (shape, data movement, reduction, creation), with the names and defaults
// of Apache TVM's Relay.
#pragma once

#include "core/relay/ops/attrs_nn.h"

namespace lathe::relay {

struct CastAttrs final : AttrsOf<CastAttrs> {
  DataType dtype;
  static constexpr auto kName = "CastAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("dtype", &CastAttrs::dtype)};
};

struct ClipAttrs final : AttrsOf<ClipAttrs> {
  double a_min = 0, a_max = 0;
  static constexpr auto kName = "ClipAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("a_min", &ClipAttrs::a_min), field("a_max", &ClipAttrs::a_max)};
};

/// reshape: a positive number is a dimension, and (MXNet's codes) 0 copies the input's, -1 is inferred, -2
/// copies the rest, -3 merges two, -4 splits one into the two that follow. With `allowzero`, 0 is zero.
struct ReshapeAttrs final : AttrsOf<ReshapeAttrs> {
  Ints newshape;
  bool allowzero = false;
  static constexpr auto kName = "ReshapeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("newshape", &ReshapeAttrs::newshape), field("allowzero", &ReshapeAttrs::allowzero)};
};

/// transpose: no axes reverses them all.
struct TransposeAttrs final : AttrsOf<TransposeAttrs> {
  std::optional<Ints> axes;
  static constexpr auto kName = "TransposeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axes", &TransposeAttrs::axes)};
};

struct ExpandDimsAttrs final : AttrsOf<ExpandDimsAttrs> {
  int64_t axis = 0, num_newaxis = 1;
  static constexpr auto kName = "ExpandDimsAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("axis", &ExpandDimsAttrs::axis), field("num_newaxis", &ExpandDimsAttrs::num_newaxis)};
};

/// squeeze: no axis drops every dimension of 1.
struct SqueezeAttrs final : AttrsOf<SqueezeAttrs> {
  std::optional<Ints> axis;
  static constexpr auto kName = "SqueezeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &SqueezeAttrs::axis)};
};

/// concatenate, stack.
struct ConcatenateAttrs final : AttrsOf<ConcatenateAttrs> {
  int64_t axis = 0;
  static constexpr auto kName = "ConcatenateAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &ConcatenateAttrs::axis)};
};

/// split: at these indices, or, when `sections` is not 0, into that many equal parts.
struct SplitAttrs final : AttrsOf<SplitAttrs> {
  Ints indices_or_sections;
  int64_t sections = 0;
  int64_t axis = 0;
  static constexpr auto kName = "SplitAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("indices_or_sections", &SplitAttrs::indices_or_sections),
                 field("sections", &SplitAttrs::sections), field("axis", &SplitAttrs::axis)};
};

/// strided_slice: as NumPy's begin:end:stride on `axes` (none: the leading ones). slice_mode "end", or
/// "size": `end` holds sizes (-1: to the end) and strides are 1.
struct StridedSliceAttrs final : AttrsOf<StridedSliceAttrs> {
  Ints begin, end, strides;
  std::string slice_mode = "end";
  std::optional<Ints> axes;
  /// Of the k-th slice: one number stands for all, no number for 1; there is none by which "size" counts.
  int64_t stride(size_t k) const {
    if (slice_mode == "size" || strides.empty()) return 1;
    return strides.size() == 1 ? strides[0] : strides[k];
  }
  static constexpr auto kName = "StridedSliceAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{
      field("begin", &StridedSliceAttrs::begin), field("end", &StridedSliceAttrs::end),
      field("strides", &StridedSliceAttrs::strides), field("slice_mode", &StridedSliceAttrs::slice_mode),
      field("axes", &StridedSliceAttrs::axes)};
};

/// take: no axis takes from the flattened tensor. A position out of bounds is, by mode, the nearest one
/// ("clip"), counted around ("wrap"), counted from the end where it is negative and then the nearest one
/// ("from_end", as ONNX counts: without the division of "wrap"), or a wrong element ("fast").
struct TakeAttrs final : AttrsOf<TakeAttrs> {
  int64_t batch_dims = 0;
  std::optional<int64_t> axis;
  std::string mode = "clip";
  static constexpr auto kName = "TakeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("batch_dims", &TakeAttrs::batch_dims),
                                            field("axis", &TakeAttrs::axis), field("mode", &TakeAttrs::mode)};
};

struct GatherAttrs final : AttrsOf<GatherAttrs> {
  int64_t axis = 0;
  static constexpr auto kName = "GatherAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &GatherAttrs::axis)};
};

struct GatherNdAttrs final : AttrsOf<GatherNdAttrs> {
  int64_t batch_dims = 0;
  std::optional<int64_t> index_rank;
  static constexpr auto kName = "GatherNdAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("batch_dims", &GatherNdAttrs::batch_dims),
                                            field("index_rank", &GatherNdAttrs::index_rank)};
};

/// scatter_elements: reduction "update", "add", "mul", "min", "max".
struct ScatterElementsAttrs final : AttrsOf<ScatterElementsAttrs> {
  int64_t axis = 0;
  std::string reduction = "update";
  static constexpr auto kName = "ScatterElementsAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &ScatterElementsAttrs::axis),
                                            field("reduction", &ScatterElementsAttrs::reduction)};
};

struct ScatterNdAttrs final : AttrsOf<ScatterNdAttrs> {
  std::string mode = "update";
  static constexpr auto kName = "ScatterNdAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("mode", &ScatterNdAttrs::mode)};
};

struct TileAttrs final : AttrsOf<TileAttrs> {
  Ints reps;
  static constexpr auto kName = "TileAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("reps", &TileAttrs::reps)};
};

struct RepeatAttrs final : AttrsOf<RepeatAttrs> {
  int64_t repeats = 1, axis = 0;
  static constexpr auto kName = "RepeatAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("repeats", &RepeatAttrs::repeats), field("axis", &RepeatAttrs::axis)};
};

struct ReverseAttrs final : AttrsOf<ReverseAttrs> {
  int64_t axis = 0;
  static constexpr auto kName = "ReverseAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &ReverseAttrs::axis)};
};

/// zeros, ones, full, broadcast_to.
struct InitAttrs final : AttrsOf<InitAttrs> {
  Ints shape;
  std::optional<DataType> dtype;
  static constexpr auto kName = "InitAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("shape", &InitAttrs::shape), field("dtype", &InitAttrs::dtype)};
};

/// arange(start, stop, step), shape_of, ndarray_size: the element type of the result.
struct DtypeAttrs final : AttrsOf<DtypeAttrs> {
  DataType dtype = kInt32;
  static constexpr auto kName = "DtypeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("dtype", &DtypeAttrs::dtype)};
};

struct ExtentAttrs final : AttrsOf<ExtentAttrs> {
  int64_t axis = 0;
  static constexpr auto kName = "ExtentAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &ExtentAttrs::axis)};
};

struct ZerosOfAttrs final : AttrsOf<ZerosOfAttrs> {
  DataType dtype = kBool;
  static constexpr auto kName = "ZerosOfAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("dtype", &ZerosOfAttrs::dtype)};
};

/// one_hot(indices, on_value, off_value).
struct OneHotAttrs final : AttrsOf<OneHotAttrs> {
  int64_t depth = 0, axis = -1;
  std::optional<DataType> dtype;
  static constexpr auto kName = "OneHotAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("depth", &OneHotAttrs::depth), field("axis", &OneHotAttrs::axis),
                 field("dtype", &OneHotAttrs::dtype)};
};

struct LayoutTransformAttrs final : AttrsOf<LayoutTransformAttrs> {
  std::string src_layout, dst_layout;
  static constexpr auto kName = "LayoutTransformAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("src_layout", &LayoutTransformAttrs::src_layout),
                                            field("dst_layout", &LayoutTransformAttrs::dst_layout)};
};

/// sum, mean, max, ...: no axis reduces all; `exclude` reduces the axes not named.
struct ReduceAttrs final : AttrsOf<ReduceAttrs> {
  std::optional<Ints> axis;
  bool keepdims = false, exclude = false;
  bool unbiased = false;  // variance: divide by n - 1
  static constexpr auto kName = "ReduceAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("axis", &ReduceAttrs::axis), field("keepdims", &ReduceAttrs::keepdims),
                 field("exclude", &ReduceAttrs::exclude), field("unbiased", &ReduceAttrs::unbiased)};
};

struct ArgReduceAttrs final : AttrsOf<ArgReduceAttrs> {
  std::optional<Ints> axis;
  bool keepdims = false, exclude = false;
  bool select_last_index = false;  // among equals
  static constexpr auto kName = "ArgReduceAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("axis", &ArgReduceAttrs::axis), field("keepdims", &ArgReduceAttrs::keepdims),
                 field("exclude", &ArgReduceAttrs::exclude),
                 field("select_last_index", &ArgReduceAttrs::select_last_index)};
};

/// cumsum, cumprod: no axis scans the flattened tensor.
struct ScanAttrs final : AttrsOf<ScanAttrs> {
  std::optional<int64_t> axis;
  std::optional<DataType> dtype;
  bool exclusive = false;
  static constexpr auto kName = "ScanAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("axis", &ScanAttrs::axis), field("dtype", &ScanAttrs::dtype),
                 field("exclusive", &ScanAttrs::exclusive)};
};

/// sort, argsort.
struct SortAttrs final : AttrsOf<SortAttrs> {
  int64_t axis = -1;
  bool is_ascend = true;
  DataType dtype = kInt32;  // of argsort's indices
  static constexpr auto kName = "SortAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("axis", &SortAttrs::axis), field("is_ascend", &SortAttrs::is_ascend),
                 field("dtype", &SortAttrs::dtype)};
};

/// topk: ret_type "both" (a tuple), "values" or "indices".
struct TopkAttrs final : AttrsOf<TopkAttrs> {
  int64_t k = 1, axis = -1;
  std::string ret_type = "both";
  bool is_ascend = false;
  DataType dtype = kInt32;
  static constexpr auto kName = "TopkAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{
      field("k", &TopkAttrs::k), field("axis", &TopkAttrs::axis), field("ret_type", &TopkAttrs::ret_type),
      field("is_ascend", &TopkAttrs::is_ascend), field("dtype", &TopkAttrs::dtype)};
};

/// qnn.quantize and qnn.dequantize: the axis of per-channel scales; -1 with scalars.
struct QuantizeAttrs final : AttrsOf<QuantizeAttrs> {
  DataType out_dtype = kInt8;
  int64_t axis = -1;
  static constexpr auto kName = "QuantizeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("out_dtype", &QuantizeAttrs::out_dtype), field("axis", &QuantizeAttrs::axis)};
};

}  // namespace lathe::relay
