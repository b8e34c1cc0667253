#include "tuner/checked_build.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/codegen/host_target.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_nn.h"
#include "tuner/optimize.h"

namespace lathe::tuner {
namespace {

class CheckedBuildTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!target_.converts_half()) GTEST_SKIP() << "this machine has no instruction for half precision";
  }

  /// x times random weights of that size.
  relay::Module dense(double scale) const {
    const int64_t out = 512, in = target_.l2_bytes / 4 / out;
    relay::Type type = relay::tensor_type(std::vector<int64_t>{1, in}, kFloat32);
    auto node = mutate(*relay::make_var("x", type));
    node->checked_type = type;
    relay::Var x = seal(std::move(node));
    relay::Expr weights = relay::typed_constant(random_tensor({out, in}, kFloat32, 3, scale));
    relay::Expr body = relay::typed_call("nn.dense", {x, weights}, make<relay::DenseAttrs>());
    return optimize(relay::make_module(make<relay::Function>(
                        std::vector<relay::TypeVar>{}, std::vector<relay::Var>{x}, relay::Type(), body)),
                    target_);
  }

  CheckedBuild build(double scale, schedule::Rounding rounding) const {
    return checked_build(dense(scale), target_, default_schedules(target_, rounding),
                         default_schedules(target_), 1e-3);
  }

  /// Of its outputs from those of a build that rounds nothing.
  double error(const CheckedBuild& build, double scale) const {
    auto exact = runtime::Module::from_image(final_build(dense(scale), target_, default_schedules(target_)));
    return output_difference(runtime::Module::from_image(build.image), exact);
  }

  const Target target_ = codegen::host_target();
};

TEST_F(CheckedBuildTest, RoundsOrdinaryWeights) {
  CheckedBuild rounded = build(1, schedule::Rounding::kHalfWeights);
  EXPECT_FALSE(rounded.refused);
  EXPECT_GT(rounded.difference, 1e-6);
  EXPECT_LT(rounded.difference, 1e-3);
  EXPECT_EQ(error(rounded, 1), rounded.difference);
  CheckedBuild exact = build(1, schedule::Rounding::kNone);
  EXPECT_EQ(exact.difference, 0);
  EXPECT_LT(rounded.image.plan.constant_bytes, exact.image.plan.constant_bytes * 6 / 10);
}

TEST_F(CheckedBuildTest, DoesNotRoundWeightsThatHalfPrecisionHasNoRoomFor) {
  for (double scale : {1e-7, 1e5}) {
    CheckedBuild refused = build(scale, schedule::Rounding::kHalfWeights);
    EXPECT_TRUE(refused.refused) << scale;
    EXPECT_GT(refused.difference, 1e-3) << scale;
    EXPECT_LT(error(refused, scale), 1e-5) << scale;
  }
}

}  // namespace
}  // namespace lathe::tuner
