// Matrix products in tile registers (AMX): which loops are such products, which instructions they become, and
// that these compute what the interpreter does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/codegen/tile_nest.h"
#include "core/support/cpu.h"
#include "core/tir/interpret.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/space.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"
#include "tests/schedules/programs.h"

namespace lathe::codegen {
namespace {

using testing::ElementsAre;

constexpr char kTarget[] = "cpu:mcpu=sapphirerapids";

tir::Func scheduled(const tir::Func& func, const Target& target) {
  return tir::lower(schedule::replay(schedule::default_trace(func, target), func), target);
}

/// A product as a schedule leaves it: `rows` by two vectors, two groups of bfloat16 a step.
std::string nest_text(int64_t rows, int64_t row_elements, const char* second_group) {
  std::string body;
  for (int64_t group = 0; group < 2; ++group)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < 2; ++column) {
        const auto product = [&](int64_t k) {
          const int64_t element = 2 * group + k;
          return fmt::format(
              "broadcast(cast(float32, x[o * {} + i * 4 + {}]), 16) * cast(float32x16, y[{}, i * 2 + {}, "
              "ramp(0, 1, 16), {}])",
              row_elements, row * row_elements + element, column, group == 0 ? "0" : second_group, k);
        };
        body += fmt::format("t[{0}, ramp({1}, 1, 16)] = t[{0}, ramp({1}, 1, 16)] + ({2} + {3})\n", row,
                            16 * column, product(0), product(1));
      }
  return fmt::format(
      "func main(x: bfloat16[4096], y: bfloat16[2, 40, 16, 2]) -> (z: float32[{0}, 32]) {{\n"
      "alloc t: float32[{0}, 32] local {{\n"
      "for o in 0..2 {{\nfor i in 0..20 {{\n{1}}}\n}}\n"
      "z[0, ramp(0, 1, 16)] = t[0, ramp(0, 1, 16)]\n}}\n}}\n",
      rows, body);
}

std::optional<TileNest> nest_in(const tir::Func& func) {
  std::optional<TileNest> found;
  post_order(func->body, [&](const NodeRef& node) {
    const auto* loop = node.as<tir::For>();
    if (loop && loop->var->name == "o") found = tile_nest_of(*loop);
  });
  return found;
}

TEST(TileNest, HasRowsColumnsAndGroups) {
  const tir::Func func = tir::parse_func(nest_text(3, 80, "1"));
  const std::optional<TileNest> nest = nest_in(func);
  ASSERT_TRUE(nest);
  EXPECT_EQ(nest->rows, 3u);
  EXPECT_EQ(nest->row_stride, 80);
  EXPECT_THAT(nest->columns, ElementsAre(0, 40 * 32));
  EXPECT_THAT(nest->slots, ElementsAre(0, 16, 32, 48, 64, 80));
  EXPECT_EQ(nest->groups, 40) << "20 steps of 2";
  EXPECT_EQ(nest->group_stride, 32);
  ASSERT_TRUE(nest->along_k);
  EXPECT_EQ(nest->along_k->var->name, "i");
  EXPECT_EQ(nest->loops.size(), 1u);
}

TEST(TileNest, IsOfNeighbouringGroups) {
  const tir::Func apart = tir::parse_func(nest_text(3, 80, "7"));
  const std::optional<TileNest> nest = nest_in(apart);
  ASSERT_TRUE(nest) << "rows of a tile may lie apart";
  EXPECT_EQ(nest->group_stride, 7 * 32);
  EXPECT_FALSE(nest->along_k) << "which goes on between them";
  EXPECT_FALSE(nest_in(tir::parse_func(nest_text(3, 80, "0")))) << "the second group is the first";
  std::string text = nest_text(1, 80, "1");
  text.insert(text.find("t[0, ramp(16"), "t[0, ramp(0, 1, 16)] = broadcast(0.0, 16)\n");
  EXPECT_FALSE(nest_in(tir::parse_func(text))) << "something else is stored in between";
}

TEST(Tiles, TakeProductsOfAnySize) {
  const Target target = resolve_target(kTarget);
  for (int64_t m : {5, 17, 75})
    for (int64_t k : {42, 64, 300}) {
      SCOPED_TRACE(fmt::format("{} rows, {} products", m, k));
      const schedule::Product sizes{.batch = 1, .m = m, .n = 83, .k = k, .shared = true};
      const auto assembly = [&](DataType x, DataType y, DataType sum) {
        const tir::Func func = tir::with_constant_params(schedule::narrow_product(sizes, x, y, sum), 0b10);
        return assembly_of(scheduled(func, target), target);
      };
      const std::string bfloats = assembly(kBFloat16, kBFloat16, kFloat32);
      EXPECT_GT(count(bfloats, "tdpbf16ps"), 0);
      EXPECT_GT(count(bfloats, "tilerelease"), 0);
      EXPECT_GT(count(bfloats, ".init_array"), 0) << "what asks for the registers";
      if (m < kTileRows || k < 64) continue;  // bytes pay later
      EXPECT_GT(count(assembly(kInt8, kInt8, kInt32), "tdpbssd"), 0);
      EXPECT_GT(count(assembly(kInt8, kUInt8, kInt32), "tdpbsud"), 0);
      EXPECT_GT(count(assembly(kUInt8, kInt8, kInt32), "tdpbusd"), 0);
      EXPECT_GT(count(assembly(kUInt8, kUInt8, kInt32), "tdpbuud"), 0);
    }
}

/// Two tasks of four tiles, each of which sums 32 groups: two steps of the registers.
TEST(Tiles, AskForWhatTheNextTaskReads) {
  const auto prefetches = [](const std::string& task, const std::string& step) {
    std::string body;
    for (int64_t row = 0; row < 4; ++row) {
      const auto product = [&](int64_t k) {
        return fmt::format(
            "broadcast(cast(float32, x[o * 512 + {}, i * 2 + {}]), 16) * cast(float32x16, y[c, i, ramp(0, 1, "
            "16), {}])",
            row, k, k);
      };
      body += fmt::format("t[{0}, ramp(0, 1, 16)] = t[{0}, ramp(0, 1, 16)] + ({1} + {2})\n", row, product(0),
                          product(1));
    }
    const std::string text = fmt::format(
        "func main(x: bfloat16[2048, 64], y: bfloat16[2, 32, 16, 2]) -> (z: float32[2, 4, 16]) {{\n"
        "for c in 0..2{0} {{\nfor o in 0..4 {{\nalloc t: float32[4, 16] local {{\n"
        "for r in 0..4 {{\nt[r, ramp(0, 1, 16)] = broadcast(0.0, 16)\n}}\n"
        "for i in 0..32{1} {{\n{2}}}\n"
        "for r in 0..4 {{\nz[c, r, ramp(0, 1, 16)] = t[r, ramp(0, 1, 16)]\n}}\n}}\n}}\n}}\n}}\n",
        task, step, body);
    const std::string code = assembly_of(tir::parse_func(text), resolve_target(kTarget));
    EXPECT_GT(count(code, "tdpbf16ps"), 0);
    return count(code, "prefetcht1");
  };
  EXPECT_EQ(prefetches("", " @prefetch=4096"), 0);
  EXPECT_EQ(prefetches(" @prefetch_next=1", ""), 0);
  EXPECT_EQ(prefetches(" @prefetch_next=1", " @prefetch=4096"), 16) << "a step along k is 16 iterations";
}

TEST(Tiles, TakeConvolutions) {
  const Target target = resolve_target(kTarget);
  const tir::Func func = schedule::dot_conv2d(kBFloat16, kBFloat16, 14);
  EXPECT_GT(count(assembly_of(scheduled(func, target), target), "tdpbf16ps"), 0);
}

TEST(Tiles, AreLeftAloneWithoutTheRegisters) {
  const tir::Func func =
      schedule::narrow_product({.m = 75, .n = 83, .k = 64}, kBFloat16, kBFloat16, kFloat32);
  for (const char* text :
       {"cpu:mcpu=sapphirerapids,mattr=-amx-tile;-amx-bf16;-amx-int8", "cpu:mcpu=cooperlake"}) {
    const Target target = resolve_target(text);
    const std::string assembly = assembly_of(scheduled(func, target), target);
    EXPECT_EQ(count(assembly, "tdp") + count(assembly, "ldtilecfg"), 0) << text;
  }
}

/// On a machine that has them.
class TilesOracle : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> wanted = {"amx_tile", "amx_bf16", "amx_int8"};
    if (!missing_cpu_features(wanted).empty()) GTEST_SKIP() << "no AMX here";
  }
  /// Of few rows, packing the other operand costs more than tiles save.
  void expect_same(const tir::Func& func, bool in_tiles = true) {
    const Target target = resolve_target("cpu");
    std::vector<Tensor> params, expected;
    for (const tir::Buffer& param : func->params) {
      params.push_back(random_tensor(tir::constant_shape(param), param->dtype, params.size() + 1));
      expected.push_back(params.back().clone());
    }
    tir::interpret(func, expected);
    const tir::Func lowered = scheduled(func, target);
    if (in_tiles) {
      EXPECT_GT(count(assembly_of(lowered, target), "\ttdp"), 0);
    }
    run_kernel(lowered, target, params);
    EXPECT_LE(max_relative_error(params.back(), expected.back()),
              func->params.back()->dtype.is_int() ? 0 : 1e-5);
  }
};

