// ONNX branches by a condition that only a run knows, whose sides have little in common.
#include "tests/program/onnx_build.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using Tensors = std::vector<Tensor>;

/// x without its first axis, of one element, where `flag` says so.
std::string squeezed() {
  return ints("first", {0}) + if_node("flag", {node("Squeeze", {"x", "first"}, {"z_yes"})},
                                      {node("Identity", {"x"}, {"z_no"})}, "z");
}

const std::string kRow = input_of("x", {"1", "n"}), kFlag = input_of("flag", {}, kBoolean);

Tensor flag(bool value) { return full({}, kBool, value); }
Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return tensor_of<float>(values, shape, kFloat32);
}
const Tensor kX = floats({1, -2, 3}, {1, 3});

std::string said_of(const Model& model) {
  return thrown_by([&] { Build{model}; });
}

TEST(OnnxBranches, OfDifferentRanks) {
  Build build(
      {{squeezed(), node("Relu", {"z"}, {"r"}), ints("all", {-1}), node("Reshape", {"r", "all"}, {"y"}),
        node("Size", {"z"}, {"count"}), node("ReduceSum", {"z"}, {"sum"}, integer("keepdims", 0)),
        node("Shape", {"z"}, {"shape"}), node("Shape", {"shape"}, {"rank"})},
       kRow + kFlag,
       {"y", "count", "sum", "rank"}});
  for (bool one : {true, false}) {
    const std::vector<Tensor> outputs = build.at(Tensors{kX, flag(one)});
    expect_equal({outputs[0], outputs[2]}, {floats({1, 0, 3}, {3}), floats({2}, {})});
    EXPECT_EQ(outputs[1].integer(0), 3);
    EXPECT_EQ(outputs[3].integer(0), one ? 1 : 2);
  }
}

/// One condition is one, whatever is made of it.
TEST(OnnxBranches, MeetThoseOfTheirCondition) {
  Build build({{squeezed(), node("Neg", {"z"}, {"minus"}), node("Mul", {"z", "minus"}, {"product"}),
                node("ReduceMin", {"product"}, {"y"}, integer("keepdims", 0))},
               kRow + kFlag});
  for (bool one : {true, false}) expect_equal(build.at(Tensors{kX, flag(one)}), {floats({-9}, {})});
}

TEST(OnnxBranches, OfDifferentRanksAndTypesWithinEachOther) {
  const std::string inner = if_node("other", {node("Cast", {"z"}, {"t_yes"}, integer("to", kInt))},
                                    {node("Add", {"z", "z"}, {"t_no"})}, "t");
  Build build({{squeezed(), inner, node("Cast", {"t"}, {"real"}, integer("to", kFloat)),
                node("ReduceSum", {"real"}, {"y"}, integer("keepdims", 0))},
               kRow + kFlag + input_of("other", {}, kBoolean)});
  for (bool one : {true, false})
    for (bool other : {true, false})
      expect_equal(build.at(Tensors{floats({1.5F, -2, 3}, {1, 3}), flag(one), flag(other)}),
                   {floats({other ? 2.F : 5.F}, {})});
}

