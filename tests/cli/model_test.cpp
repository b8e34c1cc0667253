// Commands on models of the zoo and on text, from the outside.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/tensor.h"
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
  Finished compiled = tune("compile --model dqn --untuned --json --out " + folder_ + "/m.lathe");
  EXPECT_EQ(compiled.code, 0) << compiled.output;
  EXPECT_EQ(nlohmann::json::parse(compiled.output)["kernels_measured"], 0);
  const nlohmann::json ran = nlohmann::json::parse(tune("run --json --model " + folder_ + "/m.lathe").output);
  EXPECT_EQ(ran[0]["shape"], (std::vector<int64_t>{1, 6}));
  EXPECT_EQ(tune("run --model " + folder_ + "/m.lathe --threads 2 --out " + folder_ + "/a").code, 0);
  EXPECT_EQ(tune("run --model dqn --untuned --out " + folder_ + "/b").code, 0);
  Tensor a = load_npy(folder_ + "/a/output_0.npy"), b = load_npy(folder_ + "/b/output_0.npy");
  EXPECT_LT(max_relative_error(a, b), 1e-5);
}

TEST_F(ModelCommands, WithoutALinkerTheMachineIsUnfit) {
  const Finished refused = run_command(
      "PATH=" + folder_ + " " TUNE " compile --model dqn --untuned --quiet --out " + folder_ + "/m.lathe");
  EXPECT_EQ(refused.code, 4);
  EXPECT_EQ(refused.output,
            "error: cannot run `ld`: No such file or directory; install binutils, or lld-19 for other CPUs "
            "than this machine's\n");
}

/// A signal while the linker is at work, which the linker itself sends.
TEST_F(ModelCommands, AnInterruptedLinkLeavesNoFolderBehind) {
  std::filesystem::create_directories(folder_ + "/tmp");
  const std::string linker = folder_ + "/ld";
  write_file(linker, "#!/bin/sh\nkill -TERM $PPID\n: > " + folder_ + "/linked\n");
  std::filesystem::permissions(linker, std::filesystem::perms::owner_all);
  const Finished stopped =
      run_command("PATH=" + folder_ + ":$PATH TMPDIR=" + folder_ +
                  "/tmp " TUNE " compile --model dqn --untuned --out " + folder_ + "/m.lathe");
  EXPECT_EQ(stopped.code, 130) << stopped.output;
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/linked"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/m.lathe"));
}

TEST_F(ModelCommands, DynamicDimensionsComeFromTheInputs) {
  std::string model = folder_ + "/m.relay", x = folder_ + "/x.npy";
  write_file(model, "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(n, 2), float32]) { nn.relu(%x) }\n");
  save_npy(x, tensor_of(std::vector<float>{-1, 2, 3, -4, 5, 6}, {3, 2}, kFloat32));
  Finished finished = tune("run --untuned --model " + model + " --input x=" + x);
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.output, StartsWith("output_0: float32 (3, 2), min 0, "));
}

TEST_F(ModelCommands, EvalTakesWhatItsArgumentsTell) {
  const std::string program = folder_ + "/p.relay", x = folder_ + "/x.npy", y = folder_ + "/y.npy";
  write_file(program, "def @main(%x: Tensor[(?), float32], %y: Tensor[(?), float32]) { (%x + %y, sum(%x)) }");
  save_npy(x, tensor_of(std::vector<float>{1, 2, 3}, {3}, kFloat32));
  for (const int64_t length : {3, 1, 2}) {
    save_npy(y, tensor_of(std::vector<float>(static_cast<size_t>(length), 1), {length}, kFloat32));
    for (const char* by : {"", "--compiled "}) {
      const Finished finished =
          tune(std::string("eval ") + by + program + " --input x=" + x + " --input y=" + y);
      EXPECT_EQ(finished.code, length == 2 ? 2 : 0) << by << length;
      if (length != 2) {
        EXPECT_EQ(finished.output, "([2f, 3f, 4f], 6f)\n") << by << length;
      }
    }
  }
}

