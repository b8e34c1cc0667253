// Operators whose results are as large as values of a run say, by the interpreter: each result is that of the
// same model whose inputs are known when it is imported.
#include <cmath>
#include <random>

#include "core/relay/text.h"
#include "tests/frontends/onnx_run_values.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

const Tensor kMatrix = floats({0, 2, 0, -1, 3, 0, 0, 0, 5, 2, 0, -1}, {3, 4});

TEST(OnnxRunSizes, WhatIsNotZero) {
  expect_as_known(node("NonZero", {"x"}, {"y"}), {{"x", kMatrix}});
  expect_as_known(node("NonZero", {"x"}, {"y"}), {{"x", floats({0, 0}, {2})}});
  for (float number : {0.F, 3.F})
    expect_as_known(node("NonZero", {"x"}, {"y"}), {{"x", floats({number}, {})}});
  const Tensor flags = tensor_of<uint8_t>({1, 0, 1}, {3}, kBool);
  expect_as_known(node("Compress", {"x", "c"}, {"y"}, integer("axis", 0)), {{"x", kMatrix}, {"c", flags}});
  expect_as_known(node("Compress", {"x", "c"}, {"y"}), {{"x", kMatrix}, {"c", flags}});
}

/// An element that is not there was the last one again.
TEST(OnnxRunSizes, NoMoreConditionsThanElements) {
  const Model model{{node("Compress", {"x", "c"}, {"y"})},
                    input_of("x", {"n"}) + input_of("c", {"k"}, kBoolean)};
  const ImportedModel open =
      import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
  const Tensor x = floats({1, 2}, {2});
  EXPECT_EQ(run(open, {x, full({1}, kBool, 1)})[0].shape(), (Shape{1}));
  EXPECT_EQ(run(open, {x, full({2}, kBool, 1)})[0].shape(), (Shape{2}));
  EXPECT_NE(thrown_by([&] {
              run(open, {x, full({3}, kBool, 1)});
            }).find("more conditions than elements"),
            std::string::npos);
}

TEST(OnnxRunSizes, WhatThereIsOnceAtLeast) {
  const Strings all{"y", "first", "inverse", "counts"};
  const Tensor repeats = floats({2, 1, 1, 3, 4, 3, NAN, NAN, -1}, {9});
  const Tensor rows = floats({1, 0, 2, 1, 1, 0, 0, 5, 1, 0}, {5, 2});
  for (int64_t sorted : {1, 0}) {
    expect_as_known(node("Unique", {"x"}, all, integer("sorted", sorted)), {{"x", repeats}}, all);
    expect_as_known(node("Unique", {"x"}, all, integer("sorted", sorted)), {{"x", kMatrix}}, all);
  }
  // Of which the width is a number.
  for (int64_t axis : {0, 1}) {
    Model model{{node("Unique", {"x"}, all, integer("axis", axis))}, input_of("x", {"5", "2"}), all};
    expect_equal(run(import_bytes(model.file(), "m.onnx", {}), {rows}),
                 run(import_bytes(model.file(), "m.onnx", {.constants = {{"x", rows}}}), {}));
  }
}

/// More columns than are sorted one by one in the graph, of an open number too.
TEST(OnnxRunSizes, WideSlicesThatThereAreOnce) {
  const Strings all{"y", "first", "inverse", "counts"};
  Tensor rows({6, 70}, kFloat32);
  for (int64_t i = 0; i < rows.size(); ++i)
    rows.set(i, i % 70 == 69 ? static_cast<double>((i / 70) % 3) : static_cast<double>(i % 5));
  for (int64_t axis : {0, 1})
    expect_as_known(node("Unique", {"x"}, all, integer("axis", axis)), {{"x", rows}}, all);
}

