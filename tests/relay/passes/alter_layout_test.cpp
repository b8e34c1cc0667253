#include "core/relay/passes/alter_layout.h"

#include <gtest/gtest.h>

#include "core/relay/analysis/call_type.h"
#include "core/relay/lower.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/layout.h"
#include "core/relay/passes/alter_layout/blocks.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/tir/interpret.h"

namespace lathe::relay {
namespace {

using Index = std::vector<int64_t>;

/// A network under construction: weights are drawn, the input is `data`.
class Net {
 public:
  explicit Net(const Index& shape) : data_(typed_var(shape)) {}

  Expr data() const { return data_; }
  Expr weight(const Index& shape) { return typed_constant(random_tensor(shape, kFloat32, ++seed_, 0.5)); }
  Expr conv(const Expr& x, int64_t channels, int64_t kernel, int64_t stride = 1, int64_t groups = 1) {
    auto a = std::make_unique<ConvAttrs>();
    a->strides = {stride};
    a->padding = {kernel / 2};
    a->groups = groups;
    int64_t in = constant_shape(*x->checked_type.as<TensorType>())[1];
    return typed_call("nn.conv2d", {x, weight({channels, in / groups, kernel, kernel})}, seal(std::move(a)));
  }
  Expr bias(const Expr& x) {
    return typed_call("nn.bias_add", {x, weight({constant_shape(*x->checked_type.as<TensorType>())[1]})});
  }
  Expr relu(const Expr& x) { return typed_call("nn.relu", {x}); }
  Expr pool(const char* op, const Expr& x) {
    auto a = std::make_unique<PoolAttrs>();
    a->pool_size = {3, 3};
    a->strides = {2, 2};
    a->padding = {1, 1};
    return typed_call(op, {x}, seal(std::move(a)));
  }
  Ref<Function> main(const Expr& body) {
    return make<Function>(std::vector<TypeVar>(), std::vector<Var>{data_}, Type(), body);
  }

