// Functions that models bring along, which stand for nodes.
#include <gmock/gmock.h>

#include "tests/frontends/onnx_models.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using bytes::real;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kDomain = field(7, std::string("my"));  // of a node

/// An attribute of a node in a function: `name` is the function's `of`.
std::string taken(const std::string& name, const std::string& of, int64_t type) {
  return field(5, field(1, name) + field(20, type) + field(21, of));
}

struct Function {
  std::string name;
  Strings inputs, outputs, nodes;
  std::string more = "";  // fields: attributes, overload
  int64_t opset = 17;

  std::string text() const {
    std::string result = field(1, name) + field(9, field(2, opset)) + field(10, "my") + more;
    for (const std::string& input : inputs) result += field(4, input);
    for (const std::string& output : outputs) result += field(5, output);
    // bytes::node() has the tag of a graph's nodes, which is 1.
    for (std::string node : nodes) result += (node[0] = 7 << 3 | 2, node);
    return field(25, result);
  }
};

std::string file(const Strings& nodes, const std::vector<Function>& functions,
                 const std::string& inputs = input_of("x", {"2"})) {
  std::string result = Model{nodes, inputs}.file();
  for (const Function& function : functions) result += function.text();
  return result;
}

std::string call(const std::string& name, const Strings& inputs, const Strings& outputs,
                 const std::string& attributes = "") {
  return node(name, inputs, outputs, attributes + kDomain);
}

/// The only output, of x = 3, -4.
std::vector<float> result_of(const std::string& content) {
  const Tensor y = run(import_bytes(content, "m.onnx"), {tensor_of<float>({3, -4}, {2}, kFloat32)}).at(0);
  return {y.as<float>(), y.as<float>() + y.size()};
}
std::string refusal(const std::string& content) {
  return thrown_by([&] { import_bytes(content, "m.onnx"); });
}

/// Inside, names are others' of the same spelling.
TEST(OnnxFunctions, SeeNoNamesAroundThem) {
  const Function twice{"Twice", {"a"}, {"x"}, {node("Add", {"a", "a"}, {"x"})}};
  const Function four{"Four", {"x"}, {"a"}, {call("Twice", {"x"}, {"t"}), call("Twice", {"t"}, {"a"})}};
  EXPECT_THAT(result_of(file({call("Four", {"x"}, {"t"}), call("Twice", {"t"}, {"y"})}, {four, twice})),
              ElementsAre(24, -32));
  EXPECT_EQ(refusal(file({node("Relu", {"x"}, {"t"}), call("F", {"x"}, {"y"})},
                         {{"F", {"a"}, {"b"}, {node("Add", {"a", "t"}, {"b"})}}})),
            "m.onnx: node `y` (F): node `b` (Add) uses `t`, which nothing defines before it");
}

TEST(OnnxFunctions, TakeAttributesOfTheCallOrTheirOwn) {
  const auto slope = [](const std::string& more) {
    return Function{"F", {"x"}, {"y"}, {node("LeakyRelu", {"x"}, {"y"}, taken("alpha", "slope", 1))}, more};
  };
  const std::string named = field(6, std::string("slope"));
  const std::string defaults = field(11, real("slope", 0.25f).substr(2));  // without the tag of a node's
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"y"}, real("slope", 0.5f))}, {slope(named)})),
              ElementsAre(3, -2));
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"y"}, real("slope", 0.5f))}, {slope(defaults)})),
              ElementsAre(3, -2));
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"y"})}, {slope(defaults)})), ElementsAre(3, -1));
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"y"})}, {slope(named)})), ElementsAre(3, -0.04f))
      << "the operator's own";
  // Through a function that hands it on, and into a graph of a node.
  const Function outer{"G", {"x"}, {"y"}, {call("F", {"x"}, {"y"}, taken("slope", "s", 1))}};
  EXPECT_THAT(result_of(file({call("G", {"x"}, {"y"}, real("s", 0.5f))}, {outer, slope(named)})),
              ElementsAre(3, -2));
  const std::string side =
      bytes::graph({node("LeakyRelu", {"x"}, {"s"}, taken("alpha", "slope", 1))}, "", {"s"});
  const Function branches{
      "F",
      {"x"},
      {"y"},
      {node("Constant", {}, {"c"}, integer("value_int", 1)), node("Cast", {"c"}, {"b"}, integer("to", 9)),
       node("If", {"b"}, {"y"},
            bytes::subgraph("then_branch", side) + bytes::subgraph("else_branch", side))}};
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"y"}, real("slope", 0.5f))}, {branches})),
              ElementsAre(3, -2));
}

