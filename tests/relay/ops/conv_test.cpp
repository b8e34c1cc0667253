#include "tests/relay/ops/op_rows.h"

namespace lathe::relay {
namespace {

struct Conv2d {
  int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
};

Attrs conv_attrs(const Conv2d& c, const char* data = "", const char* kernel = "", const char* out = "") {
  return attrs<ConvAttrs>([&](ConvAttrs& a) {
    a.strides = {c.stride};
    a.padding = {c.pad};
    a.dilation = {c.dilation};
    a.groups = c.groups;
    a.data_layout = data, a.kernel_layout = kernel, a.out_layout = out;
  });
}

/// One output element, straight from the definition, over NCHW data and OIHW weights.
double conv2d_at(const Values& x, const Conv2d& c, int64_t n, int64_t oc, int64_t oh, int64_t ow) {
  double sum = 0;
  int64_t per_group = x.dim(1, 1), group = oc / (x.dim(1, 0) / c.groups);
  for (int64_t ic = 0; ic < per_group; ++ic)
    for (int64_t kh = 0; kh < x.dim(1, 2); ++kh)
      for (int64_t kw = 0; kw < x.dim(1, 3); ++kw)
        sum += x(0, {n, group * per_group + ic, oh * c.stride + kh * c.dilation - c.pad,
                     ow * c.stride + kw * c.dilation - c.pad}) *
               x(1, {oc, ic, kh, kw});
  return sum;
}

Reference conv2d(const Conv2d& c) {
  return [=](const Values& x, const Index& i) { return conv2d_at(x, c, i[0], i[1], i[2], i[3]); };
}

TEST(ConvOps, MatchTheDefinition) {
  Conv2d plain, padded{2, 1}, dilated{1, 2, 2}, grouped{1, 1, 1, 2}, depthwise{2, 1, 1, 4};
  check_rows({
      {"1x1", "nn.conv2d", conv_attrs(plain), {{1, 3, 4, 5}, {2, 3, 1, 1}}, {1, 2, 4, 5}, conv2d(plain)},
      {"3x3 stride 2 pad 1",
       "nn.conv2d",
       conv_attrs(padded),
       {{2, 3, 7, 8}, {4, 3, 3, 3}},
       {2, 4, 4, 4},
       conv2d(padded)},
      {"dilated",
       "nn.conv2d",
       conv_attrs(dilated),
       {{1, 2, 7, 7}, {2, 2, 3, 3}},
       {1, 2, 7, 7},
       conv2d(dilated)},
      {"two groups",
       "nn.conv2d",
       conv_attrs(grouped),
       {{1, 4, 5, 5}, {6, 2, 3, 3}},
       {1, 6, 5, 5},
       conv2d(grouped)},
      {"depthwise",
       "nn.conv2d",
       conv_attrs(depthwise),
       {{1, 4, 6, 6}, {4, 1, 3, 3}},
       {1, 4, 3, 3},
       conv2d(depthwise)},
      {"depthwise, two outputs a channel",
       "nn.conv2d",
       conv_attrs(depthwise),
       {{1, 4, 6, 6}, {8, 1, 3, 3}},
       {1, 8, 3, 3},
       conv2d(depthwise)},
      {"1d",
       "nn.conv1d",
       attrs<ConvAttrs>([](auto& a) {
         a.padding = {2, 0};
       }),
       {{1, 2, 6}, {3, 2, 3}},
       {1, 3, 6},
       [](const Values& x, const Index& i) {
         double sum = 0;
         for (int64_t c = 0; c < 2; ++c)
           for (int64_t k = 0; k < 3; ++k) sum += x(0, {i[0], c, i[2] + k - 2}) * x(1, {i[1], c, k});
         return sum;
       }},
      {"3d",
       "nn.conv3d",
       {},
       {{1, 2, 3, 4, 4}, {2, 2, 2, 2, 2}},
       {1, 2, 2, 3, 3},
       [](const Values& x, const Index& i) {
         double sum = 0;
         for (int64_t r = 0; r < 16; ++r) {
           int64_t c = r / 8, d = r / 4 % 2, h = r / 2 % 2, w = r % 2;
           sum += x(0, {i[0], c, i[2] + d, i[3] + h, i[4] + w}) * x(1, {i[1], c, d, h, w});
         }
         return sum;
       }},
      {"NHWC",
       "nn.conv2d",
       attrs<ConvAttrs>([](auto& a) { a.data_layout = "NHWC", a.kernel_layout = "HWIO"; }),
       {{1, 4, 4, 3}, {2, 2, 3, 5}},
       {1, 3, 3, 5},
       [](const Values& x, const Index& i) {
         double sum = 0;
         for (int64_t r = 0; r < 12; ++r) {
           int64_t c = r % 3, h = r / 6, w = r / 3 % 2;
           sum += x(0, {i[0], i[1] + h, i[2] + w, c}) * x(1, {h, w, c, i[3]});
         }
         return sum;
       }},
  });
}

/// Blocked data and weights as the unblocked ones they stand for.
Values unblocked(const Values& x, int64_t groups) {
  Tensor data = x.tensors()[0], weight = x.tensors()[1];
  const auto &d = data.shape(), &w = weight.shape();
  Tensor plain = zeros({d[0], d[1] * d[4], d[2], d[3]}, kFloat32),
         kernel = zeros({w[0] * w[5], w[1] * w[4], w[2], w[3]}, kFloat32);
  int64_t at = 0;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t c = 0; c < d[1] * d[4]; ++c)
      for (int64_t h = 0; h < d[2]; ++h)
        for (int64_t v = 0; v < d[3]; ++v) plain.set(at++, x(0, {n, c / d[4], h, v, c % d[4]}));
  at = 0;
  for (int64_t o = 0; o < w[0] * w[5]; ++o)
    for (int64_t i = 0; i < w[1] * w[4]; ++i)
      for (int64_t h = 0; h < w[2]; ++h)
        for (int64_t v = 0; v < w[3]; ++v)
          kernel.set(at++, x(1, {o / w[5], i / w[4], h, v, i % w[4], o % w[5]}));
  (void)groups;
  return Values({plain, kernel});
}

Reference blocked(const Conv2d& c, int64_t block) {
  return [=](const Values& x, const Index& i) {
    return conv2d_at(unblocked(x, c.groups), c, i[0], i[1] * block + i[4], i[2], i[3]);
  };
}

TEST(ConvOps, PackedFormsMatchTheDefinition) {
  Conv2d padded{1, 1}, grouped{1, 0, 1, 2}, depthwise{2, 1, 1, 8};
  check_rows({
      {"NCHW4c",
       "nn.contrib_conv2d_NCHWc",
       conv_attrs(padded, "NCHW4c", "OIHW4i2o", "NCHW2c"),
       {{1, 2, 4, 4, 4}, {2, 2, 3, 3, 4, 2}},
       {1, 2, 4, 4, 2},
       blocked(padded, 2)},
      {"three channels in one block",
       "nn.contrib_conv2d_NCHWc",
       conv_attrs(padded, "NCHW3c", "OIHW3i4o", "NCHW4c"),
       {{1, 1, 4, 4, 3}, {1, 1, 3, 3, 3, 4}},
       {1, 1, 4, 4, 4},
       blocked(padded, 4)},
      {"groups",
       "nn.contrib_conv2d_NCHWc",
       conv_attrs(grouped, "NCHW2c", "OIHW2i2o", "NCHW2c"),
       {{1, 2, 3, 3, 2}, {4, 1, 2, 2, 2, 2}},
       {1, 4, 2, 2, 2},
       blocked(grouped, 2)},
      {"depthwise",
       "nn.contrib_depthwise_conv2d_NCHWc",
       conv_attrs(depthwise, "NCHW4c", "OIHW1i4o", "NCHW4c"),
       {{1, 2, 5, 5, 4}, {2, 1, 3, 3, 1, 4}},
       {1, 2, 3, 3, 4},
       blocked(depthwise, 4)},
      {"depthwise, two blocks of results for one of data",
       "nn.contrib_depthwise_conv2d_NCHWc",
       conv_attrs(depthwise, "NCHW4c", "OIHW1i4o", "NCHW4c"),
       {{1, 2, 5, 5, 4}, {4, 1, 3, 3, 1, 4}},
       {1, 4, 3, 3, 4},
       [=](const Values& x, const Index& i) {
         double sum = 0;
         for (int64_t k = 0; k < 9; ++k) {
           int64_t h = i[2] * 2 + k / 3 - 1, w = i[3] * 2 + k % 3 - 1;
           if (h >= 0 && h < 5 && w >= 0 && w < 5)
             sum += x(0, {0, i[1] / 2, h, w, i[4]}) * x(1, {i[1], 0, k / 3, k % 3, 0, i[4]});
         }
         return sum;
       }},
  });
}

TEST(ConvOps, InferTheWeight) {
  Attrs a = attrs<ConvAttrs>([](auto& c) { c.channels = 8, c.kernel_size = {3, 3}, c.padding = {1}; });
  lathe::Expr n = lathe::var("n");
  Type data = tensor_type(std::vector<lathe::Expr>{n, 4, 6, any_dim()}, kFloat32);
  Type result = infer_op("nn.conv2d", a, {data, make<HoleType>()});
  const auto& shape = result.as<TensorType>()->shape;
  EXPECT_TRUE(shape[0] == n);
  EXPECT_EQ(int_value(shape[1]), 8);
  EXPECT_EQ(int_value(shape[2]), 6);
  EXPECT_TRUE(shape[3].as<Any>());
}

TEST(ConvOps, Refuse) {
  EXPECT_EQ(relation_error("nn.conv2d", {}, {{1, 3, 8, 8}, {4, 5, 3, 3}}),
            "nn.conv2d: data of shape (1, 3, 8, 8) has 3 channels, weight takes 5 (groups is 1)");
  EXPECT_EQ(relation_error("nn.conv2d", {}, {{3, 8, 8}, {4, 3, 3, 3}}),
            "nn.conv2d: argument 1 has shape (3, 8, 8), must have rank 4");
  EXPECT_EQ(relation_error("nn.conv2d", {}, {{1, 3, 1, 8}, {4, 3, 3, 3}}),
            "nn.conv2d: data of shape (1, 3, 1, 8) is smaller than the kernel along H");
  EXPECT_EQ(relation_error("nn.conv2d", {}, {{1, 3, 8, 8}, {4, 3, 3, 0}}),
            "nn.conv2d: weight of shape (4, 3, 3, 0) has a kernel of 0 along W, must be at least 1");
  EXPECT_EQ(
      relation_error("nn.conv2d_transpose", {}, {{1, 3, 8, 8}, {3, 4, 0, 3}}),
      "nn.conv2d_transpose: weight of shape (3, 4, 0, 3) has a kernel of 0 along H, must be at least 1");
  EXPECT_EQ(relation_error("nn.conv2d", attrs<ConvAttrs>([](auto& a) { a.strides = {0}; }),
                           {{1, 3, 8, 8}, {4, 3, 3, 3}}),
            "nn.conv2d: strides is 0, must be at least 1");
  EXPECT_EQ(relation_error("nn.conv2d", attrs<ConvAttrs>([](auto& a) {
                             a.padding = {1, 2, 3};
                           }),
                           {{1, 3, 8, 8}, {4, 3, 3, 3}}),
            "nn.conv2d: padding has 3 numbers, must have 1, 2 or 4");
  EXPECT_EQ(relation_error("nn.conv2d", attrs<ConvAttrs>([](auto& a) { a.data_layout = "NCHW16"; }),
                           {{1, 3, 8, 8}, {4, 3, 3, 3}}),
            "layout `NCHW16`: ends in a number");
}

}  // namespace
}  // namespace lathe::relay
