// ONNX sequences of a length that only a run tells: one build gives what the model gives that is imported for
// its size, where a sequence is a tuple.
#include "tests/program/onnx_build.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return tensor_of<float>(values, shape, kFloat32);
}
Tensor number_of(int64_t value) { return tensor_of<int64_t>({value}, {}, kInt64); }

/// `t`: rows of x.
Strings with_count(Strings nodes) {
  nodes.insert(nodes.begin(), {node("Shape", {"x"}, {"shape"}), ints("zero", {0}), ints("one", {1}),
                               node("Gather", {"shape", "zero"}, {"t"})});
  return nodes;
}

/// For i below t: a sequence, to which `item` of `body` is added.
std::string collecting(const Strings& body, const std::string& first, const std::string& result) {
  Strings nodes = body;
  nodes.push_back(node("Identity", {"go"}, {"goes_on"}));
  nodes.push_back(node("SequenceInsert", {"before", "item"}, {"after"}));
  return node("Loop", {"t", "", first}, {result},
              bytes::subgraph(
                  "body", bytes::graph(nodes, bytes::input("i") + bytes::input("go") + bytes::input("before"),
                                       {"goes_on", "after"})));
}

std::string joined(const std::string& sequence, const std::string& result, int64_t axis, bool new_axis) {
  return node("ConcatFromSequence", {sequence}, {result},
              integer("axis", axis) + integer("new_axis", new_axis));
}

TEST(OnnxLists, ALoopCollectsRows) {
  const std::string row = node("Gather", {"x", "i"}, {"item"});
  expect_as_settled({with_count({node("SequenceEmpty", {}, {"none"}), collecting({row}, "none", "all"),
                                 joined("all", "y", 1, true), joined("all", "z", -1, false),
                                 node("SequenceLength", {"all"}, {"n"})}),
                     input_of("x", {"t", "m"}),
                     {"y", "z", "n"}},
                    {{{"x", {1, 3}}}, {{"x", {5, 2}}}, {{"x", {8, 1}}}});
}

TEST(OnnxLists, ItemsDifferInSize) {
  const Strings head = {node("Add", {"i", "one"}, {"end"}), node("Slice", {"x", "zero", "end"}, {"item"})};
  expect_as_settled({with_count({node("SequenceConstruct", {"x", "x"}, {"two"}),
                                 collecting(head, "two", "all"), joined("all", "y", 0, false)}),
                     input_of("x", {"t", "m"})},
                    {{{"x", {1, 3}}}, {{"x", {4, 2}}}});
}

TEST(OnnxLists, ItemsByTheirPositions) {
  const std::string row = node("Gather", {"x", "i"}, {"item"});
  const Strings changes = {node("SequenceEmpty", {}, {"none"}),
                           collecting({row}, "none", "all"),
                           ints("last", {-1}),
                           ints("second", {1}),
                           node("SequenceAt", {"all", "last"}, {"a"}),
                           node("SequenceAt", {"all", "second"}, {"b"}),
                           node("SequenceErase", {"all", "second"}, {"fewer"}),
                           node("SequenceErase", {"fewer"}, {"fewest"}),
                           node("SequenceInsert", {"fewest", "b", "zero"}, {"more"}),
                           node("SequenceInsert", {"more", "a", "last"}, {"most"}),
                           joined("most", "y", 0, true)};
  expect_as_settled({with_count(changes), input_of("x", {"t", "m"}), {"a", "b", "y"}},
                    {{{"x", {3, 3}}}, {{"x", {6, 1}}}});
  Build build({with_count(changes), input_of("x", {"t", "m"}), {"b"}});
  EXPECT_NE(thrown_by([&] {
              build.at(Shapes{{"x", {1, 3}}});
            }).find("a position beyond the end of a sequence"),
            std::string::npos);
}

