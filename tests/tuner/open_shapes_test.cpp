// Models with open dimensions: one build computes at every size what the interpreter computes on the model of
// that size.
#include <gtest/gtest.h>

#include <map>

#include "core/codegen/host_target.h"
#include "core/relay/lower.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/passes/simplify_inference.h"
#include "core/relay/text.h"
#include "core/runtime/executor.h"
#include "core/runtime/plan_dims.h"
#include "core/runtime/thread_pool.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/tir/interpret.h"
#include "tests/thrown_by.h"
#include "tuner/bind_shapes.h"
#include "tuner/compile.h"
#include "tuner/load_model.h"

namespace lathe::tuner {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;  // of the inputs

struct OpenModel {
  const char* name;
  const char* text;
  std::vector<Shapes> runs;
};
void PrintTo(const OpenModel& model, std::ostream* out) { *out << model.name; }

relay::Module parse(const char* text) {
  return relay::parse_module(std::string("#[version = \"0.0.5\"]\n") + text, "model");
}

/// The oracle: all of main, at this size, as one unscheduled tensor program.
std::vector<Tensor> interpreted(const relay::Module& open, std::vector<Tensor> tensors) {
  InputShapes shapes;
  const auto& params = open->functions.at("main")->params;
  for (size_t i = 0; i < params.size(); ++i) shapes[params[i]->name] = tensors[i].shape();
  relay::Module typed = relay::simplify_inference(relay::infer_type(bind_shapes(open, shapes)));
  tir::Func program = relay::lower_function(typed->functions.at("main"), "model");
  const size_t first = tensors.size();
  for (size_t i = first; i < program->params.size(); ++i)
    tensors.emplace_back(tir::constant_shape(program->params[i]), program->params[i]->dtype);
  tir::interpret(program, tensors);
  return {tensors.begin() + static_cast<int64_t>(first), tensors.end()};
}

const std::vector<OpenModel>& models() {
  static const std::vector<OpenModel> kModels = {
      {"Elementwise",
       "def @main[n](%x: Tensor[(n, 4), float32], %y: Tensor[(n, 4), float32]) {"
       " nn.relu(add(multiply(%x, %x), %y)) }",
       {{{1, 4}, {1, 4}}, {{3, 4}, {3, 4}}, {{1000, 4}, {1000, 4}}, {{0, 4}, {0, 4}}}},
      {"Perceptron",
       "def @main[n](%x: Tensor[(n, 40), float32], %w: Tensor[(64, 40), float32], %b: Tensor[(64), float32],"
       " %v: Tensor[(10, 64), float32]) {"
       " nn.dense(nn.relu(nn.bias_add(nn.dense(%x, %w), %b)), %v) }",
       {{{1, 40}, {64, 40}, {64}, {10, 64}},
        // Each member of the family at its edges, and none.
        {{0, 40}, {64, 40}, {64}, {10, 64}},
        {{2, 40}, {64, 40}, {64}, {10, 64}},
        {{4, 40}, {64, 40}, {64}, {10, 64}},
        {{5, 40}, {64, 40}, {64}, {10, 64}},
        {{13, 40}, {64, 40}, {64}, {10, 64}},
        {{65, 40}, {64, 40}, {64}, {10, 64}},
        {{29, 40}, {64, 40}, {64}, {10, 64}}}},
      {"SoftmaxOfOpenRows",
       "def @main[n, m](%x: Tensor[(n, m), float32]) { nn.softmax(%x) }",
       {{{1, 1}}, {{3, 17}}, {{20, 33}}}},
      {"FromTheFirstRow",
       "def @main[n](%x: Tensor[(n, 4), float32], %y: Tensor[(n, 3, 4), float32]) {"
       " %0 = strided_slice(%x, begin=[0], end=[1], axes=[0]);"
       " %1 = strided_slice(%y, begin=[0], end=[1], axes=[0]);"
       " (subtract(%x, %0), maximum(%0, nn.relu(%x)), where(less(%0, %x), %0, %x),"
       " nn.batch_matmul(%y, %1), nn.batch_matmul(%1, %y)) }",
       {{{1, 4}, {1, 3, 4}}, {{5, 4}, {5, 3, 4}}, {{70, 4}, {70, 3, 4}}, {{0, 4}, {0, 3, 4}}}},
      {"ChosenOfNone",
       "def @main[n](%x: Tensor[(3, 0), float32], %i: Tensor[(2, n), float32], %u: Tensor[(3, n), float32]) {"
       " %0 = cast(%u, dtype=\"int64\"); %1 = cast(%i, dtype=\"int64\");"
       " (take(%x, %1, axis=1), gather(%x, %0, axis=1), gather_nd(%x, %1),"
       " scatter_elements(%x, %0, %u, axis=1)) }",
       {{{3, 0}, {2, 0}, {3, 0}}}},
      {"RowNorm",
       "def @main[n](%x: Tensor[(n, 48), float32], %g: Tensor[(48), float32], %b: Tensor[(48), float32]) {"
       " nn.layer_norm(%x, %g, %b) }",
       {{{1, 48}, {48}, {48}}, {{19, 48}, {48}, {48}}}},
      {"SumOverOpen",
       "def @main[n, m](%x: Tensor[(n, m), float32]) { (sum(%x, axis=[0]), mean(%x, axis=[1])) }",
       {{{1, 5}}, {{33, 64}}, {{70, 3}}}},
      {"Attention",
       "def @main[b, t, p](%q: Tensor[(b, t, 8), float32], %k: Tensor[(b, p, 8), float32],"
       " %v: Tensor[(b, 8, p), float32]) {"
       " nn.batch_matmul(nn.softmax(nn.batch_matmul(%q, %k)), %v) }",
       {{{2, 4, 8}, {2, 9, 8}, {2, 8, 9}},
        {{1, 1, 8}, {1, 1, 8}, {1, 8, 1}},
        {{3, 17, 8}, {3, 40, 8}, {3, 8, 40}}}},
      {"Convolution",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32], %k: Tensor[(32, 16, 3, 3), float32],"
       " %b: Tensor[(32), float32]) {"
       " nn.relu(nn.bias_add(nn.conv2d(%x, %k, padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]), %b)) "
       "}",
       {{{1, 16, 8, 9}, {32, 16, 3, 3}, {32}},
        {{2, 16, 17, 5}, {32, 16, 3, 3}, {32}},
        {{1, 16, 1, 1}, {32, 16, 3, 3}, {32}}}},
      {"DepthwiseStrided",
       "def @main[n, h, w](%x: Tensor[(n, 32, h, w), float32], %k: Tensor[(32, 1, 3, 3), float32]) {"
       " nn.conv2d(%x, %k, strides=[2, 2], padding=[1, 1, 1, 1], groups=32, channels=32, kernel_size=[3, 3]) "
       "}",
       {{{1, 32, 8, 9}, {32, 1, 3, 3}}, {{2, 32, 19, 1}, {32, 1, 3, 3}}}},
      {"Pooling",
       "def @main[n, h, w](%x: Tensor[(n, 8, h, w), float32]) {"
       " nn.global_avg_pool2d(nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])) }",
       {{{1, 8, 8, 9}}, {{2, 8, 31, 17}}}},
      {"TransposeAndConcatenate",
       "def @main[n, m](%x: Tensor[(n, 8), float32], %y: Tensor[(m, 8), float32]) {"
       " transpose(nn.relu(concatenate((%x, %y), axis=0)), axes=[1, 0]) }",
       {{{5, 8}, {9, 8}}, {{1, 8}, {64, 8}}}},
      {"Reshapes",
       "def @main[b, t](%x: Tensor[(b, t, 24), float32]) {"
       " %0 = reshape(%x, newshape=[0, 0, 4, 6]);"
       " %1 = transpose(%0, axes=[0, 2, 1, 3]);"
       " (reshape(%1, newshape=[-3, 0, 0]), reshape(%x, newshape=[-1, 24])) }",
       {{{2, 3, 24}}, {{1, 1, 24}}, {{4, 17, 24}}}},
  };
  return kModels;
}

