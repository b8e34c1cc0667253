#include <cmath>

#include "tests/relay/ops/op_rows.h"

namespace lathe::relay {
namespace {

/// sum over k < depth of a(k) * b(k)
template <typename F>
double dot(int64_t depth, F&& term) {
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k) sum += term(k);
  return sum;
}

TEST(DenseOps, MatchTheDefinition) {
  Attrs both = attrs<MatmulAttrs>([](auto& a) { a.transpose_a = true; });
  Attrs packed = attrs<DenseAttrs>([](auto& a) { a.weight_layout = "NC2n"; });
  check_rows({
      {"dense",
       "nn.dense",
       {},
       {{2, 3}, {4, 3}},
       {2, 4},
       [](const Values& x, const Index& i) {
         return dot(3, [&](int64_t k) { return x(0, {i[0], k}) * x(1, {i[1], k}); });
       }},
      {"dense of rank 3",
       "nn.dense",
       {},
       {{2, 2, 3}, {4, 3}},
       {2, 2, 4},
       [](const Values& x, const Index& i) {
         return dot(3, [&](int64_t k) { return x(0, {i[0], i[1], k}) * x(1, {i[2], k}); });
       }},
      {"packed",
       "nn.contrib_dense_pack",
       packed,
       {{2, 3}, {2, 3, 2}},
       {2, 4},
       [](const Values& x, const Index& i) {
         return dot(3, [&](int64_t k) { return x(0, {i[0], k}) * x(1, {i[1] / 2, k, i[1] % 2}); });
       }},
      {"weights of blocks",
       "nn.block_dense",
       {},
       {{2, 2, 6}, {4, 3, 2}, {4, 3}},
       {2, 2, 4},
       [](const Values& x, const Index& i) {
         return dot(6, [&](int64_t k) {
           return x(0, {i[0], i[1], k}) * x(1, {i[2], k / 2, k % 2}) * x(2, {i[2], k / 2});
         });
       },
       kInt32},
      {"matmul",
       "nn.matmul",
       both,
       {{3, 2}, {3, 4}},
       {2, 4},
       [](const Values& x, const Index& i) {
         return dot(3, [&](int64_t k) { return x(0, {k, i[0]}) * x(1, {k, i[1]}); });
       }},
      {"batch_matmul",
       "nn.batch_matmul",
       {},
       {{2, 5, 3}, {1, 4, 3}},
       {2, 5, 4},
       [](const Values& x, const Index& i) {
         return dot(3, [&](int64_t k) { return x(0, {i[0], i[1], k}) * x(1, {0, i[2], k}); });
       }},
  });
}

/// Two rows of two blocks of 16, a column of weights from -3 to 12 by two bits or more, in vectors of 2
/// columns.
TEST(DenseOps, MultiplyPackedBlocks) {
  for (int64_t bits : {2, 4, 8}) {
    SCOPED_TRACE(bits);
    const int64_t digits = 8 / bits, groups = 4 / digits;
    const Tensor data = random_tensor({2, 32}, kInt8, 1), scale = random_tensor({2, 2}, kFloat32, 2);
    const Tensor weight = random_tensor({2, 2, groups, 2, 4}, kUInt8, 3),
                 weight_scale = random_tensor({2, 2, 2}, kFloat32, 4);
    Tensor sums = zeros({2, 2}, kInt32);
    for (int64_t i = 0; i < data.size(); ++i)
      sums.as<int32_t>()[i / 16] += static_cast<int32_t>(data.integer(i));
    for (const Tensor& zero : {full({1, 1, 1}, kUInt8, 3), random_tensor({2, 2, 2}, kUInt8, 5)}) {
      const Tensor result =
          run_op("nn.contrib_block_dense_pack", attrs<PackedBlockAttrs>([&](auto& a) { a.bits = bits; }),
                 {data, scale, sums, weight, weight_scale, zero})[0];
      ASSERT_EQ(result.shape(), (Index{2, 4}));
      for (int64_t m = 0; m < 2; ++m)
        for (int64_t n = 0; n < 4; ++n) {
          double expected = 0;
          for (int64_t k = 0; k < 32; ++k) {
            const int64_t block = k / 16, group = k % 16 / 4, lane = (n / 2 * 2 + block) * 2 + n % 2;
            const int64_t place = (((n / 2 * 2 + block) * groups + group % groups) * 2 + n % 2) * 4 + k % 4;
            const int64_t number = weight.integer(place) >> (group / groups * bits) & ((1 << bits) - 1);
            expected += scale.value(2 * m + block) * weight_scale.value(lane) *
                        static_cast<double>(data.integer(32 * m + k)) *
                        static_cast<double>(number - zero.integer(zero.size() == 1 ? 0 : lane));
          }
          EXPECT_NEAR(result.value(4 * m + n), expected, 1e-3 * std::abs(expected) + 1e-3);
        }
    }
  }
}

TEST(DenseOps, Refuse) {
  EXPECT_EQ(relation_error("nn.dense", {}, {{2, 3}, {4, 5}}),
            "nn.dense: shapes (2, 3) and (4, 5) do not multiply: 3 is not 5");
  EXPECT_EQ(relation_error("nn.batch_matmul", {}, {{2, 3, 4}, {3, 5, 4}}),
            "nn.batch_matmul: shapes (2) and (3) do not broadcast");
}

struct Moments {
  double mean = 0, variance = 0;
};
/// Of the elements that `inside` accepts, of a (2, 4, 3) input.
template <typename F>
Moments moments(const Values& x, F&& inside) {
  double sum = 0, squares = 0;
  int64_t count = 0;
  for (int64_t n = 0; n < 24; ++n) {
    Index i{n / 12, n / 3 % 4, n % 3};
    if (!inside(i)) continue;
    sum += x(0, i), squares += x(0, i) * x(0, i), ++count;
  }
  double mean = sum / static_cast<double>(count);
  return {mean, squares / static_cast<double>(count) - mean * mean};
}
double affine(const Values& x, const Index& i, const Moments& m, int64_t channel) {
  return (x(0, i) - m.mean) / std::sqrt(m.variance + 1e-5) * x(1, {channel}) + x(2, {channel});
}

TEST(NormOps, MatchTheDefinition) {
  std::vector<Index> in{{2, 4, 3}, {4}, {4}};
  check_rows({
      {"layer_norm",
       "nn.layer_norm",
       {},
       {{2, 4, 3}, {3}, {3}},
       {2, 4, 3},
       [](const Values& x, const Index& i) {
         return affine(x, i, moments(x, [&](const Index& j) { return j[0] == i[0] && j[1] == i[1]; }), i[2]);
       }},
      {"standardize",
       "nn.standardize",
       attrs<StandardizeAttrs>([](auto& a) {
         a.axes = {-1, 1};
       }),
       {{2, 4, 3}},
       {2, 4, 3},
       [](const Values& x, const Index& i) {
         Moments m = moments(x, [&](const Index& j) { return j[0] == i[0]; });
         return (x(0, i) - m.mean) / std::sqrt(m.variance + 1e-5);
       }},
      {"standardize, not centred",
       "nn.standardize",
       attrs<StandardizeAttrs>([](auto& a) { a.axes = {1}, a.epsilon = 0.5, a.center = false; }),
       {{2, 4, 3}},
       {2, 4, 3},
       [](const Values& x, const Index& i) {
         double squares = dot(4, [&](int64_t k) { return std::pow(x(0, {i[0], k, i[2]}), 2); });
         return x(0, i) / std::sqrt(squares / 4 + 0.5);
       }},
      {"instance_norm",
       "nn.instance_norm",
       {},
       in,
       {2, 4, 3},
       [](const Values& x, const Index& i) {
         return affine(x, i, moments(x, [&](const Index& j) { return j[0] == i[0] && j[1] == i[1]; }), i[1]);
       }},
      {"group_norm",
       "nn.group_norm",
       attrs<NormAttrs>([](auto& a) { a.num_groups = 2; }),
       in,
       {2, 4, 3},
       [](const Values& x, const Index& i) {
         return affine(x, i, moments(x, [&](const Index& j) { return j[0] == i[0] && j[1] / 2 == i[1] / 2; }),
                       i[1]);
       }},
      {"lrn",
       "nn.lrn",
       attrs<LrnAttrs>([](auto& a) { a.size = 3; }),
       {{1, 5, 2}},
       {1, 5, 2},
       [](const Values& x, const Index& i) {
         double sum = 0;
         for (int64_t c = i[1] - 1; c <= i[1] + 1; ++c) sum += std::pow(x(0, {0, c, i[2]}), 2);
         return x(0, i) / std::pow(2 + 1e-4 / 3 * sum, 0.75);
       }},
      {"l2_normalize",
       "nn.l2_normalize",
       attrs<L2NormalizeAttrs>([](auto& a) { a.axis = {1}; }),
       {{2, 3}},
       {2, 3},
       [](const Values& x, const Index& i) {
         return x(0, i) / std::sqrt(dot(3, [&](int64_t k) { return std::pow(x(0, {i[0], k}), 2); }));
       }},
  });
}

TEST(NormOps, Refuse) {
  Attrs batch = attrs<NormAttrs>([](auto& a) { a.num_groups = 2, a.axis = -3; });
  EXPECT_EQ(relation_error("nn.group_norm", batch, {{4, 3, 2}, {4}, {4}}),
            "nn.group_norm: axis is -3, which is the batch's");
}

TEST(NormOps, BatchNormGivesItsStatistics) {
  std::vector<Tensor> in{random_tensor({2, 3, 2}, kFloat32, 1)};
  for (uint64_t seed = 2; seed < 6; ++seed) in.push_back(random_tensor({3}, kFloat32, seed));
  for (float& v : in[4].span<float>()) v = std::fabs(v);
  std::vector<Tensor> out = run_op("nn.batch_norm", {}, in);
  ASSERT_EQ(out.size(), 3u);
  for (int64_t i = 0; i < 12; ++i) {
    int64_t c = i / 2 % 3;
    double expected = (in[0].value(i) - in[3].value(c)) / std::sqrt(in[4].value(c) + 1e-5) * in[1].value(c) +
                      in[2].value(c);
    EXPECT_NEAR(out[0].value(i), expected, 1e-4);
  }
  EXPECT_EQ(out[1].value(2), in[3].value(2));
  EXPECT_EQ(out[2].value(2), in[4].value(2));
}

}  // namespace
}  // namespace lathe::relay