TEST(OnnxLists, APositionOfATupleThatOnlyARunTells) {
  Build build({{node("SequenceConstruct", {"x", "w"}, {"both"}), node("SequenceAt", {"both", "k"}, {"y"})},
               input_of("x", {"n"}) + input_of("w", {"n"}) + input_of("k", {}, kInt)});
  const Tensor x = tensor_of<float>({1, 2}, {2}, kFloat32), w = tensor_of<float>({3, 4}, {2}, kFloat32);
  for (int64_t k : {0, 1, -1, -2})
    expect_equal(build.at({x, w, tensor_of<int64_t>({k}, {}, kInt64)}), {k == 0 || k == -2 ? x : w});
}

TEST(OnnxLists, PartsOfAnOpenAxis) {
  const std::string square = bytes::subgraph(
      "body", bytes::graph({node("Mul", {"item", "item"}, {"square"})}, bytes::input("item"), {"square"}));
  const std::string x = input_of("x", {"t", "m"});
  for (const int64_t axis : {0, 1}) {
    SCOPED_TRACE(axis);
    expect_as_settled({{node("Constant", {}, {"size"}, integer("value_int", 3)),
                        node("SplitToSequence", {"x", "size"}, {"parts"}, integer("axis", axis)),
                        node("SequenceMap", {"parts"}, {"squares"}, square),
                        joined("squares", "y", axis, false), node("SequenceLength", {"parts"}, {"n"})},
                       x,
                       {"y", "n"}},
                      {{{"x", {3, 3}}}, {{"x", {7, 5}}}, {{"x", {1, 8}}}});
    expect_as_settled(
        {{node("SplitToSequence", {"x"}, {"rows"}, integer("axis", axis) + integer("keepdims", 0)),
          joined("rows", "y", 0, false), joined("rows", "z", 1, true)},
         x,
         {"y", "z"}},
        {{{"x", {3, 2}}}, {{"x", {1, 4}}}});
  }
}

