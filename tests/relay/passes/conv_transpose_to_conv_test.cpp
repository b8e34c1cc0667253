#include "core/relay/passes/conv_transpose_to_conv.h"

#include <gtest/gtest.h>

#include <random>

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"
#include "tests/relay/passes/closed.h"

namespace lathe::relay {
namespace {

using Index = std::vector<int64_t>;

bool calls_transposed(const Module& module) {
  return print(module, {.metadata = false}).find("d_transpose(") != std::string::npos;
}

struct Case {
  int64_t groups = 1;
  Index data, weight, strides, dilation, padding, output_padding;
  Expr call() const {
    auto a = std::make_unique<ConvTransposeAttrs>();
    a->strides = strides, a->dilation = dilation, a->padding = padding, a->output_padding = output_padding;
    a->groups = groups;
    Expr x = typed_constant(random_tensor(data, kFloat32, 1));
    Expr w = typed_constant(random_tensor(weight, kFloat32, 2));
    return typed_call(fmt::format("nn.conv{}d_transpose", strides.size()), {x, w}, seal(std::move(a)));
  }
};

/// A transposed convolution with anything in it, of few elements.
Case drawn(uint64_t seed) {
  std::mt19937_64 engine(seed);
  auto upto = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  };
  int64_t rank = upto(1, 3);
  Case c{.groups = upto(1, 3)};
  c.data = {upto(1, 2), c.groups * upto(1, 3)};
  // Blocks of channels, now and then.
  c.weight = {c.data[1], upto(0, 3) ? upto(1, 3) : 8};
  Index after;
  for (int64_t s = 0; s < rank; ++s) {
    c.data.push_back(upto(1, rank == 3 ? 4 : 6));
    c.weight.push_back(upto(1, rank == 3 ? 3 : 5));
    c.strides.push_back(upto(1, rank == 3 ? 3 : 4));
    c.dilation.push_back(upto(1, 4));
    c.output_padding.push_back(upto(0, 3));
    int64_t most = (c.data.back() - 1) * c.strides.back() + (c.weight.back() - 1) * c.dilation.back() +
                   c.output_padding.back();
    c.padding.push_back(upto(0, std::min<int64_t>(most, 5)));
    after.push_back(upto(0, std::min<int64_t>(most - c.padding.back(), 5)));
  }
  c.padding.insert(c.padding.end(), after.begin(), after.end());
  return c;
}

TEST(ConvTransposeToConv, ComputesTheSameWhateverTheAttributes) {
  int rewritten = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Expr call = drawn(seed).call();
    Module module = closed(call), result = conv_transpose_to_conv(module);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(module, {.metadata = false})));
    EXPECT_TRUE(structural_equal(result->functions.at("main")->body->checked_type, call->checked_type));
    ASSERT_LT(max_relative_error(value_of(result), value_of(module)), 1e-5);
    rewritten += !calls_transposed(result);
  }
  EXPECT_GT(rewritten, 300) << "results that see nothing of the data stay, no others";
}

/// The kernel of the one convolution in the text of the pass's result.
std::string shape_of_kernel(const Case& c) {
  Index shape;
  post_order(conv_transpose_to_conv(closed(c.call()))->functions.at("main")->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    if (call && call->attrs.as<ConvAttrs>())
      shape = constant_shape(*call->args[1]->checked_type.as<TensorType>());
  });
  return shape_text(shape);
}

TEST(ConvTransposeToConv, MultipliesNoMoreThanItMust) {
  Case c{
      .data = {1, 8, 6, 6}, .weight = {8, 4, 4, 4}, .strides = {2, 2}, .dilation = {1, 1}, .padding = {1, 1}};
  EXPECT_EQ(shape_of_kernel(c), "(16, 8, 2, 2)") << "2 of 4 taps are of each phase, if the result is cut";
  c.weight = {8, 4, 3, 3};
  EXPECT_EQ(shape_of_kernel(c), "(16, 8, 2, 2)");
  c.weight = {8, 4, 2, 2}, c.padding = {};
  EXPECT_EQ(shape_of_kernel(c), "(16, 8, 1, 1)");
  c.weight = {8, 4, 3, 3}, c.dilation = {4, 4};
  EXPECT_EQ(shape_of_kernel(c), "(16, 8, 3, 3)") << "dilation is left where it can be";
  c.data = {1, 8, 1, 6}, c.weight = {8, 4, 4, 4}, c.dilation = {1, 1}, c.padding = {0, 1};
  EXPECT_EQ(shape_of_kernel(c), "(32, 8, 1, 2)") << "one element in an axis is in one window of it";
}

TEST(ConvTransposeToConv, LeavesOtherLayouts) {
  auto a = std::make_unique<ConvTransposeAttrs>();
  a->data_layout = "NHWC";
  Expr x = typed_constant(random_tensor({1, 4, 4, 2}, kFloat32, 1));
  Expr w = typed_constant(random_tensor({2, 3, 3, 3}, kFloat32, 2));
  EXPECT_TRUE(calls_transposed(
      conv_transpose_to_conv(closed(typed_call("nn.conv2d_transpose", {x, w}, seal(std::move(a)))))));
}

}  // namespace
}  // namespace lathe::relay
