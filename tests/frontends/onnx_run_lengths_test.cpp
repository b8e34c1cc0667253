// Operators whose lengths, depths or factors are values of a run, by the interpreter.
#include "tests/frontends/onnx_run_values.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

Tensor random_floats(const Shape& shape) { return random_tensor(shape, kFloat32, 7, 1.5); }

TEST(OnnxRunLengths, LengthsOfParts) {
  const Tensor x = random_floats({7, 3});
  expect_as_known(node("Split", {"x", "lengths"}, {"a", "b", "c"}, integer("axis", 0)),
                  {{"x", x}, {"lengths", vector_of({2, 0, 5})}}, {"a", "b", "c"});
  const Model model{{node("Split", {"x", "lengths"}, {"a", "y"})},
                    input_of("x", {"n", "3"}) + input_of("lengths", {"2"}, kInt)};
  const ImportedModel open =
      import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
  EXPECT_EQ(run(open, {x, vector_of({3, 4})})[0].shape(), (Shape{4, 3}));
  EXPECT_NE(thrown_by([&] { run(open, {x, vector_of({3, 5})}); }), "no error");
  auto joined = [](int64_t new_axis) {
    return node("ConcatFromSequence", {"parts"}, {"y"}, integer("axis", 0) + integer("new_axis", new_axis)) +
           node("SequenceLength", {"parts"}, {"n"});
  };
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{2, 5}, {7}, {1, 1, 1, 4}})
    expect_as_known(node("SplitToSequence", {"x", "lengths"}, {"parts"}) + joined(0),
                    {{"x", x}, {"lengths", vector_of(lengths)}}, {"y", "n"});
  const std::string of_one_length = node("SplitToSequence", {"x", "length"}, {"parts"});
  for (int64_t length : {1, 3, 7, 9})
    expect_as_known(of_one_length + joined(0), {{"x", x}, {"length", number_of(length)}}, {"y", "n"});
  const ImportedModel empty = import_bytes(
      Model{{of_one_length + joined(0)}, input_of("x", {"7", "3"}) + input_of("length", {}, kInt)}.file(),
      "m.onnx");
  EXPECT_NE(thrown_by([&] {
              run(empty, {x, number_of(0)});
            }).find("parts of no elements"),
            std::string::npos);
}

/// Of as many parts as a run says.
TEST(OnnxRunLengths, AnyNumberOfParts) {
  const Model model{
      {node("SplitToSequence", {"x", "lengths"}, {"parts"}), node("SequenceLength", {"parts"}, {"n"}),
       ints("last", {-1}), node("SequenceAt", {"parts", "last"}, {"y"})},
      input_of("x", {"n", "3"}) + input_of("lengths", {"k"}, kInt),
      {"n", "y"}};
  const ImportedModel open =
      import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
  const Tensor x = random_floats({7, 3});
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{2, 5}, {7}, {1, 2, 3, 1}}) {
    const std::vector<Tensor> results = run(open, {x, vector_of(lengths)});
    EXPECT_EQ(results[0].integer(0), static_cast<int64_t>(lengths.size()));
    EXPECT_EQ(results[1].shape(), (Shape{lengths.back(), 3}));
    EXPECT_EQ(results[1].value(0), x.value(3 * (7 - lengths.back())));
  }
  EXPECT_NE(thrown_by([&] {
              run(open, {x, vector_of({3, 5})});
            }).find("sizes that do not add up to the axis"),
            std::string::npos);
}

TEST(OnnxRunLengths, DepthsOfOneHot) {
  const Tensor values = floats({-1, 2}, {2});
  for (int64_t axis : {0, 1, -1}) {
    expect_as_known(
        node("OneHot", {"x", "depth", "values"}, {"y"}, integer("axis", axis)),
        {{"x", integers_of({0, 2, -1, 5, 1, 1}, {2, 3})}, {"depth", number_of(3)}, {"values", values}});
    expect_as_known(node("OneHot", {"x", "depth", "values"}, {"y"}, integer("axis", axis)),
                    {{"x", integers_of({0, 2, -1}, {3})}, {"depth", floats({4}, {})}, {"values", values}});
  }
}

