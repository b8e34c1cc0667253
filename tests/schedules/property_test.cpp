// Each primitive, applied at random to random schedules of small programs, keeps their meaning; and traces
// replay.
#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/interpret.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"
#include "tests/schedules/programs.h"
#include "tests/tir/random_func.h"

namespace lathe::schedule {
namespace {

std::vector<Program> tiny_programs() {
  std::vector<Program> programs = {
      {"conv2d", conv2d({.out_blocks = 2,
                         .in_blocks = 2,
                         .height = 4,
                         .width = 3,
                         .lanes = 4,
                         .in_lanes = 2,
                         .residual = true})},
      {"conv2d stride 2", conv2d({.out_blocks = 1,
                                  .in_blocks = 2,
                                  .height = 5,
                                  .width = 5,
                                  .stride = 2,
                                  .lanes = 2,
                                  .in_lanes = 2})},
      {"matmul", matmul(3, 6, 4)},
      {"product with itself", gram(3, 2)},
      {"product with itself of a bfloat16", gram(2, 4, kBFloat16)},
      {"8-bit dense", dot_dense(1, 16, 8)},
      {"8-bit dense, two rows", dot_dense(2, 16, 8)},
      {"8-bit dense, three rows", dot_dense(3, 16, 4)},
      {"8-bit dense, four rows", dot_dense(4, 16, 8)},
      {"elementwise", elementwise(4, 6)},
      {"softmax", softmax(2, 6)},
      {"max pool", max_pool(1, 7)},
  };
  // Some primitives compute with floats only.
  for (int64_t size = 3; size < 9; ++size)
    for (int64_t kernel : {2, 3})
      programs.push_back(
          {fmt::format("convolution of floats, {} of {}", kernel, size), conv2d({.out_blocks = 1,
                                                                                 .in_blocks = 1,
                                                                                 .height = size,
                                                                                 .width = 11 - size,
                                                                                 .kernel = kernel,
                                                                                 .pad = 0,
                                                                                 .lanes = 2,
                                                                                 .in_lanes = 2,
                                                                                 .epilogue = false},
                                                                                kFloat64)});
  for (uint32_t seed = 1; seed <= 60; ++seed)
    programs.push_back(
        {fmt::format("random program {}", seed), tir::random_func(seed, {.max_elements = 400})});
  return programs;
}

/// A schedule with handles to everything in it, and random applications of primitives.
class RandomSchedule {
 public:
  RandomSchedule(const tir::Func& func, uint64_t seed) : schedule(func, seed), random_(seed * 77 + 1) {
    for (const Ref<tir::Block>& block : all_blocks(func)) {
      BlockHandle handle = schedule.get_block(block->name);
      blocks_.push_back(handle);
      for (LoopHandle loop : schedule.get_loops(handle)) loops_.push_back(loop);
    }
  }

  /// Whether the random application was legal. An illegal one must change nothing.
  bool attempt(const Primitive& primitive) {
    std::vector<Input> inputs;
    for (InputKind kind : primitive.inputs.fixed)
      if (kind != InputKind::kNone) inputs.push_back(input(kind, primitive));
    if (primitive.inputs.rest != InputKind::kNone)
      for (int64_t more = random_.below(4); more > 0; --more)
        inputs.push_back(input(primitive.inputs.rest, primitive));
    if (std::string(primitive.name) == "transform_layout") add_axes(inputs);
    if (std::string(primitive.name) == "pad_einsum") add_multiples(inputs);
    // Of 64 bits to 32: no test here notices the rounding.
    if (std::string(primitive.name) == "store_as") inputs[1] = int64_t{0}, inputs[2] = int64_t{32};
    // Few programs read two buffers, and one of them at two places.
    if (std::string(primitive.name) == "separate_read") inputs[1] = int64_t{0};
    if (std::string(primitive.name) == "skip_padding") begin_apart(std::get<BlockHandle>(inputs[0]));
    tir::Func before = schedule.func();
    size_t steps = schedule.trace().steps.size();
    try {
      for (const Output& output : schedule.run(primitive, inputs)) keep(output);
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).substr(0, std::string(primitive.name).size()), primitive.name);
      EXPECT_EQ(schedule.func(), before);
      EXPECT_EQ(schedule.trace().steps.size(), steps);
      return false;
    }
    return true;
  }

