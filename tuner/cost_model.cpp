#include "tuner/cost_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/support/error.h"
#include "core/support/statistics.h"
#include "schedules/random.h"
#include "tuner/xgboost.h"

namespace lathe::tuner {

namespace {

// 2: the second format. A saved model of another is not read, and its job learns anew.
constexpr std::string_view kMagic = "lathe-cost-model 2 ";

/// For each tree a task of many candidates has from this many pairs for each of them to half as many again; a
/// pair has two, so a candidate is compared with about 128 to 192 others.
constexpr size_t kPairs = 64;

/// All rows of some candidates, and which candidate each belongs to.
struct Packed {
  std::vector<float> values;
  std::vector<size_t> owner;
};

/// Candidates have one row for each of their stores; the trees see rows, and `owner` says whose sum a row
/// enters.
void append(Packed& packed, const Features& features, size_t width, size_t candidate) {
  CHECK(features.width == width && features.rows() > 0, "{} rows of width {}, expected {}", features.rows(),
        features.width, width);
  packed.values.insert(packed.values.end(), features.values.begin(), features.values.end());
  packed.owner.insert(packed.owner.end(), features.rows(), candidate);
}

/// A candidate's score is the sum of what its rows are given.
std::vector<float> sum_rows(const std::vector<float>& rows, const std::vector<size_t>& owner,
                            size_t candidates) {
  std::vector<float> sums(candidates);
  for (size_t row = 0; row < rows.size(); ++row) sums[owner[row]] += rows[row];
  return sums;
}

/// Throughput relative to the best of the task: 1 for the fastest, 0 for a failure.
std::vector<float> speeds(std::span<const Sample> samples) {
  // Failures are infinite, and so never the fastest.
  std::map<int, double> fastest;
  for (const Sample& sample : samples) {
    auto [best, added] = fastest.emplace(sample.task, sample.seconds);
    if (!added) best->second = std::min(best->second, sample.seconds);
  }
  std::vector<float> result;
  for (const Sample& sample : samples)
    result.push_back(std::isfinite(sample.seconds) ? static_cast<float>(fastest[sample.task] / sample.seconds)
                                                   : 0);
  return result;
}

/// First and second derivative of the loss by a candidate's score.
struct Slope {
  float first = 0, second = 0;
};

/// The loss of a pair is log(1 + exp(slower score - faster score)), times the difference of their speeds.
void compare(size_t a, size_t b, const std::vector<float>& scores, const std::vector<float>& truth,
             float importance, std::vector<Slope>& slopes) {
  // Two failures, say: there is no order to learn.
  if (truth[a] == truth[b]) return;
  size_t faster = truth[a] > truth[b] ? a : b, slower = faster == a ? b : a;
  // The probability that the model gives to the wrong order; the loss has the derivatives -doubt and doubt *
  // (1 - doubt) by the faster one's score, and the opposite first one by the slower one's.
  float doubt = 1 / (1 + std::exp(scores[faster] - scores[slower]));
  float weight = importance * (truth[faster] - truth[slower]);
  slopes[faster].first -= weight * doubt;
  slopes[slower].first += weight * doubt;
  slopes[faster].second += weight * doubt * (1 - doubt);
  // The second derivatives of both are equal: the loss depends on the difference alone.
  slopes[slower].second += weight * doubt * (1 - doubt);
}

/// Compares the candidates `members` of one task with each other; when there are many, each with some, which
/// depend on `round`.
void compare_all(const std::vector<size_t>& members, size_t round, const std::vector<float>& scores,
                 const std::vector<float>& truth, std::vector<Slope>& slopes) {
  // Partners stand at distances d, d + step, ... in the order of measuring. The first distance moves on with
  // each tree, so that in `step` trees every pair is compared once: O(n * kPairs) a tree instead of
  // O(n^2).
  size_t n = members.size(), step = std::max<size_t>(1, n / (2 * kPairs));
  float importance =
      static_cast<float>(step) / static_cast<float>(n);  // a candidate's pairs weigh the same in all tasks
  for (size_t i = 0; i < n; ++i)
    for (size_t distance = 1 + round % step; i + distance < n; distance += step)
      compare(members[i], members[i + distance], scores, truth, importance, slopes);
}

/// Boosts on the pairwise ranking loss of candidates of one task; each row of a candidate gets the
/// derivatives of the candidate's sum.
Trees learn(std::span<const Sample> samples, size_t width, const CostModelOptions& options) {
  Packed packed;
  std::map<int, std::vector<size_t>> tasks;
  std::vector<float> truth = speeds(samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    append(packed, samples[i].features, width, i);
    tasks[samples[i].task].push_back(i);
  }
  // Binned once; each tree is then grown on the same rows.
  TreeRows rows(packed.values, width, options.threads);
  Trees trees({.threads = options.threads, .seed = options.seed});
  std::vector<float> gradients(rows.size()), hessians(rows.size());
  for (int tree = 0; tree < options.trees; ++tree) {
    // The loss is of candidates, the trees are of rows: the derivative by a term is the one by the sum, so
    // each row of a candidate takes its candidate's.
    std::vector<float> scores = sum_rows(trees.predict(rows), packed.owner, samples.size());
    std::vector<Slope> slopes(samples.size());
    for (const auto& [id, members] : tasks) compare_all(members, tree, scores, truth, slopes);
    for (size_t row = 0; row < rows.size(); ++row) {
      gradients[row] = slopes[packed.owner[row]].first;
      // Positive for rows that no pair moves too: XGBoost divides by sums of these.
      // Rows of a candidate that no pair has moved have no gradient either.
      hessians[row] = std::max(slopes[packed.owner[row]].second, 1e-6f);
    }
    trees.grow(rows, gradients, hessians);
  }
  return trees;
}

/// Of each candidate, by trees that XGBoost holds. All rows in one matrix: one call.
std::vector<float> score(const Trees& trees, std::span<const Features* const> candidates, size_t width,
                         int threads) {
  if (candidates.empty()) return {};
  Packed packed;
  for (size_t i = 0; i < candidates.size(); ++i) append(packed, *candidates[i], width, i);
  return sum_rows(trees.predict(TreeRows(packed.values, width, threads)), packed.owner, candidates.size());
}

/// Indices of the `count` largest values.
std::vector<size_t> largest(const std::vector<float>& values, size_t count) {
  // Stable: ties go to whoever was measured first, on every machine alike.
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] > values[j]; });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

