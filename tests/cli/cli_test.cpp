#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/support/temporary_folder.h"
#include "core/support/text.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Tune, HelpListsTheCommands) {
  for (const char* arguments : {"", "--help", "help"}) {
    Finished finished = tune(arguments);
    EXPECT_EQ(finished.code, 0);
    EXPECT_THAT(finished.output, HasSubstr("\n  version "));
  }
}

TEST(Tune, VersionIsPrinted) {
  EXPECT_THAT(tune("version").output, ::testing::MatchesRegex("lathe 0\\.1\\.0 \\(.+\\)\n"));
  EXPECT_EQ(tune("--version").output, tune("version").output);
}

/// As `tune --help` lists them; "tune" is the main job.
std::vector<std::string> command_names() {
  const std::string list = tune("--help | sed -n '/^Commands:/,/^$/p' | grep '^  ' | cut -d' ' -f3").output;
  std::vector<std::string> names = split_text(list, '\n');
  std::erase(names, "");
  EXPECT_GT(names.size(), 15U);
  names.emplace_back("tune");
  return names;
}

TEST(Tune, EveryCommandHasHelpWithTwoExamples) {
  for (const std::string& name : command_names()) {
    Finished finished = tune("help " + name);
    EXPECT_EQ(finished.code, 0);
    const size_t examples = finished.output.find("\nExamples:\n");
    ASSERT_NE(examples, std::string::npos) << name;
    const std::string start = name == "tune" ? "  tune --" : "  tune " + name;
    const std::vector<std::string> lines = split_text(finished.output.substr(examples), '\n');
    EXPECT_GE(
        std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(start); }),
        2)
        << finished.output;
    if (name != "tune") {
      EXPECT_EQ(tune(name + " --help").output, finished.output);
    }
  }
}

/// Synopsis and examples are written by hand.
TEST(Tune, SynopsesAndExamplesNameFlagsThatExist) {
  const std::regex flag("--[a-z][a-z-]*");
  for (const std::string& name : command_names()) {
    const std::string help = tune("help " + name).output;
    std::string text = tune("man " + name + " | sed -n '/SYNOPSIS/,/\\.SH/p;/EXAMPLES/,/\\.SH/p'").output;
    std::erase(text, '\\');                                         // as roff escapes hyphens
    text = std::regex_replace(text, std::regex(" -- [^\n]*"), "");  // another command's
    for (std::sregex_iterator at(text.begin(), text.end(), flag), end; at != end; ++at)
      EXPECT_THAT(help, testing::ContainsRegex("\n  (-h,)?" + at->str() + "[ \n]")) << name;
  }
}

TEST(Tune, OutputThatDoesNotArriveIsAnError) {
  // Less than a buffer, and more.
  for (const char* command : {"version", "completion fish"}) {
    const Finished finished = run_command(fmt::format("({} {} > /dev/full)", TUNE, command));
    EXPECT_EQ(finished.code, 4);
    EXPECT_EQ(finished.output, "error: cannot write to stdout: No space left on device\n");
  }
}

TEST(Tune, MessagesThatDoNotArriveCostNoExitCode) {
  EXPECT_EQ(run_command(std::string("(") + TUNE + " benhc 2>/dev/full)").code, 2);
}

/// On a full disk, say: what is left behind must not be taken for a key, nor be in the way of the next try.
TEST(Tune, AKeyThatCannotBeWrittenLeavesNoFile) {
  const TemporaryFolder folder;
  const std::string keygen = fmt::format("{} keygen --out {}", TUNE, folder / "a.key");
  const Finished refused = run_command("(ulimit -f 0; " + keygen + ")");
  EXPECT_EQ(refused.code, 4);
  EXPECT_EQ(refused.output, fmt::format("error: cannot write {}: File too large\n", folder / "a.key"));
  EXPECT_EQ(run_command(keygen).code, 0);
}

TEST(Tune, MessagesAreOnStderrAndDataIsOnStdout) {
  EXPECT_EQ(run_command(std::string("(") + TUNE + " benhc 2>/dev/null)").output, "");
  EXPECT_THAT(run_command(std::string("(") + TUNE + " version 2>/dev/null)").output,
              testing::StartsWith("lathe "));
}

