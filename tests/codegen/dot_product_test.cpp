// Sums of products of 8-bit integers, of int16 and of bfloat16: which instructions they become, and that
// these compute what the interpreter does, at the extremes of the types too.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/tir/interpret.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "schedules/space.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"
#include "tests/schedules/programs.h"

namespace lathe::codegen {
namespace {

tir::Func lowered(const tir::Func& func, const Target& target) {
  return tir::lower(schedule::replay(schedule::default_trace(func, target), func), target);
}

std::string assembly(const tir::Func& func, const char* target_text) {
  Target target = resolve_target(target_text);
  return assembly_of(lowered(func, target), target);
}

TEST(DotProduct, BecomesTheInstructionOfTheTarget) {
  tir::Func bytes = schedule::dot_conv2d(kUInt8, kInt8, 14),
            bfloats = schedule::dot_conv2d(kBFloat16, kBFloat16, 14);
  EXPECT_GT(count(assembly(bytes, "cpu:mcpu=cascadelake"), "vpdpbusd"), 20);
  EXPECT_GT(
      count(assembly(schedule::dot_conv2d(kUInt8, kInt8, 28), "cpu:mcpu=cascadelake,cores=4"), "vpdpbusd"),
      20)
      << "fused parallel loops, whose indices are divided";
  EXPECT_GT(
      count(assembly(schedule::dot_conv2d(kUInt8, kInt8, 14, 3, 8), "cpu:mcpu=cascadelake"), "vpdpbusd"), 10)
      << "blocks of 8 channels";
  EXPECT_GT(
      count(assembly(schedule::dot_conv2d(kUInt8, kInt8, 14, 3, 12), "cpu:mcpu=cascadelake"), "vpdpbusd"), 10)
      << "blocks of 12 channels, a part of a register";
  EXPECT_EQ(count(assembly(bytes, "cpu:mcpu=skylake-avx512"), "vpdpbusd"), 0);
  EXPECT_GT(count(assembly(bytes, "cpu:mcpu=skylake-avx512"), "vpmaddwd"), 20);
  EXPECT_GT(count(assembly(bytes, "cpu:mcpu=haswell"), "vpmaddwd"), 8);
  EXPECT_GT(count(assembly(bytes, "cpu:mcpu=neoverse-n1"), "sdot"), 8);
  EXPECT_GT(count(assembly(schedule::dot_conv2d(kUInt8, kUInt8, 14), "cpu:mcpu=neoverse-n1"), "udot"), 8);
  EXPECT_EQ(count(assembly(bytes, "cpu:mcpu=cortex-a72"), "sdot"), 0);
  const std::string shorts = assembly(schedule::dot_conv2d(kInt16, kInt16, 14), "cpu:mcpu=haswell");
  EXPECT_GT(count(shorts, "vpmaddwd"), 8);
  EXPECT_EQ(count(shorts, "vpmulld"), 0) << "no product by itself";
  EXPECT_EQ(count(shorts, "vpmovsx"), 0) << "nor widened";
  EXPECT_GT(count(assembly(bfloats, "cpu:mcpu=cooperlake"), "vdpbf16ps"), 20);
  EXPECT_EQ(count(assembly(bfloats, "cpu:mcpu=cascadelake"), "vdpbf16ps"), 0);
  EXPECT_GT(count(assembly(bfloats, "cpu:mcpu=cascadelake"), "vfmadd"), 40);
}

/// The table of machines says of each of these what code generation has for it.
TEST(DotProduct, OfBytesIsInTheTableOfMachines) {
  for (const char* cpu :
       {"skylake-avx512", "cascadelake", "icelake-server", "icelake-client", "tigerlake", "rocketlake",
        "sapphirerapids", "znver3", "znver4", "haswell", "cortex-a35", "cortex-a53", "cortex-a57",
        "cortex-a72", "cortex-a73", "cortex-a76", "neoverse-n1"}) {
    SCOPED_TRACE(cpu);
    const std::string text = fmt::format("cpu:mcpu={}", cpu);
    const Target target = resolve_target(text);
    const MachineModel& row = machine_row(target).model;
    const auto is_fast = [&](const RateByWidth& rates) {
      return rates.at(target.vector_bits) >= row.multiply_adds.at(target.vector_bits);
    };
    const std::string bytes = assembly(schedule::dot_conv2d(kUInt8, kInt8, 14), text.c_str()),
                      bfloats = assembly(schedule::dot_conv2d(kBFloat16, kBFloat16, 14), text.c_str());
    EXPECT_EQ(count(bytes, "vpdpbusd") + count(bytes, "sdot") > 0, is_fast(row.int8_dots));
    EXPECT_EQ(count(bfloats, "dpbf16ps") > 0, is_fast(row.bfloat16_dots) || row.bfloat16_tiles > 0);
  }
}

/// Weights of few bits are taken from bytes where they are multiplied, without a copy of more bits.
TEST(DotProduct, OfSomeBitsOfBytes) {
  for (int64_t bits : {2, 4, 8})
    for (int64_t rows : {1, 7}) {
      SCOPED_TRACE(fmt::format("{} bits, {} rows", bits, rows));
      const tir::Func wide = schedule::packed_blocks(rows, 64, 6, bits),
                      narrow = schedule::packed_blocks(rows, 64, 6, bits, 8);
      const std::string vnni = assembly(wide, "cpu:mcpu=cascadelake"),
                        avx2 = assembly(narrow, "cpu:mcpu=haswell");
      EXPECT_GE(count(vnni, "vpdpbusd"), 4 * 8 / bits);
      EXPECT_EQ(count(vnni, "vpmovzx") + count(vnni, "vpmulld") / 64, 0);
      EXPECT_EQ(count(avx2, "vpmaddubsw") > 0, bits < 8);
    }
}

/// No size and no order of the operands keeps a product from the instruction; nor does one that is not
/// constant, where enough results share what is packed.
TEST(DotProduct, OfAnySizeAndOrder) {
  for (bool transpose_x : {false, true})
    for (bool transpose_y : {false, true}) {
      SCOPED_TRACE(fmt::format("transposed: {}, {}", transpose_x, transpose_y));
      schedule::Product odd{
          .m = 75, .n = 83, .k = 41, .transpose_x = transpose_x, .transpose_y = transpose_y};
      tir::Func bytes = schedule::narrow_product(odd, kUInt8, kInt8, kInt32),
                bfloats = schedule::narrow_product(odd, kBFloat16, kBFloat16, kFloat32);
      EXPECT_GT(count(assembly(bytes, "cpu:mcpu=cascadelake"), "vpdpbusd"), 8);
      EXPECT_GT(count(assembly(bfloats, "cpu:mcpu=cooperlake"), "vdpbf16ps"), 8);
    }
  schedule::Product row{.batch = 1, .m = 1, .n = 50, .k = 33, .shared = true};
  tir::Func one = schedule::narrow_product(row, kUInt8, kInt8, kInt32);
  EXPECT_EQ(count(assembly(one, "cpu:mcpu=cascadelake"), "vpdpbusd"), 0)
      << "packing costs more than it saves";
  EXPECT_GT(count(assembly(tir::with_constant_params(one, 0b10), "cpu:mcpu=cascadelake"), "vpdpbusd"), 2);
}

/// Groups of neighbours are put together from whole runs, never element by element, at the edges neither.
TEST(DotProduct, PacksByWholeRuns) {
  for (bool transposed : {false, true})
    for (int64_t rest : {0, 5}) {
      SCOPED_TRACE(fmt::format("transposed: {}, {} more", transposed, rest));
      schedule::Product sizes{.m = 40, .n = 64 + rest, .k = 64, .transpose_y = transposed};
      std::string bfloats = assembly(schedule::narrow_product(sizes, kBFloat16, kBFloat16, kFloat32),
                                     "cpu:mcpu=cooperlake"),
                  bytes = assembly(schedule::narrow_product(sizes, kUInt8, kInt8, kInt32),
                                   "cpu:mcpu=cascadelake");
      EXPECT_LE(count(bfloats, "vpinsrw"), rest && transposed ? 32 : 0) << "of parts of pairs";
      EXPECT_LE(count(bytes, "vpinsrb"), rest && transposed ? 64 : 0);
      if (transposed) {
        EXPECT_GT(count(bytes, "vpinsrd"), 8);
      }
    }
}

TEST(DotProduct, OfTransformedTilesToo) {
  tir::Func func = tir::with_constant_params(schedule::dot_conv2d(kBFloat16, kBFloat16, 28), 0b10);
  Target target = resolve_target("cpu:mcpu=cooperlake");
  const schedule::DesignSpace* winograd = schedule::spaces_for(func, target)[0];
  ASSERT_STREQ(winograd->name, "winograd");
  // Larger tiles are float32.
  auto bears_rounding = [](const tir::Func& scheduled) {
    bool narrow = false;
    post_order(scheduled->body, [&](const NodeRef& node) {
      const auto* block = node.as<tir::Block>();
      narrow |= block && block->name == "conv_tiles" && block->writes[0].buffer->dtype == kBFloat16;
    });
    return narrow;
  };
  for (uint64_t seed = 1; seed < 40; ++seed) {
    tir::Func scheduled = schedule::sample(*winograd, func, target, seed).func();
    if (!bears_rounding(scheduled)) continue;
    tir::Func lowered = tir::lower(scheduled, target);
    std::string text = compile_to_assembly(std::span(&lowered, 1), target);
    EXPECT_GT(count(text, "vdpbf16ps"), 8);
    EXPECT_GT(count(text, "vcvtneps2bf16"), 8);
    return;
  }
  FAIL() << "no tile in bfloat16";
}

/// What is rounded to bfloat16 and stored is rounded once, what is loaded and stored never.
TEST(Casts, ToBfloat16TakeOneInstruction) {
  tir::Buffer x = tir::buffer("x", {16}, kFloat32), y = tir::buffer("y", {16}, kBFloat16),
              z = tir::buffer("z", {16}, kBFloat16);
  Expr lanes = ramp(Expr(0), Expr(1), 16);
  Expr rounded = cast(kBFloat16.with_lanes(16), tir::load(x, {lanes}));
  auto program = [&](const Expr& value) {
    return make<tir::FuncNode>("round", std::vector{x, y, z}, int64_t{1}, tir::store(z, {lanes}, value));
  };
  tir::Func once = program(rounded), copy = program(tir::load(y, {lanes}));
  tir::Func wide = program(cast(kBFloat16.with_lanes(16), cast(kFloat32.with_lanes(16), rounded)));
  auto conversions = [](const tir::Func& func, const char* target) {
    return count(compile_to_assembly(std::span(&func, 1), resolve_target(target)), "vcvtneps2bf16");
  };
  EXPECT_EQ(conversions(once, "cpu:mcpu=cooperlake"), 1);
  EXPECT_EQ(conversions(wide, "cpu:mcpu=cooperlake"), 1);
  EXPECT_EQ(conversions(copy, "cpu:mcpu=cooperlake"), 0);
  EXPECT_EQ(conversions(once, "cpu:mcpu=cascadelake"), 0);
  for (const tir::Func& func : {once, wide, copy}) {
    std::vector<Tensor> params{random_tensor({16}, kFloat32, 1), random_tensor({16}, kBFloat16, 2),
                               Tensor({16}, kBFloat16)};
    std::vector<Tensor> expected{params[0], params[1], Tensor({16}, kBFloat16)};
    run_kernel(func, host_target(), params);
    tir::interpret(func, expected);
    EXPECT_EQ(max_relative_error(params[2], expected[2]), 0);
  }
}

/// round(clip(x)) as uint8 and back: one conversion each way, and no narrowing between.
TEST(Casts, QuantizedAndAtOnceDequantizedTakesTwoInstructions) {
  tir::Buffer x = tir::buffer("x", {16}, kFloat32), y = tir::buffer("y", {16}, kFloat32);
  Expr lanes = ramp(Expr(0), Expr(1), 16);
  auto number = [](double value) { return broadcast(Expr(value), 16); };
  Expr clipped = min(max(tir::load(x, {lanes}), number(-3)), number(252));
  Expr whole = cast(kInt32.with_lanes(16), intrinsic(Intrinsic::kRound, clipped));
  Expr narrow = cast(kUInt8.with_lanes(16), whole + broadcast(imm(kInt32, 3), 16));
  auto program = [&](const Expr& value) {
    return make<tir::FuncNode>("quantize", std::vector{x, y}, int64_t{1}, tir::store(y, {lanes}, value));
  };
  tir::Func back = program(cast(kFloat32.with_lanes(16), narrow));
  std::string text = compile_to_assembly(std::span(&back, 1), resolve_target("cpu:mcpu=cascadelake"));
  EXPECT_EQ(count(text, "vcvtps2dq"), 1) << text;
  EXPECT_EQ(count(text, "vcvtdq2ps"), 1) << text;
  EXPECT_EQ(count(text, "vpmov") + count(text, "vrndscale"), 0) << text;
  std::vector<Tensor> params{
      tensor_of<float>({-9, -3, -2.5f, -1.5f, 0.5f, 1.5f, 2.5f, 100, 251.5f, 252, 900, 7, 8, 9, 10, 1e30f},
                       {16}, kFloat32),
      Tensor({16}, kFloat32)};
  std::vector<Tensor> expected{params[0], Tensor({16}, kFloat32)};
  run_kernel(back, host_target(), params);
  tir::interpret(back, expected);
  EXPECT_EQ(max_relative_error(params[1], expected[1]), 0);
}

/// All values of the type, its extremes often.
Tensor extreme_tensor(const tir::Buffer& buffer, uint64_t seed) {
  Tensor tensor = random_tensor(tir::constant_shape(buffer), buffer->dtype, seed);
  if (buffer->dtype.is_float() || buffer->dtype.bits > 8) return tensor;
  auto* bytes = static_cast<uint8_t*>(tensor.data());
  constexpr uint8_t kExtremes[] = {0, 127, 128, 255};
  uint64_t state = seed;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = (state >> 60) < 8 ? static_cast<uint8_t>(state >> 33) : kExtremes[(state >> 33) % 4];
  }
  return tensor;
}

struct Types {
  DataType data, weight;
};

class DotProductOracle : public testing::TestWithParam<const char*> {};

void expect_same(const tir::Func& func, const Target& target) {
  std::vector<Tensor> params, expected;
  for (const tir::Buffer& param : func->params) {
    params.push_back(extreme_tensor(param, params.size() + 1));
    expected.push_back(params.back().clone());
  }
  tir::interpret(func, expected);
  run_kernel(lowered(func, target), target, params);
  double most = func->params.back()->dtype.is_int() ? 0 : 1e-6;
  EXPECT_LE(max_relative_error(params.back(), expected.back()), most);
}

TEST_P(DotProductOracle, ComputesWhatTheInterpreterDoes) {
  Target target = resolve_target(GetParam());
  for (Types types : {Types{kUInt8, kInt8}, Types{kInt8, kInt8}, Types{kInt8, kUInt8}, Types{kUInt8, kUInt8},
                      Types{kInt16, kInt16}, Types{kBFloat16, kBFloat16}}) {
    SCOPED_TRACE(to_string(types.data) + " times " + to_string(types.weight));
    for (int64_t lanes : {16, 12})
      expect_same(schedule::dot_conv2d(types.data, types.weight, 9, 3, lanes), target);
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, DotProductOracle,
                         testing::Values("cpu", "cpu:vector=256", "cpu:mcpu=haswell", "cpu:mcpu=nehalem"),
                         [](const auto& info) {
                           std::string name;
                           for (char c : std::string(info.param))
                             if (std::isalnum(c)) name += c;
                           return name;
                         });
}  // namespace
}  // namespace lathe::codegen
