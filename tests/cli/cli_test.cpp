#include <gmock/gmock.h>

#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;

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

TEST(Tune, EveryCommandHasHelpWithExamples) {
  for (std::string name : {"bench", "run", "version"}) {
    Finished finished = tune(name + " --help");
    EXPECT_EQ(finished.code, 0);
    EXPECT_THAT(finished.output, HasSubstr("Examples:\n  tune " + name));
  }
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
    {"version --halp", "tune version: unknown flag `--halp`; did you mean `--help`?"},
    {"version --zzz=3", "tune version: unknown flag `--zzz`; see tune version --help"},
    {"version now", "tune version: unexpected argument `now`; see tune version --help"},
};
INSTANTIATE_TEST_SUITE_P(, BadUses, ::testing::ValuesIn(kBadUses));

}  // namespace
}  // namespace lathe::cli
