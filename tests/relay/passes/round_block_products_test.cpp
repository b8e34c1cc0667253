#include "core/relay/passes/round_block_products.h"

#include <gtest/gtest.h>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/ops/attrs_nn.h"
#include "tests/relay/passes/closed.h"

namespace lathe::relay {
namespace {

/// Integers from `low` on, `count` of them.
Tensor numbers(const std::vector<int64_t>& shape, int64_t low, int64_t count) {
  Tensor result(shape, kInt16);
  for (int64_t i = 0; i < result.size(); ++i) result.set_integer(i, low + i * 7 % count + i / 32 % 2);
  return result;
}

/// Nothing but rounding the data to bytes changes: half a hundredth of the largest.
TEST(RoundBlockProducts, MultiplyThePackedWeights) {
  Target target;
  target.vector_bits = 256;
  for (int64_t columns : {16, 19})
    for (auto [low, count] : {std::pair<int64_t, int64_t>{-1, 3}, {-8, 15}, {3, 12}, {-120, 200}}) {
      SCOPED_TRACE(fmt::format("{} columns, {} numbers from {} on", columns, count, low));
      const Expr product = typed_call("nn.block_dense",
                                      {typed_constant(random_tensor({3, 96}, kFloat32, 1)),
                                       typed_constant(numbers({columns, 3, 32}, low, count)),
                                       typed_constant(random_tensor({columns, 3}, kFloat32, 2))},
                                      make<BlockDenseAttrs>(true));
      const Module rounded = round_block_products(closed(product), target, interpret_closed);
      const Expr body = rounded->functions.at("main")->body;
      bool packs = false;
      post_order(body, [&](const NodeRef& node) {
        const Call* call = node.as<Call>();
        packs |= call && call_of(Expr(call), "nn.contrib_block_dense_pack");
      });
      EXPECT_TRUE(packs);
      const std::vector<Tensor> values = interpret_closed({product, body});
      ASSERT_EQ(values[1].shape(), values[0].shape());
      EXPECT_LT(max_relative_error(values[1], values[0]), 0.015);
      EXPECT_GT(max_relative_error(values[1], values[0]), 0);
    }
}

/// Forty sums of a sum with itself are 2^40 paths to one constant.
TEST(RoundBlockProducts, LookAtSharedSumsOnce) {
  Expr scale = typed_constant(full({16, 3}, kFloat32, 0x1p-40));
  for (int i = 0; i < 40; ++i) scale = typed_call("add", {scale, scale});
  const Expr product = typed_call("nn.block_dense",
                                  {typed_constant(random_tensor({3, 96}, kFloat32, 1)),
                                   typed_constant(numbers({16, 3, 32}, -8, 15)), scale},
                                  make<BlockDenseAttrs>(true));
  const Module rounded = round_block_products(closed(product), Target{.vector_bits = 256}, interpret_closed);
  EXPECT_FALSE(structural_equal(rounded->functions.at("main")->body, product));
}

}  // namespace
}  // namespace lathe::relay
