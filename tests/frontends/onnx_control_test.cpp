// Loops of the standard: written out while the model is imported, or run.
#include <gmock/gmock.h>

#include <chrono>

#include "core/relay/text.h"
#include "tests/frontends/onnx_models.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kBodyInputs = bytes::input("i") + bytes::input("go") + bytes::input("v");

std::string number(const std::string& name, int64_t value) {
  return node("Constant", {}, {name}, bytes::tensor("value", value));
}

std::string loop(const Strings& inputs, const Strings& outputs, const std::string& body) {
  return node("Loop", inputs, outputs, bytes::subgraph("body", body));
}

/// v + step, and v itself to gather.
std::string adding_body() {
  return bytes::graph({node("Identity", {"go"}, {"on"}), node("Add", {"v", "step"}, {"w"}),
                       node("Identity", {"v"}, {"seen"})},
                      kBodyInputs, {"on", "w", "seen"});
}

ImportedModel imported(const Strings& nodes, const Strings& outputs) {
  return import_bytes(Model{nodes, input_of("x", {"2"}), outputs}.file(), "m.onnx");
}
std::vector<Tensor> result_of(const Strings& nodes, const Strings& outputs) {
  return run(imported(nodes, outputs), {tensor_of<float>({3, -4}, {2}, kFloat32)});
}
const std::string kStep = node("Constant", {}, {"step"}, bytes::real("value_float", 1));

TEST(OnnxLoops, OfManyStepsAreRun) {
  const auto outputs =
      result_of({number("n", 5000), kStep, loop({"n", "", "x"}, {"y", "all"}, adding_body())}, {"y", "all"});
  EXPECT_EQ(outputs[0].value(0), 5003);
  ASSERT_EQ(outputs[1].shape(), (Shape{5000, 2}));
  EXPECT_EQ(outputs[1].value(2 * 4999 + 1), 4995);
  // Until a condition ends it, which only the 5,001st step does.
  const std::string until = bytes::graph(
      {node("Add", {"v", "step"}, {"w"}), node("Less", {"i", "last"}, {"on"})}, kBodyInputs, {"on", "w"});
  const Strings before{number("n", INT64_MAX), number("last", 5000), kStep};
  for (const char* count : {"n", ""}) {
    Strings nodes = before;
    nodes.push_back(loop({count, "", "x"}, {"y"}, until));
    EXPECT_EQ(result_of(nodes, {"y"})[0].value(0), 5004) << count;
  }
}

TEST(OnnxLoops, ThatNothingEndsAreRefused) {
  EXPECT_EQ(thrown_by([&] {
              imported({kStep, loop({"", "", "x"}, {"y", "all"}, adding_body())}, {"y"});
            }),
            "m.onnx: node `y` (Loop): nothing ends it: it has no count that a run reaches, and its condition "
            "is always true");
}

TEST(OnnxLoops, OfNoStepsGatherNoRows) {
  const Strings body{kStep, number("n", 0), number("many", 7), node("Cast", {"n"}, {"no"}, integer("to", 9))};
  for (const auto& [count, condition] :
       std::vector<std::pair<const char*, const char*>>{{"n", ""}, {"many", "no"}}) {
    Strings nodes = body;
    nodes.push_back(loop({count, condition, "x"}, {"y", "all"}, adding_body()));
    const auto outputs = result_of(nodes, {"y", "all"});
    EXPECT_EQ(outputs[0].value(1), -4);
    EXPECT_EQ(outputs[1].shape(), (Shape{0, 2}));
    EXPECT_EQ(outputs[1].dtype(), kFloat32);
  }
  // By a condition that only a run knows.
  Strings nodes = body;
  nodes.push_back(node("ReduceMin", {"x"}, {"least"}, integer("keepdims", 0)));
  nodes.push_back(node("Less", {"least", "step"}, {"go"}));
  nodes.push_back(loop({"n", "go", "x"}, {"y", "all"}, adding_body()));
  EXPECT_EQ(result_of(nodes, {"y", "all"})[1].shape(), (Shape{0, 2}));
}

/// Each alone is short; all together are as many nodes as no machine compiles.
TEST(OnnxLoops, WithinLoopsAreRunWhereTheyAreMany) {
  const auto twice = [](int64_t steps) {
    const std::string inner = bytes::graph(
        {node("Identity", {"go"}, {"on"}), node("Add", {"v", "step"}, {"w"})}, kBodyInputs, {"on", "w"});
    const std::string outer = bytes::graph(
        {node("Identity", {"go"}, {"on"}), loop({"n", "", "v"}, {"w"}, inner)}, kBodyInputs, {"on", "w"});
    return Strings{number("n", steps), kStep, loop({"n", "", "x"}, {"y"}, outer)};
  };
  EXPECT_EQ(result_of(twice(20), {"y"})[0].value(0), 403);
  EXPECT_EQ(result_of(twice(300), {"y"})[0].value(0), 90'003);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_LT(relay::print(imported(twice(4000), {"y"}).module).size(), 10'000'000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

/// A count that only a run knows, in each of so many loops within each other.
TEST(OnnxLoops, OfUnknownCountsWithinEachOther) {
  const auto nested = [](int depth) {
    std::string body = adding_body();
    for (int d = 1; d < depth; ++d)
      body = bytes::graph({node("Identity", {"go"}, {"on"}), loop({"m", "", "v"}, {"w", "all"}, body),
                           node("Identity", {"v"}, {"seen"})},
                          kBodyInputs, {"on", "w", "seen"});
    const Strings nodes{node("Size", {"x"}, {"n"}), kStep, loop({"m", "", "x"}, {"y", "all"}, body)};
    return Model{nodes, input_of("x", {"2"}) + input_of("m", {}, kInt)}.file();
  };
  const ImportedModel model = import_bytes(nested(3), "m.onnx");
  EXPECT_EQ(
      run(model, {tensor_of<float>({3, -4}, {2}, kFloat32), tensor_of<int64_t>({3}, {}, kInt64)})[0].value(0),
      30);
}

}  // namespace
}  // namespace lathe::onnx
