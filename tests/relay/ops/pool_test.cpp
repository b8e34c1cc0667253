#include "tests/relay/ops/op_rows.h"

namespace lathe::relay {
namespace {

struct Pool {
  int64_t size = 2, stride = 2, pad = 0;
  bool include_pad = false;
  int64_t dilation = 1;
};

Attrs pool_attrs(const Pool& p, bool ceil = false, const char* layout = "") {
  return attrs<PoolAttrs>([&](PoolAttrs& a) {
    a.pool_size = {p.size};
    a.strides = {p.stride};
    a.padding = {p.pad};
    a.dilation = {p.dilation};
    a.ceil_mode = ceil;
    a.count_include_pad = p.include_pad;
    a.layout = layout;
  });
}

/// The window's elements inside the image, combined.
double window(const Values& x, const Pool& p, const Index& i, bool max) {
  double best = -1e30, sum = 0;
  int64_t count = 0, framed = 0, height = x.dim(0, 2), width = x.dim(0, 3);
  for (int64_t kh = 0; kh < p.size; ++kh)
    for (int64_t kw = 0; kw < p.size; ++kw) {
      int64_t h = i[2] * p.stride - p.pad + kh * p.dilation, w = i[3] * p.stride - p.pad + kw * p.dilation;
      framed += h < height + p.pad && w < width + p.pad;
      if (h < 0 || w < 0 || h >= height || w >= width) continue;
      Index at = i;
      at[2] = h, at[3] = w;
      best = std::max(best, x(0, at));
      sum += x(0, at);
      ++count;
    }
  return max ? best : sum / static_cast<double>(p.include_pad ? framed : count);
}
Reference max_of(const Pool& p) {
  return [=](const Values& x, const Index& i) { return window(x, p, i, true); };
}
Reference mean_of(const Pool& p) {
  return [=](const Values& x, const Index& i) { return window(x, p, i, false); };
}

TEST(PoolOps, MatchTheDefinition) {
  Pool two, three{3, 2, 1}, framed{3, 2, 1, true}, dilated{2, 1, 0, false, 2};
  check_rows({
      {"max 2x2", "nn.max_pool2d", pool_attrs(two), {{1, 2, 4, 6}}, {1, 2, 2, 3}, max_of(two)},
      {"max 3x3 padded", "nn.max_pool2d", pool_attrs(three), {{1, 2, 7, 7}}, {1, 2, 4, 4}, max_of(three)},
      {"max, ceil", "nn.max_pool2d", pool_attrs(two, true), {{1, 2, 5, 5}}, {1, 2, 3, 3}, max_of(two)},
      {"max, dilated", "nn.max_pool2d", pool_attrs(dilated), {{1, 1, 5, 5}}, {1, 1, 3, 3}, max_of(dilated)},
      {"max, blocked",
       "nn.max_pool2d",
       pool_attrs(three, false, "NCHW4c"),
       {{1, 2, 5, 5, 4}},
       {1, 2, 3, 3, 4},
       max_of(three)},
      {"mean 2x2", "nn.avg_pool2d", pool_attrs(two), {{1, 2, 4, 4}}, {1, 2, 2, 2}, mean_of(two)},
      {"mean, padding left out",
       "nn.avg_pool2d",
       pool_attrs(three),
       {{1, 2, 5, 5}},
       {1, 2, 3, 3},
       mean_of(three)},
      {"mean, padding counted",
       "nn.avg_pool2d",
       pool_attrs(framed),
       {{1, 2, 5, 5}},
       {1, 2, 3, 3},
       mean_of(framed)},
      {"mean, padding counted, ceil",
       "nn.avg_pool2d",
       pool_attrs(framed, true),
       {{1, 2, 6, 6}},
       {1, 2, 4, 4},
       mean_of(framed)},
      {"mean, ceil", "nn.avg_pool2d", pool_attrs(three, true), {{1, 2, 6, 6}}, {1, 2, 4, 4}, mean_of(three)},
      {"global mean", "nn.global_avg_pool2d", {}, {{1, 3, 4, 4}}, {1, 3, 1, 1}, mean_of({4, 1})},
      {"global max", "nn.global_max_pool2d", {}, {{1, 3, 4, 4}}, {1, 3, 1, 1}, max_of({4, 1})},
      {"adaptive, even",
       "nn.adaptive_avg_pool2d",
       attrs<AdaptivePoolAttrs>([](auto& a) { a.output_size = {2}; }),
       {{1, 2, 4, 4}},
       {1, 2, 2, 2},
       mean_of(two)},
      {"adaptive, uneven",
       "nn.adaptive_max_pool1d",
       attrs<AdaptivePoolAttrs>([](auto& a) { a.output_size = {3}; }),
       {{1, 1, 5}},
       {1, 1, 3},
       [](const Values& x, const Index& i) {
         double best = -1e30;
         for (int64_t w = i[2] * 5 / 3; w < ((i[2] + 1) * 5 + 2) / 3; ++w)
           best = std::max(best, x(0, {0, 0, w}));
         return best;
       }},
  });
}

/// Such that one dimension is combined after the other.
TEST(PoolOps, LongWindowsMatchTheDefinition) {
  const Pool seven{7, 1, 3}, counted{7, 1, 3, true}, dilated{5, 1, 4, false, 2}, strided{9, 2, 4};
  check_rows({
      {"max 7x7", "nn.max_pool2d", pool_attrs(seven), {{1, 2, 9, 11}}, {1, 2, 9, 11}, max_of(seven)},
      {"mean 7x7", "nn.avg_pool2d", pool_attrs(seven), {{1, 2, 9, 11}}, {1, 2, 9, 11}, mean_of(seven)},
      {"mean, counted",
       "nn.avg_pool2d",
       pool_attrs(counted),
       {{1, 2, 9, 11}},
       {1, 2, 9, 11},
       mean_of(counted)},
      {"max, dilated", "nn.max_pool2d", pool_attrs(dilated), {{1, 2, 9, 11}}, {1, 2, 9, 11}, max_of(dilated)},
      {"mean, strided",
       "nn.avg_pool2d",
       pool_attrs(strided),
       {{1, 2, 19, 21}},
       {1, 2, 10, 11},
       mean_of(strided)},
      {"max, blocked",
       "nn.max_pool2d",
       pool_attrs(seven, false, "NCHW4c"),
       {{1, 2, 9, 11, 4}},
       {1, 2, 9, 11, 4},
       max_of(seven)},
      {"max, strided and blocked",
       "nn.max_pool2d",
       pool_attrs(strided, false, "NCHW4c"),
       {{1, 2, 19, 21, 4}},
       {1, 2, 10, 11, 4},
       max_of(strided)},
  });
}

TEST(PoolOps, Refuse) {
  EXPECT_EQ(relation_error("nn.max_pool2d", {}, {{1, 3, 8, 8}}), "nn.max_pool2d: pool_size is missing");
  EXPECT_EQ(relation_error("nn.avg_pool2d", pool_attrs({20}), {{1, 3, 8, 8}}),
            "nn.avg_pool2d: data of shape (1, 3, 8, 8) is smaller than the window along H");
}

}  // namespace
}  // namespace lathe::relay
