// ONNX models whose counts and conditions only a run knows, by the virtual machine and by the interpreter.
#include "core/frontends/onnx.h"

#include <gtest/gtest.h>

#include "core/relay/interpret/interpreter.h"
#include "core/runtime/executor.h"
#include "tests/frontends/onnx_bytes.h"
#include "tests/program/compiled.h"

namespace lathe::onnx {
namespace {

Tensor floats(const std::vector<float>& values, std::vector<int64_t> shape) {
  return tensor_of(values, std::move(shape), kFloat32);
}

/// The outputs of a compiled model; the interpreter's are compared with them.
std::vector<Tensor> run(const relay::Module& model, const std::vector<Tensor>& inputs) {
  auto module = runtime::Module::from_image(tuner::compile_model(model, codegen::host_target()));
  runtime::Executor executor(module, runtime::serial_parallel());
  std::vector<relay::Value> args;
  for (size_t i = 0; i < inputs.size(); ++i) {
    executor.set_input(i, inputs[i]);
    args.push_back(relay::tensor_value(inputs[i]));
  }
  executor.run();
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < executor.plan().outputs.size(); ++i) outputs.push_back(executor.output(i));
  relay::Value expected = relay::Interpreter(model).call("main", args);
  const relay::TupleValue* tuple = expected.as<relay::TupleValue>();
  const std::vector<relay::Value> items = tuple ? tuple->items : std::vector<relay::Value>{expected};
  EXPECT_EQ(items.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_LT(max_relative_error(outputs[i], items[i].as<relay::TensorValue>()->tensor), 1e-5);
  return outputs;
}

TEST(OnnxPrograms, ALoopWhoseConditionIsComputed) {
  // scale = exp(limit); do { x = x * 2 + scale * 0 } while (sum(x) < limit), and how often that was.
  const std::string body = bytes::graph(
      {bytes::node("Exp", {"limit"}, {"scale"}), bytes::node("Sub", {"scale", "scale"}, {"zero"}),
       bytes::node("Add", {"x", "x"}, {"twice"}), bytes::node("Add", {"twice", "zero"}, {"next"}),
       bytes::node("ReduceSum", {"next"}, {"sum"}, bytes::integer("keepdims", 0)),
       bytes::node("Less", {"sum", "limit"}, {"more"}),
       bytes::node("Cast", {"i"}, {"steps"}, bytes::integer("to", 1))},
      bytes::input("i") + bytes::input("go") + bytes::input("x") + bytes::input("count"),
      {"more", "next", "steps"});
  ImportOptions options{.shapes = {{"limit", {}}, {"start", {3}}, {"none", {}}}};
  const std::string loop =
      bytes::node("Loop", {"", "", "start", "none"}, {"end", "last"}, bytes::subgraph("body", body));
  const ImportedModel model =
      import_bytes(bytes::model(loop, bytes::input("limit") + bytes::input("start") + bytes::input("none"),
                                {"end", "last"}, 24),
                   "m.onnx", options);
  std::vector<Tensor> outputs =
      run(model.module, {floats({40}, {}), floats({1, 1, 1}, {3}), floats({-1}, {})});
  EXPECT_EQ(outputs[0].value(0), 16);
  EXPECT_EQ(outputs[1].value(0), 3);
  // Once at least: the condition is for what comes after.
  outputs = run(model.module, {floats({-1}, {}), floats({1, 2, 3}, {3}), floats({-1}, {})});
  EXPECT_EQ(outputs[0].value(2), 6);
}

TEST(OnnxPrograms, ALoopWhoseCountIsAnInput) {
  const std::string body =
      bytes::graph({bytes::node("Add", {"x", "step"}, {"next"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("x"), {"go", "next"});
  std::string loop = bytes::node("Cast", {"times"}, {"count"}, bytes::integer("to", 7)) +
                     bytes::node("Loop", {"count", "", "start"}, {"end"}, bytes::subgraph("body", body));
  ImportOptions options{.shapes = {{"times", {}}, {"start", {2}}, {"step", {2}}}};
  const ImportedModel model = import_bytes(
      bytes::model(loop, bytes::input("times") + bytes::input("start") + bytes::input("step"), {"end"}, 24),
      "m.onnx", options);
  for (float times : {0.f, 1.f, 100'000.f}) {
    auto module = runtime::Module::from_image(tuner::compile_model(model.module, codegen::host_target()));
    runtime::Executor executor(module, runtime::serial_parallel());
    executor.set_input(0, floats({times}, {}));
    executor.set_input(1, floats({1, 2}, {2}));
    executor.set_input(2, floats({1, -1}, {2}));
    executor.run();
    EXPECT_EQ(executor.output(0).value(0), 1 + times);
    EXPECT_EQ(executor.output(0).value(1), 2 - times);
  }
}

TEST(OnnxPrograms, ABranchIsComputedWhenItIsChosen) {
  const std::string yes = bytes::graph({bytes::node("Relu", {"x"}, {"a"})}, "", {"a"}),
                    no = bytes::graph({bytes::node("Neg", {"x"}, {"b"})}, "", {"b"});
  std::string graph = bytes::node("Cast", {"c"}, {"condition"}, bytes::integer("to", 9)) +
                      bytes::node("If", {"condition"}, {"y"},
                                  bytes::subgraph("then_branch", yes) + bytes::subgraph("else_branch", no)) +
                      bytes::node("Add", {"y", "x"}, {"z"});
  ImportOptions options{.shapes = {{"c", {}}, {"x", {2}}}};
  const ImportedModel model =
      import_bytes(bytes::model(graph, bytes::input("c") + bytes::input("x"), {"z"}, 24), "m.onnx", options);
  EXPECT_EQ(run(model.module, {floats({1}, {}), floats({-3, 4}, {2})})[0].value(1), 8);
  EXPECT_EQ(run(model.module, {floats({0}, {}), floats({-3, 4}, {2})})[0].value(1), 0);
}

}  // namespace
}  // namespace lathe::onnx