/// Where the file states the rank of the result.
TEST(OnnxRunSizes, ShapesOfAnyLength) {
  const ImportOptions open{.keeps_open = [](const std::string&) { return true; }};
  const auto imported = [&](const std::string& last, const Strings& result) {
    const Model model{{last}, input_of("x", {"n", "m"}) + input_of("s", {"r"}, kInt) + stated("y", result)};
    return import_bytes(model.file(), "m.onnx", open);
  };
  const Tensor x = kMatrix, sizes = vector_of({x.shape()[1], -1, 1});
  const ImportedModel reshape = imported(node("Reshape", {"x", "s"}, {"y"}), {"a", "b", "c"});
  expect_equal(run(reshape, {x, sizes}), {x.reshaped({x.shape()[1], x.shape()[0], 1})});
  EXPECT_THROW(run(reshape, {x, vector_of({-1, 1})}), Error);
  const ImportedModel made = imported(
      node("ConstantOfShape", {"s"}, {"z"}) + node("Add", {"z", "z"}, {"y"}) + stated("z", {"a", "b"}), {});
  EXPECT_EQ(run(made, {x, vector_of({3, 2})})[0].shape(), (Shape{3, 2}));
  // As many as the input's rank, whatever is stated.
  EXPECT_EQ(run(imported(node("Tile", {"x", "s"}, {"y"}), {"a", "b"}), {x, vector_of({2, 3})})[0].shape(),
            (Shape{2 * x.shape()[0], 3 * x.shape()[1]}));
  EXPECT_EQ(
      run(imported(node("Pad", {"x", "s"}, {"y"}), {"a", "b"}), {x, vector_of({1, 0, 0, 2})})[0].shape(),
      (Shape{x.shape()[0] + 1, x.shape()[1] + 2}));
}

TEST(OnnxRunSizes, BoxesThatOverlapNoBetterOne) {
  const Tensor boxes =
      floats({0, 0, 1, 1, 0, .1F, 1, 1.1F, 0, -.1F, 1, .9F, 0, 10, 1, 11, 0, 10.1F, 1, 11.1F, 0, 100, 1, 101},
             {1, 6, 4});
  const Tensor scores = floats({.9F, .75F, .6F, .95F, .5F, .3F, .1F, .75F, .8F, .95F, .5F, .3F}, {1, 2, 6});
  for (int64_t centred : {0, 1})
    for (int64_t most : {0, 1, 2, 30})
      expect_as_known(node("NonMaxSuppression", {"b", "s", "most", "overlap", "least"}, {"y"},
                           integer("center_point_box", centred)),
                      {{"b", boxes},
                       {"s", scores},
                       {"most", vector_of({most})},
                       {"overlap", floats({.5F}, {1})},
                       {"least", floats({.4F}, {1})}});
}

Tensor random_floats(const Shape& shape, float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> any(low, high);
  Tensor values(shape, kFloat32);
  for (int64_t i = 0; i < values.size(); ++i) values.as<float>()[i] = any(random);
  return values;
}

// More than a vector of boxes, in each class others in front.
TEST(OnnxRunSizes, ManyBoxesThatOverlap) {
  Tensor boxes = random_floats({2, 70, 4}, 0, 3, 1);
  for (int64_t i = 0; i < 2 * 70; ++i)
    for (int64_t k : {2, 3}) boxes.as<float>()[4 * i + k] += boxes.as<float>()[4 * i + k - 2];
  for (int64_t most : {1, 3, 100})
    expect_as_known(node("NonMaxSuppression", {"b", "s", "most", "overlap"}, {"y"}),
                    {{"b", boxes},
                     {"s", random_floats({2, 3, 70}, 0, 1, 2)},
                     {"most", vector_of({most})},
                     {"overlap", floats({.3F}, {1})}});
  // So many are known, and few scores count.
  for (int64_t most : {0, 2, 100})
    expect_as_known(
        ints("most", {most}) + node("NonMaxSuppression", {"b", "s", "most", "overlap", "least"}, {"y"}),
        {{"b", boxes},
         {"s", random_floats({2, 3, 70}, 0, 1, 2)},
         {"overlap", floats({.3F}, {1})},
         {"least", floats({.8F}, {1})}});
}

// Of more than there are groups for, and of which nearly all overlap few.
TEST(OnnxRunSizes, BoxesByTheThousand) {
  for (const auto& [count, size, most] : {std::array<int64_t, 3>{500, 9, 500}, {4500, 1, 30}}) {
    Tensor boxes = random_floats({1, count, 4}, 0, 10, 5);
    const Tensor sizes = random_floats({1, count, 2}, 0, static_cast<float>(size), 6);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k : {0, 1})
        boxes.as<float>()[4 * i + 2 + k] = boxes.as<float>()[4 * i + k] + sizes.as<float>()[2 * i + k];
    Tensor scores = random_floats({1, 1, count}, 0, 1, 7);
    // Many of one score: the first comes first.
    for (int64_t i = 0; i < count; ++i) scores.as<float>()[i] = std::round(scores.as<float>()[i] * 100) / 100;
    expect_as_known(
        node("NonMaxSuppression", {"b", "s", "most", "overlap"}, {"y"}),
        {{"b", boxes}, {"s", scores}, {"most", vector_of({most})}, {"overlap", floats({.1F}, {1})}});
  }
}