  const Primitive& any_primitive() {
    return *primitives()[static_cast<size_t>(random_.below(static_cast<int64_t>(primitives().size())))];
  }

  Schedule schedule;

 private:
  template <typename T>
  const T& any(const std::vector<T>& values) {
    return values[static_cast<size_t>(random_.below(static_cast<int64_t>(values.size())))];
  }

  /// Axes for the buffer that the block writes first: each dimension whole or cut in two, in random order.
  void add_axes(std::vector<Input>& inputs) {
    inputs.resize(1);
    inputs.emplace_back(int64_t{0});
    auto path = path_to_block(schedule.func(), block_name(std::get<BlockHandle>(inputs[0])));
    if (!path) return;
    std::vector<std::pair<int64_t, int64_t>> outer, inner;
    int64_t d = 0;
    for (int64_t extent : tir::constant_shape(path->back().as<tir::Block>()->writes[0].buffer)) {
      int64_t part = extent % 2 == 0 && random_.below(2) ? 2 : 1;
      outer.emplace_back(d, extent / part);
      if (part > 1) inner.emplace_back(d, part);
      ++d;
    }
    if (outer.size() > 1 && random_.below(2)) std::swap(outer.front(), outer.back());
    outer.insert(outer.end(), inner.begin(), inner.end());
    for (const auto& [dimension, extent] : outer) {
      inputs.emplace_back(dimension);
      inputs.emplace_back(extent);
    }
  }

  /// A multiple from 1 to 4 for each variable of the block.
  void add_multiples(std::vector<Input>& inputs) {
    inputs.resize(1);
    auto path = path_to_block(schedule.func(), block_name(std::get<BlockHandle>(inputs[0])));
    if (!path) return;
    for (size_t i = 0; i < path->back().as<tir::Block>()->iters.size(); ++i)
      inputs.emplace_back(random_.below(4) + 1);
  }

  std::string block_name(BlockHandle block) {
    try {
      return schedule[block]->name;
    } catch (const Error&) {
      return "";  // it was inlined
    }
  }

  Input input(InputKind kind, const Primitive& primitive) {
    static const std::vector<std::string> kTexts{"local", "global", "shared", "key"};
    if (kind == InputKind::kBlock) return any(blocks_);
    if (kind == InputKind::kLoop) return any(loops_);
    if (kind == InputKind::kInt) return random_.below(5);
    return std::string(primitive.name) == "get_block" ? all_blocks(schedule.func())[0]->name : any(kTexts);
  }

  /// What skips terms sets its sums to their first value elsewhere.
  void begin_apart(BlockHandle block) {
    try {
      const std::vector<LoopHandle> loops = schedule.get_loops(block);
      if (!loops.empty()) keep(schedule.decompose_reduction(block, any(loops)));
    } catch (const Error&) {
      return;  // it adds up nothing, or not inside that loop
    }
  }

  void keep(const Output& output) {
    if (const BlockHandle* block = std::get_if<BlockHandle>(&output)) blocks_.push_back(*block);
    if (const LoopHandle* loop = std::get_if<LoopHandle>(&output)) loops_.push_back(*loop);
  }

  Random random_;
  std::vector<BlockHandle> blocks_;
  std::vector<LoopHandle> loops_;
};

void expect_replays(const tir::Func& func, const Schedule& schedule) {
  tir::Func again = replay(schedule.trace(), func);
  EXPECT_TRUE(structural_equal(again, schedule.func(), /*map_free=*/true));
  Trace parsed = parse_trace(to_json(schedule.trace()));
  EXPECT_EQ(parsed, schedule.trace());
  EXPECT_EQ(to_text(parsed), to_text(schedule.trace()));
}

class EachPrimitive : public testing::TestWithParam<const Primitive*> {};

