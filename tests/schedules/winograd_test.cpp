#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/support/error.h"
#include "core/support/tensor.h"
#include "core/tir/builder.h"
#include "core/tir/interpret.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/cook_toom.h"
#include "schedules/program.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "schedules/winograd_tiles.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

double dot(const std::vector<double>& row, const std::vector<double>& x) {
  double sum = 0;
  for (size_t k = 0; k < row.size(); ++k) sum += row[k] * x[k];
  return sum;
}

TEST(CookToom, FiltersAsTheDefinitionSays) {
  for (Filtering each{.outputs = 1, .taps = 1, .stride = 1}; each.stride <= 3; ++each.stride)
    for (each.outputs = 1; each.outputs <= kMostProducts; ++each.outputs)
      for (each.taps = 1; each.products() <= kMostProducts; ++each.taps) {
        SCOPED_TRACE(fmt::format("{} outputs of {} taps, stride {}", each.outputs, each.taps, each.stride));
        CookToom f = cook_toom(each);
        ASSERT_EQ(f.input.size(), static_cast<size_t>(each.products()));
        std::vector<double> d, g, products;
        for (int64_t k = 0; k < each.inputs(); ++k) d.push_back(static_cast<double>((k * 7 + 3) % 11) - 5);
        for (int64_t k = 0; k < each.taps; ++k) g.push_back(static_cast<double>((k * 5 + 1) % 7) - 3);
        for (size_t j = 0; j < f.input.size(); ++j)
          products.push_back(dot(f.input[j], d) * dot(f.kernel[j], g));
        for (int64_t i = 0; i < each.outputs; ++i) {
          double expected = 0;
          for (int64_t k = 0; k < each.taps; ++k)
            expected += d[static_cast<size_t>(each.stride * i + k)] * g[static_cast<size_t>(k)];
          EXPECT_NEAR(dot(f.output[static_cast<size_t>(i)], products), expected, 1e-7);
        }
      }
}

/// A schedule of `func` that begins with `winograd` and stops there.
tir::Func rewritten(const tir::Func& func, int64_t rows, int64_t columns, int64_t band) {
  Schedule s(func);
  std::vector<IntHandle> sizes = s.sample_tuple(3, {rows, columns, band});
  s.winograd(s.get_block("conv"), sizes);
  return s.func();
}

TEST(Winograd, KeepsMeaningForAllTileSizes) {
  ConvShape shape{.out_blocks = 1, .in_blocks = 2, .height = 7, .width = 5, .lanes = 2, .in_lanes = 2};
  tir::Func func = conv2d(shape, kFloat64);
  for (int64_t rows : {1, 2, 3, 4, 6})
    for (int64_t columns : {1, 2, 5})
      for (int64_t band : {0, 1, 2}) {
        if (band > (7 + rows - 1) / rows) continue;
        SCOPED_TRACE(fmt::format("{} x {}, bands of {}", rows, columns, band));
        expect_same_results(func, rewritten(func, rows, columns, band));
      }
}

TEST(Winograd, OtherKernels) {
  for (int64_t kernel : {1, 2, 5}) {
    tir::Func func = conv2d({.out_blocks = 2,
                             .in_blocks = 1,
                             .height = 6,
                             .width = 8,
                             .kernel = kernel,
                             .pad = kernel / 2,
                             .lanes = 2,
                             .in_lanes = 3,
                             .epilogue = false},
                            kFloat64);
    expect_same_results(func, rewritten(func, 2, 3, 1));
  }
}

TEST(Winograd, Strides) {
  ConvShape shape{
      .out_blocks = 1, .in_blocks = 2, .height = 11, .width = 13, .stride = 2, .lanes = 2, .in_lanes = 2};
  for (int64_t kernel : {1, 3, 5}) {
    shape.kernel = kernel;
    shape.pad = kernel / 2;
    tir::Func func = conv2d(shape, kFloat64);
    for (auto [rows, columns, band] : {std::tuple{2, 2, 1}, {1, 3, 2}, {3, 2, 2}, {2, 3, 0}}) {
      SCOPED_TRACE(fmt::format("{} taps: {} x {}, bands of {}", kernel, rows, columns, band));
      expect_same_results(func, rewritten(func, rows, columns, band));
    }
  }
  shape.stride = 3;
  shape.kernel = 2;
  shape.pad = 0;
  tir::Func func = conv2d(shape, kFloat64);
  expect_same_results(func, rewritten(func, 2, 3, 1));
}

