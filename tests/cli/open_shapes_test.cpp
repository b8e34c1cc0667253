// What `tune compile --open` makes, and what of it `tune run` refuses.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;

constexpr const char* kScores = R"(
def @main(%x: Tensor[(n, m), float32], %w: Tensor[(40, m), float32]) { nn.softmax(nn.dense(%x, %w)) }
)";

class OpenShapesCommand : public ::testing::Test {
 protected:
  OpenShapesCommand() { write_file(folder_ / "net.relay", kScores); }
  Finished compile(const std::string& flags) {
    return tune("compile --model " + folder_ / "net.relay" + " --out " + folder_ / "net.lathe" + flags);
  }
  Finished run(const std::string& shapes) { return tune("run --model " + folder_ / "net.lathe" + shapes); }

  TemporaryFolder folder_;
};

TEST_F(OpenShapesCommand, OneModuleRunsAtAnySize) {
  { db::Store store(folder_ / "a.db"); }
  for (const std::string& schedules : {std::string(" --untuned"), " --db " + folder_ / "a.db"}) {
    const Finished compiled = compile(" --open n --open m=1..64" + schedules);
    ASSERT_EQ(compiled.code, 0) << compiled.output;
    EXPECT_THAT(compiled.output, HasSubstr("open: n of `x`, m of `x` (1..64)"));
    for (const char* x : {"1", "3", "64", "65"})
      for (const char* m : {"1", "17", "64"}) {
        const Finished finished = run(fmt::format(" --shape x={0}x{1} --shape w=40x{1}", x, m));
        EXPECT_EQ(finished.code, 0) << finished.output;
        EXPECT_THAT(finished.output, HasSubstr(fmt::format("float32 ({}, 40)", x)));
      }
  }
}

/// Of n and m either may be 1: a program tells the cases apart.
TEST_F(OpenShapesCommand, ASumOfTwoOpenDimensionsCompiles) {
  const std::string model = folder_ / "added.relay", module = folder_ / "added.lathe";
  write_file(model, "def @main(%x: Tensor[(n, 8), float32], %y: Tensor[(m, 8), float32]) { tanh(%x + %y) }");
  { db::Store store(folder_ / "a.db"); }
  for (const std::string& schedules : {std::string(" --untuned"), " --db " + folder_ / "a.db"}) {
    const Finished added = tune("compile --open all --model " + model + schedules + " --out " + module);
    EXPECT_EQ(added.code, 0) << added.output;
    for (const char* shapes : {" --shape x=3x8 --shape y=3x8", " --shape x=1x8 --shape y=3x8"})
      EXPECT_THAT(tune("run --model " + module + shapes).output, HasSubstr("output_0: float32 (3, 8)"));
    EXPECT_EQ(tune("run --model " + module + " --shape x=2x8 --shape y=3x8").code, 2);
  }
}

TEST_F(OpenShapesCommand, AnExpressionOfAnInputTellsItsDimension) {
  const std::string model = folder_ / "pairs.relay", module = folder_ / "pairs.lathe";
  // A graph, and a program.
  for (const char* text : {"def @main(%x: Tensor[(2 * k + m), float32], %w: Tensor[(m), float32]) {"
                           " (tanh(%x), sum(%x), %w) }",
                           "def @main(%x: Tensor[(2 * k + m), float32], %w: Tensor[(m), float32]) {"
                           " if (sum(%w) < 1e9f) { (tanh(%x), sum(%x), %w) } else { (%x, 0f, %w) } }"}) {
    write_file(model, text);
    const Finished untold = tune("run --untuned --model " + model);
    EXPECT_EQ(untold.code, 2);
    EXPECT_THAT(untold.output, HasSubstr("`x` is [(2 * k) + m], `w` is [m]; say what they are, as in --shape "
                                         "x=3 --shape w=1\n"));
    const Finished compiled =
        tune("compile --untuned --open k=1..64 --open m --model " + model + " --out " + module);
    ASSERT_EQ(compiled.code, 0) << compiled.output;
    EXPECT_THAT(compiled.output, HasSubstr("open: m of `w`, k of `x` (1..64)"));
    const std::string shapes = "run --model " + module;
    for (const auto& [given, said] : {std::pair(" --shape x=9 --shape w=3", "output_0: float32 (9)"),
                                      std::pair(" --shape x=129 --shape w=1", "output_0: float32 (129)")}) {
      const Finished finished = tune(shapes + given);
      EXPECT_EQ(finished.code, 0) << finished.output;
      EXPECT_THAT(finished.output, HasSubstr(said));
    }
    for (const auto& [given, said] :
         {std::pair(" --shape x=9 --shape w=4", "input `x` has shape (9), must be ((k * 2 + m))"),
          std::pair(" --shape x=200 --shape w=2", "dimension k is 99, the model was compiled for 1 to 64"),
          std::pair(" --shape x=2 --shape w=4", "must be ((k * 2 + m))"),
          std::pair("", "dimension m of input `w` is open: say what it is, as in --shape w=1")}) {
      const Finished refused = tune(shapes + given);
      EXPECT_EQ(refused.code, 2) << given << refused.output;
      EXPECT_THAT(refused.output, HasSubstr(said));
    }
  }
}