 private:
  static Var typed_var(const Index& shape) {
    auto v = mutate(*make_var("data", tensor_type(shape, kFloat32)));
    v->checked_type = v->annotation;
    return seal(std::move(v));
  }
  Var data_;
  uint64_t seed_ = 0;
};

Tensor run(const Ref<Function>& function, const Tensor& input) {
  LiftedConstants lifted = lift_constants(function);
  tir::Func program = lower_function(lifted.function, "net");
  std::vector<Tensor> tensors{input};
  tensors.insert(tensors.end(), lifted.values.begin(), lifted.values.end());
  tensors.push_back(zeros(tir::constant_shape(program->params.back()), kFloat32));
  tir::interpret(program, tensors);
  return tensors.back();
}

Target target_of(int lanes) {
  Target target;
  target.vector_bits = lanes * 32;
  return target;
}

int64_t count(const Ref<Function>& function, std::string_view op) {
  int64_t n = 0;
  post_order(function, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    n += call && call->callee.as<OpNode>()->name == op;
  });
  return n;
}

/// The altered function, after checking that it computes the same.
Ref<Function> altered(const Ref<Function>& function, const Target& target) {
  Ref<Function> result = alter_layout(make_module(function), target)->functions.at("main");
  EXPECT_TRUE(structural_equal(result->body->checked_type, function->body->checked_type));
  Tensor input =
      random_tensor(constant_shape(*function->params[0]->checked_type.as<TensorType>()), kFloat32, 99);
  EXPECT_LT(max_relative_error(run(result, input), run(function, input)), 1e-5);
  return result;
}
Ref<Function> altered(const Ref<Function>& function, int lanes) {
  return altered(function, target_of(lanes));
}

TEST(AlterLayout, ResidualBlockHasNoTransformsInside) {
  Net n({1, 3, 9, 9});
  Expr x = n.pool("nn.max_pool2d", n.relu(n.bias(n.conv(n.data(), 8, 3, 2))));
  Expr y = n.relu(n.bias(n.conv(x, 8, 3)));
  y = n.relu(typed_call("add", {n.conv(y, 8, 3), x}));
  y = typed_call("nn.batch_flatten", {typed_call("nn.global_avg_pool2d", {y})});
  Ref<Function> f = altered(n.main(y), 8);
  EXPECT_EQ(count(f, "nn.contrib_conv2d_NCHWc"), 3);
  EXPECT_EQ(count(f, "layout_transform"), 2);  // at the input, and before flattening
}

TEST(AlterLayout, BlocksFollowTheVectorWidthAndTheChannels) {
  struct Case {
    int lanes;
    const char* cpu;
    std::vector<int64_t> blocks;
  };
  const std::vector<int64_t> kChannels{3, 5, 24, 20, 40, 42, 50, 100, 64};
  for (const auto& [lanes, cpu, blocks] :
       {Case{4, "", {0, 4, 4, 4, 4, 4, 4, 4, 4}}, Case{8, "", {0, 8, 8, 8, 8, 8, 8, 8, 8}},
        Case{16, "", {0, 8, 12, 12, 16, 16, 16, 16, 16}},
        Case{16, "znver4", {0, 8, 8, 8, 8, 16, 16, 16, 16}}}) {
    Target target = target_of(lanes);
    target.cpu = cpu;
    for (size_t i = 0; i < kChannels.size(); ++i)
      EXPECT_EQ(Blocks(target).best(kChannels[i]), blocks[i]) << lanes << " lanes, " << kChannels[i];
  }
}

TEST(AlterLayout, FewChannelsAreReadWhereTheyLieUnlessPadded) {
  for (int64_t kernel : {1, 3}) {  // 3: padded
    Net n({1, 4, 5, 5});
    Ref<Function> f = altered(n.main(n.conv(n.data(), 8, kernel)), 8);
    EXPECT_EQ(count(f, "layout_transform"), kernel == 1 ? 1 : 2);
    const Call* conv = f->body.as<Call>()->args[0].as<Call>();
    EXPECT_EQ(conv->attrs.as<ConvAttrs>()->data_layout, kernel == 1 ? "NCHW1c" : "NCHW4c");
  }
}

/// Vectors along rows where a block would be filled up by many channels, unless data in blocks would be
/// turned for few products, or blocks have a faster algorithm.
TEST(AlterLayout, FewResultsAreComputedInRowsWhereThatFillsVectors) {
  struct Case {
    int64_t in, out, kernel, width;
    bool after_blocks, rows;
  };
  for (auto [in, out, kernel, width, after_blocks, rows] :
       {Case{19, 9, 7, 45, false, true}, Case{19, 9, 7, 45, true, true}, Case{19, 9, 1, 45, false, true},
        Case{19, 9, 1, 45, true, false}, Case{19, 9, 3, 45, false, false}, Case{7, 9, 3, 45, false, true},
        Case{19, 9, 7, 5, false, false}, Case{19, 17, 7, 45, false, false},
        Case{19, 16, 7, 45, false, false}}) {
    SCOPED_TRACE(fmt::format("{} to {} channels, kernel {}, width {}, {}", in, out, kernel, width,
                             after_blocks ? "blocks" : "rows"));
    Net n({1, in, 4, width});
    Expr x = after_blocks ? n.relu(n.conv(n.data(), 32, 1)) : n.data();
    Ref<Function> f = altered(n.main(n.conv(x, out, kernel)), 16);
    EXPECT_EQ(count(f, "nn.conv2d"), rows ? 1 : 0);
    EXPECT_EQ(count(f, "nn.contrib_conv2d_NCHWc"), (after_blocks ? 1 : 0) + (rows ? 0 : 1));
  }
}

/// What is only read is filled up rather than put into blocks that no vector fits, unless that is much more.
TEST(AlterLayout, BlocksThatAreReadAreMultiplesOfFourWhereThatFillsUpLittle) {
  const Blocks blocks(target_of(16));
  for (auto [channels, block] : std::vector<std::pair<int64_t, int64_t>>{{64, 16},
                                                                         {24, 12},
                                                                         {60, 12},
                                                                         {63, 16},
                                                                         {45, 16},
                                                                         {99, 16},
                                                                         {9, 9},
                                                                         {18, 9},
                                                                         {7, 7},
                                                                         {17, 17},
                                                                         {58, 16}})
    EXPECT_EQ(blocks.read(channels), block) << channels;
}

/// Twenty channels of a group are three vectors of eight and cut apart rather than four of five.
TEST(AlterLayout, ResultsOfGroupsFillVectors) {
  const Blocks blocks(target_of(8)), wide(target_of(16));
  EXPECT_EQ(blocks.of_group(20, 1), 8);
  EXPECT_EQ(blocks.of_group(12, 1), 6) << "two vectors either way, and nothing to cut";
  EXPECT_EQ(blocks.of_group(10, 1), 5);
  EXPECT_EQ(blocks.of_group(16, 1), 8);
  EXPECT_EQ(blocks.of_group(3, 1), 0);
  EXPECT_EQ(wide.of_group(20, 1), 10);
  EXPECT_EQ(wide.of_group(40, 1), 16);
  Net n({1, 160, 6, 6});
  Ref<Function> f = altered(n.main(n.conv(n.data(), 160, 3, 1, 8)), 8);
  post_order(f->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    const auto* conv = call ? call->attrs.as<ConvAttrs>() : nullptr;
    if (!conv) return;
    EXPECT_EQ(conv->out_layout, "NCHW8c");
    EXPECT_EQ(conv->data_layout, "NCHW4c") << "divides a group, and is no vector of five";
  });
}

