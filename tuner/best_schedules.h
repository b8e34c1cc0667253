// Schedules for a build from the tuning database.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::db {
class Reader;
struct Choice;
}  // namespace lathe::db

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
  BestSchedules(std::unique_ptr<db::Reader> records, const Target& target, int threads,
                double max_relative_error = std::numeric_limits<double>::infinity(),
                const std::string& model_digest = "");
  /// Opens the database for reading.
  BestSchedules(const std::string& database, const Target& target, int threads,
                double max_relative_error = std::numeric_limits<double>::infinity(),
                const std::string& model_digest = "");
  ~BestSchedules();

  tir::Func schedule(const tir::Func& workload);
  int measured() const { return measured_; }

 private:
  std::string best_trace(const std::string& digest);

  std::mutex mutex_;  // of the records
  const std::unique_ptr<db::Reader> records_;
  const Target target_;
  const int threads_;
  const double max_relative_error_;
  std::unique_ptr<const db::Choice> choice_;  // null: none was made
  std::atomic<int> measured_ = 0;
};

}  // namespace lathe::tuner