TEST_F(ModelCommands, OpenDimensionsAreOneMessageAndExitCode2OfEachCommand) {
  std::string model = folder_ + "/m.relay", out = " --out " + folder_ + "/out";
  write_file(model, R"(#[version = "0.0.5"]
def @main(%x: Tensor[(n, l, 4), float32], %y: Tensor[(n, l, 4), float32]) { nn.relu(add(%x, %y)) }
)");
  for (const std::string& command :
       {"--db " + folder_ + "/d.db" + out, "compile --untuned" + out, std::string("bench --untuned"),
        std::string("run --untuned"), "quantize" + out, "export" + out}) {
    Finished finished = tune(command + " --model " + model);
    EXPECT_EQ(finished.code, 2) << command;
    EXPECT_THAT(finished.output,
                testing::EndsWith("error: " + model +
                                  ": the model leaves dimensions of its inputs open: `x` is [n, l, 4], `y` "
                                  "is [n, l, 4]; say what they are, as in --shape x=1x128x4\n"));
  }
}

TEST_F(ModelCommands, DynamicDimensionsComeFromShapes) {
  std::string model = folder_ + "/m.relay", onnx = folder_ + "/m.onnx", compiled = folder_ + "/m.lathe";
  write_file(model, R"(#[version = "0.0.5"]
def @main(%x: Tensor[(n, 2), float32], %y: Tensor[(n, 2), float32]) { nn.relu(add(%x, %y)) }
)");
  for (const std::string& settled :
       {model + " --shape x=3x2", model + " --shape=x=3x2 --shape y=3x2", compiled, onnx}) {
    if (settled == compiled) {
      EXPECT_EQ(tune("compile --untuned --model " + model + " --shape y=3x2 --out " + compiled).code, 0);
    } else if (settled == onnx) {
      EXPECT_EQ(tune("export --model " + model + " --shape x=3x2 --out " + onnx).code, 0);
    }
    Finished finished = tune("run --model " + settled + (settled == compiled ? "" : " --untuned"));
    EXPECT_EQ(finished.code, 0) << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(": float32 (3, 2), min ")) << settled;
  }
  Finished timed = tune("bench --untuned --time 0.1s --model " + model + " --shape x=3x2");
  EXPECT_EQ(timed.code, 0);
  EXPECT_THAT(timed.output, HasSubstr(" us  (95% interval")) << "six additions take no 0.000 ms";
}