TEST(OnnxRunSizes, OrdersOfOpenRows) {
  Tensor x = random_floats({3, 37}, -4, 4, 3);
  // Many are equal, and some are no numbers.
  for (int64_t i = 0; i < x.size(); ++i) x.as<float>()[i] = i % 11 == 5 ? NAN : std::round(x.as<float>()[i]);
  for (int64_t axis : {0, 1})
    for (int64_t largest : {0, 1})
      for (int64_t k : {1, 3})
        expect_as_known(
            node("TopK", {"x", "k"}, {"y", "at"}, integer("largest", largest) + integer("axis", axis)),
            {{"x", x}, {"k", vector_of({k})}}, {"y", "at"});
}

TEST(OnnxRunSizes, RegionsOfImages) {
  const Tensor images = random_floats({2, 3, 9, 7}, -1, 1, 4);
  const Tensor regions = floats({0, 0, 5, 5, -2, 1, 3, 20, 4, 2, 6.5F, 3, 1, 1, 1, 1}, {4, 4});
  for (const char* mode : {"avg", "max"})
    expect_as_known(node("RoiAlign", {"x", "r", "b"}, {"y"},
                         integer("output_height", 3) + integer("output_width", 2) +
                             integer("sampling_ratio", 2) + text("mode", mode)),
                    {{"x", images}, {"r", regions}, {"b", vector_of({0, 1, 1, 0})}}, {"y"}, 16);
  // Of none, which no sample is taken in.
  for (int64_t samples : {0, 2})
    expect_as_known(node("RoiAlign", {"x", "r", "b"}, {"y"}, integer("sampling_ratio", samples)),
                    {{"x", images}, {"r", floats({}, {0, 4})}, {"b", vector_of({})}}, {"y"}, 16);
}

TEST(OnnxRunSizes, ImagesOfComputedSizes) {
  const Tensor image = random_floats({1, 2, 5, 4}, -1, 1, 5);
  for (const char* mode : {"linear", "nearest", "cubic"})
    expect_as_known(node("Resize", {"x", "", "", "s"}, {"y"}, text("mode", mode)),
                    {{"x", image}, {"s", vector_of({1, 2, 8, 3})}});
  // What is known of the sizes stays a number: no axis but the last two is resized.
  const Model model{{ints("front", {1, 2}) + node("Concat", {"front", "s"}, {"sizes"}, integer("axis", 0)) +
                     node("Resize", {"x", "", "", "sizes"}, {"y"}, text("mode", "linear"))},
                    input_of("x", {"1", "2", "5", "4"}) + input_of("s", {"2"}, kInt)};
  const ImportedModel imported = import_bytes(model.file(), "m.onnx", {});
  EXPECT_EQ(run(imported, {image, vector_of({7, 9})})[0].shape(), (Shape{1, 2, 7, 9}));
  EXPECT_NE(relay::print(imported.module).find("resize2d_like"), std::string::npos);
}

TEST(OnnxRunSizes, ShapesThatAreComputed) {
  expect_as_known(node("Reshape", {"x", "s"}, {"y"}), {{"x", kMatrix}, {"s", vector_of({2, -1, 3})}});
  expect_as_known(node("Reshape", {"x", "s"}, {"y"}), {{"x", kMatrix}, {"s", vector_of({0, 2, 2})}});
  expect_as_known(node("Expand", {"x", "s"}, {"y"}), {{"x", kMatrix}, {"s", vector_of({2, 1, 4})}});
  expect_as_known(node("ConstantOfShape", {"s"}, {"y"}), {{"s", vector_of({2, 3})}});
  expect_as_known(node("Tile", {"x", "s"}, {"y"}), {{"x", kMatrix}, {"s", vector_of({2, 3})}});
  expect_as_known(node("Tile", {"x", "s"}, {"y"}), {{"x", floats({}, {2, 0})}, {"s", vector_of({2, 3})}});
  for (const std::vector<int64_t>& pads : {std::vector<int64_t>{1, 0, 0, 2}, {-1, 1, 2, -3}})
    expect_as_known(node("Pad", {"x", "s"}, {"y"}), {{"x", kMatrix}, {"s", vector_of(pads)}});
  for (const auto& [start, end, step] : std::vector<std::array<int64_t, 3>>{
           {0, 2, 1}, {-1, -9, -2}, {1, 100, 2}, {5, 2, 1}, {3, 0, -1}, {-9, -9, -1}})
    expect_as_known(
        ints("axes", {1}) + node("Slice", {"x", "a", "b", "axes", "c"}, {"y"}),
        {{"x", kMatrix}, {"a", vector_of({start})}, {"b", vector_of({end})}, {"c", vector_of({step})}});
}

