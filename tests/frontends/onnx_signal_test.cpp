// Fourier transforms against their definition, short ones and those that are split into shorter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "tests/frontends/one_node.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {
using Numbers = std::vector<std::complex<double>>;

Numbers transform(const Numbers& x, bool inverse) {
  const size_t n = x.size();
  Numbers y(n);
  for (size_t k = 0; k < n; ++k)
    for (size_t j = 0; j < n; ++j)
      y[k] += x[j] *
              std::polar(
                  1.0, (inverse ? 2 : -2) * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n)) /
              (inverse ? static_cast<double>(n) : 1.0);
  return y;
}

/// Row `row` of (rows, n, parts).
Numbers row_of(const Tensor& x, int64_t row) {
  const int64_t n = x.shape()[1], parts = x.shape()[2];
  Numbers result;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (row * n + i) * parts;
    result.emplace_back(x.value(at), parts == 2 ? x.value(at + 1) : 0);
  }
  return result;
}

void expect_near(const Tensor& ours, int64_t row, const Numbers& expected) {
  const Numbers got = row_of(ours, row);
  ASSERT_LE(got.size(), expected.size());
  double largest = 0;
  for (const std::complex<double>& value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].real(), expected[i].real(), 2e-6 * largest) << i << " of " << expected.size();
    if (ours.shape()[2] == 2) {
      EXPECT_NEAR(got[i].imag(), expected[i].imag(), 2e-6 * largest) << i << " of " << expected.size();
    }
  }
}

constexpr int64_t kLengths[] = {1, 2, 7, 60, 251, 256, 289, 360, 1024};

TEST(OnnxSignal, TransformsAreThoseOfTheDefinition) {
  for (int64_t n : kLengths)
    for (int64_t parts : {1, 2})
      for (bool inverse : {false, true}) {
        const Tensor x = random_tensor({2, n, parts}, kFloat32, 1);
        const Tensor axis = tensor_of<int64_t>({1}, {}, kInt64);
        const Tensor y = run("DFT", {x, {}, axis}, bytes::integer("inverse", inverse))[0];
        ASSERT_EQ(y.shape(), (std::vector<int64_t>{2, n, 2}));
        for (int64_t row : {0, 1}) expect_near(y, row, transform(row_of(x, row), inverse));
      }
}

/// One signal without a batch, since opset 20.
TEST(OnnxSignal, TransformsOfRankTwo) {
  const Tensor x = random_tensor({7, 1}, kFloat32, 1);
  Tensor batch({1, 7, 1}, kFloat32);
  std::copy_n(x.as<float>(), 7, batch.as<float>());
  const Tensor alone = run("DFT", {x, {}, tensor_of<int64_t>({0}, {}, kInt64)})[0],
               beside = run("DFT", {batch, {}, tensor_of<int64_t>({1}, {}, kInt64)})[0];
  ASSERT_EQ(alone.shape(), (std::vector<int64_t>{7, 2}));
  EXPECT_TRUE(std::equal(alone.as<float>(), alone.as<float>() + 14, beside.as<float>()));
}

/// The half that tells the rest of a spectrum, and back.
TEST(OnnxSignal, HalvesOfSpectraOfRealNumbers) {
  for (int64_t n : kLengths) {
    if (n < 2) continue;
    const Tensor x = random_tensor({2, n, 1}, kFloat32, 2), axis = tensor_of<int64_t>({1}, {}, kInt64),
                 length = tensor_of<int64_t>({n}, {}, kInt64);
    const Tensor half = run("DFT", {x, length, axis}, bytes::integer("onesided", 1))[0];
    ASSERT_EQ(half.shape(), (std::vector<int64_t>{2, n / 2 + 1, 2}));
    const Tensor back =
        run("DFT", {half, length, axis}, bytes::integer("onesided", 1) + bytes::integer("inverse", 1))[0];
    ASSERT_EQ(back.shape(), x.shape());
    for (int64_t row : {0, 1}) {
      expect_near(half, row, transform(row_of(x, row), false));
      expect_near(back, row, row_of(x, row));
    }
  }
}

/// Of one element there is no period.
TEST(OnnxSignal, AWindowOfOneElementIsOne) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    const Tensor size = tensor_of<int64_t>({1}, {}, kInt64);
    EXPECT_THAT(values(run(op, {size}, bytes::integer("periodic", 0))[0]), testing::ElementsAre(1)) << op;
  }
}

/// Edges of bins that are no numbers, or no such numbers as places are, were made places.
TEST(OnnxSignal, MelEdgesThatCannotBeAreRefused) {
  auto said_of = [](const std::vector<int64_t>& counts, float low, float high) {
    std::vector<Tensor> inputs;
    for (int64_t count : counts) inputs.push_back(tensor_of<int64_t>({count}, {}, kInt64));
    for (float edge : {low, high}) inputs.push_back(floats({edge}, {}));
    return thrown_by([&] { run("MelWeightMatrix", inputs); });
  };
  EXPECT_EQ(said_of({8, 16, 8192}, 0, 4096), "no error");
  for (const auto& [low, high] : std::vector<std::pair<float, float>>{
           {-1000, 500}, {0, 1e30F}, {0, INFINITY}, {NAN, 500}, {0, NAN}, {500, 100}, {-INFINITY, 0}})
    EXPECT_THAT(
        said_of({8, 16, 8192}, low, high),
        testing::HasSubstr(fmt::format("frequencies from {} to {}, must rise from 0 to half the sample "
                                       "rate of 8192 at most",
                                       static_cast<double>(low), static_cast<double>(high))));
  for (const int64_t count : {INT64_MAX, INT64_MIN})
    EXPECT_THAT(said_of({count, 16, 8192}, 0, 4096), testing::HasSubstr("is out of range"));
}

}  // namespace
}  // namespace lathe::onnx