TEST(Tune, EscapesGoToTerminalsAloneAndColoursAreRefusable) {
  EXPECT_THAT(tune("benhc").output, Not(HasSubstr("\x1b")));
  const auto on_terminal = [](const std::string& variables) {
    return run_command(fmt::format("env TERM=xterm {} script -qec '{} benhc' /dev/null", variables, TUNE))
        .output;
  };
  EXPECT_THAT(on_terminal("NO_COLOR="), testing::StartsWith("\x1b[31merror:\x1b[0m unknown command"));
  EXPECT_THAT(on_terminal("NO_COLOR=1"), testing::StartsWith("error: unknown command"));
  EXPECT_THAT(on_terminal("TERM=dumb"), testing::StartsWith("error: unknown command"));
}

TEST(Tune, NumbersHaveTenDigits) {
  const auto threads = [](const std::string& text) {
    return tune("config show bench -- --threads '" + text + "' 2>&1 | grep threads").output;
  };
  EXPECT_THAT(threads("010"), HasSubstr("threads = 10\n"));
  EXPECT_THAT(threads("0x10"), HasSubstr("--threads: Value 0x10 not in range 1 to 1024; see"));
  EXPECT_THAT(threads("4 "), HasSubstr("--threads: Value 4  not in range 1 to 1024; see"));
}

TEST(Tune, BracketsArePartOfAValue) {
  EXPECT_THAT(tune("run --model dqn --untuned --input '[a,b]'").output,
              HasSubstr("--input [a,b]: must be NAME=FILE.npy"));
}

/// What is printed is half of it: the file alone would be in the way of the next try.
TEST(Tune, NoSecretIsLeftWhoseOtherHalfNobodyGot) {
  const TemporaryFolder folder;
  for (const char* command : {"token --name a", "keygen"}) {
    const std::string path = folder / "secret";
    EXPECT_EQ(tune(fmt::format("{} --out {} >/dev/full", command, path)).code, 4);
    EXPECT_FALSE(std::filesystem::exists(path)) << command;
  }
}

/// Whoever could read them would know all models, and could hold the locks that a tracker needs.
TEST(Tune, WhatATrackerKeepsIsItsUsersAlone) {
  const TemporaryFolder folder;
  run_command(fmt::format(
      TUNE
      " tracker --db {0}/t.db --listen ipc://{0}/socket --http 127.0.0.1:0 --quiet & tracker=$!; "
      "for i in $(seq 100); do test -e {0}/t.db-files/lock && break; sleep 0.1; done; kill $tracker; wait",
      folder.path()));
  for (const char* name : {"/t.db", "/t.db-claims", "/t.db-files", "/t.db-files/lock"}) {
    const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
    EXPECT_EQ(std::filesystem::status(folder.path() + name).permissions() & others,
              std::filesystem::perms::none)
        << name;
    EXPECT_TRUE(std::filesystem::exists(folder.path() + name)) << name;
  }
}

TEST(Tune, ExitCodesAreATable) {
  const std::string table = tune("help exit-codes").output;
  for (const char* code : {"   0  ", "   1  ", "   2  ", "   3  ", "   4  ", "   5  ", " 130  "})
    EXPECT_THAT(table, HasSubstr(code));
}

TEST(Tune, VersionIsJsonWhenAsked) {
  EXPECT_EQ(nlohmann::json::parse(tune("version --json").output)["version"], "0.1.0");
}

struct BadUse {
  const char* arguments;
  const char* message;
};

class BadUses : public ::testing::TestWithParam<BadUse> {};

TEST_P(BadUses, AreOneMessageAndExitCode2) {
  Finished finished = tune(GetParam().arguments);
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.output, std::string("error: ") + GetParam().message + "\n");
}

