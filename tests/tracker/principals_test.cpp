#include "tracker/principals.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "core/support/text.h"

namespace lathe::tracker {
namespace {

/// Writes with a time that differs from the last.
void rewrite(const std::string& file, const std::string& text) {
  static int seconds = 0;
  write_file(file, text);
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++seconds));
}

TEST(Principals, AreKnownByTheirTokensOnly) {
  TemporaryFolder folder;
  const std::string alice = make_token(), ci = make_token();
  write_file(folder / "principals", "# people\n" + principal_line({"alice", Role::kSubmitter, 2, 5}, alice) +
                                        "\n\n" + principal_line({"ci", Role::kViewer}, ci) + "  # reads\n");
  Principals principals(folder / "principals");
  const auto found = principals.find(alice);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "alice");
  EXPECT_EQ(found->role, Role::kSubmitter);
  EXPECT_EQ(found->weight, 2);
  EXPECT_EQ(found->open_jobs, 5);
  EXPECT_EQ(principals.find(ci)->role, Role::kViewer);
  EXPECT_FALSE(principals.find(""));
  EXPECT_FALSE(principals.find(sha256(alice)));  // the file's text is no token
  EXPECT_FALSE(principals.find(make_token()));
  EXPECT_NE(alice, ci);
}

TEST(Principals, ALineTakenOutIsATokenRevoked) {
  TemporaryFolder folder;
  const std::string token = make_token(), file = folder / "principals";
  write_file(file, principal_line({"alice", Role::kAdmin}, token));
  Principals principals(file);
  ASSERT_TRUE(principals.find(token));
  rewrite(file, "");
  EXPECT_FALSE(principals.find(token));
  rewrite(file, principal_line({"alice", Role::kViewer}, token));
  EXPECT_EQ(principals.find(token)->role, Role::kViewer);
  rewrite(file, "nonsense");  // half an edit: as before
  EXPECT_TRUE(principals.find(token));
}

TEST(Principals, SayWhichLineIsWrong) {
  TemporaryFolder folder;
  const std::string digest(64, 'a');
  const std::pair<std::string, std::string> cases[] = {
      {"alice", ":1: must be NAME ROLE SHA256-OF-THE-TOKEN; `tune token` makes such lines"},
      {"\nalice admn " + digest, ":2: unknown role `admn`; did you mean `admin`?"},
      {"alice admin secret", ":1: the third word must be the sha256 of a token"},
      {"alice admin " + digest + " weight=0", ":1: `0` must be a number from 0.001 to 1000"},
      {"alice admin " + digest + " wieght=1", ":1: unknown `wieght`; did you mean `weight`?"},
      {"a admin " + digest + "\nb admin " + digest, ":2: the token is another's"},
  };
  for (const auto& [text, message] : cases) {
    const std::string file = folder / "principals";
    write_file(file, text);
    try {
      Principals principals(file);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), file + message);
    }
  }
}

}  // namespace
}  // namespace lathe::tracker