TEST(OnnxLists, ALoopWithoutACountGathers) {
  const std::string body =
      bytes::graph({node("Add", {"x", "x"}, {"next"}), node("Less", {"next", "limit"}, {"more"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("x"), {"more", "next", "next"});
  Build build({{node("Loop", {"", "", "start"}, {"end", "y"}, bytes::subgraph("body", body))},
               input_of("start", {}) + input_of("limit", {}),
               {"end", "y"}});
  auto numbers = [](std::vector<float> values, const Shape& shape) {
    return tensor_of<float>(values, shape, kFloat32);
  };
  expect_equal(build.at(std::vector<Tensor>{numbers({1}, {}), numbers({10}, {})}),
               {numbers({16}, {}), numbers({2, 4, 8, 16}, {4})});
  expect_equal(build.at(std::vector<Tensor>{numbers({3}, {}), numbers({1}, {})}),
               {numbers({6}, {}), numbers({6}, {1})});
}

TEST(OnnxLists, BranchesGiveSequences) {
  auto side = [](const char* name, const std::string& nodes) {
    return bytes::subgraph(name, bytes::graph({nodes}, "", {"sequence"}));
  };
  Build build({{node("If", {"flag"}, {"all"},
                     side("then_branch", node("SplitToSequence", {"x"}, {"sequence"})) +
                         side("else_branch", node("SequenceConstruct", {"x", "x"}, {"sequence"}))),
                joined("all", "y", 1, false)},
               input_of("x", {"n", "2"}) + input_of("flag", {}, kBoolean)});
  const Tensor x = tensor_of<float>({1, 2, 3, 4, 5, 6}, {3, 2}, kFloat32);
  auto flag = [](bool value) { return full({}, kBool, value); };
  expect_equal(build.at(std::vector<Tensor>{x, flag(true)}),
               {tensor_of<float>({1, 2, 3, 4, 5, 6}, {1, 6}, kFloat32)});
  expect_equal(build.at(std::vector<Tensor>{x, flag(false)}),
               {tensor_of<float>({1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}, {3, 4}, kFloat32)});
}

/// A sequence of tensors of `dims`.
std::string sequence_of(const std::string& name, const Strings& dims) {
  std::string shape;
  for (const std::string& dim : dims) shape += field(1, field(2, dim));
  const std::string item = field(1, field(1, kFloat) + field(2, shape));
  return field(11, field(1, name) + field(2, field(4, field(1, item))));
}

/// Side by side in one tensor, in and out. Of a known number each item is an output.
TEST(OnnxLists, OfAnyLengthAsInputsAndOutputs) {
  const std::string square = bytes::subgraph(
      "body", bytes::graph({node("Mul", {"item", "item"}, {"square"})}, bytes::input("item"), {"square"}));
  const Model model{{node("SequenceMap", {"x"}, {"squares"}, square), node("SequenceLength", {"x"}, {"n"}),
                     node("SequenceInsert", {"x", "w"}, {"more"})},
                    sequence_of("x", {"m"}) + input_of("w", {"m"}),
                    {"n", "squares", "more"}};
  Build build(model);
  for (const int64_t count : {0, 1, 4}) {
    const Shapes shapes{{"x", {count, 3}}, {"w", {3}}};
    const Tensor x = numbers({"x", {}, kFloat32}, {count, 3}), w = numbers({"w", {}, kFloat32}, {3});
    const std::vector<Tensor> outputs = build.at(std::vector<Tensor>{x, w});
    EXPECT_EQ(outputs[0].integer(0), count);
    ASSERT_EQ(outputs[1].shape(), (Shape{count, 3}));
    ASSERT_EQ(outputs[2].shape(), (Shape{count + 1, 3}));
    for (int64_t i = 0; i < 3 * (count + 1); ++i) {
      if (i < 3 * count) {
        EXPECT_NEAR(outputs[1].value(i), x.value(i) * x.value(i), 1e-6);
      }
      EXPECT_EQ(outputs[2].value(i), i < 3 * count ? x.value(i) : w.value(i - 3 * count));
    }
    if (count == 0) continue;
    const ImportedModel settled = import_bytes(model.file(), "m.onnx", {.shapes = shapes});
    EXPECT_EQ(settled.outputs.size(), static_cast<size_t>(1 + count + count + 1));
  }
  const std::string row = node("Gather", {"x", "i"}, {"item"});
  Build collected({with_count({node("SequenceEmpty", {}, {"none"}), collecting({row}, "none", "all")}),
                   input_of("x", {"t", "m"}),
                   {"all"}});
  const Tensor x = random_tensor({3, 4}, kFloat32, 1);
  expect_equal(collected.at({x}), {x});
  EXPECT_EQ(collected.at({zeros({0, 4}, kFloat32)})[0].shape(), (Shape{0, 4}));
  EXPECT_NE(
      thrown_by([&] { import_bytes(model.file(), "m.onnx"); })
          .find("input `x` is a sequence of as many items as are given shapes: --shape x.0=2x3, x.1, ...; or "
                "of one shape, as one tensor: --shape x=7x2x3, --open x.0"),
      std::string::npos);
}

/// A sequence without items is of no type until it gets one.
TEST(OnnxLists, SequencesThatBeginEmptyWithinLoopsAndBranches) {
  const std::string inputs = bytes::input("i") + bytes::input("go") + bytes::input("s");
  const std::string push = if_node("is_more", {node("SequenceInsert", {"s", "row", "front"}, {"t_yes"})},
                                   {node("Identity", {"s"}, {"t_no"})}, "t");
  const std::string inner =
      bytes::graph({node("Identity", {"go"}, {"on"}), node("Gather", {"x", "i"}, {"row"}),
                    node("ReduceSum", {"row"}, {"sum"}, integer("keepdims", 0)),
                    node("Greater", {"sum", "least"}, {"is_more"}), push},
                   inputs, {"on", "t"});
  const std::string outer =
      bytes::graph({node("Identity", {"go"}, {"on"}),
                    node("Loop", {"t", "", "s"}, {"after"}, bytes::subgraph("body", inner))},
                   inputs, {"on", "after"});
  Build build({{node("Shape", {"x"}, {"shape"}), ints("zero", {0}), node("Gather", {"shape", "zero"}, {"t"}),
                if_node("flag",
                        {node("SequenceEmpty", {}, {"none"}),
                         node("Loop", {"times", "", "none"}, {"all_yes"}, bytes::subgraph("body", outer))},
                        {node("SequenceEmpty", {}, {"all_no"})}, "all"),
                node("SequenceInsert", {"all", "last"}, {"most"}), node("SequenceLength", {"all"}, {"n"}),
                node("ConcatFromSequence", {"most"}, {"y"}, integer("axis", 0) + integer("new_axis", 1))},
               input_of("x", {"t", "2"}) + input_of("flag", {}, kBoolean) + input_of("times", {}, kInt) +
                   input_of("front", {}, kInt) + input_of("least", {}) + input_of("last", {"2"}),
               {"n", "y"}});
  const Tensor x = floats({1, 2, -3, 1, 5, 6}, {3, 2}), last = floats({9, 9}, {2});
  std::vector<Tensor> outputs =
      build.at(std::vector<Tensor>{x, full({}, kBool, 1), number_of(2), number_of(0), floats({0}, {}), last});
  EXPECT_EQ(outputs[0].integer(0), 4);
  expect_equal({outputs[1]}, {floats({5, 6, 1, 2, 5, 6, 1, 2, 9, 9}, {5, 2})});
  for (bool some : {true, false}) {
    outputs = build.at(std::vector<Tensor>{x, full({}, kBool, some), number_of(some ? 0 : 2), number_of(0),
                                           floats({0}, {}), last});
    EXPECT_EQ(outputs[0].integer(0), 0);
    expect_equal({outputs[1]}, {floats({9, 9}, {1, 2})});
  }
}

TEST(OnnxLists, AnItemAtAPositionOfASequenceThatIsEmpty) {
  Build build({{node("SequenceEmpty", {}, {"none"}), node("SequenceInsert", {"none", "x", "k"}, {"one"}),
                node("SequenceInsert", {"one", "w", "k"}, {"two"}),
                node("ConcatFromSequence", {"two"}, {"y"}, integer("axis", 0))},
               input_of("x", {"n"}) + input_of("w", {"n"}) + input_of("k", {}, kInt)});
  expect_equal(build.at(std::vector<Tensor>{floats({1, 2}, {2}), floats({3, 4}, {2}), number_of(0)}),
               {floats({3, 4, 1, 2}, {4})});
  EXPECT_NE(thrown_by([&] {
              build.at(std::vector<Tensor>{floats({1, 2}, {2}), floats({3, 4}, {2}), number_of(1)});
            }).find("a position beyond the end of a sequence"),
            std::string::npos);
}

/// What is the same in all steps of a loop is asked for by those alone that need it.
TEST(OnnxLists, AnItemThatTheStepsOfALoopLeaveOut) {
  // w + item + item + ..., of which `item` makes the nodes.
  auto loop_of = [](const Strings& item) {
    Strings nodes = item;
    nodes.insert(nodes.end(), {node("Identity", {"go"}, {"on"}), node("Add", {"sum", "item"}, {"next"})});
    const std::string body =
        bytes::graph(nodes, bytes::input("i") + bytes::input("go") + bytes::input("sum"), {"on", "next"});
    return Model{{node("SplitToSequence", {"x"}, {"rows"}), node("SequenceLength", {"rows"}, {"length"}),
                  node("Loop", {"times", "", "w"}, {"y"}, bytes::subgraph("body", body))},
                 input_of("x", {"n", "2"}) + input_of("w", {"1", "2"}) + input_of("k", {}, kInt) +
                     input_of("times", {}, kInt)};
  };
  const Tensor x = floats({1, 2, 3, 4}, {2, 2}), w = floats({10, 20}, {1, 2});
  Build chosen(loop_of({node("Less", {"k", "length"}, {"is_there"}),
                        if_node("is_there", {node("SequenceAt", {"rows", "k"}, {"item_yes"})},
                                {node("Identity", {"w"}, {"item_no"})}, "item")}));
  auto sum = [&](Build& build, const Tensor& from, int64_t k, int64_t times) {
    return build.at(std::vector<Tensor>{from, w, number_of(k), number_of(times)});
  };
  expect_equal(sum(chosen, x, 1, 2), {floats({16, 28}, {1, 2})});
  expect_equal(sum(chosen, x, 2, 2), {floats({30, 60}, {1, 2})});
  expect_equal(sum(chosen, zeros({0, 2}, kFloat32), 0, 1), {floats({20, 40}, {1, 2})});
  Build any(loop_of({node("SequenceAt", {"rows", "k"}, {"item"})}));
  expect_equal(sum(any, x, 2, 0), {w});
  EXPECT_NE(thrown_by([&] { sum(any, x, 2, 1); }).find("a position beyond the end of a sequence"),
            std::string::npos);
  // Sizes that do not go together.
  Build grown(loop_of({ints("two", {2}), ints("one", {1}), node("Reshape", {"k", "one"}, {"count"}),
                       node("Concat", {"count", "two"}, {"shape"}, integer("axis", 0)),
                       node("ConstantOfShape", {"shape"}, {"zeros"}), node("Add", {"x", "zeros"}, {"rows_k"}),
                       node("ReduceMax", {"rows_k"}, {"item"}, integers("axes", {0}))}));
  expect_equal(sum(grown, x, 2, 1), {floats({13, 24}, {1, 2})});
  expect_equal(sum(grown, x, 3, 0), {w});
  EXPECT_NE(thrown_by([&] { sum(grown, x, 3, 1); }), "no error");
}

/// What stays without items, or without a value, is no part of a loop's state.
TEST(OnnxLists, ALoopHandsOnWhatIsEmpty) {
  const std::string inner = bytes::graph(
      {node("Identity", {"go"}, {"on"}), node("Identity", {"s"}, {"same"}),
       node("Add", {"a", "a"}, {"twice"}), node("Identity", {"o"}, {"none"}),
       node("Identity", {"i"}, {"row"})},
      bytes::input("i") + bytes::input("go") + bytes::input("s") + bytes::input("a") + bytes::input("o"),
      {"on", "same", "twice", "none", "row"});
  const std::string outer = bytes::graph(
      {node("Identity", {"go"}, {"on"}),
       node("Loop", {"t", "", "s", "x", "nothing"}, {"same", "more", "still", "rows"},
            bytes::subgraph("body", inner)),
       node("SequenceInsert", {"same", "more"}, {"longer"}), node("OptionalHasElement", {"still"}, {"has"})},
      bytes::input("i") + bytes::input("go") + bytes::input("s"), {"on", "longer", "has"});
  Build build({{node("SequenceEmpty", {}, {"empty"}), node("Optional", {}, {"nothing"}),
                node("Loop", {"t", "", "empty"}, {"all", "has"}, bytes::subgraph("body", outer)),
                node("SequenceInsert", {"all", "x"}, {"most"}),
                node("ConcatFromSequence", {"most"}, {"y"}, integer("axis", 0))},
               input_of("x", {"n"}) + input_of("t", {}, kInt),
               {"y", "has"}});
  for (int64_t count : {0, 2}) {
    const std::vector<Tensor> outputs = build.at(std::vector<Tensor>{floats({1, 3}, {2}), number_of(count)});
    expect_equal({outputs[0]}, {count == 0 ? floats({1, 3}, {2}) : floats({4, 12, 4, 12, 1, 3}, {6})});
    EXPECT_EQ(outputs[1].shape(), (Shape{count}));
  }
}

/// A loop may fail, and another has it in a branch: there it is the one that it is elsewhere.
TEST(OnnxLists, ALoopThatTheBranchOfAnotherAsksFor) {
  const std::string state = bytes::input("i") + bytes::input("go");
  const std::string on = node("Identity", {"go"}, {"on"});
  const std::string grow =
      bytes::graph({on, node("Concat", {"rows", "start"}, {"longer"}, integer("axis", 0))},
                   state + bytes::input("rows"), {"on", "longer"});
  const std::string add =
      bytes::graph({on, node("Less", {"i", "k"}, {"is_early"}),
                    if_node("is_early", {node("ReduceSum", {"grown", "first"}, {"item_yes"})},
                            {node("Identity", {"w"}, {"item_no"})}, "item"),
                    node("Add", {"sum", "item"}, {"next"})},
                   state + bytes::input("sum"), {"on", "next"});
  Build build({{ints("first", {0}), node("Neg", {"x"}, {"start"}),
                node("Loop", {"times", "", "start"}, {"grown"}, bytes::subgraph("body", grow)),
                node("Loop", {"times", "", "w"}, {"y"}, bytes::subgraph("body", add))},
               input_of("x", {"n", "2"}) + input_of("w", {"1", "2"}) + input_of("k", {}, kInt) +
                   input_of("times", {}, kInt),
               {"y", "grown"}});
  const std::vector<Tensor> outputs = build.at(
      std::vector<Tensor>{floats({-1, -2}, {1, 2}), floats({10, 20}, {1, 2}), number_of(1), number_of(2)});
  expect_equal(outputs, {floats({23, 46}, {1, 2}), floats({1, 2, 1, 2, 1, 2}, {3, 2})});
}

TEST(OnnxLists, WhatIsNoList) {
  auto message = [](const Strings& nodes, const Strings& outputs) {
    return thrown_by([&] { Build({with_count(nodes), input_of("x", {"t", "m"}), outputs}); });
  };
  const std::string row = node("Gather", {"x", "i"}, {"item"});
  EXPECT_NE(message({node("SequenceConstruct", {"t"}, {"one_item"}), collecting({row}, "one_item", "all"),
                     joined("all", "y", 0, false)},
                    {"y"})
                .find("it carries a sequence without items, or of several types"),
            std::string::npos);
}

/// Which the first step makes of what it is given; of no steps there are no rows, and no size of one.
TEST(OnnxLists, RowsOfASizeThatTheLoopMakes) {
  const Strings step{node("Add", {"sum", "w"}, {"next"}), node("Mul", {"next", "e"}, {"row"})};
  const std::string loop_body =
      node("Identity", {"go"}, {"on"}) + node("Add", {"sum", "w"}, {"next"}) + node("Neg", {"next"}, {"row"});
  Build loop({{node("Loop", {"count", "", "x"}, {"y", "rows"},
                    bytes::subgraph("body",
                                    bytes::graph({loop_body},
                                                 bytes::input("i") + bytes::input("go") + bytes::input("sum"),
                                                 {"on", "next", "row"})))},
              input_of("count", {}, kInt) + input_of("x", {"k", "2"}) + input_of("w", {"j", "2"}),
              {"y", "rows"}});
  const Tensor x = floats({1, 2}, {1, 2}), w = floats({1, 1, 2, 2, 3, 3}, {3, 2});
  for (int64_t count : {0, 1, 4}) {
    const std::vector<Tensor> outputs = loop.at({tensor_of<int64_t>({count}, {}, kInt64), x, w});
    EXPECT_EQ(outputs[1].shape(), count == 0 ? (Shape{0, 0, 2}) : (Shape{count, 3, 2}));
    if (count > 0) {
      EXPECT_EQ(outputs[1].value(outputs[1].size() - 1), -(2 + 3.0 * static_cast<double>(count)));
    }
  }
  for (int64_t backward : {0, 1}) {
    Build scan({{node("Scan", {"x", "elements"}, {"y", "rows"},
                      bytes::subgraph("body", bytes::graph(step, bytes::input("sum") + bytes::input("e"),
                                                           {"next", "row"})) +
                          integer("num_scan_inputs", 1) + integers("scan_output_axes", {1}) +
                          integers("scan_output_directions", {backward}))},
                input_of("x", {"k", "2"}) + input_of("elements", {"t", "2"}) + input_of("w", {"j", "2"}),
                {"y", "rows"}});
    const Tensor rows = scan.at({x, floats({1, 1, 10, 10}, {2, 2}), w})[1];
    ASSERT_EQ(rows.shape(), (Shape{3, 2, 2}));
    // Row 1 of the state is 1 + 2, then 3 + 2.
    EXPECT_EQ(rows.value(4), backward ? 50 : 3);
    EXPECT_EQ(rows.value(6), backward ? 3 : 50);
  }
}

}  // namespace
}  // namespace lathe::onnx