TEST(AlterLayout, WeightsOfADenseLayerFollowTheBlocksOfAFlattenedImage) {
  for (const char* flatten : {"nn.batch_flatten", "reshape"}) {
    Net n({5, 8, 3, 5});
    Expr x = n.relu(n.conv(n.data(), 16, 3));
    x = std::string_view(flatten) == "reshape" ? typed_call("reshape", {x}, make<ReshapeAttrs>(Ints{5, 240}))
                                               : typed_call(flatten, {x});
    Ref<Function> f = altered(n.main(typed_call("nn.dense", {x, n.weight({24, 240})})), 8);
    EXPECT_EQ(count(f, "layout_transform"), 1) << flatten;  // at the input
    EXPECT_EQ(count(f, "nn.contrib_dense_pack"), 1);
  }
}

/// The type of the weight of the one packed call of `op`.
const TensorType& weight_type(const Ref<Function>& function, std::string_view op) {
  const TensorType* found = nullptr;
  post_order(function, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    if (call && call->callee.as<OpNode>()->name == op) found = call->args[1]->checked_type.as<TensorType>();
  });
  return *found;
}

TEST(AlterLayout, EightBitsAndBfloat16GroupTheInputChannels) {
  for (DataType type : {kInt8, kBFloat16}) {
    Net n({5, 3, 6, 6});
    auto narrow = [&](const Expr& e) { return typed_call("cast", {e}, make<CastAttrs>(type)); };
    auto attrs = make<ConvAttrs>(Ints{}, Ints{1, 1}, Ints{}, int64_t{1}, std::optional<int64_t>(), Ints{},
                                 std::string(), std::string(), std::string(),
                                 std::optional(type == kInt8 ? kInt32 : kFloat32));
    Tensor weight = random_tensor({8, 3, 3, 3}, type, 5), dense = random_tensor({16, 8}, type, 6);
    Expr conv = typed_call("nn.conv2d", {narrow(n.data()), typed_constant(weight)}, attrs);
    Expr mean = typed_call("max", {conv}, make<ReduceAttrs>(std::optional(Ints{2, 3})));
    auto sums = make<DenseAttrs>(std::optional<int64_t>(), attrs.as<ConvAttrs>()->out_dtype);
    Expr product = typed_call("nn.dense", {narrow(mean), typed_constant(dense)}, sums);
    Ref<Function> f = altered(n.main(typed_call("cast", {product}, make<CastAttrs>(kFloat32))), 8);
    int64_t group = type == kInt8 ? 4 : 2;
    EXPECT_EQ(constant_shape(weight_type(f, "nn.contrib_conv2d_NCHWc")),
              (Index{1, 1, 3, 3, 4 / group, 8, group}))
        << "of four channels, one of zeros";
    EXPECT_EQ(constant_shape(weight_type(f, "nn.contrib_dense_pack")), (Index{2, 8 / group, 8, group}));
  }
}