TEST_F(TilesOracle, Products) {
  struct Types {
    DataType x, y, sum;
  };
  for (const auto& [x, y, sum] :
       {Types{kBFloat16, kBFloat16, kFloat32}, Types{kInt8, kInt8, kInt32}, Types{kInt8, kUInt8, kInt32},
        Types{kUInt8, kInt8, kInt32}, Types{kUInt8, kUInt8, kInt32}})
    for (int64_t m : {4, 16, 17, 32, 37, 70})
      for (int64_t n : {16, 48, 83})
        for (int64_t k : {64, 100, 130}) {
          SCOPED_TRACE(fmt::format("{} x {}: {} {} {}", to_string(x), to_string(y), m, n, k));
          expect_same(
              schedule::narrow_product({.batch = 1, .m = m, .n = n, .k = k, .shared = true}, x, y, sum),
              false);
        }
}

TEST_F(TilesOracle, ProductsOfSeveralParts) {
  expect_same(
      schedule::narrow_product({.batch = 3, .m = 37, .n = 48, .k = 66, .transpose_y = true, .bias = true},
                               kBFloat16, kBFloat16, kFloat32));
  expect_same(schedule::narrow_product({.batch = 3, .m = 40, .n = 64, .k = 128, .bias = true}, kUInt8, kInt8,
                                       kInt32));
}

TEST_F(TilesOracle, Convolutions) {
  for (int64_t size : {9, 14, 28}) expect_same(schedule::dot_conv2d(kBFloat16, kBFloat16, size));
  for (int64_t size : {9, 14}) expect_same(schedule::dot_conv2d(kUInt8, kInt8, size, 3, 64));
  expect_same(schedule::dot_conv2d(kUInt8, kInt8, 17, 1, 64));
}

}  // namespace
}  // namespace lathe::codegen