/// Of programs, too: the second input tells what the first one's size waits for.
TEST_F(OpenShapesCommand, AnExpressionWaitsForALaterInput) {
  const std::string model = folder_ / "waits.relay", module = folder_ / "waits.lathe";
  write_file(model, R"(
def @main(%x: Tensor[(2 * k + m), float32], %w: Tensor[(m), float32]) {
  let %rows = match_cast(first_rows(%x, extent(%w, axis=0)), Tensor[(k), float32]);
  sum(%rows)
}
)");
  ASSERT_EQ(tune("compile --untuned --open all --model " + model + " --out " + module).code, 0);
  const std::string shapes = "run --model " + module;
  EXPECT_EQ(tune(shapes + " --shape x=9 --shape w=3").code, 0);
  const Finished refused = tune(shapes + " --shape x=9 --shape w=1");
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("the shape is (1), (4) is expected"));
}

/// It has no compiler, and its help no page for its main job.
TEST_F(OpenShapesCommand, TheRunnerTakesShapesToo) {
  ASSERT_EQ(compile(" --untuned --open n --open m").code, 0);
  const std::string run = std::string(RUNNER) + " run --model " + folder_ / "net.lathe";
  const Finished unsaid = run_command(run);
  EXPECT_EQ(unsaid.code, 2);
  EXPECT_THAT(unsaid.output, HasSubstr("say what it is, as in --shape x="));
  const Finished said = run_command(run + " --shape x=3x5 --shape w=40x5");
  EXPECT_EQ(said.code, 0) << said.output;
  EXPECT_THAT(said.output, HasSubstr("float32 (3, 40)"));
  EXPECT_THAT(run_command(std::string(RUNNER) + " --help").output,
              HasSubstr("  --tracker-key KEY   the tracker's"));
}

/// Of four tensors of 160 kB two are there at once; a program's are its own.
TEST_F(OpenShapesCommand, BenchSaysWhatTensorsTake) {
  const std::string module = folder_ / "four.lathe";
  write_file(folder_ / "four.relay", R"(
def @main(%x: Tensor[(n, 40), float32], %w: Tensor[(40, 40), float32]) {
  nn.softmax(nn.dense(nn.softmax(nn.dense(%x, %w)), %w))
})");
  const Finished compiled =
      tune("compile --untuned --open n --model " + folder_ / "four.relay" + " --out " + module);
  ASSERT_EQ(compiled.code, 0) << compiled.output;
  const std::string bench = "bench --time 0.01 --model " + module + " --shape x=1000x40";
  EXPECT_THAT(tune(bench).output, HasSubstr("if none took another's place"));
  const auto told = nlohmann::json::parse(tune(bench + " --json").output);
  EXPECT_GE(told["tensor_bytes"], 640'000);
  EXPECT_GE(told["arena_bytes"], 320'000);
  EXPECT_LT(told["arena_bytes"], 400'000);

  write_file(folder_ / "loop.relay", R"(
def @main(%n: int32, %x: Tensor[(1000), float32]) { if (%n == 0) { %x } else { @main(%n - 1, tanh(%x)) } })");
  const std::string loop = "bench --untuned --time 0.01 --model " + folder_ / "loop.relay";
  EXPECT_THAT(tune(loop).output, HasSubstr("MB of the program's values"));
  EXPECT_GT(nlohmann::json::parse(tune(loop + " --json").output)["arena_bytes"], 4000);
}

TEST_F(OpenShapesCommand, MistakesAreOneMessageAndExitCode2) {
  EXPECT_THAT(compile("").output, HasSubstr("the model leaves dimensions of its inputs open"));
  EXPECT_THAT(compile(" --open n=5..2").output, HasSubstr("`5..2` is no range"));
  EXPECT_THAT(compile(" --open all --open k").output,
              HasSubstr("--open k: no input has an open dimension of this name"));
  EXPECT_THAT(compile(" --open k").output,
              HasSubstr("--open k: no input has an open dimension of this name"));
  ASSERT_EQ(compile(" --untuned --open n --open m=1..64").code, 0);
  const std::pair<const char*, const char*> cases[] = {
      {" --shape x=3x65 --shape w=40x65", "dimension m is 65, the model was compiled for 1 to 64"},
      {" --shape x=3x40 --shape w=40x39", "m"},
      {" --shape x=3x40x1 --shape w=40x40", "x"},
      {" --shape x=-1x40 --shape w=40x40", "x"},
      {" --shape x=99999999999x40 --shape w=40x40", "x"},
      {" --shape w=40x40", "n"},
  };
  for (const auto& [shapes, message] : cases) {
    const Finished finished = run(shapes);
    EXPECT_EQ(finished.code, 2) << shapes << "\n" << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(message)) << shapes;
    EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), '\n'), 1) << finished.output;
  }
}

TEST_F(OpenShapesCommand, WhatOperatorsSettleNobodyHasToName) {
  write_file(folder_ / "net.relay",
             "def @main(%x: Tensor[(n, k), float32], %w: Tensor[(5, 3), float32]) { nn.dense(%x, %w) }");
  const Finished named = compile(" --untuned --open n");
  EXPECT_EQ(named.code, 0) << named.output;
  EXPECT_THAT(named.output, HasSubstr("open: n of `x`\n"));
  EXPECT_THAT(compile(" --untuned --open k").output,
              HasSubstr("the model leaves dimensions of its inputs open: `x` is [n]"));
}

TEST_F(OpenShapesCommand, JobsRefuseMalformedSizes) {
  const Finished job = tune("--trials 1 --open n=4x --model " + folder_ / "net.relay");
  EXPECT_EQ(job.code, 2);
  EXPECT_THAT(job.output,
              HasSubstr("--open n=4x: `4x` is no value above 0 with a weight above 0; write NAME"));
  EXPECT_EQ(std::count(job.output.begin(), job.output.end(), '\n'), 1) << job.output;
}

}  // namespace
}  // namespace lathe::cli
