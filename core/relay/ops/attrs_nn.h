// Attributes of the neural-network operators. Names and defaults are those of Apache TVM's Relay, so that its
// text parses; where TVM has a struct a rank (conv1d, conv2d, conv3d), one struct serves all ranks and an
// empty list or layout stands for the rank's default (strides 1, padding 0, channels second).
#pragma once

#include <optional>

#include "core/relay/expr.h"

namespace lathe::relay {

template <typename D>
using AttrsOf = NodeOf<D, AttrsNode>;
using Ints = std::vector<int64_t>;

/// nn.conv{1,2,3}d and the NCHWc forms. `padding`: one number, one a spatial axis, or all begins then all
/// ends. Layouts: letters of axes, "NCHW", "NHWC", "NCHW16c"; kernels "OIHW", "HWIO", "OIHW16i16o"
/// (ops/layout.h).
struct ConvAttrs final : AttrsOf<ConvAttrs> {
  Ints strides, padding, dilation;
  int64_t groups = 1;
  std::optional<int64_t> channels;  // of the output
  Ints kernel_size;
  std::string data_layout, kernel_layout, out_layout;
  std::optional<DataType> out_dtype;
  int64_t pad_value = 0;  // elements of the padding: a zero point
  static constexpr auto kName = "ConvAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{
      field("strides", &ConvAttrs::strides),         field("padding", &ConvAttrs::padding),
      field("dilation", &ConvAttrs::dilation),       field("groups", &ConvAttrs::groups),
      field("channels", &ConvAttrs::channels),       field("kernel_size", &ConvAttrs::kernel_size),
      field("data_layout", &ConvAttrs::data_layout), field("kernel_layout", &ConvAttrs::kernel_layout),
      field("out_layout", &ConvAttrs::out_layout),   field("out_dtype", &ConvAttrs::out_dtype),
      field("pad_value", &ConvAttrs::pad_value)};
};

/// nn.conv{1,2,3}d_transpose; the kernel's layout is IOHW.
struct ConvTransposeAttrs final : AttrsOf<ConvTransposeAttrs> {
  Ints strides, padding, output_padding, dilation;
  int64_t groups = 1;
  std::optional<int64_t> channels;
  Ints kernel_size;
  std::string data_layout, kernel_layout, out_layout;
  std::optional<DataType> out_dtype;
  static constexpr auto kName = "ConvTransposeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("strides", &ConvTransposeAttrs::strides),
                                            field("padding", &ConvTransposeAttrs::padding),
                                            field("output_padding", &ConvTransposeAttrs::output_padding),
                                            field("dilation", &ConvTransposeAttrs::dilation),
                                            field("groups", &ConvTransposeAttrs::groups),
                                            field("channels", &ConvTransposeAttrs::channels),
                                            field("kernel_size", &ConvTransposeAttrs::kernel_size),
                                            field("data_layout", &ConvTransposeAttrs::data_layout),
                                            field("kernel_layout", &ConvTransposeAttrs::kernel_layout),
                                            field("out_layout", &ConvTransposeAttrs::out_layout),
                                            field("out_dtype", &ConvTransposeAttrs::out_dtype)};
};

/// nn.{max,avg}_pool{1,2,3}d.
struct PoolAttrs final : AttrsOf<PoolAttrs> {
  Ints pool_size, strides, padding, dilation;
  std::string layout, out_layout;
  bool ceil_mode = false;
  bool count_include_pad = false;  // average: divide by the window's size, padding included
  static constexpr auto kName = "PoolAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{
      field("pool_size", &PoolAttrs::pool_size), field("strides", &PoolAttrs::strides),
      field("padding", &PoolAttrs::padding),     field("dilation", &PoolAttrs::dilation),
      field("layout", &PoolAttrs::layout),       field("out_layout", &PoolAttrs::out_layout),
      field("ceil_mode", &PoolAttrs::ceil_mode), field("count_include_pad", &PoolAttrs::count_include_pad)};
};

/// nn.global_{max,avg}_pool{1,2,3}d, and nn.adaptive_* with an output size.
struct AdaptivePoolAttrs final : AttrsOf<AdaptivePoolAttrs> {
  Ints output_size;
  std::string layout, out_layout;
  static constexpr auto kName = "AdaptivePoolAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("output_size", &AdaptivePoolAttrs::output_size),
                                            field("layout", &AdaptivePoolAttrs::layout),
                                            field("out_layout", &AdaptivePoolAttrs::out_layout)};
};