/// Images of open height and width. Sizes lie around the edges of tiles, and at the smallest there may be.
const std::vector<Shapes> kImages = {{{1, 16, 1, 1}},   {{1, 16, 2, 3}},   {{1, 16, 7, 16}},
                                     {{2, 16, 13, 15}}, {{1, 16, 33, 17}}, {{1, 16, 64, 31}}};

const std::vector<OpenModel>& image_models() {
  static const std::vector<OpenModel> kModels = {
      {"NearestTwice",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32]) {"
       " image.resize2d(%x, scales=[2f, 2f], method=\"nearest_neighbor\","
       " coordinate_transformation_mode=\"asymmetric\", rounding_method=\"floor\") }",
       kImages},
      {"LinearByAFraction",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32]) { image.resize2d(%x, scales=[1.5f, 2.5f]) }",
       kImages},
      {"CubicAlignedCorners",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32]) {"
       " image.resize2d(%x, scales=[2f, 3f], method=\"cubic\","
       " coordinate_transformation_mode=\"align_corners\") }",
       kImages},
      {"Upsampling",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32]) {"
       " (nn.upsampling(%x, scale_h=2f, scale_w=2f),"
       " nn.upsampling(%x, scale_h=1.5f, scale_w=2f, method=\"bilinear\", align_corners=True)) }",
       kImages},
      {"ToTheSizeOfAnother",
       "def @main[n, h, w, a, b](%x: Tensor[(n, 16, h, w), float32], %y: Tensor[(a), float32],"
       " %z: Tensor[(b), float32]) {"
       " image.resize2d_like(%x, %y, %z, coordinate_transformation_mode=\"pytorch_half_pixel\") }",
       {{{1, 16, 1, 1}, {3}, {1}}, {{2, 16, 7, 9}, {20}, {31}}, {{1, 16, 12, 5}, {1}, {16}}}},
      {"ResizesOfOneAndThreeAxes",
       "def @main[n, h, w, a](%x: Tensor[(n, 4, h), float32], %y: Tensor[(1, h, w, 3, 2), float32],"
       " %z: Tensor[(a), float32]) {"
       " (image.resize1d(%x, scales=[1.5f]), image.resize1d_like(%x, %z, method=\"cubic\"),"
       " image.resize3d(%y, scales=[2f, 0.5f, 3f], layout=\"NDHWC\", antialias=True)) }",
       {{{1, 4, 1}, {1, 1, 2, 3, 2}, {3}},
        {{2, 4, 7}, {1, 7, 9, 3, 2}, {20}},
        {{1, 4, 40}, {1, 40, 17, 3, 2}, {1}}}},
      {"TransposedByTwo",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32], %k: Tensor[(16, 24, 2, 2), float32]) {"
       " nn.conv2d_transpose(%x, %k, strides=[2, 2], channels=24, kernel_size=[2, 2]) }",
       {{{1, 16, 1, 1}, {16, 24, 2, 2}}, {{2, 16, 5, 17}, {16, 24, 2, 2}}, {{1, 16, 16, 9}, {16, 24, 2, 2}}}},
      {"TransposedWithPadding",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32], %k: Tensor[(16, 8, 3, 4), float32]) {"
       " nn.conv2d_transpose(%x, %k, strides=[2, 3], padding=[1, 1, 1, 1], output_padding=[1, 0],"
       " channels=8, kernel_size=[3, 4]) }",
       {{{1, 16, 1, 1}, {16, 8, 3, 4}}, {{2, 16, 5, 17}, {16, 8, 3, 4}}, {{1, 16, 16, 9}, {16, 8, 3, 4}}}},
      {"TransposedInGroups",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32], %k: Tensor[(16, 4, 3, 3), float32]) {"
       " nn.conv2d_transpose(%x, %k, strides=[2, 1], padding=[0, 1, 1, 0], groups=2,"
       " channels=8, kernel_size=[3, 3]) }",
       {{{1, 16, 2, 1}, {16, 4, 3, 3}}, {{2, 16, 5, 17}, {16, 4, 3, 3}}}},
      {"PoolingsOfAllKinds",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32]) {"
       " (nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], ceil_mode=True),"
       " nn.avg_pool2d(%x, pool_size=[2, 3], strides=[2, 3], padding=[1, 1, 1, 1], ceil_mode=True),"
       " nn.avg_pool2d(%x, pool_size=[3, 3], padding=[1, 1, 1, 1], count_include_pad=True),"
       " nn.adaptive_avg_pool2d(%x, output_size=[3, 2]), nn.global_max_pool2d(%x)) }",
       {{{1, 16, 3, 3}}, {{1, 16, 4, 16}}, {{2, 16, 17, 15}}, {{1, 16, 33, 16}}}},
      {"SlicesAndPads",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32], %f: Tensor[(), float32]) {"
       " (strided_slice(%x, begin=[1, 0], end=[2147483647, -1], strides=[1, 1], axes=[2, 3]),"
       " strided_slice(%x, begin=[1, -3], end=[2147483647, 2147483647], strides=[2, 1], axes=[2, 3]),"
       " strided_slice(%x, begin=[2147483647, 2], end=[-2147483647, 5], strides=[-1, 2], axes=[2, 3]),"
       " nn.pad(%x, %f, pad_width=[[0, 0], [0, 0], [1, 2], [0, 3]]),"
       " nn.pad(%x, %f, pad_width=[[0, 0], [0, 0], [2, 1], [1, 1]], pad_mode=\"edge\")) }",
       {{{1, 16, 1, 1}, {}}, {{1, 16, 2, 4}, {}}, {{2, 16, 17, 15}, {}}}},
      {"ChannelsJoinedAndParted",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32], %k: Tensor[(16, 16, 1, 1), float32]) {"
       " %0 = nn.relu(nn.conv2d(%x, %k, channels=16, kernel_size=[1, 1]));"
       " %1 = concatenate((%x, %0), axis=1);"
       " %2 = split(%1, indices_or_sections=[8, 24], axis=1);"
       " (nn.depth_to_space(%1, block_size=2), %2.0, multiply(%2.1, mean(%2.1, axis=[2, 3], keepdims=True)),"
       " %2.2) }",
       {{{1, 16, 1, 1}, {16, 16, 1, 1}}, {{2, 16, 5, 17}, {16, 16, 1, 1}}, {{1, 16, 33, 8}, {16, 16, 1, 1}}}},
      // Small images have kernels with rows and columns as numbers, for one and for many.
      {"StridedToOneRow",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32]) {"
       " %0 = sin(cast(reshape(arange(0, 4608, 1), newshape=[32, 16, 3, 3]), dtype=\"float32\"));"
       " nn.conv2d(%x, %0, strides=[2, 2], padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]) }",
       {{{1, 16, 1, 1}},
        {{3, 16, 2, 1}},
        {{1, 16, 2, 2}},
        {{9, 16, 3, 4}},
        {{1, 16, 9, 1}},
        {{1, 16, 8, 8}}}},
      {"SignalsOfAFewRows",
       "def @main[n, t](%x: Tensor[(n, 1, t), float32]) {"
       " %0 = sin(cast(reshape(arange(0, 2048, 1), newshape=[16, 1, 128]), dtype=\"float32\"));"
       " %1 = cos(cast(reshape(arange(0, 1536, 1), newshape=[32, 16, 3]), dtype=\"float32\"));"
       " %2 = nn.conv1d(%x, %0, strides=[64], channels=16, kernel_size=[128]);"
       " nn.conv1d(%2, %1, strides=[2], padding=[1, 1], channels=32, kernel_size=[3]) }",
       {{{1, 1, 128}},
        {{2, 1, 191}},
        {{3, 1, 192}},
        {{8, 1, 256}},
        {{1, 1, 319}},
        {{11, 1, 320}},
        {{1, 1, 1000}}}},
      // Few rows and columns have a kernel of their own, which does not transform.
      {"ConvolutionOfKnownWeights",
       "def @main[n, h, w](%x: Tensor[(n, 16, h, w), float32]) {"
       " %0 = sin(cast(reshape(arange(0, 4608, 1), newshape=[32, 16, 3, 3]), dtype=\"float32\"));"
       " nn.conv2d(%x, %0, padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]) }",
       {{{1, 16, 3, 2}},
        {{2, 16, 1, 1}},
        {{3, 16, 2, 3}},
        {{1, 16, 4, 2}},
        {{1, 16, 2, 17}},
        {{1, 16, 1, 5}},
        {{2, 16, 8, 1}},
        {{7, 16, 2, 2}},
        {{2, 16, 13, 9}}}},
  };
  return kModels;
}