TEST(OnnxFunctions, AreCalledInGraphsOfNodes) {
  const Function twice{"Twice", {"a"}, {"b"}, {node("Add", {"a", "a"}, {"b"})}};
  const std::string body =
      bytes::graph({call("Twice", {"v"}, {"w"}), node("Identity", {"go"}, {"on"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("v"), {"on", "w"});
  EXPECT_THAT(result_of(file({node("Constant", {}, {"n"}, integer("value_int", 3)),
                              node("Loop", {"n", "", "x"}, {"y"}, bytes::subgraph("body", body))},
                             {twice})),
              ElementsAre(24, -32));
}

TEST(OnnxFunctions, MayBeCalledWithoutSomeInputsAndOutputs) {
  const Function clip{"F",
                      {"x", "low", "high"},
                      {"y", "z"},
                      {node("Clip", {"x", "low", "high"}, {"y"}), node("Neg", {"x"}, {"z"})}};
  EXPECT_THAT(
      result_of(file({node("Constant", {}, {"h"}, real("value_float", 1)), call("F", {"x", "", "h"}, {"y"})},
                     {clip})),
      ElementsAre(1, -4));
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"", "y"})}, {clip})), ElementsAre(-3, 4));
  EXPECT_EQ(refusal(file({call("F", {"x", "", "", "x"}, {"y"})}, {clip})),
            "m.onnx: node `y` (F): 4 inputs, the function has 3");
}

/// Of one name, told apart by a field that is younger than some readers.
TEST(OnnxFunctions, HaveVariants) {
  const Function plain{"F", {"x"}, {"y"}, {node("Neg", {"x"}, {"y"})}};
  const Function other{"F", {"x"}, {"y"}, {node("Abs", {"x"}, {"y"})}, field(13, std::string("other"))};
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"y"})}, {other, plain})), ElementsAre(-3, 4));
  EXPECT_THAT(result_of(file({call("F", {"x"}, {"y"}, field(8, std::string("other")))}, {plain, other})),
              ElementsAre(3, 4));
  EXPECT_EQ(refusal(file({call("F", {"x"}, {"y"})}, {plain, plain})),
            "m.onnx: function `my.F` is defined twice");
}

/// Before opset 13 the axes of a Softmax from `axis` on are one.
TEST(OnnxFunctions, ImportTheStandardsVersionThatTheyAreWrittenFor) {
  const auto softmax = [](int64_t opset) {
    return Function{"F", {"x"}, {"y"}, {node("Softmax", {"x"}, {"y"}, integer("axis", 0))}, "", opset};
  };
  const std::string x = input_of("x", {"2", "1"});
  const auto first = [&](int64_t opset) {
    const Tensor y =
        run(import_bytes(file({call("F", {"x"}, {"y"})}, {softmax(opset)}, input_of("x", {"1", "2", "2"})),
                         "m.onnx"),
            {tensor_of<float>({1, 1, 1, 1}, {1, 2, 2}, kFloat32)})[0];
    return y.value(0);
  };
  EXPECT_EQ(first(12), 0.25);
  EXPECT_EQ(first(17), 1);
}

