// Schedules for a build from the tuning database.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "core/tir/stmt.h"
#include "core/tir/target.h"
#include "tuner/final_build.h"
#include "tuner/open_families.h"
#include "tuner/open_points.h"

namespace lathe::tuner {

/// The best known schedule of each workload whose outputs were measured to be off by `max_relative_error` at
/// most (relative to the largest value); the default one where none was measured, or where the record was
/// made by a program whose schedules no longer apply. For a model over which a choice was made with these
/// threads and this error (whole_model.h), what was chosen goes before the best. Thread-safe. Counts, so that
/// the user can be told how much of a build rests on measurements.
class BestSchedules {
 public:
  /// Reads in whichever thread asks, in one at a time. `model_digest` is of the model's tasks (tasks.h); "":
  /// no model's. Throws Error when it cannot.
  /// `open`: what sizes of open programs count; of others all that were measured.
  BestSchedules(std::unique_ptr<db::Reader> records, const Target& target, int threads,
                double max_relative_error = std::numeric_limits<double>::infinity(),
                const std::string& model_digest = "", OpenPrograms open = {});
  /// Opens the database for reading.
  BestSchedules(const std::string& database, const Target& target, int threads,
                double max_relative_error = std::numeric_limits<double>::infinity(),
                const std::string& model_digest = "");
  ~BestSchedules();

  tir::Func schedule(const tir::Func& workload);
  /// The kernels of a workload with open dimensions, which schedule() knows from then on: those for which
  /// their measurements speak, or schedule::family_of() where there are none.
  std::vector<schedule::Member> family(const tir::Func& workload);
  int measured() const { return measured_; }
  BuildSchedules schedules() {
    return {[this](const tir::Func& workload) { return schedule(workload); },
            [this](const tir::Func& workload) { return family(workload); }};
  }

 private:
  std::string best_trace(const std::string& digest);
  bool keeps_defaults(const std::vector<TunedMember>& family);
  db::BestQuery query_of(db::WorkloadId workload, db::TargetId target) const;

  std::mutex mutex_;  // of the records and what follows from them
  const std::unique_ptr<db::Reader> records_;
  const Target target_;
  const int threads_;
  const double max_relative_error_;
  std::unique_ptr<const db::Choice> choice_;  // null: none was made
  const OpenPrograms open_;
  std::optional<OpenFamilies> families_;       // none: nothing was measured for the target
  std::map<std::string, std::string> traces_;  // of members, by digest: JSON, or "" for the default schedule
  std::atomic<int> measured_ = 0;
};

}  // namespace lathe::tuner
