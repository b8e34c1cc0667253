// Convolution of any rank and layout. The packed forms (NCHWc) keep blocked channels innermost, so that a
// vector of output channels is one contiguous load of weights; schedules rely on the order of their axes.
#include "core/relay/ops/families.h"
#include "core/relay/ops/window.h"

namespace lathe::relay::ops {
namespace {

struct ConvLayouts {
  Layout data, kernel, out;
};

ConvLayouts layouts_of(const ConvAttrs& a, int rank) {
  Layout data = layout_or(a.data_layout, "NC", rank), kernel = layout_or(a.kernel_layout, "OI", rank);
  return {data, kernel, a.out_layout.empty() ? data : Layout::parse(a.out_layout)};
}

/// The kernel's extents: from its type, or from `channels` and `kernel_size`; nothing while neither is known.
std::optional<std::map<char, Expr>> kernel_extents(RelationContext& c, const ConvAttrs& a,
                                                   const ConvLayouts& l, const Expr& in_channels, int rank) {
  std::string letters = "OI" + spatial_letters(rank);
  std::map<char, Expr> extents;
  if (const TensorType* weight = c.tensor(1)) {
    require_rank(c, 1, *weight, l.kernel.rank());
    for (char letter : letters) extents[letter] = l.kernel.extent(letter, weight->shape);
    for (size_t s = 0; s < a.kernel_size.size() && s < static_cast<size_t>(rank); ++s)
      if (as_int(extents[letters[s + 2]]) && int_value(extents[letters[s + 2]]) != a.kernel_size[s])
        mismatch(c, "weight has shape {}, but kernel_size[{}] is {}", describe(weight->shape), s,
                 a.kernel_size[s]);
    if (a.channels && as_int(extents['O']) && int_value(extents['O']) != *a.channels)
      mismatch(c, "weight has shape {}, but channels is {}", describe(weight->shape), *a.channels);
    return extents;
  }
  if (!a.channels || a.kernel_size.size() != static_cast<size_t>(rank) || in_channels.as<Any>())
    return std::nullopt;
  // The weight is a hole so far: what the attributes say of it becomes its type.
  extents['O'] = *a.channels;
  extents['I'] = floordiv(in_channels, Expr(a.groups));
  for (int s = 0; s < rank; ++s) extents[letters[s + 2]] = a.kernel_size[s];
  c.unify_arg(1, tensor_type(l.kernel.shape(extents), c.tensor(0)->dtype));
  return extents;
}

/// Channels of data and kernel agree: compared here where they are numbers, else left to unification.
void check_channels(RelationContext& c, const ConvAttrs& a, const Shape& data, const Expr& in_channels,
                    std::map<char, Expr>& kernel) {
  if (!as_int(in_channels) || !as_int(kernel['I']) || !as_int(kernel['O'])) {
    if (!in_channels.as<Any>()) c.equal_dims(in_channels, kernel['I'] * a.groups);
    return;
  }
  int64_t in = int_value(in_channels), per_group = int_value(kernel['I']), out = int_value(kernel['O']);
  if (in != per_group * a.groups)
    mismatch(c, "data of shape {} has {} channels, weight takes {} (groups is {})", describe(data), in,
             per_group * a.groups, a.groups);
  if (out % a.groups != 0) mismatch(c, "{} output channels are not a multiple of groups ({})", out, a.groups);
}

template <int kRank>
Relation conv_type(RelationContext& c, const Attrs& attrs) {
  const ConvAttrs& a = attrs_as<ConvAttrs>(attrs);
  const TensorType* data = c.tensor(0);
  if (!data) return Relation::kWaits;
  ConvLayouts l = layouts_of(a, kRank);
  require_axes(c, l.data, "NC" + spatial_letters(kRank));
  require_axes(c, l.out, "NC" + spatial_letters(kRank));
  require_axes(c, l.kernel, "OI" + spatial_letters(kRank));
  if (a.groups < 1) mismatch(c, "groups is {}, must be at least 1", a.groups);
  require_rank(c, 0, *data, l.data.rank());
  Window w = window_of(c, a.strides, a.dilation, a.padding, kRank);
  Expr in_channels = l.data.extent('C', data->shape);
  auto kernel = kernel_extents(c, a, l, in_channels, kRank);
  if (!kernel) return Relation::kWaits;
  check_channels(c, a, data->shape, in_channels, *kernel);
  std::map<char, Expr> out{{'N', l.data.extent('N', data->shape)}, {'C', (*kernel)['O']}};
  std::string letters = spatial_letters(kRank);
  for (size_t s = 0; s < letters.size(); ++s) {
    Expr extent = l.data.extent(letters[s], data->shape);
    require_kernel(c, (*kernel)[letters[s]], letters[s], l.kernel.shape(*kernel));
    Expr windows = windows_along(w, s, extent, (*kernel)[letters[s]]);
    if (as_int(windows) && int_value(windows) < 0)
      mismatch(c, "data of shape {} is smaller than the kernel along {}", describe(data->shape), letters[s]);
    out[letters[s]] = windows;
  }
  c.result(tensor_type(l.out.shape(out), a.out_dtype.value_or(data->dtype)));
  return Relation::kSolved;
}

Expr padding_of(const ConvAttrs& a, const Buffer& data) {
  return lathe::constant(data->dtype, static_cast<double>(a.pad_value));
}

/// out[n, oc, o...] = sum over ic, k... of data[n, group(oc) * ICg + ic, o*stride + k*dilation] * weight[oc,
/// ic, k...]
template <int kRank>
Buffers conv(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const ConvAttrs& a = attrs_as<ConvAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  ConvLayouts l = layouts_of(a, kRank);
  Window w = window_of(a.strides, a.dilation, a.padding, kRank);
  Buffer x = padded_spatial(f, in[0], l.data, w.before, w.after, padding_of(a, in[0]));
  std::string letters = spatial_letters(kRank);
  Expr channels = l.kernel.extent('I', in[1]->shape), out_channels = l.kernel.extent('O', in[1]->shape);
  bool per_channel = is_int(channels, 1);  // depthwise: no channel to sum over
  Shape reduce;
  if (!per_channel) reduce.push_back(channels);
  for (char letter : letters) reduce.push_back(l.kernel.extent(letter, in[1]->shape));
  return {f.reduce("conv", type.shape, reduce, tir::Combiner::kSum, [&](Vars i, Vars r) {
    std::vector<Expr> o = as_indices(i);
    // Layouts may cut an axis into blocks: whole_index() is the index along all of it.
    Expr oc = l.out.whole_index('C', o), ic = per_channel ? Expr(0) : Expr(r[0]);
    Expr group = a.groups == 1 ? Expr(0) : floordiv(oc, floordiv(out_channels, Expr(a.groups)));
    std::map<char, Expr> data{{'N', l.out.whole_index('N', o)}, {'C', group * channels + ic}},
        kernel{{'O', oc}, {'I', ic}};
    for (size_t s = 0; s < letters.size(); ++s) {
      Expr k = r[s + (per_channel ? 0 : 1)];
      kernel[letters[s]] = k;
      data[letters[s]] = l.out.whole_index(letters[s], o) * w.strides[s] + k * w.dilation[s];
    }
    return cast(type.dtype, load(x, l.data.indices(data))) *
           cast(type.dtype, load(in[1], l.kernel.indices(kernel)));
  })};
}

/// out[n, oco, oh, ow, oci] = sum over ico, kh, kw, ici of
///   data[n, ico, oh*s + kh*d, ow*s + kw*d, ici] * weight[oco, ico, kh, kw, ici, oci]
/// With groups of g input channels innermost (OIHW4i16o4i) ici is g * icg + ick:
///   data[n, ico, oh*s + kh*d, ow*s + kw*d, g * icg + ick] * weight[oco, ico, kh, kw, icg, oci, ick]
Buffers conv2d_nchwc(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const ConvAttrs& a = attrs_as<ConvAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  Window w = window_of(a.strides, a.dilation, a.padding, 2);
  const Shape& weight = in[1]->shape;
  Buffer x = padded_spatial(f, in[0], Layout::parse(a.data_layout), w.before, w.after, padding_of(a, in[0]));
  Expr blocks_per_group = floordiv(weight[0], Expr(a.groups));
  Shape reduce{weight[1], weight[2], weight[3], weight[4]};
  // OIHW{i}{o}{i}, as above.
  bool grouped = weight.size() == 7;
  if (grouped) reduce.push_back(weight[6]);
  return {f.reduce("conv", type.shape, reduce, tir::Combiner::kSum, [&](Vars i, Vars r) {
    // The first block of data that the group of this block of results reads.
    Expr first = a.groups == 1 ? Expr(0) : floordiv(i[1], blocks_per_group) * weight[1];
    Expr row = Expr(i[2]) * w.strides[0] + Expr(r[1]) * w.dilation[0];
    Expr column = Expr(i[3]) * w.strides[1] + Expr(r[2]) * w.dilation[1];
    std::vector<Expr> each{i[1], r[0], r[1], r[2], r[3], i[4]};
    if (grouped) each.push_back(r[4]);
    Expr channel = grouped ? Expr(r[3]) * weight[6] + r[4] : Expr(r[3]);
    return cast(type.dtype, load(x, {i[0], first + r[0], row, column, channel})) *
           cast(type.dtype, load(in[1], each));
  })};
}

/// out[n, co, oh, ow, ci] = sum over kh, kw of
///   data[n, co / m, oh*s + kh*d, ow*s + kw*d, ci] * weight[co, 0, kh, kw, 0, ci]
/// with m blocks of results for one of data.
Buffers depthwise_conv2d_nchwc(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const ConvAttrs& a = attrs_as<ConvAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  Window w = window_of(a.strides, a.dilation, a.padding, 2);
  Buffer x = padded_spatial(f, in[0], Layout::parse(a.data_layout), w.before, w.after, padding_of(a, in[0]));
  Expr times = floordiv(in[1]->shape[0], in[0]->shape[1]);
  return {f.reduce("conv", type.shape, {in[1]->shape[2], in[1]->shape[3]}, tir::Combiner::kSum,
                   [&](Vars i, Vars r) {
                     Expr row = Expr(i[2]) * w.strides[0] + Expr(r[0]) * w.dilation[0];
                     Expr column = Expr(i[3]) * w.strides[1] + Expr(r[1]) * w.dilation[1];
                     return cast(type.dtype, load(x, {i[0], floordiv(i[1], times), row, column, i[4]})) *
                            cast(type.dtype, load(in[1], {i[1], 0, r[0], r[1], 0, i[4]}));
                   })};
}

/// The arguments after data and weight: zero points, then scales, of both; the weight's scale and zero point
/// may be one number a channel.
template <int kRank>
Relation quantized_conv_type(RelationContext& c, const Attrs& attrs) {
  const ConvAttrs& a = attrs_as<ConvAttrs>(attrs);
  const TensorType *data = c.tensor(0), *weight = c.tensor(1);
  if (!data || !weight) return Relation::kWaits;
  require_integers(c, 0, *data);
  require_integers(c, 1, *weight);
  if (a.out_dtype != kInt32) mismatch(c, "out_dtype must be int32");
  return conv_type<kRank>(c, attrs);
}

/// Channels second in data and result, first in the weight.
template <int kRank>
std::optional<ProductAxes> conv_axes(const Attrs& attrs, size_t, size_t) {
  if (!is_plain(attrs_as<ConvAttrs>(attrs), kRank)) return std::nullopt;
  ProductAxes axes{.weight = 0, .result = 1};
  for (int64_t axis = 1; axis < kRank + 2; ++axis) axes.summed.push_back(axis);
  return axes;
}

template <int kRank>
constexpr ProductRule product(const char* real, const char* quantized) {
  return {real, quantized, with_sums_of<ConvAttrs>, conv_axes<kRank>};
}
constexpr ProductRule kProduct1d = product<1>("nn.conv1d", "qnn.conv1d"),
                      kProduct2d = product<2>("nn.conv2d", "qnn.conv2d"),
                      kProduct3d = product<3>("nn.conv3d", "qnn.conv3d");

constexpr Op row(const char* name, const char* doc, InferType infer, Compute compute,
                 const ProductRule* product = nullptr, LayoutRule layout = LayoutRule::kNone) {
  return {.name = name,
          .doc = doc,
          .args = 2,
          .attrs = &ConvAttrs::kType,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kAnchor,
          .layout = layout,
          .narrow = product ? NarrowRule::kProduct : NarrowRule::kReal,
          .product = product};
}
constexpr const char* kQuantizedDoc =
    "The convolution of (data - input_zero_point) with (weight - kernel_zero_point) in int32, from data, "
    "weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale.";
constexpr Op quantized_row(const char* name, InferType infer, const ProductRule& product) {
  return {.name = name,
          .doc = kQuantizedDoc,
          .args = 6,
          .attrs = &ConvAttrs::kType,
          .infer = infer,
          .fusion = Fusion::kAnchor,
          .product = &product};
}

constexpr Op kConvOps[] = {
    row("nn.conv1d", "Convolution of data (N, C, W) with weight (O, I, W).", conv_type<1>, conv<1>,
        &kProduct1d),
    row("nn.conv2d",
        "Convolution of data (N, C, H, W) with weight (O, I, H, W); `groups` groups of channels.",
        conv_type<2>, conv<2>, &kProduct2d, LayoutRule::kConvolution),
    row("nn.conv3d", "Convolution of data (N, C, D, H, W) with weight (O, I, D, H, W).", conv_type<3>,
        conv<3>, &kProduct3d),
    row("nn.contrib_conv2d_NCHWc",
        "conv2d of blocked data (N, C/i, H, W, i) with weight (O/o, I/i, H, W, i, o), or (O/o, I/i, H, W, "
        "i/g, "
        "o, g) with groups of g input channels innermost.",
        conv_type<2>, conv2d_nchwc),
    window(row("nn.contrib_depthwise_conv2d_NCHWc",
               "Depthwise conv2d of (N, C/c, H, W, c) with weight (m*C/c, 1, H, W, 1, c): m blocks of "
               "results for each block of data.",
               conv_type<2>, depthwise_conv2d_nchwc)),
    quantized_row("qnn.conv1d", quantized_conv_type<1>, kProduct1d),
    quantized_row("qnn.conv2d", quantized_conv_type<2>, kProduct2d),
    quantized_row("qnn.conv3d", quantized_conv_type<3>, kProduct3d),
};
}  // namespace

std::span<const Op> conv_ops() { return kConvOps; }

}  // namespace lathe::relay::ops