TEST_F(ModelCommands, AnEncoderIsExportedAndQuantized) {
  std::string model = folder_ + "/m.relay", onnx = folder_ + "/m.onnx", quantized = folder_ + "/q.onnx";
  write_file(model, R"(#[version = "0.0.5"]
def @main(%x: Tensor[(n, 8, 12), float32], %g: Tensor[(12), float32], %w: Tensor[(12, 12), float32]) {
  %0 = nn.layer_norm(%x, %g, %g);
  %1 = transpose(reshape(nn.dense(%0, %w), newshape=[0, 8, 3, 4]), axes=[0, 2, 1, 3]);
  %2 = nn.softmax(nn.batch_matmul(multiply(%1, 0.5f), %1), axis=-1);
  %3 = reshape(transpose(nn.matmul(%2, %1), axes=[0, 2, 1, 3]), newshape=[0, 8, 12]);
  add(%x, multiply(%3, add(1f, erf(%3))))
}
)");
  ASSERT_EQ(tune("export --model " + model + " --shape x=2x8x12 --out " + onnx).output,
            "wrote " + onnx + "\n");
  ASSERT_EQ(tune("export --quiet --model " + model + " --shape x=2x8x12 --out " + onnx).output, "");
  ASSERT_EQ(tune("quantize --model " + onnx + " --out " + quantized).output, "wrote " + quantized + "\n");
  const std::string run = "run --untuned --seed 3 --model ";
  EXPECT_EQ(tune(run + model + " --shape x=2x8x12 --out " + folder_ + "/a").code, 0);
  EXPECT_EQ(tune(run + onnx + " --out " + folder_ + "/b").code, 0);
  EXPECT_EQ(tune(run + quantized + " --out " + folder_ + "/c").code, 0);
  Tensor text = load_npy(folder_ + "/a/output_0.npy");
  EXPECT_LT(max_relative_error(load_npy(folder_ + "/b/output_0.npy"), text), 1e-5);
  EXPECT_LT(max_relative_error(load_npy(folder_ + "/c/output_0.npy"), text), 0.1);
  const std::string values = folder_ + "/x.npy", command = "quantize --model " + onnx + " --out " + quantized;
  save_npy(values, random_tensor({6, 8, 12}, kFloat32, 5));
  EXPECT_EQ(tune(command + " --calibrate x=" + values).output, "wrote " + quantized + "\n");
  EXPECT_EQ(tune(command + " --calibrate x=" + values + " --calibrate x=" + values).code, 0);
  for (const std::string& wrong :
       {" --calibrate " + values, " --calibrate g=" + values, " --calibrate z=" + values,
        " --calibrate x=" + onnx, " --samples 3 --calibrate x=" + values}) {
    Finished refused = tune(command + wrong);
    EXPECT_EQ(refused.code, 2) << wrong;
    EXPECT_THAT(refused.output, HasSubstr("error: ")) << wrong;
  }
}

/// As the past of a language model is before its first token.
TEST_F(ModelCommands, AnInputMayBeEmpty) {
  std::string model = folder_ + "/m.relay", out = folder_ + "/out";
  write_file(model, R"(#[version = "0.0.5"]
def @main(%past: Tensor[(n, 2), float32], %x: Tensor[(3, 2), float32]) { concatenate((%past, nn.relu(%x))) }
)");
  for (int64_t rows : {0, 2}) {
    Finished finished =
        tune(fmt::format("run --untuned --model {} --shape past={}x2 --out {}", model, rows, out));
    ASSERT_EQ(finished.code, 0) << finished.output;
    EXPECT_EQ(load_npy(out + "/output_0.npy").shape(), (std::vector<int64_t>{3 + rows, 2}));
  }
}

TEST_F(ModelCommands, ShapesThatDoNotFitAreOneMessageAndExitCode2) {
  std::string model = folder_ + "/m.relay", x = folder_ + "/x.npy", compiled = folder_ + "/m.lathe";
  write_file(model, R"(#[version = "0.0.5"]
def @main(%x: Tensor[(n, 2), float32], %y: Tensor[(n, 2), float32]) { nn.relu(add(%x, %y)) }
)");
  save_npy(x, Tensor({3, 2}, kFloat32));
  ASSERT_EQ(tune("compile --untuned --model dqn --out " + compiled).code, 0);
  const std::pair<std::string, std::string> cases[] = {
      {"--shape x", "--shape x: must be NAME=1x3x224x224"},
      {"--shape x=", "--shape x=: must be NAME=1x3x224x224"},
      {"--shape =3x2", "--shape =3x2: must be NAME=1x3x224x224"},
      {"--shape x=3,2", "--shape x=3,2: `3,2` is not a dimension; write NAME=1x3x224x224"},
      {"--shape x=3x", "--shape x=3x: `` is not a dimension; write NAME=1x3x224x224"},
      {"--shape x=3x2.5", "--shape x=3x2.5: `2.5` is not a dimension; write NAME=1x3x224x224"},
      {"--shape x=-3x2", "--shape x=-3x2: dimension -3 must not be negative"},
      {"--shape x=99999999999999999999x2",
       "--shape x=99999999999999999999x2: dimension 99999999999999999999 is out of range"},
      {"--shape x=1099511627776x2", "--shape x=1099511627776x2: the tensor is too large"},
      {"--shape x=3x2 --shape x=3x2", "--shape x=3x2: the input is given twice"},
      {"--shape x=3x2x1", model + ": input `x` has 3 dimensions, must have 2"},
      {"--shape x=3x4", model + ": input `x` has shape (3, 4): dimension 1 must be 2"},
      {"--shape x=3x2 --shape y=4x2", model + ": dimension n is 3 in input `x` and 4 in input `y`"},
      {"--shape z=3x2", model + ": the model has no input `z`; did you mean `x`?"},
      {"--shape x=4x2 --input x=" + x, "input `x`: --shape says (4, 2), the tensor of --input has (3, 2)"},
  };
  for (const auto& [flags, message] : cases) {
    Finished finished = tune("run --untuned --model " + model + " " + flags);
    EXPECT_EQ(finished.code, 2) << flags;
    EXPECT_EQ(finished.output, "error: " + message + "\n");
  }
  EXPECT_EQ(tune("run --model " + compiled + " --shape data=1x4x84x84").output,
            "error: --shape: the shapes in " + compiled + " are settled\n");
  EXPECT_EQ(tune("run --model " + compiled + " --precision float64").output,
            "error: --precision float64: the precision in " + compiled + " is settled\n");
}

