// Corners of operators where the standard says what is easily got wrong. Numbers without a formula are those
// of ONNX Runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/frontends/one_node.h"

namespace lathe::onnx {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::Pointwise;
MATCHER(IsNear, "") { return std::fabs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5; }

/// By the rules of an older version.
Tensor run_at_opset(int64_t opset, const std::string& op, const Tensor& input,
                    const std::string& attributes) {
  return outputs_of(
      import_bytes(bytes::model(bytes::node(op, {"x"}, {"y"}, attributes), bytes::input("x"), {"y"}, opset),
                   "m.onnx", {.constants = {{"x", input}}}))[0];
}

/// noop_with_empty_axes: of no axes, each element alone is what is reduced.
TEST(OnnxStandard, ReductionsOverNoAxesStillCompute) {
  const Tensor x = floats({-2, 3, 0.5}, {3});
  const auto reduced = [&](const char* op) {
    return values(run(op, {x}, bytes::integer("noop_with_empty_axes", 1))[0]);
  };
  EXPECT_THAT(reduced("ReduceSumSquare"), ElementsAre(4, 9, 0.25));
  EXPECT_THAT(reduced("ReduceL1"), ElementsAre(2, 3, 0.5));
  EXPECT_THAT(reduced("ReduceL2"), Pointwise(IsNear(), {2., 3., 0.5}));
  EXPECT_THAT(reduced("ReduceSum"), ElementsAre(-2, 3, 0.5));
  EXPECT_THAT(reduced("ReduceLogSumExp"), Pointwise(IsNear(), {-2., 3., 0.5}));
  const std::vector<double> logs = reduced("ReduceLogSum");
  EXPECT_TRUE(std::isnan(logs[0]));
  EXPECT_NEAR(logs[1], std::log(3), 1e-6);
}

TEST(OnnxStandard, HardmaxWasOfRowsFromItsAxisOn) {
  const Tensor x = floats({1, 5, 7, 2, 0, 0, -1, 0}, {2, 2, 2});
  EXPECT_THAT(values(run_at_opset(11, "Hardmax", x, bytes::integer("axis", 1))),
              ElementsAre(0, 0, 1, 0, 1, 0, 0, 0));
  EXPECT_THAT(values(run_at_opset(13, "Hardmax", x, bytes::integer("axis", 1))),
              ElementsAre(0, 1, 1, 0, 1, 1, 0, 0));
}

}  // namespace
}  // namespace lathe::onnx
