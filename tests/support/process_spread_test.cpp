#include "core/support/process_spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/support/statistics.h"

namespace lathe {
namespace {

TEST(ProcessSpread, StudentsQuantilesAreThoseOfTables) {
  EXPECT_NEAR(student_quantile(0.95, 1), 12.7062, 1e-3);
  EXPECT_NEAR(student_quantile(0.95, 2), 4.30265, 1e-4);
  EXPECT_NEAR(student_quantile(0.95, 5), 2.57058, 1e-4);
  EXPECT_NEAR(student_quantile(0.99, 10), 3.16927, 1e-4);
  EXPECT_NEAR(student_quantile(0.95, 30), 2.04227, 1e-4);
  EXPECT_NEAR(student_quantile(0.95, 1e4), 1.96020, 1e-3);
}

TEST(ProcessSpread, OfOneProcessNothingIsKnown) {
  ProcessSpread one, two;
  one.add(std::vector{1.0});
  const std::vector<TimedTerm> unknown{{1, 1, one}};
  EXPECT_FALSE(interval_of_sum(unknown, 0.95));
  two.add(std::vector{1.0, 1.1});
  EXPECT_EQ(two.freedom(), 1);
  // What has no spread of its own is taken for like the others.
  const std::vector<TimedTerm> one_known{{1, 1, one}, {1, 2, two}};
  const auto both = interval_of_sum(one_known, 0.95);
  ASSERT_TRUE(both);
  EXPECT_LT(both->low, 2 * 0.9);
  EXPECT_GT(both->high, 2 * 1.1);
  const std::vector<TimedTerm> alike{{1, 2, [] {
                                        ProcessSpread none;
                                        none.add(std::vector{2.0, 2.0});
                                        return none;
                                      }()}};
  EXPECT_EQ(interval_of_sum(alike, 0.95)->low, 1);
  EXPECT_EQ(interval_of_sum(alike, 0.95)->high, 1);
}

/// Searches as a job ends them: of each task some candidates are measured twice more, and who is first by
/// these is measured twice more again, each time by a process of its own.
struct Search {
  const char* what;
  int tasks = 1, leaders = 5;
  double process = 0.05, unequal = 0;  // spread of processes; by how much tasks differ in it
  int told = 2;
};

struct Simulation {
  std::mt19937_64 random{7};
  std::normal_distribution<> normal;

  double process(double seconds, double spread) { return seconds * std::exp(spread * normal(random)); }

  /// Whether the interval holds what the winners truly take.
  bool covers(const Search& search) {
    std::vector<TimedTerm> terms;
    double truth = 0;
    for (int task = 0; task < search.tasks; ++task) {
      const double weight = std::exp(1.5 * normal(random));
      const double spread = search.process * std::exp(search.unequal * normal(random));
      TimedTerm term{.processes = static_cast<size_t>(search.told)};
      double best = 1e9, best_truth = 0;
      for (int leader = 0; leader < search.leaders; ++leader) {
        const double its = weight * (1 + 0.02 * leader);
        const std::vector<double> medians{process(its, spread), process(its, spread)};
        term.spread.add(medians);
        if (medians[0] + medians[1] < best) best = medians[0] + medians[1], best_truth = its;
      }
      std::vector<double> told;
      for (int i = 0; i < search.told; ++i) told.push_back(process(best_truth, spread));
      term.spread.add(told);
      const std::vector<float> floats(told.begin(), told.end());
      term.seconds = summarize(floats).median;
      truth += best_truth;
      terms.push_back(term);
    }
    const TimeInterval interval = interval_of_sum(terms, 0.95).value();
    return interval.low <= truth && truth <= interval.high;
  }
};

class Covers : public testing::TestWithParam<Search> {};

TEST_P(Covers, NinetyFiveOfAHundred) {
  constexpr int kSearches = 2000;
  Simulation simulation;
  int covered = 0;
  for (int i = 0; i < kSearches; ++i) covered += simulation.covers(GetParam());
  const double share = static_cast<double>(covered) / kSearches;
  std::printf("%s: %.1f%%\n", GetParam().what, 100 * share);
  EXPECT_GT(share, 0.93);
  EXPECT_LT(share, 0.98);
}

INSTANTIATE_TEST_SUITE_P(ProcessSpread, Covers,
                         testing::Values(Search{"one task", 1}, Search{"one task, one leader", 1, 1},
                                         Search{"twenty tasks", 20}, Search{"noisy tasks", 20, 5, 0.1, 1},
                                         Search{"twenty of one leader", 20, 1, 0.05, 0.5},
                                         Search{"quiet", 5, 5, 0.001, 0}, Search{"wild", 5, 5, 0.3, 0},
                                         Search{"told often", 5, 5, 0.05, 0, 6},
                                         Search{"told thrice", 3, 5, 0.05, 0, 3}));

}  // namespace
}  // namespace lathe
