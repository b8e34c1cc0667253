// Completions, in real shells, and manual pages, under the tools that check them.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/text.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

bool is_installed(const std::string& program) { return run_command("command -v " + program).code == 0; }

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines = split_text(text, '\n');
  std::erase(lines, "");
  std::sort(lines.begin(), lines.end());
  return lines;
}

class Completion : public ::testing::Test {
 protected:
  /// What bash offers for the last of the words.
  std::vector<std::string> bash(const std::vector<std::string>& words) {
    const std::string script = folder_ / "script";
    std::string text = fmt::format("source <({} completion bash)\nCOMP_WORDS=(", TUNE);
    for (const std::string& word : words) text += fmt::format("'{}' ", word);
    text += fmt::format(")\nCOMP_CWORD={}\n_tune\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n", words.size() - 1);
    write_file(script, text);
    const Finished finished = run_command(fmt::format("cd {} && bash --norc {}", folder_.path(), script));
    EXPECT_EQ(finished.code, 0) << finished.output;
    return sorted_lines(finished.output);
  }
  std::vector<std::string> fish(const std::string& line) {
    const Finished finished =
        run_command(fmt::format("cd {0} && HOME={0} XDG_CONFIG_HOME={0} fish --no-config -c '{1} completion "
                                "fish | source; complete -C \"{2}\"' | cut -f1",
                                folder_.path(), TUNE, line));
    return sorted_lines(finished.output);
  }

  TemporaryFolder folder_;
};

TEST_F(Completion, BashKnowsCommandsFlagsAndValues) {
  EXPECT_THAT(bash({"tune", ""}), IsSupersetOf({"bench", "query", "worker"}));
  EXPECT_THAT(bash({"tune", "wor"}), ElementsAre("worker"));
  EXPECT_THAT(bash({"tune", "bench", "--mo"}), ElementsAre("--model"));
  EXPECT_THAT(bash({"tune", "--tri"}), ElementsAre("--trials")) << "of the main job";
  EXPECT_THAT(bash({"tune", "bench", "--tri"}), IsEmpty());
  EXPECT_THAT(bash({"tune", "bench", "--model", "resnet5"}), ElementsAre("resnet50"));
  EXPECT_THAT(bash({"tune", "bench", "--precision", ""}), ElementsAre("bf16", "float64", "given", "int8"));
  EXPECT_THAT(bash({"tune", "bench", "--precision", "=", "f"}), ElementsAre("float64"))
      << "as bash splits it";
  EXPECT_THAT(bash({"tune", "bench", "--precision", "="}), ElementsAre("bf16", "float64", "given", "int8"));
  EXPECT_THAT(bash({"tune", "query", "be"}), ElementsAre("below-limit", "best"));
  EXPECT_THAT(bash({"tune", "man", "tra"}), ElementsAre("tracker"));
  EXPECT_THAT(bash({"tune", "bench", "--threads", ""}), IsEmpty());
  EXPECT_THAT(bash({"tune", "nonsense", ""}), IsEmpty());
}

TEST_F(Completion, BashOffersFilesAndFoldersWhereTheyBelong) {
  for (const char* name : {"net work.onnx", "best.db"}) write_file(folder_ / name, "");
  run_command("mkdir " + (folder_ / "results"));
  EXPECT_THAT(bash({"tune", "bench", "--model", "net"}), ElementsAre("net work.onnx")) << "names with blanks";
  EXPECT_THAT(bash({"tune", "query", "--db", "b"}), ElementsAre("best.db"));
  EXPECT_THAT(bash({"tune", "opt", "n"}), ElementsAre("net work.onnx"));
  EXPECT_THAT(bash({"tune", "run", "--out", ""}), ElementsAre("results"));
}

TEST_F(Completion, FishKnowsCommandsFlagsAndValues) {
  if (!is_installed("fish")) GTEST_SKIP() << "there is no fish";
  EXPECT_THAT(fish("tune wor"), ElementsAre("worker"));
  EXPECT_THAT(fish("tune bench --mo"), ElementsAre("--model"));
  EXPECT_THAT(fish("tune --tri"), ElementsAre("--trials"));
  EXPECT_THAT(fish("tune bench --model resnet5"), ElementsAre("resnet50"));
  EXPECT_THAT(fish("tune query be"), ElementsAre("below-limit", "best"));
}

/// The completion system of zsh wants a terminal: what `_tune` hands to it is looked at.
TEST_F(Completion, ZshSpecifiesCommandsFlagsAndValues) {
  if (!is_installed("zsh")) GTEST_SKIP() << "there is no zsh";
  const auto zsh = [&](const std::string& words, int current) {
    write_file(folder_ / "script", fmt::format("_arguments() {{ print -rl -- \"$@\" }}\n"
                                               "_describe() {{ print -rl -- \"${{(@P)2}}\" }}\n"
                                               "words=({})\nCURRENT={}\nsource <({} completion zsh)\n",
                                               words, current, TUNE));
    const Finished finished = run_command("zsh -f " + (folder_ / "script"));
    EXPECT_EQ(finished.code, 0) << finished.output;
    return sorted_lines(finished.output);
  };
  EXPECT_THAT(zsh("tune ''", 2),
              Contains("bench:time a model: median, confidence interval, and where the time goes"));
  EXPECT_THAT(
      zsh("tune bench ''", 3),
      Contains(
          "--profile[also time each kernel and library function; GB/s counts its arguments, each once]"));
  EXPECT_THAT(zsh("tune bench ''", 3), Not(Contains(HasSubstr("--trials"))));
  EXPECT_THAT(
      zsh("tune query ''", 3),
      Contains(":WHAT:{ compadd -- best below-limit coverage history transfer foreign jobs devices }"));
  EXPECT_THAT(zsh("tune --x ''", 3), Contains(HasSubstr("--trials=[")));
}

TEST_F(Completion, ManualPagesAreClean) {
  const std::string pages = folder_ / "pages";
  // Nothing of the user who made them may be in them.
  const Finished made =
      run_command(fmt::format("HOME=/some/home XDG_DATA_HOME= {} man --out {}", TUNE, pages));
  ASSERT_EQ(made.code, 0) << made.output;
  EXPECT_NE(run_command("grep -r /some/home " + pages).code, 0);
  EXPECT_THAT(run_command("cat " + pages + "/tune-bench.1").output, HasSubstr(".SH EXIT STATUS\n"));
  const std::string count = run_command("ls " + pages + " | wc -l | tr -d '\\n'").output;
  EXPECT_EQ(made.output, count + " pages in " + pages + "\n");
  if (is_installed("mandoc")) {
    EXPECT_EQ(run_command("mandoc -T lint -W style " + pages + "/*.1").output, "");
  }
  if (is_installed("groff")) {
    EXPECT_EQ(run_command("groff -man -Tutf8 -ww -z " + pages + "/*.1").output, "");
  }
  if (!is_installed("mandoc") && !is_installed("groff")) GTEST_SKIP() << "there is neither mandoc nor groff";
}

TEST_F(Completion, BadUseIsOneMessageAndExitCode2) {
  EXPECT_EQ(tune("completion csh").output,
            "error: tune completion: SHELL: `csh` is not one of bash, zsh, fish; did you mean `zsh`?\n");
  EXPECT_EQ(tune("man benhc").output, "error: unknown command `benhc`; did you mean `bench`?\n");
  const Finished refused = tune("man --out /proc/nowhere");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("/proc/nowhere"));
}

}  // namespace
}  // namespace lathe::cli
