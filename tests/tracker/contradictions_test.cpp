// Whose word is contradicted: by whom, and by how much.
#include "tracker/contradictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::tracker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Word word(std::string worker, double seconds, std::string owner = "", double canary = 0) {
  return {.worker = std::move(worker),
          .owner = std::move(owner),
          .seconds = seconds,
          .compute = {.seconds = canary},
          .memory = {.seconds = canary}};
}

std::vector<std::string> contradicted(const std::vector<Word>& words) {
  std::vector<std::string> names;
  for (const Contradicted& one : find_dispute(words).contradicted) names.push_back(one.worker);
  return names;
}

TEST(Contradictions, AreOfTwoThatAgreeAgainstOne) {
  EXPECT_THAT(contradicted({word("u", 1), word("v", 1.1), word("w", 0.5)}), ElementsAre("w"));
  EXPECT_THAT(contradicted({word("u", 1), word("v", 1.1), word("w", 2)}), ElementsAre("w"));
  EXPECT_THAT(contradicted({word("u", 1), word("v", 1.1), word("w", 0.9)}), IsEmpty()) << "about the same";
  EXPECT_THAT(contradicted({word("u", 1), word("v", 2), word("w", 0.5)}), IsEmpty()) << "all disagree";
  EXPECT_THAT(contradicted({word("u", 1), word("v", 1), word("w", 0.5), word("x", 0.5)}), IsEmpty());
  const Dispute dispute = find_dispute(std::vector{word("u", 1), word("v", 1.1), word("w", 0.5)});
  EXPECT_EQ(dispute.contradicted.at(0).reason,
            "it says that a candidate takes 0.5 s, and u and v that it takes 1 s and 1.1 s");
  EXPECT_EQ(dispute.open, "");
}

TEST(Contradictions, OfTwoNobodyKnows) {
  const Dispute dispute = find_dispute(std::vector{word("u", 1), word("w", 0.5)});
  EXPECT_THAT(dispute.contradicted, IsEmpty());
  EXPECT_EQ(dispute.open, "w says that a candidate takes 0.5 s, and u 1 s");
  EXPECT_EQ(find_dispute(std::vector{word("u", 1), word("w", 1.4)}).open, "");
}

/// A class is of machines that may differ: by what their canaries take, at least.
TEST(Contradictions, AreNoneWhereTheMachinesDiffer) {
  const std::vector<Word> words = {word("u", 1, "", 1e-5), word("v", 1, "", 1.1e-5),
                                   word("w", 2, "", 1.6e-5)};
  EXPECT_THAT(contradicted(words), IsEmpty());
  EXPECT_THAT(contradicted({words[0], words[1], word("w", 2, "", 1e-5)}), ElementsAre("w"));
}

/// Whoever has a key starts as many workers as it likes.
TEST(Contradictions, ACrowdOfOneOwnerIsOneVoice) {
  EXPECT_THAT(contradicted({word("u", 1, "k"), word("v", 1, "k"), word("w", 0.5, "l")}), IsEmpty());
  EXPECT_THAT(contradicted({word("u", 1, "k"), word("v", 1, "m"), word("w", 0.5, "l")}), ElementsAre("w"));
  EXPECT_THAT(contradicted({word("u", 1, "k"), word("v", 1, "m"), word("w", 0.5, "l"), word("x", 0.5, "l")}),
              ElementsAre("w", "x"))
      << "nor do they back each other";
  EXPECT_THAT(contradicted({word("u", 1, "k"), word("v", 1, "k"), word("w", 0.5, "k")}), ElementsAre("w"))
      << "among its own each speaks for itself";
}

}  // namespace
}  // namespace lathe::tracker