TEST_P(EachPrimitive, KeepsMeaningAndReplays) {
  constexpr int kWanted = 60;
  int legal = 0;
  std::vector<Program> programs = tiny_programs();
  for (uint64_t seed = 1; seed < 20000 && legal < kWanted; ++seed) {
    const Program& program = programs[seed % programs.size()];
    RandomSchedule random(program.func, seed);
    for (uint64_t step = seed % 16; step > 0; --step) random.attempt(random.any_primitive());
    tir::Func before = random.schedule.func();
    if (!random.attempt(*GetParam())) continue;
    ++legal;
    SCOPED_TRACE(program.name + "\n" + to_text(random.schedule.trace()));
    if (auto fault = tir::find_fault(random.schedule.func()))
      ADD_FAILURE() << *fault << "\n" << tir::print(random.schedule.func());
    EXPECT_TRUE(
        structural_equal(tir::parse_func(tir::print(random.schedule.func())), random.schedule.func()));
    if (random.schedule.func() != before) expect_same_results(program.func, random.schedule.func());
    expect_replays(program.func, random.schedule);
    if (HasFailure()) return;
  }
  EXPECT_EQ(legal, kWanted) << "too few legal applications to say anything";
}

INSTANTIATE_TEST_SUITE_P(Primitives, EachPrimitive,
                         testing::ValuesIn(primitives().begin(), primitives().end()),
                         [](const auto& info) { return std::string(info.param->name); });

/// Lowers the scheduled program as far as code generation takes it, unless the schedule asks for what cannot
/// be.
void expect_lowers(const tir::Func& func, const tir::Func& scheduled) {
  tir::Func lowered;
  try {
    lowered = tir::lower(scheduled, Target{});
  } catch (const Error&) {
    return;
  }
  if (auto fault = tir::find_fault(lowered, tir::Level::kVectors))
    ADD_FAILURE() << *fault << "\n" << tir::print(lowered);
  std::vector<Tensor> expected = tir::random_params(func), actual = tir::random_params(func);
  tir::interpret(func, expected);
  EXPECT_NO_THROW(tir::interpret(lowered, actual));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(max_relative_error(actual[i], expected[i]), 1e-5) << tir::print(lowered);
}

/// Cuts off what depends on some of the inputs alone; gives whether there was any of it.
bool expect_splits(const tir::Func& func, const tir::Func& scheduled, uint64_t seed) {
  int64_t inputs = static_cast<int64_t>(func->params.size()) - func->outputs;
  int64_t mask = Random(seed).below(int64_t{1} << inputs);
  tir::SplitProgram split = tir::split_prologue(tir::with_constant_params(scheduled, mask));
  for (const tir::Func& part : {split.prologue, split.main})
    if (auto fault = part ? tir::find_fault(part) : std::nullopt)
      ADD_FAILURE() << *fault << "\n" << tir::print(part);
  std::vector<Tensor> expected = tir::interpreted_outputs(func),
                      actual = tir::interpreted_outputs(split, func);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(max_relative_error(actual[i], expected[i]), 1e-5) << tir::print(scheduled);
  return split.prologue != nullptr;
}

TEST(RandomSchedules, LongOnesKeepMeaningAndReplay) {
  std::vector<Program> programs = tiny_programs();
  int with_prologue = 0;
  for (uint64_t seed = 1; seed < 400; ++seed) {
    const Program& program = programs[seed % programs.size()];
    RandomSchedule random(program.func, seed);
    int applied = 0;
    for (int i = 0; i < 200 && applied < 20; ++i) applied += random.attempt(random.any_primitive());
    SCOPED_TRACE(program.name + "\n" + to_text(random.schedule.trace()));
    if (auto fault = tir::find_fault(random.schedule.func()))
      ADD_FAILURE() << *fault << "\n" << tir::print(random.schedule.func());
    EXPECT_TRUE(
        structural_equal(tir::parse_func(tir::print(random.schedule.func())), random.schedule.func()));
    expect_same_results(program.func, random.schedule.func());
    expect_lowers(program.func, random.schedule.func());
    expect_replays(program.func, random.schedule);
    with_prologue += expect_splits(program.func, random.schedule.func(), seed);
    if (HasFailure()) return;
  }
  EXPECT_GT(with_prologue, 40);
}

}  // namespace
}  // namespace lathe::schedule
