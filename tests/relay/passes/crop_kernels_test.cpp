#include "core/relay/passes/crop_kernels.h"

#include <gtest/gtest.h>

#include <random>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/text.h"
#include "tests/relay/passes/closed.h"

namespace lathe::relay {
namespace {

using Index = std::vector<int64_t>;

TEST(CropKernels, ComputesTheSameWhateverTheAttributes) {
  int cropped = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 engine(seed);
    auto upto = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
    };
    auto a = std::make_unique<ConvAttrs>();
    int64_t rank = upto(1, 3), groups = upto(1, 2);
    a->groups = groups;
    Index data{1, groups * 2}, weight{groups * upto(1, 2), 2}, after;
    for (int64_t s = 0; s < rank; ++s) {
      weight.push_back(upto(1, 4));
      a->strides.push_back(upto(1, 3)), a->dilation.push_back(upto(1, 6));
      int64_t span = (weight.back() - 1) * a->dilation.back() + 1;
      data.push_back(upto(1, 5));
      a->padding.push_back(upto(0, span)), after.push_back(std::max<int64_t>(span - data.back(), upto(0, 7)));
    }
    a->padding.insert(a->padding.end(), after.begin(), after.end());
    const char* op = rank == 1 ? "nn.conv1d" : rank == 2 ? "nn.conv2d" : "nn.conv3d";
    Expr x = typed_constant(random_tensor(data, kFloat32, engine(), 0.5));
    Expr body = typed_call(op, {x, typed_constant(random_tensor(weight, kFloat32, engine(), 0.5))},
                           seal(std::move(a)));
    Module module = closed(body);
    Module result = map_functions(module, [](const Ref<Function>& f) { return crop_kernels(f); });
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(module, {.metadata = false})));
    EXPECT_TRUE(structural_equal(result->functions.at("main")->body->checked_type, body->checked_type));
    ASSERT_LT(max_relative_error(value_of(result), value_of(module)), 1e-5);
    cropped += !(result == module);
  }
  EXPECT_GT(cropped, 50);
}

TEST(SplitConvolutions, ComputesTheSameWhateverTheAttributes) {
  int split = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937_64 engine(seed);
    auto upto = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
    };
    auto a = std::make_unique<ConvAttrs>();
    Index data{1, 128}, weight{24, 128}, after;
    for (int64_t s = 0; s < 2; ++s) {
      weight.push_back(upto(2, 3));
      a->strides.push_back(upto(1, 2)), a->dilation.push_back(upto(1, 8));
      int64_t span = (weight.back() - 1) * a->dilation.back() + 1;
      data.push_back(upto(14, 20));
      a->padding.push_back(upto(0, span - 1)), after.push_back(upto(0, span - 1));
    }
    a->padding.insert(a->padding.end(), after.begin(), after.end());
    Expr x = typed_constant(random_tensor(data, kFloat32, engine(), 0.5));
    Expr body = typed_call("nn.conv2d", {x, typed_constant(random_tensor(weight, kFloat32, engine(), 0.5))},
                           seal(std::move(a)));
    Module module = closed(body);
    Module result = map_functions(module, [](const Ref<Function>& f) { return split_convolutions(f); });
    if (result == module) continue;
    ++split;
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(module, {.metadata = false})));
    EXPECT_TRUE(structural_equal(result->functions.at("main")->body->checked_type, body->checked_type));
    ASSERT_LT(max_relative_error(value_of(result), value_of(module)), 1e-5);
  }
  EXPECT_GE(split, 3);
}

}  // namespace
}  // namespace lathe::relay
