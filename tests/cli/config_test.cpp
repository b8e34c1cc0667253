// Where values of flags come from, from the outside.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// `tune` in a folder of its own, for a user whose only configuration is what the test writes.
class Config : public ::testing::Test {
 protected:
  Config() { std::filesystem::create_directories(folder_ / "xdg/lathe"); }

  void write_here(const std::string& text) { write_file(folder_ / "lathe.toml", text); }
  void write_user(const std::string& text) { write_file(user_, text); }
  Finished run(const std::string& arguments, const std::string& variables = "") {
    return run_command(fmt::format("cd {} && env XDG_CONFIG_HOME={}/xdg {} {} {}", folder_.path(),
                                   folder_.path(), variables, TUNE, arguments));
  }
  /// Value and origin of the flag of `bench`.
  nlohmann::json bench(const std::string& key, const std::string& arguments = "",
                       const std::string& variables = "") {
    const Finished shown = run("config show bench --json -- " + arguments, variables);
    EXPECT_EQ(shown.code, 0) << shown.output;
    return nlohmann::json::parse(shown.output)["bench"][key];
  }

  TemporaryFolder folder_;
  const std::string user_ = folder_ / "xdg/lathe/lathe.toml";
};

nlohmann::json shown(const nlohmann::json& value, const std::string& origin) {
  return {{"value", value}, {"origin", origin}};
}

TEST_F(Config, TheNearestSourceCounts) {
  write_user("threads = 2\n[bench]\nthreads = 3\n");
  EXPECT_EQ(bench("threads"), shown(3, user_ + ":3"));
  write_here("threads = 4\n");
  EXPECT_EQ(bench("threads"), shown(4, "lathe.toml:1"))
      << "the nearer file, though its key is for all commands";
  write_here("threads = 4\n[bench]\nthreads = 5\n");
  EXPECT_EQ(bench("threads"), shown(5, "lathe.toml:3"));
  EXPECT_EQ(bench("threads", "", "LATHE_THREADS=6"), shown(6, "LATHE_THREADS"));
  EXPECT_EQ(bench("threads", "--threads 7", "LATHE_THREADS=6"), shown(7, "--threads"));
  EXPECT_EQ(bench("threads", "", "LATHE_THREADS="), shown(5, "lathe.toml:3")) << "empty is as if not set";
  EXPECT_EQ(bench("threads", "--no-config", "LATHE_THREADS=6"), shown(1, "default"));
  write_user("");
  write_here("");
  EXPECT_EQ(bench("threads"), shown(1, "default"));
}

TEST_F(Config, ValuesHaveTheTypesOfTheirFlags) {
  write_here(
      "max-relative-error = 1e-3\n[bench]\ninput = ['x=a.npy', 'y=b.npy']\ntime = \"2m\"\nprofile = true\n");
  EXPECT_EQ(bench("max-relative-error")["value"], 1e-3);
  EXPECT_EQ(bench("input")["value"], (std::vector<std::string>{"x=a.npy", "y=b.npy"}));
  EXPECT_EQ(bench("time")["value"], "120s");
  EXPECT_EQ(bench("profile")["value"], true);
  EXPECT_EQ(bench("profile", "", "LATHE_PROFILE=off")["value"], false);
  EXPECT_EQ(bench("model")["value"], nullptr);
  write_here("[bench]\ntime = 1.5\n");
  EXPECT_EQ(bench("time")["value"], "1.5s");
}

TEST_F(Config, OfTwoThatExcludeEachOtherTheNearerCounts) {
  write_here("db = 'team.db'\n");
  EXPECT_EQ(bench("db")["value"], "team.db");
  EXPECT_EQ(bench("db", "--untuned"), shown(nullptr, "default"));
  EXPECT_EQ(bench("db", "", "LATHE_UNTUNED=1"), shown(nullptr, "default"));
  EXPECT_EQ(bench("db", "", "LATHE_UNTUNED=0")["value"], "team.db");
  write_here("[bench]\ndb = 'team.db'\nuntuned = true\n");
  const Finished both = run("config show bench");
  EXPECT_EQ(both.code, 2);
  EXPECT_EQ(both.output, "error: lathe.toml:2 and lathe.toml:3: --db excludes --untuned\n");
}

