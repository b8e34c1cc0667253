#include "core/relay/analysis/told_dims.h"

#include <gtest/gtest.h>

#include "core/relay/text.h"

namespace lathe::relay {
namespace {

/// "n: 1.0", a dimension and where it is told, for each.
std::string told_by(const std::string& params) {
  const Module module = parse_module("def @main(" + params + ") { 0f }");
  std::string text;
  for (const ToldDim& each : told_dims(*module->functions.at("main")))
    text += fmt::format("{}{}: {}.{}", text.empty() ? "" : ", ", each.dim->name, each.tensor, each.axis);
  return text;
}

TEST(ToldDims, StandByThemselvesOrAreTheLastUnknown) {
  EXPECT_EQ(told_by("%x: Tensor[(n, 3, m), float32], %y: Tensor[(m, k), float32]"), "n: 0.0, m: 0.2, k: 1.1");
  EXPECT_EQ(told_by("%x: Tensor[(2 * k), float32]"), "k: 0.0");
  EXPECT_EQ(told_by("%x: Tensor[(2 * k + n), float32], %y: Tensor[(5, n), float32]"), "n: 1.1, k: 0.0");
  EXPECT_EQ(told_by("%x: Tensor[(k + m), float32], %y: Tensor[(3 * m), float32]"), "m: 1.0, k: 0.0")
      << "which waits for the other";
  EXPECT_EQ(told_by("%x: Tensor[(k + m), float32], %y: Tensor[(k * k), float32]"), "");
}

TEST(ToldDims, CountTensorsOfTuples) {
  EXPECT_EQ(told_by("%x: (Tensor[(3), float32], Tensor[(n), float32]), %y: Tensor[(n - m), float32]"),
            "n: 1.0, m: 2.0");
}

}  // namespace
}  // namespace lathe::relay