/// Ranks within each task, as the search does, and weights a task's mean by its candidates.
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
    // The fastest fifth, rounded up; both lists are sorted, as std::set_intersection needs.
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
  // Drawn by the seed (Fisher and Yates), so the same samples are judged the same. What is measured late in a
  // job is better than what came first: the fifth has to be of all times.
  schedule::Random random(options_.seed);
  for (size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.below(i)]);
  // A fifth. Judged by trees that have not seen it: those of the model in use have.
  std::span<const Sample> held_out(shuffled.data(), shuffled.size() / 5);
  RankQuality quality;
  if (held_out.size() >= 4) {
    Trees trees = learn(std::span(shuffled).subspan(held_out.size()), width_, options_);
    quality = judge(trees, held_out, width_, options_.threads);
  }
  // The judged trees are thrown away: the model to use learns from all there is.
  // Twice the work, for an honest figure.
  forest_ = learn(samples, width_, options_).forest();
  return quality;
}

std::vector<float> CostModel::predict(std::span<const Features> candidates) const {
  CHECK(trained());
  // Walked by our own code (forest.h), whoever made the trees: bytes from a store are never given to XGBoost.
  std::vector<float> scores;
  for (const Features& features : candidates) {
    CHECK(features.width == width_, "rows of width {}, expected {}", features.width, width_);
    float& sum = scores.emplace_back();
    // As sum_rows goes: floats that are added in another order give another sum.
    for (size_t row = 0; row < features.rows(); ++row) sum += forest_->at(&features.values[row * width_]);
  }
  return scores;
}

std::string CostModel::save() const {
  CHECK(trained());
  return fmt::format("{}{}\n{}", kMagic, width_, forest_->save());
}

CostModel CostModel::load(const std::string& bytes, const CostModelOptions& options) {
  size_t end = bytes.find('\n');
  CostModel model(options);
  if (bytes.compare(0, kMagic.size(), kMagic) != 0 || end == std::string::npos ||
      std::from_chars(bytes.data() + kMagic.size(), bytes.data() + end, model.width_).ec != std::errc() ||
      model.width_ == 0)
    fail("cannot read the cost model: it does not begin with `{}` and a width", kMagic);
  model.forest_ = Forest::load(bytes.substr(end + 1), model.width_);
  return model;
}

}  // namespace lathe::tuner