constexpr BadUse kBadUses[] = {
    {"versoin", "unknown command `versoin`; did you mean `version`?"},
    {"zzz", "unknown command `zzz`; see tune --help"},
    {"--model dqn --whole-model 3s --tracker http://127.0.0.1:1",
     "tune: --whole-model excludes --tracker; see tune help tune"},
    {"submit --model dqn --whole-model 3s --tracker http://127.0.0.1:1",
     "tune submit: unknown flag `--whole-model`; see tune submit --help"},
    {"version --halp", "tune version: unknown flag `--halp`; did you mean `--help`?"},
    {"token --name 'a\x0b' --out none.token", "--name: the name must be UTF-8 without control characters"},
    {"token --name a --weight 5000 --out none.token", "--weight: `5000` must be a number from 0.001 to 1000"},
    {"token --name a --weight 0.0001 --out none.token",
     "--weight: `0.0001` must be a number from 0.001 to 1000"},
    {"token --name '\xff' --out none.token", "--name: the name must be UTF-8 without control characters"},
    {"keygen --output worker.key", "tune keygen: unknown flag `--output`; did you mean `--out`?"},
    {"version --zzz=3", "tune version: unknown flag `--zzz`; see tune version --help"},
    {"--model 'a\x0b.relay' --out none",
     "the name of the model a\\x0b.relay has characters that cannot be shown; rename its file"},
    {"help benhc", "tune help: nothing is known about `benhc`; did you mean `bench`?"},
    {"bench", "tune bench: --model is required; see tune bench --help"},
    {"eval", "tune eval: FILE is required; see tune eval --help"},
    {"version now", "tune version: unexpected argument `now`; see tune version --help"},
    {"tracker --http 127.example.com:9191",
     "--http 127.example.com:9191: other machines can reach it, so users need tokens\n"
     "  hint: tune token --name alice --out alice.token >> principals, then --principals principals"},
    {"submit --tracker http://127.0.0.1:1 --model dqn --needs memory",
     "--needs `memory`: write it as PROPERTY=AMOUNT"},
    {"submit --tracker http://127.0.0.1:1 --model dqn --needs memroy=1GiB",
     "devices have no property `memroy` (there are memory, cores, driver); did you mean `memory`?"},
    {"--model dqn --needs memory=1GiB",
     "--device and --needs choose among a tracker's devices; name it with --tracker"},
    // As a script's variable that is not set gives it: the usual database, or no key at all, was taken.
    {"query best --model dqn --db ''", "tune query: --db is empty; see tune query --help"},
    {"compile --model dqn --untuned --out ''", "tune compile: --out is empty; see tune compile --help"},
    {"worker --tracker tcp://127.0.0.1:1 --key ''", "tune worker: --key is empty; see tune worker --help"},
    {"keygen --out ''", "tune keygen: --out is empty; see tune keygen --help"},
    {"worker --name= --no-such-flag", "tune worker: --name is empty; see tune worker --help"},
    {"query --db= jobs", "tune query: --db is empty; see tune query --help"},
    {"run --model dqn --input x=x.npy --input ''", "tune run: --input is empty; see tune run --help"},
    {"man ''", "tune man: COMMAND is empty; see tune man --help"},
    {"tracker --db /etc/hostname --http 127.0.0.1:0",
     "/etc/hostname is not a database of lathe; name another file"},
    {"worker --tracker tcp://127.0.0.1:99999",
     "cannot connect to tcp://127.0.0.1:99999: a tracker's address is tcp://HOST:PORT or ipc://PATH"},
    {"worker --tracker tcp://127.0.0.1:1 --name \"$(printf 'a\\033b')\"",
     "--name a\\x1bb: must be UTF-8 of 256 bytes at most, without control characters"},
    {"worker --tracker tcp://127.0.0.1:1 --name \"$(printf 'a\\377')\"",
     "--name a\xef\xbf\xbd: must be UTF-8 of 256 bytes at most, without control characters"},
    {"jobs --tracker http://", "--tracker http://: must be http://HOST:PORT or https://HOST:PORT"},
    {"jobs --tracker http://alice:secret@127.0.0.1:1",
     "--tracker: an address names no user; tokens are given with --token-file or LATHE_TOKEN"},
    // More nanoseconds than a clock counts: nothing would be watched.
    {"doctor --watch 1e10", "--watch: `1e10` is more than 1000000000 s"},
    {"doctor --watch 1e308h", "--watch: `1e308h` is more than 1000000000 s"},
};
INSTANTIATE_TEST_SUITE_P(, BadUses, ::testing::ValuesIn(kBadUses));

}  // namespace
}  // namespace lathe::cli
