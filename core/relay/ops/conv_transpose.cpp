// Transposed convolution: the gradient of convolution to its data, used to enlarge images.
#include "core/arith/simplify.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/window.h"

namespace lathe::relay::ops {
namespace {

struct Geometry {
  Layout data;
  Window window;
  Ints output_padding;
  std::string letters;
};

template <int kRank>
Geometry geometry_of(const ConvTransposeAttrs& a) {
  Ints extra = a.output_padding.empty() ? Ints(kRank, 0) : a.output_padding;
  if (extra.size() == 1) extra = Ints(kRank, extra[0]);
  return {layout_or(a.data_layout, "NC", kRank), window_of(a.strides, a.dilation, a.padding, kRank), extra,
          spatial_letters(kRank)};
}

/// The weight is (I, O / groups, k...). (TVM prints kernel_layout "OIHW" in old versions and means the same.)
template <int kRank>
Relation conv_transpose_type(RelationContext& c, const Attrs& attrs) {
  const ConvTransposeAttrs& a = attrs_as<ConvTransposeAttrs>(attrs);
  const TensorType *data = c.tensor(0), *weight = c.tensor(1);
  if (!data || !weight) return Relation::kWaits;
  window_of(c, a.strides, a.dilation, a.padding, kRank);
  if (a.output_padding.size() > 1 && a.output_padding.size() != kRank)
    mismatch(c, "output_padding has {} numbers, must have {}", a.output_padding.size(), kRank);
  Geometry g = geometry_of<kRank>(a);
  require_axes(c, g.data, "NC" + spatial_letters(kRank));
  require_rank(c, 0, *data, g.data.rank());
  require_rank(c, 1, *weight, kRank + 2);
  Expr in_channels = g.data.extent('C', data->shape);
  if (a.groups < 1) mismatch(c, "groups is {}, must be at least 1", a.groups);
  if (as_int(in_channels) && as_int(weight->shape[0]) &&
      int_value(in_channels) != int_value(weight->shape[0]))
    mismatch(c, "data of shape {} has {} channels, weight of shape {} takes {}", describe(data->shape),
             int_value(in_channels), describe(weight->shape), int_value(weight->shape[0]));
  if (!in_channels.as<Any>() && !weight->shape[0].as<Any>()) c.equal_dims(in_channels, weight->shape[0]);
  if (as_int(in_channels) && int_value(in_channels) % a.groups != 0)
    mismatch(c, "{} channels are not a multiple of groups ({})", int_value(in_channels), a.groups);
  std::map<char, Expr> out{{'N', g.data.extent('N', data->shape)}, {'C', weight->shape[1] * a.groups}};
  for (size_t s = 0; s < g.letters.size(); ++s) {
    Expr extent = g.data.extent(g.letters[s], data->shape), kernel = weight->shape[s + 2];
    require_kernel(c, kernel, g.letters[s], weight->shape);
    out[g.letters[s]] =
        extent.as<Any>() ? any_dim()
                         : simplify((extent - 1) * g.window.strides[s] + (kernel - 1) * g.window.dilation[s] +
                                    1 + g.output_padding[s] - g.window.before[s] - g.window.after[s]);
    if (as_int(out[g.letters[s]]) && int_value(out[g.letters[s]]) < 0)
      mismatch(c, "padding leaves nothing of data of shape {} along {}", describe(data->shape), g.letters[s]);
  }
  c.result(tensor_type(g.data.shape(out), a.out_dtype.value_or(data->dtype)));
  return Relation::kSolved;
}

/// The data spread out by the strides with zeros between, framed so that a plain convolution with the
/// reversed kernel gives the result.
Buffer spread(FuncBuilder& f, const Buffer& x, const Geometry& g, const Shape& out, const Shape& kernel) {
  Shape shape = x->shape;
  std::vector<int> axes;
  Ints offsets;
  for (size_t s = 0; s < g.letters.size(); ++s) {
    int axis = g.data.position(g.letters[s]);
    int64_t reach = (int_value(kernel[s]) - 1) * g.window.dilation[s];
    axes.push_back(axis);
    offsets.push_back(reach - g.window.before[s]);
    // As much as a convolution without padding needs for `out` results.
    shape[axis] = out[axis] + reach;
  }
  return f.compute("spread", shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i), present;
    for (size_t s = 0; s < axes.size(); ++s) {
      Expr at = indices[axes[s]] - offsets[s], stride = g.window.strides[s];
      indices[axes[s]] = floordiv(at, stride);
      present.push_back(less_equal(Expr(0), at));
      present.push_back(less(floordiv(at, stride), x->shape[axes[s]]));
      // Zeros between the elements, and before and behind them.
      if (!is_int(stride, 1)) present.push_back(equal(floormod(at, stride), Expr(0)));
    }
    return select(and_all(present), load(x, indices), lathe::constant(x->dtype, 0));
  });
}

/// out[n, oc, o] = sum over ic, k of spread[n, ic, o + k*dilation] * weight[ic, oc, K - 1 - k]
template <int kRank>
Buffers conv_transpose(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const ConvTransposeAttrs& a = attrs_as<ConvTransposeAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  Geometry g = geometry_of<kRank>(a);
  Shape kernel{in[1]->shape.begin() + 2, in[1]->shape.end()};
  Buffer x = spread(f, in[0], g, type.shape, kernel);
  Expr per_group = floordiv(in[1]->shape[0], Expr(a.groups)), out_per_group = in[1]->shape[1];
  Shape reduce{per_group};
  reduce.insert(reduce.end(), kernel.begin(), kernel.end());
  return {f.reduce("conv", type.shape, reduce, tir::Combiner::kSum, [&](Vars i, Vars r) {
    std::vector<Expr> data = as_indices(i);
    Expr oc = i[g.data.position('C')];
    // Result channel oc belongs to group oc / out_per_group, which reads `per_group` channels.
    Expr ic = a.groups == 1 ? Expr(r[0]) : floordiv(oc, out_per_group) * per_group + r[0];
    data[g.data.position('C')] = ic;
    std::vector<Expr> weight{ic, a.groups == 1 ? oc : floormod(oc, out_per_group)};
    for (size_t s = 0; s < kernel.size(); ++s) {
      Expr& at = data[g.data.position(g.letters[s])];
      at = at + Expr(r[s + 1]) * g.window.dilation[s];
      weight.push_back(kernel[s] - 1 - r[s + 1]);
    }
    return cast(type.dtype, load(x, data)) * cast(type.dtype, load(in[1], weight));
  })};
}

/// Quantized ones are the convolutions they become (passes/conv_transpose_to_conv).
template <int kRank>
constexpr ProductRule kProduct{nullptr, nullptr, with_sums_of<ConvTransposeAttrs>, nullptr};

template <int kRank>
constexpr Op row(const char* name) {
  return {.name = name,
          .doc = "Transposed convolution of data (N, C, ...) with weight (C, O/groups, ...).",
          .args = 2,
          .attrs = &ConvTransposeAttrs::kType,
          .infer = conv_transpose_type<kRank>,
          .compute = conv_transpose<kRank>,
          .fusion = Fusion::kAnchor,
          .narrow = NarrowRule::kProduct,
          .product = &kProduct<kRank>};
}

constexpr Op kConvTransposeOps[] = {row<1>("nn.conv1d_transpose"), row<2>("nn.conv2d_transpose"),
                                    row<3>("nn.conv3d_transpose")};
}  // namespace

std::span<const Op> conv_transpose_ops() { return kConvTransposeOps; }

}  // namespace lathe::relay::ops