TEST_F(Config, CommandsGoByIt) {
  write_here("[opt]\nlist = true\n[keygen]\nout = 'mine.key'\n");
  EXPECT_THAT(run("opt").output, StartsWith("on Relay:\n"));
  EXPECT_EQ(run("keygen").code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "mine.key"));
  EXPECT_EQ(run("compile", "LATHE_MODEL=resnet81 LATHE_UNTUNED=yes").output,
            "error: unknown model `resnet81`; did you mean `resnet18`?\n")
      << "what is required may come from anywhere";
}

TEST_F(Config, WhatIsShownCanBeAConfiguration) {
  const std::string before = run("config show bench --no-config").output;
  const Finished shown = run("config show bench --origin", "LATHE_THREADS=2 LATHE_MODEL='a\"b'");
  EXPECT_THAT(shown.output, HasSubstr("\nthreads = 2"));
  EXPECT_THAT(shown.output, HasSubstr("# LATHE_THREADS\n"));
  write_here(shown.output);
  EXPECT_EQ(bench("threads")["value"], 2);
  EXPECT_EQ(bench("model")["value"], "a\"b");
}

TEST_F(Config, MistakesAreOneMessageAndExitCode2) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"[tune]\ntrails = 3\n", "lathe.toml:2: unknown key `trails` in [tune]; did you mean `trials`?"},
           {"\n[trakcer]\n", "lathe.toml:2: unknown section [trakcer]; did you mean `tracker`?"},
           {"thread = 2\n", "lathe.toml:1: unknown key `thread`; did you mean `threads`?"},
           {"builders = 2\n",
            "lathe.toml:1: `builders` is of `tune worker` alone: it belongs into the section [worker]"},
           {"threads = 2\n[\n", "lathe.toml:2: a section needs a name, as in [tune]"},
           {"[tune]\n\n [[ .a]]\n", "lathe.toml:3: a section needs a name, as in [tune]"},
           {"worker = 'x'\n", "lathe.toml:1: `worker` is a section: write [worker]"},
           {"[bench]\nthreads = '2'\n", "lathe.toml:2: threads must be an integer"},
           {"threads = 2.5\n", "lathe.toml:1: threads must be an integer"},
           {"[bench]\nprofile = 1\n", "lathe.toml:2: profile must be true or false"},
           {"[bench]\nmodel = ['a']\n", "lathe.toml:2: model must be a string"},
           {"[bench]\ninput = [1]\n", "lathe.toml:2: input must be a string or an array of strings"},
           {"[bench.model]\nx = 1\n", "lathe.toml:1: model must be a string"},
           {"[bench]\ntime = true\n",
            "lathe.toml:2: time must be a duration as in \"10m\", or a number of seconds"},
           {"[bench]\ntime = '2 weeks'\n",
            "lathe.toml:2: --time: `2 weeks` is not a duration; write 90s, 10m or 1h"},
           {"threads = 5000\n", "lathe.toml:1: --threads: Value 5000 not in range 1 to 1024"},
           {"[bench]\nprecision = 'fp64'\n",
            "lathe.toml:2: --precision: `fp64` is not one of given, bf16, int8, float64"},
           {"[version]\njson = true\n", "lathe.toml:2: unknown key `json` in [version]"}}) {
    write_here(text);
    const Finished refused = run("bench --model none");
    EXPECT_EQ(refused.code, 2) << text;
    EXPECT_EQ(refused.output, "error: " + message + "\n");
  }
}

/// Else what a project says would silently not be so.
TEST_F(Config, ALinkThatLeadsNowhereIsRefused) {
  std::filesystem::create_symlink("moved.toml", folder_ / "lathe.toml");
  const Finished refused = run("bench --model none");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.output, "error: lathe.toml is not a file\n");
}

