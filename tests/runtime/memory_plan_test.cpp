#include "core/runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "core/runtime/kernel.h"

namespace lathe::runtime {
namespace {

void expect_valid(const std::vector<Block>& blocks, const MemoryPlan& plan) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_EQ(plan.offsets[i] % kAlignment, 0);
    ASSERT_GE(plan.offsets[i], 0);
    ASSERT_LE(plan.offsets[i] + blocks[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      bool apart = plan.offsets[i] + blocks[i].bytes <= plan.offsets[j] ||
                   plan.offsets[j] + blocks[j].bytes <= plan.offsets[i];
      ASSERT_TRUE(!together || apart || blocks[i].bytes == 0 || blocks[j].bytes == 0) << i << " and " << j;
    }
  }
  ASSERT_GE(plan.bytes, plan.lower_bound);
}

TEST(MemoryPlan, NeverOverlapsLiveBlocks) {
  std::mt19937 random(7);
  double total = 0, bound = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks(random() % 60);
    for (Block& block : blocks) {
      block.first = random() % 40;
      block.last = block.first + random() % (random() % 5 ? 4 : 40);
      block.bytes = random() % 4 ? random() % 5000 : 64 * (random() % 4);
    }
    MemoryPlan plan = plan_memory(blocks);
    expect_valid(blocks, plan);
    total += static_cast<double>(plan.bytes);
    bound += static_cast<double>(plan.lower_bound);
  }
  EXPECT_LT(total, 1.1 * bound);
}

TEST(MemoryPlan, AChainNeedsTwoBlocks) {
  std::vector<Block> blocks;
  for (int step = 0; step < 100000; ++step) blocks.push_back({1000, step, step + 1});
  MemoryPlan plan = plan_memory(blocks);
  EXPECT_EQ(plan.bytes, 2048);
  EXPECT_EQ(plan.lower_bound, 2048);
}

TEST(MemoryPlan, TakesTheBestFittingGap) {
  // Two blocks end early and leave gaps of 320 and 128 bytes between the others.
  std::vector<Block> blocks{{640, 0, 9}, {320, 0, 3}, {192, 0, 9}, {128, 0, 3}, {100, 5, 9}, {110, 0, 9}};
  MemoryPlan plan = plan_memory(blocks);
  expect_valid(blocks, plan);
  EXPECT_EQ(plan.offsets[4], plan.offsets[3]) << "the gap of 128 fits better than that of 320";
  EXPECT_EQ(plan.bytes, plan.lower_bound);
}

TEST(MemoryPlan, NothingNeedsNothing) {
  EXPECT_EQ(plan_memory({}).bytes, 0);
  EXPECT_EQ(plan_memory(std::vector<Block>{{0, 0, 1}, {0, 0, 1}}).bytes, 0);
}

}  // namespace
}  // namespace lathe::runtime