std::string refusal(const tir::Func& func, const std::string& block, const std::vector<int64_t>& sizes) {
  return refusal_of(func, [&](Schedule& s) { s.winograd(s.get_block(block), s.sample_tuple(3, sizes)); });
}

/// out[h, w, o] = sum over taps k, l of data[h + k, w + l, k] * weight[k, l, o].
tir::Func diagonal_windows() {
  tir::FuncBuilder f;
  tir::Buffer data = f.input("data", {6, 6, 3}, kFloat32), weight = f.input("weight", {3, 3, 16}, kFloat32);
  tir::Buffer conv = f.reduce("conv", {4, 4, 16}, {3, 3}, tir::Combiner::kSum, [&](tir::Vars i, tir::Vars r) {
    return load(data, {i[0] + r[0], i[1] + r[1], r[0]}) * load(weight, {r[0], r[1], i[2]});
  });
  return f.finish("diagonal_windows", {conv});
}

TEST(Winograd, RefusesWhatItCannotRewrite) {
  EXPECT_EQ(refusal(diagonal_windows(), "conv", {2, 2, 1}),
            "winograd: block `conv` has a window along dimensions 0 and 2 of data");
  EXPECT_EQ(
      refusal(conv2d({.dilation = 2}, kFloat32), "conv", {2, 2, 1}),
      "winograd: block `conv` does not index dimension 2 of pad by a position times a stride plus a tap");
  EXPECT_EQ(refusal(matmul(4, 4, 4, kFloat32), "matmul", {2, 2, 1}),
            "winograd: block `matmul` slides 0 windows, must be 2");
  EXPECT_EQ(refusal(max_pool(1, 9, kFloat32), "pool", {2, 2, 1}),
            "winograd: block `pool` is no sum of products of two elements");
  EXPECT_EQ(refusal(conv2d({}, kInt32), "conv", {2, 2, 1}),
            "winograd: block `conv` does not compute with floats");
  EXPECT_EQ(refusal(conv2d({}, kFloat32), "conv", {0, 2, 1}),
            "winograd: tiles of 0 outputs of 3 taps need 2 products, must be from 1 output to 10 products");
  EXPECT_EQ(refusal(conv2d({}, kFloat32), "conv", {9, 2, 1}),
            "winograd: tiles of 9 outputs of 3 taps need 11 products, must be from 1 output to 10 products");
  EXPECT_EQ(refusal(conv2d({.height = 4}, kFloat32), "conv", {2, 2, 3}),
            "winograd: a band has 3 rows of tiles, must be 0 for all or 1 to all 2");
  Schedule s(conv2d({}, kFloat32));
  BlockHandle conv = s.get_block("conv");
  s.vectorize(s.get_loops(conv)[4]);
  std::vector<IntHandle> sizes = s.sample_tuple(3, {2, 2, 1});
  s.split(s.get_loops(conv)[1], {kInferred, 1});
  EXPECT_THROW(s.winograd(conv, sizes), Error);
}

