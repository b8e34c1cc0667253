// An ONNX model compiled with all its dimensions open, and run at several sizes.
#pragma once

#include "core/codegen/host_target.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tests/frontends/onnx_models.h"
#include "tuner/compile.h"

namespace lathe::onnx {

/// `result` is what the nodes of the one side, or of the other, call result_yes and result_no.
inline std::string if_node(const std::string& condition, const Strings& yes, const Strings& no,
                           const std::string& result) {
  return node("If", {condition}, {result},
              bytes::subgraph("then_branch", bytes::graph(yes, "", {result + "_yes"})) +
                  bytes::subgraph("else_branch", bytes::graph(no, "", {result + "_no"})));
}

class Build {
 public:
  explicit Build(const Model& model)
      : imported_(
            import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }})),
        executor_(runtime::Module::from_image(tuner::compile_model(imported_.module, codegen::host_target())),
                  runtime::serial_parallel()) {}

  std::vector<Tensor> compiled(const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) executor_.set_input(i, inputs[i]);
    executor_.run();
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < executor_.plan().outputs.size(); ++i) outputs.push_back(executor_.output(i));
    return outputs;
  }
  /// The same, compared with the interpreter's.
  std::vector<Tensor> at(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> outputs = compiled(inputs);
    expect_equal(outputs, run(imported_, inputs));
    return outputs;
  }
  std::vector<Tensor> at(const Shapes& shapes) {
    std::vector<Tensor> inputs;
    for (const ValueInfo& input : imported_.inputs) inputs.push_back(numbers(input, shapes.at(input.name)));
    return at(inputs);
  }

 private:
  ImportedModel imported_;
  runtime::Executor executor_;
};

inline void expect_as_interpreted(const Model& model, const std::vector<Shapes>& sizes) {
  try {
    Build build(model);
    for (const Shapes& shapes : sizes) build.at(shapes);
  } catch (const Error& error) {
    FAIL() << error.what();
  }
}

/// Each size gives what the model gives that is imported for it alone.
inline void expect_as_settled(const Model& model, const std::vector<Shapes>& sizes) {
  Build build(model);
  for (const Shapes& shapes : sizes) {
    SCOPED_TRACE(shape_text(shapes.begin()->second));
    expect_equal(build.at(shapes), run_at(import_bytes(model.file(), "m.onnx", {.shapes = shapes}), shapes));
  }
}

}  // namespace lathe::onnx