TEST(OnnxRunLengths, FactorsOfImages) {
  const Tensor image = random_floats({1, 2, 5, 4});
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* places : {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
                               "tf_half_pixel_for_nn", "half_pixel_symmetric"})
      for (const auto& [rows, columns] :
           {std::pair(1.6F, 2.F), std::pair(.6F, 1.F), std::pair(.2F, 10.F / 4)}) {
        if (places == std::string("tf_half_pixel_for_nn") && mode != std::string("nearest")) continue;
        SCOPED_TRACE(fmt::format("{} {} {} {}", mode, places, rows, columns));
        expect_as_known(node("Resize", {"x", "", "scales"}, {"y"},
                             text("mode", mode) + text("coordinate_transformation_mode", places)),
                        {{"x", image}, {"scales", floats({1, 1, rows, columns}, {4})}});
      }
  for (const char* rounding : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"})
    for (const float rows : {1.3F, .6F})
      expect_as_known(node("Resize", {"x", "", "scales"}, {"y"}, text("nearest_mode", rounding)),
                      {{"x", image}, {"scales", floats({1, 1, rows, .7F}, {4})}});
  expect_as_known(
      node("Resize", {"x", "", "scales"}, {"y"}, text("mode", "cubic") + integer("exclude_outside", 1)),
      {{"x", image}, {"scales", floats({1, 1, 1.3F, .7F}, {4})}});
  expect_as_known(node("Resize", {"x", "", "scales"}, {"y"}, integers("axes", {3, 2})),
                  {{"x", image}, {"scales", floats({2, 1.5F}, {2})}}, {"y"}, 18);
  expect_as_known(node("Upsample", {"x", "scales"}, {"y"}, text("mode", "nearest")),
                  {{"x", image}, {"scales", floats({1, 1, 2, 1.5F}, {4})}}, {"y"}, 9);
  expect_as_known(node("Resize", {"x", "scales"}, {"y"}, text("mode", "nearest")),
                  {{"x", image}, {"scales", floats({1, 1, .5F, .8F}, {4})}}, {"y"}, 10);
}

/// How many elements each one is made of, only the run tells.
TEST(OnnxRunLengths, FiltersAsWideAsTheirFactor) {
  const Tensor image = random_floats({1, 2, 7, 9});
  const std::string filter = integer("antialias", 1);
  for (const char* mode : {"linear", "cubic", "nearest"})
    for (int64_t excludes : {0, 1})
      for (const auto& [rows, columns] : {std::pair(.45F, 1.F), std::pair(.15F, 2.F)}) {
        SCOPED_TRACE(fmt::format("{} {} {} {}", mode, excludes, rows, columns));
        expect_as_known(node("Resize", {"x", "", "scales"}, {"y"},
                             filter + text("mode", mode) + integer("exclude_outside", excludes)),
                        {{"x", image}, {"scales", floats({1, 1, rows, columns}, {4})}}, {"y"}, 18);
      }
  for (const char* places : {"half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"})
    expect_as_known(node("Resize", {"x", "", "", "sizes"}, {"y"},
                         filter + text("mode", "linear") + integers("axes", {3, 2}) +
                             text("coordinate_transformation_mode", places)),
                    {{"x", image}, {"sizes", vector_of({4, 3})}}, {"y"}, 18);
}

TEST(OnnxRunLengths, SizesThatKeepTheAspectRatio) {
  const Tensor image = random_floats({1, 2, 4, 7});
  for (const char* policy : {"not_larger", "not_smaller"})
    for (const char* mode : {"nearest", "linear"})
      for (const Shape& sizes : {Shape{9, 8}, Shape{3, 5}, Shape{4, 7}}) {
        SCOPED_TRACE(fmt::format("{} {} {}", policy, mode, shape_text(sizes)));
        expect_as_known(
            node("Resize", {"x", "", "", "sizes"}, {"y"},
                 integers("axes", {2, 3}) + text("mode", mode) + text("keep_aspect_ratio_policy", policy)),
            {{"x", image}, {"sizes", vector_of(sizes)}}, {"y"}, 18);
      }
}