/// Rows of tile registers are 64 bytes along the channels of a pixel.
TEST(AlterLayout, BytesLieInRowsOfTilesWhereThoseMultiply) {
  auto weight_for = [](const char* cpu, int64_t in, int64_t out) {
    Target target = target_of(16);
    target.triple = "x86_64-linux-gnu", target.cpu = cpu;
    Net n({1, in, 4, 4});
    auto attrs = std::make_unique<ConvAttrs>();
    attrs->out_dtype = kInt32;
    Expr data = typed_call("cast", {n.data()}, make<CastAttrs>(kUInt8));
    Expr weight = typed_constant(random_tensor({out, in, 1, 1}, kInt8, 5));
    Expr conv = typed_call("nn.conv2d", {data, weight}, seal(std::move(attrs)));
    return constant_shape(
        weight_type(altered(n.main(typed_call("cast", {conv}, make<CastAttrs>(kFloat32))), target),
                    "nn.contrib_conv2d_NCHWc"));
  };
  EXPECT_EQ(weight_for("sapphirerapids", 128, 64), (Index{1, 2, 1, 1, 16, 64, 4}));
  EXPECT_EQ(weight_for("sapphirerapids", 64, 48), (Index{3, 1, 1, 1, 16, 16, 4}));
  EXPECT_EQ(weight_for("sapphirerapids", 96, 64), (Index{4, 6, 1, 1, 4, 16, 4})) << "no whole rows";
  EXPECT_EQ(weight_for("znver4", 128, 64), (Index{4, 8, 1, 1, 4, 16, 4}));
}

TEST(AlterLayout, TilesOfBFloat16ReadFewBlocks) {
  Target target = target_of(16);
  target.triple = "x86_64-linux-gnu", target.cpu = "sapphirerapids";
  const Blocks blocks(target);
  ASSERT_TRUE(blocks.fill_tiles(kBFloat16));
  EXPECT_EQ(blocks.read(68, 2), 4);
  EXPECT_EQ(blocks.read_in_tiles(68, 2), 16) << "five products for each tap, not 17 in vectors";
  EXPECT_EQ(blocks.read(84, 2), 12);
  EXPECT_EQ(blocks.read_in_tiles(84, 2), 16) << "six products, not seven";
  EXPECT_EQ(blocks.read_in_tiles(24, 2), 12) << "two either way";
  EXPECT_EQ(blocks.read_in_tiles(28, 2), 16) << "two, not seven in vectors";
  EXPECT_EQ(blocks.read_in_tiles(64, 2), 16);
  EXPECT_EQ(blocks.read_in_tiles(3, 2), blocks.read(3, 2)) << "sixteen would be five times the data";
}

TEST(AlterLayout, DepthwiseAndGroups) {
  Net n({1, 8, 6, 6});
  Expr x = n.conv(n.relu(n.conv(n.data(), 8, 3, 2, 8)), 16, 3, 1, 2);
  Ref<Function> f = altered(n.main(x), 8);
  EXPECT_EQ(count(f, "nn.contrib_depthwise_conv2d_NCHWc"), 1);
  EXPECT_EQ(count(f, "nn.contrib_conv2d_NCHWc"), 1);
}

TEST(AlterLayout, ConcatenationTakesABlockOfAllParts) {
  Net n({1, 8, 5, 5});
  Expr a = n.conv(n.data(), 8, 1), b = n.conv(n.data(), 4, 3),
       c = n.pool("nn.avg_pool2d", n.conv(n.data(), 16, 1));
  auto axis = make<ConcatenateAttrs>(int64_t{1});
  Expr joined = typed_call("concatenate", {typed_tuple({a, b})}, axis);
  Ref<Function> f = altered(
      n.main(typed_call("concatenate", {typed_tuple({n.pool("nn.max_pool2d", joined), c})}, axis)), 8);
  EXPECT_EQ(count(f, "layout_transform"), 4);  // the input, 8c to 4c twice, the result
}

