// Two builds of one model, timed in turn as they would run.
#pragma once

#include <chrono>
#include <memory>

#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tuner/combination.h"
#include "tuner/final_build.h"

namespace lathe::tuner {

/// Both executors hold their own arena and share all constants but those of the tasks in which they differ.
/// Turns are those of runtime::take_turn.
class ModelRace final : public ModelTimer {
 public:
  /// `scheduled[i][a]`: program i of the builder as its alternative a computes it. REQUIRES: the builder
  /// outlives this. Throws Error when `start` cannot be built.
  ModelRace(ModelBuilder& builder, std::vector<std::vector<tir::Func>> scheduled, const Combination& start,
            int threads);

  void challenge(const Combination& challenger) override;
  void accept() override;
  Turn turn() override;
  Profile profile() override;
  double elapsed() const override;

 private:
  struct Contender;
  std::shared_ptr<Contender> contender(const Combination& combination);
  std::vector<double> task_seconds(const Contender& contender,
                                   const std::vector<std::vector<int64_t>>& runs) const;

  ModelBuilder& builder_;
  std::vector<std::vector<tir::Func>> scheduled_;
  runtime::ThreadPool pool_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  // The start stays: the outcome is compared with it.
  std::shared_ptr<Contender> start_, incumbent_, challenger_;
  int turns_ = 0;
};

}  // namespace lathe::tuner