TEST(OnnxFunctions, WhatIsWrongInOneIsSaid) {
  EXPECT_EQ(refusal(file({call("F", {"x"}, {"y"})}, {{"F", {"x"}, {"y"}, {node("Odd", {"x"}, {"y"})}}})),
            "m.onnx: unsupported operator: Odd");
  EXPECT_EQ(refusal(file({call("F", {"x"}, {"y"})}, {})), "m.onnx: unsupported operator: my.F");
  EXPECT_EQ(refusal(file({node("Relu", {"x"}, {"y"})}, {{"F", {"x"}, {"y"}, {node("Odd", {"x"}, {"y"})}}})),
            "no error")
      << "nothing calls it";
  EXPECT_EQ(refusal(file({call("F", {"x"}, {"y"})},
                         {{"F", {"x"}, {"y"}, {node("Neg", {"x"}, {"x"}), node("Neg", {"x"}, {"y"})}}})),
            "m.onnx: `x` is defined twice");
  EXPECT_EQ(
      refusal(file({call("F", {"x"}, {"y"})}, {{"F", {"x"}, {"y", "z"}, {node("Neg", {"x"}, {"y"})}}})),
      "m.onnx: node `y` (F): the list of outputs of a function uses `z`, which nothing defines before it");
  const std::string graph = bytes::graph({node("Relu", {"x"}, {"s"})}, "", {"s"});
  EXPECT_EQ(refusal(file({call("F", {"x"}, {"y"}, bytes::subgraph("g", graph))},
                         {{"F", {"x"}, {"y"}, {node("Neg", {"x"}, {"y"})}}})),
            "m.onnx: node `y` (F): attribute g of a function is a graph, which is not supported");
}

/// Models made to fill the stack or the memory.
TEST(OnnxFunctions, EndWhoeverCallsThem) {
  const Function self{"F", {"x"}, {"y"}, {call("F", {"x"}, {"y"})}};
  EXPECT_EQ(refusal(file({call("F", {"x"}, {"y"})}, {self})), "m.onnx: function `my.F` calls itself");
  const Function there{"F", {"x"}, {"y"}, {call("G", {"x"}, {"y"})}},
      back{"G", {"x"}, {"y"}, {call("F", {"x"}, {"y"})}};
  EXPECT_EQ(refusal(file({call("G", {"x"}, {"y"})}, {there, back})), "m.onnx: function `my.G` calls itself");

  const auto chain = [](int length, int calls) {
    std::vector<Function> functions;
    for (int i = 0; i < length; ++i) {
      Function function{fmt::format("F{}", i), {"t0"}, {fmt::format("t{}", calls)}, {}};
      for (int k = 0; k < calls; ++k)
        function.nodes.push_back(
            i == 0 ? node("Relu", {fmt::format("t{}", k)}, {fmt::format("t{}", k + 1)})
                   : call(fmt::format("F{}", i - 1), {fmt::format("t{}", k)}, {fmt::format("t{}", k + 1)}));
      functions.push_back(function);
    }
    return functions;
  };
  EXPECT_EQ(refusal(file({call("F31", {"x"}, {"y"})}, chain(32, 1))), "no error");
  EXPECT_THAT(refusal(file({call("F19999", {"x"}, {"y"})}, chain(20'000, 1))),
              HasSubstr("is one of more than 32 that call each other"));
  // Each alone is not deep where the one that it calls was seen before.
  Strings all;
  for (int i = 0; i < 2000; ++i)
    all.push_back(call(fmt::format("F{}", i), {"x"}, {i == 1999 ? "y" : fmt::format("o{}", i)}));
  EXPECT_THAT(refusal(file(all, chain(2000, 1))), HasSubstr("function `my.F32` is one of more than 32"));
  EXPECT_THAT(refusal(file({call("F31", {"x"}, {"y"})}, chain(32, 2))),
              HasSubstr("its functions and loops stand for more than 262144 nodes in all"));
}

}  // namespace
}  // namespace lathe::onnx