TEST(AlterLayout, ConcatenationOfAnUnknownNumberOfChannelsStays) {
  Module module = infer_type(
      parse_module("#[version = \"0.0.5\"]\n"
                   "def @main(%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 16, 1, 1), float32],\n"
                   "          %y: Tensor[(1, c, 8, 8), float32]) {\n"
                   "  concatenate((nn.conv2d(%x, %w), %y), axis=1)\n}\n"));
  Ref<Function> f = alter_layout(module, target_of(8))->functions.at("main");
  EXPECT_EQ(count(f, "nn.contrib_conv2d_NCHWc"), 1);
  EXPECT_TRUE(structural_equal(f->body->checked_type, module->functions.at("main")->body->checked_type));
}

TEST(AlterLayout, OperandsThatBroadcast) {
  Net n({1, 8, 4, 4});
  Expr x = n.conv(n.data(), 8, 3);
  x = typed_call("multiply", {x, n.weight({8, 1, 1})});
  x = typed_call("add", {n.weight({8, 4, 4}), x});
  x = typed_call("multiply", {x, n.weight({4, 1})});
  x = typed_call("add", {x, n.weight({1, 1, 4, 4})});
  x = typed_call("multiply", {x, typed_constant(full({}, kFloat32, 3))});
  x = typed_call("multiply", {x, typed_call("sigmoid", {typed_call("nn.global_avg_pool2d", {x})})});
  Ref<Function> f = altered(n.main(x), 4);
  EXPECT_EQ(count(f, "layout_transform"), 2);
}

/// Blocks of 8; of the last part some channels are beyond.
TEST(AlterLayout, PartsOfChannelsAreWholeBlocks) {
  for (int64_t at : {16, 24, 10}) {
    Net n({1, 3, 5, 5});
    Expr parts = typed_call("split", {n.relu(n.conv(n.data(), 36, 1))},
                            make<SplitAttrs>(Ints{at}, int64_t{0}, int64_t{-3}));
    auto slice = std::make_unique<StridedSliceAttrs>();
    slice->axes = Ints{1};
    slice->begin = {8}, slice->end = {at}, slice->strides = {1};
    Expr first = typed_projection(parts, 0), second = typed_projection(parts, 1);
    Expr x = typed_call("add", {n.conv(first, 8, 1), n.conv(typed_call("sigmoid", {second}), 8, 1)});
    x = typed_call("add", {x, n.conv(typed_call("strided_slice", {first}, seal(std::move(slice))), 8, 1)});
    Ref<Function> f = altered(n.main(x), 8);
    SCOPED_TRACE(at);
    EXPECT_EQ(count(f, "split"), at % 8 ? 1 : 0);
    EXPECT_EQ(count(f, "layout_transform"), at % 8 ? 4 : 1);
  }
}

TEST(AlterLayout, PadsResizesAndLeaksInBlocks) {
  Net n({1, 8, 4, 4});
  Expr x = typed_call("nn.prelu", {n.conv(n.data(), 16, 3), n.weight({16})});
  auto pad = std::make_unique<PadAttrs>();
  pad->pad_width = {{0, 0}, {0, 0}, {1, 0}, {0, 2}};
  x = typed_call("nn.pad", {x, typed_constant(full({}, kFloat32, 0.5))}, seal(std::move(pad)));
  auto twice = std::make_unique<ResizeAttrs>();
  twice->size = {10, 12};
  x = typed_call("image.resize2d", {x}, seal(std::move(twice)));
  auto half = std::make_unique<UpsamplingAttrs>();
  half->scale_h = 0.5;
  x = typed_call("nn.upsampling", {x}, seal(std::move(half)));
  x = typed_call("subtract", {x, typed_call("mean", {x}, make<ReduceAttrs>(Ints{-2, 3}, true))});
  Ref<Function> f = altered(n.main(x), 8);
  EXPECT_EQ(count(f, "layout_transform"), 2);
}

