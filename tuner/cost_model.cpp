#include "tuner/cost_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/support/error.h"
#include "core/support/statistics.h"
#include "schedules/random.h"

namespace lathe::tuner {

namespace {

constexpr std::string_view kMagic = "lathe-cost-model 1 ";

/// Candidates slower than this many times the task's best are all as bad, and failures are as bad as they.
constexpr float kWorstSlowdown = 100;
/// A failure teaches as much as a candidate of this slowdown: at its own it would teach next to nothing.
constexpr float kFailureWeight = 1 / (10.f * 10.f);

/// All rows of some candidates, and which candidate each belongs to.
struct Packed {
  std::vector<float> values;
  std::vector<size_t> owner;
};

void append(Packed& packed, const Features& features, size_t width, size_t candidate) {
  CHECK(features.width == width && features.rows() > 0, "{} rows of width {}, expected {}", features.rows(),
        features.width, width);
  packed.values.insert(packed.values.end(), features.values.begin(), features.values.end());
  packed.owner.insert(packed.owner.end(), features.rows(), candidate);
}

std::vector<float> sum_rows(const std::vector<float>& rows, const std::vector<size_t>& owner,
                            size_t candidates) {
  std::vector<float> sums(candidates);
  for (size_t row = 0; row < rows.size(); ++row) sums[owner[row]] += rows[row];
  return sums;
}

/// Latency relative to the task's best: 1 for the fastest.
std::vector<float> slowdowns(std::span<const Sample> samples) {
  std::map<int, double> fastest;
  for (const Sample& sample : samples) {
    auto [best, added] = fastest.emplace(sample.task, sample.seconds);
    if (!added) best->second = std::min(best->second, sample.seconds);
  }
  std::vector<float> result;
  for (const Sample& sample : samples) {
    double slowdown = std::isfinite(sample.seconds) ? sample.seconds / fastest[sample.task] : kWorstSlowdown;
    result.push_back(std::min(static_cast<float>(slowdown), kWorstSlowdown));
  }
  return result;
}

/// Boosts on the squared relative error of a candidate's sum; each row of a candidate gets the derivatives of
/// the sum.
Trees learn(std::span<const Sample> samples, size_t width, const CostModelOptions& options) {
  Packed packed;
  std::vector<float> truth = slowdowns(samples);
  for (size_t i = 0; i < samples.size(); ++i) append(packed, samples[i].features, width, i);
  TreeRows rows(packed.values, width, options.threads);
  Trees trees({.threads = options.threads, .seed = options.seed});
  std::vector<float> gradients(rows.size()), hessians(rows.size());
  for (int tree = 0; tree < options.trees; ++tree) {
    std::vector<float> sums = sum_rows(trees.predict(rows), packed.owner, samples.size());
    for (size_t row = 0; row < rows.size(); ++row) {
      size_t candidate = packed.owner[row];
      float weight = std::isfinite(samples[candidate].seconds) ? 1 / (truth[candidate] * truth[candidate])
                                                               : kFailureWeight;
      gradients[row] = weight * (sums[candidate] - truth[candidate]);
      hessians[row] = weight;
    }
    trees.grow(rows, gradients, hessians);
  }
  return trees;
}

/// Higher is faster: the predicted slowdown, negated.
std::vector<float> score(const Trees& trees, std::span<const Features* const> candidates, size_t width,
                         int threads) {
  if (candidates.empty()) return {};
  Packed packed;
  for (size_t i = 0; i < candidates.size(); ++i) append(packed, *candidates[i], width, i);
  std::vector<float> sums =
      sum_rows(trees.predict(TreeRows(packed.values, width, threads)), packed.owner, candidates.size());
  for (float& sum : sums) sum = -sum;
  return sums;
}

/// Indices of the `count` largest values.
std::vector<size_t> largest(const std::vector<float>& values, size_t count) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] > values[j]; });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

RankQuality judge(const Trees& trees, std::span<const Sample> held_out, size_t width, int threads) {
  struct OfTask {
    std::vector<float> predicted, truth;
  };
  std::vector<const Features*> candidates;
  for (const Sample& sample : held_out) candidates.push_back(&sample.features);
  std::vector<float> scores = score(trees, candidates, width, threads);
  std::map<int, OfTask> tasks;
  for (size_t i = 0; i < held_out.size(); ++i) {
    OfTask& task = tasks[held_out[i].task];
    task.predicted.push_back(scores[i]);
    task.truth.push_back(static_cast<float>(1 / held_out[i].seconds));
  }
  RankQuality quality;
  for (const auto& [id, task] : tasks) {
    size_t n = task.truth.size();
    if (n < 4) continue;  // too few to rank
    std::vector<size_t> wanted = largest(task.truth, (n + 4) / 5),
                        found = largest(task.predicted, (n + 4) / 5), both;
    std::set_intersection(wanted.begin(), wanted.end(), found.begin(), found.end(), std::back_inserter(both));
    quality.spearman += n * spearman(task.predicted, task.truth);
    quality.recall += n * static_cast<double>(both.size()) / wanted.size();
    quality.samples += static_cast<int>(n);
  }
  if (quality.samples) quality.spearman /= quality.samples, quality.recall /= quality.samples;
  return quality;
}

}  // namespace

RankQuality CostModel::train(std::span<const Sample> samples) {
  CHECK(!samples.empty());
  width_ = samples.front().features.width;
  std::vector<Sample> shuffled(samples.begin(), samples.end());
  schedule::Random random(options_.seed);
  for (size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.below(i)]);
  std::span<const Sample> held_out(shuffled.data(), shuffled.size() / 5);
  RankQuality quality;
  if (held_out.size() >= 4) {
    Trees trees = learn(std::span(shuffled).subspan(held_out.size()), width_, options_);
    quality = judge(trees, held_out, width_, options_.threads);
  }
  trees_ = learn(samples, width_, options_);
  return quality;
}

std::vector<float> CostModel::predict(std::span<const Features> candidates) const {
  CHECK(trained());
  std::vector<const Features*> pointers;
  for (const Features& features : candidates) pointers.push_back(&features);
  return score(*trees_, pointers, width_, options_.threads);
}

std::string CostModel::save() const {
  CHECK(trained());
  return fmt::format("{}{}\n{}", kMagic, width_, trees_->save());
}

CostModel CostModel::load(const std::string& bytes, const CostModelOptions& options) {
  size_t end = bytes.find('\n');
  CostModel model(options);
  if (bytes.compare(0, kMagic.size(), kMagic) != 0 || end == std::string::npos ||
      std::from_chars(bytes.data() + kMagic.size(), bytes.data() + end, model.width_).ec != std::errc() ||
      model.width_ == 0)
    fail("cannot read the cost model: it does not begin with `{}` and a width", kMagic);
  model.trees_ = Trees::load(bytes.substr(end + 1), {.threads = options.threads, .seed = options.seed});
  return model;
}

}  // namespace lathe::tuner