/// nn.dense; nn.contrib_dense_pack with a packed weight, `weight_layout` "NC16n".
struct DenseAttrs final : AttrsOf<DenseAttrs> {
  std::optional<int64_t> units;
  std::optional<DataType> out_dtype;
  std::string weight_layout;
  static constexpr auto kName = "DenseAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("units", &DenseAttrs::units), field("out_dtype", &DenseAttrs::out_dtype),
                 field("weight_layout", &DenseAttrs::weight_layout)};
};

/// nn.block_dense.
struct BlockDenseAttrs final : AttrsOf<BlockDenseAttrs> {
  bool may_round = false;  // the data, to bytes, each block of it with a scale of its own
  static constexpr auto kName = "BlockDenseAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("may_round", &BlockDenseAttrs::may_round)};
};

/// nn.contrib_block_dense_pack: numbers of so many bits lie in bytes, as many as there is room for.
struct PackedBlockAttrs final : AttrsOf<PackedBlockAttrs> {
  int64_t bits = 8;
  static constexpr auto kName = "PackedBlockAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("bits", &PackedBlockAttrs::bits)};
};

struct MatmulAttrs final : AttrsOf<MatmulAttrs> {
  std::optional<int64_t> units;
  std::optional<DataType> out_dtype;
  bool transpose_a = false, transpose_b = false;
  static constexpr auto kName = "MatmulAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{
      field("units", &MatmulAttrs::units), field("out_dtype", &MatmulAttrs::out_dtype),
      field("transpose_a", &MatmulAttrs::transpose_a), field("transpose_b", &MatmulAttrs::transpose_b)};
};

struct BatchMatmulAttrs final : AttrsOf<BatchMatmulAttrs> {
  std::optional<DataType> out_dtype;
  bool transpose_a = false, transpose_b = true;
  static constexpr auto kName = "BatchMatmulAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("out_dtype", &BatchMatmulAttrs::out_dtype),
                                            field("transpose_a", &BatchMatmulAttrs::transpose_a),
                                            field("transpose_b", &BatchMatmulAttrs::transpose_b)};
};

/// nn.bias_add, nn.prelu: the axis of the vector.
struct ChannelAttrs final : AttrsOf<ChannelAttrs> {
  int64_t axis = 1;
  static constexpr auto kName = "ChannelAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &ChannelAttrs::axis)};
};

/// nn.batch_norm, nn.instance_norm, nn.group_norm.
struct NormAttrs final : AttrsOf<NormAttrs> {
  int64_t num_groups = 0;  // group_norm only
  int64_t axis = 1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  static constexpr auto kName = "NormAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("num_groups", &NormAttrs::num_groups), field("axis", &NormAttrs::axis),
                 field("epsilon", &NormAttrs::epsilon), field("center", &NormAttrs::center),
                 field("scale", &NormAttrs::scale)};
};

struct LayerNormAttrs final : AttrsOf<LayerNormAttrs> {
  int64_t axis = -1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  static constexpr auto kName = "LayerNormAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("axis", &LayerNormAttrs::axis), field("epsilon", &LayerNormAttrs::epsilon),
                 field("center", &LayerNormAttrs::center), field("scale", &LayerNormAttrs::scale)};
};

/// nn.standardize: statistics over `axes`; `center`: the mean is taken off.
struct StandardizeAttrs final : AttrsOf<StandardizeAttrs> {
  Ints axes;
  double epsilon = 1e-5;
  bool center = true;
  static constexpr auto kName = "StandardizeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("axes", &StandardizeAttrs::axes), field("epsilon", &StandardizeAttrs::epsilon),
                 field("center", &StandardizeAttrs::center)};
};

/// nn.softmax, nn.fast_softmax, nn.log_softmax.
struct SoftmaxAttrs final : AttrsOf<SoftmaxAttrs> {
  int64_t axis = -1;
  static constexpr auto kName = "SoftmaxAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("axis", &SoftmaxAttrs::axis)};
};

struct DropoutAttrs final : AttrsOf<DropoutAttrs> {
  double rate = 0.5;
  static constexpr auto kName = "DropoutAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("rate", &DropoutAttrs::rate)};
};

struct LeakyReluAttrs final : AttrsOf<LeakyReluAttrs> {
  double alpha = 0.25;
  static constexpr auto kName = "LeakyReluAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("alpha", &LeakyReluAttrs::alpha)};
};

