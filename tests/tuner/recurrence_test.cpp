// How recurrent networks of ONNX are compiled: their steps share kernels, however many there are.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/frontends/onnx.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tests/frontends/onnx_bytes.h"
#include "tuner/final_build.h"
#include "tuner/optimize.h"

namespace lathe::tuner {
namespace {

struct Recurrence {
  const char* op;
  int64_t gates, steps, hidden;
  bool lengths;

  /// Both directions, a batch of 2, as many inputs as states.
  relay::Module module() const {
    namespace bytes = onnx::bytes;
    std::vector<std::string> inputs{"x", "w", "r", "b"};
    std::string declared;
    for (const std::string& name : inputs) declared += bytes::input(name);
    if (lengths) {
      inputs.emplace_back("lengths");
      const std::string int32 = bytes::field(1, bytes::field(1, int64_t{6}));
      declared += bytes::field(11, bytes::field(1, std::string("lengths")) + bytes::field(2, int32));
    }
    const std::string node = bytes::node(
        op, inputs, {"y"}, bytes::integer("hidden_size", hidden) + bytes::text("direction", "bidirectional"));
    onnx::ImportOptions options;
    options.shapes = {{"x", {steps, 2, hidden}},
                      {"w", {2, gates * hidden, hidden}},
                      {"r", {2, gates * hidden, hidden}},
                      {"b", {2, 2 * gates * hidden}}};
    if (lengths) options.shapes["lengths"] = {2};
    return onnx::import_bytes(bytes::model(node, declared, {"y"}, 14), "recurrence.onnx", options).module;
  }
};

TEST(Recurrence, StepsShareKernels) {
  const Target target = codegen::host_target();
  for (auto [op, gates] : {std::pair("RNN", 1), std::pair("GRU", 3), std::pair("LSTM", 4)})
    for (int64_t hidden : {16, 5})  // rows that views may begin at, and rows that are copied
      for (bool lengths : {false, true}) {
        auto kernels = [&, op = op, gates = gates](int64_t steps) {
          const Recurrence model{op, gates, steps, hidden, lengths};
          return ModelBuilder(optimize(model.module(), target), target).size();
        };
        EXPECT_EQ(kernels(7), kernels(14)) << op << " " << hidden << (lengths ? " with lengths" : "");
      }
}

/// The steps of an aligned recurrence are read where the product of all inputs wrote them.
TEST(Recurrence, AlignedStepsAreViews) {
  const Target target = codegen::host_target();
  const Recurrence model{"RNN", 1, 9, 16, false};
  const runtime::ModuleImage image =
      final_build(optimize(model.module(), target), target, default_schedules(target));
  for (const runtime::Step& step : image.plan.steps)
    EXPECT_EQ(step.kernel.find("take"), std::string::npos) << step.kernel;
}

}  // namespace
}  // namespace lathe::tuner