TEST(OnnxBranches, InTheBodyOfALoop) {
  const std::string body =
      bytes::graph({node("Identity", {"go"}, {"on"}), node("Gather", {"x", "i"}, {"row"}), ints("first", {0}),
                    node("ReduceSum", {"row"}, {"sum"}, integer("keepdims", 0)),
                    node("Greater", {"sum", "before"}, {"is_more"}),
                    if_node("is_more", {node("Unsqueeze", {"row", "first"}, {"z_yes"})},
                            {node("Identity", {"row"}, {"z_no"})}, "z"),
                    node("ReduceMax", {"z"}, {"most"}, integer("keepdims", 0)),
                    node("Add", {"before", "most"}, {"after"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("before"), {"on", "after"});
  Build build({{node("Shape", {"x"}, {"shape"}), ints("zero", {0}), node("Gather", {"shape", "zero"}, {"t"}),
                node("Loop", {"t", "", "start"}, {"y"}, bytes::subgraph("body", body))},
               input_of("x", {"t", "2"}) + input_of("start", {})});
  expect_equal(build.at(Tensors{floats({1, 2, 0, -5, 4, 3}, {3, 2}), floats({0}, {})}), {floats({6}, {})});
  EXPECT_NE(
      said_of({{node("Loop", {"most", "", "x"}, {"y"},
                     bytes::subgraph("body",
                                     bytes::graph({node("Identity", {"go"}, {"on"}), squeezed()},
                                                  bytes::input("i") + bytes::input("go") + bytes::input("v"),
                                                  {"on", "z"})))},
               kRow + kFlag + input_of("most", {}, kInt)})
          .find("output 1 of its body is of several ranks or types by a condition, which must be known"),
      std::string::npos);
}

TEST(OnnxBranches, OfWhichOneDoesNotGoOn) {
  Build build({{squeezed(), node("Transpose", {"z"}, {"y"}, integers("perm", {1, 0}))}, kRow + kFlag});
  expect_equal(build.at(Tensors{kX, flag(false)}), {floats({1, -2, 3}, {3, 1})});
  EXPECT_NE(thrown_by([&] {
              build.at(Tensors{kX, flag(true)});
            }).find("then_branch of a branch does not fit"),
            std::string::npos);
}

TEST(OnnxBranches, CannotBeOutputs) {
  EXPECT_EQ(said_of({{squeezed()}, kRow + kFlag, {"z"}}),
            "m.onnx: output `z` is of several ranks or types by a condition, which must be known when the "
            "model is compiled");
}

TEST(OnnxBranches, OptionalsWithAndWithoutAValue) {
  const std::string maybe =
      if_node("flag", {node("Optional", {"x"}, {"o_yes"})}, {node("Optional", {}, {"o_no"})}, "o");
  Build build({{maybe, node("OptionalHasElement", {"o"}, {"has"}),
                if_node("has", {node("OptionalGetElement", {"o"}, {"v"}), node("Mul", {"v", "v"}, {"y_yes"})},
                        {node("Neg", {"x"}, {"y_no"})}, "y")},
               kRow + kFlag,
               {"y", "has"}});
  expect_equal(build.at(Tensors{kX, flag(true)}), {floats({1, 4, 9}, {1, 3}), flag(true)});
  expect_equal(build.at(Tensors{kX, flag(false)}), {floats({-1, 2, -3}, {1, 3}), flag(false)});
  Build unasked({{maybe, node("OptionalGetElement", {"o"}, {"y"})}, kRow + kFlag});
  expect_equal(unasked.at(Tensors{kX, flag(true)}), {kX});
  EXPECT_NE(thrown_by([&] {
              unasked.at(Tensors{kX, flag(false)});
            }).find("the optional has no value"),
            std::string::npos);
}

/// A side that only its condition allows to compute, which two branches ask for.
TEST(OnnxBranches, OfWhichASideMayNotBeComputed) {
  const std::string third =
      if_node("has_third",
              {ints("at", {2}), ints("end", {3}), ints("row", {3}),
               node("Slice", {"x", "at", "end"}, {"rows"}), node("Reshape", {"rows", "row"}, {"z_yes"})},
              {node("Identity", {"w"}, {"z_no"})}, "z");
  const std::string second = if_node("flag", {node("ReduceMax", {"z"}, {"b_yes"}, integer("keepdims", 0))},
                                     {node("ReduceMin", {"z"}, {"b_no"}, integer("keepdims", 0))}, "b");
  Build build(
      {{third, node("ReduceSum", {"z"}, {"a"}, integer("keepdims", 0)), second},
       input_of("x", {"n", "3"}) + input_of("w", {"k", "3"}) + kFlag + input_of("has_third", {}, kBoolean),
       {"a", "b"}});
  const Tensor w = floats({1, -2, 3, 4, 0, 1}, {2, 3});
  expect_equal(build.at(Tensors{floats({1, 2, 3}, {1, 3}), w, flag(true), flag(false)}),
               {floats({7}, {}), floats({4}, {})});
  expect_equal(build.at(Tensors{floats({0, 0, 0, 0, 0, 0, 1, 2, 6}, {3, 3}), w, flag(false), flag(true)}),
               {floats({9}, {}), floats({1}, {})});
}

/// A loop begins without a value; a step gives one, or takes it away, by what it finds.
TEST(OnnxBranches, AnOptionalThatGetsAValueInALoop) {
  const std::string sums = node("ReduceSum", {"row"}, {"sum"}, integer("keepdims", 0));
  const std::string keep = if_node("is_more", {node("Optional", {"row"}, {"kept_yes"})},
                                   {node("Identity", {"o"}, {"kept_no"})}, "kept");
  const std::string drop =
      if_node("is_less", {node("Optional", {}, {"p_yes"})}, {node("Identity", {"kept"}, {"p_no"})}, "p");
  const std::string count =
      if_node("has", {node("OptionalGetElement", {"o"}, {"v"}), node("Add", {"total", "v"}, {"next_yes"})},
              {node("Identity", {"total"}, {"next_no"})}, "next");
  const std::string body = bytes::graph(
      {node("Identity", {"go"}, {"on"}), node("Gather", {"x", "i"}, {"row"}), sums,
       node("Greater", {"sum", "most"}, {"is_more"}), node("Less", {"sum", "least"}, {"is_less"}), keep, drop,
       node("OptionalHasElement", {"o"}, {"has"}), count},
      bytes::input("i") + bytes::input("go") + bytes::input("o") + bytes::input("total"),
      {"on", "p", "next"});
  const std::string last = if_node("has_one", {node("OptionalGetElement", {"found"}, {"y_yes"})},
                                   {node("Neg", {"start"}, {"y_no"})}, "y");
  Build build(
      {{node("Shape", {"x"}, {"shape"}), ints("zero", {0}), node("Gather", {"shape", "zero"}, {"t"}),
        node("Optional", {}, {"nothing"}),
        node("Loop", {"t", "", "nothing", "start"}, {"found", "total"}, bytes::subgraph("body", body)),
        node("OptionalHasElement", {"found"}, {"has_one"}), last},
       input_of("x", {"t", "2"}) + input_of("start", {"2"}) + input_of("most", {}) + input_of("least", {}),
       {"y", "total", "has_one"}});
  auto at = [&](const std::vector<float>& x) {
    return build.at(Tensors{floats(x, {static_cast<int64_t>(x.size() / 2), 2}), floats({1, 2}, {2}),
                            floats({5}, {}), floats({0}, {})});
  };
  expect_equal(at({1, 1}), {floats({-1, -2}, {2}), floats({1, 2}, {2}), flag(false)});
  expect_equal(at({1, 1, 3, 4, 1, 1}), {floats({3, 4}, {2}), floats({4, 6}, {2}), flag(true)});
  expect_equal(at({3, 4, 5, 6, 1, 1}), {floats({5, 6}, {2}), floats({9, 12}, {2}), flag(true)});
  expect_equal(at({3, 4, 1, 1, -3, 2}), {floats({-1, -2}, {2}), floats({7, 10}, {2}), flag(false)});
}

/// Of a sequence whose length is known a branch may ask for more, which no run may take.
TEST(OnnxBranches, AnItemThatASequenceHasNot) {
  const std::string one = node("SequenceConstruct", {"x"}, {"s"});
  for (const Strings& asking :
       {Strings{ints("second", {1}), node("SequenceAt", {"s", "second"}, {"y_yes"})},
        Strings{node("SequenceErase", {"s"}, {"none"}), node("SequenceErase", {"none"}, {"less"}),
                node("ConcatFromSequence", {"less"}, {"y_yes"}, integer("axis", 0))}}) {
    Build build({{one, if_node("flag", asking, {node("Neg", {"x"}, {"y_no"})}, "y")}, kRow + kFlag});
    expect_equal(build.at(Tensors{kX, flag(false)}), {floats({-1, 2, -3}, {1, 3})});
    EXPECT_NE(thrown_by([&] {
                build.at(Tensors{kX, flag(true)});
              }).find("then_branch of a branch does not go with this input"),
              std::string::npos);
  }
  EXPECT_EQ(said_of({{one, ints("second", {1}), node("SequenceAt", {"s", "second"}, {"y"})}, kRow}),
            "m.onnx: node `y` (SequenceAt): position 1 of 1");
}

std::string sequence_of(const Strings& items, const std::string& name) {
  return items.empty() ? node("SequenceEmpty", {}, {name}) : node("SequenceConstruct", items, {name});
}

TEST(OnnxBranches, SequencesOfDifferentItems) {
  // Of different ranks, and of any that there are beside none.
  const Strings ranks{
      ints("first", {0}),
      node("Squeeze", {"x", "first"}, {"flat"}),
      ints("last", {-1}),
      if_node("flag", {sequence_of({"x", "flat"}, "s_yes")}, {sequence_of({"x"}, "s_no")}, "s"),
      node("SequenceAt", {"s", "last"}, {"item"}),
      node("ReduceSum", {"item"}, {"y"}, integer("keepdims", 0)),
      node("SequenceLength", {"s"}, {"n"})};
  Build build({ranks, kRow + kFlag, {"y", "n"}});
  for (bool two : {true, false}) {
    const std::vector<Tensor> outputs = build.at(Tensors{kX, flag(two)});
    expect_equal({outputs[0]}, {floats({2}, {})});
    EXPECT_EQ(outputs[1].integer(0), two ? 2 : 1);
  }
  for (const Strings& items : {Strings{}, {"x"}}) {
    Build one({{if_node("flag", {sequence_of(items, "s_yes")}, {sequence_of({}, "s_no")}, "s"),
                node("SequenceInsert", {"s", "x"}, {"more"}), node("SequenceLength", {"more"}, {"y"})},
               kRow + kFlag});
    for (bool some : {true, false})
      EXPECT_EQ(one.at(Tensors{kX, flag(some)})[0].integer(0),
                1 + (some ? static_cast<int64_t>(items.size()) : 0));
  }
}

/// Of no rows neither side takes one, though both would take the same.
TEST(OnnxBranches, TheSameRowInTwoOfThem) {
  const std::string row = node("Gather", {"x", "first"}, {"row"});
  Build build(
      {{ints("first", {0}),
        if_node("flag", {row, node("Mul", {"row", "row"}, {"a_yes"})}, {node("Identity", {"w"}, {"a_no"})},
                "a"),
        if_node("other", {row, node("Neg", {"row"}, {"b_yes"})}, {node("Identity", {"w"}, {"b_no"})}, "b"),
        node("Add", {"a", "b"}, {"y"})},
       input_of("x", {"n", "2"}) + input_of("w", {"1", "2"}) + kFlag + input_of("other", {}, kBoolean)});
  const Tensor x = floats({1, 2, 3, 4}, {2, 2}), w = floats({10, 20}, {1, 2});
  expect_equal(build.at(Tensors{x, w, flag(true), flag(true)}), {floats({0, 2}, {1, 2})});
  expect_equal(build.at(Tensors{x, w, flag(true), flag(false)}), {floats({11, 24}, {1, 2})});
  expect_equal(build.at(Tensors{zeros({0, 2}, kFloat32), w, flag(false), flag(false)}),
               {floats({20, 40}, {1, 2})});
}

/// Its channels are as many as the weights say, though nothing but a branch takes the result.
TEST(OnnxBranches, AConvolutionThatOneSideTakes) {
  const Model model{
      {node("Conv", {"x", "w"}, {"c"},
            integer("group", 3) + integers("strides", {3, 2}) + integers("pads", {0, 2, 2, 1})),
       node("ReduceSum", {"x"}, {"sum"}), node("Constant", {}, {"none"}, bytes::real("value_float", 0)),
       node("Less", {"none", "sum"}, {"above"}),
       if_node("above", {node("Neg", {"c"}, {"y_yes"})}, {node("Identity", {"x"}, {"y_no"})}, "y")},
      input_of("x", {"n", "c", "7", "m"}) + input_of("w", {"3", "1", "1", "1"}),
      {"y"},
      13};
  expect_as_settled(model,
                    {{{"x", {1, 3, 7, 1}}, {"w", {3, 1, 1, 1}}}, {{"x", {9, 3, 7, 5}}, {"w", {3, 1, 1, 1}}}});
}

}  // namespace
}  // namespace lathe::onnx