TEST(AlterLayout, ChannelsAreFilledUpAndStaySo) {
  for (int64_t in : {1, 3, 8, 17, 50}) {
    Net n({1, in, 6, 5});
    Expr x = n.relu(n.bias(n.conv(n.data(), 17, 3)));
    x = typed_call("sigmoid", {n.pool("nn.max_pool2d", n.conv(x, 17, 3, 1, 17))});  // depthwise
    Ref<Function> f = altered(n.main(n.conv(x, 53, 3)), 16);
    EXPECT_EQ(count(f, "nn.conv2d"), 0) << in << " channels";
    EXPECT_EQ(count(f, "strided_slice"), 1) << "of the result";
    EXPECT_EQ(count(f, "layout_transform"), in == 1 ? 1 : 2);
  }
}

/// Zeros divided by zeros must not reach a sum.
TEST(AlterLayout, WhatIsNoNumberIsCutOff) {
  Net n({1, 17, 4, 5});
  Expr x = n.relu(n.conv(n.data(), 17, 1));
  Expr divided = typed_call("divide", {x, n.weight({17, 1, 1})});
  Expr logarithm = typed_call("log", {typed_call("add", {x, typed_constant(full({}, kFloat32, 1))})});
  Expr root = typed_call("rsqrt", {x});
  for (const Expr& y : {divided, logarithm, root}) {
    Ref<Function> f =
        altered(n.main(n.conv(typed_call("minimum", {y, typed_constant(full({}, kFloat32, 9))}), 8, 1)), 16);
    EXPECT_EQ(count(f, "strided_slice"), y == logarithm ? 0 : 1);
  }
}

TEST(AlterLayout, GroupsOfAnySize) {
  struct Case {
    int64_t groups, in, out;  // channels a group
    int slices, joined;
  };
  for (auto [groups, in, out, slices, joined] :
       {Case{4, 4, 4, 0, 1}, Case{8, 4, 4, 0, 2}, Case{4, 10, 10, 0, 4}, Case{2, 20, 5, 1, 1},
        Case{3, 17, 19, 1, 3}, Case{2, 35, 16, 0, 2}, Case{3, 1, 7, 1, 0}, Case{17, 1, 1, 1, 0}}) {
    SCOPED_TRACE(fmt::format("{} groups, {} to {}", groups, in, out));
    Net n({1, groups * in, 4, 5});
    Ref<Function> f = altered(n.main(n.conv(n.data(), groups * out, 3, 1, groups)), 16);
    EXPECT_EQ(count(f, "nn.conv2d"), 0);
    EXPECT_EQ(count(f, "strided_slice"), slices);
    post_order(f, [&](const NodeRef& node) {
      const Call* call = node.as<Call>();
      if (!call || call->callee.as<OpNode>()->name != "nn.contrib_conv2d_NCHWc") return;
      EXPECT_EQ(call->attrs.as<ConvAttrs>()->groups, joined);
    });
  }
}

/// The data is copied, or, where a stride makes the results fewer, they are put in order.
TEST(AlterLayout, DepthwiseOfSeveralResults) {
  for (auto [channels, results] : {std::pair{16, 2}, {17, 3}, {5, 4}})
    for (int64_t stride : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} channels, {} results, stride {}", channels, results, stride));
      Net n({1, channels, 6, 7});
      Ref<Function> f = altered(n.main(n.conv(n.data(), channels * results, 3, stride, channels)), 16);
      EXPECT_EQ(count(f, "nn.contrib_depthwise_conv2d_NCHWc"), 1);
      EXPECT_EQ(count(f, "repeat"), stride == 1 ? 1 : 0);
    }
}

TEST(AlterLayout, ProductsAtOnceFillUpTheInputChannels) {
  for (DataType type : {kInt8, kBFloat16})
    for (auto [groups, in, out] : {std::tuple{1, 10, 10}, {1, 50, 17}, {2, 9, 20}, {2, 35, 35}, {6, 1, 1}}) {
      SCOPED_TRACE(fmt::format("{}: {} groups, {} to {}", to_string(type), groups, in, out));
      Net n({1, groups * in, 3, 4});
      auto attrs = std::make_unique<ConvAttrs>();
      attrs->groups = groups, attrs->out_dtype = type == kInt8 ? kInt32 : kFloat32;
      Expr data = typed_call("cast", {n.data()}, make<CastAttrs>(type));
      Expr weight = typed_constant(random_tensor({groups * out, in, 2, 2}, type, 5));
      Expr conv = typed_call("nn.conv2d", {data, weight}, seal(std::move(attrs)));
      EXPECT_EQ(
          count(altered(n.main(typed_call("cast", {conv}, make<CastAttrs>(kFloat32))), 16), "nn.conv2d"), 0);
    }
}

