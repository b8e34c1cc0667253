#include "tuner/learner.h"

#include <algorithm>
#include <utility>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "schedules/schedule.h"

namespace lathe::tuner {
namespace {

/// Measurements it takes to rank better than not at all; and so many more of each task to rank better than a
/// model of other tasks (bench/results/2026-11-21-search-quality.md).
constexpr size_t kEnough = 32, kMoreOfEachTask = 8;

/// A line that differs when the features do.
std::string feature_version() {
  std::string names;
  for (const std::string& name : feature_names()) names += name + "\n";
  return "features " + sha256(names) + "\n";
}

}  // namespace

std::string save_for_later(const CostModel& model) { return feature_version() + model.save(); }

void Learner::add(size_t task, const std::string& fingerprint, Features features, double seconds) {
  samples_[task].push_back({fingerprint, {static_cast<int>(task), std::move(features), seconds}});
}

void Learner::train() {
  // A model that is another job's stays until there is more to learn from than it takes to beat none.
  const bool inherited = trained_on_ == 0 && model_.trained();
  size_t count = 0;
  for (const std::vector<Known>& of_task : samples_) count += of_task.size();
  if (count < kEnough + (inherited ? kMoreOfEachTask * tasks_.size() : 0) ||
      // Sums of a geometric series: all trainings together cost some five times the last.
      count < trained_on_ + std::max(kEnough, trained_on_ / 4))
    return;
  std::vector<Sample> all;
  for (const std::vector<Known>& of_task : samples_)
    for (const Known& known : of_task) all.push_back(known.sample);
  quality_ = model_.train(all);
  trained_on_ = count;
  changed_ = true;
}

bool Learner::forget(size_t task, const std::set<std::string>& fingerprints) {
  const size_t gone = std::erase_if(
      samples_[task], [&](const Known& known) { return fingerprints.contains(known.fingerprint); });
  if (gone == 0) return false;
  // A model of lies is worse than none, and so is another job's that may have been taught by them.
  if (model_.trained()) changed_ = true;
  model_ = CostModel({.seed = seed_});
  quality_ = {};
  trained_on_ = 0;
  train();
  return true;
}

Score Learner::scorer() const {
  if (!model_.trained()) return {};
  return [this](std::span<const tir::Func> programs) {
    std::vector<Features> rows;
    for (const tir::Func& program : programs) rows.push_back(features(program));
    std::vector<float> scores = model_.predict(rows);
    return std::vector<double>(scores.begin(), scores.end());
  };
}

std::vector<Lesson> Learner::lessons(size_t task) const {
  std::vector<Lesson> lessons;
  for (const Known& known : samples_[task]) lessons.push_back({known.fingerprint, known.sample.seconds});
  return lessons;
}

std::string Learner::take_new_model() {
  return std::exchange(changed_, false) && model_.trained() ? save_for_later(model_) : "";
}

void Learner::take_over(const std::string& saved) {
  const std::string header = feature_version();
  if (!saved.starts_with(header)) return;
  try {
    CostModel model = CostModel::load(saved.substr(header.size()), {.seed = seed_});
    // The header tells it already; this guards against a text that was edited.
    if (model.width() != feature_names().size()) return;
    model_ = std::move(model);
    changed_ = true;
  } catch (const Error&) {  // as the header says
  }
}

void Learner::restore(size_t task, const Lesson& lesson, const schedule::Trace& trace) {
  add(task, lesson.fingerprint, features(schedule::replay(trace, tasks_[task].workload)), lesson.seconds);
}

void Learner::restore(const SharedState& shared, const std::string& saved) {
  if (!saved.empty()) take_over(saved);
  if (!model_.trained() && (shared.trained_on > 0 || !saved.empty())) fail("the saved cost model is damaged");
  // It came from the database, and need not go back.
  changed_ = false;
  trained_on_ = shared.trained_on;
  quality_ = shared.quality;
}

}  // namespace lathe::tuner
