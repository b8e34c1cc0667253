#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/runtime/cores.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/cli/tune.h"
#include "tests/runtime/test_module.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ModuleCommands : public ::testing::Test {
 protected:
  ModuleCommands() { runtime::write_module(model_, runtime::test_image()); }

  TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path(), model_ = folder_ + "/m.lathe";
};

TEST_F(ModuleCommands, RunWritesOutputsInTheModelsOrder) {
  save_npy(folder_ + "/x.npy", runtime::floats({10, 20, 30}));
  Finished finished = tune("run --model " + model_ + " --input x=" + folder_ + "/x.npy --threads 2 --out " +
                           folder_ + "/new/out");
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.output, StartsWith("column: float32 (3, 1), min 45, mean 90, max 135 at 2\nx: "));
  Tensor column = load_npy(folder_ + "/new/out/output_0.npy");
  EXPECT_EQ(max_relative_error(column, runtime::floats({45, 90, 135}).reshaped({3, 1})), 0);
  EXPECT_EQ(load_npy(folder_ + "/new/out/output_2.npy").value(1), 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/new/out/output_3.npy"));
}

TEST_F(ModuleCommands, VerifyFindsAChangedWeight) {
  EXPECT_EQ(tune("run --verify --model " + model_).code, 0);
  std::string bytes = read_file(model_);
  bytes[bytes.size() - 64] ^= 1;
  write_file(model_, bytes);
  EXPECT_EQ(tune("run --model " + model_).code, 0);  // weights are not read to be checked
  Finished finished = tune("run --verify --model " + model_);
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.output,
            "error: " + model_ + " is damaged: the checksum of its constants does not match\n");
  EXPECT_EQ(tune("run --verify --model dqn").output, "error: --verify is for .lathe files, --model is dqn\n");
}

/// An emulated CPU without AVX. The module must be refused before its first instruction.
TEST_F(ModuleCommands, ALesserCpuIsOneMessageAndExitCode4) {
  const std::string qemu = run_command("command -v qemu-x86_64 || command -v qemu-x86_64-static").output;
  if (qemu.empty()) GTEST_SKIP() << "no qemu-x86_64: apt-get install qemu-user (./run test does)";
  if (run_command("uname -m").output != "x86_64\n") GTEST_SKIP() << "tune is no program for x86_64 here";
  const std::string compiled = folder_ + "/avx512.lathe";
  Finished finished =
      tune("compile --untuned --model dqn --target cpu:mcpu=skylake-avx512 --out " + compiled);
  ASSERT_EQ(finished.code, 0) << finished.output;
  finished = run_command(qemu.substr(0, qemu.find('\n')) + " -cpu Nehalem " TUNE " run --model " + compiled);
  EXPECT_EQ(finished.code, 4);
  EXPECT_THAT(finished.output,
              StartsWith("error: " + compiled + ": built for a CPU with abm, avx, avx2, avx512bw, "));
  EXPECT_THAT(finished.output, HasSubstr("which this one (Intel Core i7 9xx (Nehalem "));
  EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), '\n'), 1) << finished.output;
}

TEST_F(ModuleCommands, InputsNotGivenAreSeeded) {
  std::string run = "run --model " + model_;
  EXPECT_EQ(tune(run).output, tune(run).output);
  EXPECT_NE(tune(run).output, tune(run + " --seed 1").output);
}

TEST_F(ModuleCommands, BenchReportsJson) {
  Finished finished = tune("bench --profile --json --time 1s --model " + model_);
  EXPECT_EQ(finished.code, 0);
  nlohmann::json report = nlohmann::json::parse(finished.output);
  EXPECT_GT(report["median_ms"], 0.0);
  EXPECT_LE(report["low_ms"], report["median_ms"]);
  EXPECT_GE(report["high_ms"], report["median_ms"]);
  ASSERT_EQ(report["layers"].size(), 2u);
  EXPECT_EQ(report["layers"][0]["calls"], 2);
}

TEST_F(ModuleCommands, BenchPrintsATable) {
  Finished finished = tune("bench --profile --time 1 --model " + model_);
  EXPECT_THAT(finished.output, HasSubstr(", 1 thread: "));
  EXPECT_THAT(finished.output, HasSubstr("  twice\n"));
}

TEST_F(ModuleCommands, BenchScalingListsParallelLoops) {
  const std::string scaling = BENCH_SCALING " --model " + model_;
  EXPECT_EQ(run_command(scaling + " --threads 1").code, 2);
  if (runtime::available_cores() < 2) GTEST_SKIP() << "one core";
  Finished finished = run_command(scaling + " --threads 2");
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr(" parallel loops: "));
  EXPECT_THAT(finished.output, HasSubstr("\neach launched a second time: "));
  EXPECT_THAT(finished.output, HasSubstr("  add\n"));
}

TEST_F(ModuleCommands, MistakesAreOneMessageAndExitCode2) {
  std::string x = folder_ + "/x.npy";
  save_npy(x, runtime::floats({10, 20}));
  std::string run = "run --model " + model_ + " ";
  auto expect_error = [](const std::string& arguments, const std::string& message) {
    Finished finished = tune(arguments);
    EXPECT_EQ(finished.code, 2) << arguments;
    EXPECT_EQ(finished.output, "error: " + message + "\n");
  };
  expect_error(run + "--input xx=" + x, "the model has no input `xx`; did you mean `x`?");
  expect_error(run + "--input " + x, "--input " + x + ": must be NAME=FILE.npy");
  expect_error(run + "--input x=" + x + " --input x=" + x, "--input x: the input is given twice");
  expect_error(run + "--input x=" + x, "input `x` is float32 (2), must be float32 (3)");
  expect_error(run + "--threads 0",
               "tune run: --threads: Value 0 not in range 1 to 1024; see tune run --help");
  expect_error("run", "tune run: --model is required; see tune run --help");
  expect_error("run --modle x", "tune run: unknown flag `--modle`; did you mean `--model`?");
  expect_error("run --model /nowhere/m.lathe", "cannot read /nowhere/m.lathe: No such file or directory");
  expect_error(run + "--out /proc/none", "cannot make the folder /proc/none: No such file or directory");
  expect_error("run --model /nowhere/m.lathe --out " + folder_ + "/never/made",
               "cannot read /nowhere/m.lathe: No such file or directory");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/never"));
  expect_error("bench --time 3d --model " + model_, "--time: `3d` is not a duration; write 90s, 10m or 1h");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space of their own
TEST_F(ModuleCommands, WithoutThreadsTheMachineIsUnfit) {
  const std::string few = "ulimit -v 2000000; " TUNE " ",
                    flags = " --threads 1000 --model " + model_;  // 8 MiB each
  for (const char* command : {"run", "bench"}) {
    const Finished refused = run_command("(" + few + command + flags + ")");
    EXPECT_EQ(refused.code, 4) << command;
    EXPECT_EQ(refused.output, "error: cannot start 1000 threads: Resource temporarily unavailable\n");
  }
}
#endif

}  // namespace
}  // namespace lathe::cli
