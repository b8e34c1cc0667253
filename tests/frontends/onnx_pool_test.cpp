// Poolings that tell where their maxima were, what undoes them, and blocks put together to images; with
// determinants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/relay/text.h"
#include "tests/frontends/one_node.h"

namespace lathe::onnx {
namespace {
using Ints = std::vector<int64_t>;

struct Pooling {
  Ints shape, kernel, strides, pads, dilations;
  bool ceil = false, by_columns = false;
  std::string attributes() const {
    return bytes::integers("kernel_shape", kernel) + bytes::integers("strides", strides) +
           bytes::integers("pads", pads) + bytes::integers("dilations", dilations) +
           bytes::integer("ceil_mode", ceil) + bytes::integer("storage_order", by_columns);
  }
};

/// Windows (of two spatial axes) looked at one by one.
std::vector<double> places_of(const Pooling& p, const Tensor& x, const Ints& windows) {
  std::vector<double> places;
  for (int64_t plane = 0; plane < p.shape[0] * p.shape[1]; ++plane)
    for (int64_t i = 0; i < windows[0]; ++i)
      for (int64_t j = 0; j < windows[1]; ++j) {
        double best = -HUGE_VAL;
        int64_t place = -1;
        for (int64_t k = 0; k < p.kernel[0]; ++k)
          for (int64_t l = 0; l < p.kernel[1]; ++l) {
            const int64_t row = i * p.strides[0] - p.pads[0] + k * p.dilations[0],
                          column = j * p.strides[1] - p.pads[1] + l * p.dilations[1];
            if (row < 0 || column < 0 || row >= p.shape[2] || column >= p.shape[3]) continue;
            const int64_t start = plane * p.shape[2] * p.shape[3];
            const double element = x.value(start + row * p.shape[3] + column);
            if (element <= best) continue;
            best = element;
            place = start + (p.by_columns ? row + column * p.shape[2] : row * p.shape[3] + column);
          }
        places.push_back(static_cast<double>(place));
      }
  return places;
}

TEST(OnnxPool, TellsWhereMaximaAre) {
  const Pooling poolings[] = {
      {{1, 1, 4, 4}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      {{2, 3, 7, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
      {{2, 3, 7, 9}, {3, 2}, {1, 2}, {1, 0, 0, 1}, {2, 3}},
      {{1, 2, 8, 6}, {3, 3}, {2, 3}, {0, 1, 1, 0}, {1, 1}, true},
      {{1, 2, 5, 7}, {2, 3}, {2, 2}, {0, 0, 0, 0}, {1, 1}, false, true},
  };
  for (const Pooling& p : poolings) {
    Tensor x = random_tensor(p.shape, kFloat32, 3);
    // Some that are equal: the first counts.
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::round(x.value(i) * 4));
    const std::vector<Tensor> results = run("MaxPool", {x}, p.attributes(), 2);
    const Ints shape = results[0].shape();
    ASSERT_EQ(results[1].shape(), shape);
    const std::vector<double> places = places_of(p, x, {shape[2], shape[3]});
    EXPECT_EQ(values(results[1]), places) << p.attributes();
    if (p.by_columns) continue;
    for (int64_t i = 0; i < results[0].size(); ++i)
      EXPECT_EQ(results[0].value(i), x.value(static_cast<int64_t>(places[static_cast<size_t>(i)])));
  }
}

/// As exporters write the last mean of a network; there is no window to slide.
TEST(OnnxPool, OfTheWholeImageIsGlobal) {
  const auto text = [](const std::string& op, const Ints& shape, const Ints& kernel,
                       const std::string& more = "") {
    const std::string node = bytes::node(op, {"x"}, {"y"}, bytes::integers("kernel_shape", kernel) + more);
    return relay::print(
        import_bytes(bytes::model(node, bytes::input("x"), {"y"}, 24), "m.onnx", {.shapes = {{"x", shape}}})
            .module);
  };
  using testing::HasSubstr;
  const Ints image{2, 3, 5, 4};
  EXPECT_THAT(text("AveragePool", image, {5, 4}), HasSubstr("nn.global_avg_pool2d("));
  EXPECT_THAT(text("MaxPool", image, {5, 4}), HasSubstr("nn.global_max_pool2d("));
  EXPECT_THAT(text("MaxPool", {2, 3, 7}, {7}), HasSubstr(" max("));
  EXPECT_THAT(text("MaxPool", image, {5, 3}), HasSubstr("nn.max_pool2d("));
  EXPECT_THAT(text("AveragePool", image, {5, 4}, bytes::integers("pads", {0, 1, 0, 0})),
              HasSubstr("nn.avg_pool2d("));
  EXPECT_THAT(text("AveragePool", image, {3, 4}, bytes::integers("dilations", {2, 1})),
              HasSubstr("nn.avg_pool2d("));
  const Tensor x = random_tensor(image, kFloat32, 4);
  for (const char* op : {"AveragePool", "MaxPool"})
    EXPECT_EQ(values(run(op, {x}, bytes::integers("kernel_shape", {5, 4}))[0]),
              values(run(std::string("Global") + op, {x})[0]));
}

TEST(OnnxPool, UnpoolPutsMaximaBack) {
  const Tensor x = random_tensor({2, 3, 6, 8}, kFloat32, 4);
  const std::string attributes = bytes::integers("kernel_shape", {2, 2}) + bytes::integers("strides", {2, 2});
  const std::vector<Tensor> pooled = run("MaxPool", {x}, attributes, 2);
  const Tensor back = run("MaxUnpool", {pooled[0], pooled[1]}, attributes)[0];
  ASSERT_EQ(back.shape(), x.shape());
  std::vector<double> expected(static_cast<size_t>(x.size()));
  for (int64_t i = 0; i < pooled[0].size(); ++i)
    expected[static_cast<size_t>(pooled[1].integer(i))] = pooled[0].value(i);
  EXPECT_EQ(values(back), expected);
  // Places are those in the image without the frame that another output shape puts behind.
  const Tensor four = floats({1, 2, 3, 4}, {1, 1, 2, 2}),
               places = tensor_of<int64_t>({5, 7, 13, 15}, {1, 1, 2, 2}, kInt64);
  EXPECT_THAT(
      values(run("MaxUnpool", {four, places, longs({1, 1, 5, 5})}, attributes)[0]),
      testing::ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0));
}

TEST(OnnxPool, BlocksAddUpToAnImage) {
  struct Fold {
    Ints image, block, strides, dilations, pads;
  };
  const Fold folds[] = {
      {{5, 5}, {1, 5}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{6, 7}, {3, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{6, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
      {{9, 8}, {3, 4}, {2, 3}, {1, 1}, {1, 2, 0, 1}},
      {{11, 10}, {3, 2}, {2, 3}, {2, 3}, {1, 0, 2, 1}},
      {{7}, {2}, {3}, {2}, {1, 1}},
      {{4, 5, 6}, {2, 3, 2}, {1, 2, 2}, {1, 1, 2}, {0, 0, 1, 1, 0, 1}},
  };
  for (const Fold& f : folds) {
    const size_t axes = f.image.size();
    Ints blocks;
    int64_t count = 1, offsets = 1, elements = 1;
    for (size_t d = 0; d < axes; ++d) {
      blocks.push_back((f.image[d] + f.pads[d] + f.pads[axes + d] - f.dilations[d] * (f.block[d] - 1) - 1) /
                           f.strides[d] +
                       1);
      count *= blocks[d], offsets *= f.block[d], elements *= f.image[d];
    }
    const int64_t images = 2, channels = 3;
    const Tensor x = random_tensor({images, channels * offsets, count}, kFloat32, 5);
    std::vector<double> expected(static_cast<size_t>(images * channels * elements));
    for (int64_t i = 0; i < x.size(); ++i) {
      int64_t place = 0, stride = 1, block = i % count, offset = i / count % offsets;
      bool is_inside = true;
      for (size_t d = axes; d-- > 0;) {
        const int64_t at =
            block % blocks[d] * f.strides[d] + offset % f.block[d] * f.dilations[d] - f.pads[d];
        is_inside = is_inside && at >= 0 && at < f.image[d];
        place += at * stride;
        block /= blocks[d], offset /= f.block[d], stride *= f.image[d];
      }
      if (is_inside) expected[static_cast<size_t>(i / (count * offsets) * elements + place)] += x.value(i);
    }
    const Tensor y = run("Col2Im", {x, longs(f.image), longs(f.block)},
                         bytes::integers("strides", f.strides) + bytes::integers("dilations", f.dilations) +
                             bytes::integers("pads", f.pads))[0];
    const std::vector<double> got = values(y);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace lathe::onnx