class OpenModels : public ::testing::TestWithParam<OpenModel> {};

TEST_P(OpenModels, OneBuildComputesEverySize) {
  const relay::Module module = bind_shapes(parse(GetParam().text), {}, {.all = true});
  auto compiled = runtime::Module::from_image(compile_model(module, codegen::host_target()));
  EXPECT_FALSE(compiled->plan().dims.empty());
  runtime::ThreadPool pool(2);
  for (const LatheParallel* parallel : {runtime::serial_parallel(), pool.parallel()}) {
    runtime::Executor executor(compiled, parallel);
    // There and back again: nothing of another size may be left.
    std::vector<Shapes> runs = GetParam().runs;
    runs.insert(runs.end(), GetParam().runs.rbegin(), GetParam().runs.rend());
    for (const Shapes& shapes : runs) {
      std::vector<Tensor> inputs;
      for (const std::vector<int64_t>& shape : shapes)
        inputs.push_back(random_tensor(shape, kFloat32, inputs.size() + 1, 0.5));
      for (size_t i = 0; i < inputs.size(); ++i) executor.set_input(i, inputs[i]);
      executor.run();
      std::vector<Tensor> expected = interpreted(module, inputs);
      ASSERT_EQ(executor.plan().outputs.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(executor.output(i).shape(), expected[i].shape());
        EXPECT_LE(max_relative_error(executor.output(i), expected[i]), 2e-5)
            << "output " << i << " of input " << shape_text(shapes[0]);
      }
    }
  }
}

