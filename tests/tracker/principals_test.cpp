#include "tracker/principals.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/thrown_by.h"

namespace lathe::tracker {
namespace {

/// Writes with a time that differs from the last.
void rewrite(const std::string& file, const std::string& text) {
  static int seconds = 0;
  write_file(file, text);
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++seconds));
}

/// Who writes a file may have written a part of it only.
TEST(Principals, WaitUntilAFileIsWhole) {
  TemporaryFolder folder;
  const std::string token = make_token(), file = folder / "principals";
  write_file(file, principal_line({"alice", Role::kAdmin}, token));
  Principals principals(file);
  rewrite(file, principal_line({"alice", Role::kViewer}, token));
  EXPECT_EQ(principals.find(token)->role, Role::kViewer);
  write_file(file, "");
  const bool known = principals.find(token).has_value();
  const auto age = std::filesystem::file_time_type::clock::now() - std::filesystem::last_write_time(file);
  if (age < std::chrono::milliseconds(200)) {
    EXPECT_TRUE(known) << "it is being written";
  }
  for (int i = 0; i < 100 && principals.find(token); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(principals.find(token));
}

/// With all that could be taken for a comment or an option.
const std::string kKey = "a#.:-=+^!/*?&<>()[]{}@%$#0123456789abcde";

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

TEST(Principals, KeysAreWorkers) {
  TemporaryFolder folder;
  const std::string other(40, 'k'), third(40, 't');
  rewrite(folder / "principals", "lab worker curve:" + kKey +
                                     " workers=2 slots=16 names=lab-*  # the lab's\n" +
                                     "# nobody worker curve:" + third + "\n" + "ci viewer curve:" + other);
  rewrite(folder / "allowed", "# old\n" + kKey + " # in both\n" + third + "\n#" + kKey + "\n");
  Principals principals(folder / "principals", folder / "allowed");
  const auto keys = principals.keys();
  ASSERT_EQ(keys.size(), 3u);
  const Principal& lab = keys.at(kKey);
  EXPECT_EQ(lab.name, "lab");
  EXPECT_EQ(lab.role, Role::kWorker);
  EXPECT_EQ(lab.workers, 2u);
  EXPECT_EQ(lab.slots, 16u);
  EXPECT_TRUE(lab.owns("lab-1/0"));
  EXPECT_FALSE(lab.owns("my-lab-1"));
  EXPECT_EQ(keys.at(other).role, Role::kViewer);
  EXPECT_EQ(keys.at(third).role, Role::kWorker);
  EXPECT_FALSE(keys.at(third).owns("lab-1")) << "any name, but none is its own";
  EXPECT_FALSE(principals.find(kKey)) << "no token";
  const uint64_t before = principals.edition();
  rewrite(folder / "allowed", kKey + " and more");
  EXPECT_EQ(principals.edition(), before) << "half an edit: as before";
  rewrite(folder / "allowed", third);
  EXPECT_NE(principals.edition(), before);
  EXPECT_EQ(principals.keys().size(), 3u);
}

TEST(Principals, SayWhichLineIsWrong) {
  TemporaryFolder folder;
  const std::string digest(64, 'a');
  const std::pair<std::string, std::string> cases[] = {
      {"alice",
       ":1: must be NAME ROLE SHA256-OF-THE-TOKEN, as `tune token` makes them, or NAME ROLE curve:KEY"},
      {"\nalice admn " + digest, ":2: unknown role `admn`; did you mean `admin`?"},
      {"alice admin secret", ":1: the third word must be the sha256 of a token, or curve: and a public key"},
      {"alice admin " + digest + " weight=0", ":1: `0` must be a number from 0.001 to 1000"},
      {"alice admin " + digest + " wieght=1", ":1: unknown `wieght`; did you mean `weight`?"},
      {"a admin " + digest + "\nb admin " + digest, ":2: the token is another's"},
      {"lab worker " + digest, ":1: a worker has no token but a key: curve:KEY"},
      {"lab worker curve:short", ":1 is no key: 40 characters of Z85, as `tune keygen` makes them"},
      {"lab worker curve:" + kKey + " weight=2", ":1: unknown `weight`"},
      {"lab worker curve:" + kKey + " worker=2", ":1: unknown `worker`; did you mean `workers`?"},
      {"lab worker curve:" + kKey + " workers=-1", ":1: `-1` must be a number from 0 to 1024"},
      {"lab worker curve:" + kKey + " slots=1e9", ":1: `1e9` must be a number from 0 to 1048576"},
      {"lab worker curve:" + kKey + " names=", ":1: `names=` must be OPTION=VALUE"},
      {"a worker curve:" + kKey + "\nb viewer curve:" + kKey, ":2: the key is another's"},
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

TEST(Principals, StandInAFileThatOthersCannotWrite) {
  TemporaryFolder folder;
  const std::string token = make_token(), file = folder / "principals";
  write_file(file, principal_line({"alice", Role::kViewer}, token));
  for (const auto others : {std::filesystem::perms::others_write, std::filesystem::perms::group_write}) {
    std::filesystem::permissions(file, others, std::filesystem::perm_options::add);
    EXPECT_EQ(thrown_by([&] { Principals principals(file); }),
              file +
                  " can be written by others, who could let themselves in; take that away with chmod go-w " +
                  file);
    std::filesystem::permissions(file, others, std::filesystem::perm_options::remove);
  }
  EXPECT_TRUE(Principals(file).find(token));
}

TEST(Principals, StandInAFileOfTheirOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  TemporaryFolder folder;
  const std::string file = folder / "principals";
  write_file(file, principal_line({"alice", Role::kViewer}, make_token()));
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_EQ(thrown_by([&] { Principals principals(file); }),
            file + " is another user's, who could let themselves in; make it yours with chown");
}

TEST(Principals, WeighByName) {
  TemporaryFolder folder;
  const std::string file = folder / "principals", digest(64, 'a'), other(64, 'b'), third(64, 'c');
  write_file(file, fmt::format("alice submitter {} weight=2\nalice viewer {} weight=0.5\nbob submitter {}\n",
                               digest, other, third));
  EXPECT_EQ(Principals(file).weights(), (std::map<std::string, double>{{"alice", 2}, {"bob", 1}}));
  EXPECT_TRUE(Principals("").weights().empty());
}

/// By name, as whoever owns jobs need not be asking just now.
TEST(Principals, WhatAUsersJobsMayKeep) {
  TemporaryFolder folder;
  const std::string file = folder / "principals", digest(64, 'a'), other(64, 'b'), third(64, 'c');
  write_file(file,
             fmt::format("alice submitter {} kept-gib=1.5\nalice viewer {} kept-gib=0.5\nbob submitter {}\n",
                         digest, other, third));
  Principals principals(file);
  EXPECT_EQ(principals.kept_bytes("alice"), uint64_t{3} << 29) << "of two tokens the one that allows more";
  EXPECT_EQ(principals.kept_bytes("bob"), defaults::kKeptBytesOfOne);
  EXPECT_EQ(principals.kept_bytes("nobody"), defaults::kKeptBytesOfOne);
  EXPECT_EQ(Principals("").kept_bytes("local"), UINT64_MAX);
}

}  // namespace
}  // namespace lathe::tracker