/// Ratios of sizes give these sizes, as in ONNX Runtime: in float32 3 times 10 / 3 is 10.
TEST(OnnxRunLengths, FactorsThatAreRatios) {
  const Tensor image = random_floats({1, 1, 3, 6}), scales = floats({1, 1, 10.F / 3, 7.F / 6}, {4});
  const Model model{{node("Resize", {"x", "", "scales"}, {"y"})},
                    input_of("x", {"1", "1", "3", "6"}) + input_of("scales", {"4"})};
  EXPECT_EQ(run(import_bytes(model.file(), "m.onnx"), {image, scales})[0].shape(), (Shape{1, 1, 10, 7}));
  EXPECT_EQ(
      run(import_bytes(model.file(), "m.onnx", {.constants = {{"scales", scales}}}), {image})[0].shape(),
      (Shape{1, 1, 10, 7}));
}

/// What is known of them stays known.
TEST(OnnxRunLengths, FactorsOfWhichSomeAreKnown) {
  const Model model{{node("Constant", {}, {"front"}, bytes::reals("value_floats", {1, 1})),
                     node("Concat", {"front", "s"}, {"scales"}, integer("axis", 0)),
                     node("Resize", {"x", "", "scales"}, {"y"})},
                    input_of("x", {"b", "2", "5", "4"}) + input_of("s", {"2"})};
  const ImportedModel open =
      import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
  EXPECT_EQ(run(open, {random_floats({3, 2, 5, 4}), floats({2, .5F}, {2})})[0].shape(), (Shape{3, 2, 10, 2}));
}

TEST(OnnxRunLengths, WindowsOfAnySize) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    for (int64_t periodic : {0, 1})
      for (int64_t size : {0, 1, 2, 7, 400})
        expect_as_known(node(op, {"size"}, {"y"}, integer("periodic", periodic)),
                        {{"size", number_of(size)}});
  // As long as a signal of open length.
  const Model model{
      {node("Size", {"x"}, {"size"}), node("HannWindow", {"size"}, {"w"}), node("Mul", {"x", "w"}, {"y"})},
      input_of("x", {"n"})};
  const ImportedModel open =
      import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
  EXPECT_NEAR(run(open, {full({6}, kFloat32, 1)})[0].value(2), 0.75, 1e-6);
}

/// Seven pixels made five: the middle one is the middle one, whose place no rounding may move below it.
TEST(OnnxRunLengths, ImagesThatKeepTheirMiddle) {
  const Model model{{node("Resize", {"x", "", "scales"}, {"y"},
                          text("coordinate_transformation_mode", "half_pixel_symmetric") +
                              text("mode", "nearest") + text("nearest_mode", "floor"))},
                    input_of("x", {"n"}) + input_of("scales", {"1"}),
                    {"y"},
                    19};
  const Tensor x = floats({0, 1, 2, 3, 4, 5, 6}, {7}), scales = floats({0.75F}, {1}),
               expected = floats({0, 1, 3, 4, 5}, {5});
  const auto open = [](const std::string&) { return true; };
  expect_equal(run(import_bytes(model.file(), "m.onnx", {.keeps_open = open}), {x, scales}), {expected});
  expect_equal(
      run(import_bytes(model.file(), "m.onnx", {.constants = {{"scales", scales}}, .keeps_open = open}), {x}),
      {expected});
  expect_equal(
      run(import_bytes(model.file(), "m.onnx", {.shapes = {{"x", {7}}}, .constants = {{"scales", scales}}}),
          {x}),
      {expected});
}

}  // namespace
}  // namespace lathe::onnx