const auto kNameOf = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(, OpenModels, ::testing::ValuesIn(models()), kNameOf);
INSTANTIATE_TEST_SUITE_P(Images, OpenModels, ::testing::ValuesIn(image_models()), kNameOf);

TEST(OpenShapes, OneKernelOfAFamilyRuns) {
  const relay::Module module = bind_shapes(parse(models()[1].text), {}, {.all = true});
  const runtime::Plan plan = compile_model(module, codegen::host_target()).plan;
  ASSERT_GT(plan.steps.size(), 2u);
  for (int64_t rows : {0, 1, 2, 4, 5, 1000}) {
    runtime::Plan bound = plan;
    std::vector<int64_t> dims;
    for (const runtime::Dimension& dim : plan.dims) dims.push_back(dim.name == "n" ? rows : 1);
    runtime::bind_dims(plan, dims, bound);
    std::map<int64_t, int> writers;  // by the value that is written
    for (const runtime::Step& step : bound.steps) writers[step.args.back()] += step.when != 0;
    for (const auto& [value, count] : writers) EXPECT_EQ(count, 1) << "value " << value << " of " << rows;
  }
}

TEST(OpenShapes, FewRowsAreConvolvedByAnotherKernel) {
  const relay::Module module = bind_shapes(parse(image_models().back().text), {}, {.all = true});
  const runtime::Plan plan = compile_model(module, codegen::host_target()).plan;
  auto running = [&](int64_t height, int64_t width) {
    std::vector<int64_t> dims;
    for (const runtime::Dimension& dim : plan.dims)
      dims.push_back(dim.name == "h" ? height : dim.name == "w" ? width : 2);
    runtime::Plan bound = plan;
    runtime::bind_dims(plan, dims, bound);
    std::vector<bool> steps;
    for (const runtime::Step& step : bound.steps) steps.push_back(step.when != 0);
    return steps;
  };
  EXPECT_NE(running(1, 1), running(2, 2));
  EXPECT_EQ(running(3, 3), running(3, 2));
  EXPECT_NE(running(3, 3), running(32, 32));
  // A long row is no small image.
  EXPECT_EQ(running(2, 64), running(32, 32));
}