/// Channels of pixels stay in blocks where those of one pixel are whole blocks.
TEST(AlterLayout, ChannelsBecomePixelsInBlocks) {
  for (int64_t channels : {64, 20}) {
    Net n({1, 8, 4, 3});
    Expr x =
        typed_call("nn.depth_to_space", {n.conv(n.data(), channels, 1)}, make<SubPixelAttrs>(int64_t{2}));
    auto cut = std::make_unique<StridedSliceAttrs>();
    cut->begin = {1, 0}, cut->end = {8, 5}, cut->strides = {1, 1}, cut->axes = Ints{2, -1};
    Ref<Function> f = altered(n.main(n.relu(typed_call("strided_slice", {x}, seal(std::move(cut))))), 16);
    EXPECT_EQ(f->body.as<Call>()->callee.as<OpNode>()->name, channels == 64 ? "layout_transform" : "nn.relu");
  }
}

/// One stride stands for all axes: every other channel is in no block.
TEST(AlterLayout, AStrideOfAllAxesIsThatOfTheChannels) {
  for (int64_t stride : {1, 2}) {
    Net n({1, 8, 4, 4});
    auto cut = std::make_unique<StridedSliceAttrs>();
    cut->begin = {0, 0}, cut->end = {4, 64}, cut->strides = {stride}, cut->axes = Ints{2, 1};
    Expr x = typed_call("strided_slice", {n.conv(n.data(), 64, 1)}, seal(std::move(cut)));
    Ref<Function> f = altered(n.main(n.relu(x)), 16);
    EXPECT_EQ(f->body.as<Call>()->callee.as<OpNode>()->name, stride == 1 ? "layout_transform" : "nn.relu");
  }
}

TEST(AlterLayout, KeepsWhatHasNoBlock) {
  Net n({1, 8, 4, 4});
  Ref<Function> f = altered(n.main(n.relu(n.conv(n.data(), 3, 3))), 8);
  EXPECT_EQ(count(f, "nn.conv2d"), 1);
  EXPECT_EQ(count(f, "layout_transform"), 0);
}

TEST(AlterLayout, PacksDense) {
  Net n({5, 6});
  Expr x = typed_call("nn.dense", {n.data(), n.weight({32, 6})});
  x = typed_call("nn.dense", {n.relu(x), n.weight({24, 32})});
  Ref<Function> f = altered(n.main(x), 16);
  EXPECT_EQ(count(f, "nn.contrib_dense_pack"), 1);  // schedules pack 24 units, in parts of vectors
  EXPECT_EQ(count(f, "nn.dense"), 1);
}

TEST(AlterLayout, LeavesConstantsForFewRowsToSchedules) {
  for (int64_t rows : {1, 4, 5}) {
    Net n({rows, 6});
    Ref<Function> f = altered(n.main(typed_call("nn.dense", {n.data(), n.weight({32, 6})})), 16);
    EXPECT_EQ(count(f, "nn.dense"), rows <= 4);
  }
}

TEST(AlterLayout, ConstantsOfAnyTypeMoveByCopy) {
  Tensor x = random_tensor({2, 12, 3}, kInt8, 5);
  Layout plain = Layout::parse("NCW"), four = Layout::parse("NCW4c"), six = Layout::parse("CN6cW");
  Tensor blocked = transform_layout(x, plain, four);
  EXPECT_EQ(blocked.shape(), (Index{2, 3, 3, 4}));
  EXPECT_EQ(blocked.integer(((1 * 3 + 2) * 3 + 1) * 4 + 3), x.integer((1 * 12 + 11) * 3 + 1));
  Tensor back = transform_layout(transform_layout(blocked, four, six), six, plain);
  for (int64_t i = 0; i < x.size(); ++i) ASSERT_EQ(back.integer(i), x.integer(i));
}

}  // namespace
}  // namespace lathe::relay
