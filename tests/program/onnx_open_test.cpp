// ONNX models of open sizes, and of sizes that their values tell: one build, run at several, gives what the
// interpreter gives.
#include <cmath>

#include "tests/program/onnx_build.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

TEST(OnnxOpenPrograms, RecurrencesOfAnyLengthAndBatch) {
  for (const auto& [op, gates] :
       std::vector<std::pair<const char*, int64_t>>{{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    SCOPED_TRACE(op);
    const std::string g = std::to_string(gates * 3);
    std::vector<Shapes> sizes;
    for (const auto& [length, batch] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 2}, {9, 1}, {2, 3}})
      sizes.push_back({{"x", {length, batch, 4}},
                       {"w", {2, gates * 3, 4}},
                       {"r", {2, gates * 3, 3}},
                       {"lengths", {batch}}});
    expect_as_interpreted({{node(op, {"x", "w", "r", "", "lengths"}, {"y", "h"},
                                 integer("hidden_size", 3) + text("direction", "bidirectional"))},
                           input_of("x", {"t", "b", "4"}) + input_of("w", {"2", g, "4"}) +
                               input_of("r", {"2", g, "3"}) + input_of("lengths", {"b"}, 6),
                           {"y", "h"}},
                          sizes);
  }
}

/// As large as the attributes say.
TEST(OnnxOpenPrograms, RecurrencesOfOpenWeights) {
  for (const auto& [op, gates] :
       std::vector<std::pair<const char*, int64_t>>{{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    SCOPED_TRACE(op);
    expect_as_settled(
        {{node(op, {"x", "w", "r", "b", "", "h"}, {"y"},
               integer("hidden_size", 3) + text("direction", "bidirectional"))},
         input_of("b", {"d", "g"}) + input_of("x", {"t", "n", "i"}) + input_of("w", {"d", "e", "i"}) +
             input_of("r", {"d", "e", "k"}) + input_of("h", {"d", "n", "k"})},
        {{{"b", {2, 6 * gates}},
          {"x", {5, 2, 4}},
          {"w", {2, 3 * gates, 4}},
          {"r", {2, 3 * gates, 3}},
          {"h", {2, 2, 3}}}});
  }
}

TEST(OnnxOpenPrograms, LoopsAndScansGather) {
  const std::string step =
      bytes::graph({node("Add", {"sum", "row"}, {"next"}), node("Mul", {"next", "row"}, {"out"})},
                   bytes::input("sum") + bytes::input("row"), {"next", "out"});
  expect_as_interpreted({{node("Scan", {"h", "x"}, {"end", "y"},
                               integer("num_scan_inputs", 1) + bytes::subgraph("body", step) +
                                   integers("scan_output_axes", {1}))},
                         input_of("x", {"t", "n"}) + input_of("h", {"n"}),
                         {"end", "y"}},
                        {{{"x", {1, 3}}, {"h", {3}}}, {{"x", {6, 2}}, {"h", {2}}}});
  const std::string body =
      bytes::graph({node("Add", {"x", "x"}, {"next"}), node("Less", {"next", "limit"}, {"more"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("x"), {"more", "next", "next"});
  Build build({{node("Loop", {"most", "", "start"}, {"end", "y"}, bytes::subgraph("body", body))},
               input_of("start", {}) + input_of("limit", {}) + input_of("most", {}, kInt),
               {"end", "y"}});
  auto number = [](float value) { return tensor_of<float>({value}, {}, kFloat32); };
  for (int64_t most : {100, 2, 0}) build.at({number(1), number(10), tensor_of<int64_t>({most}, {}, kInt64)});
}

/// Every other column of three but the first: one, or none, of which the sum is 0.
TEST(OnnxOpenPrograms, SumsOfOneTermOrNone) {
  const Strings nodes{ints("begin", {1}),
                      ints("end", {3}),
                      ints("axis", {1}),
                      ints("step", {2}),
                      node("Slice", {"x", "begin", "end", "axis", "step"}, {"s"}),
                      node("ReduceSum", {"s", "axis"}, {"y"}, integer("keepdims", 0))};
  expect_as_interpreted(
      {nodes, input_of("x", {"n", "m"})},
      {{{"x", {4, 3}}}, {{"x", {4, 1}}}, {{"x", {3, 2}}}, {{"x", {5, 1}}}, {{"x", {1, 5}}}});
}

TEST(OnnxOpenPrograms, SizesThatValuesTell) {
  const std::string x = input_of("x", {"n", "m"});
  const std::vector<Shapes> sizes = {{{"x", {2, 3}}}, {{"x", {4, 5}}}, {{"x", {1, 1}}}};
  const std::string relu = node("Relu", {"x"}, {"r"});
  expect_as_interpreted({{relu, node("NonZero", {"r"}, {"y"})}, x}, sizes);
  expect_as_interpreted({{relu, node("Unique", {"r"}, {"y", "i", "v", "c"})}, x, {"y", "i", "v", "c"}},
                        sizes);
  expect_as_interpreted(
      {{relu, node("Shape", {"r"}, {"s"}), node("ReduceMin", {"s"}, {"k"}, integer("keepdims", 1)),
        node("TopK", {"x", "k"}, {"y", "at"}, integer("axis", 0))},
       x,
       {"y", "at"}},
      {{{"x", {2, 3}}}, {{"x", {4, 5}}}});
}

/// If(flag, x * v, x * w), whose weights are of 6 and of 5 rows.
std::string branch_by_value() {
  const std::string six = node("MatMul", {"x", "v"}, {"a"}), five = node("MatMul", {"x", "w"}, {"b"});
  return node("If", {"flag"}, {"y"},
              bytes::subgraph("then_branch", bytes::graph({six}, "", {"a"})) +
                  bytes::subgraph("else_branch", bytes::graph({five}, "", {"b"})));
}

TEST(OnnxOpenPrograms, BranchesThatSizesDoNotFitAreLeftOut) {
  const std::string weights = input_of("v", {"6", "2"}) + input_of("w", {"5", "2"});
  for (const bool first : {true, false}) {
    SCOPED_TRACE(first);
    const std::string columns = first ? "6" : "5";
    Build build(
        {{branch_by_value()}, input_of("x", {"b", columns}) + weights + input_of("flag", {}, kBoolean)});
    auto inputs = [&](int64_t batch, bool flag) {
      const std::vector<Shape> shapes = {{batch, first ? 6 : 5}, {6, 2}, {5, 2}};
      std::vector<Tensor> result;
      for (const Shape& shape : shapes) result.push_back(numbers({"", shape, kFloat32}, shape));
      result.push_back(full({}, kBool, flag));
      return result;
    };
    build.at(inputs(1, first));
    build.at(inputs(3, first));
    const std::string refused = thrown_by([&] { build.at(inputs(3, !first)); });
    EXPECT_TRUE(
        refused.find("_branch of a branch does not fit the sizes that the model was compiled for: node "
                     "`") != std::string::npos)
        << refused;
  }
  // Which fits neither.
  EXPECT_NE(
      thrown_by([&] {
        Build({{branch_by_value()}, input_of("x", {"b", "4"}) + weights + input_of("flag", {}, kBoolean)});
      }).find("node `y` (If): node `a` (MatMul)"),
      std::string::npos);
}

TEST(OnnxOpenPrograms, SlicesAndPadsOfOpenAxes) {
  const std::string x = input_of("x", {"b", "t", "6"});
  const std::vector<Shapes> sizes = {{{"x", {1, 2, 6}}}, {{"x", {2, 5, 6}}}, {{"x", {3, 17, 6}}}};
  const Strings shape = {node("Shape", {"x"}, {"s"}), ints("i1", {1}),  node("Gather", {"s", "i1"}, {"t"}),
                         ints("zero", {0}),           ints("two", {2}), node("Div", {"t", "two"}, {"half"})};
  auto with = [&](const Strings& more) {
    Strings nodes = shape;
    nodes.insert(nodes.end(), more.begin(), more.end());
    return Model{nodes, x};
  };
  expect_as_interpreted(with({node("Slice", {"x", "half", "t", "i1"}, {"y"})}), sizes);
  expect_as_interpreted(
      with({ints("last", {-1}), ints("end", {INT64_MAX}), node("Slice", {"x", "last", "end", "i1"}, {"y"})}),
      sizes);
  expect_as_interpreted(
      with({node("Concat", {"zero", "i1", "zero", "zero", "half", "zero"}, {"pads"}, integer("axis", 0)),
            node("Pad", {"x", "pads"}, {"y"})}),
      sizes);
  expect_as_interpreted(with({node("Concat", {"two", "half", "i1"}, {"counts"}, integer("axis", 0)),
                              node("Tile", {"x", "counts"}, {"y"})}),
                        sizes);
  expect_as_interpreted(with({node("CumSum", {"x", "i1"}, {"y"})}), sizes);
  expect_as_interpreted(with({node("TopK", {"x", "half"}, {"y", ""}, integer("axis", 1))}), sizes);
}

/// What one side of a pad cuts off is of what the other adds, where there is nothing else.
TEST(OnnxOpenPrograms, PadsThatCutOffMoreThanThereIs) {
  const std::string x = input_of("x", {"b", "n"}), pad = node("Pad", {"x", "pads"}, {"y"});
  Build front({{ints("pads", {0, 2, 0, -2}), pad}, x}), back({{ints("pads", {0, -2, 0, 3}), pad}, x});
  // As many rows of zeros more as there are.
  Build rows({{node("Shape", {"x"}, {"shape"}), ints("zero", {0}), ints("one", {1}),
               node("Slice", {"shape", "zero", "one"}, {"b"}), ints("others", {2, 0, -2}),
               node("Concat", {"b", "others"}, {"pads"}, integer("axis", 0)), pad},
              x});
  auto row = [](const std::vector<float>& values) {
    return tensor_of<float>(values, {1, static_cast<int64_t>(values.size())}, kFloat32);
  };
  auto padded = [](Build& build, const Tensor& of) { return build.at(std::vector<Tensor>{of}); };
  expect_equal(padded(front, row({})), {row({})});
  expect_equal(padded(front, row({7})), {row({0})});
  expect_equal(padded(front, row({7, 8, 9})), {row({0, 0, 7})});
  expect_equal(padded(back, row({})), {row({0})});
  expect_equal(padded(back, row({7})), {row({0, 0})});
  expect_equal(padded(rows, row({7})), {tensor_of<float>({0, 0}, {2, 1}, kFloat32)});
  EXPECT_EQ(padded(rows, row({}))[0].shape(), (Shape{2, 0}));
}

TEST(OnnxOpenPrograms, FirstFewOfOpenRows) {
  for (int64_t k : {1, 3, 40})
    for (int64_t largest : {0, 1}) {
      std::vector<Shapes> sizes;
      for (int64_t n : {k, k + 1, int64_t{47}, int64_t{512}, int64_t{2050}}) sizes.push_back({{"x", {2, n}}});
      expect_as_interpreted(
          {{ints("k", {k}), node("TopK", {"x", "k"}, {"y", "at"}, integer("largest", largest))},
           input_of("x", {"b", "n"}),
           {"y", "at"}},
          sizes);
    }
  Build build({{ints("k", {3}), node("TopK", {"x", "k"}, {"y", "at"})}, input_of("x", {"n"}), {"y", "at"}});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  build.at({tensor_of<float>({nan, 1, nan, nan, 2}, {5}, kFloat32)});
  EXPECT_EQ(thrown_by([&] {
              build.at(Shapes{{"x", {2}}});
            }),
            "the model needs n = max(n, 3), which does not hold for n = 2");
}

/// Placed, filtered or merged, as the two numbers say.
TEST(OnnxOpenPrograms, AsManyOfOpenRowsAsARunTells) {
  Build build({{node("TopK", {"x", "k"}, {"y", "at"}, integer("axis", 1))},
               input_of("x", {"b", "n"}) + input_of("k", {"1"}, kInt),
               {"y", "at"}});
  auto inputs = [](int64_t n, int64_t k, int64_t nans) {
    Tensor x({2, n}, kFloat32);
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i * 7919 % 211));
    for (int64_t i = 5; i < x.size(); i += nans) x.set(i, std::numeric_limits<double>::quiet_NaN());
    return std::vector{x, tensor_of<int64_t>({k}, {1}, kInt64)};
  };
  for (int64_t n : {1, 10, 96, 97, 380, 1000, 1025, 3000})
    for (int64_t k : {int64_t{0}, int64_t{1}, n / 20, n / 4, n / 2, n})
      for (int64_t nans : {int64_t{2}, int64_t{97}}) build.at(inputs(n, k, nans));
  EXPECT_EQ(thrown_by([&] { build.at(inputs(10, 11, 97)); }),
            "the model needs max(size0, n) = n, which does not hold for size0 = 11, b = 2, n = 10");
}

TEST(OnnxOpenPrograms, FourierTransformsOfAnyLength) {
  auto of = [](const std::string& attributes, const char* parts, const Strings& more = {}) {
    Strings inputs = {"x"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return Model{{ints("long", {9}), node("DFT", inputs, {"y"}, integer("axis", 1) + attributes)},
                 input_of("x", {"b", "n", parts})};
  };
  auto sizes = [](int64_t parts) {
    return std::vector<Shapes>{{{"x", {2, 1, parts}}}, {{"x", {1, 8, parts}}}, {{"x", {3, 47, parts}}}};
  };
  expect_as_settled(of(integer("onesided", 1), "1"), sizes(1));
  expect_as_settled(of(integer("inverse", 1), "2"), sizes(2));
  expect_as_settled(of("", "1", {"long"}), sizes(1));
}

/// Three pairs of sizes that might differ, or be 1, were more cases than are compiled.
TEST(OnnxOpenPrograms, SizesThatAreComputedAlikeAreOne) {
  const std::string half_of_x =
                        node("Add", {"ends", "one"}, {"a"}) + node("Slice", {"x", "zeros", "a"}, {"u"}),
                    half_of_z =
                        node("Add", {"ends", "one"}, {"b"}) + node("Slice", {"z", "zeros", "b"}, {"v"});
  Build build(
      {{ints("zeros", {0, 0, 0}), ints("one", {1}), half_of_x, half_of_z, node("Add", {"u", "v"}, {"y"})},
       input_of("x", {"n", "m", "l"}) + input_of("z", {"n", "m", "l"}) + input_of("ends", {"3"}, kInt)});
  for (const Shape& ends : {Shape{0, 0, 0}, Shape{2, 0, 4}, Shape{9, 9, 9}, Shape{-2, -1, 1}})
    build.at({numbers({"", {4, 3, 5}, kFloat32}, {4, 3, 5}), numbers({"", {4, 3, 5}, kFloat32}, {4, 3, 5}),
              tensor_of<int64_t>({ends[0], ends[1], ends[2]}, {3}, kInt64)});
}

/// An image that is declared open, and of which only some sizes fit the weights behind it: none that has
/// fewer rows than its windows is among them.
TEST(OnnxOpenPrograms, ImagesThatLaterLayersNeed) {
  const std::string windows = integers("kernel_shape", {2, 2}) + integers("strides", {2, 2});
  const Model model{{node("AveragePool", {"x"}, {"p"}, windows),
                     node("Flatten", {"p"}, {"f"}, integer("axis", 1)), node("MatMul", {"f", "v"}, {"y"})},
                    input_of("x", {"b", "3", "h", "w"}) + input_of("v", {"48", "5"})};
  expect_as_interpreted(model, {{{"x", {2, 3, 8, 8}}, {"v", {48, 5}}},
                                {{"x", {1, 3, 9, 9}}, {"v", {48, 5}}},
                                {{"x", {7, 3, 4, 17}}, {"v", {48, 5}}}});
}

TEST(OnnxOpenPrograms, Volumes) {
  for (const char* batch : {"1", "2", "b"}) {
    std::vector<Shapes> sizes;
    for (const auto& [d, h, w] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{3, 1, 1}, {4, 7, 3}, {9, 6, 17}})
      sizes.push_back({{"x", {*batch == 'b' ? d % 3 + 1 : *batch - '0', 3, d, h, w}},
                       {"w", {4, 3, 3, 3, 3}},
                       {"v", {2, 4, 3, 1, 1}}});
    expect_as_interpreted(
        {{node("Conv", {"x", "w"}, {"c"}, integers("pads", {1, 1, 1, 1, 1, 1})), node("Relu", {"c"}, {"r"}),
          node("Conv", {"r", "v"}, {"y"}, integers("strides", {2, 1, 1}))},
         input_of("x", {batch, "3", "d", "h", "w"}) + input_of("w", {"4", "3", "3", "3", "3"}) +
             input_of("v", {"2", "4", "3", "1", "1"})},
        sizes);
  }
}

/// Depths that are halved and doubled again are what they were, if they were even: a run finds out.
TEST(OnnxOpenPrograms, VolumesThatAreJoinedWithSmallerOnes) {
  const std::string same = integers("pads", {1, 1, 1, 1, 1, 1}), halves = integers("strides", {2, 2, 2});
  for (const char* batch : {"2", "b"})
    expect_as_interpreted(
        {{node("Conv", {"x", "w"}, {"c"}, same),
          node("MaxPool", {"c"}, {"p"}, halves + integers("kernel_shape", {2, 2, 2})),
          node("Conv", {"p", "v"}, {"d"}, same), node("ConvTranspose", {"d", "u"}, {"e"}, halves),
          node("Concat", {"e", "c"}, {"j"}, integer("axis", 1)), node("Conv", {"j", "t"}, {"y"}, same)},
         input_of("x", {batch, "1", "d", "h", "w"}) + input_of("w", {"2", "1", "3", "3", "3"}) +
             input_of("v", {"2", "2", "3", "3", "3"}) + input_of("u", {"2", "3", "2", "2", "2"}) +
             input_of("t", {"2", "5", "3", "3", "3"})},
        {{{"x", {2, 1, 4, 2, 6}},
          {"w", {2, 1, 3, 3, 3}},
          {"v", {2, 2, 3, 3, 3}},
          {"u", {2, 3, 2, 2, 2}},
          {"t", {2, 5, 3, 3, 3}}}});
}

/// As residual networks for video have them.
TEST(OnnxOpenPrograms, VolumesOfWhichEverySecondDepthIsSeen) {
  const std::string halves = integers("strides", {2, 2, 2});
  expect_as_interpreted(
      {{node("Conv", {"x", "w"}, {"c"}, halves + integers("pads", {1, 1, 1, 1, 1, 1})),
        node("Conv", {"x", "v"}, {"d"}, halves), node("Add", {"c", "d"}, {"s"}),
        node("Conv", {"s", "u"}, {"e"}, integers("pads", {1, 0, 0, 1, 0, 0})),
        node("Concat", {"s", "e"}, {"j"}, integer("axis", 1)),
        node("ReduceMean", {"j"}, {"y"}, integers("axes", {2, 3, 4}))},
       input_of("x", {"b", "3", "d", "h", "w"}) + input_of("w", {"4", "3", "3", "3", "3"}) +
           input_of("v", {"4", "3", "1", "1", "1"}) + input_of("u", {"4", "4", "3", "1", "1"})},
      {{{"x", {1, 3, 1, 1, 1}}, {"w", {4, 3, 3, 3, 3}}, {"v", {4, 3, 1, 1, 1}}, {"u", {4, 4, 3, 1, 1}}},
       {{"x", {3, 3, 4, 7, 3}}, {"w", {4, 3, 3, 3, 3}}, {"v", {4, 3, 1, 1, 1}}, {"u", {4, 4, 3, 1, 1}}},
       {{"x", {2, 3, 9, 6, 17}}, {"w", {4, 3, 3, 3, 3}}, {"v", {4, 3, 1, 1, 1}}, {"u", {4, 4, 3, 1, 1}}}});
}

/// The frames of all clips are `d * b` images, or `b * d`: of two numbers that stand nowhere by themselves,
/// each is to be the right one.
TEST(OnnxOpenPrograms, ProductsOfDimensionsInAnyOrder) {
  for (const char* batch : {"b", "n"})
    expect_as_interpreted(
        {{node("Conv", {"x", "w"}, {"y"}, integers("strides", {1, 2, 2}))},
         input_of("x", {batch, "3", "d", "h", "w"}) + input_of("w", {"4", "3", "1", "3", "3"})},
        {{{"x", {2, 3, 5, 4, 9}}, {"w", {4, 3, 1, 3, 3}}}, {{"x", {4, 3, 1, 7, 3}}, {"w", {4, 3, 1, 3, 3}}}});
}

/// Of images no larger than the elements of a kernel are apart one element alone sees more than padding; of
/// larger ones each tile sees some.
TEST(OnnxOpenPrograms, ImagesSmallerThanADilation) {
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{{3, 4}, {16, 32}}) {
    std::vector<Shapes> sizes;
    for (const auto& [b, h, w] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {1, 6, 6}, {2, 3, 5}, {3, 6, 7}, {1, 7, 2}, {2, 8, 13}, {1, 19, 33}})
      sizes.push_back({{"x", {b, in, h, w}}, {"w", {out, in, 3, 3}}});
    const std::string channels = std::to_string(in);
    expect_as_interpreted(
        {{node("Conv", {"x", "w"}, {"y"}, integers("dilations", {6, 6}) + integers("pads", {6, 6, 6, 6}))},
         input_of("x", {"b", channels, "h", "w"}) + input_of("w", {std::to_string(out), channels, "3", "3"})},
        sizes);
  }
}

/// Of a table of 6 places the first as many as there are elements; where there are more, none is read behind
/// it.
TEST(OnnxOpenPrograms, TablesOfWhichTheFirstPlacesAreTaken) {
  const Model model{
      {ints("zero", {0}), ints("one", {1}), node("Shape", {"x"}, {"s"}), node("Gather", {"s", "one"}, {"n"}),
       node("Slice", {"t", "zero", "n"}, {"p"}), node("Expand", {"p", "s"}, {"e"}),
       node("Concat", {"x", "e"}, {"y"}, integer("axis", 2))},
      input_of("x", {"b", "n", "4"}) + input_of("t", {"6", "4"})};
  expect_as_interpreted(model, {{{"x", {2, 1, 4}}, {"t", {6, 4}}},
                                {{"x", {1, 5, 4}}, {"t", {6, 4}}},
                                {{"x", {3, 6, 4}}, {"t", {6, 4}}}});
  EXPECT_EQ(thrown_by([&] {
              Build(model).at(Shapes{{"x", {1, 7, 4}}, {"t", {6, 4}}});
            }),
            "the model needs min(n, 6) = n, which does not hold for b = 1, n = 7");
}

/// Rows that registers hold, and longer ones.
TEST(OnnxOpenPrograms, WeightsOfFewNeighbours) {
  std::vector<Shapes> sizes;
  for (int64_t n : {1, 2, 5, 15, 16, 17, 33, 50, 63, 64, 65, 130})
    sizes.push_back({{"x", {2, n, n}}, {"v", {n, 7}}});
  expect_as_interpreted(
      {{node("LeakyRelu", {"x"}, {"l"}), node("Softmax", {"l"}, {"s"}, integer("axis", 2)),
        node("MatMul", {"s", "v"}, {"m"}), node("ReduceMax", {"x"}, {"r"}, integers("axes", {2})),
        node("Add", {"m", "r"}, {"y"})},
       input_of("x", {"b", "n", "n"}) + input_of("v", {"n", "7"})},
      sizes);
}

TEST(OnnxOpenPrograms, AttentionOverThePatchesOfAnImage) {
  const std::string windows = integers("kernel_shape", {2, 2}) + integers("strides", {2, 2});
  expect_as_interpreted(
      {{ints("rows", {0, 0, -1}), node("AveragePool", {"x"}, {"p"}, windows),
        node("Reshape", {"p", "rows"}, {"k"}), node("Transpose", {"k"}, {"q"}, integers("perm", {0, 2, 1})),
        node("MatMul", {"q", "k"}, {"a"}), node("Softmax", {"a"}, {"s"}), node("MatMul", {"s", "q"}, {"y"})},
       input_of("x", {"b", "5", "h", "w"})},
      {{{"x", {1, 5, 2, 3}}}, {{"x", {2, 5, 9, 21}}}, {{"x", {1, 5, 4, 2}}}});
}

/// However many there are, and may be kept: no thread has places for that.
TEST(OnnxOpenPrograms, TransformsOfSignalsOfAnyLength) {
  const std::string step = node("Constant", {}, {"step"}, integer("value_int", 3)),
                    length = node("Constant", {}, {"length"}, integer("value_int", 8));
  expect_as_settled(
      {{step, length, node("STFT", {"x", "step", "", "length"}, {"y"})}, input_of("x", {"b", "t", "1"})},
      {{{"x", {1, 8, 1}}}, {{"x", {2, 21, 1}}}, {{"x", {1, 40, 1}}}});
  // Long enough to be split.
  const std::string x = input_of("x", {"b", "400", "m", "2"});
  expect_as_settled({{node("DFT", {"x"}, {"y"}, integer("axis", 1))}, x},
                    {{{"x", {2, 400, 1, 2}}}, {{"x", {1, 400, 3, 2}}}});
}

/// Side by side, then each of the last again.
TEST(OnnxOpenPrograms, MoreBoxesAreKeptThanAThreadHasAtHand) {
  constexpr int64_t kKept = 4150, kAgain = 100;
  Build build({{ints("most", {kKept + kAgain}), node("NonMaxSuppression", {"b", "s", "most"}, {"y"})},
               input_of("b", {"1", "n", "4"}) + input_of("s", {"1", "1", "n"})});
  Tensor boxes = zeros({1, kKept + kAgain, 4}, kFloat32), scores = zeros({1, 1, kKept + kAgain}, kFloat32);
  for (int64_t i = 0; i < kKept + kAgain; ++i) {
    const auto left = static_cast<double>(i < kKept ? i : i - kAgain);
    boxes.set(4 * i + 1, left), boxes.set(4 * i + 2, 1), boxes.set(4 * i + 3, left + 0.5);
    scores.set(i, static_cast<double>(2 * (kKept + kAgain) - i));
  }
  const Tensor kept = build.compiled({boxes, scores})[0];
  ASSERT_EQ(shape_text(kept.shape()), shape_text(Shape{kKept, 3}));
  for (int64_t i = 0; i < kKept; ++i) EXPECT_EQ(kept.integer(3 * i + 2), i);
}

TEST(OnnxOpenPrograms, BoxesOfAnyNumber) {
  for (int64_t most : {2, 10000})
    expect_as_interpreted({{ints("most", {most}), node("NonMaxSuppression", {"x", "s", "most"}, {"y"})},
                           input_of("x", {"b", "n", "4"}) + input_of("s", {"b", "c", "n"})},
                          {{{"x", {1, 5, 4}}, {"s", {1, 3, 5}}},
                           {{"x", {2, 100, 4}}, {"s", {2, 1, 100}}},
                           {{"x", {1, 1, 4}}, {"s", {1, 2, 1}}}});
}

TEST(OnnxOpenPrograms, ImagesThatAreSampledOrFramed) {
  expect_as_interpreted(
      {{node("GridSample", {"x", "g"}, {"y"})},
       input_of("x", {"b", "3", "h", "w"}) + input_of("g", {"b", "u", "v", "2"})},
      {{{"x", {1, 3, 5, 20}}, {"g", {1, 4, 33, 2}}}, {{"x", {2, 3, 1, 1}}, {"g", {2, 1, 1, 2}}}});
  expect_as_interpreted({{node("MaxPool", {"x"}, {"y"},
                               text("auto_pad", "SAME_UPPER") + integers("kernel_shape", {3, 3}) +
                                   integers("strides", {2, 2}))},
                         input_of("x", {"b", "3", "h", "w"})},
                        {{{"x", {1, 3, 5, 20}}}, {{"x", {2, 3, 1, 34}}}});
}

/// Positions are moved into the tensor they are of, of which there must be something: the element before an
/// empty tensor, or the row behind a short one, is other memory.
/// Where only a run tells which of two sizes is 1.
TEST(OnnxOpenPrograms, OneSizeIsRepeatedToAnother) {
  const Model model{{node("Shape", {"y"}, {"size"}), node("Expand", {"x", "size"}, {"z"})},
                    input_of("x", {"n", "2"}) + input_of("y", {"m", "2"}),
                    {"z"}};
  expect_as_interpreted(
      model,
      {{{"x", {3, 2}}, {"y", {3, 2}}}, {{"x", {1, 2}}, {"y", {4, 2}}}, {{"x", {4, 2}}, {"y", {1, 2}}}});
  Build build(model);
  EXPECT_NE(thrown_by([&] { build.at(Shapes{{"x", {3, 2}}, {"y", {2, 2}}}); }), "no error");
}

TEST(OnnxOpenPrograms, NothingIsChosenOfNothing) {
  // Of the rows of x from the second on, and of x itself along the other axis.
  const std::string inputs = input_of("x", {"n", "4"}) + input_of("i", {"3"}, kInt) +
                             input_of("j", {"3", "4"}, kInt) + input_of("k", {"3", "1"}, kInt) +
                             input_of("u", {"3", "4"});
  const Strings rest = {ints("two", {2}), ints("end", {INT64_MAX}), ints("zero", {0}),
                        node("Slice", {"x", "two", "end", "zero"}, {"rest"})};
  auto said_of = [&](const std::string& last, int64_t rows) {
    Strings nodes = rest;
    nodes.push_back(last);
    const Shapes shapes{{"x", {rows, 4}}, {"i", {3}}, {"j", {3, 4}}, {"k", {3, 1}}, {"u", {3, 4}}};
    return thrown_by([&] { Build(Model{nodes, inputs}).at(shapes); });
  };
  const std::string axis0 = integer("axis", 0), axis1 = integer("axis", 1);
  const std::string none = "the model needs min(1, max(0, n - 2)) = 1, which does not hold for n = 2";
  for (const std::string& last :
       {node("Gather", {"rest", "i"}, {"y"}, axis0), node("GatherElements", {"rest", "j"}, {"y"}, axis0),
        node("GatherND", {"rest", "k"}, {"y"}), node("ScatterElements", {"rest", "j", "u"}, {"y"}, axis0),
        node("ScatterND", {"rest", "k", "u"}, {"y"})}) {
    EXPECT_EQ(said_of(last, 2), none);
    EXPECT_EQ(said_of(last, 4), "no error");
  }
  for (const std::string& last : {node("GatherElements", {"x", "j"}, {"y"}, axis1),
                                  node("ScatterElements", {"x", "j", "u"}, {"y"}, axis1)}) {
    EXPECT_EQ(said_of(last, 2), "the model needs min(n, 3) = 3, which does not hold for n = 2");
    EXPECT_EQ(said_of(last, 3), "no error");
  }
  const std::string batches = node("GatherND", {"x", "k"}, {"y"}, integer("batch_dims", 1));
  // There is one n.
  EXPECT_EQ(said_of(batches, 2), "input `x` is float32 (2, 4), must be float32 (3, 4)");
}

/// The place of what is largest among nothing.
TEST(OnnxOpenPrograms, HardmaxOfNothing) {
  const Model model{{node("Hardmax", {"x"}, {"y"}, integer("axis", 1))}, input_of("x", {"n", "k", "2"})};
  Build build(model);
  for (const Shape& shape : {Shape{2, 0, 2}, {0, 3, 2}})
    EXPECT_EQ(build.at({{"x", shape}})[0].shape(), shape);
  const Tensor none = tensor_of<float>({-INFINITY, 1, -INFINITY, 0, -INFINITY, 1}, {1, 3, 2}, kFloat32);
  expect_equal(build.at(std::vector<Tensor>{none}),
               {tensor_of<float>({1, 1, 0, 0, 0, 0}, {1, 3, 2}, kFloat32)});
}

/// What an open model computes, one of that size alone does too.
TEST(OnnxOpenPrograms, WindowsOfWhichNoneFits) {
  const std::string three = integers("kernel_shape", {3, 2});
  expect_as_settled({{node("Conv", {"x", "w"}, {"a"}), node("MaxPool", {"x"}, {"b", "c"}, three),
                      node("AveragePool", {"x"}, {"d"}, three), node("LpPool", {"x"}, {"e"}, three)},
                     input_of("x", {"b", "2", "h", "w"}) + input_of("w", {"4", "2", "3", "3"}),
                     {"a", "b", "c", "d", "e"}},
                    {{{"x", {1, 2, 2, 7}}, {"w", {4, 2, 3, 3}}}, {{"x", {2, 2, 4, 3}}, {"w", {4, 2, 3, 3}}}});
  const Model conv{{node("Conv", {"x", "w"}, {"y"})},
                   input_of("x", {"1", "1", "h"}) + input_of("w", {"1", "1", "3"})};
  EXPECT_EQ(thrown_by([&] {
              Build(conv).compiled({zeros({1, 1, 1}, kFloat32), zeros({1, 1, 3}, kFloat32)});
            }),
            "module: a tensor of shape (1, 1, 1, -1)");
}

/// For i below `count`: rows of x are added up, and gathered. `at`: the row's number.
Model taking_loop(const std::string& rows, const std::string& at) {
  const std::string sum = field(
      12, field(1, "sum") + field(2, field(1, field(1, kFloat) + field(2, field(1, field(1, int64_t{4}))))));
  const std::string body = node("Gather", {"x", at}, {"row"}) + node("Add", {"before", "row"}, {"after"}) +
                           node("Identity", {"go"}, {"goes_on"}) + node("Identity", {"after"}, {"sum"}) +
                           bytes::input("i") + bytes::input("go") + bytes::input("before") +
                           field(12, field(1, "goes_on")) + field(12, field(1, "after")) + sum;
  return {{node("Constant", {}, {"first"}, integer("value_int", 0)),
           node("Loop", {"count", "", "start"}, {"y", "rows"}, bytes::subgraph("body", body))},
          input_of("x", {rows, "4"}) + input_of("count", {}, kInt) + input_of("start", {"4"}),
          {"y", "rows"}};
}

/// Of no rows a loop that takes no step takes none: what its body would need is not asked for.
TEST(OnnxOpenPrograms, LoopsWithoutStepsTakeNothing) {
  const Tensor start = tensor_of<float>({1, 2, 3, 4}, {4}, kFloat32);
  auto count = [](int64_t steps) { return tensor_of<int64_t>({steps}, {}, kInt64); };
  for (const char* at : {"i", "first"}) {
    SCOPED_TRACE(at);
    Build open(taking_loop("n", at)), none(taking_loop("0", at));
    for (Build* build : {&open, &none}) {
      const std::vector<Tensor> outputs = build->at({zeros({0, 4}, kFloat32), count(0), start});
      EXPECT_EQ(outputs[0].value(3), 4);
      EXPECT_EQ(outputs[1].shape(), (Shape{0, 4}));
    }
    EXPECT_NE(thrown_by([&] {
                open.compiled({zeros({0, 4}, kFloat32), count(1), start});
              }).find("the model needs min(n, 1) = 1, which does not hold for n = 0"),
              std::string::npos);
    EXPECT_NE(
        thrown_by([&] {
          none.compiled({zeros({0, 4}, kFloat32), count(1), start});
        })
            .find(
                "its body takes a step, which it cannot: node `row` (Gather): Tensor[(0, 4), float32] has no "
                "elements, of which 4 are taken"),
        std::string::npos);
    const std::vector<Tensor> outputs = open.at({full({2, 4}, kFloat32, 1), count(2), start});
    EXPECT_EQ(outputs[0].value(0), 3);
  }
}

/// As many columns as zero points.
TEST(OnnxOpenPrograms, ProductsOfBytesWithAZeroPointForEachColumn) {
  constexpr int64_t kByte = 2;
  Build build({{ints("zeros", {5, 7}), node("Cast", {"zeros"}, {"zero"}, integer("to", kByte)),
                node("MatMulInteger", {"x", "w", "", "zero"}, {"y"})},
               input_of("x", {"m", "k"}, kByte) + input_of("w", {"k", "n"}, kByte)});
  const Tensor x = tensor_of<uint8_t>({1, 2, 3}, {1, 3}, kUInt8),
               w = tensor_of<uint8_t>({9, 8, 7, 6, 5, 4}, {3, 2}, kUInt8);
  const Tensor y = build.compiled({x, w})[0];
  ASSERT_EQ(y.shape(), (Shape{1, 2}));
  EXPECT_EQ(y.integer(0), 1 * 4 + 2 * 2 + 3 * 0);
  EXPECT_EQ(y.integer(1), 1 * 1 - 2 * 1 - 3 * 3);
}

/// As many channels as scales and zero points of them, whose lengths have names of their own.
TEST(OnnxOpenPrograms, QuantizedByVectorsOfOpenLengths) {
  constexpr int64_t kByte = 2;
  const std::string channel_last = integer("axis", 1);
  const std::string scaled = input_of("scale", {"q"}) + input_of("zero", {"r"}, kByte);
  const Shapes of_five{{"x", {3, 5}}, {"scale", {5}}, {"zero", {5}}};
  expect_as_interpreted(
      {{node("DequantizeLinear", {"x", "scale", "zero"}, {"d"}, channel_last), node("Relu", {"d"}, {"y"})},
       input_of("x", {"m", "n"}, kByte) + scaled},
      {of_five});
  expect_as_interpreted({{node("QuantizeLinear", {"x", "scale", "zero"}, {"q"}, channel_last),
                          node("DequantizeLinear", {"q", "scale", "zero"}, {"y"}, channel_last)},
                         input_of("x", {"m", "n"}) + scaled},
                        {of_five});
  const auto one = [](float value) { return full({}, kFloat32, value); };
  const auto byte = [](uint8_t value) { return full({}, kUInt8, value); };
  for (const char* scales : {"q", "2"}) {
    SCOPED_TRACE(scales);
    Build build(
        {{node("QLinearMatMul", {"x", "x_scale", "x_zero", "w", "scale", "zero", "y_scale", "y_zero"}, {"q"}),
          node("DequantizeLinear", {"q", "y_scale", "y_zero"}, {"y"})},
         input_of("x", {"m", "k"}, kByte) + input_of("x_scale", {}) + input_of("x_zero", {}, kByte) +
             input_of("w", {"k", "n"}, kByte) + input_of("scale", {scales}) + input_of("zero", {"r"}, kByte) +
             input_of("y_scale", {}) + input_of("y_zero", {}, kByte)});
    const Tensor y = build.compiled({tensor_of<uint8_t>({1, 2}, {1, 2}, kUInt8), one(1), byte(0),
                                     tensor_of<uint8_t>({9, 8, 7, 6}, {2, 2}, kUInt8),
                                     tensor_of<float>({1, 0.5}, {2}, kFloat32),
                                     tensor_of<uint8_t>({1, 2}, {2}, kUInt8), one(1), byte(3)})[0];
    ASSERT_EQ(y.shape(), (Shape{1, 2}));
    EXPECT_EQ(y.value(0), 1 * 8 + 2 * 6);
    EXPECT_EQ(y.value(1), (1 * 6 + 2 * 4) * 0.5);
  }
}

}  // namespace
}  // namespace lathe::onnx