TEST(OpenShapes, ADimensionOfTwoInputsIsOneNumber) {
  const relay::Module module = bind_shapes(parse(models()[0].text), {}, {.all = true});
  auto compiled = runtime::Module::from_image(compile_model(module, codegen::host_target()));
  runtime::Executor executor(compiled, runtime::serial_parallel());
  executor.set_input(0, random_tensor({3, 4}, kFloat32, 1));
  executor.set_input(1, random_tensor({2, 4}, kFloat32, 2));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "input `y` is float32 (2, 4), must be float32 (3, 4)");
  EXPECT_EQ(thrown_by([&] {
              executor.set_input(1, random_tensor({3, 5}, kFloat32, 2));
            }),
            "input `y` is float32 (3, 5), must be float32 (n, 4)");
  executor.set_input(1, random_tensor({3, 4}, kFloat32, 2));
  executor.run();
}

TEST(OpenShapes, WhatTypesCannotDecideIsCheckedWhenItRuns) {
  const relay::Module module = bind_shapes(
      parse("def @main[n](%x: Tensor[(n, 3), float32]) { nn.relu(reshape(%x, newshape=[-1, 4])) }"), {},
      {.all = true});
  auto compiled = runtime::Module::from_image(compile_model(module, codegen::host_target()));
  runtime::Executor executor(compiled, runtime::serial_parallel());
  executor.set_input(0, random_tensor({8, 3}, kFloat32, 1));
  executor.run();
  EXPECT_EQ(executor.output(0).shape(), (std::vector<int64_t>{6, 4}));
  executor.set_input(0, random_tensor({5, 3}, kFloat32, 1));
  EXPECT_NE(thrown_by([&] { executor.run(); }).find("does not hold for n = 5"), std::string::npos);
}

