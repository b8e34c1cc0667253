// Commands on models of the zoo and on text, from the outside.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/support/temporary_folder.h"
#include "core/support/tensor.h"
#include "core/support/text.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ModelCommands : public ::testing::Test {
 protected:
  TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(ModelCommands, AModuleFileComputesWhatTheModelDoes) {
  Finished compiled = tune("compile --model dqn --untuned --out " + folder_ + "/m.lathe");
  EXPECT_EQ(compiled.code, 0) << compiled.output;
  EXPECT_THAT(compiled.output, HasSubstr("0 of "));
  EXPECT_EQ(tune("run --model " + folder_ + "/m.lathe --threads 2 --out " + folder_ + "/a").code, 0);
  EXPECT_EQ(tune("run --model dqn --untuned --out " + folder_ + "/b").code, 0);
  Tensor a = load_npy(folder_ + "/a/output_0.npy"), b = load_npy(folder_ + "/b/output_0.npy");
  EXPECT_LT(max_relative_error(a, b), 1e-5);
}

TEST_F(ModelCommands, DynamicDimensionsComeFromTheInputs) {
  std::string model = folder_ + "/m.relay", x = folder_ + "/x.npy";
  write_file(model, "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(n, 2), float32]) { nn.relu(%x) }\n");
  save_npy(x, tensor_of(std::vector<float>{-1, 2, 3, -4, 5, 6}, {3, 2}, kFloat32));
  Finished finished = tune("run --untuned --model " + model + " --input x=" + x);
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.output, StartsWith("output_0: float32 (3, 2), min 0, "));
  EXPECT_EQ(tune("run --untuned --model " + model).output,
            "error: input `x` has dimensions that are not known; give it with --input x=FILE.npy\n");
}

TEST_F(ModelCommands, MistakesAreOneMessageAndExitCode2) {
  auto expect_error = [](const std::string& arguments, const std::string& message) {
    Finished finished = tune(arguments);
    EXPECT_EQ(finished.code, 2) << arguments;
    EXPECT_THAT(finished.output, StartsWith("error: " + message));
    EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), '\n'), 1) << finished.output;
  };
  write_file(folder_ + "/not.onnx", "hello");
  expect_error("compile --untuned --model resnet81", "unknown model `resnet81`; did you mean `resnet18`?");
  expect_error("compile --untuned --model dqn --target gpu", "target: `gpu` is not a kind of device");
  expect_error("compile --untuned --model " + folder_ + "/not.onnx", folder_ + "/not.onnx");
  expect_error("compile --untuned --model " + folder_ + "/none.onnx", "cannot read ");
  expect_error("compile --untuned --model dqn --out /nowhere/m.lathe", "cannot write /nowhere/m.lathe: ");
  expect_error("compile --model dqn --db " + folder_ + "/not.onnx", "");
  expect_error("compile --untuned --db x --model dqn", "tune compile: ");
  expect_error("query best --model dqn --db " + folder_ + "/none.db", "");
  expect_error("query bets --db " + folder_ + "/none.db", "tune query: `bets` is not one of best, history, ");
}

TEST_F(ModelCommands, AnInterruptIsExitCode130) {
  Finished finished = tune("compile --model resnet101 --untuned --out " + folder_ +
                           "/m.lathe & sleep 0.3; kill -INT $!; wait $!");
  EXPECT_EQ(finished.code, 130);
  EXPECT_EQ(finished.output, "");
}

}  // namespace
}  // namespace lathe::cli
