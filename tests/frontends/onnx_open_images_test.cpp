// Images of open sizes and channels: see onnx_open_models.h.
#include <gtest/gtest.h>

#include "core/relay/text.h"
#include "tests/frontends/onnx_open_models.h"

namespace lathe::onnx {
namespace {

TEST(OnnxOpen, ResizesOfAnyRank) {
  // To twice an open extent, to one that has nothing to do with it, and to a number.
  expect_same(with_shape({node("Mul", {"t", "two"}, {"more"}), ints("six", {6}),
                          node("Concat", {"more", "six"}, {"sizes"}, integer("axis", 0)),
                          node("Resize", {"x", "", "", "sizes"}, {"y"}, integers("axes", {1, 2}))}),
              {"y"}, 18);
  expect_same(
      with_shape({node("Add", {"t", "one"}, {"more"}), node("Resize", {"x", "", "", "more"}, {"y"},
                                                            integers("axes", {1}) + text("mode", "linear"))}),
      {"y"}, 18);
  expect_same({ints("nine", {9}),
               node("Resize", {"x", "", "", "nine"}, {"y"}, integers("axes", {2}) + text("mode", "cubic"))},
              {"y"}, 18);
}

/// One factor for rows and columns, of any number of images.
TEST(OnnxOpen, KeepsTheAspectRatioOfAnyImages) {
  for (const char* policy : {"not_larger", "not_smaller"})
    expect_same_at(
        {{ints("to", {6, 5}), node("Resize", {"x", "", "", "to"}, {"y"},
                                   integers("axes", {2, 3}) + text("keep_aspect_ratio_policy", policy))},
         input_of("x", {"n", "c", "4", "7"}),
         {"y"},
         18},
        {{{"x", {2, 1, 4, 7}}}, {{"x", {1, 3, 4, 7}}}});
}

/// 20 times 0.7 is 14, also where float32 has a little less than 0.7.
TEST(OnnxOpen, ResizesByWhatAFactorMeans) {
  Tensor factors({4}, kFloat32);
  for (int64_t i = 0; i < 4; ++i)
    factors.set(i, std::vector<double>{1, 1, 0.7, 1.0 / 3}[static_cast<size_t>(i)]);
  const Model model{{node("Resize", {"x", "", "factors"}, {"y"})},
                    input_of("x", {"1", "1", "h", "w"}) + input_of("factors", {"4"})};
  const ImportedModel open = import_bytes(
      model.file(), "m.onnx",
      {.constants = {{"factors", factors}}, .keeps_open = [](const std::string&) { return true; }});
  for (const Shape& shape : std::vector<Shape>{{1, 1, 20, 9}, {1, 1, 10, 3}, {1, 1, 7, 8}, {1, 1, 1000, 90}})
    expect_equal(run_at(open, {{"x", shape}}),
                 run_at(import_bytes(model.file(), "m.onnx",
                                     {.shapes = {{"x", shape}}, .constants = {{"factors", factors}}}),
                        {{"x", shape}}));
}

TEST(OnnxOpen, SamplesImagesByGrids) {
  for (const char* padding : {"zeros", "border", "reflection"})
    for (const char* mode : {"bilinear", "nearest", "bicubic"})
      for (int64_t corners : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} {} {}", padding, mode, corners));
        expect_same_at(
            {{node("GridSample", {"x", "grid"}, {"y"},
                   text("mode", mode) + text("padding_mode", padding) + integer("align_corners", corners))},
             input_of("x", {"b", "c", "h", "w"}) + input_of("grid", {"b", "v", "u", "2"})},
            {{{"x", {1, 2, 3, 4}}, {"grid", {1, 2, 5, 2}}}, {{"x", {2, 1, 1, 5}}, {"grid", {2, 3, 1, 2}}}});
      }
}

/// As many windows as elements per stride, rounded up: how much padding that takes depends on the size.
TEST(OnnxOpen, PadsToTheSameSize) {
  const std::vector<Shapes> sizes = {
      {{"x", {1, 2, 4, 7}}}, {{"x", {2, 2, 9, 1}}}, {{"x", {1, 2, 5, 6}}}, {{"x", {1, 2, 6, 8}}}};
  for (const char* pad : {"SAME_UPPER", "SAME_LOWER"})
    for (const auto& [kernel, strides, dilations] :
         std::vector<std::tuple<Shape, Shape, Shape>>{{{3, 2}, {1, 1}, {1, 2}},
                                                      {{3, 3}, {2, 2}, {1, 1}},
                                                      {{1, 5}, {3, 3}, {1, 1}},
                                                      {{2, 3}, {4, 2}, {2, 1}}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", pad, shape_text(kernel), shape_text(strides)));
      const std::string window = text("auto_pad", pad) + integers("kernel_shape", kernel) +
                                 integers("strides", strides) + integers("dilations", dilations);
      const std::string x = input_of("x", {"b", "2", "h", "w"});
      expect_same_at(
          {{ints("shape", {3, 2, kernel[0], kernel[1]}), node("ConstantOfShape", {"shape"}, {"zeros"}),
            node("Cos", {"zeros"}, {"ones"}), node("Conv", {"x", "ones"}, {"y"}, window)},
           x},
          sizes);
      expect_same_at({{node("MaxPool", {"x"}, {"y"}, window)}, x, {"y"}, 12}, sizes);
      for (int64_t counts : {0, 1})
        expect_same_at({{node("AveragePool", {"x"}, {"y"}, window + integer("count_include_pad", counts))},
                        x,
                        {"y"},
                        19},
                       sizes);
    }
}

TEST(OnnxOpen, NormalizesGroupsOfAnyNumberOfChannels) {
  for (int64_t opset : {18, 21}) {
    const Model model{{node("GroupNormalization", {"x", "s", "b"}, {"y"}, integer("num_groups", 2))},
                      input_of("x", {"n", "c", "w"}) + input_of("s", {opset == 18 ? "2" : "c"}) +
                          input_of("b", {opset == 18 ? "2" : "c"}),
                      {"y"},
                      opset};
    const auto at = [&](int64_t n, int64_t c, int64_t w) {
      const Shape parameter{opset == 18 ? 2 : c};
      return Shapes{{"x", {n, c, w}}, {"s", parameter}, {"b", parameter}};
    };
    expect_same_at(model, {at(1, 2, 3), at(2, 6, 5)});
    EXPECT_THROW(run_at(open_model(model), at(1, 3, 5)), Error);
  }
}

TEST(OnnxOpen, ImagesPutTogetherFromBlocks) {
  const std::string blocks =
      integers("strides", {2, 1}) + integers("dilations", {1, 2}) + integers("pads", {1, 0, 0, 1});
  const Strings nodes{node("Shape", {"z"}, {"image"}), ints("block", {3, 2}),
                      node("Col2Im", {"x", "image", "block"}, {"y"}, blocks)};
  // Blocks by rows and by columns, of images of 6 x 5, 3 x 4 and 9 x 3.
  expect_same_at({nodes, input_of("x", {"n", "c", "l"}) + input_of("z", {"h", "w"}), {"y"}, 18},
                 {{{"x", {2, 12, 3 * 4}}, {"z", {6, 5}}},
                  {{"x", {1, 6, 1 * 3}}, {"z", {3, 4}}},
                  {{"x", {3, 6, 4 * 2}}, {"z", {9, 3}}}});
}

TEST(OnnxOpen, MovesTheGridOfAnyImage) {
  for (int64_t corners : {0, 1})
    expect_same_at(
        {{node("Shape", {"x"}, {"size"}),
          node("AffineGrid", {"theta", "size"}, {"y"}, integer("align_corners", corners))},
         input_of("x", {"n", "c", "h", "w"}) + input_of("theta", {"n", "2", "3"}),
         {"y"},
         20},
        {{{"x", {2, 1, 3, 4}}, {"theta", {2, 2, 3}}}, {{"x", {1, 3, 1, 5}}, {"theta", {1, 2, 3}}}});
}

/// For no other number of channels is there anything to compile.
TEST(OnnxOpen, WeightsSettleChannels) {
  for (const auto& [op, shape] :
       std::vector<std::pair<std::string, Shape>>{{"Conv", {3, 4, 2, 2}}, {"ConvTranspose", {4, 3, 2, 2}}}) {
    const ImportedModel model =
        open_model({{ints("shape", shape), node("ConstantOfShape", {"shape"}, {"w"}),
                     node("Mul", {"x", "x"}, {"square"}), node(op, {"square", "w"}, {"y"})},
                    input_of("x", {"b", "c", "h", "w"})});
    EXPECT_EQ(model.inputs[0].shape, (Shape{-1, 4, -1, -1})) << op;
    EXPECT_EQ(run_at(model, {{"x", {1, 4, 3, 3}}})[0].shape()[1], 3) << op;
    EXPECT_THROW(run_at(model, {{"x", {1, 5, 3, 3}}}), Error) << op;
  }
  // Which branch is taken is not known: here one takes any number.
  const std::string convolved = bytes::graph({node("Conv", {"x", "w"}, {"a"})}, "", {"a"}),
                    kept = bytes::graph({node("Identity", {"x"}, {"b"})}, "", {"b"});
  const ImportedModel model =
      open_model({{ints("shape", {3, 3, 1, 1}), node("ConstantOfShape", {"shape"}, {"w"}),
                   node("If", {"is"}, {"y"},
                        bytes::subgraph("then_branch", convolved) + bytes::subgraph("else_branch", kept))},
                  input_of("x", {"1", "c", "2", "2"}) + input_of("is", {}, kBoolean)});
  EXPECT_EQ(model.inputs[0].shape[1], -1);
}

/// Of channels that no input shows, or that a branch alone convolves, the run sees whether they are as many.
TEST(OnnxOpen, ConvolutionsTakeChannelsForANumber) {
  for (const auto& [op, shape] :
       std::vector<std::pair<std::string, Shape>>{{"Conv", {3, 4, 1, 1}}, {"ConvTranspose", {4, 3, 1, 1}}}) {
    SCOPED_TRACE(op);
    const Strings weight = {ints("shape", shape), node("ConstantOfShape", {"shape"}, {"w"})};
    const ImportedModel shaped =
        open_model({{weight[0], weight[1], node("Reshape", {"x", "s"}, {"r"}), node(op, {"r", "w"}, {"y"})},
                    input_of("x", {"n", "8"}) + input_of("s", {"4"}, kInt)});
    const auto* call = shaped.module->functions.at("main")->body.as<relay::Call>();
    ASSERT_TRUE(call);
    EXPECT_EQ(relay::print(call->args[0]->checked_type), "Tensor[(size0, 4, size2, size3), float32]");
    const Strings joined = {weight[0], weight[1], node("Concat", {"x", "z"}, {"both"}, integer("axis", 1)),
                            node(op, {"both", "w"}, {"y"})};
    expect_same_at({joined, input_of("x", {"b", "c", "h", "w"}) + input_of("z", {"b", "d", "h", "w"})},
                   {{{"x", {2, 1, 3, 2}}, {"z", {2, 3, 3, 2}}}, {{"x", {1, 2, 1, 1}}, {"z", {1, 2, 1, 1}}}});
  }
}

}  // namespace
}  // namespace lathe::onnx