/// The channels of the weight are those of the image.
TEST(OpenShapes, NoFlagIsForWhatOperatorsSettle) {
  const TemporaryFolder folder;
  const std::string file = folder / "conv.relay";
  write_file(file, R"(#[version = "0.0.5"]
def @main[n, c, h, w](%x: Tensor[(n, c, h, w), float32]) {
  nn.conv2d(%x, ones(shape=[2, 3, 1, 1], dtype="float32"), channels=2, kernel_size=[1, 1])
})");
  EXPECT_NO_THROW(load_model(file, {}, parse_open_dims({"n", "h", "w"})));
  EXPECT_EQ(
      thrown_by([&] {
        load_model(file, {}, parse_open_dims({"n", "c=1..4", "h", "w"}));
      }),
      file + ": --open c: the model's operators take one size of this dimension alone; leave the flag out");
}

TEST(OpenShapes, RangesAreOfDimensionsThatThereAre) {
  runtime::Plan plan;
  plan.dims = {{.name = "n"}};
  set_ranges(plan, {.named = {{"n", {1, 64}}}});
  EXPECT_EQ(plan.dims[0].max, 64);
  EXPECT_EQ(thrown_by([&] {
              set_ranges(plan, {.named = {{"m", {1, 64}}}});
            }),
            "--open m: no input has an open dimension of this name; those are n");
}

}  // namespace
}  // namespace lathe::tuner