/// nn.lrn: across `size` neighbours on `axis`.
struct LrnAttrs final : AttrsOf<LrnAttrs> {
  int64_t size = 5, axis = 1;
  double bias = 2, alpha = 1e-4, beta = 0.75;
  static constexpr auto kName = "LrnAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("size", &LrnAttrs::size), field("axis", &LrnAttrs::axis),
                                            field("bias", &LrnAttrs::bias), field("alpha", &LrnAttrs::alpha),
                                            field("beta", &LrnAttrs::beta)};
};

struct L2NormalizeAttrs final : AttrsOf<L2NormalizeAttrs> {
  double eps = 1e-5;
  Ints axis;
  static constexpr auto kName = "L2NormalizeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("eps", &L2NormalizeAttrs::eps), field("axis", &L2NormalizeAttrs::axis)};
};

/// nn.pad(data, value): [before, after] an axis; pad_mode "constant", "edge" or "reflect".
struct PadAttrs final : AttrsOf<PadAttrs> {
  std::vector<Ints> pad_width;
  std::string pad_mode = "constant";
  static constexpr auto kName = "PadAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("pad_width", &PadAttrs::pad_width), field("pad_mode", &PadAttrs::pad_mode)};
};

/// nn.mirror_pad: mode "SYMMETRIC" (the edge is repeated) or "REFLECT".
struct MirrorPadAttrs final : AttrsOf<MirrorPadAttrs> {
  std::string mode = "SYMMETRIC";
  std::vector<Ints> pad_width;
  static constexpr auto kName = "MirrorPadAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("mode", &MirrorPadAttrs::mode), field("pad_width", &MirrorPadAttrs::pad_width)};
};

/// nn.upsampling: method "nearest_neighbor", "bilinear" or "bicubic".
struct UpsamplingAttrs final : AttrsOf<UpsamplingAttrs> {
  double scale_h = 1, scale_w = 1;
  std::string layout = "NCHW", method = "nearest_neighbor";
  bool align_corners = false;
  static constexpr auto kName = "UpsamplingAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("scale_h", &UpsamplingAttrs::scale_h), field("scale_w", &UpsamplingAttrs::scale_w),
                 field("layout", &UpsamplingAttrs::layout), field("method", &UpsamplingAttrs::method),
                 field("align_corners", &UpsamplingAttrs::align_corners)};
};

/// image.resize{1,2,3}d. Lists have a number for each spatial axis (W, H and D of the layout, outermost
/// first), `roi` all starts, then all ends; empty it is the whole image. Coordinate modes are ONNX's names
/// plus TVM's. `scales` hold the factors where they are not exactly size / extent. With `antialias` the
/// filters of axes that shrink are as much wider.
struct ResizeAttrs final : AttrsOf<ResizeAttrs> {
  Ints size;
  std::vector<double> roi;
  std::string layout, method = "linear";
  std::string coordinate_transformation_mode = "half_pixel", rounding_method;
  double cubic_alpha = -0.5;
  int64_t cubic_exclude = 0;
  double extrapolation_value = 0;
  std::optional<DataType> out_dtype;
  std::vector<double> scales;
  bool antialias = false;
  static constexpr auto kName = "ResizeAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("size", &ResizeAttrs::size),
                 field("roi", &ResizeAttrs::roi),
                 field("layout", &ResizeAttrs::layout),
                 field("method", &ResizeAttrs::method),
                 field("coordinate_transformation_mode", &ResizeAttrs::coordinate_transformation_mode),
                 field("rounding_method", &ResizeAttrs::rounding_method),
                 field("cubic_alpha", &ResizeAttrs::cubic_alpha),
                 field("cubic_exclude", &ResizeAttrs::cubic_exclude),
                 field("extrapolation_value", &ResizeAttrs::extrapolation_value),
                 field("out_dtype", &ResizeAttrs::out_dtype),
                 field("scales", &ResizeAttrs::scales),
                 field("antialias", &ResizeAttrs::antialias)};
};

/// nn.depth_to_space (mode "DCR" or "CRD") and nn.space_to_depth.
struct SubPixelAttrs final : AttrsOf<SubPixelAttrs> {
  int64_t block_size = 1;
  std::string layout = "NCHW", mode = "DCR";
  static constexpr auto kName = "SubPixelAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("block_size", &SubPixelAttrs::block_size), field("layout", &SubPixelAttrs::layout),
                 field("mode", &SubPixelAttrs::mode)};
};

}  // namespace lathe::relay
