#include "tracker/contradictions.h"

#include <fmt/core.h>

#include <algorithm>

#include "tracker/defaults.h"

namespace lathe::tracker {
namespace {

double ratio(double a, double b) { return std::max(a, b) / std::min(a, b); }

/// How much slower one of the machines is than the other, by itself: 1 where that is not known.
double machines_differ_by(const Word& a, const Word& b) {
  double most = 1;
  for (const db::CanaryLevel Word::*level : {&Word::compute, &Word::memory})
    if ((a.*level).seconds > 0 && (b.*level).seconds > 0)
      most = std::max(most, ratio((a.*level).seconds, (b.*level).seconds));
  return most;
}

bool are_apart(const Word& a, const Word& b) {
  return ratio(a.seconds, b.seconds) > defaults::kContradicts * machines_differ_by(a, b);
}

/// Two of `others` by whom the word is contradicted; or none.
std::vector<Word> find_accusers(const Word& word, const std::vector<Word>& others) {
  std::vector<Word> slower, faster;
  for (const Word& other : others) {
    if (!are_apart(word, other)) return {};
    (other.seconds > word.seconds ? slower : faster).push_back(other);
  }
  const auto voice = [&](const Word& other) {
    return other.owner == word.owner ? other.worker : other.owner;
  };
  for (const std::vector<Word>* accusers : {&slower, &faster})
    for (const Word& one : *accusers)
      for (const Word& other : *accusers)
        if (voice(one) != voice(other) && !are_apart(one, other)) return {one, other};
  return {};
}

}  // namespace

Dispute find_dispute(std::span<const Word> words) {
  Dispute dispute;
  for (const Word& word : words) {
    std::vector<Word> all, of_other_owners;
    for (const Word& other : words) {
      if (other.worker == word.worker) continue;
      all.push_back(other);
      if (other.owner != word.owner) of_other_owners.push_back(other);
      if (dispute.open.empty() && other.seconds > word.seconds && are_apart(word, other))
        dispute.open = fmt::format("{} says that a candidate takes {:g} s, and {} {:g} s", word.worker,
                                   word.seconds, other.worker, other.seconds);
    }
    // Those of its own owner may be its accomplices: what they say for it counts only where no two others
    // tell.
    std::vector<Word> accusers = find_accusers(word, of_other_owners);
    if (accusers.empty()) accusers = find_accusers(word, all);
    if (accusers.empty()) continue;
    dispute.contradicted.push_back(
        {word.worker, fmt::format("it says that a candidate takes {:g} s, and {} and {} that it takes {:g} s "
                                  "and {:g} s",
                                  word.seconds, accusers[0].worker, accusers[1].worker, accusers[0].seconds,
                                  accusers[1].seconds)});
  }
  if (!dispute.contradicted.empty()) dispute.open.clear();
  return dispute;
}

}  // namespace lathe::tracker