TEST(OnnxRunSizes, CountsThatAreComputed) {
  for (const auto& [start, limit, step] :
       std::vector<std::array<int64_t, 3>>{{0, 7, 2}, {5, -3, -3}, {2, 1, 1}})
    expect_as_known(node("Range", {"a", "b", "c"}, {"y"}),
                    {{"a", number_of(start)}, {"b", number_of(limit)}, {"c", number_of(step)}});
  // A tenth of three tenths is three steps and a little: in float32 three.
  for (const auto& [start, limit, step] :
       std::vector<std::array<float, 3>>{{1, 2.6F, .5F}, {0, .3F, .1F}, {0, -.6F, -.2F}})
    expect_as_known(node("Range", {"a", "b", "c"}, {"y"}),
                    {{"a", floats({start}, {})}, {"b", floats({limit}, {})}, {"c", floats({step}, {})}});
  for (int64_t largest : {0, 1})
    expect_as_known(node("TopK", {"x", "k"}, {"y", "at"}, integer("largest", largest)),
                    {{"x", kMatrix}, {"k", vector_of({3})}}, {"y", "at"});
}

/// Doubles a vector until it is long enough: its size differs from step to step.
TEST(OnnxRunSizes, ALoopThatMakesItsValueLonger) {
  const std::string body =
      bytes::graph({node("Concat", {"x", "x"}, {"next"}, integer("axis", 0)),
                    node("ReduceSum", {"next"}, {"sum"}, integer("keepdims", 0)),
                    node("Less", {"sum", "limit"}, {"more"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("x"), {"more", "next"});
  const Model model{{node("Loop", {"", "", "start"}, {"y"}, bytes::subgraph("body", body))},
                    input_of("start", {"2"}) + input_of("limit", {})};
  const ImportedModel imported = import_bytes(model.file(), "m.onnx", {});
  EXPECT_EQ(run(imported, {floats({1, 1}, {2}), floats({10}, {})})[0].shape(), (Shape{16}));
  EXPECT_EQ(run(imported, {floats({3, 3}, {2}), floats({10}, {})})[0].shape(), (Shape{4}));
}

TEST(OnnxRunSizes, BranchesOfDifferentSizes) {
  const std::string twice = bytes::graph({node("Concat", {"x", "x"}, {"a"}, integer("axis", 0))}, "", {"a"}),
                    once = bytes::graph({node("Relu", {"x"}, {"b"})}, "", {"b"});
  const Model model{
      {node("If", {"c"}, {"z"}, bytes::subgraph("then_branch", twice) + bytes::subgraph("else_branch", once)),
       node("Add", {"z", "z"}, {"y"})},
      input_of("x", {"3"}) + input_of("c", {}, kBoolean)};
  const ImportedModel imported = import_bytes(model.file(), "m.onnx", {});
  const Tensor x = floats({1, -1, 2}, {3});
  EXPECT_EQ(run(imported, {x, tensor_of<uint8_t>({1}, {}, kBool)})[0].shape(), (Shape{6}));
  EXPECT_EQ(run(imported, {x, tensor_of<uint8_t>({0}, {}, kBool)})[0].value(2), 4);
}

/// A size that is told within one side alone is a number outside.
TEST(OnnxRunSizes, ABranchGivesTheShapeOfWhatItComputes) {
  const std::string yes =
                        bytes::graph({node("NonZero", {"x"}, {"n"}), node("Shape", {"n"}, {"s"})}, "", {"s"}),
                    no = bytes::graph({node("Shape", {"x"}, {"t"})}, "", {"t"});
  expect_as_known(
      node("ReduceSum", {"x"}, {"sum"}, integer("keepdims", 0)) + ints("limit", {0}) +
          node("Cast", {"sum"}, {"whole"}, integer("to", 7)) + node("Less", {"limit", "whole"}, {"is"}) +
          node("If", {"is"}, {"y"}, bytes::subgraph("then_branch", yes) + bytes::subgraph("else_branch", no)),
      {{"x", kMatrix}});
}

/// Where a slice has left nothing.
TEST(OnnxRunSizes, PadsWhatHasNoElements) {
  const auto padded = [](int64_t begin) {
    expect_as_known(ints("all", {INT64_MAX}) + ints("axis", {1}) +
                        node("Slice", {"x", "begin", "all", "axis"}, {"rest"}) +
                        node("Pad", {"rest", "pads", "fill"}, {"y"}),
                    {{"x", kMatrix},
                     {"begin", vector_of({begin})},
                     {"pads", vector_of({1, 0, 0, 2})},
                     {"fill", floats({1.5F}, {})}});
  };
  for (int64_t begin : {1, 4}) padded(begin);
}

/// An open dimension beside a number that a run computes, in one shape.
TEST(OnnxRunSizes, ShapesOfDimensionsAndNumbers) {
  const Model model{{node("Shape", {"x"}, {"s"}), node("Concat", {"k", "s"}, {"to"}, integer("axis", 0)),
                     node("Expand", {"x", "to"}, {"y"})},
                    input_of("x", {"b", "t"}) + input_of("k", {"1"}, kInt)};
  const ImportedModel imported =
      import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
  EXPECT_EQ(run(imported, {kMatrix, vector_of({2})})[0].shape(), (Shape{2, 3, 4}));
}

/// As many rows as steps were made.
TEST(OnnxRunSizes, ALoopThatGathersAndEndsByItself) {
  const std::string body =
      bytes::graph({node("Add", {"x", "x"}, {"next"}), node("Less", {"next", "limit"}, {"more"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("x"), {"more", "next", "next"});
  const Model model{{node("Loop", {"most", "", "start"}, {"end", "y"}, bytes::subgraph("body", body))},
                    input_of("start", {}) + input_of("limit", {}) + input_of("most", {}, kInt),
                    {"end", "y"}};
  const ImportedModel imported = import_bytes(model.file(), "m.onnx", {});
  EXPECT_EQ(run(imported, {floats({1}, {}), floats({10}, {}), number_of(100)})[1].shape(), (Shape{4}));
  EXPECT_EQ(run(imported, {floats({1}, {}), floats({10}, {}), number_of(2)})[1].shape(), (Shape{2}));
}

/// Of constants as of inputs, in the type of the boxes: this overlap is the threshold but for its rounding.
TEST(OnnxRunSizes, BoxesOverlapByOneRule) {
  const Tensor boxes = tensor_of<float>({0, 0, 1, 1, 0, 0, 0.73f, 0.1f}, {1, 2, 4}, kFloat32),
               scores = tensor_of<float>({0.9f, 0.8f}, {1, 1, 2}, kFloat32);
  const auto real_number = [](const std::string& name, float value) {
    return node("Constant", {}, {name}, bytes::real("value_float", value));
  };
  const Model model{{node("Constant", {}, {"most"}, integer("value_int", 2)),
                     real_number("share", static_cast<float>(0.73f * static_cast<double>(0.1f))),
                     node("NonMaxSuppression", {"boxes", "scores", "most", "share"}, {"y"})},
                    input_of("boxes", {"1", "2", "4"}) + input_of("scores", {"1", "1", "2"})};
  const Tensor at_run_time = run(import_bytes(model.file(), "m.onnx"), {boxes, scores})[0];
  const Tensor at_import =
      run(import_bytes(model.file(), "m.onnx", {.constants = {{"boxes", boxes}, {"scores", scores}}}), {})[0];
  EXPECT_EQ(at_run_time.shape(), (Shape{1, 3}));
  EXPECT_EQ(at_import.shape(), (Shape{1, 3}));
}

/// As many samples as the largest bin has pixels: of regions that a run tells, those of the same as
/// constants.
TEST(OnnxRunSizes, RegionsAreSampledByTheirSize) {
  for (const char* images : {"1", "2"}) {
    const Model model{{node("RoiAlign", {"x", "regions", "batch"}, {"y"},
                            integer("output_height", 2) + integer("output_width", 3))},
                      input_of("x", {images, "3", "5", "6"}) + input_of("regions", {"n", "4"}) +
                          input_of("batch", {"n"}, kInt)};
    const ImportedModel open =
        import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
    for (int64_t count : {1, 3}) {
      const Tensor regions = random_tensor({count, 4}, kFloat32, 3, 4.0),
                   x = random_tensor({std::stoi(images), 3, 5, 6}, kFloat32, 4);
      Tensor batch({count}, kInt64);
      for (int64_t i = 0; i < count; ++i) batch.set_integer(i, i % x.shape()[0]);
      const ImportedModel known = import_bytes(
          model.file(), "m.onnx", {.constants = {{"x", x}, {"regions", regions}, {"batch", batch}}});
      expect_equal(run(open, {x, regions, batch}), run(known, {}));
    }
  }
}

}  // namespace
}  // namespace lathe::onnx
