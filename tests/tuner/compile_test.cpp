// Whole small models: what the compiled module computes is what the interpreter computes on the graph as
// written.
#include "tuner/compile.h"

#include <gtest/gtest.h>

#include <set>

#include "core/codegen/host_target.h"
#include "core/models/zoo.h"
#include "core/relay/lower.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/passes/simplify_inference.h"
#include "core/relay/text.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/temporary_folder.h"
#include "core/tir/interpret.h"
#include "core/tir/prologue.h"
#include "schedules/program.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/bind_shapes.h"
#include "tuner/precision.h"

namespace lathe::tuner {
namespace {

std::vector<Tensor> random_inputs(const runtime::Plan& plan) {
  std::vector<Tensor> inputs;
  for (const runtime::Port& port : plan.inputs) {
    const runtime::Value& value = plan.values[port.value];
    inputs.push_back(random_tensor(value.shape, value.dtype, inputs.size() + 1, 0.5));
  }
  return inputs;
}

/// The oracle: all of main as one unscheduled, unfused tensor program.
std::vector<Tensor> interpreted(const relay::Module& module, std::vector<Tensor> tensors) {
  relay::Module typed = relay::simplify_inference(relay::infer_type(module));
  relay::LiftedConstants lifted = relay::lift_constants(typed->functions.at("main"));
  tir::Func program = relay::lower_function(lifted.function, "model");
  tensors.insert(tensors.end(), lifted.values.begin(), lifted.values.end());
  size_t first = tensors.size();
  for (size_t i = first; i < program->params.size(); ++i)
    tensors.emplace_back(tir::constant_shape(program->params[i]), program->params[i]->dtype);
  tir::interpret(program, tensors);
  return {tensors.begin() + static_cast<int64_t>(first), tensors.end()};
}

void expect_same(const relay::Module& module, double tolerance = 2e-5) {
  auto compiled = runtime::Module::from_image(compile_model(module, codegen::host_target()));
  std::vector<Tensor> inputs = random_inputs(compiled->plan());
  std::vector<Tensor> expected = interpreted(module, inputs);
  runtime::ThreadPool pool(2);
  for (const LatheParallel* parallel : {runtime::serial_parallel(), pool.parallel()}) {
    runtime::Executor executor(compiled, parallel);
    for (size_t i = 0; i < inputs.size(); ++i) executor.set_input(i, inputs[i]);
    executor.run();
    executor.run();
    ASSERT_EQ(executor.plan().outputs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(max_relative_error(executor.output(i), expected[i]), tolerance) << "output " << i;
  }
}

struct SmallModel {
  const char* name;
  const char* text;
};
void PrintTo(const SmallModel& model, std::ostream* out) { *out << model.name; }

constexpr SmallModel kModels[] = {
    {"ConvResidual", R"(
def @main(%x: Tensor[(1, 16, 9, 9), float32], %w: Tensor[(16, 16, 3, 3), float32], %b: Tensor[(16), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %1 = nn.relu(nn.bias_add(%0, %b));
  %2 = nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  nn.relu(add(%2, %x))
})"},
    {"StridedDepthwisePool", R"(
def @main(%x: Tensor[(2, 12, 15, 11), float32], %w: Tensor[(12, 1, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, strides=[2, 2], padding=[1, 1, 1, 1], groups=12, channels=12, kernel_size=[3, 3]);
  %1 = nn.max_pool2d(clip(%0, a_min=0f, a_max=6f), pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]);
  nn.batch_flatten(nn.global_avg_pool2d(%1))
})"},
    {"DenseSoftmax", R"(
def @main(%x: Tensor[(3, 40), float32], %w: Tensor[(10, 40), float32], %b: Tensor[(10), float32]) {
  nn.softmax(nn.bias_add(nn.dense(%x, %w), %b))
})"},
    {"ConcatenateBranches", R"(
def @main(%x: Tensor[(1, 8, 7, 7), float32], %v: Tensor[(24, 8, 1, 1), float32], %w: Tensor[(10, 8, 3, 3), float32]) {
  %0 = nn.relu(nn.conv2d(%x, %v, channels=24, kernel_size=[1, 1]));
  %1 = nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=10, kernel_size=[3, 3]));
  concatenate((%0, %1, %x), axis=1)
})"},
    {"ChannelPaddingBetweenBlocks", R"(
def @main(%x: Tensor[(1, 16, 6, 6), float32], %v: Tensor[(28, 16, 1, 1), float32], %w: Tensor[(32, 28, 1, 1), float32]) {
  %0 = nn.relu(nn.conv2d(%x, %v, channels=28, kernel_size=[1, 1]));
  %1 = nn.conv2d(%0, %w, channels=32, kernel_size=[1, 1]);
  %2 = nn.pad(%0, 0f, pad_width=[[0, 0], [0, 4], [0, 0], [0, 0]]);
  nn.relu(add(%1, %2))
})"},
    {"SeveralOutputs", R"(
def @main(%x: Tensor[(4, 6), float32], %y: Tensor[(6), float32]) {
  %0 = multiply(%x, %y);
  %1 = reshape(%0, newshape=[2, 12]);
  (%0, %1, tanh(%0), %x)
})"},
    {"ResizedSigmoid", R"(
def @main(%x: Tensor[(1, 3, 5, 4), float32]) {
  %0 = image.resize2d(%x, size=[9, 8], method="linear", coordinate_transformation_mode="half_pixel");
  (sigmoid(%0), image.resize2d(%x, size=[7, 6], method="cubic"), nn.softmax(log(exp(%x)), axis=1))
})"},
    {"ResizedAtWholePlaces", R"(
def @main(%x: Tensor[(1, 1, 3, 3), float32]) {
  image.resize2d(%x, size=[7, 7], method="cubic", coordinate_transformation_mode="half_pixel", cubic_exclude=1)
})"},
    {"RowsOfOddChannels", R"(
def @main(%x: Tensor[(2, 1, 90), float32], %b: Tensor[(19), float32]) {
  %0 = nn.conv1d(%x, multiply(ones(shape=[19, 1, 9], dtype="float32"), 0.5f), strides=[4], padding=[3, 2], channels=19, kernel_size=[9]);
  nn.relu(nn.bias_add(%0, %b))
})"},
    {"GatesBetweenRows", R"(
def @main(%x: Tensor[(2, 6, 40), float32], %w: Tensor[(24, 6, 2), float32], %v: Tensor[(6, 12, 1), float32], %b: Tensor[(24), float32], %s: Tensor[(6, 1), float32]) {
  %0 = nn.pad(nn.relu(%x), 0f, pad_width=[[0, 0], [0, 0], [1, 0]]);
  %1 = split(nn.bias_add(nn.conv1d(%0, %w, channels=24, kernel_size=[2]), %b), indices_or_sections=[12], axis=1);
  %2 = multiply(tanh(%1.0), sigmoid(%1.1));
  %3 = multiply(nn.conv1d(%2, %v, channels=6, kernel_size=[1]), %s);
  %4 = concatenate((add(%3, %x), %2), axis=1);
  (%4, max(%4, axis=[2]), strided_slice(nn.pad(%3, 1f, pad_width=[[0, 0], [0, 0], [0, 3]]), begin=[5], end=[43], strides=[2], axes=[2]))
})"},
    {"NoKernels", R"(
def @main(%x: Tensor[(2, 6), float32]) { (reshape(%x, newshape=[3, 4]), %x) })"},
    {"BoxesThatAreKept", R"(
def @main(%x: Tensor[(2, 90, 4), float32], %s: Tensor[(2, 3, 90), float32]) {
  %0 = multiply(ones(shape=[], dtype="int64"), 20i64);
  %1 = multiply(ones(shape=[], dtype="float32"), 0.2f);
  vision.best_boxes(%x, %s, negative(%1), %0, %1, most=20)
})"},
    {"Broadcasts", R"(
def @main(%x: Tensor[(5, 1, 7), float32], %y: Tensor[(3, 1), float32]) {
  %0 = subtract(%x, %y);
  %1 = exp(negative(%0));
  (mean(%1, axis=[0, 2]), max(%1, axis=[1], keepdims=True), transpose(%1, axes=[2, 0, 1]))
})"},
};

class SmallModels : public ::testing::TestWithParam<SmallModel> {};

TEST_P(SmallModels, ComputeWhatTheInterpreterDoes) {
  expect_same(relay::parse_module(std::string("#[version = \"0.0.5\"]") + GetParam().text, GetParam().name));
}

TEST_P(SmallModels, ComputeInDoubleWhatTheInterpreterDoes) {
  relay::Module given =
      relay::parse_module(std::string("#[version = \"0.0.5\"]") + GetParam().text, GetParam().name);
  expect_same(at_precision(given, Precision::kFloat64, relay::NarrowCosts::none()), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(, SmallModels, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CompileModel, FoldsAndPacksWeights) {
  relay::Module module = relay::parse_module(R"(#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 8, 8), float32]) {
  %0 = ones(shape=[32, 16, 3, 3], dtype="float32");
  nn.relu(nn.conv2d(%x, multiply(%0, 0.5f), strides=[2, 2], padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]))
})");
  runtime::Plan plan = compile_model(module, codegen::host_target()).plan;
  EXPECT_LE(plan.steps.size(), 3u) << "at most: into the layout, the convolution, out of it";
  EXPECT_EQ(plan.constant_bytes, 32 * 16 * 3 * 3 * 4);
  expect_same(module);
}

/// The default schedule, with each constant that a block reads copied first, its axes in reverse.
tir::Func with_reversed_constants(const tir::Func& workload, const Target& target) {
  schedule::Schedule s(schedule::replay(schedule::default_trace(workload, target), workload));
  for (const Ref<tir::Block>& block : schedule::all_blocks(s.func()))
    for (size_t read = 0; read < block->reads.size(); ++read) {
      const tir::Buffer& buffer = block->reads[read].buffer;
      const auto& params = workload->params;
      auto param = static_cast<size_t>(std::find(params.begin(), params.end(), buffer) - params.begin());
      if (!tir::is_constant_param(workload, param)) continue;
      std::vector<int64_t> axes, shape = tir::constant_shape(buffer);
      for (size_t d = shape.size(); d-- > 0;) axes.insert(axes.end(), {static_cast<int64_t>(d), shape[d]});
      auto copy = s.cache_read(s.get_block(block->name), static_cast<int64_t>(read), tir::Scope::kGlobal);
      s.transform_layout(copy, 0, axes);
    }
  return s.func();
}

TEST(CompileModel, WeightsRearrangedBySchedulesAreMadeAtBuildTime) {
  const Target target = codegen::host_target();
  relay::Module module = models::build_model("dqn");
  auto plain = compile_model(module, target);
  auto reversed = compile_model(
      module, target, [&](const tir::Func& workload) { return with_reversed_constants(workload, target); });
  std::set<std::vector<float>> known;
  const auto values = [](const Tensor& tensor) {
    return std::vector<float>(tensor.as<float>(), tensor.as<float>() + tensor.size());
  };
  for (const auto& constant : plain.constants) known.insert(values(constant.data));
  int fresh = 0;
  for (const auto& constant : reversed.constants) fresh += !known.contains(values(constant.data));
  EXPECT_GE(fresh, 4);  // the weights of the layers, but for those that the default transforms as well
  std::vector<Tensor> inputs = random_inputs(plain.plan), outputs;
  for (auto* image : {&plain, &reversed}) {
    runtime::Executor executor(runtime::Module::from_image(std::move(*image)), runtime::serial_parallel());
    executor.set_input(0, inputs[0]);
    executor.run();
    outputs.push_back(executor.output(0).clone());
  }
  EXPECT_LE(max_relative_error(outputs[1], outputs[0]), 1e-5);
}

TEST(CompileModel, BindsDynamicDimensions) {
  relay::Module dynamic = relay::parse_module(R"(#[version = "0.0.5"]
def @main(%x: Tensor[(n, 8), float32], %w: Tensor[(4, 8), float32]) {
  nn.relu(nn.dense(%x, %w))
})");
  EXPECT_EQ(compile_model(dynamic, codegen::host_target()).plan.dims.size(), 1u) << "else they stay open";
  for (int64_t n : {1, 5}) expect_same(bind_shapes(dynamic, {{"x", {n, 8}}}));
}

/// A module with a program has inputs and outputs like any, from its file, too.
TEST(CompileModel, AProgramRunsAsAModule) {
  runtime::ModuleImage image = compile_model(relay::parse_module(R"(
def @loop(%n: int32, %x: Tensor[(2), float32]) -> Tensor[(2), float32] {
  if (%n == 0) { %x } else { @loop(%n - 1, nn.relu(%x) * 2f) }
}
def @main(%x: Tensor[(2), float32], %more: (int32, bool)) {
  if (%more.1) { (@loop(%more.0, %x), %x) } else { (%x, [1f, 2f]) }
})"),
                                             codegen::host_target());
  TemporaryFolder folder;
  const std::string path = folder.path() + "/program.lathe";
  runtime::write_module(path, image);
  runtime::verify_module(runtime::map_module(path));
  for (const auto& module : {runtime::Module::from_image(image), runtime::Module::open(path)}) {
    runtime::Executor executor(module, runtime::serial_parallel());
    ASSERT_EQ(executor.plan().inputs.size(), 3u);
    EXPECT_EQ(executor.plan().inputs[2].name, "more.1");
    executor.set_input(0, tensor_of<float>({-1, 3}, {2}, kFloat32));
    executor.set_input(1, tensor_of<int32_t>({4}, {}, kInt32));
    executor.set_input(2, tensor_of<bool>({true}, {}, kBool));
    Tensor bound({2}, kFloat32);
    executor.set_output(1, bound);
    executor.run();
    EXPECT_EQ(executor.output(0).value(0), 0);
    EXPECT_EQ(executor.output(0).value(1), 48);
    EXPECT_EQ(bound.value(0), -1);
    executor.set_input(2, tensor_of<bool>({false}, {}, kBool));
    executor.run();
    EXPECT_EQ(executor.output(0).value(1), 3);
    EXPECT_EQ(bound.value(1), 2);
  }
}

TEST(CompileModel, SaysWhatAModuleCannotGive) {
  try {
    compile_model(relay::parse_module("import \"list\"\ndef @main(%x: float32) { Cons(%x, Nil) }"),
                  codegen::host_target());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the value of @main is List[float32]; a module takes and gives tensors and "
                 "tuples of them. `tune eval --compiled` runs a main of any type");
  }
}

}  // namespace
}  // namespace lathe::tuner