TEST(Winograd, EverySampleOfItsSpaceKeepsMeaningAndLowers) {
  const Target target = avx512_target();
  for (const ConvShape& shape :
       {ConvShape{.out_blocks = 2, .in_blocks = 2, .height = 14, .width = 14},
        ConvShape{.out_blocks = 1, .in_blocks = 2, .height = 9, .width = 11, .residual = true},
        ConvShape{.out_blocks = 2, .in_blocks = 2, .height = 15, .width = 14, .stride = 2},
        ConvShape{.out_blocks = 1, .in_blocks = 2, .height = 14, .width = 9, .residual = true, .batch = 3},
        ConvShape{.out_blocks = 1,
        .in_blocks = 1,
        .height = 8,
        .width = 8,
        .kernel = 5,
        .pad = 2,
        .epilogue = false}}) {
    tir::Func func = tir::with_constant_params(conv2d(shape, kFloat32), 2);
    std::vector<const DesignSpace*> spaces = spaces_for(func, target);
    ASSERT_STREQ(spaces[0]->name, "winograd");
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      Schedule s = sample(*spaces[0], func, target, seed);
      SCOPED_TRACE(to_text(s.trace()));
      expect_same_results(func, s.func());
      tir::Func lowered = tir::lower(s.func(), target);
      if (auto fault = tir::find_fault(lowered, tir::Level::kVectors)) ADD_FAILURE() << *fault;
    }
  }
}

/// Of one dimension too, where the output's transform along the other is a copy that might end the tiles.
TEST(Winograd, AddsUpProductsInRegisters) {
  const Target target = avx512_target();
  tir::Func func = tir::parse_func(R"(
func main(x: float32[1, 8, 1, 130, 16], w: float32[8, 8, 1, 3, 16, 16]) -> (y: float32[1, 8, 1, 128, 16]) {
  block root {
    for b in 0..1 { for c in 0..8 { for j in 0..1 { for i in 0..128 { for l in 0..16 {
    for d in 0..8 { for e in 0..1 { for k in 0..3 { for m in 0..16 {
      block conv(spatial n in 0..1 = b, spatial vc in 0..8 = c, spatial h in 0..1 = j, spatial vi in 0..128 = i, spatial vl in 0..16 = l, reduce rd in 0..8 = d, reduce rh in 0..1 = e, reduce rk in 0..3 = k, reduce rm in 0..16 = m) {
        reads x[n, rd, h + rh, vi + rk, rm], w[vc, rd, rh, rk, rm, vl]
        writes y[n, vc, h, vi, vl]
        init { y[n, vc, h, vi, vl] = 0.0 }
        y[n, vc, h, vi, vl] = y[n, vc, h, vi, vl] + x[n, rd, h + rh, vi + rk, rm] * w[vc, rd, rh, rk, rm, vl]
    } } } } } } } } } }
  }
})");
  func = tir::with_constant_params(func, 2);
  tir::Func scheduled = replay(default_trace(func, target), func);
  expect_same_results(func, scheduled);
  int buffers = 0;
  post_order(tir::lower(scheduled, target)->body, [&](const NodeRef& node) {
    const tir::Alloc* alloc = node.as<tir::Alloc>();
    if (!alloc || alloc->buffer->scope != tir::Scope::kLocal) return;
    EXPECT_LE(tir::byte_size(alloc->buffer), target.vector_registers * target.vector_bits / 8)
        << alloc->buffer->name;
    ++buffers;
  });
  EXPECT_GE(buffers, 2) << "of the products, and of a transform";
}

/// Transformed in float32. Two outputs of 3 taps keep 8 binary digits stored as bfloat16 and multiplied in
/// pairs; more do not, and are float32 in vectors along the channels of the output.
TEST(Winograd, RoundsTilesThatBearIt) {
  const Target target = avx512_target();
  tir::Func func = tir::with_constant_params(dot_conv2d(kBFloat16, kBFloat16, 14), 0b10);
  std::vector<const DesignSpace*> spaces = spaces_for(func, target);
  ASSERT_STREQ(spaces[0]->name, "winograd");
  std::map<DataType, int> stored;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Schedule s = sample(*spaces[0], func, target, seed);
    SCOPED_TRACE(to_text(s.trace()));
    expect_same_results(func, s.func(), 0x1p-7);
    for (const Ref<tir::Block>& block : all_blocks(s.func())) {
      if (block->name != "conv_tiles" && block->name != "conv_kernel") continue;
      const tir::Buffer& made = block->writes[0].buffer;
      const size_t first = block->name == "conv_tiles" ? 1 : 0;
      bool small = int_value(made->shape[first]) <= 4 && int_value(made->shape[first + 1]) <= 4;
      EXPECT_EQ(made->dtype, small ? kBFloat16 : kFloat32);
      ++stored[made->dtype];
    }
    tir::Func lowered = tir::lower(s.func(), target);
    if (auto fault = tir::find_fault(lowered, tir::Level::kVectors)) ADD_FAILURE() << *fault;
  }
  EXPECT_GT(stored[kBFloat16], 0);
  EXPECT_GT(stored[kFloat32], 0);
}

