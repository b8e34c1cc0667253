#include "tuner/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/support/error.h"
#include "core/support/statistics.h"
#include "schedules/random.h"
#include "tests/thrown_by.h"

namespace lathe::tuner {
namespace {

using ::testing::HasSubstr;

constexpr size_t kWidth = 12;

/// A candidate of 1 to 4 stores. Each store costs time by an interaction of tile size and vector width, a
/// threshold (a cache), and a task's own factor; the other features say nothing.
Sample make_sample(int task, schedule::Random& random) {
  Sample sample{.task = task, .features = {.width = kWidth}};
  int rows = 1 + static_cast<int>(random.below(4));
  for (int row = 0; row < rows; ++row) {
    float work = static_cast<float>(random.unit()), tile = static_cast<float>(random.below(8)),
          vector = static_cast<float>(random.below(5));
    float features[kWidth] = {work, tile, vector, static_cast<float>(task)};
    for (size_t i = 4; i < kWidth; ++i) features[i] = static_cast<float>(random.unit());
    sample.features.values.insert(sample.features.values.end(), features, features + kWidth);
    double cost =
        (0.2 + work) * (4.0 / (1 + std::min(vector, 3.f)) + std::abs(tile - 4) * 0.5) + (tile > 6 ? 3 : 0);
    sample.seconds += cost * (1 + task) * 1e-3;
  }
  sample.seconds *= 1 + 0.05 * (random.unit() - 0.5);  // noise of measuring
  return sample;
}

std::vector<Sample> make_samples(int tasks, int each, uint64_t seed) {
  schedule::Random random(seed);
  std::vector<Sample> samples;
  for (int i = 0; i < each; ++i)
    for (int task = 0; task < tasks; ++task) samples.push_back(make_sample(task, random));
  return samples;
}

std::vector<float> scores(const CostModel& model, const std::vector<Sample>& samples) {
  std::vector<Features> features;
  for (const Sample& sample : samples) features.push_back(sample.features);
  return model.predict(features);
}

TEST(CostModel, RanksCandidatesItHasNotSeen) {
  std::vector<Sample> samples = make_samples(3, 200, 1);
  CostModel model({.seed = 7});
  RankQuality quality = model.train(samples);
  RecordProperty("spearman", std::to_string(quality.spearman));
  RecordProperty("recall", std::to_string(quality.recall));
  EXPECT_EQ(quality.samples, 120);
  EXPECT_GT(quality.spearman, 0.8);
  EXPECT_GT(quality.recall, 0.5);
  // The same by hand on another set of one task.
  std::vector<Sample> unseen = make_samples(1, 200, 2);
  std::vector<float> truth;
  for (const Sample& sample : unseen) truth.push_back(static_cast<float>(-sample.seconds));
  EXPECT_GT(spearman(scores(model, unseen), truth), 0.8);
}

TEST(CostModel, SaysSoWhenThereIsNothingToLearn) {
  std::vector<Sample> samples = make_samples(1, 300, 1);
  schedule::Random random(3);
  for (Sample& sample : samples) sample.seconds = 1 + random.unit();
  CostModel model;
  RankQuality quality = model.train(samples);
  EXPECT_LT(std::abs(quality.spearman), 0.35);
}

TEST(CostModel, IsDeterministicAndSurvivesSaving) {
  std::vector<Sample> samples = make_samples(2, 50, 1);
  CostModel first({.seed = 5}), second({.seed = 5});
  first.train(samples);
  second.train(samples);
  std::vector<float> expected = scores(first, samples);
  EXPECT_EQ(scores(second, samples), expected);
  EXPECT_EQ(first.save(), second.save());
  EXPECT_EQ(scores(CostModel::load(first.save()), samples), expected);
}

TEST(CostModel, FailedCandidatesRankLast) {
  std::vector<Sample> samples = make_samples(1, 200, 1);
  for (Sample& sample : samples)
    if (sample.features.values[4] > 0.7f) sample.seconds = std::numeric_limits<double>::infinity();
  CostModel model;
  EXPECT_GT(model.train(samples).samples, 0);
  std::vector<float> predicted = scores(model, samples), failed, worked;
  for (size_t i = 0; i < samples.size(); ++i)
    (std::isinf(samples[i].seconds) ? failed : worked).push_back(predicted[i]);
  EXPECT_LT(summarize(failed).median, summarize(worked).p25);
}

TEST(CostModel, FewSamplesAreEnoughToStart) {
  std::vector<Sample> samples = make_samples(1, 3, 1);
  CostModel model;
  EXPECT_FALSE(model.trained());
  EXPECT_EQ(model.train(samples).samples, 0);  // too few to judge
  EXPECT_TRUE(model.trained());
  EXPECT_EQ(scores(model, samples).size(), 3u);
  EXPECT_TRUE(model.predict({}).empty());
}

TEST(CostModel, ForeignBytesAreAnError) {
  auto message = [](const std::string& bytes) -> std::string {
    return thrown_by([&] { CostModel::load(bytes); });
  };
  EXPECT_EQ(message("junk"),
            "cannot read the cost model: it does not begin with `lathe-cost-model 2 ` and a width");
  const auto of_trees = [&](const std::string& trees) { return message("lathe-cost-model 2 12\n" + trees); };
  EXPECT_EQ(of_trees("not trees"), "cost model: no list of trees");
  EXPECT_EQ(of_trees("[]"), "cost model: no list of trees");
  EXPECT_EQ(of_trees("[3]"), "cost model: a tree of 0 nodes");
  EXPECT_EQ(of_trees(std::string(100000, '[')), "cost model is nested more than 4 deep");
  const auto of_root = [&](int feature, int left, int right) {
    return of_trees(fmt::format(
        R"([{{"feature":[{},-1,-1],"value":[0,1,2],"left":[{},0,0],"right":[{},0,0],"missing_left":[1,0,0]}}])",
        feature, left, right));
  };
  EXPECT_EQ(of_root(11, 1, 2), "no error");
  EXPECT_EQ(of_root(12, 1, 2), "cost model: node 0 of 3 asks for feature 12 of 12 and leads to 1 and 2");
  EXPECT_EQ(of_root(0, 0, 2), "cost model: node 0 of 3 asks for feature 0 of 12 and leads to 0 and 2")
      << "for ever";
  EXPECT_EQ(of_root(0, 1, 3), "cost model: node 0 of 3 asks for feature 0 of 12 and leads to 1 and 3");
}

/// A database may come from anywhere: what is loaded gives scores, or an Error.
TEST(CostModel, DamagedModelsDoNoHarm) {
  std::vector<Sample> samples = make_samples(2, 50, 1);
  CostModel model({.trees = 6});
  model.train(samples);
  const std::string saved = model.save();
  schedule::Random random(11);
  int loaded = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bytes = saved;
    for (uint64_t damage = 1 + random.below(4); damage > 0; --damage) {
      const size_t at = random.below(bytes.size());
      if (random.below(8) == 0)
        bytes.resize(at + 1);
      else
        bytes[at] = random.below(2) ? static_cast<char>('0' + random.below(10))
                                    : static_cast<char>(random.below(256));
    }
    try {
      CostModel damaged = CostModel::load(bytes);
      if (damaged.width() != samples[0].features.width) continue;
      EXPECT_EQ(scores(damaged, samples).size(), samples.size());
      ++loaded;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(loaded, 40) << "or nothing was tried";
}

}  // namespace
}  // namespace lathe::tuner
