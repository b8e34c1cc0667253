// What limits a task: the arithmetic that its operands allow, or memory.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/tir/text.h"
#include "tests/schedules/programs.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

double rate(const char* target, DataType operands, DataType sum) {
  return product_rate(schedule::narrow_product({.m = 8, .n = 32, .k = 64}, operands, operands, sum),
                      codegen::resolve_target(target));
}

TEST(ProductRate, IsOfTheOperandsType) {
  EXPECT_EQ(rate("cpu:mcpu=znver4", kFloat32, kFloat32), 1);
  EXPECT_EQ(rate("cpu:mcpu=znver4", kBFloat16, kFloat32), 2);
  EXPECT_EQ(rate("cpu:mcpu=cascadelake", kUInt8, kInt32), 4);
  EXPECT_EQ(rate("cpu:mcpu=cascadelake", kBFloat16, kFloat32), 1) << "no instruction: as float32";
  EXPECT_EQ(rate("cpu:mcpu=sapphirerapids", kBFloat16, kFloat32), 16) << "in tiles";
  EXPECT_EQ(rate("cpu:mcpu=sapphirerapids", kInt8, kInt32), 32);
  EXPECT_EQ(rate("cpu:mcpu=sapphirerapids,mattr=-amx-tile;-amx-bf16;-amx-int8", kInt8, kInt32), 4);
  EXPECT_EQ(product_rate(schedule::elementwise(4, 8), codegen::resolve_target("cpu:mcpu=znver4")), 1);
}

TEST(LimitOf, DividesTheOperations) {
  Task task;
  task.flops = 64e9, task.bytes = 1e9;
  const MachineLimits limits{.flops = 32e9, .bandwidth = 1e9};
  EXPECT_EQ(limit_of(task, limits).seconds, 2);
  EXPECT_STREQ(limit_of(task, limits).name(), "compute");
  task.products = 4;
  EXPECT_EQ(limit_of(task, limits).seconds, 1);
  EXPECT_STREQ(limit_of(task, limits).name(), "memory");
}

/// Passes over runs that become longer: their loops are as long as the variable of another one says.
TEST(CountFlops, OfOpenRowsInOrder) {
  const tir::Func rows = tir::parse_func(R"(func f[n](x: float32[n]) -> (y: float32[n]) {
  for t in 0..3 { for p in 0..(n + 2 * (t + 1) - 1) // (2 * (t + 1)) { y[p] = x[p] + 1.0 } }
})");
  EXPECT_EQ(count_flops(rows), 32 + 16 + 11);
}

}  // namespace
}  // namespace lathe::tuner