TEST(Winograd, IsOfferedWhereItMayPay) {
  const Target target = avx512_target();
  auto offered = [&](const ConvShape& shape) {
    tir::Func func = tir::with_constant_params(conv2d(shape, kFloat32), 2);
    return spaces_for(func, target)[0]->name == std::string("winograd");
  };
  EXPECT_TRUE(offered({.out_blocks = 8, .in_blocks = 4, .height = 56, .width = 56, .stride = 2}));
  EXPECT_FALSE(offered({.out_blocks = 4,
                        .in_blocks = 1,
                        .height = 224,
                        .width = 224,
                        .kernel = 7,
                        .stride = 2,
                        .pad = 3,
                        .in_lanes = 3}))
      << "three channels neither fill a vector nor pay for the transforms";
  EXPECT_FALSE(offered({.kernel = 1, .stride = 2, .pad = 0}));
}

TEST(Winograd, ImagesOfABatchShareTheirWeights) {
  // Four channels give too little to save. Weights counted once for each of 64 images would be read from
  // memory for longer than the direct algorithm computes.
  Target target = avx512_target();
  target.cpu = "znver4";
  target.cores = 1;
  auto candidates = [&](int64_t batch) {
    const tir::Func func = conv2d({.out_blocks = 3,
                                   .in_blocks = 1,
                                   .height = 8,
                                   .width = 14,
                                   .kernel = 5,
                                   .stride = 2,
                                   .pad = 2,
                                   .in_lanes = 4,
                                   .batch = batch},
                                  kFloat32);
    const Ref<tir::Block> block = path_to_block(func, "conv")->back().cast<tir::Block>();
    return winograd_tiles(convolution_of(block), target, {Decide::kHeuristic}, /*is_open=*/false).size();
  };
  EXPECT_EQ(candidates(1), 0u);
  EXPECT_EQ(candidates(64), 0u);
}

/// All images at once do not stay in the cache, one at a time do. How many there are must be known.
TEST(Winograd, BandsAreOfOneImageWhereAllAreTooMany) {
  Target target = avx512_target();
  target.l2_bytes = 512 << 10;
  const tir::Func func =
      conv2d({.out_blocks = 2, .in_blocks = 2, .height = 16, .width = 16, .batch = 32}, kFloat32);
  const Ref<tir::Block> block = path_to_block(func, "conv")->back().cast<tir::Block>();
  const auto tiles = [&](Decide decide, bool is_open) {
    return winograd_tiles(convolution_of(block), target, {decide}, is_open);
  };
  EXPECT_TRUE(tiles(Decide::kHeuristic, false).at(0).of_one_image);
  EXPECT_TRUE(std::ranges::none_of(tiles(Decide::kRandom, true), &WinogradTiles::of_one_image));
  EXPECT_FALSE(tiles(Decide::kRandom, true).empty());

  const tir::Func constant = tir::with_constant_params(func, 2);
  const tir::Func scheduled = replay(default_trace(constant, target), constant);
  const auto around = loops_around(*path_to_block(scheduled, "conv_products"));
  EXPECT_EQ(int_value(around.at(0)->extent) % 32, 0) << "the images are the tasks, or their bands";
}

TEST(Winograd, TheResultJoinsWhatFollows) {
  const Target target = avx512_target();
  tir::Func func =
      tir::with_constant_params(conv2d({.height = 14, .width = 14, .residual = true}, kFloat32), 2);
  Schedule s = sample(*spaces_for(func, target)[0], func, target, 1);
  for (const Ref<tir::Block>& block : all_blocks(s.func()))
    EXPECT_NE(block->name, "conv_result") << "bias and residual are to be added where the tile is";
}

}  // namespace
}  // namespace lathe::schedule