TEST_F(Config, DamagedFilesAreRefused) {
  for (const std::string& text :
       {std::string("threads = \n"), std::string("[bench\n"), std::string("threads = 1\nthreads = 2\n"),
        std::string("\xff\xfe"), "x = " + std::string(100000, '['), std::string("a\0b", 3)}) {
    write_here(text);
    const Finished refused = run("bench --model none");
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.output, StartsWith("error: lathe.toml:"));
  }
  write_here(std::string(2 << 20, '#'));
  EXPECT_EQ(run("bench").output, "error: lathe.toml is larger than 1048576 bytes\n");
  std::filesystem::remove(folder_ / "lathe.toml");
  std::filesystem::create_directory(folder_ / "lathe.toml");
  EXPECT_EQ(run("bench").output, "error: lathe.toml is not a file\n");
  EXPECT_THAT(run("bench --no-config").output, HasSubstr("--model is required"));
  EXPECT_EQ(run("bench --help").code, 0) << "help works whatever the files say";
  EXPECT_EQ(run("version").code, 0);
}

/// Whoever may write into a folder, /tmp say, would have the jobs of all who work there sent to a tracker of
/// theirs.
TEST_F(Config, AnotherUsersFileIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  write_here("tracker = \"http://127.0.0.1:1\"\n");
  ASSERT_EQ(chown((folder_ / "lathe.toml").c_str(), 65534, 65534), 0);
  const Finished refused = run("jobs");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(
      refused.output,
      "error: lathe.toml is another user's, who would decide what is done here; make it yours with chown, "
      "or leave it aside with --no-config\n");
  EXPECT_EQ(run("config show bench --json -- --no-config").code, 0);
  setenv("SUDO_UID", "65534", 1);
  EXPECT_EQ(run("config show bench --json").code, 0) << "it is theirs who became root";
  unsetenv("SUDO_UID");
}

TEST_F(Config, VariablesAreFlagsOrKnownOrRefused) {
  EXPECT_EQ(run("config show bench", "LATHE_THREADS=0").output,
            "error: LATHE_THREADS: --threads: Value 0 not in range 1 to 1024\n");
  EXPECT_EQ(run("config show bench", "LATHE_JSON=maybe").output,
            "error: LATHE_JSON: must be true or false, not `maybe`\n");
  EXPECT_EQ(run("config show bench", "LATHE_UNCONFIND=1").output,
            "error: environment: unknown variable LATHE_UNCONFIND; did you mean LATHE_UNCONFINED?\n");
  const Finished unknown = run("config show bench", "LATHE_QXZ=1");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.output,
            "error: environment: unknown variable LATHE_QXZ; `tune help environment` lists them\n");
  EXPECT_EQ(run("help environment", "LATHE_QXZ=1").code, 0);
  EXPECT_EQ(run("jobs --tracker http://127.0.0.1:1", "LATHE_TOKEN='a\nHost: b'").output,
            "error: LATHE_TOKEN must hold one token, on one line\n");
  EXPECT_EQ(run("config show bench", "LATHE_CACHE=/x LATHE_CHECK_BASE=HEAD").code, 0);
}

TEST_F(Config, NoFlagTakesASecret) {
  const nlohmann::json all = nlohmann::json::parse(run("config show --json").output);
  EXPECT_GT(all.size(), 10U);
  const std::regex secret(".*(token|password|secret)");
  for (const auto& [section, flags] : all.items())
    for (const auto& [key, value] : flags.items())
      EXPECT_FALSE(std::regex_match(key, secret)) << section << " --" << key << ": let it name a file";
}

TEST_F(Config, BadUseIsOneMessageAndExitCode2) {
  for (const auto& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
           {"config", "tune config: ACTION is required; see tune config --help"},
           {"config shw", "tune config: ACTION: `shw` is not one of show; did you mean `show`?"},
           {"config show benhc", "unknown command `benhc`; did you mean `bench`?"},
           {"config show bench -- --thread 2",
            "tune bench: unknown flag `--thread`; did you mean `--threads`?"}}) {
    const Finished refused = run(arguments);
    EXPECT_EQ(refused.code, 2) << arguments;
    EXPECT_EQ(refused.output, "error: " + message + "\n");
  }
}

}  // namespace
}  // namespace lathe::cli