TEST_F(ModelCommands, Float64TakesTheSameInputs) {
  for (std::string precision : {"given", "float64"})
    EXPECT_EQ(tune("run --model dqn --untuned --seed 5 --precision " + precision + " --out " + folder_ + "/" +
                   precision)
                  .code,
              0);
  Tensor narrow = load_npy(folder_ + "/given/output_0.npy"),
         wide = load_npy(folder_ + "/float64/output_0.npy");
  EXPECT_EQ(wide.dtype(), kFloat64);
  EXPECT_LT(max_relative_error(narrow, wide), 1e-5);
  EXPECT_GT(max_relative_error(narrow, wide), 0);
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
  expect_error("compile --untuned --model net.pt", "unknown model `net.pt`; it is neither of the zoo (dqn, ");
  expect_error("compile --untuned --model net.lathe",
               "net.lathe is a compiled module; name the model it was made of");
  expect_error("compile --model dqn --db", "tune compile: --db needs a value; see tune compile --help");
  expect_error("compile --model dqn --db --untuned",
               "tune compile: --db needs a value, and --untuned is a flag; see tune compile --help");
  expect_error("compile --model --open all",
               "tune compile: --model needs a value, and --open is a flag; see tune compile --help");
  expect_error("--target cpu", "tune: --model is required; see tune help tune");
  expect_error("compile --untuned --model dqn --target gpu", "target: `gpu` is not a kind of device");
  expect_error("compile --untuned --model " + folder_ + "/not.onnx", folder_ + "/not.onnx");
  expect_error("compile --untuned --model " + folder_ + "/none.onnx", "cannot read ");
  expect_error("compile --untuned --model dqn --out /nowhere/m.lathe", "cannot write /nowhere/m.lathe: ");
  expect_error("compile --model dqn --db " + folder_ + "/not.onnx", "");
  expect_error("compile --untuned --db x --model dqn",
               "tune compile: --db excludes --untuned; see tune compile --help");
  expect_error("compile --untuned --precision fp64 --model dqn",
               "tune compile: --precision: `fp64` is not one of given, ");
  expect_error("query best --model dqn --db " + folder_ + "/none.db", "");
  expect_error("query bets --db " + folder_ + "/none.db",
               "tune query: WHAT: `bets` is not one of best, below-limit, coverage, ");
}

TEST_F(ModelCommands, AnInterruptIsExitCode130) {
  Finished finished = tune("compile --model resnet101 --untuned --out " + folder_ +
                           "/m.lathe & while kill -INT $! 2>/dev/null; do sleep 0.1; done; wait $!");
  EXPECT_EQ(finished.code, 130);
  EXPECT_EQ(finished.output, "");
}

}  // namespace
}  // namespace lathe::cli
