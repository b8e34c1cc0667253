#include <cmath>

#include "tests/relay/ops/op_rows.h"

namespace lathe::relay {
namespace {

Attrs resize(Ints size, const char* method, const char* mode, const char* rounding = "") {
  return attrs<ResizeAttrs>([&](auto& a) {
    a.size = size;
    a.method = method;
    a.coordinate_transformation_mode = mode;
    a.rounding_method = rounding;
    a.cubic_alpha = -0.75;
  });
}

Tensor row_of(std::vector<float> values) {
  int64_t n = static_cast<int64_t>(values.size());
  return tensor_of<float>(values, {1, 1, 1, n}, kFloat32);
}

void expect_row(const Attrs& a, const Tensor& x, const std::vector<double>& expected) {
  Tensor y = run_op("image.resize2d", a, {x})[0];
  ASSERT_EQ(y.size(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y.value(i), expected[static_cast<size_t>(i)], 1e-4) << i;
}

// Expected values: the examples of the ONNX specification of Resize, one row of each.
TEST(ImageOps, CoordinatesAndRounding) {
  Tensor four = row_of({1, 2, 3, 4}), two = row_of({1, 2});
  expect_row(resize({1, 4}, "linear", "half_pixel"), two, {1, 1.25, 1.75, 2});
  expect_row(resize({1, 4}, "linear", "align_corners"), two, {1, 1.33333333, 1.66666667, 2});
  expect_row(resize({1, 4}, "linear", "asymmetric"), two, {1, 1.5, 2, 2});
  expect_row(resize({1, 2}, "linear", "half_pixel"), four, {1.5, 3.5});
  expect_row(resize({1, 1}, "linear", "pytorch_half_pixel"), four, {1});
  expect_row(resize({1, 6}, "nearest_neighbor", "half_pixel", "round_prefer_floor"), two, {1, 1, 1, 2, 2, 2});
  expect_row(resize({1, 3}, "nearest_neighbor", "half_pixel", "round_prefer_floor"), four, {1, 2, 4});
  expect_row(resize({1, 8}, "nearest_neighbor", "asymmetric", "floor"), four, {1, 1, 2, 2, 3, 3, 4, 4});
  expect_row(resize({1, 8}, "nearest_neighbor", "half_pixel", "ceil"), four, {1, 2, 2, 3, 3, 4, 4, 4});
}

/// Factors are numbers of float32, and places as well: the one nearest to 0.6 is larger, but 3 / 0.6 is 5.
TEST(ImageOps, NearestPlacesAreRoundedAsFactorsAre) {
  for (const auto& [mode, expected] :
       {std::pair<const char*, std::vector<double>>{"asymmetric", {1, 2, 4, 6}},
        {"half_pixel", {1, 3, 4, 6}}}) {
    SCOPED_TRACE(mode);
    Attrs a = attrs<ResizeAttrs>([&, how = mode](auto& r) {
      r.scales = {1, static_cast<double>(0.6F)}, r.method = "nearest_neighbor";
      r.coordinate_transformation_mode = how, r.rounding_method = "floor";
    });
    expect_row(a, row_of({1, 2, 3, 4, 5, 6, 7}), expected);
  }
}

TEST(ImageOps, PixelsOutsideACropAreExtrapolated) {
  for (const char* method : {"nearest_neighbor", "linear", "cubic"}) {
    SCOPED_TRACE(method);
    Attrs a = attrs<ResizeAttrs>([&](auto& r) {
      r.size = {1, 4}, r.method = method, r.coordinate_transformation_mode = "tf_crop_and_resize";
      r.roi = {0, -1, 0, 2}, r.extrapolation_value = 9;
    });
    expect_row(a, row_of({1, 2}), {9, 1, 2, 9});
  }
}

TEST(ImageOps, Cubic) {
  Tensor x({1, 1, 4, 4}, kFloat32);
  for (int64_t i = 0; i < 16; ++i) x.set(i, static_cast<double>(i + 1));
  Tensor y = run_op("image.resize2d", resize({8, 8}, "cubic", "half_pixel"), {x})[0];
  const double kFirstRow[] = {0.47265625, 0.76953125, 1.24609375, 1.875,
                              2.28125,    2.91015625, 3.38671875, 3.68359375};
  for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(y.value(i), kFirstRow[i], 1e-5);
}

TEST(ImageOps, BothAxesAndBlockedLayouts) {
  Attrs a = attrs<ResizeAttrs>([](auto& r) { r.size = {4, 2}, r.layout = "NCHW2c"; });
  check_rows({{"linear",
               "image.resize2d",
               a,
               {{1, 1, 2, 2, 2}},
               {1, 1, 4, 2, 2},
               [](const Values& x, const Index& i) {
                 double at = std::clamp((static_cast<double>(i[2]) + 0.5) / 2 - 0.5, 0.0, 1.0);
                 return x(0, {0, 0, 0, i[3], i[4]}) * (1 - at) + x(0, {0, 0, 1, i[3], i[4]}) * at;
               }}});
  Attrs twice = attrs<UpsamplingAttrs>([](auto& u) { u.scale_h = 2, u.scale_w = 3; });
  check_rows({{"upsampling",
               "nn.upsampling",
               twice,
               {{1, 2, 2, 2}},
               {1, 2, 4, 6},
               [](const Values& x, const Index& i) {
                 return x(0, {0, i[1], i[2] / 2, i[3] / 3});
               }}});
}

/// The weighted mean that a filter of triangles gives at `place`, `width` to each side, ends repeated.
double smoothed(const std::function<double(int64_t)>& x, int64_t extent, double place, double width) {
  double sum = 0, total = 0;
  for (int64_t k = -2 * extent; k < 3 * extent; ++k) {
    const double weight = std::max(0.0, 1 - std::abs(place - static_cast<double>(k)) / width);
    sum += weight * x(std::clamp(k, int64_t{0}, extent - 1)), total += weight;
  }
  return sum / total;
}

TEST(ImageOps, OneAndThreeAxes) {
  auto half_pixel = [](int64_t i, double factor) { return (static_cast<double>(i) + 0.5) / factor - 0.5; };
  check_rows(
      {{"linear, one axis",
        "image.resize1d",
        resize({9}, "linear", "half_pixel"),
        {{2, 3, 6}},
        {2, 3, 9},
        [&](const Values& x, const Index& i) {
          return smoothed([&](int64_t k) { return x(0, {i[0], i[1], k}); }, 6, half_pixel(i[2], 1.5), 1);
        }},
       {"nearest, three axes",
        "image.resize3d",
        resize({4, 3, 10}, "nearest_neighbor", "asymmetric", "floor"),
        {{1, 2, 2, 3, 5}},
        {1, 2, 4, 3, 10},
        [](const Values& x, const Index& i) {
          return x(0, {0, i[1], i[2] / 2, i[3], i[4] / 2});
        }},
       {"linear, three axes",
        "image.resize3d",
        resize({4, 3, 5}, "linear", "half_pixel"),
        {{1, 2, 2, 6, 5}},
        {1, 2, 4, 3, 5},
        [&](const Values& x, const Index& i) {
          auto row = [&](int64_t d) {
            return smoothed(
                [&](int64_t h) {
                  return x(0, {0, i[1], d, h, i[4]});
                },
                6, half_pixel(i[3], 0.5), 1);
          };
          return smoothed(row, 2, half_pixel(i[2], 2), 1);
        }}});
}

TEST(ImageOps, AnyAxesByTheLayout) {
  Attrs a = attrs<ResizeAttrs>([](auto& r) {
    r.size = {4, 6}, r.layout = "HNWC", r.method = "nearest";
    r.coordinate_transformation_mode = "asymmetric";
  });
  check_rows({{"channels last",
               "image.resize2d",
               a,
               {{2, 3, 3, 2}},
               {4, 3, 6, 2},
               [](const Values& x, const Index& i) {
                 return x(0, {i[0] / 2, i[1], i[2] / 2, i[3]});
               }}});
}

TEST(ImageOps, WiderFiltersWhereAnAxisShrinks) {
  // 4 / 0.6 taps, and more than are written out one by one.
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{10, 6}, {96, 4}, {5, 9}}) {
    Attrs a = attrs<ResizeAttrs>([&](auto& r) { r.size = {out}, r.antialias = true; });
    const double factor = static_cast<double>(out) / static_cast<double>(in);
    check_rows(
        {{"antialias", "image.resize1d", a, {{1, 2, in}}, {1, 2, out}, [&](const Values& x, const Index& i) {
            return smoothed(
                [&](int64_t k) {
                  return x(0, {0, i[1], k});
                },
                in, (static_cast<double>(i[2]) + 0.5) / factor - 0.5, std::max(1.0, 1 / factor));
          }}});
  }
  // The example of the ONNX specification, by cubes.
  Attrs a = attrs<ResizeAttrs>([](auto& r) {
    r.scales = {0.6, 0.6}, r.method = "cubic", r.cubic_alpha = -0.75, r.antialias = true;
  });
  Tensor x({1, 1, 4, 4}, kFloat32);
  for (int64_t i = 0; i < 16; ++i) x.set(i, static_cast<double>(i + 1));
  Tensor y = run_op("image.resize2d", a, {x})[0];
  const double kExpected[] = {2.5180721, 4.2858863, 9.589329, 11.357142};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(y.value(i), kExpected[i], 1e-5);
}

TEST(ImageOps, ConvTranspose) {
  struct Geometry {
    int64_t stride, pad, extra, dilation, groups;
  };
  for (Geometry g :
       {Geometry{1, 0, 0, 1, 1}, {2, 1, 1, 1, 1}, {3, 0, 0, 2, 1}, {2, 3, 0, 1, 1}, {2, 1, 0, 1, 2}}) {
    Attrs a = attrs<ConvTransposeAttrs>([&](auto& c) {
      c.strides = {g.stride}, c.padding = {g.pad}, c.output_padding = {g.extra}, c.dilation = {g.dilation},
      c.groups = g.groups;
    });
    int64_t out = 3 * g.stride + 2 * g.dilation + 1 + g.extra - 2 * g.pad;
    // Scatter form: every input element spreads the kernel over the output.
    auto element = [&](const Values& x, const Index& i) {
      double sum = 0;
      int64_t per_out = 4 / g.groups, group = i[1] / per_out;
      for (int64_t c = 0; c < 2 / g.groups; ++c)
        for (int64_t h = 0; h < 4; ++h)
          for (int64_t w = 0; w < 4; ++w)
            for (int64_t k = 0; k < 9; ++k) {
              int64_t oh = h * g.stride + k / 3 * g.dilation - g.pad,
                      ow = w * g.stride + k % 3 * g.dilation - g.pad;
              int64_t ic = group * (2 / g.groups) + c;
              if (oh == i[2] && ow == i[3])
                sum += x(0, {0, ic, h, w}) * x(1, {ic, i[1] % per_out, k / 3, k % 3});
            }
      return sum;
    };
    check_rows({{"transposed",
                 "nn.conv2d_transpose",
                 a,
                 {{1, 2, 4, 4}, {2, 4 / g.groups, 3, 3}},
                 {1, 4, out, out},
                 element}});
  }
}

TEST(ImageOps, Refuse) {
  EXPECT_EQ(
      relation_error("image.resize2d", resize({2, 2}, "linear", "half_pixels"), {{1, 1, 2, 2}}),
      "image.resize2d: coordinate_transformation_mode `half_pixels` is unknown; did you mean `half_pixel`?");
  EXPECT_EQ(relation_error("image.resize2d", resize({2, 2}, "area", "half_pixel"), {{1, 1, 2, 2}}),
            "image.resize2d: method is `area`, must be nearest_neighbor, linear or cubic");
  EXPECT_EQ(relation_error("image.resize3d", resize({2, 2}, "linear", "half_pixel"), {{1, 1, 2, 2, 2}}),
            "image.resize3d: size must be 3 positive numbers");
  EXPECT_EQ(relation_error("image.resize1d", resize({2}, "linear", "half_pixel"), {{1, 1, 0}}),
            "image.resize1d: axis 2 has no elements, and is to have some");
}

}  // namespace
}  // namespace lathe::relay
