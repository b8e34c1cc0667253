#include "core/tir/regions.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/tir/text.h"

namespace lathe::tir {
namespace {

/// Seconds to ask 20 times what a sum of 400 loads reads; each is `apart` elements from the one before.
double seconds_of(int apart) {
  std::string sum;
  for (int k = 0; k < 400; ++k)
    sum += fmt::format("{}x[(i * 12 + j + {}) // 7 % 5, select(i < 4, (i * 12 + j) % 7, 6 - j % 5)]",
                       k > 0 ? " + " : "", k * apart);
  const Func func = parse_func(
      "func f(x: float32[5, 7]) -> (y: float32[8, 12]) { for i in 0..8 { for j in 0..12 { y[i, j] = " + sum +
      " } } }");
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < 20; ++k) EXPECT_EQ(accesses_of(func->body, Analyzer()).reads.size(), 1);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Blocks that hundreds of others were inlined in read one element again and again, and each inlining asks
/// anew what is read: comparing costs less than simplifying.
TEST(Regions, TheSameElementAgainCostsLittle) { EXPECT_LT(seconds_of(0), seconds_of(1) / 2); }

}  // namespace
}  // namespace lathe::tir
