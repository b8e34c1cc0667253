// What a session learns from its measurements: the cost model, what it is trained on, and when.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/tir/target.h"
#include "schedules/trace.h"
#include "tuner/checkpoint.h"
#include "tuner/cost_model.h"
#include "tuner/features.h"
#include "tuner/search.h"
#include "tuner/tasks.h"

namespace lathe::tuner {

class Learner {
 public:
  /// `tasks` outlive it.
  Learner(std::span<const Task> tasks, const Target& target, uint64_t seed)
      : tasks_(tasks), target_(target), seed_(seed), model_({.seed = seed}), samples_(tasks.size()) {}

  Features features(const tir::Func& program) const { return extract_features(program, target_); }
  /// `seconds` is infinite for a candidate that failed.
  void add(size_t task, const std::string& fingerprint, Features features, double seconds);
  /// Trains anew when the data has grown by a quarter: the cost stays in proportion.
  void train();
  /// Nothing is known of these any more, and what was learnt from them is learnt anew. False where nothing
  /// was.
  bool forget(size_t task, const std::set<std::string>& fingerprints);
  /// Empty without a model: the search then samples at random.
  Score scorer() const;

  bool trained() const { return model_.trained(); }
  const RankQuality& quality() const { return quality_; }
  size_t trained_on() const { return trained_on_; }
  /// To be remembered until restore().
  std::vector<Lesson> lessons(size_t task) const;
  /// For take_over(), once after each change; else "".
  std::string take_new_model();

  /// Another job's model, or an earlier life's, until there is enough to learn one of its own. Ignored when
  /// it is damaged or of a version whose features differ.
  void take_over(const std::string& saved);
  /// What an earlier life knew of a task. Throws Error when the trace does not fit it.
  void restore(size_t task, const Lesson& lesson, const schedule::Trace& trace);
  /// ... and how far it had come. Throws Error where `saved`, its model, is damaged.
  void restore(const SharedState& shared, const std::string& saved);

 private:
  struct Known {
    std::string fingerprint;
    Sample sample;
  };

  std::span<const Task> tasks_;
  Target target_;
  uint64_t seed_;
  CostModel model_;
  RankQuality quality_;
  std::vector<std::vector<Known>> samples_;  // by task
  size_t trained_on_ = 0;
  bool changed_ = false;  // since the model was taken
};

}  // namespace lathe::tuner
