#include <gtest/gtest.h>

#include <algorithm>

#include "core/support/error.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/verify.h"
#include "schedules/primitive.h"
#include "schedules/program.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

/// A schedule of `func` that begins with `strassen` and stops there.
tir::Func rewritten(const tir::Func& func, const std::string& block, int64_t half) {
  Schedule s(func);
  s.strassen(s.get_block(block), s.sample_categorical({half}));
  return s.func();
}

TEST(Strassen, KeepsMeaningForAllSizes) {
  for (auto [m, n, k] : {std::tuple{8, 16, 12}, {5, 11, 7}, {1, 4, 2}, {6, 3, 1}})
    for (int64_t batch : {1, 2, 3})
      for (bool transposed : {false, true})
        for (int64_t half : {1, 2, 4}) {
          if (half > n || (m == 1 && batch == 1) || k == 1) continue;
          SCOPED_TRACE(fmt::format("{} x {} x {} x {}, halves of {}", batch, m, n, k, half));
          tir::Func func = product({.batch = batch,
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .transpose_x = transposed,
                                    .transpose_y = transposed,
                                    .shared = true,
                                    .bias = true},
                                   kFloat64);
          expect_same_results(func, rewritten(func, "product", half));
        }
}

TEST(Strassen, PackedWeights) {
  tir::Func func = dense(6, 32, 10, kFloat64);
  expect_same_results(func, rewritten(func, "dense", 8));
  expect_same_results(func, rewritten(func, "dense", 16));
}

std::string refusal(const tir::Func& func, const std::string& block, int64_t half) {
  return refusal_of(func, [&](Schedule& s) { s.strassen(s.get_block(block), s.sample_categorical({half})); });
}

TEST(Strassen, RefusesWhatItCannotRewrite) {
  EXPECT_EQ(refusal(max_pool(1, 9, kFloat32), "pool", 1),
            "strassen: block `pool` is no sum of products of two elements");
  EXPECT_EQ(refusal(matmul(4, 4, 4, kInt32), "matmul", 1),
            "strassen: block `matmul` does not compute with floats");
  EXPECT_EQ(refusal(conv2d({}, kFloat32), "conv", 1),
            "strassen: block `conv` sums over more than one variable");
  EXPECT_EQ(refusal(product({.shared = false}, kFloat32), "product", 1),
            "strassen: block `product` is no product of rows and columns");
  EXPECT_EQ(refusal(product({.batch = 1, .m = 1, .shared = true}, kFloat32), "product", 1),
            "strassen: block `product` has no rows, no columns, or nothing to sum over");
  EXPECT_EQ(refusal(matmul(4, 4, 4, kFloat32), "matmul", 0),
            "strassen: half a band has 0 columns, must be 1 to all 4");
  EXPECT_EQ(refusal(matmul(4, 4, 4, kFloat32), "matmul", 5),
            "strassen: half a band has 5 columns, must be 1 to all 4");
}

const DesignSpace* strassen_space(const tir::Func& func) {
  const std::vector<const DesignSpace*> spaces = spaces_for(func, avx512_target());
  auto found = std::find_if(spaces.begin(), spaces.end(),
                            [](const DesignSpace* space) { return space->name == std::string("strassen"); });
  return found == spaces.end() ? nullptr : *found;
}

TEST(Strassen, EverySampleOfItsSpaceKeepsMeaningAndLowers) {
  const Product odd{
      .batch = 3, .m = 65, .n = 135, .k = 257, .transpose_y = true, .shared = true, .bias = true};
  for (const tir::Func& plain : {dense(66, 128, 256, kFloat32), product(odd, kFloat32)}) {
    tir::Func func = tir::with_constant_params(plain, 0b10);
    const DesignSpace* space = strassen_space(func);
    ASSERT_NE(space, nullptr) << plain->name;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Schedule s = sample(*space, func, avx512_target(), seed);
      SCOPED_TRACE(to_text(s.trace()));
      expect_sound(func, s);
    }
  }
}

/// As a default the direct algorithm stays: the weights take no more memory, and no digit is lost.
TEST(Strassen, IsOfferedWhereItMayPayAndNeverByDefault) {
  auto of = [](int64_t m, int64_t n, int64_t k, DataType dtype = kFloat32) {
    return tir::with_constant_params(dense(m, n, k, dtype), 0b10);
  };
  EXPECT_NE(strassen_space(of(128, 768, 768)), nullptr);
  EXPECT_EQ(strassen_space(of(16, 768, 768)), nullptr) << "weights would be read for few rows";
  EXPECT_EQ(strassen_space(of(128, 768, 128)), nullptr);
  EXPECT_EQ(strassen_space(of(128, 64, 768)), nullptr);
  EXPECT_EQ(strassen_space(of(128, 768, 768, kFloat64)), nullptr);
  EXPECT_EQ(strassen_space(dense(128, 768, 768, kFloat32)), nullptr) << "weights that are no constants";
  const Trace trace = default_trace(of(128, 768, 768), avx512_target());
  for (const Step& step : trace.steps) EXPECT_NE(step.primitive->name, std::string("strassen"));
}

}  // namespace
}  // namespace lathe::schedule
